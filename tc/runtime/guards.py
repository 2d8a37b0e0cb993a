"""The guard of a specialisation: the test that the arrays of a call fit compiled code.

A `CallGuard` says what the arrays of a call have to be. A `GuardFrame` is the memory of one call at
a time, and tests and runs a call in plain Python: `GuardFrame` defines what `guards_llvm` does in
machine code, and is used where machine code cannot be.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tc.dtypes import Array
from tc.kernel.ir import Failure
from tc.runtime.arrays import address
from tc.runtime.loaded import PERFORM, Direct

Shape: TypeAlias = tuple[int, ...]

Server: TypeAlias = Callable[[tuple[Any, ...], Any], Any]
"""Takes the inputs of a call, and its outputs as they were passed; gives the results, or None where
the arrays do not fit, or memory is short: then nothing has run."""

OTHER, ADMITTED, DONE, FAILED = range(4)
"""What a call returns: the arrays do not fit, or the kernel may not be run now, and nothing has
run; they fit, and nothing is there to run; the kernel has run; it has recorded a failed check."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """What one array has to be: numpy's own, and aligned. The spec of an output has no `strides`:
    outputs are row-major and writable. An array has `below` bytes before its address, and `above`
    behind it."""

    dtype: np.dtype[Any]
    shape: Shape
    strides: Shape | None
    below: int
    above: int


@dataclass(frozen=True, slots=True)
class CallGuard:
    """What the arrays of a call have to be: `inputs` is the number of inputs, which come first. No
    output may overlap another array."""

    inputs: int
    specs: tuple[ArraySpec, ...]
    dtypes: tuple[np.dtype[Any], ...]

    def admits(self, arrays: Sequence[Any], addresses: Any) -> bool:
        """Whether arrays, as many as there are specs, fit. If so, `addresses` holds the addresses
        of the arrays; if not, `addresses` may be changed all the same."""
        for place, (array, spec) in enumerate(zip(arrays, self.specs, strict=True)):
            if not _fits(array, spec):
                return False
            addresses[place] = start = address(array)
            low, high = start - spec.below, start + spec.above
            for other in range(place) if spec.strides is None else ():
                its = self.specs[other]
                if addresses[other] - its.below < high and low < addresses[other] + its.above:
                    return False
        return True


def _fits(array: Any, spec: ArraySpec) -> bool:
    if type(array) is not np.ndarray or array.dtype is not spec.dtype:
        return False
    flags = array.flags
    if spec.strides is None:
        ordered = flags.c_contiguous and flags.writeable
    else:
        ordered = array.strides == spec.strides
    return ordered and flags.aligned and array.shape == spec.shape


class GuardFrame:
    """The addresses of all buffers of one call, of which the last are those of the `temporaries`;
    they stand where `direct` wants them. Calls are served in Python."""

    __slots__ = ("addresses", "direct", "guard", "temporaries")

    def __init__(
        self, guard: CallGuard, buffers: int, temporaries: list[Array], direct: Direct | None
    ) -> None:
        self.guard = guard
        self.temporaries = temporaries
        self.direct = direct
        kind = ctypes.c_int64 * buffers
        self.addresses: Any = kind.from_address(direct.addresses) if direct else kind()
        self.addresses[buffers - len(temporaries) :] = [address(array) for array in temporaries]

    def serve(self, *arrays: Any) -> int:
        """Tests the arrays and, where they fit, runs what there is to run: a number from above."""
        if len(arrays) != len(self.guard.specs) or not self._is_ready():
            return OTHER
        return self._perform() if self.guard.admits(arrays, self.addresses) else OTHER

    def server(
        self,
        makers: Sequence[Callable[[], Array]],  # noqa: ARG002
        result: Callable[[tuple[Array, ...]], Any] | None,  # noqa: ARG002
        fail: Callable[[Failure | None], None],  # noqa: ARG002
        otherwise: Server,
    ) -> Server:
        """What serves the calls that `otherwise` does, by this frame alone where that takes less
        time. `makers` make the outputs, `result` the result of several; `fail` raises for what a
        check has recorded."""
        return otherwise

    def run(self, *addresses: int) -> int:
        """Runs what there is to run with arrays at these addresses, which have been tested; returns
        as `serve`."""
        if len(addresses) != len(self.guard.specs) or not self._is_ready():
            return OTHER
        self.addresses[: len(addresses)] = addresses
        return self._perform()

    def _is_ready(self) -> bool:
        ready = self.direct.ready if self.direct else 0
        return not ready or bool(ctypes.c_int64.from_address(ready).value)

    def _perform(self) -> int:
        direct = self.direct
        if not direct:
            return ADMITTED
        return FAILED if PERFORM(direct.function)(*direct.arguments) else DONE


def guard_of(inputs: Sequence[Array], outputs: Sequence[tuple[Shape, np.dtype[Any]]]) -> CallGuard:
    """The guard of arrays like these."""
    specs = [
        *(_spec_of(array.dtype, array.shape, array.strides) for array in inputs),
        *(_spec_of(dtype, shape, None) for shape, dtype in outputs),
    ]
    return CallGuard(len(inputs), tuple(specs), tuple(spec.dtype for spec in specs))


def _spec_of(dtype: np.dtype[Any], shape: Shape, strides: Shape | None) -> ArraySpec:
    if 0 in shape:
        return ArraySpec(dtype, shape, strides, 0, 0)
    if strides is None:
        return ArraySpec(dtype, shape, None, 0, math.prod(shape) * dtype.itemsize)
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    above = sum(step for step in steps if step > 0) + dtype.itemsize
    return ArraySpec(dtype, shape, strides, below, above)
