"""The elements of what built-in functions make, as terms: a rule for each row of their table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tc.builtins import BUILTINS
from tc.dtypes import FLOAT64, INT32, INT64, DType, Type, Weak
from tc.errors import RangeError
from tc.sac.levels.applications import Application, check_integers, index_vector
from tc.sac.levels.array_functions import FOLDS
from tc.sac.levels.element_types import joined, promoted
from tc.sac.levels.values import (
    NeedsIndexTerm,
    Value,
)
from tc.sac.lowering.folds import fold, folded_term, neutral_term
from tc.sac.lowering.loops import check_empty
from tc.sac.lowering.sites import Sites
from tc.sac.lowering.statements import stored
from tc.sac.lowering.terms import COMPARISONS, Term

if TYPE_CHECKING:
    from tc.sac.lowering.elements import Elements

Rule: TypeAlias = Callable[["Elements", Application, tuple[Term, ...], Sites], Term]


def _operands(made: Elements, node: Application, index: Sequence[Term], target: Type) -> list[Term]:
    return made.fitted([made.converted(arg, index, target) for arg in node.args], target)


def _arithmetic(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    op, target = node.row.name, node.type.dtype
    if len(node.args) == 1:
        (operand,) = _operands(made, node, index, target)
        return made.terms.negative(operand)
    found = made.terms.arithmetic(op, *_operands(made, node, index, target))
    if op in ("/", "%"):
        made.divisions.setdefault(found, node.span)
    return found


def _comparison(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    op = node.row.name
    common = (joined if op in ("==", "!=") else promoted)([arg.type for arg in node.args])
    return made.terms.compare(op, *_operands(made, node, index, common.dtype))


def _scalar_or(value: Value, index: Sequence[Term]) -> Sequence[Term]:
    return index if value.rank else ()


def _logical(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    left, right = node.args
    first = made.terms.truth(made.element(left, _scalar_or(left, index)))
    is_and = node.row.name == "&&"
    if first.kind == "number":
        if bool(first.data) != is_and:
            return first
        return made.terms.truth(made.element(right, _scalar_or(right, index)))
    with made.assumptions.of(first if is_and else made.terms.negated(first)):
        second = made.terms.truth(made.element(right, _scalar_or(right, index)))
    return (made.terms.both if is_and else made.terms.either)(first, second)


def _not(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    return made.terms.negated(made.element(node.args[0], index))


def _extremum(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    return made.terms.extreme(node.row.name, *_operands(made, node, index, node.type.dtype))


def _where(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    test = made.terms.truth(made.element(node.args[0], _scalar_or(node.args[0], index)))
    return made_choice(made, test, node.args[1], node.args[2], index, node.type.dtype)


def made_choice(
    made: Elements, test: Term, then: Value, otherwise: Value, index: Sequence[Term], target: Type
) -> Term:
    """`test ? then : otherwise`, of the branch that is taken alone where that is known."""
    return _either(made, test, (then, index), (otherwise, index), target)


def _either(
    made: Elements,
    test: Term,
    one: tuple[Value, Sequence[Term]],
    other: tuple[Value, Sequence[Term]],
    target: Type,
) -> Term:
    """The element of one value where a test holds, and of the other where it does not."""
    if test.kind == "number":
        return made.stored_as(*(one if test.data else other), target)
    with made.assumptions.of(test):
        first = made.converted(*one, target)
    with made.assumptions.of(made.terms.negated(test)):
        second = made.converted(*other, target)
    return made.terms.choice(test, *made.fitted((first, second), target))


def _maths(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    target = node.type.dtype
    operands = _operands(made, node, index, target)
    if node.row.name == "abs":
        return made.terms.absolute(operands[0])
    if target is Weak.FLOAT:
        operands = [
            o if o.type in (Weak.FLOAT, FLOAT64) else made.terms.cast(o, FLOAT64) for o in operands
        ]
    found = Weak.FLOAT if all(o.type is Weak.FLOAT for o in operands) else stored(target)
    return made.terms.call(node.row.name, tuple(operands), found)


def _cast(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    target = node.type.dtype
    assert isinstance(target, DType)
    return made.terms.cast(made.element(node.args[0], index), target)


def _shape(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    return made.chosen(made.open_extents(node.args[0]), index[0])


def _dim(made: Elements, node: Application, _: Sequence[Term], __: Sites) -> Term:
    return made.terms.number(node.args[0].rank)


def _zero(made: Elements, node: Application, _: Sequence[Term], __: Sites) -> Term:
    dtype = node.type.dtype
    return made.terms.number(0, dtype if isinstance(dtype, DType) else None)


def _shifted(made: Elements, index: Sequence[Term], by: Sequence[int]) -> list[Term]:
    moved = [
        made.terms.arithmetic("+", i, made.terms.number(n)) for i, n in zip(index, by, strict=False)
    ]
    return [*moved, *index[len(by) :]]


def check_value(node: Value) -> None:
    """Raises what is wrong with the operands of a value."""
    _ = node.value


def _amounts(node: Application) -> tuple[int, ...]:
    _ = node.shape  # checks them
    what = f"the first argument of {node.row.name}"
    return index_vector(node.args[0], "C9", what, node.spans[0])


def open_amounts(made: Elements, node: Application) -> list[tuple[Term, Term]] | None:
    """How many elements of each axis a `take` or `drop` leaves whose amounts an index around it
    decides, and where they begin; None where an amount may be more than the array has."""
    counts, array = node.args
    if counts.rank:
        places: list[tuple[Term, ...]] = [(made.terms.number(k),) for k in range(counts.shape[0])]
    else:
        places = [()]
    amounts = [made.element(counts, place) for place in places]
    sizes = made.open_extents(array)
    if len(amounts) > len(sizes):
        return None
    found = []
    for amount, whole in zip(amounts, sizes, strict=False):
        if _leaves(made, amount, whole):
            return None
        if isinstance(amount.type, DType) and amount.type != INT64:
            amount = made.terms.cast(amount, INT32)  # which holds it, and what it leaves
        zero = made.terms.number(0)
        behind = made.terms.arithmetic("+", whole, amount)
        if not made.goes_below(amount, 0):
            kept, from_end, from_start = amount, zero, amount
        elif not made.goes_above(amount, 0):
            kept, from_end, from_start = made.terms.negative(amount), behind, zero
        else:
            kept = made.terms.absolute(amount)
            is_negative = made.terms.compare("<", amount, zero)
            from_end = made.terms.choice(is_negative, behind, zero)
            from_start = made.terms.choice(is_negative, zero, amount)
        if node.row.name == "take":
            found.append((kept, from_end))
        else:
            found.append((made.terms.arithmetic("-", whole, kept), from_start))
    return found


def _leaves(made: Elements, amount: Term, size: Term) -> bool:
    """Whether an amount of `take` or `drop` may be more than a size, which an index may decide."""
    if size.kind == "number":
        return made.goes_below(amount, -size.data) or made.goes_above(amount, size.data)
    if made.terms.linear_form(amount) is None or made.terms.linear_form(size) is None:
        return True
    behind = made.terms.arithmetic("+", amount, size)
    beyond = made.terms.arithmetic("-", amount, size)
    return made.goes_below(behind, 0) or made.goes_above(beyond, 0)


def _begun(
    made: Elements, index: Sequence[Term], parts: Sequence[tuple[Term, Term]]
) -> Sequence[Term]:
    """An index in the array of which each axis begins at the second term of its pair."""
    moved = (
        made.terms.arithmetic("+", k, begin) for k, (_, begin) in zip(index, parts, strict=False)
    )
    return (*moved, *index[len(parts) :])


def _part(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    """An element of what `take` or `drop` leaves."""
    array = node.args[1]
    try:
        amounts, shape = _amounts(node), array.shape
    except NeedsIndexTerm:
        parts = open_amounts(made, node)
        if parts is None:
            raise
        return made.element(array, _begun(made, index, parts))
    if node.row.name == "take":
        by = [0 if k >= 0 else n + k for k, n in zip(amounts, shape, strict=False)]
    else:
        by = [max(k, 0) for k in amounts]
    return made.element(array, _shifted(made, index, by))


def _reverse(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    last = made.terms.arithmetic("-", made.open_extents(node)[0], made.terms.number(1))
    return made.element(node.args[0], [made.terms.arithmetic("-", last, index[0]), *index[1:]])


def _transpose(made: Elements, node: Application, index: Sequence[Term], sites: Sites) -> Term:
    last = node.rank - 1
    return made.element(node.args[0], index[::-1], {last - axis: s for axis, s in sites.items()})


def _modarray(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    """The new elements where the leading indices are those of the index vector, which has to lie
    in the array: the reference says where it does not (C8)."""
    array, at, new = node.args
    target = node.type.dtype
    try:
        place = [made.terms.number(k) for k in index_vector(at, "C8", "the index", node.spans[1])]
    except NeedsIndexTerm:
        check_integers(at, "C8", "the index", node.spans[1])
        count = at.shape[0] if at.rank else 1
        place = [made.element(at, (made.terms.number(k),) if at.rank else ()) for k in range(count)]
    inside = len(place) <= array.rank and new.shape == array.shape[len(place) :]
    for k, size in zip(place, array.shape, strict=False):
        inside = inside and not made.goes_below(k, 0) and not made.goes_above(k, size - 1)
    if not inside:
        assert node.value is not None  # which raises
        raise node.fault(RangeError, "C8", "the index may leave the array")
    test = made.terms.number(True)
    for here, k in zip(index, place, strict=False):
        test = made.terms.both(
            test, made.within(k, here, made.terms.arithmetic("+", k, made.terms.number(1)))
        )
    if test.kind == "number":
        rest = index[len(place) :]
        return (
            made.stored_as(new, rest, target) if test.data else made.stored_as(array, index, target)
        )
    with made.assumptions.of(test):
        first = made.converted(new, index[len(place) :], target)
    with made.assumptions.of(made.terms.negated(test)):
        second = made.converted(array, index, target)
    return made.terms.choice(test, *made.fitted((first, second), target))


def _concatenation(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    made.open_extents(node)  # raises what the operands do not conform in
    left, right = node.args
    target, length = node.type.dtype, made.open_extents(left)[0]
    behind = made.open_extents(right)[0]
    test = made.terms.compare("<", index[0], length)
    for size, is_left in ((length, False), (behind, True)):
        if size.kind == "number" and size.data == 0:
            test = made.terms.number(is_left)  # an index lies in the result, whatever its terms
    beyond = [made.terms.arithmetic("-", index[0], length), *index[1:]]
    return _either(made, test, (left, index), (right, beyond), target)


def _reshape(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    if math.prod(node.shape) != math.prod(node.args[1].shape):
        check_value(node)
    array = node.args[1]
    place = made.terms.number(0)
    for i, size in zip(index, node.shape, strict=True):
        place = made.terms.arithmetic(
            "+", made.terms.arithmetic("*", place, made.terms.number(size)), i
        )
    inner: list[Term] = []
    for axis, size in reversed(list(enumerate(array.shape))):
        whole = made.terms.number(max(size, 1))
        inner.append(made.terms.arithmetic("%", place, whole) if axis else place)
        place = made.terms.arithmetic("/", place, whole)
    return made.element(array, inner[::-1])


def _genarray(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    element = node.args[1]
    return made.element(element, index[len(index) - element.rank :] if element.rank else ())


def _iota(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    if node.args[0].rank == 0:
        return index[0]
    return made.chosen(index[:-1], index[-1])


def _fold(made: Elements, node: Application, _: Sequence[Term], __: Sites) -> Term:
    op, array, type = FOLDS[node.row.name], node.args[0], node.type.dtype

    names = made.axis_names(array)
    try:
        sizes = [made.terms.number(size) for size in array.shape]
    except NeedsIndexTerm:
        sizes = made.open_extents(array)
        for size in sizes:
            if made.goes_below(size, 0):
                raise array.fault(RangeError, "C14", "a negative size") from None
    ranges = [(name, 0, made.greatest(size)) for name, size in zip(names, sizes, strict=True)]
    if any(size.kind == "number" and not size.data for size in sizes):
        check_empty(made, array)

    def term_at(at: Sequence[Term]) -> tuple[Term, Term]:
        guard = made.terms.number(True)
        for k, size in zip(at, sizes, strict=True):
            guard = made.terms.both(guard, made.terms.compare("<", k, size))
        if guard.kind == "number" and not guard.data:
            return guard, neutral_term(made, op, type)
        with made.assumptions.of(guard):
            term = made.element(array, at)
        return guard, folded_term(made, op, term, array, type)

    return fold(made, op, ranges, term_at, type, neutral_term(made, op, type))


RULES: dict[str, Rule] = {
    **dict.fromkeys("+-*/%", _arithmetic),
    **dict.fromkeys(COMPARISONS, _comparison),
    "&&": _logical,
    "||": _logical,
    "!": _not,
    "min": _extremum,
    "max": _extremum,
    "where": _where,
    "shape": _shape,
    "dim": _dim,
    "zero": _zero,
    "take": _part,
    "drop": _part,
    "reverse": _reverse,
    "transpose": _transpose,
    "++": _concatenation,
    "reshape": _reshape,
    "genarray": _genarray,
    "modarray": _modarray,
    "iota": _iota,
    **dict.fromkeys(FOLDS, _fold),
}
"""What is not here is a cast or a function of mathematics."""


def rule_of(node: Application) -> Rule:
    row = node.row
    if row.name in RULES:
        return RULES[row.name]
    if row.name in BUILTINS:
        return _maths
    assert row.is_elementwise, f"no rule lowers {row.name}"
    return _cast
