"""What `dir()` shows of the values that users hold: each name is public API with a docstring, or
begins with an underscore."""

import ast
import inspect
import itertools
import re
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import tc
from tc.verification.verdict import Finding

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
ARRAYS = [np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)]

OPTIONS = {
    *("from_json", "gpu", "mapping", "match_library", "plan", "preset", "schedule", "threads"),
    *("to_json", "to_value"),
}
FUNCTION = {
    *("backend", "check", "explain", "infer", "options", "prepare", "program", "source", "text"),
    "time",
}


def compiled() -> Any:
    """A function after enough calls for an inline cache to serve it."""
    function = tc.compile(MM)
    for _ in range(3):
        function(*ARRAYS)
    return function


VALUES = {
    "function": (compiled, FUNCTION),
    "function of the interpreter": (lambda: tc.compile(MM, backend="interpret"), FUNCTION),
    "explanation": (
        lambda: tc.explain(MM, ARRAYS),
        {"notation", "shaped", "stage", "stages", "total", "trace", "work"},
    ),
    "explanation of a function": (
        lambda: compiled().explain(*ARRAYS),
        {"notation", "shaped", "stage", "stages", "total", "trace", "work"},
    ),
    "stages": (lambda: tc.explain(MM, ARRAYS).stages, {"get", "items", "keys", "values"}),
    "options": (tc.Options, OPTIONS),
    "schedule options": (
        tc.ScheduleOptions,
        {"apart", "factor", "fusion", "rewrite", "seconds", "split"},
    ),
    "mapping options": (
        tc.MappingOptions,
        {"pack", "parallel", "reduction_tile", "rows", "unroll", "vector_bits", "vectors"},
    ),
    "options of a GPU": (
        tc.GpuOptions,
        {
            *("blocks", "private", "shared", "single_kernel", "tf32", "threads", "tile", "unroll"),
            "unroll_copies",
        },
    ),
    "plan": (tc.Plan, {"from_json", "parts", "to_json"}),
    "part of a plan": (lambda: tc.plan.Part(["S0"]), {"actions", "statements"}),
    "emitted text": (lambda: tc.emit(MM, ARRAYS), {"backend", "kernel", "source"}),
    "shape and type": (lambda: compiled().infer(*ARRAYS)["C"], {"dtype", "shape"}),
    "time of a call": (
        lambda: compiled().time(*ARRAYS, seconds=0.01),
        {"calls", "fastest", "measurements", "seconds"},
    ),
    "definitions": (lambda: tc.define(MM), {"mm"}),
    "verdict": (
        lambda: tc.verify(lambda A, B: A @ B, MM, seconds=1),
        {
            *("calls", "findings", "is_right", "name", "not_tried", "raise_if_wrong", "refused"),
            *("seconds", "to_json", "tried"),
        },
    ),
}


def public_names(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def documented_fields(kind: type) -> set[str]:
    """The annotated attributes of a class with a docstring of their own below them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def is_documented(kind: type, name: str) -> bool:
    """Whether a name has a docstring, or the docstring of its class names it in backticks."""
    if re.search(rf"`[^`]*\b{name}\b[^`]*`", inspect.getdoc(kind) or ""):
        return True
    member = inspect.getattr_static(kind, name, None)
    of_code = inspect.isfunction(member) or isinstance(member, property | classmethod)
    return (of_code and bool(member.__doc__)) or name in documented_fields(kind)


@pytest.mark.parametrize("value", VALUES)
def test_dir_shows_public_names_alone(value: str) -> None:
    make, expected = VALUES[value]
    assert public_names(make()) == expected


@pytest.mark.parametrize(
    "kind",
    [
        *(tc.Compiled, tc.Explanation, tc.Options, tc.ScheduleOptions, tc.MappingOptions),
        *(tc.GpuOptions, tc.Plan, tc.plan.Part, tc.KernelText, tc.TensorInfo, tc.Verdict),
        Finding,
    ],
)
def test_public_names_are_documented(kind: type) -> None:
    names = public_names(kind) | {*getattr(kind, "__annotations__", {})}
    assert [name for name in sorted(names) if not is_documented(kind, name)] == []


@pytest.mark.parametrize("action", tc.plan.ACTIONS)
def test_actions_show_their_fields_and_their_verb(action: type) -> None:
    assert public_names(action) == {*action.__dataclass_fields__, "VERB"}  # type: ignore[attr-defined]
    assert action.__doc__


@pytest.mark.parametrize("module", [tc, tc.plan, tc.cache])
def test_modules_show_what_they_export(module: Any) -> None:
    assert public_names(module) == {*module.__all__}
    assert all(getattr(module, name) is not None for name in module.__all__)


def test_calls_by_torch_and_jax_add_no_names() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    function = tc.compile(MM)
    x = torch.ones(2, 2, requires_grad=True)
    for _ in range(3):
        function(x, x).sum().backward()
    jax.grad(lambda y: function(y, y).sum())(jax.numpy.ones((2, 2)))
    assert public_names(function) == FUNCTION
    assert "tc.torch.routes" in sys.modules


def test_modules_of_torch_add_their_function_and_their_inputs() -> None:
    torch, routes = pytest.importorskip("torch"), pytest.importorskip("tc.torch")
    text = "def f(float(N) x, float(N) w) -> (y) { y(i) = x(i) * w(i) }"
    module = routes.Module(text, w=(3,))
    added = public_names(module) - public_names(torch.nn.Module())
    assert added == {"function", "reset_parameters", "w"}
