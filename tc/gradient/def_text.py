"""Statements of a def to be, and its text: what forward mode and batching write."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.dtypes import FLOAT32, SPELLINGS, DType
from tc.errors import CheckError, GradError
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source

SPELLED = {dtype.name: word for word, dtype in SPELLINGS.items()}
"""The short spelling of each type, which stands last."""


@dataclass(frozen=True, slots=True)
class Line:
    """A comprehension: `target(indices) op rhs where ...`, with `op` as it is written."""

    target: str
    indices: tuple[str, ...]
    op: str
    rhs: p.Expr
    where: tuple[p.WhereRange, ...] = ()
    exists: tuple[p.Read, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The index variables, those of the left side first."""
        named = [n for expr in (self.rhs, *self.exists) for n in p.index_names(expr)]
        return tuple(dict.fromkeys((*self.indices, *named, *(w.variable for w in self.where))))

    @property
    def reduction(self) -> tuple[str, ...]:
        return tuple(v for v in self.variables if v not in self.indices)

    @property
    def starts(self) -> bool:
        """Whether it forgets what its target held."""
        return self.op == "=" or self.op.endswith("!")

    @property
    def left(self) -> tuple[p.Expr, ...]:
        return tuple(map(e.index, self.indices))

    @property
    def text(self) -> str:
        left = f"{self.target}({', '.join(self.indices)})" if self.indices else self.target
        clauses = [f"{w.variable} in {printed(w.begin)}:{printed(w.end)}" for w in self.where]
        clauses += [f"exists {printed(read)}" for read in self.exists]
        where = f" where {', '.join(clauses)}" if clauses else ""
        return f"{left} {self.op} {printed(self.rhs)}{where}"


@dataclass(frozen=True, slots=True)
class Joined:
    """`target = concat(sources)`."""

    target: str
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.target} = concat({', '.join(self.sources)})"


TextStep: TypeAlias = Line | Joined


def reads_of(expr: p.Expr) -> Iterator[p.Read]:
    """The reads in an expression, those in subscripts too."""
    return (node for node in p.walk(expr) if isinstance(node, p.Read))


def printed(expr: p.Expr) -> str:
    """The expression as text: `pad` as it was written, whole numbers and types in short."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Select(padded=True, then=then, otherwise=otherwise, dtype=dtype):
                both = (e.rebuilt(then, change), e.rebuilt(otherwise, change))
                return p.Call(e.PAD, both, dtype, span=node.span)
            case p.Convert(written=True, operand=operand, dtype=dtype):
                args = (e.rebuilt(operand, change),)
                return p.Call(SPELLED[dtype.name], args, dtype, span=node.span)
            case p.Literal(value=float(value)) if re.fullmatch(r"-?\d+", node.span.text):
                return e.number(int(value))
        return None

    return to_text(e.rebuilt(expr, change))


class FreshNames:
    """Names for what a text gets in addition (D2)."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, name: str, here: Container[str] = ()) -> str:
        """The name, or with _2, _3, ... where it is taken, which it is from now on."""
        stem = re.sub(r"\W", "_", name)
        tried = itertools.chain([stem], (f"{stem}_{n}" for n in itertools.count(2)))
        found = next(name for name in tried if name not in self._taken and name not in here)
        self._taken.add(found)
        return found


def def_text(
    name: str,
    params: Sequence[str],
    returns: Sequence[str],
    steps: Sequence[TextStep],
    dtypes: Mapping[str, DType],
) -> str:
    """The text of a def in its standard layout, whose tensors have these types: where one would
    have another, what is written to it is cast."""
    head = f"def {name}({', '.join(params)}) -> ({', '.join(returns)})"
    steps, cast = list(steps), set[str]()
    while True:
        lines = "\n".join(step.text for step in steps)
        source = Source(f"{head} {{\n{lines}\n}}\n")
        try:
            program = check(parse(source))
        except CheckError as error:
            raise GradError(
                f"the text of '{name}' would not be accepted: {error.cause}", rule="D18"
            ) from error
        found = program.tensors
        wrong = [s.target for s in steps if found[s.target].dtype != dtypes[s.target]]
        if not wrong:
            return format_source(source)
        first = next((target for target in wrong if target not in cast), None)
        if first is None:
            raise GradError(f"no type makes '{wrong[0]}' {dtypes[wrong[0]]}", rule="D18")
        cast.add(first)
        steps = [_as_type(s, dtypes[first]) if s.target == first else s for s in steps]


def _as_type(step: TextStep, dtype: DType) -> TextStep:
    if isinstance(step, Joined):
        return step
    if step.rhs == e.ZERO and dtype == FLOAT32:
        return replace(step, rhs=p.Literal(0.0, dtype, span=e.NO_SPAN))
    return replace(step, rhs=p.Convert(step.rhs, dtype, True, span=e.NO_SPAN))


def declaration(name: str, dtype: DType, dims: Sequence[p.Expr]) -> str:
    """A parameter or a return with its type."""
    listed = f"({','.join(map(printed, dims))})" if dims else ""
    return f"{SPELLED[dtype.name]}{listed} {name}"
