"""Programs in any number, with inputs and what numpy makes of these.

All values are integers so small that every order of summation gives the same float: results are
compared as they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.random  # before signals arrive: numpy would load it at its first use

import tc

REDRAWN_PROGRAMS = 18
"""Numbers of programs that all processes draw again and again."""

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Form:
    """A text in which K and L stand for numbers, inputs for a size, and the same in numpy."""

    text: str
    inputs: Callable[[np.random.Generator, int], Arrays]
    expected: Callable[[int, int, Arrays], Arrays]


def _floats(draw: np.random.Generator, *shape: int) -> np.ndarray:
    return draw.integers(-4, 5, shape).astype(np.float32)


def _matrices(draw: np.random.Generator, size: int) -> Arrays:
    rows = 1 + size % 97
    return _floats(draw, rows, 1 + size % 61), _floats(draw, 1 + size % 61, 1 + size % 83)


def _gathered(draw: np.random.Generator, size: int) -> Arrays:
    return _floats(draw, 31), draw.integers(0, 31, size).astype(np.int32)


FORMS = (
    Form(
        "def f(int(N) x) -> (y) { y(i) = KK * x(i) + LL }",
        lambda draw, size: (draw.integers(-99, 99, size).astype(np.int32),),
        lambda k, m, a: (np.int32(k) * a[0] + np.int32(m),),
    ),
    Form(
        "def f(float(M,K) a, float(K,N) b) -> (c) { c(m,n) +=! KK * a(m,k) * b(k,n) + LL }",
        _matrices,
        lambda k, m, a: (k * (a[0] @ a[1]) + np.float32(m * a[0].shape[1]),),
    ),
    Form(
        "def f(float(M,N) x) -> (s, t) { s(i) +=! KK * x(i,j)  t(i) max=! x(i,j) + LL }",
        lambda draw, size: (_floats(draw, 1 + size % 211, 3 + size % 300),),
        lambda k, m, a: (k * a[0].sum(1), a[0].max(1) + np.float32(m)),
    ),
    Form(
        "def f(double(N) x) -> (y) { y(i) = KK * x(i) - x(i+1) + LL * x(i+2) }",
        lambda draw, size: (_floats(draw, size + 3).astype(np.float64),),
        lambda k, m, a: (k * a[0][:-2] - a[0][1:-1] + m * a[0][2:],),
    ),
    Form(
        "def f(float(N) x, int(M) at) -> (y) { y(i) = KK * x(at(i)) + fmax(x(at(i)), LL) }",
        _gathered,
        lambda k, m, a: (k * a[0][a[1]] + np.maximum(a[0][a[1]], np.float32(m)),),
    ),
    Form(
        "def f(float(N) x) -> (y, z) { y(i) = KK * x(i)  z +=! y(i) * LL }",
        lambda draw, size: (_floats(draw, size),),
        lambda k, m, a: (k * a[0], np.float32(k * m * a[0].sum(dtype=np.float64))),
    ),
)


@dataclass(frozen=True)
class Subject:
    """One program, compiled here or nowhere yet."""

    number: int
    backend: str
    function: Any

    def call(self, draw: random.Random) -> None:
        """Calls it with new inputs; WrongResult where numpy gives something else."""
        size = draw.choice((1, 7, 33, 1000))
        size = 30_000 if draw.random() < 0.03 else size
        form, k, m = form_of(self.number)
        inputs = form.inputs(np.random.default_rng(draw.getrandbits(32)), size)
        found = self.function(*inputs)
        expected = form.expected(k, m, inputs)
        found = found if isinstance(found, tuple) else (found,)
        for result, wanted in zip(found, expected, strict=True):
            if not np.array_equal(result, wanted):
                raise WrongResult(self.number, self.backend, size, result, wanted)


class WrongResult(Exception):
    def __init__(
        self, number: int, backend: str, size: int, result: object, wanted: object
    ) -> None:
        form, k, m = form_of(number)
        text = text_of(form, k, m)
        super().__init__(f"{text} ({backend}, size {size}) gives {result}, numpy {wanted}")


def form_of(number: int) -> tuple[Form, int, int]:
    rest, kind = divmod(number, len(FORMS))
    return FORMS[kind], 1 + rest % 15, 1 + rest // 15 % 15


def text_of(form: Form, k: int, m: int) -> str:
    return form.text.replace("KK", str(k)).replace("LL", str(m))


def subject(draw: random.Random) -> Subject:
    """A function that no call has specialised yet."""
    number = (
        draw.randrange(REDRAWN_PROGRAMS)
        if draw.random() < 0.6
        else draw.randrange(len(FORMS) * 225)
    )
    backend = "c" if draw.random() < 0.02 else "numba"
    backend = backend if backend in tc.backends() else "numba"
    threads = draw.choice((None, None, 1, 2, 4))
    function = tc.compile(
        text_of(*form_of(number)), backend=backend, options=tc.Options(threads=threads)
    )
    return Subject(number, backend, function)
