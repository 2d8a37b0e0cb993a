"""Statements that go over the rows of one matrix together (`polyhedral/rewrite/row_blocks.py`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod

from tc.affine.forms import LinearForm
from tc.polyhedral.rewrite.row_blocks import MOST_TIMES, NARROW
from tc.polyhedral.rewrite.splitting import is_partial, name_of_partial
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement

LEAST_COLUMNS = 16
"""Rows of so many elements, a line of floats, or more are walked from end to end."""


@dataclass(frozen=True)
class RowWalks:
    """`rows` are the variables of each such statement that count blocks of rows, and then those
    that count rows in a block. The statements of a group go over one matrix."""

    rows: Mapping[str, tuple[str, ...]]
    groups: tuple[tuple[str, ...], ...]

    def columns(self, statement: ScopStatement, used: Sequence[str]) -> tuple[str, ...]:
        """The variables whose loops a statement may share next, inside of loops along those that
        are `used`: first blocks, then rows, then what else its target has."""
        left = tuple(v for v in self.rows.get(statement.name, ()) if v not in used)
        if not used:
            left = tuple(v for v in left if v in statement.outer)
        return left or tuple(v for v in statement.outer if v not in used)

    def starts_first(
        self, scop: Scop, names: list[str], used: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """The statements with the starts of sums of columns in front, inside of a loop over blocks:
        what starts a temporary may do so at any time before."""
        starts = [
            n
            for n in names
            if n in self.rows and scop.statement(n).kind == "init" and self.rows[n] == (*used[n],)
        ]
        return [*starts, *(n for n in names if n not in starts)]


def row_walks(scop: Scop) -> RowWalks:
    """The statements of a scop that go over rows of a matrix in blocks of equal length, where one
    of them is a partial sum of columns."""
    found: dict[tuple[object, ...], dict[str, tuple[str, ...]]] = {}
    for statement in scop.statements:
        whole = (s for s in scop.statements if name_of_partial(s.name) == statement.name)
        summed = {v for s in whole for v in s.reduction}
        for access in statement.accesses:
            key, variables = _walk(statement, access, summed)
            if variables:
                found.setdefault(key, {}).setdefault(statement.name, variables)
    rows: dict[str, tuple[str, ...]] = {}
    groups = []
    for walks in found.values():
        sums = (n for n, own in walks.items() if own[-1] in scop.statement(n).reduction)
        if any(map(is_partial, sums)) and not walks.keys() & rows.keys():
            rows |= walks
            groups.append(tuple(walks))
    for statement in scop.statements:
        counted = rows.get(statement.name.removesuffix(".init"), ())
        if statement.kind == "init" and counted:
            rows[statement.name] = tuple(v for v in counted if v in statement.variables)
    return RowWalks(rows, tuple(groups))


def _walk(
    statement: ScopStatement, access: Access, summed: Container[str]
) -> tuple[tuple[object, ...], tuple[str, ...]]:
    """What tells how an access goes over rows in blocks, with the variables that count blocks and
    rows; none where it goes otherwise. Each instance touches another element, or, of a partial sum,
    one for few rows of results. The results of a partial sum are `summed` over blocks."""
    digits = [_digits(statement, subscript) for subscript in access.subscripts]
    used = {v for s in access.subscripts if s is not None for v in s.terms}
    long = {v for v, (begin, end) in statement.ranges.items() if end - begin > 1}
    first = access.subscripts[0] if len(digits) > 1 else None
    others = [statement.ranges[v] for v in long - used]
    times = prod(end - begin for begin, end in others)
    if first is None or times > (MOST_TIMES if is_partial(statement.name) else 1):
        return (), ()
    rows: tuple[str, ...] = digits[0] if len(digits[0]) == 2 else ()
    if is_partial(statement.name):
        order = [v for own in digits for v in own]
        blocks = tuple(takewhile(lambda v: v in summed, order))
        sums = tuple(takewhile(lambda v: v in statement.reduction, order[len(blocks) :]))
        columns = (statement.ranges[v] for v in order[len(blocks) + len(sums) :])
        least = LEAST_COLUMNS if times == 1 else NARROW + 1
        is_long = prod(end - begin for begin, end in columns) >= least
        if is_long and {*sums} == {*statement.reduction}:
            rows = (*blocks, *sums)
    return (access.tensor, first.constant, *(statement.ranges[v] for v in digits[0])), rows


def _digits(statement: ScopStatement, subscript: LinearForm | None) -> tuple[str, ...]:
    """The variables that count along a dimension, one or that of blocks and that of rows in them;
    none where these are others."""
    terms = {} if subscript is None else dict(subscript.terms)
    order = sorted(terms, key=lambda v: abs(terms[v]))
    length = statement.ranges[order[0]][1] if order else 0
    is_counted = list(map(terms.get, order)) in ([1], [1, length])
    return tuple(reversed(order)) if is_counted else ()
