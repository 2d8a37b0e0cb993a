"""`outputs=` as a change in place: torch counts it, and refuses what its history forbids (R4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tc
from tests.api.evaluating import NEEDS_C

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
SQUARE = "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
BOTH = "def both(float(N) x) -> (y, z) { y(i) = 2 * x(i)  z(i) = x(i) + 1 }"
BACKENDS = ["numba", NEEDS_C, "interpret"]
CALLS = [0, 1, 4]
"""After four calls alike, the fifth is served by the inline cache."""


def warm(text: str, backend: str, calls: int) -> tc.Compiled:
    function = tc.compile(text, backend=backend)
    for _ in range(calls):
        function(torch.ones(3), outputs=torch.zeros(3))
    return function


SAVED: dict[str, Callable[[Any, Any], Any]] = {
    "torch": lambda w, out: w * out,
    "an input of tc": lambda w, out: tc.compile(
        "def mul(float(N) x, float(N) y) -> (z) { z(i) = x(i) * y(i) }", backend="interpret"
    )(w, out),
    "a view": lambda w, out: w[:1] * out[1:2],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("saved", SAVED)
def test_backward_finds_what_was_overwritten(backend: str, calls: int, saved: str) -> None:
    function = warm(TWICE, backend, calls)
    w, out = torch.ones(3, requires_grad=True), torch.full((3,), 5.0)
    kept = SAVED[saved](w, out)
    version = out._version
    assert function(torch.ones(3), outputs=out) is out
    assert out._version == version + 1
    assert out.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_a_result_that_tc_keeps() -> None:
    """What the gradient of exp reads is the result."""
    exp = tc.compile("def e(float(N) x) -> (y) { y(i) = exp(x(i)) }", backend="interpret")
    x = torch.zeros(3, requires_grad=True)
    result = exp(x)
    with torch.no_grad():
        tc.compile(TWICE, backend="interpret")(torch.ones(3), outputs=result)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_of_several_outputs_counts(backend: str) -> None:
    function = tc.compile(BOTH, backend=backend)
    y, z = torch.zeros(3), torch.zeros(3)
    for call in range(1, 6):
        function(torch.ones(3), outputs=(y, z))
        assert (y._version, z._version) == (call, call)
    function(torch.ones(3), outputs={"z": z})
    assert (y._version, z._version) == (5, 6)


def leaf() -> Any:
    return torch.zeros(3, requires_grad=True)


def view_of_what_became_a_result() -> Any:
    base = torch.zeros(6)
    part = base[:3]
    base.mul_(torch.ones(6, requires_grad=True))
    return part


def view_without_history() -> Any:
    with torch.no_grad():
        return torch.zeros(6, requires_grad=True)[:3]


WITH_HISTORY: dict[str, Callable[[], Any]] = {
    "a parameter": lambda: torch.nn.Parameter(torch.zeros(3)),
    "a leaf": leaf,
    "a result": lambda: leaf() * 1,
    "a view of a leaf": lambda: leaf().view(3),
    "a view of a result": lambda: (leaf() * 1)[:],
    "one of several views": lambda: torch.cat([leaf(), leaf()]).split(3)[0],
    "a view of what became a result": view_of_what_became_a_result,
    "a view of a leaf, made without gradients": view_without_history,
    "a result of tc": lambda: tc.compile(TWICE, backend="interpret")(leaf()),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", CALLS)
def test_what_has_a_history_is_no_output(backend: str, calls: int) -> None:
    function = warm(TWICE, backend, calls)
    for name, make in WITH_HISTORY.items():
        out = make()
        values, version = out.tolist(), out._version
        for _ in range(2):
            with pytest.raises(tc.InputError, match=r"(?s)\[R4\].*y in outputs= requires") as told:
                function(torch.ones(3), outputs=out)
            assert told.value.repair == "y.detach()", name
        assert (out.tolist(), out._version) == (values, version), name
        assert function(torch.ones(3), outputs=out.detach()).tolist() == [2, 2, 2]
        assert out.detach().tolist() == [2, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", CALLS)
def test_without_gradients_it_is_allowed_and_counts(backend: str, calls: int) -> None:
    """As in-place operations of torch are, below no_grad."""
    function = warm(SQUARE, backend, calls)
    w = torch.nn.Parameter(torch.full((3,), 3.0))
    kept = (w * w).sum()
    with torch.no_grad():
        assert function(torch.ones(3), outputs=w) is w
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()
    (w * w).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", CALLS)
def test_inference_mode(backend: str, calls: int) -> None:
    """Tensors of inference have no versions, others keep counting there."""
    function = warm(TWICE, backend, calls)
    w, out = torch.ones(3, requires_grad=True), torch.ones(3)
    kept = (w * out).sum()
    with torch.inference_mode():
        own = torch.zeros(3)
        for _ in range(3):
            assert function(torch.ones(3), outputs=own) is own
            assert own.tolist() == [2, 2, 2]
        assert function(torch.ones(3), outputs=out) is out
    assert out._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()
    assert function(torch.ones(3), outputs=own) is own
    assert own.is_inference()


def test_a_refused_call_counts_nothing() -> None:
    function = tc.compile(TWICE, backend="interpret")
    for out in (torch.zeros(4), torch.zeros(3, dtype=torch.float64), torch.zeros(6)[::2]):
        with pytest.raises(tc.InputError):
            function(torch.ones(3), outputs=out)
        assert out._version == 0
