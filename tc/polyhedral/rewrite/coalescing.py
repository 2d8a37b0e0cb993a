"""Coalescing: adjacent dimensions that are only ever walked together become one.

`relu(n,c,h,w)` becomes a loop over one long contiguous dimension, and group norm's
`I(n,g,d,h,w)` has three. Fewer and longer loops are tiled, vectorised and split among threads
with less left over, and each further stage has fewer dimensions to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import NamedTuple, TypeAlias, TypeVar

from tc.dtypes import INT64
from tc.kernel.ir import row_major
from tc.polyhedral.rewrite.rewriting import (
    extent_as_number,
    rewrite,
    unused_name,
    with_shapes,
)
from tc.semantics import program as p

LIGHT = 8
"""A copy reads a temporary lightly that was written in that many times more instances."""

T = TypeVar("T")

Strides: TypeAlias = "Mapping[str, tuple[int, ...]]"


class Dimensions(NamedTuple):
    """Two adjacent dimensions of a tensor."""

    tensor: str
    first: int


class Variables(NamedTuple):
    """Two variables of a statement that subscript adjacent dimensions."""

    statement: int
    first: str
    second: str


MergedPair: TypeAlias = Dimensions | Variables


def coalesce(
    shaped: p.ShapedProgram, strides: Strides, *, lightly_read: bool = False
) -> tuple[p.ShapedProgram, Strides]:
    """The program with dimensions merged where that changes no access, and its strides.

    `strides` gives the strides, in elements, of inputs that are not row-major, before and after.
    Two adjacent dimensions are merged where every access of the program to the tensor subscripts
    them with two bare variables `u, v`, where `v` runs over its whole dimension, where both
    variables stand nowhere else than as such a pair (in no condition, no arithmetic, no other
    subscript), where all that holds of the other tensors that the pair subscripts too, and where
    the strides make one dimension of two. The new variable `u_v` runs over the product, so the
    same elements are visited; whether `u` runs over its whole dimension does not matter.
    Temporaries that are `lightly_read`, by copies of far fewer instances than the sums that have
    written them, are merged for these: copies read at `extent(v) * u + v`, and share no loops with
    them.

    The tensors of the result have fewer dimensions but the same elements at the same addresses:
    a kernel made from it runs on the arrays of the original program, inputs, outputs and
    temporaries alike. What the caller allocates or shows, it takes from the original program.
    Statements with checks (G7) keep their variables, whose values the error tells. A program in
    which nothing can be merged is returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N,H,W) x, float(N) s) -> (y) { y(n,h,w) = s(n) * x(n,h,w) }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"x": (2, 3, 4), "s": (2,)}, {})
    >>> merged, _ = coalesce(shaped, {})
    >>> merged.shapes
    {'x': (2, 12), 's': (2,), 'y': (2, 12)}
    >>> merged.statements[0].statement.variables
    ('n', 'h_w')
    >>> _, strides = coalesce(shaped, {"x": (24, 8, 2)})
    >>> strides
    {'x': (24, 2)}
    >>> coalesce(shaped, {"x": (12, 1, 3)})[0] is shaped
    True
    """
    while (merges := _find_merges(shaped, strides, lightly_read=lightly_read)).axes:
        strides = _merged_strides(merges, strides)
        shaped = _merged_program(merges)
    return shaped, strides


@dataclass(frozen=True)
class _Merges:
    """What to merge at once: the first dimensions of pairs by tensor, and by statement the second
    variable of each first one."""

    shaped: p.ShapedProgram
    axes: Mapping[str, set[int]]
    variables: Mapping[int, Mapping[str, str]]

    def of(self, tensor: str) -> set[int]:
        return self.axes.get(tensor, set())


# --- what can be merged -----------------------------------------------------------------------


@dataclass
class _Classes:
    """Dimensions and pairs of variables that must be merged together or not at all."""

    parents: dict[MergedPair, MergedPair] = field(default_factory=dict)
    bad: set[MergedPair] = field(default_factory=set)

    def find(self, pair: MergedPair) -> MergedPair:
        self.parents.setdefault(pair, pair)
        while (parent := self.parents[pair]) != pair:
            self.parents[pair] = pair = self.parents[parent]
        return pair

    def join(self, first: MergedPair, second: MergedPair) -> None:
        self.parents[self.find(first)] = self.find(second)

    def good(self) -> Iterator[list[MergedPair]]:
        """The classes without a bad member, in the order in which they were met."""
        bad = {self.find(pair) for pair in self.bad}
        members: dict[MergedPair, list[MergedPair]] = {}
        for pair in self.parents:
            members.setdefault(self.find(pair), []).append(pair)
        return (pairs for root, pairs in members.items() if root not in bad)


def _find_merges(shaped: p.ShapedProgram, strides: Strides, *, lightly_read: bool) -> _Merges:
    classes = _Classes()
    for position in range(len(shaped.statements)):
        light = _read_lightly(position, shaped) if lightly_read else ()
        _relate(position, shaped, light, classes)
    axes: dict[str, set[int]] = {}
    variables: dict[int, dict[str, str]] = {}
    for pairs in classes.good():
        dimensions = [pair for pair in pairs if isinstance(pair, Dimensions)]
        if _overlap(dimensions, axes) or not all(_are_one(d, shaped, strides) for d in dimensions):
            continue
        for pair in pairs:
            if isinstance(pair, Dimensions):
                axes.setdefault(pair.tensor, set()).add(pair.first)
            else:
                variables.setdefault(pair.statement, {})[pair.first] = pair.second
    return _Merges(shaped, axes, variables)


def _read_lightly(position: int, shaped: p.ShapedProgram) -> frozenset[str]:
    """The temporaries that took far more instances to write than a statement has, a copy."""

    def instances(each: p.ShapedStatement) -> int:
        return prod(r.extent for r in each.ranges.values())

    light = shaped.statements[position]
    if light.checked or not isinstance(light.statement.rhs, p.Read) or light.statement.reduction:
        return frozenset()
    writers: dict[str, list[int]] = {}
    for each in shaped.statements:
        writers.setdefault(each.statement.target, []).append(instances(each))
    most = {t: max(writers[t]) for t in shaped.program.temporaries if t in writers}
    return frozenset(t for t, n in most.items() if LIGHT * instances(light) <= n)


def _relate(
    position: int, shaped: p.ShapedProgram, light: Container[str], classes: _Classes
) -> None:
    """Relates the dimensions that a statement touches with the pairs of its variables; what the
    statement reads of `light` temporaries may be at any places."""
    statement, ranges = shaped.statements[position].statement, shaped.statements[position].ranges
    uses: Counter[str] = Counter()
    paired: Counter[Variables] = Counter()
    accesses = [(statement.target, statement.subscripts, False)]
    roots = (*statement.subscripts, *statement.conditions, statement.rhs)
    for node in (n for root in roots for n in p.walk(root)):
        if isinstance(node, p.Index):
            uses[node.name] += 1
        elif isinstance(node, p.Read):
            accesses.append((node.tensor, node.subscripts, node.tensor in light))
    found: list[tuple[Dimensions, Variables | None, bool]] = []
    for tensor, subscripts, is_free in accesses:
        for axis, (first, second) in enumerate(pairwise(subscripts)):
            dimensions, pair = Dimensions(tensor, axis), None
            match first, second:
                case p.Index(name=u), p.Index(name=v) if _is_whole(ranges[v], dimensions, shaped):
                    pair = Variables(position, u, v)
                    paired[pair] += 1
            found.append((dimensions, pair, is_free))
    is_checked = bool(shaped.statements[position].checked)
    for dimensions, pair, is_free in found:
        is_good = pair is not None and paired[pair] == uses[pair.first] == uses[pair.second]
        if pair is not None and is_good and not is_checked:
            classes.join(dimensions, pair)
        elif not is_free:
            classes.bad.add(dimensions)


def _is_whole(range_: p.Range, dimensions: Dimensions, shaped: p.ShapedProgram) -> bool:
    """Whether a variable runs over all of the second dimension."""
    return (range_.begin, range_.end) == (0, shaped.shapes[dimensions.tensor][dimensions.first + 1])


def _are_one(dimensions: Dimensions, shaped: p.ShapedProgram, strides: Strides) -> bool:
    """Whether two dimensions are one in memory; where one has a single element, any are."""
    tensor, axis = dimensions
    outer, inner = shaped.shapes[tensor][axis : axis + 2]
    if tensor not in strides or outer <= 1 or inner <= 1:
        return True
    return strides[tensor][axis] == strides[tensor][axis + 1] * inner


def _overlap(found: Iterable[Dimensions], axes: Mapping[str, set[int]]) -> bool:
    """Whether a dimension would be merged twice, among those found or with those of `axes`."""
    met = {name: set(merged) for name, merged in axes.items()}
    for tensor, axis in found:
        merged = met.setdefault(tensor, set())
        if merged & {axis - 1, axis, axis + 1}:
            return True
        merged.add(axis)
    return False


# --- the merged program -----------------------------------------------------------------------


def _merged_strides(merges: _Merges, strides: Strides) -> Strides:
    result = {}
    for name, old in strides.items():
        shape, axes = merges.shaped.shapes[name], merges.of(name)
        # the step of the first dimension counts only where the second has a single element
        steps = (
            old[axis + 1] if axis in axes and shape[axis + 1] != 1 else step
            for axis, step in enumerate(old)
        )
        new = _without_second(tuple(steps), axes)
        if new != row_major(_merged_shape(shape, axes)):
            result[name] = new
    return result


def _merged_program(merges: _Merges) -> p.ShapedProgram:
    shaped = merges.shaped
    shapes = {name: _merged_shape(s, merges.of(name)) for name, s in shaped.shapes.items()}
    statements = (_merged_statement(n, merges) for n in range(len(shaped.statements)))
    return with_shapes(shaped, shapes, statements)


def _merged_statement(position: int, merges: _Merges) -> p.ShapedStatement:
    shaped_statement, program = merges.shaped.statements[position], merges.shaped.program
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    pairs = merges.variables.get(position, {})
    names = {*program.tensors, *program.sizes, *statement.variables}
    new_names: dict[str, str] = {}
    for first, second in pairs.items():
        new_names[first] = unused_name(f"{first}_{second}", {*names, *new_names.values()})
    gone = set(pairs.values())
    kept = {v: new_names.get(v, v) for v in statement.variables if v not in gone}

    def subscripts(tensor: str, old: tuple[p.Expr, ...]) -> tuple[p.Expr, ...]:
        shape, axes = merges.shaped.shapes[tensor], merges.of(tensor)
        new = [replace(s, name=kept.get(s.name, "")) if isinstance(s, p.Index) else s for s in old]
        for axis in axes:
            first, second = old[axis : axis + 2]
            if not (isinstance(first, p.Index) and first.name in pairs):
                new[axis] = _at(first, second, shape[axis + 1])
        return _without_second(tuple(new), axes)

    def change(node: p.Expr) -> p.Expr:
        if isinstance(node, p.Read) and node.tensor in merges.axes:
            return replace(node, subscripts=subscripts(node.tensor, node.subscripts))
        return extent_as_number(node, merges.axes, merges.shaped)

    merged_statement = replace(
        statement,
        # concat's offsets are extents of its sources
        subscripts=tuple(
            rewrite(s, change) for s in subscripts(statement.target, statement.subscripts)
        ),
        conditions=tuple(rewrite(condition, change) for condition in statement.conditions),
        outer=tuple(kept[v] for v in statement.outer if v in kept),
        variables=tuple(kept.values()),
        rhs=rewrite(statement.rhs, change),
        where=(),
        exists=(),
        variable_spans={},
    )
    merged_ranges = {}
    for v, name in kept.items():  # u * extent(v) + v, v from 0
        inner = ranges[pairs[v]].end if v in pairs else 1
        merged_ranges[name] = p.Range(ranges[v].begin * inner, ranges[v].end * inner)
    walk = shaped_statement.walk
    if walk is not None:
        walk = replace(walk, variables=tuple(kept[v] for v in walk.variables if v in kept))
    return replace(shaped_statement, statement=merged_statement, ranges=merged_ranges, walk=walk)


def _at(first: p.Expr, second: p.Expr, inner: int) -> p.Expr:
    """A place in two dimensions that are one, the second of so many elements."""
    extent = p.Literal(inner, INT64, span=first.span)
    row = p.Binary("*", extent, first, INT64, span=first.span)
    return p.Binary("+", row, second, INT64, span=first.span)


def _merged_shape(shape: tuple[int, ...], axes: Container[int]) -> tuple[int, ...]:
    products = (e * shape[a + 1] if a in axes else e for a, e in enumerate(shape))
    return _without_second(tuple(products), axes)


def _without_second(per_axis: tuple[T, ...], axes: Container[int]) -> tuple[T, ...]:
    return tuple(value for axis, value in enumerate(per_axis) if axis - 1 not in axes)
