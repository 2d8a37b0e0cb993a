"""Each rule C that gives values, by values that were worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc.sac
from tc.errors import TCError

V = np.int32([3, 1, 4, 1])
M = np.int32([[1, 2, 3], [4, 5, 6]])

VALUES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("C5", "{ [i] -> 0.5 | [i] < [1]; [i] -> 0 | [i] < [2] }", {}, np.float64([0.5, 0])),
    ("C5", "[(-7) / 2, (-7) % 2]", {}, np.int32([-4, 1])),
    ("C7", "[v, v * 2]", {"v": V}, np.int32([[3, 1, 4, 1], [6, 2, 8, 2]])),
    ("C8", "m[.,1]", {"m": M}, np.int32([2, 5])),
    ("C8", "m[...,0]", {"m": M}, np.int32([1, 4])),
    ("C9", "take([-2], v) ++ drop([3], v)", {"v": V}, np.int32([4, 1, 1])),
    ("C10", "unused = 1 / n; n + 1", {"n": 0}, np.int32(1)),
    ("C11", "{ [i] -> 7 | [1] <= [i] < [3]; [i] -> i | [i] < [5] }", {}, np.int32([0, 7, 7, 3, 4])),
    ("C13", "{ [i] -> v[[0]] ++ [8,9] | [1] <= [i] < [2]; iv -> m[iv] }", {"v": V, "m": M}, None),
    ("C14", "{ [i] -> i | [2] <= [i] <= [4] }", {}, np.int32([0, 0, 2, 3, 4])),
    ("C15", "{ [i,j] -> m[j,i] }", {"m": M}, np.int32([[1, 4], [2, 5], [3, 6]])),
    ("C16", "{ [i] -> v[i] | [1] <= [i] }", {"v": V}, np.int32([0, 1, 4, 1])),
    ("C17", "{ iv -> 9 | [1] <= iv <= .; iv -> v[iv] }", {"v": V}, np.int32([3, 9, 9, 9])),
    (
        "C19",
        "shape({ [i,...,j] -> [[1,2],[3,4]] + i | [i,j] < [5,5] })",
        {},
        np.int32([5, 2, 2, 5]),
    ),
    ("C20", "{ [i,.] -> [1,2] * i | [i] < [2] }", {}, np.int32([[0, 0], [1, 2]])),
    (
        "C21",
        "with { ([0] <= [i] < [4]) : i; ([2] <= [i] < [6]) : 100 * i; } : fold(+, 0)",
        {},
        np.int32(0 + 1 + 2 + 3 + 400 + 500),
    ),
    ("C22", "shape(a[[7]])", {"a": np.zeros((0, 6), np.float32)}, np.int32([6])),
    ("C23", "shape({ [i] -> reverse(a[i]) })", {"a": np.zeros((0, 5), np.int32)}, np.int32([0, 5])),
]


@pytest.mark.parametrize(("rule", "text", "inputs", "due"), VALUES, ids=[v[1] for v in VALUES])
def test_a_rule_by_value(rule: str, text: str, inputs: dict[str, Any], due: Any) -> None:
    if due is None:
        with pytest.raises(TCError) as caught:
            tc.sac.interpret(text, **inputs)
        assert caught.value.rule in (rule, "C7", "C9")  # `++` joins no scalar
        return
    got = np.asarray(tc.sac.interpret(text, **inputs))
    assert got.dtype == due.dtype
    assert np.array_equal(got, due)


REFUSALS: list[tuple[str, str, dict[str, Any]]] = [
    ("C6", "int[n] f(int[n] a, int[n] b) { return a; }", {"a": V, "b": V[:2]}),
    ("C7", "v + w", {"v": V, "w": V[:2]}),
    ("C8", "v[4]", {"v": V}),
    ("C12", "{ [i] -> 7 | [i] < [4]; [i] -> 1 | [i] < [3] }", {}),
    ("C13", "{ [i] -> 0 | [i] < [1]; [i] -> m[i] }", {"m": M}),
    ("C14", "{ iv -> 1.5 | iv < shape(v) - 5 }", {"v": V}),
    ("C16", "{ [i,j] -> v[i] * j }", {"v": V}),
    ("C17", "{ iv -> 0 | [0] <= iv <= . }", {}),
    ("C18", "{ iv -> 0 | . < iv <= .; iv -> v[iv] }", {"v": V}),
    ("C19", "{ [.,i,.] -> v | [i] < [2] }", {"v": V}),
    ("C23", "{ iv -> take(iv, v) | iv < shape(v) }", {"v": V}),
    ("C25", "v + w", {"v": V}),
]


@pytest.mark.parametrize(("rule", "text", "inputs"), REFUSALS, ids=[r[1] for r in REFUSALS])
def test_a_rule_refuses(rule: str, text: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(TCError) as caught:
        tc.sac.interpret(text, **inputs)
    assert caught.value.rule == rule


def test_demand_is_known_without_inputs() -> None:
    """C24: the sum of an array and a scalar has the array's shape."""
    text = "int[+] plus(int[+] A, int B) { return A + B; }"
    assert tc.sac.demand(text, "S") == {"A": "S", "B": "N"}


def test_a_function_is_lowered_to_one_def() -> None:
    """C26."""
    text = "float[*] f(float[*] x) { return { iv -> x[iv] + 1 }; }"
    function = tc.sac.compile(text, backend="interpret")
    assert function.lowered(np.zeros(3, np.float32)).text.count("def ") == 1


SAME_IN_BOTH = [
    ("if (c) { y = x; } else { y = x; } y", lambda x: x),
    ("if (c) { y = x; } else { y = x; } y += 1; y", lambda x: x + 1),
    ("if (c) { y = x; z = y; } else { z = x; y = x; } z + y", lambda x: x + x),
    ("if (c) { if (c) { y = x; } else { y = x; } } else { y = x; } -y", lambda x: -x),
]


@pytest.mark.parametrize("backend", ["interpret", "c"])
@pytest.mark.parametrize(("text", "formula"), SAME_IN_BOTH)
def test_branches_that_set_a_variable_to_one_value(text: str, formula: Any, backend: str) -> None:
    """C10: a variable that both branches set is known behind them."""
    x = np.int32([1, -2, 3])
    for c in (True, False):
        found = tc.sac.compile(text, backend=backend)(x=x, c=c)
        np.testing.assert_array_equal(found, formula(x))
    assert tc.sac.demand(text, "F") == {"c": "F", "x": "F"}
    shape = tc.sac.shape_function(text)
    assert tc.sac.interpret(shape, c=True, x=np.int32([3])).tolist() == [3]
    np.testing.assert_array_equal(tc.sac.interpret(tc.sac.desugar(text), x=x, c=True), formula(x))
