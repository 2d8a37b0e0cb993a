"""What "Tensor Comprehensions in SaC" promises, line by line (spec/promises.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac

BACKENDS = ("interpret", "numba", "c")


def run(text: str, **inputs: Any) -> Any:
    """The result by the reference, which that of all backends equals."""
    due = tc.sac.interpret(text, **inputs)
    for backend in BACKENDS:
        np.testing.assert_array_equal(tc.sac.compile(text, backend=backend)(**inputs), due)
    return due


def rule_of(text: str, **inputs: Any) -> str | None:
    """The rule of the error that the text and inputs give."""
    with pytest.raises(tc.TCError) as caught:
        tc.sac.interpret(text, **inputs)
    assert caught.value.repair or caught.value.idiom
    return caught.value.rule


def ints(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def test_verbosity() -> None:
    """sac-3: bounds, index components, default elements and result shapes need not be written."""
    loop = (
        "with { ([0,0] <= [i,j] < [shape(A)[0], shape(B)[1]]) : with { ([0] <= [k] < shape(B)[0]) "
        ": A[[i,k]] * B[[k,j]]; } : fold(+, 0); } : genarray([shape(A)[0], shape(B)[1]], 0)"
    )
    short = "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }"
    a, b = ints(3, 4), ints(4, 5)
    assert (run(loop, A=a, B=b) == a @ b).all()
    assert (run(short, A=a, B=b) == a @ b).all()


def test_partitions() -> None:
    """sac-4.1"""
    found = run("{ iv -> 1 | [0] <= iv < [5]; iv -> 2 | [5] <= iv < [10] }")
    assert found.tolist() == 5 * [1] + 5 * [2]


def test_simplified_generators() -> None:
    """sac-4.2"""
    a = ints(3, 4)
    assert (run("{ iv -> a[iv] + 1 | iv < [2,2] }", a=a) == a[:2, :2] + 1).all()
    lower = run("{ iv -> a[iv] | [1,1] <= iv }", a=a)
    assert (lower[1:, 1:] == a[1:, 1:]).all()
    assert (lower[0] == 0).all()
    assert (run("{ iv -> a[iv] }", a=a) == a).all()
    assert rule_of("{ iv -> 1 }") == "C16"


def test_patterns() -> None:
    """sac-4.3"""
    a = ints(2, 3, 4)
    assert (run("{ [i,j] -> a[i,j] }", a=a) == a).all()
    assert (run("{ [i,.] -> a[i,0] }", a=a) == a[:, 0]).all()
    assert (run("{ [i,...] -> a[i] }", a=a) == a).all()
    assert run("{ [., i, ..., j] -> x + i + j | [i,j] < [5,6] }", x=ints(2, 3)).shape == (
        2,
        5,
        3,
        6,
    )
    assert rule_of("{ [..., i, ...] -> a[i] }", a=a) == "C3"


def test_last_partition() -> None:
    """sac-4.4"""
    i, j = np.indices((10, 10))
    far = (i >= 3) & (j >= 3)
    found = run("{ [i,j] -> i+j | [3,3] <= [i,j]; iv -> 0 | iv < [10,10] }")
    assert (found == np.where(far, i + j, 0)).all()
    a = -ints(10, 10)
    found = run("{ [i,j] -> i+j | [3,3] <= [i,j]; iv -> a[iv] }", a=a)
    assert (found == np.where(far, i + j, a)).all()


def test_folds_are_functions() -> None:
    """sac-4.5"""
    a = ints(3, 4)
    assert (run("{ [i] -> sum({ [k] -> a[i,k] }) }", a=a) == a.sum(1)).all()
    assert (run("{ [i] -> maxval({ [k] -> a[k,i] }) }", a=a) == a.max(0)).all()


def test_dots_transpose() -> None:
    """sac-4.6"""
    rows = np.arange(5)[:, None] + [1, 2, 3]
    assert (run("{ [i, .] -> [1,2,3] + i | [i] < [5] }") == rows).all()
    assert (run("{ [..., i] -> [1,2,3] + i | [i] < [5] }") == rows.T).all()
    found = run("{ [i, ..., j] -> [[1,2],[3,4]] + i | [i,j] < [5,5] }")
    due = np.int32([[1, 2], [3, 4]])[None, :, :, None] + np.arange(5)[:, None, None, None]
    assert (found == np.broadcast_to(due, (5, 2, 2, 5))).all()


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds
def test_shapes_are_found() -> None:
    """sac-5.1"""
    a, b = ints(3, 4), ints(2)
    assert run("{ [i,j] -> a[j,i] + b[i] }", a=a, b=b).shape == (2, 3)
    assert rule_of("{ [i,j] -> a[i] }", a=b) == "C16"


def test_bound_rules() -> None:
    """sac-5.2"""
    a = ints(4)
    zero_at_the_end = "{ [i] -> a[i] * 0 | [3] <= [i]; [i] -> a[i] }"
    assert run(zero_at_the_end, a=a).tolist() == [0, 1, 2, 0]
    assert run("{ [i] -> 7; [i] -> a[i] }", a=a).tolist() == [7, 7, 7, 7]
    assert rule_of("{ [i] -> 7 }") == "C16"
    assert rule_of("{ [i] -> a[i] | [0] <= [i] <= . }", a=a) == "C17"


def test_lower_bound_takes_a_prefix() -> None:
    """sac-5.3"""
    a = ints(3, 4)
    found = run("{ iv -> a[iv] | [1] <= iv }", a=a)
    assert (found == np.concatenate([np.zeros((1, 4)), a[1:]])).all()


def test_dots_are_eliminated() -> None:
    """sac-5.4"""
    for text in ("{ [i,.] -> a[.,i] }", "{ [..., i] -> a[i] }", "{ [., i, ...] -> a[i] }"):
        plain = tc.sac.desugar(text)
        assert "->" not in plain
        assert "..." not in plain
        a = ints(3, 4, 5)
        assert (run(plain, a=a) == run(text, a=a)).all()


def test_with_loops() -> None:
    """sac-5.5"""
    plain = tc.sac.desugar("{ [i] -> [i, 2*i] | [1] <= [i] < [2]; [i] -> [9, 9] | [i] < [2] }")
    assert plain.startswith("with {")
    assert run(plain).tolist() == [[9, 9], [1, 2]]


def test_the_default_element_computes_no_instance() -> None:
    """sac-6.1"""
    assert run("{ [i] -> reverse(a[i]) }", a=np.zeros((0, 2048), np.int32)).shape == (0, 2048)
    found = run("{ [i] -> [12/i, i] | [1] <= [i] < [5] }")
    assert found.tolist() == [[0, 0], [12, 1], [6, 2], [4, 3], [3, 4]]
    varying = "{ [i] -> iota(n[i]) | [i] < [2]; [i] -> iota(3) | [i] < [2] }"
    assert run(varying, n=np.int32([3, 3])).tolist() == [[0, 1, 2], [0, 1, 2]]
    with pytest.raises(tc.TCError, match="the result has room for"):
        tc.sac.interpret(varying, n=np.int32([3, 2]))


def test_levels_of_demand() -> None:
    """sac-6.2"""
    text = "int[*] f(int[*] A) { return A[[0]] + 1; }"
    assert tc.sac.demand(text, "S") == {"A": "S"}
    assert tc.sac.demand("int f(int[*] x) { return 42; }", "F") == {"x": "N"}
    shape = tc.sac.shape_function(text)
    assert "drop([1], A)" in shape
    assert tc.sac.interpret(shape, np.int32([0, 2048])).tolist() == [2048]


def test_what_is_not_supported() -> None:
    """sac-7: non-rectangular spaces and self-reference."""
    text = "int[*] f(int n) { A = { [i] -> i == 0 ? 0 : A[i-1] | [i] < [n] }; return A; }"
    assert rule_of(text, n=3) == "C4"
    assert rule_of("int[*] f(int n) { return { [i,j] -> i | [i,j] < [n,i] }; }", n=3) == "C4"


def test_dead_code_raises_nothing() -> None:
    """sac-8: the demand is the meaning of the whole language (C10)."""
    text = "int[*] f(int[*] a) { b = a / 0; return shape(b); }"
    assert run(text, a=ints(2, 3)).tolist() == [2, 3]
