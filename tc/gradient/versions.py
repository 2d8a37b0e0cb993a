"""The forward program in single assignment (D9): a tensor that is overwritten whole is another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tc.errors import GradError
from tc.gradient import terms as e
from tc.gradient.sampled_ranges import SampledRanges
from tc.semantics import program as p
from tc.source import Span


@dataclass(frozen=True, slots=True)
class VersionStep:
    """A statement that writes, or adds to, one version of a tensor; its reads are of versions."""

    statement: p.Statement
    version: str
    tensor: str
    fresh: bool  # whether the version starts here


def versions(
    program: p.Program, found: SampledRanges, fresh: Callable[[str], str]
) -> tuple[VersionStep, ...]:
    """The statements with a name per version; the last version has the tensor's own name."""
    starts = [_starts(program, s, found) for s in program.statements]
    left = {
        name: sum(
            begins for s, begins in zip(program.statements, starts, strict=True) if s.target == name
        )
        for name in program.tensors
    }
    current: dict[str, str] = {}
    was_read: set[str] = set()
    steps = []
    for statement, begins in zip(program.statements, starts, strict=True):
        names = dict(current)

        def change(node: p.Expr, names: dict[str, str] = names) -> p.Expr | None:
            if isinstance(node, p.Read) and node.tensor in names:
                inside = tuple(e.rebuilt(s, change) for s in node.subscripts)
                return replace(node, tensor=names[node.tensor], subscripts=inside)
            if isinstance(node, p.Extent) and node.tensor in names:
                return replace(node, tensor=names[node.tensor])
            return None

        for node in p.walk(statement.rhs):
            if isinstance(node, p.Read) and node.tensor not in program.inputs:
                if node.tensor not in names:
                    raise _refused("reads what only the caller can have given", node.span)
                was_read.add(names[node.tensor])
        rhs = e.rebuilt(statement.rhs, change)
        target = statement.target
        if begins:
            left[target] -= 1
            is_last = left[target] == 0
            current[target] = target.replace(".", "_") if is_last else fresh(f"{target}_1")
            if is_last and "." in target:
                current[target] = fresh(current[target])
        elif target not in current:
            raise _refused("goes on from what only the caller can have given", statement.span)
        elif current[target] in was_read:
            raise _refused(f"changes '{target}' after an element of it was read", statement.span)
        if not all(isinstance(s, p.Index) for s in statement.subscripts):
            raise _refused("writes a part of a tensor by concat", statement.span)
        steps.append(VersionStep(replace(statement, rhs=rhs), current[target], target, begins))
    for step in steps:
        several = sum(other.version == step.version for other in steps) > 1
        if several and step.statement.op in ("*", "min", "max"):
            raise _refused(
                "is one of several that make a tensor, not all sums", step.statement.span
            )
    return tuple(steps)


def _starts(program: p.Program, statement: p.Statement, found: SampledRanges) -> bool:
    """Whether a statement forgets what its target held."""
    earlier = [
        s
        for s in program.statements[: program.statements.index(statement)]
        if s.target == statement.target
    ]
    if not (statement.op == "=" or statement.init or statement.continues == "nothing"):
        return False
    ranges = found.ranges[statement.name]
    shape = found.shapes[statement.target]
    if earlier or statement.target in program.needs_initial:
        for subscript, size in zip(statement.subscripts, shape, strict=True):
            bounds = ranges[subscript.name] if isinstance(subscript, p.Index) else None
            if bounds is None or bounds[0] != e.ZERO or bounds[1] != size:
                raise _refused("overwrites a part of its target", statement.span)
    return True


def _refused(what: str, span: Span) -> GradError:
    return GradError(
        f"this statement {what}, of which no gradient is derived",
        rule="D9",
        span=span,
        repair="give that value a tensor of its own",
    )
