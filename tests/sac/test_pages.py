"""The table of spec/sac/README.md: each comprehension gives what the numpy line beside it gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tc.sac
from tc.sac.names import inputs_of
from tc.sac.text.parser import parse
from tc.source import Source

PAGE = Path(__file__).parents[2] / "spec" / "sac" / "README.md"
ROWS = [
    (row[0].replace("\\|", "|"), row[1])
    for row in re.findall(r"^\| `(.+)` \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), re.M)
]
ARRAYS = {
    "a": np.int32([[1, 2, 3], [4, 5, 6]]),
    "b": np.int32([[1, 0], [2, 1], [3, 2]]),
    "v": np.int32([3, 1, 4, 1]),
    "w": np.int32([2, 7]),
    "t": np.int32([10, 20, 30]),
    "n": np.int32([2, 0, 0, 1]),
    "q": np.int32([[1, 2], [3, 4]]),
}


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("comprehension", "line"), ROWS, ids=[row[0] for row in ROWS])
def test_a_comprehension_is_the_numpy_line_beside_it(comprehension: str, line: str) -> None:
    body = parse(Source(comprehension)).body
    assert body is not None
    inputs = {name: ARRAYS[name] for name in inputs_of(body)}
    got = np.asarray(tc.sac.interpret(comprehension, **inputs))
    assert np.array_equal(got, eval(line, {"np": np, **ARRAYS}))
