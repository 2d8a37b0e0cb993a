"""What each name in an expression means (N1), with bindings substituted (T5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tc import builtins
from tc.affine.intervals import COMPARISONS
from tc.dtypes import SPELLINGS
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.operator_parser import MAX_HEIGHT
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.check import name_errors
from tc.semantics.check.builder import BindingValue, Findings, NameScope, Seen
from tc.semantics.check.declarations import CONCAT, MIN_MAX, PAD
from tc.semantics.suggest import element, one_line
from tc.source import Span
from tc.wording import counted

_LOGICAL = frozenset(("&&", "||"))


def resolve(
    expr: ast.Expr, scope: NameScope, findings: Findings, in_subscript: bool = False
) -> p.Expr:
    """The expression with every name resolved.

    Adds the index variables and reads that it mentions to `findings`. Raises CheckError for
    names that mean nothing here, and for wrong counts of subscripts and arguments (N1, Y7).

    Like all that recurses over expressions here, it loops over operands rather than using
    comprehensions, which would cost a frame per level: trees may be MAX_HEIGHT deep.
    """
    match expr:
        case ast.Name():
            return _name(expr, scope, findings, in_subscript)
        case ast.Apply():
            return _apply(expr, scope, findings, in_subscript)
        case ast.Binary(op=op):
            left = resolve(expr.left, scope, findings, in_subscript)
            right = resolve(expr.right, scope, findings, in_subscript)
            if op in COMPARISONS:
                return p.Compare(op, left, right, span=expr.span)
            if op in _LOGICAL:
                return p.Logical(op, (left, right), span=expr.span)
            return p.Binary(op, left, right, r.OPEN, span=expr.span)
        case ast.Number():
            return p.Literal(expr.value, r.OPEN, span=expr.span)
        case ast.Dim():
            return _dim(expr, scope)
        case ast.Unary(op=op):
            operand = resolve(expr.operand, scope, findings, in_subscript)
            if op == "!":
                return p.Logical(op, (operand,), span=expr.span)
            return p.Unary(op, operand, r.OPEN, span=expr.span)
        case ast.Cast():
            operand = resolve(expr.operand, scope, findings, in_subscript)
            return p.Convert(operand, SPELLINGS[expr.spelling], written=True, span=expr.span)
        case ast.Conditional():
            return p.Select(
                resolve(expr.condition, scope, findings, in_subscript),
                resolve(expr.then, scope, findings, in_subscript),
                resolve(expr.otherwise, scope, findings, in_subscript),
                r.OPEN,
                span=expr.span,
            )


def resolve_read(expr: ast.Apply, scope: NameScope, findings: Findings) -> p.Read:
    """The read of a tensor after `exists`."""
    name = expr.name.text
    if not scope.frame.signature.is_tensor(name):
        name_errors.unknown_tensor(expr.name, scope)
    read = _read(expr, scope, findings, in_subscript=False)
    if read.tensor not in scope.shaped:
        raise CheckError(
            f"no earlier statement defines '{name}', so its shape is not known here",
            rule="T5",
            span=expr.span,
            repair="move the statement below the one that defines "
            f"'{name}', or give the range: where i in 0:N",
        )
    return read


def resolve_binding(expr: ast.Expr, scope: NameScope) -> BindingValue:
    """The value of a binding, in the scope of the bindings before this one."""
    findings = Findings()
    value = resolve(expr, scope, findings)
    return BindingValue(value, height_in(value, scope), findings)


def height_in(value: p.Expr, scope: NameScope) -> int:
    """How deep an expression is with the bindings of a scope substituted."""
    return r.height(value, {id(b.value): b.height for b in scope.bindings.values()})


def check_height(height: int, span: Span) -> None:
    """Raise CheckError where substituted bindings make an expression too deep for later passes."""
    if height > MAX_HEIGHT:
        raise CheckError(
            f"with its bindings substituted, the expression is more than {MAX_HEIGHT} "
            "operations deep",
            rule="T5",
            span=span,
            repair="give an intermediate result a statement of its own: t(i) = ...",
        )


def _name(expr: ast.Name, scope: NameScope, findings: Findings, in_subscript: bool) -> p.Expr:
    name = expr.text
    signature = scope.frame.signature
    if name in scope.bindings:
        binding = scope.bindings[name]
        if (name, in_subscript) not in findings.used:
            findings.used.add((name, in_subscript))
            for variable, span in binding.findings.variables.items():
                findings.variables.setdefault(variable, span)
            known = set(findings.reads)
            for seen in binding.findings.reads:
                read = Seen(seen.tensor, seen.text, seen.span, seen.in_subscript or in_subscript)
                if read not in known:
                    findings.reads.append(read)
        return r.use_of(binding.value, expr.span)
    if name in signature.sizes:
        return p.Size(scope.frame.prefix + name, span=expr.span)
    if signature.is_tensor(name):
        rank = signature.ranks.get(name, 0)
        if rank:
            name_errors.no_subscripts(expr, rank, scope)
        tensor = scope.frame.tensors[name]
        findings.reads.append(Seen(tensor, name, expr.span, in_subscript))
        return p.Read(tensor, (), r.OPEN, -1, span=expr.span)
    if name == scope.binding:
        raise CheckError(
            f"the binding '{name}' uses itself",
            rule="T5",
            span=expr.span,
            repair="give the value inside another name",
        )
    if name in scope.hidden:
        raise CheckError(
            f"the binding '{name}' is not in scope here: a binding counts in later bindings and "
            "in the right-hand side",
            rule="T5",
            span=expr.span,
            repair=f"write the value of '{name}' here"
            + (", or move its binding before this one" if scope.binding else ""),
            notes=((scope.hidden[name], f"'{name}' is bound here"),),
        )
    findings.variables.setdefault(name, expr.span)
    return p.Index(name, span=expr.span)


def _apply(expr: ast.Apply, scope: NameScope, findings: Findings, in_subscript: bool) -> p.Expr:
    name = expr.name.text
    if scope.frame.signature.is_tensor(name):
        return _read(expr, scope, findings, in_subscript)
    if name in scope.defs or name == CONCAT:
        raise name_errors.call_inside(expr, scope)
    if name in MIN_MAX or name == PAD:
        name_errors.check_count(expr, 2, scope)
        first = resolve(expr.args[0], scope, findings, in_subscript)
        second = resolve(expr.args[1], scope, findings, in_subscript)
        if name == PAD:
            return r.pad_of(first, second, expr.span)
        return p.Binary(name, first, second, r.OPEN, span=expr.span)
    if name in builtins.REINTERPRETED:
        name_errors.check_count(expr, 1, scope)
        operand = resolve(expr.args[0], scope, findings, in_subscript)
        return p.Bits(operand, builtins.REINTERPRETED[name] or r.OPEN, span=expr.span)
    if name in _NUMBERS and not expr.args:
        return _NUMBERS[name](expr.span)
    builtin = builtins.lookup(name)
    if builtin is None:
        name_errors.unknown_function(expr, scope)
    name_errors.check_count(expr, builtin.arity, scope)
    args = []
    for arg in expr.args:
        args.append(resolve(arg, scope, findings, in_subscript))
    return p.Call(builtin.name, tuple(args), r.OPEN, span=expr.span)


def _quotient(dividend: float) -> Callable[[Span], p.Expr]:
    """A weak floating value (Y1) that no literal has: a literal divided by 0."""

    def made(span: Span) -> p.Expr:
        left, right = (p.Literal(value, r.OPEN, span=span) for value in (dividend, 0.0))
        return p.Binary("/", left, right, r.OPEN, span=span)

    return made


_NUMBERS: Mapping[str, Callable[[Span], p.Expr]] = {
    "inf": _quotient(1.0),
    "nan": _quotient(0.0),
    "pi": lambda span: p.Literal(math.pi, r.OPEN, span=span),
}
"""The numbers that are called by name (E4)."""


def _read(expr: ast.Apply, scope: NameScope, findings: Findings, in_subscript: bool) -> p.Read:
    name = expr.name.text
    signature = scope.frame.signature
    rank = signature.ranks.get(name, len(expr.args))
    if len(expr.args) != rank:
        place = signature.ranked_at[name]
        raise CheckError(
            f"'{name}' has rank {rank} and is given {counted(len(expr.args), 'subscript')}",
            rule="N1",
            span=expr.span,
            repair=f"write one subscript for each dimension, as in {element(name, rank)}"
            if rank
            else None,
            paste=None if rank else name,
            notes=((place, f"'{name}' has rank {rank} here"),),
        )
    tensor = scope.frame.tensors[name]
    findings.reads.append(Seen(tensor, name, expr.span, in_subscript))
    subscripts = []
    for arg in expr.args:
        subscripts.append(resolve(arg, scope, findings, True))
    return p.Read(tensor, tuple(subscripts), r.OPEN, -1, span=expr.span)


def _dim(expr: ast.Dim, scope: NameScope) -> p.Extent:
    name = expr.tensor.text
    signature = scope.frame.signature
    if not signature.is_tensor(name):
        name_errors.unknown_tensor(expr.tensor, scope, expr.span)
    rank = signature.ranks.get(name, expr.axis + 1)
    if expr.axis >= rank:
        raise CheckError(
            f"'{name}' has no dimension {expr.axis}: its rank is {rank}"
            + (f", so its dimensions are 0 to {rank - 1}" if rank > 1 else ""),
            rule="T2",
            span=expr.span,
            repair="dimensions are counted from 0: "
            + " or ".join(f"{name}.{axis}" for axis in range(min(rank, 6)))
            if rank
            else f"a tensor of rank 0 is one number, '{name}', and has no size",
            notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
        )
    tensor = scope.frame.tensors[name]
    if tensor not in scope.shaped:
        raise CheckError(
            f"'{one_line(expr.span)}' is not known here: no earlier statement defines '{name}'",
            rule="G8",
            span=expr.span,
            repair=f"use a size of a parameter, move the statement below the one that defines "
            f"'{name}', or declare its shape: -> (float(N) {name})",
        )
    return p.Extent(tensor, expr.axis, span=expr.span)
