"""What would lose a gradient, or has no values yet, is refused by name, at first and again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C

TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
SCALE = "def scale(float a, float(N) x) -> (y) { y(i) = a * x(i) }"
BACKENDS = ["numba", NEEDS_C, "interpret"]


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="jax is not installed")


# --- torch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_torch_records_nothing_it_is_fine(torch: Any, backend: str) -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    function = tc.compile(TWICE, backend=backend)
    for quiet in (torch.no_grad, torch.inference_mode):
        with quiet():
            result = function(weight)
            out = torch.nn.Parameter(torch.zeros(3))
            assert function(weight, outputs=out) is out
        assert not result.requires_grad
        assert result.tolist() == out.tolist() == [2, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_output_that_requires_a_gradient(torch: Any, backend: str) -> None:
    """Rule R4: refused before anything is written, and before its version counts."""
    out = torch.nn.Parameter(torch.zeros(3))
    version = out._version
    with pytest.raises(tc.InputError, match=r"(?s)y in outputs= requires.*repair: y\.detach"):
        tc.compile(TWICE, backend=backend)(torch.ones(3), outputs=out)
    assert out.tolist() == [0, 0, 0]
    assert out._version == version


def test_a_shape_is_known_before_values_and_gradients(torch: Any) -> None:
    function = tc.compile(TWICE)
    for value in (torch.nn.Parameter(torch.ones(3)), torch.ones(3, device="meta")):
        assert function.infer(value)["y"].shape == (3,)
        assert tc.explain(TWICE, [value], stage="ranges").shaped.sizes["N"] == 3


def wrong(torch: Any) -> dict[str, tuple[Any, str, str]]:
    x = torch.ones(3)
    return {
        "sparse": (x.to_sparse(), "sparse_coo", r"x\.to_dense\(\)"),
        "quantized": (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "quantized",
                      r"x\.dequantize\(\)"),
        "nested": (torch.nested.nested_tensor([x, x]), "nested", "to_padded_tensor"),
        "jagged": (torch.nested.nested_tensor([x, x], layout=torch.jagged), "nested",
                   "to_padded_tensor"),
        "bfloat16": (x.bfloat16(), "dtype bfloat16", r"x\.to\(torch\.float32\)"),
        "complex": (x.to(torch.complex64), "dtype complex64", r"x\.real\.to\(torch\.float32\)"),
        "zero": (torch._efficientzerotensor(3), "zero without memory", r"x\.clone\(\)"),
        "lazy": (torch.nn.UninitializedParameter(), "no shape yet", ""),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sparse", "quantized", "nested", "jagged", "bfloat16",
                                  "complex", "zero", "lazy"])  # fmt: skip
def test_what_is_no_plain_tensor(torch: Any, kind: str) -> None:
    value, cause, repair = wrong(torch)[kind]
    function = tc.compile(TWICE, backend="interpret")
    with pytest.raises(tc.InputError, match=f"(?s)x .*{cause}") as caught:
        function(value)
    if repair:
        assert ".cpu()" not in (caught.value.repair or "")
        assert re.search(repair, caught.value.repair or "")
    with pytest.raises(tc.InputError, match="y in outputs="):
        function(torch.ones(3), outputs=value)


@pytest.mark.filterwarnings("ignore")
def test_torchs_transforms_of_what_is_written(torch: Any) -> None:
    """A lost tangent would be a wrong result without an error."""
    forward = torch.autograd.forward_ad
    function, x = tc.compile(TWICE, backend="interpret"), torch.ones(3)

    def into(x: Any) -> Any:
        return function(x, outputs=torch.zeros(3))

    def dual() -> Any:
        with forward.dual_level():
            return into(forward.make_dual(x, x))

    transforms: dict[str, tuple[Callable[[], Any], str]] = {
        "grad": (lambda: torch.func.grad(lambda x: into(x).sum())(x), "torch.func"),
        "vmap": (lambda: torch.func.vmap(into)(torch.ones(2, 3)), "torch.func"),
        "jvp": (lambda: torch.func.jvp(into, (x,), (x,)), "torch.func"),
        "jacrev": (lambda: torch.func.jacrev(into)(x), "torch.func"),
        "dual": (dual, "a tangent of forward mode"),
    }
    for transform, message in transforms.values():
        with pytest.raises(tc.InputError, match=message):
            transform()
    with forward.dual_level():
        assert function(x).tolist() == [2, 2, 2]
        assert into(x).tolist() == [2, 2, 2]


def test_inside_a_function_of_autograd(torch: Any) -> None:
    """How a gradient is written by hand today."""
    function = tc.compile(TWICE, backend="interpret")

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: Any) -> Any:
            return function(x)

        @staticmethod
        def backward(_ctx: Any, gradient: Any) -> Any:
            return function(gradient)

    weight = torch.nn.Parameter(torch.ones(3))
    Twice.apply(weight).sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]


# --- jax --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_jax_tracers(jax: Any, backend: str) -> None:
    """Whether calls with arrays have been before or not."""
    twice, scale = tc.compile(TWICE, backend=backend), tc.compile(SCALE, backend=backend)
    x, two = jax.numpy.ones(3), [2, 2, 2]
    transforms: list[tuple[Callable[[Callable[[Any], Any]], Any], Any]] = [
        (lambda f: jax.jit(f)(x), two),
        (lambda f: jax.grad(lambda x: f(x).sum())(x), two),
        (lambda f: jax.vmap(f)(jax.numpy.ones((2, 3))), [two, two]),
        (lambda f: jax.jvp(f, (x,), (x,))[1], two),
        (lambda f: jax.vjp(f, x)[1](x)[0], two),
        (lambda f: jax.linearize(f, x)[1](x), two),
        (lambda f: jax.checkpoint(f)(x), two),
        (lambda f: jax.lax.map(f, jax.numpy.ones((2, 3))), [two, two]),
    ]
    for warm in (False, True):
        for transform, wanted in transforms:
            assert transform(twice).tolist() == wanted
        assert jax.jit(lambda x: tc.interpret(TWICE, [x]))(x).tolist() == two
        assert jax.grad(lambda a: scale(a, x).sum())(2.0) == 3
        with pytest.raises(tc.InputError, match="y in outputs= is traced by jax"):
            jax.jit(lambda y: twice(np.ones(3, np.float32), outputs=y))(x)
        if not warm:
            assert [twice(x).tolist() for _ in range(4)] == [[2, 2, 2]] * 4
