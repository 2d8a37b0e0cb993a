"""Calls of one def by another: arguments, targets and returns (N4, T4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.edits import Edit
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics import program as p
from tc.semantics import suggest
from tc.semantics.check.builder import Builder, declared
from tc.semantics.check.declarations import CONCAT, DefSignature
from tc.semantics.check.scope import CallFrame, Seen
from tc.semantics.resolved import FlatTensor
from tc.source import Span


def argument(builder: Builder, arg: ast.Expr, call: ast.CallStatement, frame: CallFrame) -> str:
    """The tensor in the program that an argument of a call names."""
    signature = frame.signature
    callee = call.callee.text
    if not isinstance(arg, ast.Name) or not signature.is_tensor(arg.text):
        raise _no_tensor(arg, call, signature)
    tensor = frame.tensors[arg.text]
    if any(arg.text == target.text for target in call.targets):
        raise CheckError(
            f"'{arg.text}' is an argument and a target of the call of '{callee}'; targets are "
            "fresh tensors",
            rule="N4",
            span=arg.span,
            repair="give the target a name of its own",
        )
    if builder.tensors[tensor].role == "temporary" and tensor not in builder.written:
        read = Seen(tensor, arg.text, arg.span, False)
        builder.note_read(read, frame, "")
    builder.touched.setdefault(tensor, arg.span)
    return tensor


def call_targets(
    builder: Builder, call: ast.CallStatement, frame: CallFrame, args: Sequence[str]
) -> list[str]:
    """The tensors in the program that a call writes: fresh, distinct and no inputs (N4)."""
    signature = frame.signature
    found: dict[str, Span] = {}
    for target in call.targets:
        name = target.text
        if name in signature.params:
            raise CheckError(
                f"'{name}' is an input of '{signature.name}', and inputs are immutable",
                rule="N2",
                span=target.span,
                repair="write to another name",
                notes=((signature.params[name].span, "the input is declared here"),),
            )
        tensor = frame.tensors[name]
        if tensor in found:
            raise CheckError(
                f"the call names the target '{name}' twice",
                rule="N4",
                span=target.span,
                repair="give each target a name of its own",
            )
        if tensor in builder.touched and tensor not in args:
            how = "written" if tensor in builder.written else "read"
            raise CheckError(
                f"'{name}' has been {how} before; the targets of a call are fresh tensors",
                rule="N4",
                span=target.span,
                idiom=f"t = {call.callee.text}(...), and then {name}(i) = t(i), to replace "
                f"what '{name}' holds",
                notes=((builder.touched[tensor], f"it is {how} here"),),
            )
        found[tensor] = target.span
    return list(found)


def check_counts(call: ast.CallStatement, callee: DefSignature) -> None:
    name = callee.name
    if len(call.args) != len(callee.params):
        wanted = ", ".join(suggest.one_line(param.span) for param in callee.params.values())
        raise CheckError(
            f"'{name}' takes {suggest.counted(len(callee.params), 'argument')} and is given "
            f"{len(call.args)}",
            rule="N4",
            span=call.span,
            repair=f"give it a tensor for each of the parameters {wanted}",
            notes=((callee.definition.name.span, f"'{name}' is defined here"),),
        )
    if len(call.targets) != len(callee.returns):
        raise CheckError(
            f"'{name}' returns {suggest.counted(len(callee.returns), 'tensor')}, "
            f"{suggest.listed([*callee.returns])}, and the call has "
            f"{suggest.counted(len(call.targets), 'target')}",
            rule="N4",
            span=call.targets[0].span.to(call.targets[-1].span),
            repair=f"write a target for each, as in {', '.join(callee.returns)} = {name}(...)",
            notes=((callee.definition.name.span, f"'{name}' is defined here"),),
        )


def declare_target(
    builder: Builder,
    result: ast.Return,
    target: str,
    prefix: str,
    callee: DefSignature,
    call: ast.CallStatement,
) -> None:
    """Take element type and shape of a target from the annotated return of the callee (T4)."""
    tensor = builder.tensors[target]
    rank = callee.ranks.get(result.name.text, tensor.rank)
    if rank != tensor.rank:
        raise CheckError(
            f"'{callee.name}' returns '{result.name.text}' with rank {rank}, and '{target}' has "
            f"rank {tensor.rank}",
            rule="N4",
            span=call.span,
            repair=f"use '{target}' with rank {rank}: {suggest.element(target, rank)}",
            notes=((tensor.span, f"'{target}' has rank {tensor.rank} here"),),
        )
    dtype, at, shape = declared(result, prefix)
    if dtype is None or at is None or shape is None:
        return
    if tensor.declared is None:
        builder.tensors[target] = replace(tensor, declared=dtype, declared_at=at)
    elif tensor.declared != dtype:
        raise CheckError(
            f"'{callee.name}' returns '{result.name.text}' as {dtype}, and '{target}' is "
            f"declared as {tensor.declared}",
            rule="T4",
            span=call.span,
            repair=f"declare both alike: {_spelled(result.type, str(tensor.declared))} "
            f"{result.name.text}",
            notes=(
                (at, f"'{callee.name}' declares {dtype} here"),
                *(((tensor.declared_at, "the other declaration"),) if tensor.declared_at else ()),
            ),
        )
    builder.shaped.add(target)
    if tensor.shape is None:
        builder.tensors[target] = replace(builder.tensors[target], shape=shape)
        return
    for axis, (left, right) in enumerate(zip(tensor.shape, shape, strict=True)):
        builder.equalities.append(
            p.Equality(
                left,
                right,
                f"dimension {axis} of '{target}' is declared, and '{callee.name}' declares it as "
                f"that of its return '{result.name.text}'",
                span=call.span,
            )
        )


def check_rank(callee: DefSignature, param: ast.Param, arg: ast.Expr, tensor: FlatTensor) -> None:
    """Raise for an argument of another rank than the parameter's."""
    rank = len(param.type.dims or ())
    if tensor.rank != rank:
        raise CheckError(
            f"the parameter '{param.name.text}' of '{callee.name}' has rank {rank}, and "
            f"'{suggest.one_line(arg.span)}' has rank {tensor.rank}",
            rule="N4",
            span=arg.span,
            repair=f"pass a tensor of rank {rank}: {suggest.element('t', rank)} = ...",
            notes=((param.span, "the parameter is declared here"), (tensor.span, "the argument")),
        )


def with_calls(error: CheckError, calls: tuple[Span, ...]) -> CheckError:
    """The error of an inlined statement, with the calls that lead to it, innermost first."""
    return CheckError(
        error.cause,
        rule=error.rule,
        span=error.span,
        repair=error.repair,
        edits=error.edits,
        idiom=error.idiom,
        example=error.example,
        notes=(*error.notes, *((call, "in this call") for call in reversed(calls))),
    )


def unknown_def(
    call: ast.CallStatement, signature: DefSignature, defs: Mapping[str, DefSignature]
) -> CheckError:
    name = call.callee.text
    known = [other for other in defs if other != signature.name]
    fitting = [
        other
        for other in known
        if len(defs[other].params) == len(call.args)
        and len(defs[other].returns) == len(call.targets)
    ]
    near = suggest.nearest(name, (*known, CONCAT)) or suggest.closest(name, fitting)
    return CheckError(
        f"'{name}' is not a def of this text" + (f"; did you mean '{near}'?" if near else ""),
        rule="N4",
        span=call.callee.span,
        paste=near,
        repair=None
        if near
        else f"define it, or call {suggest.listed(known, 'or')}"
        if known
        else f"write it: def {name}(...) -> (...) {{...}}",
    )


def _no_tensor(arg: ast.Expr, call: ast.CallStatement, signature: DefSignature) -> CheckError:
    callee, text = call.callee.text, suggest.one_line(arg.span)
    t = suggest.unused("t", arg.span)
    edits: tuple[Edit, ...] = (suggest.before(call.span, f"{t} = {text}"), Edit(arg.span, t))
    names = {n.text for n in ast.walk(arg) if isinstance(n, ast.Name)}
    if not all(name in signature.sizes or signature.is_tensor(name) for name in names):
        edits = ()  # of index variables there would be none here
    if isinstance(arg, ast.Name) and arg.text not in signature.sizes:
        near = suggest.nearest(arg.text, signature.tensors())
        return CheckError(
            f"'{text}' is no tensor of '{signature.name}'"
            + (f"; did you mean '{near}'?" if near else "")
            + "; a call passes tensors",
            rule="N4",
            span=arg.span,
            paste=near,
            repair=None if near else f"pass one of {suggest.listed(signature.tensors(), 'or')}",
        )
    if isinstance(arg, ast.Apply) and signature.is_tensor(arg.name.text):
        return CheckError(
            f"'{callee}' is given the element '{text}'; a call passes whole tensors",
            rule="N4",
            span=arg.span,
            edits=edits,
            repair=f"{t} = {text}, before the call, and pass {t}"
            if edits
            else f"pass the whole tensor, {arg.name.text}",
        )
    what = "the size" if isinstance(arg, ast.Name) else "the value"
    return CheckError(
        f"'{callee}' is given {what} '{text}'; a call passes tensors by name",
        rule="N4",
        span=arg.span,
        edits=edits,
        repair=f"{t} = {text}, before the call, and pass {t}",
    )


def _spelled(type_: ast.TensorType | None, dtype: str) -> str:
    dims = [suggest.one_line(dim.span) for dim in (type_.dims or ())] if type_ else []
    return f"{dtype}({', '.join(dims)})" if dims else dtype
