"""Reciprocal division: vectors divided by one scalar are products, mended to the very quotients.

A division takes as long as five or six multiplications. With z = 1 / y rounded, q = x * z and
r = x - q * y (one fused multiply-add), q + r * z, fused too, is x / y rounded, for float32, as long
as nothing on the way overflows or is subnormal: q is off by less than two units in the last place,
so r is off by one unit of its own at most, and q + r * z before it is rounded by 3 * 2**-48 for x
and y from 1 to 2. That is less than the distance from x / y to where rounding turns, half way
between two floats, but where that distance is among the least possible ones; and all such x and
y, found by solving the congruences for them, give the same as a division.

A zero among the dividends is not sure to be exact, so where there are many, all is divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce

from tc.dtypes import BOOL, FLOAT32, INT32, DType
from tc.kernel import ir
from tc.kernel.rebuild import LocalNames, changed, map_blocks, map_regions, same_or
from tc.kernel.rules import expression
from tc.kernel.walk import read_names, stored_in

LEAST, MOST = 4, 8
"""Vectors of quotients that pay for the reciprocal, and that are tested together."""

DIVISORS = 2.0**-60, 2.0**60
DIVIDENDS = 2.0**-64, 2.0**64
"""Sizes between which quotients, and all that they are made of, are normal numbers."""

_FIRST = (127 - 64) << 23  # the bits of the first of `DIVIDENDS`
_FAR = 1 << 30
"""This bit of the bits of x - `_FIRST` tells whether the size of x is outside of `DIVIDENDS`, as
2**30 floats are between these: less than the first borrows from it, more than the last has it."""


def divide_by_reciprocals(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with products where several float32 vectors divided by one scalar are stored one
    after the other; if some lanes are not sure to be exact then, all are divided. For processors
    with a fused multiply-add.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.printer import to_text
    >>> f2, y = FLOAT32.vector(2), ir.Load("y", (), FLOAT32)
    >>> lanes = [ir.Ramp(ir.Const(2 * n, INT64), 1, INT64.vector(2)) for n in range(4)]
    >>> quotients = [ir.Binary("/", ir.Load("x", (l,), f2), ir.Var("v", f2), f2) for l in lanes]
    >>> stores = [ir.Store("o", (l,), q) for l, q in zip(lanes, quotients)]
    >>> whole = ir.Kernel("scaled", (), ((ir.Let("v", ir.Broadcast(y, f2)), *stores),))
    >>> lines = to_text(divide_by_reciprocals(whole)).splitlines()
    >>> print("\\n".join([*lines[2:6], "...", *lines[10:11], "...", *lines[14:17]]))
      let v: float32x2 = float32x2(y[])
      let divisor: float32 = y[]
      let reciprocal: float32x2 = float32x2(1.0f / divisor)
      let dividend: float32x2 = x[0:2]
    ...
        o[0:2] = dividend / v
    ...
      else
        let product: float32x2 = dividend * reciprocal
        o[0:2] = fma(fma(-product, v, dividend), reciprocal, product)
    """
    rewriter = _Rewriter(LocalNames(kernel))
    return map_regions(kernel, lambda region: same_or(region, rewriter.block(region)))


@dataclass(frozen=True)
class _Rewriter:
    names: LocalNames

    def block(self, stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
        divisors: dict[str, ir.Broadcast] = {}
        place = 0
        while place < len(stmts):
            stores = _quotients(stmts[place : place + MOST], divisors)
            count = len(stores) if len(stores) >= LEAST else 1
            done, place = stmts[place : place + count], place + count
            if count == 1:
                yield map_blocks(done[0], lambda block: same_or(block, self.block(block)))
            else:
                yield from self.products(stores, divisors)
            if isinstance(done[0], ir.For | ir.If | ir.Set):
                divisors = {}
            elif stored := stored_in(done):
                divisors = {n: v for n, v in divisors.items() if not _reads(v, stored)}
            match done[0]:
                case ir.Let(var=var, value=ir.Broadcast() as value) if (
                    value.dtype.scalar == FLOAT32
                ):
                    divisors[var] = value

    def products(
        self, stores: Sequence[_Quotient], divisors: Mapping[str, ir.Broadcast]
    ) -> Iterator[ir.Stmt]:
        """The stores, by products where all of them are sure to be the quotients; the scalar is
        still what it was where the divisor was made of it."""
        divisor = stores[0].divisor
        dtype, broadcast = divisor.dtype, divisors[divisor.name]
        y, z = self.local("divisor", FLOAT32), self.local("reciprocal", dtype)
        yield ir.Let(y.name, broadcast.operand)
        yield ir.Let(
            z.name, ir.Broadcast(ir.Binary("/", ir.Const(1.0, FLOAT32), y, FLOAT32), dtype)
        )
        dividends = [self.local("dividend", dtype) for _ in stores]
        for x, quotient in zip(dividends, stores, strict=True):
            yield ir.Let(x.name, quotient.dividend)
        exact: list[ir.Stmt] = []
        fast: list[ir.Stmt] = []
        for x, quotient in zip(dividends, stores, strict=True):
            exact.append(changed(quotient.store, value=ir.Binary("/", x, divisor, dtype)))
            q = self.local("product", dtype)
            fast.append(ir.Let(q.name, ir.Binary("*", x, z, dtype)))
            value = expression("fma(fma(-q, y, x), z, q)", dtype, q=q, x=x, y=divisor, z=z)
            fast.append(changed(quotient.store, value=value))
        is_rare = ir.Logical("||", (_is_far(y), _are_far(dividends)), BOOL)
        yield ir.If(is_rare, tuple(exact), tuple(fast), rare=True)

    def local(self, name: str, dtype: DType) -> ir.Var:
        return ir.Var(self.names.fresh(name), dtype)


@dataclass(frozen=True)
class _Quotient:
    """A store of a vector divided by a scalar in all lanes."""

    store: ir.Store
    dividend: ir.Expr
    divisor: ir.Var


def _quotients(stmts: Sequence[ir.Stmt], divisors: Mapping[str, ir.Broadcast]) -> list[_Quotient]:
    """The leading statements that are stores of quotients by one of the divisors, and whose
    dividends may be read before the first of them."""
    found: list[_Quotient] = []
    stored: set[str] = set()
    for stmt in stmts:
        match stmt:
            case ir.Store(
                value=ir.Binary(op="/", left=dividend, right=ir.Var(name=name) as divisor)
            ) if (
                name in divisors
                and (not found or divisor == found[0].divisor)
                and not _reads(dividend, stored)
            ):
                found.append(_Quotient(stmt, dividend, divisor))
                stored.add(stmt.buffer)
            case _:
                break
    return found


def _reads(expr: ir.Expr, buffers: AbstractSet[str]) -> bool:
    return not buffers.isdisjoint(read_names(expr))


def _is_far(divisor: ir.Var) -> ir.Expr:
    """Whether a divisor is outside of `DIVISORS`, or no number."""
    size = ir.Call("fabs", (divisor,), FLOAT32)
    least, most = (ir.Const(bound, FLOAT32) for bound in DIVISORS)
    inside = ir.Compare(">=", size, least, BOOL), ir.Compare("<=", size, most, BOOL)
    return ir.Logical("!", (ir.Logical("&&", inside, BOOL),), BOOL)


def _are_far(dividends: Sequence[ir.Var]) -> ir.Expr:
    """Whether any lane is outside of `DIVIDENDS`."""
    bits = INT32.vector(dividends[0].dtype.lanes)

    def constant(value: int) -> ir.Expr:
        return ir.Broadcast(ir.Const(value, INT32), bits)

    moved: list[ir.Expr] = [
        ir.Binary("-", ir.Bits(x, bits), constant(_FIRST), bits) for x in dividends
    ]
    united = reduce(lambda one, other: ir.Binary("|", one, other, bits), moved)
    lanes = BOOL.vector(bits.lanes)
    is_far = ir.Compare("!=", ir.Binary("&", united, constant(_FAR), bits), constant(0), lanes)
    return ir.Reduce("max", is_far, BOOL)
