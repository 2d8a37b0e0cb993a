"""What each name in an expression means (N1), with bindings substituted (T5)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tc import builtins
from tc.dtypes import SPELLINGS
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.expressions import MAX_HEIGHT
from tc.semantics.names import CONCAT, MIN_MAX, PAD, SPELLED_OTHERWISE, Signature
from tc.semantics.resolved import (
    Binary,
    Bound,
    Cast,
    Compare,
    Conditional,
    Extent,
    Function,
    Index,
    Logical,
    Number,
    Pad,
    Read,
    Resolved,
    Size,
    Unary,
    height,
)
from tc.semantics.suggest import closest, counted, element, nearest, one_line
from tc.source import Span

_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_LOGICAL = frozenset(("&&", "||"))


@dataclass(frozen=True, slots=True)
class Frame:
    """A def where it is inlined, or the entry itself.

    `tensors` gives the name in the program of each tensor, `prefix` stands before the names of
    its sizes, and `calls` are the call statements from the entry to here.
    """

    signature: Signature
    tensors: Mapping[str, str]
    prefix: str
    calls: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A read met while resolving."""

    tensor: str
    text: str
    span: Span
    in_subscript: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """What an expression mentions: index variables with their first place, and its reads.

    `used` holds the bindings whose findings are in here, each with whether within a subscript, so
    that bindings which use each other many times count once.
    """

    variables: dict[str, Span] = field(default_factory=dict)
    reads: list[Seen] = field(default_factory=list)
    used: set[tuple[str, bool]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class BindingValue:
    value: Resolved
    height: int
    findings: Findings


@dataclass(frozen=True, slots=True)
class Scope:
    """Where names are looked up.

    `shaped` holds the program's tensors whose extents are known before the statement; `bindings`
    are those in scope; `hidden` are the names of bindings that are not in scope here, and
    `binding` is the one whose value is resolved.
    """

    frame: Frame
    defs: Mapping[str, Signature]
    shaped: Container[str]
    bindings: Mapping[str, BindingValue]
    hidden: Mapping[str, Span]
    binding: str | None = None


def resolve(
    expr: ast.Expr, scope: Scope, findings: Findings, in_subscript: bool = False
) -> Resolved:
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
            if op in _COMPARISONS:
                return Compare(op, left, right, span=expr.span)
            if op in _LOGICAL:
                return Logical(op, (left, right), span=expr.span)
            return Binary(op, left, right, span=expr.span)
        case ast.Number():
            return Number(expr.value, span=expr.span)
        case ast.Dim():
            return _dim(expr, scope)
        case ast.Unary(op=op):
            operand = resolve(expr.operand, scope, findings, in_subscript)
            if op == "!":
                return Logical(op, (operand,), span=expr.span)
            return Unary(op, operand, span=expr.span)
        case ast.Cast():
            operand = resolve(expr.operand, scope, findings, in_subscript)
            return Cast(SPELLINGS[expr.spelling], operand, span=expr.span)
        case ast.Conditional():
            return Conditional(
                resolve(expr.condition, scope, findings, in_subscript),
                resolve(expr.then, scope, findings, in_subscript),
                resolve(expr.otherwise, scope, findings, in_subscript),
                span=expr.span,
            )


def resolve_read(expr: ast.Apply, scope: Scope, findings: Findings) -> Read:
    """The read of a tensor after `exists`."""
    name = expr.name.text
    if not scope.frame.signature.is_tensor(name):
        _unknown_tensor(expr.name, scope)
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


def resolve_binding(expr: ast.Expr, scope: Scope) -> BindingValue:
    """The value of a binding, in the scope of those before it."""
    findings = Findings()
    value = resolve(expr, scope, findings)
    return BindingValue(value, height(value), findings)


def check_height(value: Resolved, span: Span) -> None:
    """Raise CheckError where substituted bindings make an expression too deep for later passes."""
    if height(value) > MAX_HEIGHT:
        raise CheckError(
            f"with its bindings substituted, the expression is more than {MAX_HEIGHT} "
            "operations deep",
            rule="T5",
            span=span,
            repair="give an intermediate result a statement of its own: t(i) = ...",
        )


def _name(expr: ast.Name, scope: Scope, findings: Findings, in_subscript: bool) -> Resolved:
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
        return Bound(binding.value, binding.height, span=expr.span)
    if name in signature.sizes:
        return Size(scope.frame.prefix + name, span=expr.span)
    if signature.is_tensor(name):
        rank = signature.ranks.get(name, 0)
        if rank:
            _no_subscripts(expr, rank, signature)
        tensor = scope.frame.tensors[name]
        findings.reads.append(Seen(tensor, name, expr.span, in_subscript))
        return Read(tensor, (), span=expr.span)
    if name == scope.binding:
        raise CheckError(
            f"the binding '{name}' uses itself",
            rule="T5",
            span=expr.span,
            repair=f"give the value inside another name: {name}_2",
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
    return Index(name, span=expr.span)


def _called(expr: ast.Apply, callee: str) -> str:
    """The call as a statement of its own may stand: with the names of whole tensors."""
    names = [
        arg.name.text if isinstance(arg, ast.Apply) else one_line(arg.span) for arg in expr.args
    ]
    return f"{callee}({', '.join(names)})"


def _apply(expr: ast.Apply, scope: Scope, findings: Findings, in_subscript: bool) -> Resolved:
    name = expr.name.text
    if scope.frame.signature.is_tensor(name):
        return _read(expr, scope, findings, in_subscript)
    if name in scope.defs or name == CONCAT:
        raise CheckError(
            f"'{name}' gives whole tensors and is called by a statement of its own, not within "
            "an expression",
            rule="N4",
            span=expr.span,
            repair=f"t = {_called(expr, name)}, and read t(i) here",
        )
    if name in MIN_MAX or name == PAD:
        _check_count(expr, 2)
        first = resolve(expr.args[0], scope, findings, in_subscript)
        second = resolve(expr.args[1], scope, findings, in_subscript)
        if name == PAD:
            return Pad(first, second, span=expr.span)
        return Binary(name, first, second, span=expr.span)
    builtin = builtins.lookup(name)
    if builtin is None:
        _unknown_function(expr, scope)
    _check_count(expr, builtin.arity)
    args = []
    for arg in expr.args:
        args.append(resolve(arg, scope, findings, in_subscript))
    return Function(builtin.name, builtin.rule == "keep", tuple(args), span=expr.span)


def _read(expr: ast.Apply, scope: Scope, findings: Findings, in_subscript: bool) -> Read:
    name = expr.name.text
    signature = scope.frame.signature
    rank = signature.ranks.get(name, len(expr.args))
    if len(expr.args) != rank:
        place = signature.ranked_at[name]
        raise CheckError(
            f"'{name}' has rank {rank} and is given {counted(len(expr.args), 'subscript')}",
            rule="N1",
            span=expr.span,
            repair=element(name, rank),
            notes=((place, f"'{name}' has rank {rank} here"),),
        )
    tensor = scope.frame.tensors[name]
    findings.reads.append(Seen(tensor, name, expr.span, in_subscript))
    subscripts = []
    for arg in expr.args:
        subscripts.append(resolve(arg, scope, findings, True))
    return Read(tensor, tuple(subscripts), span=expr.span)


def _dim(expr: ast.Dim, scope: Scope) -> Extent:
    name = expr.tensor.text
    signature = scope.frame.signature
    if not signature.is_tensor(name):
        _unknown_tensor(expr.tensor, scope)
    rank = signature.ranks.get(name, expr.axis + 1)
    if expr.axis >= rank:
        raise CheckError(
            f"'{name}' has no dimension {expr.axis}: its rank is {rank}"
            + (f", so its dimensions are 0 to {rank - 1}" if rank > 1 else ""),
            rule="T2",
            span=expr.span,
            repair=f"{name}.{rank - 1}" if rank else name,
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
    return Extent(tensor, expr.axis, span=expr.span)


def _check_count(expr: ast.Apply, arity: int) -> None:
    if len(expr.args) != arity:
        name = expr.name.text
        args = (*(one_line(arg.span) for arg in expr.args[:arity]), *"xyzw"[len(expr.args) : arity])
        raise CheckError(
            f"'{name}' takes {counted(arity, 'argument')} and is given {len(expr.args)}",
            rule="G9" if name == PAD else "Y7",
            span=expr.span,
            repair=f"{name}({', '.join(args)})",
        )


def _no_subscripts(expr: ast.Name, rank: int, signature: Signature) -> NoReturn:
    name = expr.text
    raise CheckError(
        f"'{name}' has rank {rank}, and only a tensor of rank 0 is read without parentheses",
        rule="N1",
        span=expr.span,
        repair=element(name, rank),
        notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
    )


def _unknown_function(expr: ast.Apply, scope: Scope) -> NoReturn:
    name = expr.name.text
    signature = scope.frame.signature
    what = "is neither a tensor of this def nor a function"
    if name in signature.sizes:
        what = "is a size, which has no elements and takes no arguments"
    elif name in scope.bindings or name in scope.hidden:
        what = "is a binding, which has no elements and takes no arguments"
    functions = (*builtins.BUILTINS, *builtins.ALIASES, *MIN_MAX, PAD)
    others = {*scope.defs, CONCAT} - {signature.name}
    near = nearest(name, (*signature.tensors(), *functions, *others)) or closest(name, others)
    if name in SPELLED_OTHERWISE and expr.args:
        near = None
        repair = SPELLED_OTHERWISE[name].format(one_line(expr.args[0].span))
    elif near in others:
        repair = f"t = {_called(expr, near)}, before this statement, and read t(i) here"
    elif near is not None:
        repair = f"{near}({', '.join(one_line(arg.span) for arg in expr.args)})"
    elif "is neither" not in what:
        repair = name
    else:
        repair = f"declare it as a parameter: float({', '.join('NMKLPQ'[: len(expr.args)])}) {name}"
    raise CheckError(
        f"'{name}' {what}" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=expr.span if name in SPELLED_OTHERWISE else expr.name.span,
        repair=repair,
    )


def _unknown_tensor(name: ast.Name, scope: Scope) -> NoReturn:
    signature = scope.frame.signature
    near = nearest(name.text, signature.tensors())
    kind = "a size" if name.text in signature.sizes else "no tensor"
    raise CheckError(
        f"'{name.text}' is {kind} of '{signature.name}'"
        + (", not a tensor" if name.text in signature.sizes else "")
        + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=name.span,
        repair=near
        or (
            name.text
            if name.text in signature.sizes
            else f"name one of the tensors: {', '.join(signature.tensors())}"
        ),
    )
