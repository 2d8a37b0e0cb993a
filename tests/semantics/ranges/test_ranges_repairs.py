"""The `where` that an error of range inference suggests settles it (G5, G6, G8)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tc.errors import RangeError
from tests.support.sizes_of_call import shape
from tests.test_errors import sizes_of

ERRORS = Path(__file__).parents[2] / "errors"
FILES = sorted(p for p in ERRORS.glob("range_*.tc") if not re.match(r".*\.", p.read_text()))


def pasted(text: str, error: RangeError, clauses: str) -> str:
    """The text with the clauses added to the statement at fault, one per line; a clause for the
    same variable is replaced."""
    assert error.span is not None
    number = error.span.source.position(error.span.start)[0] - 1
    lines = text.split("\n")
    for clause in clauses.split(", "):
        name = clause.split()[0]
        line = lines[number]
        if re.search(rf"\b{name} in ", line):
            lines[number] = re.sub(rf"\b{name} in [^,]*", clause, line)
        else:
            lines[number] = line + (", " if " where " in line else " where ") + clause
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_suggested_where_settles_the_error(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    sizes = sizes_of(text) or {}
    with pytest.raises(Exception, match=r"repair|idiom") as caught:
        shape(text, **sizes)
    error = caught.value
    if not isinstance(error, RangeError) or "where " not in (error.repair or ""):
        return
    assert error.repair is not None
    if " before: " in error.repair or " as input" in error.repair:  # more than a `where`
        repaired = error.repaired()
        assert repaired is not None
        shape(repaired, **{**dict.fromkeys(re.findall(r"int (\w+)", error.repair), 3), **sizes})
        return
    clauses = error.repair.rpartition("where ")[2]
    shape(pasted(text, error, clauses), **sizes)
