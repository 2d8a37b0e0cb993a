"""Repeated calls with torch's tensors in the processor's memory, right and for those alike."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import PAGE_BYTES
from tc.runtime.arrays.torch_private import private_parts
from tc.runtime.entries.host_entry import HostEntry
from tc.runtime.specialisation import LARGE_BYTES
from tests.runtime.test_torch_layout_check import ODD
from tests.support.threads import run_at_once

ADD = "def add(float(N,M) x, float(N,M) y) -> (o) { o(i,j) = x(i,j) + y(i,j) }"
LAST = "def last(float(N) x, float(N) y) -> (o) { o(i) = x(i) - y(i) }"
SCALED = "def f(float(N) x, float a, int32 b) -> (y) { y(i) = a * x(i) + float(b) }"
PARTS = "def f(float(N) x) -> (y, z) { t +=! x(i)  y(i) = t * x(i)  z +=! y(i) }"
GATHER = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"


@pytest.fixture(params=["by guards", "one by one"])
def torch(request: Any, monkeypatch: Any) -> Any:
    """Torch, with what torch.compile asks of tensors and without."""
    found = pytest.importorskip("torch", reason="torch is not installed")
    if request.param == "one by one":
        monkeypatch.setattr(private_parts(found), "TensorGuards", None)
    return found


def warm(function: tc.Compiled, *inputs: Any, outputs: Any = None) -> Any:
    for _ in range(3):
        function(*inputs, outputs=outputs)
    assert isinstance(function._entry, HostEntry)
    return function._entry.serve


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "meta"])
def test_other_tensors_are_not_served(kind: str, torch: Any) -> None:
    x, y, o = (torch.ones(2, 3) for _ in range(3))
    serve, serve_into = warm(tc.compile(ADD), x, y), warm(tc.compile(ADD), x, y, outputs=o)
    other = ODD[kind](torch)
    for _ in range(3):
        assert serve((x, other), None) is None
        assert serve((other, y), None) is None
        assert serve((x,), None) is None
        assert serve((x, y), o) is None
        assert serve_into((x, other), o) is None
        assert serve_into((x, y), other) is None
        assert serve_into((x, y), None) is None
        assert serve_into((x, y), [o, o]) is None
    assert (serve((x, y), None) == 2).all()
    assert serve_into((x, y), [o]) is o
    assert (o == 2).all()


def test_modes_of_gradients(torch: Any) -> None:
    """Where none are recorded, tensors that require them are served, and no others elsewhere."""
    x, y, needs = torch.ones(2, 3), torch.full((2, 3), 2.0), torch.ones(2, 3, requires_grad=True)
    function = tc.compile(ADD)
    serve = warm(function, x, y)
    with torch.inference_mode():
        inferred = torch.full((2, 3), 4.0)
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode) * 3:
        with mode():
            assert (serve((x, y), None) == 3).all()
            assert (serve((inferred, y), None) == 6).all()
            found = serve((needs, y), None)
            assert found is None if mode is torch.enable_grad else (found == 3).all()
    assert function(needs, y).requires_grad
    assert serve((needs, y), None) is None


def test_outputs_that_overlap_are_not_served_r4(torch: Any) -> None:
    memory, values = torch.arange(24.0), np.arange(24, dtype=np.float32)
    serve = warm(tc.compile(LAST), memory[:5], memory[5:10], outputs=memory[10:15])
    for at in itertools.product(range(20), repeat=3):
        memory.copy_(torch.from_numpy(values))
        x, y, o = (memory[start : start + 5] for start in at)
        found = serve((x, y), o)
        assert (found is o) == all(abs(other - at[2]) >= 5 for other in at[:2]), at
        if found is not None:
            wanted = values[at[0] : at[0] + 5] - values[at[1] : at[1] + 5]
            np.testing.assert_array_equal(o.numpy(), wanted)


def test_strides_that_inputs_may_have(torch: Any) -> None:
    """Looks are those of each input: another layout is another call."""
    base = torch.arange(60.0).reshape(6, 10)
    layouts = [
        base[:3, :4], base[::2, ::2][:3, :4], base.T[:3, :4], base[:1, :4].expand(3, 4),
        base[0, :4].expand(3, 4), base[:3, :4].contiguous(),
    ]  # fmt: skip
    function, y = tc.compile(ADD), torch.ones(3, 4)
    for x in layouts:
        serve = warm(function, x, y)
        for other in layouts:
            found = serve((other, y), None)
            assert found is not None or other is not x
            if found is not None:
                np.testing.assert_array_equal(found.numpy(), other.numpy() + 1)


def test_numbers(torch: Any) -> None:
    x, function = torch.arange(5.0), tc.compile(SCALED)
    serve = warm(function, x, 2.0, 3)
    for a, b in [(2.0, 3), (5, -1), (0.5, np.int32(7)), (np.float32(2), 0)]:
        np.testing.assert_array_equal(serve((x, a, b), None).numpy(), float(a) * x.numpy() + b)
    assert serve((x, torch.tensor(2.0), 3), None) is None
    assert serve((x, 2.0, 2**40), None) is None
    with pytest.raises(tc.InputError, match="int32 holds"):
        function(x, 2.0, 2**40)


def test_several_results_and_temporaries(torch: Any) -> None:
    x = torch.arange(6.0)
    y, z = torch.zeros(6), torch.zeros(())
    function, into = tc.compile(PARTS), tc.compile(PARTS)
    serve, serve_into = warm(function, x), warm(into, x, outputs=(y, z))
    for _ in range(3):
        x += 1
        found = serve((x,), None)
        total = x.sum()
        assert torch.equal(found.y, total * x)
        assert found.z == total * total
        assert type(found) is type(function(x))
        given = serve_into((x,), (y, z))
        assert given.y is y
        assert given.z is z
        assert torch.equal(y, found.y)
    assert serve_into((x,), (y, y[0])) is None


def test_what_a_check_finds(torch: Any) -> None:
    function = tc.compile(GATHER, check=True)
    x, at = torch.arange(5.0), torch.tensor([0, 4, 2], dtype=torch.int32)
    serve = warm(function, x, at)
    with pytest.raises(tc.AccessError, match=r"x\(at\(i\)\).*5"):
        serve((x, torch.tensor([0, 5, 2], dtype=torch.int32)), None)
    assert serve((x, at), None).tolist() == [0, 4, 2]


def test_torch_keeps_its_versions(torch: Any) -> None:
    """What was given as an output is known to have changed."""
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    serve = warm(tc.compile(ADD), x, x, outputs=y)
    product = torch.ones(2, 3, requires_grad=True) * y
    assert serve((x, x), y) is y
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_an_entry_for_what_is_called_now(torch: Any) -> None:
    """Calls whose tensors looked different leave an entry for such."""
    function, wide = tc.compile(ADD), torch.ones(2, 6)[:, ::2]
    x, into = torch.ones(2, 3), torch.zeros(2, 3)
    for given in [(x, x), (wide, x), (x, wide)]:
        for outputs in (None, into):
            assert (warm(function, *given, outputs=outputs)(given, outputs) == 2).all()


def test_many_threads(torch: Any) -> None:
    function = tc.compile(PARTS)
    warm(function, torch.arange(6.0))

    def use(number: int) -> None:
        for step in range(100):
            x = torch.arange(6.0) + number + step
            assert torch.equal(function(x).y, x.sum() * x)

    run_at_once(partial(use, n) for n in range(4))


def test_arrays_of_numpy_are_left_to_their_own_entry(torch: Any) -> None:
    x = torch.ones(2, 3)
    serve = warm(tc.compile(ADD), x, x)
    array = np.ones((2, 3), np.float32)
    assert serve((array, array), None) is None
    assert serve((x, array), None) is None


def test_large_results_start_with_a_page(torch: Any) -> None:
    x = torch.arange(2.0 * LARGE_BYTES // 4).reshape(2, -1)
    function = tc.compile(
        "def two(float(N,M) X) -> (S, D) { S(i,j) = X(i,j) + 1  D(i) +=! X(i,j) }"
    )
    warm(function, x)
    for _ in range(3):
        found = function(x)
        assert found.S.data_ptr() % PAGE_BYTES == 0
        assert torch.equal(found.S, x + 1)
        assert found.D.shape == (2,)
        found.S.zero_()  # what the caller has is the caller's


def test_a_lack_of_memory_is_told(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    x = torch.ones(LARGE_BYTES)
    function = tc.compile("def two(float(N) X) -> (S) { S(i) = X(i) + 1 }")
    warm(function, x)
    with monkeypatch.context() as patch:
        patch.setattr("tc.runtime.entries.host_entry.new_output", refuse)
        with pytest.raises(tc.BackendError, match="memory"):
            function(x)
    assert torch.equal(function(x), x + 1)
