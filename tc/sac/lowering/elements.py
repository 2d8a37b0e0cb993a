"""The elements of values as terms: each array is a function from a list of indices to a term (C26).

Shapes, types and errors are those of the levels. What is asked here beyond them is the element at
an index of terms, for each kind of value and each row of the table of built-in functions.

Long because the rules of values and those of built-in functions ask each other for elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.builtins import BUILTINS
from tc.dtypes import BOOL, FLOAT64, INT32, INT64, Array, DType, Type, Weak, limits
from tc.errors import RangeError
from tc.sac.levels.applications import Application, check_integers, index_vector
from tc.sac.levels.array_functions import FOLDS
from tc.sac.levels.calls import Argument, CallValue, NamedSize, Result
from tc.sac.levels.element_types import check_fit, joined, promoted
from tc.sac.levels.loops import ArrayLoop, ComprehensionValue, FoldLoop
from tc.sac.levels.selections import Choice, RowOfValues, Selection, condition_holds
from tc.sac.levels.values import (
    Constant,
    Index,
    Input,
    Literal,
    NeedsIndexTerm,
    NeedsIndexValue,
    Value,
)
from tc.sac.lowering.assumptions import Assumptions
from tc.sac.lowering.data_ranges import beyond, has_reads, range_of
from tc.sac.lowering.loops import LoweredIndex, array_element, extents, fold_element, index_names
from tc.sac.lowering.statements import NamedArray, is_constant, moves_only, stored
from tc.sac.lowering.terms import COMPARISONS, Tensor, Term, Terms, is_floating, walk
from tc.source import Span

MAX_WRITTEN_OUT = 4
"""Folds of at most so many terms are written out."""

MAX_WEIGHTS = 343
"""Folds of at most so many terms are written out where numbers of the text are factors."""

MAX_WRAPPED = 27
"""Folds of at most so many terms are written out where their indices are divided, as in `x % n`: a
remainder of a sum of two indices is not affine, one of an index and a number is in three parts."""

MAX_KNOWN = 16
"""Vectors of at most so many elements are looked at for elements that are known."""

MAX_COMPUTED = 64
"""The most nodes of an element of an index vector that is written again wherever it is used."""

MAX_INSTANCES = 4096
"""The most index values of which each is lowered apart, where shapes depend on the index."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a selection stands, and the axis of its array that a subscript counts along."""

    span: Span
    axis: int
    shape: tuple[int, ...]


Sites: TypeAlias = Mapping[int, Site]
"""The selections whose index is not known to stay inside, by the axes that it counts along."""

_NONE: Sites = {}


@dataclass(eq=False)
class Elements:
    """Makes the terms of the elements of values.

    `known` are the values of integer vectors that shapes and bounds need (C26), by the identity of
    the value; their elements are numbers. `named` has the names of values in the text.
    """

    known: dict[int, Array]
    named: Mapping[int, str]
    tensors: Mapping[str, Tensor]
    inputs: Mapping[str, Any]
    demands: list[tuple[Term, int, int | None, int]]
    """Terms of data of which the least (0) or the greatest (1) value was asked for, or whether it
    lies below, or above, a limit; and what was found."""
    terms: Terms = field(default_factory=Terms)
    arrays: list[NamedArray] = field(default_factory=list)
    bodies: dict[Any, Any] = field(default_factory=dict)
    sites: dict[tuple[Term, int], Site] = field(default_factory=dict)
    divisions: dict[Term, Span] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.assumptions = Assumptions(self.terms)
        self._array_of: dict[int, NamedArray] = {}
        self._are_numbers: dict[int, bool] = {}
        self._alive: list[Value] = []
        self._looked_up = False
        self._measured: dict[Term, tuple[int, int]] = {}

    # --- elements ---------------------------------------------------------------------------------

    def element(self, value: Value, index: Sequence[Term], sites: Sites = _NONE) -> Term:
        """The element of a value at an index, of the type that tc gives the term; `sites` are the
        selections that are still to be checked."""
        constant = value.type.constant
        if constant is not None:
            return self.terms.number(constant)
        index = tuple(index)
        if sites and not isinstance(value, Input) and not self._passes_on(value):
            return self._use(self._apart(value), index, sites)
        known = self.known.get(id(value))
        if known is not None and not sites:
            return self._looked_up_in(known, index, value.type.dtype)
        if (
            not sites
            and id(value) in self.named
            and not isinstance(value, Input | Index | Constant | NamedSize | Literal)
        ):
            return self._named_element(value, index)
        return self._rule(value, index, sites)

    def converted(self, value: Value, index: Sequence[Term], target: Type) -> Term:
        """The element as one operand of several that meet in a type (C5)."""
        check_fit(value.type, target)
        return self.element(value, index if value.rank else ())

    def stored_as(self, value: Value, index: Sequence[Term], target: Type) -> Term:
        """The element in a type."""
        return self.fitted((self.converted(value, index, target),), target)[0]

    def fitted(self, operands: Sequence[Term], target: Type) -> list[Term]:
        """Operands with the casts that have tc compute with them in a type."""
        want = stored(target)
        if isinstance(target, Weak):
            if target is not Weak.FLOAT:
                return list(operands)
            if all(o.type in (Weak.FLOAT, FLOAT64) for o in operands):
                return list(operands)
            # an integer beside a weak float would be float32
            if all(isinstance(o.type, Weak) for o in operands) and len(operands) > 1:
                return list(operands)
        elif want == BOOL:
            return [self.terms.truth(o) for o in operands]
        done = []
        for operand in operands:
            if operand.type == want or (
                isinstance(operand.type, Weak) and self._takes(operand, want, operands)
            ):
                done.append(operand)
            else:
                done.append(self.terms.cast(operand, want))
        return done

    def _takes(self, operand: Term, want: DType, operands: Sequence[Term]) -> bool:
        """Whether a weak operand takes the type beside another one that has it."""
        if not any(o.type == want for o in operands):
            return False
        if operand.type is Weak.FLOAT:
            return want.is_float
        if operand.type is Weak.SIZE:
            return want.is_float or (want.bits >= 32 and want.name != "uint32")
        return True

    def _rule(self, value: Value, index: tuple[Term, ...], sites: Sites) -> Term:
        match value:
            case Input():
                return self.read(self.tensors[value.name], index, sites)
            case LoweredIndex():
                if not index:
                    return value.terms[0]
                return self.chosen(value.terms, index[0])
            case Index():
                raise NeedsIndexValue(value)
            case Constant():
                return self._looked_up_in(value.array, index, value.type.dtype)
            case Application():
                return rule_of(value)(self, value, index, sites)
            case ComprehensionValue() | ArrayLoop():
                return self._by_instances(lambda at: array_element(self, value, at), index)
            case FoldLoop():
                return fold_element(self, value, index)
            case CallValue():
                return self.element(value.result, index, sites)
            case Literal():
                return self.terms.number(value.number, self._literal_type(value.type.dtype))
            case Argument():
                value.invocation.check_type(value)
                found = self.element(value.given, index, sites)
                return self.fitted((found,), value.dtype)[0]
            case Result():
                value.check()
                found = self.element(value.body, index, sites)
                return self.fitted((found,), value.dtype)[0]
            case NamedSize():
                return self._looked_up_in(value.value, index, value.type.dtype)
            case Selection():
                return self._selected(value, index, sites)
            case RowOfValues():
                return self._row(value, index)
            case Choice():
                return self._choice(value, index)
        raise NotImplementedError(type(value).__name__)

    def _selected(self, value: Selection, index: tuple[Term, ...], sites: Sites) -> Term:
        """The element of an array at the index of a selection; what the index may leave is
        checked (C8)."""
        array, axes, at = value.array, value.axes, self._index_terms(value)
        try:
            shape = array.shape
        except NeedsIndexTerm:
            sizes = self.open_extents(array)
            inside = (
                self.assumptions.stays_below(k, sizes[a]) for a, k in zip(axes, at, strict=True)
            )
            if not all(inside):
                raise
            shape = tuple(map(self.greatest, sizes))
        rest = iter(enumerate(index))
        place: list[Term] = []
        inner: dict[int, Site] = {}
        for axis, size in enumerate(shape):
            if axis in axes:
                term = at[axes.index(axis)]
                if not self.assumptions.stays_in(term, size):
                    inner[axis] = Site(value.span, axis, shape)
            else:
                own, term = next(rest)
                if own in sites:
                    inner[axis] = sites[own]
            place.append(term)
        return self.element(array, place, inner)

    def _index_terms(self, value: Selection) -> list[Term]:
        """The integers of the index of a selection."""
        found: list[Term] = []
        for item in value.indices:
            check_integers(item, "C8", "the index", value.span)
            if item.rank == 0:
                found.append(self.element(item, ()))
            else:
                found += [self.element(item, (self.terms.number(k),)) for k in range(item.shape[0])]
        return [self._subscript(term) for term in found]

    def _row(self, value: RowOfValues, index: tuple[Term, ...]) -> Term:
        target = value.type.dtype
        _ = value.shape  # rows of one shape
        at = index[0]
        if at.kind == "number":
            return self.stored_as(value.items[int(at.data)], index[1:], target)
        if all(item.type.constant is not None for item in value.items):
            self._looked_up = True
        parts = [self.stored_as(item, index[1:], target) for item in value.items]
        return self.chosen(parts, at)

    def _choice(self, value: Choice, index: tuple[Term, ...]) -> Term:
        if value.condition.rank:
            condition_holds(value.condition, value.condition_span)  # raises
        test = self.terms.truth(self.element(value.condition, ()))
        if test.kind != "number" and not value.has_common_shape:
            test = self.terms.number(condition_holds(value.condition, value.condition_span))
        return made_choice(self, test, value.then, value.otherwise, index, value.type.dtype)

    def read(self, tensor: Tensor, index: tuple[Term, ...], sites: Sites) -> Term:
        """An element of a tensor of the def; what the read may leave is checked there (G6, G7)."""
        read = self.terms.read(tensor, tuple(map(self._subscript, index)))
        for axis, site in sites.items():
            self.sites.setdefault((read, axis), site)
        return read

    def _subscript(self, term: Term) -> Term:
        """A term in the type that it has, where tc would compute it in int64 (Y9)."""
        if isinstance(term.type, Weak) or term.kind in ("read", "use", "number"):
            return term
        form = self.terms.unwrapped(term)
        if form is not None:
            return self.terms.linear(form)
        if term.type == INT64:
            return term
        if term.kind in ("apply", "choice") and term.interval == limits(term.type):
            return self.terms._term("cast", term.type, (term,), term.type, term.interval)
        return term

    def _passes_on(self, value: Value) -> bool:
        if isinstance(value, Application):
            return value.row.name in _PASSING
        return isinstance(value, Argument | Result | CallValue | Selection)

    # --- numbers that are known -------------------------------------------------------------------

    def _looked_up_in(self, array: Array, index: Sequence[Term], type: Type) -> Term:
        """An element of an array whose elements are known."""
        if not index:
            return self.terms.number(array.item(), self._literal_type(type))
        if all(i.kind == "number" for i in index):
            place = tuple(int(i.data) for i in index)
            return self.terms.number(array[place].item(), self._literal_type(type))
        at = next(axis for axis, i in enumerate(index) if i.kind != "number")
        self._looked_up = True
        parts = []
        for k in range(array.shape[at]):
            inner = (*index[:at], self.terms.number(k), *index[at + 1 :])
            parts.append(self._looked_up_in(array, inner, type))
        return self.chosen(parts, index[at])

    def _literal_type(self, type: Type) -> Type | None:
        return type if isinstance(type, DType) and type != BOOL else None

    def chosen(self, parts: Sequence[Term], at: Term) -> Term:
        """The part of this number, by comparisons that halve what is left."""
        if at.kind == "number":
            return parts[int(at.data)]
        if all(p is parts[0] for p in parts):
            return parts[0]
        middle = len(parts) // 2
        condition = self.terms.compare("<", at, self.terms.number(middle))
        rest = self.terms.arithmetic("-", at, self.terms.number(middle))
        return self.terms.choice(
            condition, self.chosen(parts[:middle], at), self.chosen(parts[middle:], rest)
        )

    # --- arrays that the text names ---------------------------------------------------------------

    def _named_element(self, value: Value, index: tuple[Term, ...]) -> Term:
        if is_written(value):
            return self._rule(value, index, _NONE)
        if value.rank <= 1 and math.prod(value.shape) <= MAX_KNOWN:
            if value.type.is_integer and all(i.kind == "number" for i in index):
                found = self._rule(value, index, _NONE)
                if has_reads(found) or found.size > MAX_COMPUTED:
                    pass
                elif found.kind in ("number", "index", "linear") or found.free:
                    return found
            elif self._has_numbers(value):
                self._looked_up = True
                return self._rule(value, index, _NONE)
        array = self._named_array(value)
        is_known = all(i.kind == "number" for i in index) and is_constant(array.term)
        if moves_only(array.term) or array.term.kind in ("use", "number") or is_known:
            return self.terms.replaced(array.term, dict(zip(array.axes, index, strict=True)))
        return self._use(array, index, _NONE)

    def _has_numbers(self, value: Value) -> bool:
        """Whether each element of a short vector is a number."""
        if value.rank == 0 or id(value) in self._array_of:
            return False
        if id(value) not in self._are_numbers:
            places = range(value.shape[0])
            found = (self._rule(value, (self.terms.number(k),), _NONE) for k in places)
            self._are_numbers[id(value)] = all(term.kind == "number" for term in found)
            self._alive.append(value)
        return self._are_numbers[id(value)]

    def _named_array(self, value: Value) -> NamedArray:
        array = self._array_of.get(id(value))
        if array is None:
            name = self.named.get(id(value), "part")
            axes = self.axes(value)
            with self.assumptions.none():
                term = self._rule(value, axes, _NONE)
            captured = tuple(sorted(term.free - frozenset(axes), key=lambda i: str(i.data[1])))
            array = NamedArray(name, axes, captured, term)
            self._array_of[id(value)] = array
            self._alive.append(value)
            self.arrays.append(array)
        return array

    def _apart(self, value: Value) -> NamedArray:
        """The array of a value, which becomes a tensor, so that reads of it are checked."""
        array = self._named_array(value)
        array.is_read_apart = True
        return array

    def _use(self, array: NamedArray, index: tuple[Term, ...], sites: Sites) -> Term:
        subscripts = (*array.captured, *map(self._subscript, index))
        use = self.terms.use(array, subscripts, stored(array.term.type), array.term.interval)
        for axis, site in sites.items():
            self.sites.setdefault((use, axis + len(array.captured)), site)
        return use

    def axes(self, value: Value) -> tuple[Term, ...]:
        """New indices for all elements of a value."""
        names = self.axis_names(value)
        return tuple(
            self.terms.index(name, 0, size) for name, size in zip(names, value.shape, strict=True)
        )

    def axis_names(self, value: Value) -> list[str]:
        """What the indices of an array are called."""
        if isinstance(value, ComprehensionValue | ArrayLoop) and value.parts:
            part = value.parts[-1]
            if not part.has_dots:
                names = index_names(part)
                rest = [n for n in ("j", "k", "l", "m") if n not in names]
                return [*names, *rest, *(f"i{k}" for k in range(value.rank))][: value.rank]
        return [f"i{k}" for k in range(value.rank)] if value.rank > 3 else list("ijk")[: value.rank]

    # --- ranges -----------------------------------------------------------------------------------

    def within(self, low: Term, at: Term, high: Term) -> Term:
        """The condition `low <= at < high`."""
        return self.terms.both(
            self._known_comparison("<=", low, at), self._known_comparison("<", at, high)
        )

    def _known_comparison(self, op: str, left: Term, right: Term) -> Term:
        """A comparison, settled where the conditions around it say so."""
        found = self.terms.compare(op, left, right)
        if found in self.assumptions.conditions:
            return self.terms.number(True)
        first, second = self.terms.linear_form(left), self.terms.linear_form(right)
        if found.kind == "number" or first is None or second is None:
            return found
        low, high = self.assumptions.interval(
            self.terms.linear(self.terms.difference(first, second))
        )
        limit = 0 if op == "<=" else -1
        if high is not None and high <= limit:
            return self.terms.number(True)
        if low is not None and low > limit:
            return self.terms.number(False)
        return found

    def choice_of(self, test: Term, then: Term, otherwise: Term, target: Type) -> Term:
        if test.kind == "number":
            return then if test.data else otherwise
        return self.terms.choice(test, *self.fitted((then, otherwise), target))

    def least(self, term: Term) -> int:
        """The least value of a bound, under the conditions around it."""
        if term.kind == "number":
            return int(term.data)
        if self.terms.linear_form(term) is not None:
            low, _ = self.assumptions.interval(term)
            assert low is not None
            return low
        return self.measured(term, 0)

    def goes_below(self, term: Term, limit: int) -> bool:
        """Whether the least value of a bound is less than a limit."""
        if self._is_measured(term):
            return bool(self.measured(term, 0, limit))
        return self.least(term) < limit

    def goes_above(self, term: Term, limit: int) -> bool:
        """Whether the greatest value of a bound is greater than a limit."""
        if self._is_measured(term):
            return bool(self.measured(term, 1, limit))
        return self.greatest(term) > limit

    def _is_measured(self, term: Term) -> bool:
        return term.kind != "number" and has_reads(term)

    def greatest(self, term: Term) -> int:
        """The greatest value of a bound under the conditions around it, where data decide that of
        the data at hand (C26)."""
        if term.kind == "number":
            return int(term.data)
        if self.terms.linear_form(term) is not None and not has_reads(term):
            _, high = self.assumptions.interval(term)
            assert high is not None
            return high
        return self.measured(term, 1)

    def measured(self, term: Term, side: int, limit: int | None = None) -> int:
        """The least (0) or the greatest (1) value of a term of data; with a limit, whether the
        value lies below, or above, it."""
        if term.interval is not None and not has_reads(term):
            return term.interval[side]
        if term not in self._measured:
            self._measured[term] = range_of(term, self.inputs)
        found = beyond(self._measured[term], side, limit)
        if (term, side, limit, found) not in self.demands:
            self.demands.append((term, side, limit, found))
        return found

    def check_inside(
        self, part: Any, bounds: Sequence[tuple[Term, Term]], sizes: Sequence[int]
    ) -> None:
        """Refuses ranges within a body that may leave the result (C12)."""
        for (low, high), size in zip(bounds, sizes, strict=True):
            if self.goes_below(low, 0) or self.goes_above(high, size):
                raise part.loop.fault(RangeError, "C12", "a range may leave the result")

    def _by_instances(
        self, element: Callable[[tuple[Term, ...]], Term], index: tuple[Term, ...]
    ) -> Term:
        """An element; where a shape depends on the value of an index, each value is lowered
        apart."""
        try:
            return element(index)
        except NeedsIndexTerm as error:
            terms = error.index.terms if isinstance(error.index, LoweredIndex) else ()
            variable = next(
                (t for t in terms if t.kind != "number" and t.free <= frozenset(index)), None
            )
            if variable is None:
                raise
            at = next((k for k, i in enumerate(index) if i in variable.free), None)
            if at is None or index[at].kind != "index":
                raise
            own = index[at].data[0]
            if own.end - own.begin > MAX_INSTANCES:
                raise
        parts = []
        for value in range(own.begin, own.end):
            here = (*index[:at], self.terms.number(value), *index[at + 1 :])
            parts.append(self._by_instances(element, here))
        shifted = self.terms.arithmetic("-", index[at], self.terms.number(own.begin))
        return self.chosen(parts, shifted)

    def open_extents(self, value: Value) -> list[Term]:
        """The sizes of an array, of which an index around it may decide some."""
        try:
            return [self.terms.number(n) for n in value.shape]
        except NeedsIndexTerm as error:
            found = self._open_extents(value)
            if found is None:
                raise error
            return found

    def _open_extents(self, value: Value) -> list[Term] | None:
        match value:
            case ComprehensionValue() | ArrayLoop() if len(value.parts) == 1:
                return extents(self, value)
            case Application() if value.row.is_elementwise:
                found = [self.open_extents(arg) for arg in value.args if arg.rank]
                return found[0] if all(each == found[0] for each in found) else None
            case Application(row=row) if row.name in ("take", "drop"):
                parts = _open_amounts(self, value)
                if parts is None:
                    return None
                rest = value.args[1].shape[len(parts) :]
                return [*(size for size, _ in parts), *map(self.terms.number, rest)]
            case Argument():
                return self.open_extents(value.given)
            case Result():
                return self.open_extents(value.body)
            case CallValue():
                return self.open_extents(value.result)
            case Choice():
                return self.open_extents(value.chosen)
        return None

    def folded(self, op: str, value: Value, index: Sequence[Term], target: Type) -> Term:
        """An element of a body of a fold, in the type of the fold."""
        term = self.element(value, index if value.rank else ())
        return folded_term(self, op, term, value, target)

    def neutral(self, op: str, target: Type) -> Term:
        return neutral_term(self, op, target)

    # --- folds ------------------------------------------------------------------------------------

    def fold(
        self,
        op: str,
        ranges: Sequence[tuple[str, int, int]],
        term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
        type: Type,
        neutral: Term,
    ) -> Term:
        """The fold by `op` over the indices of these names and ranges of what `term_at` gives for
        an index: a guard and a term."""
        count = math.prod(max(0, end - begin) for _, begin, end in ranges)
        if count == 0:
            return neutral
        if count <= MAX_WRITTEN_OUT:
            written = self._written_out(op, ranges, term_at, type, neutral)
            if written is not None:
                return written
        before, self._looked_up = self._looked_up, False
        indices = [self.terms.index(*r) for r in ranges]
        try:
            guard, term = term_at(indices)
        except NeedsIndexTerm:
            if count > MAX_INSTANCES:
                raise
            written = self._written_out(op, ranges, term_at, type, neutral)
            if written is None:
                raise
            return written
        has_weights, self._looked_up = self._looked_up, before
        if count <= MAX_WEIGHTS and op == "+":
            most = count if has_weights else 2 * count // 3 if has_weight(term, indices) else 0
            parts = self._parts(ranges, term_at) if most else None
            groups = None if parts is None else _by_factor(parts)
            if groups is not None and sum(map(_is_apart, groups)) <= most:
                return self._weighted_sum(groups, type, neutral)
        if count <= MAX_WRAPPED and divides(term, indices):
            written = self._written_out(op, ranges, term_at, type, neutral)
            if written is not None:
                return written
        dtype = stored(type)
        if type in (Weak.LITERAL, Weak.SIZE) and op in ("min", "max"):
            # what the guard leaves out is int's identity, and not that of the tensor's type (C9)
            guard, term = self.terms.number(True), self.choice_of(guard, term, neutral, type)
        whole = self._guarded(guard, term)
        return self.terms.fold(_ORDINARY.get(op, op), indices, *whole, dtype)

    def _guarded(self, guard: Term, term: Term) -> tuple[Term, Term]:
        """The guard of a fold, with the conditions around the fold, which is computed for all
        values of the indices that these conditions are about."""
        if not is_safe(term, self.assumptions):
            for condition in self.assumptions.conditions:
                if condition is not guard:
                    guard = self.terms.both(condition, guard)
        return guard, term

    def _written_out(
        self,
        op: str,
        ranges: Sequence[tuple[str, int, int]],
        term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
        type: Type,
        neutral: Term,
    ) -> Term | None:
        """The fold as a chain of operators; None where a guard is left."""
        parts = self._parts(ranges, term_at)
        if parts is None:
            return None
        if op == "+":
            return self._weighted_sum(_by_factor(parts), type, neutral)
        result = None
        for part in parts:
            result = part if result is None else self.joined(op, result, part, type)
        return neutral if result is None else result

    def _parts(
        self,
        ranges: Sequence[tuple[str, int, int]],
        term_at: Callable[[Sequence[Term]], tuple[Term, Term]],
    ) -> list[Term] | None:
        """The terms of a fold, one for each index; None where a guard is left."""
        parts = []
        for place in itertools.product(*(range(begin, end) for _, begin, end in ranges)):
            guard, term = term_at([self.terms.number(k) for k in place])
            if guard.kind != "number":
                return None
            if guard.data:
                parts.append(term)
        return parts

    def joined(self, op: str, left: Term, right: Term, type: Type) -> Term:
        """Two terms joined by the operator of a fold."""
        if op == "&&":
            return self.terms.both(left, right)
        if op == "||":
            return self.terms.either(left, right)
        left, right = self.fitted((left, right), type)
        if op in ("min", "max"):
            return self.terms.extreme(op, left, right)
        return self.terms.arithmetic(op, left, right)

    def _weighted_sum(
        self, groups: Mapping[Term | None, Sequence[Term]], type: Type, neutral: Term
    ) -> Term:
        """A sum in which equal factors are written once, and zero ones never."""
        result: Term | None = None
        for factor, terms in groups.items():
            if factor is not None:
                inner = _balanced(lambda a, b: self.joined("+", a, b, type), terms)
                terms = [self.terms.arithmetic("*", *self.fitted((factor, inner), type))]
            total = _balanced(lambda a, b: self.joined("+", a, b, type), terms)
            result = total if result is None else self.joined("+", result, total, type)
        return neutral if result is None else result


def divides(term: Term, indices: Sequence[Term]) -> bool:
    """Whether a quotient or a remainder of some of the indices is part of a term."""
    bound = frozenset(indices)
    return any(
        node.kind == "apply"
        and node.data in ("/", "%")
        and isinstance(node.type, Weak)
        and node.free & bound
        for node in walk([term])
    )


def is_written(value: Value) -> bool:
    """Whether a value is rows of numbers as the text has them."""
    if isinstance(value, RowOfValues):
        return all(map(is_written, value.items))
    return isinstance(value, Literal) or value.type.constant is not None


_ORDINARY = {"&&": "min", "||": "max"}


def _by_factor(parts: Sequence[Term]) -> dict[Term | None, list[Term]]:
    """The terms of a sum by the factor that no index decides, None for 1, without those that are
    zero."""
    groups: dict[Term | None, list[Term]] = {}
    same: dict[tuple[float, Type], Term] = {}  # an int64 as itself: no float holds them all
    for part in parts:
        factor, rest = _factored(part)
        value: float | None = None
        if factor is not None:
            value = factor.data if factor.kind == "number" else _weak_value(factor)
        if value == 0 or (part.kind == "number" and part.data == 0):
            continue
        if value is not None and factor is not None:
            factor = None if value == 1 else same.setdefault((value, factor.type), factor)
        groups.setdefault(factor, []).append(rest)
    return groups


def _weak_value(term: Term) -> float | None:
    """The value of a weak term of numbers alone, as tc computes it (Y1), if it is finite."""
    if term.kind == "number":
        return float(term.data)
    if term.kind != "apply" or not isinstance(term.type, Weak):
        return None
    values = [_weak_value(arg) for arg in term.args]
    if term.type is not Weak.FLOAT or None in values:
        return None
    match term.data, values:
        case "neg", [float(x)]:
            return -x
        case "+", [float(x), float(y)]:
            value = x + y
        case "-", [float(x), float(y)]:
            value = x - y
        case "*", [float(x), float(y)]:
            value = x * y
        case "/", [float(x), float(y)] if y != 0:
            value = x / y
        case _:
            return None
    return value if math.isfinite(value) else None


def _is_apart(factor: Term | None) -> bool:
    """Whether a factor is read from a tensor, so that it costs as much as another term."""
    return factor is not None and any(n.kind in ("read", "use", "fold") for n in walk([factor]))


def _factored(term: Term) -> tuple[Term | None, Term]:
    """The factor of a product that no index decides, and the other factor."""
    if term.kind == "apply" and term.data == "*":
        left, right = term.args
        if not left.free and right.free:
            return left, right
        if not right.free and left.free:
            return right, left
        if _is_number(right) and not _is_number(left):
            return right, left
        if _is_number(left):
            return left, right
    return None, term


def has_weight(term: Term, indices: Sequence[Term]) -> bool:
    """Whether a term of a fold is a product with a factor that the indices of the fold alone
    decide, and that may be the same for several of them: no element of an array at each."""
    if term.kind != "apply" or term.data != "*":
        return False
    bound = frozenset(indices)
    for factor, other in (term.args, term.args[::-1]):
        if factor.free and factor.free <= bound and not other.free <= bound:
            is_element = factor.kind == "read" or (
                factor.kind == "use" and _is_apart(factor.data.term)
            )
            return not (is_element and bound <= frozenset(factor.args))
    return False


def _is_number(term: Term) -> bool:
    return term.kind == "number"


def _balanced(join: Callable[[Term, Term], Term], terms: Sequence[Term]) -> Term:
    """Terms joined from the left, as one writes them; many by halves, so that no tree is high."""
    if len(terms) > 64:
        middle = len(terms) // 2
        return join(_balanced(join, terms[:middle]), _balanced(join, terms[middle:]))
    result = terms[0]
    for term in terms[1:]:
        result = join(result, term)
    return result


def is_safe(term: Term, assumptions: Assumptions) -> bool:
    """Whether computing a term raises nothing, whatever the data and conditions around it."""
    seen: set[Term] = set()
    with assumptions.none():
        stack = [term]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.kind == "read":
                for subscript, size in zip(node.args, node.data.shape, strict=True):
                    if not assumptions.stays_in(subscript, size):
                        return False
            elif node.kind == "use":
                array = node.data
                for axis, subscript in zip(array.variables, node.args, strict=True):
                    if not assumptions.stays_in(subscript, axis.data[0].end):
                        return False
                stack.append(array.term)
            elif node.kind == "apply" and node.data in ("/", "%") and not is_floating(node.type):
                divisor = node.args[1].interval
                if divisor is None or divisor[0] <= 0 <= divisor[1]:
                    return False
            stack.extend(node.args)
    return True


# --- the rules of built-in functions --------------------------------------------------------------

Rule: TypeAlias = Callable[[Elements, Application, tuple[Term, ...], Sites], Term]


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
    if test.kind == "number":
        return made.stored_as(then if test.data else otherwise, index, target)
    with made.assumptions.of(test):
        first = made.converted(then, index, target)
    with made.assumptions.of(made.terms.negated(test)):
        second = made.converted(otherwise, index, target)
    return made.terms.choice(test, *made.fitted((first, second), target))


def _maths(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    target = node.type.dtype
    operands = _operands(made, node, index, target)
    if node.row.name == "abs":
        return made.terms.absolute(operands[0], target)
    if target is Weak.FLOAT:
        operands = [
            o if o.type in (Weak.FLOAT, FLOAT64) else made.terms.cast(o, FLOAT64) for o in operands
        ]
    found = Weak.FLOAT if all(o.type is Weak.FLOAT for o in operands) else stored(target)
    return made.terms.call(node.row.name, tuple(operands), found)


def _cast(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    target = node.type.dtype
    assert isinstance(target, DType)
    operand = made.element(node.args[0], index)
    if operand.type is Weak.FLOAT or not isinstance(operand.type, Weak) or not target.is_float:
        return made.terms.cast(operand, target)
    return made.terms.cast(operand, target)


def _shape(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    return made.chosen([made.terms.number(n) for n in node.args[0].shape], index[0])


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


def check_shape(node: Value) -> None:
    """Raises what is wrong with the shapes of the operands of a value."""
    _ = node.shape


def check_value(node: Value) -> None:
    """Raises what is wrong with the operands of a value."""
    _ = node.value


def _amounts(node: Application) -> tuple[int, ...]:
    _ = node.shape  # checks them
    what = f"the first argument of {node.row.name}"
    return index_vector(node.args[0], "C9", what, node.spans[0])


def _open_amounts(made: Elements, node: Application) -> list[tuple[Term, Term]] | None:
    """How many elements of each axis a `take` or `drop` leaves whose amounts an index around it
    decides, and where they begin; None where an amount may be more than the array has."""
    counts, array = node.args
    if counts.rank:
        places: list[tuple[Term, ...]] = [(made.terms.number(k),) for k in range(counts.shape[0])]
    else:
        places = [()]
    amounts = [made.element(counts, place) for place in places]
    sizes = array.shape
    if len(amounts) > len(sizes):
        return None
    found = []
    for amount, extent in zip(amounts, sizes, strict=False):
        if made.goes_below(amount, -extent) or made.goes_above(amount, extent):
            return None
        if isinstance(amount.type, DType) and amount.type != INT64:
            amount = made.terms.cast(amount, INT32)  # which holds it, and what it leaves
        zero, whole = made.terms.number(0), made.terms.number(extent)
        behind = made.terms.arithmetic("+", whole, amount)
        if not made.goes_below(amount, 0):
            kept, from_end, from_start = amount, zero, amount
        elif not made.goes_above(amount, 0):
            kept, from_end, from_start = made.terms.negative(amount), behind, zero
        else:
            kept = made.terms.absolute(amount, amount.type)
            is_negative = made.terms.compare("<", amount, zero)
            from_end = made.terms.choice(is_negative, behind, zero)
            from_start = made.terms.choice(is_negative, zero, amount)
        if node.row.name == "take":
            found.append((kept, from_end))
        else:
            found.append((made.terms.arithmetic("-", whole, kept), from_start))
    return found


def _begun(
    made: Elements, index: Sequence[Term], parts: Sequence[tuple[Term, Term]]
) -> Sequence[Term]:
    """An index in the array of which each axis begins at the second term of its pair."""
    moved = (
        made.terms.arithmetic("+", k, begin) for k, (_, begin) in zip(index, parts, strict=False)
    )
    return (*moved, *index[len(parts) :])


def _take(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    shape = node.args[1].shape
    try:
        amounts = _amounts(node)
    except NeedsIndexTerm:
        parts = _open_amounts(made, node)
        if parts is None:
            raise
        return made.element(node.args[1], _begun(made, index, parts))
    by = [0 if k >= 0 else n + k for k, n in zip(amounts, shape, strict=False)]
    return made.element(node.args[1], _shifted(made, index, by))


def _drop(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    try:
        amounts = _amounts(node)
    except NeedsIndexTerm:
        parts = _open_amounts(made, node)
        if parts is None:
            raise
        return made.element(node.args[1], _begun(made, index, parts))
    return made.element(node.args[1], _shifted(made, index, [max(k, 0) for k in amounts]))


def _reverse(made: Elements, node: Application, index: Sequence[Term], _: Sites) -> Term:
    last = made.terms.number(node.shape[0] - 1)
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
    check_shape(node)
    left, right = node.args
    target, length = node.type.dtype, left.shape[0]
    test = made.terms.compare("<", index[0], made.terms.number(length))
    beyond = [made.terms.arithmetic("-", index[0], made.terms.number(length)), *index[1:]]
    if test.kind == "number":
        return made.stored_as(left if test.data else right, index if test.data else beyond, target)
    with made.assumptions.of(test):
        first = made.converted(left, index, target)
    with made.assumptions.of(made.terms.negated(test)):
        second = made.converted(right, beyond, target)
    return made.terms.choice(test, *made.fitted((first, second), target))


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

    def term_at(at: Sequence[Term]) -> tuple[Term, Term]:
        guard = made.terms.number(True)
        for k, size in zip(at, sizes, strict=True):
            guard = made.terms.both(guard, made.terms.compare("<", k, size))
        if guard.kind == "number" and not guard.data:
            return guard, neutral_term(made, op, type)
        with made.assumptions.of(guard):
            term = made.element(array, at)
        return guard, folded_term(made, op, term, array, type)

    return made.fold(op, ranges, term_at, type, neutral_term(made, op, type))


def folded_term(made: Elements, op: str, term: Term, value: Value, type: Type) -> Term:
    """A term of a fold: in the type of the fold."""
    if op in ("&&", "||"):
        return made.terms.truth(term)
    check_fit(value.type, type)
    if isinstance(term.type, Weak) and not isinstance(type, Weak):
        return term
    return made.fitted((term,), type)[0]


def neutral_term(made: Elements, op: str, type: Type) -> Term:
    """The neutral element of a fold as a number (R2); of weak integers that of int (C9)."""
    if op in ("&&", "||"):
        return made.terms.number(op == "&&")
    if op in ("+", "*"):
        return made.terms.number(0 if op == "+" else 1, type if isinstance(type, DType) else None)
    want = INT32 if type in (Weak.LITERAL, Weak.SIZE) else stored(type)
    if want == BOOL:
        return made.terms.number(op == "min")
    if want.is_float:
        return made.terms.number(np.inf if op == "min" else -np.inf, want)
    low, high = limits(want)
    return made.terms.number(high if op == "min" else low, None if isinstance(type, Weak) else want)


_PASSING = frozenset({"transpose"})

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
    "take": _take,
    "drop": _drop,
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
