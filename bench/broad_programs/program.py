"""A program whose sizes are drawn, and the arrays of one drawing."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.cpu_kernels.kernel import Array, copied, exact

Sizes = Mapping[str, int]
PARAMETER = re.compile(r"(\w+)\s*(?:\(([\w,\s]*)\))?\s+(\w+)")
DTYPES: Mapping[str, Any] = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "int": np.int32,
    "int8": np.int8,
    "byte": np.uint8,
}
ROUNDING = {np.dtype(t): float(np.finfo(t).eps) / 2 for t in (np.float16, np.float32, np.float64)}
TRIES = 100_000

PRODUCTS = (4e6, 4e8)
"""Multiplications of a program that computes: some tens of us to some ms."""
ELEMENTS = (3e5, 1.2e7)
"""Elements of one that moves memory."""
FUNCTIONS = (1e5, 4e6)
"""Exponentials and the like."""


@dataclass(frozen=True)
class Program:
    """A text whose `sizes` are drawn from ranges, so that the `work` is within bounds.

    `work` is a product of sizes and numbers, "M K 2"; so are the sizes that others give
    (`derived`). Integer inputs of `selects` hold places below a size. `formula` takes torch's
    tensors, `loops` numpy's arrays; both return the outputs, and numba compiles the loops. Floats
    are drawn from `values`, or where `ranges` says; `scalars` are those of rank 0.
    """

    family: str
    name: str
    text: str
    sizes: Mapping[str, tuple[int, int]]
    work: str
    formula: Callable[..., Any]
    loops: Callable[..., Any] | None
    within: tuple[float, float] = PRODUCTS
    derived: Mapping[str, str] = field(default_factory=dict)
    selects: Mapping[str, str] = field(default_factory=dict)
    values: tuple[float, float] = (-1.0, 1.0)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.family}: {self.name}"

    @property
    def parameters(self) -> list[tuple[str, str | None, str]]:
        """Type, dimensions and name of each input.

        >>> Program("f", "p", "def p(float(M,2) a, int b) -> (o) {}", {}, "", id, id).parameters
        [('float', 'M,2', 'a'), ('int', None, 'b')]
        """
        inputs = self.text.partition("(")[2].partition("->")[0]
        return [(m[1], m[2], m[3]) for m in PARAMETER.finditer(inputs)]

    def drawn(self, seed: int) -> Drawn:
        """Sizes log-uniform in their ranges, drawn anew until the work is within its bounds: a
        function of the seed and the name alone. ValueError where none are found."""
        rng = self._generator(seed)
        low, high = self.within
        for _ in range(TRIES):
            sizes = self._whole(
                {
                    name: min(last, int(math.exp(rng.uniform(math.log(first), math.log(last + 1)))))
                    for name, (first, last) in self.sizes.items()
                }
            )
            if low <= product(self.work, sizes) <= high:
                return Drawn(self, seed, sizes)
        raise ValueError(f"{self.key}: no sizes within {self.sizes} do {low:g} to {high:g} work")

    def tiny(self, seed: int) -> Drawn:
        """Sizes of at most a dozen, for tests."""
        rng = self._generator(seed)
        ranges = {name: (min(first, 6), last) for name, (first, last) in self.sizes.items()}
        drawn = {
            name: int(rng.integers(first, min(last, first + 6), endpoint=True))
            for name, (first, last) in ranges.items()
        }
        return Drawn(self, seed, self._whole(drawn))

    def _generator(self, seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, zlib.crc32(self.key.encode())])

    def _whole(self, sizes: dict[str, int]) -> dict[str, int]:
        for name, factors in self.derived.items():
            sizes[name] = product(factors, sizes)
        return sizes


def product(factors: str, sizes: Sizes) -> int:
    """
    >>> product("M K 2", {"M": 3, "K": 5})
    30
    """
    return math.prod(int(f) if f.isdigit() else sizes[f] for f in factors.split())


@dataclass(frozen=True)
class Drawn:
    """A program at sizes: to the harness what a kernel of `bench.cpu` is."""

    program: Program
    seed: int
    sizes: Sizes

    @property
    def name(self) -> str:
        return self.program.key

    @property
    def family(self) -> str:
        return self.program.family

    @property
    def text(self) -> str:
        return self.program.text

    def case(self) -> DrawnCase:
        """Inputs, the same in every process."""
        rng = np.random.default_rng([self.seed, zlib.crc32(self.name.encode()), 1])
        return DrawnCase(self, tuple(self._input(rng, *p) for p in self.program.parameters))

    def _input(self, rng: np.random.Generator, kind: str, dims: str | None, name: str) -> Any:
        of = self.program
        if dims is None:
            return of.scalars[name]
        shape = tuple(product(dim, self.sizes) for dim in dims.split(","))
        dtype = np.dtype(DTYPES[kind])
        if name in of.selects:
            return copied(rng.integers(0, product(of.selects[name], self.sizes), shape, dtype))
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return copied(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
        low, high = of.ranges.get(name, of.values)
        real = np.float64 if dtype == np.float64 else np.float32
        return copied((rng.random(shape, real) * real(high - low) + real(low)).astype(dtype))

    def tolerance(self, expected: Array) -> float:
        """The largest error allowed, by the rule of the kernels of `bench.cpu`, with the steps that
        make one element as terms."""
        kinds = [DTYPES[kind] for kind, _, _ in self.program.parameters]
        unit = max((ROUNDING[np.dtype(k)] for k in kinds if np.dtype(k) in ROUNDING), default=0.0)
        terms = product(self.program.work, self.sizes) / max(expected.size, 1)
        return 8 * unit * math.sqrt(max(terms, 16)) * float(np.max(np.abs(expected)))


@dataclass(frozen=True)
class DrawnCase:
    """The arrays of a drawn program in one process; outputs are made by each call."""

    kernel: Drawn
    inputs: tuple[Any, ...]
    outputs: tuple[Array, ...] = ()

    def reset(self) -> None:
        """Nothing: each call makes its outputs."""

    def expected(self) -> tuple[Array, ...]:
        """By torch's formula in float64."""
        import torch

        wide = [exact(x) for x in self.inputs]
        tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in wide]
        result = self.kernel.program.formula(*tensors)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(np.asarray(value) for value in results)
