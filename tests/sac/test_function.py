"""`tc.sac.Function`: results on every backend, keys, pickles, threads, errors told in SaC's words
(C25, C26)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tc
import tc.sac

CONV = (
    "float[*] conv(float[*] x, float[*] w) "
    "{ return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 }; }"
)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    return np.asarray((windows * w).sum(tuple(range(x.ndim, 2 * x.ndim))), np.float32)


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_one_text_serves_every_rank(backend: str, rank: int) -> None:
    rng = np.random.default_rng(rank)
    x = rng.integers(-8, 9, (6, 5, 4)[:rank]).astype(np.float32)
    w = rng.integers(-8, 9, (3, 2, 2)[:rank]).astype(np.float32)
    conv = tc.sac.compile(CONV, backend=backend)
    np.testing.assert_array_equal(conv(x, w), convolved(x, w))
    np.testing.assert_array_equal(conv({"x": x, "w": w}), convolved(x, w))
    np.testing.assert_array_equal(conv(x, w=w), convolved(x, w))


def test_labels_that_keep_their_greatest_compile_nothing() -> None:
    count = tc.sac.compile(
        "{ [b] -> sum({ [i] -> toi(x[i] == b) }) | [b] < [maxval(x) + 1] }", backend="interpret"
    )
    first, second = np.int32([0, 2, 1, 2]), np.int32([2, 0, 0, 0])
    assert count(x=first).tolist() == [1, 1, 2]
    assert count(x=second).tolist() == [3, 0, 1]
    assert count.lowered(x=first) is count.lowered(x=second)
    third = np.int32([3, 0, 0, 0])
    assert count(x=third).tolist() == [3, 0, 0, 1]
    assert count.lowered(x=third) is not count.lowered(x=first)


def test_equal_folds_are_one_statement() -> None:
    softmax = tc.sac.compile(
        "float[n] f(float[n] x) { return exp(x - maxval(x)) / sum(exp(x - maxval(x))); }"
    )
    text = softmax.lowered(np.ones(40, np.float32)).text
    assert text.count("max=!") == 1


def test_short_folds_are_written_out_and_weights_are_factors() -> None:
    function = tc.sac.compile(
        "double[n] f(double[n] x) { w = [0.25, 0.0, 0.25]; return "
        "{ [i] -> sum({ [k] -> w[k] * x[(i + k - 1 + n) % n] }) | [i] < [n] }; }"
    )
    x = np.arange(12.0)
    text = function.lowered(x).text
    assert "+=" not in text
    assert text.count("0.25") == 1
    np.testing.assert_array_equal(function(x), 0.25 * (np.roll(x, 1) + np.roll(x, -1)))


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_a_gather_out_of_range_is_told_in_the_words_of_sac(backend: str) -> None:
    gather = tc.sac.compile("{ [i] -> t[n[i]] }", backend=backend)
    t, n = np.arange(5, dtype=np.int32), np.int32([0, 4, 5])
    with pytest.raises(tc.AccessError, match=r"index 5 is outside 0\.\.4 of axis 0") as told:
        gather(t=t, n=n)
    assert told.value.rule == "C8"
    assert gather(t=t, n=np.int32([1, 1, 3])).tolist() == [1, 1, 3]


def test_what_no_result_needs_raises_nothing() -> None:
    choice = tc.sac.compile(
        "int[*] f(int c, int[.] a) { y = 1 / a; return c > 0 ? y * y : a; }", backend="c"
    )
    a = np.int32([0, 1])
    assert choice(np.int32(0), a).tolist() == [0, 1]
    with pytest.raises(tc.TCError, match="division by zero"):
        choice(np.int32(1), a)


def test_pickles_and_threads() -> None:
    conv = pickle.loads(pickle.dumps(tc.sac.compile(CONV, backend="c")))
    x, w = np.arange(9, dtype=np.float32), np.ones(2, np.float32)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: conv(x, w), range(16)):
            np.testing.assert_array_equal(result, convolved(x, w))


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # of the gradient's def, on a range it repeats
def test_gradients_go_through() -> None:
    torch = pytest.importorskip("torch")
    conv = tc.sac.compile(CONV)
    x = torch.arange(6.0, requires_grad=True)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    conv(x, w).sum().backward()
    assert x.grad.tolist() == [1, 3, 3, 3, 3, 2]
    assert w.grad.tolist() == [10, 15]


@pytest.mark.parametrize("backend", ["interpret", "c"])
def test_the_sign_of_a_quotient_is_outside_of_it(backend: str) -> None:
    function = tc.sac.compile("{ [i] -> -(i / 2) * v[i] }", backend=backend)
    v = np.full(5, 3, np.int32)
    assert function(v=v).tolist() == [-(i // 2) * 3 for i in range(5)]
