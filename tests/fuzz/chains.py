"""Statements that share loops, each with extents, offsets and windows of its own: what is fused,
tiled, and computed again beyond the edge of a tile."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.drafts import Body, Draft, finish
from tests.fuzz.model import Expr, binary, num, read, var
from tests.fuzz.scope import Variable

INDICES = ("i", "j", "l")
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 40, 67)
MOST_ELEMENTS = 5000
Shape = tuple[int, ...]


@dataclass
class Chain:
    """The tensors so far, the first two of them operands that may be inputs."""

    body: Body
    names: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    halves: bool = False

    @property
    def rng(self) -> random.Random:
        return self.body.scope.rng

    def shape(self, name: str) -> Shape:
        return self.body.scope.tensors[name].shape

    def tensor(self) -> str:
        """More often than others the last, so that statements share loops."""
        return self.rng.choice([*self.names, *self.names[-1:] * len(self.names)])

    def like(self, name: str) -> str:
        """Another tensor with rows as long, where there is one."""
        length = self.shape(name)[-1]
        return self.rng.choice(
            [n for n in self.names if self.shape(n)[-1] == length and n != name] or [name]
        )

    def axis(self, shape: Shape) -> int:
        return self.rng.randrange(len(shape))

    def add(self, kind: Kind, source: str = "", other: str = "") -> str:
        """A statement, unless there is none of the kind for its operands, of which those not given
        are drawn; gives the last tensor."""
        kind(self, source or self.tensor(), other or self.tensor())
        return self.names[-1]

    def write(
        self,
        extents: Shape,
        rhs: Expr,
        op: str = "=",
        *,
        target: str = "",
        begins: Mapping[int, int] | None = None,
        inner: Mapping[str, int] | None = None,
        inferred: bool = False,
    ) -> None:
        """The statement: an index goes from where it begins up to its extent, by a `where` or, if
        inferred, because of a read."""
        inferred = inferred and self.body.scope.chance(0.7)
        starts = begins or {}
        outer = [
            Variable(v, starts.get(axis, 0), n, inferred)
            for axis, (v, n) in enumerate(zip(INDICES, extents, strict=False))
        ]
        reduced = [Variable(v, 0, n, inferred and v == "r") for v, n in (inner or {}).items()]
        draft = Draft(target or self.body.fresh_name(), outer, reduced, op)
        draft.covered = [v for v in draft.variables if v.inferred]
        finish(self.body, draft, rhs)
        if not target:
            self.names.append(draft.target)
            self.made.append(draft.target)


Kind = Callable[[Chain, str, str], None]
"""Adds a statement for a new tensor from one or two others, if there is one."""


def indices(shape: Shape, changed: int = -1, by: Expr | None = None) -> list[Expr]:
    own: list[Expr] = [var(v) for v, _ in zip(INDICES, shape, strict=False)]
    if by is not None:
        own[changed] = by
    return own


def shifted(axis: int, step: int) -> Expr:
    return binary("+" if step > 0 else "-", var(INDICES[axis]), num(abs(step)))


def replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def common(left: Shape, right: Shape) -> Shape:
    return tuple(min(pair) for pair in zip(left, right, strict=True))


def pointwise(chain: Chain, source: str, other: str) -> None:
    """With another tensor, whose dimensions may come in another order."""
    rank, rng = len(chain.shape(other)), chain.rng
    order = rng.choice([list(range(rank)), list(range(rank)), rng.sample(range(rank), rank)])
    turned = tuple(chain.shape(other)[order.index(axis)] for axis in range(rank))
    shape = common(chain.shape(source), turned)
    its = read(other, *(var(INDICES[axis]) for axis in order))
    chain.write(shape, binary("+", read(source, *indices(shape)), binary("*", num(2), its)))


def neighbours(chain: Chain, source: str, _other: str) -> None:
    """Each element with those beside it, or nothing beyond the ends."""
    shape, rng = chain.shape(source), chain.rng
    axis, far = chain.axis(shape), rng.choice((1, 1, 2))
    rhs = read(source, *indices(shape))
    for step in rng.choice(([-far], [far], [-far, far])):
        moved = read(source, *indices(shape, axis, shifted(axis, step)))
        rhs = binary("+", rhs, ("pad", moved, num(rng.choice((0, 0, 1)))))
    chain.write(shape, rhs)


def window(chain: Chain, source: str, _other: str) -> None:
    shape, size = chain.shape(source), chain.rng.choice((2, 3, 5))
    axis = chain.axis(shape)
    if shape[axis] < size:
        return
    moved = indices(shape, axis, binary("+", var(INDICES[axis]), var("w")))
    extents = replaced(shape, axis, shape[axis] - size + 1)
    op = chain.rng.choice(("+=!", "max=!"))
    chain.write(extents, read(source, *moved), op, inner={"w": size}, inferred=True)


def padded(chain: Chain, source: str, _other: str) -> None:
    """A window with a stride, that begins before the first element and may end after the last."""
    shape, rng = chain.shape(source), chain.rng
    size, axis, step = rng.choice((2, 3, 5)), chain.axis(shape), rng.choice((1, 1, 2, 3))
    place = binary("+", binary("*", num(step), var(INDICES[axis])), var("w"))
    moved = indices(shape, axis, binary("-", place, num(rng.choice((0, 1, 2)))))
    value: Expr = ("pad", read(source, *moved), num(rng.choice((0, 0, 1))))
    extents = replaced(shape, axis, -(-shape[axis] // step))
    chain.write(extents, value, rng.choice(("+=!", "max=!")), inner={"w": size})


def strided(chain: Chain, source: str, _other: str) -> None:
    shape, step = chain.shape(source), chain.rng.choice((2, 3))
    axis = chain.axis(shape)
    moved = indices(shape, axis, binary("*", num(step), var(INDICES[axis])))
    extents = replaced(shape, axis, -(-shape[axis] // step))
    chain.write(extents, read(source, *moved), inferred=True)


def summed(chain: Chain, source: str, _other: str) -> None:
    """A dimension, which stays with an extent of 1."""
    shape = chain.shape(source)
    axis, op = chain.axis(shape), chain.rng.choice(("+=!", "max=!", "min=!"))
    moved = read(source, *indices(shape, axis, var("r")))
    chain.write(replaced(shape, axis, 1), moved, op, inner={"r": shape[axis]})


def product(chain: Chain, source: str, other: str) -> None:
    """With the rows of another tensor, of which only the first are, where there are more axes;
    not of halves, as sums of products of these are not exact even within a statement."""
    shape = chain.shape(source)
    last = len(shape) - 1
    if last < 1 or chain.halves or chain.shape(other)[last] != shape[last]:
        return
    rows = read(other, var(INDICES[last]), *[num(0)] * (last - 1), var("r"))
    left = read(source, *indices(shape, last, var("r")))
    extents = replaced(shape, last, chain.shape(other)[0])
    chain.write(extents, binary("*", left, rows), "+=!", inner={"r": shape[last]}, inferred=True)


def transposed(chain: Chain, source: str, _other: str) -> None:
    shape = chain.shape(source)
    order = chain.rng.sample(range(len(shape)), len(shape))
    place = [var(INDICES[axis]) for axis in order]
    extents = tuple(shape[order.index(axis)] for axis in range(len(shape)))
    chain.write(extents, read(source, *place), inferred=True)


def changed(chain: Chain, name: str, source: str) -> None:
    """Part of an earlier tensor, from some place on, by another."""
    if name not in chain.made:
        return
    rng, shape = chain.rng, common(chain.shape(name), chain.shape(source))
    late: Sequence[int] = rng.choice(([chain.axis(shape)], range(len(shape))))
    begins = {axis: min(rng.choice((1, 1, 3)), shape[axis] - 1) for axis in late}
    value, own = read(source, *indices(shape)), read(name, *indices(shape))
    op, rhs = rng.choice((("+=", value), ("=", binary("+", own, value)), ("max=", value),
                          ("=", num(1))))  # fmt: skip
    chain.write(shape, rhs, op, target=name, begins=begins)


# --- statements that belong together ------------------------------------------------------------


def around(chain: Chain) -> None:
    """A tensor is read beside and beyond where it is computed."""
    made = chain.add(chain.rng.choice((pointwise, strided, transposed)))
    chain.add(chain.rng.choice((neighbours, padded)), made)


def begun_later(chain: Chain) -> None:
    """A tensor is changed from some place on, and then read."""
    made = chain.add(chain.rng.choice((pointwise, pointwise, product, neighbours)))
    chain.add(changed, made, chain.like(made))
    kind = chain.rng.choice((product, product, product, pointwise, neighbours))
    operands = (made, chain.like(made))
    chain.add(kind, *chain.rng.choice((operands, operands[::-1])))


def read_twice(chain: Chain) -> None:
    """Two statements read an operand, each in its own order."""
    operand = chain.rng.choice(chain.names[:2])
    made = chain.add(product, chain.like(operand), operand)
    chain.add(pointwise, *chain.rng.choice(((made, operand), (operand, made))))


def in_row(chain: Chain) -> None:
    """Each of some statements uses the one before."""
    made = ""
    for _ in range(chain.rng.choice((2, 3))):
        made = chain.add(pointwise, made)


def alone(chain: Chain) -> None:
    """A contraction, which may be left to a library if nothing else is drawn."""
    chain.add(product, *chain.rng.choice((chain.names[:2], chain.names[1::-1])))


KINDS: tuple[Kind, ...] = (
    *(pointwise, neighbours, window, padded, strided, summed),
    *(product, product, transposed, changed, changed),
)
GROUPS: tuple[Callable[[Chain], None], ...] = (
    *(around, around, begun_later, begun_later, read_twice, read_twice, in_row, alone),
)
OF_HALVES = (around, begun_later, in_row, in_row)


def add_chain(body: Body) -> None:
    """Two operands, a group of statements that belong together, and others around them."""
    scope, rng = body.scope, body.scope.rng
    if len(scope.params) + 2 > 8 or len(body.statements) > 4:
        return
    halves = set(scope.types) == {"half"}
    extents = [*rng.sample(SIZES, 2) * 4, 1]
    shape: Shape = tuple(rng.choices(extents, k=rng.choice((1, 2, 2, 2, 3))))
    while math.prod(shape) > MOST_ELEMENTS:
        shape = tuple(n // 2 if n == max(shape) else n for n in shape)
    first = rng.choice((shape[0], *(n for n in extents if n <= max(shape))))
    fitting = [n for n, t in scope.tensors.items() if len(t.shape) == len(shape) and all(t.shape)]
    made = [n for n in fitting if not scope.tensors[n].is_input]
    if made and math.prod(scope.tensors[made[-1]].shape) <= MOST_ELEMENTS and scope.chance(0.5):
        shape = scope.tensors[made[-1]].shape
        names = [made[-1], scope.new_input((min(first, 40), *shape[1:]))]
    else:
        names = [scope.new_input(s) for s in (shape, (first, *shape[1:]))]
    chain = Chain(body, names, halves=halves)
    for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
        chain.add(rng.choice(KINDS))
    rng.choice(OF_HALVES if halves else GROUPS)(chain)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        chain.add(rng.choice(KINDS))
    if not chain.made:
        chain.add(pointwise)
