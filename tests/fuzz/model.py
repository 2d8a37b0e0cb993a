"""Programs as plain data, and their text: what the generator makes and the shrinker takes apart.

Nothing here comes from `tc`: an expression is a tuple whose first item says what it is.

    ("num", "2.5")  ("var", "i")  ("size", "N")  ("read", "a", subscripts)  ("bin", "+", x, y)
    ("un", "-", x)  ("call", "exp", arguments)  ("if", c, x, y)  ("cast", "half", x)  ("pad", x, v)
    ("let", "x1", x) stands for its value, and is bound to the name in the statement's `where`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Expr = tuple[Any, ...]
ENTRY = "f"
"""The name of the def that is run; it calls the other defs."""

KNOWN = "is "
"""How `values` of an integer input begin whose value the program counts on."""

NUMPY = {"half": "float16", "float": "float32", "double": "float64", "byte": "uint8"}


def dtype_of(spelling: str) -> str:
    """What numpy calls a type."""
    return NUMPY.get(spelling, "int32" if spelling == "int" else spelling)


@dataclass(frozen=True)
class Param:
    """An input: its type, its dimensions (sizes or numbers, as written), how it is filled and
    laid out in memory: the order of its axes from the slowest, and each axis's step in them."""

    name: str
    type: str
    dims: tuple[str, ...]
    values: str = "normal"
    axes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Statement:
    """`target(indices) op rhs where ...`; of a concat, `rhs` is ("concat", names)."""

    target: str
    indices: tuple[str, ...]
    op: str
    rhs: Expr
    where: tuple[tuple[str, Expr, Expr], ...] = ()


@dataclass(frozen=True)
class Outputs:
    """The output arrays that the caller passes: their names, the form of passing, and their
    contents."""

    names: tuple[str, ...] = ()
    form: str = "dict"
    values: str = "fives"


@dataclass(frozen=True)
class Case:
    """A program with all that a run of it depends on.

    `refused` is the rule that the model knows the program to break, "" where it knows it to be
    legal, and None where it does not know. `compile_for` names a processor (as LLVM does) for
    which the program is compiled and not run. The first `helper` statements stand in a def of
    their own, which `f` calls. `ranges` and `shapes` are what the model gave each statement's
    variables and each tensor; () where nothing is known.
    """

    params: tuple[Param, ...]
    returns: tuple[str, ...]
    statements: tuple[Statement, ...]
    sizes: dict[str, int]
    seed: int = 0
    outputs: Outputs = field(default_factory=Outputs)
    backend: str = "numba"
    options: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    edge: str = "ends"
    compile_for: str = ""
    refused: str | None = None
    helper: int = 0
    ranges: tuple[tuple[tuple[str, int, int], ...], ...] = ()
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        params = ", ".join(
            f"{p.type}({','.join(p.dims)}) {p.name}" if p.dims else f"{p.type} {p.name}"
            for p in self.params
        )
        lines = [statement_text(s) for s in self.statements]
        text = ""
        if self.helper:
            made = ", ".join(dict.fromkeys(s.target for s in self.statements[: self.helper]))
            text = _def_text("helper", params, made, lines[: self.helper])
            call = f"{made} = helper({', '.join(p.name for p in self.params)})"
            lines = [call, *lines[self.helper :]]
        return text + _def_text(ENTRY, params, ", ".join(self.returns), lines)

    @property
    def constants(self) -> dict[str, int]:
        """What sizes and integer inputs of a known value are."""
        named = (p for p in self.params if p.values.startswith(KNOWN))
        return {**self.sizes, **{p.name: int(p.values.removeprefix(KNOWN)) for p in named}}

    def shape(self, param: Param) -> tuple[int, ...]:
        return tuple(self.sizes[d] if d in self.sizes else int(d) for d in param.dims)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Case:
        values = json.loads(text)
        values["params"] = tuple(_build(Param, p) for p in values["params"])
        values["statements"] = tuple(_build(Statement, s) for s in values["statements"])
        values["outputs"] = _build(Outputs, values["outputs"])
        values["returns"], values["ranges"] = tuple(values["returns"]), tupled(values["ranges"])
        values["shapes"] = {name: tuple(shape) for name, shape in values["shapes"].items()}
        return cls(**values)


def _def_text(name: str, params: str, returns: str, lines: list[str]) -> str:
    body = "\n  ".join(lines)
    return f"def {name}({params}) -> ({returns}) {{\n  {body}\n}}\n"


def _build(kind: Any, values: dict[str, Any]) -> Any:
    return kind(**{f.name: tupled(values[f.name]) for f in fields(kind)})


def tupled(value: Any) -> Any:
    """Lists of lists, as JSON gives them, as tuples."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value


def statement_text(statement: Statement) -> str:
    if statement.rhs[0] == "concat":
        return f"{statement.target} = concat({', '.join(statement.rhs[1])})"
    left = statement.target + (f"({','.join(statement.indices)})" if statement.indices else "")
    inner_first = reversed([*walk(statement.rhs)])
    bound = {e[1]: e[2] for e in inner_first if e[0] == "let"}
    clauses = [f"{v} in {text_of(a)}:{text_of(b)}" for v, a, b in statement.where]
    where = ", ".join((*clauses, *(f"{name} = {text_of(x)}" for name, x in bound.items())))
    return f"{left} {statement.op} {text_of(statement.rhs)}" + (f" where {where}" if where else "")


def text_of(e: Expr, inner: bool = False) -> str:
    """An expression's text; operators inside others stand in parentheses."""
    match e:
        case ("num" | "var" | "size", text) | ("let", text, _):
            return str(text)
        case ("read", name, subscripts):
            return f"{name}({', '.join(map(text_of, subscripts))})" if subscripts else str(name)
        case ("call", name, arguments):
            return f"{name}({', '.join(map(text_of, arguments))})"
        case ("cast", name, value):
            return f"{name}({text_of(value)})"
        case ("pad", value, other):
            return f"pad({text_of(value)}, {text_of(other)})"
        case ("bin", op, left, right):
            text = f"{text_of(left, True)} {op} {text_of(right, True)}"
        case ("un", op, value):
            text = f"{op}{text_of(value, True)}"
        case ("if", condition, left, right):
            text = f"{text_of(condition, True)} ? {text_of(left, True)} : {text_of(right, True)}"
        case _:
            raise AssertionError(e)
    return f"({text})" if inner else text


def children(e: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside of one."""
    return (
        tuple(
            x
            for part in e[1:]
            for x in (
                part if isinstance(part, tuple) and part and isinstance(part[0], tuple) else [part]
            )
            if isinstance(x, tuple) and x
        )
        if e[0] not in ("num", "var", "size", "concat")
        else ()
    )


def walk(e: Expr) -> Iterator[Expr]:
    yield e
    for child in children(e):
        yield from walk(child)


def replace_at(e: Expr, position: int, new: Expr) -> Expr:
    """The expression with the one at a position of `walk` replaced."""
    if position == 0:
        return new
    position -= 1
    parts: list[Any] = [e[0]]
    for part in e[1:]:
        if isinstance(part, tuple) and part and isinstance(part[0], tuple):
            several = []
            for x in part:
                size = sum(1 for _ in walk(x))
                several.append(replace_at(x, position, new) if 0 <= position < size else x)
                position -= size
            parts.append(tuple(several))
        elif isinstance(part, tuple) and part:
            size = sum(1 for _ in walk(part))
            parts.append(replace_at(part, position, new) if 0 <= position < size else part)
            position -= size
        else:
            parts.append(part)
    return tuple(parts)


def reads(e: Expr) -> Iterator[Expr]:
    return (x for x in walk(e) if x[0] == "read")


def num(value: int | str) -> Expr:
    return ("num", str(value))


def var(name: str) -> Expr:
    return ("var", name)


def read(name: str, *subscripts: Expr) -> Expr:
    return ("read", name, subscripts)


def binary(op: str, left: Expr, right: Expr) -> Expr:
    return ("bin", op, left, right)
