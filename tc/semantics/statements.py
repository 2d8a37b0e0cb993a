"""One comprehension with its names resolved: left side, where clause and reduction (N1, N2, R1,
R2, G8, T5, and the part of P1 that holds for all sizes)."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tc.dtypes import DType
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.repairs import intersection
from tc.semantics.loose import check_loose, loose_names
from tc.semantics.names import Signature
from tc.semantics.resolve import (
    BindingValue,
    Findings,
    Frame,
    Scope,
    Seen,
    check_height,
    resolve,
    resolve_binding,
    resolve_read,
)
from tc.semantics.resolved import (
    Cast,
    FlatRange,
    FlatTensor,
    Function,
    Index,
    Number,
    Pad,
    Read,
    Resolved,
    operands,
)
from tc.semantics.suggest import counted, element, indices, listed, nearest, one_line, unused
from tc.source import Span

MAX_VARIABLES = 32
"""The dimensions that arrays of every supported numpy may have; blocks have one per variable."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A comprehension with names resolved. `reads` are those of the right-hand side, in the order
    of the text; `op` and `init` are those of program.Statement."""

    outer: tuple[str, ...]
    subscripts: tuple[Resolved, ...]
    variables: Mapping[str, Span]
    op: str
    init: bool
    rhs: Resolved
    where: tuple[FlatRange, ...]
    exists: tuple[Read, ...]
    reads: tuple[Seen, ...]


def resolve_statement(
    statement: ast.Comprehension,
    frame: Frame,
    defs: Mapping[str, Signature],
    tensors: Mapping[str, FlatTensor],
    shaped: Container[str],
) -> Resolution:
    """Resolve one comprehension of the def of `frame`.

    `shaped` are the program's tensors whose extents are known before it. Raises CheckError.
    """
    signature = frame.signature
    outer = _left_side(statement, signature)
    names = {
        clause.name.text: clause.name.span
        for clause in statement.where
        if isinstance(clause, ast.Binding)
    }
    scope = Scope(frame, defs, shaped, {}, names)
    bindings = _bindings(statement, scope, outer) if names else {}
    right = Findings()
    rhs = resolve(statement.rhs, Scope(frame, defs, shaped, bindings, {}), right)
    if bindings:
        check_height(rhs, statement.rhs.span)
    where: list[FlatRange] = []
    exists: list[Read] = []
    ranged: list[ast.RangeClause] = []
    rest = Findings()
    for clause in statement.where:
        match clause:
            case ast.RangeClause():
                earlier = [c for c in ranged if c.variable.text == clause.variable.text]
                ranged.append(clause)
                where.append(_range(clause, scope, tensors, earlier, {*outer, *right.variables}))
                rest.variables.setdefault(clause.variable.text, clause.variable.span)
            case ast.Binding():
                rest.variables.update(
                    (name, span)
                    for name, span in bindings[clause.name.text].findings.variables.items()
                    if name not in rest.variables
                )
            case ast.Exists():
                exists.append(resolve_read(clause.read, scope, rest))
    variables = dict(outer)
    for name, span in (*right.variables.items(), *rest.variables.items()):
        variables.setdefault(name, span)
    _check_count(variables)
    target = frame.tensors[statement.target.text]
    reduces = len(variables) > len(outer)
    bounded = {*outer, *(clause.variable for clause in where)}
    exprs = (rhs, *exists, *(binding.value for binding in bindings.values()))
    loose = loose_names(variables, bounded, exprs)
    check_loose(loose, variables, signature)
    _check_reduction(statement, signature, outer, variables, loose)
    computed = (*right.reads, *(read for read in rest.reads if read.in_subscript))
    _check_self_reads(statement, target, reduces, computed)
    initialises = statement.op.endswith("!")
    op = statement.op.rstrip("!")[:-1] or "="
    return Resolution(
        tuple(outer),
        tuple(Index(name, span=span) for name, span in outer.items()),
        variables,
        "=" if initialises and not reduces else op,
        initialises and reduces,
        rhs,
        tuple(where),
        tuple(exists),
        tuple(right.reads),
    )


def _left_side(statement: ast.Comprehension, signature: Signature) -> dict[str, Span]:
    """The left-hand variables, with checks of the target and its subscripts."""
    name = statement.target.text
    if name in signature.params:
        raise CheckError(
            f"'{name}' is an input of '{signature.name}', and inputs are immutable",
            rule="N2",
            span=statement.target.span,
            repair=f"write to another name, such as {name}_2, and return that",
            notes=((signature.params[name].span, "the input is declared here"),),
        )
    names = statement.indices or ()
    rank = signature.ranks[name]
    if len(names) != rank:
        repair = f"{element(name, rank)} {statement.op} ..."
        annotation = signature.returns[name].type if name in signature.returns else None
        if annotation is not None:
            dims = ", ".join("NMKLPQ"[: len(names)])
            repair += f" as declared, or declare the other rank: {annotation.spelling}({dims})"
        raise CheckError(
            f"'{name}' has rank {rank} and is written with {counted(len(names), 'index variable')}",
            rule="N1",
            span=statement.target.span,
            repair=repair,
            notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
        )
    outer: dict[str, Span] = {}
    for index in names:
        if index.text in outer:
            fresh = next(i for i in (*indices(6), "i_2") if all(i != n.text for n in names))
            raise CheckError(
                f"the left side names '{index.text}' twice; each index stands there once",
                rule="N2",
                span=index.span,
                repair=f"{name}({', '.join(_renamed(names, index, fresh))}) {statement.op} ...",
            )
        if index.text in signature.sizes or signature.is_tensor(index.text):
            kind = "a size" if index.text in signature.sizes else "a tensor"
            raise CheckError(
                f"the left side lists index variables, and '{index.text}' is {kind} of "
                f"'{signature.name}'",
                rule="N1",
                span=index.span,
                repair=f"{element(name, rank)} {statement.op} ...",
            )
        outer[index.text] = index.span
    return outer


def _renamed(names: Iterable[ast.Name], second: ast.Name, fresh: str) -> list[str]:
    return [fresh if name is second else name.text for name in names]


def _bindings(
    statement: ast.Comprehension, scope: Scope, outer: Mapping[str, Span]
) -> dict[str, BindingValue]:
    """The bindings of the where clause; each sees those before it."""
    signature = scope.frame.signature
    ranges = {c.variable.text for c in statement.where if isinstance(c, ast.RangeClause)}
    bindings: dict[str, BindingValue] = {}
    for clause in statement.where:
        if not isinstance(clause, ast.Binding):
            continue
        name = clause.name.text
        taken = None
        if name in bindings:
            taken = "another binding"
        elif name in outer or name in ranges:
            taken = "an index variable of the statement"
        elif name in signature.sizes:
            taken = "a size"
        elif signature.is_tensor(name):
            taken = "a tensor"
        if taken:
            raise CheckError(
                f"the binding '{name}' needs a name of its own: '{name}' is {taken}",
                rule="T5",
                span=clause.name.span,
                repair=f"{name}_2 = {one_line(clause.value.span)}",
            )
        hidden = {key: span for key, span in scope.hidden.items() if key not in bindings}
        inner = Scope(scope.frame, scope.defs, scope.shaped, bindings, hidden, name)
        value = resolve_binding(clause.value, inner)
        check_height(value.value, clause.span)
        bindings = {**bindings, name: value}
    return bindings


def _range(
    clause: ast.RangeClause,
    scope: Scope,
    tensors: Mapping[str, FlatTensor],
    earlier: list[ast.RangeClause],
    indices_used: set[str],
) -> FlatRange:
    name = clause.variable.text
    signature = scope.frame.signature
    if name in signature.sizes or signature.is_tensor(name) or name in scope.hidden:
        kind = "a binding" if name in scope.hidden else "a tensor"
        kind = "a size" if name in signature.sizes else kind
        raise CheckError(
            f"a where clause gives the range of an index variable, and '{name}' is {kind}",
            rule="G8",
            span=clause.variable.span,
            repair=f"where {indices(1)[0]} in {one_line(clause.begin.span)}:"
            f"{one_line(clause.end.span)}",
        )
    if earlier:
        raise CheckError(
            f"the where clause gives '{name}' two ranges",
            rule="G8",
            span=clause.span,
            repair=f"{intersection(earlier[0], clause)}, in place of both",
            notes=((earlier[0].span, "the first one is here"),),
        )
    begin, end = (
        _bound(bound, name, scope, tensors, indices_used) for bound in (clause.begin, clause.end)
    )
    return FlatRange(name, begin, end, span=clause.span)


def _bound(
    expr: ast.Expr,
    variable: str,
    scope: Scope,
    tensors: Mapping[str, FlatTensor],
    indices_used: set[str],
) -> Resolved:
    """A bound of a range, which must be a size expression (G8)."""
    bound = resolve(expr, scope, Findings())
    stack = [bound]
    while stack:
        node = stack.pop()
        match node:
            case Index(name=name):
                _index_in_bound(name, node.span, variable, scope, name in indices_used)
            case Read(tensor=tensor):
                _check_scalar(node, tensors[tensor])
            case Function() | Pad():
                _no_size_expression(
                    node.span, "only the functions min and max", "min(N, M) or an integer division"
                )
            case Number(value=float()):
                _no_size_expression(node.span, "only whole numbers", _int_text(node.span))
            case Cast(dtype=dtype) if not dtype.is_integer:
                _no_size_expression(
                    node.span, "only integers", one_line(node.operand.span, "its operand")
                )
            case _:
                pass
        stack.extend(reversed(operands(node)))
    return bound


def _int_text(span: Span) -> str:
    """A floating literal as the whole number that was perhaps meant."""
    try:
        return str(int(float(span.text.rstrip("fFlL"))))
    except (ValueError, OverflowError):
        return "1"


def _check_scalar(read: Read, tensor: FlatTensor) -> None:
    """Raise unless the read in a where bound is an integer rank 0 input of the entry."""
    text = one_line(read.span)
    if tensor.rank:
        _no_size_expression(
            read.span, "no reads of tensors", "pass the value as an input of rank 0: int n"
        )
    declared: DType | None = tensor.declared
    if tensor.role != "input":
        raise CheckError(
            f"'{text}' is computed by the program; the bounds of a range may use sizes, literals "
            "and integer rank 0 inputs of the entry, which are known before it runs",
            rule="G8",
            span=read.span,
            repair=f"pass it as an input: int {text}",
        )
    if declared is None or not declared.is_integer:
        raise CheckError(
            f"'{text}' is {declared}, and the bounds of a range are integers",
            rule="G8",
            span=read.span,
            repair=f"declare it as an integer: int {text}",
            notes=((tensor.span, "it is declared here"),),
        )


def _index_in_bound(name: str, span: Span, variable: str, scope: Scope, is_used: bool) -> NoReturn:
    signature = scope.frame.signature
    known = [*signature.sizes, *(p for p, rank in signature.ranks.items() if rank == 0)]
    near = nearest(name, known)
    if is_used:
        cause = (
            f"the range of '{variable}' uses the index variable '{name}', and the bounds of a "
            "range are size expressions: ranges are boxes"
        )
        repair = f"... ({variable} < {name} ? ... : 0), to select within the box"
    else:
        cause = (
            f"'{name}' in the range of '{variable}' is neither a size nor an integer input of "
            f"'{signature.name}'" + (f"; did you mean '{near}'?" if near else "")
        )
        repair = near or f"declare it as an input: int {name}"
    raise CheckError(cause, rule="G8", span=span, repair=repair)


def _no_size_expression(span: Span, allowed: str, repair: str) -> NoReturn:
    raise CheckError(
        f"'{one_line(span)}' in a bound of a range is no size expression: sizes, T.0, integers, "
        f"+ - * / % and comparisons may stand there, and {allowed}",
        rule="G8",
        span=span,
        repair=repair,
    )


def _check_count(variables: Mapping[str, Span]) -> None:
    """Raise for more variables than an array has dimensions in every numpy (N1)."""
    if len(variables) > MAX_VARIABLES:
        raise CheckError(
            f"the statement has {len(variables)} index variables, and at most {MAX_VARIABLES} "
            "are supported",
            rule="N1",
            span=list(variables.values())[MAX_VARIABLES],
            repair="split the statement, by way of a temporary",
        )


def _check_reduction(
    statement: ast.Comprehension,
    signature: Signature,
    outer: Mapping[str, Span],
    variables: Mapping[str, Span],
    loose: Iterable[str],
) -> None:
    """Raise for `=` with reduction variables (R1); those in `loose` need a range as well."""
    if statement.op != "=" or len(variables) == len(outer):
        return
    reduced = [name for name in variables if name not in outer]
    known = (*signature.sizes, *signature.tensors(), *outer)
    meant = [(n, near) for n in reduced if len(n) > 1 and (near := nearest(n, known))]
    text = statement.span.source.text
    start, end = statement.span.start, statement.span.end
    left, right = text[start : statement.op_span.start], text[statement.op_span.end : end]
    line = " ".join(f"{left}+=!{right}".split())
    ranges = ", ".join(f"{name} in 0:2" for name in loose)
    if meant and {name for name, _ in meant}.issuperset(reduced):
        for name, near in meant:
            right = re.sub(rf"(?<![\w.]){name}(?!\w)", near, right)
        line = " ".join(f"{left}={right}".split())
    elif ranges and "<=>" not in line:
        line += f", {ranges}" if statement.where else f" where {ranges}"
    only = "is" if len(reduced) == 1 else "are"
    raise CheckError(
        f"{listed(reduced)} {only} not on the left of '=', so the statement reduces over "
        f"{'it' if len(reduced) == 1 else 'them'}; a reduction needs one of the operators +=! *=! "
        "min=! max=! (or the same without ! to continue from what the tensor holds)"
        + "".join(f"; if '{name}' is misspelt, did you mean '{near}'?" for name, near in meant),
        rule="R1",
        span=variables[reduced[0]],
        repair=line if len(line) <= 160 and "#" not in line else "write +=! for =",
        notes=((statement.op_span, "the operator is here"),),
    )


def _check_self_reads(
    statement: ast.Comprehension, target: str, reduces: bool, reads: Iterable[Seen]
) -> None:
    """Raise for self-reads that are wrong whatever the sizes (P1)."""
    name = statement.target.text
    rank = len(statement.indices or ())
    for read in reads:
        if read.tensor != target:
            continue
        old = unused(f"{name}_old", read.span)
        copy = f"{element(old, rank)} = {element(name, rank)}"
        if read.in_subscript:
            raise CheckError(
                f"a subscript reads '{name}', which this statement writes",
                rule="P1",
                span=read.span,
                repair=f"{copy}, before this statement, and read {old} in the subscript",
            )
        if reduces and statement.op.endswith("!"):
            raise CheckError(
                f"'{statement.op}' first overwrites '{name}' with the identity, and then the "
                "right-hand side reads it",
                rule="P1",
                span=read.span,
                repair=f"{copy}, before this statement, and read {old} here",
            )
