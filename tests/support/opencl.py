"""Kernels in OpenCL C, run by PoCL in a process of its own: a wrong text may end it.

`OpenCLBackend` is a backend for tests alone.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tc.backends.base import KernelText
from tc.backends.clike.opencl import OPENCL
from tc.backends.clike.printer import functions_of, print_kernel, workspace_of
from tc.backends.printing import values_of_fails
from tc.kernel.ir import Buffer, Failure, Kernel

PACKAGES = ("pyopencl", "pocl_binary_distribution")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
REASON = f"PoCL is not installed: pip install {' '.join(MISSING)}".replace("_", "-")
ROOT = Path(__file__).parents[2]
FLAGS = ["-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt"]
ALIGNED = 128
"""Bytes to which parts of OpenCL's buffers must be aligned."""
LIMIT = 300.0
"""Seconds after which a job hangs."""


@dataclass(frozen=True, slots=True)
class OpenCLBackend:
    """Implements `Backend`."""

    name: str = "opencl"
    checks_by_default: bool = True

    def usable(self) -> str | None:
        return REASON if MISSING else None

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:  # noqa: ARG002
        return KernelText(kernel, self.name, print_kernel(kernel, OPENCL))

    def load(self, text: KernelText) -> OpenCLKernel:
        return OpenCLKernel(text.kernel, text.source)


@dataclass(frozen=True, eq=False)
class OpenCLKernel:
    """Implements `CompiledKernel`; `threads` is the number of work items, 1 for None. Memory of the
    arrays, as far as it lies between elements, is copied to the process and back."""

    kernel: Kernel
    source: str

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        kernel, items = self.kernel, threads or 1
        spans = [
            _Span(b, a)
            for b, a in zip(kernel.arguments, addresses, strict=False)
            if 0 not in b.shape
        ]
        counts = values_of_fails(*kernel.regions)
        functions = [
            (f.name, [b.name for b in f.arguments], f.fails, f.scratch)
            for f in functions_of(kernel, OPENCL)
        ]
        words, space = 1 + max(counts.values(), default=0), items * workspace_of(kernel).size
        memory = {s.buffer.name: (s.memory, s.origin) for s in spans}
        found, status = POCL.run((self.source, functions, memory, items, words, space))
        for span in spans:
            if span.buffer.role != "input":
                span.write(found[span.buffer.name])
        if not status[0]:
            return None
        site = status[0] - 1
        return Failure(site, tuple(status[1 : 1 + counts[site]]))


class _Span:
    """The memory of a buffer from its lowest to its highest element; `origin` is the byte of
    element (0, ..., 0) in it."""

    def __init__(self, buffer: Buffer, address: int) -> None:
        reach = [(n - 1) * s for n, s in zip(buffer.shape, buffer.strides, strict=True)]
        size = buffer.dtype.bytes
        low = sum(r for r in reach if r < 0) * size
        high = sum(r for r in reach if r > 0) * size + size
        self.buffer, self.origin, self._start = buffer, -low, address + low
        self.memory = ctypes.string_at(self._start, high - low)

    def write(self, memory: bytes) -> None:
        ctypes.memmove(self._start, memory, len(memory))


class Pocl:
    """The process that runs jobs, started with the first and anew after one that ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None

    def run(self, job: tuple[Any, ...]) -> tuple[dict[str, bytes], list[int]]:
        """The memory after a job, and its status; AssertionError if it goes wrong."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError):
            status = self.end()
            self._log.seek(0)
            answer = f"the process ended with status {status}:\n{self._log.read()[-4000:]!r}"
        finally:
            timer.cancel()
            timer.join()
        assert not isinstance(answer, str), f"{answer}\n{job[0]}"
        memory, status = answer
        return memory, status

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder = tempfile.TemporaryDirectory(prefix="tc-pocl-")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {"POCL_CACHE_DIR": self._folder.name, "PYOPENCL_NO_CACHE": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.support.opencl import serve; serve()"],
            cwd=ROOT,
            env={**os.environ, **environment, "POCL_MAX_PTHREAD_COUNT": "2"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        return self._process

    def end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.kill()
        self._folder.cleanup()
        return process.wait()


POCL = Pocl()
atexit.register(POCL.end)


# --- in the process ---------------------------------------------------------------------------


def serve() -> None:
    """Runs the jobs of standard input; what libraries print goes to standard error."""
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        import pyopencl as cl  # type: ignore[import-not-found,unused-ignore]

        platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
        context = cl.Context(platform.get_devices()[:1])
        while True:
            try:
                job = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                answer: object = _run(cl, context, *job)
            except Exception:
                answer = traceback.format_exc()
            pickle.dump(answer, answers)
            answers.flush()


def _run(
    cl: Any,
    context: Any,
    source: str,
    functions: Sequence[tuple[str, list[str], bool, bool]],
    memory: dict[str, tuple[bytes, int]],
    items: int,
    words: int,
    space: int,
) -> tuple[dict[str, bytes], list[int]]:
    flags, queue, device = cl.mem_flags.READ_WRITE, cl.CommandQueue(context), {}
    program = cl.Program(context, source).build(FLAGS)

    def on_device(given: Any) -> Any:
        return cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=given)

    whole = {}
    for name, (content, origin) in memory.items():
        padding = -origin % ALIGNED
        whole[name] = on_device(bytes(padding) + content + bytes(ALIGNED)), padding
        start = padding + origin
        device[name] = whole[name][0].get_sub_region(start, len(content) - origin + 1)
    status = np.zeros(words, np.int64)
    state, nothing = on_device(status), on_device(bytes(8))
    workspace = on_device(b"\xab" * max(1, space))
    for name, arguments, fails, scratch in functions:
        given = [device.get(argument, nothing) for argument in arguments]
        given += [state] * fails + [workspace] * scratch
        cl.Kernel(program, name)(queue, (items,), (1,), *given)
    found = {name: bytearray(len(content)) for name, (content, _) in memory.items()}
    for name, content in found.items():
        buffer, padding = whole[name]
        cl.enqueue_copy(queue, content, buffer, src_offset=padding)
    cl.enqueue_copy(queue, status, state)
    queue.finish()
    return {name: bytes(content) for name, content in found.items()}, status.tolist()
