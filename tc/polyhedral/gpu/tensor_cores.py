"""Which loops tensor cores can run: sums of products of halves, or of floats that may be rounded to
tf32, whose threads lie as the hardware has them ("Matrix Fragments for mma.m16n8k16" and "m16n8k8"
in the PTX ISA).

A warp has 16 rows and 8 columns of results at a time: thread 4 * r + c those of rows r and r + 8,
and of columns 2 * c and 2 * c + 1. So of a loop over rows `i`, `i mod 8` is run by threads along y
and `i mod 16 div 8` by each thread; of a loop over columns `j`, `j mod 8 div 2` by threads along x
and `j mod 2` by each thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tc.dtypes import FLOAT16, FLOAT32
from tc.kernel.ir import LEFT_ROWS, RIGHT_ROWS
from tc.kernel.matrix_products import F16, PRODUCT_OF_MARK, TF32, MatrixProduct
from tc.plan import REGISTER, SHARED, THREAD, UNROLL
from tc.polyhedral.actions.loops import name_of
from tc.polyhedral.schedule import ArrayTile, Leaf, Member, Node, Promotion, children, members_below
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.semantics import program as p

ROW_DIGITS = ((LEFT_ROWS // 2, 1), (LEFT_ROWS, LEFT_ROWS // 2))
COLUMN_DIGITS = ((RIGHT_ROWS, 2), (2, 1))
"""The span and step of the digit of a loop that threads run, and of that which each thread runs."""


@dataclass(frozen=True)
class Factors:
    """The two reads of which a statement adds up the products, in float32, and the product of
    tensor cores for their type."""

    product: MatrixProduct
    reads: tuple[Access, Access]


_PRODUCTS = {FLOAT16: F16, FLOAT32: TF32}
"""By the types of tensors."""


def factors_of(statement: ScopStatement, scop: Scop) -> Factors | None:
    """What a statement adds up the products of, two halves or two floats; None where it does
    something else."""
    update = scop.shaped.program.statements[statement.position]
    if statement.kind != "update" or not statement.accumulates or statement.op != "+":
        return None
    if not isinstance(update.rhs, p.Binary) or update.rhs.op != "*" or update.rhs.dtype != FLOAT32:
        return None
    sides = (update.rhs.left, update.rhs.right)
    a, b = (side.operand if isinstance(side, p.Convert) else side for side in sides)
    if not isinstance(a, p.Read) or not isinstance(b, p.Read) or a.dtype != b.dtype:
        return None
    if any(side.dtype != FLOAT32 for side in sides):
        return None
    found = [access for read in (a, b) for access in statement.reads if access.site == read.site]
    linear = all(None not in access.subscripts and not access.guarded for access in found)
    product = _PRODUCTS.get(a.dtype)
    if len(found) != 2 or product is None or not linear or statement.gathers:
        return None
    return Factors(product, (found[0], found[1]))


_KINDS = {F16.name: "halves", TF32.name: "floats"}
"""What tiles of products hold, in words."""


def mma_fault(part: Node, scop: Scop) -> str | None:
    """Why tensor cores cannot run a loop with the role of a product; None where they can run all of
    these."""
    around = members_below(part)
    for name, tiles in _tiles_around(part, ()):
        members = around[name]
        for number, member in enumerate(members):
            if member.role in PRODUCT_OF_MARK:
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
    product = PRODUCT_OF_MARK[loop.role]
    if factors is None or factors.product != product:
        return f"{name} adds up no products of two {_KINDS[product.name]}"
    if (loop.span, loop.step) != (product.steps, 1):
        has = "an end of its own" if loop.span is None else f"{loop.span // loop.step} iterations"
        return f"it has {has}, and they take {product.steps} steps at a time"
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
    unused = list(factors.reads)
    for what, own, other in operands:
        mine = [a for a in unused if moves_with(a, own) and not moves_with(a, other)]
        if not mine:
            return f"no factor of {name} has one {what} for each value of {own}"
        unused.remove(mine[0])
        reason = _operand_fault(mine[0], own, step, held.get(mine[0].tensor), product)
        if reason is not None:
            return reason
    return None


def moves_with(access: Access, variable: str) -> bool:
    """Whether an access touches other elements at other values of a variable."""
    return any(form is not None and variable in form.terms for form in access.subscripts)


def dimension_of(access: Access, variable: str | None, other: str | None) -> int | None:
    """The dimension along which a variable, and of these two that one alone, counts elements: what
    else moves along it are loops around a tile, or loops of a part of its own."""
    forms = [form.terms if form is not None else {} for form in access.subscripts]
    along = [d for d, terms in enumerate(forms) if variable in terms]
    if len(along) != 1 or variable is None:
        return None
    terms = forms[along[0]]
    return along[0] if terms[variable] == 1 and other not in terms else None


def _operand_fault(
    access: Access, own: str, step: str | None, tile: ArrayTile | None, product: MatrixProduct
) -> str | None:
    """Why a tile holds no rows of an operand along a variable, with the steps as elements or the
    other way round."""
    if tile is None or tile.scope != SHARED or tile.held_type(product.dtype) != product.dtype:
        return f"{access.tensor} is not in shared memory as it is stored (as_stored)"
    axes = []
    for variable, other in ((own, step), (step, own)):
        dimension = dimension_of(access, variable, other)
        if dimension is None:
            return (
                f"{access.tensor} has no dimension along which {variable} counts elements, and "
                f"{other} none"
            )
        axes += [n for n, axis in enumerate(tile.layout) if axis.dimension == dimension]
    last = len(tile.layout) - 1
    if len(axes) != 2 or last not in axes:
        return f"the last axis of {tile.buffer} is neither {own} nor {step}"
    if tile.shape[-1] % product.line:
        wanted = -(-tile.shape[-1] // product.line) * product.line
        held = f"{tile.shape[-1]} {_KINDS[product.name]}"
        return (
            f"rows of {tile.buffer} have room for {held}, which is no multiple of {product.line}: "
            f"pitch={wanted}"
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
