"""What is done where tc itself is at fault: plain code, or the interpreter, in place of fast code.

An InternalError, and an exception that no part of tc raises on purpose, say that a pass broke its
own contract; the program is not to blame, and has an answer all the same. With `TC_STRICT=1` in
the environment nothing of this happens, and the exception is raised.
"""

from __future__ import annotations

import platform
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from types import CodeType, TracebackType
from typing import TypeVar

from tc.device import Device, host
from tc.errors import STRICT, InternalError, TCError, is_strict
from tc.gpu import Gpu
from tc.kernel.ir import row_major
from tc.options import PRESETS, Options
from tc.runtime.sizes import CallSizes
from tc.semantics.program import Program, ProgramWarning
from tc.source import Source

T = TypeVar("T")

_OURS = ("builtins", "tc", "numba", "llvmlite", "islpy", "numpy", "struct", "ctypes")
"""Where classes of exceptions are from that can be faults; those of a caller's signal handlers
are from elsewhere."""

INTERPRETER = "interpret"
"""The backend that runs what others cannot."""

_TOLD_LINES = 12
_TOLD_FRAMES = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A compilation: all values that it takes to compile the same program again elsewhere. `given`
    are the outputs that the caller passed."""

    program: Program
    sizes: CallSizes
    given: frozenset[str]
    backend: str
    options: Options
    check: bool
    device: Device | Gpu | None = None
    check_places: bool = False
    """Whether places that data decide are tested (S5), though `check` is False."""


def is_fault(error: Exception) -> bool:
    """Whether an exception says that tc itself is wrong: not the program, the machine, or a
    signal that arrived meanwhile.

    >>> [is_fault(e) for e in (InternalError("no loop"), KeyError(-1), TCError("refused"))]
    [True, True, False]
    >>> [is_fault(e) for e in (OSError("no space left"), MemoryError(), UserWarning())]
    [False, False, False]
    """
    if isinstance(error, TCError):
        return isinstance(error, InternalError)
    if isinstance(error, OSError | MemoryError | Warning):
        return False
    if type(error).__module__.partition(".")[0] not in _OURS:
        return False
    return not _is_of_signal(error.__traceback__)


def compile_or_fall_back(
    compile_with: Callable[[Options], T], request: Request, *, can_interpret: bool = True
) -> tuple[T | None, ProgramWarning | None]:
    """What `compile_with` makes for the options of a request; if it is at fault, for plain
    options; and None, which leaves the program to the interpreter, if it is then again. Where the
    interpreter cannot read the arrays, InternalError instead.

    The warning tells of it, with a text to report it by.
    """
    try:
        return compile_with(request.options), None
    except Exception as error:
        if is_strict() or not is_fault(error):
            raise
        fault = error
    plain = replace(PRESETS["naive"], threads=request.options.threads)
    if plain != request.options:
        try:
            return compile_with(plain), _warning(
                request, fault, "plain code", 'options=tc.Options.preset("naive")'
            )
        except Exception as error:
            if not (is_fault(error) or isinstance(error, TCError)):
                raise
    if not can_interpret:
        with faults_reported(request):
            raise fault
    return None, _warning(request, fault, "the interpreter", f'backend="{INTERPRETER}"')


@contextmanager
def faults_reported(
    request: Request, repair: str | None = 'options=tc.Options.preset("naive")'
) -> Iterator[None]:
    """Makes faults errors with a text to report them by, where there is nothing to fall back to."""
    with _reported(request.program.name, partial(_report, request), repair):
        yield


@contextmanager
def faults_of_run_reported(request: Request) -> Iterator[None]:
    """The same where the interpreter runs, which nothing stands in for; the text has zeros for the
    values, which a report does not tell."""
    repair = 'backend="numba"' if request.backend == INTERPRETER else None
    known = ["# values of arrays: replace the zeros"]
    with _reported(request.program.name, partial(_script, known, _run(request)), repair):
        yield


@contextmanager
def text_faults_reported(source: Source) -> Iterator[None]:
    """The same where a text is parsed and checked, and nothing else is known yet."""
    calls = [f"tc.define({_literal(source.text)})"]
    with _reported(f"the text {source.name}", partial(_script, [], calls), None):
        yield


@contextmanager
def _reported(
    blameless: str, described: Callable[[Exception], str], repair: str | None
) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_strict() or not is_fault(error):
            raise
        cause = f"tc itself is at fault, not {blameless}. {_please(described(error))}"
        raise InternalError(cause, repair=repair) from error


def told_fault(name: str, instead: str, calls: Iterable[str], error: Exception) -> str:
    """What a warning says where `instead` computes a call of another front end; `calls` are lines
    of Python that fail in the same way, with zeros for the values of arrays."""
    report = _script(["# values of arrays: replace the zeros"], calls, error)
    return _at_fault(name, instead, report)


def _at_fault(name: str, instead: str, report: str) -> str:
    return (
        f"{name} is run by {instead}, which is slower and gives the same results, as tc itself is "
        f"at fault. {_please(report)}"
    )


def _report(request: Request, error: Exception) -> str:
    """A text for a report: a Python program that fails in the same way, and what is known."""
    called = ", ".join(map(repr, sorted(request.given))) or "none"
    known = [f"# {request.device or host()}", f"# outputs passed: {called}"]
    return _script(known, _calls(request), error)


def _script(known: Iterable[str], calls: Iterable[str], error: Exception) -> str:
    lines = [
        f"# {_versions()}",
        *known,
        "import os",
        f'os.environ["{STRICT}"] = "1"',
        "import numpy, tc",
        *calls,
        *(f"# {line}" for line in _told(error)),
    ]
    return "\n".join(lines)


def _warning(request: Request, error: Exception, instead: str, repair: str) -> ProgramWarning:
    told = _at_fault(request.program.name, instead, _report(request, error))
    return ProgramWarning("", told, repair=repair)


def _please(text: str) -> str:
    return f"Please report this text:\n\n{text}\n"


def _versions() -> str:
    names = ("tensor-comprehensions", "numpy", "numba", "llvmlite", "islpy")
    found = ", ".join(f"{name} {version_of(name)}" for name in names)
    return f"{found}, Python {platform.python_version()}, {platform.platform()}"


@cache
def version_of(name: str) -> str:
    """The version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:  # installed in some other way
        return "?"


def _calls(request: Request) -> Iterator[str]:
    program, options = request.program, request.options
    common = [f"entry={program.name!r}", f"backend={request.backend!r}"]
    if options != Options():
        common.append(f"options=tc.Options.from_json({options.to_json()!r})")
    common.append(f"check={request.check}")
    inputs = [_input(request, name) for name in program.inputs]
    yield f"program = {_literal(program.source.text)}"
    if request.device is None:
        yield f"f = tc.compile(program, {', '.join(common)})"
        yield f"f.prepare({', '.join(inputs)})"
    else:
        common.append(f"device=tc.{request.device!r}")
        yield f"tc.emit(program, [{', '.join(inputs)}], {', '.join(common)})"


def _run(request: Request) -> Iterator[str]:
    program, sizes = request.program, request.sizes

    def value(name: str) -> str:
        if name in sizes.scalars:
            return repr(sizes.scalars[name])
        return f"numpy.zeros({sizes.shapes[name]}, {str(program.tensors[name].dtype.numpy)!r})"

    yield f"program = {_literal(program.source.text)}"
    yield f"f = tc.compile(program, entry={program.name!r}, backend={INTERPRETER!r})"
    yield f"inputs = [{', '.join(map(value, program.inputs))}]"
    if not request.given:
        yield "f(inputs)"
        return
    yield f"given = {sorted(request.given)!r}"
    yield "found = f.infer(inputs)"
    yield "outputs = {name: numpy.zeros(found[name].shape, found[name].dtype) for name in given}"
    yield "f(inputs, outputs=outputs)"


def _input(request: Request, name: str) -> str:
    """An input as `Compiled.prepare` takes it: a number, a shape, or an array whose strides are
    not those of its shape."""
    tensor, sizes = request.program.tensors[name], request.sizes
    if name in sizes.scalars:
        return repr(sizes.scalars[name])
    shape = sizes.shapes[name]
    normal = tuple(step * tensor.dtype.bytes for step in row_major(shape))
    strides = sizes.strides.get(name, normal)
    if strides == normal or 0 in shape:
        return repr(shape)
    start = f"numpy.empty(1, {str(tensor.dtype.numpy)!r})"
    return f"numpy.lib.stride_tricks.as_strided({start}, {shape}, {strides})"


def _literal(text: str) -> str:
    """The literal of a text in Python, over as many lines as the text has."""
    if any(part in text for part in ("\\", "'''", "\r")) or text.endswith("'"):
        return repr(text)
    return f"'''{text}'''"


def _told(error: Exception) -> Iterator[str]:
    lines = str(error).splitlines() or [""]
    yield f"{type(error).__name__}: {lines[0]}"
    yield from lines[1:_TOLD_LINES]
    for frame in traceback.extract_tb(error.__traceback__)[-_TOLD_FRAMES:]:
        place = frame.filename.replace("\\", "/").rpartition("/tc/")
        yield f"at {''.join(place[1:])}:{frame.lineno} in {frame.name}"


def _is_of_signal(trace: TracebackType | None) -> bool:
    """Whether an exception came out of a signal handler."""
    handlers = {code for s in signal.valid_signals() if (code := _code(signal.getsignal(s)))}
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code(handler: object) -> CodeType | None:
    of_class = vars(type(handler)).get("__call__")
    for function in (handler, of_class):
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
