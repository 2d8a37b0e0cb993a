"""Builders of expressions, loops and buffers, by which tests write kernels by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tc.dtypes import INT64, DType
from tc.errors import TCError
from tc.kernel.folding import binary, compare, integer
from tc.kernel.ir import Buffer, Expr, For, Stmt, Var, row_major

__all__ = ["I", "add", "dense", "integer", "less", "loop", "refusal_of", "times", "var"]


def var(name: str) -> Var:
    """An index variable."""
    return Var(name, INT64)


I = var("i")  # noqa: E741  # the name in the texts


def add(*exprs: Expr) -> Expr:
    """The folded sum of all."""
    total = exprs[0]
    for expr in exprs[1:]:
        total = binary("+", total, expr)
    return total


def times(expr: Expr, factor: int) -> Expr:
    """The folded product."""
    return binary("*", expr, integer(factor))


def less(left: Expr, right: int) -> Expr:
    """The folded comparison."""
    return compare("<", left, integer(right), {})


def loop(name: str, extent: int | Expr, *body: Stmt, mark: str = "", parallel: bool = False) -> For:
    """A loop from 0 to an extent."""
    end = integer(extent) if isinstance(extent, int) else extent
    return For(name, integer(0), end, body, parallel, mark)


def dense(name: str, dtype: DType, shape: tuple[int, ...], role: str) -> Buffer:
    """A buffer in row-major order."""
    return Buffer(name, dtype, shape, row_major(shape), role)


def refusal_of(function: Callable[..., Any], *arguments: Any) -> TCError:
    """The error of tc that a call ends with."""
    with pytest.raises(TCError) as caught:
        function(*arguments)
    return caught.value
