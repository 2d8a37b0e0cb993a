"""Transposed convolutions, drawn, beside a formula that scatters each input over the result."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tc.dtypes import Array


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution of `x` (n, c, places) by `w` (c, o, places): each output asks which
    inputs reach it. With `bias`, its sum goes on from one value for each o."""

    steps: tuple[int, ...]
    paddings: tuple[int, ...]
    dilations: tuple[int, ...]
    more: tuple[int, ...]
    x: Array
    w: Array
    bias: Array | None
    is_root: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the result, without images and channels."""
        every = zip(
            self.x.shape[2:],
            self.w.shape[2:],
            self.steps,
            self.paddings,
            self.dilations,
            self.more,
            strict=True,
        )
        return tuple((h - 1) * s - 2 * p + d * (k - 1) + 1 + m for h, k, s, p, d, m in every)

    @property
    def text(self) -> str:
        dims = range(len(self.steps))
        at = [f"y{j} + {self.paddings[j]} - {self.dilations[j]}*k{j}" for j in dims]
        places = ",".join(f"({a})/{s}" for a, s in zip(at, self.steps, strict=True))
        test = " && ".join(f"({a}) % {s} == 0" for a, s in zip(at, self.steps, strict=True))
        y, k = (",".join(f"{v}{j}" for j in dims) for v in "yk")
        where = "where " + ", ".join(f"y{j} in 0:{n}" for j, n in enumerate(self.shape))
        read, weight, o = f"pad(x(n,c,{places}), 0)", f"w(c,o,{k})", f"r(n,o,{y})"
        term = (
            f"({test} ? {read} * {weight} : 0)"
            if self.is_root
            else f"({test} ? {read} : 0) * {weight}"
        )
        kind = {"f4": "float", "f8": "double", "i4": "int", "f2": "half"}[self.x.dtype.str[1:]]
        sizes = (",".join(map(str, a.shape)) for a in (self.x, self.w))
        params = ", ".join(f"{kind}({s}) {v}" for s, v in zip(sizes, "xw", strict=True))
        start, op = "", "+=!"
        if self.bias is not None:
            params += f", {kind}({len(self.bias)}) b"
            start, op = f"{o} = b(o) {where}\n  ", "+="
        return f"def f({params}) -> (r) {{\n  {start}{o} {op} {term} {where}\n}}"

    @property
    def inputs(self) -> list[Array]:
        return [self.x, self.w] if self.bias is None else [self.x, self.w, self.bias]

    def expected(self) -> Array:
        """The sum in float64: every input times every weight, added where it belongs."""
        n, _c = self.x.shape[:2]
        found = np.zeros((n, self.w.shape[1], *self.shape))
        if self.bias is not None:
            found += self.bias.astype(np.float64).reshape(-1, *[1] * len(self.steps))
        for at in product(*map(range, self.x.shape[2:])):
            for k in product(*map(range, self.w.shape[2:])):
                every = zip(at, k, self.steps, self.paddings, self.dilations, strict=True)
                y = tuple(a * s - p + d * j for a, j, s, p, d in every)
                if all(0 <= v < size for v, size in zip(y, self.shape, strict=True)):
                    x, w = self.x[(..., *at)].astype(np.float64), self.w[(..., *k)]
                    found[(..., *y)] += x @ w.astype(np.float64)
        return found


def drawn(seed: int) -> Transposed:
    """Small whole numbers, strides of 1 to 4, kernels smaller and larger than these."""
    rng, data = random.Random(seed), np.random.default_rng(seed)
    dims = rng.choice((1, 1, 2, 2, 3))
    steps = tuple(rng.choice((1, 2, 2, 3, 4)[: 5 if dims < 3 else 3]) for _ in range(dims))
    kernels = [rng.randint(1, 6 if dims == 1 else 4 if dims == 2 else 3) for _ in range(dims)]
    dilations = tuple(rng.choice((1, 1, 2, 3)) for _ in range(dims))
    most = 40 if dims == 1 else 9 if dims == 2 else 5
    sizes = [rng.randint(1, most) for _ in range(dims)]
    reach = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    paddings = tuple(
        rng.randint(0, max(0, min(3, e, h - 1))) for e, h in zip(reach, sizes, strict=True)
    )
    paddings = tuple(
        p if (h - 1) * s + e + 1 > 2 * p else 0
        for p, h, s, e in zip(paddings, sizes, steps, reach, strict=True)
    )
    more = tuple(rng.randint(0, s - 1) for s in steps)
    n, c, o = rng.choice((1, 2)), rng.choice((1, 3, 12)), rng.choice((1, 4, 17))
    dtype: Any = rng.choice((np.float32, np.float32, np.float64, np.int32, np.float16))
    most = 1 if dtype is np.float16 else 4
    x = data.integers(-most, most + 1, (n, c, *sizes)).astype(dtype)
    w = data.integers(-most, most + 1, (c, o, *kernels)).astype(dtype)
    bias = data.integers(-4, 5, o).astype(dtype) if rng.random() < 0.5 else None
    return Transposed(steps, paddings, dilations, more, x, w, bias, is_root=rng.random() < 0.3)
