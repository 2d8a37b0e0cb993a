"""Texts in CUDA C++ on the machine: as a driver would run them, one launch after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tc.backends import nvrtc
from tc.backends.call_memory import FailureRecord
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import functions_of
from tc.backends.geometry import LaunchText
from tc.kernel.ir import Failure
from tests.support.ptx.machine import Launch
from tests.support.ptx.memory import Array, GlobalMemory
from tests.support.ptx.parse import parse


def ptx_of(source: str) -> str:
    return nvrtc.compiled(source, "sm_90").ptx


def run_text(
    text: LaunchText,
    given: Mapping[str, Array],
    ptx: str = "",
    run: Callable[[Launch], None] = Launch.run,
) -> tuple[Failure | None, dict[str, Array]]:
    """What a text makes of arrays, which have the shapes of the kernel's buffers and lie densely;
    other buffers hold ones at first. PtxError where it does what it may not."""
    kernel, memory = text.kernel, GlobalMemory()
    arrays = {
        b.name: np.ascontiguousarray(given.get(b.name, np.ones(b.shape, b.dtype.numpy)))
        for b in kernel.arguments
    }
    addresses = {name: memory.add(name, array) for name, array in arrays.items()}
    record = FailureRecord.of(kernel)
    status = np.zeros(record.words, np.int64)
    words = memory.add("the record of failures", status)
    functions = parse(ptx or ptx_of(str(text)))
    for function, geometry in zip(functions_of(kernel, CUDA), text.launches, strict=True):
        arguments = [addresses[buffer.name] for buffer in function.arguments]
        arguments += [words] * function.fails
        one = functions[geometry.function]
        run(Launch(one, geometry.grid, geometry.block, arguments, memory, geometry.dynamic))
    found = {name: memory.array(addresses[name], array) for name, array in arrays.items()}
    failed = memory.array(words, status).tolist()
    return record.failure(failed) if failed else None, found
