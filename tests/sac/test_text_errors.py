"""Every text in errors/ is refused with exactly the message stored beside it, and what the message
gives to paste is of the language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tc.errors import TCError
from tc.sac.names import check_names
from tc.sac.text.parser import parse
from tc.source import Source

ERRORS = Path(__file__).parent / "errors"
PATHS = sorted(ERRORS.glob("*.sac"))
SEVERAL_SLIPS = {"list_comprehension", "no_return", "power", "slice_to_end", "unknown_type"}
"""Texts in which one repair leaves another error."""


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_message(path: Path, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(TCError) as caught:
        check_names(parse(Source(path.read_text(encoding="utf-8"), path.name)))
    error = caught.value
    assert error.rule is not None
    assert error.span is not None
    assert error.repair or error.idiom
    golden(path.with_suffix(".txt"), str(error))
    for text in (error.repaired(), error.exemplified()):
        if text is not None and path.stem not in SEVERAL_SLIPS:
            check_names(parse(Source(text)))
