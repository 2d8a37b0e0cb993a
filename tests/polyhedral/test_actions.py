"""Each action on small trees: the tree that the action makes, and the trees that it refuses."""

from __future__ import annotations

import textwrap

import pytest

import tc
from tc.plan import Action, Bind, Fuse, Part, Promote, Reorder, Separate, Sink, Split, Tile
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import apply, apply_plan, fault
from tc.polyhedral.cpu.cpu_target import cpu_target
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, Value, leaves, to_text
from tc.polyhedral.scop.dependences import compute_dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.strategies.scheduler import schedule
from tests.support.scops import scop_of

TARGET = cpu_target(tc.Device(vector_bits=256))

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
STEPS = """def steps(float(N,M) a) -> (d) {
  b(i,j) = 2 * a(i,j)
  c(i,j) = b(i,j) + 1
  d(i,j) = c(i,j) * a(i,j)
}"""
SHIFT = "def shift(float(N) a) -> (b, c) { b(i) = 2 * a(i)  c(i) = b(i+1) where i in 0:N-1 }"
PADDED = """def padded(float(N) a) -> (o) {
  o(i) +=! pad(a(i + k - 1), 0) where i in 0:N, k in 0:3
}"""


def tree_of(scop: Scop, fusion: str = "max") -> Node:
    return schedule(scop, compute_dependences(scop), fusion)


MM_SCOP = scop_of(MM, M=20, K=30, N=40)
STEPS_SCOP = scop_of(STEPS, N=6, M=9)
SHIFT_SCOP = scop_of(SHIFT, N=8)
PADDED_SCOP = scop_of(PADDED, N=16)


def made(scop: Scop, *actions: Action, fusion: str = "max") -> str:
    """The tree of a program after actions, which may be run."""
    tree = tree_of(scop, fusion)
    for action in actions:
        tree = apply(tree, action, AccessInfo(scop, {}, True), TARGET)
    assert fault(tree, compute_dependences(scop), TARGET) is None
    return to_text(tree)


def refused(scop: Scop, *actions: Action, fusion: str = "max") -> str:
    """Why the last of some actions cannot be done, or the tree after it not run."""
    tree, dependences = tree_of(scop, fusion), compute_dependences(scop)
    for action in actions[:-1]:
        tree = apply(tree, action, AccessInfo(scop, {}, True), TARGET)
    try:
        tree = apply(tree, actions[-1], AccessInfo(scop, {}, True), TARGET)
    except tc.BackendError as error:
        return error.cause
    reason = fault(tree, dependences, TARGET)
    assert reason is not None, to_text(tree)
    return reason


def lines(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_the_trees_themselves() -> None:
    assert made(MM_SCOP) == lines("""
        band [i *, j *] permutable
          sequence
            S0.init
            band [k] permutable
              S0
    """)
    assert made(STEPS_SCOP) == lines("""
        band [i *, j *] permutable
          sequence
            S0
            S1
            S2
    """)


# --- tile -------------------------------------------------------------------------------------


def test_tile() -> None:
    assert made(MM_SCOP, Tile("i", (8,)), Tile("k", (12, 4))) == lines("""
        band [i div 8 *, i mod 8 *, j *] permutable
          sequence
            S0.init
            band [k div 12, k mod 12 div 4, k mod 4] permutable
              S0
    """)


def test_tile_a_digit_and_a_variable_of_a_statement() -> None:
    assert made(MM_SCOP, Tile("i", (12,)), Tile("S0.i mod 12", (4,)), Tile("S0.k", (8,))) == lines(
        """
        band [i div 12 *, i mod 12 div 4 *, i mod 4 *, j *] permutable
          sequence
            S0.init
            band [k div 8, k mod 8] permutable
              S0
    """
    )
    assert made(MM_SCOP, Tile("j", (8,)), Tile("j div 8", (2,))) == lines("""
        band [i *, j div 16 *, j mod 16 div 8 *, j mod 8 *] permutable
          sequence
            S0.init
            band [k] permutable
              S0
    """)


def test_loops_that_begin_elsewhere_are_called_as_trees_show_them() -> None:
    scop = scop_of("def f(float(N) a) -> (o) { o +=! a(i) where i in 3:20 }", N=30)
    shown = "band [(i-3) div 8, (i-3) mod 8 unroll] permutable"
    for name in ("i mod 8", "(i-3) mod 8", "S0.(i-3) mod 8"):
        assert shown in made(scop, Tile("(i-3)", (8,)), Bind(name, "unroll"))


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ((Tile("x", (8,)),), "no loop 'x' in S0.init, S0; the loops there are i, j, k"),
        ((Tile("S1.i", (8,)),), "no loop 'S1.i' in S0.init, S0"),
        ((Tile("i", (8,)), Tile("i", (4,))), "no loop 'i' in S0.init, S0; the loops there are i "
         "div 8, i mod 8, j, k"),
        ((Tile("i", ()),), "no sizes to tile i by"),
        ((Tile("i", (8, 3)),), "tiles of 3 do not divide those of 8 iterations of i"),
        ((Tile("i", (8,)), Tile("i mod 8", (3,))), "tiles of 3 do not divide the 8 iterations"),
        ((Tile("i", (2**20,)), Tile("i div 1048576", (2**12,))), "more than any loop has"),
        ((Tile("i", (2,) * 70),), "73 loops and buffers inside of each other; 64 can be"),
        ((Tile("i - 1", (8,)),), "'i - 1' does not name a loop"),
    ],
)  # fmt: skip
def test_tile_refuses(actions: tuple[Action, ...], reason: str) -> None:
    assert reason in refused(MM_SCOP, *actions)


def test_tiles_along_a_dependence() -> None:
    """A loop alone in its band is permutable; its tiles and their points cannot be swapped, and the
    tree is right without that being said."""
    values = {"S0": Value("i"), "S1": Value("i", 2)}
    loop = Member("i", values, coincident=False)
    tree = Band((loop,), True, Sequence((Leaf("S0"), Leaf("S1"))))
    dependences, info = compute_dependences(SHIFT_SCOP), AccessInfo(SHIFT_SCOP, {}, True)
    plan = tc.Plan((Part(("S0", "S1"), (Tile("i", (4,)),)),))
    assert to_text(apply_plan([tree], plan, info, dependences, TARGET)) == lines("""
        band [i div 4, i mod 4]
          sequence
            S0
            S1
    """)


# --- the order of loops -----------------------------------------------------------------------


def test_reorder() -> None:
    assert made(MM_SCOP, Reorder(("j", "i"))).startswith("band [j *, i *] permutable")
    swapped = made(MM_SCOP, Tile("i", (8,)), Tile("j", (8,)), Reorder(("j div 8", "i mod 8")))
    assert swapped.startswith("band [i div 8 *, j div 8 *, i mod 8 *, j mod 8 *] permutable")


def test_sink() -> None:
    sunk = made(MM_SCOP, Tile("i", (4,)), Tile("j", (8,)), Sink(("i mod 4", "j mod 8")))
    assert sunk == lines("""
        band [i div 4 *, j div 8 *] permutable
          sequence
            band [i mod 4 *, j mod 8 *] permutable
              S0.init
            band [k] permutable
              band [i mod 4 *, j mod 8 *] permutable
                S0
    """)


def test_separate_and_fuse_are_inverse() -> None:
    apart = made(STEPS_SCOP, Separate(("j",), ("S1",)))
    assert apart == lines("""
        band [i *] permutable
          sequence
            band [j *] permutable
              S0
            band [j *] permutable
              S1
            band [j *] permutable
              S2
    """)
    together = made(STEPS_SCOP, Separate(("j",), ("S1",)), Fuse(("S0.j", "S1.j", "S2.j")))
    assert together.replace("*", "") == lines("""
        band [i ] permutable
          band [j]
            sequence
              S0
              S1
              S2
    """)
    assert made(STEPS_SCOP, Fuse(("S0.i", "S1.i")), fusion="min") == lines("""
        sequence
          band [i]
            sequence
              band [j *] permutable
                S0
              band [j *] permutable
                S1
          band [i *, j *] permutable
            S2
    """)


@pytest.mark.parametrize(
    ("scop", "actions", "reason"),
    [
        (MM_SCOP, (Reorder(("i", "k")),), "i, k are not loops of one nest"),
        (MM_SCOP, (Reorder(("i", "i")),), "a loop is named twice in i, i"),
        (MM_SCOP, (Reorder(()),), "no loops are named"),
        (MM_SCOP, (Tile("i", (4,)), Reorder(("i mod 4", "i div 4"))), "the loop i mod 4 of S0.init "
         "is outside of the tiles that it divides"),
        (MM_SCOP, (Sink(("k", "i")),), "k, i are not loops of one band"),
        (MM_SCOP, (Promote("C", "register", "i"), Sink(("i",))), "cannot move into the place of a "
         "buffer"),
        (STEPS_SCOP, (Separate(("i",), ("S1",)),), "i are not the innermost loops around S1"),
        (STEPS_SCOP, (Separate(("j",), ("S9",)),), "no statement 'S9' here; there are S0, S1, S2"),
        (STEPS_SCOP, (Separate(("j",), ("S0", "S2")),), "the innermost loops around S0, S2"),
        (STEPS_SCOP, (Fuse(("j",)),), "one loop cannot be fused"),
        (STEPS_SCOP, (Fuse(("S0.j", "S1.j")),), "are not the outermost loops of neighbours"),
        (SHIFT_SCOP, (Fuse(("S0.i", "S1.i")),), "S0(i=1) and S1(i=0), which touch one element of "
         "b, run in the wrong order"),
    ],
)  # fmt: skip
def test_orders_that_are_refused(scop: Scop, actions: tuple[Action, ...], reason: str) -> None:
    assert reason in refused(scop, *actions, fusion="min" if scop is SHIFT_SCOP else "max")


# --- split, promote, bind -----------------------------------------------------------------------


def test_split() -> None:
    assert made(MM_SCOP, Tile("k", (8,)), Split("S0", ("k mod 8",), "j")) == lines("""
        band [i *, j *] permutable
          sequence
            S0.init
            accumulate S0 in C_partial for each k mod 8
              band [k div 8, k mod 8] permutable
                S0
    """)


def test_promote() -> None:
    packed = Promote("B", "temporary", axes=((1, 8), (0, 1), (1, 1)))
    kept = Promote("C", "register", "j div 8", align=8)
    assert made(MM_SCOP, Tile("j", (8,)), kept, packed) == lines("""
        promote B to temporary B_packed[5x30x8] (copied in)
          band [i *, j div 8 *] permutable
            promote C to register C_acc[1x8] (copied out)
              band [j mod 8 *] permutable
                sequence
                  S0.init
                  band [k] permutable
                    S0
    """)
    assert "promote a to scratch a_padded[18] (copied in)" in made(
        PADDED_SCOP, Promote("a", "scratch", padded=True)
    )


def test_bind() -> None:
    assert made(
        MM_SCOP, Tile("k", (2,)), Bind("i", "parallel"), Bind("k mod 2", "unroll")
    ) == lines("""
        band [i parallel *, j *] permutable
          sequence
            S0.init
            band [k div 2, k mod 2 unroll] permutable
              S0
    """)


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ((Split("S0", ("k",), "j"),), "k is no loop inside of tiles of the reduction of S0"),
        ((Tile("k", (8,)), Split("S0.init", ("k mod 8",), "j")), "no loop 'k mod 8'"),
        ((Tile("k", (8,)), Split("S0", (), "j")), "S0 has no reduction along no loops"),
        ((Promote("D", "scratch"),), "nothing touches a tensor 'D' there; there are A, B, C"),
        ((Promote("A", "shared"),), "no memory scope 'shared' here; there are register, scratch"),
        ((Promote("A", "temporary", "i"),), "filled before the part begins is not inside of i"),
        ((Promote("C", "temporary"),), "it is written there, and packed memory is only read"),
        ((Promote("A", "register", align=8192),), "20 x 8192 elements, 655360 bytes"),
        ((Promote("A", "scratch", "k", ("S0.init",)),), "no loop 'k'"),
        ((Promote("A", "scratch", "i", ("S0.init",)),), "inside of i, S0 runs together with"),
        ((Promote("A", "scratch", axes=((2, 1),)),), "A has no dimension 2; it has 2"),
        ((Promote("A", "scratch", axes=((0, 1),)),), "do not reach each element of A"),
        ((Promote("A", "scratch", axes=((0, 8), (0, 3), (1, 1))),), "steps of 3 do not divide"),
        ((Promote("A", "scratch", padded=True),), "not all reads of A there are pad(A(...), c)"),
        ((Bind("i", "block"),), "no role 'block' on this target; there are serial, parallel"),
        ((Bind("j", "parallel"),), "the loop j is not among the outermost"),
        ((Bind("i", "parallel"), Reorder(("j", "i"))), "is not among the outermost"),
        ((Bind("k", "vector"),), "it has an end of its own, and vectors have 2, 4, ... or"),
        ((Tile("k", (3,)), Bind("k mod 3", "vector")), "it has 3 iterations"),
        ((Tile("j", (8,)), Bind("j mod 8", "vector")), "it is not innermost"),
    ],
)  # fmt: skip
def test_what_split_promote_and_bind_refuse(actions: tuple[Action, ...], reason: str) -> None:
    assert reason in refused(MM_SCOP, *actions)


def test_a_part_with_its_statements() -> None:
    assert Part(tuple(leaves(tree_of(MM_SCOP)))).statements == ("S0.init", "S0")
