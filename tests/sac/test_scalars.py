"""Conditions and indices that are made of integer scalars: each operation wraps in its own type,
though tc computes its affine conditions and subscripts in int64 (Y9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
import tc.sac

LARGE = np.uint64(2**63 + 5)
X = np.arange(10, 20, dtype=np.int32)
TYPES = dict(
    zip(
        ["byte", "int8", "int16", "uint16", "int", "uint32", "int64", "uint64"],
        [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64],
        strict=True,
    )
)
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

# An expression of SaC in the scalars `a`, `b` and x = [10,11,...,19], the scalars, what is due.
CASES: list[tuple[str, Any, Any, Any]] = [
    ("(1 - a) <= 3", np.uint8(7), np.uint8(0), False),  # 250 <= 3
    ("prod(1 - a) <= (!8)", np.uint8(7), np.uint8(0), False),
    ("(a + 1) > a", np.int32(2**31 - 1), np.int32(0), False),  # -2**31
    ("toi(1 - a) + 5 <= 3", np.uint8(7), np.uint8(0), False),  # 255 <= 3
    ("a * a == 0", np.int16(256), np.int16(0), True),
    ("-a > 0", np.int8(-128), np.int8(0), False),  # -128
    ("abs(a) < 0", np.int8(-128), np.int8(0), True),  # -128
    ("(a + b > 0 ? a + b : 7) < 0", np.int8(100), np.int8(100), False),  # -56, so 7
    ("(a - b) / 2 == 127", np.uint8(0), np.uint8(1), True),  # 255 / 2
    ("a > 5", LARGE, np.uint64(0), True),
    ("max(a, b) > 5", LARGE, np.uint64(2), True),
    ("(a - b + max(a, b)) > a", LARGE, LARGE, False),
    ("toi(a - b) < 9 && a > b", LARGE, np.uint64(2**63), True),
    ("(abs(83) - 126) > a", np.uint16(12564), np.uint16(0), True),  # 65493
    ("(5 / 2 - 126) + a == 65535", np.uint16(123), np.uint16(0), True),  # 65412 + 123
    ("x[toi(1 - a) % 7]", np.uint8(7), np.uint8(0), 15),  # 250 % 7
    ("x[toi(1 - a) - 250]", np.uint8(7), np.uint8(0), 10),
    # an index counts in int64, whatever type the integer has that it is
    ("{ [i] -> 100 / (i % 3 - 4) | [i] < [4] }[a % 4]", np.uint8(9), np.uint8(0), -34),
    ("{ [i] -> x[i] / (i % 3 - 4) | [i] < [4] }[byte(a) % 4]", np.int64(9), np.int8(0), -4),
    ("{ [i] -> i - 200 < -190 | [i] < [90] }[a]", np.int8(12), np.int8(0), False),
    ("{ [i] -> i * 100000 / 7 | [i] < [90000] }[a]", np.int32(50000), np.int8(0), 714285714),
    ("{ iv -> x[iv + 1] * iv[0] * 100 | iv < [3] }[[a]]", np.int8(2), np.int8(0), 2600),
]


def value_of(text: str, a: Any, b: Any, *, is_lowered: bool) -> Any:
    """The value of an expression of `a`, `b` and `x`, by its lowered def or by the reference."""
    kind = "int" if text.startswith("x[") else "bool"
    names = f"{NAMES[a.dtype]} a, {NAMES[b.dtype]} b, int[.] x"
    program = f"{kind}[*] main({names}) {{ return {text}; }}"
    if is_lowered:
        return tc.sac.compile(program, backend="interpret")(a, b, X)
    return tc.sac.interpret(program, [a, b, X])


@pytest.mark.parametrize("backend", [None, "interpret", "numba", "c"])
def test_scalars_wrap_in_their_own_types(backend: str | None) -> None:
    """All cases as one program, with scalars and a result for each."""
    scalars, parameters, results = [], [], []
    for number, (text, a, b, _) in enumerate(CASES):
        scalars += [a, b]
        parameters += [f"{NAMES[a.dtype]} a{number}", f"{NAMES[b.dtype]} b{number}"]
        results.append(re.sub(r"\b([ab])\b", rf"\g<1>{number}", text))
    types = ", ".join("bool[*]" if isinstance(due, bool) else "int[*]" for *_, due in CASES)
    program = (
        f"{types} main({', '.join(parameters)}, int[.] x) {{ return ({', '.join(results)}); }}"
    )
    if backend is None:
        found = tc.sac.interpret(program, [*scalars, X])
    else:
        found = tc.sac.compile(program, backend=backend)(*scalars, X)
    assert [result.item() for result in found] == [due for *_, due in CASES]


def test_an_index_that_int64_orders_otherwise_is_served_by_the_reference() -> None:
    with pytest.warns(tc.TCWarning, match="indices in int64, which orders uint64 otherwise"):
        assert value_of("x[toi(max(a, b) - a)]", LARGE, np.uint64(3), is_lowered=True) == 10
    text = "x[(tod(a) > 5.5) * b]"  # tod(a) is 2**64 - 5
    with pytest.warns(tc.TCWarning, match="indices in int64, which orders uint64 otherwise"):
        assert value_of(text, np.uint64(2**64 - 5), np.uint8(1), is_lowered=True) == X[1]


@dataclass(frozen=True)
class Scalar:
    """An expression's text and its value, a Python integer, of the scalars a and b."""

    text: str
    value: Callable[[int, int], int]


def operations(bits: int, is_signed: bool) -> st.SearchStrategy[Scalar]:
    """Expressions of one type, computed with Python's integers and wrapped."""

    def wrapped(n: int) -> int:
        n %= 1 << bits
        return n - (1 << bits) if is_signed and n >> (bits - 1) else n

    def unary(x: Scalar) -> st.SearchStrategy[Scalar]:
        return st.sampled_from(
            [
                Scalar(f"(-{x.text})", lambda a, b: wrapped(-x.value(a, b))),
                Scalar(f"abs({x.text})", lambda a, b: wrapped(abs(x.value(a, b)))),
            ]
        )

    def binary(pair: tuple[Scalar, Scalar]) -> st.SearchStrategy[Scalar]:
        x, y = pair

        def chosen(a: int, b: int) -> int:
            return x.value(a, b) if x.value(a, b) < y.value(a, b) else wrapped(y.value(a, b) - 1)

        return st.sampled_from(
            [
                Scalar(
                    f"({x.text} + {y.text})", lambda a, b: wrapped(x.value(a, b) + y.value(a, b))
                ),
                Scalar(
                    f"({x.text} - {y.text})", lambda a, b: wrapped(x.value(a, b) - y.value(a, b))
                ),
                Scalar(
                    f"({x.text} * {y.text})", lambda a, b: wrapped(x.value(a, b) * y.value(a, b))
                ),
                Scalar(f"min({x.text}, {y.text})", lambda a, b: min(x.value(a, b), y.value(a, b))),
                Scalar(f"max({x.text}, {y.text})", lambda a, b: max(x.value(a, b), y.value(a, b))),
                Scalar(f"({x.text} < {y.text} ? {x.text} : {y.text} - 1)", chosen),
            ]
        )

    leaves = st.sampled_from([Scalar("a", lambda a, _: a), Scalar("b", lambda _, b: b)])
    return st.recursive(
        leaves,
        lambda inner: inner.flatmap(unary) | st.tuples(inner, inner).flatmap(binary),
        max_leaves=6,
    )


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Any, Any, bool]:
    """A comparison of two expressions of one type, two scalars, and what is due."""
    kind = np.dtype(draw(st.sampled_from(list(TYPES.values()))))
    limits = np.iinfo(kind)
    expressions = operations(limits.bits, limits.min < 0)
    left, right = draw(expressions), draw(expressions)
    numbers = st.integers(int(limits.min), int(limits.max))
    a, b = draw(numbers), draw(numbers | st.sampled_from([int(limits.max), int(limits.min), 1]))
    due = left.value(a, b) <= right.value(a, b)
    return f"{left.text} <= {right.text}", kind.type(a), kind.type(b), due


@given(conditions())
def test_conditions_of_scalars(case: tuple[str, Any, Any, bool]) -> None:
    text, a, b, due = case
    assert value_of(text, a, b, is_lowered=False) == due
    assert value_of(text, a, b, is_lowered=True) == due
