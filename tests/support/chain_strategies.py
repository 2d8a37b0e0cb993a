"""Programs at sizes of several tiles: chains of statements that share loops, each with extents,
offsets and windows of its own, on small integers, so that every order gives the same sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

VARIABLES = "ijk"
SIZES = (1, 3, 7, 8, 13, 16, 17, 31, 33, 40, 67)
Shape = tuple[int, ...]


@dataclass
class Chain:
    """A program while it is drawn: lines, and the tensors so far with their shapes."""

    draw: Callable[[Any], Any]
    tensors: dict[str, Shape]
    lines: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def add(self) -> None:
        kind = self.draw(st.sampled_from(KINDS))
        source = self.draw(st.sampled_from(sorted(self.tensors)))
        name = f"t{len(self.made)}"
        shape = kind(self, name, source)
        if shape is not None:
            self.tensors[name] = shape
            self.made.append(name)

    def axis(self, shape: Shape) -> int:
        return int(self.draw(st.integers(0, len(shape) - 1)))

    def choose(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))


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


def pointwise(chain: Chain, name: str, source: str) -> Shape:
    other = chain.choose(*sorted(chain.tensors))
    shape = common(chain.tensors[source], chain.tensors[other])
    place = subscripts(shape)
    line = f"{name}({place}) = {source}({place}) + 2 * {other}({place}) where {ranges(shape)}"
    chain.lines.append(line)
    return shape


def window(chain: Chain, name: str, source: str) -> Shape | None:
    shape, size = chain.tensors[source], chain.choose(2, 3, 5)
    axis = chain.axis(shape)
    if shape[axis] < size:
        return None
    moved = subscripts(shape, axis, f"{VARIABLES[axis]} + w")
    op = chain.choose("+=!", "max=!")
    chain.lines.append(f"{name}({subscripts(shape)}) {op} {source}({moved}) where w in 0:{size}")
    return replaced(shape, axis, shape[axis] - size + 1)


def padded(chain: Chain, name: str, source: str) -> Shape:
    shape, size = chain.tensors[source], chain.choose(2, 3, 5)
    axis, step, before = chain.axis(shape), chain.choose(1, 1, 2, 3), chain.choose(0, 1, 2)
    result = replaced(shape, axis, -(-shape[axis] // step))
    moved = subscripts(shape, axis, f"{step} * {VARIABLES[axis]} + w - {before}")
    op, fill = chain.choose("+=!", "max=!"), chain.choose(0, 1)
    chain.lines.append(
        f"{name}({subscripts(shape)}) {op} pad({source}({moved}), {fill})"
        f" where w in 0:{size}, {ranges(result)}"
    )
    return result


def strided(chain: Chain, name: str, source: str) -> Shape | None:
    shape, step = chain.tensors[source], chain.choose(2, 3)
    axis = chain.axis(shape)
    result = replaced(shape, axis, shape[axis] // step)
    if 0 in result:
        return None
    moved = subscripts(shape, axis, f"{step} * {VARIABLES[axis]}")
    chain.lines.append(f"{name}({subscripts(shape)}) = {source}({moved}) where {ranges(result)}")
    return result


def summed(chain: Chain, name: str, source: str) -> Shape:
    shape = chain.tensors[source]
    axis, op = chain.axis(shape), chain.choose("+=!", "max=!", "min=!")
    own = VARIABLES[axis]
    chain.lines.append(
        f"{name}({subscripts(shape)}) {op} {source}({subscripts(shape, axis, 'r')})"
        f" where {own} in 0:1"
    )
    return replaced(shape, axis, 1)


def product(chain: Chain, name: str, source: str) -> Shape | None:
    """With the rows of another tensor, of which only the first are, where there are more axes."""
    shape, other = chain.tensors[source], chain.choose(*sorted(chain.tensors))
    last = len(shape) - 1
    if last < 1 or chain.tensors[other][last] != shape[last]:
        return None
    rows = ", ".join((VARIABLES[last], *["0"] * (last - 1), "r"))
    left = subscripts(shape, last, "r")
    chain.lines.append(f"{name}({subscripts(shape)}) +=! {source}({left}) * {other}({rows})")
    return replaced(shape, last, chain.tensors[other][0])


def transposed(chain: Chain, name: str, source: str) -> Shape:
    shape = chain.tensors[source]
    order = chain.draw(st.permutations(range(len(shape))))
    place = ", ".join(VARIABLES[axis] for axis in order)
    chain.lines.append(f"{name}({subscripts(shape)}) = {source}({place})")
    return tuple(shape[order.index(axis)] for axis in range(len(shape)))


def changed(chain: Chain, _name: str, source: str) -> None:
    """Part of an earlier tensor, from some place on."""
    if not chain.made:
        return
    name = chain.choose(*chain.made)
    shape = common(chain.tensors[name], chain.tensors[source])
    begins = {axis: chain.choose(0, 0, 1, 3) for axis in range(len(shape))}
    begins = {axis: min(begin, shape[axis] - 1) for axis, begin in begins.items()}
    place, op = subscripts(shape), chain.choose("+=", "=", "max=")
    own = f"{name}({place}) + " if op == "=" else ""
    chain.lines.append(f"{name}({place}) {op} {own}{source}({place}) where {ranges(shape, begins)}")


KINDS = (pointwise, window, padded, strided, summed, product, transposed, changed)


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, list[Any]]:
    """A text and its inputs."""
    shape = tuple(draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)))
    shape = tuple(min(n, 40) if len(shape) == 3 else n for n in shape)
    chain = Chain(draw, {"A": shape, "B": shape})
    for _ in range(draw(st.integers(2, 8))):
        chain.add()
    if not chain.made:
        pointwise(chain, "t0", "A")
        chain.made.append("t0")
    flags = draw(st.lists(st.booleans(), min_size=len(chain.made), max_size=len(chain.made)))
    outputs = [n for n, flag in zip(chain.made, flags, strict=True) if flag] or chain.made[-1:]
    sizes = ", ".join(VARIABLES[: len(shape)].upper())
    body = "\n".join(f"  {line}" for line in chain.lines)
    text = f"def f(int({sizes}) A, int({sizes}) B) -> ({', '.join(outputs)}) {{\n{body}\n}}"
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    return text, [rng.integers(-3, 4, shape).astype(np.int32) for _ in range(2)]
