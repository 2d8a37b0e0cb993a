"""Which instances of a box a statement has (W1 to W3), and those that read an element (D21).

A range whose bounds are sums of other variables is inverted: where `j in 0:i+1` and an element has
the index j, the sum is over `i in j:N`. Bounds that do not fit so are conditions. Ranges that
tensors decide stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.gradient import terms as e
from tc.gradient.def_text import Comprehension, ExprBounds, index_names_of
from tc.gradient.inversion import as_condition
from tc.gradient.terms import SYMBOLS
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import ONE, Poly, linear, to_expr, to_poly


@dataclass(frozen=True, slots=True)
class Domain:
    """Which instances of a box a statement has: ranges that depend on variables or tensors (W2,
    W3), and conditions (W1). `exists` are reads that say the box of ranges that tensors decide."""

    within: Mapping[str, ExprBounds] = field(default_factory=dict)
    conditions: tuple[p.Expr, ...] = ()
    exists: tuple[p.Read, ...] = ()

    @property
    def is_box(self) -> bool:
        return not self.within and not self.conditions

    @property
    def tests(self) -> list[p.Expr]:
        """The conditions that an instance of the box is one of the statement."""
        ranges = [as_condition(c) for v, ends in self.within.items() for c in tests_of(v, ends)]
        return [*ranges, *self.conditions]

    def of(self, line: Comprehension) -> Comprehension:
        """The instances of a statement, of a box, that are in the domain."""
        within, conditions = self.within, self.conditions
        return replace(line, within=within, conditions=conditions, exists=self.exists)


def tests_of(variable: str, bounds: ExprBounds) -> tuple[p.Expr, p.Expr]:
    """The conditions that a variable lies in a range."""
    begin, end = bounds
    index = e.index(variable)
    return e.compare("<=", begin, index), e.compare("<", index, end)


def by_data(line: Comprehension, static: Container[str]) -> dict[str, ExprBounds]:
    """The ranges of a statement that tensors decide (W3); `static` are the scalars that stand for
    sizes."""
    return {v: bounds for v, bounds in line.within.items() if not _is_affine(bounds, static)}


def _is_affine(bounds: ExprBounds, static: Container[str]) -> bool:
    """Whether bounds are sums of variables and sizes (W2)."""
    nodes = (node for bound in bounds for node in p.walk(bound))
    if any(isinstance(node, p.Read) and node.tensor not in static for node in nodes):
        return False
    return all(linear(bound, SYMBOLS) is not None for bound in bounds)


def domain_at(
    line: Comprehension,
    static: Container[str],
    values: Mapping[str, p.Expr],
    loops: Mapping[str, ExprBounds],
    sizes: Mapping[str, p.Expr],
) -> Domain | None:
    """The domain of the instances that read an element, with `values` for the variables that were
    solved for and `loops` over others, where each index in `sizes` is below its size; None where a
    range that tensors decide has a variable among those that were solved for.

    >>> from tc.gradient.def_text import printed
    >>> upto = {"j": (e.ZERO, e.total(e.index("i"), e.number(1)))}
    >>> line = Comprehension("o", ("i",), "+=!", e.read("x", (e.index("j"),)), within=upto)
    >>> n = p.Size("N", span=e.NO_SPAN)
    >>> found = domain_at(line, (), {}, {"i": (e.ZERO, n)}, {"j": n, "i": n})
    >>> {v: [*map(printed, bounds)] for v, bounds in found.within.items()}
    {'i': ['j', 'N']}
    """
    kept = by_data(line, static)
    for variable, bounds in kept.items():
        named = {variable, *(n for bound in bounds for n in p.index_names(bound))}
        if named & values.keys():
            return None
    tests: list[p.Expr] = []
    for variable, (begin, end) in line.within.items():
        if variable not in kept:
            value = values.get(variable, e.index(variable))
            first, last = e.substituted(begin, values), e.substituted(end, values)
            tests += e.within(first, value, last, sizes)
    order = dict.fromkeys((*line.within, *loops))
    within: dict[str, ExprBounds] = {}
    for loop in order:
        if loop in loops and loop not in kept:
            own = [test for test in tests if loop in p.index_names(test)]
            found = _as_range(loop, loops[loop], own, sizes) if own else None
            if found is not None:
                within[loop] = found
                tests = [test for test in tests if test not in own]
    conditions = (c for condition in line.conditions for c in p.conjuncts(condition))
    placed = [c for each in conditions for c in e.simplified(e.substituted(each, values), sizes)]
    return Domain({**kept, **within}, (*tests, *placed))


def _as_range(
    loop: str, box: ExprBounds, tests: Sequence[p.Expr], sizes: Mapping[str, p.Expr]
) -> ExprBounds | None:
    """The range of a loop in which conditions hold, each of which has the loop; None where they say
    no range within the range `box`."""
    ends: tuple[list[Poly], list[Poly]] = ([], [])
    for test in tests:
        found = _end(loop, test)
        if found is None:
            return None
        is_end, bound = found
        ends[is_end].append(bound)
    if any(len(each) > 1 for each in ends):
        return None
    begin, end = (
        to_expr(own[0], SYMBOLS) if own else given for own, given in zip(ends, box, strict=True)
    )
    is_inside = not e.within(box[0], begin, e.total(begin, e.number(1)), sizes)
    is_inside &= not e.within(end, end, e.total(box[1], e.number(1)), sizes)
    return (begin, end) if is_inside else None


def _end(loop: str, test: p.Expr) -> tuple[bool, Poly] | None:
    """The begin or, with True, the end that a comparison says for a loop."""
    if not isinstance(test, p.Compare):
        return None
    left, right = (to_poly(side, SYMBOLS) for side in (test.left, test.right))
    rest = right - left - (ONE if test.op == "<" else ONE - ONE)  # at least 0
    alone = (e.index(loop),)
    factor = rest.terms.get(alone, 0)
    rest = rest.without(alone)
    if abs(factor) != 1 or any(loop in p.index_names(n) for term in rest.terms for n in term):
        return None
    if factor == 1:
        return False, rest * -1
    return True, rest + ONE


def reads_of_box(
    line: Comprehension,
    variables: Collection[str],
    made: Sequence[p.Expr],
    shapes: Mapping[str, tuple[p.Expr, ...]],
) -> Iterator[p.Read]:
    """Reads that say the boxes of ranges that tensors decide, of those `variables` whose box no
    read in the expressions `made` says as a read of the statement does."""

    def is_said(variable: str, read: p.Read) -> bool:
        end = line.where[variable][1]
        return any(
            subscript == e.index(variable) and shapes[read.tensor][axis] == end
            for axis, subscript in enumerate(read.subscripts)
            if read.tensor in shapes
        )

    def reads(exprs: Sequence[p.Expr]) -> Iterator[p.Read]:
        return (n for expr in exprs for n in p.walk(expr) if isinstance(n, p.Read))

    for variable in variables:
        if any(is_said(variable, read) for read in reads(made)):
            continue
        own = [r for r in line.all_reads if variable in index_names_of(r)]
        alone = [read for read in own if is_said(variable, read)]
        yield from (_of_variable(read, variable) for read in alone[:1] or own)


def _of_variable(read: p.Read, variable: str) -> p.Read:
    """The read at 0 in the dimensions that do not depend on a variable."""
    subscripts = (s if variable in p.index_names(s) else e.ZERO for s in read.subscripts)
    return p.Read(read.tensor, tuple(subscripts), read.dtype, -1, span=e.NO_SPAN)
