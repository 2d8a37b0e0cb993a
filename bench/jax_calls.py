"""Times what calls cost inside of JAX: `python -m bench.jax_calls`.

Products of matrices of 8 x 8 float32, whose arithmetic takes a fraction of a microsecond; the same
of `jax.numpy` beside it. Each is called in turns with the others, `--calls` at a time; the least of
`--rounds` is what a call costs, and the median says how busy the machine was.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.timing import machine, once

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
SIZE = 8


def calls(jax: Any) -> dict[str, Callable[[], Any]]:
    """What is timed, by what it is."""
    import numpy as np

    import tc

    jnp = jax.numpy
    numbers = np.random.default_rng(0)
    a, b = (jnp.asarray(numbers.random((SIZE, SIZE)), jnp.float32) for _ in range(2))
    many = jnp.stack([a] * SIZE)
    mm = tc.compile(MM)
    pairs = {"tc": mm, "jax.numpy": jnp.matmul}
    found: dict[str, Callable[[], Any]] = {"eager, tc": lambda: mm(a, b)}
    for name, function in pairs.items():
        compiled = jax.jit(function)
        batched = jax.jit(jax.vmap(function, (0, None)))
        gradient = jax.jit(jax.grad(lambda a, b, f=function: f(a, b).sum(), (0, 1)))
        found |= {
            f"jit, {name}": lambda f=compiled: f(a, b),
            f"jit of vmap, {name}": lambda f=batched: f(many, b),
            f"jit of grad, {name}": lambda f=gradient: f(a, b),
        }
    return found


def microseconds(run: Callable[[], Any], calls: int) -> float:
    """The mean time of one call, in microseconds, over `calls` calls."""

    def all_of_them() -> None:
        result = None
        for _ in range(calls):
            result = run()
        for array in result if isinstance(result, tuple) else (result,):
            array.block_until_ready()

    return once(all_of_them) / calls * 1e6


def times(found: dict[str, Callable[[], Any]], calls: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds for a call, of each round, in turns."""
    for run in found.values():
        microseconds(run, 3)
    taken: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, run in found.items():
            taken[name].append(microseconds(run, calls))
    return taken


def main() -> None:
    import jax

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    print(f"{machine()}, jax {jax.__version__}; us a call: least, median")
    for name, taken in times(calls(jax), options.calls, options.rounds).items():
        print(f"{name:24}{min(taken):8.2f}{median(taken):8.2f}")


if __name__ == "__main__":
    main()
