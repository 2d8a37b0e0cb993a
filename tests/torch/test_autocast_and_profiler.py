"""Calls under torch.autocast, and what torch.profiler and grad_fn call them. (2.5)"""

from __future__ import annotations

from typing import Any

import pytest

import tc

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

SCALE = "def scale(float(N) x, float(N) w) -> (y) { y(i) = x(i) * w(i) }"
PAIR = "def pair(float(N) x) -> (y, z) { y(i) = 2 * x(i)  z(i) = 3 * x(i) }"

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself uses


def halves(requires_grad: bool = False) -> Any:
    return torch.tensor([1.5, 2.0, -3.0], dtype=torch.bfloat16, requires_grad=requires_grad)


@pytest.mark.parametrize("backend", ["numba", "interpret"])
def test_a_module_casts_under_autocast(backend: str) -> None:
    import tc.torch

    function = tc.compile(SCALE, backend=backend)
    layer = tc.torch.Module(function, w=torch.tensor([2.0, 3.0, 4.0]), autocast="float32")
    assert "autocast='float32'" in repr(layer)
    x = halves(requires_grad=True)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        assert (y.dtype, y.tolist()) == (torch.float32, [3.0, 6.0, -12.0])
    y.sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (torch.bfloat16, [2.0, 3.0, 4.0])
    assert layer.w.grad.tolist() == [1.5, 2.0, -3.0]
    with pytest.raises(tc.InputError, match="bfloat16"):
        layer(x)  # autocast is off
    assert layer(x.float()).tolist() == [3.0, 6.0, -12.0]


def test_a_function_casts_under_autocast() -> None:
    import tc.torch

    function = tc.torch.autocast(tc.compile(SCALE), torch.float32)
    out = torch.zeros(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert function(halves(), w=torch.ones(3)).tolist() == [1.5, 2.0, -3.0]
        assert function(halves(), halves().half(), outputs=out) is out
        with pytest.raises(tc.InputError, match="float64"):
            function(torch.ones(3).double(), torch.ones(3))
        vmapped = torch.vmap(function)(torch.stack([halves(), halves()]), torch.ones(2, 3))
        assert vmapped.tolist() == [[1.5, 2.0, -3.0]] * 2
    assert out.tolist() == [2.25, 4.0, 9.0]
    with torch.autocast("cpu", enabled=False), pytest.raises(tc.InputError, match="bfloat16"):
        function(halves(), halves())


@pytest.mark.parametrize(
    ("given", "repair"), [("float", "float32"), ("bfloats16", "bfloat16"), (3, "float32")]
)
def test_other_types_are_refused(given: Any, repair: str) -> None:
    import tc.torch

    with pytest.raises(tc.InputError, match="is no type of floats that programs have") as caught:
        tc.torch.Module(SCALE, autocast=given)
    assert caught.value.repair == f'autocast="{repair}"'


def test_an_input_of_that_name() -> None:
    import tc.torch

    layer = tc.torch.Module(SCALE.replace("w", "autocast"), autocast=torch.full((3,), 2.0))
    assert layer(torch.ones(3)).tolist() == [2, 2, 2]


def recorded(call: Any) -> tuple[Any, set[str]]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        result = call()
    return result, {event.key for event in found.key_averages()}


@pytest.mark.parametrize("warm", [0, 4])
def test_the_profiler_names_calls(warm: int) -> None:
    scale, pair = tc.compile(SCALE), tc.compile(PAIR)
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    for _ in range(warm):
        scale(x, x), pair(x), scale(x, w).sum().backward()
    found, names = recorded(lambda: (scale(x, x), pair(x)))
    assert found[0].tolist() == [1, 1, 1]
    assert {"tc::scale", "tc::pair"} <= names
    out = torch.zeros(3)
    assert "tc::scale" in recorded(lambda: scale(x, x, outputs=out))[1]
    _, names = recorded(lambda: scale(x, w).sum().backward())
    assert {"scale", "scaleBackward", "tc::scale_grad"} <= names
    _, names = recorded(lambda: torch.func.grad(lambda x: scale(x, x).sum())(x))
    assert {"tc::run", "tc::scale"} <= names
    assert scale(x, x).tolist() == [1, 1, 1]


def test_nodes_have_the_names_of_defs() -> None:
    x = torch.ones(3, requires_grad=True)
    scale, pair = tc.compile(SCALE), tc.compile(PAIR)
    for _ in range(3):
        assert scale(x, x).grad_fn.name() == "scaleBackward"
        assert {result.grad_fn.name() for result in pair(x)} == {"pairBackward"}
    assert torch.ops.tc.run([x, x], scale.text, "scale", scale._how)[0].grad_fn.name() == (
        "scaleBackward"
    )
