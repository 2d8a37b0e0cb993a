"""Every example of SaC is right at small sizes: it ends with an error where it is not."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from tc.__main__ import main

FOLDER = Path(__file__).parents[2] / "examples" / "sac"
HELPERS = ("checked.py",)
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name not in HELPERS)


def test_all_are_listed() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)\.py`, `(\w+)\.sac` \|", text, re.M)
    assert listed == [(path.stem, path.stem) for path in SCRIPTS]
    assert {path.stem for path in SCRIPTS} == {path.stem for path in FOLDER.glob("*.sac")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sac")), ids=lambda path: path.stem)
def test_its_text_is_in_the_standard_layout(path: Path) -> None:
    assert main(["fmt", "--check", str(path)]) == 0


@pytest.mark.drawn(2)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(path))["small"]()
    assert re.search(r": right, the largest error is \S+ of its bound", capsys.readouterr().out)


def test_a_wrong_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    check = runpy.run_path(str(FOLDER / "checked.py"))["check"]
    relaxation = runpy.run_path(str(FOLDER / "relaxation.py"))
    text = relaxation["TEXT"].replace("2 * d", "2 * d + 1")
    assert text != relaxation["TEXT"]
    with pytest.raises(SystemExit, match="beyond the bound"):
        check(text, "relaxation", [(np.ones((4, 5), np.float32),)], relaxation["with_numpy"])
