"""The repairs of checked texts, pasted, make them texts that pass (N1, N4, R1, G8, Y1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tc.errors import CheckError, TCError
from tc.frontend.parser import parse
from tc.semantics.check.checker import check_all
from tc.source import Source

ERRORS = Path(__file__).parents[2] / "errors"
IN_PLACE = [
    "check_size_misspelt_near",
    "check_call_of_misspelt_def",
    "check_python_not_called",
    "check_python_true",
    "check_python_inf",
    "parse_python_if",
    "parse_python_if_in_call",
    "parse_python_and",
    "parse_python_or_in_choice",
    "parse_python_not",
]
STATEMENTS = [
    "check_reduction_misspelt_scalar",
    "parse_reduction_space_after_mark",
    "parse_reduction_space",
    "parse_reduction_mark_first",
]


def error_of(text: str) -> TCError | None:
    try:
        check_all(parse(Source(text)))
    except TCError as error:
        return error
    return None


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_repair_in_place_of_what_is_underlined(name: str) -> None:
    text = (ERRORS / f"{name}.tc").read_text(encoding="utf-8")
    for _ in range(2):  # 'True' and 'False' are two errors
        error = error_of(text)
        if error is None:
            break
        text = error.repaired() or ""
    assert error_of(text) is None, text


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_repair_that_is_the_statement(name: str) -> None:
    text = (ERRORS / f"{name}.tc").read_text(encoding="utf-8")
    error = error_of(text)
    assert error is not None
    assert error_of(error.repaired() or "") is None, error.repaired()


@pytest.mark.parametrize("where", ["i in 0:N where i in 1:4", "i in 0:N, i in 1:4"])
def test_rule_G8_one_range_for_two(where: str) -> None:
    text = "def f(float(N) a) -> (o) { o(i) = a(i) %s }"
    error = error_of(text % f"where {where}")
    assert error is not None
    repaired = error.repaired()
    assert repaired == text % "where i in 1:min(N, 4)"
    assert error_of(repaired) is None


@pytest.mark.parametrize(
    "statement",
    [
        "o +=! a(I) * I",
        "o(M) = a(M) * M",
        "o(i) = a(i) * M where M in 0:1, i in 0:N",
        "o +=! M where exists a(M)",
        "o +=! x * X where x = a(X)",
        "o +=! True where True in 0:2",
        "o +=! a(i < inf ? i : inf)",
    ],
)
def test_rule_N1_index_variables_may_have_any_name(statement: str) -> None:
    error = error_of(f"def f(float(N) a) -> (o) {{ {statement} }}")
    assert error is None or error.rule == "R1"


def test_rule_N1_an_unknown_size_in_any_statement() -> None:
    for statement in ("o +=! a(i) * M", "o = M", "o max= x + M where x = a.0"):
        error = error_of(f"def f(float(N) a) -> (o) {{ {statement} }}")
        assert isinstance(error, CheckError)
        assert "'M' is no size of 'f', whose only size is 'N'" in error.cause


def test_rule_N4_a_misspelt_function_is_no_call() -> None:
    text = "def g(float x) -> (o) { o = x } def f(float x) -> (o) { o = %s(x) }"
    for name, repair in (("tahn", "tanh"), ("relu", "max(x, 0)")):
        error = error_of(text % name)
        assert error is not None
        assert error.repair == repair


def test_rule_Y1_a_condition_may_still_be_compared_as_a_float() -> None:
    text = "def f(float(N) a) -> (o) { o(i) = i < %s ? a(i) : 0 }"
    error = error_of(text % "99999999999999999999")
    assert error is not None
    assert error.repair == "float64(99999999999999999999)"
    assert error_of(text % error.repair) is None


def test_rule_Y1_bounds_beyond_int64() -> None:
    text = "def f(float(N) a) -> (o) { o +=! k where k in %s:N }"
    for begin in ("-99999999999999999999", "-(3000000000000 * 99999999999999)"):
        error = error_of(text % begin)
        assert error is not None
        assert error.repaired() is None
        assert error.repair == "write a number of at most 9223372036854775807"
