"""Honest kernels: callables written with other libraries that compute what a text says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator], tuple[Any, ...]]
Sizes = dict[str, int]

DTYPES = {
    "bool": np.bool_, "byte": np.uint8, "uint8": np.uint8, "uint32": np.uint32, "int8": np.int8,
    "int16": np.int16, "int": np.int32, "int64": np.int64, "half": np.float16,
    "float": np.float32, "double": np.float64,
}  # fmt: skip


@dataclass(frozen=True)
class Honest:
    """A kernel that is called with an array of its library for each input of the text, numbers for
    those of rank 0, and returns what the text does. `sizes` are those that it is bound to, `make`
    draws inputs of small sizes, and one that `writes` takes its outputs behind the inputs."""

    name: str
    text: str
    kernel: Callable[..., Any]
    like: str
    make: Make
    sizes: Mapping[str, int] | None = None
    writes: bool = False


class Corpus(list[Honest]):
    """The kernels of a module, which register themselves."""

    def __init__(self, like: str) -> None:
        super().__init__()
        self.like = like

    def computes(
        self,
        text: str,
        *,
        bound: Mapping[str, int] | None = None,
        writes: bool = False,
        **drawn: Any,
    ) -> Callable[[Any], Any]:
        """Registers a kernel for a text; `drawn` is what `drawing` takes, `bound` the sizes that
        the kernel is bound to."""
        text = text.strip()
        name = re.match(r"def (\w+)", text)[1]  # type: ignore[index]
        make = drawing(text, **drawn, **{size: (n, n) for size, n in (bound or {}).items()})

        def registered(kernel: Any) -> Any:
            self.append(Honest(name, text, kernel, self.like, make, bound, writes))
            return kernel

        return registered


def drawing(text: str, **drawn: Any) -> Make:
    """Draws inputs for the parameters of a text.

    A size is drawn from 2 to 6, or from what its keyword says, (least, greatest). Floats are
    normal; integers are below 10, or below what the keyword of the input says: a number, or a
    size. A function of the generator and the sizes makes an input by itself.

    >>> make = drawing("def f(float(N,3) x, int(M) I, int k) -> (o) {", N=(4, 4), M=(2, 2), I="N")
    >>> [np.shape(value) for value in make(np.random.default_rng(0))]
    [(4, 3), (2,), ()]
    """
    head = re.search(r"\((.*?)\)\s*->", text, re.DOTALL)[1]  # type: ignore[index]
    parameters = [
        (DTYPES[dtype], [dim.strip() for dim in shape.split(",") if dim], name)
        for dtype, shape, name in re.findall(r"(\w+)(?:\(([^)]*)\))?\s+(\w+)", head)
    ]
    dims = sorted({dim for _, shape, _ in parameters for dim in shape})

    def make(rng: np.random.Generator) -> tuple[Any, ...]:
        sizes = {
            dim: int(dim) if dim.isdigit() else _size(rng, drawn.get(dim, (2, 6))) for dim in dims
        }
        return tuple(
            _input(rng, sizes, dtype, shape, drawn.get(name)) for dtype, shape, name in parameters
        )

    return make


def _size(rng: np.random.Generator, limits: tuple[int, int]) -> int:
    return int(rng.integers(limits[0], limits[1] + 1))


def _input(rng: np.random.Generator, sizes: Sizes, dtype: Any, dims: list[str], how: Any) -> Any:
    shape = [sizes[dim] for dim in dims]
    if callable(how):
        values = how(rng, sizes)
    elif np.issubdtype(dtype, np.floating):
        values = rng.standard_normal(shape)
    elif dtype is np.bool_:
        values = rng.random(shape) < 0.5
    else:
        least = -9 if how is None and np.issubdtype(dtype, np.signedinteger) else 0
        values = rng.integers(least, sizes[how] if isinstance(how, str) else how or 10, shape)
    array = np.asarray(values).astype(dtype)
    return array if dims else array.item()


def rows(entries: str) -> Callable[[np.random.Generator, Sizes], Any]:
    """Makes the pointers of R - 1 rows in so many entries, which may leave out the first and last
    ones."""
    return lambda rng, sizes: np.sort(rng.integers(0, sizes[entries] + 1, sizes["R"]))


def permutation(size: str) -> Callable[[np.random.Generator, Sizes], Any]:
    """Makes a permutation of so many numbers."""
    return lambda rng, sizes: rng.permutation(sizes[size])
