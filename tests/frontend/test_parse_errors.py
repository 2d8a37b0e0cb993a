"""The errors of the parser, whole, and what their repairs repair (rules T1 to T5)."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tc.errors import ParseError
from tc.frontend.parser import parse
from tc.source import Source

SNAPSHOTS = sorted((Path(__file__).parents[1] / "errors").glob("parse_*.tc"))

MESSAGES = {
    "old_range": (
        """\
# the spelling of the original introduction
def maxpool2x2(float(B,C,H,W) input) -> (output) {
  output(b,c,i,j) max= input(b,c,2*i + kw, 2*j + kh)
    where kw = [0, 2[, kh = [0, 2[
}
""",
        """\
ParseError [T4]: a range is written 'begin:end', not '[0, 2['
 --> f.tc:4:16
  |
4 |     where kw = [0, 2[, kh = [0, 2[
  |                ^^^^^^
repair: kw in 0:2
""",
    ),
    "missing_brace": (
        """\
# as printed in the original documentation
def softmax(float(N, D) I) -> (O, expsum) {
    expsum(n) +=! exp(I(n, d))
       O(n, d) =  exp(I(n, d)) / expsum(n)
""",
        """\
ParseError [T4]: the body of 'softmax' is not closed: the text ends before its '}'
 --> f.tc:4:43
  |
4 |        O(n, d) =  exp(I(n, d)) / expsum(n)
  |                                           ^
note: the '{' is here
 --> f.tc:2:43
  |
2 | def softmax(float(N, D) I) -> (O, expsum) {
  |                                           ^
repair: write '}' at the end
""",
    ),
    "return_parentheses": (
        """\
def f(float(N) A) -> C, D {
  C(i) = A(i)
  D(i) = A(i)
}
""",
        """\
ParseError [T4]: the returns of 'f' are written in parentheses
 --> f.tc:1:22
  |
1 | def f(float(N) A) -> C, D {
  |                      ^^^^
repair: (C, D)
""",
    ),
    "missing_arrow": (
        """\
def f(float(N) A) (C) {
  C(i) = A(i)
}
""",
        """\
ParseError [T4]: expected '->' and the returns of 'f', found '('
 --> f.tc:1:19
  |
1 | def f(float(N) A) (C) {
  |                   ^
repair: write '->' here
""",
    ),
    "reserved_parameter": (
        """\
def f(float(N) half) -> (C) {
  C(i) = half(i)
}
""",
        """\
ParseError [T2]: 'half' is a reserved word and cannot name a parameter
 --> f.tc:1:16
  |
1 | def f(float(N) half) -> (C) {
  |                ^^^^
repair: rename it wherever it stands, for example to half_
""",
    ),
    "brackets": (
        """\
def mm(float(N,K) A, float(K,M) B) -> (C) {
  C(i,j) +=! A[i][k] * B(k,j)
}
""",
        """\
ParseError [T4]: subscripts are written in parentheses
 --> f.tc:2:14
  |
2 |   C(i,j) +=! A[i][k] * B(k,j)
  |              ^^^^^^^
repair: A(i, k)
""",
    ),
    "unknown_type": (
        """\
def f(flaot(N) A) -> (C) {
  C(i) = A(i)
}
""",
        """\
ParseError [T3]: 'flaot' is not a type
 --> f.tc:1:7
  |
1 | def f(flaot(N) A) -> (C) {
  |       ^^^^^
repair: float
""",
    ),
    "equals_plus": (
        """\
def sum(float(N) A) -> (s) {
  s() =+ A(i)
}
""",
        """\
ParseError [T4]: '=+' is no operator: a sum is '+=', a plain value with a sign '= +'
 --> f.tc:2:7
  |
2 |   s() =+ A(i)
  |       ^^
idiom: s += A(i), for a sum
""",
    ),
    "minus_equals": (
        """\
def f(float(N) A) -> (s) {
  s() -= A(i) * 2
}
""",
        """\
ParseError [T4]: there is no reduction '-='; the operators are += *= min= max=
 --> f.tc:2:7
  |
2 |   s() -= A(i) * 2
  |       ^^
repair: s() += -(A(i) * 2)
""",
    ),
    "power": (
        """\
def norm(float(N) A) -> (s) {
  s() +=! 0.5 * A(i)**2
}
""",
        """\
ParseError [T4]: there is no operator '**'
 --> f.tc:2:17
  |
2 |   s() +=! 0.5 * A(i)**2
  |                 ^^^^^^^
repair: pow(A(i), 2)
""",
    ),
    "leading_zero": (
        """\
def f(float(N) A) -> (C) {
  C(i) = A(i) * 012
}
""",
        """\
ParseError [T1]: the number '012' begins with a zero before other digits
 --> f.tc:2:17
  |
2 |   C(i) = A(i) * 012
  |                 ^^^
idiom: 12, or, where it is octal as in C, 10
""",
    ),
    "unknown_character": (
        """\
def f(float(N) A) -> (C) {
  C(i) = A(i) × 2
}
""",
        """\
ParseError [T1]: the character '×' (U+00D7) is not of the language
 --> f.tc:2:15
  |
2 |   C(i) = A(i) × 2
  |               ^
repair: *
""",
    ),
    "semicolon": (
        """\
def f(float(N) A) -> (C) {
  C(i) = A(i);
}
""",
        """\
ParseError [T2]: statements are separated by white space only
 --> f.tc:2:14
  |
2 |   C(i) = A(i);
  |              ^
repair: delete ';'
""",
    ),
    "unterminated": (
        """\
def f(float(N) A) -> (C) {
  C(i) = A(i +
""",
        """\
ParseError [T4]: expected an expression, found the end of the text
 --> f.tc:2:15
  |
2 |   C(i) = A(i +
  |               ^
repair: write a number, a name or '(' here
""",
    ),
}


@pytest.mark.parametrize(("text", "message"), MESSAGES.values(), ids=MESSAGES)
def test_whole_messages(text: str, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source(text, "f.tc"))
    assert str(raised.value) == message.rstrip("\n")


@pytest.mark.parametrize("path", SNAPSHOTS, ids=[path.stem for path in SNAPSHOTS])
def test_the_parser_refuses_every_parse_snapshot(path: Path) -> None:
    with pytest.raises(ParseError) as raised:
        parse(Source(path.read_text(encoding="utf-8"), path.name))
    assert raised.value.repair or raised.value.idiom


@pytest.mark.parametrize(
    ("wrong", "replaced"),
    [
        ("o(i) +=! A(i + k) where k = [0, 2[", "where k = [0, 2["),
        ("o(i) +=! A(i + k) where k = [1, f(A.0)[", "where k = [1, f(A.0)["),
        ("o(i) +=! A(i + k) where k in [0, A.0 - 1]", "where k in [0, A.0 - 1]"),
        ("o(i) +=! A(i + k) where k < 3", "where k < 3"),
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
        "expected '=' or a reduction (+= *= min= max=, with ! to initialise) after 'A(i)', found "
        "'}'; if 'A(i)' belongs to the expression before it, an operator is missing"
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
