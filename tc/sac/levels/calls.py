"""Calls of the text's functions: declared types, and the sizes that they name (C6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tc.dtypes import FLOAT32, FLOAT64, INT32, SPELLINGS, Array, DType, join
from tc.errors import CheckError, InputError, TCError
from tc.sac import ast
from tc.sac.levels.demand import Demand
from tc.sac.levels.element_types import SIZE_TYPE, ElementType, check_fit, wider_of
from tc.sac.levels.pasting import INDEX_NAMES, free_names, repaired_by, selected
from tc.sac.levels.values import (
    Environment,
    Level,
    Needs,
    NeedsIndexTerm,
    Shape,
    Value,
    blamed,
    dependence,
    elements,
    shown,
)
from tc.source import Edit, Span

D, S, F = Level.D, Level.S, Level.F


def type_text(declared: ast.Type) -> str:
    """A declared type as messages show it: `int32[n]`."""
    dtype = SPELLINGS[declared.element]
    if isinstance(declared.sizes, str):
        return f"{dtype}[{declared.sizes}]"
    if not declared.sizes:
        return str(dtype)
    return f"{dtype}[{','.join(_size_text(size) for size in declared.sizes)}]"


def _size_text(size: ast.Size) -> str:
    count = "." if size.count is None else _name(size.count)
    return count if size.name is None else f"{count}:{size.name.text}"


def _name(count: int | ast.Name) -> str:
    return count.text if isinstance(count, ast.Name) else str(count)


class Mismatch(Exception):
    """A shape is not of a declared type; the text says which sizes are known."""


def match_sizes(declared: ast.Type, shape: Shape, known: dict[str, int | Shape]) -> None:
    """Matches a shape with a declared type from the left to the right; adds the sizes that the type
    names to `known`. Raises Mismatch."""
    if declared.sizes == "*":
        return
    if declared.sizes == "+":
        if not shape:
            raise Mismatch
        return
    assert not isinstance(declared.sizes, str)
    counts = _axis_counts(declared.sizes, len(shape), known)
    if sum(counts) != len(shape):
        raise Mismatch
    axis = 0
    for size, count in zip(declared.sizes, counts, strict=True):
        found = shape[axis : axis + count]
        axis += count
        if size.name is not None:
            if isinstance(size.count, ast.Name):
                _agree(size.count.text, count, known)
            _agree(size.name.text, found, known)
        elif isinstance(size.count, ast.Name):
            _agree(size.count.text, found[0], known)
        elif size.count is not None and size.count != found[0]:
            raise Mismatch


def _axis_counts(sizes: Sequence[ast.Size], rank: int, known: dict[str, int | Shape]) -> list[int]:
    """How many axes each entry of a type stands for; one entry may take what the others leave."""
    counts: list[int | None] = []
    for size in sizes:
        if size.name is None:
            counts.append(1)
        elif isinstance(size.count, ast.Name):
            value = known.get(size.count.text)
            counts.append(value if isinstance(value, int) else None)
        else:
            counts.append(size.count)
    if counts.count(None) > 1:
        raise Mismatch("more than one number of axes is open")
    rest = rank - sum(count for count in counts if count is not None)
    if None in counts and rest < 0:
        raise Mismatch
    return [rest if count is None else count for count in counts]


def _agree(name: str, found: int | Shape, known: dict[str, int | Shape]) -> None:
    if known.setdefault(name, found) != found:
        raise Mismatch


def named_sizes(declared: ast.Type) -> list[tuple[str, bool]]:
    """The names in a type, with whether each is a vector of sizes (`shp` of `d:shp`)."""
    if isinstance(declared.sizes, str):
        return []
    found = []
    for size in declared.sizes:
        if isinstance(size.count, ast.Name):
            found.append((size.count.text, False))
        if size.name is not None:
            found.append((size.name.text, True))
    return found


class Invocation:
    """One call: the arguments, the sizes that they fix, and the results, all by demand.

    `is_entry` says that the arguments are the inputs of a call from Python."""

    def __init__(
        self,
        definition: ast.Definition,
        args: Sequence[Value],
        spans: Sequence[Span],
        span: Span,
        env: Environment,
        *,
        is_entry: bool = False,
    ) -> None:
        self.definition = definition
        self.args = tuple(args)
        self.span = span
        self.env = env
        self.is_entry = is_entry
        parameters = definition.parameters
        self.parameters = tuple(
            Argument(self, parameter, arg, at)
            for parameter, arg, at in zip(parameters, self.args, spans, strict=True)
        )

    @cached_property
    def body(self) -> Environment:
        """The environment of the function's results."""
        names: dict[str, Value] = {}
        for argument in self.parameters:
            for name, is_vector in named_sizes(argument.parameter.type):
                if name not in names:
                    names[name] = NamedSize(self, name, is_vector, argument)
        for argument in self.parameters:
            names[argument.parameter.name.text] = argument
        env = self.env
        calls = env.calls if self.is_entry else (*env.calls, self.span)
        start = replace(env, names={}, calls=calls).bind(names)
        return env.context.execute(self.definition.body.statements, start)

    @cached_property
    def results(self) -> tuple[Value, ...]:
        evaluate = self.env.context.evaluate
        values = [evaluate(result, self.body) for result in self.definition.body.results]
        spans = [result.span for result in self.definition.body.results]
        return tuple(
            Result(self, *each) for each in zip(self.definition.types, values, spans, strict=True)
        )

    @cached_property
    def matched(self) -> Sequence[Argument]:
        """The arguments whose shapes are matched with their types: all but those that no result
        needs (C24) and whose shapes data decide, as what no result needs is not computed (C10)."""
        if self.is_entry:
            return self.parameters
        return tuple(
            each
            for each in self.parameters
            if not _is_shape_of_data(each.given) or each.parameter.name.text in self._needed
        )

    @property
    def _needed(self) -> frozenset[str]:
        """The parameters of which the results need anything, found once for each function."""
        kept = self.env.frame.outermost.kept
        name = self.definition.name.text
        if ("needed", name) not in kept:
            demand, unknown = Demand(self.env.context.functions), (None,) * len(self.args)
            kept["needed", name] = frozenset(
                parameter
                for number in range(len(self.definition.types))
                for parameter in demand.of_function(name, number, F, unknown)
            )
        found: frozenset[str] = kept["needed", name]
        return found

    @cached_property
    def sizes(self) -> dict[str, int | Shape]:
        """The sizes that the arguments fix. An argument whose shape cannot be told fixes none: it
        raises where its own parts are asked for."""
        known: dict[str, int | Shape] = {}
        for argument in self.matched:
            if isinstance(argument.parameter.type.sizes, str):
                continue
            try:
                shape = _matched_shape(argument.parameter.type, argument.given)
            except TCError:
                if self.is_entry:
                    raise
                continue
            if shape is not None:
                self._match(argument, shape, known)
        return known

    def check(self) -> None:
        """Checks all arguments against their declared types (C6)."""
        for argument in self.parameters:
            self.check_type(argument)
        for argument in self.matched:
            if argument.parameter.type.sizes == "+":
                try:
                    shape = _matched_shape(argument.parameter.type, argument.given)
                except TCError:
                    continue
                if shape is not None:
                    self._match(argument, shape, {})
        _ = self.sizes

    def check_type(self, argument: Argument) -> None:
        """Checks the element type of an argument: the declared one, or weak and fitting it."""
        declared, given = argument.dtype, argument.given
        found = given.type
        if found.dtype == declared:
            return
        if found.is_weak and join(declared, found.dtype, FLOAT64) == declared:
            try:
                check_fit(found, declared)
            except TCError as error:  # no other type of the number would serve
                error.edits, error.repair = (), None
                raise
            return
        name, function = argument.parameter.name.text, self.definition.name.text
        raise self._fault(
            argument,
            CheckError,
            f"'{name}' of '{function}' is declared {type_text(argument.parameter.type)}, its type "
            f"is {found.alone}",
            paste=None if self.is_entry else _converted(argument.span.line, declared),
            repair=f"{name}.astype('{declared}')" if self.is_entry else None,
        )

    def _match(self, argument: Argument, shape: Shape, known: dict[str, int | Shape]) -> None:
        declared = argument.parameter.type
        before = dict(known)
        try:
            match_sizes(declared, shape, known)
        except Mismatch:
            name, function = argument.parameter.name.text, self.definition.name.text
            told = sizes_told(declared, before)
            is_single = not shape and _rank(declared) == 1
            error = self._fault(
                argument,
                blamed((argument.given, S)),
                f"'{name}' of '{function}' is declared {type_text(declared)}{told}, its shape is "
                f"{shown(shape)}",
                paste=f"[{argument.span.line}]" if is_single else None,
                repair=f"[{name}]" if is_single else None,
            )
            raise self._repaired_by_calls(error) from None

    def _repaired_by_calls(self, error: TCError) -> TCError:
        """The error of arguments that are arrays of what the parameters are declared, which says a
        call for each element."""
        if self.is_entry or error.edits or len(self.definition.types) > 1:
            return error
        surplus: list[Shape] = []
        for argument in self.parameters:
            rank, shape = _rank(argument.parameter.type), argument.given.shape
            if rank is None or len(shape) < rank:
                return error
            surplus.append(shape[: len(shape) - rank])
        longest = max(surplus, key=len)
        if not longest or any(shape not in ((), longest) for shape in surplus):
            return error
        texts = [argument.span.line for argument in self.parameters]
        names = free_names(INDEX_NAMES, [self.span.source.text])
        axes = tuple(range(len(longest)))
        operands = ", ".join(
            selected(text, axes if shape else None, names)
            for text, shape in zip(texts, surplus, strict=True)
        )
        pattern = ",".join(names[: len(longest)])
        call = f"{{ [{pattern}] -> {self.definition.name.text}({operands}) }}"
        return repaired_by(error, Edit(self.span, call))

    def _fault(
        self,
        argument: Argument,
        kind: type[TCError],
        cause: str,
        paste: str | None = None,
        repair: str | None = None,
    ) -> TCError:
        if self.is_entry:
            return InputError(cause, rule="C6", span=argument.parameter.span, repair=repair)
        return argument.fault(kind, "C6", cause, paste=paste)


def _rank(declared: ast.Type) -> int | None:
    """The rank of all arrays of a declared type, None where it leaves the rank open."""
    if isinstance(declared.sizes, str):
        return None
    counts = [1 if size.name is None else size.count for size in declared.sizes]
    numbers = [n for n in counts if isinstance(n, int)]
    return sum(numbers) if len(numbers) == len(counts) else None


def fitting_type(declared: ast.Type, shape: Shape, known: dict[str, int | Shape]) -> str:
    """The text of the declared type with `.` for each size that a shape differs in; of any sizes
    where the rank does."""
    sizes: list[str] = []
    if not isinstance(declared.sizes, str) and _rank(declared) == len(shape) == len(declared.sizes):
        known = dict(known)
        for n, size in zip(shape, declared.sizes, strict=True):
            alone = ast.Type(declared.element, (size,), span=size.span)
            try:
                match_sizes(alone, (n,), known)
                sizes.append(size.span.text)
            except Mismatch:
                sizes.append(".")
    else:
        sizes = ["."] * len(shape)
    return f"{declared.element}[{','.join(sizes)}]" if sizes else declared.element


def sizes_told(declared: ast.Type, known: dict[str, int | Shape]) -> str:
    """The values of the sizes that a type names, as far as they are known: `, where n is 5`."""
    told = []
    for name, _ in named_sizes(declared):
        if name in known:
            value = known[name]
            text = f"{name} is {value if isinstance(value, int) else shown(value)}"
            if text not in told:
                told.append(text)
    return f", where {' and '.join(told)}" if told else ""


def _matched_shape(declared: ast.Type, value: Value) -> Shape | None:
    """The shape of a value for its declared type; None where a lowering does not know it, and the
    type fixes no more than the rank, which is right."""
    try:
        return value.shape
    except NeedsIndexTerm:
        sizes, rank = declared.sizes, value.rank
        if sizes == "+" and rank:
            return None
        is_open = all(
            size.count is size.name is None for size in sizes if not isinstance(size, str)
        )
        if not isinstance(sizes, str) and is_open and rank == len(sizes):
            return None
        raise


def _is_shape_of_data(value: Value) -> bool:
    """Whether the elements of an input decide the shape of a value."""
    try:
        return dependence(value, S) == F
    except TCError:
        return False


def _spelled(dtype: DType) -> str:
    """The spelling of a type that declarations have."""
    return {FLOAT32: "float", FLOAT64: "double", INT32: "int"}.get(dtype, str(dtype))


def _converted(text: str, dtype: DType) -> str:
    names = {FLOAT32: "tof", FLOAT64: "tod", INT32: "toi"}
    return f"{names.get(dtype, str(dtype))}({text})"


class Argument(Value):
    """A parameter: the argument, in the declared element type."""

    def __init__(
        self, invocation: Invocation, parameter: ast.Parameter, given: Value, span: Span
    ) -> None:
        super().__init__(span, given.env)
        self.invocation = invocation
        self.parameter = parameter
        self.given = given
        self.dtype = SPELLINGS[parameter.type.element]
        self.__dict__["type"] = ElementType(self.dtype)

    @cached_property
    def identity(self) -> object:
        given = self.given
        if isinstance(given, Argument) and given.dtype == self.dtype:
            return given.identity
        return given.identity, self.dtype

    @cached_property
    def rank(self) -> int:
        return self.given.rank

    @cached_property
    def shape(self) -> Shape:
        return self.given.shape

    @cached_property
    def value(self) -> Array:
        self.invocation.check_type(self)
        return elements(self.given, self.dtype)

    def needs(self, level: Level) -> Needs:
        return [(self.given, level)]


class NamedSize(Value):
    """A size that a declared type names: `n` or `d`, or the vector `shp` of `d:shp`."""

    def __init__(
        self, invocation: Invocation, name: str, is_vector: bool, argument: Argument
    ) -> None:
        super().__init__(argument.span, argument.env)
        self.invocation = invocation
        self.name = name
        self.is_vector = is_vector
        self.argument = argument
        self.__dict__["type"] = SIZE_TYPE
        self.__dict__["rank"] = int(is_vector)

    @cached_property
    def shape(self) -> Shape:
        return self.value.shape if self.is_vector else ()

    @cached_property
    def value(self) -> Array:
        sizes = self.invocation.sizes
        if self.name not in sizes:
            _ = self.argument.given.shape  # raises why it cannot be told
            raise self.argument.fault(CheckError, "C6", f"the size '{self.name}' is not fixed")
        return np.array(sizes[self.name], np.int64)

    def needs(self, _: Level) -> Needs:
        return [(self.argument, S)]


class Result(Value):
    """A result of a call, in the declared element type."""

    def __init__(self, invocation: Invocation, declared: ast.Type, body: Value, span: Span) -> None:
        super().__init__(span, invocation.body)
        self.invocation = invocation
        self.declared = declared
        self.body = body
        self.dtype = SPELLINGS[declared.element]
        self.__dict__["type"] = ElementType(self.dtype)

    @cached_property
    def rank(self) -> int:
        return self.body.rank

    @cached_property
    def shape(self) -> Shape:
        return self.body.shape

    @cached_property
    def value(self) -> Array:
        self.check()
        return elements(self.body, self.dtype)

    def needs(self, level: Level) -> Needs:
        return [(self.body, level)]

    def check(self) -> None:
        """Checks the arguments, and the type and the shape of the result, against the declared
        ones: a type may widen (C6)."""
        self.invocation.check()
        name = self.invocation.definition.name.text
        found = self.body.type
        if join(self.dtype, found.dtype, FLOAT64) != self.dtype:
            raise self.fault(
                CheckError,
                "C6",
                f"the result of '{name}' is declared {type_text(self.declared)}, its type is "
                f"{found.alone}; a wider type needs a cast",
                paste=_converted(self.span.line, self.dtype),
            )
        try:
            check_fit(found, self.dtype)
        except TCError as error:
            element = self.declared.span
            at = Span(element.source, element.start, element.start + len(self.declared.element))
            kept = () if found.is_weak else error.edits
            repaired_by(error, Edit(at, _spelled(wider_of(found, self.dtype))), *kept)
            raise
        if self.declared.sizes == "*":
            return
        shape = _matched_shape(self.declared, self.body)
        if shape is None:
            return
        known = dict(self.invocation.sizes)
        for result in self.invocation.results:
            if result is self:
                break
            try:
                match_sizes(result.declared, result.body.shape, known)  # type: ignore[attr-defined]
            except (Mismatch, TCError):
                continue
        before = dict(known)
        try:
            match_sizes(self.declared, shape, known)
        except Mismatch:
            fault = self.fault(
                blamed((self.body, S)),
                "C6",
                f"the result of '{name}' is declared {type_text(self.declared)}"
                f"{sizes_told(self.declared, before)}, its shape is {shown(shape)}",
            )
            fitting = fitting_type(self.declared, shape, before)
            raise repaired_by(fault, Edit(self.declared.span, fitting)) from None


class CallValue(Value):
    """One result of a call."""

    def __init__(self, invocation: Invocation, number: int) -> None:
        super().__init__(invocation.span, invocation.env)
        self.invocation = invocation
        self.number = number
        self.__dict__["type"] = ElementType(SPELLINGS[invocation.definition.types[number].element])

    @cached_property
    def identity(self) -> object:
        return self.identified_by(self.invocation, self.number)

    @property
    def result(self) -> Value:
        """The result as the function gives it."""
        return self.invocation.results[self.number]

    @cached_property
    def rank(self) -> int:
        return self.result.rank

    @cached_property
    def shape(self) -> Shape:
        return self.result.shape

    @cached_property
    def value(self) -> Array:
        return self.result.value

    def needs(self, level: Level) -> Needs:
        return [(self.result, level)]
