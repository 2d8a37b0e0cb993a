"""`tc cache show | clear`, run as a user would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tc import cache
from tc.__main__ import main

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    cache.enable(tmp_path / "kernels", limit=2_500_000)
    return tmp_path / "kernels"


def shown(directory: Path, entries: int, size: str, used: str) -> str:
    return (
        f"directory  {directory}\nentries    {entries}\nsize       {size} MB of at most 2.5 MB\n"
        f"used       {used}\n"
    )


def test_show_and_clear(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == shown(directory, 0, "0.0", "yes")
    assert not directory.exists()
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 0 of 0 kernels from {directory}\n"
    for name in ("one", "two", "three"):
        cache.put(cache.digest(name), bytes(400_000))
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == shown(directory, 3, "1.2", "yes")
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"removed 3 of 3 kernels from {directory}\n"
    assert main(["cache", "show"]) == 0
    assert capsys.readouterr().out == shown(directory, 0, "0.0", "yes")


@posix
def test_show_says_why_it_is_not_used(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.put(cache.digest("one"), b"code")
    directory.chmod(0o777)
    assert main(["cache", "show"]) == 1
    printed = capsys.readouterr()
    real = os.path.realpath(directory)
    reason = f"no: others can write to {real}, and what lies there would run as you"
    assert printed.out == shown(directory, 1, "0.0", reason)
    assert printed.err == f"repair: chmod 700 {real}\n"
    assert os.system(printed.err.removeprefix("repair: ")) == 0
    assert main(["cache", "show"]) == 0


def test_clear_says_what_it_leaves(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(cache.digest("one"), b"code")

    def refused(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "unlink", refused)
    assert main(["cache", "clear"]) == 1
    assert capsys.readouterr().out == f"removed 0 of 1 kernels from {directory}\n"


@pytest.mark.parametrize("wrong", [["cache", "empty"], ["cache", "show", "N=1"]])
def test_wrong_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(wrong)
    assert stopped.value.code == 2
    assert "usage: tc" in capsys.readouterr().err


def test_run_keeps_its_kernel(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "twice.tc"
    text.write_text("def twice(float(N) a) -> (o) { o(i) = 2 * a(i) }")
    for _ in range(2):
        assert main(["run", str(text), "a=ones:3"]) == 0
        assert len(list(directory.iterdir())) == 2  # the text and the machine code
    assert "o: float32 3 = [2., 2., 2.]" in capsys.readouterr().out
