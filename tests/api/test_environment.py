"""The environment variables that tc reads are the variables of one page of spec/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tc
from tc import cache
from tc.process import processors

ROOT = Path(tc.__file__).parent.parent
PAGE = ROOT / "spec" / "environment.md"


def named_in_code() -> Iterator[str]:
    for path in (ROOT / "tc").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and re.fullmatch(r"TC_[A-Z_]+", value):
                yield value


def test_the_page_lists_what_is_read() -> None:
    listed = re.findall(r"^\| `(TC_[A-Z_]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(set(named_in_code()))


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As in a new process, where nothing has called set_threads."""
    monkeypatch.setattr(processors, "_was_set", False)
    monkeypatch.setattr(processors, "_most", None)
    return monkeypatch


def test_the_number_of_threads(unset: pytest.MonkeyPatch) -> None:
    assert tc.get_threads() is None
    for text, expected in (("3", 3), (" 2 ", 2), ("", None)):
        unset.setenv("TC_THREADS", text)
        assert tc.get_threads() == expected
    unset.setenv("TC_THREADS", "5")
    tc.set_threads(1)
    assert tc.get_threads() == 1
    tc.set_threads(None)
    assert tc.get_threads() is None


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_no_number_of_threads(unset: pytest.MonkeyPatch, text: str) -> None:
    unset.setenv("TC_THREADS", text)
    with pytest.raises(tc.BackendError, match="integer of at least 1"):
        tc.get_threads()


def test_the_directory_of_kernels(unset: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = cache._default()
    unset.setenv("TC_CACHE_DIR", str(tmp_path))
    assert cache._default() == tmp_path
    unset.setenv("TC_CACHE_DIR", "")
    assert cache._default() == usual
