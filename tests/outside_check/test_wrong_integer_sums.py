"""0.5: sums and products in narrow integers, and means of integers, are told of once, with the cast
to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

BYTES = np.full(300, 255, np.uint8)
SMALL = np.int8([100, 3, -7])


def told(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(issubclass(w.category, tc.TCWarning) for w in caught)
    return result, [str(w.message) for w in caught]


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_the_sum_of_bytes_is_told_of_once(backend: str) -> None:
    """0.5: 300 bytes of 255 are 212, whatever the number of bytes of the next call."""
    f = tc.compile(tc.Source("def f(byte(N) a) -> (o) { o +=! a(i) }", "f.tc"), backend=backend)
    found, messages = told(lambda: f(BYTES))
    assert found == 76500 % 256
    assert messages == [
        "warning [Y3]: 'o' adds terms in uint8, their type, and wraps around outside of 0 to 255; "
        "uint8(a(i)) says that this is meant\n"
        " --> f.tc:1:33\n"
        "  |\n"
        "1 | def f(byte(N) a) -> (o) { o +=! a(i) }\n"
        "  |                                 ^^^^\n"
        "repair: int64(a(i))"
    ]
    assert told(lambda: f(BYTES))[1] == []
    assert told(lambda: f(BYTES[:100]))[1] == []


def test_the_mean_of_integers_is_told_of() -> None:
    """0.5: the tutorial's idiom gives 1 for [1, 2, 3, 4]."""
    text = "def f(int(N) x) -> (m) { m +=! x(i) / N }"
    found, messages = told(lambda: tc.interpret(tc.Source(text, "f.tc"), [np.int32([1, 2, 3, 4])]))
    assert found == 1
    assert messages == [
        "warning [Y4]: 'x(i) / N' divides integers, so that each term is rounded down before it is "
        "added; int32(x(i) / N) says that this is meant\n"
        " --> f.tc:1:32\n"
        "  |\n"
        "1 | def f(int(N) x) -> (m) { m +=! x(i) / N }\n"
        "  |                                ^^^^^^^^\n"
        "repair: float(x(i)) / N"
    ]


REPAIRED = [
    ("byte(N) a", "o +=! a(i)", "int64(a(i))", BYTES, "a.sum(dtype=int)"),
    ("int8(N) a", "o +=! -a(i)", "-int64(a(i))", SMALL, "-a.sum(dtype=int)"),
    ("int8(N) a", "o *=! a(i)", "int64(a(i))", SMALL, "a.prod(dtype=int)"),
    ("int16(N) a", "o +=! abs(a(i))", "int64(abs(a(i)))", SMALL.astype(np.int16), "110"),
    ("int8(N) a", "o(i) = a(i) * a(i)", "int64(a(i)) * int64(a(i))", SMALL, "a.astype(int)**2"),
    ("int8(N) a", "o +=! a(i) * a(i)", "int64(a(i)) * int64(a(i))", SMALL, "10058"),
    ("int8(N) a", "o(j) +=! a(i) where j in 0:2", "int64(a(i))", SMALL, "np.int64([96, 96])"),
    ("int8(N) a", "o +=! i > 0 ? a(i) : 90", "i > 0 ? int64(a(i)) : 90", SMALL, "86"),
    ("int(N) a", "o +=! a(i) / N", "float(a(i)) / N", np.int32([1, 2, 4]), "7 / 3"),
    ("int(N) a", "o +=! a(i) / a.0", "float(a(i)) / a.0", np.int32([1, 2, 4]), "7 / 3"),
    ("int(N) a", "o +=! a(i) / 3", "float(a(i)) / 3", np.int32([1, 2, 4]), "7 / 3"),
    ("byte(N) a", "o +=! a(i) / N", "float(a(i)) / N", BYTES, "255.0"),
]


@pytest.mark.parametrize(("param", "statement", "repair", "a", "meant"), REPAIRED)
def test_the_repair_computes_what_was_meant(
    param: str, statement: str, repair: str, a: Any, meant: str
) -> None:
    """0.5, with products, casts of parts, other types."""
    text = f"def f({param}) -> (o) {{ {statement} }}"
    messages = told(lambda: tc.interpret(text, [a]))[1]
    assert [m.splitlines()[-1] for m in messages] == [f"repair: {repair}"]
    left, _, right = statement.partition("= " if "=!" not in statement else "=! ")
    right, where, rest = right.partition(" where ")
    op = "=" if "=!" not in statement else "=!"
    repaired = f"def f({param}) -> (o) {{ {left}{op} {repair}{where}{rest} }}"
    found, again = told(lambda: tc.interpret(repaired, [a]))
    assert again == []
    assert_computes(repaired, [a], found, eval(meant, {"np": np, "a": a}))


SILENT = [
    ("byte(N) a", "o +=! int64(a(i))", BYTES),
    ("byte(N) a", "o +=! uint8(a(i))", BYTES),
    ("int8(N) a", "o(i) = int8(a(i) * a(i))", SMALL),
    ("byte(N) a", "o +=! a(i) > 7", BYTES),
    ("byte(N) a", "o +=! a(i) % 2 where i in 0:9", BYTES),
    ("byte(N) a", "o max=! a(i)", BYTES),
    ("byte(N) a", "o(i) = a(i) * 2", BYTES),
    ("byte(N) a", "o(i) = a(i) + a(i)", BYTES),
    ("int(N) a", "o +=! a(i)", np.int32([1, 2])),
    ("int(N) a", "o +=! int(a(i) / N)", np.int32([1, 2])),
    ("int(N) a", "o +=! a(i) / 7", np.int32([1, 2])),
    ("int(N) a", "o(i) = a(i) / N", np.int32([1, 2])),
    ("byte(N) a", "o +=! float(a(i) / 16) * 0.5 where i in 0:16", BYTES),
    ("float(N) a", "o +=! a(i) / N", np.float32([1, 2])),
    ("float(N) a", "o +=! a(i / N)", np.float32([1, 2])),
    ("byte(N) a", "o +=! a(i) where i in 0:1", BYTES),
]


@pytest.mark.parametrize(("param", "statement", "a"), SILENT)
def test_what_fits_or_is_meant_is_not_told_of(param: str, statement: str, a: Any) -> None:
    """0.5."""
    text = f"def f({param}) -> (o) {{ {statement} }}"
    assert told(lambda: tc.interpret(text, [a]))[1] == []


def test_a_declared_type_is_meant_but_not_of_products_below_it() -> None:
    """0.5: with `-> (int o)` the sum is in int, and its products are still in the narrow type."""
    narrow = "def f(byte(N) a) -> (byte o) { o +=! a(i) }"
    assert told(lambda: tc.interpret(narrow, [BYTES])) == (np.uint8(212), [])
    text = "def f(int8(N) a) -> (int o) { o +=! a(i) * a(i) }"
    found, messages = told(lambda: tc.interpret(text, [SMALL]))
    assert found == int((SMALL * SMALL).sum(dtype=int))
    repair = "int32(a(i)) * int32(a(i))"
    assert messages[0].splitlines()[-1] == f"repair: {repair}"
    assert told(lambda: tc.interpret(text.replace("a(i) * a(i)", repair), [SMALL])) == (10058, [])
