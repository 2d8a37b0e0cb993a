"""Every example runs, and is right: it ends with an error where it is not."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
OTHERS = ("report.py", "train_torch.py")
"""What is no example of an operator; tests/torch/test_training.py runs the second."""
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name not in OTHERS)


def test_all_are_listed() -> None:
    listed = re.findall(r"^\| `(\w+\.py)` \|", (FOLDER / "README.md").read_text("utf-8"), re.M)
    assert listed == [path.name for path in SCRIPTS]
    assert len(listed) >= 8


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert re.search(r"right: the largest error is \S+ of its bound", said)
    assert re.search(r"tc \S+ ms, numpy \S+ ms: \S+ times as fast", said)


def test_a_wrong_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    compare = runpy.run_path(str(FOLDER / "report.py"))["compare"]
    tropical = runpy.run_path(str(FOLDER / "tropical.py"))
    text = tropical["TEXT"].replace("max=!", "min=!")
    with pytest.raises(SystemExit, match="beyond the bound"):
        compare("wrong", text, tropical["inputs"], tropical["with_numpy"], small=8, large=8)
