"""A kernel of the harness: its text, shapes and formula, and the arrays for a run."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = Any
"""A numpy array: what numpy's functions return has no better type."""
Shapes = Mapping[str, tuple[int, ...]]

TEXTS = Path(__file__).parent.parent.parent / "tests" / "programs"
UNIT = 2.0**-24
ALIGNMENT = 64


class Subject(Protocol):
    """What the harness needs of a kernel: its name, by which the processes of the peers know it
    too, arrays, and how far a result may be from the expected one."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    def case(self) -> SubjectCase: ...

    def tolerance(self, expected: Array) -> float: ...


class SubjectCase(Protocol):
    """Its arrays in one process."""

    @property
    def inputs(self) -> tuple[Any, ...]: ...

    @property
    def outputs(self) -> tuple[Array, ...]: ...

    def reset(self) -> None: ...

    def expected(self) -> tuple[Array, ...]: ...


@dataclass(frozen=True)
class Kernel:
    """A program at given shapes.

    `family` is the computation, by which peers look up their own form of it. `shapes` are those
    of the inputs in the program's order, rank 0 being a scalar of `scalars`. `reference` takes
    the inputs in float64, and before them the initial outputs where `updates` says that the
    program reads them. `flops` are those that the fastest known form needs; `terms` is the length
    of the longest sum. `rows` bounds the integer inputs, whose names begin with I and which select
    rows of tables, so that of a table only `read` bytes are touched. `made` has functions that make
    inputs of int32 or float32, by name, where uniform values would not do: offsets of rows, sorted
    keys. The outputs in `integers` are of int32 and are compared exactly; all other arrays are of
    `dtype`. `asked` is the ratio to the fastest peer that is asked of the kernel, 0 where none is.
    """

    name: str
    family: str
    text: str
    shapes: Shapes
    outputs: Shapes
    reference: Callable[..., Array | tuple[Array, ...]]
    flops: int
    terms: int
    scalars: Mapping[str, float] = field(default_factory=dict)
    low: float = -1.0
    high: float = 1.0
    updates: bool = False
    rows: int = 0
    read: int = 0
    dtype: Any = np.float32
    made: Mapping[str, Callable[[np.random.Generator], Array]] = field(default_factory=dict)
    integers: frozenset[str] = frozenset()
    asked: float = 0.0

    @property
    def bytes_read(self) -> int:
        """Bytes that any implementation has to read: each element in use once."""
        updated = self.bytes_written if self.updates else 0
        return self.read or self._item * sum(map(math.prod, self.shapes.values())) + updated

    @property
    def bytes_written(self) -> int:
        return self._item * sum(map(math.prod, self.outputs.values()))

    @property
    def _item(self) -> int:
        return int(np.dtype(self.dtype).itemsize)

    def tolerance(self, expected: Array) -> float:
        """The largest error that rounding in float32, in any usual order, can explain.

        Errors of a sum grow as the root of its length, where they are independent: far below the
        bound that holds for all inputs, so that 16-bit arithmetic is found out. Integers have to be
        equal.
        """
        if np.asarray(expected).dtype.kind in "iu":
            return 0.0
        return 8 * UNIT * math.sqrt(max(self.terms, 16)) * float(np.max(np.abs(expected)))

    def case(self) -> Case:
        """Inputs, the same in every process, and outputs to compute into."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        inputs: list[Any] = []
        for name, shape in self.shapes.items():
            if name in self.scalars:
                inputs.append(self.scalars[name])
            elif name in self.made:
                inputs.append(copied(self.made[name](rng)))
            elif self.rows and name.startswith("I"):
                inputs.append(copied(rng.integers(0, self.rows, shape, dtype=np.int32)))
            else:
                inputs.append(self._values(uniform(rng, shape, self.low, self.high)))
        initial = [
            self._values(uniform(rng, s, -1, 1)) if self.updates else None
            for s in self.outputs.values()
        ]
        outputs = [
            aligned_empty(shape, np.int32 if name in self.integers else self.dtype)
            for name, shape in self.outputs.items()
        ]
        case = Case(self, tuple(inputs), tuple(outputs), tuple(initial))
        case.reset()
        return case

    def _values(self, array: Array) -> Array:
        return array if array.dtype == self.dtype else copied(array.astype(self.dtype))


@dataclass(frozen=True)
class Case:
    """A kernel's arrays in one process."""

    kernel: Kernel
    inputs: tuple[Any, ...]
    outputs: tuple[Array, ...]
    initial: tuple[Array | None, ...]

    def reset(self) -> None:
        """Outputs as before the first run: the initial values, or nothing that could pass."""
        for output, initial in zip(self.outputs, self.initial, strict=True):
            output[...] = impossible(output.dtype) if initial is None else initial

    def expected(self) -> tuple[Array, ...]:
        before = [x.astype(np.float64) for x in self.initial if x is not None]
        wide = [exact(x) for x in self.inputs]
        result = self.kernel.reference(*before, *wide)
        return result if isinstance(result, tuple) else (result,)


def impossible(dtype: Any) -> Any:
    """A value that no kernel computes.

    >>> impossible(np.dtype(np.int32)), impossible(np.dtype(np.float32))
    (-2147483648, nan)
    """
    return np.nan if dtype.kind == "f" else int(np.iinfo(dtype).min)


def exact(value: Any) -> Any:
    """
    >>> exact(np.float32([1, 2])).dtype, exact(np.int32([1])).dtype, exact(0.5)
    (dtype('float64'), dtype('int32'), 0.5)
    """
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_float else value


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """An array at a multiple of 64 bytes, as libraries allocate theirs.

    >>> aligned_empty((3, 5)).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    whole = np.empty(size + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size].view(dtype).reshape(shape)


def copied(values: Array) -> Array:
    array = aligned_empty(values.shape, values.dtype)
    array[...] = values
    return array


def uniform(rng: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Array:
    array = aligned_empty(shape)
    rng.random(out=array, dtype=np.float32)
    array *= high - low
    array += low
    return array


def program(name: str) -> str:
    """The text of a program of the tests' table."""
    return (TEXTS / f"{name}.tc").read_text(encoding="utf-8")
