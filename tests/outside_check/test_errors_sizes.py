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


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_outputs_alone_with_their_sizes_are_declared_in_one_place(backend: str) -> None:
    """2.1: T4 said to remove the shape, and G8 to declare it; arrays that are passed say it."""
    rng = np.random.default_rng(1)
    fields = {name: rng.normal(size=(4, 3)).astype(np.float32) for name in ("ex", "ey", "hz")}
    ex, ey, hz = (field.astype(float) for field in fields.values())
    fict = np.float32([2, 5, 7])
    ey[0] = fict[1]
    ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
    ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
    hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    before = {name: field.copy() for name, field in fields.items()}
    found = tc.compile(FDTD, backend=backend)(fict, 1, outputs=fields)
    assert_computes(FDTD, [fict, 1], found, (ex, ey, hz), outputs=before)


@pytest.mark.parametrize(
    "text",
    [
        "def f(float a) -> (float(N) y) { y(i) = a * y(i) }",
        "def f(float a) -> (float(N) y) { y(i) *= a }",
        "def f(float a) -> (float(N) y) { y(i) = exp(log(a)) * y(i) }",
        "def f(float a) -> (float(N) y) { y(i) = a * y(i) where i in 0:N }",
        "def f(float a) -> (float(N) y) { y(N-1-i) *= a where i in 0:N }",
    ],
)
def test_an_output_that_is_passed_says_its_size(text: str) -> None:
    """2.1, with other operators, a range, a computed place."""
    function = tc.compile(text, backend="c")
    for count in (3, 5, 3):
        y = np.arange(count, dtype=np.float32)
        np.testing.assert_allclose(function(np.float32(2), outputs=y), 2 * np.arange(count))
    with pytest.raises(
        tc.InputError, match=r"\[R4\]: f: (N is the size of the output 'y' alone|y is read)"
    ):
        function(np.float32(2))
    assert tc.compile(text).infer(N=4)["y"].shape == (4,)
    assert "y(" in str(tc.explain(text, N=4))


@pytest.mark.parametrize(
    "text",
    [
        "def f(float a, int N) -> (float(N) y) { y(i) = a * y(i) }",
        "def f(float a) -> (y) { y(i) = a * y(i) where i in 0:N }",
    ],
)
def test_one_repair_gives_an_output_its_size(text: str) -> None:
    """2.1: a size that is an input already, and none."""
    with pytest.raises(tc.TCError) as caught:
        tc.compile(text)
    repaired = caught.value.repaired()
    assert repaired is not None
    y = np.float32([1, 2, 3])
    found = tc.interpret(repaired, [np.float32(2), 3], outputs=y)
    np.testing.assert_array_equal(found, [2, 4, 6])


PART = "def f(float(N,M) hz, float(T) fict) -> (ey) { ey(i,j) = fict(0) where i in 0:1, j in 0:M }"
PARTS = {
    PART: (slice(0, 1), 5),
    PART.replace("ey(i,j)", "ey(0,j)").replace("i in 0:1, ", ""): (slice(0, 1), 5),
    PART.replace("ey(i,j)", "ey(i+1,j)"): (slice(1, 2), 5),
}


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
@pytest.mark.parametrize("text", PARTS)
def test_what_is_written_in_part_takes_its_shape_from_outputs(text: str, backend: str) -> None:
    """2.1: `outputs=` of shape (4, 3) was for a shape of (1, 3)."""
    rows, value = PARTS[text]
    wanted = ONES.copy()
    wanted[rows] = value
    function = tc.compile(text, backend=backend)
    for _ in range(2):
        found = function(ONES, 5 * ONES[:, 0], outputs={"ey": ONES.copy()})
        np.testing.assert_array_equal(found, wanted)
    assert function(ONES, 5 * ONES[:, 0]).shape == (rows.stop, 3)  # the least that holds it
    more = np.zeros((6, 3), np.float32)
    assert function(ONES, 5 * ONES[:, 0], outputs={"ey": more}) is more
    with pytest.raises(tc.InputError, match=r"has shape \(4, 2\), but the output has"):
        function(ONES, 5 * ONES[:, 0], outputs={"ey": np.ones((4, 2), np.float32)})


def test_a_shape_that_is_said_is_not_taken_from_outputs() -> None:
    """2.1: by a declaration, a size clause, or accesses."""
    x = np.ones(4, np.float32)
    for text in (
        "def f(float(M) x) -> (o) { o(i) = x(i) }",
        "def f(float(M) x) -> (o) { o(i) = x(i) where i in 0:2, o.0 = 4 }",
        "def f(float(M) x) -> (float(M) o) { o(i) = x(i) where i in 0:2 }",
    ):
        with pytest.raises(tc.InputError, match=r"has shape \(7,\), but the output has \w+ \(4,\)"):
            tc.interpret(text, [x], outputs=np.ones(7, np.float32))


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
