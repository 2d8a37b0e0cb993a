"""Sets of integer points and piecewise quasi-affine functions on them, over concrete sizes.

A thin room around isl: a `Space` names the variables, functions on it are isl's piecewise
quasi-affine ones (`Function`), and sets isl's unions of basic sets (`Points`). All objects of a
space belong to one isl context of its own, which dies with it.

isl is exact but may take unbounded time. Three habits bound it: every space has a quota of
operations, beyond which `TooComplex` is raised; points are found one coordinate at a time, since
lexicographic minima of unbounded sets can run forever without using up the quota; and callers keep
expressions small. isl itself is loaded with the first space, since most programs need none.

>>> space = Space(("i", "x"))
>>> subscript = add(space.variable("i"), space.variable("x"))
>>> outside = compare(">=", subscript, space.constant(10))
>>> outside = outside.intersect(space.box({"i": (0, None), "x": (0, 2)}))
>>> smallest(outside, space, "i"), point(outside, space)
(8, {'i': 8, 'x': 2})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from tc.affine.forms import Form
from tc.process.uninterrupted import load

if TYPE_CHECKING:
    import islpy as isl

    Function: TypeAlias = isl.PwAff
    Points: TypeAlias = isl.Set

QUOTA_OPERATIONS = 400_000
"""The number of operations of isl that one space may spend: some 100 ms."""

_INT64_MAX = 2**63 - 1


class TooComplex(Exception):
    """isl gave up: the caller falls back to an answer that is right without isl."""


class Space:
    """The points of named integer variables, and the isl context in which they live."""

    def __init__(self, names: tuple[str, ...], quota: int = QUOTA_OPERATIONS) -> None:
        load("islpy")  # `import tc` must not load it; most programs never come here
        import islpy

        self.names = names
        self._isl = islpy
        self._context = islpy.Context()
        self._context.set_max_operations(quota)
        self._space = islpy.Space.set_alloc(self._context, 0, len(names))
        self._local = islpy.LocalSpace.from_space(self._space)
        self._set_dims = islpy.dim_type.set

    def position(self, name: str) -> int:
        return self.names.index(name)

    def value(self, number: int) -> isl.Val:
        if -_INT64_MAX <= number <= _INT64_MAX:
            return self._isl.Val.int_from_si(self._context, number)
        return self._isl.Val(str(number), self._context)

    def constant(self, number: int) -> Function:
        aff = self._isl.Aff.val_on_domain_space(self._space, self.value(number))
        return self._isl.PwAff.from_aff(aff)

    def coordinate(self, name: str) -> isl.Aff:
        return self._isl.Aff.var_on_domain(self._local, self._set_dims, self.position(name))

    def variable(self, name: str) -> Function:
        return self._isl.PwAff.from_aff(self.coordinate(name))

    def everything(self) -> Points:
        return self._isl.Set.universe(self._space)

    def nothing(self) -> Points:
        return self._isl.Set.empty(self._space)

    def box(self, bounds: Mapping[str, tuple[int | None, int | None]]) -> Points:
        """The points with low <= variable <= high for each variable named; None is no bound."""
        box = self.everything()
        for name, (low, high) in bounds.items():
            at = self.position(name)
            if low is not None:
                box = box.lower_bound_val(self._set_dims, at, self.value(low))
            if high is not None:
                box = box.upper_bound_val(self._set_dims, at, self.value(high))
        return box

    def function(self, form: Form[str, int]) -> Function:
        """The function that an affine form of the variables is.

        >>> space = Space(("i", "x"))
        >>> str(space.function(Form(1, {"i": 2, "x": -1})))
        '{ [i0, i1] -> [(1 + 2i0 - i1)] }'
        """
        total = self.constant(form.constant)
        for name, factor in form.terms.items():
            total = add(total, scale(self, self.variable(name), factor))
        return total

    def fix(self, points: Points, name: str, number: int) -> Points:
        return points.fix_val(self._set_dims, self.position(name), self.value(number))


@contextmanager
def bounded() -> Iterator[None]:
    """Turns isl's refusals, above all of the quota, into `TooComplex`."""
    load("islpy")
    import islpy

    try:
        yield
    except islpy.Error as error:
        raise TooComplex(str(error)) from error


def add(left: Function, right: Function) -> Function:
    return left.add(right)


def subtract(left: Function, right: Function) -> Function:
    return left.sub(right)


def scale(space: Space, operand: Function, factor: int) -> Function:
    return operand.scale_val(space.value(factor))


def floor_divide(space: Space, operand: Function, divisor: int) -> Function:
    """The quotient rounded toward minus infinity; the divisor is positive."""
    return operand.scale_down_val(space.value(divisor)).floor()


def remainder(space: Space, operand: Function, divisor: int) -> Function:
    """The remainder in [0, divisor); the divisor is positive."""
    return operand.mod_val(space.value(divisor))


def minimum(left: Function, right: Function) -> Function:
    return left.min(right)


def maximum(left: Function, right: Function) -> Function:
    return left.max(right)


def choose(condition: Points, then: Function, otherwise: Function) -> Function:
    return condition.indicator_function().cond(then, otherwise)


def compare(op: str, left: Function, right: Function) -> Points:
    """The points where the comparison (== != < <= > >=) holds."""
    match op:
        case "==":
            return left.eq_set(right)
        case "!=":
            return left.ne_set(right)
        case "<":
            return left.lt_set(right)
        case "<=":
            return left.le_set(right)
        case ">":
            return left.gt_set(right)
        case ">=":
            return left.ge_set(right)
        case _:
            raise ValueError(op)


def leaving(space: Space, function: Function, extent: int) -> Points:
    """The points of a function's domain where its value is outside [0, extent)."""
    below = compare("<", function, space.constant(0))
    return below.union(compare(">=", function, space.constant(extent)))


def smallest(points: Points, space: Space, name: str) -> int | None:
    """The smallest value of a variable among the points, None if there are none.

    The set is bounded from below in that variable.
    """
    coordinate = space.coordinate(name)
    return min((_integer(p.min_val(coordinate)) for p in _parts(points)), default=None)


def largest_value(points: Points, function: Function) -> int:
    """The largest value of a function on a nonempty, bounded set."""
    pieces = function.intersect_domain(points).get_pieces()
    return max(_integer(p.max_val(aff)) for piece, aff in pieces for p in _parts(piece))


def smallest_value(points: Points, function: Function) -> int:
    pieces = function.intersect_domain(points).get_pieces()
    return min(_integer(p.min_val(aff)) for piece, aff in pieces for p in _parts(piece))


def _parts(points: Points) -> Iterator[Points]:
    """The basic sets that a set is the union of, without the empty ones: isl's own minimum of a
    union counts a part that it has not yet found to be empty as 0."""
    for part in points.get_basic_sets():
        if not part.is_empty():
            yield part.to_set()


def point(points: Points, space: Space) -> dict[str, int] | None:
    """The lexicographically first point of a set that is bounded from below, None if empty."""
    if not space.names and points.is_empty():
        return None
    found: dict[str, int] = {}
    for name in space.names:
        number = smallest(points, space, name)
        if number is None:
            return None
        found[name] = number
        points = space.fix(points, name, number)
    return found


def _integer(value: isl.Val) -> int:
    if not value.is_int():
        raise TooComplex("an unbounded set")
    return int(value.to_python())
