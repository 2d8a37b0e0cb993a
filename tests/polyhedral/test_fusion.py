"""The cost model of fusion: what each iteration reads again must stay in the cache."""

from __future__ import annotations

from typing import Any

import pytest

from tc.polyhedral.schedule import Value, to_text
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.strategies.clusters import Cluster, Column
from tc.polyhedral.strategies.fusion import worthwhile
from tc.polyhedral.strategies.scheduler import schedule
from tests.support.scops import scop_of

LAYERS = """def layers(float(B,I) x, float(H,I) W1, float(J,H) W2) -> (o) {
  t(b,h) +=! x(b,i) * W1(h,i)
  o(b,j) +=! t(b,h) * W2(j,h)
}"""
SIZES: dict[str, Any] = {"B": 10, "I": 5, "H": 6, "J": 7}
WEIGHTS = 4 * (6 * 5 + 7 * 6)
"""Bytes of W1 and W2, which each b reads again."""


def accepts(
    cache: int, text: str, first: str, second: str, shared: str, *, outer: str = "", **sizes: Any
) -> bool:
    """Whether two statements may share the loops along the variables `shared`, inside the loops
    along `outer`, with a cache of `cache` bytes."""
    scop = scop_of(text, **sizes)

    def columns(variables: str) -> tuple[Column, ...]:
        return tuple(Column(dict.fromkeys((first, second), Value(v)), 0, 9) for v in variables)

    one, other = (Cluster((name,), columns(shared), columns(outer)) for name in (first, second))
    return worthwhile(scop, cache // 2)(one, other, columns(shared))


def assert_reread(expected: int, text: str, shared: str, *, outer: str = "", **sizes: Any) -> None:
    """Fails unless S0 and S1 read that many bytes again in each iteration: half the cache holds
    them, and not one less."""
    for cache, is_accepted in ((2 * expected, True), (2 * expected - 1, expected == 0)):
        found = accepts(max(cache, 0), text, "S0", "S1", shared, outer=outer, **sizes)
        assert found == is_accepted


def test_weights_are_read_again() -> None:
    """x and t move with the shared b; W1 and W2 do not."""
    assert_reread(WEIGHTS, LAYERS, "b", **SIZES)


def test_a_tensor_of_both_counts_once() -> None:
    text = """def f(float(B,I) x, float(I) w) -> (p, q) {
      p(b) +=! x(b,i) * w(i)
      q(b) +=! p(b) * w(i)
    }"""
    assert_reread(4 * 30, text, "b", B=10, I=30)


@pytest.mark.parametrize("first", [True, False])
def test_the_larger_part_of_a_tensor_counts(first: bool) -> None:
    parts = ["w(i)", "w(i) where i in 0:4"]
    one, other = parts if first else reversed(parts)
    text = f"""def f(float(B,I) x, float(I) w) -> (p, q) {{
      p(b) +=! x(b,i) * {one}
      q(b) +=! p(b) * {other}
    }}"""
    assert_reread(4 * 30, text, "b", B=10, I=30)


def test_bytes_of_each_type() -> None:
    text = """def f(half(B,I) x, double(I) w, int8(I) v) -> (p, q) {
      p(b) +=! x(b,i) * w(i)
      q(b) +=! p(b) * v(i)
    }"""
    assert_reread((8 + 1) * 30, text, "b", B=10, I=30)


def test_what_moves_with_a_loop_outside() -> None:
    """Inside of the loop over n, w moves from one n to the next; within it is read again."""
    text = """def f(float(B,N,I) x, float(N,I) w) -> (p, q) {
      p(b,n) +=! x(b,n,i) * w(n,i)
      q(b,n) = p(b,n) + 1
    }"""
    assert_reread(0, text, "b", outer="n", N=3, B=10, I=30)
    assert_reread(4 * 3 * 30, text, "b", N=3, B=10, I=30)


def test_numbers_and_constant_places_are_nothing() -> None:
    text = """def f(float(B) x, float s, float(I) w) -> (p, q) {
      p(b) = x(b) * s
      q(b) = p(b) * w(2)
    }"""
    assert_reread(0, text, "b", B=10, I=30)


def test_tables_move_with_what_looks_them_up() -> None:
    """Which rows are read depends on b, so none is known to be read again."""
    text = """def f(int(B) g, float(N,I) table) -> (p, q) {
      p(b) +=! table(g(b),i)
      q(b) = p(b) + 1
    }"""
    assert_reread(0, text, "b", B=10, N=50, I=30)


def test_loops_that_are_shared_along_other_variables() -> None:
    """The loop may be a different variable of each statement."""
    text = """def f(float(B,I) x, float(I) w) -> (p, q) {
      p(b) +=! x(b,i) * w(i)
      q(c) = p(c) + w(3)
    }"""
    scop = scop_of(text, B=10, I=30)
    column = Column({"S0": Value("b"), "S1": Value("c")}, 0, 10)
    one, other = (Cluster((name,), (column,)) for name in ("S0", "S1"))
    for cache, is_accepted in ((240, True), (239, False)):
        found = worthwhile(scop, cache // 2)(one, other, (column,))
        assert found == is_accepted


def test_layers_share_the_batch_where_the_weights_stay() -> None:
    scop = scop_of(LAYERS, **SIZES)
    dependences = compute_dependences(scop)
    trees = [
        to_text(schedule(scop, dependences, "max", accept=worthwhile(scop, cache // 2)))
        for cache in (2 * WEIGHTS, 2 * WEIGHTS - 1)
    ]
    assert trees[0].startswith("band [b *]")
    assert trees[1].startswith("sequence")


GRADIENTS = """def gradients(float(N,N) A, float(N,N) B, float(N,N) G) -> (P, Q) {
  P(m,k) +=! G(m,n) * B(k,n)
  Q(k,n) +=! A(m,k) * G(m,n)
}"""


def fused(text: str, **sizes: int) -> bool:
    """Whether the statements share a loop, however large the caches are."""
    scop = scop_of(text, **sizes)
    tree = schedule(scop, compute_dependences(scop), "max", accept=worthwhile(scop, 1 << 40))
    return to_text(tree).startswith("band")


def test_products_of_equal_sizes_by_chance() -> None:
    """m of P and k of Q have as many values, but G moves with the first only. Without a rule, they
    share the loops of one tile."""
    assert not fused(GRADIENTS, N=64)
    scop = scop_of(GRADIENTS, N=64)
    assert to_text(schedule(scop, compute_dependences(scop), "max")).startswith("band")


@pytest.mark.parametrize(
    "text",
    [
        GRADIENTS.replace("(N,N)", "(N,N,N)")
        .replace("P(m,k)", "P(b,m,k)").replace("Q(k,n)", "Q(b,k,n)")
        .replace("G(m", "G(b,m").replace("B(k", "B(b,k").replace("A(m", "A(b,m"),
        "def qk(float(N,N) X, float(N,N) A, float(N,N) B) -> (P, Q) {"
        " P(i,j) +=! X(i,k) * A(j,k)  Q(i,j) +=! X(i,k) * B(j,k) }",
        "def chain(float(N,N) X, float(N,N) A, float(N,N) B) -> (P, Q) {"
        " P(i,j) +=! X(i,k) * A(j,k)  Q(i,j) +=! P(i,k) * B(j,k) }",
        "def sums(float(N,N) X, float(N,N) Y) -> (p, q) { p(i) +=! X(i,k)  q(i) +=! Y(i,k) }",
    ],
    ids=["batches", "rows of both", "a chain", "no products"],
)  # fmt: skip
def test_products_that_share_something(text: str) -> None:
    assert fused(text, N=64)


SCORES = """def scores(float(B,T,D) Q, float(B,U,D) K) -> (s, m, k) {
  s(b,t,u) +=! Q(b,t,d) * K(b,u,d)
  m(b,t) max=! s(b,t,u)
  k(b,u,d) +=! s(b,t,u) * Q(b,t,d)
}"""


def test_products_keep_the_loops_of_their_tiles_inside_of_shared_ones() -> None:
    """Inside of b, rows t of s would each read all of K; s and m share t where nothing forbids."""
    scop = scop_of(SCORES, B=8, T=64, U=32, D=16)
    dependences = compute_dependences(scop)
    tree = to_text(schedule(scop, dependences, "max", accept=worthwhile(scop, 1 << 40)))
    assert tree.startswith("band [b *]")
    assert "band [t *, u *]" in tree
    assert "band [t *, u *]" not in to_text(schedule(scop, dependences, "max"))


@pytest.mark.parametrize(
    ("statements", "strides", "share"),
    [
        ("x(i) +=! A(i,j) * y(j)  z(j) +=! A(i,j) * y(i)", {}, False),
        ("x(i) +=! A(j,i) * y(j)  z(j) +=! A(j,i) * y(i)", {}, False),
        ("x(i) +=! A(i,j) * y(j)  z(j) +=! A(i,j) * y(i)", {"A": (1, 64)}, False),
        ("x(i) +=! A(i,j) * y(j)  z(i) +=! A(i,j) + y(j)", {}, True),
        ("x(i) +=! A(j,i) * y(j)  z(i) +=! A(j,i) + y(j)", {}, True),
        ("x(i) +=! A(i,j) * y(j)  z(i) +=! B(j,i) * y(j)", {}, False),
        ("x(i) +=! A(i,j) * y(j)  z(i) +=! B(j,i) * y(j)", {"B": (1, 64)}, True),
        ("x(i) +=! A(i,j) * y(j)  z(i) = x(i) * y(i)", {}, True),
        ("x(i) +=! A(j,i) * y(j)  z(j,i) = A(j,i) * x(i)", {}, True),
        ("x(i) +=! A(i,j) * y(j)  z(j) +=! A(i,j) * y(i) where i in 0:31", {}, True),
        ("x(i) +=! A(i,j) * y(j)  z(j) +=! A(i,j) * y(i) where i in 0:32", {}, False),
    ],
)
def test_lines_of_memory_are_walked_alike(
    statements: str, strides: dict[str, tuple[int, ...]], share: bool
) -> None:
    """Where one statement goes along the lines of a matrix inside of a shared loop, no other goes
    across the lines of one there."""
    text = f"def f(float(N,N) A, float(N,N) B, float(N) y) -> (x, z) {{ {statements} }}"
    scop = scop_of(text, N=64)
    accept = worthwhile(scop, 1 << 40, strides)
    tree = to_text(schedule(scop, compute_dependences(scop), "max", accept=accept))
    assert tree.startswith("band") == share
    apart = to_text(schedule(scop, compute_dependences(scop), "max"))
    assert apart.startswith("band")
