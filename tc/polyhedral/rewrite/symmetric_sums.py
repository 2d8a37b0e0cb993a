"""Sums of which two indices may be swapped, computed for one half of the elements.

`C(i,j) +=! A(k,i) * A(k,j)` has the same products in the same order at (i,j) and at (j,i). It is
computed in strips of rows, each from the column of its first row on, and what lies left of a strip
is copied from above the diagonal: with n strips, n + 1 of 2 n parts of the products are left. What
the statements behind a sum make of each element in its place, if that is symmetric too, is computed
in the strips. All elements have the bits that they had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, pairwise, takewhile
from math import prod

from tc.affine.intervals import surely
from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.rewriting import Rewriting, operations_of, rewrite, writes_all
from tc.polyhedral.rewrite.sums_in_place import sum_in_place
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics import program as p
from tc.semantics.program import Range, ShapedProgram, ShapedStatement

_COMMUTATIVE = frozenset({"+", "*", "==", "!=", "&", "|", "^"})
"""Operators whose operands may be exchanged: the bits of a result are the same."""

_MIRRORED = "mirrored"
"""Behind the name of a statement: a copy of what that has computed."""


def is_mirrored(statement: str) -> bool:
    """Whether a statement of that name copies what lies right of the diagonal.

    >>> is_mirrored("S0.mirrored1"), is_mirrored("S0.piece1")
    (True, False)
    """
    return f".{_MIRRORED}" in statement


def halve(shaped: ShapedProgram, limits: Thresholds) -> ShapedProgram:
    """The program with symmetric sums in up to `limits.mirrored` strips and copies of these, where
    that saves operations by `limits.order`; the very same where there are none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(K,N) A) -> (C) { C(i,j) +=! A(k,i) * A(k,j) }")
    >>> shaped = infer_ranges(check(parse(source)), {"A": (1000, 256)}, {})
    >>> for s in halve(shaped, Thresholds(mirrored=2)).statements:
    ...     print(s.statement.text, [(r.begin, r.end) for r in s.ranges.values()])
    C(i, j) +=! A(k, i) * A(k, j) [(0, 128), (0, 256), (0, 1000)]
    C(i, j) +=! A(k, i) * A(k, j) [(128, 256), (128, 256), (0, 1000)]
    C(i, j) = C(j, i) [(128, 256), (0, 128)]
    """
    if not limits.mirrored:
        return shaped
    original, shaped = shaped, sum_in_place(shaped)
    rewriting = Rewriting(shaped, "mirrored")
    made: dict[int, list[ShapedStatement]] = {}
    for place, old in enumerate(shaped.statements):
        found = _symmetry(old, shaped)
        if found is None:
            continue
        in_place = partial(found.holds_in_place, shaped=shaped)
        group = [old, *takewhile(in_place, shaped.statements[place + 1 :])]
        ends = _strips(group, found, limits)
        if ends is not None:
            made |= {id(each): [] for each in group}
            made[id(old)] = list(_halved(group, found, ends, rewriting))
    return rewriting.program(lambda old: made.get(id(old))) if made else original


@dataclass(frozen=True)
class _Symmetry:
    """A tensor, and two dimensions whose places may be swapped: each element is the same then."""

    tensor: str
    rows: int
    columns: int

    def variables(self, statement: p.Statement) -> tuple[str, str]:
        """The variables of the rows and columns of a statement that writes all of the tensor."""
        return statement.outer[self.rows], statement.outer[self.columns]

    def holds(self, statement: p.Statement) -> bool:
        """Whether what a statement computes has the same bits for swapped variables, if the tensor
        is symmetric."""
        one, two = statement.rhs, self.swapped(statement.rhs, statement)
        return repr(rewrite(one, self._ordered)) == repr(rewrite(two, self._ordered))

    def swapped(self, expr: p.Expr, statement: p.Statement) -> p.Expr:
        """An expression of a statement with the variables of rows and columns swapped."""
        row, column = self.variables(statement)
        other = {row: column, column: row}

        def swap(node: p.Expr) -> p.Expr:
            if isinstance(node, p.Index):
                return replace(node, name=other.get(node.name, node.name))
            return node

        return rewrite(expr, swap)

    def _ordered(self, node: p.Expr) -> p.Expr:
        """A node of which operands that may be exchanged have an order, and whose place in the
        program is gone; the tensor is read at the place of the statement alone."""
        if isinstance(node, p.Read):
            own = node.tensor == self.tensor
            subscripts = sorted(node.subscripts, key=repr) if own else node.subscripts
            return replace(node, site=0, subscripts=tuple(subscripts))
        if isinstance(node, (p.Binary, p.Compare)) and node.op in _COMMUTATIVE:
            node = p.with_children(node, tuple(sorted(p.children(node), key=repr)))
        return replace(node, site=0) if isinstance(node, p.Binary) else node

    def holds_in_place(self, each: ShapedStatement, shaped: ShapedProgram) -> bool:
        """Whether a statement gives each element another value that follows from the one at its
        place, and leaves the tensor symmetric."""
        statement = each.statement
        own = (
            n for n in p.walk(statement.rhs) if isinstance(n, p.Read) and n.tensor == self.tensor
        )
        return (
            statement.target == self.tensor
            and statement.op == "="
            and writes_all(each, shaped)
            and all(read.subscripts == statement.subscripts for read in own)
            and self.holds(statement)
        )


def _symmetry(old: ShapedStatement, shaped: ShapedProgram) -> _Symmetry | None:
    """Two dimensions in which what a statement sums, starting afresh, is symmetric."""
    statement, shape = old.statement, shaped.shapes[old.statement.target]
    reads = (n.tensor for n in p.walk(statement.rhs) if isinstance(n, p.Read))
    if not statement.reduction or not statement.init or old.is_empty:
        return None
    is_rounded = shaped.program.tensors[statement.target].dtype != statement.rhs.dtype
    if statement.target in reads or is_rounded or not writes_all(old, shaped):
        return None
    pairs = (_Symmetry(statement.target, *pair) for pair in combinations(range(len(shape)), 2))
    square = (each for each in pairs if surely(shape[each.rows], "==", shape[each.columns]))
    return next((each for each in square if each.holds(statement)), None)


def _strips(group: list[ShapedStatement], found: _Symmetry, limits: Thresholds) -> list[int] | None:
    """Where the strips of rows begin, and the last one ends: those of the fewest operations; None
    where these are not fewer by `limits.order.gain` than those of all elements."""
    old, costs = group[0], limits.order
    row, _ = found.variables(old.statement)
    extents = {v: at_hint(r.extent) for v, r in old.ranges.items()}
    size = extents[row]
    others = prod(n for v, n in extents.items() if v in old.statement.outer) // size**2
    terms = prod(extents[v] for v in old.statement.reduction)
    each = terms * max(operations_of(old.statement.rhs), 1)

    def operations(ends: list[int]) -> float:
        computed = sum((end - begin) * (size - begin) for begin, end in pairwise(ends))
        made = (len(group) + 1) * (len(ends) - 2)
        return (
            others * (computed * each + (size**2 - computed) * costs.moved) + made * costs.statement
        )

    lengths = {-(-size // (n * limits.strip)) * limits.strip for n in range(1, limits.mirrored + 1)}
    ends = [[*range(0, size, length), size] for length in sorted(lengths, reverse=True)]
    best = min(ends, key=operations)
    if operations([0, size]) < costs.gain * operations(best):
        return None
    return [*best[:-1], old.ranges[row].extent]


def _halved(
    group: list[ShapedStatement], found: _Symmetry, ends: list[int], rewriting: Rewriting
) -> Iterator[ShapedStatement]:
    """The statements of a sum, and of what is made of it in place, strip by strip; then the copies
    of what lies right of the diagonal to what lies left of it."""
    strips = list(pairwise(ends))
    pieces = []
    for old in group:
        row, column = found.variables(old.statement)
        own = [{row: Range(*strip), column: Range(strip[0], ends[-1])} for strip in strips]
        made = [(old.statement, {**old.ranges, **ranges}) for ranges in own]
        pieces.append(rewriting.pieces(old, made))
    yield from chain.from_iterable(zip(*pieces, strict=True))
    statement = group[-1].statement
    row, column = found.variables(statement)
    read = p.Read(found.tensor, statement.subscripts, statement.rhs.dtype, 0, span=statement.span)
    other, variables = found.swapped(read, statement), statement.outer
    copy = replace(statement, variables=variables, op="=", init=False)
    for number, (begin, end) in enumerate(strips[:-1]):
        ranges = {v: group[-1].ranges[v] for v in variables}
        ranges |= {row: Range(end, ends[-1]), column: Range(begin, end)}
        name = f"{statement.name}.{_MIRRORED}{number}"
        copy = replace(copy, name=name, rhs=rewriting.again(other))
        yield rewriting.changed(copy, ranges, group[-1])
