"""Recognising what a cluster of a schedule is, before it is mapped.

A *block* is a band whose statements have, beyond its members, reductions of their own only: a
contraction with what follows it, a pointwise operation, a pooling. A cluster whose statements
have further parallel variables is a *nest* of blocks: softmax, or the layers of a perceptron.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tc.kernel.ir import row_major
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence
from tc.polyhedral.scop.checked_variables import checked_variables
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.semantics.program import Index, Read, Select, walk


@dataclass(frozen=True)
class Item:
    """A statement of a block with the members of its reduction, outermost first."""

    statement: ScopStatement
    reduction: tuple[Member, ...]

    @property
    def instances(self) -> int:
        return prod(end - begin for begin, end in self.statement.ranges.values())


@dataclass(frozen=True)
class Block:
    """`members` are parallel and shared by all items, which run in order."""

    members: tuple[Member, ...]
    items: tuple[Item, ...]

    @cached_property
    def main(self) -> Item:
        """The item with the most instances, an update if any."""
        return max(self.items, key=lambda i: (i.instances, i.statement.kind == "update"))

    def variable(self, member: Member) -> str | None:
        """The variable of the main statement that the member is."""
        return member.values[self.main.statement.name].variable

    def extent(self, member: Member) -> int:
        """How many values the member has, over all items."""
        return max(extent(member, item.statement) for item in self.items)


def extent(member: Member, statement: ScopStatement) -> int:
    """How many values of the member a statement has."""
    if member.span is not None:
        return member.span // member.step
    variable = member.values[statement.name].variable
    if variable is None:
        return 1
    begin, end = statement.ranges[variable]
    return end - begin


def block_of(members: tuple[Member, ...], child: Node, scop: Scop) -> Block | None:
    """The block that a band is, None if it is a nest of blocks."""
    parts = child.children if isinstance(child, Sequence) else (child,)
    items = [_item(part, scop) for part in parts]
    found = [item for item in items if item is not None]
    return Block(members, tuple(found)) if len(found) == len(items) else None


def _item(node: Node, scop: Scop) -> Item | None:
    match node:
        case Leaf(statement=name):
            return Item(scop.statement(name), ())
        case Band(members=members, child=Leaf(statement=name)):
            statement = scop.statement(name)
            own = {m.values[name].variable for m in members}
            return Item(statement, members) if own <= set(statement.reduction) else None
        case Band(members=members, child=Band() as inner):
            item = _item(inner, scop)
            if item is None:
                return None
            whole = _item(Band(members, True, Leaf(item.statement.name)), scop)
            return None if whole is None else Item(item.statement, (*members, *item.reduction))
        case _:
            return None


@dataclass(frozen=True)
class Facts:
    """What the mapping asks of a program: strides, types, which reads are padded."""

    scop: Scop
    strides: Mapping[str, tuple[int, ...]]
    check: bool

    @cached_property
    def reads(self) -> Mapping[int, Read]:
        """The reads of the program by their sites."""
        statements = self.scop.shaped.program.statements
        return {e.site: e for s in statements for e in walk(s.rhs) if isinstance(e, Read)}

    def padded(self, statement: ScopStatement) -> Iterator[tuple[Access, int | float | bool]]:
        """The reads that are the whole first argument of a pad, with its constant; at rank 0 there
        is nothing to pad."""
        if statement.kind != "update":
            return
        accesses = {a.site: a for a in statement.reads}
        for expr in walk(self.scop.shaped.program.statements[statement.position].rhs):
            match expr:
                case Select(then=Read(bare_only=True, site=site), otherwise=other):
                    value, access = getattr(other, "value", None), accesses.get(site)
                    if value is None or access is None or None in access.subscripts:
                        continue
                    if access.subscripts:
                        yield access, value
                case _:
                    pass

    def stride(self, access: Access, variable: str | None) -> int | None:
        """By how many elements of memory an access moves with a variable; None: irregularly."""
        if variable is None:
            return 0
        total = 0
        steps = self.steps(access.tensor)
        for axis, (subscript, step) in enumerate(zip(access.subscripts, steps, strict=True)):
            if subscript is not None:
                total += subscript.terms.get(variable, 0) * step
            elif variable in self._variables(access, axis):
                return None
        return total

    def uses(self, access: Access, variable: str | None) -> bool:
        """Whether an access depends on a variable."""
        return any(
            variable in (self._variables(access, axis) if s is None else s.terms)
            for axis, s in enumerate(access.subscripts)
        )

    def _variables(self, access: Access, axis: int) -> frozenset[str]:
        subscript = self.reads[access.site].subscripts[axis]
        return frozenset(e.name for e in walk(subscript) if isinstance(e, Index))

    def steps(self, tensor: str) -> tuple[int, ...]:
        given = self.strides.get(tensor)
        return row_major(self.scop.shaped.shapes[tensor]) if given is None else given

    def bits(self, statement: ScopStatement) -> int:
        """The width of the widest values that a statement computes with."""
        tensors = self.scop.shaped.program.tensors
        names = {statement.write.tensor, *(a.tensor for a in statement.reads)}
        return max([32, *(tensors[n].dtype.bits for n in names if tensors[n].dtype.is_float)])

    def tested(self, statement: ScopStatement) -> frozenset[str]:
        """The variables on which tests at run time depend; their loops stay as they are."""
        return checked_variables(statement, self.scop) if self.check else frozenset()

    def is_tested(self, member: Member, block: Block) -> bool:
        """Whether tests of an item of a block depend on what a member is there."""
        return any(
            member.values[item.statement.name].variable in self.tested(item.statement)
            for item in block.items
            if item.statement.name in member.values
        )
