"""Vector kernels by hand, and how any backend's results are held against `evaluate`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tc.backends.base import Backend
from tc.dtypes import BOOL, INT64, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Broadcast, Compare, Const, Expr, Kernel, Load, Ramp, Store
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import Array, address, input_like, load


def ramp(base: Expr | int, step: int, lanes: int) -> Ramp:
    start = integer(base) if isinstance(base, int) else base
    return Ramp(start, step, INT64.vector(lanes))


def block(lanes: int) -> Ramp:
    """The indices of the lanes that iteration i of a loop works on."""
    return ramp(Binary("*", I, integer(lanes), INT64), 1, lanes)


def taken(name: str, dtype: DType, lanes: int) -> Load:
    """The elements of a buffer of rank 1 that iteration i works on."""
    return Load(name, (block(lanes),), dtype.vector(lanes))


def splat(value: float | bool, dtype: DType, lanes: int) -> Const:
    return Const(value, dtype.vector(lanes))


def first(count: Expr | int, lanes: int) -> Compare:
    """A mask of the first lanes."""
    end = Broadcast(integer(count) if isinstance(count, int) else count, INT64.vector(lanes))
    return Compare("<", ramp(0, 1, lanes), end, BOOL.vector(lanes))


def lanewise(exprs: Sequence[Expr], inputs: Mapping[str, Array], lanes: int) -> Kernel:
    """o0, o1, ... of what vectors or scalars are at each block of the inputs, in one loop."""
    blocks = len(next(iter(inputs.values()))) // lanes
    outputs, stores = [], []
    for number, expr in enumerate(exprs):
        width = expr.dtype.lanes
        index: Expr = I if width == 1 else block(width)
        outputs.append(dense(f"o{number}", expr.dtype.scalar, (blocks * width,), "output"))
        stores.append(Store(f"o{number}", (index,), expr))
    buffers = (*(input_like(n, a) for n, a in inputs.items()), *outputs)
    return Kernel("k", buffers, ((loop("i", blocks, *stores, parallel=True),),))


def arguments(kernel: Kernel, given: Mapping[str, Array]) -> dict[str, Array]:
    """Copies of the given arrays, and ones for the others."""
    return {
        b.name: given[b.name].copy("K")
        if b.name in given and b.role != "input"
        else given.get(b.name, np.ones(b.shape, b.dtype.numpy))
        for b in kernel.arguments
    }


def run(backend: Backend, kernel: Kernel, given: Mapping[str, Array]) -> dict[str, Array]:
    """Runs a kernel, which must not fail, and returns the arguments."""
    arrays = arguments(kernel, given)
    assert load(backend, kernel).run([address(array) for array in arrays.values()]) is None
    return arrays


def check(
    backend: Backend, kernel: Kernel, given: Mapping[str, Array], *, ulps: int = 0
) -> dict[str, Array]:
    """Runs a kernel and returns the arguments. The results must be equal to the results of
    `evaluate`, or floats within `ulps` units in the last place."""
    found, expected = run(backend, kernel, given), arguments(kernel, given)
    assert evaluate(kernel, expected) is None
    for buffer in kernel.arguments:
        _same(found[buffer.name], expected[buffer.name], buffer.name, ulps)
    return found


def _same(found: Array, expected: Array, name: str, ulps: int) -> None:
    if not ulps:
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite], err_msg=name)
    distance = np.abs(found[finite] - expected[finite])
    assert (distance <= ulps * np.spacing(np.abs(expected[finite]))).all(), name
