"""Which loops tensor cores can run: sums of products of halves whose threads lie as the hardware
has them ("Matrix Fragments for mma.m16n8k16" in the PTX ISA).

A warp has 16 rows and 8 columns of results at a time: thread 4 * r + c those of rows r and r + 8,
and of columns 2 * c and 2 * c + 1. So of a loop over rows `i`, `i mod 8` is run by threads along y
and `i mod 16 div 8` by each thread; of a loop over columns `j`, `j mod 8 div 2` by threads along x
and `j mod 2` by each thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tc.dtypes import FLOAT16, FLOAT32
from tc.kernel.ir import ALIGNED_ELEMENTS, LEFT_ROWS, MULTIPLIED_STEPS, RIGHT_ROWS
from tc.plan import MMA, REGISTER, SHARED, THREAD, UNROLL
from tc.polyhedral.actions.loops import name_of
from tc.polyhedral.schedule import ArrayTile, Leaf, Member, Node, Promotion, children, members_below
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.semantics import program as p

ROW_DIGITS = ((LEFT_ROWS // 2, 1), (LEFT_ROWS, LEFT_ROWS // 2))
COLUMN_DIGITS = ((RIGHT_ROWS, 2), (2, 1))
"""The span and step of the digit of a loop that threads run, and of that which each thread runs."""


def factors_of(statement: ScopStatement, scop: Scop) -> tuple[Access, Access] | None:
    """The reads of two halves of which a statement adds up the products, in float32; None where it
    does something else."""
    update = scop.shaped.program.statements[statement.position]
    if statement.kind != "update" or not statement.accumulates or statement.op != "+":
        return None
    match update.rhs:
        case p.Binary(
            op="*", left=p.Convert(operand=p.Read() as a), right=p.Convert(operand=p.Read() as b)
        ):
            pass
        case _:
            return None
    found = [access for read in (a, b) for access in statement.reads if access.site == read.site]
    halves = all(read.dtype == FLOAT16 for read in (a, b)) and update.rhs.dtype == FLOAT32
    linear = all(None not in access.subscripts and not access.guarded for access in found)
    if len(found) != 2 or not halves or not linear or statement.gathers:
        return None
    return found[0], found[1]


def mma_fault(part: Node, scop: Scop) -> str | None:
    """Why tensor cores cannot run a loop of role "mma"; None where they can run all of these."""
    around = members_below(part)
    for name, tiles in _tiles_around(part, ()):
        members = around[name]
        for number, member in enumerate(members):
            if member.role == MMA:
                reason = _fault(scop.statement(name), members, number, tiles, scop)
                if reason is not None:
                    return f"tensor cores cannot run the loop {name_of(member)}: {reason}"
    return None


def _tiles_around(
    node: Node, around: tuple[ArrayTile, ...]
) -> Iterator[tuple[str, tuple[ArrayTile, ...]]]:
    """The leaves of a tree, each with the tiles around it, innermost last."""
    if isinstance(node, Leaf):
        yield node.statement, around
    inside = (*around, *node.tiles) if isinstance(node, Promotion) else around
    for child in children(node):
        yield from _tiles_around(child, inside)


def _fault(
    statement: ScopStatement,
    members: tuple[Member, ...],
    number: int,
    tiles: tuple[ArrayTile, ...],
    scop: Scop,
) -> str | None:
    loop, name = members[number], statement.name
    factors = factors_of(statement, scop)
    if factors is None:
        return f"{name} adds up no products of two halves"
    if (loop.span, loop.step) != (MULTIPLIED_STEPS, 1):
        has = "an end of its own" if loop.span is None else f"{loop.span // loop.step} iterations"
        return f"it has {has}, and they take {MULTIPLIED_STEPS} steps at a time"
    if any(member.role != UNROLL for member in members[number + 1 :]):
        return "a loop inside of it is not unrolled"
    lanes = _Lanes.of(members, name)
    if isinstance(lanes, str):
        return lanes
    held = {tile.tensor: tile for tile in tiles}
    target = held.get(statement.write.tensor)
    if target is None or target.scope != REGISTER:
        return f"{statement.write.tensor} is not in registers"
    step = loop.values[name].variable
    operands = zip(
        ("row", "column"), (lanes.row, lanes.column), (lanes.column, lanes.row), strict=True
    )
    unused = list(factors)
    for what, own, other in operands:
        mine = [a for a in unused if moves_with(a, own) and not moves_with(a, other)]
        if not mine:
            return f"no factor of {name} has one {what} for each value of {own}"
        unused.remove(mine[0])
        reason = _operand_fault(mine[0], own, step, held.get(mine[0].tensor))
        if reason is not None:
            return reason
    return None


def moves_with(access: Access, variable: str) -> bool:
    """Whether an access touches other elements at other values of a variable."""
    return any(form is not None and variable in form.terms for form in access.subscripts)


def _operand_fault(
    access: Access, own: str, step: str | None, tile: ArrayTile | None
) -> str | None:
    """Why a tile holds no rows of an operand along a variable, with the steps as elements or the
    other way round."""
    if tile is None or tile.scope != SHARED or not tile.as_stored:
        return f"{access.tensor} is not in shared memory as it is stored (as_stored)"
    axes = []
    for variable in (own, step):
        along = [d for d, form in enumerate(access.subscripts) if form and variable in form.terms]
        if len(along) != 1 or dict(access.subscripts[along[0]].terms) != {variable: 1}:  # type: ignore[union-attr]
            return f"{access.tensor} has no dimension along which {variable} alone counts elements"
        axes += [n for n, axis in enumerate(tile.layout) if axis.dimension == along[0]]
    last = len(tile.layout) - 1
    if len(axes) != 2 or last not in axes:
        return f"the last axis of {tile.buffer} is neither {own} nor {step}"
    if tile.shape[-1] % ALIGNED_ELEMENTS:
        wanted = -(-tile.shape[-1] // ALIGNED_ELEMENTS) * ALIGNED_ELEMENTS
        return (
            f"rows of {tile.buffer} have room for {tile.shape[-1]} halves, which is no multiple of "
            f"{ALIGNED_ELEMENTS}: pitch={wanted}"
        )
    return None


@dataclass(frozen=True)
class _Lanes:
    """The variables along which a warp has rows and columns."""

    row: str
    column: str

    @classmethod
    def of(cls, members: tuple[Member, ...], name: str) -> _Lanes | str:
        """Those of a statement; what is wrong where its loops are no others."""
        found = []
        for axis, digits in (("y", ROW_DIGITS), ("x", COLUMN_DIGITS)):
            bound, own = digits
            variables = {
                m.values[name].variable
                for m in members
                if (m.role, m.axis, (m.span, m.step)) == (THREAD, axis, bound)
            }
            others = [m for m in members if m.role == THREAD and m.axis == axis]
            if len(others) != 1 or len(variables) != 1:
                runs = ", ".join(map(name_of, others)) or "nothing"
                return f"threads along {axis} run {runs}, and no loop {_digit('i', bound)}"
            (variable,) = variables
            has_own = any(
                m.role == UNROLL and (m.span, m.step) == own and m.values[name].variable == variable
                for m in members
            )
            if variable is None or not has_own:
                return f"no loop {_digit(variable or 'i', own)} is unrolled in each thread"
            found.append(variable)
        return cls(*found)


def _digit(name: str, digit: tuple[int, int]) -> str:
    span, step = digit
    return f"{name} mod {span}" + (f" div {step}" if step > 1 else "")
