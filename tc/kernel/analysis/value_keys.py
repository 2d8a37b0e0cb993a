"""Expressions as keys of values: equal only where they give the same bits."""

from __future__ import annotations

from math import copysign
from typing import TypeAlias

from tc.kernel.ir import Const, Expr, walk

ValueKey: TypeAlias = "tuple[Expr, tuple[bool, ...]]"


def value_key(expr: Expr) -> ValueKey:
    """An expression with the signs of the zeros in it: for Python, 0.0 == -0.0.

    >>> from tc.dtypes import FLOAT32
    >>> zero, other = Const(0.0, FLOAT32), Const(-0.0, FLOAT32)
    >>> zero == other, value_key(zero) == value_key(other)
    (True, False)
    """
    zeros = (e.value for e in walk(expr) if isinstance(e, Const) and e.value == 0)
    return expr, tuple(copysign(1.0, zero) < 0 for zero in zeros)
