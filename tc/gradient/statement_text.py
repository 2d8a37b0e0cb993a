"""The statements of a gradient, and their text; ranges that follow by themselves are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tc.dtypes import FLOAT32, DType
from tc.errors import CheckError, GradError, InputError, RangeError, TCError
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.gradient.def_text import Joined, printed
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.semantics.ranges.range_inference import infer_ranges
from tc.source import Source

ExprBounds: TypeAlias = tuple[p.Expr, p.Expr]


@dataclass(frozen=True, slots=True)
class Written:
    """A statement to be: `target(indices) op rhs where ...`."""

    target: str
    indices: tuple[str, ...]
    op: str
    rhs: p.Expr
    where: Mapping[str, ExprBounds] = field(default_factory=dict)

    @property
    def text(self) -> str:
        left = f"{self.target}({', '.join(self.indices)})" if self.indices else self.target
        clauses = ", ".join(f"{v} in {printed(b)}:{printed(c)}" for v, (b, c) in self.where.items())
        where = f" where {clauses}" if clauses else ""
        return f"{left} {self.op} {printed(e.with_pads(self.rhs))}{where}"


WrittenStep: TypeAlias = Written | Joined


@dataclass(frozen=True, slots=True)
class SampleCall:
    """Sizes to try: shapes of the inputs and the values of integer scalars."""

    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, int]


def without_idle_ranges(
    head: str,
    statements: Sequence[WrittenStep],
    calls: Sequence[SampleCall],
    edges: Sequence[SampleCall],
) -> list[WrittenStep]:
    """The statements without where clauses that change nothing at any of the sizes; `edges` are
    those where some are 0."""
    wanted = _ranges(head, statements, calls)
    if isinstance(wanted, TCError):
        raise GradError(
            f"the text of the gradient would not be accepted: {wanted.cause}",
            rule="D4",
            repair="tc.grad of the parts of the program, each a def",
        ) from wanted
    accepted = [c for c in edges if not isinstance(_ranges(head, statements, [c]), TCError)]
    every = (*calls, *accepted)
    kept = _left(head, statements, calls[-1:])
    if _ranges(head, kept, every) != _ranges(head, statements, every):
        kept = _left(head, statements, every)
    return kept


def _left(
    head: str, statements: Sequence[WrittenStep], calls: Sequence[SampleCall]
) -> list[WrittenStep]:
    wanted = _ranges(head, statements, calls)
    kept = list(statements)
    for position, statement in enumerate(statements):
        if isinstance(statement, Joined):
            continue
        where = statement.where
        trials = [tuple(statement.where), *((v,) for v in statement.where)]
        for left_out in trials:
            rest = {v: b for v, b in where.items() if v not in left_out}
            attempt = [*kept[:position], replace(statement, where=rest), *kept[position + 1 :]]
            if _ranges(head, attempt, calls) == wanted:
                kept, where = attempt, rest
    return kept


def with_types(
    head: str, statements: Sequence[WrittenStep], types: Mapping[str, DType]
) -> list[WrittenStep]:
    """The statements of which those that write these tensors give them these types: where one would
    get another, what is written to it is cast."""
    found = check(parse(Source(body_text(head, statements)))).tensors
    wrong = {name for name, dtype in types.items() if found[name].dtype != dtype}

    def typed(statement: WrittenStep) -> WrittenStep:
        if statement.target not in wrong or isinstance(statement, Joined):
            return statement
        dtype = types[statement.target]
        if statement.rhs == e.ZERO and dtype == FLOAT32:
            return replace(statement, rhs=p.Literal(0.0, dtype, span=e.NOWHERE))
        return replace(statement, rhs=p.Convert(statement.rhs, dtype, True, span=e.NOWHERE))

    return [typed(statement) for statement in statements]


def body_text(head: str, statements: Sequence[WrittenStep]) -> str:
    lines = "\n".join(statement.text for statement in statements)
    return f"{head} {{\n{lines}\n}}\n"


def _ranges(head: str, statements: Sequence[WrittenStep], calls: Sequence[SampleCall]) -> object:
    try:
        program = check(parse(Source(body_text(head, statements))))
        found = []
        for call in calls:
            shapes = {name: call.shapes[name] for name in program.inputs}
            shaped = infer_ranges(program, shapes, call.scalars)
            found.append((shaped.shapes, [s.ranges for s in shaped.statements]))
    except (CheckError, InputError, RangeError) as error:
        return error
    return [
        (shapes, [{v: (r.begin, r.end) for v, r in ranges.items()} for ranges in all_ranges])
        for shapes, all_ranges in found
    ]
