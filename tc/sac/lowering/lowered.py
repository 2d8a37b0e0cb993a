"""The def of tc for one specialisation of a program: element types, shapes, and the integers that
shapes, bounds and conditions on them need (C26)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.dtypes import BOOL, Array, DType, Type, Weak
from tc.errors import TCError
from tc.sac.levels.applications import Application
from tc.sac.levels.selections import RowOfValues
from tc.sac.levels.values import (
    Context,
    Level,
    NeedsIndexTerm,
    NeedsIndexValue,
    Shape,
    Value,
    dependence,
    inputs_of,
)
from tc.sac.lowering.data_stages import ComputedStage, DataStage, RangeStage
from tc.sac.lowering.def_text import Names, Statement, def_text
from tc.sac.lowering.elements import Elements
from tc.sac.lowering.loops import check_empty
from tc.sac.lowering.statements import Assembly, stored
from tc.sac.lowering.terms import Tensor, Term, Terms, walk

MAX_ROUNDS = 4
"""Values that are found to be known only while elements are made need another round."""


@dataclass(frozen=True)
class Demanded:
    """What data decide of a structure: the value of an expression, asked for when the integers
    `known` were known."""

    value: Value
    is_condition: bool
    found: Any
    known: dict[int, Array]


@dataclass
class LoweringContext(Context):
    """Notes the integers and conditions that the structure of a program asks for.

    `known` has the integers by the identity of their value, `demands` what of them data decide: a
    specialisation holds for these alone. `named` has the names that the text gives values, by
    their identity."""

    known: dict[int, Array] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    demands: list[Demanded] = field(default_factory=list)
    asked: dict[tuple[object, str], Any] = field(default_factory=dict)
    _alive: list[Value] = field(default_factory=list)
    _depth: int = 0

    def note_name(self, value: Value, name: str) -> None:
        if self.named.setdefault(id(value), name) == name:
            self._alive.append(value)  # identities are of live objects only

    def integers(self, value: Value) -> Shape:
        found: Shape
        if isinstance(value, RowOfValues) and not any(item.rank for item in value.items):
            found = tuple(self.integers(item)[0] for item in value.items)
        elif (vector := _reshaped_vector(value)) is not None:
            found = self.integers(vector)
        else:
            found = self._demanded(value, "integers", super().integers)
        if self._depth == 0 and value.rank <= 1 and id(value) not in self.known:
            self.known[id(value)] = np.asarray(value.value, np.int64)
            self._alive.append(value)  # identities are of live objects only
        return found

    def decides(self, value: Value) -> bool:
        return self._demanded(value, "decides", super().decides)  # type: ignore[no-any-return]

    def _demanded(self, value: Value, kind: str, ask: Any) -> Any:
        """What a value is, computed by the reference, which may ask in turn."""
        if self._depth:
            return ask(value)
        key = value.identity, kind
        if key not in self.asked:
            self._depth += 1
            try:
                found = ask(value)
            finally:
                self._depth -= 1
            self.asked[key] = found
            if dependence(value, Level.F) == Level.F:
                self.demands.append(Demanded(value, kind == "decides", found, dict(self.known)))
        return self.asked[key]


def _reshaped_vector(value: Value) -> Value | None:
    """The integers of which a vector is made by `reshape`, as desugared bounds are (C9): that these
    are known is known where they stand elsewhere, too."""
    if not isinstance(value, Application) or value.row.name != "reshape":
        return None
    array = value.args[1]
    is_whole = array.rank <= 1 and value.shape == (math.prod(array.shape),)
    return array if is_whole and array.type.is_integer and 0 not in array.shape else None


@dataclass(frozen=True)
class LoweredDef:
    """A def of tc: its text, and the integers of data that it holds for, in the order in which the
    lowering asks for them. `stages` are what computes these, each with its value, after what it
    needs itself; None where one of them cannot be compiled apart. `deciding` are the inputs whose
    elements the integers follow from."""

    name: str
    text: str
    demands: tuple[Any, ...]
    stages: tuple[tuple[DataStage, Any], ...] | None
    deciding: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LoweredInput:
    """An input as the lowering sees it; `array` is read where data decide a shape alone."""

    name: str
    type: Type
    shape: Shape
    array: Any


def lower(
    name: str,
    results: Sequence[Value],
    result_names: Sequence[str],
    inputs: Sequence[LoweredInput],
    context: LoweringContext,
) -> LoweredDef:
    """The def of these results. Raises the errors of the levels, and NeedsIndexValue where a shape
    depends on an index in a way that no def says."""
    try:
        return _lowered(name, results, result_names, inputs, context)
    except NeedsIndexTerm as error:
        raise NeedsIndexValue(error.index) from None


def _lowered(
    name: str,
    results: Sequence[Value],
    result_names: Sequence[str],
    inputs: Sequence[LoweredInput],
    context: LoweringContext,
) -> LoweredDef:
    names = Names({name})
    tensors = {
        given.name: Tensor(names.fresh(given.name), stored(given.type), given.shape)
        for given in inputs
    }
    arrays = {t.name: given.array for t, given in zip(tensors.values(), inputs, strict=True)}
    wanted = [names.fresh(each) for each in result_names]
    terms, bodies = Terms(), dict[Any, Any]()
    for _ in range(MAX_ROUNDS):
        before = set(context.known)
        ranges: list[tuple[Term, int, int | None, int]] = []
        terms.begin_round()
        elements = Elements(
            context.known, context.named, tensors, arrays, ranges, terms, bodies=bodies
        )
        statements = [
            _result(elements, result, each) for result, each in zip(results, wanted, strict=True)
        ]
        if set(context.known) == before:
            break
    targets = [s.target for s in statements]
    assembly = Assembly(elements.terms, statements, elements.arrays)
    ordered = assembly.assembled()
    for statement in ordered:
        tensor = statement.target
        if tensor not in targets:
            tensor.name = names.fresh(tensor.name)
    text = def_text(names_of_def(name), list(tensors.values()), targets, ordered)
    tensor_names = [tensor.name for tensor in tensors.values()]
    demands = (*(d.found for d in context.demands), *(found for *_, found in ranges))
    stages = _stages(inputs, context)
    if stages is not None:
        stages += tuple(
            (RangeStage.of(term, side, limit, tensor_names), found)
            for term, side, limit, found in ranges
        )
    deciding = {name for each in context.demands for name in inputs_of(each.value)}
    read = _tensors_of([term for term, *_ in ranges])
    deciding.update(name for name, tensor in tensors.items() if tensor in read)
    return LoweredDef(name, text, demands, stages, frozenset(deciding))


def _stages(
    inputs: Sequence[LoweredInput], context: LoweringContext
) -> tuple[tuple[DataStage, Any], ...] | None:
    """A stage for each value that was asked for; None where no def computes one."""
    demanded, known, asked = context.demands, context.known, context.asked
    found: list[tuple[DataStage, Any]] = []
    try:
        for each in demanded:
            context.demands, context.known, context.asked = [], dict(each.known), {}
            apart = lower("stage", (each.value,), ("decided",), inputs, context)
            if apart.stages is None:
                return None
            found += [*apart.stages, (ComputedStage(apart.text, each.is_condition), each.found)]
    except TCError:
        return None
    finally:
        context.demands, context.known, context.asked = demanded, known, asked
    return tuple(found)


def _tensors_of(terms: Sequence[Term]) -> set[Tensor]:
    """The tensors that terms read, those of the arrays that they use included."""
    found: set[Tensor] = set()
    waiting, seen = list(terms), set[Term]()
    while waiting:
        for node in walk([waiting.pop()]):
            if node.kind == "read":
                found.add(node.data)
            elif node.kind == "use" and node.data.term not in seen:
                seen.add(node.data.term)
                waiting.append(node.data.term)
    return found


def names_of_def(name: str) -> str:
    return name


def _result(elements: Elements, value: Value, name: str) -> Statement:
    """The statement that computes a result."""
    dtype = value.type.alone
    target = Tensor(name, dtype, value.shape)
    axes = elements.axes(value)
    if 0 in value.shape:
        check_empty(elements, value)
        term = elements.terms.number(False) if dtype == BOOL else elements.terms.number(0)
        return Statement(target, axes, "", (), None, term)
    term = elements.converted(value, axes, dtype)
    return Statement(target, axes, "", (), None, _assignable(elements, term, dtype))


def _assignable(elements: Elements, term: Term, dtype: DType) -> Term:
    """A term that a result of a type takes: weak ones as they are, unless a cast is due."""
    if term.type == dtype:
        return term
    if dtype == BOOL:
        return elements.terms.truth(term)
    takes_weak = term.kind == "number" or dtype.is_float or dtype.bits >= 32
    loses = term.type is Weak.FLOAT and not dtype.is_float
    if isinstance(term.type, Weak) and takes_weak and not loses:
        return term
    return elements.terms.cast(term, dtype)
