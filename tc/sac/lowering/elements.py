"""The elements of values as terms: each array is a function from a list of indices to a term (C26).

Shapes, types and errors are those of the levels. What is asked here beyond them is the element at
an index of terms, for each kind of value; `builtins` has the rules of built-in functions, `loops`
those of comprehensions and with-loops, `folds` those of sums and the like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tc.dtypes import BOOL, FLOAT64, INT64, Array, DType, Type, Weak, fits
from tc.errors import RangeError
from tc.sac.levels.applications import Application, check_integers
from tc.sac.levels.calls import Argument, CallValue, NamedSize, Result
from tc.sac.levels.element_types import check_fit
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
from tc.sac.lowering.builtins import made_choice, open_amounts, rule_of
from tc.sac.lowering.data_ranges import beyond, has_reads, range_of
from tc.sac.lowering.folds import MAX_INSTANCES
from tc.sac.lowering.loops import (
    LoweredIndex,
    array_element,
    extents,
    fold_element,
    index_names,
    vector_of,
)
from tc.sac.lowering.sites import Site, Sites
from tc.sac.lowering.statements import NamedArray, is_constant, moves_only, stored
from tc.sac.lowering.terms import Tensor, Term, Terms, is_floating
from tc.source import Span

MAX_KNOWN = 16
"""Vectors of at most so many elements are looked at for elements that are known."""

MAX_COMPUTED = 64
"""The most nodes of an element of an index vector that is written again wherever it is used."""

_PASSING = frozenset({"transpose"})

_NONE: Sites = {}


@dataclass(eq=False)
class Elements:
    """Makes the terms of the elements of values.

    `known` are the values of integer vectors that shapes and bounds need (C26), by the identity of
    the value; their elements are numbers. `named` has the names of values in the text. `looked_up`
    says whether an element of numbers that are known was chosen by an index.
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
        self._short: dict[tuple[int, tuple[Term, ...], tuple[Term, ...]], tuple[Term, bool]] = {}
        self._named_apart: set[tuple[int, tuple[Term, ...]]] = set()
        self._alive: list[Value] = []
        self.looked_up = False
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
        if operand.kind == "number" and not fits(operand.data, want):
            return False  # as the least of no integers beside a half
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
                terms = [self._as_index(term) for term in value.terms]
                return self.chosen(terms, index[0]) if index else terms[0]
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
            self.looked_up = True
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

    def _as_index(self, term: Term) -> Term:
        """The value of an index: an integer of data counts in int64 too, as weak values do (Y1)."""
        return term if isinstance(term.type, Weak) else self.terms.cast(term, INT64)

    def _subscript(self, term: Term) -> Term:
        """A term in the type that it has, where tc would compute it in int64 (Y9)."""
        if term.kind == "cast" and term.data == INT64 and not is_floating(term.args[0].type):
            return self._subscript(term.args[0])
        if term.kind in ("read", "use", "number"):
            return term
        form = self.terms.unwrapped(term)
        term = self.terms.as_subscript(term if form is None else self.terms.linear(form))
        return self.terms.affine(term) if isinstance(term.type, Weak) else term

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
        self.looked_up = True
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
                if (id(value), index) not in self._named_apart:
                    found = self._short_element(value, index)
                    if has_reads(found) or found.size > MAX_COMPUTED:
                        pass
                    elif found.kind in ("number", "index", "linear") or found.free:
                        return found
                    self._named_apart.add((id(value), index))
                    self._alive.append(value)
            elif self._has_numbers(value):
                self.looked_up = True
                return self._short_element(value, index)
        array = self._named_array(value)
        is_known = all(i.kind == "number" for i in index) and is_constant(array.term)
        if moves_only(array.term) or array.term.kind in ("use", "number") or is_known:
            return self.terms.replaced(array.term, dict(zip(array.axes, index, strict=True)))
        return self._use(array, index, _NONE)

    def _short_element(self, value: Value, index: tuple[Term, ...]) -> Term:
        """The element of a short named vector by its rule, made once for each index and conditions:
        in a chain of vectors that each use the one before twice, making it anew would double the
        work at every step."""
        key = (id(value), index, tuple(self.assumptions.conditions))
        found = self._short.get(key)
        if found is None:
            before, self.looked_up = self.looked_up, False
            found = self._short[key] = (self._rule(value, index, _NONE), self.looked_up)
            self.looked_up = before
            self._alive.append(value)
        term, looked_up = found
        self.looked_up = self.looked_up or looked_up
        return term

    def _has_numbers(self, value: Value) -> bool:
        """Whether each element of a short vector is a number."""
        if value.rank == 0 or id(value) in self._array_of:
            return False
        if id(value) not in self._are_numbers:
            places = range(value.shape[0])
            found = (self._short_element(value, (self.terms.number(k),)) for k in places)
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
        low, high = self.assumptions.interval(self.terms.linear(first - second))
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
                parts = open_amounts(self, value)
                if parts is None:
                    return None
                return [
                    *(size for size, _ in parts),
                    *self.open_extents(value.args[1])[len(parts) :],
                ]
            case Application(row=row) if row.name == "reverse":
                return self.open_extents(value.args[0])
            case Application(row=row) if row.name == "transpose":
                return self.open_extents(value.args[0])[::-1]
            case Application(row=row) if row.name == "++":
                first, second = map(self.open_extents, value.args)
                if first[1:] != second[1:]:
                    return None
                return [self.terms.arithmetic("+", first[0], second[0]), *first[1:]]
            case Application(row=row) if row.name == "genarray":
                sizes = vector_of(self, value.args[0])
                if any(self.goes_below(size, 0) for size in sizes):
                    return None
                return [*sizes, *self.open_extents(value.args[1])]
            case Argument():
                return self.open_extents(value.given)
            case Result():
                return self.open_extents(value.body)
            case CallValue():
                return self.open_extents(value.result)
            case Choice():
                return self.open_extents(value.chosen)
        return None


def is_written(value: Value) -> bool:
    """Whether a value is rows of numbers as the text has them."""
    if isinstance(value, RowOfValues):
        return all(map(is_written, value.items))
    return isinstance(value, Literal) or value.type.constant is not None
