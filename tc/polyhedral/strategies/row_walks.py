"""Statements that go over the rows of one matrix together (`polyhedral/rewrite/row_blocks.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.polyhedral.rewrite.splitting import is_partial
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement


@dataclass(frozen=True)
class RowWalks:
    """`rows` are the variables of each such statement that count blocks of rows, and rows in a
    block. The statements of a group go over one matrix."""

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
    found: dict[tuple[object, ...], dict[str, tuple[str, str]]] = {}
    for statement in scop.statements:
        for access in statement.accesses:
            for key, variables in _walk(statement, access):
                found.setdefault(key, {}).setdefault(statement.name, variables)
    rows: dict[str, tuple[str, ...]] = {}
    groups = []
    for walks in found.values():
        sums = (n for n, (_, row) in walks.items() if row in scop.statement(n).reduction)
        if any(map(is_partial, sums)) and not walks.keys() & rows.keys():
            rows |= walks
            groups.append(tuple(walks))
    for statement in scop.statements:
        whole = rows.get(statement.name.removesuffix(".init"), ())
        if statement.kind == "init" and whole:
            rows[statement.name] = tuple(v for v in whole if v in statement.variables)
    return RowWalks(rows, tuple(groups))


def _walk(
    statement: ScopStatement, access: Access
) -> Iterator[tuple[tuple[object, ...], tuple[str, str]]]:
    """What tells how an access, each of whose instances touches another element, goes over rows in
    blocks, with the variables that count blocks and rows; nothing where it goes otherwise."""
    first = access.subscripts[0] if len(access.subscripts) > 1 else None
    if first is None or len(first.terms) != 2:
        return
    row, block = sorted(first.terms, key=lambda v: abs(first.terms[v]))
    used = {v for s in access.subscripts if s is not None for v in s.terms}
    length = statement.ranges[row][1]
    long = {v for v, (begin, end) in statement.ranges.items() if end - begin > 1}
    if used >= long and first.terms == {row: 1, block: length}:
        key = (access.tensor, first.constant, statement.ranges[row], statement.ranges[block])
        yield key, (block, row)
