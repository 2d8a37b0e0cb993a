"""The identities of the reductions, as constants of the kernel IR."""

from __future__ import annotations

import math

import numpy as np

from tc.dtypes import BOOL, DType
from tc.kernel.folding import constant
from tc.kernel.ir import Const


def identity(op: str, dtype: DType) -> Const:
    """The value that a reduction by `op` starts at (R2).

    >>> from tc.dtypes import INT64
    >>> identity("+", INT64).value, identity("min", BOOL).value
    (0, True)
    """
    match op:
        case "+" | "*":
            return constant(int(op == "*"), dtype)
        case _ if dtype == BOOL:
            return Const(op == "min", BOOL)
        case _ if dtype.is_float:
            return Const(math.inf if op == "min" else -math.inf, dtype)
        case _:
            info = np.iinfo(dtype.numpy.str)
            return Const(int(info.max if op == "min" else info.min), dtype)
