"""`tc fmt`: one layout, the same tree, every comment, and nothing left to do the second time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.errors import ParseError
from tc.frontend.ast import Module
from tc.frontend.format import format_source
from tc.frontend.layout import MAX_COLUMNS
from tc.frontend.lexer import scan
from tc.frontend.parser import parse
from tc.source import Source
from tests.support.ast_strategies import modules, ragged_texts
from tests.support.syntax import to_text

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.tc"))


def check_formatting(text: str) -> str:
    source = Source(text)
    formatted = format_source(source)
    assert parse(Source(formatted)) == parse(source)
    before, after = scan(source), scan(Source(formatted))
    assert [c.text for c in after.comments] == [c.text for c in before.comments]
    assert [t.text for t in after.tokens] == [t.text for t in before.tokens]
    assert format_source(Source(formatted)) == formatted
    assert all(line == line.rstrip() for line in formatted.split("\n"))
    assert "\n\n\n" not in formatted
    return formatted


@given(st.data())
def test_ragged_texts_keep_their_tree_and_comments(data: st.DataObject) -> None:
    module = data.draw(modules())
    text, comments = data.draw(ragged_texts(module))
    formatted = check_formatting(text)
    assert parse(Source(formatted)) == module
    assert [c.text for c in scan(Source(formatted)).comments] == comments


@given(modules())
def test_the_layout_of_short_texts_is_that_of_the_printer(module: Module) -> None:
    text = to_text(module)
    formatted = format_source(Source(text))
    if all(len(line) <= MAX_COLUMNS for line in text.split("\n")):
        assert formatted == text


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_the_table_of_programs(path: Path) -> None:
    formatted = check_formatting(path.read_text(encoding="utf-8"))
    assert all(len(line) <= MAX_COLUMNS for line in formatted.split("\n"))


def test_comments_stay_where_they_were() -> None:
    text = """
# top


# second
def f(float(N)A, # the A
  float(B,3) K) -> (o, p) { # body

# first
 o(i)=A(i)+(2*K(i,0)) - -3 # trail

 # own


 p(i)+=! A(i+k) * # why
   # own inside
   - A(i)   # before where
   where k in 0:A.0-1, l in (0):3, m in -1:k?3:4, x=in # end of where
   (a,b) = g(in(2)) # a
 # last

} # after
# bottom
   def g()->(o){# empty
   # inside
   }
   # end"""
    expected = """\
# top

# second
def f(float(N) A,  # the A
      float(B, 3) K) -> (o, p) {  # body
  # first
  o(i) = A(i) + (2 * K(i, 0)) - -3  # trail

  # own

  p(i) +=! A(i + k) *  # why
      # own inside
      -A(i)  # before where
      where k in 0 : A.0 - 1, l in (0):3, m in -1 : k ? 3 : 4, x = in  # end of where
  (a, b) = g(in(2))  # a
  # last
}  # after

# bottom
def g() -> (o) {  # empty
  # inside
}

# end
"""
    assert check_formatting(text) == expected


def test_long_lines_are_broken_where_they_read_best() -> None:
    text = (
        "def convolution(float(B,IP,H,W) input, float(OP,IP,KH,KW) weight, float(OP) bias, "
        "float(OP) scale) -> (output, hidden) {\n"
        "output(b,op,h,w) +=! input(b,ip,h+kh,w+kw) * weight(op,ip,kh,kw) "
        "+ scale(op)*bias(op)*bias(op)*bias(op) where kh in 0:3, kw in 0:weight.3 <=> conv(input)\n"
        "hidden(b) max=! output(b,op,h,w) where op in 0:3, h in 0:4\n}"
    )
    expected = """\
def convolution(float(B, IP, H, W) input, float(OP, IP, KH, KW) weight, float(OP) bias,
                float(OP) scale) -> (output, hidden) {
  output(b, op, h, w) +=! input(b, ip, h + kh, w + kw) * weight(op, ip, kh, kw)
      + scale(op) * bias(op) * bias(op) * bias(op)
      where kh in 0:3, kw in 0:weight.3
      <=> conv(input)
  hidden(b) max=! output(b, op, h, w) where op in 0:3, h in 0:4
}
"""
    assert check_formatting(text) == expected


def test_rule_T6_places_conditions_sizes_and_defaults() -> None:
    text = (
        "def f<T:half|float>(T(N,D)x,float a=0.5,int n=-3,T b=+1)->(m,at){"
        "m( n ),at(n)max=!x(n,d),-d where -x(n,d)>0,!(d==3),(a)<b,int(a)==2,d in 0:n+1,m.0=-N+1\n"
        "h(I(n),-1,n+0)+=!a?1:2 where n,a?b:c,n in row(0):row(1) (p,q)=g(x) p,q=q,p}"
    )
    expected = """\
def f<T: half | float>(T(N, D) x, float a = 0.5, int n = -3, T b = +1) -> (m, at) {
  m(n), at(n) max=! x(n, d), -d
      where -x(n, d) > 0, !(d == 3), (a) < b, int(a) == 2, d in 0 : n + 1, m.0 = -N + 1
  h(I(n), -1, n + 0) +=! a ? 1 : 2 where n, a ? b : c, n in row(0):row(1)
  (p, q) = g(x)
  p, q = q, p
}
"""
    assert check_formatting(text) == expected


def test_rule_T6_long_lists_of_targets_and_values_are_broken_at_their_commas() -> None:
    names = [f"a_quite_long_name_{k}" for k in range(4)]
    text = ", ".join(f"{n}(i)" for n in names) + " += " + ", ".join(f"x(i) * {n}" for n in names)
    formatted = check_formatting(f"def f(float(N) x) -> (o) {{ {text} }}")
    assert formatted.split("\n")[1:3] == [
        "  a_quite_long_name_0(i), a_quite_long_name_1(i), a_quite_long_name_2(i),",
        "      a_quite_long_name_3(i) += x(i) * a_quite_long_name_0, x(i) * a_quite_long_name_1,",
    ]


def test_long_names_only_make_lines_longer() -> None:
    name = "n" * 150
    check_formatting(f"def {name}(float {name}a) -> ({name}) {{ {name}(i) = {name}a * {name}(i) }}")


def test_formatting_refuses_what_does_not_parse() -> None:
    with pytest.raises(ParseError):
        format_source(Source("def f("))


def test_line_ends_of_any_system_become_newlines() -> None:
    text = "def f() -> (o) {\r\n\r\n  o = 1 # one\r\n\r\n\r\n  o = 2\r\n}\r\n"
    assert check_formatting(text) == "def f() -> (o) {\n  o = 1  # one\n\n  o = 2\n}\n"
