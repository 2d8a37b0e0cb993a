"""Inputs for measurements: drawn from a seed, such that the program can run on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tc.dtypes import BOOL, Array, DType
from tc.semantics import program as p
from tc.semantics.affine import box_of, linear_form
from tc.semantics.size_values import KnownSizes

SIGNED, POSITIVE, WHOLE, ZEROS = "signed", "positive", "whole", "zeros"
KINDS = (SIGNED, POSITIVE, ZEROS)
"""What floats are: of either sign and not near zero, or positive, for logarithms and roots; all
zeros, where places to read at are computed in ways that nothing is known of. `WHOLE` ones are
small, so that sums and products of them are exact."""

_GATHERED = "what is read"  # no name of a variable


def drawn_inputs(
    shaped: p.ShapedProgram, kind: str, seed: int, names: tuple[str, ...] | None = None
) -> dict[str, Array]:
    """Arrays for the inputs of a program, or for some of its tensors. Integers that are read to
    read elsewhere stay within what is read there."""
    rng = np.random.default_rng(seed)
    limits = places_read(shaped)
    arrays = {}
    for name in shaped.program.inputs if names is None else names:
        dtype, shape = shaped.program.tensors[name].dtype, shaped.shapes[name]
        if name in shaped.scalars:
            arrays[name] = np.array(shaped.scalars[name], dtype.numpy)
        else:
            arrays[name] = _drawn(kind, dtype, shape, limits.get(name), rng)
    return arrays


def _drawn(
    kind: str,
    dtype: DType,
    shape: tuple[int, ...],
    limits: tuple[int, int] | None,
    rng: np.random.Generator,
) -> Array:
    if dtype == BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if kind == ZEROS:
        return np.zeros(shape, dtype.numpy)
    if dtype.is_integer:
        info = np.iinfo(dtype.name)
        low, high = limits or (1, 4)
        low, high = max(low, int(info.min)), min(high, int(info.max))
        return rng.integers(low, max(low, high), shape, dtype.name, endpoint=True)
    if kind == WHOLE:
        return (rng.integers(1, 2, shape, endpoint=True) * _signs(shape, rng)).astype(dtype.numpy)
    values = rng.random(shape, np.float32) * np.float32(0.75) + np.float32(0.25)
    if kind == SIGNED:
        values = values * _signs(shape, rng)
    return np.asarray(values, dtype.numpy)


def _signs(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return np.asarray(rng.integers(0, 1, shape, np.int8, endpoint=True) * 2 - 1, np.float32)


def places_read(shaped: p.ShapedProgram) -> dict[str, tuple[int, int]]:
    """For inputs whose integers are subscripts, plus or times what is known, the least and the
    largest that leave no tensor."""
    found: dict[str, tuple[int, int]] = {}
    for statement in shaped.statements:
        if statement.is_empty:
            continue
        for tensor, low, high in _limits(shaped, statement):
            known = found.get(tensor, (low, high))
            found[tensor] = max(low, known[0]), min(high, known[1])
    return found


def _limits(
    shaped: p.ShapedProgram, statement: p.ShapedStatement
) -> Iterator[tuple[str, int, int]]:
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    box = box_of(statement.ranges, statement.ranges)
    for read in _reads(statement.statement.rhs):
        for subscript, extent in zip(read.subscripts, shaped.shapes[read.tensor], strict=True):
            inner = [r for r in _reads(subscript) if r.tensor in shaped.program.inputs]
            if len(inner) != 1 or inner[0].tensor in shaped.scalars or extent == 0:
                continue
            form = linear_form(_with_variable(subscript, inner[0]), known)
            factor = 0 if form is None else form.terms.get(_GATHERED, 0)
            if form is not None and factor:
                low, high = form.without(_GATHERED).interval(box)
                ends = (-low, extent - 1 - high)  # factor * value lies between them
                first, last = ends if factor > 0 else (-ends[1], -ends[0])
                step = abs(factor)
                yield inner[0].tensor, -(-first // step), last // step


def _reads(expr: p.Expr) -> list[p.Read]:
    return [node for node in p.walk(expr) if isinstance(node, p.Read) and node.subscripts]


def _with_variable(expr: p.Expr, read: p.Read) -> p.Expr:
    """A subscript with a variable in the place of a read and of the conversions around it."""
    match expr:
        case p.Read() if expr is read:
            return p.Index(_GATHERED, span=expr.span)
        case p.Convert(operand=operand) if operand is read:
            return p.Index(_GATHERED, span=expr.span)
        case p.Convert(operand=operand):
            return replace(expr, operand=_with_variable(operand, read))
        case p.Unary(operand=operand):
            return replace(expr, operand=_with_variable(operand, read))
        case p.Binary(left=left, right=right):
            left, right = _with_variable(left, read), _with_variable(right, read)
            return replace(expr, left=left, right=right)
        case _:
            return expr
