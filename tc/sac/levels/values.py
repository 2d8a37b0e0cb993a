"""Values whose parts are computed by demand (C10, C22), and the environment that they stand in."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from tc.dtypes import Array, Type
from tc.errors import AccessError, CheckError, Notes, RangeError, TCError, TCWarning
from tc.sac import ast
from tc.sac.bindings import Bindings
from tc.sac.levels.element_types import (
    SIZE_TYPE,
    ElementType,
    cast,
    check_fit,
    computed_in,
)
from tc.sac.trees import children, free_in
from tc.source import Span

Shape: TypeAlias = tuple[int, ...]


class Level(enum.IntEnum):
    """How much of a value is needed: nothing, the rank, the shape, all (C22)."""

    N = 0
    D = 1
    S = 2
    F = 3


Needs: TypeAlias = Iterable[tuple["Value", Level]]


class NeedsIndexValue(TCError):
    """The value of an index is asked for where only its shape is known (C23).

    `index` is the index; the comprehension that it belongs to says the error in the words of C23.
    """

    def __init__(self, index: Index) -> None:
        super().__init__(
            f"the value of the index '{index.name}' is not known here", rule="C23", span=index.span
        )
        self.index = index


class NeedsIndexTerm(Exception):
    """The value of an index is asked for that a lowering knows as a term alone (C26).

    This is no error of the program: nothing that does without a value which has none, as the shape
    of a branch, may do without this one."""

    def __init__(self, index: Index) -> None:
        super().__init__(index.name)
        self.index = index


@dataclass(frozen=True, slots=True)
class Instance:
    """An index with its value, for messages: `at [i,j] = [0,2]`."""

    pattern: str
    index: Shape

    def __str__(self) -> str:
        return f"{self.pattern} = {shown(self.index)}"


class Frame:
    """An instance of a comprehension's body, or what lies outside of all comprehensions.

    `kept` has what was made for the frame, by what it depends on: expressions in the bodies of
    further comprehensions that do not depend on their indices, and calls. `depth` counts the
    instances around the frame, itself included."""

    __slots__ = ("depth", "instances", "kept", "outermost")

    def __init__(self, around: Frame | None = None, instance: Instance | None = None) -> None:
        self.outermost: Frame = self if around is None else around.outermost
        self.depth: int = 0 if around is None else around.depth + 1
        outer = () if around is None else around.instances
        self.instances: tuple[Instance, ...] = outer if instance is None else (*outer, instance)
        self.kept: dict[object, Any] = {}


class Loops(Protocol):
    """Computes comprehensions and with-loops element by element."""

    def __call__(self, loop: Value, at: Mapping[int, int] = ..., /) -> Array:
        """The elements of a loop, or those at the indices `at` of some of its axes."""


@dataclass
class Context:
    """What all values of a run share.

    `evaluate` gives the value of an expression, `execute` the environment behind statements;
    `loops` computes comprehensions and with-loops element by element (the reference).
    """

    functions: Mapping[str, ast.Definition]
    evaluate: Callable[[ast.Expr, Environment], Value]
    execute: Callable[[Sequence[ast.Statement], Environment], Environment]
    loops: Loops
    warnings: dict[tuple[int, str], tuple[Span, str]] = field(default_factory=dict)
    part_of: Callable[[Value, Mapping[int, int]], Array] | None = None
    """Gives selections the elements that they need, without the others of an array; None where
    arrays are computed as a whole."""
    parts: dict[tuple[Value, tuple[tuple[int, int], ...]], Array] = field(default_factory=dict)
    """Elements that `part_of` has given, by array and index."""
    _free: dict[int, tuple[ast.Expr, tuple[str, ...]]] = field(default_factory=dict)
    _updates: dict[int, tuple[ast.Assign, ast.Expr]] = field(default_factory=dict)

    def free(self, expr: ast.Expr) -> tuple[str, ...]:
        """The free names of an expression, found once for each expression of the text."""
        known = self._free.get(id(expr))
        if known is None:
            if isinstance(expr, ast.Name | ast.Comprehension | ast.WithLoop):
                names = free_in(expr)
            else:
                inner = (name for child in children(expr) for name in self.free(child))
                names = tuple(dict.fromkeys(inner))
            known = self._free[id(expr)] = (expr, names)
        return known[1]

    def updated(self, statement: ast.Assign) -> ast.Expr:
        """The value of `a += x` as an expression, one for each statement of the text."""
        if id(statement) not in self._updates:
            self._updates[id(statement)] = statement, statement.whole_value
        return self._updates[id(statement)][1]

    def integers(self, value: Value) -> Shape:
        """The elements of a vector, or the scalar, of integers that a shape, a bound or an index
        needs: level F. A lowering notes here what a specialisation depends on (C26)."""
        return tuple(int(x) for x in np.asarray(value.value).reshape(-1))

    def decides(self, value: Value) -> bool:
        """Whether a scalar condition holds: level F."""
        return bool(np.asarray(value.value).reshape(-1)[0] != 0)

    def note_name(self, value: Value, name: str) -> None:
        """Notes that the text gives a value a name."""

    def spend(self) -> None:
        """Notes that an instance, or an element by itself, is about to be computed."""

    def warn(self, span: Span, name: str, text: str) -> None:
        """Notes a warning about a name, one per place, of however many instances."""
        self.warnings.setdefault((span.start, name), (span, text))


@dataclass(frozen=True, slots=True)
class Environment:
    """What names mean at a place of the text: values; and how the place was reached: the calls
    around it, for messages, and the instance of a comprehension's body that it belongs to."""

    names: Mapping[str, Value]
    context: Context
    calls: tuple[Span, ...] = ()
    frame: Frame = field(default_factory=Frame)

    @property
    def instances(self) -> tuple[Instance, ...]:
        """The index of each comprehension whose instance the place belongs to."""
        return self.frame.instances

    def bind(self, names: Mapping[str, Value]) -> Environment:
        """The environment with further names."""
        for name, value in names.items():
            self.context.note_name(value, name)
        old = self.names
        new = old.bind(names) if isinstance(old, Bindings) else {**old, **names}
        return Environment(new, self.context, self.calls, self.frame)

    def block(self) -> Environment:
        """The environment at the beginning of a block of statements."""
        return Environment(Bindings({}, self.names), self.context, self.calls, self.frame)

    def captured(self, names: Iterable[str], frame: Frame) -> Environment:
        """The environment of a frame in which only some of the names mean anything."""
        kept = {name: self.names[name] for name in names}
        return Environment(kept, self.context, self.calls, frame)

    def within(self, instance: Instance) -> Environment:
        """The environment of an instance of a comprehension's body, without its index."""
        frame = Frame(self.frame, instance)
        return Environment(self.names, self.context, self.calls, frame)


class Value:
    """An expression in an environment. Each part is computed when it is asked for, and kept.

    Subclasses give `type`, `shape` and `value` (elements as they are computed: `computed_in`), and
    `rank` where it needs less than the shape. `needs(level)` says which parts of which operands a
    part follows from (C22)."""

    def __init__(self, span: Span, env: Environment) -> None:
        self.span = span
        self.env = env

    @property
    def identity(self) -> object:
        """What is equal for values that are computed in the same way from the same ones."""
        return self

    def identified_by(self, *parts: object) -> object:
        """The identity of the first value of the frame that follows from these parts."""
        return self.env.frame.kept.setdefault((type(self), *parts), self)

    @cached_property
    def type(self) -> ElementType:
        raise NotImplementedError

    @cached_property
    def rank(self) -> int:
        """Level D."""
        return len(self.shape)

    @cached_property
    def shape(self) -> Shape:
        """Level S."""
        raise NotImplementedError

    @cached_property
    def value(self) -> Array:
        """Level F. Not to be written to."""
        raise NotImplementedError

    def needs(self, level: Level) -> Needs:
        """The operands that a level of this value follows from, with the level of each."""
        raise NotImplementedError

    def place_of(self, index: Shape) -> Shape:
        """The index, in the array of the text, of the element at an index of this value."""
        return index

    def fault(
        self,
        kind: Callable[..., TCError],
        rule: str,
        cause: str,
        *,
        span: Span | None = None,
        paste: str | None = None,
        repair: str | None = None,
        notes: Notes = (),
    ) -> TCError:
        """An error at this value, with the index values and the calls around it."""
        env = self.env
        if env.instances:
            cause += ", at " + ", ".join(map(str, env.instances))
        notes = (*notes, *((call, "in this call") for call in reversed(env.calls)))
        if paste is not None and ("//" in paste or "/*" in paste):
            paste = None  # a comment would hide what follows it on the line
        place = self.span if span is None else span
        return kind(cause, rule=rule, span=place, paste=paste, repair=repair, notes=notes)


class Literal(Value):
    """A number of the text, or `true` or `false`."""

    def __init__(
        self, number: int | float | bool, type: ElementType, span: Span, env: Environment
    ) -> None:
        super().__init__(span, env)
        self.number = number
        self.__dict__["type"] = type
        self.__dict__["shape"] = ()

    @cached_property
    def identity(self) -> object:
        return self.identified_by(self.number, self.type.dtype)

    @cached_property
    def value(self) -> Array:
        if self.type.constant is not None:
            return elements(self, self.type.dtype)
        return np.asarray(self.number).astype(computed_in(self.type.dtype))

    def needs(self, _: Level) -> Needs:
        return ()


class Constant(Value):
    """A value that the shapes give: the index of an instance, a size of a declared type.

    `bounds` gives what the range of an index follows from, for the class of an error."""

    def __init__(
        self,
        array: Array,
        type: ElementType,
        span: Span,
        env: Environment,
        bounds: Callable[[], Needs] | None = None,
    ) -> None:
        super().__init__(span, env)
        self.__dict__["type"] = type
        self.__dict__["shape"] = array.shape
        self.array = array
        self.bounds = bounds

    @cached_property
    def value(self) -> Array:
        return self.array

    def needs(self, _: Level) -> Needs:
        return ()


class Input(Value):
    """An array that the caller gives. Its elements are read when `value` is asked for.

    `array` has `shape`, and gives its elements to `numpy.asarray`."""

    def __init__(
        self, name: str, array: Array, type: ElementType, span: Span, env: Environment
    ) -> None:
        super().__init__(span, env)
        self.name = name
        self.array = array
        self.__dict__["type"] = type

    @cached_property
    def shape(self) -> Shape:
        return tuple(int(n) for n in self.array.shape)

    @cached_property
    def value(self) -> Array:
        return np.asarray(self.array).astype(computed_in(self.type.dtype), copy=False)

    def needs(self, _: Level) -> Needs:
        return ()


class Index(Value):
    """An index of a comprehension whose body is examined without an instance (C23): type, rank and
    shape are known, the value is not.

    `owner` is the partition that it belongs to; `length` gives the length of an index vector, and
    is None for a scalar index, which is number `position` of the pattern."""

    has_terms = False
    """Whether a lowering has the value as terms."""

    def __init__(
        self,
        name: str,
        owner: object,
        position: int,
        length: Callable[[], int] | None,
        span: Span,
        env: Environment,
    ) -> None:
        super().__init__(span, env)
        self.name = name
        self.owner = owner
        self.position = position
        self.length = length
        self.__dict__["type"] = SIZE_TYPE
        self.__dict__["rank"] = 0 if length is None else 1

    @cached_property
    def shape(self) -> Shape:
        return () if self.length is None else (self.length(),)

    @cached_property
    def value(self) -> Array:
        raise NeedsIndexValue(self)

    def refuse(self) -> int:
        """The length of an index vector whose bound is being inferred: it is not known."""
        raise NeedsIndexValue(self)

    def needs(self, _: Level) -> Needs:
        return ()


def elements(value: Value, target: Type) -> Array:
    """The elements of a value, converted to another type: what meets it (C5). Raises Y1 for a
    literal that does not fit."""
    found = value.type
    check_fit(found, target)
    if found.constant is not None:
        return np.asarray(found.constant).astype(computed_in(target))
    if found.dtype == target:
        return value.value
    return cast(value.value, target)


def shown(numbers: Iterable[int]) -> str:
    """A shape or an index in messages: `[3,4]`."""
    return f"[{','.join(map(str, numbers))}]"


def _needed(value: Value, level: Level) -> Iterator[tuple[Value, Level]]:
    """All that a level of a value follows from, the value first: each with its level, once."""
    stack: list[tuple[Value, Level]] = [(value, level)]
    seen: set[tuple[int, Level]] = set()
    while stack:
        node, at = stack.pop()
        if (id(node), at) not in seen and at != Level.N:
            seen.add((id(node), at))
            yield node, at
            stack += node.needs(at)


def dependence(value: Value, level: Level) -> Level:
    """What of the inputs a level of a value depends on: N for nothing, S for shapes, F for data."""
    inputs = (at for node, at in _needed(value, level) if isinstance(node, Input))
    return max((Level.F if at == Level.F else Level.S for at in inputs), default=Level.N)


def inputs_of(value: Value) -> set[str]:
    """The inputs whose elements a value follows from."""
    found = _needed(value, Level.F)
    return {node.name for node, at in found if isinstance(node, Input) and at == Level.F}


def needs_unknown_index(value: Value, level: Level) -> bool:
    """Whether a level of a value may follow from an index without a value or a length."""
    return any(
        at == Level.F or node.length == node.refuse
        for node, at in _needed(value, level)
        if isinstance(node, Index) and not node.has_terms
    )


def blamed(*causes: tuple[Value, Level]) -> type[TCError]:
    """The class of an error that follows from levels of these values: what only data show, what the
    shapes of the inputs make wrong, or what is wrong for all inputs."""
    most, ranges, left = Level.N, set[int](), list(causes)
    try:
        while left:
            for node, at in _needed(*left.pop()):
                if isinstance(node, Input):
                    most = max(most, Level.F if at == Level.F else Level.S)
                elif isinstance(node, Constant) and node.bounds and id(node) not in ranges:
                    ranges.add(id(node))
                    left += node.bounds()
    except TCError:
        most = Level.S
    return {Level.F: AccessError, Level.N: CheckError}.get(most, RangeError)


__all__ = [
    "Constant",
    "Context",
    "Environment",
    "Index",
    "Input",
    "Instance",
    "Level",
    "Literal",
    "Needs",
    "NeedsIndexTerm",
    "NeedsIndexValue",
    "Shape",
    "TCWarning",
    "Value",
    "blamed",
    "dependence",
    "elements",
    "inputs_of",
    "needs_unknown_index",
    "shown",
]
