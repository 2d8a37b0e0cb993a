"""Programs that divide variables by small numbers, drawn with inputs: gradients of strided layers,
upsampling, shuffles, and what follows them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

Drawn = tuple[str, dict[str, Any]]

_TYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "int": np.int32}


def drawn(seed: int) -> Drawn:
    """A program whose reads are all in bounds or padded, and small whole numbers as its inputs:
    whatever the order of a sum, its value is the same."""
    rng = random.Random(seed)
    kind = rng.choice(("strided", "strided", "pooling", "guarded", "pointwise", "pointwise", "max"))
    return _Program(rng).of(kind)


class _Program:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.step = rng.choice((2, 2, 2, 3, 3, 4))
        self.dims = rng.choice((1, 1, 2))
        self.dtype = rng.choice(("float", "float", "float", "double", "half", "int"))
        self.data = np.random.default_rng(rng.randrange(1 << 30))
        self.given: dict[str, Any] = {}
        self.declared: list[str] = []

    def of(self, kind: str) -> Drawn:
        body = getattr(self, kind)()
        after, outputs = self.followed()
        head = ", ".join(self.declared)
        return f"def f({head}) -> ({outputs}) {{\n  {body}\n  {after}\n}}", self.given

    def input(self, name: str, *shape: int) -> None:
        """Values that are often the same, and seldom 0."""
        self.declared.append(f"{self.dtype}({','.join(map(str, shape))}) {name}")
        self.given[name] = self.data.integers(-3, 4, shape).astype(_TYPES[self.dtype])

    def size(self) -> int:
        """Around multiples of the step, now and then long enough for vectors."""
        rng = self.rng
        return max(1, self.step * rng.choice((1, 2, 3, 4, 8, 9, 10)) + rng.choice((-1, 0, 0, 1)))

    def followed(self) -> tuple[str, str]:
        """A second statement, which reads the target of the first or writes a part of it again, and
        the returns."""
        x = ", ".join(("c", *"xy"[: self.dims]))
        return self.rng.choice(
            (
                ("", "o"),
                ("", "o"),
                (f"z({x}) = o({x}) + 1", "o, z"),
                (f"z({x}) = o({x}) * 2", "z"),
                ("z(c) +=! o(c, x" + (", y)" if self.dims == 2 else ")"), "z"),
                (f"o({x}) += 1", "o"),
            )
        )

    # --- kinds ----------------------------------------------------------------------------------

    def strided(self) -> str:
        """The gradient of a strided convolution, or of a depthwise one, with any padding."""
        rng, s = self.rng, self.step
        channels, filters = rng.choice((1, 2, 9)), rng.choice((1, 1, 3, 17))
        kernels = [rng.randint(1, 2 * s + 1) for _ in range(self.dims)]
        sizes = [self.size() for _ in range(self.dims)]
        pairs = zip(sizes, kernels, strict=True)
        outs = [max(1, (n - k) // s + 1 + rng.choice((0, 0, 0, -1))) for n, k in pairs]
        depthwise = rng.random() < 0.4
        first = [] if depthwise else [filters]
        self.input("d", *(first or [channels]), *outs)
        self.input("K", *first, channels, *kernels)
        at, of, where = [], [], [f"c in 0:{channels}"]
        for v, p, n, k in zip("xy", "pq", sizes, kernels, strict=False):
            x = rng.choice((v, v, f"({v}+1)"))
            at.append(f"{x}/{s}-{p}")
            of.append(f"{s}*{p}+{x}%{s}")
            where += [f"{v} in 0:{n}", f"{p} in 0:{(k + s - 1) // s}"]
        one, other = ("c", "c") if depthwise else ("f", "f,c")
        product = f"d({one},{','.join(at)}) * K({other},{','.join(of)})"
        target = f"o(c,{','.join('xy'[: self.dims])})"
        is_continued = rng.random() < 0.25
        start = f"{target} = 1 where {', '.join(w for w in where if w[0] not in 'pq')}\n  "
        op = "+=" if is_continued else "+=!"
        text = f"{target} {op} pad({product}, 0) where {', '.join(where)}"
        return start + text if is_continued else text

    def guarded(self) -> str:
        """As a convolution's gradient is written where the stride is a number of the call."""
        rng, s = self.rng, self.step
        n, k, r = self.size(), rng.randint(1, 7), rng.choice((1, 1, 2, 3))
        out, channels = max(1, n // s), rng.choice((1, 3))
        self.dims = 1
        self.input("d", channels, out)
        self.input("K", channels, k)
        test = f"(x - {r}*k) % {s} == 0"
        return (
            f"o(c,x) +=! {test} ? pad(d(c,(x - {r}*k)/{s}) * K(c,k), 0) : 0"
            f" where c in 0:{channels}, x in 0:{n}, k in 0:{k}"
        )

    def pooling(self) -> str:
        """The gradient of max-pooling, with what is left over at the end of a row."""
        rng, s = self.rng, self.step
        sizes = [self.size() + s for _ in range(self.dims)]
        outs = [n // s for n in sizes]
        channels = rng.choice((1, 2, 5))
        self.input("X", channels, *sizes)
        self.input("Y", channels, *outs)
        self.input("g", channels, *outs)
        window = list(zip("xy"[: self.dims], "ij", strict=False))
        places = ",".join(f"{s}*{v}+{w}" for v, w in window)
        x = ",".join("xy"[: self.dims])
        below = ",".join(f"{v}/{s}" for v in "xy"[: self.dims])
        ranges = ", ".join(f"{w} in 0:{s}" for _, w in window)
        return (
            f"n(c,{x}) +=! X(c,{places}) == Y(c,{x}) ? 1 : 0 where {ranges}\n  "
            f"o(c,{x}) = pad(X(c,{x}) == Y(c,{below}) ? g(c,{below}) * n(c,{below}) : 0, 0)"
            f" where c in 0:{channels}, "
            + ", ".join(f"{v} in 0:{n}" for v, n in zip("xy", sizes, strict=False))
        )

    def pointwise(self) -> str:
        """Upsampling, shuffles of pixels, products with a period."""
        rng, s = self.rng, self.step
        sizes = [self.size() for _ in range(self.dims)]
        channels, begin = rng.choice((1, 2, 9)), rng.choice((0, 0, 0, 1))
        ends = [n + begin for n in sizes]
        self.input("a", channels, *(n // s + 1 for n in ends))
        self.input("b", channels * s, *(n // s + 1 for n in ends))
        self.input("t", *([s] * self.dims))
        variables = "xy"[: self.dims]
        below = ",".join(f"{v}/{s}" for v in variables)
        terms = [
            f"a(c,{below})",
            f"b({s}*c + x%{s},{below})",
            f"t({','.join(f'{v}%{s}' for v in variables)})",
            f"pad(a(c,{','.join(f'({v}-1)/{s}' for v in variables)}), 2)",
            f"(x % {s} == 1 ? a(c,{below}) : 3)",
            f"(x < {ends[0] // 2} ? a(c,{below}) : 1)",
        ]
        chosen = rng.sample(terms, rng.choice((1, 2, 3)))
        where = [f"c in 0:{channels}"]
        where += [f"{v} in {begin}:{e}" for v, e in zip(variables, ends, strict=True)]
        return f"o(c,{','.join(variables)}) = {' + '.join(chosen)} where {', '.join(where)}"

    def max(self) -> str:
        """Of these every term counts, whatever it is."""
        rng, s = self.rng, self.step
        sizes = [self.size() for _ in range(self.dims)]
        channels, op = rng.choice((1, 3)), rng.choice(("max=!", "min=!"))
        self.input("a", channels, *(n // s + 3 for n in sizes))
        variables = "xy"[: self.dims]
        at = ",".join(f"{v}/{s}+{w}" for v, w in zip(variables, "pq", strict=False))
        where = [f"c in 0:{channels}"]
        where += [f"{v} in 0:{n}" for v, n in zip(variables, sizes, strict=True)]
        where += [f"{w} in 0:2" for w in "pq"[: self.dims]]
        test = f"{s}*p + x%{s} < {s + 1}"
        return f"o(c,{','.join(variables)}) {op} ({test} ? a(c,{at}) : 0) where {', '.join(where)}"
