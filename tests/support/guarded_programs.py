"""Programs whose reads stand behind conditions on index variables, as text and as Python, in which
a read that is not made does nothing; and what must be told about the ranges of such a program.

Independent of tc: conditions, subscripts and values are those of Python's own `if ... else`, `and`
and `or`, point by point.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

Ranges = Mapping[str, range]


class Beyond(Exception):
    """A read that is evaluated leaves its tensor."""


@dataclass(frozen=True)
class Part:
    """An expression: its text in the language and in Python."""

    text: str
    python: str


@dataclass(frozen=True)
class GuardedProgramRead:
    """A read by its tensor and subscripts, and whether a condition stands before it."""

    tensor: str
    subscripts: tuple[Part, ...]
    is_guarded: bool


@dataclass
class GuardedProgram:
    """One statement over `variables`, the variables of its left side first."""

    sizes: dict[str, int]
    shapes: dict[str, tuple[str, ...]]
    variables: tuple[str, ...]
    outer: tuple[str, ...]
    where: dict[str, tuple[int, int]]
    right: Part
    reads: list[GuardedProgramRead] = field(default_factory=list)

    @property
    def text(self) -> str:
        params = ", ".join(f"double({','.join(dims)}) {n}" for n, dims in self.shapes.items())
        op = "=" if self.outer == self.variables else "+=!"
        clauses = [f"{name} in {begin}:{end}" for name, (begin, end) in self.where.items()]
        where = f" where {', '.join(clauses)}" if clauses else ""
        left = f"o({','.join(self.outer)})"
        return f"def f({params}) -> (o) {{\n  {left} {op} {self.right.text}{where}\n}}"

    def arrays(self) -> dict[str, np.ndarray]:
        """Values that differ between all elements."""
        found, start = {}, 1
        for name, dims in self.shapes.items():
            shape = tuple(self.sizes[d] for d in dims)
            count = int(np.prod(shape))
            found[name] = np.arange(start, start + count, dtype=float).reshape(shape)
            start += 100
        return found

    def shape(self, tensor: str) -> tuple[int, ...]:
        return tuple(self.sizes[d] for d in self.shapes[tensor])

    def value(self, ranges: Ranges) -> np.ndarray:
        """What the statement computes over these ranges; raises Beyond."""
        arrays = self.arrays()

        def read(name: str, *place: int) -> float:
            if any(not 0 <= k < n for k, n in zip(place, arrays[name].shape, strict=True)):
                raise Beyond
            return float(arrays[name][place])

        code = compile(self.right.python, "right", "eval")
        out = np.zeros(tuple(ranges[n].stop for n in self.outer))
        for values in product(*(ranges[n] for n in self.variables)):
            at = dict(zip(self.variables, values, strict=True))
            found = eval(code, {"read": read}, {**self.sizes, **at})
            out[tuple(at[n] for n in self.outer)] += found
        return out

    def stays_inside(self, ranges: Ranges) -> bool:
        """Whether all reads that are made over these ranges stay in their tensors."""
        try:
            self.value(ranges)
        except Beyond:
            return False
        return True

    def unguarded_inside(self, ranges: Ranges) -> bool:
        """Whether all reads without a condition stay in their tensors."""
        return all(
            0 <= eval(s.python, {}, {**self.sizes, **dict(zip(ranges, values, strict=True))}) < n
            for r in self.reads
            if not r.is_guarded
            for s, n in zip(r.subscripts, self.shape(r.tensor), strict=True)
            for values in product(*ranges.values())
        )

    def is_cut(self, ranges: Ranges, name: str) -> bool:
        """Whether a variable could run on from its range: accesses without a condition bound it
        later, or what it walks through goes on, and no read that would then be made leaves."""
        if name in self.where or any(len(r) == 0 for r in ranges.values()):
            return False
        longer = {**ranges, name: range(ranges[name].stop + 1)}
        mentioned = [
            (r, s, n)
            for r in self.reads
            for s, n in zip(r.subscripts, self.shape(r.tensor), strict=True)
            if name in s.python
        ]
        plain = [s for r, s, _ in mentioned if not r.is_guarded]
        if plain:
            return self.unguarded_inside(longer) and self.stays_inside(longer)
        same = {(r.tensor, n) for r, s, n in mentioned if s.python in _steps(name)}
        if len(same) != 1 or any(s.python not in _steps(name) for _, s, _ in mentioned):
            return False
        extent = same.pop()[1]
        whole = {**ranges, name: range(extent)}
        return extent > ranges[name].stop and self.stays_inside(whole)


def _steps(name: str) -> tuple[str, ...]:
    return (name, *(f"{name} {op} {by}" for op in "+-" for by in (1, 2, 3)))


# --- drawing ------------------------------------------------------------------------------------


def draw(seed: int) -> GuardedProgram:
    """A program for a seed."""
    rng = random.Random(seed)
    sizes = {"N": rng.randint(1, 6), "M": rng.randint(1, 6)}
    rank = rng.choice((1, 1, 1, 1, 2))
    shapes = {"x": ("N", rng.choice("NM"))[:rank], "y": ("M",)}
    kinds = rng.choice(("i", "i", "i", "ij", "ik", "ik"))
    outer = tuple(n for n in kinds if n in "ij")
    variables = tuple(kinds)
    where: dict[str, tuple[int, int]] = {}
    if rng.random() < 0.4 and len(variables) > 1:
        where[variables[-1]] = (0, rng.randint(1, 4))
    program = GuardedProgram(sizes, shapes, variables, outer, where, Part("", ""))
    program.right = _expression(rng, program, 3, False)
    program.variables = tuple(
        n
        for n in variables
        if n in outer or n in where or re.search(rf"\b{n}\b", program.right.text)
    )
    return program


def _expression(rng: random.Random, program: GuardedProgram, depth: int, guarded: bool) -> Part:
    kind = rng.choice(("read", "select", "select", "sum", "number", "and")) if depth else "read"
    if depth == 3:
        kind = rng.choice(("select", "select", "select", "sum"))
    match kind:
        case "number":
            number = str(rng.choice((0, 0, 1, 7)))
            return Part(f"{number}.0", f"{number}.0")
        case "sum":
            a = _expression(rng, program, depth - 1, guarded)
            b = _expression(rng, program, depth - 1, guarded)
            op = rng.choice(("+", "-", "*"))
            return Part(f"({a.text} {op} {b.text})", f"({a.python} {op} {b.python})")
        case "select":
            c = _condition(rng, program, 1)
            a = _expression(rng, program, depth - 1, True)
            b = _expression(rng, program, depth - 1, True)
            return Part(
                f"({c.text} ? {a.text} : {b.text})", f"({a.python} if {c.python} else {b.python})"
            )
        case "and":
            c = _condition(rng, program, 0)
            a = _read(rng, program, True)
            op, word = rng.choice((("&&", "and"), ("||", "or")))
            return Part(
                f"({c.text} {op} {a.text} > 3.0 ? 1.0 : 2.0)",
                f"(1.0 if {c.python} {word} {a.python} > 3.0 else 2.0)",
            )
        case _:
            return _read(rng, program, guarded)


def _read(rng: random.Random, program: GuardedProgram, guarded: bool) -> Part:
    tensor = rng.choice(("x", "x", "y"))
    subscripts = tuple(_subscript(rng, program) for _ in program.shapes[tensor])
    program.reads.append(GuardedProgramRead(tensor, subscripts, guarded))
    return Part(
        f"{tensor}({', '.join(s.text for s in subscripts)})",
        f"read({tensor!r}, {', '.join(s.python for s in subscripts)})",
    )


def _subscript(rng: random.Random, program: GuardedProgram) -> Part:
    name = rng.choice(program.variables)
    by = rng.randint(1, 3)
    forms: Sequence[Callable[[], str]] = (
        lambda: name,
        lambda: name,
        lambda: f"{name} + {by}",
        lambda: f"{name} - {by}",
        lambda: f"{name} - {rng.choice('NM')}",
        lambda: f"{rng.choice('NM')} - 1 - {name}",
        lambda: f"2 * {name}",
        lambda: f"{name} / 2",
        lambda: "0",
        lambda: " + ".join(program.variables),
        lambda: f"{' + '.join(program.variables)} - 1",
        lambda: " - ".join(program.variables),
    )
    weights = (4, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1)
    text = rng.choices(forms, weights)[0]()
    return Part(text, text.replace("/", "//"))


def _condition(rng: random.Random, program: GuardedProgram, depth: int) -> Part:
    if depth and rng.random() < 0.3:
        a, b = _condition(rng, program, 0), _condition(rng, program, 0)
        op, word = rng.choice((("&&", "and"), ("||", "or")))
        return Part(f"({a.text} {op} {b.text})", f"({a.python} {word} {b.python})")
    if depth and rng.random() < 0.1:
        a = _condition(rng, program, 0)
        return Part(f"!({a.text})", f"(not ({a.python}))")
    left: Any = rng.choice(program.variables)
    kind = rng.random()
    if kind < 0.15:
        left = f"({left} % 2)"
        right, op = rng.choice("01"), "=="
    else:
        if kind < 0.4:
            left = " + ".join(program.variables) if rng.random() < 0.5 else f"{left} + 1"
        right = rng.choice(("N", "M", "N - 1", "M - 1", "N - 2", "N + 1", "1", "2", "0", "3"))
        op = rng.choice(("<", "<", ">=", ">", "<=", "==", "!="))
    text = f"{left} {op} {right}"
    return Part(text, text)
