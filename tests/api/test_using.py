"""Arguments are spelt alike in all functions, and functions have signatures and texts."""

from __future__ import annotations

import copy
import doctest
import html
import inspect
import logging
import pickle
import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tc
from tc.source import as_html
from tests.api.evaluating import NEEDS_C, EvaluateBackend

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
SCALARS = """def scalars(float a, int k, bool on, half(N) x) -> (y) {
  y(i) = on ? a * k + x(i) : x(i)
}"""
PRODUCT = "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
SHIFT = "def shift(int k, float(N) x) -> (y) { y(i) = x(i+k) }"
A, B = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
X = np.arange(4, dtype=np.float32)
BACKENDS = ["numba", NEEDS_C, "interpret"]


# --- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_any_type_that_fit(backend: str) -> None:
    """Rule Y3."""
    function = tc.compile(SCALARS, backend=backend)
    x = np.ones(2, np.float16)
    for a in (2, 2.0, np.float64(2), np.float16(2), np.int64(2), np.uint8(2), np.longdouble(2)):
        for k in (3, np.int64(3), np.uint64(3), np.int8(3), np.array(3), np.array(3, np.uint16)):
            for on in (True, np.bool_(True), np.array(True)):
                assert function(a, k, on, x).tolist() == [7, 7]
    assert function(np.array(2.0), 3, True, x).tolist() == [7, 7]
    for a, k, on in (
        (np.float64(1e39), 3, True), (2, np.int64(2**31), True), (2, np.float64(3), True),
        (2, 3, np.int64(1)), (np.complex64(2), 3, True), (2, np.array(3.0), True),
        (2, np.array(2**40), True), (np.array(1j), 3, True), (2, np.ones(1, np.int32), True),
    ):  # fmt: skip
        with pytest.raises(tc.InputError):
            function(a, k, on, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_code_is_specialised_on_comes_in_any_type(backend: str) -> None:
    """Rules Y3, G2."""
    function = tc.compile(SHIFT, backend=backend)
    for k in (1, np.int64(1), np.array(1), np.uint8(1)):
        assert function(k, X).tolist() == [1, 2, 3]
        assert function.infer(k, X)["y"].shape == (3,)
    assert function(np.int64(2), X).tolist() == [2, 3]


def test_numbers_of_other_libraries() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    function = tc.compile(SHIFT, backend="interpret")
    assert function(torch.tensor(1), torch.from_numpy(X)).tolist() == [1, 2, 3]
    assert function(jax.numpy.asarray(1), jax.numpy.asarray(X)).tolist() == [1, 2, 3]
    assert tc.compile(SHIFT).infer(torch.tensor(1), torch.from_numpy(X))["y"].shape == (3,)


# --- one way ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_one_by_one_or_in_a_collection(backend: str) -> None:
    function, expected = tc.compile(MM, backend=backend), A @ B
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((A, B), {}), ((A,), {"B": B}), ((), {"A": A, "B": B}), (([A, B],), {}), (((A, B),), {}),
        (({"A": A, "B": B},), {}), (({"A": A},), {"B": B}), (([A],), {"B": B}),
    ]  # fmt: skip
    for inputs, named in ways:
        np.testing.assert_array_equal(function(*inputs, **named), expected)
        np.testing.assert_array_equal(tc.interpret(MM, *inputs, **named), expected)
        assert tc.error_bound(MM, *inputs, **named).shape == (2, 4)
        assert function.infer(*inputs, **named)["C"].shape == (2, 4)
        for explanation in (function.explain(*inputs, **named), tc.explain(MM, *inputs, **named)):
            assert explanation.shaped.sizes == {"M": 2, "K": 3, "N": 4}
        assert "mm(" in str(tc.emit(MM, *inputs, **named))


def test_sizes_one_by_one_or_in_a_collection() -> None:
    function = tc.compile(MM)
    ways: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {"M": 2, "K": 3, "N": 4}), (({"M": 2, "K": 3, "N": 4},), {}), ((A,), {"N": 4}),
        (((2, 3), (3, 4)), {}), (([(2, 3), (3, 4)],), {}), (({"A": (2, 3)},), {"N": np.int64(4)}),
    ]  # fmt: skip
    for inputs, named in ways:
        assert function.infer(*inputs, **named)["C"].shape == (2, 4)
        assert tc.explain(MM, *inputs, **named).shaped.sizes == {"M": 2, "K": 3, "N": 4}


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_input_in_a_collection(backend: str) -> None:
    function = tc.compile(TWICE, backend=backend)
    for inputs in ((X,), ([X],), ((X,),), ({"x": X},)):
        assert function(*inputs).tolist() == [0, 2, 4, 6]
        assert tc.interpret(TWICE, *inputs).tolist() == [0, 2, 4, 6]
        assert function.infer(*inputs)["y"].shape == (4,)
    assert function.infer((4,))["y"].shape == function.infer([(4,)])["y"].shape == (4,)
    with pytest.raises(tc.InputError, match=r"(?s)x is of type list.*np\.asarray\(x, np\.float32"):
        function([1.0, 2.0])
    with pytest.raises(tc.InputError, match="x is given twice"):
        function({"x": X}, x=X)


# --- what functions tell ----------------------------------------------------------------------


def test_text_and_documentation() -> None:
    text = f"# products\n{MM}\n{TWICE}\n"
    function = tc.compile(text, entry="twice")
    assert function.text == text
    assert function.__doc__ == inspect.getdoc(function) == TWICE
    assert tc.define(text).mm.__doc__ == MM
    assert "def of a text" in (inspect.getdoc(tc.Compiled) or "")
    again = tc.compile(function.text, entry=function.__name__, backend="interpret")
    assert again(X).tolist() == [0, 2, 4, 6]


def test_signatures() -> None:
    signature = inspect.signature(tc.compile(MM))
    assert list(signature.parameters) == ["A", "B", "outputs"]
    assert signature.parameters["A"].annotation == "float32(M, K) A"
    assert signature.return_annotation == "float32 C"
    bound = signature.bind(A, B=B, outputs=None)
    assert (tc.compile(MM, backend="interpret")(*bound.args, **bound.kwargs) == 3).all()
    odd = "def f(float 2x, float in, float outputs, float y) -> (o) { o = 2x + in + outputs + y }"
    parameters = inspect.signature(tc.compile(odd)).parameters
    assert list(parameters) == ["_2x", "_in", "outputs", "y"]
    assert parameters["_2x"].kind is parameters["_in"].kind is inspect.Parameter.POSITIONAL_ONLY
    assert next(iter(inspect.signature(tc.Compiled).parameters)) == "program"


PRE = '<pre style="font-family: monospace; white-space: pre">'


def shown_text(markup: str) -> str:
    """What a browser shows of markup: the text without tags."""
    return html.unescape(re.sub("<[^>]*>", "", markup))


def test_notebooks_show_columns() -> None:
    text = "def f(float(N) x) -> (o) { o(i) = x(i) < 1 ? 1 : 2 }"
    emitted = tc.emit(text, N=3)
    for value in (emitted, tc.explain(text, N=3, stage="ranges"), tc.grad(PRODUCT)):
        markup = value._repr_html_()
        assert markup.startswith(PRE)
        assert shown_text(markup).strip() == str(value).strip()
    assert "&lt;" in emitted._repr_html_()


def test_notebooks_show_an_explanation_with_its_stages_closed() -> None:
    text = "def f(float(N) x) -> (o) { o(i) = x(i) < 1 ? 1 : 2 }"
    explanation = tc.explain(text, N=3)
    first, *others = explanation._repr_html_().split("<details>")
    shown = shown_text(first)
    assert shown.startswith(text)
    assert explanation.stages["ranges"] in shown
    names = [name for name in explanation.stages if name != "ranges"]
    assert [re.search(r"<summary>(\w+):", part)[1] for part in others] == names  # type: ignore[index]
    times = re.compile(r"[\d.]+ ms")  # passes are timed
    for part, name in zip(others, names, strict=True):
        expected = times.sub("", explanation.stages[name])
        assert expected.strip() in times.sub("", shown_text(part))


def test_notebooks_show_colours_where_pygments_knows_the_language() -> None:
    pytest.importorskip("pygments")
    assert "<span style" in tc.emit(PRODUCT, N=3)._repr_html_()
    assert as_html("a < b", "no such language") == as_html("a < b")


def test_shown_texts_are_copied_with_their_language() -> None:
    text = tc.grad(PRODUCT)
    for again in (copy.copy(text), pickle.loads(pickle.dumps(text))):
        assert again == text
        assert repr(again) == str(text)
        assert shown_text(again._repr_html_()) == shown_text(text._repr_html_())


def test_public_names() -> None:
    assert isinstance(tc.explain(MM, M=1, K=1, N=1), tc.Explanation)
    assert tc.Options.preset("naive") is tc.PRESETS["naive"]
    assert [name for name in dir(tc) if not name.startswith("_")] == sorted(tc.__all__)


@pytest.mark.parametrize("name", tc.__all__)
def test_examples_run_when_pasted(name: str) -> None:
    """No name in them comes from the module in which the docstring stands."""
    finder = doctest.DocTestFinder(recurse=inspect.isclass(getattr(tc, name)))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for example in finder.find(getattr(tc, name), name, globs={}):
        if "._" not in example.name:
            assert runner.run(example).failed == 0


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    function = tc.compile(MM)
    with caplog.at_level(logging.INFO, logger="tc"):
        for _ in range(3):
            function(A, B)
    (record,) = caplog.records
    assert record.name == "tc"
    message = record.getMessage()
    assert message.startswith("mm is ready for A (2, 3), B (3, 4) after ")
    assert message.endswith(" ms (backend numba)")


def test_threads_of_all_calls(evaluating: type[EvaluateBackend]) -> None:
    """Options go first; calls that repeat follow a change too."""
    plain = tc.compile(TWICE, backend="evaluate")
    own = tc.compile(TWICE, backend="evaluate", options=tc.Options(threads=3))
    try:
        for most in (2, 1, None):
            tc.set_threads(most)
            evaluating.threads_seen.clear()
            for _ in range(4):
                plain(X)
                own(X)
            assert evaluating.threads_seen == [most, 3] * 4
    finally:
        tc.set_threads(None)
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(tc.BackendError, match="integer of at least 1"):
            tc.set_threads(wrong)  # type: ignore[arg-type]


def test_threads_are_set_while_functions_are_made() -> None:
    """As other threads may make them, between any two lines."""
    kept = []

    def trace(_frame: FrameType, _event: str, _value: Any) -> Any:
        sys.settrace(None)
        kept.append(tc.compile(TWICE, backend="interpret"))
        sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        tc.set_threads(None)
    finally:
        sys.settrace(before)
    assert len(kept) > 4


# --- where texts come from --------------------------------------------------------------------


def test_a_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "twice.tc"
    path.write_text(TWICE, encoding="utf-8")
    assert tc.compile(path, backend="interpret")(X).tolist() == [0, 2, 4, 6]
    assert tc.interpret(path, X).tolist() == [0, 2, 4, 6]
    assert tc.define(path).twice.text == TWICE
    assert "twice" in str(tc.emit(path, N=4))
    assert str(tc.explain(path, N=4)).startswith(f"def twice ({path})")
    path.write_text("def f(float(N) x) -> (y)\n{ y(i) = z(i) }", encoding="utf-8")
    with pytest.raises(tc.CheckError, match=f"{path}:2:10"):
        tc.compile(path)
    path.write_bytes(b"def f\xff")
    with pytest.raises(tc.InputError, match="no text in UTF-8: byte 5 is 255"):
        tc.compile(path)
    with pytest.raises(tc.InputError, match="cannot be read"):
        tc.compile(tmp_path)


def test_an_error_names_the_line_of_the_literal() -> None:
    """The place in this file, in which the text stands letter by letter."""
    with pytest.raises(tc.CheckError) as caught:
        tc.compile("""
            def wrong(float(N) x) -> (y) {
              y(i) = neither_tensor(i)
            }""")
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    number = next(i for i, line in enumerate(lines, 1) if "y(i) = neither_tensor(i)" in line)
    column = lines[number - 1].index("neither_tensor") + 1
    shown = str(caught.value)
    assert f" --> {__file__}:{number}:{column}\n" in shown
    assert f"\n{number} |" in shown


def test_an_error_on_the_first_line_of_a_literal() -> None:
    with pytest.raises(tc.CheckError) as caught:
        tc.compile("def wrong(float(N) x) -> (y) { y(i) = other_tensor(i) }")
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    number = next(i for i, line in enumerate(lines, 1) if "y(i) = other_tensor(i)" in line)
    column = lines[number - 1].index("other_tensor") + 1
    assert f" --> {__file__}:{number}:{column}\n" in str(caught.value)


def test_a_text_that_was_put_together_names_the_call() -> None:
    text = textwrap.dedent("def wrong(float(N) x) -> (y) {\ny(i) = a_name(i) }")
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(text)  # the call that gives it
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    number = next(i for i, line in enumerate(lines, 1) if line.endswith("# the call that gives it"))
    assert f" --> <string>:2:8, given at {__file__}:{number}\n" in str(caught.value)


@pytest.mark.parametrize("notation", ["tc", "sac"])
def test_a_text_that_was_given_before_is_told_where_it_is_given(notation: str) -> None:
    """Texts that were read are kept, but a message names the place of its own call."""
    x = np.ones(3, np.float32)
    texts = {
        "tc": ["def f(float(N) x, float(M) y) -> (z)", "{ z(i) = x(i) + y(i) }"],
        "sac": ["{ [i] ->", "x[i] + y[i] | [i] < [3] }"],
    }
    text = " ".join(texts[notation])
    verbs: dict[str, Callable[..., Any]] = {"tc": tc.interpret, "sac": tc.sac.interpret}
    assert np.array_equal(verbs[notation](text, x=x, y=x), x + x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((tc.TCWarning, tc.TCError)) as raised:
            verbs[notation](text, x=x, y=x[1:])  # the second place
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    number = next(i for i, line in enumerate(lines, 1) if line.endswith("# the second place"))
    assert f", given at {__file__}:{number}\n" in str(raised.value)


def test_where_a_text_stands_changes_nothing() -> None:
    first, second = (tc.explain("def f(float(N) x) -> (y) { y(i) = x(i) }", N=3),
                     tc.explain("def f(float(N) x) -> (y) " + "{ y(i) = x(i) }", N=3))  # fmt: skip
    assert str(first) == str(second)
    assert first.shaped.program.source == second.shaped.program.source
