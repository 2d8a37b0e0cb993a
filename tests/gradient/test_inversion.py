"""Gradients of reads by generated subscripts (D3, D5, D6, D7), against sums over all instances."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tests.gradient.differences import forward

VARIABLES = ("i", "j", "k", "l")


@dataclass
class Gathered:
    """`O(i,j) +=! A(subscripts) * B(k,l)`, with ranges in where clauses; how many of the variables
    are on the left side is `outer`."""

    subscripts: list[str]
    ranges: list[tuple[int, int]]
    outer: int
    room: int = 0

    def instances(self) -> Any:
        for values in itertools.product(*(range(b, e) for b, e in self.ranges)):
            yield dict(zip(VARIABLES, values, strict=False))

    def places(self) -> tuple[list[tuple[int, ...]], list[int]]:
        """Which element each instance reads, with the least of each dimension at 0."""
        code = [compile(text.replace("/", "//"), "", "eval") for text in self.subscripts]
        found = [tuple(eval(c, {}, dict(at)) for c in code) for at in self.instances()]
        least = [min(column, default=0) for column in zip(*found, strict=True)] or [0] * len(code)
        moved = [tuple(p - m for p, m in zip(place, least, strict=True)) for place in found]
        return moved, least

    def check(self) -> None:
        names = VARIABLES[: len(self.ranges)]
        left, right = names[: self.outer], names[self.outer :]
        places, least = self.places()
        shape = [max(column, default=0) + 1 + self.room for column in zip(*places, strict=True)]
        shape = shape or [40] * len(self.subscripts)  # nothing is read
        where = ", ".join(f"{n} in {b}:{e}" for n, (b, e) in zip(names, self.ranges, strict=True))
        moved = ", ".join(f"{s} - ({m})" for s, m in zip(self.subscripts, least, strict=True))
        dims = ", ".join("PQR"[d] for d in range(len(shape)))
        factor = ", ".join(f"{n} - ({self.ranges[names.index(n)][0]})" for n in right)
        factors = [f"double({', '.join('STU'[d] for d in range(len(right)))}) B"] * bool(right)
        times = f" * B({factor})" if right else ""
        op = "+=!" if right else "="
        target = f"O({', '.join(left)})" if left else "O"
        inputs = ", ".join([f"double({dims}) A", *factors])
        text = f"def f({inputs}) -> (O) {{ {target} {op} A({moved}){times} where {where} }}"
        numbers = np.random.default_rng(1)
        known = {
            "A": numbers.random(shape),
            "d_O": numbers.random([e for _, e in self.ranges[: self.outer]]),
        }
        known["B"] = numbers.random([e - b for b, e in self.ranges[self.outer :]])
        wanted = {"d_A": np.zeros(shape), "d_B": np.zeros(known["B"].shape)}
        for at, place in zip(self.instances(), places, strict=True):
            given = known["d_O"][tuple(at[n] for n in left)]
            own = tuple(at[n] - self.ranges[names.index(n)][0] for n in right)
            wanted["d_A"][place] += given * (known["B"][own] if right else 1)
            if right:
                wanted["d_B"][own] += given * known["A"][place]
        derived = tc.grad(text)
        for name, value in forward(derived, known).items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-12, err_msg=text + derived)


SOLVED = {
    "stride": (["2*i + j"], [(0, 5), (0, 3)], 1),
    "stride of one step": (["2*i + j"], [(0, 5), (0, 2)], 1),
    "falling stride": (["j - 3*i"], [(0, 5), (0, 4)], 1),
    "both signs": (["3*i - 2*j"], [(0, 5), (1, 6)], 1),
    "common divisor": (["4*i + 6*j"], [(0, 5), (0, 6)], 1),
    "multiple": (["2*i + 4*j"], [(0, 5), (0, 6)], 1),
    "every third": (["3*i"], [(1, 6)], 1),
    "negative range": (["3*i + 5*j"], [(0, 5), (-4, 3)], 1),
    "three unknowns": (["2*i + 3*j + 4*k"], [(0, 4), (0, 3), (0, 2)], 1),
    "on the right": (["2*i + 3*j"], [(0, 4), (0, 5)], 0),
    "skew": (["i + j", "i - j"], [(0, 4), (0, 5)], 2),
    "twice": (["i", "i", "j"], [(0, 4), (0, 3)], 1),
    "quotient": (["i / 3"], [(0, 11)], 1),
    "quotient and remainder": (["i / 4", "i % 4"], [(0, 11)], 1),
    "remainder and sum": (["i % 3 + j"], [(0, 8), (0, 3)], 1),
    "quotient of a sum": (["(i + 2*j - 3) / 2"], [(0, 8), (0, 3)], 1),
    "nested": (["(i / 2 + j) / 3", "i % 2"], [(0, 8), (0, 7)], 2),
    "product of a quotient": (["3*(i/2) + j % 2"], [(0, 8), (0, 3)], 1),
    "two pairs": (["2*i + k", "2*j + l"], [(0, 3), (0, 3), (0, 3), (0, 2)], 2),
    "nothing": (["2*i + j"], [(0, 0), (0, 3)], 1),
    "constant": (["0*i + 2"], [(0, 3)], 1),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SOLVED)
@pytest.mark.parametrize("room", [0, 2])
def test_a_read_is_solved_for_its_instances(name: str, room: int) -> None:
    Gathered(*SOLVED[name], room).check()


@st.composite
def subscripts(draw: st.DrawFn, names: tuple[str, ...], depth: int = 2) -> str:
    terms = [
        f"({draw(st.sampled_from((-4, -3, -2, -1, 1, 2, 3, 4)))})*{n}"
        for n in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    ]
    text = " + ".join([*terms, str(draw(st.integers(0, 5)))])
    if depth and draw(st.booleans()):
        text = f"({text}) {draw(st.sampled_from('/%'))} {draw(st.integers(1, 4))}"
        if draw(st.booleans()):
            text = f"{text} + {draw(subscripts(names, depth - 1))}"
    return text


@st.composite
def gathers(draw: st.DrawFn) -> Gathered:
    count = draw(st.integers(1, 3))
    names = VARIABLES[:count]
    outer = draw(st.integers(0, count))
    begins = [draw(st.integers(0 if v < outer else -3, 3)) for v in range(count)]
    ranges = [(b, b + draw(st.integers(0, 6))) for b in begins]
    rank = draw(st.integers(1, 2))
    return Gathered(
        [draw(subscripts(names)) for _ in range(rank)], ranges, outer, draw(st.integers(0, 2))
    )


@given(gathers())
def test_generated_reads_are_solved(gathered: Gathered) -> None:
    gathered.check()
