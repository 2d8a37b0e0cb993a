"""Narrow floats: conversions of bfloat16 and of floats of 8 bits become operations on bits.

Few processors have instructions for these conversions, and fewer for vectors. Shifts and masks of
unsigned integers are everywhere, and are of vectors where the values are. What the operations give
is what `tc.dtypes.decoded` and `encoded` give, but for the bits of a NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tc.dtypes import FLOAT32, UINT32, DType
from tc.kernel import ir
from tc.kernel.folding import cast
from tc.kernel.math.vector import FORMATS, Vector, select
from tc.kernel.rebuild import (
    LocalNames,
    map_blocks,
    map_expressions,
    map_operands,
    map_regions,
    same_or,
)
from tc.kernel.walk import always_evaluated, every_statement

_SINGLE = FORMATS[FLOAT32]
_INFINITE = _SINGLE.bits_of(float("inf"))


def convert_narrow_floats(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with casts to and from types that numpy does not have as arithmetic of their bits.

    >>> from tc.dtypes import BFLOAT16
    >>> from tc.kernel.printer import to_text
    >>> a, o = (ir.Buffer(n, BFLOAT16, (), (), r) for n, r in (("a", "input"), ("o", "output")))
    >>> minus = ir.Unary("-", ir.Cast(ir.Load("a", (), BFLOAT16), FLOAT32), FLOAT32)
    >>> kernel = ir.Kernel("minus", (a, o), ((ir.Store("o", (), ir.Cast(minus, BFLOAT16)),),))
    >>> print("\\n".join(to_text(convert_narrow_floats(kernel)).splitlines()[4:]))
      let number: float32 = -float32.bits(uint32(uint16.bits(a[])) << uint32(16))
      let given: uint32 = uint32.bits(number)
      o[] = bfloat16.bits(uint16((given + ((given >> uint32(16) & uint32(1)) + uint32(32767)) | \
(number != number ? uint32(4294967295) : uint32(0))) >> uint32(16)))
    """
    if not any(map(_converts, every_statement(kernel))):
        return kernel
    rewriter = _Rewriter(LocalNames(kernel))
    return map_regions(kernel, lambda region: same_or(region, rewriter.block(region)))


def _converts(stmt: ir.Stmt) -> bool:
    return any(
        isinstance(expr, ir.Cast)
        and not (expr.dtype.is_in_numpy and expr.operand.dtype.is_in_numpy)
        for expr in ir.expressions(stmt)
    )


@dataclass
class _Rewriter:
    """Rewrites statements; `lets` are to stand before the statement that is being rewritten, and
    `known` is what its expressions have become, by identity and whether they are lazy."""

    names: LocalNames
    lets: list[ir.Stmt] = field(default_factory=list)
    known: dict[tuple[int, bool], ir.Expr] = field(default_factory=dict)

    def block(self, stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
        for stmt in stmts:
            if not _converts(stmt):
                yield map_blocks(stmt, lambda block: same_or(block, self.block(block)))
                continue
            self.lets, self.known = [], {}
            changed = map_expressions(stmt, lambda expr: self.value(expr, lazy=False))
            yield from self.lets
            yield map_blocks(changed, lambda block: same_or(block, self.block(block)))

    def value(self, expr: ir.Expr, *, lazy: bool) -> ir.Expr:
        """What an expression becomes; `lazy` where it may not be evaluated."""
        key = id(expr), lazy
        if key not in self.known:
            self.known[key] = self._value(expr, lazy=lazy)
        return self.known[key]

    def _value(self, expr: ir.Expr, *, lazy: bool) -> ir.Expr:
        match expr:
            case ir.Cast(operand=ir.Load(dtype=dtype) as load) if not dtype.is_in_numpy:
                element = self.operands(load, lazy=lazy)
                stored = Vector(ir.Bits(element, dtype.unsigned)).cast(UINT32)
                return cast(self.decoded(stored, dtype, lazy=lazy).expr, expr.dtype)
            case ir.Cast(operand=ir.Cast(operand=operand, dtype=dtype)) if not dtype.is_in_numpy:
                number = self.number(operand, lazy=lazy)
                return cast(self.rounded(number, dtype, lazy=lazy).expr, expr.dtype)
            case ir.Cast(operand=ir.Cast(operand=ir.Load(dtype=own) as load), dtype=dtype) if (
                own == dtype and not dtype.is_in_numpy
            ):  # a copy
                element = self.operands(load, lazy=lazy)
                return ir.Bits(ir.Bits(element, dtype.unsigned), dtype)
            case ir.Cast(operand=ir.Cast(operand=ir.Cast(dtype=own) as inner), dtype=dtype) if (
                own == dtype and not dtype.is_in_numpy
            ):  # rounded already
                return self.value(inner, lazy=lazy)
            case ir.Bits(operand=ir.Cast(operand=operand, dtype=own), dtype=dtype) if (
                not own.is_in_numpy
            ):  # the bits of what is rounded are what it is encoded as
                number = self.number(operand, lazy=lazy)
                return self.encoded(number, own, lazy=lazy).cast(dtype.scalar).expr
            case ir.Cast(operand=operand, dtype=dtype) if not dtype.is_in_numpy:
                number = self.number(operand, lazy=lazy)
                found = self.encoded(number, dtype, lazy=lazy).cast(dtype.scalar.unsigned)
                return ir.Bits(found.expr, dtype)
            case _:
                return self.operands(expr, lazy=lazy)

    def operands(self, expr: ir.Expr, *, lazy: bool) -> ir.Expr:
        """The expression on what its operands become."""
        sure = {id(operand) for operand in always_evaluated(expr)}
        return map_operands(expr, lambda each: self.value(each, lazy=lazy or id(each) not in sure))

    def number(self, operand: ir.Expr, *, lazy: bool) -> Vector:
        """An operand, as float32."""
        found = self.value(operand, lazy=lazy)
        found = cast(found, FLOAT32.vector(found.dtype.lanes))
        return self.once("number", Vector(found), lazy=lazy)

    def once(self, name: str, value: Vector, *, lazy: bool) -> Vector:
        """A value that stands several times: a local, but for one that may not be evaluated."""
        if isinstance(value.expr, ir.Var) or lazy:
            return value
        let = ir.Let(self.names.fresh(name), value.expr)
        self.lets.append(let)
        return Vector(ir.Var(let.var, let.dtype))

    def decoded(self, stored: Vector, dtype: DType, *, lazy: bool) -> Vector:
        """The float32 of the bits of an element."""
        form, shift = dtype.format, _SINGLE.fraction + 1 - dtype.format.digits
        if _has_exponents(dtype):
            return (stored << shift).as_float
        stored = self.once("stored", stored, lazy=lazy)
        size = stored & ((1 << (dtype.bits - 1)) - 1)
        found = (size << shift) + _offset(dtype)
        # without subnormal float32, of which not all processors know
        small = size.cast(FLOAT32) * form.smallest_subnormal
        found = select(size < (1 << (form.digits - 1)), small.bits, found)
        found = select(size >= form.numbers, (size << shift) | _INFINITE, found)
        return (found | ((stored << (32 - dtype.bits)) & _SINGLE.sign)).as_float

    def encoded(self, number: Vector, dtype: DType, *, lazy: bool) -> Vector:
        """The bits of the nearest element, the even one of two, as uint32."""
        form, drop = dtype.format, _SINGLE.fraction + 1 - dtype.format.digits
        if _has_exponents(dtype):
            return self.carried(number, drop, lazy=lazy) >> drop
        given = self.once("given", number.bits, lazy=lazy)
        size = self.once("size", given & (_SINGLE.sign - 1), lazy=lazy)
        # adding this number rounds to multiples of the smallest one
        magic = 2.0**_SINGLE.fraction * form.smallest_subnormal
        tiny = (size.as_float + magic).bits - _SINGLE.bits_of(magic)
        normal = (_rounded_up(size, drop) - _offset(dtype)) >> drop
        found = select(size < _SINGLE.bits_of(form.smallest_normal), tiny, normal)
        most = float(form.rounded_up) if form.infinite else form.largest
        found = select(size >= _SINGLE.bits_of(most), form.numbers - (not form.infinite), found)
        nan = form.numbers | (1 << (form.digits - 2) if form.infinite else 0)
        found = select(size > _INFINITE, nan, found)
        return found | ((given >> (32 - dtype.bits)) & (1 << (dtype.bits - 1)))

    def rounded(self, number: Vector, dtype: DType, *, lazy: bool) -> Vector:
        """The float32 of the nearest element."""
        if _has_exponents(dtype):
            drop = _SINGLE.fraction + 1 - dtype.format.digits
            return (self.carried(number, drop, lazy=lazy) & (2**32 - (1 << drop))).as_float
        return self.decoded(self.encoded(number, dtype, lazy=lazy), dtype, lazy=lazy)

    def carried(self, number: Vector, drop: int, *, lazy: bool) -> Vector:
        """The bits of numbers, rounded so that the last `drop` of them may go; what is rounded
        beyond the largest number becomes infinite by itself. Of a NaN they are all 1, as a mask of
        NaNs is there at once."""
        given = self.once("given", number.bits, lazy=lazy)
        return _rounded_up(given, drop) | select(number.is_nan, given.constant(2**32 - 1), 0)


def _has_exponents(dtype: DType) -> bool:
    """Whether elements are the first bits of float32, as those of bfloat16."""
    return (dtype.format.least, dtype.format.most) == (
        FLOAT32.format.least,
        FLOAT32.format.most,
    )


def _offset(dtype: DType) -> int:
    """How far the bits of a normal float32 are from those of the element, shifted."""
    return (dtype.format.least - FLOAT32.format.least) << _SINGLE.fraction


def _rounded_up(size: Vector, drop: int) -> Vector:
    """Bits that are rounded to nearest, ties to even, where the last `drop` of them go."""
    return size + (((size >> drop) & 1) + ((1 << (drop - 1)) - 1))
