"""Programs at sizes of several tiles: chains of statements that share loops, each with extents,
offsets and windows of its own.

Every order of operations gives the same sums where a chain is `exact`: then its values are small
integers, or integers that become halves between the statements (Y8) but are exact within one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

VARIABLES = "ijk"
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 40, 67)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """A text and its inputs. `exact`: a kernel gives what the interpreter does, to the bit."""

    text: str
    inputs: list[Any] = field(repr=False)
    exact: bool

    def __repr__(self) -> str:
        return f"{[a.shape for a in self.inputs]}\n{self.text}"


@dataclass
class Draft:
    """A program while it is drawn: lines, and the tensors so far with their shapes."""

    random: Random
    halves: bool
    tensors: dict[str, Shape]
    lines: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def add(self, kind: Kind, source: str = "", other: str = "") -> str:
        """A statement, unless there is none of the kind for its operands, of which those not given
        are drawn; gives the last tensor."""
        name = f"t{len(self.made)}"
        shape = kind(self, name, source or self.tensor(), other or self.tensor())
        if shape is not None:
            self.tensors[name] = shape
            self.made.append(name)
        return list(self.tensors)[-1]

    def tensor(self) -> str:
        """More often than others the last, so that statements share loops."""
        names = list(self.tensors)
        return str(self.choose(*names, *names[-1:] * len(names)))

    def like(self, name: str) -> str:
        """Another tensor with rows as long, where there is one."""
        length = self.tensors[name][-1]
        alike = [n for n, s in self.tensors.items() if s[-1] == length and n != name]
        return str(self.choose(*alike or [name]))

    def axis(self, shape: Shape) -> int:
        return self.random.randrange(len(shape))

    def order(self, rank: int) -> list[int]:
        return self.random.sample(range(rank), rank)

    def choose(self, *values: Any) -> Any:
        return self.random.choice(values)


Kind = Callable[[Draft, str, str, str], "Shape | None"]
"""Draws a statement for a new tensor from one or two others; gives its shape, None where there is
no new one."""


def subscripts(shape: Shape, changed: int = -1, text: str = "") -> str:
    names = VARIABLES[: len(shape)]
    return ", ".join(text if axis == changed else v for axis, v in enumerate(names))


def ranges(shape: Shape, begins: dict[int, int] | None = None) -> str:
    starts = begins or {}
    pairs = zip(VARIABLES, shape, strict=False)
    return ", ".join(f"{v} in {starts.get(axis, 0)}:{n}" for axis, (v, n) in enumerate(pairs))


def replaced(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def common(left: Shape, right: Shape) -> Shape:
    return tuple(min(pair) for pair in zip(left, right, strict=True))


def pointwise(draft: Draft, name: str, source: str, other: str) -> Shape:
    """With another tensor, whose dimensions may come in another order."""
    rank = len(draft.tensors[other])
    order = draft.choose(list(range(rank)), list(range(rank)), draft.order(rank))
    turned = tuple(draft.tensors[other][order.index(axis)] for axis in range(rank))
    shape = common(draft.tensors[source], turned)
    place, its = subscripts(shape), ", ".join(VARIABLES[axis] for axis in order)
    line = f"{name}({place}) = {source}({place}) + 2 * {other}({its}) where {ranges(shape)}"
    draft.lines.append(line)
    return shape


def neighbours(draft: Draft, name: str, source: str, _other: str) -> Shape:
    """Each element with those beside it, or nothing beyond the ends."""
    shape = draft.tensors[source]
    axis, far = draft.axis(shape), draft.choose(1, 1, 2)
    terms = [f"{source}({subscripts(shape)})"]
    for step in draft.choose([-far], [far], [-far, far]):
        moved = subscripts(shape, axis, f"{VARIABLES[axis]} {'-+'[step > 0]} {abs(step)}")
        terms.append(f"pad({source}({moved}), {draft.choose(0, 0, 1)})")
    draft.lines.append(f"{name}({subscripts(shape)}) = {' + '.join(terms)} where {ranges(shape)}")
    return shape


def window(draft: Draft, name: str, source: str, _other: str) -> Shape | None:
    shape, size = draft.tensors[source], draft.choose(2, 3, 5)
    axis = draft.axis(shape)
    if shape[axis] < size:
        return None
    moved = subscripts(shape, axis, f"{VARIABLES[axis]} + w")
    op = draft.choose("+=!", "max=!")
    draft.lines.append(f"{name}({subscripts(shape)}) {op} {source}({moved}) where w in 0:{size}")
    return replaced(shape, axis, shape[axis] - size + 1)


def padded(draft: Draft, name: str, source: str, _other: str) -> Shape:
    shape, size = draft.tensors[source], draft.choose(2, 3, 5)
    axis, step, before = draft.axis(shape), draft.choose(1, 1, 2, 3), draft.choose(0, 1, 2)
    result = replaced(shape, axis, -(-shape[axis] // step))
    moved = subscripts(shape, axis, f"{step} * {VARIABLES[axis]} + w - {before}")
    op, fill = draft.choose("+=!", "max=!"), draft.choose(0, 0, 1)
    draft.lines.append(
        f"{name}({subscripts(shape)}) {op} pad({source}({moved}), {fill})"
        f" where w in 0:{size}, {ranges(result)}"
    )
    return result


def strided(draft: Draft, name: str, source: str, _other: str) -> Shape | None:
    shape, step = draft.tensors[source], draft.choose(2, 3)
    axis = draft.axis(shape)
    result = replaced(shape, axis, shape[axis] // step)
    if 0 in result:
        return None
    moved = subscripts(shape, axis, f"{step} * {VARIABLES[axis]}")
    draft.lines.append(f"{name}({subscripts(shape)}) = {source}({moved}) where {ranges(result)}")
    return result


def summed(draft: Draft, name: str, source: str, _other: str) -> Shape:
    shape = draft.tensors[source]
    axis, op = draft.axis(shape), draft.choose("+=!", "max=!", "min=!")
    own = VARIABLES[axis]
    draft.lines.append(
        f"{name}({subscripts(shape)}) {op} {source}({subscripts(shape, axis, 'r')})"
        f" where {own} in 0:1"
    )
    return replaced(shape, axis, 1)


def product(draft: Draft, name: str, source: str, other: str) -> Shape | None:
    """With the rows of another tensor, of which only the first are, where there are more axes;
    not of halves, as sums of products of these are not exact even within a statement."""
    shape = draft.tensors[source]
    last = len(shape) - 1
    if last < 1 or draft.halves or draft.tensors[other][last] != shape[last]:
        return None
    rows = ", ".join((VARIABLES[last], *["0"] * (last - 1), "r"))
    left = subscripts(shape, last, "r")
    draft.lines.append(f"{name}({subscripts(shape)}) +=! {source}({left}) * {other}({rows})")
    return replaced(shape, last, draft.tensors[other][0])


def transposed(draft: Draft, name: str, source: str, _other: str) -> Shape:
    shape = draft.tensors[source]
    order = draft.order(len(shape))
    place = ", ".join(VARIABLES[axis] for axis in order)
    draft.lines.append(f"{name}({subscripts(shape)}) = {source}({place})")
    return tuple(shape[order.index(axis)] for axis in range(len(shape)))


def changed(draft: Draft, _name: str, name: str, source: str) -> None:
    """Part of an earlier tensor, from some place on, by another."""
    if name not in draft.made:
        return
    shape = common(draft.tensors[name], draft.tensors[source])
    late = draft.choose([draft.axis(shape)], range(len(shape)))
    begins = {axis: min(draft.choose(1, 1, 3), shape[axis] - 1) for axis in late}
    place, op = subscripts(shape), draft.choose("+=", "=", "max=", "set")
    value = {"=": f"{name}({place}) + {source}({place})", "set": "1"}.get(op, f"{source}({place})")
    where = ranges(shape, begins)
    draft.lines.append(f"{name}({place}) {op if op != 'set' else '='} {value} where {where}")


# --- statements that belong together ------------------------------------------------------------


def around(draft: Draft) -> None:
    """A tensor is read beside and beyond where it is computed."""
    made = draft.add(draft.choose(pointwise, strided, transposed))
    draft.add(draft.choose(neighbours, padded), made)


def begun_later(draft: Draft) -> None:
    """A tensor is changed from some place on, and then read."""
    made = draft.add(draft.choose(pointwise, pointwise, product, neighbours))
    draft.add(changed, made, draft.like(made))
    kind = draft.choose(product, product, product, pointwise, neighbours)
    operands = (made, draft.like(made))
    draft.add(kind, *draft.choose(operands, operands[::-1]))


def read_twice(draft: Draft) -> None:
    """Two statements read an operand, each in its own order."""
    operand = draft.choose("A", "B")
    made = draft.add(product, draft.like(operand), operand)
    draft.add(pointwise, *draft.choose((made, operand), (operand, made)))


def in_row(draft: Draft) -> None:
    """Each of some statements uses the one before."""
    made = ""
    for _ in range(draft.choose(2, 3)):
        made = draft.add(pointwise, made)


def alone(draft: Draft) -> None:
    """A contraction, which may be left to a library if nothing else is drawn."""
    draft.add(product, *draft.choose(("A", "B"), ("B", "A")))


KINDS: tuple[Kind, ...] = (
    *(pointwise, neighbours, window, padded, strided, summed),
    *(product, product, transposed, changed, changed),
)
GROUPS: tuple[Callable[[Draft], None], ...] = (
    *(around, around, begun_later, begun_later, read_twice, read_twice, in_row, alone),
)
OF_HALVES = (around, begun_later, in_row, in_row)


def chain(seed: int) -> Chain:
    """The program that a number stands for."""
    random = Random(seed)
    spelling = random.choice(["int", "int", "float", "float", "half"])
    extents = [*random.sample(SIZES, 2) * 4, 1]
    shape = tuple(random.choices(extents, k=random.choice([1, 2, 2, 2, 3])))
    shape = tuple(min(n, 40) if len(shape) == 3 else n for n in shape)
    other = (random.choice([shape[0], *extents]), *shape[1:])
    draft = Draft(random, spelling == "half", {"A": shape, "B": other})
    for _ in range(random.choice([0, 0, 0, 0, 1, 2])):
        draft.add(random.choice(KINDS))
    random.choice(OF_HALVES if draft.halves else GROUPS)(draft)
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        draft.add(random.choice(KINDS))
    if not draft.made:
        draft.add(pointwise)
    *others, last = draft.made
    outputs = [*(name for name in others if random.random() < 0.4), last]
    rest = VARIABLES[1 : len(shape)].upper()
    parameters = [f"{spelling}({', '.join((n, *rest))}) {name}" for n, name in ("IA", "LB")]
    body = "\n".join(f"  {line}" for line in draft.lines)
    text = f"def f({', '.join(parameters)}) -> ({', '.join(outputs)}) {{\n{body}\n}}"
    rng = np.random.default_rng(seed)
    inputs = [numbers(rng, spelling, s) for s in (shape, other)]
    return Chain(text, inputs, spelling != "float")


def chains() -> st.SearchStrategy[Chain]:
    """The whole of a program comes from one number: where each choice is drawn on its own,
    Hypothesis spends most examples on variations of a few programs."""
    return st.builds(chain, st.integers(0, 2**32 - 1))


def numbers(rng: np.random.Generator, spelling: str, shape: Shape) -> Any:
    match spelling:
        case "int":
            return rng.integers(-3, 4, shape).astype(np.int32)
        case "half":
            return rng.integers(-2047, 2048, shape).astype(np.float16)
    return rng.standard_normal(shape, np.float32)
