"""The brute force on examples computed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.places import generate
from tests.fuzz.places.brute_force import AS_WRITTEN, execute
from tests.fuzz.places.outcomes import Open, Outcome, Ranges, Reading

NAN, INF = float("nan"), float("inf")
int32 = partial(np.array, dtype=np.int32)
uint8 = partial(np.array, dtype=np.uint8)
float32 = partial(np.array, dtype=np.float32)


def outcome(
    text: str,
    inputs: Mapping[str, Any],
    *ranges: Ranges,
    initial: Mapping[str, Any] | None = None,
    reading: Reading = AS_WRITTEN,
) -> Outcome:
    return execute(parse(Source(text)).defs, inputs, ranges, initial, reading)


def arrays(
    text: str, inputs: Mapping[str, Any], *ranges: Ranges, **options: Any
) -> tuple[Any, ...]:
    """The outputs as lists, in the order of the returns."""
    found = outcome(text, inputs, *ranges, **options)
    assert found.arrays is not None, found.rule
    assert found.exact
    return tuple(array.tolist() for array in found.arrays.values())


def fails(text: str, inputs: Mapping[str, Any], *ranges: Ranges, **options: Any) -> str:
    """The rule and the classes of the error."""
    found = outcome(text, inputs, *ranges, **options)
    assert found.arrays is None
    return f"{found.rule.partition(':')[0]} {' '.join(sorted(found.classes))}"


HISTOGRAM = "def f(int(N) I) -> (h) { h(I(n)) +=! 1 where h.0 = 4 }"


def test_histogram() -> None:
    assert arrays(HISTOGRAM, {"I": int32([2, 0, 2, 2])}, {"n": (0, 4)}) == ([1, 0, 3, 0],)
    assert arrays(HISTOGRAM, {"I": int32([])}, {"n": (0, 0)}) == ([0, 0, 0, 0],)


def test_a_key_that_is_outside() -> None:
    keys = int32([2, 4])
    assert fails(HISTOGRAM, {"I": keys}, {"n": (0, 2)}) == "S5 AccessError"
    assert fails(HISTOGRAM, {"I": int32([-1])}, {"n": (0, 1)}) == "S5 AccessError"


def test_scatter_continues_and_starts_whole() -> None:
    text = "def f(int(N) I) -> (h) { h(I(n)) %s 1 where h.0 = 3 }"
    given = {"h": int32([5, 6, 7])}
    keys = {"I": int32([1, 1])}
    assert arrays(text % "+=", keys, {"n": (0, 2)}, initial=given) == ([5, 8, 7],)
    assert arrays(text % "+=!", keys, {"n": (0, 2)}, initial=given) == ([0, 2, 0],)
    assert arrays(text % "min=!", keys, {"n": (0, 2)}) == ([2**31 - 1, 1, 2**31 - 1],)


def test_product_with_a_sparse_matrix() -> None:
    text = """def f(int(R) row, int(E) col, float(E) v, float(M) x) -> (y) {
      y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1) }"""
    inputs = {
        "row": int32([0, 2, 2, 3]),
        "col": int32([0, 2, 1]),
        "v": float32([1, 2, 3]),
        "x": float32([10, 20, 30]),
    }
    ranges = {"r": (0, 3), "e": (0, 3)}
    assert arrays(text, inputs, ranges) == ([70, 0, 60],)
    assert fails(text, {**inputs, "row": int32([0, 2, 1, 3])}, ranges) == "W3 AccessError"
    assert fails(text, {**inputs, "row": int32([0, 2, 2, 4])}, ranges) == "W3 AccessError"
    assert arrays(text, {**inputs, "row": int32([1, 1, 2, 2])}, ranges) == ([0, 60, 0],)


def test_the_place_of_the_maximum() -> None:
    text = "def f(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }"
    x = float32([[1, 3, 3], [NAN, 5, NAN], [-INF, -INF, -INF]])
    found = outcome(text, {"x": x}, {"n": (0, 3), "d": (0, 3)}).arrays
    assert found is not None
    np.testing.assert_array_equal(found["m"], float32([3, NAN, -INF]))
    assert found["at"].tolist() == [1, 0, 0]
    assert found["at"].dtype == np.int32
    last = "def f(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), -d }"
    found = outcome(last, {"x": x}, {"n": (0, 3), "d": (0, 3)}).arrays
    assert found is not None
    assert found["at"].tolist() == [-2, -2, -2]


def test_the_place_of_the_maximum_of_nothing() -> None:
    text = "def f(float(N,D) x) -> (m, at) { m(n), at(n) max=! x(n,d), d }"
    ranges = {"n": (0, 1), "d": (0, 0)}
    assert arrays(text, {"x": np.zeros((1, 0), np.float32)}, ranges) == ([-INF], [2**31 - 1])


def test_a_maximum_that_continues_by_place() -> None:
    text = """def f(int(N) I, int(N) x) -> (m, at) {
      m(I(n)), at(I(n)) max= x(n), n where m.0 = 2, at.0 = 2 }"""
    inputs = {"I": int32([0, 1, 0]), "x": int32([4, 4, 4])}
    given = {"m": int32([4, 5]), "at": int32([1, 9])}
    assert arrays(text, inputs, {"n": (0, 3)}, initial=given) == ([4, 5], [0, 9])
    assert arrays(text, inputs, {"n": (0, 3)}) == ([4, 4], [0, 1])


def test_sums_of_several_targets_are_apart() -> None:
    text = "def f(int(N) x) -> (s, p) { s, p *=! x(n), 2 * x(n) }"
    assert arrays(text, {"x": int32([2, 3])}, {"n": (0, 2)}) == (6, 24)


def test_lower_triangle() -> None:
    text = "def f(int(N) x) -> (o) { o(i,j) = x(i) where j in 0:i+1 }"
    assert arrays(text, {"x": int32([1, 2])}, {"i": (0, 2)}) == ([[1, 0], [2, 2]],)
    given = {"o": int32([[8, 9], [8, 9]])}
    assert arrays(text, {"x": int32([1, 2])}, {"i": (0, 2)}, initial=given) == ([[1, 9], [2, 2]],)


def test_prefix_sums() -> None:
    text = "def f(int(N) n) -> (p) { p(i) +=! n(j) where j in 0:i }"
    assert arrays(text, {"n": int32([3, 4, 5])}, {"i": (0, 4)}) == ([0, 3, 7, 12],)
    assert arrays(text, {"n": int32([])}, {"i": (0, 1)}) == ([0],)
    text = "def f(int(N) n) -> (p) { p(i) +=! n(j) where j in 0:i+1 }"
    assert arrays(text, {"n": int32([3, 4, 5])}, {"i": (0, 3)}) == ([3, 7, 12],)


def test_nested_dependent_ranges() -> None:
    text = "def f() -> (c) { c(i) +=! 1 where i in 0:3, j in 0:i+1, k in j:i+1 }"
    assert arrays(text, {}, {"i": (0, 3)}) == ([1, 3, 6],)


def test_exchange() -> None:
    text = "def f() -> (int(2) a, int(2) b) { a(i), b(i) = b(i), a(i) }"
    given = {"a": int32([1, 2]), "b": int32([3, 4])}
    assert arrays(text, {}, {"i": (0, 2)}, initial=given) == ([3, 4], [1, 2])


def test_dropping() -> None:
    text = """def f(int(N) I) -> (h) {
      h(k) +=! 1 where 0 <= k, k < h.0, k = I(n) - 1, h.0 = 3 }"""
    assert arrays(text, {"I": int32([0, 1, 3, 3, 9])}, {"n": (0, 5)}) == ([1, 0, 2],)


def test_conditions_are_lazy() -> None:
    text = "def f(int(N) x) -> (o) { o(i) = x(i) where i in 0:N+1, i < N, x(i) > 1 }"
    assert arrays(text, {"x": int32([1, 2])}, {"i": (0, 3)}) == ([0, 2, 0],)
    other = "def f(int(N) x) -> (o) { o(i) = x(i) where i in 0:N+1, x(i) > 1, i < N }"
    assert fails(other, {"x": int32([1, 2])}, {"i": (0, 3)}).startswith("G7")


def test_diagonal() -> None:
    text = "def f(int(N) x) -> (o) { o(i, i+0) = x(i) }"
    assert arrays(text, {"x": int32([1, 2])}, {"i": (0, 2)}) == ([[1, 0], [0, 2]],)
    twice = "def f(int(N) x) -> (o) { o(i, i) = x(i) }"
    assert fails(twice, {"x": int32([1, 2])}, {"i": (0, 2)}) == "N2 CheckError"


def test_compaction() -> None:
    text = """def f(bool(N) keep, float(N) x) -> (out, total) {
      place(i) +=! int(keep(j)) where j in 0:i
      out(place(i)) = x(i) where keep(i), out.0 = N
      total = place(N) }"""
    inputs = {"keep": np.array([True, False, True]), "x": float32([5, 6, 7])}
    ranges: tuple[Ranges, ...] = ({"i": (0, 4)}, {"i": (0, 3)}, {})
    assert arrays(text, inputs, *ranges) == ([5, 7, 0], 2)


def test_slices() -> None:
    text = "def f(int(N) a, int(N) b) -> (o) { o(0,i) = a(i)  o(1,i) = b(i) }"
    inputs = {"a": int32([1, 2]), "b": int32([3, 4])}
    assert arrays(text, inputs, {"i": (0, 2)}, {"i": (0, 2)}) == ([[1, 2], [3, 4]],)
    text = """def f(int(N) x, int(N) y) -> (o) {
      o(i) = x(i) where i in 0:3  o(i) = y(i) where i in 3:N }"""
    inputs = {"x": np.arange(5, dtype=np.int32), "y": 10 + np.arange(5, dtype=np.int32)}
    assert arrays(text, inputs, {"i": (0, 3)}, {"i": (3, 5)}) == ([0, 1, 2, 13, 14],)


def test_each_element_once() -> None:
    text = "def f(int(N) I, int(N) x) -> (o) { o(I(n)) = x(n) where o.0 = 3 }"
    inputs = {"I": int32([2, 0]), "x": int32([7, 8])}
    assert arrays(text, inputs, {"n": (0, 2)}) == ([8, 0, 7],)
    assert fails(text, {**inputs, "I": int32([2, 2])}, {"n": (0, 2)}) == "S2 AccessError"
    text = "def f(int(N) x) -> (o) { o(n/2) = x(n)%s }"
    x = {"x": int32([7, 8])}
    assert fails(text % "", x, {"n": (0, 2)}) == "S2 RangeError"
    assert arrays(text % " where n % 2 == 1", x, {"n": (0, 2)}) == ([8],)


def test_affine_places_give_shapes() -> None:
    text = "def f(int(N) x) -> (o) { o(2*i+1) = x(i) }"
    assert arrays(text, {"x": int32([1, 2])}, {"i": (0, 2)}) == ([0, 1, 0, 2],)
    text = "def f(int(N) x, int(M) y) -> (o) { o(i+j) +=! x(i) * y(j) }"
    inputs = {"x": int32([1, 2]), "y": int32([1, 10])}
    assert arrays(text, inputs, {"i": (0, 2), "j": (0, 2)}) == ([1, 12, 20],)


def test_shapes_that_nothing_gives() -> None:
    text = "def f(int(N) I) -> (h) { h(I(n)) +=! 1 }"
    assert fails(text, {"I": int32([0])}, {"n": (0, 1)}).startswith("S4")


def test_self_reads() -> None:
    text = "def f(int(N) p) -> (int(3) o) { o(p(i)) = 2 * o(%s) }"
    given = {"o": int32([1, 2, 3])}
    keys = {"p": int32([2, 0])}
    assert arrays(text % "p(i)", keys, {"i": (0, 2)}, initial=given) == ([2, 2, 6],)
    assert fails(text % "i", keys, {"i": (0, 2)}, initial=given).startswith("S6")
    text = "def f(int(N) x) -> (int(4) o) { o(2*i) = x(i) + o(2*i+%d) }"
    given = {"o": int32([1, 2, 3, 4])}
    assert arrays(text % 1, {"x": int32([5, 6])}, {"i": (0, 2)}, initial=given) == ([7, 2, 10, 4],)
    three = {"o": int32([1, 2, 3, 4, 5])}
    text = text.replace("int(4)", "int(5)")
    found = fails(text % 2, {"x": int32([5, 6])}, {"i": (0, 2)}, initial=three)
    assert found.startswith("P1")


def test_what_starts_under_a_condition() -> None:
    text = "def f(int(N) x) -> (o) { o(i) max=! x(i) where x(i) > 1 }"
    inputs, ranges = {"x": int32([1, 2])}, {"i": (0, 2)}
    assert arrays(text, inputs, ranges) == ([-(2**31), 2],)
    assert arrays(text, inputs, ranges, reading=Reading(starts_plain=False)) == ([0, 2],)


def test_integers_wrap_at_their_type() -> None:
    text = "def f(uint8(N) x, int(N) I) -> (o) { o(I(n)) +=! x(n) where o.0 = 1 }"
    inputs = {"x": uint8([200, 100]), "I": int32([0, 0])}
    assert arrays(text, inputs, {"n": (0, 2)}) == ([44],)
    text = "def f(uint8(N) x) -> (o) { o(i) = x(i) + 100 }"
    assert arrays(text, {"x": uint8([200])}, {"i": (0, 1)}) == ([44],)
    text = "def f(uint8(N) I) -> (o) { o(2*I(n)) +=! 1 where o.0 = 401 }"
    assert arrays(text, {"I": uint8([200])}, {"n": (0, 1)})[0][400] == 1


def test_sums_of_conditions_count() -> None:
    text = "def f(int(N) x) -> (o) { o +=! x(i) > 1 }"
    found = outcome(text, {"x": int32([1, 2, 3])}, {"i": (0, 3)}).arrays
    assert found is not None
    assert found["o"].dtype == np.int32
    assert found["o"] == 2


# --- bits, pad, constants ---------------------------------------------------------------------


def test_operators_on_bits() -> None:
    text = "def f(uint8(N) x) -> (o, p) { o(i) = x(i) << 1 | x(i) & 3  p(i) = ~x(i) & ~15 }"
    inputs, ranges = {"x": uint8([200, 5])}, {"i": (0, 2)}
    assert arrays(text, inputs, ranges, ranges) == ([144, 11], [48, 240])
    text = "def f(int(N) x) -> (o) { o(i) = (x(i) > 1) ^ (x(i) < 3) }"
    found = outcome(text, {"x": int32([1, 2, 3])}, {"i": (0, 3)}).arrays
    assert found is not None
    assert found["o"].tolist() == [True, False, True]
    text = "def f(uint8(N) x) -> (o, p) { o(i) = popc(x(i))  p(i) = clz(x(i)) }"
    inputs = {"x": uint8([0, 240])}
    assert arrays(text, inputs, ranges, ranges) == ([0, 4], [8, 0])


def test_counts_that_shift_everything_out() -> None:
    text = "def f(int64(N) n, int x) -> (o, p) { o(i) = x << n(i)  p(i) = x >> n(i) }"
    inputs = {"n": np.array([0, 1, 31, 32, -1, 2**40]), "x": int32(-5)}
    ranges = {"i": (0, 6)}
    left, right = [-5, -10, -(2**31), 0, 0, 0], [-5, -3, -1, -1, -1, -1]
    assert arrays(text, inputs, ranges, ranges) == (left, right)


def test_bits_of_what_has_none() -> None:
    text, ranges = "def f(int(N) x, float(N) y, uint8(N) u) -> (o) { o(i) = %s }", {"i": (0, 1)}
    inputs = {"x": int32([1]), "y": float32([1]), "u": uint8([1])}
    for wrong in ("x(i) & (x(i) > 1)", "x(i) | y(i)", "~y(i)", "~(x(i) > 1)", "1 << (x(i) > 1)"):
        assert fails(text % wrong, inputs, ranges) == "Y11 CheckError"
    assert fails(text % "x(i) << 32", inputs, ranges) == "Y11 CheckError"
    assert fails(text % "u(i) >> 8", inputs, ranges) == "Y11 CheckError"
    assert fails(text % "u(i) | 256", inputs, ranges) == "Y1 CheckError"
    assert arrays(text % "u(i) | 255", inputs, ranges) == ([255],)


def test_bits_in_places() -> None:
    text = "def f(int(N) x) -> (o) { o(i >> 1) +=! x(i) }"
    assert arrays(text, {"x": int32([1, 2, 4])}, {"i": (0, 3)}) == ([3, 4],)
    text = "def f(int(N) x) -> (o) { o(i ^ 1) = x(i)%s }"
    inputs = {"x": int32([7, 8])}
    assert fails(text % "", inputs, {"i": (0, 2)}).startswith("S4")
    assert arrays(text % " where o.0 = 2", inputs, {"i": (0, 2)}) == ([8, 7],)
    text = text.replace("^", "|") % " where o.0 = 2"
    assert fails(text, inputs, {"i": (0, 2)}) == "S2 AccessError"
    text = "def f(uint8(N) k) -> (o) { o(k(i) << 1) +=! 1 where o.0 = 401 }"
    assert arrays(text, {"k": uint8([200])}, {"i": (0, 1)})[0][400] == 1


def test_bits_in_bounds_and_conditions() -> None:
    text = "def f(int(N) x) -> (o) { o(i) +=! x(j) where j in 0:(i ^ 1), exists x(i) }"
    inputs = {"x": int32([1, 10, 100, 1000])}
    assert arrays(text, inputs, {"i": (0, 4), "j": (0, 4)}) == ([1, 0, 111, 11],)
    text = "def f(int(N) x) -> (o) { o(i) = x(i) where (i & 1) == 1 }"
    assert arrays(text, inputs, {"i": (0, 4)}) == ([0, 10, 0, 1000],)
    text = "def f(int(N) x) -> (o) { o(i) = x(i) where (x(i) > 1) & (x(i+1) > 100), i in 0:N }"
    assert fails(text, inputs, {"i": (0, 4)}).startswith("G7")  # both sides are evaluated


def test_affine_conditions_are_wide() -> None:
    text = "def f(int c, int(N) x) -> (o) { o(i) = c + c >= i ? x(i) : c + c }"
    inputs = {"c": int32(2**31 - 1), "x": int32([3])}
    assert arrays(text, inputs, {"i": (0, 1)}) == ([3],)
    assert arrays(text.replace("c + c >= i", "x(i) > 9"), inputs, {"i": (0, 1)}) == ([-2],)


def test_pad() -> None:
    text = "def f(int(N) x) -> (o) { o(i) = pad(x(i-1), %s) where i in 0:N+2 }"
    inputs, ranges = {"x": int32([3, 4])}, {"i": (0, 4)}
    assert arrays(text % "7", inputs, ranges) == ([7, 3, 4, 7],)
    assert arrays(text % "pad(x(i-3), 9)", inputs, ranges) == ([9, 3, 4, 3],)
    assert fails(text % "x(i-2)", inputs, ranges) == "G7 AccessError"
    text = "def f(int(N) x) -> (o) { o(i) = pad(i > 1 ? x(i+2) + x(0) : x(i), 0) where i in 0:N+1 }"
    assert arrays(text, inputs, {"i": (0, 3)}) == ([3, 4, 0],)
    text = "def f(int(N) x) -> (o) { o(i) = pad(x(x(i)) > 3, 1 > 0) where i in 0:N+1 }"
    found = outcome(text, {"x": int32([1, 5])}, {"i": (0, 3)}).arrays
    assert found is not None
    assert found["o"].tolist() == [True, True, True]
    text = "def f(int(N) x) -> (o) { o(pad(x(i-1), x(i))) +=! 1 where o.0 = 6, i in 0:N }"
    assert arrays(text, {"x": int32([1, 5])}, {"i": (0, 2)}) == ([0, 2, 0, 0, 0, 0],)


def test_constants() -> None:
    text = "def f(float(N) x) -> (o, p) { o(i) = x(i) < 2 ? -inf() : nan()  p(i) = pi() }"
    found = outcome(text, {"x": float32([1, 3])}, {"i": (0, 2)}, {"i": (0, 2)})
    assert found.arrays is not None
    np.testing.assert_array_equal(found.arrays["o"], float32([-INF, NAN]))
    np.testing.assert_array_equal(found.arrays["p"], float32([np.pi, np.pi]))
    assert not found.exact
    text = "def f(int(N) x) -> (o) { o(i) = inf() & x(i) }"
    assert fails(text, {"x": int32([1])}, {"i": (0, 1)}) == "Y11 CheckError"


# --- several defs -----------------------------------------------------------------------------


def test_a_call_means_the_statements_of_its_def() -> None:
    text = """
    def g(float(N) o, int(M) i) -> (x, j) {
      t(k) = 2 * o(k)
      x(i(n)) +=! t(n) where x.0 = N + 1
      j +=! x(n)
    }
    def f(float(K) x, int(K) I) -> (o, s) {
      o, s = g(x, I)
      o(i) += s where i in 0:1
    }"""
    inputs = {"x": float32([1, 2]), "I": int32([2, 2])}
    ranges: tuple[Ranges, ...] = ({"k": (0, 2)}, {"n": (0, 2)}, {"n": (0, 3)}, {"i": (0, 1)})
    assert arrays(text, inputs, *ranges) == ([6, 0, 6], 6)


def test_calls_in_calls_have_their_own_names() -> None:
    text = """
    def h(int(N) a, int c = 3) -> (b) { t(i) = a(i) + c  b(i) = t(i) * N }
    def g(int(M) b) -> (c, d) { c = h(b)  d = h(c) }
    def f(int(N) a) -> (t, b) { b, t = g(a) }"""
    ranges = {"i": (0, 2)}
    found = arrays(text, {"a": int32([1, 2])}, ranges, ranges, ranges, ranges)
    assert found == ([22, 26], [8, 10])


def test_defaults() -> None:
    text = "def f(float(N) x, float s = -0.5, int c = 2) -> (o) { o(i) = s * x(i) where i in 0:c }"
    x = float32([1, 2, 3])
    assert arrays(text, {"x": x}, {"i": (0, 2)}) == ([-0.5, -1.0],)
    assert arrays(text, {"x": x, "c": int32(1), "s": float32(2)}, {"i": (0, 1)}) == ([2],)


def test_what_calls_refuse() -> None:
    text = "def g(int(3) a) -> (b) { b(i) = a(i) } def f(%s(N) x) -> (o) { o = g(x) }"
    x = {"x": float32([1, 2, 3])}
    assert fails(text % "float", x, {"i": (0, 3)}) == "N4 CheckError"
    assert fails(text % "int", {"x": int32([1])}, {"i": (0, 1)}).startswith("T4")
    text = "def g() -> (a, b) { a, b = b, a } def f() -> (int o, int p) { o, p = g() }"
    given = {"o": int32(1), "p": int32(2)}
    assert fails(text, {}, {}, initial=given) == "Y3 CheckError"
    text = text.replace("(a, b) {", "(int a, int b) {")
    assert arrays(text, {}, {}, initial=given) == (2, 1)


def test_what_is_refused() -> None:
    x = {"x": int32([1, 2])}
    text = "def f(int(N) x) -> (o) { o = x(i) }"
    assert fails(text, x, {"i": (0, 2)}) == "R1 CheckError"
    text = "def f(int(N) x) -> (o) { o(i) = x(i) where o(i) > 0 }"
    assert fails(text, x, {"i": (0, 2)}).startswith("W5")


def test_what_the_rules_leave_open() -> None:
    text = "def f(int(N) x) -> (o) { o(i-j) +=! x(i) where j in 0:i+1 }"
    with pytest.raises(Open):
        outcome(text, {"x": int32([1, 2])}, {"i": (0, 2)})


@pytest.mark.parametrize("number", range(30))
def test_a_case_comes_again(number: int) -> None:
    first, again = generate.case(3, number), generate.case(3, number)
    assert first.text == again.text
    assert first.ranges == again.ranges
    assert_equal(first.inputs, again.inputs)
    for (_, a), (_, b) in zip(first.outcomes, again.outcomes, strict=True):
        assert generate.same(a, b)


def assert_equal(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    assert list(first) == list(second)
    for a, b in zip(first.values(), second.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_that_can_be_combined_is_drawn() -> None:
    found: set[str] = set()
    for number in range(250):
        found |= generate.case(0, number).features
    wanted: Sequence[str] = (
        "affine place", "data place", "constant place", "condition", "dependent", "ragged",
        "several targets", "binding", "dropping", "again", "self-read", "bits", "pad", "constant",
        "cast", "scalar", "call", "default",
    )  # fmt: skip
    assert not set(wanted) - found
