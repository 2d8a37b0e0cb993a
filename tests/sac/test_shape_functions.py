"""Shape functions of programs whose shapes follow from values of calls and known ranks (6.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tc.sac.text.parser import parse

A = np.int32([[9, 2], [3, 4], [5, 6]])
PROGRAMS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    # an argument that the value of a call does not need has its declared type and rank
    ("int f(bool[.] p, int[*] q) { return q[0]; } "
     "int[*] main(bool[*] b, int[*] q) { return genarray([f(b, q)], 1); }",
     {"b": np.array([True]), "q": np.int32([4])}, (4,)),
    ("int f(half[n,n] p, int[*] q) { return q[0]; } "
     "int[*] main(half[*] b, int[*] q) { return f(b, q) > 3 ? q : 0; }",
     {"b": np.zeros((2, 2), np.float16), "q": np.int32([4])}, (1,)),
    ("int f(bool[n] p) { return n; } "
     "int[*] main(bool[*] b, int[*] q) { return genarray([f(b)], q); }",
     {"b": np.zeros(5, bool), "q": np.int32([4])}, (5, 1)),
    ("int f(int8[.,.] p) { return dim(p) + shape(p)[1]; } "
     "int[*] main(int8[.,.] b) { return genarray([f(b[[]])], 2); }",
     {"b": np.zeros((1, 2), np.int8)}, (4,)),
    # nothing is needed of arrays whose declared sizes have common names, or names of the body
    ("int[*] f(double[n,3] p, int[n,m] q, double[2:s] r) { k = n + 1; return genarray([2], 4); } "
     "int[*] main(double[*] a, int[*] b, double[*] c) { return genarray(f(a, b, c), 0); }",
     {"a": np.zeros((5, 3)), "b": np.zeros((5, 2), np.int32), "c": np.zeros((1, 2))}, (4, 4)),
    ("int f(double[n,3] p, int[n] q) { return 4; } "
     "int[*] main(double[*] a, int[*] b) { return genarray([f(a, b)], 0); }",
     {"a": np.zeros((5, 3)), "b": np.zeros(5, np.int32)}, (4,)),
    ("int[n] f(double[n] p, int k) { return genarray([3], k); } "
     "int[*] main(double[*] a) { return genarray([sum(f(a, 2))], 0); }",
     {"a": np.zeros(3)}, (6,)),
    # an array of which only the shape is needed keeps its type
    ("int f(double[*] p) { return dim(p) == 2 ? 4 : 5; } "
     "int[*] main(double[.,.] a) { return genarray([f(a - 1)], 0); }",
     {"a": np.zeros((2, 2))}, (4,)),
    ("bool f(double[*] p) { return sum(p) == 0; } "
     "int[*] main(double[.] a, int[*] v) { return f(zero(a)) ? v : reverse(v); }",
     {"a": np.ones(2), "v": A[0]}, (np.shape(A[0]))),
    # the pattern says how long the bound is
    ("int[*] main(int[*] a, int[*] v) { return { [i] -> any(v) | [i] < shape(v) }[1] + 1; }",
     {"a": A, "v": np.int32([0, 1, 2])}, ()),
    ("int[*] main(int[*] a, int[*] v) { return reverse({ [i,j] -> 1 | [i,j] < v }); }",
     {"a": A, "v": np.int32([2, 3])}, (2, 3)),
    ("int[*] main(int[*] a, int[.] v) { return { [k] -> { [i,j] -> k | [i,j] < shape(a) }[1,0] "
     "| [k] < v }; }",
     {"a": A, "v": np.int32([3])}, (3,)),
    ("int[*] main(int[*] a, int[.] v) { x = { [i,j] -> i | [i,j] < shape(a) }; "
     "return { [k] -> x[1,0] | [k] < v }; }",
     {"a": A, "v": np.int32([3])}, (3,)),
    ("int[*] main(int[*] a, int[.] v) { return { [k] -> { [i] -> k | [i] < v[0] } | [k] < v }; }",
     {"a": A, "v": np.int32([3])}, (3, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "inputs", "due"), PROGRAMS)
def test_a_shape_function_gives_the_shape(
    text: str, inputs: dict[str, Any], due: tuple[int, ...]
) -> None:
    assert np.shape(tc.sac.interpret(text, inputs, entry="main")) == due
    written = tc.sac.shape_function(text, entry="main")
    given = {}
    for name, level in tc.sac.demand(text, "S", entry="main").items():
        shape = np.array(inputs[name].shape, np.int32)
        if level != "N":
            given[name] = {"F": inputs[name], "S": shape, "D": np.int32(len(shape))}[level]
    function = parse(tc.Source(written)).definitions[-1].name.text
    assert tuple(tc.sac.interpret(written, given, entry=function)) == due
