"""The C functions on vectors that move values between lanes: shuffles and reductions."""

from __future__ import annotations

from collections.abc import Callable

from tc.backends.clike.templates import INLINE, function
from tc.backends.clike.types import C_TYPES
from tc.dtypes import DType

HAS_SHUFFLES = "defined(__clang__) || __GNUC__ >= 12"
_OF_MASKS = {"any": "|", "all": "&", "odd": "^"}
_OPERATORS = {"sum": "+", "product": "*", "and": "&", "or": "|", "xor": "^", **_OF_MASKS}
REDUCTIONS = (*_OPERATORS, "least", "greatest")


def lanes_text(lanes: tuple[int, ...]) -> str:
    """The lanes of a shuffle as a part of its name; `lanes_of` reads it.

    >>> lanes_text((0, 1, 2, 3, 9, 8)), lanes_of("0to3_9_8")
    ('0to3_9_8', (0, 1, 2, 3, 9, 8))
    """
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][-1] + 1:
            runs[-1].append(lane)
        else:
            runs.append([lane])
    parts = [f"{r[0]}to{r[-1]}" if len(r) > 2 else "_".join(map(str, r)) for r in runs]
    return "_".join(parts)


def lanes_of(text: str) -> tuple[int, ...]:
    lanes: list[int] = []
    for part in text.split("_"):
        first, _, last = part.partition("to")
        lanes += range(int(first), int(last or first) + 1)
    return tuple(lanes)


def shuffle_name(source: DType, lanes: tuple[int, ...]) -> str:
    return f"tc_shuffle_{source}_{lanes_text(lanes)}"


def shuffle(source: DType, lanes: tuple[int, ...]) -> str:
    target = source.vector(len(lanes))
    picked = ", ".join(
        f"x[{lane}]" if lane < source.lanes else f"y[{lane - source.lanes}]" for lane in lanes
    )
    return function(
        f"{INLINE} {target} {shuffle_name(source, lanes)}({source} x, {source} y)",
        f"#if {HAS_SHUFFLES}",
        f"return __builtin_shufflevector(x, y, {', '.join(map(str, lanes))});",
        "#else",
        f"return ({target}){{{picked}}};",
        "#endif",
    )


def reduction(family: str, dtype: DType) -> str:
    """Halves of the lanes are combined until two lanes are left. Those of masks are bool."""
    element, joined = C_TYPES[dtype.scalar], _joined(family)
    of_masks = family in _OF_MASKS
    result = "bool" if of_masks else element
    lines, lanes = [], dtype.lanes
    while lanes > 2:
        whole, part, name = dtype.vector(lanes), dtype.vector(lanes // 2), f"x{lanes}"
        sides = [
            f"{shuffle_name(whole, tuple(side))}({name}, {name})"
            for side in (range(lanes // 2), range(lanes // 2, lanes))
        ]
        lanes //= 2
        lines.append(f"{part} x{lanes} = {joined(part, *sides)};")
    last = joined(dtype.scalar, "x2[0]", "x2[1]")
    lines.append(f"return {last}{' != 0' if of_masks else ''};")
    return function(f"{INLINE} {result} tc_{family}_{dtype}({dtype} x{dtype.lanes})", *lines)


def _joined(family: str) -> Callable[[DType, str, str], str]:
    """How two values, of a vector or a scalar, are combined to one."""

    def call(type_: DType, left: str, right: str) -> str:
        return f"tc_{'min' if family == 'least' else 'max'}_{type_}({left}, {right})"

    def infix(type_: DType, left: str, right: str) -> str:
        op = _OPERATORS[family]
        if type_.is_float:
            return f"{left} {op} {right}"
        name = str(type_) if type_.lanes > 1 else C_TYPES[type_]
        wide = f"uint{type_.bits}x{type_.lanes}"
        if type_.lanes == 1:
            wide = f"uint{max(type_.bits, 32)}_t"
        return f"({name})(({wide}){left} {op} ({wide}){right})"

    return infix if family in _OPERATORS else call
