"""Contractions and convolutions with starts and epilogues: sums over one to three loops of products
of one to three operands, each with any of the loops, in any order, with windows of them, quotients
and remainders, and under guards.

What a GPU's default plan decides of a sum (its tiles, copies and registers) shows here more often
than in the programs of `tests.fuzz.generate`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import DTYPES, encoded
from tests.fuzz.model import dtype_of

Array = np.ndarray[Any, Any]

PARALLEL, STEPS = "nchwg", "klm"
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 23, 31, 32, 33, 37, 40)
SHORT = (1, 2, 3, 3, 4, 5, 7)
TYPES = ("float", "float", "float", "double", "half", "bfloat16", "int")
OPERATORS = ("+=!", "+=!", "+=!", "+=!", "max=!", "min=!", "*=!")
FUNCTIONS = ("max({}, 0)", "tanh({})", "2 * {}", "{}")


@dataclass(frozen=True)
class Contraction:
    """A program and its inputs, in the order of its parameters."""

    text: str
    arrays: Mapping[str, Array]


def contraction(seed: int, most_instances: int = 20000) -> Contraction:
    """The program of a seed, whose longest sum has at most so many terms in all."""
    return _Drawing(random.Random(seed), most_instances).drawn()


class _Drawing:
    def __init__(self, rng: random.Random, most_instances: int) -> None:
        self.rng, self.most = rng, most_instances
        self.type = rng.choice(TYPES)
        self.params: dict[str, str] = {}
        self.arrays: dict[str, Array] = {}
        self.lines: list[str] = []
        self.returns: list[str] = []
        self.bare: set[str] = set()
        """Loops whose ranges follow from an input."""

        self.adds = False
        """Whether the sum is added to what is there."""

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def drawn(self) -> Contraction:
        rng = self.rng
        own = list(PARALLEL[: rng.choice((1, 2, 2, 2, 3, 3, 4, 4, 5))])
        steps = list(STEPS[: rng.choice((1, 1, 1, 2, 2, 3))])
        sizes = self._sizes(own, steps)
        shape = {v: sizes[v] for v in rng.sample(own, len(own))}
        op = rng.choice(OPERATORS)
        self._start(shape)
        self._sum(shape, steps, sizes, op)
        self._end(shape)
        inputs = ", ".join(f"{type} {name}" for name, type in self.params.items())
        returned = ", ".join(self.returns)
        text = f"def f({inputs}) -> ({returned}) {{\n  " + "\n  ".join(self.lines) + "\n}\n"
        return Contraction(text, self.arrays)

    def _sizes(self, own: Sequence[str], steps: Sequence[str]) -> dict[str, int]:
        """How long each loop is: some of them short, and few instances in all."""
        rng = self.rng
        while True:
            short = rng.random()
            sizes = {v: rng.choice(SHORT if rng.random() < short else LENGTHS) for v in own}
            short = rng.random()
            sizes |= {v: rng.choice(SHORT if rng.random() < short else LENGTHS) for v in steps}
            if math.prod(sizes.values()) <= self.most:
                return sizes

    # --- statements -----------------------------------------------------------------------------

    def _start(self, shape: Mapping[str, int]) -> None:
        """Perhaps a value of each element before anything is summed."""
        self.adds = self.chance(0.25)
        if self.adds:
            self.lines.append(_statement("C", shape, "=", self._bias(shape), shape))

    def _sum(
        self, shape: Mapping[str, int], steps: Sequence[str], sizes: Mapping[str, int], op: str
    ) -> None:
        """The sum itself."""
        rng = self.rng
        loops = [*shape, *steps]
        self.bare.clear()
        count = rng.choice((1, 2, 2, 2, 2, 3))
        uses = [[v for v in loops if self.chance(0.6)] for _ in range(count)]
        for v in loops:
            if not any(v in used for used in uses):
                rng.choice(uses).append(v)
        reads = [self._operand(used, sizes) for used in uses]
        if self.chance(0.2):
            reads.append(rng.choice(reads))
        value = self._combined(reads, op)
        if self.chance(0.2):
            value = f"{self._guard(loops)} ? {value} : {0 if op.startswith('+') else 1}"
        if self.adds:
            op = op.removesuffix("!")
        ranges = {v: sizes[v] for v in loops if v not in self.bare or self.chance(0.1)}
        self.lines.append(_statement("C", shape, op, value, ranges))

    def _guard(self, loops: Sequence[str]) -> str:
        """A comparison of loops, or two: above a diagonal or below one, or in a band."""
        rng = self.rng
        tests = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            one, other = rng.choice(loops), rng.choice(loops)
            left = rng.choice((one, one, f"2 * {one}"))
            tests.append(f"{left} {rng.choice(('<=', '<', '>=', '>', '=='))} {other}")
            if self.chance(0.4):
                tests[-1] += f" + {rng.choice((1, 2, 5))}"
        return " && ".join(tests)

    def _combined(self, reads: list[str], op: str) -> str:
        rng = self.rng
        value = reads[0]
        for read in reads[1:]:
            form = "{} * {}" if op != "*=!" or self.type == "int" else "{} + {}"
            if self.chance(0.15):
                form = rng.choice(("({} + {})", "abs({} - {})", "max({}, {})", "({} > {} ? 1 : 2)"))
            value = form.format(value, read)
        if op == "*=!" and self.type != "int":
            value = f"1 + ({value}) / 64"
        elif self.chance(0.1):
            value = rng.choice(("{} + 1", "-({})", "max({}, 0)")).format(value)
        return value

    def _end(self, shape: Mapping[str, int]) -> None:
        """Perhaps more in place, and what is computed of each element, or sums of it."""
        rng = self.rng
        if self.chance(0.15):
            self.lines.append(_statement("C", shape, "+=", self._bias(shape), shape))
        last = rng.choice(("none", "none", "none", "each", "each", "again", "total"))
        if last == "none":
            self.returns.append("C")
            return
        self.returns += ["C"] * self.chance(0.4)
        read = f"C({','.join(shape)})"
        if last == "each":
            value = f"{read} + {self._bias(shape)}" if self.chance(0.7) else read
            value = rng.choice(FUNCTIONS).format(value)
            order = {v: shape[v] for v in rng.sample([*shape], len(shape))}
            self.lines.append(_statement("O", order, "=", value, {}))
        elif last == "again":  # over one of its loops
            over = rng.choice([*shape])
            left = {v: n for v, n in shape.items() if v != over}
            width = rng.choice(SHORT)
            weights = self._input({over: shape[over], "u": width})
            left["u"] = width
            self.lines.append(_statement("O", left, "+=!", f"{read} * {weights}", {}))
        else:
            left = {v: n for v, n in shape.items() if self.chance(0.5)}
            op = rng.choice(("+=!", "max=!")) if len(left) < len(shape) else "="
            self.lines.append(_statement("O", left, op, read, {}))
        self.returns.append("O")

    def _bias(self, shape: Mapping[str, int]) -> str:
        used = {v: n for v, n in shape.items() if self.chance(0.5)}
        return self._input(used) if used or self.chance(0.5) else "1"

    # --- inputs ---------------------------------------------------------------------------------

    def _operand(self, used: list[str], sizes: Mapping[str, int]) -> str:
        """A read of a new input with these loops: one dimension for each, or windows of two."""
        rng = self.rng
        used = rng.sample(used, len(used))
        dims: list[tuple[list[tuple[int, str]], int]] = []
        own, steps = ([v for v in used if v in of] for of in (PARALLEL, STEPS))
        for v in own:
            form = rng.random()
            if form < 0.6 or not steps:
                coefficient = 1 if self.chance(0.93) else rng.choice((2, 3, -1))
                dims.append(([(coefficient, v)], rng.choice((0, 0, 0, 0, 1, 2))))
            else:
                stride = rng.choice((1, 1, 1, 2, 3))
                dilation = rng.choice((1, 1, 1, 2, -1))
                dims.append(([(stride, v), (dilation, steps.pop())], 0))
        divided: list[tuple[str, int]] = []
        for v in [v for v in used if self.chance(0.1)]:
            periods = [n for n in (2, 3, 4) if sizes[v] % n == 0]
            if periods and any(terms == [(1, v)] for terms, _ in dims):
                dims = [dim for dim in dims if dim[0] != [(1, v)]]
                period = rng.choice(periods)
                divided += [(f"{v}/{period}", sizes[v] // period)] * self.chance(0.8)
                divided += [(f"{v}%{period}", period)] * (not divided or self.chance(0.4))
        dims += [([(1, v)], 0) for v in steps]
        if used and self.chance(0.04):
            dims.append(([(1, rng.choice(used))], 0))
        rng.shuffle(dims)
        pads = self.chance(0.15)
        shape, texts = [], []
        for terms, shift in dims:
            spans = [c * (sizes[v] - 1) for c, v in terms]
            low = min(sum(min(span, 0) for span in spans) + shift, 0)
            length = sum(max(span, 0) for span in spans) + shift - low + 1
            shift -= low
            length += rng.choice((0, 1, 3)) if self.chance(0.1) else 0
            if pads and len(terms) > 1:
                off = rng.randint(0, 2)
                shift, length = shift - off, max(1, length - off - rng.randint(0, 2))
            elif terms == [(1, terms[0][1])] and shift == 0 and length == sizes[terms[0][1]]:
                self.bare.add(terms[0][1])
            shape.append(length)
            text = " + ".join(v if c == 1 else f"{c} * {v}" for c, v in terms)
            sign = "-" if shift < 0 else "+"
            texts.append(f"{text} {sign} {abs(shift)}" if shift else text)
        for text, length in divided:
            place = rng.randint(0, len(texts))
            texts.insert(place, text)
            shape.insert(place, length)
        name = self._new(shape)
        read = f"{name}({','.join(texts)})" if texts else name
        return f"pad({read}, 0)" if pads and texts else read

    def _input(self, used: Mapping[str, int]) -> str:
        name = self._new(list(used.values()))
        return f"{name}({','.join(used)})" if used else name

    def _new(self, shape: Sequence[int]) -> str:
        rng, name = self.rng, f"A{len(self.arrays)}"
        type = self.type if self.chance(0.9) else rng.choice(TYPES)
        if self.type == "int":
            type = "int"
        values = np.random.default_rng(rng.randrange(2**32))
        ints = type == "int" or self.chance(0.3)
        array = values.integers(-3, 4, shape) if ints else values.normal(size=shape)
        self.arrays[name] = encoded(np.asarray(array), DTYPES[dtype_of(type)])
        dims = ",".join(map(str, shape))
        self.params[name] = f"{type}({dims})" if shape else type
        return name


def _statement(
    target: str, shape: Mapping[str, int], op: str, value: str, ranges: Mapping[str, int]
) -> str:
    left = f"{target}({','.join(shape)})" if shape else target
    where = ", ".join(f"{v} in 0:{n}" for v, n in ranges.items())
    return f"{left} {op} {value}" + (f" where {where}" if where else "")
