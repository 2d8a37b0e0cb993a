"""A backend that runs kernels by `tc.kernel.evaluate`, and counts the kernels that it compiles."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import tc
from tc.backends.base import KernelText
from tc.device import Device, host
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Buffer, Failure, Kernel

NEEDS_C = pytest.param(
    "c", marks=pytest.mark.skipif("c" not in tc.backends(), reason="there is no C compiler")
)


@dataclass(frozen=True)
class EvaluatedKernel:
    kernel: Kernel
    source: str = "evaluated"

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        EvaluateBackend.threads_seen.append(threads)
        arrays = {
            buffer.name: array_at(buffer, address)
            for buffer, address in zip(self.kernel.buffers, addresses, strict=True)
        }
        return evaluate(self.kernel, arrays)


class EvaluateBackend:
    name = "evaluate"
    checks_by_default = True
    loaded: ClassVar[list[Kernel]] = []
    threads_seen: ClassVar[list[int | None]] = []

    def usable(self) -> str | None:
        return None

    def device(self) -> Device:
        return host()

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:
        return KernelText(kernel, self.name, f"evaluated with {options}")

    def load(self, text: KernelText) -> EvaluatedKernel:
        self.loaded.append(text.kernel)
        return EvaluatedKernel(text.kernel, text.source)


def array_at(buffer: Buffer, address: int) -> Any:
    """The array of a buffer, from nothing but what a backend is told."""
    dtype = buffer.dtype.numpy
    if 0 in buffer.shape:
        return np.empty(buffer.shape, dtype)
    ends = [(n - 1) * s for n, s in zip(buffer.shape, buffer.strides, strict=True)]
    low, high = sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)
    size = dtype.itemsize
    raw = (ctypes.c_uint8 * ((high - low + 1) * size)).from_address(address + low * size)
    strides = [s * size for s in buffer.strides]
    return np.ndarray(buffer.shape, dtype, raw, -low * size, strides)
