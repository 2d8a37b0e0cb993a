"""Range inference by counting: random subscripts as text and as Python functions, and the rounds
of G2 with each bound found by trying all values. Independent of tc's arithmetic and of isl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

LIMIT = 160
"""What no value below this leaves is taken as never left: the strategies keep to small numbers."""

Point = dict[str, int]


@dataclass(frozen=True)
class Subscript:
    """`text` in the language, `python` the same in Python's; variables as written, those that
    occur outside %, and whether it is a sum of multiples."""

    text: str
    python: str
    variables: tuple[str, ...]
    boundable: frozenset[str]
    is_linear: bool

    def at(self, point: Point) -> int:
        return int(eval(self.python, {"min": min, "max": max}, dict(point)))

    @property
    def code(self) -> Callable[[Point], int]:
        compiled = compile(self.python, "subscript", "eval")
        scope = {"min": min, "max": max}
        return lambda point: int(eval(compiled, scope, point))


@dataclass(frozen=True)
class BruteAccess:
    tensor: str
    extent: int
    subscript: Subscript


class Refused(Exception):
    """The brute force finds an error of this rule."""


def join(left: Subscript, right: Subscript, text: str, python: str, linear: bool) -> Subscript:
    return Subscript(
        text.format(left.text, right.text),
        python.format(left.python, right.python),
        tuple(dict.fromkeys((*left.variables, *right.variables))),
        left.boundable | right.boundable,
        linear and left.is_linear and right.is_linear,
    )


def constant(value: int) -> Subscript:
    text = f"({value})" if value < 0 else str(value)
    return Subscript(text, text, (), frozenset(), True)


@st.composite
def linear_subscripts(draw: Any, names: tuple[str, ...]) -> Subscript:
    """Sums of one or two variables with small coefficients and a small constant."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    total = constant(draw(st.sampled_from((0, 0, 0, 1, 2, -1, 5))))
    for name in chosen:
        factor = draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2)))
        term = Subscript(f"{factor} * {name}", f"{factor} * {name}", (name,), frozenset({name}),
                         True)  # fmt: skip
        total = join(total, term, "{} + {}", "{} + {}", True)
    return total


@st.composite
def subscripts(draw: Any, names: tuple[str, ...], depth: int = 2) -> Subscript:
    """Quasi-affine subscripts."""
    kind = draw(st.sampled_from(("linear", "linear", "/", "%", "min", "max", "?", "sum", "cast")))
    if kind == "linear" or depth == 0:
        return draw(linear_subscripts(names))
    inner = draw(subscripts(names, depth - 1))
    number = draw(st.integers(1, 4))
    match kind:
        case "/":
            return join(inner, constant(number), "(({}) / {})", "(({}) // {})", False)
        case "%":
            made = join(inner, constant(number), "(({}) % {})", "(({}) % {})", False)
            return Subscript(made.text, made.python, made.variables, frozenset(), False)
        case "cast":
            return Subscript(f"int16({inner.text})", inner.python, inner.variables,
                             inner.boundable, inner.is_linear)  # fmt: skip
    other = draw(subscripts(names, depth - 1))
    match kind:
        case "min" | "max":
            call = kind + "({}, {})"
            return join(inner, other, call, call, False)
        case "sum":
            op = draw(st.sampled_from(("+", "-")))
            both = f"(({{}}) {op} ({{}}))"
            return join(inner, other, both, both, True)
        case _:
            condition = draw(conditions(names))
            chosen = join(inner, other, "{} : {}", "{} else {}", False)
            return Subscript(
                f"({condition.text} ? {chosen.text})",
                f"({inner.python} if {condition.python} else {other.python})",
                tuple(dict.fromkeys((*condition.variables, *chosen.variables))),
                condition.boundable | chosen.boundable,
                False,
            )


@st.composite
def conditions(draw: Any, names: tuple[str, ...]) -> Subscript:
    """Affine conditions."""
    op = draw(st.sampled_from(("<", "<=", ">", ">=", "==", "!=")))
    left = draw(linear_subscripts(names))
    right = constant(draw(st.integers(0, 5)))
    remainder = draw(st.integers(0, 3))
    if remainder > 1:
        left = join(left, constant(remainder), "(({}) % {})", "(({}) % {})", False)
        left = Subscript(left.text, left.python, left.variables, frozenset(), False)
    return join(left, right, f"({{}}) {op} {{}}", f"({{}}) {op} {{}}", False)


def brute_ranges(
    accesses: list[BruteAccess], variables: tuple[str, ...], where: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, tuple[int, int]], list[BruteAccess]]:
    """The ranges, and the accesses that took no part. Raises Refused("G5")."""
    ranges = dict(where)
    used: list[BruteAccess] = []
    while True:
        bounds: dict[str, list[int]] = {}
        for access in accesses:
            free = [v for v in access.subscript.variables if v not in ranges]
            if len(free) == 1 and free[0] in access.subscript.boundable:
                end = brute_end(access, free[0], ranges)
                if end is not None:
                    used.append(access)
                    bounds.setdefault(free[0], []).append(end)
        if not bounds:
            break
        for name, ends in bounds.items():
            ranges[name] = (0, min(ends))
    if any(name not in ranges for name in variables):
        raise Refused("G5")
    return ranges, [a for a in accesses if a not in used]


def brute_end(
    access: BruteAccess, variable: str, ranges: Mapping[str, tuple[int, int]]
) -> int | None:
    """The first value with which an access may leave its tensor, with G5's cases at 0."""
    others = [v for v in access.subscript.variables if v != variable]
    code, extent = access.subscript.code, access.extent
    points = [
        dict(zip(others, values, strict=True))
        for values in product(*(range(*ranges[v]) for v in others))
    ]
    if not points:
        return None
    end = None
    for value in range(LIMIT):
        if any(not 0 <= code({**p, variable: value}) < extent for p in points):
            end = value
            break
    if end != 0:
        return end
    first = [code({**p, variable: 0}) for p in points]
    falls = any(
        code({**p, variable: v + 1}) < code({**p, variable: v}) for p in points for v in range(40)
    )
    if access.subscript.is_linear and falls and extent == 0:
        return 0
    if falls or min(first) < 0 or max(first) != extent:
        raise Refused("G5")
    return 0


def leaves(
    access: BruteAccess,
    ranges: Mapping[str, tuple[int, int]],
    guard: Callable[[Point], bool] = lambda _: True,
) -> bool:
    """Whether an access leaves its tensor somewhere in the box where the guard holds."""
    code = access.subscript.code
    return any(
        guard(point) and not 0 <= code(point) < access.extent
        for values in product(*(range(*r) for r in ranges.values()))
        for point in [dict(zip(ranges, values, strict=True))]
    )
