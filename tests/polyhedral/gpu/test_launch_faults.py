"""What may not be one launch, and why: blocks, buffers of threads, barriers that are missing."""

from __future__ import annotations

import pytest

from tc.kernel.ir import GRID
from tc.plan import BLOCK, REGISTER, SCRATCH, SHARED, THREAD
from tc.polyhedral.gpu.barriers import place_barriers
from tc.polyhedral.launch_legality import grid_barrier_positions, launch_fault
from tc.polyhedral.legality import respects
from tc.polyhedral.schedule import Band, Leaf, Node, Promotion, Sequence, Sync
from tc.polyhedral.scop import relations
from tc.polyhedral.scop.dependences import Dependences
from tests.support.launch_trees import member, promoted
from tests.support.scops import dependences_of

PAIR = """def pair(float(N) a) -> (b, c) {
  b(i) = a(i)
  c(i) = b(N - 1 - i)
}"""


def pair() -> Dependences:
    return dependences_of(PAIR, N=8)


def bound(name: str, role: str, **how: int) -> Node:
    """A statement of which blocks, or threads, run the iterations."""
    return Band((member("i", name, role=role, axis="x", **how),), True, Leaf(name))


def fault(part: Node, dependences: Dependences) -> str | None:
    """That of a part whose order is legal."""
    assert respects(part, dependences) is None
    return launch_fault(Sequence((part,)), dependences)


# --- blocks ---------------------------------------------------------------------------------------


def test_two_blocks() -> None:
    across = Sequence((bound("S0", BLOCK), Sync(), bound("S1", BLOCK)))
    assert fault(across, pair()) == (
        "S0(i=0) and S1(i=7), which touch one element of b, run in two blocks of one launch"
    )


def test_all_blocks_wait() -> None:
    """Between the two, not before or after both."""
    first, second, wait = bound("S0", BLOCK), bound("S1", BLOCK), Sync(GRID)
    assert fault(Sequence((first, wait, second)), pair()) is None
    for parts in ((wait, first, second), (first, second, wait)):
        assert "two blocks of one launch" in str(fault(Sequence(parts), pair()))


def test_all_blocks_wait_for_tiles() -> None:
    """What one block writes back, another fetches: only behind a barrier of the grid."""
    out, back = (promoted("b", SHARED, 1, copied=how) for how in ("out", "in"))
    first, second = (
        Band((member("i", name, role=BLOCK, axis="x"),), True, Promotion((tile,), Leaf(name)))
        for name, tile in (("S0", out), ("S1", back))
    )
    assert fault(Sequence((first, Sync(), second)), pair()) == (
        "S0(i=0) and S1(i=7), which touch one element of b, run in two blocks of one launch"
    )
    assert fault(Sequence((first, Sync(GRID), second)), pair()) is None


def test_all_blocks_wait_before_a_clash() -> None:
    """The blocks wait as late as possible, so that one barrier serves for several clashes."""
    text = """def chain(float(N) a) -> (b, c, d, e) {
      b(i) = a(i)
      c(i) = a(i)
      d(i) = b(N - 1 - i) + c(N - 1 - i) where i in 0:N
      e(i) = d(N - 1 - i) + b(i) where i in 0:N
    }"""
    dependences = dependences_of(text, N=8)
    parts = tuple(bound(f"S{n}", BLOCK) for n in range(4))
    assert grid_barrier_positions(Sequence(parts), dependences) == [2, 3]
    assert grid_barrier_positions(Sequence(parts[:2]), dependences) == []
    placed = place_barriers(Sequence(parts), dependences, of_grids=True)
    wait = Sync(GRID)
    assert placed == Sequence((parts[0], parts[1], wait, parts[2], wait, parts[3]))
    assert place_barriers(placed, dependences, of_grids=True) == placed
    assert place_barriers(placed, dependences) == Sequence(parts)


def test_a_barrier_of_the_grid_is_one_of_the_block() -> None:
    """Threads need no other there."""

    def mapped(name: str) -> Node:
        tile = member("i", name, step=4, role=BLOCK, axis="x")
        point = member("i", name, span=4, role=THREAD, axis="x")
        return Band((tile, point), True, Leaf(name))

    placed = place_barriers(Sequence((mapped("S0"), mapped("S1"))), pair(), of_grids=True)
    assert placed == Sequence((mapped("S0"), Sync(GRID), mapped("S1")))
    assert fault(placed, pair()) is None


def test_parts_are_launches_of_their_own() -> None:
    apart = Sequence((bound("S0", BLOCK), bound("S1", BLOCK)))
    assert launch_fault(apart, pair()) is None
    assert launch_fault(Sequence((bound("S0", THREAD), bound("S1", THREAD))), pair()) is None


def test_what_is_bound_to_no_blocks_runs_in_the_first() -> None:
    whole = Band((member("i", "S1"),), True, Leaf("S1"))
    assert fault(Sequence((bound("S0", BLOCK), whole)), pair()) == (
        "S0(i=7) and S1(i=0), which touch one element of b, run in two blocks of one launch"
    )
    assert fault(Sequence((bound("S0", BLOCK, count=1), whole)), pair()) is None


def test_blocks_that_take_turns() -> None:
    """Block b of 3 runs the iterations b, b + 3, b + 6 of 8."""
    dependences = dependences_of(PAIR.replace("N - 1 - i", "i"), N=8)
    for other, why in (
        (3, None),
        (4, "S0(i=3) and S1(i=3), which touch one element of b, run in two blocks of one launch"),
    ):
        parts = bound("S0", BLOCK, count=3), bound("S1", BLOCK, count=other)
        assert fault(Sequence(parts), dependences) == why


def test_a_tile_with_what_other_blocks_write() -> None:
    """Each block copies 4 elements of which it reads but 3: of such tiles, no more is known than
    that they lie in the tensor."""
    text = """def f(float(N) a) -> (b, c) {
  b(i) = a(i)
  c(i) = b(i)
}"""
    dependences = dependences_of(text, N=6)
    tile = member("i", "S0", "S1", step=3, role=BLOCK, axis="x")
    point = member("i", "S1", span=3)
    first = Band((member("i", "S0", span=3),), True, Leaf("S0"))
    for size, why in (
        (3, None),
        (
            4,
            "S0(i=0) and the copy of b to b_shared, which touch one element of b, run in two "
            "blocks of one launch",
        ),
    ):
        held = Promotion((promoted("b", SHARED, size),), Band((point,), True, Leaf("S1")))
        tree = Band((tile,), True, Sequence((first, held)))
        assert fault(tree, dependences) == why


# --- buffers of threads ---------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [REGISTER, SCRATCH])
def test_what_a_thread_keeps_for_itself(scope: str) -> None:
    tree = Promotion(
        (promoted("b", scope, 8, copied="out"),),
        Sequence((bound("S0", THREAD), Sync(), bound("S1", THREAD))),
    )
    assert fault(tree, pair()) == (
        "S0(i=0) and S1(i=7), which touch one element of b, run in two threads, each with a buffer "
        "of its own"
    )


# --- barriers -------------------------------------------------------------------------------------


def test_a_missing_barrier() -> None:
    parts = bound("S0", THREAD), bound("S1", THREAD)
    assert fault(Sequence(parts), pair()) == (
        "S0(i=0) and S1(i=7), which touch one element of b, run in two threads of a block with no "
        "barrier between"
    )
    assert fault(Sequence((parts[0], Sync(), parts[1])), pair()) is None
    for early in ((Sync(), *parts), (*parts, Sync())):
        assert "with no barrier between" in str(fault(Sequence(early), pair()))


def test_a_barrier_on_the_way_out_or_in() -> None:
    first, second = bound("S0", THREAD), bound("S1", THREAD)
    for parts in (
        (Sequence((first, Sync())), second),
        (first, Sequence((Sync(), second))),
        (Band((member("i", "S0", role=THREAD, axis="x"),), True,
              Sequence((Leaf("S0"), Sync()))), second),
    ):  # fmt: skip
        assert fault(Sequence(parts), pair()) is None


def test_a_barrier_in_a_part_that_some_blocks_leave_out() -> None:
    """The second statement runs in one block of two: in the other, no thread waits in it."""
    text = """def f(float(M,N) a) -> (b, c, d) {
  b(j,i) = a(j,i)
  c(i) = a(0,i)
  d(j,i) = b(j,N - 1 - i)
}"""
    dependences = dependences_of(text, M=2, N=4)

    def rows(name: str) -> Node:
        own = member("j", name, role=BLOCK, axis="y"), member("i", name, role=THREAD, axis="x")
        return Band(own, True, Leaf(name))

    middle = Band((member("i", "S1", role=THREAD, axis="x"),), True, Sequence((Leaf("S1"), Sync())))
    assert fault(Sequence((rows("S0"), middle, rows("S2"))), dependences) == (
        "S0(j=0, i=0) and S2(j=0, i=3), which touch one element of b, run in two threads of a "
        "block with no barrier between"
    )
    placed = place_barriers(Sequence((rows("S0"), middle, rows("S2"))), dependences)
    assert placed == Sequence(
        (rows("S0"), Band((member("i", "S1", role=THREAD, axis="x"),), True, Leaf("S1")),
         Sync(), rows("S2"))
    )  # fmt: skip
    assert fault(placed, dependences) is None


def test_a_fetch_and_its_readers() -> None:
    def tree(*before: Node) -> Node:
        readers = Sequence((*before, bound("S1", THREAD)))
        return Sequence((bound("S0", THREAD), Sync(), Promotion((held,), readers)))

    held = promoted("b", SHARED, 8)
    assert fault(tree(), pair()) == (
        "the copy of b to b_shared and S1(i=0), which touch one element of b_shared, run in two "
        "threads of a block with no barrier between"
    )
    assert fault(tree(Sync()), pair()) is None


def test_a_write_back_and_later_readers() -> None:
    """The threads that wrote the tile copy it back; other threads read the tensor afterwards."""
    held = promoted("b", SHARED, 8, copied="out")
    parts: tuple[Node, ...] = (Promotion((held,), bound("S0", THREAD)), bound("S1", THREAD))
    assert fault(Sequence(parts), pair()) == (
        "the copy of b_shared to b and S1(i=7), which touch one element of b, run in two threads "
        "of a block with no barrier between"
    )
    assert fault(Sequence((parts[0], Sync(), parts[1])), pair()) is None


def test_the_next_iteration() -> None:
    text = """def rows(float(T,N) a) -> (b, c) {
  b(t,i) = a(t,i)
  c(t,i) = b(t,N - 1 - i)
}"""
    dependences = dependences_of(text, T=3, N=4)
    held = promoted("b", SHARED, 1, 4, copied="out")
    body = Promotion((held,), Sequence((bound("S0", THREAD), Sync(), bound("S1", THREAD))))
    loop = member("t", "S0", "S1")
    assert fault(Band((loop,), True, body), dependences) == (
        "S1(t=0, i=0) and S0(t=1, i=3), which touch one element of b_shared, run in two threads of "
        "a block with no barrier between"
    )
    for parts in ((body, Sync()), (Sync(), body)):
        assert fault(Band((loop,), True, Sequence(parts)), dependences) is None


def halves(name: str, role: str, *, size: int, count: int | None) -> Node:
    """A statement in tiles, of which threads or blocks run the iterations."""
    point = member("i", name, span=size, role=role, axis="x", count=count)
    return Band((member("i", name, step=size), point), True, Leaf(name))


def test_what_isl_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """i mod 4, and i mod 8 mod 4, which arithmetic alone does not find equal."""
    blocks, threads = (
        Sequence((halves("S0", role, size=4, count=None), halves("S1", role, size=8, count=4)))
        for role in (BLOCK, THREAD)
    )
    text = PAIR.replace("N - 1 - i", "i")
    assert fault(threads, dependences_of(text, N=16)) is None
    assert fault(blocks, dependences_of(text, N=16)) is None
    monkeypatch.setattr(relations, "QUOTA", 1)
    assert fault(threads, dependences_of(text, N=16)) == (
        "S0 and S1, which touch one element of b, run in two threads of a block with no barrier "
        "between"
    )
    assert fault(blocks, dependences_of(text, N=16)) == (
        "the dependence of S1 on S0 through b is too complex to be checked"
    )


def test_a_tile_of_all_threads_in_one_of_each() -> None:
    inner = Promotion((promoted("b", SHARED, 8),), Sequence((Sync(), bound("S1", THREAD))))
    held = Promotion((promoted("b", REGISTER, 8),), inner)
    assert fault(Sequence((bound("S0", THREAD), Sync(), held)), pair()) == (
        "b_shared, which threads share, holds elements of b_register, of which each thread has its "
        "own"
    )
