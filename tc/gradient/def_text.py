"""Statements of a def to be, and its text: what forward mode and batching write."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tc.dtypes import FLOAT32, SPELLINGS, DType
from tc.errors import CheckError, GradError, InputError, RangeError
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source

SPELLED = {dtype.name: word for word, dtype in SPELLINGS.items()}
"""The short spelling of each type, which stands last."""


ExprBounds: TypeAlias = tuple[p.Expr, p.Expr]
"""Begin and end of the range of an index variable."""


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A statement of a def to be, `target(indices) op rhs where ...`, with `op` as it is written.

    >>> first = {"i": (e.ZERO, e.number(1))}
    >>> Comprehension("o", ("i",), "=", e.read("a", (e.index("i"),)), first).text
    'o(i) = a(i) where i in 0:1'
    """

    target: str
    indices: tuple[str, ...]
    op: str
    rhs: p.Expr
    where: Mapping[str, ExprBounds] = field(default_factory=dict)
    exists: tuple[p.Read, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The index variables, those of the left side first."""
        named = [n for expr in (self.rhs, *self.exists) for n in p.index_names(expr)]
        return tuple(dict.fromkeys((*self.indices, *named, *self.where)))

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
        clauses = [f"{v} in {printed(b)}:{printed(c)}" for v, (b, c) in self.where.items()]
        clauses += [f"exists {printed(read)}" for read in self.exists]
        where = f" where {', '.join(clauses)}" if clauses else ""
        return f"{left} {self.op} {printed(e.with_signs(e.with_pads(self.rhs)))}{where}"


@dataclass(frozen=True, slots=True)
class Joined:
    """`target = concat(sources)`."""

    target: str
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{self.target} = concat({', '.join(self.sources)})"


TextStep: TypeAlias = Comprehension | Joined


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


@dataclass(frozen=True, slots=True)
class WrittenDef:
    """A def to be, `head { steps }`, and its program, whose places are those of a text in which all
    where clauses stand.

    >>> scale = Comprehension("o", ("i",), "=", e.read("a", (e.index("i"),)))
    >>> made = checked_def("f", ["float(N) a"], ["o"], [scale], {})
    >>> print(made.layout, [*made.program.tensors])
    def f(float(N) a) -> (o) {
      o(i) = a(i)
    }
     ['a', 'o']
    """

    head: str
    steps: Sequence[TextStep]
    program: p.Program

    @property
    def layout(self) -> str:
        """The text of the def in its standard layout."""
        return format_source(_source(self.head, self.steps))


def checked_def(
    name: str,
    params: Sequence[str],
    returns: Sequence[str],
    steps: Sequence[TextStep],
    dtypes: Mapping[str, DType],
    *,
    rule: str = "D18",
) -> WrittenDef:
    """The def whose tensors have these types: where one would have another, what is written to it
    is cast. GradError of the `rule` where the def would not be accepted."""
    head = f"def {name}({', '.join(params)}) -> ({', '.join(returns)})"
    cast = set[str]()
    while True:
        try:
            program = check(parse(_source(head, steps)))
        except CheckError as error:
            raise refused(name, error, rule) from error
        types = {target: program.tensors[target].dtype for target in (s.target for s in steps)}
        wrong = {n for n, dtype in types.items() if dtype != dtypes.get(n, dtype)}
        if not wrong:
            return WrittenDef(head, steps, program)
        if wrong <= cast:
            first = min(wrong)
            raise GradError(f"no type makes '{first}' {dtypes[first]}", rule=rule)
        steps = [_as_type(s, dtypes[s.target]) if s.target in wrong - cast else s for s in steps]
        cast |= wrong


def _source(head: str, steps: Sequence[TextStep]) -> Source:
    lines = "\n".join(step.text for step in steps)
    return Source(f"{head} {{\n{lines}\n}}\n")


def refused(name: str, error: CheckError | InputError | RangeError, rule: str) -> GradError:
    """The error of a def that would not be accepted."""
    return GradError(
        f"the text of '{name}' would not be accepted: {error.cause}",
        rule=rule,
        repair="the same of the parts of the program, each a def",
    )


def _as_type(step: TextStep, dtype: DType) -> TextStep:
    """The statement with its right side cast to a type; a concat stays as it is."""
    if isinstance(step, Joined):
        return step
    if step.rhs == e.ZERO and dtype == FLOAT32:
        return replace(step, rhs=p.Literal(0.0, dtype, span=e.NO_SPAN))
    return replace(step, rhs=p.Convert(step.rhs, dtype, True, span=e.NO_SPAN))


def declaration(name: str, dtype: DType, dims: Sequence[p.Expr]) -> str:
    """A parameter or a return with its type."""
    listed = f"({','.join(map(printed, dims))})" if dims else ""
    return f"{SPELLED[dtype.name]}{listed} {name}"
