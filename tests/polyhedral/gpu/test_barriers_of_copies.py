"""Barriers around copies to buffers and back: all needed barriers, and no others."""

from __future__ import annotations

from dataclasses import replace

from tc.plan import BLOCK, REGISTER, SHARED, THREAD
from tc.polyhedral.gpu.barriers import place_barriers
from tc.polyhedral.schedule import (
    Axis,
    Band,
    Leaf,
    Node,
    Promotion,
    Sequence,
    map_nodes,
    nodes,
)
from tc.polyhedral.scop.dependences import Dependences
from tests.support.launch_trees import member, promoted, text_with_barriers, threads
from tests.support.scops import dependences_of

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


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
        text_with_barriers(*tmm())
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
        text_with_barriers(*tmm(steps=3))
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
        text_with_barriers(*tmm(blocks=1))
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
    assert text_with_barriers(*tmm(blocks=2)).count("barrier") == 1


def test_one_thread_waits_for_nobody() -> None:
    tree, dependences = tmm(steps=3, threads=1)
    assert place_barriers(tree, dependences) == tree


def test_tiles_inside_of_each_other_wait_once() -> None:
    tree, dependences = tmm()
    assert isinstance(tree, Band)
    update = next(n for n in nodes(tree) if isinstance(n, Promotion) and len(n.tiles) == 2)
    nested = Promotion(update.tiles[:1], Promotion(update.tiles[1:], update.child))
    tree = map_nodes(tree, lambda node: nested if node is update else node)
    assert text_with_barriers(tree, dependences).count("barrier") == 1


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
    assert text_with_barriers(*columns(turned=False)).count("barrier") == 0
    assert (
        text_with_barriers(*columns(turned=True))
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
        text_with_barriers(tree, dependences)
        == """\
band [i div 2 *] permutable
  promote b to shared b_shared[8x2] (copied in and out)
    sequence
      barrier
      band [j thread x *, i mod 2 *] permutable
        S0
      barrier"""
    )


def test_a_copy_of_what_threads_wrote_in_tiles() -> None:
    """Threads run the last digit of i, or the first; they copy the elements that they wrote, and
    wait where others read them."""
    dependences = dependences_of(
        """def f(float(N) a) -> (b, c) {
  b(i) = a(i)
  c(i) = b(i)
}""",
        N=12,
    )
    last, first = {"span": 3}, {"step": 3}
    for own, rest, axis in ((last, first, Axis(0, 1, 3)), (first, last, Axis(0, 3, 4))):
        for count, barriers in ((None, 0), (2, 2)):
            parts = [
                Band((member("i", name, role=THREAD, axis="x", count=n, **own),), True, Leaf(name))
                for name, n in (("S0", None), ("S1", count))
            ]
            size = 1 + (axis.size - 1) * axis.step
            held = Promotion((replace(promoted("b", SHARED, size), layout=(axis,)),), parts[1])
            loop = member("i", "S0", "S1", **rest)
            tree = Band((loop,), True, Sequence((parts[0], held)))
            assert text_with_barriers(tree, dependences).count("barrier") == barriers


def test_a_copy_of_more_than_one_access_reads() -> None:
    """Threads copy elements from that before the first, and read those of their own number."""
    dependences = dependences_of("def f(float(N) a) -> (b) { b(i) = a(i) + a(i + 1) }", N=9)
    for size, barriers in ((9, 1), (10, 1)):
        held = Promotion((promoted("a", SHARED, size),), threads("i", "S0"))
        assert text_with_barriers(held, dependences).count("barrier") == barriers
    dependences = dependences_of("def f(float(N) a) -> (b) { b(i) = a(i) }", N=9)
    for size, barriers in ((9, 0), (10, 1)):
        held = Promotion((promoted("a", SHARED, size),), threads("i", "S0"))
        assert text_with_barriers(held, dependences).count("barrier") == barriers
