"""Puts statements of a drawn program into defs of their own, and calls of these in their place.

What the program means does not change (N4), but for what the checks of calls refuse. Names in a
called def are drawn anew, from those of the caller too, and its parameters of rank 0 may be left
out (E5).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.frontend.parser import parse
from tc.source import Source
from tests.fuzz.places.draft import SIZE_NAMES, Parameter
from tests.fuzz.places.outcomes import Ranges

SPELLED = {"float32": "float", "float64": "double", "int32": "int"}
LOCAL_NAMES = (
    "a",
    "b",
    "c",
    "u",
    "v",
    "w",
    "x",
    "y",
    "z",
    "o",
    "p",
    "q",
    "s",
    "t",
    "h",
    "x1",
    "I1",
)
LOCAL_SIZES = (*SIZE_NAMES, "A", "B", "C", "D")


@dataclass(frozen=True)
class Line:
    """A statement of a def: its text, the tensors that it writes, and the ranges of its index
    variables; those of all statements of the called def where it is a call."""

    text: str
    targets: tuple[str, ...]
    ranges: tuple[Ranges, ...]

    def names(self, known: Sequence[str]) -> list[str]:
        """Those of some names that occur."""
        return [n for n in known if re.search(rf"\b{n}\b", self.text)]

    def bounds_by(self, name: str) -> bool:
        """Whether a scalar may be a size: it is not in the values alone, or is passed on."""
        if re.search(r" = g\d+\(", self.text):
            return name in self.names([name])
        head, _, clauses = self.text.partition(" where ")
        left = re.split(r"=!? ", head, maxsplit=1)[0]
        return re.search(rf"\b{name}\b", f"{left} {clauses}") is not None


@dataclass(frozen=True)
class Head:
    """A parameter of a called def, and the tensor that is passed for it."""

    text: str
    arg: str
    default: str = ""
    is_left_out: bool = False


@dataclass
class Outline:
    """A program of several defs. `params` are the entry's, `shapes` and `types` those of its
    tensors, `sizes` those of its parameters; `kept` are the tensors that it returns."""

    rng: random.Random
    params: Sequence[Parameter]
    sizes: Mapping[str, int]
    shapes: dict[str, tuple[int, ...]]
    types: dict[str, str]
    declared: set[str]
    """Tensors whose types follow from nothing."""

    kept: list[str]
    started: set[str]
    """Tensors whose first values the caller may have to pass."""

    lines: list[Line]
    defs: list[str] = field(default_factory=list)

    def draw(self) -> bool:
        """Puts some statements that follow each other into a def; False where none can be."""
        rng = self.rng
        first = rng.randrange(len(self.lines))
        last = min(first + rng.choice((1, 1, 2, 3)), len(self.lines))
        group, before, after = self.lines[first:last], self.lines[:first], self.lines[last:]
        targets = list(dict.fromkeys(t for line in group for t in line.targets))
        if any(line.names(targets) for line in before):
            return False
        is_used = {t: t in self.kept or any(line.names([t]) for line in after) for t in targets}
        returned = [t for t in targets if is_used[t] or rng.random() < 0.2]
        if not returned:
            return False
        rng.shuffle(returned)
        read = [n for n in self.types if n not in targets and any(x.names([n]) for x in group)]
        sizes = [n for n in self.sizes if any(x.names([n]) for x in group)]
        args = self.arguments(read, sizes)
        name = f"g{len(self.defs) + 1}"
        callee, passed = self.callee(name, group, args, targets, returned)
        self.defs.append(callee)
        ranges = tuple(r for line in group for r in line.ranges)
        calls = [Line(self.call(name, returned, passed), tuple(returned), ranges)]
        again = self.fresh(len(returned))
        if again and not self.started & set(targets) and rng.random() < 0.25:
            calls.append(Line(self.call(name, again, passed), tuple(again), ranges))
            for new, old in zip(again, returned, strict=True):
                self.shapes[new], self.types[new] = self.shapes[old], self.types[old]
            self.kept += [n for n in again if rng.random() < 0.7]
        self.lines = [*before, *calls, *after]
        return True

    def arguments(self, read: Sequence[str], sizes: Sequence[str]) -> list[str]:
        """The tensors that are read, others whose dimensions are the sizes, in any order."""
        dims = {p.name: p.dims for p in self.params}
        args = list(read)
        for size in sizes:
            if not any(size in dims.get(a, ()) for a in args):
                args.append(self.rng.choice([n for n, own in dims.items() if size in own]))
        self.rng.shuffle(args)
        return args

    def callee(
        self,
        name: str,
        group: Sequence[Line],
        args: Sequence[str],
        targets: Sequence[str],
        returned: Sequence[str],
    ) -> tuple[str, list[str]]:
        """The text of the def, and the tensors that a call passes: not those of the last parameters
        that have their values as defaults."""
        names = self.rng.sample(LOCAL_NAMES, len(args) + len(targets))
        tensors = dict(zip((*args, *targets), names, strict=True))
        sizes: dict[str, str] = {}
        heads = [self.head(arg, tensors[arg], group, sizes) for arg in args]
        heads.sort(key=lambda head: (bool(head.default), head.is_left_out))
        params = ", ".join(head.text for head in heads)
        results = ", ".join(self.result(t, tensors[t]) for t in returned)
        body = "\n".join(f"  {with_names(line.text, {**tensors, **sizes})}" for line in group)
        passed = [head.arg for head in heads if not head.is_left_out]
        return f"def {name}({params}) -> ({results}) {{\n{body}\n}}", passed

    def result(self, target: str, name: str) -> str:
        """A return, which may be declared."""
        if target not in self.declared and self.rng.random() < 0.9:
            return name
        return self.declaration(target, name, [str(size) for size in self.shapes[target]])

    def declaration(self, tensor: str, name: str, dims: Sequence[str]) -> str:
        spelled = SPELLED.get(self.types[tensor], self.types[tensor])
        return f"{spelled}({', '.join(dims)}) {name}" if dims else f"{spelled} {name}"

    def head(self, arg: str, name: str, group: Sequence[Line], sizes: dict[str, str]) -> Head:
        """The parameter for a tensor; `sizes` are those that are named so far."""
        rng = self.rng
        given = next((p for p in self.params if p.name == arg), None)
        dims = []
        for axis, size in enumerate(self.shapes[arg]):
            dim = f"{arg}.{axis}" if given is None else given.dims[axis]
            free = [n for n in LOCAL_SIZES if n not in sizes.values()]
            is_named = not dim.isdigit() and (given is not None or rng.random() < 0.7)
            dims.append(sizes.setdefault(dim, rng.choice(free)) if is_named and free else str(size))
        text = self.declaration(arg, name, dims)
        default = "" if given is None or dims else literal_of(given, rng)
        if not default or rng.random() < 0.5:
            return Head(text, arg)
        if rng.random() < 0.6 and not any(line.bounds_by(arg) for line in group):
            return Head(f"{text} = {default}", arg, default, True)
        return Head(f"{text} = {rng.choice((default, '1'))}", arg, default)

    def call(self, name: str, targets: Sequence[str], args: Sequence[str]) -> str:
        results = ", ".join(targets)
        if len(targets) > 1 and self.rng.random() < 0.5:
            results = f"({results})"
        return f"{results} = {name}({', '.join(args)})"

    def fresh(self, count: int) -> list[str]:
        """Names that nothing has yet."""
        used = " ".join(line.text for line in self.lines)
        free = [f"r{k}" for k in range(1, 20) if not re.search(rf"\br{k}\b", used)]
        return free[:count]


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A statement with other names of tensors and sizes."""
    return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), text)


def literal_of(param: Parameter, rng: random.Random) -> str:
    """The value of a parameter of rank 0 as a literal with a sign; "" where it has none."""
    value = param.array.item()
    if isinstance(value, float):
        if value != value or abs(value) > 1000:
            return ""
        return repr(value) if rng.random() < 0.6 or value % 1 else repr(int(value))
    return repr(int(value))


def lines_of(text: str, statements: Sequence[str], ranges: Sequence[Ranges]) -> list[Line]:
    """The statements of a text of one def."""
    body = parse(Source(text)).defs[0].body
    return [
        Line(s, tuple(n.text for n in parsed.written), (r,))
        for s, parsed, r in zip(statements, body, ranges, strict=True)
    ]


def with_default(param: Parameter, rng: random.Random) -> Parameter:
    """A parameter of rank 0 with its value as default, if that is a literal."""
    return replace(param, default=literal_of(param, rng))
