"""Programs whose statements have places, conditions, dependent and ragged ranges, and several
targets, drawn in all combinations, with inputs and with what the rules say of them.

All ranges and shapes are decided first, and the text is written so that range inference has to
find them. Whether the program is an error, and which, is not decided here: `brute_force` says it.

Long because all parts of a statement are drawn for each other: variables, places, reads, clauses.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.places.brute_force import READINGS, Machine, Open, Outcome, Reading, execute

Array: TypeAlias = np.ndarray[Any, Any]

LENGTHS = (1, 2, 2, 3, 3, 3, 5, 5, 7)
EMPTY = 0.04
"""How often a size is 0."""

MOST_POINTS = 300
SIZE_NAMES = ("N", "M", "K", "L", "Q", "R")
INDEX_NAMES = ("i", "j", "k", "n", "m", "e", "d")
OUTPUTS = ("o", "p", "q", "h", "s", "t")
OPERATORS = ("+", "+", "+", "*", "min", "max", "&", "|", "^")


class Redraw(Exception):
    """A statement that does not fit what is there."""


@dataclass(frozen=True)
class Case:
    """A program, a call of it, and what the rules say: an outcome for each reading of them."""

    text: str
    inputs: dict[str, Array]
    initial: dict[str, Array]
    ranges: tuple[dict[str, tuple[int, int]], ...]
    outcomes: tuple[tuple[Reading, Outcome], ...]
    features: frozenset[str]


@dataclass
class Variable:
    """An index variable; `low` and `high` are the box that the text gives it."""

    name: str
    kind: str  # "inferred", "where", "dependent", "ragged"
    low: int
    high: int
    begin: str = ""
    end: str = ""

    def __len__(self) -> int:
        return max(self.high - self.low, 0)


@dataclass
class Tensor:
    """A tensor as it is planned; `values` is the end of the values of an array of indices."""

    shape: tuple[int, ...]
    kind: str  # "i", "u", "f", "b"
    values: int = 0
    is_input: bool = False
    is_read: bool = False
    declared: bool = False
    is_bits: bool = False
    sliced: set[int] = field(default_factory=set)


@dataclass
class Parameter:
    name: str
    type: str
    dims: tuple[str, ...]
    array: Array


class Draft:
    """A program under construction."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.params: list[Parameter] = []
        self.sizes: dict[str, int] = {}
        self.tensors: dict[str, Tensor] = {}
        self.statements: list[str] = []
        self.ranges: list[dict[str, tuple[int, int]]] = []
        self.needs_initial: set[str] = set()
        self.features: set[str] = set()
        self.declared: set[str] = set()
        self.fixed: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def length(self) -> int:
        return 0 if self.chance(EMPTY) else self.rng.choice(LENGTHS)

    def snapshot(self) -> tuple[Any, ...]:
        tensors = {n: replace(t, sliced=set(t.sliced)) for n, t in self.tensors.items()}
        held = self.params[:], dict(self.sizes), tensors, self.statements[:], self.ranges[:]
        sets = set(self.needs_initial), set(self.features), set(self.declared)
        return *held, *sets, dict(self.fixed)

    def restore(self, kept: tuple[Any, ...]) -> None:
        self.params, self.sizes, self.tensors, self.statements, self.ranges = kept[:5]
        self.needs_initial, self.features, self.declared, self.fixed = kept[5:]

    # --- inputs -------------------------------------------------------------------------------

    def dimension(self, size: int) -> str:
        fitting = [n for n, value in self.sizes.items() if value == size]
        if fitting and self.chance(0.6):
            return self.rng.choice(fitting)
        free = [n for n in SIZE_NAMES if n not in self.sizes]
        if free and self.chance(0.85):
            self.sizes[free[0]] = size
            return free[0]
        return str(size)

    def size_text(self, value: int) -> str:
        """A size expression of a value."""
        scalars = [p.name for p in self.params if not p.dims and int(p.array) == value]
        if self.chance(0.04) and (scalars or len(self.params) < 6):
            type = self.rng.choice(("int32", "int64"))
            return scalars[0] if scalars else self.new_input(np.array(value, type), "c", "i")
        forms = [str(value)]
        for name, size in self.sizes.items():
            if size == value:
                forms += [name] * 2
            elif 0 < size - value <= 2:
                forms.append(f"{name} - {size - value}")
            elif 0 < value - size <= 3:
                forms.append(f"{name} + {value - size}")
            if size and value == 2 * size:
                forms.append(f"2 * {name}")
        for p in self.params:
            forms += [f"{p.name}.{a}" for a, size in enumerate(p.array.shape) if size == value]
        return self.rng.choice(forms)

    def new_input(self, array: Array, prefix: str, kind: str, values: int = 0) -> str:
        if len(self.params) >= 8:
            raise Redraw
        name = f"{prefix}{sum(p.name.startswith(prefix) for p in self.params) + 1}"
        type = {"float32": "float", "float64": "double", "int32": "int"}.get(
            str(array.dtype), str(array.dtype)
        )
        dims = tuple(map(self.dimension, array.shape))
        self.params.append(Parameter(name, type, dims, array))
        self.tensors[name] = Tensor(array.shape, kind, values, is_input=True)
        return name

    def numbers(self, shape: tuple[int, ...]) -> str:
        rng = self.rng
        kind = rng.choice("iiiffffub")
        count = int(np.prod(shape))
        flat: list[float] = [rng.randint(-3, 4) for _ in range(count)]
        type = {"i": "int32", "f": "float32", "u": "uint8", "b": "bool"}[kind]
        if kind == "i" and self.chance(0.2):
            type = "int64"
        if kind == "f" and self.chance(0.15):
            type = "float64"
        if kind == "i" and self.chance(0.1):
            flat = [rng.choice((2**31 - 1, -(2**31), 2**30, 7)) for _ in range(count)]
        if kind == "u":
            flat = [rng.choice((0, 1, 2, 3, 5, 200, 255)) for _ in range(count)]
        if kind == "b":
            flat = [rng.randint(0, 1) for _ in range(count)]
        if kind == "f" and self.chance(0.12):
            special = (float("nan"), float("inf"), float("-inf"), 1.0, 1.0)
            flat = [rng.choice(special) if self.chance(0.4) else x for x in flat]
        return self.new_input(np.array(flat, type).reshape(shape), "x", kind)

    def keys(self, shape: tuple[int, ...], end: int) -> str:
        """An input of indices below `end`: drawn, all different, all one, rising; rarely with one
        that is outside."""
        rng = self.rng
        count = int(np.prod(shape))
        form = rng.randrange(8)
        if end <= 0:
            if count:
                raise Redraw
            flat: list[int] = []
        elif form < 3 and count <= end:
            flat = rng.sample(range(end), count)
        elif form == 3:
            flat = [rng.randrange(end)] * count
        elif form == 4:
            flat = sorted(rng.randrange(end) for _ in range(count))
        else:
            flat = [rng.randrange(end) for _ in range(count)]
        type = rng.choice(("int32", "int32", "int64", "int64", "uint8"))
        if flat and self.chance(0.02):
            self.features.add("stray key")
            stray = rng.choice((end, end + 3, 255 if type == "uint8" else -1))
            flat[rng.randrange(count)] = stray
        return self.new_input(np.array(flat, type).reshape(shape), "I", "i", end)

    def offsets(self, count: int, end: int) -> str:
        """An input of `count + 1` rising offsets up to `end`."""
        rng = self.rng
        cuts = sorted(rng.randint(0, end) for _ in range(count + 1))
        if self.chance(0.7):
            cuts[0], cuts[-1] = 0, end
            if count == 0:
                cuts = [0]
        if self.chance(0.03) and count:
            self.features.add("falling row")
            rng.shuffle(cuts)
        if self.chance(0.01):
            cuts[-1] = end + 1
        type = rng.choice(("int32", "int64", "int64"))
        return self.new_input(np.array(cuts, type), "row", "i", end + 1)

    def counts(self, shape: tuple[int, ...], end: int) -> str:
        rng = self.rng
        flat = [rng.randint(0, end) for _ in range(int(np.prod(shape)))]
        if flat and self.chance(0.02):
            flat[0] = rng.choice((end + 1, -1))
        type = rng.choice(("int32", "int64", "int64"))
        return self.new_input(np.array(flat, type).reshape(shape), "len", "i", end + 1)

    # --- the plan read as Python --------------------------------------------------------------

    def environment(self) -> dict[str, Any]:
        def reader(array: Array) -> Callable[..., int]:
            def read(*place: int) -> int:
                if any(not 0 <= x < n for x, n in zip(place, array.shape, strict=True)):
                    raise IndexError
                return int(array[place])

            return read

        found: dict[str, Any] = {"min": min, "max": max, "__builtins__": {}, **self.sizes}
        for p in self.params:
            found[p.name] = reader(p.array) if p.dims else int(p.array)
            found[f"shape_{p.name}"] = p.array.shape
        return found

    def known(self, text: str, at: Mapping[str, int]) -> int:
        text = re.sub(r"(?<!/)/(?!/)", "//", text)
        text = re.sub(r"([A-Za-z]\w*)\.(\d)", r"shape_\1[\2]", text)
        try:
            return int(eval(text, {**self.environment(), **at}))
        except (IndexError, NameError, TypeError):
            raise Redraw from None

    def points(self, variables: Sequence[Variable], text: str = "") -> Iterator[dict[str, int]]:
        """The domain, with the box of a variable whose range data decide; for a subscript, with
        the end where it is least of the range of a dependent variable that is empty."""

        def below(depth: int, at: dict[str, int]) -> Iterator[dict[str, int]]:
            if depth == len(variables):
                yield at
                return
            v = variables[depth]
            low, high = v.low, v.high
            if v.kind == "dependent":
                low, high = self.known(v.begin, at), self.known(v.end, at)
            values = range(low, high)
            if text and not values:  # W2 looks at an end of an empty range, too
                x = high - 1 if re.search(rf"-{v.name}\b", text) else low
                values = range(x, x + 1)
            for x in values:
                yield from below(depth + 1, {**at, v.name: x})

        yield from below(0, {})

    def extent(
        self, text: str, variables: Sequence[Variable], reads: bool = False
    ) -> tuple[int, int] | None:
        """The least and greatest value of an expression over the values of its variables; None
        where there are none."""
        used = used_in(text, variables)
        values = [self.known(text, at) for at in self.points(used, text if reads else "")]
        return (min(values), max(values)) if values else None


def used_in(text: str, variables: Sequence[Variable]) -> list[Variable]:
    """The variables that occur in a text, and those that occur in their bounds."""
    used: list[Variable] = []
    for v in reversed(variables):
        if re.search(rf"\b{v.name}\b", text):
            used.insert(0, v)
            text += f" {v.begin} {v.end}"
    return used


@dataclass(frozen=True)
class Forced:
    """A left side that is decided beforehand: subscripts, the ranges of the variables among them
    (with a `where` if `slices`), and targets of an earlier statement."""

    texts: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]
    targets: tuple[str, ...] = ()
    slices: bool = False

    def variables(self, statement: StatementDraft) -> list[Variable]:
        draft, found = statement.draft, []
        for name, low, high in self.spans:
            if low == 0 and not self.slices and draft.chance(0.5):
                v = Variable(name, "inferred", low, high)
                statement.uncovered.append(v)
            else:
                begin, end = draft.size_text(low), draft.size_text(high)
                statement.clauses.append(f"{name} in {begin}:{end}")
                v = Variable(name, "where", low, high, begin, end)
            found.append(v)
        return found


class StatementDraft:
    """One statement under construction."""

    def __init__(self, draft: Draft, forced: Forced | None = None) -> None:
        self.draft, self.rng, self.chance = draft, draft.rng, draft.chance
        self.forced, self.base = forced, ""
        self.sized: set[int] = set()
        self.variables: list[Variable] = []
        self.uncovered: list[Variable] = []
        self.clauses: list[str] = []
        self.conditions: list[str] = []
        self.bindings: list[str] = []
        self.reduced: list[Variable] = []

    def note(self, feature: str) -> None:
        self.draft.features.add(feature)

    # --- variables ----------------------------------------------------------------------------

    def draw_variables(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4))):
            usable = [v for v in self.variables if v.low >= 0]
            form = rng.random()
            if not usable or form < 0.5:
                v = self.box()
            elif form < 0.78:
                v = self.dependent(usable)
            else:
                v = self.ragged(usable)
            self.variables.append(v)
            total = 1
            for w in self.variables:
                total *= max(len(w), 1)
            if total > MOST_POINTS:
                raise Redraw

    def fresh_name(self) -> str:
        used = {v.name for v in self.variables}
        return self.rng.choice([n for n in INDEX_NAMES if n not in used])

    def box(self) -> Variable:
        name, high = self.fresh_name(), self.draft.length()
        if self.chance(0.6):
            v = Variable(name, "inferred", 0, high)
            self.uncovered.append(v)
            return v
        low = self.rng.randint(0, high) if self.chance(0.25) else 0
        begin, end = self.draft.size_text(low), self.draft.size_text(high)
        self.clauses.append(f"{name} in {begin}:{end}")
        return Variable(name, "where", low, high, begin, end)

    def dependent(self, usable: list[Variable]) -> Variable:
        rng, name = self.rng, self.fresh_name()
        v = rng.choice(usable)
        w = rng.choice(usable)
        end = self.draft.length()
        x, y, n = v.name, w.name, self.draft.size_text(max(end, v.high))
        forms = [f"0:{x}+1", f"0:{x}", f"{x}:{n}"]
        if len(v) and len(w):
            forms += [
                f"{x}:{x}+{rng.randint(1, 3)}",
                f"{x}+1:{n}",
                f"0:{x}+2",
                f"max({x}-1, 0):min({x}+2, {n})",
                f"{x}:2*{x}+1",
                f"{x}/2:{x}+1",
                f"2*{x}:2*{x}+2",
                f"0:{n}-{x}",
                f"1:{x}+1",
            ]
        if v is not w and len(v) and len(w):
            forms += [
                f"{x}:{y}",
                f"{x}:{y}+1",
                f"0:{x}+{y}",
                f"min({x},{y}):max({x},{y})+1",
                f"max({x},{y}):{n}",
            ] * 2
        begin, finish = rng.choice(forms).split(":")
        self.clauses.append(f"{name} in {begin}:{finish}")
        self.note("dependent")
        pairs = [
            (self.draft.known(begin, at), self.draft.known(finish, at))
            for at in self.draft.points(used_in(f"{begin} {finish}", self.variables))
        ]
        pairs = [(a, b) for a, b in pairs if a < b]
        low = min((a for a, _ in pairs), default=0)
        high = max((b for _, b in pairs), default=0)
        return Variable(name, "dependent", low, high, begin, finish)

    def ragged(self, usable: list[Variable]) -> Variable:
        rng, draft, name = self.rng, self.draft, self.fresh_name()
        v, end = rng.choice(usable), draft.length()
        x = v.name
        form = rng.randrange(7)
        rows = v.high
        if form < 3:
            row = draft.offsets(rows, end)
            begin, finish = f"{row}({x})", f"{row}({x}+1)"
            self.covers(v)
        elif form < 5:
            begin, finish = "0", f"{draft.counts((rows,), end)}({x})"
            self.covers(v)
        elif form == 5:
            row = draft.offsets(end, end + rng.randint(0, 2))
            end = draft.tensors[row].values - 1
            column = draft.keys((rows,), max(draft.tensors[row].shape[0] - 1, 0))
            begin, finish = f"{row}({column}({x}))", f"{row}({column}({x})+1)"
            self.covers(v)
            self.note("ragged through data")
        else:
            first = draft.offsets(rows, end)
            begin, finish = f"{first}({x})", f"min({first}({x})+2, {first}({x}+1))"
            self.covers(v)
        self.clauses.append(f"{name} in {begin}:{finish}")
        self.note("ragged")
        found = Variable(name, "ragged", 0, end, begin, finish)
        self.uncovered.append(found)
        return found

    def covers(self, v: Variable) -> None:
        """An access from which the whole range of a variable follows is there."""
        if v in self.uncovered:
            self.uncovered.remove(v)

    # --- places -------------------------------------------------------------------------------

    def place(self, left: list[Variable]) -> list[str]:
        """Left subscripts in which all the variables occur."""
        rng, waiting = self.rng, list(left)
        rng.shuffle(waiting)
        texts: list[str] = []
        plain = self.chance(0.35)
        while waiting:
            v = waiting.pop()
            w = waiting.pop() if waiting and not plain and self.chance(0.35) else None
            if plain or (w is None and self.chance(0.45)):
                texts.append(v.name)
            else:
                texts.append(self.computed(v, w))
        while len(texts) < 3 and self.chance(0.12 if texts else 0.3):
            if left and self.chance(0.6):
                more = self.computed(rng.choice(left), None)
            else:
                more = str(rng.randrange(4))
                self.note("constant place")
            texts.insert(rng.randint(0, len(texts)), more)
        if len(texts) > 3:
            raise Redraw
        return texts

    def computed(self, v: Variable, w: Variable | None) -> str:
        rng, x = self.rng, v.name
        if w is None:
            if self.chance(0.5):
                self.note("affine place")
                c = rng.randint(0, 3)
                forms = [f"{x}+{c}", f"2*{x}", f"2*{x}+{rng.randint(0, 1)}", f"3*{x}+{c}"]
                forms += [f"{x}/2", f"{self.draft.size_text(v.high)}-1-{x}", f"{x}+0", f"{x}%2"]
                forms += [f"{x}-{v.low}" if v.low else f"{c}+{x}", f"min({x}, {c})"]
                return rng.choice(forms)
            return self.data_place([v])
        y = w.name
        if self.chance(0.45):
            self.note("affine place")
            forms = [f"{x}+{y}", f"2*{x}+{y}", f"{x}*{max(w.high, 1)}+{y}", f"{x}-{y}+{w.high}"]
            forms += [f"{x}-{y}", f"{x}+{y}+1", f"max({x},{y})", f"({x}+{y})/2"]
            return rng.choice(forms)
        return self.data_place([v, w])

    def data_place(self, variables: list[Variable]) -> str:
        rng, draft = self.rng, self.draft
        self.note("data place")
        v = variables[0]
        end = rng.choice((1, 2, 3, 3, 5, 7))
        text = self.key_read([v], end)
        if self.chance(0.1):
            text = f"{draft.keys((end,), rng.choice((2, 3, 5)))}({text})"
        if len(variables) == 2:
            y = variables[1].name
            form = rng.randrange(4)
            if form == 0:
                text = self.key_read(variables, end)
            else:
                text = (f"{text}+{y}", f"{text}*{max(variables[1].high, 1)}+{y}", f"{y}+2*{text}")[
                    form - 1
                ]
        elif self.chance(0.35):
            c = rng.randint(1, 2)
            text = rng.choice(
                (f"{text}+{c}", f"2*{text}", f"2*{text}+1", f"{text}/2", f"{c}+{text}")
            )
        if self.chance(0.25):
            name = f"b{len(self.bindings)}"
            self.bindings.append(f"{name} = {text}")
            self.note("binding")
            return name
        return text

    def key_read(self, variables: list[Variable], end: int) -> str:
        """A read of indices at variables: of an input that is there, or of a new one."""
        draft, rng = self.draft, self.rng
        if any(v.low < 0 for v in variables):
            raise Redraw
        shape = tuple(v.high for v in variables)
        fitting = [n for n, t in draft.tensors.items() if t.shape == shape and n.startswith("I")]
        if fitting and self.chance(0.5):
            name = rng.choice(fitting)
        else:
            name = draft.keys(shape, end)
        for v in variables:
            self.covers(v)
        return f"{name}({', '.join(v.name for v in variables)})"

    def expanded(self, text: str) -> str:
        for binding in reversed(self.bindings):
            name, value = binding.split(" = ", 1)
            text = re.sub(rf"\b{name}\b", f"({value})", text)
        return text

    def ends(self, texts: list[str]) -> list[int]:
        """The size that each left subscript needs."""
        found = []
        for text in texts:
            extent = self.draft.extent(self.expanded(text), self.variables)
            bare = next((v for v in self.variables if v.name == text), None)
            if bare is not None:
                found.append(bare.high)
            elif extent is None and self.is_fixed(text):
                found.append(self.rng.choice((1, 2, 3)))
            elif extent is None or (extent[0] < 0 and not self.is_fixed(text)):
                raise Redraw
            else:
                found.append(max(extent[1] + 1, 1))
        return found

    def is_fixed(self, text: str) -> bool:
        """Whether no range can follow from a place, whatever the shape."""
        used = used_in(text, self.variables)
        return self.is_data(text) or all(v.kind == "where" for v in used)

    def drop(self, texts: list[str], shape: list[int], target: str) -> None:
        """Makes a computed place smaller, and drops the instances outside by conditions."""
        axis = self.rng.randrange(len(texts))
        text = texts[axis]
        if any(v.name == text for v in self.variables) or shape[axis] < 2:
            return
        if not self.is_fixed(self.expanded(text)):
            return
        shape[axis] -= self.rng.randint(1, shape[axis] - 1)
        end = self.rng.choice((f"{target}.{axis}", str(shape[axis])))
        if not re.fullmatch(r"b\d", text) and self.chance(0.5):
            name = f"b{len(self.bindings)}"
            self.bindings.append(f"{name} = {text}")
            texts[axis] = text = name
        self.conditions += [f"0 <= {text}", f"{text} < {end}"]
        self.note("dropping")

    def is_data(self, text: str) -> bool:
        return re.search(r"\b[IxroOlw]\w*\(", self.expanded(text).replace("max(", "")) is not None

    # --- reads --------------------------------------------------------------------------------

    def covering(self) -> str:
        """A read that fixes the ranges of one or two variables that nothing fixes yet."""
        draft, rng = self.draft, self.rng
        count = min(len(self.uncovered), rng.choice((1, 1, 2)))
        chosen = rng.sample(self.uncovered, count)
        shape = tuple(v.high for v in chosen)
        names = ", ".join(v.name for v in chosen)
        fitting = [
            n
            for n, t in draft.tensors.items()
            if t.shape == shape and n not in self.targets and (t.is_input or n in self.readable)
        ]
        for v in chosen:
            self.covers(v)
        if fitting and self.chance(0.5):
            name = rng.choice(fitting)
            draft.tensors[name].is_read = True
            return f"{name}({names})"
        through = self.dependent_on(chosen[0]) if count == 1 else None
        if through is not None and self.chance(0.6):
            self.note("inferred through a dependent variable")
            return f"{draft.numbers((through.high,))}({through.name})"
        if count == 1 and chosen[0].kind == "inferred" and len(chosen[0]) and self.chance(0.2):
            c = rng.randint(1, 2)
            return f"{draft.numbers((shape[0] + c,))}({names}+{c})"
        return f"{draft.numbers(shape)}({names})"

    def dependent_on(self, v: Variable) -> Variable | None:
        """A dependent variable that ends where, and only where, the variable does."""
        if v.kind != "inferred" or not len(v):
            return None
        for w in self.variables:
            rises = re.fullmatch(rf"{v.name}(\+\d)?", w.end) and w.begin in ("0", v.name)
            if w.kind == "dependent" and rises:
                return w
        return None

    def inside(self, size: int) -> str:
        """A subscript that stays in a dimension over the domain."""
        rng, draft = self.rng, self.draft
        forms: list[str] = []
        for v in self.variables:
            x = v.name
            if v.low >= 0 and v.high <= size:
                forms += [x] * 4
            if not len(v):
                continue
            forms += [f"{x}+1", f"2*{x}", f"{x}/2", f"{size - 1}-{x}", f"{x}-1", f"{x}%2"]
            for w in self.variables:
                if w is not v and len(w):
                    forms += [f"{x}+{w.name}", f"{x}-{w.name}"]
            for n, t in draft.tensors.items():
                is_key = n.startswith("I") and len(t.shape) == 1 and t.values <= size
                if is_key and v.low >= 0 and v.high <= t.shape[0]:
                    forms.append(f"{n}({x})")
        if size:
            forms.append(str(rng.randrange(size)))
        rng.shuffle(forms)
        for form in forms[:6]:
            if not form.isdigit() and not any(v.name == form for v in self.variables):
                try:
                    extent = draft.extent(form, self.variables, reads=True)
                except Redraw:
                    continue
                if extent is None or extent[0] < 0 or extent[1] >= size:
                    continue
            return form
        raise Redraw

    def read_inside(self) -> str:
        names = [n for n, t in self.draft.tensors.items() if t.is_input or n in self.readable]
        names = [n for n in names if n not in self.targets]
        if not names:
            return str(self.rng.randint(0, 3))
        name = self.rng.choice(names)
        tensor = self.draft.tensors[name]
        subscripts = [self.inside(size) for size in tensor.shape]
        tensor.is_read = True
        return f"{name}({', '.join(subscripts)})" if subscripts else name

    def leaf(self) -> str:
        rng = self.rng
        form = rng.random()
        if form < 0.25:
            return str(rng.randint(0, 3))
        if form < 0.45 and self.variables:
            return rng.choice(self.variables).name
        if form < 0.5 and self.draft.sizes:
            return rng.choice(list(self.draft.sizes))
        return self.read_inside()

    def expression(self, needed: list[str], depth: int = 2) -> str:
        """An expression in which all the reads occur."""
        rng = self.rng
        if not needed and (depth <= 0 or self.chance(0.4)):
            return self.leaf()
        if len(needed) == 1 and (depth <= 0 or self.chance(0.5)):
            return needed[0]
        cut = rng.randint(0, len(needed))
        left = self.expression(needed[:cut], depth - 1)
        right = self.expression(needed[cut:], depth - 1)
        form = rng.randrange(9)
        if form < 3:
            return f"({left} + {right})"
        if form < 4 and re.search("[A-Za-z]", left):
            return f"({left} - {right})"
        if form < 6:
            return f"{left} * {right}"
        if form < 7:
            return f"{rng.choice(('min', 'max'))}({left}, {right})"
        if form < 8:
            return f"({self.condition()} ? {left} : {right})"
        return f"({left} {rng.choice(('<', '>=', '=='))} {right})"

    def condition(self) -> str:
        """A scalar that decides: of variables, of data, or of both."""
        rng = self.rng
        form = rng.random()
        names = [v.name for v in self.variables]
        if names and form < 0.45:
            x, y = rng.choice(names), rng.choice([*names, *names, str(rng.randint(0, 4))])
            op = rng.choice(("<", "<=", ">", ">=", "==", "!="))
            more = [f"{x} {op} {y}", f"{x} % 2 {rng.choice(('==', '!='))} {rng.randint(0, 1)}"]
            more += [f"{x} + {y} {op} {rng.randint(0, 6)}", f"{x} {op} {rng.randint(0, 4)}"]
            return rng.choice(more)
        if form < 0.9:
            return f"{self.read_inside()} {rng.choice(('<', '>', '>=', '==', '!='))} {self.leaf()}"
        if form < 0.93:
            return self.read_inside()
        inner = self.condition(), self.condition()
        return rng.choice(
            (f"({inner[0]} && {inner[1]})", f"({inner[0]} || {inner[1]})", f"!({inner[0]})")
        )

    # --- the statement ------------------------------------------------------------------------

    targets: tuple[str, ...] = ()

    @property
    def readable(self) -> set[str]:
        """Results of earlier statements."""
        return {n for n, t in self.draft.tensors.items() if not t.is_input}

    def build(self) -> None:
        draft, rng = self.draft, self.rng
        op, base = self.operator()
        self.base = base
        if self.forced is not None:
            self.variables = self.forced.variables(self)
        else:
            self.draw_variables()
        if op == "=" and not self.chance(0.01):
            left = list(self.variables)
        else:
            left = [v for v in self.variables if self.chance(0.5)]
        if any(v.low < 0 for v in left):
            raise Redraw
        if self.forced is not None:
            left, texts = list(self.variables), list(self.forced.texts)
        elif self.chance(0.005) and left:
            texts = [left[0].name, left[0].name]
            self.note("twice")
        else:
            texts = self.place(left)
        shape = self.ends(texts)
        natural = list(shape)
        self.targets = self.choose_targets(texts, shape, base)
        primary = self.targets[0]
        tensor = draft.tensors.get(primary)
        new = tensor is None
        if new and texts and self.chance(0.15):
            self.drop(texts, shape, primary)
        if new and texts and self.chance(0.1):
            axis = rng.randrange(len(texts))
            if not any(v.name == texts[axis] for v in self.variables) or self.chance(0.3):
                shape[axis] += rng.randint(1, 2)
        self.cover_by_target(texts, tensor)
        if new:
            self.cover_by_clause(texts, shape)
        values = self.draw_values(op, base, texts, new)
        for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 3))):
            self.conditions.insert(rng.randint(0, len(self.conditions)), self.condition())
            self.note("condition")
        if self.chance(0.008):
            own = f"{primary}({', '.join(texts)})" if texts else primary
            self.conditions.append(f"{own} > 0")
        while self.uncovered:
            read = self.covering()
            self.clauses.append(
                f"exists {read}" if "(" in read and self.chance(0.5) else f"{read} > 0"
            )
            if not self.clauses[-1].startswith("exists"):
                self.conditions.append(self.clauses.pop())
        self.settle_shape(texts, shape, natural, new)
        text = ", ".join(f"{t}({', '.join(texts)})" if texts else t for t in self.targets)
        where = self.mixed()
        clauses = f" where {', '.join(where)}" if where else ""
        draft.statements.append(f"{text} {op} {', '.join(values)}{clauses}")
        draft.ranges.append(
            {v.name: (v.low, v.high) for v in self.variables if v.kind != "dependent"}
        )

    def operator(self) -> tuple[str, str]:
        if self.chance(0.35):
            return "=", "="
        base = self.rng.choice(OPERATORS)
        return f"{base}={'!' if self.chance(0.65) else ''}", base

    def choose_targets(self, texts: list[str], shape: list[int], base: str) -> tuple[str, ...]:
        draft, rng = self.draft, self.rng
        count = rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 3)) if base not in "&|^" else 1
        if base in ("min", "max") and self.chance(0.3):
            count = max(count, 2)
        fitting = [
            n
            for n, t in draft.tensors.items()
            if not t.is_input and len(t.shape) == len(shape) and base not in "&|^" and not t.is_bits
        ]
        fitting = [n for n in fitting if self.fits(draft.tensors[n], texts, shape)]
        if self.forced is not None and self.forced.targets:
            if not set(self.forced.targets) <= set(fitting):
                raise Redraw
            return self.forced.targets
        free = [n for n in OUTPUTS if n not in draft.tensors]
        if count > 1:
            self.note("several targets")
        if len(fitting) >= count and self.chance(0.75):
            self.note("again")
            chosen = rng.sample(fitting, count)
            shapes = {draft.tensors[n].shape for n in chosen}
            if len(shapes) == 1:
                return tuple(chosen)
        if len(free) < count:
            raise Redraw
        return tuple(free[:count])

    def fits(self, tensor: Tensor, texts: list[str], shape: list[int]) -> bool:
        for axis, (text, end, size) in enumerate(zip(texts, shape, tensor.shape, strict=True)):
            if end <= size:
                continue
            sliced = text.isdigit() or any(
                v.kind == "where" and v.name == text for v in self.variables
            )
            if tensor.is_read or tensor.declared or not sliced or axis not in tensor.sliced:
                return False
        return True

    def cover_by_target(self, texts: list[str], tensor: Tensor | None) -> None:
        """Now and then a variable's range follows from the shape of what is written alone."""
        if tensor is None or len(texts) != len(tensor.shape):
            return
        for v in list(self.uncovered):
            for text, size in zip(texts, tensor.shape, strict=True):
                if text == v.name and size == v.high and self.chance(0.5):
                    self.covers(v)
                    self.note("covered by its target")

    def cover_by_clause(self, texts: list[str], shape: list[int]) -> None:
        """Now and then a variable's range follows from the size that a new target is given."""
        for v in list(self.uncovered):
            fits = v.name in texts and shape[texts.index(v.name)] == v.high
            if fits and self.chance(0.35):
                self.covers(v)
                self.sized.update(range(len(texts)))
                self.note("covered by its target")

    def draw_values(self, op: str, base: str, texts: list[str], new: bool) -> list[str]:
        rng = self.rng
        needed: list[list[str]] = [[] for _ in self.targets]
        while self.uncovered and self.chance(0.85):
            rng.choice(needed).append(self.covering())
        values = [self.expression(reads) for reads in needed]
        if base in "&|^":
            values = [self.bits(reads) for reads in needed]
        own = f"({', '.join(texts)})" if texts else ""
        if op == "=" and len(values) > 1 and self.chance(0.3) and not any(needed):
            values = [f"{t}{own}" for t in (*self.targets[1:], self.targets[0])]
            if new:
                type = rng.choice(("int32", "float32", "uint8"))
                self.draft.fixed.update(dict.fromkeys(self.targets, type))
            self.starts_from_caller(new)
            self.note("exchange")
        elif self.chance(0.08) and base not in "&|^":
            k = rng.randrange(len(values))
            subscripts = own
            if texts and self.chance(0.25):
                moved = list(texts)
                axis = rng.randrange(len(moved))
                moved[axis] = rng.choice(("0", f"{moved[axis]}/2", f"{moved[axis]}*1"))
                subscripts = f"({', '.join(moved)})"
            read = f"{rng.choice(self.targets)}{subscripts}"
            values[k] = (
                f"({values[k]} + {read})" if self.chance(0.5) else f"2 * {read} + {values[k]}"
            )
            self.starts_from_caller(new)
            self.note("self-read")
        return values

    def starts_from_caller(self, new: bool) -> None:
        if new:
            self.draft.needs_initial.update(self.targets)

    def bits(self, reads: list[str]) -> str:
        """A value of a reduction of bits."""
        draft = self.draft
        kinds = [draft.tensors[r.partition("(")[0]].kind for r in reads]
        if "f" in kinds or self.chance(0.3):
            return " && ".join(f"{r} != 0" for r in reads) if reads else self.condition_of_bits()
        if not reads:
            return "".join(v.name for v in self.variables[:1]) or "3"
        if "b" in kinds:
            return " && ".join(f"{r} > 0" for r in reads)
        return " + ".join(reads)

    def condition_of_bits(self) -> str:
        return f"{self.rng.choice(self.variables).name} > 1" if self.variables else "2 > 1"

    def settle_shape(self, texts: list[str], shape: list[int], ends: list[int], new: bool) -> None:
        """Notes the shapes of the targets, and writes clauses where nothing else gives them."""
        draft = self.draft
        for name in self.targets:
            sliced = {
                axis
                for axis, text in enumerate(texts)
                if text.isdigit()
                or any(v.kind == "where" and v.name == text for v in self.variables)
            }
            if not new:
                old = draft.tensors[name]
                old.shape = tuple(max(a, b) for a, b in zip(old.shape, shape, strict=True))
                old.sliced &= sliced
                continue
            tensor = Tensor(tuple(shape), "f", sliced=sliced)
            tensor.is_bits = self.base in ("&", "|", "^") or name in draft.fixed
            tensor.declared = self.chance(0.3) or name in draft.fixed
            draft.tensors[name] = tensor
            if tensor.declared:
                draft.declared.add(name)
                tensor.sliced.clear()
                continue
            for axis, text in enumerate(texts):
                bare = next((v for v in self.variables if v.name == text), None)
                wanted = axis in self.sized or (not text.isdigit() and bare is None)
                natural = ends[axis] == shape[axis]
                simple = natural and axis not in self.sized and not self.is_data(text)
                if wanted and simple and self.chance(0.35):
                    wanted = False
                missing = axis not in self.sized and self.chance(0.01)
                if (wanted or self.chance(0.1) or not natural) and not missing:
                    self.clauses.append(f"{name}.{axis} = {draft.size_text(shape[axis])}")
                    tensor.sliced.discard(axis)

    def mixed(self) -> list[str]:
        """The clauses in any order, conditions in theirs."""
        found = [*self.clauses, *self.bindings]
        self.rng.shuffle(found)
        cuts = sorted(self.rng.randint(0, len(found)) for _ in self.conditions)
        for cut, test in reversed(list(zip(cuts, self.conditions, strict=True))):
            found.insert(cut, test)
        return found


# --- a case -----------------------------------------------------------------------------------


def case(seed: int, number: int, opened: Callable[[str], None] = lambda _: None) -> Case:
    """Case `number` of a sequence; `opened` is told of each draft that the rules leave open."""
    for attempt in itertools.count():
        try:
            return drawn(random.Random(f"{seed}/{number}/{attempt}"))
        except Redraw:
            continue
        except Open as why:
            opened(str(why))
    raise AssertionError


def drawn(rng: random.Random) -> Case:
    draft = Draft(rng)
    lefts: list[Forced | None] = [None] * rng.choice((1, 1, 1, 2, 2, 3))
    if draft.chance(0.4):
        lefts = [*first_lefts(rng), None][: max(2, len(lefts))]
    for forced in lefts:
        kept = draft.snapshot()
        for attempt in range(30):
            try:
                if forced is not None and draft.statements:
                    name = draft.statements[-1].partition(" ")[0].partition("(")[0]
                    forced = replace(forced, targets=(name,))
                StatementDraft(draft, forced).build()
                break
            except Redraw:
                draft.restore(kept)
                kept = draft.snapshot()
                if attempt == 29:
                    raise
    return settled(draft)


def first_lefts(rng: random.Random) -> list[Forced]:
    """Left sides of first statements: of one that fills a tensor of some size, or of two that
    write slices of one (S8)."""
    n, m = rng.choice((1, 2, 3, 5, 7)), rng.choice((2, 3, 5))
    form = rng.choice((0, 0, 0, 1, 2, 3))
    if form == 0:
        rank = rng.choice((1, 1, 2))
        spans = tuple(zip("ij", (0, 0), (rng.choice((5, 7)), m), strict=True))[:rank]
        return [Forced(tuple("ij"[:rank]), spans, slices=True)]
    if form == 1:
        cut = rng.randint(0, n)
        return [
            Forced(("i",), (("i", 0, cut),), slices=True),
            Forced(("i",), (("i", cut, n),), slices=True),
        ]
    places = [str(c) for c in rng.sample(range(4), 2)]
    if form == 2:
        return [Forced((c, "i"), (("i", 0, n),)) for c in places]
    return [Forced(("i", c), (("i", 0, n),)) for c in places]


def settled(draft: Draft) -> Case:
    rng = draft.rng
    outputs = [n for n, t in draft.tensors.items() if not t.is_input]
    last = draft.statements[-1]
    returned = [
        n
        for n in outputs
        if draft.chance(0.8)
        or n in draft.needs_initial
        or n in draft.declared
        or re.match(rf"{n}\b", last)
    ]
    inputs = {p.name: p.array for p in draft.params}
    plain = text_of(draft, returned, draft.fixed)
    definition = parse(Source(plain)).defs[0]
    machine = Machine(definition, inputs, draft.ranges, {}, Reading(), [])
    machine.infer_types()
    types = {n: machine.types[n] for n in returned}
    text = text_of(draft, returned, {n: types[n] for n in returned if n in draft.declared})
    definition = parse(Source(text)).defs[0]
    initial: dict[str, Array] = {}
    continues = {n for n in returned if draft.chance(0.2)}
    for name in returned:
        if name in draft.needs_initial or name in continues:
            shape = draft.tensors[name].shape
            flat = [rng.randint(0, 3) for _ in range(int(np.prod(shape)))]
            if types[name] == "bool":
                flat = [x % 2 for x in flat]
            initial[name] = np.array(flat, types[name]).reshape(shape)
    outcomes: list[tuple[Reading, Outcome]] = []
    for reading in READINGS:
        outcome = execute(definition, inputs, draft.ranges, initial, reading)
        if not any(same(outcome, other) for _, other in outcomes):
            outcomes.append((reading, outcome))
    return Case(
        text, inputs, initial, tuple(draft.ranges), tuple(outcomes), frozenset(draft.features)
    )


def same(a: Outcome, b: Outcome) -> bool:
    if a.arrays is None or b.arrays is None:
        return a.arrays is b.arrays and a.classes == b.classes
    return all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for x, y in zip(a.arrays.values(), b.arrays.values(), strict=True)
    )


SPELLED = {"float32": "float", "float64": "double", "int32": "int"}


def text_of(draft: Draft, returned: list[str], declared: Mapping[str, str]) -> str:
    params = ", ".join(
        f"{p.type}({', '.join(p.dims)}) {p.name}" if p.dims else f"{p.type} {p.name}"
        for p in draft.params
    )
    results = []
    for name in returned:
        if name not in declared:
            results.append(name)
            continue
        shape = draft.tensors[name].shape
        dims = ", ".join(
            next((n for n, value in draft.sizes.items() if value == size), str(size))
            for size in shape
        )
        spelled = SPELLED.get(declared[name], declared[name])
        results.append(f"{spelled}({dims}) {name}" if shape else f"{spelled} {name}")
    body = "\n".join(f"  {s}" for s in draft.statements)
    return f"def f({params}) -> ({', '.join(results)}) {{\n{body}\n}}"
