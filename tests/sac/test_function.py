"""`tc.sac.Function`: results on every backend, keys, pickles, threads, errors told in SaC's words
(C25, C26)."""

from __future__ import annotations

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tc.sac.lowering import elements
from tc.specialiser import Specialiser

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


WEIGHTED = "double[n] f(double[n] x{more}) {{ {before} return {{ [i] -> sum({{ [k] -> {weight} * x[(i + k - 1 + n) % n] | [k] < [5] }}) | [i] < [n] }}; }}"  # noqa: E501


@pytest.mark.parametrize(
    ("before", "weight"),
    [
        ("c = [6.0/16.0, 4.0/16.0, 1.0/16.0];", "c[abs(k - 2)]"),
        ("w = { [k] -> abs(k - 2) == 0 ? 6.0/16.0 : abs(k - 2) == 1 ? 0.25 : 1.0/16.0 };", "w[k]"),
        ("", "c[abs(k - 2)]"),
    ],
)
def test_weights_that_indices_decide_are_factors(before: str, weight: str) -> None:
    """Equal weights are one factor, also where they are computed, or read from an input."""
    x, c = np.arange(12.0), np.array([6, 4, 1]) / 16
    before = before.replace("}", "| [k] < [5] }") if "w =" in before else before
    more = "" if before else ", double[3] c"
    function = tc.sac.compile(WEIGHTED.format(before=before, weight=weight, more=more))
    given = [x] if before else [x, c]
    text = function.lowered(*given).text
    assert "+=" not in text
    assert text.count(" * ") == 3
    terms = (c[abs(k - 2)] * np.roll(x, 1 - k) for k in range(5))
    np.testing.assert_allclose(function(*given), sum(terms), rtol=1e-14)


def test_weights_that_are_data_stay_a_reduction() -> None:
    function = tc.sac.compile(CONV)
    text = function.lowered(np.ones(40, np.float32), np.ones(9, np.float32)).text
    assert text.count("+=!") == 1


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


class Made:
    """Counts the kernels that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        make = Specialiser.make

        def counted(*given: Any) -> Any:
            self.count += 1
            return make(*given)

        monkeypatch.setattr(Specialiser, "make", counted)


def test_only_what_a_shape_needs_of_the_data_compiles_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """C26: labels that keep their greatest compile nothing; other ranks and shapes do. The greatest
    label has a kernel of its own."""
    one_hot = tc.sac.compile(
        "int[*] f(int[*] labels) { return "
        "{ iv -> { [k] -> toi(labels[iv] == k) | [k] < [maxval(labels) + 1] } "
        "| iv < shape(labels); iv -> iota(maxval(labels) + 1) * 0 | iv < shape(labels) }; }"
    )
    made = Made(monkeypatch)

    def due(labels: Any) -> Any:
        return np.eye(labels.max() + 1, dtype=np.int32)[labels]

    steps = [
        (np.int32([0, 2, 1]), 2),
        (np.int32([2, 2, 0]), 2),  # as great, other values
        (np.int32([0, 1, 2]), 2),
        (np.int32([0, 1, 1]), 3),  # a lesser greatest
        (np.int32([2, 0, 1]), 3),
        (np.int32([0, 2, 1, 1]), 5),  # another shape
        (np.int32([[0, 2, 1, 1]]), 7),  # another rank
        (np.int32([[2, 0, 0, 1]]), 7),
    ]
    for labels, count in steps:
        np.testing.assert_array_equal(one_hot(labels), due(labels))
        assert made.count == count


def test_other_types_shapes_and_strides_compile_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """C26."""
    function = tc.sac.compile("{ iv -> x[iv] + 1 }")
    made = Made(monkeypatch)
    x = np.arange(12, dtype=np.int32)
    for given, count in [
        (x, 1),
        (x + 5, 1),
        (x.astype(np.int64), 2),
        (x[:7], 3),
        (x.reshape(3, 4), 4),
        (x.reshape(3, 4) - 1, 4),
        (x.reshape(4, 3).T, 5),
        (x, 5),
    ]:
        np.testing.assert_array_equal(function(x=given), given + 1)
        assert made.count == count


def test_numbers_of_a_usual_call_are_looked_at() -> None:
    """C5: a literal takes the type that it meets, and must fit it; one of numpy has a type."""
    add = tc.sac.compile("{ iv -> x[iv] + n }")
    x = np.int8([1, 2])
    for n in (1, 2, 100, -128, 127, -1):
        for _ in range(2):
            assert add(x=x, n=n).tolist() == (x + np.int8(n)).tolist()
    for _ in range(3):
        with pytest.raises(tc.TCError, match="the literal 300 does not fit int8"):
            add(x=x, n=300)
        assert add(x=x, n=3).tolist() == [4, 5]
        assert add(x=x, n=np.int32(300)).dtype == np.int32
        assert add(x=x, n=0.5).dtype == np.float64
        assert add(x=x, n=True).tolist() == [2, 3]
    scaled = tc.sac.compile("{ iv -> x[iv] * s }")
    y = np.ones(2)
    for _ in range(3):
        assert scaled(x=y, s=np.float32(0.1)).tolist() == [float(np.float32(0.1))] * 2
    for _ in range(3):
        assert scaled(x=y, s=0.1).tolist() == [0.1] * 2
    for s in (1e30, 0.25, np.inf, 70000.0):
        assert scaled(x=y, s=s).tolist() == [s] * 2


def test_usual_calls_are_bound_as_others() -> None:
    """C25: by keyword in any order, in part; an expression by name alone."""
    function = tc.sac.compile("int[*] f(int[*] x, int[*] y) { return x - y; }")
    expression = tc.sac.compile("x - y")
    x, y = np.int32([5, 6]), np.int32([1, 2])
    for _ in range(4):
        assert function(x, y).tolist() == [4, 4]
        assert function(y=y, x=x).tolist() == [4, 4]
        assert function(x, y=y).tolist() == [4, 4]
        assert function((x, y)).tolist() == [4, 4]
        assert expression(y=y, x=x).tolist() == [4, 4]
        assert expression({"y": y, "x": x}).tolist() == [4, 4]
        with pytest.raises(tc.InputError, match="inputs of an expression are given by name"):
            expression(x, y)
        with pytest.raises(tc.InputError, match="input 'y' is missing"):
            function(x)
        with pytest.raises(tc.InputError, match="input 'x' is given twice"):
            function(x, x=x)
        with pytest.raises(tc.InputError, match="there is no input 'z'"):
            function(x, z=x)


def test_the_name_of_a_file_is_no_text() -> None:
    with pytest.raises(tc.InputError, match=r"'conv\.sac' is the name of a file") as caught:
        tc.sac.compile("conv.sac")
    assert caught.value.repair == "pathlib.Path('conv.sac')"


def test_a_function_is_timed_and_explained() -> None:
    """C25."""
    conv = tc.sac.compile(CONV)
    x, w = np.ones(8, np.float32), np.ones(2, np.float32)
    assert conv.time(x, w, seconds=0.01).measurements >= 3
    explained = conv.explain(x, w)
    assert list(explained.stages)[:5] == ["levels", "bounds", "desugared", "def", "ranges"]
    assert explained.stages["def"] == conv.lowered(x, w).text.rstrip()
    assert "ov selects from w: shape(w) = [2] (C15)" in explained.stages["bounds"]
    whole = str(tc.sac.explain(CONV, x, w, stage="all"))
    assert [title for title in explained.stages if f"=== {title}: " not in whole] == ["levels"]
    assert "<summary>bounds" in explained._repr_html_()
    with pytest.raises(tc.InputError, match="stage='bond': there are 'levels', 'bounds'"):
        tc.sac.explain(CONV, x, w, stage="bond")
    with pytest.raises(tc.BackendError, match="runs the text itself"):
        tc.sac.explain(CONV, x, w, stage="kernel", backend="interpret")
    shown = str(tc.sac.explain(CONV, x, w, backend="interpret"))
    assert "=== bounds: " in shown


def test_a_function_has_a_signature() -> None:
    conv = tc.sac.compile(CONV)
    shown = "(x: 'float[*]', w: 'float[*]', *, outputs=None) -> 'float[*]'"
    assert str(inspect.signature(conv)) == shown
    assert str(inspect.signature(tc.sac.compile("a + b"))) == "(*, a, b, outputs=None)"
    keyword = tc.sac.compile("float[n], int f(float[n] lambda) { return (lambda, 1); }")
    assert str(inspect.signature(keyword)) == (
        "(_lambda: 'float[n]', *, outputs=None) -> 'float[n], int'"
    )


def test_the_def_of_an_expression() -> None:
    function = tc.sac.compile("{ iv -> x[iv] + 1 }")
    x = np.arange(3, dtype=np.int32)
    assert function.lowered(x=x).text.startswith("def expression(int(3) x) -> (int(3) result)")
    assert repr(function) == "<tc.sac expression(x), backend numba>"


def test_a_call_that_no_kernel_serves_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No def says a size of `iota` that i decides, but for each of few values apart."""
    monkeypatch.setattr(elements, "MAX_INSTANCES", 2)
    text = "{ [i] -> sum(iota(i)) + v[0] | [i] < [4] }"
    function = tc.sac.compile(text, backend="c")
    with pytest.warns(tc.TCWarning, match="the reference computes this call"):
        found = function(v=np.int32([5, 1]))
    assert found.tolist() == [5, 5, 6, 8]


def test_all_inputs_in_one_sequence_or_dict() -> None:
    """C25: a tuple, a list and a dict of all inputs are as the inputs one by one."""
    text = "int[*] f(int[*] a, int[*] b, int c) { return a - c * b; }"
    a, b = np.int32([5, 7]), np.int32([1, 2])
    for call in (
        tc.sac.compile(text, backend="interpret"),
        lambda *inputs, **named: tc.sac.interpret(text, *inputs, **named),
    ):
        for found in (
            call(a, b, 3), call((a, b, 3)), call([a, b, 3]), call({"c": 3, "b": b, "a": a}),
            call(a, c=3, b=b), call(c=3, b=b, a=a), call({"c": 3, "b": b}, a=a),
        ):  # fmt: skip
            np.testing.assert_array_equal(found, a - 3 * b)


def test_a_fault_of_the_lowering_is_served_by_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a text to report it by, which runs; with TC_STRICT the fault is raised."""
    f = tc.sac.compile("float[*] f(float[*] x, float c) { return c * x; }", backend="interpret")

    def lower(*_: Any) -> Any:
        raise KeyError(7)

    x = np.float32([1, 2])
    with monkeypatch.context() as faulty:
        faulty.setattr("tc.sac.function.lower", lower)
        monkeypatch.setenv("TC_STRICT", "1")
        with pytest.raises(KeyError):
            f(x, 3.0)
        monkeypatch.setenv("TC_STRICT", "0")
        with pytest.warns(tc.TCWarning, match="f is run by the reference, .* at fault") as caught:
            np.testing.assert_array_equal(f(x, 3.0), 3 * x)
    _, _, text = str(caught[0].message).partition("text:\n\n")
    exec(text, {})
