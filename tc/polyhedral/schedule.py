"""Schedule trees: the order of a program's instances, as immutable values.

    Node   ::= Band(Member*, Node) | Sequence(Node*) | Promotion(ArrayTile*, Node)
             | Expansion(Node) | Leaf | Sync
    Member ::= for each statement below: a variable of it (plus an offset), or a constant

The tree says *when*: a band runs its members as nested loops, a sequence its children one after
the other, a leaf one instance of its statement. A tiled member is a *digit* of its value (as the
hours and minutes of a time), so tiling, at any number of levels, never changes what a member
means. What is promoted (copied to nearby memory) stands in the tree at the place of the copy.

The trees are ours; `tc.polyhedral.legality` checks each against the dependences before it is used.
("Schedule Trees" in the manual of isl; Vasilache et al. 2018, section 5.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from tc.dtypes import DType
from tc.errors import InternalError
from tc.kernel.ir import BLOCK
from tc.plan import ASYNC, PACKED, REGISTERS, SERIAL, THREAD


@dataclass(frozen=True, slots=True)
class Value:
    """variable + offset, where `variable` is one of the statement's; None: the offset alone."""

    variable: str | None
    offset: int = 0

    def __str__(self) -> str:
        if self.variable is None:
            return str(self.offset)
        return self.variable + (f"{self.offset:+d}" if self.offset else "")


@dataclass(frozen=True, slots=True)
class Member:
    """One dimension of a band: a loop, or a digit of one.

    With v the value of an instance and o = `origin`, the member orders instances by the digit
    ((v - o) mod span) div step, `span` None meaning no modulus. A whole loop has step 1 and no
    span; tiled by 32 it becomes the tile member (step 32) and the point member (step 1, span 32).
    `span` is a multiple of `step`; a point member has span / step iterations.
    `origin` is the least value of any statement of the band.

    `coincident`: no dependence (but those relaxed for reductions do count) between different
    values of it, the members outside being equal. `role` is what becomes of the loop.

    The iterations of a loop of role "block" or "thread" are run by the blocks of a grid, or the
    threads of a block, along the `axis` "x", "y" or "z": iteration t by number t, or, where there
    are `count` of these only, in turns, by number t mod count. Of loops of one axis inside of each
    other, these are the digits of the number, the innermost loop's the last.
    """

    name: str
    values: Mapping[str, Value]
    coincident: bool
    origin: int = 0
    step: int = 1
    span: int | None = None
    role: str = SERIAL
    axis: str | None = None
    count: int | None = None

    def __str__(self) -> str:
        text = self.name
        if self.origin:
            text = f"({text}{-self.origin:+d})"
        if self.span is not None:
            text += f" mod {self.span}"
        if self.step > 1:
            text += f" div {self.step}"
        marks = ("" if self.role == SERIAL else f" {self.role}") + (" *" if self.coincident else "")
        if self.axis is not None:
            turns = "" if self.count is None else f" of {self.count}"
            marks = f" {self.role} {self.axis}{turns}" + (" *" if self.coincident else "")
        return text + marks


@dataclass(frozen=True, slots=True)
class Band:
    """Nested loops, the first outermost. `permutable`: they may be swapped, hence tiled."""

    members: tuple[Member, ...]
    permutable: bool
    child: Node


@dataclass(frozen=True, slots=True)
class Sequence:
    """Children in order; each holds statements of its own."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a promoted buffer: ((element - offset) div step) mod size of dimension
    `dimension` of the tensor; the outermost axis of a dimension needs no modulus."""

    dimension: int
    step: int
    size: int


@dataclass(frozen=True, slots=True)
class Copy:
    """How a tile is copied: in vectors of `lanes` along the last axis, or written back in whole
    cache `lines`; `fill`, where it is one, is what reads of the tensor through `pad` find outside
    of it, and the buffer too. The loops of what threads copy together may be unrolled; they copy
    `through` registers, or by copies that are "async", to the first of `stages`."""

    lanes: int = 1
    lines: bool = False
    fill: int | float | bool | None = None
    unroll: bool = False
    stages: int = 1
    through: str = REGISTERS


@dataclass(frozen=True, slots=True)
class ArrayTile:
    """A box around what the statements below touch of a tensor, or of what they gather: `buffer`,
    in a memory `scope` ("register", "scratch", "shared", or "temporary": packed once, in a region
    before), holds it while they run.

    The box has `sizes` elements in the dimensions of the tensor; its offset in each is the least
    element touched, a function of the loops around (`tc.polyhedral.footprint`). The axes of the
    buffer are `layout`, outermost first. `fetch` and `write_back` say which copies are needed;
    they copy elements within `limits` (half-open, one a dimension; None: all of the tensor): what
    is beyond may belong to others, or be unwritten. The box begins `before` elements before the
    least one touched, one number a dimension (none: 0 each). The buffer holds elements in the type
    of computation, or in that of the tensor, `as_stored`.
    """

    tensor: str
    buffer: str
    scope: str
    sizes: tuple[int, ...]
    layout: tuple[Axis, ...]
    fetch: bool
    write_back: bool
    copy: Copy = Copy()
    limits: tuple[tuple[int, int], ...] | None = None
    before: tuple[int, ...] = ()
    pitch: int | None = None
    as_stored: bool = False

    def held_type(self, dtype: DType) -> DType:
        """The type of what the buffer holds, where that of the tensor is `dtype`."""
        return dtype if self.as_stored else dtype.computed

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the buffer; its last axis has room for `pitch` elements, if given, and its
        first is of stages, if there are several."""
        shape = tuple(axis.size for axis in self.layout)
        shape = shape if self.pitch is None or not shape else (*shape[:-1], self.pitch)
        return shape if self.copy.stages == 1 else (self.copy.stages, *shape)


@dataclass(frozen=True, slots=True)
class Promotion:
    """Below this node, the tensors of the tiles are read and written in their buffers."""

    tiles: tuple[ArrayTile, ...]
    child: Node

    @property
    def is_packed(self) -> bool:
        """Whether its tiles are filled before the part begins."""
        return all(tile.scope == PACKED for tile in self.tiles)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Below this node, `statement` accumulates into `buffer`: an accumulator for each value of
    the point members `digits` of its reduction, so that these may be unrolled, or be the lanes of
    a vector (the last). They are combined at the end (R5)."""

    statement: str
    buffer: str
    digits: tuple[Member, ...]
    child: Node


@dataclass(frozen=True, slots=True)
class Leaf:
    """One instance of a statement of the scop, by its name there."""

    statement: str


@dataclass(frozen=True, slots=True)
class Sync:
    """All threads of a block, or with the scope "grid" of all blocks, wait here for each other; one
    of a grid is a child of the part, a sequence."""

    scope: str = BLOCK


Node: TypeAlias = Band | Sequence | Promotion | Expansion | Leaf | Sync


def count(member: Member, extent: int) -> int:
    """How many iterations a member has whose values span `extent`.

    >>> outer, inner = tile(Member("i", {}, True), 32)
    >>> count(outer, 100), count(inner, 100)
    (4, 32)
    """
    whole = extent if member.span is None else member.span
    return -(-whole // member.step)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node, in order."""
    match node:
        case Leaf() | Sync():
            return ()
        case Sequence(children=found):
            return found
        case Band(child=child) | Promotion(child=child) | Expansion(child=child):
            return (child,)
        case _:
            raise unknown_tree(node)


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its children changed; the very same where none is."""
    before = children(node)
    new = tuple(map(change, before))
    if all(map(operator.is_, before, new)):
        return node
    if isinstance(node, Sequence):
        return Sequence(new)
    assert not isinstance(node, Leaf | Sync)
    return replace(node, child=new[0])


def sequence_of(children: Iterable[Node]) -> Node:
    """Nodes one after the other: sequences within become part of this one, and one alone needs
    none."""
    flat = tuple(node for child in children for node in in_order(child))
    return flat[0] if len(flat) == 1 else Sequence(flat)


def in_order(node: Node) -> tuple[Node, ...]:
    """The nodes that a node runs one after the other: those of a sequence, or itself."""
    return node.children if isinstance(node, Sequence) else (node,)


def band_of(own: tuple[Member, ...], permutable: bool, child: Node) -> Node:
    """A band of members, or its child alone if there are none."""
    return Band(own, permutable, child) if own else child


def map_nodes(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with each node changed, inner nodes first."""
    return change(map_children(node, lambda child: map_nodes(child, change)))


def nodes(node: Node) -> Iterator[Node]:
    """All nodes of a tree, outer nodes first."""
    left = [node]
    while left:
        found = left.pop()
        yield found
        left += reversed(children(found))


def leaves(node: Node) -> Iterator[str]:
    """The names of the statements below a node, in order.

    >>> list(leaves(Sequence((Leaf("S0.init"), Leaf("S0")))))
    ['S0.init', 'S0']
    """
    return (n.statement for n in nodes(node) if isinstance(n, Leaf))


def members(node: Node) -> Iterator[Member]:
    """The members of all bands of a tree, outermost first."""
    return (m for n in nodes(node) if isinstance(n, Band) for m in n.members)


def members_below(node: Node) -> Mapping[str, tuple[Member, ...]]:
    """The members between a node and each leaf below it, outermost first."""
    if isinstance(node, Leaf):
        return {node.statement: ()}
    own = node.members if isinstance(node, Band) else ()
    below = (members_below(child).items() for child in children(node))
    return {name: (*own, *inner) for found in below for name, inner in found}


def depth(node: Node) -> int:
    """How many members and promotions are inside of each other, at most.

    >>> depth(Band((Member("i", {}, True), Member("j", {}, True)), True, Leaf("S0")))
    2
    """
    own = len(node.members) if isinstance(node, Band) else int(isinstance(node, Promotion))
    return own + max(map(depth, children(node)), default=0)


def tiles(node: Node) -> Iterator[ArrayTile]:
    """The tiles that a tree promotes, outermost first."""
    return (t for n in nodes(node) if isinstance(n, Promotion) for t in n.tiles)


def tile(member: Member, size: int) -> tuple[Member, Member]:
    """The tile member and the point member of a member, by tiles of `size` of its iterations.

    >>> outer, inner = tile(Member("i", {"S0": Value("i")}, True), 32)
    >>> str(outer), str(inner)
    ('i div 32 *', 'i mod 32 *')
    """
    step = member.step * size
    return replace(member, step=step), replace(member, span=step)


def own_of_threads(members: Several[Member]) -> tuple[Member, ...]:
    """The loops, of those around a statement, of which each thread has one iteration, that of its
    number along an axis to which no other of the loops is bound."""
    bound = [m.axis for m in members if m.role == THREAD]
    return tuple(
        m for m in members if m.role == THREAD and m.count is None and bound.count(m.axis) == 1
    )


def leading_coincident(node: Node, *, of_one_band: bool = False) -> tuple[tuple[Member, ...], Node]:
    """The coincident members that a node begins with, of bands directly inside of each other, or
    of the outermost one alone, and the node inside of these members.

    >>> i, k = Member("i", {}, True), Member("k", {}, False)
    >>> nested = Band((i,), True, Band((i, k), False, Leaf("S0")))
    >>> leading_coincident(nested)[0] == (i, i)
    True
    >>> leading_coincident(nested, of_one_band=True)[0] == (i,)
    True
    """
    if not isinstance(node, Band):
        return (), node
    first = next((i for i, m in enumerate(node.members) if not m.coincident), len(node.members))
    inside = band_of(node.members[first:], node.permutable, node.child)
    descends = first and not of_one_band
    more, inside = leading_coincident(inside) if descends else ((), inside)
    return (*node.members[:first], *more), inside


def nests(members: Several[Member]) -> bool:
    """Whether loops over tiles are outside of the loops in them."""
    return all(
        one.step > other.step
        for place, one in enumerate(members)
        for other in members[place + 1 :]
        if one.name == other.name
    )


def to_text(node: Node, indent: str = "") -> str:
    """The tree as lines, one a node, children indented.

    >>> i = Member("i", {"S0": Value("i")}, True)
    >>> print(to_text(Band((i,), True, Leaf("S0"))))
    band [i *] permutable
      S0
    """
    return "\n".join(_lines(node, indent))


def _lines(node: Node, indent: str) -> Iterator[str]:
    match node:
        case Leaf(statement=name):
            yield indent + name
        case Sync(scope=scope):
            yield indent + ("barrier" if scope == BLOCK else f"barrier of the {scope}")
        case Sequence(children=children):
            yield indent + "sequence"
            for child in children:
                yield from _lines(child, indent + "  ")
        case Band(members=members, permutable=permutable, child=child):
            text = ", ".join(map(str, members))
            yield f"{indent}band [{text}]" + (" permutable" if permutable else "")
            yield from _lines(child, indent + "  ")
        case Promotion(tiles=tiles, child=child):
            for t in tiles:
                shape = "x".join(map(str, t.shape))
                copied = " and ".join(w for w, on in (("in", t.fetch), ("out", t.write_back)) if on)
                lines = " in lines" if t.copy.lines else ""
                ranges = " x ".join(f"{begin}:{end}" for begin, end in t.limits or ())
                staged = f", {t.copy.stages} stages" if t.copy.stages > 1 else ""
                staged = f"{', async' if t.copy.through == ASYNC else ''}{staged}"
                within = "" if t.limits is None else f", {ranges}"
                how = f" (copied {copied}{lines}{staged}{within})" if copied else ""
                yield f"{indent}promote {t.tensor} to {t.scope} {t.buffer}[{shape}]{how}"
            yield from _lines(child, indent + "  ")
        case Expansion(statement=name, buffer=buffer, digits=digits, child=child):
            each = ", ".join(str(replace(d, role=SERIAL, coincident=False)) for d in digits)
            yield f"{indent}accumulate {name} in {buffer} for each {each}"
            yield from _lines(child, indent + "  ")
        case _:
            raise unknown_tree(node)


def unknown_tree(node: NoReturn) -> InternalError:
    """What to raise at the end of a `match` that mypy proves complete."""
    return InternalError(f"unknown tree node {type(node).__name__}")
