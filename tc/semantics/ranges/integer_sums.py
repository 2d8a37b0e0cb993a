"""Sums and products of integers that lose what they are meant to hold: those of narrow types, which
wrap around (Y3, Y4), and means whose terms are rounded down before they are added (Y4).

The types stay; a call is told once, with the cast to write. What the text casts itself, to the type
that it has anyway, is meant so, and so is an output that is declared with a narrow type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tc.affine import intervals
from tc.affine.intervals import Box, is_empty
from tc.builtins import BIT_FUNCTIONS
from tc.dtypes import BOOL, INT64, SPELLINGS, DType, limits
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.size_values import KnownSizes, evaluate
from tc.semantics.suggest import one_line
from tc.source import Edit, Span, merged


@dataclass(frozen=True, slots=True)
class IndexInterval:
    """All integers from `low` to `high`. `clean`: no operation below may wrap around, divide by
    zero, or take a value that only running the program shows to fit."""

    low: int
    high: int
    clean: bool = True

    def within(self, begin: int, end: int) -> bool:
        return begin <= self.low and self.high < end


def interval_of(expr: p.Expr, known: KnownSizes, box: Box[str]) -> IndexInterval:
    """The interval of a bool or integer expression for index values in a nonempty box.

    What a wrapped operation may give is its whole type. Subscripts of reads are not looked at,
    nor are operands of floating type.
    """
    match expr:
        case p.Literal(value=number):
            return IndexInterval(int(number), int(number))
        case p.Index(name=name):
            return IndexInterval(*box[name])
        case p.Size() | p.Extent():
            value = evaluate(expr, known)
            return _anything(expr.dtype) if value is None else IndexInterval(value, value)
        case p.Read(tensor=tensor, subscripts=subscripts, dtype=dtype):
            value = None if subscripts else known.scalars.get(tensor)
            return IndexInterval(*limits(dtype)) if value is None else IndexInterval(value, value)
        case p.Unary(operand=operand, dtype=dtype):
            a = interval_of(operand, known, box)
            return _in_type(-a.high, -a.low, dtype, a.clean)
        case p.Binary(op=op, left=left, right=right, dtype=dtype):
            a, b = interval_of(left, known, box), interval_of(right, known, box)
            if op == "<<" and not b.within(0, dtype.bits):
                return _anything(dtype)
            found = intervals.operation(op, (a.low, a.high), (b.low, b.high))
            return _in_type(*found, dtype, a.clean and b.clean) if found else _anything(dtype)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            c = interval_of(condition, known, box)
            a, b = interval_of(then, known, box), interval_of(otherwise, known, box)
            clean = a.clean and b.clean and c.clean
            return IndexInterval(min(a.low, b.low), max(a.high, b.high), clean)
        case p.Compare(left=left, right=right):
            return IndexInterval(0, 1, _are_clean((left, right), known, box))
        case p.Logical(operands=operands):
            return IndexInterval(0, 1, _are_clean(operands, known, box))
        case p.Convert(operand=operand, dtype=dtype) if dtype == BOOL:
            return IndexInterval(0, 1, _are_clean((operand,), known, box))
        case p.Convert(operand=operand, dtype=dtype) if not operand.dtype.is_float:
            a = interval_of(operand, known, box)
            return _in_type(a.low, a.high, dtype, a.clean)
        case p.Call(function="abs", args=(operand,), dtype=dtype):
            a = interval_of(operand, known, box)
            low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
            return _in_type(low, max(abs(a.low), abs(a.high)), dtype, a.clean)
        case p.Call(function=function, dtype=dtype) if function in BIT_FUNCTIONS:
            clean = _are_clean(p.children(expr), known, box)
            return IndexInterval(0, dtype.bits, clean)
        case p.Check():
            return IndexInterval(0, 0, True)
        case p.Call() | p.Convert() | p.Bits():
            return _anything(expr.dtype)


def _are_clean(operands: tuple[p.Expr, ...], known: KnownSizes, box: Box[str]) -> bool:
    return all(o.dtype.is_float or interval_of(o, known, box).clean for o in operands)


def _anything(dtype: DType) -> IndexInterval:
    low, high = limits(dtype)
    return IndexInterval(low, high, False)


def _in_type(low: int, high: int, dtype: DType, clean: bool) -> IndexInterval:
    least, largest = limits(dtype)
    if least <= low and high <= largest:
        return IndexInterval(low, high, clean)
    return IndexInterval(least, largest, False)


def integer_warnings(
    statement: p.Statement, target: p.Tensor, ranges: Mapping[str, p.Range], known: KnownSizes
) -> Iterator[p.ProgramWarning]:
    """The warnings of a statement over its ranges."""
    box = affine.box_of(ranges, statement.variables)
    if is_empty(box):
        return
    terms = math.prod(ranges[name].extent for name in statement.reduction)
    yield from _mean_warnings(statement, terms, known)
    product = _wrapping_product(statement.rhs, known, box)
    wide = target.dtype if target.shape is not None and not _is_narrow(target.dtype) else INT64
    if product is not None:
        yield _warning(product, f"'{one_line(product.span)}' is computed in {product.dtype}", wide)
    elif target.shape is None and _sum_wraps(statement, terms, known, box):
        rhs = statement.rhs
        done = {"+": "adds", "*": "multiplies"}[statement.op]
        yield _warning(rhs, f"'{statement.target}' {done} terms in {rhs.dtype}, their type,", wide)


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits < 32


def _warning(expr: p.Expr, what: str, wide: DType) -> p.ProgramWarning:
    low, high = limits(expr.dtype)
    return p.ProgramWarning(
        "Y3",
        f"{what} and wraps around outside of {low} to {high}; "
        f"{expr.dtype}({one_line(expr.span)}) says that this is meant",
        span=expr.span,
        repair=_widened(expr, wide),
    )


def _widened(expr: p.Expr, wide: DType) -> str:
    """The text of an expression with its narrow operands cast."""
    whole = f"{wide}({one_line(expr.span)})"
    operands = {node.span: one_line(node.span) for node in _operands(expr)}
    inside = all(
        span.source == expr.span.source
        and expr.span.start <= span.start
        and span.end <= expr.span.end
        for span in operands
    )
    if not operands or not inside or isinstance(expr, p.Read):
        return whole
    ends = (expr.span.start, expr.span.end)
    edits = [Edit(span, f"{wide}({text})") for span, text in operands.items()]
    edits += [
        Edit(Span(expr.span.source, at, at), "")
        for at in ends
        if not any(span.start <= at <= span.end for span in operands)
    ]
    return " ".join(merged(edits).text.split())


def _operands(expr: p.Expr) -> Iterator[p.Expr]:
    """The narrow values from which an expression is computed in its narrow type."""
    match expr:
        case p.Binary(left=left, right=right):
            yield from _operands(left)
            yield from _operands(right)
        case p.Unary(operand=operand):
            yield from _operands(operand)
        case p.Select(then=then, otherwise=otherwise):
            yield from _operands(then)
            yield from _operands(otherwise)
        case p.Literal():
            pass
        case _:
            yield expr


def _sum_wraps(statement: p.Statement, terms: int, known: KnownSizes, box: Box[str]) -> bool:
    """Whether a reduction in a narrow type may leave it."""
    rhs, dtype = statement.rhs, statement.rhs.dtype
    if statement.op not in ("+", "*") or terms < 2 or not _is_narrow(dtype) or _is_cast(rhs):
        return False
    found = interval_of(rhs, known, box)
    low, high = limits(dtype)
    if statement.op == "*":
        return not -1 <= found.low <= found.high <= 1
    return terms * found.low < low or terms * found.high > high


def _wrapping_product(expr: p.Expr, known: KnownSizes, box: Box[str]) -> p.Expr | None:
    """The first product of two narrow values that may leave their type."""
    if isinstance(expr, p.Binary) and expr.op == "*" and _is_narrow(expr.dtype):
        is_of_values = all(any(True for _ in _operands(side)) for side in (expr.left, expr.right))
        if is_of_values and not _is_cast(expr):
            sides = (interval_of(side, known, box) for side in (expr.left, expr.right))
            a, b = sides
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            low, high = limits(expr.dtype)
            if min(corners) < low or max(corners) > high:
                return expr
        if _is_cast(expr):
            return None
    for child in () if isinstance(expr, p.Read) else p.children(expr):
        found = _wrapping_product(child, known, box)
        if found is not None:
            return found
    return None


def _is_cast(expr: p.Expr) -> bool:
    """Whether the text casts an expression to the type that it has: such a cast leaves no node."""
    before = expr.span.source.text[: expr.span.start]
    cast = re.search(r"(\w+)\s*\(\s*$", before)
    return cast is not None and SPELLINGS.get(cast[1]) == expr.dtype


def _mean_warnings(
    statement: p.Statement, terms: int, known: KnownSizes
) -> Iterator[p.ProgramWarning]:
    """The warning of a sum whose terms are integers divided by their number, or by a size."""
    if statement.op != "+" or terms < 2 or not statement.rhs.dtype.is_integer:
        return
    for node in _terms(statement.rhs):
        match node:
            case p.Binary(op="/", left=left, right=right, dtype=dtype) if (
                dtype.is_integer and not _is_cast(node)
            ):
                text, value = one_line(node.span), evaluate(right, known)
                names_size = any(isinstance(n, p.Size | p.Extent) for n in p.walk(right))
                if value is None or not (names_size or value == terms):
                    continue
                if not any(isinstance(n, p.Read) and n.subscripts for n in p.walk(left)):
                    continue
                yield p.ProgramWarning(
                    "Y4",
                    f"'{text}' divides integers, so that each term is rounded down before it is "
                    f"added; {dtype}({text}) says that this is meant",
                    span=node.span,
                    repair=f"float({one_line(left.span)}) / {one_line(right.span)}",
                )


def _terms(expr: p.Expr) -> Iterator[p.Expr]:
    """The expressions that a value is computed from by arithmetic, and itself."""
    yield expr
    match expr:
        case p.Binary() | p.Unary() | p.Convert() if expr.dtype.is_integer:
            parts = p.children(expr)
        case p.Select(then=then, otherwise=otherwise):
            parts = (then, otherwise)
        case _:
            parts = ()
    for part in parts:
        yield from _terms(part)
