"""The same expression on other operands: what the passes over kernels are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tc.dtypes import FLOAT16, DType
from tc.kernel.folding import (
    Bounds,
    binary,
    broadcast,
    cast,
    compare,
    constant,
    is_constant,
    logical_and,
    logical_not,
    logical_or,
    negation,
    ramp,
    select,
    splat,
)
from tc.kernel.ir import (
    Binary,
    Bits,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Logical,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Unary,
    Var,
    children,
    unknown_node,
)


def substitute(expr: Expr, values: Mapping[str, Expr], bounds: Bounds) -> Expr:
    """The expression with variables replaced, folded; the very same where none occurs.

    >>> from tc.dtypes import BOOL, INT64
    >>> from tc.kernel.printer import expression_text
    >>> load = Load("a", (Binary("+", Var("i", INT64), Var("j", INT64), INT64),), BOOL)
    >>> lanes = ramp(constant(3, INT64), 1, 4)
    >>> expression_text(substitute(load, {"j": lanes}, {}))
    'a[i + 3:i + 7]'
    """
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    if isinstance(expr, Const):
        return expr
    old = children(expr)
    new = [substitute(operand, values, bounds) for operand in old]
    return expr if unchanged(old, new) else rebuild(expr, new, bounds)


class Substitution:
    """`substitute` in the expressions of one kernel for many values of the same few variables:
    what was done for the same values (the same objects) is not done again, so results share their
    parts. The bounds of a variable must not change meanwhile."""

    def __init__(self, names: dict[int, tuple[str, ...]] | None = None) -> None:
        self._names = {} if names is None else names
        self._known: dict[tuple[int, ...], tuple[Sequence[Expr], Expr]] = {}

    def afresh(self) -> Substitution:
        """For a place with other bounds."""
        return Substitution(self._names)

    def apply(self, expr: Expr, values: Mapping[str, Expr], bounds: Bounds) -> Expr:
        if isinstance(expr, Var):
            return values.get(expr.name, expr)
        if isinstance(expr, Const):
            return expr
        given = [values[name] for name in self.names(expr) if name in values]
        if not given:
            return expr
        key = (id(expr), *map(id, given))
        known = self._known.get(key)
        if known is None:
            new = [self.apply(operand, values, bounds) for operand in children(expr)]
            known = self._known[key] = given, rebuild(expr, new, bounds)
        return known[1]

    def names(self, expr: Expr) -> tuple[str, ...]:
        """The variables in an expression."""
        if isinstance(expr, Var):
            return (expr.name,)
        if isinstance(expr, Const):
            return ()
        known = self._names.get(id(expr))
        if known is None:
            found = dict.fromkeys(n for child in children(expr) for n in self.names(child))
            known = self._names[id(expr)] = tuple(found)
        return known


def unchanged(old: Sequence[Expr], new: Sequence[Expr]) -> bool:
    """Whether all operands are the same objects."""
    return all(map(_is, old, new))


def _is(one: Expr, other: Expr) -> bool:
    return one is other


def rebuild(expr: Expr, operands: Sequence[Expr], bounds: Bounds) -> Expr:
    """The node on other operands (in the order of `children`), folded. Where some of them are
    vectors, so is the result, and the other operands are broadcast."""
    match expr:
        case Load():
            return _load(expr, operands)
        case Select():
            condition, then, otherwise = operands
            lanes = max(o.dtype.lanes for o in operands)
            return select(condition, widened(then, lanes), widened(otherwise, lanes))
        case Broadcast(dtype=dtype):
            return broadcast(operands[0], dtype.lanes)
        case Ramp(step=step, dtype=dtype):
            return ramp(operands[0], step, dtype.lanes)
        case Reduce(op=op, dtype=dtype):
            return Reduce(op, operands[0], dtype)
        case Shuffle(lanes=order, dtype=dtype):
            return Shuffle(operands[0], operands[1], order, dtype)
        case Const() | Var():
            return expr
    lanes = max(o.dtype.lanes for o in operands)
    same = [widened(o, lanes) for o in operands]
    match expr:
        case Binary(op=op):
            return binary(op, same[0], same[1], bounds)
        case Unary():
            return negation(same[0])
        case Compare(op=op):
            return compare(op, same[0], same[1], bounds)
        case Logical(op="!"):
            return logical_not(same[0])
        case Logical(op="&&"):
            return logical_and(same[0], same[1])
        case Logical():
            return logical_or(same[0], same[1])
        case Cast(dtype=dtype):
            return cast(same[0], _of_lanes(dtype, lanes))
        case Call(function=function, dtype=dtype):
            return Call(function, tuple(same), _of_lanes(dtype, lanes))
        case Bits(dtype=dtype):
            return Bits(same[0], _of_lanes(dtype, lanes))
        case _:
            raise unknown_node(expr)


def widened(expr: Expr, lanes: int) -> Expr:
    """A vector of that many lanes: the expression, if it is one, else its broadcast."""
    return expr if expr.dtype.lanes == lanes else broadcast(expr, lanes)


def narrow(expr: Expr) -> Expr:
    """The scalar in all lanes of a vector, if its form shows one; else the expression."""
    scalar = None if expr.dtype.lanes == 1 else splat(expr)
    return expr if scalar is None else scalar


def _of_lanes(dtype: DType, lanes: int) -> DType:
    return dtype if dtype.lanes == lanes else dtype.vector(lanes)


def _load(expr: Load, operands: Sequence[Expr]) -> Expr:
    count = len(expr.indices)
    mask = operands[count] if count < len(operands) else None
    lanes = max((o.dtype.lanes for o in operands), default=1)
    dtype = _of_lanes(expr.dtype, lanes)
    return masked_load(expr.buffer, tuple(operands[:count]), dtype, mask)


def masked_load(buffer: str, indices: tuple[Expr, ...], dtype: DType, mask: Expr | None) -> Expr:
    """A load, with no mask where that is true, and 0 where it is false. A load of one element for
    all lanes is a scalar's.

    >>> from tc.dtypes import BOOL
    >>> masked_load("a", (), BOOL, None)
    Load(buffer='a', indices=(), dtype=DType(name='bool', kind='bool', bits=1), mask=None)
    """
    if mask is None or is_constant(mask, True):
        places = tuple(map(narrow, indices))
        if dtype.lanes == 1 or any(place.dtype.lanes > 1 for place in places):
            return Load(buffer, indices, dtype)
        return broadcast(Load(buffer, places, dtype.scalar), dtype.lanes)
    if is_constant(mask, False) and dtype.scalar != FLOAT16:
        return constant(0, dtype)
    return Load(buffer, indices, dtype, mask)
