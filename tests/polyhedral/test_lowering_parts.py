"""Names, loop nests and zero fills, each by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import FLOAT32, INT64
from tc.polyhedral.codegen.context import NameSupply
from tc.polyhedral.scop.scop import build_scop, subtract
from tc.semantics.program import ShapedProgram
from tests.polyhedral.builders import literal, offset, read, shaped, statement

# --- names ------------------------------------------------------------------------------------


def test_names_are_free_again_in_the_next_region() -> None:
    names = NameSupply(["A"], ["i"])
    names.start_region()
    assert [names.fresh("t0", FLOAT32) for _ in range(3)] == ["t0", "t1", "t2"]
    names.start_region()
    assert names.fresh("t0", FLOAT32) == "t0"


def test_names_have_one_type() -> None:
    names = NameSupply([], ["acc"])
    names.start_region()
    assert names.fresh("t0", FLOAT32) == "t0"
    assert names.fresh("acc", FLOAT32) == "acc1"  # another region has an index 'acc'
    names.start_region()
    assert names.fresh("t0", INT64) == "t1"
    assert names.fresh("t0", FLOAT32) == "t0"


def test_names_are_no_buffers() -> None:
    names = NameSupply(["t0", "i", "i1"], ["i"])
    assert [names.fresh("i", INT64) for _ in range(2)] == ["i2", "i3"]
    assert names.fresh("t0", FLOAT32) == "t1"


# --- zero fills: rule G4 ----------------------------------------------------------------------

BOXES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=2)


@given(holes=st.lists(BOXES, max_size=4))
def test_subtract(holes: list[list[tuple[int, int]]]) -> None:
    grid = np.ones((4, 4), int)
    boxes = [((0, 4), (0, 4))]
    for hole in holes:
        boxes = list(subtract(boxes, tuple(hole)))  # type: ignore[arg-type]
        grid[tuple(slice(a, b) for a, b in hole)] = 0
    covered = np.zeros_like(grid)
    for box in boxes:
        covered[tuple(slice(a, b) for a, b in box)] += 1
    assert (covered == grid).all()


O10 = {"o": ("output", FLOAT32, (10,)), "p": ("output", FLOAT32, (10,))}
ONE = literal(1.0)


def zero_fills(program: ShapedProgram, initial: frozenset[str]) -> dict[str, int]:
    """The tensors that are filled with zeros, each with the statement before which it is filled."""
    zeros = (s for s in build_scop(program, initial).statements if s.kind == "zero")
    return {s.write.tensor: s.position for s in zeros}


def test_whole_write_needs_no_fill() -> None:  # G4
    program = shaped(O10, (statement("o", "i", ONE), {"i": (0, 10)}))
    assert zero_fills(program, frozenset()) == {"p": 0}
    assert zero_fills(program, frozenset("p")) == {}


def test_parts_that_make_a_whole_need_no_fill() -> None:
    program = shaped(
        {"o": O10["o"]},
        (statement("o", "i", ONE), {"i": (0, 4)}),
        (statement("o", "i", ONE, places=(offset("i", 4),)), {"i": (0, 6)}),
    )
    assert zero_fills(program, frozenset()) == {}


def test_read_of_a_part_between_needs_a_fill() -> None:
    program = shaped(
        O10,
        (statement("o", "i", ONE), {"i": (0, 4)}),
        (statement("p", "i", read("o", "i")), {"i": (0, 10)}),
        (statement("o", "i", ONE), {"i": (4, 10)}),
    )
    assert zero_fills(program, frozenset()) == {"o": 0}


def test_continuing_reduction_reads_its_target() -> None:
    first = (statement("o", "i", ONE), {"i": (0, 4)})
    more = statement("o", "i", ONE, op="+", continues="written")
    rest = (statement("o", "i", ONE), {"i": (4, 10)})
    program = shaped({"o": O10["o"]}, first, (more, {"i": (4, 10)}), rest)
    assert zero_fills(program, frozenset()) == {"o": 0}
    empty = shaped({"o": O10["o"]}, first, (more, {"i": (0, 0)}), rest)
    assert zero_fills(empty, frozenset()) == {}


def test_fill_comes_before_the_first_statement_of_the_tensor() -> None:
    program = shaped(
        O10,
        (statement("p", "i", ONE), {"i": (0, 10)}),
        (statement("o", "i", ONE), {"i": (2, 10)}),
    )
    assert zero_fills(program, frozenset()) == {"o": 1}


def test_tensor_without_elements_needs_no_fill() -> None:
    tensors = {"o": ("output", FLOAT32, (3, 0))}
    program = shaped(tensors, (statement("o", "ij", ONE), {"i": (0, 3), "j": (0, 0)}))
    assert zero_fills(program, frozenset()) == {}


def test_empty_reduction_still_writes_the_identity() -> None:  # R2
    rhs = read("a", "k")
    tensors = {"a": ("input", FLOAT32, (0,)), "o": ("output", FLOAT32, (3,))}
    ranges = {"i": (0, 3), "k": (0, 0)}
    init = statement("o", "i", rhs, op="+", init=True)
    assert zero_fills(shaped(tensors, (init, ranges)), frozenset()) == {}
    fresh = statement("o", "i", rhs, op="+", continues="caller")
    assert zero_fills(shaped(tensors, (fresh, ranges)), frozenset()) == {}
