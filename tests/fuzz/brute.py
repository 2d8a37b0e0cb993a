"""The language read literally, element by element, in Python: the check on the oracle itself.

It shares nothing with `tc`. Whether a statement may read its own target (P1) is decided for every
program; values are computed for programs of floats, whose results the interpreter must match
within twice its bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.fuzz.model import KNOWN, Case, Expr, Statement, children, dtype_of, reads

MOST_INSTANCES = 1500
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
BITS = ("&", "|", "^", "<<", ">>")
FUNCTIONS = {
    "exp": math.exp, "tanh": math.tanh, "fabs": math.fabs, "atan": math.atan, "sin": math.sin,
    "cos": math.cos, "min": min, "max": max, "fmaxf": max, "fmin": min, "erf": math.erf,
}  # fmt: skip
IDENTITY: Mapping[str, Any] = {"+": 0, "*": 1, "min": math.inf, "max": -math.inf}


class Beyond(Exception):
    """A read that leaves its tensor."""


class Unknown(Exception):
    """The program has something of which this reading knows nothing."""


def breaks_p1(statement: Statement, ranges: Mapping[str, range], sizes: Mapping[str, int]) -> bool:
    """Whether the statement reads an element of its target that another instance writes.

    A guard that depends on data counts as true; one of variables alone is evaluated.
    """
    own = [e for e in reads(statement.rhs) if e[1] == statement.target]
    if not own:
        return False
    names = list(ranges)
    total = math.prod(len(ranges[name]) for name in names)
    # a read in a subscript breaks the rule whatever the sizes
    for e in reads(statement.rhs):
        for inner in e[2]:
            if any(x[1] == statement.target for x in reads(inner)):
                return True
    inner = [name for name in names if name not in statement.indices]
    if statement.op.endswith("!") and inner:
        return True
    if total <= 1:
        return False
    if total > 20_000:
        raise Unknown
    for e in own:
        if any(True for s in e[2] for _ in reads(s)):
            return True
    writers: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    instances = list(itertools.product(*ranges.values()))
    for values in instances:
        at = dict(zip(names, values, strict=True))
        writers.setdefault(tuple(at[i] for i in statement.indices), []).append(values)
    for values in instances:
        at = {**sizes, **dict(zip(names, values, strict=True))}
        for element in touched(statement.rhs, statement.target, at):
            if any(other != values for other in writers.get(element, ())):
                return True
    return False


def touched(e: Expr, target: str, at: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    """The elements of the target that one instance reads, as far as variables alone decide."""
    if e[0] == "if" and not any(True for _ in reads(e[1])):
        yield from touched(e[2] if holds(e[1], at) else e[3], target, at)
        return
    if e[0] in ("pad",) or (e[0] == "bin" and e[1] in ("&&", "||")):
        if any(x[1] == target for x in reads(e)):
            raise Unknown  # what is read there depends on more than this decides
        return
    if e[0] == "read" and e[1] == target:
        yield tuple(integer(s, at) for s in e[2])
    for child in children(e):
        yield from touched(child, target, at)


def holds(e: Expr, at: Mapping[str, int]) -> bool:
    """Whether a condition on variables alone holds; a literal in it may be of floats."""
    match e:
        case ("num", text):
            return float(text) != 0
        case ("bin", "&&", left, right):
            return holds(left, at) and holds(right, at)
        case ("bin", "||", left, right):
            return holds(left, at) or holds(right, at)
        case ("un", "!", value):
            return not holds(value, at)
    return integer(e, at) != 0


def integer(e: Expr, at: Mapping[str, int]) -> int:
    match e:
        case ("num", text) if text.isdecimal():
            return int(text)
        case ("var" | "size", name):
            return at[name]
        case ("bin", op, left, right):
            return int(_binary(op, integer(left, at), integer(right, at)))
        case ("un", "-", value):
            return -integer(value, at)
        case ("call", ("min" | "max") as name, values):
            return (min if name == "min" else max)(integer(v, at) for v in values)
        case ("if", c, x, y):
            return integer(x if holds(c, at) else y, at)
    raise Unknown


# --- values -----------------------------------------------------------------------------------


def evaluate(
    case: Case,
    ranges: list[Mapping[str, range]],
    shapes: Mapping[str, tuple[int, ...]],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
) -> dict[str, Any]:
    """All tensors that the statements define; Unknown where the reading is not known."""
    whole = {p.name for p in case.params if p.values.startswith(("index", KNOWN))}
    if any(
        not dtype_of(p.type).startswith(("float", "bfloat")) and p.name not in whole
        for p in case.params
    ):
        raise Unknown
    if any(p.values.split()[0] in ("nan", "infinite", "magnitude", "beyond") for p in case.params):
        raise Unknown
    held: dict[str, Any] = {n: np.asarray(a).astype(np.float64) for n, a in inputs.items()}
    floats = set(inputs) - whole
    for name in shapes:
        defining = [s for s in case.statements if s.target == name]
        if any(_is_float(s.rhs, floats, name) for s in defining):
            floats.add(name)
        elif not all(s.rhs[0] in ("num", "var", "size") for s in defining):
            raise Unknown
    reader = Reader(case.constants, held, floats)
    for statement, span in zip(case.statements, ranges, strict=True):
        if math.prod(map(len, span.values())) > MOST_INSTANCES:
            raise Unknown
        name = statement.target
        fresh = name not in held
        if fresh:
            given = outputs.get(name)
            start = given if given is not None else np.zeros(shapes[name])
            held[name] = np.array(start, np.float64)
        reader.run(statement, span, starts=fresh and name not in outputs)
    return {name: held[name] for name in case.returns}


def _is_float(e: Expr, floats: set[str], target: str) -> bool:
    if e[0] == "concat":
        return bool(set(e[1]) & floats)
    if e[0] == "read":
        return e[1] in floats
    if e[0] == "num":
        return "." in e[1] or ("e" in e[1] and "x" not in e[1])
    if e[0] == "call" and e[1] not in ("min", "max", "abs"):
        return True
    if e[0] == "bin" and e[1] in (*COMPARISONS, "&&", "||"):
        return False
    if e[0] == "if":
        return _is_float(e[2], floats, target) or _is_float(e[3], floats, target)
    return any(_is_float(x, floats, target) for x in children(e))


class Reader:
    """Statements on tensors of float64, one instance after another."""

    def __init__(self, sizes: Mapping[str, int], held: dict[str, Any], floats: set[str]) -> None:
        self.sizes, self.held, self.floats = sizes, held, floats

    def run(self, statement: Statement, ranges: Mapping[str, range], starts: bool) -> None:
        target, op = self.held[statement.target], statement.op
        if statement.rhs[0] == "concat":
            target[...] = np.concatenate([self.held[n] for n in statement.rhs[1]], axis=-1)
            return
        inner = [name for name in ranges if name not in statement.indices]
        base = op.rstrip("!").rstrip("=")
        if base in BITS:
            raise Unknown
        writes = op == "=" or (op.endswith("!") and not inner)
        new = target.copy()
        if not writes and (op.endswith("!") or starts):
            outer = [ranges[name] for name in statement.indices]
            for at in itertools.product(*outer):
                new[at] = IDENTITY[base]
        for values in itertools.product(*ranges.values()):
            at = {**self.sizes, **dict(zip(ranges, values, strict=True))}
            value = self.value(statement.rhs, at)
            if statement.target not in self.floats and not float(value).is_integer():
                raise Unknown
            element = tuple(at[i] for i in statement.indices)
            old = new[element]
            new[element] = (
                value
                if writes
                else old + value
                if base == "+"
                else old * value
                if base == "*"
                else min(old, value)
                if base == "min"
                else max(old, value)
            )
            if statement.target not in self.floats and not -(2**31) <= new[element] < 2**31:
                raise Unknown  # the type of what has no floats may be narrower than this
        target[...] = new

    def value(self, e: Expr, at: Mapping[str, int]) -> Any:
        match e:
            case ("num", text):
                return float(text) if "." in text or "e" in text else int(text, 0)
            case ("var" | "size", name):
                return at[name]
            case ("let", _, value):
                return self.value(value, at)
            case ("read", name, subscripts):
                place = tuple(int(self.value(s, at)) for s in subscripts)
                tensor = self.held[name]
                if any(not 0 <= x < n for x, n in zip(place, tensor.shape, strict=True)):
                    raise Beyond
                value = float(tensor[place])
                return value if name in self.floats else int(value)
            case ("bin", "&&", left, right):
                return int(bool(self.value(left, at)) and bool(self.value(right, at)))
            case ("bin", "||", left, right):
                return int(bool(self.value(left, at)) or bool(self.value(right, at)))
            case ("bin", op, left, right):
                return _binary(op, self.value(left, at), self.value(right, at))
            case ("un", "-", value):
                return -self.value(value, at)
            case ("un", "!", value):
                return int(not self.value(value, at))
            case ("if", condition, left, right):
                chosen = self.value(left if self.value(condition, at) else right, at)
                both = _is_float(left, self.floats, "") or _is_float(right, self.floats, "")
                return float(chosen) if both else chosen
            case ("pad", value, other):
                try:
                    return self.value(value, at)
                except Beyond:
                    return self.value(other, at)
            case ("call", name, arguments) if name in FUNCTIONS:
                values = [self.value(x, at) for x in arguments]
                if name in ("min", "max") and any(isinstance(v, float) for v in values):
                    values = [float(v) for v in values]
                try:
                    return FUNCTIONS[name](*values)
                except (OverflowError, ValueError):
                    raise Unknown from None
        raise Unknown


def _binary(op: str, left: Any, right: Any) -> Any:
    if op in BITS:  # whose results depend on types
        raise Unknown
    if op in ("/", "%"):
        if right == 0:
            raise Unknown
        whole = isinstance(left, int) and isinstance(right, int)
        if op == "%":
            return left % right
        return left // right if whole else left / right
    table: Mapping[str, Any] = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "<": lambda: int(left < right),
        "<=": lambda: int(left <= right),
        ">": lambda: int(left > right),
        ">=": lambda: int(left >= right),
        "==": lambda: int(left == right),
        "!=": lambda: int(left != right),
    }
    return table[op]()
