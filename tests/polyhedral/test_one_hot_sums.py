"""Sums whose terms say where they belong: each is added there, and no element searches for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.kernel import ir
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.bounds import assert_computes
from tests.support.lowering import lower
from tests.support.pipeline import checked

N, V, D = 50, 23, 19
DEVICE = Device(vector_bits=256, vector_registers=16, fma=True, l2=1 << 18, threads=2)
RNG = np.random.default_rng(8)
PLACES = RNG.integers(-3, V + 3, N)
ROWS = RNG.standard_normal((N, D))
Reference = Callable[[], Any]


def added(places: Any, rows: Any, shape: tuple[int, ...]) -> Any:
    """The rows, each at its place; those of places that do not exist are left out."""
    result = np.zeros(shape)
    ok = (places >= 0) & (places < shape[0])
    np.add.at(result, places[ok], rows[ok])
    return result


TEXTS: dict[str, tuple[str, Reference]] = {
    "rows": (
        "T(x,d) +=! I(n) == x ? A(n,d) : 0 where x in 0:23",
        lambda: added(PLACES, ROWS, (V, D)),
    ),
    "the other way round": (
        "T(x,d) +=! x == I(n) ? 2 * A(n,d) : 0.0 where x in 0:23",
        lambda: added(PLACES, 2 * ROWS, (V, D)),
    ),
    "elements": (
        "T(x) +=! I(n) == x ? A(n,0) : 0 where x in 0:23",
        lambda: added(PLACES, ROWS[:, 0], (V,)),
    ),
    "columns": (
        "T(d,x) +=! I(n) == x ? A(n,d) : 0 where x in 0:23",
        lambda: added(PLACES, ROWS, (V, D)).T,
    ),
    "strides": (
        "T(x,d) +=! int64(I(n)) * 3 + 1 == x ? A(n,d) : 0 where x in 0:23",
        lambda: added(PLACES.astype(np.int64) * 3 + 1, ROWS, (V, D)),
    ),
    "a condition besides": (
        "T(x,d) +=! n > 7 && I(n) == x && A(n,d) > 0 ? A(n,d) : 0 where x in 0:23",
        lambda: added(PLACES[8:], np.maximum(ROWS[8:], 0), (V, D)),
    ),
    "reads of what it selects": (
        "T(x,d) +=! I(n) == x ? A(n,d) * A(x,d) : 0 where x in 0:23",
        lambda: added(PLACES, ROWS, (V, D)) * ROWS[:V],
    ),
    "two of them": (
        "T(x,y) +=! I(n) == x && J(n) == y ? A(n,0) : 0 where x in 0:23, y in 0:19",
        lambda: _pairs(),
    ),
    "several sums": (
        "T(x,d) +=! I(n) == x ? A(n,d) : 0 where x in 0:23 "
        "T(x,d) += J(n) == x ? A(n,d) : 0 where x in 0:23",
        lambda: added(PLACES, ROWS, (V, D)) + added(PLACES[::-1] % 19, ROWS, (V, D)),
    ),
    "one place": (
        "T(x,d) +=! x == 5 && n < 9 ? A(n,d) : 0 where x in 0:23",
        lambda: added(np.full(9, 5), ROWS[:9], (V, D)),
    ),
    "rows that start late": (
        "T(x,d) = 0 where x in 0:23, d in 0:19 T(x,d) += I(n) == x ? A(n,d) : 0 where x in 10:23",
        lambda: np.where(np.arange(V)[:, None] < 10, 0, added(PLACES, ROWS, (V, D))),
    ),
}  # fmt: skip


def _pairs() -> Any:
    result, others = np.zeros((V, D)), PLACES[::-1] % 19
    for n in range(N):
        if 0 <= PLACES[n] < V and others[n] < D:
            result[PLACES[n], others[n]] += ROWS[n, 0]
    return result


def text_of(statements: str, kind: str = "int") -> str:
    return f"def f(double(N,D) A, {kind}(N) I, int(N) J) -> (T) {{ {statements} }}"


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("name", TEXTS)
def test_terms_are_added_where_they_belong(name: str, backend: str) -> None:
    statements, reference = TEXTS[name]
    inputs = ROWS, PLACES.astype(np.int32), (PLACES[::-1] % 19).astype(np.int32)
    text = text_of(statements)
    function = tc.compile(text, backend=backend)
    assert_computes(text, inputs, function(*inputs), reference())
    target = np.full(reference().shape, np.nan)
    assert_computes(text, inputs, function(*inputs, outputs=target), reference())


@pytest.mark.parametrize("kind", ["int8", "byte", "uint16", "int64", "uint32"])
def test_numbers_of_any_type(kind: str) -> None:
    places = np.array([1, 7, 7, 22, 0, 100, 23, 5])
    text = text_of(TEXTS["rows"][0], kind)
    dtype = {"byte": "uint8"}.get(kind, kind)
    inputs = ROWS[:8], places.astype(dtype), np.zeros(8, np.int32)
    assert_computes(text, inputs, tc.compile(text)(*inputs), added(places, ROWS[:8], (V, D)))


def loops(statements: str) -> list[ir.For]:
    """The loops of the kernel, innermost ones of a region last."""
    program = checked(text_of(statements))
    shaped = infer_ranges(program, {"A": (N, D), "I": (N,), "J": (N,)}, {})
    kernel = lower(shaped, {}, device=DEVICE, initial=frozenset(), check=True)
    return [s for region in kernel.regions for s in ir.statements(region) if isinstance(s, ir.For)]


@pytest.mark.parametrize("name", TEXTS)
def test_no_element_looks_at_all_terms(name: str) -> None:
    """Below a loop over terms, none is over places."""
    for loop in loops(TEXTS[name][0]):
        inner = [s for s in ir.statements(loop.body) if isinstance(s, ir.For)]
        if loop.var.startswith("n"):
            assert not [s.var for s in inner if s.var.startswith(("x", "y"))]


def shared_loops(text: str, **sizes: int) -> list[tuple[str, bool]]:
    """The parallel loops of a kernel with one-hot sums, each with whether terms are tested in it
    for being of the thread's own elements alone; `-` stands for no parallel loop."""
    kernel = tc.explain(text, sizes, device=DEVICE).stages["kernel"]
    first = kernel.split("region\n")[1]
    found = [line.split()[2] for line in first.splitlines() if "parallel for" in line]
    return [(name, "v0 * " in first.split("for n in")[1]) for name in found] or [("-", False)]


@pytest.mark.parametrize(
    ("sizes", "loop"),
    [
        ({"N": 1_000_000, "V": 256}, ("n_part", False)),  # each part has sums of its own
        ({"N": 1_000_000, "V": 1_000_000}, ("-", False)),
        ({"N": 900, "V": 300}, ("-", False)),
    ],
)
def test_single_elements_are_not_owned(sizes: dict[str, int], loop: tuple[str, bool]) -> None:
    """Whose a term is cannot be foreseen: threads have parts of long sums, else one adds all."""
    text = "def h(int(N) I, float(N) x, float(V) t) -> (o) { o(v) +=! I(n) == v ? x(n) : 0 "
    assert shared_loops(f"{text} where v in 0:V }}", **sizes) == [loop]


@pytest.mark.parametrize(
    ("batches", "width", "loop"),
    [(8, 1, "b"), (8, 64, "b"), (7, 16, "v0"), (7, 15, "-"), (1, 16, "v0")],
)
def test_batches_are_shared_and_wide_rows_are_owned(batches: int, width: int, loop: str) -> None:
    text = """def h(int(B,N) I, float(B,N,D) x, float(V) t) -> (o) {
      o(b,v,d) +=! I(b,n) == v ? x(b,n,d) : 0 where v in 0:V
    }"""
    sizes = {"B": batches, "N": 500, "D": width, "V": 300}
    assert shared_loops(text, **sizes) == [(loop, loop == "v0")]


def test_a_long_sum_of_single_elements() -> None:
    """In parts, with what is left behind the last, on any number of threads the same bits."""
    count, places = 100_003, 37
    at = RNG.integers(-2, places + 2, count).astype(np.int32)
    x = RNG.standard_normal(count).astype(np.float32)
    text = (
        f"def h(int(N) I, float(N) x) -> (o) {{ o(v) +=! I(n) == v ? x(n) : 0 "
        f"where v in 0:{places} }}"
    )
    ok = (at >= 0) & (at < places)
    wanted = np.bincount(at[ok], x[ok].astype(np.float64), places)
    found = [tc.compile(text, options=tc.Options(threads=n))(at, x) for n in (1, 2, 3)]
    assert_computes(text, (at, x), found[0], wanted)
    assert all((each == found[0]).all() for each in found)
