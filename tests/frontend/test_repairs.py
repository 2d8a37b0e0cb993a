"""What is offered for the spellings of other languages means the same (T4, T5)."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.errors import ParseError
from tc.frontend.parser import parse
from tc.frontend.repairs import from_python, reduction_written
from tc.source import Source
from tests.support.syntax import tokenize

PYTHON = [
    "i if i > 3 else 0",
    "1 if i > 5 else 2 if i > 2 else 3",
    "i > 1 and i < 5 or i == 7",
    "i == 7 or i > 1 and i < 5",
    "not i > 3",
    "not i > 3 and not i == 1",
    "not not i > 3",
    "not (i > 3) or i == 6",
    "not (i) > 3",
    "not min(i, 2) == 2 and i > 0",
    "(1 if i > 2 and i < 6 else 0) * 2 + (i if not i > 4 else 7)",
    "min(i if i > 4 or i < 2 else 3, 5) if i > 0 and i < 7 else i * i",
]


def repaired(statement: str) -> str:
    """The statement with the repair of the error in the place of the underlined text."""
    text = f"def f(float(N) a) -> (o) {{ {statement} }}"
    with pytest.raises(ParseError) as caught:
        parse(Source(text))
    text = caught.value.repaired() or text
    assert caught.value.repair or caught.value.idiom
    return text


@pytest.mark.parametrize("expression", [e for e in PYTHON if not e.startswith("not (")])
def test_rule_T4_an_expression_of_python_keeps_its_value(expression: str) -> None:
    text = repaired(f"o(i) = {expression} where i in 0:N")
    found = np.asarray(tc.interpret(text, [np.zeros(9, np.float32)]))
    expected = [int(eval(expression, {"i": i, "min": min})) for i in range(9)]
    assert found.astype(int).tolist() == expected, text


def test_rule_T4_not_before_parentheses() -> None:
    tokens = tokenize(Source("o = not (i > 3) or i == 6"))
    found = from_python(tokens, 2)
    assert found is not None
    assert found.text == "!(i > 3) || i == 6"


@pytest.mark.parametrize(
    ("statement", "repair"),
    [
        ("o(i) = a(i) if i > 0", "o(i) = a(i) if i > 0"),
        ("p = 3 o(i) = i < 3 and a(i) k = 2", "p = 3 o(i) = i < 3 && a(i) k = 2"),
        ("o(i) = x where x = a(i) or 2", "o(i) = x where x = a(i) || 2"),
        ("o(i) = [i or 3]", None),
        ("o(i) = a(i) and", "o(i) = a(i) &&"),
        ("o(i) = a(i) and or", "o(i) = a(i) && or"),
        ("o(i or 3) = a(i)", None),
    ],
)
def test_rule_T4_where_the_expression_ends(statement: str, repair: str | None) -> None:
    text = repaired(statement)
    assert repair is None or repair in text


def test_rule_T1_pythons_words_are_names() -> None:
    parse(Source("def f(float and, float(N) if) -> (or, not) { or(i) = and * if(i) not = and }"))
    parse(Source("def f(float(N) a) -> (o, if) { o(i) = a(i) if(i) = a(i) }"))
    parse(Source("def f(float(N) not) -> (o, if, p) { o = not if = not p, q = not(o) }"))


def test_rule_T4_deep_nesting_of_python_is_refused() -> None:
    for text in ("(" * 90 + "1 and 2" + ")" * 90, "1 if 2 else " * 500 + "3", "not " * 500 + "i"):
        with pytest.raises(ParseError):
            parse(Source(f"def f(float(N) a) -> (o) {{ o = {text} }}"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("max! =", ("max=!", 3)),
        ("min !=", ("min=!", 2)),
        ("min =", ("min=", 2)),
        ("+ =", ("+=", 2)),
        ("* ! =", ("*=!", 3)),
        ("+ 1", None),
        ("max ==", None),
        ("- =", None),
    ],
)
def test_rule_T4_reductions_with_a_slip(written: str, meant: tuple[str, int] | None) -> None:
    assert reduction_written(tokenize(Source(f"{written} a(i)")), 0) == meant


@pytest.mark.parametrize(
    ("clauses", "joined"),
    [
        ("i in 0:3 where i in 1:9", "where i in 1:3"),
        ("i in 0:N where i in 0:N", "where i in 0:N"),
        ("i in 0:N where i in 1:N - 1", "where i in 1:min(N, N - 1)"),
        ("i in 0:2, k in 0:3 where i in 3:5", None),
        ("x = 2, i in 0:2 where exists a(i)", "where x = 2, i in 0:2, exists a(i)"),
    ],
)
def test_rule_T5_two_wheres(clauses: str, joined: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(Source(f"def f(float(N) a) -> (o) {{ o +=! a(i) where {clauses} }}"))
    assert caught.value.repair == joined
