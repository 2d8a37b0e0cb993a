"""Inlining: a temporary that stencils read is computed where they read it, if that is cheaper.

`d(i) = x(i+1) - x(i)` and `o(i) = d(i+1) - d(i)` become `o(i) = (x(i+2) - x(i+1)) - (x(i+1) -
x(i))`: an element is computed twice, but none is stored and read again (Halide's `compute_inline`,
Ragan-Kelley et al. 2013, section 2). A temporary that all statements read at the place of their own
indices is none of these: fusion keeps it in a register.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tc.dtypes import FLOAT16
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
    for name in reversed(shaped.program.temporaries):
        writer = _writer(name, shaped)
        if writer is not None and _pays(name, writer, shaped, limits):
            shaped = _inlined(name, writer, shaped)
    return shaped


def _writer(name: str, shaped: ShapedProgram) -> ShapedStatement | None:
    """The statement that computes a temporary, where that may be done elsewhere too."""
    places = [n for n, s in enumerate(shaped.statements) if s.statement.target == name]
    readers = [n for n, s in enumerate(shaped.statements) if _reads(name, s)]
    if len(places) != 1 or not readers or places[0] >= readers[0]:
        return None
    each = shaped.statements[places[0]]
    statement, dtype = each.statement, shaped.program.tensors[name].dtype
    if statement.op != "=" or statement.reduction or not writes_all(each, shaped):
        return None
    if statement.rhs.dtype != dtype or dtype == FLOAT16 or not statement.outer:
        return None
    sources = {node.tensor for node in p.walk(statement.rhs) if isinstance(node, p.Read)}
    until = shaped.statements[places[0] + 1 : readers[-1] + 1]
    if any(s.statement.target in sources for s in until):
        return None
    found = [shaped.statements[n] for n in readers]
    return each if all(_may_hold(name, reader) for reader in found) else None


def _may_hold(name: str, reader: ShapedStatement) -> bool:
    """Whether a statement may compute what it reads of a temporary."""
    nodes = list(p.walk(reader.statement.rhs))
    asks = any(isinstance(node, p.Extent) and node.tensor == name for node in nodes)
    subscripts = (s for node in nodes if isinstance(node, p.Read) for s in node.subscripts)
    gathers = any(isinstance(part, p.Read) for s in subscripts for part in p.walk(s))
    return not (asks or gathers or reader.checked or reader.statement.reduction)


def _reads(name: str, each: ShapedStatement) -> list[p.Read]:
    """The different reads of a temporary by a statement."""
    nodes = p.walk(each.statement.rhs)
    found = {n.subscripts: n for n in nodes if isinstance(n, p.Read) and n.tensor == name}
    return list(found.values())


def _pays(name: str, writer: ShapedStatement, shaped: ShapedProgram, limits: Thresholds) -> bool:
    """Whether a temporary takes fewer operations where it is read than what storing it costs."""
    elements, computed, moved, nodes = prod(shaped.shapes[name]), 0, False, 0
    touched = {writer.statement.target}
    size = sum(1 for _ in p.walk(writer.statement.rhs))
    for each in shaped.statements:
        reads = _reads(name, each)
        if not reads:
            continue
        statement = each.statement
        computed += len(reads) * prod(r.end - r.begin for r in each.ranges.values())
        moved |= any(read.subscripts != statement.subscripts for read in reads)
        own = list(p.walk(statement.rhs))
        uses = sum(1 for n in own if isinstance(n, p.Read) and n.tensor == name)
        nodes = max(nodes, len(own) + uses * size)
        touched |= {statement.target, *(n.tensor for n in own if isinstance(n, p.Read))}
    again = operations_of(writer.statement.rhs) * (computed - elements)
    tensors = shaped.program.tensors
    held = sum(prod(shaped.shapes[t]) * tensors[t].dtype.bytes for t in touched)
    return moved and nodes <= MAX_NODES and again < limits.stored_operations(held) * elements


def _inlined(name: str, writer: ShapedStatement, shaped: ShapedProgram) -> ShapedProgram:
    """The program with what a statement computes in place of the reads of a temporary."""
    rewriting, own = Rewriting(shaped, "inlined"), writer.statement
    names = [s.name for s in own.subscripts if isinstance(s, p.Index)]

    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)

    def sum_of(subscript: p.Expr) -> p.Expr:
        form = linear_form(subscript, known, exact=True)
        return subscript if form is None else linear_expression(form, subscript)

    def value(node: p.Expr) -> p.Expr:
        if not isinstance(node, p.Read) or node.tensor != name:
            return node
        at = dict(zip(names, node.subscripts, strict=True))

        def moved(part: p.Expr) -> p.Expr:
            if isinstance(part, p.Index):
                return at.get(part.name, part)
            if isinstance(part, p.Read):
                return replace(part, subscripts=tuple(map(sum_of, part.subscripts)))
            return part

        return rewriting.again(rewrite(own.rhs, moved))

    def changed(old: ShapedStatement) -> list[ShapedStatement] | None:
        if old is writer:
            return []
        if not _reads(name, old):
            return None
        rhs = rewrite(old.statement.rhs, value)
        return [rewriting.changed(replace(old.statement, rhs=rhs), old.ranges, old)]

    return without({name}, rewriting.program(changed))
