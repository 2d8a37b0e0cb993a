"""Gradients of eager calls, against torch's own formulas, by gradcheck, and what they cost."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C
from tests.support.interpreting import interpreted
from tests.support.threads import run_at_once
from tests.torch.layers import Layer, layers, tuple_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

LAYERS = layers(torch)
MM = LAYERS[0].text
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
TWO = "def two(float(N) x, float(N) w) -> (a, b) { a(i) = sqrt(x(i)) * w(i)  b(i) = x(i) * w(i) }"
CHAIN = "def chain(float(N) x) -> (a, b) { a(i) = 3 * x(i) * x(i)  b(i) = a(i) * x(i) }"
STRIDED = "def strided(float(N) x, int32 s) -> (y) { y(i) = x(s*i) }"
COUNTED = (
    "def counted(float(N) x, float s, int32 k) -> (y, n) {"
    " y(i) = s * x(i) * float(k)  n(i) = int32(x(i)) }"
)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_gradients_are_those_of_torch(layer: Layer) -> None:
    ours, theirs = layer.tensors(torch), layer.tensors(torch)
    found = tuple_of(interpreted(layer.text)(*ours))
    wanted = tuple_of(layer.same(*theirs))
    for result, same in zip(found, wanted, strict=True):
        torch.testing.assert_close(result, same)
    for results in (found, wanted):
        sum((result * result.cos()).sum() for result in results).backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine.requires_grad:
            torch.testing.assert_close(mine.grad, other.grad)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_gradients_are_those_of_differences(layer: Layer) -> None:
    """Also where torch passes nothing in the place of zeros."""
    function, inputs = interpreted(layer.text), layer.tensors(torch)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)


LARGE = ("layernorm", "softmax")
TWICE_DERIVED = [
    pytest.param(layer, marks=[pytest.mark.slow] * (layer.name in LARGE), id=layer.name)
    for layer in LAYERS
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("layer", TWICE_DERIVED)
def test_second_derivatives_are_those_of_differences(layer: Layer) -> None:
    function, inputs = interpreted(layer.text), layer.tensors(torch)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("backend", ["numba", NEEDS_C])
def test_a_layer_learns(backend: str) -> None:
    function = tc.compile(MM.replace("double", "float"), backend=backend)
    numbers = torch.Generator().manual_seed(0)
    x, w = (torch.rand(4, 4, generator=numbers) for _ in range(2))
    ours, theirs = w.clone().requires_grad_(), w.clone().requires_grad_()
    for _ in range(4):
        for weight, product in ((ours, function), (theirs, torch.mm)):
            (product(x, weight) ** 2).mean().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
        torch.testing.assert_close(ours, theirs)


def test_only_what_is_asked_for_is_derived() -> None:
    function = interpreted(MM)
    a, b = LAYERS[0].tensors(torch)
    (found,) = torch.autograd.grad(function(a, b.detach()).sum(), a)
    torch.testing.assert_close(found, b.sum(1).expand(3, 4).detach())
    assert not function(a.detach(), b.detach()).requires_grad


def test_results_that_nobody_uses() -> None:
    """What they would add is not there: at 0, zero times the slope of a root is no number."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    w = torch.tensor([2.0, 3.0])
    two, chain = interpreted(TWO), interpreted(CHAIN)
    torch.autograd.backward(two(x, w).b.sum())
    assert x.grad.tolist() == [2, 3]
    x.grad = None
    chain(x).b.sum().backward()  # through a, whose own cotangent is not there
    torch.testing.assert_close(x.grad, 9 * x.detach() ** 2)
    x.grad = None
    chain(x).a.sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())


def test_numbers_and_integers() -> None:
    x, s = torch.tensor([1.5, 2.5], requires_grad=True), torch.tensor(2.0, requires_grad=True)
    function = interpreted(COUNTED)
    found = function(x, s, 3)
    assert found.y.requires_grad
    assert not found.n.requires_grad
    found.y.sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert s.grad == 12
    three = torch.tensor(3, dtype=torch.int32)
    (slope,) = torch.autograd.grad(function(x, 2.0, k=three).y.sum(), x)
    assert slope.tolist() == [6, 6]
    wide = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    function([x, wide, 3]).y.sum().backward()
    assert wide.grad == 12
    assert wide.grad.dtype == torch.float64


def test_results_of_integers_alone() -> None:
    function = interpreted("def f(float(N) x) -> (n) { n(i) = int32(x(i)) }")
    found = function(torch.tensor([1.5], requires_grad=True))
    assert found.tolist() == [1]
    assert not found.requires_grad


@pytest.mark.parametrize("backend", ["numba", "interpret"])
def test_modes_take_turns(backend: str) -> None:
    """Calls with and without gradients, of which either may have come first."""
    function = tc.compile(TWICE, backend=backend)
    weight, plain = torch.nn.Parameter(torch.ones(3)), torch.ones(3)
    for _ in range(4):
        found = function(weight)
        assert found.grad_fn is not None
        assert not function(plain).requires_grad
        assert not function(weight.detach()).requires_grad
        with torch.no_grad():
            assert not function(weight).requires_grad
        with torch.inference_mode():
            assert function(weight).is_inference()
        assert function(np.ones(3, np.float32)).tolist() == [2, 2, 2]
        weight.grad = None
        found.sum().backward()
        assert weight.grad.tolist() == [2, 2, 2]


def test_calls_without_gradients_are_served_as_ever() -> None:
    function, x = tc.compile(TWICE), torch.ones(3)
    for _ in range(3):
        function(x)
    assert function._entry is function._inline_cache is not None
    function(torch.ones(3, requires_grad=True)).sum().backward()
    usual = function._inline_cache
    function(x)
    assert function._inline_cache is usual


def test_a_gradient_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from tc.derivatives import gradients

    made, derive = [], gradients.grad

    def counted(*given: Any, **named: Any) -> str:
        made.append(given)
        return derive(*given, **named)

    monkeypatch.setattr(gradients, "grad", counted)
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    run_at_once([lambda: function(a, b).sum().backward()] * 4)
    assert len(made) == 1
    torch.testing.assert_close(a.grad, 4 * b.sum(1).expand(3, 4).detach())
    function(a, b.detach())
    assert len(made) == 2


def test_gradients_for_the_sizes_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ranges have no expression that holds for all sizes (D4)."""
    from tc.derivatives import gradients

    asked, derive = [], gradients.grad

    def grad(*given: Any, **named: Any) -> str:
        asked.append(named["sizes"])
        if named["sizes"] is None:
            raise tc.GradError("there is no expression", rule="D4")
        return derive(*given, **named)

    monkeypatch.setattr(gradients, "grad", grad)
    function = interpreted(STRIDED)
    for length in (9, 9, 7):
        x = torch.ones(length, requires_grad=True)
        function(x, 3).sum().backward()
        assert x.grad.tolist() == [1.0 if i % 3 == 0 else 0.0 for i in range(length)]
    assert asked == [None, {"x": (9,), "s": 3}, {"x": (7,), "s": 3}]
    by_operator = type("Subclass", (torch.Tensor,), {})
    stride = torch.tensor(2, dtype=torch.int32)
    function(x.as_subclass(by_operator), stride).sum().backward()
    assert x.grad.tolist() == [2, 0, 1, 1, 1, 0, 2]


# --- what a graph keeps -------------------------------------------------------------------------


def test_what_no_gradient_reads_is_let_go() -> None:
    """Of y = 2x, nothing; of a product, the other factor."""
    x = torch.ones(3, requires_grad=True)
    double = x * 1
    gone = weakref.ref(double)
    found = interpreted(TWICE)(double)
    del double
    assert gone() is None
    found.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_tensor_that_changes_meanwhile() -> None:
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    found = function(a, b)
    with torch.no_grad():
        a += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


def test_checkpoints() -> None:
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    for reentrant in (False, True):
        a.grad = None
        found = checkpoint(lambda a, b: function(a, b).cos(), a, b, use_reentrant=reentrant)
        found.sum().backward()
        c, d = a.detach().requires_grad_(), b.detach().requires_grad_()
        (c @ d).cos().sum().backward()
        torch.testing.assert_close(a.grad, c.grad)


def test_a_graph_goes_back_twice() -> None:
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    found = function(a, b).sum()
    found.backward(retain_graph=True)
    found.backward()
    torch.testing.assert_close(a.grad, 2 * b.sum(1).expand(3, 4).detach())
    with pytest.raises(RuntimeError, match="a second time"):
        found.backward()


def test_a_copy_and_a_pickle_have_gradients() -> None:
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    function(a, b)
    copy.deepcopy(function)(a, b).sum().backward()
    assert a.grad is not None


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", NEEDS_C, "interpret"])
def test_outputs_have_no_gradients(backend: str) -> None:
    """Rule R4: what is written in place has no history."""
    function = tc.compile(TWICE, backend=backend)
    weight, out = torch.nn.Parameter(torch.ones(3)), torch.zeros(3)
    version = out._version
    for _ in range(4):
        with pytest.raises(tc.InputError, match=r"(?s)x requires a gradient.*outputs="):
            function(weight, outputs=out)
        function(weight)
    assert out._version == version
    with torch.no_grad():
        assert function(weight, outputs=out) is out


def test_what_has_no_gradient() -> None:
    function = interpreted("def f(float(N) x) -> (y) { y(i) = lgamma(x(i)) }")
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(tc.GradError, match="lgamma"):
        function(x)
    assert function(x.detach()).tolist() == [0, 0, 0]


def test_repairs_are_in_the_words_of_torch() -> None:
    """D10: the repair says how nothing flows into any such function; other inputs keep theirs."""
    function = interpreted("""
        def f(float(N) x, float(N) v, float(N) w) -> (y, z) {
          t(i) = 2 * w(i)  y(i) = x(i) + lgamma(t(i))  z(i) = tgamma(v(i))
        }""")
    x, v, w = (torch.ones(3, requires_grad=True) for _ in range(3))
    repair = r"\nrepair: v\.detach\(\), w\.detach\(\) in place of v, w$"
    for inputs in ((x, v, w), (x.detach(), v, w), (x, v, w.detach()), (x, v.detach(), w)):
        with pytest.raises(tc.GradError, match=repair):
            function(*inputs)
    sum(function(x, v.detach(), w.detach())).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 1]


def test_what_only_outputs_hold() -> None:
    """Rule R4: the call says what it lacks before any gradient does."""
    x = torch.ones(3, requires_grad=True)
    reads = interpreted("def f(float(N) x) -> (y) { y(i) = y(i) * x(i) }")
    with pytest.raises(tc.InputError, match="y is read before any statement defines it"):
        reads(x)
    goes_on = interpreted("def f(float(N) x) -> (y) { y(i) *= x(i) * x(i) * y(i) }")
    with pytest.raises(tc.TCError, match="y"):
        goes_on(x)
    with pytest.warns(tc.TCWarning, match="continues from what y holds"):
        found = interpreted("def f(float(N) x) -> (y) { y(i) += 2 * x(i) }")(x)
    found.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_arrays_of_two_libraries() -> None:
    function, (a, b) = interpreted(MM), LAYERS[0].tensors(torch)
    for given in [(a, b.detach().numpy()), (a.detach().numpy(), b)]:
        with pytest.raises(tc.InputError, match="of a call are of one kind"):
            function(*given)
    with pytest.raises(tc.InputError, match="size K is 4"):
        function(a, torch.ones(3, 3, dtype=torch.float64))


def test_an_error_bound_is_of_numbers() -> None:
    with pytest.raises(tc.InputError, match=r"(?s)x requires a gradient.*repair: x\.detach"):
        tc.error_bound(TWICE, [torch.ones(3, requires_grad=True)])


def test_warnings_point_at_the_line_of_the_call() -> None:
    """Those of calls with gradients, and of layers, of which torch's own lines stand between."""
    text = "def f(float(N) x, float(N) w) -> (y) { y(i) += x(i) * w(i) }"
    x, w = torch.rand(5, requires_grad=True), torch.rand(5)
    with pytest.warns(tc.TCWarning) as caught:
        interpreted(text)(x, w)
    with pytest.warns(tc.TCWarning) as of_layer:
        tc.torch.Module(text, w=(5,))(torch.rand(5))
    assert {each.filename for each in (*caught, *of_layer)} == {__file__}
