"""Types of elements, with the literals in them (C5).

A type is weak (Y1) until it meets another one; the numbers as written that take the type must fit
it. Weak integers are computed in int64, weak floats in float64, halves in float32 (Y8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tc.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Array,
    DType,
    Type,
    Weak,
    fits,
    join,
    promote,
)
from tc.errors import CheckError
from tc.source import Span

MAX_FOLDED_BITS = 256
"""Literals are folded exactly as far as their value has at most these bits."""


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A literal that takes the type which it meets."""

    value: int | float
    span: Span | None


@dataclass(frozen=True, slots=True)
class ElementType:
    """The type of the elements of a value.

    `constant` is the number that literals alone make; `adapting` are the numbers that take the type
    which the value meets and must fit it, of many the extreme ones; `is_large` says whether one of
    the literals is beyond int32, so that the value alone is int64."""

    dtype: Type
    constant: int | float | None = None
    adapting: tuple[WrittenNumber, ...] = ()
    is_large: bool = False

    @property
    def is_weak(self) -> bool:
        return isinstance(self.dtype, Weak)

    @property
    def is_integer(self) -> bool:
        """Whether the elements may be indices: bool does not count (Y2)."""
        if isinstance(self.dtype, Weak):
            return self.dtype is not Weak.FLOAT
        return self.dtype.is_integer

    @property
    def alone(self) -> DType:
        """The type of a result that has met no other type."""
        if isinstance(self.dtype, DType):
            return self.dtype
        if self.dtype is Weak.FLOAT:
            return FLOAT64
        return INT64 if self.is_large else INT32

    def __str__(self) -> str:
        names = {Weak.LITERAL: "a literal", Weak.SIZE: "an index or size", Weak.FLOAT: "a literal"}
        return names[self.dtype] if isinstance(self.dtype, Weak) else str(self.dtype)


SIZE_TYPE = ElementType(Weak.SIZE)
BOOL_TYPE = ElementType(BOOL)


def literal_type(value: int | float, span: Span | None) -> ElementType:
    """The type of a number that is written without a suffix."""
    weak = Weak.FLOAT if isinstance(value, float) else Weak.LITERAL
    return ElementType(weak, value, (WrittenNumber(value, span),), _is_large(value))


def folded(op: str, left: ElementType, right: ElementType, span: Span) -> ElementType | None:
    """The type, with its number, of literals alone joined by `+`, `-` or `*`; else None.

    >>> from tc.source import Source
    >>> span = Span(Source("1"), 0, 1)
    >>> folded("+", literal_type(2, span), literal_type(3, span), span).constant
    5
    """
    a, b = left.constant, right.constant
    if a is None or b is None or op not in ("+", "-", "*"):
        return None
    try:
        value = a + b if op == "+" else a - b if op == "-" else a * b
    except OverflowError:
        return None
    if isinstance(value, int) and value.bit_length() > MAX_FOLDED_BITS:
        return None
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return literal_type(value, span)


def promoted(types: Iterable[ElementType]) -> ElementType:
    """The type that arithmetic on operands of these types computes in (Y2)."""
    return _common(types, arithmetic=True)


def joined(types: Iterable[ElementType]) -> ElementType:
    """The type in which values meet: in partitions, branches, rows, `++` and folds (C5)."""
    return _common(types, arithmetic=False)


def computed_in(dtype: Type) -> np.dtype[np.generic]:
    """The numpy type that holds elements of a type while they are computed.

    >>> from tc.dtypes import FLOAT16
    >>> computed_in(FLOAT16), computed_in(Weak.SIZE)
    (dtype('float32'), dtype('int64'))
    """
    if isinstance(dtype, Weak):
        return np.dtype(np.float64 if dtype is Weak.FLOAT else np.int64)
    return dtype.computed.numpy


def check_fit(found: ElementType, target: Type) -> None:
    """Raises Y1 where a literal does not fit the type that it takes."""
    if isinstance(target, Weak):
        if target is not Weak.FLOAT:
            for number in found.adapting:
                if not fits(number.value, INT64):
                    raise _unfit(number, INT64)
        return
    for number in found.adapting:
        if not fits(number.value, target) or (
            isinstance(number.value, float) and not target.is_float
        ):
            raise _unfit(number, target)


def cast(array: Array, target: Type) -> Array:
    """An array of elements as they are computed, converted to the numpy type in which elements of
    another type are computed; integers wrap around, floats are truncated (Y4)."""
    if target == BOOL:
        return np.not_equal(array, 0)
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(computed_in(target), copy=False)


def rounded_to(array: Array, target: DType) -> Array:
    """An array in the numpy type of a result: halves are rounded here (Y8)."""
    with np.errstate(all="ignore"):
        return np.array(array, target.numpy, order="C")


def _common(types: Iterable[ElementType], *, arithmetic: bool) -> ElementType:
    dtype: Type | None = None
    adapting: list[WrittenNumber] = []
    is_large, count = False, 0
    only: ElementType | None = None
    for found in types:
        count += 1
        only = found
        adapting += found.adapting
        is_large |= found.is_large
        if dtype is None:
            dtype = INT32 if arithmetic and found.dtype == BOOL else found.dtype
        else:
            meet = promote if arithmetic else join
            dtype = meet(dtype, found.dtype, FLOAT64)
    assert dtype is not None
    assert only is not None
    if count == 1 and only.dtype == dtype:
        return only
    if not isinstance(dtype, Weak):
        return ElementType(dtype)
    return ElementType(dtype, None, _extremes(adapting), is_large)


def _extremes(numbers: list[WrittenNumber]) -> tuple[WrittenNumber, ...]:
    """Of many numbers, those that decide whether all fit a type."""
    if len(numbers) <= 2:
        return tuple(numbers)
    whole = [n for n in numbers if isinstance(n.value, int)]
    others = [n for n in numbers if isinstance(n.value, float)]
    kept = [*others, *whole] if len(numbers) <= 3 else []
    if not kept:
        if others:
            kept.append(max(others, key=lambda n: abs(n.value)))
        if whole:
            kept += [min(whole, key=lambda n: n.value), max(whole, key=lambda n: n.value)]
    return tuple(kept)


def _is_large(value: int | float) -> bool:
    return isinstance(value, int) and not fits(value, INT32)


def _wider(value: int | float) -> DType:
    """The type that a number which does not fit where it stands has alone."""
    if isinstance(value, float):
        return FLOAT32 if fits(value, FLOAT32) else FLOAT64
    return INT32 if fits(value, INT32) else INT64


def wider_of(found: ElementType, declared: DType) -> DType:
    """The type that has room for numbers which do not fit a declared one, and for its numbers."""
    wider: Type = declared
    for number in found.adapting:
        if not fits(number.value, declared):
            wider = join(wider, _wider(number.value), FLOAT64)
    assert isinstance(wider, DType)
    return wider


def _unfit(number: WrittenNumber, target: DType) -> CheckError:
    shown = number.value if isinstance(number.value, int) else repr(number.value)
    span = number.span
    return CheckError(
        f"the literal {shown} does not fit {target}, the type that it takes here",
        rule="Y1",
        span=span,
        paste=f"{_wider(number.value)}({span.line})"
        if span is not None and "\n" not in span.text
        else None,
    )
