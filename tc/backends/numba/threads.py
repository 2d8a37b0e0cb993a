"""Threads for the parts of a region: those of our `thread_pool`, elsewhere numba's.

numba has one threading layer per process, chosen at the first parallel run: TBB, OpenMP or its
own workqueue. Two of them end the process when used in ways that Python allows: the workqueue by
several threads at once, GNU OpenMP in a forked child. `launch` then declines, with a warning, and
the caller runs the region serially.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.errors import NumbaWarning

from tc.process.call_sites import warn
from tc.process.forks import renew_in_child, step
from tc.process.uninterrupted import uninterrupted
from tc.runtime.object_files import new_engine, parse_module
from tc.runtime.thread_pool import ThreadPool, new_pool

_LAYERS_FUNCTIONS = ("numba_parallel_for", "get_num_threads")
_WORD = ir.IntType(64)
_INT = ir.IntType(32)
_COUNT = ir.FunctionType(_INT, [])
_PARALLEL_FOR = ir.FunctionType(ir.VoidType(), [_WORD] * 7 + [_INT])
_LAUNCH = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)
_TBB_FILES = ("lib/libtbb.so.12", "Library/bin/tbb12.dll")


@dataclass
class Launcher:
    """What is known of the threads in this process; `LAUNCHER` is the only one.

    With a `pool`, kernels use that, and not the rest, which is about numba's threads. `starter` is
    the thread that started them, None where that was not tc. `unsafe` says why this process has to
    do without.
    """

    pool: ThreadPool | None = field(default_factory=new_pool)
    kernel: Any = None
    owner: Any = None
    layer: str | None = None
    starter: int | None = None
    unsafe: str | None = None
    running: list[int] = field(default_factory=list)
    starting: Any = field(default_factory=threading.RLock)
    workqueue: threading.Lock = field(default_factory=threading.Lock)

    def launch(
        self,
        region: int,
        arguments: int,
        failures: int,
        width: int,
        parts: int,
    ) -> bool:
        """Runs all parts of the region at address `region`, part p with its record of a failure
        at `failures` + p * `width`, on numba's threads. False where nothing has run: they would
        not be safe, and a warning says why.
        """
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
                    kernel, owner = uninterrupted(_compile_launcher)
            except ValueError as error:  # no layer, or a wrong NUMBA_THREADING_LAYER
                self.unsafe = f"numba has no threads here ({str(error).splitlines()[0]})"
                return
            self.starter = None if started else threading.get_ident()
            self.layer = _layer()
            self.owner = owner
            self.kernel = kernel

    def after_fork_in_child(self) -> None:
        """TBB stops its threads before a fork by the thread that started them, and only if they
        rest; GNU OpenMP never does; the workqueue and the pool start anew in the child."""
        if self.pool is not None:
            self.pool.after_fork_in_child()
        layer = _layer()
        rest = not self.running and self.starter == threading.get_ident()
        if layer == "omp":
            self.unsafe = "GNU OpenMP cannot run in a forked child; install tbb, or spawn"
        elif layer == "tbb" and not rest:
            self.unsafe = "TBB cannot run in this forked child; fork from the main thread, or spawn"
        self.running = []
        self.starting = threading.RLock()
        self.workqueue = threading.Lock()


def _warn_serial(reason: str) -> None:
    warn(f"this call runs serially: {reason}")


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


def _compile_launcher() -> tuple[Any, Any]:
    """The C function `launch(region, arguments, failures, width, parts)`, and what keeps it.

    It is written here in LLVM's language, which takes a hundredth of the time of a `prange`: a
    `_part_function` that runs the parts in a range, and its call by the layer.
    """
    with step():
        return _compile_in_step()


def _compile_in_step() -> tuple[Any, Any]:
    module = ir.Module("tc launcher")
    part_function = _part_function(module)
    parallel_for, get_num_threads = (_layers_function(name) for name in _LAYERS_FUNCTIONS)
    launch = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD] * 5), "launch")
    builder = ir.IRBuilder(launch.append_basic_block())
    parts = launch.args[-1]
    most = builder.call(builder.inttoptr(get_num_threads, _COUNT.as_pointer()), [])
    some = builder.trunc(parts, _INT)
    threads = builder.select(builder.icmp_signed("<", some, most), some, most)
    # one array of one dimension, which starts at address 0 and has elements of one byte: the
    # address of an element is its number
    first, extent, step = ([word] for word in (_WORD(0), parts, _WORD(1)))
    pointers = [_in_memory(builder, words) for words in (first, extent, step, launch.args)]
    function = builder.ptrtoint(part_function, _WORD)
    arguments = [function, *pointers, _WORD(0), _WORD(1), threads]
    builder.call(builder.inttoptr(parallel_for, _PARALLEL_FOR.as_pointer()), arguments)
    builder.ret_void()
    engine = new_engine(parse_module(str(module)))
    engine.finalize_object()
    return _LAUNCH(engine.get_function_address("launch")), engine


def _part_function(module: ir.Module) -> ir.Function:
    """`(numbers, extent, step, launched)`: runs the `extent[0]` parts from number `numbers[0]`."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_WORD] * 4), "part")
    function.linkage = "internal"
    start = function.append_basic_block()
    loop, end = function.append_basic_block(), function.append_basic_block()
    builder = ir.IRBuilder(start)
    numbers, extent, _, launched = function.args
    begin, count = (_word_at(builder, address, 0) for address in (numbers, extent))
    last = builder.add(begin, count)
    region, arguments, failures, width, parts = (_word_at(builder, launched, i) for i in range(5))
    builder.cbranch(builder.icmp_signed("<", begin, last), loop, end)
    builder.position_at_end(loop)
    number = builder.phi(_WORD)
    number.add_incoming(begin, start)
    record = builder.add(failures, builder.mul(number, width))
    kind = ir.FunctionType(ir.VoidType(), [_WORD] * 4)
    builder.call(builder.inttoptr(region, kind.as_pointer()), [arguments, record, number, parts])
    following = builder.add(number, _WORD(1))
    number.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, last), loop, end)
    ir.IRBuilder(end).ret_void()
    return function


def _layers_function(name: str) -> ir.Constant:
    """The address of a function that numba's layer has given to LLVM under this name."""
    address = llvm.address_of_symbol(name)
    if address is None:
        raise ValueError(f"numba {numba.__version__} has no function {name}")
    return _WORD(address)


def _in_memory(builder: ir.IRBuilder, words: Sequence[Any]) -> Any:
    """The address of words on the stack."""
    place = builder.alloca(_WORD, len(words))
    for i, word in enumerate(words):
        builder.store(word, builder.gep(place, [_WORD(i)]))
    return builder.ptrtoint(place, _WORD)


def _word_at(builder: ir.IRBuilder, address: Any, index: int) -> Any:
    place = builder.inttoptr(address, _WORD.as_pointer())
    return builder.load(builder.gep(place, [_WORD(index)]))


LAUNCHER = Launcher()
renew_in_child(LAUNCHER.after_fork_in_child)
