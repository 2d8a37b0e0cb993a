"""Barriers of launches by hand: exactly those that are needed, as text."""

from __future__ import annotations

from tc.plan import BLOCK, SHARED, THREAD, UNROLL
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
)
from tc.polyhedral.scop.dependences import Dependences
from tests.support.launch_trees import member, promoted, text_with_barriers, threads
from tests.support.scops import dependences_of

LAYERS = """def layers(float(B,N) I, float(N,M) V, float(M,P) W) -> (h, O) {
  h(b,m) +=! I(b,n) * V(n,m)
  O(b,p) +=! h(b,m) * W(m,p)
}"""


def layers(*held: ArrayTile, serial: int = 1) -> tuple[Node, Dependences]:
    """A block for each row, or for `serial` of them one after the other; in each layer a thread for
    each of its own elements."""
    every = ("S0.init", "S0", "S1.init", "S1")
    rows = [member("b", *every, step=serial, role=BLOCK, axis="x")]
    if serial > 1:
        rows.append(member("b", *every, span=serial))
    first, second = (
        Band(
            (member(name, f"{s}.init", s, role=THREAD, axis="x"),),
            True,
            Sequence(
                (Leaf(f"{s}.init"), Band((member(over, s, coincident=False),), True, Leaf(s)))
            ),
        )
        for s, name, over in (("S0", "m", "n"), ("S1", "p", "m"))
    )
    body: Node = Sequence((first, second))
    if held:
        body = Promotion(held, body)
    return Band(tuple(rows), True, body), dependences_of(LAYERS, B=4, N=5, M=6, P=7)


def test_a_chain_of_layers() -> None:
    assert (
        text_with_barriers(*layers())
        == """\
band [b block x *] permutable
  sequence
    band [m thread x *] permutable
      sequence
        S0.init
        band [n] permutable
          S0
    barrier
    band [p thread x *] permutable
      sequence
        S1.init
        band [m] permutable
          S1"""
    )


def test_rows_in_memory_need_no_barrier_after_each() -> None:
    """Each row has elements of its own."""
    assert text_with_barriers(*layers(serial=2)).count("barrier") == 1


def test_rows_in_a_buffer_need_one() -> None:
    """The next row lies where threads still read this one."""
    held = promoted("h", SHARED, 1, 6, copied="")
    assert text_with_barriers(*layers(held)).count("barrier") == 1
    assert (
        text_with_barriers(*layers(held, serial=2))
        == """\
band [b div 2 block x *, b mod 2 *] permutable
  sequence
    promote h to shared h_shared[1x6]
      sequence
        band [m thread x *] permutable
          sequence
            S0.init
            band [n] permutable
              S0
        barrier
        band [p thread x *] permutable
          sequence
            S1.init
            band [m] permutable
              S1
    barrier"""
    )


def test_a_pinned_reduction() -> None:
    """One thread computes the sum by which all threads divide."""
    dependences = dependences_of(
        """def norm(float(N,D) I) -> (s, O) {
  s(n) +=! I(n,d)
  O(n,d) = I(n,d) / s(n)
}""",
        N=3,
        D=8,
    )
    rows = member("n", "S0.init", "S0", "S1", role=BLOCK, axis="x")
    total = Band((member("d", "S0", coincident=False),), True, Leaf("S0"))
    own = Band((member("d", "S1", role=THREAD, axis="x"),), True, Leaf("S1"))
    tree = Band((rows,), True, Sequence((Leaf("S0.init"), total, own)))
    assert (
        text_with_barriers(tree, dependences)
        == """\
band [n block x *] permutable
  sequence
    S0.init
    band [d] permutable
      S0
    barrier
    band [d thread x *] permutable
      S1"""
    )


def test_what_a_thread_reads_again_needs_none() -> None:
    dependences = dependences_of(
        """def f(float(N) a) -> (b, c) {
  b(i) = a(i)
  c(i) = b(i) + a(N - 1 - i)
}""",
        N=8,
    )
    together = threads("i", "S0", "S1")
    assert text_with_barriers(together, dependences).count("barrier") == 0
    turns = threads("i", "S0", "S1", count=3)
    assert text_with_barriers(turns, dependences).count("barrier") == 0
    one, other = (threads("i", name, count=3) for name in ("S0", "S1"))
    assert text_with_barriers(Sequence((one, other)), dependences).count("barrier") == 0
    other = threads("i", "S1", count=4)
    assert text_with_barriers(Sequence((one, other)), dependences).count("barrier") == 1


def test_what_is_overwritten_is_read_before() -> None:
    dependences = dependences_of(
        """def f(float(N) a) -> (t, u) {
  t(i) = a(i)
  u(i) = t(N - 1 - i)
  t(i) = u(i)
}""",
        N=8,
    )
    tree = Sequence(tuple(threads("i", name) for name in ("S0", "S1", "S2")))
    assert (
        text_with_barriers(tree, dependences)
        == """\
sequence
  band [i thread x *] permutable
    S0
  barrier
  band [i thread x *] permutable
    S1
  barrier
  band [i thread x *] permutable
    S2"""
    )


ROWS = """def rows(float(T,N) a) -> (b, c) {
  b(t,i) = a(t,i)
  c(t,i) = b(t,N - 1 - i)
}"""


def rows(*, late: int = 0, buffer: bool = False) -> tuple[Node, Dependences]:
    """A loop over rows, in which threads write one and read, backward, that of `late` iterations
    before."""
    values = {"S0": Value("t"), "S1": Value("t", late)}
    loop = Member("t", values, late == 0)
    parts = [threads("i", "S0"), threads("i", "S1")]
    body: Node = Sequence(tuple(parts[::-1] if late else parts))
    if buffer:
        body = Promotion((promoted("b", SHARED, 1, 8, copied="out"),), body)
    return Band((loop,), late == 0, body), dependences_of(ROWS, T=5, N=8)


def test_rows_one_after_the_other() -> None:
    assert text_with_barriers(*rows()).count("barrier") == 1


def test_rows_in_one_buffer() -> None:
    """Its copy moves what each thread wrote itself; the next row is written once this is read."""
    assert (
        text_with_barriers(*rows(buffer=True))
        == """\
band [t *] permutable
  sequence
    promote b to shared b_shared[1x8] (copied out)
      sequence
        band [i thread x *] permutable
          S0
        barrier
        band [i thread x *] permutable
          S1
    barrier"""
    )


def test_the_row_of_the_iteration_before() -> None:
    assert (
        text_with_barriers(*rows(late=1))
        == """\
band [t]
  sequence
    band [i thread x *] permutable
      S1
    band [i thread x *] permutable
      S0
    barrier"""
    )


def test_the_row_before_that_was_waited_for() -> None:
    """A barrier of the iteration between serves for both."""
    dependences = dependences_of(
        f"{ROWS[:-2]}\n  d(t,i) = b(t,N - 1 - i)\n}}".replace("-> (b, c)", "-> (b, c, d)"), T=5, N=8
    )
    late = {"S0": Value("t"), "S1": Value("t", 2), "S2": Value("t")}
    parts = Sequence(tuple(threads("i", name) for name in ("S1", "S0", "S2")))
    tree = Band((Member("t", late, coincident=False),), False, parts)
    assert text_with_barriers(tree, dependences).count("barrier") == 1
    late["S1"] = Value("t", 1)
    tree = Band((Member("t", late, coincident=False),), False, parts)
    assert text_with_barriers(tree, dependences).count("barrier") == 1
    parts = Sequence((threads("i", "S0"), threads("i", "S2"), threads("i", "S1")))
    late["S1"] = Value("t", 0)
    tree = Band((Member("t", late, coincident=False),), False, parts)
    assert text_with_barriers(tree, dependences).count("barrier") == 1


def test_a_loop_of_one_iteration_ends_without() -> None:
    for count, barriers in ((1, 1), (2, 2)):
        tree, _ = rows(buffer=True)
        dependences = dependences_of(ROWS, T=count, N=8)
        assert text_with_barriers(tree, dependences).count("barrier") == barriers


# --- loops ----------------------------------------------------------------------------------------


def test_a_barrier_at_the_end_of_an_outer_loop() -> None:
    """Rows of k are apart, and the next t waits once for all of them."""
    dependences = dependences_of(
        """def f(float(T,K,N) a) -> (b, c) {
  b(t,k,i) = a(t,k,i)
  c(t,k,i) = b(t,k,N - 1 - i)
}""",
        T=5,
        K=4,
        N=8,
    )
    loop = Member("t", {"S0": Value("t"), "S1": Value("t", 1)}, coincident=False)
    rows = member("k", "S0", "S1")
    body = Sequence((threads("i", "S1"), threads("i", "S0")))
    assert (
        text_with_barriers(Band((loop, rows), False, body), dependences)
        == """\
band [t]
  sequence
    band [k *]
      sequence
        band [i thread x *] permutable
          S1
        band [i thread x *] permutable
          S0
    barrier"""
    )


def test_accumulators_for_unrolled_iterations() -> None:
    """They are private; once they are combined, others read the sum."""
    dependences = dependences_of(
        """def f(float(N,K) a) -> (s, c) {
  s(i) +=! a(i,k)
  c(i) = s(N - 1 - i)
}""",
        N=8,
        K=8,
    )
    digit = member("k", "S0", span=2, role=UNROLL, coincident=False)
    outer = member("k", "S0", step=2, coincident=False)
    update = Expansion("S0", "acc", (digit,), Band((outer, digit), True, Leaf("S0")))
    own = member("i", "S0.init", "S0", role=THREAD, axis="x")
    total = Band((own,), True, Sequence((Leaf("S0.init"), update)))
    assert (
        text_with_barriers(Sequence((total, threads("i", "S1"))), dependences)
        == """\
sequence
  band [i thread x *] permutable
    sequence
      S0.init
      accumulate S0 in acc for each k mod 2
        band [k div 2, k mod 2 unroll] permutable
          S0
  barrier
  band [i thread x *] permutable
    S1"""
    )
