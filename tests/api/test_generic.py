"""Defs with type variables (T6, Y10): bound by calls, written out, derived, pickled; beside the
texts that are written out by hand."""

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import CheckError, InputError, ParseError
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.semantics.check.checker import check
from tc.source import Edit, Source, Span, apply
from tests.fuzz import generate
from tests.fuzz.model import ENTRY

SCALED = "def scaled<T: half | float | double>(T(N) x, T s) -> (T(N) y) { y(i) = T(s * x(i)) }"
ADD = "def add<T>(T(N) a, T(N) b) -> (o) { o(i) = a(i) + b(i) }"
CALLS = """
def norm<T>(T(N) x) -> (T(N) y) {
  s +=! x(i) * x(i)
  y(i) = T(x(i) * rsqrt(s))
}
def both(half(N) a, double(N) b) -> (p, q, r) {
  p = norm(a)
  t(i) = b(i) * 2
  q = norm(t)
  r = norm(a)
}
"""


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_first_input_binds(dtype: str) -> None:
    scaled = tc.compile(SCALED)
    x = np.arange(5, dtype=dtype)
    for s in (2, 2.0, np.array(2, dtype)):
        y = scaled(x, s)
        assert y.dtype == dtype
        assert (y == 2 * x).all()
    assert (scaled(x=x, s=2) == 2 * x).all()
    assert (scaled([x, 2]) == 2 * x).all()
    assert (scaled({"s": 2, "x": x}) == 2 * x).all()
    given = np.empty(5, dtype)
    assert scaled(x, 2, outputs=given) is given
    assert tc.interpret(SCALED, [x, 2]).dtype == dtype


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
    ],
)
def test_any_type_without_a_bound(dtype: str) -> None:
    copied = tc.compile("def f<T>(T(N) x) -> (y) { y(i) = x(i) }")
    x = np.array([0, 1, 1, 0], dtype)
    assert copied(x).dtype == dtype
    assert (copied(x) == x).all()


@pytest.mark.parametrize("backend", ["c", "numba", "opencl", "cuda"])
@pytest.mark.parametrize("spelling", ["half", "float", "double"])
def test_kernels_are_those_of_the_written_out_text(spelling: str, backend: str) -> None:
    by_hand = (
        f"def scaled({spelling}(N) x, {spelling} s) -> ({spelling}(N) y) "
        f"{{ y(i) = {spelling}(s * x(i)) }}"
    )
    assert tc.written_out(SCALED, T=spelling) == by_hand
    device = tc.Gpu.named("sm_80") if backend in ("opencl", "cuda") else None
    x = np.zeros(33, tc.compile(by_hand).program.tensors["x"].dtype.numpy)
    one = tc.emit(SCALED, x, 1.0, backend=backend, device=device)
    other = tc.emit(by_hand, x, 1.0, backend=backend, device=device)
    assert one.kernel == other.kernel
    assert str(one) == str(other)


def test_a_function_is_made_once_for_its_types() -> None:
    scaled = tc.compile(SCALED)
    whole = scaled.written_out(T="float")
    assert scaled.written_out(T="float32") is whole
    assert scaled._bound((np.zeros(3, np.float32), 1), {}) is whole
    assert scaled.written_out(T="half") is not whole


def test_calls_bind_by_the_tensors_they_pass() -> None:
    """N4: of inputs, and of tensors whose types follow from the statements before."""
    found = tc.compile(CALLS, entry="both")(np.float16([3, 4]), np.float64([0, 5]))
    assert [each.dtype.name for each in found] == ["float16", "float64", "float16"]
    assert np.allclose(np.float64(found.p), [0.6, 0.8], atol=1e-3)
    assert found.q.tolist() == [0, 1]
    defs = tc.define(CALLS)
    assert list(defs) == ["norm", "both"]
    assert defs.norm(np.float32([0, 2])).tolist() == [0, 1]


def test_generic_defs_call_generic_defs() -> None:
    text = """
    def twice<U>(U(N) x) -> (U(N) y) { y(i) = x(i) + x(i) }
    def four<T: int8 | float>(T(N) x) -> (z) { t = twice(x)  z = twice(t) }
    """
    four = tc.compile(text, entry="four")
    for dtype in (np.int8, np.float32):
        assert four(np.array([3], dtype)).tolist() == [12]
        assert four(np.array([3], dtype)).dtype == dtype


def test_texts_alone_have_type_variables_where_they_are_the_same() -> None:
    text = "def dot<T>(T(N) a, T(N) b) -> (o) { o +=! a(i) * b(i) }"
    gradient = tc.grad(text)
    assert str(gradient).startswith("def dot_grad<T>(T(N) a, T(N) b, T d_o) ->")
    a, b, d = np.float64([1, 2]), np.float64([3, 5]), np.float64(2)
    found = tc.compile(gradient)(a, b, d)
    assert [each.tolist() for each in found] == [[6, 10], [2, 4]]
    for dtype in ("float", "double"):
        plain = tc.written_out(text, T=dtype)
        assert tc.written_out(str(gradient), T=dtype).split() == str(tc.grad(plain)).split()
    made = tc.vjp(tc.compile(text))
    assert "<T>" in made.forward
    assert "<T>" in made.backward
    assert "<T>" in tc.jvp(text)
    assert "<T>" in tc.batch(text, {"a": 0})
    with pytest.raises(InputError, match="another text for each type"):
        tc.grad(SCALED)
    assert "half" in tc.grad(tc.written_out(SCALED, T="half"))


def test_copies_and_pickles() -> None:
    scaled = tc.compile(SCALED, backend="interpret")
    assert copy.deepcopy(scaled) is scaled
    again = pickle.loads(pickle.dumps(scaled))
    assert repr(again) == repr(scaled)
    assert again(np.float32([3]), 2).tolist() == [6]
    assert again.text == SCALED
    assert again.__name__ == "scaled"


def test_what_compiled_functions_have() -> None:
    scaled = tc.compile(SCALED)
    x = np.ones(3, np.float16)
    assert str(scaled.infer(x, 1)["y"]) == "float16(3)"
    scaled.prepare(x, 1)
    assert "float16" in str(scaled.explain(x, 1))
    assert scaled.source(x, 1)
    assert scaled.time(x, 1, seconds=0.01).seconds < 1
    with pytest.raises(InputError, match="which arrays bind"):
        scaled.infer(N=3)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("def f<N>(N(N) x) -> (y) { y(i) = x(i) }", CheckError, "no other name"),
        ("def f<T>(T(N) T) -> (y) { y(i) = 1 where i in 0:N }", CheckError, "no other name"),
        ("def f<T>(T(N) x) -> (y) { T(i) = x(i)  y(i) = x(i) }", CheckError, "no other name"),
        ("def f<T, U>(T(N) x) -> (y) { y(i) = U(x(i)) }", CheckError, "no tensor"),
        ("def f<T, T>(T(N) x) -> (y) { y(i) = x(i) }", ParseError, "declared twice"),
        ("def f<>(float(N) x) -> (y) { y(i) = x(i) }", ParseError, "no type variable"),
        ("def f<float>(float(N) x) -> (y) { y(i) = x(i) }", ParseError, "is a type"),
        ("def f<T: real>(T(N) x) -> (y) { y(i) = x(i) }", ParseError, "not a type"),
        ("def f<T: float, >(T(N) x) -> (y) { y(i) = x(i) }", ParseError, "a type variable"),
        ("def f<T(T(N) x) -> (y) { y(i) = x(i) }", ParseError, "'>'"),
        ("def f(T(N) x) -> (y) { y(i) = x(i) }", ParseError, "'T' is not a type"),
        ("def f<T>(T(N) x) -> (y) { y(i) = x(i) * T }", ParseError, "cast"),
        ("def f<T: int | float>(T(N) x) -> (y) { y(i) = x(i) >> 1 }", CheckError, "T is float"),
        ("def f<T>(T(N) x) -> (half(N) y) { y(i) = x(i) }", CheckError, "T is float"),
    ],
)
def test_texts_that_are_refused(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        tc.compile(text)


def test_calls_that_are_refused() -> None:
    a, b = np.ones(2, np.float32), np.ones(2)
    with pytest.raises(InputError, match="b has dtype float64, and 'T' is float32 by a") as caught:
        tc.compile(ADD)(a, b)
    assert "T(N) a" in str(caught.value)
    assert "T(N) b" in str(caught.value)
    with pytest.raises(InputError, match=r"one of half \| float"):
        tc.compile(SCALED)(np.int32([1]), 1)
    with pytest.raises(CheckError, match="'T' of 's' is half by 'a'"):
        tc.compile(
            "def s<T>(T(N) x, T(N) z) -> (y) { y(i) = x(i) * z(i) }\n"
            "def f(half(N) a, float(N) b) -> (p) { p = s(a, b) }",
            entry="f",
        )
    with pytest.raises(CheckError, match="is one of int"):
        tc.compile(
            "def s<T: int>(T(N) x) -> (y) { y(i) = x(i) }\n"
            "def f(half(N) a) -> (p) { t(i) = a(i)  p = s(t) }",
            entry="f",
        )
    for types, says in (({"T": "real"}, "name of a type"), ({"U": "int"}, "no type variable")):
        with pytest.raises(InputError, match=says):
            tc.written_out(SCALED, **types)
    with pytest.raises(InputError, match="one of half"):
        tc.written_out(SCALED, T="int")
    with pytest.raises(InputError, match="arrays bind"):
        tc.emit(SCALED, N=3)


def with_variables(text: str, chosen: set[str]) -> str:
    """The text in which the parameters of these types have type variables, in each of its defs."""
    edits = []
    for definition in parse(Source(text)).defs:
        used: dict[str, str] = {}
        for param in definition.params:
            spelling = param.type.spelling
            if spelling in chosen:
                start = param.type.span.start
                place = Span(param.type.span.source, start, start + len(spelling))
                edits.append(Edit(place, used.setdefault(spelling, f"T_{spelling}")))
        if used:
            end = definition.name.span.end
            listed = ", ".join(f"{name}: {spelling}" for spelling, name in used.items())
            edits.append(Edit(Span(definition.span.source, end, end), f"<{listed}>"))
    return apply(edits) if edits else text


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("index", range(30))
def test_generated_programs_with_type_variables(index: int) -> None:
    """Written out, they are the programs that they were made of."""
    case = generate.case(36, index)
    try:
        plain = check(parse(Source(case.text)), ENTRY)
    except tc.TCError:
        return  # a program that the language refuses
    rng = random.Random(index)
    types = sorted({param.type for param in case.params})
    chosen = {each for each in types if rng.random() < 0.7} or set(types[:1])
    text = with_variables(case.text, chosen)
    module = parse(Source(text))
    entry = next(d for d in module.defs if d.name.text == ENTRY)
    given = {v.name.text: v.bound[0] for v in entry.variables}
    whole = tc.written_out(text, entry=ENTRY, **given) if given else text
    made = check(parse(Source(whole)), ENTRY)
    assert made.tensors == plain.tensors
    assert made.statements == plain.statements


@pytest.mark.parametrize("text", [SCALED, CALLS, ADD])
def test_layout(text: str) -> None:
    ragged = text.replace(" ", "  ").replace("<T", " < T ").replace("T>", " T >")
    formatted = format_source(Source(ragged))
    assert parse(Source(formatted)) == parse(Source(text))
    assert format_source(Source(formatted)) == formatted
    assert " <" not in formatted.split("{")[0]


def bound_by(library: Any, make: Any) -> list[str]:
    scaled = tc.compile(SCALED)
    found = []
    for name in ("float16", "float32"):
        result = scaled(make([1, 2], dtype=getattr(library, name)), 3)
        assert [float(value) for value in result] == [3, 6]
        found.append(str(result.dtype).rpartition(".")[2])
    return found


def test_arrays_of_torch_with_gradients() -> None:
    torch = pytest.importorskip("torch")
    assert bound_by(torch, torch.tensor) == ["float16", "float32"]
    square = tc.compile("def square<T: half | float>(T(N) x) -> (T(N) y) { y(i) = x(i) * x(i) }")
    for dtype in (torch.float16, torch.float32):
        x = torch.ones(3, dtype=dtype, requires_grad=True)
        square(x).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype
        assert x.grad.tolist() == [2, 2, 2]
    assert torch.func.vmap(square)(torch.ones(2, 3)).shape == (2, 3)


def test_arrays_of_jax_with_gradients() -> None:
    jax = pytest.importorskip("jax")
    assert bound_by(jax.numpy, jax.numpy.array) == ["float16", "float32"]
    square = tc.compile("def square<T: half | float>(T(N) x) -> (T(N) y) { y(i) = x(i) * x(i) }")
    x = jax.numpy.ones(3)
    assert jax.jit(square)(x).tolist() == [1, 1, 1]
    assert jax.grad(lambda x: square(x).sum())(x).tolist() == [2, 2, 2]
    assert jax.vmap(square)(jax.numpy.ones((2, 3), jax.numpy.float16)).dtype == "float16"


def test_tuning(tmp_path: Path) -> None:
    text = "def total<T>(T(N) x) -> (o) { o +=! x(i) * x(i) }"
    x = np.ones(500, np.float32)
    tuned = tc.autotune(text, x, max_seconds=1, max_candidates=2, database=tmp_path / "t.db")
    assert tuned.function(x) == 500
