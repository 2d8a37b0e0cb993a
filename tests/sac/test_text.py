"""SaC's notation as text: what is printed or laid out parses back to the same tree (C1 to C3)."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tc.frontend.layout import MAX_COLUMNS
from tc.sac import ast
from tc.sac.text.format import format_source, print_module
from tc.sac.text.parser import parse
from tc.sac.text.printer import module_text
from tc.sac.text.tokens import scan
from tc.source import Source
from tests.support.sac_strategies import modules, ragged


@given(modules())
def test_what_is_printed_parses_back_to_the_same_tree(module: ast.Module) -> None:
    assert parse(Source(module_text(module))) == module
    text = print_module(module)
    assert parse(Source(text)) == module
    assert format_source(Source(text)) == text
    assert all(line == line.rstrip() for line in text.split("\n"))


@given(modules(), st.randoms(use_true_random=False))
def test_layout_keeps_the_tokens_and_the_comments(module: ast.Module, random: Random) -> None:
    tokens = [token.text for token in scan(Source(module_text(module))).tokens[:-1]]
    text, comments = ragged(tokens, random)
    formatted = format_source(Source(text))
    found = scan(Source(formatted))
    assert [token.text for token in found.tokens[:-1]] == tokens
    assert [comment.text for comment in found.comments] == comments
    assert parse(Source(formatted)) == module
    assert format_source(Source(formatted)) == formatted
    assert all(line == line.rstrip() for line in formatted.split("\n"))
    assert "\n\n\n" not in formatted


def test_a_layout_of_every_kind_of_line() -> None:
    text = """
// relaxation
float[*] relax(float[d:s]a,float[+]b){
 // the middle


 m={iv->a[iv-1]+a[iv+1]|1<=iv<s-1;iv->a[iv]};/* kept */
 if(dim(a)>2&&all(s>0)){r=m;}else if(k==1){r=-m;}
 else{r,q=f(m);} r+=1;
 return(with{(.<=iv<=.){t=iv++[0];}:a[t][.,0];([0,1]<=[i,j]<shape(a)):0}:genarray(s,0.0));
}
int f(int n){return n;}
"""
    assert (
        format_source(Source(text))
        == """\
// relaxation
float[*] relax(float[d:s] a, float[+] b) {
  // the middle

  m = { iv -> a[iv - 1] + a[iv + 1] | 1 <= iv < s - 1; iv -> a[iv] };  /* kept */
  if (dim(a) > 2 && all(s > 0)) {
    r = m;
  } else if (k == 1) {
    r = -m;
  } else {
    r, q = f(m);
  }
  r += 1;
  return (with {
    (. <= iv <= .) {
      t = iv ++ [0];
    } : a[t][.,0];
    ([0,1] <= [i,j] < shape(a)) : 0
  } : genarray(s, 0.0));
}

int f(int n) {
  return n;
}
"""
    )


def test_long_lines_break_where_the_tree_is_loosest() -> None:
    name = "quantity"
    text = f"{{ iv -> {' + '.join(f'{name}{k}[iv]' for k in range(5))} | iv < shape({name}) }}"
    lines = format_source(Source(text)).splitlines()
    assert all(len(line) <= MAX_COLUMNS for line in lines)
    assert lines[-1].strip() == f"| iv < shape({name}) }}"
