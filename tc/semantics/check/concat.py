"""`X = concat(A, B)`: one statement per source, with an offset in the last subscript (N4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.dtypes import INT64
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics import program as p
from tc.semantics.check.builder import Builder
from tc.semantics.check.calls import argument, call_targets
from tc.semantics.check.declarations import MAX_JOINED
from tc.semantics.check.scope import CallFrame, Seen
from tc.semantics.resolved import OPEN, FlatStatement, FlatTensor
from tc.semantics.suggest import counted, element, one_line


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
        builder.note_read(Seen(seen, one_line(arg.span), arg.span, False), frame, target)
    _shape_concat(builder, call, target, args, rank)
    calls = frame.calls
    names = _fresh_indices(rank, {*frame.signature.sizes, *frame.signature.tensors()})
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
    for axis, (declared, joined) in enumerate(zip(tensor.shape, shape, strict=True)):
        reason = f"dimension {axis} of '{target}' is declared, and concat gives it from its sources"
        builder.equalities.append(p.Equality(declared, joined, reason, span=span))


def _fresh_indices(rank: int, taken: set[str]) -> tuple[str, ...]:
    stem = "i"
    while any(f"{stem}{axis}" in taken for axis in range(rank)):
        stem += "_"
    return tuple(f"{stem}{axis}" for axis in range(rank))


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
