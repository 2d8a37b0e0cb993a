"""Arrays whose sizes an index around them decides: kernels serve them, and refuse what the
reference refuses (C26)."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
import tc.sac

V = (np.arange(40, dtype=np.int32) * 7) % 11 - 3
W = (np.arange(40, dtype=np.int32) * 5) % 7
X = np.float32(2)

SERVED: list[tuple[str, dict[str, Any], Any]] = [
    # a size that is negative where no result needs it
    ("drop([1], { [i] -> all({ [j] -> x | [j] < [2 - i] }) | [0] < [i] < [3] })", {"x": X},
     [True, True]),
    ("{ [i] -> i > 0 ? sum(take([i - 1], v)) : 7 | [i] < [40] }", {"v": V},
     [7, *(V[: i - 1].sum() for i in range(1, 40))]),
    # a fold of nothing, by an index of one value, in a part of a join
    ("{ [i,k] -> all({ [j] -> fabs(7) | [1] <= [j] < [i % 1] }) + v[n[i]] | [i,k] < [1,1] } "
     "++ { [i,k] -> 1 | [i,k] < [1,1] }", {"v": V, "n": np.int32([2])}, [[1 + V[2]], [1]]),
    # an index outside in a branch that is not taken
    ("x = n > 5 ? v[40] : v[0]; { [i] -> x | [i] < [2] }", {"v": V, "n": np.int32(5)}, V[[0, 0]]),
    # what may fail, in variables that are needed behind conditions alone
    ("x = 1 / n; { [i] -> v[i] > 9 ? x : 0 }", {"v": V, "n": np.int32(0)}, np.zeros(40)),
    ("x = v[n] / n; { [i] -> v[i] < 9 || x > i ? 1 : x }", {"v": V, "n": np.int32(99)},
     np.ones(40)),
    # amounts that are negative
    ("{ [i] -> sum(take([-i], v)) | [i] < [40] }", {"v": V},
     [V[40 - i :].sum() for i in range(40)]),
    ("{ [i] -> sum(drop([-i], v)) | [i] < [40] }", {"v": V},
     [V[: 40 - i].sum() for i in range(40)]),
    ("{ [i] -> sum(take([20 - i], v)) | [i] < [40] }", {"v": V},
     [V[: 20 - i].sum() if i < 20 else V[60 - i :].sum() for i in range(40)]),
    ("{ [i] -> sum(drop([i - 20], v)) | [i] < [40] }", {"v": V},
     [V[i - 20 :].sum() if i > 20 else V[: 20 + i].sum() for i in range(40)]),
    ("{ [i] -> sum(take([n[i]], v)) }", {"v": V, "n": np.int8([3, -2, 0, 40, -40])},
     [V[:3].sum(), V[-2:].sum(), 0, V.sum(), V.sum()]),
    ("{ [i] -> sum(drop([n[i]], v)) }", {"v": V, "n": np.uint8([3, 40, 0])},
     [V[3:].sum(), 0, V.sum()]),
    # selections from them
    ("{ [i] -> all({ [j] -> take([i], v)[j] == v[j] + (i == 30 ? 1 : 0) | [j] < [i] }) "
     "| [i] < [40] }", {"v": V}, [i != 30 for i in range(40)]),
    ("{ [i] -> sum({ [j] -> take([-i], v)[j] * w[j] | [j] < [i] }) | [i] < [40] }",
     {"v": V, "w": W}, [(V[40 - i :] * W[:i]).sum() for i in range(40)]),
    ("{ [i] -> sum({ [j] -> drop([i], v)[j] * w[j] | [j] < [40 - i] }) | [i] < [40] }",
     {"v": V, "w": W}, [(V[i:] * W[: 40 - i]).sum() for i in range(40)]),
    ("{ [i] -> sum({ [j] -> take([i], v)[i - 1 - j] * w[j] | [j] < [i] }) | [i] < [40] }",
     {"v": V, "w": W}, [(V[:i][::-1] * W[:i]).sum() for i in range(40)]),
    # arrays of them
    ("{ [i] -> sum({ [j] -> reverse(take([i], v))[j] * w[j] | [j] < [i] }) | [i] < [40] }",
     {"v": V, "w": W}, [(V[:i][::-1] * W[:i]).sum() for i in range(40)]),
    ("{ [i] -> sum({ [j] -> (take([i], v) ++ drop([i], w))[j] * j | [j] < [40] }) | [i] < [40] }",
     {"v": V, "w": W},
     [(np.concatenate([V[:i], W[i:]]) * np.arange(40)).sum() for i in range(40)]),
    ("{ [i] -> sum(transpose(take([i], m)) * genarray([8, i], i)) | [i] < [5] }",
     {"m": V.reshape(5, 8)}, [V[: 8 * i].sum() * i for i in range(5)]),
    # operands of one size, and arguments
    ("{ [i] -> sum(take([i], v) * take([i], w) + i) | [i] < [40] }", {"v": V, "w": W},
     [(V[:i] * W[:i] + i).sum() for i in range(40)]),
    ("{ [i] -> sum(dim(v) == 1 ? take([i], v) : w) | [i] < [40] }", {"v": V, "w": W},
     [V[:i].sum() for i in range(40)]),
    ("int f(int[.] x) { return sum(x); } int[*] g(int[+] x) { return x; } "
     "int[*] h(int[*] v) { return { [i] -> f(g(take([i], v))) | [i] < [40] }; }", {"v": V},
     [V[:i].sum() for i in range(40)]),
]  # fmt: skip

INFERRED: list[tuple[str, dict[str, Any], Any]] = [
    ("{ [i] -> sum({ [j] -> take([i], v)[j] * w[j] }) | [i] < [40] }", {"v": V, "w": W},
     [(V[:i] * W[:i]).sum() for i in range(40)]),
    ("{ [i] -> all({ [j] -> take([i], v)[j] == v[j] }) | [i] < [40] }", {"v": V}, [True] * 40),
    ("{ [i] -> sum({ [j] -> drop([i], v)[j] * w[j] }) | [i] < [40] }", {"v": V, "w": W[:9]},
     [(V[i : i + 9] * W[: min(9, 40 - i)]).sum() for i in range(40)]),
    ("{ [i] -> sum({ jv -> take([i], v)[jv] * w[jv] }) | [i] < [40] }", {"v": V, "w": W},
     [(V[:i] * W[:i]).sum() for i in range(40)]),
    # a selection that is never computed bounds the index, too
    ("{ [i] -> sum({ [j] -> dim(w) > 1 ? take([i], v)[j] : w[j] }) | [i] < [40] }",
     {"v": V, "w": W}, [W[:i].sum() for i in range(40)]),
    ("{ [i] -> sum({ [j] -> take([i], m)[j, i] + w[j] }) | [i] < [5] }",
     {"m": V.reshape(5, 8), "w": W},
     [(V.reshape(5, 8)[:i, i] + W[:i]).sum() for i in range(5)]),
    ("{ [i] -> sum({ [j] -> take([i + 0 * j], v)[j] + w[j] | [j] < [i] }) | [i] < [40] }",
     {"v": V, "w": W}, [(V[:i] + W[:i]).sum() for i in range(40)]),
]  # fmt: skip


def entry(text: str) -> str | None:
    return "h" if "h(" in text else None


@pytest.mark.filterwarnings("ignore:.*differ:tc.TCWarning")  # C15 tells of two bounds
@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize(("text", "given", "due"), INFERRED)
def test_a_size_that_an_index_decides_bounds_another(
    text: str, given: dict[str, Any], due: Any, backend: str
) -> None:
    """C15."""
    function = tc.sac.compile(text, backend=backend)
    np.testing.assert_array_equal(function(given), due)
    np.testing.assert_array_equal(tc.sac.interpret(text, given), due)
    assert len(function.lowered(given).text) < 500  # no index value by itself


REFUSED = [
    ("{ [i] -> sum(take([i], v) * w) | [i] < [40] }", {"v": V, "w": W}, "C7"),
    ("{ [i] -> sum(w * take([i], v)) | [i] < [40] }", {"v": V, "w": W}, "C7"),
    ("{ [i] -> sum(genarray([i - 1], 1) ++ v) | [i] < [40] }", {"v": V}, "C14"),
    ("{ [i] -> sum(take([i], v) ++ take([i], m)) | [i] < [5] }",
     {"v": V, "m": V.reshape(5, 8)}, "C9"),
    ("{ [i] -> sum(take([i], v)) | [i] < [42] }", {"v": V}, "C9"),
    ("{ [i] -> sum(take([-i], v)) | [i] < [42] }", {"v": V}, "C9"),
    ("{ [i] -> sum(take([6], drop([i], v))) | [i] < [36] }", {"v": V}, "C9"),
    ("{ [i] -> sum(drop([-6], take([i], v))) | [5] <= [i] < [40] }", {"v": V}, "C9"),
    ("{ [i] -> sum(drop([i - 41], v)) | [i] < [40] }", {"v": V}, "C9"),
    ("{ [i] -> sum({ [j] -> take([i], v)[j + 1] | [j] < [i] }) | [i] < [40] }", {"v": V}, "C8"),
    ("{ [i] -> sum({ [j] -> take([-i], v)[j] | [j] < [i + 1] }) | [i] < [40] }", {"v": V}, "C8"),
    ("{ [i] -> sum({ [j] -> take([i], v)[3] | [j] < [9] }) | [i] < [40] }", {"v": V}, "C8"),
    ("int f(int[3] x) { return sum(x); } "
     "int[*] h(int[*] v) { return { [i] -> f(take([i], v)) | [i] < [40] }; }", {"v": V}, "C6"),
    ("int f(int[n] x, int[n] y) { return sum(x) + sum(y); } int[*] h(int[*] v) "
     "{ return { [i] -> f(take([i], v), drop([i], v)) | [i] < [40] }; }", {"v": V}, "C6"),
    ("int f(int[+] x) { return sum(x); } int[*] h(int[*] v, int[*] n) "
     "{ return { [i] -> f(reshape(take([i], n), v)) | [i] < [1] }; }",
     {"v": V[:1], "n": np.int32([1])}, "C6"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "rule"), REFUSED)
def test_a_kernel_refuses_what_the_reference_refuses(
    text: str, given: dict[str, Any], rule: str
) -> None:
    for run in (tc.sac.interpret, lambda t, g, **k: tc.sac.compile(t, **k)(g)):
        with pytest.raises(tc.TCError) as caught:
            run(text, given, entry=entry(text))
        assert caught.value.rule == rule


@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize(("text", "given", "due"), SERVED)
def test_a_kernel_serves(text: str, given: dict[str, Any], due: Any, backend: str) -> None:
    """A call that the reference served would warn."""
    function = tc.sac.compile(text, entry=entry(text), backend=backend)
    np.testing.assert_array_equal(function(given), due)
    np.testing.assert_array_equal(tc.sac.interpret(text, given, entry=entry(text)), due)


M = V.reshape(5, 8)
U = np.int32([[3, -1, 4], [1, 5, -9]])

WINDOWS: list[tuple[str, dict[str, Any], Any]] = [
    ("{ [i] -> sum(take([6], drop([i], v)) * w) | [i] < [35] }", {"v": V, "w": W[:6]},
     [(V[i : i + 6] * W[:6]).sum() for i in range(35)]),
    ("{ [i] -> sum(drop([i], take([i + 6], v)) * w) | [i] < [34] }", {"v": V, "w": W[:6]},
     [(V[i : i + 6] * W[:6]).sum() for i in range(34)]),
    ("{ [i] -> sum(take([-6], take([-i], v)) * w) | [6] <= [i] < [40] }", {"v": V, "w": W[:6]},
     [*[0] * 6, *((V[40 - i :][-6:] * W[:6]).sum() for i in range(6, 40))]),
    ("{ [i,j] -> sum(take([2,3], drop([i,j], m)) * u) | [i,j] < [4,6] }", {"m": M, "u": U},
     [[(M[i : i + 2, j : j + 3] * U).sum() for j in range(6)] for i in range(4)]),
    ("{ iv -> sum(take(shape(u), drop(iv, m)) * u) | iv < shape(m) - shape(u) + 1 }",
     {"m": M, "u": U},
     [[(M[i : i + 2, j : j + 3] * U).sum() for j in range(6)] for i in range(4)]),
    ("{ [i] -> sum({ [j] -> take([6], drop([i], v))[j] * w[j] }) | [i] < [35] }",
     {"v": V, "w": W[:6]}, [(V[i : i + 6] * W[:6]).sum() for i in range(35)]),
    ("{ [i] -> sum({ [j] -> v[i + j] | [j] < shape(drop([i], v)) }) | [i] < [40] }", {"v": V},
     [V[i:].sum() for i in range(40)]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize(("text", "given", "due"), WINDOWS)
def test_windows_by_take_and_drop_are_folds_of_reads(
    text: str, given: dict[str, Any], due: Any, backend: str
) -> None:
    """`take` of what `drop` leaves reads its array at the sum of two indices."""
    function = tc.sac.compile(text, backend=backend)
    np.testing.assert_array_equal(function(given), due)
    np.testing.assert_array_equal(tc.sac.interpret(text, given), due)
    assert function.lowered(given).text.count(" where ") <= 2


AMOUNTS = ("i", "-i", "i - 3", "3 - i", "n[i]", "-n[i]", "2", "-2", "i / 2", "min(i, 4)",
           "abs(i - 4)", "i > 2 ? i : 1")  # fmt: skip
INDICES = ("j", "j", "i - j", "j + 1", "0")
ENDS = ("i", "3", "i + 1", "6 - i", "n[i]", "min(i, 5)")


def array(random: Random, depth: int) -> str:
    """An array whose size the index i may decide."""
    if depth == 0:
        return random.choice("vw")
    inner = array(random, depth - 1)
    form = random.randrange(8)
    if form < 3:
        return f"{random.choice(['take', 'drop'])}([{random.choice(AMOUNTS)}], {inner})"
    other = array(random, depth - 1)
    return (
        f"({inner} * {other})",
        f"({inner} ++ {other})",
        f"(i > 2 ? {inner} : {other})",
        f"{{ [k] -> {inner}[k] + k }}",
        f"f(reverse({inner}))",
    )[form - 3]


def body(random: Random) -> str:
    """A fold over such an array, or over selections from two of them."""
    first, second = array(random, 2), array(random, 1)
    term = f"{first}[{random.choice(INDICES)}] + {second}[j]"
    return random.choice(
        (
            f"sum({first})",
            f"maxval({{ [j] -> {term} }})",
            f"sum({{ [j] -> {term} | [j] < [{random.choice(ENDS)}] }})",
            f"sum({{ jv -> {first}[jv] - {second}[jv] }})",
            f"with {{ ([1] <= [j] < [{random.choice(ENDS)}]) : {term}; }} : fold(+, 0)",
        )
    )


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_generated_sizes_are_those_of_the_reference(random: Random) -> None:
    """The same values, or an error of both: which of several errors is told first is open."""
    size = random.randint(5, 7)
    text = (
        "int[*] f(int[.] x) { return x + 1; } int[*] h(int[.] v, int[.] w, int[.] n) "
        f"{{ return {{ [i] -> {body(random)} | [{random.randint(0, 2)}] <= [i] < [{size}] }}; }}"
    )
    inputs = [
        np.array([random.randint(least, 4) for _ in range(size)], np.int32) for least in (-4, -4, 0)
    ]
    try:
        due = tc.sac.interpret(text, *inputs, entry="h")
    except tc.TCError:
        with pytest.raises(tc.TCError):
            tc.sac.compile(text, entry="h", backend="interpret")(*inputs)
        return
    found = tc.sac.compile(text, entry="h", backend="interpret")(*inputs)
    np.testing.assert_array_equal(found, due)
