"""Names of SaC's texts (C4), and what else the text alone decides (C6, C17, C21)."""

from __future__ import annotations

import pytest

from tc.errors import CheckError
from tc.sac.names import check_names, entry_of, inputs_of
from tc.sac.text.parser import parse
from tc.source import Source

F = "float[*] f(float[*] x) { return x; } "
TWO = "int, int g(int a) { return (a, a + 1); } "

REFUSED = [
    ("int f(int n) { return m; }", "C4", "unknown name 'm'"),
    ("int f(int n) { return g(n); }", "C4", "unknown function 'g'"),
    ("int f(int n) { A = { [i] -> A[i] | [i] < [n] }; return A; }", "C4", "unknown name 'A'"),
    ("take(a)", "C4", "'take' takes 2 arguments, not 1"),
    (F + "float[*] h(float[*] a, float[*] b) { return f(a, b); }", "C4", "takes 1 argument, not 2"),
    (F + F, "C4", "two functions have the name 'f'"),
    ("int sum(int a) { return a; }", "C4", "'sum' is a built-in function"),
    ("int f(int a, int a) { return a; }", "C4", "two parameters of 'f' have the name 'a'"),
    ("int[n] f(int n, int[n] a) { return a; }", "C4", "'n' is a size and a parameter"),
    (TWO + "int h(int a) { x, x = g(a); return x; }", "C4", "'x' takes two results"),
    (TWO + "int h(int a) { x = g(a); return x; }", "C4", "1 name for 2 results of 'g'"),
    (TWO + "int h(int a) { x, y, z = g(a); return x; }", "C4", "3 names for 2 results of 'g'"),
    (TWO + "int h(int a) { return g(a) + 1; }", "C4", "'g' has 2 results, and one value"),
    ("x, y = a + 1; x", "C4", "2 names for 1 result of an expression"),
    ("int f(int n) { return f(n - 1); }", "C4", "'f' calls itself"),
    (
        "int a(int n) { return b(n); } int b(int n) { return a(n); }",
        "C4",
        "'a' calls 'b' calls 'a'",
    ),
    ("int f(int c) { if (c) { r = 1; } return r; }", "C4", "unknown name 'r'"),
    ("int f(int c) { x += c; return x; }", "C4", "unknown name 'x'"),
    ("int f(int c) { return { [i] -> i | [i] < [i] }; }", "C4", "unknown name 'i'"),
    (
        "int f(int c) { return with { ([0] <= [i] < [i]) : i; } : fold(+, 0); }",
        "C4",
        "unknown name 'i'",
    ),
    ("int f(int[d:s,e:t] a) { return sum(a); }", "C6", "'d' and 'e' of int[d:s,e:t]"),
    ("{ iv -> 0 | [0] <= iv <= . }", "C17", "'.' cannot bound the last partition"),
    ("with { (. <= iv < [3]) : 1; } : fold(+, 0)", "C21", "a dot bounds a fold"),
    ("int[.] f(int[.] i) { return _drop_SxV_(i, i); }", "C4", "primitives have no names here"),
    ("float f(float x) { return pi * x; }", "C4", "unknown name 'pi'"),
]


@pytest.mark.parametrize(("text", "rule", "says"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_a_text_is_refused(text: str, rule: str, says: str) -> None:
    module = parse(Source(text))
    with pytest.raises(CheckError) as caught:
        check_names(module)
    assert caught.value.rule == rule
    assert says in caught.value.cause
    assert caught.value.repair or caught.value.idiom


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mean(a)", "sum(a) / tof(prod(shape(a)))"),
        ("max(a)", "maxval(a)"),
        ("len(a)", "shape(a)[0]"),
        ("resahpe([2,3], a)", "reshape([2,3], a)"),
        ("zeros([3])", "genarray([3], 0.0)"),
        ("_sel_VxA_([0], a)", "sel([0], a)"),
    ],
)
def test_a_function_of_another_library_has_a_repair_to_paste(written: str, meant: str) -> None:
    with pytest.raises(CheckError) as caught:
        check_names(parse(Source(written)))
    assert caught.value.repaired() == meant
    check_names(parse(Source(meant)))


@pytest.mark.parametrize(
    "text",
    [
        "int f(int c) { if (c > 0) { r = 1; } else { r = 2; } return r; }",
        "int f(int c) { r = 0; if (c > 0) { r = 1; } return r; }",
        "int[d] f(int[d:s] a) { return s * d; }",
        "int[e:ishp] f(int[d] iv, int[d:oshp,e:ishp] a) { return a[iv] + sum(oshp); }",
        "int f(int c) { return with { ([0] <= [i] < [c]) { t = i; } : t; } : fold(+, 0); }",
        "int f(int c) { sum = c; return sum(iota(sum)); }",
        TWO + "int h(int a) { x, y = g(a); return x + y; }",
        "{ [i,.,...] -> a[i] | [i] <= .; iv -> a[iv] }",
        "int f(int n) { return { [n] -> n | [n] < [n] }[0]; }",
    ],
)
def test_a_text_is_right(text: str) -> None:
    check_names(parse(Source(text)))


def test_the_inputs_of_an_expression_are_its_free_names_in_order() -> None:
    text = "y = x; if (c) { y = k; z = y; } { [i] -> y[i] + b[j] | lo <= [i] < i; iv -> z[iv] }"
    body = parse(Source(text)).body
    assert body is not None
    assert inputs_of(body) == ("x", "c", "k", "lo", "i", "b", "j", "z")


def test_an_entry_is_one_function_of_the_text() -> None:
    module = parse(Source(F + TWO))
    assert entry_of(module, "g") is module.definitions[1]
    for entry, says in ((None, "'f' and 'g'"), ("h", "no function 'h'")):
        with pytest.raises(CheckError, match=says):
            entry_of(module, entry)
    one = parse(Source(F))
    assert entry_of(one, None) is one.definitions[0]
    expression = parse(Source("a + 1"))
    assert entry_of(expression, None) is expression.body
    with pytest.raises(CheckError, match="is an expression"):
        entry_of(expression, "f")
