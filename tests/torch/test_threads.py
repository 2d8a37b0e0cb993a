"""One function in eight threads, by all ways that a call may go at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tc
from tests.api.evaluating import NEEDS_C
from tests.support.bounds import assert_computes
from tests.support.threads import run_at_once
from tests.torch.layers import layers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

TEXT = layers(torch)[0].text
THREADS, ROUNDS = 8, 4

pytestmark = pytest.mark.filterwarnings("ignore")  # of what torch itself uses


class Plain(torch.Tensor):  # type: ignore[misc]
    """A subclass, which goes by the operator."""


def backward(f: Any, a: Any, b: Any) -> Any:
    leaf = a.clone().requires_grad_()
    f(leaf, b).square().sum().backward()
    return leaf.grad


def into(f: Any, a: Any, b: Any) -> Any:
    out = torch.empty(3, 2, dtype=torch.float64)
    return f(a, b, outputs=out) if isinstance(f, tc.Compiled) else f(a, b)


FORWARD = threading.Lock()
"""The level of forward mode is one for all threads, in torch."""


def tangents(f: Any, a: Any, b: Any) -> Any:
    with FORWARD:
        return torch.func.jvp(f, (a, b), (b.mT.repeat(2, 1)[:3], b))[1]


WAYS: list[Callable[[Any, Any, Any], Any]] = [
    lambda f, a, b: f(a, b),
    into,
    backward,
    lambda f, a, b: f(a.as_subclass(Plain), b).as_subclass(torch.Tensor),
    lambda f, a, b: torch.func.vmap(f, (0, None))(torch.stack([a, a + 1]), b),
    tangents,
    lambda f, a, b: torch.func.vmap(torch.func.grad(lambda a: f(a, b).square().sum()))(a[None]),
    lambda f, a, b: torch.func.jacrev(f, 1)(a, b),
]


@pytest.mark.parametrize("backend", ["numba", NEEDS_C, "interpret"])
def test_all_ways_at_once(backend: str) -> None:
    """Each thread begins with another way, while nothing has been compiled."""
    function = tc.compile(TEXT, backend=backend)

    def work(number: int) -> None:
        numbers = torch.Generator().manual_seed(number)
        for turn in range(ROUNDS * len(WAYS)):
            way = WAYS[(number + turn) % len(WAYS)]
            a = torch.rand(3, 4, generator=numbers, dtype=torch.float64)
            b = torch.rand(4, 2, generator=numbers, dtype=torch.float64)
            torch.testing.assert_close(way(function, a, b), way(torch.matmul, a, b))
            array = function(a.numpy(), b.numpy())
            assert_computes(TEXT, [a.numpy(), b.numpy()], array, a.numpy() @ b.numpy())

    run_at_once(partial(work, number) for number in range(THREADS))
