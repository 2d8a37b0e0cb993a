"""Statements that write part of a tensor, or begin above 0: what they do not write stays as it was
(G4, R3), and what they test stays within their ranges (G7, Y6), whatever shares loops with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tests.support.pipeline import checked, evaluate_kernel

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")

Array = Any
RANDOM = np.random.default_rng(0)


def numbers(*shape: int) -> Array:
    """Small integers: all sums of products of these are exact."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """`expected` gives the outputs from the inputs; with `kept`, the caller passes outputs that are
    full of it."""

    text: str
    inputs: tuple[Array, ...]
    expected: Callable[..., dict[str, Array]]
    kept: float | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def outputs(self) -> dict[str, Array]:
        return {n: np.full(s, self.kept, np.float32) for n, s in self.shapes.items()}


def filled(shape: tuple[int, ...], value: float, **parts: Any) -> Array:
    result = np.full(shape, value, np.float32)
    result[parts["at"]] = parts["by"]
    return result


def started_again(a: Array) -> dict[str, Array]:
    o, p = a.copy(), a + 1
    o[:2] = p.max() + a[:2]
    return {"o": o, "p": p}


def two_halves(a: Array, b: Array) -> dict[str, Array]:
    return {"o": np.concatenate([a[:40], b[40:]])}


def windows(a: Array, w: Array) -> dict[str, Array]:
    inner = sum(np.outer(w[:, k], a[k : k + 30]) for k in range(3))
    return {"o": filled((5, 30), 0, at=np.s_[:, 2:], by=inner[:, 2:])}


def branches(a: Array) -> Array:
    return (a > 0).sum(1) * 2.0 + (a <= 0).sum(1) * 3.0


CASES = {
    "a maximum over part of what is held is started again": Case(
        """def f(float(N) a) -> (o, p) {
  o(i) = a(i)  p(i) = o(i) + 1
  o(i) max=! p(r) + a(i) where i in 0:2 }""",
        (np.float32([1, 3, 5]),),
        started_again,
    ),
    "set from 1 on, then all raised": Case(
        "def f(float(N,M) a) -> (o) { o(i) = a(i,0) where i in 1:4  o(i) += 1 }",
        (numbers(4, 3),),
        lambda a: {"o": filled((4,), 6, at=np.s_[1:], by=a[1:, 0] + 1)},
        5,
        {"o": (4,)},
    ),
    "written from 1 on in the loop of a temporary": Case(
        """def f(float(N,M) a) -> (o) {
  s(i) = a(i,0)  o(i) = s(i) + 1 where i in 1:4 }""",
        (numbers(4, 3),),
        lambda a: {"o": filled((4,), 5, at=np.s_[1:], by=a[1:, 0] + 1)},
        5,
        {"o": (4,)},
    ),
    "a sum over columns in the middle": Case(
        """def f(float(N,K) a) -> (float(7,20) o) {
  o(i,j) +=! a(j,k) where i in 1:6, j in 2:19 }""",
        (numbers(23, 9),),
        lambda a: {"o": filled((7, 20), -0.0, at=np.s_[1:6, 2:19], by=a.sum(1)[2:19])},
        -0.0,
        {"o": (7, 20)},
    ),
    "a sum along rows, a few of them": Case(
        "def f(float(N,K) a) -> (float(9) o) { o(i) +=! a(i,k) where i in 2:5 }",
        (numbers(9, 40),),
        lambda a: {"o": filled((9,), -0.0, at=np.s_[2:5], by=a[2:5].sum(1))},
        -0.0,
        {"o": (9,)},
    ),
    "an update of part after a start of part": Case(
        """def f(float(N,K) a) -> (o) {
  o(i) +=! a(i,k) where i in 3:17
  o(i) max= a(i,0) where i in 0:9 }""",
        (numbers(17, 5),),
        lambda a: {
            "o": np.maximum(
                filled((17,), 0, at=np.s_[3:], by=a.sum(1)[3:]),
                filled((17,), -np.inf, at=np.s_[:9], by=a[:9, 0]),
            )
        },
    ),
    "two halves by two statements": Case(
        """def f(float(N) a, float(N) b) -> (float(80) o) {
  o(i) = a(i) where i in 0:40
  o(i) = b(i) where i in 40:80 }""",
        (numbers(80), numbers(80)),
        two_halves,
    ),
    "a division in the loop that fills with zeros": Case(
        "def f(int(N) a) -> (o) { o(l) = 7 / a(l) where l in 1:5 }",
        (np.int32([0, 2, 2, 2, 2, 0, 0, 0, 0]),),
        lambda _a: {"o": np.int32([0, 3, 3, 3, 3])},
    ),
    "a lazy side in the loop that fills with zeros": Case(
        "def f(float(N) a, float(M) b) -> (o) { o(m) = a(m) > 0 ? 2.0 : b(7) where m in 1:2 }",
        (np.ones(2, np.float32), np.zeros(3, np.float32)),
        lambda _a, _b: {"o": np.float32([0, 2])},
    ),
    "a lazy side in a sum": Case(
        "def f(float(N,K) a, float(M) b) -> (o) { o(m) +=! a(m,k) > 0 ? 2.0 : b(7) }",
        (np.abs(numbers(5, 7)) + 1, np.zeros(3, np.float32)),
        lambda a, _b: {"o": branches(a)},
    ),
    "a gather behind a guard": Case(
        """def f(float(N,K) a, int(N) I, float(M) b) -> (o) {
  o(m) +=! I(m) > 0 ? a(m,k) * b(I(m)) : 1 where m in 1:11 }""",
        (numbers(11, 6), np.arange(11).astype(np.int32) % 3 + 1, numbers(4)),
        lambda a, i, b: {"o": filled((11,), 0, at=np.s_[1:], by=(a.sum(1) * b[i])[1:])},
    ),
    "a packed product that begins at 1": Case(
        """def f(float(N,M) a, float(K,M) b) -> (o) {
  o(r,w) +=! a(w,n) * b(r,n) where w in 1:17 }""",
        (numbers(30, 7), numbers(20, 7)),
        lambda a, b: {"o": filled((20, 17), 0, at=np.s_[:, 1:], by=b @ a[1:17].T)},
    ),
    "a packed product in the middle of the caller's": Case(
        """def f(float(N,M) a, float(K,M) b) -> (float(9,25) o) {
  o(r,w) +=! a(w,n) * b(r,n) where w in 3:23, r in 2:9 }""",
        (numbers(30, 7), numbers(20, 7)),
        lambda a, b: {"o": filled((9, 25), 5, at=np.s_[2:, 3:23], by=b[2:9] @ a[3:23].T)},
        5,
        {"o": (9, 25)},
    ),
    "a convolution that begins at 2": Case(
        """def f(float(N) a, float(C,K) w) -> (o) {
  o(c,x) +=! a(x + k) * w(c,k) where x in 2:30 }""",
        (numbers(32), numbers(5, 3)),
        windows,
    ),
    "a product with rows of three tensors": Case(
        """def f(float(A,B,C) a, float(B,D,A) b) -> (o) {
  o(b_,i,j) +=! a(0,0,i) * b(k,j,b_) }""",
        (numbers(6, 2, 4), numbers(2, 3, 6)),
        lambda a, b: {"o": np.einsum("i,kjb->bij", a[0, 0], b)},
    ),
}

SMALL = Device(vector_bits=128, vector_registers=16, l1=64, l2=64, threads=2)
WIDE = Device(vector_bits=512, vector_registers=32, threads=4)


def options(**mapping: Any) -> tc.Options:
    return tc.Options(mapping=tc.MappingOptions(**mapping))


CHOICES = {
    "default": tc.Options(),
    **{name: tc.Options.preset(name) for name in ("naive", "contraction", "convolution", "mlp")},
    "rows of six, reductions step by step": options(rows=6, reduction_tile=1),
    "two rows": options(rows=2, vectors=2, reduction_tile=3),
    "loops unrolled little": options(rows=3, unroll=1),
    "not rewritten": tc.Options(schedule=tc.ScheduleOptions(fusion="max", rewrite=False)),
}


def compare(case: Case, found: dict[str, Array]) -> None:
    for name, wanted in case.expected(*case.inputs).items():
        assert np.array_equal(found[name], wanted), (name, found[name], wanted)
        negative = np.signbit(np.asarray(wanted, np.float64)) & (wanted == 0)
        assert np.signbit(found[name][negative]).all(), f"{name} has lost the sign of a zero"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("chosen", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_evaluated(case: Case, chosen: tc.Options) -> None:
    device = SMALL if chosen.mapping.rows in (2, 3) else WIDE
    inputs = dict(zip(checked(case.text).inputs, case.inputs, strict=True))
    found = evaluate_kernel(
        case.text, inputs, outputs=case.outputs(), options=chosen, device=device
    )
    compare(case, found)


IN_C = ("written from 1 on in the loop of a temporary", "a gather behind a guard")
"""Compiling C takes long; the kernels are the same."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "backend"),
    [(n, b) for n in CASES for b in ("interpret", "numba", "c") if b != "c" or n in IN_C],
)
def test_compiled(name: str, backend: str) -> None:
    case = CASES[name]
    outputs = case.outputs()
    result = tc.compile(case.text, backend=backend)(*case.inputs, outputs=outputs or None)
    names = list(case.expected(*case.inputs))
    values = result if isinstance(result, tuple) else (result,)
    compare(case, dict(zip(names, values, strict=True)))


def test_statements_that_run_once_beside_a_tiled_loop() -> None:
    text = """def f(float(Q,S,N) d, float(T,L) g) -> (o) {
  o +=! 1
  t(m,q) +=! d(z,r,q) where m in 0:2
  u(j,r) +=! o * g(r,y) * t(j,y) }"""
    chosen = tc.Options(schedule=tc.ScheduleOptions(fusion="isl", seconds=600))
    inputs = {"d": np.ones((2, 2, 2), np.float32), "g": np.ones((2, 1), np.float32)}
    assert evaluate_kernel(text, inputs, options=chosen, device=WIDE)["o"] == 1


SCATTERED = {
    "o(k(n)) += u(n)": [14, 10, 12, 14, 10],
    "o(k(n)) max= 4 * u(n)": [12, 10, 10, 16, 10],
    "o(k(n) + 1) +=! u(n)": [0, 4, 0, 2, 4],
    "o(k(n)) = u(n) * o(k(n)) where n in 1:3": [30, 10, 20, 10, 10],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("text", SCATTERED)
def test_places_that_data_decide_are_those_of_what_is_passed(text: str, dynamic: bool) -> None:
    """S4: nothing else says the size, and without it that is an error."""
    text = f"def f(int(N) k, float(N) u) -> (o) {{ {text} }}"
    expected = SCATTERED[text.partition("{ ")[2][:-2]]
    k, u = np.int32([0, 2, 0, 3]), np.float32([1, 2, 3, 4])
    held = np.full(5, 10, np.float32)
    compiled = tc.compile(text, dynamic=dynamic)
    np.testing.assert_array_equal(tc.interpret(text, [k, u], outputs=held.copy()), expected)
    np.testing.assert_array_equal(compiled(k, u, outputs=held.copy()), expected)
    with pytest.raises(tc.AccessError, match="but o has shape"):
        compiled(k, u, outputs=held[:2].copy())
    with pytest.raises(tc.TCError, match=r"nothing gives the size|must be passed"):
        compiled(k, u)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_triangles_are_parts_of_what_is_passed(n: int) -> None:
    """Also where no element is above the diagonal; what is passed may be larger."""
    text = "def f(float(N) u) -> (A) { A(i,j) = u(i) * u(j) where j in i+1:N, i in 0:N }"
    u, held = np.arange(1, n + 1).astype(np.float32), np.full((n, n + 1), 9, np.float32)
    above = np.triu(np.ones((n, n + 1)), 1)[:, : n + 1] > 0
    above[:, n] = False
    expected = np.where(above, np.outer(u, np.append(u, 0)), 9)
    for backend in ("interpret", "numba", "c"):
        found = tc.compile(text, backend=backend)(u, outputs=held.copy())
        np.testing.assert_array_equal(found, expected)
    found = tc.compile(text)(u, outputs=held[:, :n].copy())
    np.testing.assert_array_equal(found, expected[:, :n])
