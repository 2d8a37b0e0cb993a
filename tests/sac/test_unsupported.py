"""What SaC has and this notation has not: each refused by its name, with what serves (C27)."""

from __future__ import annotations

import pytest

import tc
import tc.sac

F = "int[*] f(int[*] a) { return a; }"
TEXTS = [
    (f"use Array: all; {F}", "'use'"),
    (f"import Array: all; {F}", "'import'"),
    (f"export all; {F}", "'export'"),
    (f"provide all; {F}", "'provide'"),
    (f"module m; {F}", "'module'"),
    (f"inline {F}", "'inline'"),
    (f"noinline {F}", "'noinline'"),
    (f"specialize {F}", "'specialize'"),
    (f"thread {F}", "'thread'"),
    ("external int g(int a); " + F, "functions of other languages"),
    (f"class c; {F}", "classes"),
    (f"struct p {{ int x; }}; {F}", "structs"),
    (f"typedef int[3] p; {F}", "definitions of types"),
    ("void f(int a) { return a; }", "functions without a result"),
    ("int[*] + (int[*] a, int[*] b) { return a; }", "definitions of operators"),
    ("int[n] f(int[n] a, int[m] b) | n == m { return a; }", "constraints of types"),
    ("int f(int n) { while (n > 0) { n = n - 1; } return n; }", "loops ('while')"),
    ("int f(int n) { do { n = n - 1; } while (n > 0); return n; }", "loops ('do')"),
    ("int f(int n) { for (i = 0; i < n; i++) { n += i; } return n; }", "loops ('for')"),
    ("{ [i] -> v[i] | [0] <= [i] < [4] step [2] }", "'step'"),
    ("{ [i] -> v[i] | [0] <= [i] < [4] width [2] }", "'width'"),
    ("with { ([0] <= [i] < [4] width [2]) : v[i]; } : genarray([4], 0)", "'width'"),
    ("{ [i,j] -> m[i,j] | [i,j] < [3,3] && [j] < [i] }", "a range that is no box"),
    ("{ [i,j] -> m[i,j] | [i,j] < [3,3], [j] < [i] }", "a range that is no box"),
    ("{ iv -> v[iv], v[iv] + 1 }", "several results of one comprehension"),
    ("with { ([0] <= [i] < [4]) : v[i]; } : fold(gcd, 0)", "folds with functions ('gcd')"),
]


@pytest.mark.parametrize(("text", "name"), TEXTS)
def test_what_is_not_supported_is_refused_by_name(text: str, name: str) -> None:
    with pytest.raises(tc.ParseError) as caught:
        tc.sac.compile(text)
    error = caught.value
    assert error.rule == "C1"
    assert error.cause.startswith(f"not supported: {name}")
    assert error.repair or error.idiom


@pytest.mark.parametrize(
    ("text", "serves"),
    [
        ("_drop_SxV_(n, v)", "drop"),
        ("_sel_VxA_([1], v)", "sel"),
        ("_add_SxS_(1, 2)", "+"),
        ("_modarray_AxVxS_(v, [1], 2)", "modarray"),
    ],
)
def test_a_primitive_is_refused_with_what_serves(text: str, serves: str) -> None:
    with pytest.raises(tc.CheckError, match="primitives have no names here") as caught:
        tc.sac.compile(text)
    error = caught.value
    assert error.rule == "C4"
    assert serves in f"{error.repair} {error.idiom}"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("int f(int a) { return a; } int f(float a) { return 1; }", "functions are not overloaded"),
        ("int f(int n) { return n < 1 ? 1 : f(n - 1); }", "'f' calls itself"),
        ("int f(int n) { A = { [i] -> A[i] | [i] < [n] }; return A[0]; }", "its own comprehension"),
    ],
)
def test_overloading_recursion_and_self_reference_are_named(text: str, cause: str) -> None:
    with pytest.raises(tc.CheckError) as caught:
        tc.sac.compile(text)
    assert caught.value.rule == "C4"
    assert cause in caught.value.cause
    assert caught.value.idiom
