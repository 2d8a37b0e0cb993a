"""The text of a def of tc: its statements printed, in the layout of `tc fmt`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tc.builtins import BUILTINS
from tc.builtins.operators import LEVEL, UNARY_LEVEL
from tc.dtypes import BOOL, SPELLINGS, DType, limits
from tc.frontend.format import format_source
from tc.frontend.tokens import RESERVED
from tc.sac.lowering.terms import Tensor, Term, walk
from tc.source import Source

_SPELLED = {dtype: spelling for spelling, dtype in SPELLINGS.items()}
"""The last spelling of each type: `float` of float32, `byte` of uint8."""

_TAKEN = frozenset({*RESERVED, *BUILTINS, "in", "pad", "concat"})

_ASSIGNED = {"+": "+=!", "*": "*=!", "min": "min=!", "max": "max=!"}

_CONDITIONAL = LEVEL["?:"]


@dataclass(eq=False, slots=True)
class Statement:
    """`target(indices) = term`, or a fold by `op` over the values of `reduced` where `guard` holds.

    `site` is the expression of SaC that the statement computes.
    """

    target: Tensor
    indices: tuple[Term, ...]
    op: str
    reduced: tuple[Term, ...]
    guard: Term | None
    term: Term


@dataclass(slots=True)
class Names:
    """The names of one def: those of its tensors and indices are apart, as in the language (N1)."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        """A name that nothing of the def has, made from the one that is wanted."""
        name = wanted if wanted not in _TAKEN else wanted + "_"
        number = 1
        while name in self.taken:
            number += 1
            name = f"{wanted}{number}" if not wanted[-1:].isdigit() else f"{wanted}_{number}"
        self.taken.add(name)
        return name


def spelling(dtype: DType) -> str:
    return _SPELLED[dtype]


def identity(op: str, dtype: DType) -> str:
    """The text of the identity of a fold (R2) of a type."""
    if op in ("+", "*"):
        return "0" if op == "+" else "1"
    if dtype == BOOL:
        return "bool(1)" if op == "min" else "bool(0)"
    if dtype.is_float:
        return "1.0 / 0.0" if op == "min" else "-1.0 / 0.0"
    low, high = limits(dtype)
    return str(high if op == "min" else low)


class TextOfTerms:
    """Prints the terms of one statement; `names` are those of its indices."""

    def __init__(self, names: dict[Term, str]) -> None:
        self.names = names
        self.reads: list[Term] = []
        """The reads and integer divisions in the order of the text."""

    def text(self, term: Term, level: int = 0) -> str:
        """The text of a term as an operand of an operator of this strength."""
        own, text = self._parts(term)
        return f"({text})" if own < level else text

    def _parts(self, term: Term) -> tuple[int, str]:
        strongest = UNARY_LEVEL + 1
        match term.kind:
            case "number":
                return self._number(term)
            case "index":
                return strongest, self.names[term]
            case "linear":
                return self._linear(term)
            case "read":
                if not term.args:
                    return strongest, term.data.name
                return strongest, f"{term.data.name}({self._list(term.args)})"
            case "cast":
                return strongest, f"{spelling(term.data)}({self.text(term.args[0])})"
            case "call":
                return strongest, f"{term.data}({self._list(term.args)})"
            case "choice":
                condition, then, otherwise = term.args
                parts = (
                    self.text(condition, _CONDITIONAL + 1),
                    self.text(then, _CONDITIONAL + 1),
                    self.text(otherwise, _CONDITIONAL),
                )
                return _CONDITIONAL, f"{parts[0]} ? {parts[1]} : {parts[2]}"
        op = term.data
        if op in ("neg", "!"):
            inner = self.text(term.args[0], UNARY_LEVEL)
            return UNARY_LEVEL, ("-" if op == "neg" else "!") + inner
        if op in ("min", "max"):
            return strongest, f"{op}({self._list(term.args)})"
        return self._binary(op, term)

    def _binary(self, op: str, term: Term) -> tuple[int, str]:
        """An operator; a chain of one operator is printed without recursion per link."""
        level = LEVEL[op]
        chain = [term.args[1]]
        first = term.args[0]
        while (
            first.kind == "apply"
            and first.data in LEVEL
            and LEVEL[first.data] == level
            and first.data == op
        ):
            chain.append(first.args[1])
            first = first.args[0]
        text = self.text(first, level)
        for operand in reversed(chain):
            text += f" {op} {self.text(operand, level + 1)}"
        return level, text

    def _list(self, terms: Sequence[Term]) -> str:
        return ", ".join(map(self.text, terms))

    def _linear(self, term: Term) -> tuple[int, str]:
        form = term.data
        parts: list[tuple[bool, str]] = []
        ordered = sorted(form.terms.items(), key=lambda part: part[1] < 0)
        level, product = LEVEL["+"], LEVEL["*"]
        for operand, factor in ordered:
            if abs(factor) == 1:
                parts.append((factor < 0, self.text(operand, level + 1)))
            else:
                parts.append((factor < 0, f"{abs(factor)} * {self.text(operand, product + 1)}"))
        if form.constant > 0 and parts[0][0]:
            parts.insert(0, (False, str(form.constant)))
        elif form.constant:
            parts.append((form.constant < 0, str(abs(form.constant))))
        text = parts[0][1]
        if parts[0][0]:  # a sign binds more strongly than / and %
            first, factor = ordered[0]
            text = f"-{self.text(first, UNARY_LEVEL)}" if factor == -1 else f"-{text}"
        for negative, part in parts[1:]:
            text += f" {'-' if negative else '+'} {part}"
        if len(parts) == 1:
            return (product if " * " in parts[0][1] and not parts[0][0] else level), text
        return level, text

    def _number(self, term: Term) -> tuple[int, str]:
        value, type = term.data, term.type
        strongest = UNARY_LEVEL + 1
        if type == BOOL:
            return strongest, f"bool({int(value)})"
        if isinstance(value, float):
            if math.isnan(value):
                level, text = strongest, "(0.0 / 0.0)"
            elif math.isinf(value):
                level, text = strongest, "(1.0 / 0.0)" if value > 0 else "(-1.0 / 0.0)"
            else:
                text = repr(value)
                if "e" in text and "." not in text:
                    text = text.replace("e", ".0e")
                level = UNARY_LEVEL if value < 0 or text[0] == "-" else strongest
        else:
            text, level = str(value), UNARY_LEVEL if value < 0 else strongest
            if value == -(2**63):
                text, level = "(-9223372036854775807 - 1)", strongest
        if isinstance(type, DType):
            return strongest, f"{spelling(type)}({text})"
        return level, text


def def_text(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], statements: Sequence[Statement]
) -> str:
    """The text of a def, laid out as `tc fmt` does it. The names of tensors are settled."""
    names = {t.name for t in (*inputs, *outputs, *(s.target for s in statements))}
    parameters = ", ".join(f"{_type(t)} {t.name}" for t in inputs)
    returns = ", ".join(f"{_type(t)} {t.name}" for t in outputs)
    body = "\n".join(_statement(s, names) for s in statements)
    return format_source(Source(f"def {name}({parameters}) -> ({returns}) {{\n{body}\n}}\n"))


def _type(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.shape))
    return spelling(tensor.dtype) + (f"({sizes})" if tensor.shape else "")


def _statement(statement: Statement, taken: Iterable[str]) -> str:
    names = Names(set(taken))
    variables = (*statement.indices, *statement.reduced)
    printer = TextOfTerms({v: names.fresh(v.data[0].name) for v in variables})
    target = statement.target
    left = target.name
    if statement.indices:
        left += f"({', '.join(printer.names[v] for v in statement.indices)})"
    right = printer.text(statement.term)
    if statement.guard is not None and not (
        statement.guard.kind == "number" and statement.guard.data
    ):
        condition = printer.text(statement.guard, _CONDITIONAL + 1)
        then = printer.text(statement.term, _CONDITIONAL + 1)
        right = f"{condition} ? {then} : {identity(statement.op, target.dtype)}"
    sign = _ASSIGNED[statement.op] if statement.op else "="
    ranges = ", ".join(
        f"{printer.names[v]} in {v.data[0].begin}:{max(v.data[0].begin, v.data[0].end)}"
        for v in variables
    )
    return f"{left} {sign} {right}" + (f" where {ranges}" if ranges else "")


def sites(statement: Statement) -> list[Term]:
    """The reads and integer divisions of a statement, each once."""
    return [t for t in walk([statement.term]) if t.kind == "read" or t.data in ("/", "%")]
