"""Shaped programs by hand, for what no text, or no short one, would show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np

from tc.dtypes import FLOAT32, INT64, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Failure, Kernel
from tc.options import PRESETS
from tc.semantics.program import (
    Binary,
    Expr,
    Index,
    Literal,
    Program,
    Range,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    Tensor,
    children,
)
from tc.source import Source, Span
from tests.support import lowering


def lower(program: ShapedProgram, strides: Mapping[str, Any], **how: Any) -> Kernel:
    """The kernel of plain loops in text order."""
    return lowering.lower(program, strides, options=PRESETS["naive"], **how)


SPAN = Span(Source("by hand"), 0, 7)
NOTHING: Mapping[Any, Any] = MappingProxyType({})


def literal(value: float, dtype: DType = FLOAT32) -> Literal:
    return Literal(value, dtype, span=SPAN)


def index(name: str) -> Index:
    return Index(name, span=SPAN)


_SITES = count(1000)


def read(
    tensor: str, *subscripts: str | Expr, dtype: DType = FLOAT32, site: int | None = None
) -> Read:
    """A read with a site of its own, unless one is given."""
    site = next(_SITES) if site is None else site
    places = tuple(index(s) if isinstance(s, str) else s for s in subscripts)
    return Read(tensor, places, dtype, site, span=SPAN)


def binary(op: str, left: Expr, right: Expr, site: int = -1) -> Binary:
    return Binary(op, left, right, left.dtype, site, span=SPAN)


def offset(name: str, value: int) -> Expr:
    return binary("+", index(name), literal(value, INT64))


def tensor(name: str, role: str, dtype: DType, rank: int) -> Tensor:
    return Tensor(name, dtype, rank, role, None, SPAN)


def statement(
    target: str,
    subscripts: str,
    rhs: Expr,
    *,
    op: str = "=",
    init: bool = False,
    continues: str = "",
    places: tuple[Expr, ...] | None = None,
) -> Statement:
    outer = tuple(subscripts)
    variables = dict.fromkeys((*outer, *_indices(rhs)))
    return Statement(
        "S",
        target,
        tuple(map(index, outer)) if places is None else places,
        outer,
        tuple(variables),
        op,
        init,
        continues,
        rhs,
        (),
        (),
        SPAN,
        {},
    )


def _indices(expr: Expr) -> Iterable[str]:
    """Iterative, as trees may be deeper here than any parser lets through."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Index):
            yield node.name
        stack.extend(reversed(children(node)))


def shaped(
    tensors: Mapping[str, tuple[str, DType, tuple[int, ...]]],
    *statements: tuple[Statement, Mapping[str, tuple[int, int]]],
    checked: frozenset[int] = frozenset(),
    scalars: Mapping[str, int] = NOTHING,
) -> ShapedProgram:
    """`tensors` gives role, dtype and shape; each statement comes with its ranges."""

    def names(role: str) -> tuple[str, ...]:
        return tuple(n for n, (r, _, _) in tensors.items() if r == role)

    program = Program(
        "f",
        SPAN.source,
        {n: tensor(n, role, dtype, len(s)) for n, (role, dtype, s) in tensors.items()},
        names("input"),
        names("output"),
        names("temporary"),
        {},
        (),
        tuple(s for s, _ in statements),
        {},
        (),
        frozenset(scalars),
    )
    return ShapedProgram(
        program,
        {},
        scalars,
        {n: s for n, (_, _, s) in tensors.items()},
        {},
        {},
        tuple(
            ShapedStatement(s, {v: Range(*r) for v, r in ranges.items()}, checked)
            for s, ranges in statements
        ),
        (),
        (),
    )


def run(
    program: ShapedProgram, *, initial: Mapping[str, Any] = NOTHING, **inputs: Any
) -> tuple[dict[str, np.ndarray[Any, Any]], Failure | None, Kernel]:
    """Lowers with checks and evaluates; outputs that are not given start as garbage."""
    kernel = lower(program, {}, initial=frozenset(initial), check=True)
    arrays = {b.name: np.empty(b.shape, b.dtype.numpy) for b in kernel.buffers}
    for array in arrays.values():
        array.view(np.uint8).fill(0xAB) if array.ndim else array.fill(77)
    arrays |= {n: np.array(a, arrays[n].dtype) for n, a in (inputs | dict(initial)).items()}
    failure = evaluate(kernel, arrays)
    return {n: arrays[n] for n in program.program.outputs}, failure, kernel
