"""Inlining: a temporary that stencils read is computed where they read it, if that is cheaper.

`d(i) = x(i+1) - x(i)` and `o(i) = d(i+1) - d(i)` become `o(i) = (x(i+2) - x(i+1)) - (x(i+1) -
x(i))`: an element is computed twice, but none is stored and read again (Halide's `compute_inline`,
Ragan-Kelley et al. 2013, section 2). Rows that are read side by side share in registers what they
compute (`cpu.register_tiles`). A temporary that all statements read at the place of their own
indices is none of these: fusion keeps it in a register.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tc.polyhedral.rewrite.rewriting import Rewriting, operations_of, rewrite, without, writes_all
from tc.polyhedral.rewrite.simplifying import linear_expression
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.size_values import KnownSizes

MAX_NODES = 1 << 10
"""The most nodes of an expression into which temporaries are inlined."""


def inline(shaped: ShapedProgram, limits: Thresholds) -> ShapedProgram:
    """The program without element-wise temporaries that are cheaper to compute again than to store,
    computed where they are read; the very same where there are none.

    One statement writes all of the temporary, and computes it in the type that the temporary has.
    Nothing writes what this statement reads before the last one that reads the temporary is done.
    Statements with checks stay, and so does what they read.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N) x) -> (o) { d(i) = x(i+1) - x(i)  o(i) = d(i+1) - d(i) }"
    >>> program = infer_ranges(check(parse(Source(text))), {"x": (10,)}, {})
    >>> limits = Thresholds(stored=((1 << 20, 4.0),))
    >>> [s.text for s in inline(program, limits).program.statements]
    ['o(i) = x(i + 2) - x(i + 1) - (x(i + 1) - x(i))']
    """
    if not limits.stored:
        return shaped
    inlining = _Inlining(shaped, limits)
    for name in reversed(shaped.program.temporaries):
        inlining.settle(name)
    return inlining.program()


class _Inlining:
    """The statements of a program while temporaries are inlined, by their places; and which places
    write and read each tensor."""

    def __init__(self, shaped: ShapedProgram, limits: Thresholds) -> None:
        self._shaped, self._limits = shaped, limits
        self._known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
        self._rewriting = Rewriting(shaped, "inlined")
        self._statements = list(shaped.statements)
        self._gone: dict[str, int] = {}
        self._writers: dict[str, list[int]] = defaultdict(list)
        self._readers: dict[str, set[int]] = defaultdict(set)
        for place, each in enumerate(shaped.statements):
            self._writers[each.statement.target].append(place)
            for tensor in _tensors(each.statement.rhs):
                self._readers[tensor].add(place)

    def settle(self, name: str) -> None:
        """Computes a temporary where it is read, if that may be done and pays."""
        if len(self._writers[name]) != 1 or not self._readers[name]:
            return
        (place,), readers = self._writers[name], sorted(self._readers[name])
        writer, found = self._statements[place], [self._statements[n] for n in readers]
        if (
            place < readers[0]
            and self._may_move(name, place, readers[-1])
            and all(_may_hold(name, each) for each in found)
            and self._pays(name, writer, found)
        ):
            for n in readers:
                self._statements[n] = self._inlined(name, writer, self._statements[n])
            for tensor in _tensors(writer.statement.rhs):
                self._readers[tensor] -= {place}
                self._readers[tensor] |= set(readers)
            self._gone[name] = place

    def program(self) -> ShapedProgram:
        """The program with the statements as they are now."""
        if not self._gone:
            return self._shaped
        gone = frozenset(self._gone.values())
        places = {id(each): n for n, each in enumerate(self._shaped.statements)}

        def changed(old: ShapedStatement) -> list[ShapedStatement]:
            place = places[id(old)]
            return [] if place in gone else [self._statements[place]]

        return without(self._gone, self._rewriting.program(changed))

    def _may_move(self, name: str, place: int, last: int) -> bool:
        """Whether the statement at a place computes all of a temporary, in the temporary's type,
        of what nothing writes before the statement at the place `last` is done."""
        each, dtype = self._statements[place], self._shaped.program.tensors[name].dtype
        statement = each.statement
        if statement.op != "=" or statement.reduction or not writes_all(each, self._shaped):
            return False
        if statement.rhs.dtype != dtype or dtype.is_storage or not statement.outer:
            return False
        sources = _tensors(statement.rhs)
        return not any(place < n <= last for tensor in sources for n in self._writers[tensor])

    def _pays(self, name: str, writer: ShapedStatement, readers: Sequence[ShapedStatement]) -> bool:
        """Whether a temporary takes fewer operations where it is read than what storing it
        costs."""
        shapes, tensors = self._shaped.shapes, self._shaped.program.tensors
        elements, computed, is_moved = prod(shapes[name]), 0.0, False
        rhs, touched = writer.statement.rhs, {name}
        reads = (node for node in p.walk(rhs) if isinstance(node, p.Read))
        rows = len({(read.tensor, read.subscripts[:-1]) for read in reads})
        size = sum(1 for _ in p.walk(rhs))
        for each in readers:
            statement = each.statement
            uses = [n.subscripts for n in _reads(name, statement.rhs)]
            if sum(1 for _ in p.walk(statement.rhs)) + len(uses) * size > MAX_NODES:
                return False
            computed += self._copies({*uses}, rows) * prod(
                r.end - r.begin for r in each.ranges.values()
            )
            is_moved |= any(subscripts != statement.subscripts for subscripts in uses)
            touched |= {statement.target, *_tensors(statement.rhs)}
        again = operations_of(rhs) * (computed - elements)
        held = sum(prod(shapes[t]) * tensors[t].dtype.bytes for t in touched)
        return is_moved and again < self._limits.stored_operations(held) * elements

    def _copies(self, uses: set[tuple[p.Expr, ...]], rows_read: int) -> float:
        """How often a statement computes what it reads of a temporary at some places, where each
        place takes `rows_read` rows of tensors: once for all places that lie in one column, beside
        the rows at the edges of a tile whose rows are read side by side."""
        forms = [[linear_form(s, self._known, exact=True) for s in at] for at in uses]
        known = [[f for f in at if f is not None] for at in forms]
        fewest, rank = float(len(uses)), len(forms[0])
        for axis in range(rank - 1) if all(len(at) == rank for at in known) else ():
            columns: dict[object, list[int]] = defaultdict(list)
            for at in known:
                moved = (f.shifted(-f.constant) if d == axis else f for d, f in enumerate(at))
                column = tuple((f.constant, *f.terms.items()) for f in moved)
                columns[column].append(at[axis].constant)
            overlaps = [max(found) - min(found) for found in columns.values()]
            size = self._limits.tile_rows // max(1, rows_read) - max(overlaps)
            if size > 0:
                fewest = min(fewest, sum(1 + overlap / size for overlap in overlaps))
        return fewest

    def _inlined(
        self, name: str, writer: ShapedStatement, reader: ShapedStatement
    ) -> ShapedStatement:
        """A statement with what another one computes in place of what it reads of a temporary."""
        own = writer.statement
        names = [s.name for s in own.subscripts if isinstance(s, p.Index)]

        def value(node: p.Expr) -> p.Expr:
            if not isinstance(node, p.Read) or node.tensor != name:
                return node
            at = dict(zip(names, node.subscripts, strict=True))

            def moved(part: p.Expr) -> p.Expr:
                if isinstance(part, p.Index):
                    return at.get(part.name, part)
                if isinstance(part, p.Read):
                    return replace(part, subscripts=tuple(map(self._summed, part.subscripts)))
                return part

            return self._rewriting.again(rewrite(own.rhs, moved))

        rhs = rewrite(reader.statement.rhs, value)
        return self._rewriting.changed(replace(reader.statement, rhs=rhs), reader.ranges, reader)

    def _summed(self, subscript: p.Expr) -> p.Expr:
        """A subscript with its constants in one."""
        form = linear_form(subscript, self._known, exact=True)
        return subscript if form is None else linear_expression(form, subscript)


def _may_hold(name: str, reader: ShapedStatement) -> bool:
    """Whether a statement may compute what it reads of a temporary."""
    nodes = list(p.walk(reader.statement.rhs))
    asks = any(isinstance(node, p.Extent) and node.tensor == name for node in nodes)
    subscripts = (s for node in nodes if isinstance(node, p.Read) for s in node.subscripts)
    gathers = any(isinstance(part, p.Read) for s in subscripts for part in p.walk(s))
    return not (asks or gathers or reader.checked or reader.statement.reduction)


def _tensors(expr: p.Expr) -> set[str]:
    return {node.tensor for node in p.walk(expr) if isinstance(node, p.Read)}


def _reads(name: str, expr: p.Expr) -> list[p.Read]:
    return [n for n in p.walk(expr) if isinstance(n, p.Read) and n.tensor == name]
