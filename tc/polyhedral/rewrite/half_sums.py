"""Reductions to `half` whose accumulators do not stay in registers: kept in `float` (Y8).

Sums of halves are computed in float and rounded once, at the end of the reduction. Where the
schedule runs part of a reduction outside of what holds its accumulators, they would be rounded
each time that they are put down: `o(i) +=! a(i,k)` becomes `t(i) +=! a(i,k)` and `o(i) = t(i)`
with a temporary of floats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from tc.dtypes import compute_dtype
from tc.errors import BackendError
from tc.plan import Plan
from tc.polyhedral.footprint import extent
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.schedule import Band, Expansion, Leaf, Member, Node, Promotion, children, count
from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.semantics.program import ShapedProgram, ShapedStatement


def rounded_early(tree: Node, scop: Scop) -> frozenset[str]:
    """The names of the program's statements that would round what they accumulate before the
    reduction has ended."""
    return frozenset(_rounded(tree, scop, frozenset(), frozenset()))


def accumulates_halves(shaped: ShapedProgram) -> bool:
    """Whether some statement of a program sums values that are rounded when they are stored."""
    tensors = shaped.program.tensors
    kinds = (tensors[s.target].dtype for s in shaped.program.statements if s.op != "=")
    return any(dtype != compute_dtype(dtype) for dtype in kinds)


def check_sums(plan: Plan | None, tree: Node, scop: Scop) -> None:
    """BackendError where a plan leaves sums of halves to be rounded on the way."""
    early = rounded_early(tree, scop)
    if plan is None or not early:
        return
    name = min(early)
    statement = scop.statement(name)
    left = (part for part in plan.parts if early.isdisjoint(part.statements))
    raise BackendError(
        f"the sums of {name} would be rounded to half before they are complete (Y8): a loop along "
        f"{' or '.join(statement.reduction)} runs outside of what holds {statement.write.tensor}; "
        "promote it further outside, or split the reduction there",
        repair=str(Plan(tuple(left))),
    )


def keep_sums(shaped: ShapedProgram, names: Collection[str]) -> ShapedProgram:
    """The program with the reductions named computed in temporaries, named after the target
    ("o.s0"). What was to be checked is checked in the sum, which then keeps the name."""
    rewriting = Rewriting(shaped, "kept")

    def kept(old: ShapedStatement) -> list[ShapedStatement] | None:
        statement = old.statement
        if statement.name not in names:
            return None
        total, read = rewriting.store(
            old, statement.rhs, statement.outer, statement.reduction, name="sum", kind="s"
        )
        last = rewriting.remaining(old, read, statement.outer)
        if old.checked:
            total = _named(replace(total, checked=old.checked), statement.name)
            last = _named(last, f"{statement.name}.rounded")
        return [total, last]

    return rewriting.program(kept)


def _named(shaped_statement: ShapedStatement, name: str) -> ShapedStatement:
    return replace(shaped_statement, statement=replace(shaped_statement.statement, name=name))


def _rounded(node: Node, scop: Scop, begun: frozenset[str], held: frozenset[str]) -> Iterator[str]:
    """`begun` are the statements of which part of the reduction runs around the node, outside of
    what holds their accumulators; `held` what is held there: tensors, and statements of
    expansions."""
    match node:
        case Leaf(statement=name):
            statement = scop.statement(name)
            dtype = scop.shaped.program.tensors[statement.write.tensor].dtype
            if name in begun and dtype != compute_dtype(dtype):
                yield scop.shaped.statements[statement.position].statement.name
        case Promotion(tiles=tiles):
            held = held.union(tile.tensor for tile in tiles)
        case Expansion(statement=name):
            held |= {name}
        case Band(members=members):
            begun = begun.union(
                name
                for member in members
                for name in member.values
                if not held & {name, scop.statement(name).write.tensor}
                and _reduces(member, scop.statement(name))
            )
    for child in children(node):
        yield from _rounded(child, scop, begun, held)


def _reduces(member: Member, statement: ScopStatement) -> bool:
    """Whether a loop takes several steps of a statement's reduction."""
    is_reduced = member.values[statement.name].variable in statement.reduction
    if not statement.accumulates or not is_reduced:
        return False
    return count(member, extent(replace(member, span=None), statement)) > 1
