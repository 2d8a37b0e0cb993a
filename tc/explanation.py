"""What tc made of a program at given sizes, as a value whose text reads as an explanation.

Per statement: the kind of each variable, its range as numbers and as an expression of the sizes,
the accesses that fixed it, the reduction, and the work; then the shapes and dtypes of all
tensors, and the preconditions that were checked (G6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from tc.semantics.program import (
    Binary,
    Call,
    Convert,
    Expr,
    Range,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    Unary,
    children,
    walk,
)
from tc.semantics.symbolic import to_text

OPERATORS = {
    "=": "assigns",
    "+": "sums",
    "*": "multiplies",
    "min": "takes the minimum",
    "max": "takes the maximum",
}
STARTS = {
    "written": "continues from what an earlier statement wrote",
    "caller": "continues from outputs= if given, else starts at the identity (R3)",
    "nothing": "starts at the identity, since nothing was written before (R3)",
}


@dataclass(frozen=True)
class Work:
    """Arithmetic operations (functions count as one) and compulsory traffic in bytes: each
    element touched counted once."""

    operations: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes if self.bytes else math.inf

    def __str__(self) -> str:
        return (
            f"{scaled(self.operations)}flop, {scaled(self.bytes)}B, "
            f"{self.intensity:.3g} flop per byte"
        )


@dataclass(frozen=True)
class Explanation:
    """The result of `tc.explain`; `str` is its text, `shaped` what it tells about."""

    shaped: ShapedProgram

    def work(self, statement: ShapedStatement) -> Work:
        return statement_work(self.shaped, statement)

    @property
    def total(self) -> Work:
        """Operations of all statements; bytes of inputs and outputs, each element that can be
        touched counted once."""
        return Work(
            sum(self.work(s).operations for s in self.shaped.statements),
            sum(_traffic(self.shaped).values()),
        )

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in _lines(self)).rstrip("\n")

    __repr__ = __str__


def explain_shaped(shaped: ShapedProgram) -> Explanation:
    """The explanation of a shaped program."""
    return Explanation(shaped)


def scaled(number: float) -> str:
    """A count with three digits and a decimal prefix.

    >>> scaled(925_000_000), scaled(12)
    ('925 M', '12 ')
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number:.3g} "


def statement_work(shaped: ShapedProgram, statement: ShapedStatement) -> Work:
    """Operations over all instances, and the bytes of the tensors that it touches: an element
    read or written counts once, and no more elements than instances."""
    instances = _instances(statement)
    stmt = statement.statement
    per_instance = sum(map(_is_operation, _values(stmt.rhs))) + (stmt.op != "=")
    traffic = sum(
        min(math.prod(shaped.shapes[name]), instances) * shaped.program.tensors[name].dtype.bytes
        for name in _touched(stmt)
    )
    return Work(per_instance * instances, traffic)


def _instances(statement: ShapedStatement) -> int:
    return math.prod(r.extent for r in statement.ranges.values())


def _touched(statement: Statement) -> set[str]:
    return {statement.target, *(n.tensor for n in walk(statement.rhs) if isinstance(n, Read))}


def _traffic(shaped: ShapedProgram) -> dict[str, int]:
    """Bytes of each input and output that the statements touch, no more than it has."""
    program = shaped.program
    touched = dict.fromkeys((*program.inputs, *program.outputs), 0)
    for statement in shaped.statements:
        for name in touched.keys() & _touched(statement.statement):
            touched[name] += _instances(statement)
    return {
        name: min(math.prod(shaped.shapes[name]), count) * program.tensors[name].dtype.bytes
        for name, count in touched.items()
    }


def _values(expr: Expr) -> Iterator[Expr]:
    """The expression without what only computes subscripts."""
    yield expr
    if not isinstance(expr, Read):
        for child in children(expr):
            yield from _values(child)


def _is_operation(expr: Expr) -> bool:
    return isinstance(expr, Binary | Unary | Call)


def _lines(explanation: Explanation) -> Iterator[str]:
    shaped = explanation.shaped
    program = shaped.program
    yield f"def {program.name} ({program.source.name})"
    given = {**shaped.sizes, **shaped.scalars}
    if given:
        yield "sizes: " + ", ".join(f"{name} = {value}" for name, value in given.items())
    yield ""
    yield _tensor_table(shaped)
    for statement in shaped.statements:
        yield ""
        yield from _statement_lines(explanation, statement)
    if shaped.preconditions:
        yield ""
        yield "checked for these sizes, before anything runs (G6):"
        for condition in shaped.preconditions:
            yield f"  {condition.text} stays in bounds, in {condition.statement}"
    for doubt in (*program.doubts, *shaped.doubts):
        yield ""
        yield f"warning [{doubt.rule}]: {doubt.message} ({doubt.span})"
    yield ""
    yield f"in all: {explanation.total}"


def _tensor_table(shaped: ShapedProgram) -> str:
    rows = []
    for name, tensor in shaped.program.tensors.items():
        shape = " x ".join(map(str, shaped.shapes[name])) or "scalar"
        symbolic = shaped.symbolic_shapes.get(name, ())
        texts = [to_text(e) if e is not None else "?" for e in symbolic]
        fixed = shaped.shape_fixed_by.get(name)
        where = f"{fixed}" if fixed is not None and tensor.role != "input" else ""
        rows.append((name, tensor.role, tensor.dtype.name, shape, ", ".join(texts), where))
    return _table(("tensor", "role", "type", "shape", "as expressions", "fixed at"), rows)


def _statement_lines(explanation: Explanation, shaped: ShapedStatement) -> Iterator[str]:
    stmt = shaped.statement
    yield f"{stmt.name} at {stmt.span}: {stmt.text}"
    yield "  " + _action(stmt)
    rows = [
        (
            name,
            "output" if name in stmt.outer else "reduction",
            str(shaped.ranges[name]),
            _symbolic(shaped.ranges[name]),
            _reason(shaped.ranges[name]),
        )
        for name in stmt.variables
    ]
    if rows:
        table = _table(("variable", "kind", "range", "as expressions", "fixed by"), rows)
        yield from ("  " + line for line in table.split("\n"))
    checked = sorted(
        " ".join(n.span.text.split())
        for n in walk(stmt.rhs)
        if getattr(n, "site", -1) in shaped.checked
    )
    if checked:
        yield f"  checked at run time (G7): {', '.join(dict.fromkeys(checked))}"
    yield f"  {explanation.work(shaped)}"


def _action(stmt: Statement) -> str:
    over = f" over {', '.join(stmt.reduction)}" if stmt.reduction else ""
    start = ""
    if stmt.init:
        start = ", starting at the identity (R2)"
    elif stmt.continues:
        start = f", {STARTS[stmt.continues]}"
    casts = {n.dtype.name for n in walk(stmt.rhs) if isinstance(n, Convert) and n.written}
    note = f"; casts to {', '.join(sorted(casts))}" if casts else ""
    return f"{OPERATORS[stmt.op]}{over}{start}, computed in {stmt.rhs.dtype}{note}"


def _symbolic(r: Range) -> str:
    if r.symbolic_end is None:
        return ""
    begin = to_text(r.symbolic_begin) if r.symbolic_begin is not None else str(r.begin)
    return f"{begin}:{to_text(r.symbolic_end)}"


def _reason(r: Range) -> str:
    texts = dict.fromkeys(" ".join(span.text.split()) for span in r.fixed_by)
    joined = ", ".join(texts)
    return f"{joined} in round {r.round}" if r.round else joined


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    used = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    body = [[row[i] for i in used] for row in rows]
    table: str = tabulate(
        body, [headers[i] for i in used], tablefmt="simple", disable_numparse=True
    )
    return table
