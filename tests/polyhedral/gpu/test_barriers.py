"""Barriers of launches by hand: exactly those that are needed, as text."""

from __future__ import annotations

from tc.plan import BLOCK, REGISTER, SHARED, THREAD
from tc.polyhedral.gpu.barriers import place_barriers, without_barriers
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
    map_nodes,
    nodes,
    sequence_of,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependences
from tests.support.launch_trees import member, promoted, without_each_barrier
from tests.support.scops import dependences_of

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def text_of(tree: Node, dependences: Dependences) -> str:
    """A part with its barriers, as text; the same where it has them already. It may be one launch,
    and without any of them it may not."""
    assert respects(tree, dependences) is None
    placed = place_barriers(tree, dependences)
    assert without_barriers(placed) == without_barriers(tree)
    assert place_barriers(placed, dependences) == placed
    assert launch_fault(Sequence((placed,)), dependences) is None
    for less in without_each_barrier(placed):
        assert "with no barrier between" in str(launch_fault(Sequence((less,)), dependences))
    return to_text(placed)


def tmm(
    *, steps: int = 1, blocks: int | None = None, threads: int | None = None
) -> tuple[Node, Dependences]:
    """Blocks of 4 x 32 elements and 32 threads, in steps of 32 along k: A and B are shared, C is in
    registers (Vasilache et al. 2018, A.4.1)."""
    both = ("S0.init", "S0")
    tiles = (
        member("m", *both, step=4, role=BLOCK, axis="y", count=blocks),
        member("n", *both, step=32, role=BLOCK, axis="x"),
    )
    own = member("n", *both, span=32, role=THREAD, axis="x", count=threads)
    rows = [member("m", name, span=4) for name in both]
    outer = member("k", "S0", step=32, coincident=False)
    inner = member("k", "S0", span=32, coincident=False)
    update: Node = Promotion(
        (promoted("A", SHARED, 4, 32), promoted("B", SHARED, 32, 32)),
        Band((rows[1], inner), True, Leaf("S0")),
    )
    start = Band((rows[0],), True, Leaf("S0.init"))
    body = Sequence((start, Band((outer,), True, update)))
    held = Promotion((promoted("C", REGISTER, 4, 1, copied="out"),), body)
    dependences = dependences_of(TMM, M=8, N=64, K=32 * steps)
    return Band(tiles, True, Band((own,), True, held)), dependences


def test_one_step_of_a_product() -> None:
    assert (
        text_of(*tmm())
        == """\
band [m div 4 block y *, n div 32 block x *] permutable
  band [n mod 32 thread x *] permutable
    promote C to register C_register[4x1] (copied out)
      sequence
        band [m mod 4 *] permutable
          S0.init
        band [k div 32] permutable
          promote A to shared A_shared[4x32] (copied in)
          promote B to shared B_shared[32x32] (copied in)
            sequence
              barrier
              band [m mod 4 *, k mod 32] permutable
                S0"""
    )


def test_several_steps_of_a_product() -> None:
    assert (
        text_of(*tmm(steps=3))
        == """\
band [m div 4 block y *, n div 32 block x *] permutable
  band [n mod 32 thread x *] permutable
    promote C to register C_register[4x1] (copied out)
      sequence
        band [m mod 4 *] permutable
          S0.init
        band [k div 32] permutable
          sequence
            promote A to shared A_shared[4x32] (copied in)
            promote B to shared B_shared[32x32] (copied in)
              sequence
                barrier
                band [m mod 4 *, k mod 32] permutable
                  S0
            barrier"""
    )


def test_turns_of_blocks() -> None:
    """The next turn fills what threads still read; two blocks for two tiles take one turn."""
    assert (
        text_of(*tmm(blocks=1))
        == """\
band [m div 4 block y of 1 *, n div 32 block x *] permutable
  sequence
    band [n mod 32 thread x *] permutable
      promote C to register C_register[4x1] (copied out)
        sequence
          band [m mod 4 *] permutable
            S0.init
          band [k div 32] permutable
            promote A to shared A_shared[4x32] (copied in)
            promote B to shared B_shared[32x32] (copied in)
              sequence
                barrier
                band [m mod 4 *, k mod 32] permutable
                  S0
    barrier"""
    )
    assert text_of(*tmm(blocks=2)).count("barrier") == 1


def test_one_thread_waits_for_nobody() -> None:
    tree, dependences = tmm(steps=3, threads=1)
    assert place_barriers(tree, dependences) == tree


# --- what lies in memory --------------------------------------------------------------------------

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
        text_of(*layers())
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
    assert text_of(*layers(serial=2)).count("barrier") == 1


def test_rows_in_a_buffer_need_one() -> None:
    """The next row lies where threads still read this one."""
    held = promoted("h", SHARED, 1, 6, copied="")
    assert text_of(*layers(held)).count("barrier") == 1
    assert (
        text_of(*layers(held, serial=2))
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
    """What one thread sums up all divide by."""
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
        text_of(tree, dependences)
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


def threads(name: str, *statements: str, **how: int) -> Node:
    """Statements one after the other, a thread for each value of a variable."""
    own = member(name, *statements, role=THREAD, axis="x", **how)
    return Band((own,), True, sequence_of(map(Leaf, statements)))


def test_what_a_thread_reads_again_needs_none() -> None:
    dependences = dependences_of(
        """def f(float(N) a) -> (b, c) {
  b(i) = a(i)
  c(i) = b(i) + a(N - 1 - i)
}""",
        N=8,
    )
    together = threads("i", "S0", "S1")
    assert text_of(together, dependences).count("barrier") == 0
    turns = threads("i", "S0", "S1", count=3)
    assert text_of(turns, dependences).count("barrier") == 0
    one, other = (threads("i", name, count=3) for name in ("S0", "S1"))
    assert text_of(Sequence((one, other)), dependences).count("barrier") == 0
    other = threads("i", "S1", count=4)
    assert text_of(Sequence((one, other)), dependences).count("barrier") == 1


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
        text_of(tree, dependences)
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
    assert text_of(*rows()).count("barrier") == 1


def test_rows_in_one_buffer() -> None:
    """Its copy moves what each thread wrote itself; the next row is written once this is read."""
    assert (
        text_of(*rows(buffer=True))
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
        text_of(*rows(late=1))
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
    assert text_of(tree, dependences).count("barrier") == 1
    late["S1"] = Value("t", 1)
    tree = Band((Member("t", late, coincident=False),), False, parts)
    assert text_of(tree, dependences).count("barrier") == 1
    parts = Sequence((threads("i", "S0"), threads("i", "S2"), threads("i", "S1")))
    late["S1"] = Value("t", 0)
    tree = Band((Member("t", late, coincident=False),), False, parts)
    assert text_of(tree, dependences).count("barrier") == 1


def test_a_loop_of_one_iteration_ends_without() -> None:
    for count, barriers in ((1, 1), (2, 2)):
        tree, _ = rows(buffer=True)
        dependences = dependences_of(ROWS, T=count, N=8)
        assert text_of(tree, dependences).count("barrier") == barriers


# --- copies ---------------------------------------------------------------------------------------


def test_tiles_inside_of_each_other_wait_once() -> None:
    tree, dependences = tmm()
    assert isinstance(tree, Band)
    update = next(n for n in nodes(tree) if isinstance(n, Promotion) and len(n.tiles) == 2)
    nested = Promotion(update.tiles[:1], Promotion(update.tiles[1:], update.child))
    tree = map_nodes(tree, lambda node: nested if node is update else node)
    assert text_of(tree, dependences).count("barrier") == 1


def columns(*, turned: bool, copied: str = "out") -> tuple[Node, Dependences]:
    """Threads own columns of a tile that is written back by rows; or rows of the transposed."""
    subscripts = "j,i" if turned else "i,j"
    text = f"def f(float(N,M) a) -> (b) {{ b({subscripts}) = a(i,j) }}"
    own = member("j", "S0", role=THREAD, axis="x")
    held = Promotion(
        (promoted("b", SHARED, 8, 8, copied=copied),),
        Band((own, member("i", "S0")), True, Leaf("S0")),
    )
    return held, dependences_of(text, N=8, M=8)


def test_a_copy_by_the_threads_that_wrote() -> None:
    """Threads run along rows of memory when they copy."""
    assert text_of(*columns(turned=False)).count("barrier") == 0
    assert (
        text_of(*columns(turned=True))
        == """\
promote b to shared b_shared[8x8] (copied out)
  sequence
    band [j thread x *, i *] permutable
      S0
    barrier"""
    )


def test_a_copy_before_and_after() -> None:
    """What is copied in for the next tile lies where the same threads copied this one out."""
    tile = promoted("b", SHARED, 8, 2, copied="in and out")
    own = member("j", "S0", role=THREAD, axis="x")
    body = Promotion((tile,), Band((own, member("i", "S0", span=2)), True, Leaf("S0")))
    dependences = dependences_of("def f(float(N,M) a) -> (b) { b(j,i) = a(i,j) }", N=6, M=8)
    tree = Band((member("i", "S0", step=2),), True, body)
    assert (
        text_of(tree, dependences)
        == """\
band [i div 2 *] permutable
  promote b to shared b_shared[8x2] (copied in and out)
    sequence
      barrier
      band [j thread x *, i mod 2 *] permutable
        S0
      barrier"""
    )
