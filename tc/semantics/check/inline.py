"""Flatten a def: put the statements of called defs in the place of the calls (N3, N4, R3, R4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tc.dtypes import SPELLINGS
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics.check import calls
from tc.semantics.check.builder import Builder, declared
from tc.semantics.check.concat import add_concat
from tc.semantics.check.declarations import CONCAT, DefSignature
from tc.semantics.check.scope import CallFrame
from tc.semantics.check.statements import resolve_statement
from tc.semantics.resolved import Argument, Flat, FlatTensor
from tc.semantics.suggest import element, nearest, one_line


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
            raise calls.unknown_def(step, frame.signature, builder.defs)


def _add_comprehension(builder: Builder, statement: ast.Comprehension, frame: CallFrame) -> None:
    resolved, reads = resolve_statement(
        statement, frame, builder.defs, builder.tensors, builder.shaped
    )
    target = resolved.target
    for read in reads:
        builder.note_read(read, frame, target)
    if resolved.op != "=" and not resolved.init:
        continues = "caller" if builder.tensors[target].role == "output" else "nothing"
        continues = "written" if target in builder.written else continues
        resolved = replace(resolved, continues=continues)
    builder.statements.append(resolved)
    builder.note_write(target, statement.span)


def _add_call(builder: Builder, call: ast.CallStatement, frame: CallFrame) -> None:
    """Inline a call: parameters become the arguments, returns the targets (N4)."""
    callee = builder.defs[call.callee.text]
    calls.check_counts(call, callee)
    args = [calls.argument(builder, arg, call, frame) for arg in call.args]
    targets = calls.call_targets(builder, call, frame, args)
    builder.inlinings[callee.name] += 1
    count = builder.inlinings[callee.name]
    prefix = f"{callee.name}." if count == 1 else f"{callee.name}#{count}."
    params = zip(callee.params.items(), args, call.args, strict=True)
    for (name, param), tensor, written in params:
        calls.check_rank(callee, param, written, builder.tensors[tensor])
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
    tensors = dict(zip(callee.params, args, strict=True))
    given = f", and '{frame.signature.name}' calls it in '{one_line(call.span)}'"
    builder.add_sizes(callee, tensors, prefix, given)
    for result, target in zip(callee.returns.values(), targets, strict=True):
        calls.declare_target(builder, result, target, prefix, callee, call)
    tensors.update(zip(callee.returns, targets, strict=True))
    tensors.update((name, prefix + name) for name in callee.temporaries)
    inner = CallFrame(callee, tensors, prefix, (*frame.calls, call.span))
    builder.add_temporaries(inner)
    try:
        _add_steps(builder, inner)
    except CheckError as error:
        # the callee is right on its own, so what is wrong is wrong in this call
        raise calls.with_calls(error, (call.span,)) from None


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
