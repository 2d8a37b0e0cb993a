"""A program under construction: its inputs, sizes and tensors, and expressions over them read as
Python."""

from __future__ import annotations

import ast
import functools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

LENGTHS = (1, 2, 2, 3, 3, 3, 5, 5, 7)
EMPTY = 0.04
"""How often a size is 0."""

MOST_POINTS = 300
SIZE_NAMES = ("N", "M", "K", "L", "Q", "R")
INDEX_NAMES = ("i", "j", "k", "n", "m", "e", "d")


class Redraw(Exception):
    """A statement that does not fit what is there."""


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
    default: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer, which counts as a size does."""
        return not self.dims and self.array.dtype.kind in "iu"

    @property
    def text(self) -> str:
        type = f"{self.type}({', '.join(self.dims)})" if self.dims else self.type
        return f"{type} {self.name}" + (f" = {self.default}" if self.default else "")


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
        scalars = [p.name for p in self.params if p.is_whole and int(p.array) == value]
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
                forms += [f"2 * {name}", f"({name} << 1)"]
            bits = [f"({name} {rest})" for rest in (">> 1", "| 1", "^ 3", "& 6", "& ~1")]
            if self.chance(0.1):
                forms += [form for form in bits if self.known(form, {}) == value]
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

    def numbers(self, shape: tuple[int, ...], kinds: str = "iiiffffub") -> str:
        rng = self.rng
        kind = rng.choice(kinds)
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

        found: dict[str, Any] = {"min": min, "max": max, "pad": pad, "popc": int.bit_count}
        found |= {"__builtins__": {}, **self.sizes}
        for p in self.params:
            if p.dims or p.is_whole:
                found[p.name] = reader(p.array) if p.dims else int(p.array)
            found[f"shape_{p.name}"] = p.array.shape
        return found

    def known(self, text: str, at: Mapping[str, int]) -> int:
        try:
            return int(eval(as_python(text), {**self.environment(), **at}))
        except (IndexError, NameError, TypeError, ValueError):
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


# --- expressions read as Python ---------------------------------------------------------------


def pad(e: Callable[[], int], beyond: Callable[[], int]) -> int:
    try:
        return e()
    except IndexError:
        return beyond()


class _Lazy(ast.NodeTransformer):
    """Makes functions of the operands of `pad`."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "pad":
            none = ast.arguments([], [], None, [], [], None, [])
            node.args = [ast.Lambda(none, arg) for arg in node.args]
        return node


@functools.cache
def as_python(text: str) -> CodeType:
    text = re.sub(r"(?<!/)/(?!/)", "//", text)
    text = re.sub(r"([A-Za-z]\w*)\.(\d)", r"shape_\1[\2]", text)
    tree = ast.fix_missing_locations(_Lazy().visit(ast.parse(text, mode="eval")))
    return compile(tree, "<expression>", "eval")
