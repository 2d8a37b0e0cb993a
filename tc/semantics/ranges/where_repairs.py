"""Ranges as the `where` of a statement: the text to write, and the edits that write it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.edits import Edit, merged
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import Symbols, to_poly
from tc.semantics.ranges.rounds import ShapingContext
from tc.semantics.ranges.symbolic import to_text
from tc.semantics.suggest import before
from tc.source import Span


def written_where(
    context: ShapingContext, ranges: Mapping[str, str]
) -> tuple[str, tuple[Edit, ...]]:
    """The whole `where` of a statement once it has these ranges (texts such as "1:N", by variable),
    and the edits that give it them; no edits where the statement is one that has no `where`."""
    statement = context.statement
    clauses = {clause.variable: clause for clause in statement.where}
    texts = {name: f"{name} in {bounds}" for name, bounds in ranges.items()}
    alone = f"where {', '.join(texts.values())}"
    if any(access.is_made for access in context.accesses.written):
        return alone, ()
    source, (start, end) = statement.span.source, _where_of(statement.span)
    edits = [Edit(clauses[n].span, text) for n, text in texts.items() if n in clauses]
    new = ", ".join(text for name, text in texts.items() if name not in clauses)
    if start is None:
        edits.append(Edit(Span(source, end, end), f" where {new}"))
        return alone, tuple(edits)
    if new:
        edits.append(Edit(Span(source, end, end), f", {new}"))
    ends = (Edit(Span(source, start, start), ""), Edit(Span(source, end, end), ""))
    kept = [e for e in ends if not any(o.span.start <= e.span.start <= o.span.end for o in edits)]
    whole = " ".join(merged((*edits, *kept)).text.split())
    return (alone if "#" in whole else whole), tuple(edits)


def whole_shape(
    context: ShapingContext, ranges: Mapping[str, p.Range]
) -> tuple[str, tuple[Edit, ...]] | None:
    """What gives the target of a statement the shape that it needs, where another statement, which
    writes a part, has fixed a lesser one: its declaration as an output, or a statement that writes
    all of a temporary. None where no size is known to serve."""
    statement = context.statement
    target = context.tensors[statement.target]
    fixed = context.fixed_by.get(target.name)
    if target.shape is not None or fixed is None or target.span.text != target.name:
        return None
    dims = [_dimension(context, name, ranges) for name in statement.outer]
    if not all(dims) or fixed == statement.span or fixed.source != statement.span.source:
        return None
    if target.role == "output":
        declared = f"{target.dtype}({','.join(map(str, dims))}) {target.name}"
        return f"declare its shape: -> ({declared})", (Edit(target.span, declared),)
    clauses = ", ".join(f"{n} in 0:{d}" for n, d in zip(statement.outer, dims, strict=True))
    zero = f"{target.name}({', '.join(statement.outer)}) = 0 where {clauses}"
    return f"write all of it before: {zero}", (before(fixed, zero),)


def _dimension(context: ShapingContext, name: str, ranges: Mapping[str, p.Range]) -> str | None:
    """A size or a number to declare for what a variable walks through: the end of its range, or
    the extent of what it alone indexes elsewhere."""
    found = ranges.get(name)
    exprs = [(found.symbolic_end, found.end)] if found is not None else [
        (context.symbolic_extent(a), context.extent(a) or 0)
        for a in context.accesses.all
        if a.is_bare and name in a.variables and a.tensor != context.statement.target
    ]  # fmt: skip
    texts = (size_text(context, expr, value) for expr, value in exprs)
    return next((text for text in texts if re.fullmatch(r"\w+", text)), None)


def behind_parameters(span: Span, inputs: str) -> tuple[Edit, ...]:
    """The insertion of declarations behind the parameters of the def in which a span stands."""
    source, start = span.source, _def_at(span)
    text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), source.text)
    header = re.compile(r"def\s+\w+\s*\((?:[^()]|\([^()]*\))*").match(text, start)
    if header is None:
        return ()
    end = start + len(header[0].rstrip())
    gap = "" if header[0].rstrip().endswith("(") else ", "
    return (Edit(Span(source, end, end), gap + inputs),)


def _where_of(span: Span) -> tuple[int | None, int]:
    """Where the `where` of a statement begins, None if it has none, and where one ends, or would
    if it were written last."""
    text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), span.text)
    where = re.search(r"\bwhere\b", text)
    annotation = text.find("<=>")
    end = len(text)
    if where is not None and annotation > where.start():
        end = len(text[:annotation].rstrip())
    return None if where is None else span.start + where.start(), span.start + end


def size_text(context: ShapingContext, expr: p.Expr | None, value: int) -> str:
    """An expression of the sizes as a bound that the def of the statement can write, else the
    number: the sizes of a def that another one calls are its own."""
    if expr is None:
        return str(value)
    symbols = context.symbols
    span = context.statement.span
    names = {n.name for n in p.walk(expr) if isinstance(n, p.Size)}
    names |= {n.tensor for n in p.walk(expr) if isinstance(n, p.Extent | p.Read)}
    if context.statement.target in names:
        return str(value)
    entry = {size.span for size in symbols.sizes.values() if "." not in size.name}
    if not any("." in name for name in symbols.sizes) or _def_at(span) in map(_def_at, entry):
        return str(value) if any("." in name for name in names) else to_text(expr, compact=True)
    return _in_own_sizes(expr, symbols, span) or str(value)


def _in_own_sizes(expr: p.Expr, symbols: Symbols, span: Span) -> str | None:
    """The expression as a size of the def in which the span stands, and a number."""
    wanted = to_poly(expr, symbols)
    if wanted.is_constant:
        return to_text(expr, compact=True)
    for size in symbols.sizes.values():
        if "." not in size.name or _def_at(size.span) != _def_at(span):
            continue
        rest = wanted - to_poly(p.Size(size.name, span=size.span), symbols)
        if rest.is_constant:
            name, number = size.name.rpartition(".")[2], rest.constant
            return name if not number else f"{name}{number:+d}"
    return None


def _def_at(span: Span) -> int:
    """Where the def begins in which a span stands."""
    return span.source.text.rfind("def ", 0, span.start + 1)
