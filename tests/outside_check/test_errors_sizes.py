"""2.1: outputs that the caller passes, and that alone have their sizes, are declared without a
circle of errors; what statements write in part keeps its shape."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

ONES = np.ones((4, 3), np.float32)
FDTD = """\
def fdtd(float(T) fict, int t) -> (float(N,M) ex, float(N,M) ey, float(N,M) hz) {
  ey(i,j) = fict(t) where i in 0:1
  ey(i,j) = ey(i,j) - 0.5 * (hz(i,j) - hz(i-1,j)) where i in 1:N
  ex(i,j) = ex(i,j) - 0.5 * (hz(i,j) - hz(i,j-1)) where j in 1:M
  hz(i,j) = hz(i,j) - 0.7 * (ex(i,j+1) - ex(i,j) + ey(i+1,j) - ey(i,j)) where i in 0:N-1, j in 0:M-1
}"""


def test_the_repair_of_outputs_alone_with_their_sizes_runs_at_once() -> None:
    """2.1: T4 said to remove the shape, and G8 to declare it."""
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(FDTD)
    assert caught.value.rule == "T4"
    text = caught.value.repaired()
    assert text is not None
    rng = np.random.default_rng(1)
    fields = {name: rng.normal(size=(4, 3)).astype(np.float32) for name in ("ex", "ey", "hz")}
    ex, ey, hz = (field.astype(float) for field in fields.values())
    fict = np.float32([2, 5, 7])
    ey[0] = fict[1]
    ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
    ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
    hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    before = {name: field.copy() for name, field in fields.items()}
    found = tc.interpret(text, [fict, 1, 4, 3], outputs=fields)
    assert_computes(text, [fict, 1, 4, 3], found, (ex, ey, hz), outputs=before)


@pytest.mark.parametrize(
    "text",
    [
        "def f(float a) -> (float(N) y) { y(i) = a * y(i) }",
        "def f(float a) -> (float(N) y) { y(i) *= a }",
        "def f(float a, int N) -> (float(N) y) { y(i) = a * y(i) }",
        "def f(float a) -> (y) { y(i) = a * y(i) where i in 0:N }",
        "def f(float a) -> (float(N) y) { y(i) = exp(log(a)) * y(i) }",
        "def f(float a) -> (float(N) y) { y(i) = a * y(i) <=> kernel(a) }",
    ],
)
def test_one_repair_gives_an_output_its_size(text: str) -> None:
    """2.1, with other operators, a size that is an input already, an annotation."""
    with pytest.raises(tc.TCError) as caught:
        tc.compile(text)
    repaired = caught.value.repaired()
    assert repaired is not None
    y = np.float32([1, 2, 3])
    found = tc.interpret(repaired, [np.float32(2), 3], outputs=y)
    np.testing.assert_array_equal(found, [2, 4, 6])


PART = "def f(float(N,M) hz, float(T) fict) -> (ey) { ey(i,j) = fict(0) where i in 0:1, j in 0:M }"


def test_an_output_that_is_written_in_part_is_to_be_declared() -> None:
    """2.1: `outputs=` of shape (4, 3) is for a shape of (1, 3)."""
    with pytest.raises(tc.InputError) as caught:
        tc.interpret(tc.Source(PART, "f.tc"), [ONES, ONES[:, 0]], outputs={"ey": ONES.copy()})
    assert str(caught.value) == (
        "InputError [R4]: f: ey in outputs= has shape (4, 3), but the output has shape (1, 3)\n"
        " --> f.tc:1:41\n"
        "  |\n"
        "1 | def f(float(N,M) hz, float(T) fict) -> (ey) "
        "{ ey(i,j) = fict(0) where i in 0:1, j in 0:M }\n"
        "  |                                         ^^\n"
        "repair: -> (float32(N,M) ey), where statements write a part of it; otherwise "
        "np.empty((1, 3), np.float32)"
    )
    declared = PART.replace("(ey)", "(float32(N,M) ey)")
    found = tc.interpret(declared, [ONES, 5 * ONES[:, 0]], outputs={"ey": ONES.copy()})
    np.testing.assert_array_equal(found, np.float32([[5] * 3, [1] * 3, [1] * 3, [1] * 3]))


@pytest.mark.parametrize(
    ("part", "program"),
    [
        ("where i in 0:N, j in 0:2", "def f(float(N) a) -> (y) { y(i,j) = a(0) where i in 0:N }"),
        ("where i in 0:N, j in 0:2", "def f(float(N) a) -> (y) { y(i,j) = a(i) where i in 0:N }"),
    ],
)
def test_repairs_of_open_ranges_are_whole(part: str, program: str) -> None:
    """2.1: "for example: where i in 0:" was cut off; beside a `where`, both stand in one."""
    with pytest.raises(tc.RangeError) as caught:
        tc.interpret(program, [ONES[:, 0]])
    assert str(caught.value).endswith(f"for example: {part}")
    text = caught.value.exemplified()
    assert text is not None
    assert tc.interpret(text, [ONES[:, 0]]).shape == (4, 2)
