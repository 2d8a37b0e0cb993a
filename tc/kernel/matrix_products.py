"""The products of matrices that the threads of a warp compute together, as a table.

All multiply 16 rows of a left tile by 8 rows of a right tile, and give the threads the same results
(`ir.WarpMultiply`); they differ in the type of factors, and in how many steps they take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tc.dtypes import FLOAT16, FLOAT32, Array, DType

LINE_BYTES = 16
"""Bytes of a line of a tile, which is read at once, and begins at a multiple of as many."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """An instruction mma.m16n8k(`steps`) of PTX for factors of the type `name` there, whose sums
    are float32. Tiles have elements of `dtype`; with `rounds`, what is multiplied are the elements
    rounded to tf32: to 10 bits of mantissa, ties away from 0. Loops that may be computed so have
    the mark `mark`."""

    name: str
    mark: str
    dtype: DType
    steps: int
    rounds: bool = False

    @property
    def line(self) -> int:
        """The elements of a line."""
        return LINE_BYTES // self.dtype.bytes

    def factors(self, elements: Array) -> Array:
        """What is multiplied of elements of tiles, as doubles, whose products are exact."""
        rounded = rounded_to_tf32(elements) if self.rounds else elements
        return rounded.astype(np.float64)


ROUNDED_UP, KEPT = 1 << 12, 2**32 - (1 << 13)
"""What is added to the bits of a float32, and which bits are kept then: tf32 has 13 fewer."""


def rounded_to_tf32(values: Array) -> Array:
    """Values of float32, rounded to 10 bits of mantissa, ties away from 0 (cvt.rna.tf32.f32 of
    PTX); NaN and infinities as they are.

    >>> exact, tie = np.float32(1 + 2.0**-10), np.float32(1 + 2.0**-11)
    >>> rounded_to_tf32(np.array([exact, tie, -tie, np.inf])).tolist()
    [1.0009765625, 1.0009765625, -1.0009765625, inf]
    """
    values = np.asarray(values, np.float32)
    carried = values.view(np.uint32) + np.uint32(ROUNDED_UP)
    rounded = (carried & np.uint32(KEPT)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


F16 = MatrixProduct("f16", "mma", FLOAT16, 16)
TF32 = MatrixProduct("tf32", "mma_tf32", FLOAT32, 8, rounds=True)

PRODUCTS: Mapping[str, MatrixProduct] = {each.name: each for each in (F16, TF32)}
"""All of them by their names."""

PRODUCT_OF_MARK: Mapping[str, MatrixProduct] = {each.mark: each for each in PRODUCTS.values()}
"""All of them by the marks of loops."""
