"""Contractions of two tensors: as texts of tc, as einsum of other libraries, and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tc
from bench.suites.record import DENSE, Record, clock, timed
from bench.timing import timer_of

TYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "int8": np.int8}
SMALL = (2, 3, 4)
"""Sizes at which results are compared under `tc.error_bound`."""


@dataclass(frozen=True)
class Contraction:
    """The indices of the operands and of the result, the size of each index, and a type of tc.

    >>> product = Contraction("ik", "kj", "ij", {"i": 2, "j": 3, "k": 4})
    >>> product.einsum, product.flops, product.terms
    ('ik,kj->ij', 48, 4)
    >>> print(product.text)
    def contraction(float(I,K) A_, float(K,J) B_) -> (C_) {
      C_(i,j) +=! A_(i,k) * B_(k,j)
    }
    """

    left: str
    right: str
    result: str
    sizes: Mapping[str, int]
    type: str = "float"

    @property
    def einsum(self) -> str:
        return f"{self.left},{self.right}->{self.result}"

    @property
    def text(self) -> str:
        a, b, c = (",".join(indices) for indices in (self.left, self.right, self.result))
        term = f"A_({a}) * B_({b})"
        term = f"int8({term})" if self.type == "int8" else term
        operands = f"{self.type}({a.upper()}) A_, {self.type}({b.upper()}) B_"
        return f"def contraction({operands}) -> (C_) {{\n  C_({c}) +=! {term}\n}}"

    @property
    def flops(self) -> int:
        return 2 * math.prod(self.sizes.values())

    @property
    def terms(self) -> int:
        """Products that are summed for one element of the result."""
        return math.prod(size for index, size in self.sizes.items() if index not in self.result)

    def operands(
        self, rng: np.random.Generator, sizes: Mapping[str, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        a, b = (self._operand(rng, [sizes[i] for i in t]) for t in (self.left, self.right))
        return a, b

    def _operand(self, rng: np.random.Generator, shape: list[int]) -> np.ndarray:
        if self.type == "int8":
            return rng.integers(-128, 128, shape, np.int8)
        return rng.standard_normal(shape, np.float32).astype(TYPES[self.type], copy=False)

    def beyond(
        self, found: np.ndarray, a: np.ndarray, b: np.ndarray, bound: np.ndarray | None = None
    ) -> int:
        """How many elements of a result are further from the exact one than the bound, which is
        terms + 2 roundings of the sum of magnitudes unless it is given. Integers wrap, and are
        equal."""
        exact = self._sums(a, b, np.float64 if bound is None else np.longdouble)
        if self.type == "int8":
            return int(np.count_nonzero(found != exact.astype(np.int64).astype(np.int8)))
        if bound is None:
            roundings = self.terms + 2
            roundings *= 2 if self.type == "double" else 1  # those of the reference
            bound = self._sums(abs(a), abs(b), np.float64)
            bound *= roundings * float(np.finfo(found.dtype).eps) / 2
        return int(np.count_nonzero(~(abs(found - exact) <= bound)))

    def _sums(self, a: np.ndarray, b: np.ndarray, dtype: type) -> np.ndarray:
        return np.einsum(self.einsum, a.astype(dtype), b.astype(dtype), optimize=True)


Peers = Callable[[Contraction, np.ndarray, np.ndarray], Mapping[str, Callable[[], Any]]]
"""Calls of other libraries by name, for the operands."""


def measured(
    contraction: Contraction,
    suite: str,
    name: str,
    *,
    budget: float,
    peers: Peers,
) -> Record:
    """The times of tc and of the peers, with the elements of tc's results that are wrong: at the
    sizes that are timed, and at small ones under `tc.error_bound`."""
    rng = np.random.default_rng(0)
    function = tc.compile(contraction.text)
    small = {i: SMALL[n % len(SMALL)] for n, i in enumerate(sorted(contraction.sizes))}
    little = contraction.operands(rng, small)
    bound = tc.error_bound(contraction.text, little)
    beyond = contraction.beyond(function(*little), *little, bound=bound)
    a, b = contraction.operands(rng, contraction.sizes)
    beyond += contraction.beyond(function(a, b), a, b)
    runs = {"tc": lambda: function(a, b), **peers(contraction, a, b)}
    seconds, least = timed({name: timer_of(run, clock()) for name, run in runs.items()}, budget)
    sizes = ", ".join(f"{index} {size}" for index, size in sorted(contraction.sizes.items()))
    return Record(suite, name, f"{sizes} {contraction.type}", seconds, least, beyond)


def einsum_peers(
    contraction: Contraction, a: np.ndarray, b: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """numpy, torch and JAX, and the first two with a dense copy of their result; for half and int8
    torch alone, as numpy has no product of them."""
    import jax
    import torch

    subscripts = contraction.einsum
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    with_torch = {
        "torch": lambda: torch.einsum(subscripts, ta, tb),
        f"torch{DENSE}": lambda: torch.einsum(subscripts, ta, tb).contiguous(),
    }
    if contraction.type in ("half", "int8"):
        return with_torch
    jax.config.update("jax_enable_x64", contraction.type == "double")
    ja, jb = jax.numpy.asarray(a), jax.numpy.asarray(b)
    jitted = jax.jit(lambda x, y: jax.numpy.einsum(subscripts, x, y))
    return {
        "numpy": lambda: np.einsum(subscripts, a, b, optimize=True),
        f"numpy{DENSE}": lambda: np.ascontiguousarray(np.einsum(subscripts, a, b, optimize=True)),
        **with_torch,
        "jax": lambda: jax.block_until_ready(jitted(ja, jb)),
    }


def product_peers(
    contraction: Contraction, a: np.ndarray, b: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """Of plain products of matrices: numpy's OpenBLAS and torch."""
    del contraction
    import torch

    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    return {"numpy": lambda: a @ b, "torch": lambda: ta @ tb}
