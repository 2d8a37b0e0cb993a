"""Functions whose gradient was taken go when nobody holds them."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc

SQUARE = "def square_{n}(float(N) x) -> (y) {{ y(i) = {n} * x(i) * x(i) }}"


def is_freed(use: Callable[[tc.Compiled], Any]) -> bool:
    """Whether functions that have been used are gone afterwards."""

    def used(n: int) -> weakref.ref[tc.Compiled]:
        function = tc.compile(SQUARE.format(n=n), backend="interpret")
        use(function)
        return weakref.ref(function)

    references = [used(n) for n in range(1, 4)]
    for _ in range(5):  # what torch holds in C++ goes with a later one
        gc.collect()
        if all(reference() is None for reference in references):
            return True
    return False


def test_functions_are_freed() -> None:
    """0.12"""
    assert is_freed(lambda function: function(np.ones(3, np.float32)))


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")  # of what torch itself uses
@pytest.mark.parametrize("way", ["backward", "grad", "jvp", "vmap", "hessian", "nodes"])
def test_functions_with_gradients_in_torch_are_freed(way: str) -> None:
    """0.12"""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(3)
    ways: dict[str, Callable[[tc.Compiled], Any]] = {
        "backward": lambda f: f(torch.ones(3, requires_grad=True)).sum().backward(),
        "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(x),
        "jvp": lambda f: torch.func.jvp(f, (x,), (x,)),
        "vmap": lambda f: torch.vmap(f)(torch.ones(2, 3)),
        "hessian": lambda f: torch.func.hessian(lambda x: f(x).sum())(x),
        "nodes": lambda f: f(torch.ones(3, requires_grad=True)).grad_fn,
    }
    assert is_freed(ways[way])


def test_values_made_once_are_freed_and_renewed() -> None:
    """0.12"""
    from tc.process import uninterrupted

    once = uninterrupted.Lazy(lambda: 7)
    value, lock, reference = once(), once._lock, weakref.ref(once)
    uninterrupted._renew_all()  # as forks do
    is_renewed = once._lock is not lock
    del once
    end = time.monotonic() + 10
    while reference() is not None and time.monotonic() < end:  # until the thread that made it ends
        time.sleep(0.01)
    assert (value, is_renewed, reference()) == (7, True, None)
