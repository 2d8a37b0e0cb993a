"""A kernel in a process of its own, which may crash, hang, print and write where it likes.

    Request --pipe--> process of the kernel --pipe--> Returned or Raised

The process is a fork of this one, so that any callable can be run as it is; where libraries have
started threads that a fork would lack, the process is a fresh one that is sent a pickled kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import itertools
import json
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from tc.dtypes import Array
from tc.process.forks import step
from tc.verification.kernel_call import (
    RETURNS,
    DeviceCopy,
    KernelCall,
    NoResult,
    argument,
    as_numpy,
    called,
)
from tc.verification.layouts import BROADCAST, PLAIN, PlacedArray, placed

_LENGTH = struct.Struct("<Q")
_PRINTED = 4000  # characters of what the process has printed, at most
FILL = 0x5B  # the bytes of memory that nobody has written
_M_PERTURB = -6  # of mallopt: what fills such memory
_START_SECONDS = 60.0  # seconds in which a fresh process imports the libraries of its kernel


@dataclass(frozen=True)
class Request:
    """Calls of a kernel with these inputs; the outputs are those that it may write to, by shape and
    type. `repeats` calls have equal inputs."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    sizes: Mapping[str, int]
    layout: str = PLAIN
    repeats: int = 1
    only: str | None = None  # the one array that has the layout; None for all
    later: Mapping[str, Array] | None = None
    """Other values, which the same arrays hold in one more call."""


@dataclass(frozen=True)
class Returned:
    """The results of the first call, those of later ones that are other bits, the inputs that the
    kernel has changed, and the arrays around which it has written."""

    results: tuple[Array | int | float | bool, ...]
    others: tuple[tuple[int, tuple[Array | int | float | bool, ...]], ...] = ()
    changed: tuple[str, ...] = ()
    written_around: tuple[str, ...] = ()
    later: tuple[Array | int | float | bool, ...] | None = None
    overwrites: int | None = None  # the result of the request before that it has written to
    seconds: float = 0.0


@dataclass(frozen=True)
class Raised:
    """The kernel raised an exception, or returned what is no result."""

    kind: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class Ended:
    """The kernel ended its process: by a signal of this name, or with a status."""

    how: str
    printed: str = ""


@dataclass(frozen=True)
class Hung:
    """No answer within these seconds."""

    seconds: float


Outcome = Returned | Raised | Ended | Hung


class KernelProcess:
    """Runs a kernel: in this process where `isolate` is False, else in another one, which starts
    when it is needed, and again after it has ended. `notes` say what is other than asked."""

    def __init__(self, kernel: Callable[..., Any], call: KernelCall, isolate: bool) -> None:
        self._kernel, self._call = kernel, call
        self._calls = KernelCalls(kernel, call)
        self._pipe: _Pipe | None = None
        self.notes: list[str] = []
        self.is_isolated = isolate
        self._is_fresh = False

    def run(self, request: Request, seconds: float) -> Outcome:
        if not self.is_isolated:
            return self._calls.answer(request)
        if self._pipe is None:
            try:
                self._pipe = self._started()
            except (OSError, AttributeError) as error:
                self.notes.append(f"there is no process of its own here: {error}")
                self.is_isolated = False
                return self.run(request, seconds)
        found = self._pipe.ask(request, seconds)
        if isinstance(found, Ended | Hung):
            self.close()
        if isinstance(found, Hung) and not self._is_fresh and threading.active_count() > 1:
            return self._of_fresh_process(request, seconds, found)
        return found

    def _of_fresh_process(self, request: Request, seconds: float, hung: Hung) -> Outcome:
        """The same in a process with threads of its own: the kernel may wait for one of this
        process."""
        self._is_fresh = True
        shipped = pickled(self._kernel)
        self._pipe = None if shipped is None else _spawned(shipped, self._call)
        if self._pipe is None:
            self.notes.append(
                "threads of this process, for which the kernel may wait: it cannot be pickled"
            )
            return hung
        return self.run(request, seconds)

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe.printed.close()
            self._pipe = None

    def _started(self) -> _Pipe:
        why = threads_that_forks_lack()
        if why or self._is_fresh:
            shipped = pickled(self._kernel)
            if shipped is not None and (pipe := _spawned(shipped, self._call)) is not None:
                self._is_fresh = True
                return pipe
            note = f"{why}, and the kernel cannot be pickled for a fresh process: it ran in a fork"
            if why and note not in self.notes:
                self.notes.append(note)
        return _forked(self._kernel, self._call)


def threads_that_forks_lack() -> str | None:
    """What in this process has threads, or a device, that would not work in a fork; None for
    nothing."""
    jax = sys.modules.get("jax._src.xla_bridge")
    if jax is not None and getattr(jax, "_backends", None):
        return "JAX has started its threads in this process"
    numba = sys.modules.get("numba.np.ufunc.parallel")
    if numba is not None and getattr(numba, "_is_initialized", False):
        return "numba has started its threads in this process"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "torch has started CUDA in this process"
    return None


def pickled(kernel: Callable[..., Any]) -> bytes | None:
    """The kernel with the functions and values that it uses; None where some cannot be pickled."""
    from numba import cloudpickle

    try:
        with step():
            found: bytes = cloudpickle.dumps(kernel)
    except Exception:
        return None
    return found


# --- both ends of the pipe ------------------------------------------------------------------------


class _Pipe:
    """The process of a kernel as who started it sees it."""

    def __init__(self, process: int, requests: int, answers: int, printed: BinaryIO) -> None:
        self._process, self.printed = process, printed
        self._requests, self._answers = requests, answers
        self._status: int | None = None

    def ask(self, request: Any, seconds: float) -> Outcome:
        end = time.monotonic() + seconds
        try:
            if not _written(self._requests, pickle.dumps(request), end):
                return Hung(seconds)
        except OSError:
            return self._ended()
        found = bytearray()
        needed = _LENGTH.size
        while len(found) < needed:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                return Hung(seconds)
            piece = os.read(self._answers, 1 << 20)
            if not piece:
                return self._ended()
            found += piece
            if needed == _LENGTH.size and len(found) >= needed:
                needed += _LENGTH.unpack_from(found)[0]
        outcome: Outcome = pickle.loads(found[_LENGTH.size :])
        return outcome

    def _ended(self) -> Ended:
        self.close()
        assert self._status is not None
        self.printed.seek(0)
        printed = _without_own_frames(self.printed.read().decode(errors="replace"))
        code = os.waitstatus_to_exitcode(self._status)
        if code >= 0:
            return Ended(f"with the status {code}", printed)
        with contextlib.suppress(ValueError):
            return Ended(signal.Signals(-code).name, printed)
        return Ended(f"signal {-code}", printed)

    def close(self) -> None:
        """Ends the process, with all that it has started."""
        if self._status is not None:
            return
        for descriptor in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        found, status = 0, 0
        end = time.monotonic() + 0.2  # what has crashed says how
        while not found and time.monotonic() < end:
            with contextlib.suppress(ChildProcessError):
                found, status = os.waitpid(self._process, os.WNOHANG)
            if not found:
                time.sleep(0.002)
        with contextlib.suppress(OSError):
            os.killpg(self._process, signal.SIGKILL)
        if not found:
            with contextlib.suppress(OSError):  # it may not be the leader of a group yet
                os.kill(self._process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                _, status = os.waitpid(self._process, 0)
        self._status = status


def _without_own_frames(printed: str) -> str:
    """What a process has printed, of its stacks only what is the kernel's."""
    own = str(Path(__file__).parent)
    lines = list(itertools.takewhile(lambda line: own not in line, printed.splitlines()))
    return "\n".join(lines)[-_PRINTED:]


def _write(descriptor: int, data: bytes) -> None:
    """Writes an answer; who asked reads it."""
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(descriptor, data) :]


def _written(descriptor: int, data: bytes, end: float) -> bool:
    """Whether all is written until a time: a process that is stopped reads nothing."""
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    os.set_blocking(descriptor, False)
    while rest:
        left = end - time.monotonic()
        if left <= 0 or not select.select([], [descriptor], [], left)[1]:
            return False
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(descriptor, rest) :]
    return True


def _read(descriptor: int) -> bytes | None:
    found = bytearray()
    needed = _LENGTH.size
    while len(found) < needed:
        piece = os.read(descriptor, needed - len(found))
        if not piece:
            return None
        found += piece
        if needed == _LENGTH.size and len(found) == needed:
            needed += _LENGTH.unpack(found)[0]
    return bytes(found[_LENGTH.size :])


def _forked(kernel: Callable[..., Any], call: KernelCall) -> _Pipe:
    printed: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # the pipe closes it
    requests, answers = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of threads that it has not started
        process = os.fork()
    if process == 0:
        try:
            for descriptor in (requests[1], answers[0]):
                os.close(descriptor)
            _begin(printed.fileno())
            serve(kernel, call, requests[0], answers[1])
        finally:
            os._exit(1)
    for descriptor in (requests[0], answers[1]):
        os.close(descriptor)
    return _Pipe(process, requests[1], answers[0], printed)


_BOOT = (
    "import sys, json; given = json.loads(sys.argv[1]); sys.path[:] = given['path']; "
    "from tc.verification.kernel_process import main; main(*given['pipes'])"
)


def _spawned(shipped: bytes, call: KernelCall) -> _Pipe | None:
    """A fresh process with a pickled kernel; None where it cannot be unpickled there."""
    printed: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # the pipe closes it
    requests, answers = os.pipe(), os.pipe()
    given = json.dumps(
        {"path": [p or str(Path.cwd()) for p in sys.path], "pipes": (requests[0], answers[1])}
    )
    with step():
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, given],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            pass_fds=(requests[0], answers[1]),
        )
    process.returncode = 0  # `_Pipe` waits for the process
    for descriptor in (requests[0], answers[1]):
        os.close(descriptor)
    pipe = _Pipe(process.pid, requests[1], answers[0], printed)
    if isinstance(pipe.ask((shipped, call), _START_SECONDS), Returned):
        return pipe
    pipe.close()
    printed.close()
    return None


def main(requests: int, answers: int) -> NoReturn:
    """What a fresh process runs."""
    _begin(None)
    first = _read(requests)
    if first is None:
        os._exit(0)
    shipped, call = pickle.loads(first)
    from numba import cloudpickle

    try:
        kernel = cloudpickle.loads(shipped)
    except Exception as error:
        _write(answers, pickle.dumps(_raised(error)))
        os._exit(0)
    _write(answers, pickle.dumps(Returned(())))
    serve(kernel, call, requests, answers)


def _begin(printed: int | None) -> None:
    """Makes this process one that others may kill, and that says where it crashes."""
    with contextlib.suppress(OSError):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if printed is not None:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
    faulthandler.enable(2)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_PERTURB, ~FILL & 0xFF)


def serve(kernel: Callable[..., Any], call: KernelCall, requests: int, answers: int) -> NoReturn:
    """Answers requests until there are no more. The kernel runs in a thread that is new to all
    libraries: what they keep for each thread is then of this process, not of the one that it is a
    fork of."""

    calls = KernelCalls(kernel, call)

    def run() -> None:
        while (request := _read(requests)) is not None:
            _write(answers, pickle.dumps(calls.answer(pickle.loads(request))))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    os._exit(0)


# --- a call ---------------------------------------------------------------------------------------


class KernelCalls:
    """Calls a kernel as requests say, one after the other."""

    def __init__(self, kernel: Callable[..., Any], call: KernelCall) -> None:
        self._kernel, self._call = kernel, call
        self._before = _Results([], ())

    def answer(self, request: Request) -> Outcome:
        """What comes of a request. What the kernel warns of is no finding, also where warnings are
        errors."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._answered(request)
        except BaseException as error:
            return _raised(error)

    def _answered(self, request: Request) -> Returned:
        kernel, call = self._kernel, self._call
        first: tuple[Any, ...] = ()
        others: list[tuple[int, tuple[Any, ...]]] = []
        changed: set[str] = set()
        around: set[str] = set()
        overwrites: int | None = None
        places: dict[str, PlacedArray | DeviceCopy] = {}
        given: dict[str, Any] = {}
        begin = time.perf_counter()
        for number in range(request.repeats):
            places = _placed(call, request)
            given = {name: _given(call, name, place) for name, place in places.items()}
            raw = called(kernel, call, given, request.sizes)
            found = tuple(map(as_numpy, raw))
            for name, place in places.items():
                now = place.read_back()
                if not now.is_intact:
                    around.add(name)
                if name in request.inputs and not same_bits(now.array, request.inputs[name]):
                    changed.add(name)
            if number == 0:
                first = found
                overwrites = self._before.overwritten() if call.form == RETURNS else None
                self._before = _Results(raw, found)
            elif not all(map(same_bits, found, first)):
                others.append((number, found))
        seconds = (time.perf_counter() - begin) / max(request.repeats, 1)
        later = None
        if request.later is not None and call.library != "jax":
            for name, place in places.items():
                if name in request.inputs and name not in call.numbers:
                    place.write(request.later[name])
            self._before = _Results([], ())  # results may share the memory of inputs
            later = tuple(map(as_numpy, called(kernel, call, given, request.sizes)))
        names = [*request.inputs, *request.outputs]
        return Returned(
            first,
            tuple(others),
            tuple(name for name in names if name in changed),
            tuple(name for name in names if name in around),
            later,
            overwrites,
            seconds,
        )


@dataclass(frozen=True)
class _Results:
    """What the kernel returned to the request before, and copies of that."""

    found: list[Any]
    copies: tuple[Any, ...]

    def overwritten(self) -> int | None:
        """The first of them that is no longer what it was."""
        for position, (found, copy) in enumerate(zip(self.found, self.copies, strict=True)):
            if not same_bits(as_numpy(found), copy):
                return position
        return None


def _given(call: KernelCall, name: str, place: PlacedArray | DeviceCopy) -> Any:
    return place.tensor if isinstance(place, DeviceCopy) else argument(call, name, place.array)


def _raised(error: BaseException) -> Raised:
    if isinstance(error, NoResult):
        return Raised("", str(error))
    own = str(Path(__file__).parent)
    try:
        message = str(error)
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        shown = "".join(line for line in lines if f'File "{own}' not in line)
    except Exception:  # an exception whose text cannot be made
        message, shown = "an exception that cannot be printed", ""
    return Raised(type(error).__name__, _shortened(message), shown[-_PRINTED:])


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE else f"{message[:_MESSAGE]} ..."


_MESSAGE = 500  # characters


def _placed(call: KernelCall, request: Request) -> dict[str, PlacedArray | DeviceCopy]:
    found: dict[str, PlacedArray | DeviceCopy] = {}
    arrays = dict(request.inputs)
    if call.form != RETURNS:
        for name, (shape, dtype) in request.outputs.items():
            raw = np.full(int(np.prod(shape)) * dtype.itemsize, FILL, np.uint8)
            arrays[name] = np.ndarray(shape, dtype, raw)
    for name, array in arrays.items():
        layout = request.layout if request.only in (None, name) else PLAIN
        if layout == BROADCAST and name in request.outputs:
            layout = PLAIN
        place = placed(array, layout)
        is_on_device = call.device and name not in call.numbers
        found[name] = DeviceCopy(place, call.device) if is_on_device else place
    return found


def same_bits(left: Any, right: Any) -> bool:
    """Whether two results are the same, to the last bit."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(left.tobytes() == right.tobytes())
