"""The interpreter against independent numpy formulas, by topic of the language."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.support.bounds import assert_within
from tests.support.interpreting import bound, run


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(text: str, expected: Any, **inputs: Any) -> None:
    """One output against a formula evaluated in float64, within the bound (rule R5)."""
    result = run(text, **inputs)
    assert_within(result, np.asarray(expected).astype(result.dtype), bound(text, **inputs))
    assert result.flags.c_contiguous


def exactly(actual: Any, expected: Any, dtype: Any) -> None:
    assert_within(actual, np.asarray(expected).astype(dtype), 0.0)


# --- contractions and windows ------------------------------------------------------------------


def test_matrix_product_with_any_strides() -> None:
    a, b = normal(7, 9), normal(9, 5, seed=1)
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    want = a.astype(np.float64) @ b
    check(text, want, A=a, B=b)
    check(text, want, A=np.asfortranarray(a), B=b)
    check(text, want, A=a[::-1, ::-1].copy()[::-1, ::-1], B=np.ascontiguousarray(b.T).T)
    padded = np.zeros((20, 11), np.float32)
    padded[1:19:2, 3:8] = b
    check(text, want, A=a, B=padded[1:19:2, 3:8])
    read_only = b.copy()
    read_only.flags.writeable = False
    check(text, want, A=a, B=read_only)
    repeated = np.broadcast_to(b[:1], b.shape)  # strides of 0
    check(text, a.astype(np.float64) @ repeated, A=a, B=repeated)


def test_strided_convolution_with_bias() -> None:
    i, w, b = normal(2, 3, 11, 13), normal(4, 3, 3, 2, seed=1), normal(4, seed=2)
    text = """def f(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) B, int sh, int sw) -> (O) {
      O(n,f,h,w) +=! I(n,c,sh*h + kh,sw*w + kw) * K(f,c,kh,kw)
      O(n,f,h,w) = O(n,f,h,w) + B(f)
    }"""
    windows = sliding_window_view(i.astype(np.float64), (3, 2), (2, 3))[:, :, ::2, ::3]
    want = np.einsum("nchwij,fcij->nfhw", windows, w) + b[:, None, None]
    check(text, want, I=i, K=w, B=b, sh=2, sw=3)


def test_max_pool() -> None:
    i = normal(2, 6, 8)
    text = (
        "def f(float(N,H,W) I) -> (O) { O(n,h,w) max=! I(n,2*h+i,2*w+j) where i in 0:2, j in 0:2 }"
    )
    exactly(run(text, I=i), i.reshape(2, 3, 2, 4, 2).max((2, 4)), np.float32)
    assert not bound(text, I=i).any()


def test_softmax_through_a_temporary() -> None:
    i = normal(4, 21)
    text = """def f(float(N,D) I) -> (O) {
      m(n) max=! I(n,d)
      e(n,d) = exp(I(n,d) - m(n))
      s(n) +=! e(n,d)
      O(n,d) = e(n,d) / s(n)
    }"""
    e = np.exp(i - i.max(1, keepdims=True).astype(np.float64))
    check(text, e / e.sum(1, keepdims=True), I=i)
    assert (bound(text, I=i) < 1e-4).all()


def test_two_lookup_tables_gathered() -> None:
    table, index = normal(10, 4), np.random.default_rng(1).integers(0, 10, (3, 5)).astype(np.int32)
    text = "def f(float(E,D) T, int32(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }"
    check(text, table.astype(np.float64)[index].sum(1), T=table, I=index)


def test_transposed_and_offset_subscripts() -> None:
    a = normal(6, 5)
    exactly(run("def f(float(N,M) A) -> (B) { B(i,j) = A(j,i) }", A=a), a.T, np.float32)
    exactly(
        run("def f(float(N,M) A) -> (B) { B(i,j) = A(N-1-i, j) where j in 0:M, i in 0:N }", A=a),
        a[::-1],
        np.float32,
    )
    quasi = "def f(float(N,M) A) -> (B) { B(i,j) = A(i/2, j%3) where i in 0:12, j in 0:9 }"
    exactly(run(quasi, A=a), a[np.arange(12) // 2][:, np.arange(9) % 3], np.float32)


def test_concat_writes_at_an_offset() -> None:
    a, b = normal(3, 2), normal(3, 4, seed=1)
    text = "def f(float(N,A) X, float(N,B) Y) -> (Z) { Z = concat(X, Y, X) }"
    exactly(run(text, X=a, Y=b), np.concatenate([a, b, a], 1), np.float32)


# --- reductions, initial values (rules R1 R2 R3 R4) ---------------------------------------------


def test_rule_R1_variables_only_in_where_repeat_the_term() -> None:
    exactly(run("def f(float(N) a) -> (o) { o +=! 1 where k in 0:3 }", a=normal(2)), 3, np.int32)
    text = "def f(float(N) a) -> (o) { o(i) +=! a(i) where k in -2:3 }"
    check(text, 5 * normal(4).astype(np.float64), a=normal(4))


@pytest.mark.parametrize(
    ("op", "type_", "identity"),
    [
        ("+", "float", 0), ("*", "int32", 1), ("*", "float", 1), ("+", "bool", 0),
        ("min", "float", np.inf), ("max", "float", -np.inf), ("min", "half", np.inf),
        ("max", "half", -np.inf), ("min", "int8", 127), ("max", "int8", -128),
        ("min", "uint64", 2**64 - 1), ("max", "uint64", 0), ("min", "bool", True),
        ("max", "bool", False), ("max", "int64", -(2**63)),
    ],
)  # fmt: skip
def test_rule_R2_identity_where_nothing_is_reduced(op: str, type_: str, identity: Any) -> None:
    name = {"float": "float32", "half": "float16"}.get(type_, type_)
    empty = np.zeros((3, 0), name)
    result = run(f"def f({type_}(N,K) A) -> (o) {{ o(i) {op}=! A(i,k) }}", A=empty)
    expected = "int32" if (op, type_) == ("+", "bool") else name
    exactly(result, np.full(3, identity), expected)


def test_rule_R2_init_ignores_what_the_caller_passed() -> None:
    given = np.full(3, 7, np.float32)
    text = "def f(float(N,K) A) -> (o) { o(i) +=! A(i,k) }"
    result = run(text, outputs={"o": given}, A=np.ones((3, 4), np.float32))
    exactly(result, [4, 4, 4], np.float32)
    assert (given == 7).all()


def test_rule_R3_continues_from_the_caller_or_the_identity() -> None:
    a, given = np.ones((3, 4), np.float32), np.array([1, 2, 3], np.float32)
    text = "def f(float(N,K) A) -> (o) { o(i) += A(i,k) }"
    exactly(run(text, outputs={"o": given}, A=a), [5, 6, 7], np.float32)
    exactly(run(text, A=a), [4, 4, 4], np.float32)
    exactly(given, [1, 2, 3], np.float32)
    maximum = "def f(float(N,K) A) -> (o) { o(i) max= A(i,k) }"
    exactly(run(maximum, A=-a), [-1, -1, -1], np.float32)  # not the 0 of a fresh tensor


def test_rule_R3_continues_from_an_earlier_statement() -> None:
    text = """def f(float(N,K) A) -> (o) {
      o(i) = 10.0
      o(i) += A(i,k)
      o(i) *= A(i,k)
    }"""
    exactly(run(text, A=np.full((2, 3), 2, np.float32)), [128, 128], np.float32)


def test_rule_R3_without_reduction_variables() -> None:
    text = "def f(float(N) A) -> (o) { o(i) = A(i)  o(i) += A(i)  o(i) min= 3 }"
    exactly(run(text, A=np.array([1, 2], np.float32)), [2, 3], np.float32)


def test_rule_R4_sgemm_reads_the_callers_tensor() -> None:
    a, b, c = normal(4, 5), normal(5, 6, seed=1), normal(4, 6, seed=2)
    text = """def f(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
      C(i,j) = b * C(i,j)
      C(i,j) += a * A(i,k) * B(k,j)
    }"""
    arguments = {"a": 1.5, "b": -0.25, "A": a, "B": b}
    result = run(text, outputs={"C": c}, **arguments)
    want = (-0.25 * c.astype(np.float64) + 1.5 * (a.astype(np.float64) @ b)).astype(np.float32)
    assert_within(result, want, bound(text, outputs={"C": c}, **arguments))
    exactly(c, normal(4, 6, seed=2), np.float32)


def test_rule_G4_elements_that_no_statement_reaches() -> None:
    text = "def f(float(N) A) -> (o) { o(i) = A(i) where i in 2:4 }"
    a = np.arange(1, 6).astype(np.float32)
    exactly(run(text, A=a), [0, 0, 3, 4], np.float32)
    given = np.full(4, 9, np.float32)
    exactly(run(text, outputs={"o": given}, A=a), [9, 9, 3, 4], np.float32)


# --- types (rules Y1 to Y9) ---------------------------------------------------------------------


def test_rule_Y4_integers_wrap_and_round_down() -> None:
    a = np.array([-128, 127, -7, 7], np.int8)
    b = np.array([-1, 127, 2, -2], np.int8)
    text = """def f(int8(N) a, int8(N) b) -> (s, p, q, r, n) {
      s(i) = a(i) + b(i)  p(i) = a(i) * b(i)  q(i) = a(i) / b(i)  r(i) = a(i) % b(i)
      n(i) = -a(i)
    }"""
    s, p, q, r, n = run(text, a=a, b=b)
    exactly(s, [127, -2, -5, 5], np.int8)
    exactly(p, [-128, 1, -14, -14], np.int8)
    exactly(q, [-128, 1, -4, -4], np.int8)
    exactly(r, [0, 0, 1, -1], np.int8)
    exactly(n, [-128, -127, 7, -7], np.int8)


def test_rule_Y4_float_remainder_has_the_sign_of_the_divisor() -> None:
    a, b = np.array([-7.5, 7.5, -7.5], np.float32), np.array([2, -2, -2], np.float32)
    text = "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i) % b(i) }"
    exactly(run(text, a=a, b=b), [0.5, -0.5, -1.5], np.float32)


def test_rule_Y4_float_to_integer_truncates_and_never_fails() -> None:
    a = np.array([-2.7, 2.7, np.nan, 1e30, -np.inf], np.float32)
    text = "def f(float(N) a) -> (o) { o(i) = int8(a(i)) }"
    exactly(run(text, a=a)[:2], [-2, 2], np.int8)
    assert bound(text, a=a).tolist() == [0, 0, np.inf, np.inf, np.inf]


def test_rule_Y5_minima_propagate_nan_and_fmin_ignores_it() -> None:
    a = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    text = """def f(float(N,M) a) -> (p, q, r) {
      p(i) min=! a(i,j)
      q(i,j) = max(a(i,j), 2.0)
      r(i,j) = fmax(a(i,j), 2.0)
    }"""
    p, q, r = run(text, a=a)
    exactly(p, [np.nan, 4], np.float32)
    exactly(q, [[2, np.nan, 3], [4, 5, 6]], np.float32)
    exactly(r, [[2, 2, 3], [4, 5, 6]], np.float32)


def test_rule_Y8_half_is_accumulated_in_float32_and_rounded_once() -> None:
    a = np.ones((1, 5000), np.float16)
    text = "def f(half(N,K) a) -> (o) { o(i) +=! a(i,k) }"
    # in half, 2048 + 1 is 2048; blocks of a few hundred elements must not round either
    for limit in (1 << 14, 1 << 28):
        exactly(run(text, memory_limit=limit, a=a), [5000], np.float16)
    product = "def f(half(N) a) -> (o) { o(i) = a(i) * a(i) / 2048 }"
    exactly(run(product, a=np.full(2, 1024, np.float16)), [512, 512], np.float16)


def test_rule_Y9_subscripts_are_computed_in_int64() -> None:
    x, i = normal(1000), np.array([3, 2, 0], np.uint8)
    text = "def f(float(N) X, byte(M) I) -> (o) { o(i) = X(I(i) * 300) }"
    exactly(run(text, X=x, I=i), x[[900, 600, 0]], np.float32)


def test_rule_Y2_booleans() -> None:
    a, b = np.array([True, False, True]), np.array([False, False, True])
    text = """def f(bool(N) a, bool(N) b) -> (c, d, n, all, any, count) {
      c(i) = a(i) && !b(i)
      d(i) = a(i) == b(i)
      n(i) = a(i) + b(i)
      all min=! a(i)
      any max=! b(i)
      count +=! a(i)
    }"""
    c, d, n, every, some, count = run(text, a=a, b=b)
    exactly(c, a & ~b, bool)
    exactly(d, a == b, bool)
    exactly(n, [1, 0, 2], np.int32)
    exactly(every, False, bool)
    exactly(some, True, bool)
    exactly(count, 2, np.int32)


def test_all_types_are_copied_bit_for_bit() -> None:
    for name in ("bool", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float64"):
        values = np.random.default_rng(0).integers(0, 2, (3, 2)).astype(name)
        exactly(run(f"def f({name}(N,M) a) -> (o) {{ o(i,j) = a(i,j) }}", a=values), values, name)


# --- laziness (rules Y6 G9) ---------------------------------------------------------------------


def test_rule_Y6_paths_not_taken_are_not_read() -> None:
    x, r = normal(4), np.array([2, 99, -5, 0], np.int32)
    text = "def f(float(N) X, int32(M) R) -> (o) { o(i) = R(i) < 0 || R(i) >= N ? 7.0 : X(R(i)) }"
    exactly(run(text, X=x, R=r), [x[2], 7, 7, x[0]], np.float32)
    both = "def f(float(N) X, int32(M) R) -> (o) { o(i) = R(i) >= 0 && R(i) < N && X(R(i)) > 0 }"
    exactly(run(both, X=x, R=r), [x[2] > 0, False, False, x[0] > 0], bool)


def test_rule_Y6_divisions_not_taken() -> None:
    a, b = np.array([6, 7], np.int32), np.array([0, 2], np.int32)
    text = "def f(int32(N) a, int32(N) b) -> (o) { o(i) = b(i) == 0 ? -1 : a(i) / b(i) }"
    exactly(run(text, a=a, b=b), [-1, 3], np.int32)


def test_rule_Y6_an_empty_tensor_that_is_never_read() -> None:
    text = "def f(float(N) X, int32(M) R) -> (o) { o(i) = R(i) < N ? X(R(i)) : 2.0 }"
    exactly(run(text, X=np.zeros(0, np.float32), R=np.array([3, 4], np.int32)), [2, 2], np.float32)


def test_rule_G9_pad() -> None:
    a, w = normal(3, 5, 6), normal(2, 3, 3, 3, seed=1)
    text = """def f(float(C,H,W) I, float(F,C,KH,KW) K) -> (O) {
      O(f,h,w) +=! pad(I(c,h+kh-1,w+kw-1), 0) * K(f,c,kh,kw) where h in 0:H, w in 0:W
    }"""
    padded = np.pad(a.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), (1, 2))
    check(text, np.einsum("chwij,fcij->fhw", windows, w), I=a, K=w)
    check(
        "def f(float(N) a) -> (o) { o(i) = pad(a(i-1), a(i)) where i in 0:N }",
        [2, 2, 3],
        a=[2, 3, 4],
    )


# --- shapes of iteration spaces -----------------------------------------------------------------


def test_rank_zero_and_outer_variables_that_do_not_occur() -> None:
    text = """def f(float(N) a, float s) -> (t, u, v) {
      t = s * 2
      u +=! a(i)
      v(i,j) = s where i in 0:2, j in 0:3
    }"""
    t, u, v = run(text, a=[1, 2, 3], s=4)
    exactly(t, 8, np.float32)
    exactly(u, 6, np.float32)
    exactly(v, np.full((2, 3), 4), np.float32)


def test_empty_sizes() -> None:
    text = """def f(float(M,K) A, float(K,N) B) -> (C, s) {
      C(m,n) +=! A(m,k) * B(k,n)
      s +=! C(m,n)
    }"""
    for m, k, n in ((0, 2, 3), (2, 0, 3), (2, 2, 0), (0, 0, 0)):
        c, s = run(text, A=normal(m, k), B=normal(k, n))
        exactly(c, normal(m, k) @ normal(k, n), np.float32)
        assert s.shape == ()


def test_repeated_reads_of_one_tensor() -> None:
    a = normal(5, 5)
    text = "def f(float(N,N) a) -> (o) { o(i,j) = a(i,j) * a(j,i) + a(i,i) - a(0,j) }"
    wide = a.astype(np.float64)
    check(text, wide * wide.T + np.diag(wide)[:, None] - wide[0], a=a)


def test_many_small_dimensions_without_a_loop_per_element() -> None:
    a = np.ones((2,) * 12, np.float32)
    names = ",".join("abcdefghijkl")
    text = f"def f(float({','.join('2' * 12)}) A) -> (o) {{ o(a,b) +=! A({names}) }}"
    exactly(run(text, A=a), np.full((2, 2), 1024), np.float32)


# --- in place (rule P1) -------------------------------------------------------------------------


def test_rule_P1_pointwise_updates_in_place() -> None:
    a = normal(40, 50)
    text = """def f(float(N,M) A) -> (O) {
      O(i,j) = A(i,j)
      O(i,j) = max(O(i,j), 0)
      O(i,j) = O(i,j) * O(i,j) + O(i,j)
    }"""
    relu = np.maximum(a.astype(np.float64), 0)
    check(text, relu * relu + relu, A=a)
    small = run(text, memory_limit=1 << 12, A=a)
    exactly(small, run(text, A=a), np.float32)


def test_rule_P1_disjoint_halves_in_blocks() -> None:
    """The statement reads what no instance writes, whatever the order of the blocks."""
    a = normal(64)
    text = """def f(float(N) A) -> (O) {
      O(i) = A(i)
      O(i) = O(i + N/2) where i in 0:N/2
    }"""
    for limit in (1 << 10, 1 << 28):
        exactly(run(text, memory_limit=limit, A=a), np.tile(a[32:], 2), np.float32)
