"""What integers may be that say where a program reads, writes, or how far it goes."""

from __future__ import annotations

import numpy as np
import pytest

from tc.dtypes import DTYPES
from tc.semantics.index_values import IndexValues, index_values
from tests.support.pipeline import checked, shaped_by

INT = DTYPES["int32"]


@pytest.mark.parametrize(
    ("text", "shapes", "expected"),
    [
        (
            "def f(int(M) row, float(E) v) -> (y) { y(r) +=! v(e) where e in row(r):row(r+1) }",
            {"row": (4,), "v": (9,)},
            {"row": IndexValues(0, 9, ascending=True)},
        ),
        (
            "def f(int(N) i, float(N) x) -> (o) { o(i(n)) = x(n) where o.0 = 7 }",
            {"i": (3,), "x": (3,)},
            {"i": IndexValues(0, 6, distinct=True)},
        ),
        (
            "def f(int(N) i, float(N) x) -> (o) { o(2*i(n)-1) +=! x(n) where o.0 = 7 }",
            {"i": (3,), "x": (3,)},
            {"i": IndexValues(1, 3)},
        ),
        ("def f(int(N) x) -> (o) { o(n) = 2 * x(n) }", {"x": (3,)}, {}),
    ],
)
def test_rows_and_places(
    text: str, shapes: dict[str, tuple[int, ...]], expected: dict[str, IndexValues]
) -> None:
    assert index_values(shaped_by(checked(text), shapes)) == expected


def test_drawn_values() -> None:
    rng = np.random.default_rng(0)
    rows = IndexValues(0, 9, ascending=True).drawn((6,), INT, rng)
    assert (rows[0], rows[-1]) == (0, 9)
    assert (np.diff(rows) >= 0).all()
    assert sorted(IndexValues(2, 6, distinct=True).drawn((5,), INT, rng)) == [2, 3, 4, 5, 6]
    narrow = IndexValues(-500, 500).drawn((1000,), DTYPES["int8"], rng)
    assert (narrow.min(), narrow.max()) == (-128, 127)
    assert IndexValues(3, 1).drawn((2,), INT, rng).tolist() == [3, 3]
