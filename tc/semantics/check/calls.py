"""Calls of one def by another put in their place: arguments, targets and returns (N4, T4), the
statements of the called def (N3, R3, R4), and `X = concat(A, B)`, one statement per source with an
offset in the last subscript (N4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.dtypes import INT64, SPELLINGS
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics import program as p
from tc.semantics import suggest
from tc.semantics.check.builder import Builder, CallFrame, Seen, declared, default_of
from tc.semantics.check.declarations import CONCAT, MAX_JOINED, DefSignature
from tc.semantics.check.statements import resolve_statement
from tc.semantics.resolved import OPEN, Argument, Flat, FlatStatement, FlatTensor
from tc.semantics.suggest import element, one_line
from tc.source import Edit, Span
from tc.wording import closest, counted, listed, nearest


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
    needed = [param for param in callee.params.values() if param.default is None]
    last = max((k for k, param in enumerate(callee.params.values()) if param in needed), default=-1)
    if not last < len(call.args) <= len(callee.params):
        wanted = ", ".join(suggest.one_line(param.span) for param in callee.params.values())
        raise CheckError(
            f"'{name}' takes {counted(len(callee.params), 'argument')} and is given "
            f"{len(call.args)}",
            rule="N4",
            span=call.span,
            repair=f"give it a tensor for each of the parameters {wanted}",
            notes=((callee.definition.name.span, f"'{name}' is defined here"),),
        )
    if len(call.targets) != len(callee.returns):
        raise CheckError(
            f"'{name}' returns {counted(len(callee.returns), 'tensor')}, "
            f"{listed([*callee.returns])}, and the call has "
            f"{counted(len(call.targets), 'target')}",
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
    near = nearest(name, (*known, CONCAT)) or closest(name, fitting)
    return CheckError(
        f"'{name}' is not a def of this text" + (f"; did you mean '{near}'?" if near else ""),
        rule="N4",
        span=call.callee.span,
        paste=near,
        repair=None
        if near
        else f"define it, or call {listed(known, 'or')}"
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
        near = nearest(arg.text, signature.tensors())
        return CheckError(
            f"'{text}' is no tensor of '{signature.name}'"
            + (f"; did you mean '{near}'?" if near else "")
            + "; a call passes tensors",
            rule="N4",
            span=arg.span,
            paste=near,
            repair=None if near else f"pass one of {listed(signature.tensors(), 'or')}",
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


def flatten(signature: DefSignature, defs: Mapping[str, DefSignature]) -> Flat:
    """The def with names resolved and calls inlined.

    Raises CheckError for everything that is wrong whatever the types: names (N1), writes to
    inputs and outputs never written (N2), temporaries read too early (R4), calls (N4), missing
    reduction operators (R1), where clauses (G8, T5).
    """
    builder = Builder(defs)
    builder.declare_inputs(signature)
    for name, result in signature.returns.items():
        dtype, at, shape = declared(result, "")
        rank = signature.ranks.get(name, 0)
        builder.tensors[name] = FlatTensor(name, rank, "output", dtype, at, shape, result.name.span)
        if shape is not None:
            builder.shaped.add(name)
    frame = CallFrame(signature, {name: name for name in signature.tensors()}, "", ())
    builder.add_temporaries(frame)
    _add_steps(builder, frame)
    _check_outputs(builder, signature)
    return Flat(
        builder.tensors,
        tuple(signature.params),
        tuple(signature.returns),
        tuple(t.name for t in builder.tensors.values() if t.role == "temporary"),
        builder.sizes,
        tuple(builder.equalities),
        tuple(builder.statements),
        tuple(builder.arguments),
        builder.needs_initial,
        tuple(builder.warnings),
    )


def _add_steps(builder: Builder, frame: CallFrame) -> None:
    builder.warnings.extend(frame.signature.warnings)
    for step in frame.signature.steps:
        if isinstance(step, ast.Comprehension):
            _add_comprehension(builder, step, frame)
        elif step.callee.text in builder.defs:
            _add_call(builder, step, frame)
        elif step.callee.text == CONCAT:
            add_concat(builder, step, frame)
        else:
            raise unknown_def(step, frame.signature, builder.defs)


def _add_comprehension(builder: Builder, statement: ast.Comprehension, frame: CallFrame) -> None:
    resolved, reads = resolve_statement(
        statement, frame, builder.defs, builder.tensors, builder.shaped
    )
    targets = (resolved.target, *(companion.target for companion in resolved.companions))
    for read in reads:
        builder.note_read(read, frame, targets)
    if resolved.op != "=" and not resolved.init:
        continues = [_continues(builder, target) for target in targets]
        companions = (
            replace(companion, continues=each)
            for companion, each in zip(resolved.companions, continues[1:], strict=True)
        )
        resolved = replace(resolved, continues=continues[0], companions=tuple(companions))
    builder.statements.append(resolved)
    for target in targets:
        builder.note_write(target, statement.span)


def _continues(builder: Builder, target: str) -> str:
    """What an op= without "!" goes on from (R3)."""
    if target in builder.written:
        return "written"
    return "caller" if builder.tensors[target].role == "output" else "nothing"


def _add_call(builder: Builder, call: ast.CallStatement, frame: CallFrame) -> None:
    """Inline a call: parameters become the arguments, returns the targets (N4)."""
    callee = builder.defs[call.callee.text]
    check_counts(call, callee)
    args = [argument(builder, arg, call, frame) for arg in call.args]
    targets = call_targets(builder, call, frame, args)
    builder.inlinings[callee.name] += 1
    count = builder.inlinings[callee.name]
    prefix = f"{callee.name}." if count == 1 else f"{callee.name}#{count}."
    left_out = list(callee.params.values())[len(args) :]
    params = zip(callee.params.items(), args, call.args, strict=False)
    for (name, param), tensor, written in params:
        check_rank(callee, param, written, builder.tensors[tensor])
        builder.arguments.append(
            Argument(
                tensor,
                one_line(written.span),
                name,
                callee.name,
                SPELLINGS[param.type.spelling],
                builder.tensors[tensor].rank,
                written.span,
                param.span,
                frame.calls,
            )
        )
    args += [_left_out(builder, param, prefix, call, frame) for param in left_out]
    tensors = dict(zip(callee.params, args, strict=True))
    given = f", and '{frame.signature.name}' calls it in '{one_line(call.span)}'"
    builder.add_sizes(callee, tensors, prefix, given)
    for result, target in zip(callee.returns.values(), targets, strict=True):
        declare_target(builder, result, target, prefix, callee, call)
    tensors.update(zip(callee.returns, targets, strict=True))
    tensors.update((name, prefix + name) for name in callee.temporaries)
    inner = CallFrame(callee, tensors, prefix, (*frame.calls, call.span))
    builder.add_temporaries(inner)
    try:
        _add_steps(builder, inner)
    except CheckError as error:
        # the callee is right on its own, so what is wrong is wrong in this call
        raise with_calls(error, (call.span,)) from None


def _left_out(
    builder: Builder, param: ast.Param, prefix: str, call: ast.CallStatement, frame: CallFrame
) -> str:
    """A temporary with the default of a parameter that a call leaves out (E5)."""
    name, value = f"{prefix}{param.name.text}", default_of(param)
    assert value is not None
    dtype = SPELLINGS[param.type.spelling]
    builder.tensors[name] = FlatTensor(name, 0, "temporary", dtype, param.span, (), call.span)
    rhs = p.Convert(p.Literal(value, OPEN, span=call.span), dtype, written=True, span=call.span)
    none: frozenset[str] = frozenset()
    builder.statements.append(
        FlatStatement(
            name, param.name.text, (), (), {}, "=", False, "", rhs, (), (), none,
            call.span, frame.calls,
        )
    )  # fmt: skip
    builder.note_write(name, call.span)
    return name


def _check_outputs(builder: Builder, signature: DefSignature) -> None:
    """Raise for an output that no statement defines (N2)."""
    for name, result in signature.returns.items():
        if name in builder.written:
            continue
        near = nearest(name, signature.temporaries)
        rank = len(result.type.dims or ()) if result.type else 1
        raise CheckError(
            f"no statement of '{signature.name}' defines its return '{name}'"
            + (f"; '{near}' is written and not returned" if near else ""),
            rule="N2",
            span=result.name.span,
            paste=near,
            repair=None if near else f"write it: {element(name, rank)} = ...",
            notes=((signature.temporaries[near], f"'{near}' is written here"),) if near else (),
        )


def add_concat(builder: Builder, call: ast.CallStatement, frame: CallFrame) -> None:
    """`X = concat(A, B)`: one statement per source, with an offset in the last subscript (N4)."""
    if len(call.targets) != 1 or not call.args:
        joined = ", ".join(one_line(arg.span) for arg in call.args) or "A, B"
        raise CheckError(
            f"concat joins one or more tensors into one, and is given "
            f"{counted(len(call.args), 'tensor')} for {counted(len(call.targets), 'target')}",
            rule="N4",
            span=call.span,
            idiom=f"{call.targets[0].text} = concat({joined}), for one tensor of all",
        )
    if len(call.args) > MAX_JOINED:
        raise CheckError(
            f"concat joins at most {MAX_JOINED} tensors and is given {len(call.args)}",
            rule="N4",
            span=call.span,
            repair="join groups of them first: t = concat(A, B), o = concat(t, C)",
        )
    args = [argument(builder, arg, call, frame) for arg in call.args]
    (target,) = call_targets(builder, call, frame, args)
    sources = [builder.tensors[arg] for arg in args]
    rank = sources[0].rank
    for source, arg in zip(sources, call.args, strict=True):
        if source.rank != rank or rank == 0:
            raise _not_joinable(sources[0], source, arg, call)
    if builder.tensors[target].rank != rank:
        raise CheckError(
            f"concat of tensors of rank {rank} gives rank {rank}, and "
            f"'{call.targets[0].text}' has rank {builder.tensors[target].rank}",
            rule="N4",
            span=call.span,
            repair=f"read and write it as {element(call.targets[0].text, rank)}",
            notes=((frame.signature.ranked_at[call.targets[0].text], "the rank is given here"),),
        )
    for arg, seen in zip(call.args, args, strict=True):
        builder.note_read(Seen(seen, one_line(arg.span), arg.span, False), frame, (target,))
    _shape_concat(builder, call, target, args, rank)
    calls = frame.calls
    taken = {*frame.signature.sizes, *frame.signature.tensors()}
    stem = "i"
    while any(f"{stem}{axis}" in taken for axis in range(rank)):
        stem += "_"
    names = tuple(f"{stem}{axis}" for axis in range(rank))
    for position, (arg, read) in enumerate(zip(call.args, args, strict=True)):
        indices = [p.Index(name, span=arg.span) for name in names]
        last: p.Expr = indices[-1]
        for before, shown in zip(args[:position], call.args, strict=False):
            extent = p.Extent(before, rank - 1, span=shown.span)
            last = p.Binary("+", last, extent, OPEN, span=arg.span)
        builder.statements.append(
            FlatStatement(
                target,
                call.targets[0].text,
                (*indices[:-1], last),
                names,
                dict.fromkeys(names, arg.span),
                "=",
                False,
                "",
                p.Read(read, tuple(indices), OPEN, -1, span=arg.span),
                (),
                (),
                frozenset((read,)),
                call.span,
                calls,
            )
        )
    builder.note_write(target, call.span)


def _shape_concat(
    builder: Builder, call: ast.CallStatement, target: str, args: Sequence[str], rank: int
) -> None:
    """The shape of concat's target, and that all dimensions but the last agree."""
    first = args[0]
    span = call.span
    for axis in range(rank - 1):
        for other, arg in zip(args[1:], call.args[1:], strict=True):
            builder.equalities.append(
                p.Equality(
                    p.Extent(first, axis, span=call.args[0].span),
                    p.Extent(other, axis, span=arg.span),
                    f"concat joins along the last dimension, so dimension {axis} of "
                    f"'{one_line(call.args[0].span)}' and of '{one_line(arg.span)}' agree",
                    span=arg.span,
                )
            )
    total: p.Expr = p.Extent(first, rank - 1, span=call.args[0].span)
    for other, arg in zip(args[1:], call.args[1:], strict=True):
        extent = p.Extent(other, rank - 1, span=arg.span)
        total = p.Binary("+", total, extent, INT64, span=span)
    shape = (*(p.Extent(first, axis, span=span) for axis in range(rank - 1)), total)
    tensor = builder.tensors[target]
    if tensor.shape is None:
        builder.tensors[target] = replace(tensor, shape=shape)
        return
    for axis, (written, joined) in enumerate(zip(tensor.shape, shape, strict=True)):
        reason = f"dimension {axis} of '{target}' is declared, and concat gives it from its sources"
        builder.equalities.append(p.Equality(written, joined, reason, span=span))


def _not_joinable(
    first: FlatTensor, source: FlatTensor, arg: ast.Expr, call: ast.CallStatement
) -> CheckError:
    text = one_line(arg.span)
    if first.rank == 0 or source.rank == 0:
        cause = f"'{text}' has rank 0 and no last dimension to join along"
        repair = f"t(i) = {text} where i in 0:1, before the call, and pass t"
    else:
        shown = one_line(call.args[0].span)
        cause = (
            f"concat joins tensors of one rank; '{shown}' has rank {first.rank} and '{text}' has "
            f"rank {source.rank}"
        )
        repair = f"copy '{text}' into a tensor of rank {first.rank} first"
    return CheckError(cause, rule="N4", span=arg.span, repair=repair)
