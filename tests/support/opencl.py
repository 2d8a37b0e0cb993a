"""Tests that PoCL runs, in a process of its own: a wrong kernel may end it."""

from __future__ import annotations

import array
import atexit
import ctypes
import functools
import importlib
import importlib.util
import io
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.backends.geometry import LaunchText
from tc.backends.opencl import OpenCLBackend
from tc.backends.opencl_device import opencl_device
from tc.device import host
from tc.kernel.ir import Comment, Grid, Kernel, Stmt
from tests.support.programs import CASES, Case

PACKAGES = ("pyopencl", "pocl_binary_distribution")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
REASON = f"PoCL is not installed: pip install {' '.join(MISSING)}".replace("_", "-")
GIVES_UP = "Could not find a dominating alternative variable"
"""What the compiler of PoCL 3 says when it ends the process: it has no code for some loops with
several barriers, whose threads it does not repeat one by one (spec/environment.md)."""

needs_pocl = pytest.mark.skipif(bool(MISSING), reason=REASON)
ROOT = Path(__file__).parents[2]
LIMIT = 600.0
"""Seconds after which a test hangs."""

Test = Callable[..., None]


def on_pocl(test: Test) -> Any:
    """A test that runs in the process of PoCL. It takes parameters, and no fixtures."""

    @functools.wraps(test)
    def elsewhere(**given: Any) -> None:
        POCL.run(test.__module__, test.__qualname__, given)

    return needs_pocl(elsewhere)


# --- kernels of one thread ----------------------------------------------------------------------


def one_thread(kernel: Kernel) -> Kernel:
    """The kernel with a launch of one thread for each region."""
    return replace(kernel, regions=tuple(map(_launched, kernel.regions)))


def _launched(region: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return region if all(isinstance(s, Comment) for s in region) else (Grid((), (), region),)


@dataclass(frozen=True, slots=True)
class OneThreadBackend(OpenCLBackend):
    """A backend that gives each region of a kernel to one thread."""

    def emit(
        self, kernel: Kernel, options: object | None = None, gpu: tc.Gpu | None = None
    ) -> LaunchText:
        return OpenCLBackend.emit(self, one_thread(kernel), options, gpu)


# --- the process ------------------------------------------------------------------------------


class Pocl:
    """The process that runs tests, started with the first test and anew after a test that ends
    it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None

    def run(self, *job: Any) -> None:
        """Runs a test of a module, by name, with parameters. AssertionError if the test fails; the
        caller is skipped if the test is."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        try:
            process.stdin.write(written(job))
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError):
            status = self.end()
            self._log.seek(0)
            log = self._log.read()[-4000:].decode(errors="replace")
            answer = f"the process ended with status {status}:\n{log}"
        finally:
            timer.cancel()
            timer.join()
        if isinstance(answer, Skip):
            pytest.skip(answer.reason)
        assert answer is None, answer

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder = tempfile.TemporaryDirectory(prefix="tc-pocl-")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {"POCL_CACHE_DIR": self._folder.name, "POCL_MAX_PTHREAD_COUNT": "2"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.support.opencl import serve; serve()"],
            cwd=ROOT,
            env={**os.environ, **environment},
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


@dataclass(frozen=True, slots=True)
class Skip:
    """What the process answers where a test skips itself."""

    reason: str


class _Writer(pickle.Pickler):
    """Programs of the table are passed by name, as their formulas cannot be written."""

    def persistent_id(self, value: object) -> str | None:
        return value.name if isinstance(value, Case) else None


class _Reader(pickle.Unpickler):
    def persistent_load(self, name: str) -> Case:
        return next(case for case in CASES if case.name == name)


def written(job: object) -> bytes:
    file = io.BytesIO()
    _Writer(file).dump(job)
    return file.getvalue()


def name_the_processor() -> None:
    """Names a processor that PoCL's compiler knows, if PoCL is older than the processor of the
    machine: PoCL then says "generic", and on x86-64 its compiler knows no processor of this name
    either."""
    device = opencl_device().device
    if device.platform.name != _POCL or platform.machine() != "x86_64":
        return
    start: int = device.int_ptr
    with open("/proc/self/mem", "r+b", buffering=0) as memory:

        def read(place: int, count: int) -> bytes:
            try:
                memory.seek(place)
                return memory.read(count)
            except (OSError, ValueError, OverflowError):
                return b""

        words = array.array("Q", read(start, _DEVICE_BYTES))
        for number, word in enumerate(words):
            if read(word, len(_UNKNOWN)) == _UNKNOWN:
                memory.seek(start + number * words.itemsize)
                memory.write(ctypes.addressof(_LIKE_IT).to_bytes(8, "little"))


_POCL = "Portable Computing Language"
_DEVICE_BYTES = 2048
"""What is looked through of PoCL's description of a device."""
_UNKNOWN = b"generic\0"
_LIKE_IT = ctypes.create_string_buffer(b"x86-64-v4" if host().vector_bits == 512 else b"x86-64-v3")


def serve() -> None:
    """Runs the tests that standard input names; what libraries print goes to standard error."""
    name_the_processor()
    tc.cache.disable()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", tc.TCWarning)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        while True:
            try:
                module, name, given = _Reader(sys.stdin.buffer).load()
            except EOFError:
                return
            try:
                test: Any = getattr(importlib.import_module(module), name)
                test.__wrapped__(**given)
                answer: object = None
            except pytest.skip.Exception as skipped:
                answer = Skip(str(skipped))
            except BaseException:
                answer = traceback.format_exc()
            pickle.dump(answer, answers)
            answers.flush()
