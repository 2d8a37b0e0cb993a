"""The errors of the parser, and what their repairs repair (rules T1 to T5); whole messages stand in
`tests/errors`."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tc.errors import ParseError
from tc.frontend.parser import parse
from tc.source import Source

SNAPSHOTS = sorted((Path(__file__).parents[1] / "errors").glob("parse_*.tc"))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=[path.stem for path in SNAPSHOTS])
def test_the_parser_refuses_every_parse_snapshot(path: Path) -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source(path.read_text(encoding="utf-8"), path.name))
    names_all = "the operators are" in raised.value.cause  # where none is near
    assert raised.value.repair or raised.value.idiom or names_all


@pytest.mark.parametrize(
    ("wrong", "replaced"),
    [
        ("o(i) +=! A(i + k) where k = [0, 2[", "where k = [0, 2["),
        ("o(i) +=! A(i + k) where k = [1, f(A.0)[", "where k = [1, f(A.0)["),
        ("o(i) +=! A(i + k) where k in [0, A.0 - 1]", "where k in [0, A.0 - 1]"),
        ("o(i) +=! A(i + k) where 0 <= k < 3", "where 0 <= k < 3"),
        ("o(i) = A(i) where 0 <= A(i) < 3, i in 0:2", "0 <= A(i) < 3"),
        ("o(i) = A(i) where A(i) > 1 && 0 < (i + 2) < N", "A(i) > 1 && 0 < (i + 2) < N"),
        ("o(i) = A(i) where not A(i) > 0 and i > 2", "not A(i) > 0 and i > 2"),
        ("o(i) = A(i) where i in 0:2, A(i) > 0 or i < 2", "A(i) > 0 or i < 2"),
        ("o(i) = A(i) where A(i + 1) = 0", "A(i + 1) = 0"),
        ("o(i) = A(i) where i in 0:2 && A(i) > 0 j in 0:3", " j in 0:3"),
        ("o(i) = A(i) where 2*i in 0:N", "2*i in 0:N"),
        ("o(i) = A(i) where o.0: N", "o.0: N"),
        ("o(i) = A(i) where o.0 N", "o.0 N"),
        ("o(i) = A(i) where o.0 in 0:N", "o.0 in 0:N"),
        ("o(i) = A(i), p(i) = 2", ", p(i) = 2"),
        ("o(i) = A(i), i in 0:2", ", i in 0:2"),
        ("o, p = 0", "0"),
        ("o(i), p(i) = g(A)", "o(i), p(i)"),
        ("(o, p) += 1, 2", "(o, p)"),
        ("o(I(i)) /= A(i)", "o(I(i)) /= A(i)"),
        ("o(i) +=! A(i + k + l) where k in 0:2 where l in 0:2", "where k in 0:2 where l in 0:2"),
        ("o(i) = A[i]", "A[i]"),
        ("o(i) = A[B[i] + 1][C[i]]", "A[B[i] + 1][C[i]]"),
        ("o[i] = A(i)", "o[i]"),
        ("o(i) = A(i)**2", "A(i)**2"),
        ("o(i) = 2 * (A(i) + 1)^B(i)", "(A(i) + 1)^B(i)"),
        ("o() -= A(i) + 1", "o() -= A(i) + 1"),
        ("o() /= A(i) + 1", "o() /= A(i) + 1"),
        ("o(i) = 00.5", "00.5"),
        ("o(i) = A.01", "A.01"),
        ("o(i) = A .1", "A .1"),
        ("o(i) = A(i) // B(i)", "A(i) // B(i)"),
        ("o(i) = A(i) × B(i)", "×"),
        ("o(i) = A(i) ≤ B(i)", "≤"),
        ("o(i) = 2 A(i)", "2 A(i)"),
    ],
)
def test_repairs_can_be_pasted(wrong: str, replaced: str) -> None:
    text = f"def f(float(N) A) -> (o) {{\n  {wrong}\n}}"
    with pytest.raises(ParseError) as raised:
        parse(Source(text))
    error = raised.value
    repaired = error.repaired()
    assert repaired is not None
    parse(Source(repaired))
    assert error.repair is not None
    first = text.index(replaced)
    assert repaired.startswith(text[:first])
    assert repaired.endswith(text[first + len(replaced) :])


@pytest.mark.parametrize(
    ("header", "replaced", "pasted"),
    [
        ("def f(float(N) A) -> C, D {", "-> C, D", "-> (C, D)"),
        ("def f(float(N) A) -> float(N) C {", "-> float(N) C", "-> (float(N) C)"),
        ("def f(float(N) A) {", ") {", ") -> (C) {"),
        ("def f(flaot(N) A) -> (C) {", "flaot", "float"),
        ("def f(doulbe(N) A) -> (C) {", "doulbe", "double"),
        ("def f(Int32(N) A) -> (C) {", "Int32", "int32"),
        ("def f(long N) -> (C) {", "long", "int64"),
        ("def f(float(N) A) → (C) {", "→", "->"),
        ("def f(float a = pi) -> (C) {", "pi", "3.14159265358979"),
        ("def f(bool a = True) -> (C) {", "True", "1"),
        ("def f(int a = (-3)) -> (C) {", "(-3)", "-3"),
        ("def f(a: int = 3) -> (C) {", "a: int", "int a"),
    ],
)
def test_repairs_of_headers_can_be_pasted(header: str, replaced: str, pasted: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source(header + "}"))
    assert raised.value.repair is not None
    assert raised.value.repair in pasted
    parse(Source(header.replace(replaced, pasted) + "}"))
    if (repaired := raised.value.repaired()) is not None:
        assert repaired == header.replace(replaced, pasted) + "}"


def test_a_missing_operator() -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source("def f(float(N) A) -> (C) { C(i) = 2 A(i) }"))
    assert raised.value.cause == (
        "expected '=' or a reduction (+= *= min= max= &= |= ^=, with ! to initialise) after "
        "'A(i)', found '}'; if 'A(i)' belongs to the expression before it, an operator is missing"
    )
    assert raised.value.repair == "2 * A(i)"
    assert raised.value.span is not None
    assert raised.value.span.text == "A(i)"


def test_the_first_error_of_the_text_is_reported() -> None:
    with pytest.raises(ParseError, match="subscripts are written in parentheses"):
        parse(Source("def f(float(N) A) -> (o) { o[i] = A(i) $ 012 }"))
    with pytest.raises(ParseError, match=r"'\$'"):
        parse(Source("def f(float(N) A) -> (o) { o(i) = $ A[i] }"))
    with pytest.raises(ParseError, match=r"'\$'"):
        parse(Source("def f(float(N) A) -> (o) { o(i) = A(i) } $"))


def test_every_error_can_be_shown_and_pickled() -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source("def f(float(N) A -> (o) {}", "g.tc"))
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    assert str(again).startswith("ParseError [T4]: expected ',' or ')' after the parameter, found")
