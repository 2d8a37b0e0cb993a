"""Numba's threads, where they can be used safely: one launcher runs the parts of any region.

numba has one threading layer per process, chosen at the first parallel run: TBB, OpenMP or its
own workqueue. Two of them end the process when used in ways that Python allows: the workqueue by
several threads at once, GNU OpenMP in a forked child. `launch` then declines, with a warning, and
the caller runs the region serially.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import njit, prange, types
from numba.core.errors import NumbaWarning
from numba.extending import intrinsic

from tc.errors import TCWarning

_INT64 = types.int64
_WORD = ir.IntType(64)
_TBB_FILES = ("lib/libtbb.so.12", "Library/bin/tbb12.dll")


@dataclass
class Launcher:
    """What is known of numba's threads in this process; `LAUNCHER` is the only one.

    `starter` is the thread that started them, None where that was not tc. `unsafe` says why this
    process has to do without.
    """

    kernel: Any = None
    layer: str | None = None
    starter: int | None = None
    unsafe: str | None = None
    running: list[int] = field(default_factory=list)
    starting: threading.Lock = field(default_factory=threading.Lock)
    workqueue: threading.Lock = field(default_factory=threading.Lock)

    def launch(self, region: int, arguments: int, failures: int, width: int, parts: int) -> bool:
        """Runs all parts of the region at address `region`, part p with its record of a failure
        at `failures` + p * `width`; False where that would not be safe: then nothing has run, and
        a warning says why."""
        if self.kernel is None and self.unsafe is None:
            self._start()
        if self.unsafe is not None:
            _warn_serial(self.unsafe)
            return False
        alone = self.layer == "workqueue"
        if alone and not self.workqueue.acquire(blocking=False):
            _warn_serial("numba's workqueue serves one Python thread at a time; install tbb")
            return False
        self.running.append(region)
        try:
            self.kernel(region, arguments, failures, width, parts)
        finally:
            self.running.pop()
            if alone:
                self.workqueue.release()
        return True

    def _start(self) -> None:
        """Chooses and starts numba's threads, unless that has been done, and compiles."""
        with self.starting:
            if self.kernel is not None or self.unsafe is not None:
                return
            started = _layer() is not None
            if not started:
                _preload_tbb()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NumbaWarning)
                    numba.get_num_threads()
                    kernel = _compile_launcher()
            except ValueError as error:  # no layer, or a wrong NUMBA_THREADING_LAYER
                self.unsafe = f"numba has no threads here ({str(error).splitlines()[0]})"
                return
            self.starter = None if started else threading.get_ident()
            self.layer = _layer()
            self.kernel = kernel

    def after_fork_in_child(self) -> None:
        """TBB stops its threads before a fork by the thread that started them, and only if they
        rest; GNU OpenMP never does; the workqueue starts anew in the child."""
        layer = _layer()
        rest = not self.running and self.starter == threading.get_ident()
        if layer == "omp":
            self.unsafe = "GNU OpenMP cannot run in a forked child; install tbb, or spawn"
        elif layer == "tbb" and not rest:
            self.unsafe = "TBB cannot run in this forked child; fork from the main thread, or spawn"
        self.running = []
        self.starting = threading.Lock()
        self.workqueue = threading.Lock()


def _warn_serial(reason: str) -> None:
    warnings.warn(TCWarning(f"this call runs serially: {reason}"), stacklevel=4)


def _layer() -> str | None:
    try:
        return str(numba.threading_layer())
    except ValueError:  # not started
        return None


def _preload_tbb() -> None:
    """Loads the library of the tbb wheel, which lies where no loader looks for it."""
    for name in _TBB_FILES:
        path = Path(sys.prefix, name)
        if path.exists():
            try:
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError:  # another platform's: numba then takes another layer
                continue


@intrinsic
def _call(_context: Any, *args: Any) -> Any:
    """Calls the region at an address with four integers."""

    def codegen(context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[0], i) for i in range(len(args))]
        kind = ir.FunctionType(ir.VoidType(), [_WORD] * 4)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(types.UniTuple(_INT64, len(args))), codegen


def _launch(region, arguments, failures, width, parts):  # type: ignore[no-untyped-def]
    for part in prange(parts):
        number = _INT64(part)
        _call(region, arguments, failures + number * width, number, parts)


def _compile_launcher() -> Any:
    signature = types.void(_INT64, _INT64, _INT64, _INT64, _INT64)
    return njit(signature, parallel=True, nogil=True, error_model="numpy")(_launch)


LAUNCHER = Launcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LAUNCHER.after_fork_in_child)
