"""Files in SaC's notation on the command line: the suffix `.sac` chooses the front end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tc.cli import main

TEXT = "int f(int a){return a+1; // more\n}"
LAID_OUT = "int f(int a) {\n  return a + 1;  // more\n}\n"


def test_check_and_fmt_of_a_sac_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.sac"
    path.write_text(TEXT, encoding="utf-8")
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: f: no errors\n"
    assert main(["fmt", str(path)]) == 0
    assert capsys.readouterr().out == LAID_OUT
    assert main(["fmt", "--check", str(path)]) == 1
    assert main(["fmt", "--write", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == LAID_OUT


def test_an_error_in_a_sac_file_names_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.sac"
    path.write_text("{ iv a[iv] }", encoding="utf-8")
    assert main(["check", str(path)]) == 1
    shown = capsys.readouterr().err
    assert "[C1]: expected '->', found 'a'" in shown
    assert f"{path}:1:6" in shown
