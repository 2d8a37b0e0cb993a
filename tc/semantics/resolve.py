"""What each name in an expression means (N1), with bindings substituted (T5)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tc import builtins
from tc.dtypes import SPELLINGS
from tc.edits import Edit, within
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.expressions import MAX_HEIGHT
from tc.semantics.foreign_functions import FORMULAS, REDUCTIONS, filled, formula, idiom, is_foreign
from tc.semantics.names import CONCAT, MIN_MAX, PAD, Signature
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
from tc.semantics.suggest import before, closest, counted, element, nearest, one_line, unused
from tc.semantics.whole_tensors import (
    is_matrix_product,
    names_of,
    product,
    reduced,
    steps,
    with_subscripts,
)
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
    `binding` is the one whose value is resolved. `statement` is the one around, for repairs.
    """

    frame: Frame
    defs: Mapping[str, Signature]
    shaped: Container[str]
    bindings: Mapping[str, BindingValue]
    hidden: Mapping[str, Span]
    binding: str | None = None
    statement: ast.Comprehension | None = None


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
            _no_subscripts(expr, rank, scope)
        tensor = scope.frame.tensors[name]
        findings.reads.append(Seen(tensor, name, expr.span, in_subscript))
        return Read(tensor, (), span=expr.span)
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
        edits = _call_before(expr, name, scope)
        ranks = _ranks_differ(expr, name, scope)
        raise CheckError(
            f"'{name}' gives whole tensors and is called by a statement of its own, not within "
            "an expression",
            rule="N4",
            span=expr.span,
            edits=() if ranks else edits,
            repair=None
            if edits or ranks
            else f"t = {_called(expr, name)}, before this statement, and read t here",
            idiom=ranks,
        )
    if name in MIN_MAX or name == PAD:
        _check_count(expr, 2, scope)
        first = resolve(expr.args[0], scope, findings, in_subscript)
        second = resolve(expr.args[1], scope, findings, in_subscript)
        if name == PAD:
            return Pad(first, second, span=expr.span)
        return Binary(name, first, second, span=expr.span)
    builtin = builtins.lookup(name)
    if builtin is None:
        _unknown_function(expr, scope)
    _check_count(expr, builtin.arity, scope)
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
    return Read(tensor, tuple(subscripts), span=expr.span)


def _dim(expr: ast.Dim, scope: Scope) -> Extent:
    name = expr.tensor.text
    signature = scope.frame.signature
    if not signature.is_tensor(name):
        _unknown_tensor(expr.tensor, scope, expr.span)
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
    return Extent(tensor, expr.axis, span=expr.span)


def _ranks_differ(expr: ast.Apply, callee: str, scope: Scope) -> str | None:
    """What serves where a def of elements is given elements, as `g(x(i))` of `def g(float y)`."""
    if callee == CONCAT:
        return None
    for arg, parameter in zip(expr.args, scope.defs[callee].params.values(), strict=False):
        rank = len(parameter.type.dims or ())
        if not isinstance(arg, ast.Apply) or rank >= len(arg.args):
            continue
        if scope.frame.signature.is_tensor(arg.name.text):
            dims = ", ".join(("N", "M", "K", "L")[: len(arg.args)])
            name, own = parameter.name.text, parameter.type.spelling
            of = "smaller tensors" if rank else "numbers"
            return (
                f"'{callee}' is of {of}; with {own}({dims}) {name}, and "
                f"{name}({', '.join(one_line(a.span) for a in arg.args)}) in it, it is of all "
                "elements"
            )
    return None


def _call_before(expr: ast.Apply, callee: str, scope: Scope) -> tuple[Edit, ...]:
    """The call in a statement of its own, and the statement reading what it gives."""
    statement = scope.statement
    if statement is None or not statement.indices or statement.where:
        return ()
    signature = scope.frame.signature
    names = [_whole_tensor(arg, statement, signature) for arg in expr.args]
    if None in names:
        return ()
    if callee == CONCAT:
        rank = signature.ranks.get(names[0]) if names and names[0] else None
    else:
        results = [*scope.defs[callee].returns]
        rank = scope.defs[callee].ranks.get(results[0]) if len(results) == 1 else None
    if rank is None or rank > len(statement.indices):
        return ()
    t = unused("t", expr.span)
    indices = [index.text for index in statement.indices][len(statement.indices) - rank :]
    read = f"{t}({', '.join(indices)})" if rank else t
    call = before(statement.span, f"{t} = {callee}({', '.join(map(str, names))})")
    return within(statement.span, (call, Edit(expr.span, read)))


def _whole_tensor(arg: ast.Expr, statement: ast.Comprehension, signature: Signature) -> str | None:
    """The tensor that an argument names, whole or by its element at the left side's indices."""
    left = [index.text for index in statement.indices or ()]
    match arg:
        case ast.Name(text=name) if signature.is_tensor(name):
            return name
        case ast.Apply(name=ast.Name(text=name), args=args) if signature.is_tensor(name):
            names = [sub.text for sub in args if isinstance(sub, ast.Name)]
            return name if len(names) == len(args) and names == left else None
    return None


def _check_count(expr: ast.Apply, arity: int, scope: Scope) -> None:
    count = len(expr.args)
    if count == arity:
        return
    name = expr.name.text
    texts = [one_line(arg.span) for arg in expr.args]
    edits: tuple[Edit, ...] = ()
    words = f"'{name}' takes {counted(arity, 'argument')}"
    repair: str | None = f"give it {counted(arity, 'argument')}"
    hint = None
    if name in MIN_MAX and count > 2:
        text = texts[0]
        for other in texts[1:]:
            text = f"{name}({text}, {other})"
        edits, repair = (Edit(expr.span, text),), None
    elif name in MIN_MAX and count == 1:
        words += f"; the {'greatest' if name == 'max' else 'least'} of many is a reduction"
        edits, hint = _reduction(expr, scope)
        repair = None
    elif name == PAD and count == 1:
        edits, repair = (Edit(expr.span, f"pad({texts[0]}, 0)"),), None
    elif (name, count) in FORMULAS:
        text = filled(FORMULAS[name, count], expr.args, texts)
        edits, repair = (Edit(expr.span, text),), None
    elif (hint := idiom(name)) is not None:
        repair = None
    if any("..." in text for text in texts):
        edits = ()
    raise CheckError(
        f"{words} and is given {count}" if ";" not in words else f"{words}, and {count} is given",
        rule="G9" if name == PAD else "Y7",
        span=expr.span,
        repair=repair,
        edits=edits,
        idiom=hint,
    )


def _reduction(expr: ast.Apply, scope: Scope) -> tuple[tuple[Edit, ...], str | None]:
    """The reduction that a call such as `sum(x(i))` is, or an idiom that shows it."""
    name = expr.name.text
    statement, signature = scope.statement, scope.frame.signature
    edits = reduced(statement, expr, signature) if statement is not None else ()
    if edits:
        return edits, None
    operator = REDUCTIONS[name]
    inside = f"t {operator} A(i), and read t here; t(i) {operator} A(i,j), for one of each row"
    return (), inside


def _no_subscripts(expr: ast.Name, rank: int, scope: Scope) -> NoReturn:
    name = expr.text
    signature, statement = scope.frame.signature, scope.statement
    edits: tuple[Edit, ...] = ()
    inside = statement is not None and (
        statement.rhs.span.start <= expr.span.start and expr.span.end <= statement.rhs.span.end
    )
    hint = f"write an element of it, such as {element(name, rank)}"
    if statement is not None and inside:
        edits = with_subscripts(statement, signature)
        if not edits and is_matrix_product(statement, signature):
            hint = "C(i,j) = A(i,j) * B(i,j), element by element; C(i,j) +=! A(i,k) * B(k,j), the "
            hint += "product of matrices"
    raise CheckError(
        f"'{name}' has rank {rank}, and only a tensor of rank 0 is read without parentheses",
        rule="N1",
        span=expr.span,
        edits=edits,
        idiom=None if edits else hint,
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
    if "is neither" in what and is_foreign(name):
        raise _foreign(expr, scope, what)
    count = len(expr.args)
    functions = [
        known
        for known in (*builtins.BUILTINS, *builtins.ALIASES)
        if (found := builtins.lookup(known)) is not None and found.arity == count
    ]
    functions += (*MIN_MAX, PAD) if count == 2 else ()
    others = {*scope.defs, CONCAT} - {signature.name}
    tensors = [t for t in signature.tensors() if signature.ranks.get(t, count) == count]
    near = nearest(name, (*tensors, *functions, *others)) or closest(name, others)
    span, repair, hint = expr.name.span, None, None
    edits: tuple[Edit, ...] = ()
    if near in others:
        edits = _call_before(expr, near, scope)
        repair = f"t = {_called(expr, near)}, before this statement, and read t here"
    elif near is not None:
        edits = (Edit(expr.name.span, near),)
    elif "is neither" not in what:
        edits = (Edit(expr.span, name),)
    elif product_of := _juxtaposed(name, signature):
        edits = (Edit(expr.name.span, product_of),)
    else:
        dims = ", ".join("NMKLPQ"[: len(expr.args)])
        hint = f"float({dims}) {name}, among the parameters, if it is a tensor"
    raise CheckError(
        f"'{name}' {what}" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=span,
        repair=None if edits else repair,
        edits=edits,
        idiom=hint,
    )


def _juxtaposed(name: str, signature: Signature) -> str | None:
    """`2 * x` for the name `2x`, where `x` is a tensor."""
    digits = name[: len(name) - len(name.lstrip("0123456789"))]
    rest = name[len(digits) :]
    return f"{digits} * {rest}" if digits and signature.is_tensor(rest) else None


def _foreign(expr: ast.Apply, scope: Scope, what: str) -> CheckError:
    """The error for a function of another library."""
    name, signature, statement = expr.name.text, scope.frame.signature, scope.statement
    text = formula(expr, names_of(signature))
    edits: tuple[Edit, ...] = (Edit(expr.span, text),) if text is not None else ()
    hint = None
    example: tuple[Edit, ...] = ()
    if not edits and name in REDUCTIONS:
        edits, hint = _reduction(expr, scope)
    elif not edits and statement is not None and (edits := product(statement, expr, signature)):
        pass
    elif not edits and statement is not None and any(found := steps(statement, expr, signature)):
        edits, example = found
    elif not edits and name in ("len", "length", "numel") and len(expr.args) == 1:
        arg = expr.args[0]
        if isinstance(arg, ast.Name) and signature.ranks.get(arg.text) == 1:
            edits = (Edit(expr.span, f"{arg.text}.0"),)
    elif not edits and name in ("size", "shape") and len(expr.args) == 2:
        match expr.args:
            case (ast.Name(text=tensor), ast.Number(value=int() as axis)):
                if axis < signature.ranks.get(tensor, 0):
                    edits = (Edit(expr.span, f"{tensor}.{axis}"),)
    if example:
        hint = "it is several statements; over the last index,"
    elif not edits and hint is None:
        hint = idiom(name) or f"{name} takes other arguments"
    return CheckError(
        f"'{name}' {what}",
        rule="N1",
        span=expr.span,
        edits=edits,
        idiom=hint,
        example=example,
    )


def _unknown_tensor(name: ast.Name, scope: Scope, whole: Span | None = None) -> NoReturn:
    signature = scope.frame.signature
    near = nearest(name.text, signature.tensors())
    edits: tuple[Edit, ...] = ()
    if near:
        edits = (Edit(name.span, near),)
    elif name.text in signature.sizes and whole is not None:
        edits = (Edit(whole, name.text),)
    kind = "a size" if name.text in signature.sizes else "no tensor"
    raise CheckError(
        f"'{name.text}' is {kind} of '{signature.name}'"
        + (", not a tensor" if name.text in signature.sizes else "")
        + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=name.span,
        edits=edits,
        repair=None if edits else f"name one of the tensors: {', '.join(signature.tensors())}",
    )
