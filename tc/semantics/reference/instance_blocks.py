"""Blocks of a statement's iteration space: boxes small enough to evaluate with numpy at once.

An expression over a block is an array with one axis per variable, of length 1 where the variable
does not occur, so `A(m, k) * B(k, n)` needs room for its product only, never for A and B spread
over the whole box. The block's extents follow from the room that the statement's expression
needs per point.

A block's reads and writes fall in views of a tensor wherever that is possible. A read whose
subscripts are sums of index variables times constants is, over a block, a strided view of the
tensor: nothing is copied, whatever the window (`I(c, 2*h + kh)`) or the layout.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from tc.affine.forms import LinearForm
from tc.affine.intervals import Box
from tc.dtypes import Array
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.size_values import KnownSizes

WORKING_SET_BYTES = 4 << 20
"""Bytes at which blocks stop growing: more would leave the processor's cache."""

ARITHMETIC_SHARE = 6
"""The part of the memory limit that plain values may take, as its divisor: error bounds walk the
same blocks with this much more room per value, so that both see the same partial sums."""

_VALUE_BYTES = 8  # of any value, whatever its type: masks and narrow types then have room to spare


class Block(Protocol):
    """Instances of a statement that are evaluated at once, with the axes of their arrays."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def values(self, variable: str) -> Array:
        """The values of an index variable, of length 1 along the axes that it does not have."""

    def point(self, position: Sequence[int]) -> dict[str, int]:
        """The values of the variables at a position counted from the block's corner."""

    def strided(self, forms: Sequence[LinearForm], shape: Sequence[int]) -> Pick | None:
        """What the block reads through affine subscripts, as a view; None where there is none that
        stays in the tensor."""


@dataclass(frozen=True, slots=True)
class InstanceBlock:
    """A box of the iteration space: per variable, in order, where it begins and how long it is.

    >>> block = InstanceBlock(("i", "k"), (4, 0), (2, 3))
    >>> block.axis("k"), block.point((1, 2))
    (1, {'i': 5, 'k': 2})
    """

    variables: tuple[str, ...]
    begins: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def box(self) -> Box[str]:
        corners = zip(self.variables, self.begins, self.shape, strict=True)
        return {name: (begin, begin + length - 1) for name, begin, length in corners}

    def axis(self, variable: str) -> int:
        return self.variables.index(variable)

    def point(self, position: Sequence[int]) -> dict[str, int]:
        """The values of the variables at a position counted from the block's corner."""
        return {
            variable: begin + int(step)
            for variable, begin, step in zip(self.variables, self.begins, position, strict=True)
        }

    def values(self, variable: str) -> Array:
        axis = self.axis(variable)
        begin, extent = self.begins[axis], self.shape[axis]
        shape = [1] * len(self.shape)
        shape[axis] = extent
        return np.arange(begin, begin + extent).reshape(shape)

    def strided(self, forms: Sequence[LinearForm], shape: Sequence[int]) -> Pick | None:
        return strided_pick(forms, shape, self)

    def __add__(self, inner: InstanceBlock) -> InstanceBlock:
        """The box over the variables of both."""
        return InstanceBlock(
            self.variables + inner.variables, self.begins + inner.begins, self.shape + inner.shape
        )


def target_variables(shaped: p.ShapedStatement) -> tuple[str, ...]:
    """The left-hand variables in the order of the target's dimensions."""
    return tuple(name for s in shaped.statement.subscripts for name in p.index_names(s))


def choose_extents(
    shaped: p.ShapedStatement, memory_limit: int, *, lexicographic: bool
) -> dict[str, int]:
    """How long blocks are along each variable of a statement.

    The shortest ranges are split first: numpy's inner loops then run over the long ones. With
    `lexicographic`, the outermost variables are split first, so that blocks in order visit the
    instances in order, and the first failure found is the first there is (G7).
    """
    statement, ranges = shaped.statement, shaped.ranges
    budget = max(1, min(WORKING_SET_BYTES, memory_limit // ARITHMETIC_SHARE))
    peak = peak_memory((statement.rhs,))
    costs = peak + Counter({frozenset(statement.outer): 4 * _VALUE_BYTES})
    extents = {v: ranges[v].extent for v in statement.variables}
    order = target_variables(shaped) + statement.reduction
    if not lexicographic:
        order = tuple(sorted(order, key=lambda v: extents[v]))
    for variable in order:
        if _room(costs, extents) <= budget:
            break
        extents[variable] = _largest_fitting(costs, extents, variable, budget)
    return extents


def tiles(
    variables: tuple[str, ...], shaped: p.ShapedStatement, extents: Mapping[str, int]
) -> Iterator[InstanceBlock]:
    """The blocks of the ranges of some variables, in lexicographic order.

    No variables give the one block without axes; an empty range gives no block.
    """
    ranges = [shaped.ranges[v] for v in variables]
    steps = [max(1, extents[v]) for v in variables]
    begins = (range(r.begin, r.end, step) for r, step in zip(ranges, steps, strict=True))
    for corner in itertools.product(*begins):
        shape = tuple(
            min(step, r.end - begin) for r, step, begin in zip(ranges, steps, corner, strict=True)
        )
        yield InstanceBlock(variables, corner, shape)


def peak_memory(exprs: Sequence[p.Expr]) -> Counter[frozenset[str]]:
    """The bytes that evaluating expressions one after the other takes at most, each held to the
    end: by the variables that arrays of them spread over."""
    held: Counter[frozenset[str]] = Counter()
    peak: Counter[frozenset[str]] = Counter()
    for expr in exprs:
        own, spread = _peak(expr, frozenset())
        peak |= held + own
        held[spread] += _VALUE_BYTES
    return peak


def _peak(expr: p.Expr, guards: frozenset[str]) -> tuple[Counter[frozenset[str]], frozenset[str]]:
    """The peak memory of one expression behind guards, and the variables that its value spreads
    over.

    While an operand is computed, the operands before are held, and so are the masks of guards.
    """
    spread: frozenset[str] = frozenset((expr.name,)) if isinstance(expr, p.Index) else frozenset()
    held: Counter[frozenset[str]] = Counter()
    peak: Counter[frozenset[str]] = Counter()
    for child in p.children(expr):
        of_child, child_spread = _peak(child, guards)
        peak |= held + of_child
        held[child_spread] += _VALUE_BYTES
        spread |= child_spread
        if isinstance(expr, (p.Select, p.Logical)):
            guards |= spread
            held[guards] += 2
    own = Counter({spread: _weight(expr) * _VALUE_BYTES})
    if isinstance(expr, (p.Read, p.Binary)):
        own[spread | guards] += 2
    return peak | (held + own), spread


def _weight(expr: p.Expr) -> int:
    """The number of values that evaluating a node holds at once beside the operands: the result and
    scratch."""
    match expr:
        case p.Call(args=args):
            return 3 + 2 * len(args)
        case p.Binary(op="/" | "%") | p.Select():
            return 3
        case _:
            return 1


def _room(costs: Mapping[frozenset[str], int], extents: Mapping[str, int]) -> int:
    return sum(cost * math.prod(extents[v] for v in variables) for variables, cost in costs.items())


def _largest_fitting(
    costs: Mapping[frozenset[str], int], extents: Mapping[str, int], variable: str, budget: int
) -> int:
    """The largest extent within the budget (at least 1), evened out over the blocks it gives."""
    whole = extents[variable]
    fixed = _room(costs, {**extents, variable: 0})
    per_step = _room(costs, {**extents, variable: 1}) - fixed
    largest = max(1, min(whole, (budget - fixed) // max(1, per_step)))
    return -(-whole // -(-whole // largest)) if whole else 0


Pick: TypeAlias = Callable[[Array], Array]
"""Takes the elements that a block reads or writes out of an array of a tensor's shape."""


def strided_form(subscript: p.Expr, shaped: p.ShapedProgram) -> LinearForm | None:
    """A subscript as a sum of index variables times constants, or None. Where int64 would wrap
    around, its values lie outside of any tensor, so that it is then evaluated as it stands."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    return linear_form(subscript, known, exact=True)


def strided_pick(
    forms: Sequence[LinearForm], shape: Sequence[int], block: InstanceBlock
) -> Pick | None:
    """What a block reads through affine subscripts, as a view with one axis per block variable.

    None where some instance of the block would read outside the tensor.
    """
    box, corners = block.box, []
    first = {variable: low for variable, (low, _) in box.items()}
    for form, extent in zip(forms, shape, strict=True):
        low, high = form.interval(box)
        if low < 0 or high >= extent:
            return None
        corners.append(form.at(first))
    used = {variable for form in forms for variable in form.terms}
    lengths = tuple(
        extent if variable in used else 1
        for variable, extent in zip(block.variables, block.shape, strict=True)
    )
    # only along these are there steps to take: with one value, a factor may be beyond int64
    moving = {v for v, length in zip(block.variables, lengths, strict=True) if length > 1}

    def pick(array: Array) -> Array:
        steps = dict.fromkeys(block.variables, 0)
        for form, stride in zip(forms, array.strides, strict=True):
            for variable, factor in form.terms.items():
                if variable in moving:
                    steps[variable] += factor * stride
        place: tuple[Any, ...] = (*(slice(c, c + 1) for c in corners), Ellipsis)
        first = array[place]
        return np.lib.stride_tricks.as_strided(
            first, lengths, tuple(steps.values()), writeable=False
        )

    return pick


def gather_pick(places: Sequence[Array], shape: Sequence[int]) -> Pick:
    """What a block reads at computed places inside the tensor; 0 from a tensor without elements,
    where a read is never used or has already failed."""
    places = tuple(places)

    def pick(array: Array) -> Array:
        if 0 in shape:
            spread = np.broadcast_shapes(*(place.shape for place in places))
            return np.broadcast_to(np.zeros((), array.dtype), spread)
        return np.asarray(array[places])

    return pick


def target_pick(
    subscripts: Sequence[p.Expr], shaped: p.ShapedProgram, block: InstanceBlock
) -> Pick:
    """The place that a block of the left-hand variables writes, as a writable view."""
    slices: list[Any] = []
    for subscript in subscripts:
        form = strided_form(subscript, shaped)
        assert form is not None
        assert list(form.terms.values()) == [1]
        low, high = form.interval(block.box)
        slices.append(slice(low, high + 1))
    place = (*slices, Ellipsis)
    return lambda array: array[place]
