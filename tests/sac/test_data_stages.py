"""Integers of data that shapes, bounds and conditions need: computed before the rest, and only
their values decide what is lowered and compiled (C26)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tc.sac import function
from tests.sac.campaign import fallbacks

HISTOGRAM = "{ [b] -> sum({ [i] -> toi(x[i] == b) }) | [b] < [maxval(x) + 1] }"


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the defs that are lowered for calls."""
    made: list[str] = []
    lower = function.lower

    def noted(name: str, *args: Any) -> Any:
        made.append(name)
        return lower(name, *args)

    monkeypatch.setattr(function, "lower", noted)
    return made


def prefix_sums(v: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.array([v[:k].sum() for k in n], v.dtype)


V = np.arange(1, 9, dtype=np.int32)
X = np.int32([0, 3, 1, 3])
PROGRAMS: list[tuple[str, list[dict[str, Any]], list[Any], int]] = [
    (HISTOGRAM, [{"x": X}, {"x": X[::-1].copy()}, {"x": X % 3}, {"x": X}],
     [np.bincount(X), np.bincount(X), np.bincount(X % 3, minlength=2), np.bincount(X)], 2),
    ("take(n, v)", [{"n": np.int32([k]), "v": V} for k in (3, 3, -2, 3, -2)],
     [V[:3], V[:3], V[-2:], V[:3], V[-2:]], 2),
    ("sum(v) > 40 ? take([2], v) : v", [{"v": V}, {"v": V + 1}, {"v": V - 1}, {"v": V + 2}],
     [V, V[:2] + 1, V - 1, V[:2] + 2], 2),
    ("{ [i] -> sum({ [j] -> v[j] | [j] < [n[i]] }) | [i] < shape(n) }",
     [{"v": V, "n": np.int32(n)} for n in ([1, 2, 5], [5, 0, 3], [8, 1, 1], [1, 8, 0])],
     [prefix_sums(V, np.int32(n)) for n in ([1, 2, 5], [5, 0, 3], [8, 1, 1], [1, 8, 0])], 2),
    ("w = take(n, v); take([w[0]], v) ++ w", [{"v": V, "n": np.int32([k])} for k in (2, 3, 2, 3)],
     [np.r_[V[:1], V[:2]], np.r_[V[:1], V[:3]], np.r_[V[:1], V[:2]], np.r_[V[:1], V[:3]]], 2),
    ("reshape(n, v)", [{"n": np.int64(n), "v": V} for n in ([2, 4], [8, 1], [2, 4])],
     [V.reshape(2, 4), V.reshape(8, 1), V.reshape(2, 4)], 2),
    ("f[0] > 0.5 ? take([1], v) : (f[1] > 0.5 ? take([2], v) : v)",
     [{"f": np.float32(f), "v": V} for f in ([1, 0], [0, 1], [0, 0], [1, 1], [0, 1])],
     [V[:1], V[:2], V, V[:1], V[:2]], 4),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
@pytest.mark.parametrize(("text", "calls", "due", "count"), PROGRAMS)
def test_calls_with_the_same_values_lower_nothing(
    text: str, calls: Any, due: Any, count: int, backend: str, lowerings: list[str]
) -> None:
    f = tc.sac.compile(text, backend=backend)
    for given, wanted in zip(calls, due, strict=True):
        np.testing.assert_array_equal(f(given), wanted)
    assert len(lowerings) == count
    for given, wanted in zip(calls, due, strict=True):
        np.testing.assert_array_equal(f(given), wanted)
    assert len(lowerings) == count


def test_a_stage_that_fails_is_told_in_the_words_of_the_program() -> None:
    f = tc.sac.compile("{ [b] -> v[b] | [b] < [t[n[0]] + 1] }", backend="c")
    t = np.int32([1, 3])
    assert f(v=V, t=t, n=np.int32([1])).tolist() == V[:4].tolist()
    with pytest.raises(tc.AccessError, match=r"index 2 is outside 0\.\.1 of axis 0, shape \[2\]"):
        f(v=V, t=t, n=np.int32([2]))
    assert f(v=V, t=t, n=np.int32([0])).tolist() == V[:2].tolist()


def test_threads_share_stages(lowerings: list[str]) -> None:
    f = tc.sac.compile(HISTOGRAM, backend="c")
    inputs = [np.int32([k % 3, 0, 2 * (k % 2), 1]) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(inputs, pool.map(lambda x: f(x=x), inputs), strict=True):
            np.testing.assert_array_equal(found, np.bincount(x))
    before = len(lowerings)
    for x in inputs:
        np.testing.assert_array_equal(f(x=x), np.bincount(x))
    assert len(lowerings) == before


def test_tensors_decide_as_arrays_do(lowerings: list[str]) -> None:
    torch = pytest.importorskip("torch")
    f = tc.sac.compile(HISTOGRAM)
    for x in (X, X[::-1].copy(), X):
        assert f(x=torch.from_numpy(x)).tolist() == np.bincount(x).tolist()
    assert len(lowerings) == 1


def stages(text: str, inputs: dict[str, Any]) -> list[Any]:
    """The stages that lead to the def of a call."""
    f = tc.sac.compile(text, backend="interpret")
    f(inputs)
    (found,) = f._specialisations.values()
    made, at = [], found.first
    while isinstance(at, function.Decision):
        made.append(at.stage)
        at = next(iter(at.then.values()))
    return made


def test_stages_of_other_terms_differ() -> None:
    """Stages are equal where the same is computed of the same inputs, and else not."""
    bounds = [("n[i]", 4), ("n[i]", 3), ("n[i] + 1", 4), ("n[i] + 2", 4), ("k[i]", 4)]
    bounds += [("2 * n[i]", 4), ("3 * n[i]", 4), ("n[i] + k[i]", 4), ("n[i] * k[i]", 4)]
    bounds += [("n[3 - i]", 4), ("sum(take([i], n))", 4), ("prod(take([i], n))", 4)]
    given = {"v": np.arange(40), "n": np.int32([1, 2, 5, 0]), "k": np.int32([3, 2, 1, 0])}
    made = []
    for bound, size in bounds:
        text = f"{{ [i] -> sum({{ [j] -> v[j] | [j] < [{bound}] }}) | [i] < [{size}] }}"
        inputs = {name: given[name] for name in tc.sac.demand(text, "F")}
        made.append(stages(text, inputs))
        assert made[-1] == stages(text, inputs)
    for at, one in enumerate(made):
        assert one
        assert all(one != other for other in made[:at])


@pytest.mark.parametrize(
    ("text", "due", "wrong"),
    [
        ("{ [i] -> { [j] -> 1 | [j] < [n[i]]; [j] -> 0 | [j] < [4] } | [i] < [3] }",
         lambda n: np.arange(4) < n, [5, 0, 0]),
        ("{ [i] -> { [j] -> 1 | [n[i]] <= [j] < [4]; [j] -> 0 | [j] < [4] } | [i] < [3] }",
         lambda n: np.arange(4) >= n, [0, 0, -1]),
    ],
)  # fmt: skip
def test_ranges_of_data_that_end_at_the_edge_are_in_the_result(
    text: str, due: Any, wrong: list[int]
) -> None:
    """No value comes from the reference, which serves where a range may leave the result."""
    f = tc.sac.compile(text, backend="c")
    for values in ([0, 4, 2], [4, 4, 4], [0, 0, 0]):
        n = np.int32(values)
        with fallbacks() as served:
            np.testing.assert_array_equal(f(n=n), due(n[:, None]))
        assert served == []
    with pytest.raises(tc.AccessError) as caught:
        f(n=np.int32(wrong))
    assert caught.value.rule == "C12"


EMPTY = np.zeros(0, np.int32)
FOLDS_OF_NOTHING = [
    ("sum({ [i] -> 7 | [i] < [N]; iv -> e[iv] })", "[0] <= [i] < [3] leaves"),
    ("v + sum({ [i] -> 7 | [i] < [N]; iv -> e[iv] } * e)", "[0] <= [i] < [3] leaves"),
    ("any({ [i] -> true | [i] < [N]; iv -> e[iv] > 0 })", "[0] <= [i] < [3] leaves"),
    ("sum({ [i] -> 7 | [i] < [3 * N]; iv -> take([0], v)[iv] })", "[0] <= [i] < [9] leaves"),
    ("{ [k] -> maxval({ [i] -> 7 | [i] < [v[k] * N]; iv -> e[iv] }) }", "leaves"),
    ("sum(with { ([0] <= [i] < [N]) : 1; } : modarray(e))", "[0] <= [i] < [3] leaves"),
]


@pytest.mark.parametrize("backend", ["reference", "interpret", "c"])
@pytest.mark.parametrize(("size", "kind"), [("3", None), ("n", tc.AccessError)])
@pytest.mark.parametrize(("text", "cause"), FOLDS_OF_NOTHING)
def test_ranges_that_leave_an_array_of_which_nothing_is_folded(
    text: str, cause: str, size: str, kind: Any, backend: str
) -> None:
    """C12, though no element of the array is made; empty ranges are fine."""
    text = text.replace("N", size)
    given = {"v": np.int32([0, 0, 1]), "e": EMPTY, "n": np.int32(3)}

    def result(**changed: Any) -> Any:
        inputs = {name: {**given, **changed}[name] for name in tc.sac.demand(text, "F")}
        if backend == "reference":
            return tc.sac.interpret(text, inputs)
        return tc.sac.compile(text, backend=backend)(inputs)

    with pytest.raises(kind or tc.TCError, match=re.escape(cause)) as caught:
        result()
    assert caught.value.rule == "C12"
    if size == "n":
        assert np.size(result(n=np.int32(0))) > 0


def test_the_bound_of_a_fold_counts_what_it_folds() -> None:
    """The greatest value of a fold over parts of the data is that of a part, and not of all."""
    text = "{ [i] -> { [j] -> 1 | [j] < [sum(take([i], n))]; [j] -> 0 | [j] < [4] } | [i] < [7] }"
    f = tc.sac.compile(text, backend="c")
    n = np.int32([3, 1, -4, 0, 2, 0, 9])
    with fallbacks() as served:
        found = f(n=n)
    sums = np.cumsum([0, *n[:6]])[:, None]
    np.testing.assert_array_equal(found, np.arange(4) < sums)
    assert served == []
    with pytest.raises(tc.AccessError, match="leaves the result") as caught:
        f(n=np.int32([3, 2, -4, 0, 2, 0, 9]))
    assert caught.value.rule == "C12"


USUAL: list[tuple[str, dict[str, Any], dict[str, Any], Any, Any]] = [
    ("take(n, v)", {"v": V, "n": np.int32([2])}, {"v": V, "n": np.int32([3])}, V[:2], V[:3]),
    ("take(n, v)", {"v": V, "n": 2}, {"v": V, "n": 3}, V[:2], V[:3]),
    ("take(b ? 1 : 2, v)", {"v": V, "b": True}, {"v": V, "b": False}, V[:1], V[:2]),
    ("take(toi(f), v)", {"v": V, "f": np.float32([2.5])}, {"v": V, "f": np.float32([3.5])},
     V[:2], V[:3]),
    ("take([sum(n)], v)", {"v": V, "n": np.int32([1, 1])}, {"v": V, "n": np.int32([0, 3])},
     V[:2], V[:3]),
    ("{ [i] -> sum({ [j] -> v[j] | [j] < [n[i]] }) }", {"v": V, "n": np.int32([1, 2])},
     {"v": V, "n": np.int32([3, 0])}, [V[:1].sum(), V[:2].sum()], [V[:3].sum(), 0]),
    ("{ [k] -> sum({ [i] -> n[i] == k ? 1 : 0 }) | [k] < [maxval(n) + 1] }",
     {"n": np.int32([0, 2, 2])}, {"n": np.int32([0, 1, 3])}, [1, 0, 2], [1, 1, 0, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "other", "due", "due_of_other"), USUAL)
def test_few_integers_that_decide_are_compared_with_those_of_the_last_call(
    text: str,
    given: dict[str, Any],
    other: dict[str, Any],
    due: Any,
    due_of_other: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call with the same ones binds nothing and runs no stage; other ones are served as due."""
    f = tc.sac.compile(text, backend="c")
    f(given)
    f(given)
    bound: list[Any] = []
    specialised = function.Function._specialised
    monkeypatch.setattr(
        function.Function,
        "_specialised",
        lambda self, g: bound.append(g) or specialised(self, g),
    )
    np.testing.assert_array_equal(f(**given), due)
    assert not bound
    np.testing.assert_array_equal(f(**other), due_of_other)
    assert len(bound) == 1
    np.testing.assert_array_equal(f(**given), due)
    np.testing.assert_array_equal(f(**given), due)
    assert len(bound) == 2
    for name, value in given.items():  # a caller's array may change between two calls
        if name != "v" and isinstance(value, np.ndarray):
            changed = value.copy()
            here = {**given, name: changed}
            np.testing.assert_array_equal(f(**here), due)
            changed[...] = other[name]
            np.testing.assert_array_equal(f(**here), due_of_other)


def test_zeros_of_two_signs_decide_apart() -> None:
    f = tc.sac.compile("take([copysign(1.0, x) < 0.0 ? 1 : 2], v)", backend="c")
    for zero in (0.0, -0.0, 0.0, np.float64(-0.0), np.float64(0.0), np.array(-0.0)):
        for _ in range(2):
            due = V[: 1 if np.signbit(zero) else 2]
            np.testing.assert_array_equal(f(v=V, x=zero), due)


def test_arrays_of_another_type_with_the_same_bytes_decide_apart() -> None:
    f = tc.sac.compile("take([sum(n)], v)", backend="c")
    one = np.int32([1, 0])
    for _ in range(2):
        np.testing.assert_array_equal(f(v=V, n=one), V[:1])
        np.testing.assert_array_equal(f(v=V, n=one.view(np.int16)), V[:1])
        np.testing.assert_array_equal(f(v=V, n=one.view(np.uint8)), V[:1])
        np.testing.assert_array_equal(f(v=V, n=np.int32([[1], [0]])), V[:1])
        np.testing.assert_array_equal(f(v=V, n=np.int16([2, 0, 0, 0])), V[:2])
        np.testing.assert_array_equal(f(v=V, n=np.int32([2, 0])), V[:2])
