"""Barriers of launches by hand: exactly those that are needed, as text."""

from __future__ import annotations

from tc.plan import BLOCK, REGISTER, SHARED, THREAD
from tc.polyhedral.gpu.barriers import place_barriers, without_barriers
from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import (
    ArrayTile,
    Axis,
    Band,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    Value,
    to_text,
)
from tc.polyhedral.scop.dependences import Dependences
from tests.support.scops import dependences_of

TMM = "def tmm(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"


def member(
    name: str,
    *names: str,
    step: int = 1,
    span: int | None = None,
    role: str = "serial",
    axis: str | None = None,
    count: int | None = None,
    coincident: bool = True,
    **pins: int,
) -> Member:
    """A digit of the variable `name` of some statements; others are pinned, with _ for a dot."""
    values = {statement: Value(name) for statement in names}
    values |= {statement.replace("_", "."): Value(None, at) for statement, at in pins.items()}
    return Member(name, values, coincident, 0, step, span, role, axis, count)


def promoted(tensor: str, scope: str, *sizes: int, copied: str = "in") -> ArrayTile:
    layout = tuple(Axis(d, 1, size) for d, size in enumerate(sizes))
    name = f"{tensor}_{scope}"
    return ArrayTile(tensor, name, scope, sizes, layout, "in" in copied, "out" in copied)


def text_of(tree: Node, dependences: Dependences) -> str:
    """The tree with its barriers, as text; the same where it has them already."""
    assert respects(tree, dependences) is None
    placed = place_barriers(tree, dependences)
    assert without_barriers(placed) == without_barriers(tree)
    assert place_barriers(placed, dependences) == placed
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
