"""What is computed and read for which level (C10, C22, C23)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.sac import reference
from tc.sac.levels.values import Context, Value
from tc.sac.reference import results_of
from tc.sac.text.parser import parse


class Traced:
    """An array that counts how often its elements are asked for."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.reads = 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.reads += 1
        return self.array


def values(text: str, **inputs: Any) -> tuple[tuple[Value, ...], Context]:
    return results_of(parse(tc.Source(text)), inputs, None)


@pytest.fixture
def instances(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The loops that are computed."""
    computed: list[object] = []
    compute = reference.compute_loop

    def noted(loop: Value) -> Any:
        computed.append(loop)
        return compute(loop)

    monkeypatch.setattr(reference, "compute_loop", noted)
    return computed


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("{ iv -> a[iv] + 1 }", (3, 4)),
        ("{ [i] -> reverse(a[i]) }", (3, 4)),
        ("{ [i,...] -> a * i | [i] < [5] }", (5, 3, 4)),
        ("{ [i] -> sum({ [j] -> a[i,j] | [j] < [i+1] }) }", (3,)),
        ("{ [i] -> genarray([2], sum(a)) | [i] < shape(a)[0] }", (3, 2)),
        ("a[[7]]", (4,)),
        ("a[99, 99]", ()),
        ("with { ([0] <= [i] < [9]) : a[i]; } : modarray(a)", (3, 4)),
        ("x = a[99, 99]; take([2], transpose(a)) ++ drop([1], transpose(a))", (5, 3)),
        ("sum(a) > 0 ? a : a + 1", (3, 4)),
    ],
)
def test_scheme_s_computes_no_instance_and_reads_nothing(
    text: str, shape: tuple[int, ...], instances: list[object]
) -> None:
    a = Traced(np.arange(12, dtype=np.int32).reshape(3, 4))
    (result,), _ = values(text, a=a)
    assert result.shape == shape
    assert a.reads == 0
    assert instances == []


def test_scheme_s_reads_what_decides_the_shape_alone(instances: list[object]) -> None:
    n, a = Traced(np.array([2], np.int32)), Traced(np.zeros((5, 4), np.float32))
    (result,), _ = values("take(n, a)", n=n, a=a)
    assert result.shape == (2, 4)
    assert (n.reads, a.reads, instances) == (1, 0, [])


def test_scheme_d_does_not_look_at_amounts() -> None:
    (result,), _ = values("take([9], a)", a=np.zeros((5, 4), np.int8))
    assert result.rank == 2
    with pytest.raises(tc.RangeError, match=r"take\(\[9\], \.\.\.\): 9 elements of 5"):
        _ = result.shape


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("x = 1 / 0; 3", 3),
        ("false && 1 / 0 > 0 ? 1 : 2", 2),
        ("true || 1 / 0 > 0 ? 1 : 2", 1),
        ("sum({ [i] -> 1 | [i] < [2]; [i] -> 1 / 0 | [i] < [2] })", 2),
        ("dim(a) > 1 && a[0, 1] > 0 ? 1 : 2", 2),
        ("shape({ [i] -> 12 / i | [i] < [3] })[0]", 3),
    ],
)
def test_what_no_result_needs_raises_nothing(text: str, due: int) -> None:
    found = tc.sac.interpret(text, {"a": np.zeros(3, np.int32)} if "a[" in text else {})
    assert found == due


UNMATCHED = [
    "int[*] f(int[2] u, int[*] x) { return x + 1; } "
    "int[*] g(int[*] a, int[*] x) { return f(%s, x); }",
    "int[*] f(int[n,n] u, int[*] x) { return x + 1; } "
    "int[*] g(int[*] a, int[*] x) { return f(genarray(a, 0), x); }",
    "int[*] f(int[+] u, int[n] x) { return x + 1; } "
    "int[*] g(int[*] a, int[*] x) { return f(reshape(drop([2], a), [1]), x); }",
]  # fmt: skip


@pytest.mark.parametrize("text", UNMATCHED)
@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_an_argument_that_no_result_needs_is_not_computed_for_its_type(
    text: str, backend: str
) -> None:
    """C6, C10: data decide its shape, and demand says that nothing of them is needed (C24)."""
    text = text.replace("%s", "iota(a[0])")
    assert tc.sac.demand(text, "F", entry="g") == {"a": "N", "x": "F"}
    found = tc.sac.compile(text, entry="g", backend=backend)(np.int32([5, 3]), np.int32([1, 2]))
    np.testing.assert_array_equal(found, [2, 3])


def test_an_argument_that_no_result_needs_is_of_its_declared_shape() -> None:
    """C6: shapes of the inputs show that this one is not."""
    text = UNMATCHED[0].replace("%s", "a")
    with pytest.raises(tc.RangeError) as caught:
        tc.sac.interpret(text, np.int32([5, 3, 1]), np.int32([1, 2]), entry="g")
    assert caught.value.rule == "C6"


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ("with { ([0] <= [j] < [2]) { x = a[i]; y = i; } : y; } : fold(+, 0)", "a"),
        ("with { ([0] <= [j] < [2]) { if (a[i] > 0) { y = b[i]; } else { y = 2; } } : y; } : "
         "fold(+, 0)", "ab"),
        ("with { ([0] <= [j] < [2]) { i = 0; x = a[i]; } : x; } : fold(+, b[i])", "b"),
        ("with { ([0] <= [j] < [2]) : 1; } : modarray({ [k] -> a[i] | [k] < [2] })[0]", "a"),
    ],
)  # fmt: skip
def test_demand_knows_what_bounds_an_index_in_a_with_loop(body: str, needed: str) -> None:
    """C15, C24: selections in statements and operands of with-loops."""
    text = f"{{ [i] -> {body} }}"
    found = tc.sac.demand(text, "S")
    assert {name for name, level in found.items() if level == "S"} == set(needed)
    short = {name: np.zeros(3 if name in needed else 9, np.int32) for name in found}
    assert tc.sac.compile(text).infer(short).shape == (3,)


def test_the_index_decides_no_shape_of_the_last_partition() -> None:
    with pytest.raises(tc.CheckError, match="depends on the value of i") as caught:
        tc.sac.interpret("{ [i] -> take([i], v) | [i] < [3] }", v=np.zeros(4, np.int32))
    assert caught.value.rule == "C23"


def test_a_warning_is_told_once_for_all_instances() -> None:
    text = "{ [i] -> sum({ [j] -> take([i], v)[j] * w[j] }) | [i] < [5] }"
    given = {"v": np.arange(5, dtype=np.int32), "w": np.ones(9, np.int32)}
    for run in (tc.sac.interpret, lambda t, g: tc.sac.compile(t)(g)):
        with pytest.warns(tc.TCWarning, match="'j' is bounded by") as told:
            assert run(text, given).tolist() == [0, 0, 1, 3, 6]
        assert len(told) == 1


def test_a_warning_names_both_bounds_that_differ() -> None:
    """C15."""
    a, b = np.zeros(5, np.int32), np.zeros(3, np.int32)
    with pytest.warns(tc.TCWarning, match=r"shape\(a\)\[0\] = 5 and by shape\(b\)\[0\] = 3"):
        assert tc.sac.interpret("{ [i] -> a[i] + b[i] }", a=a, b=b).shape == (3,)


@pytest.mark.parametrize(
    ("text", "kind", "rule", "message"),
    [
        ("a[3]", tc.RangeError, "C8", "index 3 is outside 0..2 of axis 0, shape [3]"),
        ("a[n[0]]", tc.AccessError, "C8", "index 7 is outside 0..2 of axis 0, shape [3]"),
        ("[1,2][5]", tc.CheckError, "C8", "index 5 is outside 0..1 of axis 0, shape [2]"),
        ("{ [i] -> a[i+1] | [i] < [3] }", tc.RangeError, "C8", "at [i] = [2]"),
        ("6 / (n[0] - 7)", tc.AccessError, "Y4", "integer division by zero"),
        ("m + a", tc.RangeError, "C7", "'+': shapes [2,3] and [3] differ"),
        ("a > 0 ? 1 : 2", tc.RangeError, "C10", "a condition of shape [3]; reduce it with all"),
        ("{ [i] -> 7 | [i] < n; [i] -> 1 | [i] < [3] }", tc.AccessError, "C12",
         "the range [0] <= [i] < [7] leaves the result, shape [3]"),
        ("{ [i] -> a ++ a | [i] < [1]; iv -> m[iv] }", tc.RangeError, "C13",
         "the body at [i] = [0] has shape [6], the result has room for [3]"),
        ("{ [i] -> 0 | [i] < [-1] }", tc.CheckError, "C14", "the shape [-1] has a negative size"),
        ("with { (. <= iv <= .) : 1; } : fold(+, 0)", tc.CheckError, "C21", "a dot bounds a fold"),
    ],
)  # fmt: skip
def test_errors_have_the_class_of_what_shows_them(
    text: str, kind: type[tc.TCError], rule: str, message: str
) -> None:
    given = {
        "a": np.arange(3, dtype=np.int32),
        "m": np.zeros((2, 3), np.int32),
        "n": np.array([7], np.int32),
    }
    used = {name: value for name, value in given.items() if name in tc_names(text)}
    with pytest.raises(kind) as caught:
        tc.sac.interpret(text, used)
    assert type(caught.value) is kind
    assert caught.value.rule == rule
    assert message in str(caught.value)


def tc_names(text: str) -> set[str]:
    """The names in a text that are inputs."""
    return set(tc.sac.demand(text, "F")) if "fold" not in text else set()


REPAIRS = [
    ("m + a", "{ [i] -> m[i] + a }"),
    ("a[-1]", "a[shape(a)[0]-1]"),
    ("{ iv -> t[0, iv] | iv < [2] }", "t[[0] ++ iv]"),
    ("a ++ 1", "[1]"),
    (
        "{ [i] -> a[i] + a[i+1] }",
        "{ [i] -> a[i] + a[i+1] | [i] < shape(a) - 1 }",
    ),
    ("{ [i,j] -> m[i,j] + m[i,j+1] }", "| [i,j] < [shape(m)[0], shape(m)[1] - 1] }"),
    ("{ iv -> m[iv] + m[iv + 1] }", "| iv < shape(m) - 1 }"),
    ("a > 0 ? 1 : 2", "any(a > 0) ? 1 : 2"),
]


@pytest.mark.parametrize(("text", "repair"), REPAIRS)
def test_repairs_run(text: str, repair: str) -> None:
    given = {
        "a": np.arange(3, dtype=np.int32),
        "m": np.zeros((2, 3), np.int32),
        "t": np.zeros((1, 2, 3), np.int32),
    }
    used = {name: value for name, value in given.items() if name in tc_names(text)}
    with pytest.raises(tc.TCError) as caught:
        tc.sac.interpret(text, used)
    repaired = caught.value.repaired()
    assert repaired is not None
    assert repair in repaired
    tc.sac.interpret(repaired, used)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("1.5", "float64"), ("1.5 * a", "float64"), ("sqrt(a)", "float64"), ("1.5 * f", "float32"),
        ("f * 1.5d", "float64"), ("b + 1", "int8"), ("[1, 2] ++ b", "int8"),
        ("b + dim(a)", "int32"),
        ("true + true", "int32"), ("sum([true, true])", "int32"), ("maxval([true])", "bool"),
        ("3000000000", "int64"), ("min(true, false)", "bool"), ("b * 1.5f", "float32"),
        ("zero(b)", "int8"), ("shape(b)", "int32"), ("true ? 1 : 1.5", "float64"),
        ("with { ([0] <= [i] < [2]) : b[0]; } : fold(+, 0)", "int8"),
        ("with { ([0] <= [i] < [2]) : true; } : fold(&&, true)", "bool"),
    ],
)  # fmt: skip
def test_types_of_results(text: str, dtype: str) -> None:
    """C5."""
    given = {
        "a": np.arange(1, 4, dtype=np.int32),
        "b": np.array([1, 2], np.int8),
        "f": np.ones(2, np.float32),
    }
    used = {name: given[name] for name in tc.sac.demand(text, "F")}
    assert tc.sac.interpret(text, used).dtype == dtype
