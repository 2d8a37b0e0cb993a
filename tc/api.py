"""What a user calls: interpret, compile, define, emit, explain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tc.arguments import bind_collection, read_inputs, signature_of
from tc.backends import registry
from tc.backends.base import Backend, KernelText
from tc.compiled import Compiled, check_initial, sizes_of_arrays, warn_doubts
from tc.device import Device
from tc.errors import BackendError, InputError
from tc.explanation import Explanation, check_stage
from tc.options import Options
from tc.outputs import bind_outputs, check_outputs, result_type, view_outputs
from tc.pipeline import Trace, check_defs, check_module, parse_source, shape_program, trace
from tc.semantics.bound import error_bound as bound_of_shaped
from tc.semantics.program import Program
from tc.semantics.suggest import nearest
from tc.sizes import resolve_sizes
from tc.source import Source
from tc.specialisation import out_of_memory, start_doubts


def interpret(
    src: str | Source, inputs: object, *, entry: str | None = None, outputs: object = None
) -> Any:
    """Runs a tensor comprehension by the reference interpreter: slow, checked, always right.

    `inputs` is a sequence or a dict by name of arrays and, for rank 0, Python numbers; `outputs`
    is as for `tc.Compiled`. Returns one array, or a named tuple of several, of the inputs' kind.
    `entry` names the def to run where there are several; `src` is the text, or a `tc.Source` so
    that errors show its file name.

    Raises ParseError, CheckError, InputError, RangeError, and AccessError for a read that leaves
    its tensor (G7), always before any array of the caller's is touched.

    >>> import numpy as np
    >>> a, x = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
    >>> interpret("def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }", [a, x])
    array([ 3., 12.], dtype=float32)
    """
    program = _program(src, entry)
    function = Compiled(program, "interpret", None, None)
    warn_doubts(program.doubts, 2)
    values = bind_collection(function.signature, inputs)
    return function.call(values, outputs)


def error_bound(
    src: str | Source, inputs: object, *, entry: str | None = None, outputs: object = None
) -> Any:
    """How far a result may be from the exact one in whatever order it was computed (R5).

    Takes what `interpret` takes; returns numpy float64 arrays shaped like its result. `outputs`
    are read where the program reads them and not written to. A result is right when it differs
    from the interpreter's by at most this much, element by element.

    >>> import numpy as np
    >>> x = np.ones(1000, np.float32)
    >>> float(error_bound("def sum(float(N) x) -> (s) { s +=! x(i) }", [x])) < 1e-1
    True
    """
    program = _program(src, entry)
    signature = signature_of(program)
    values = bind_collection(signature, inputs)
    views, family, like, _ = read_inputs(signature, values)
    targets: dict[str, np.ndarray] = {}
    if outputs is not None:
        given = bind_outputs(signature, outputs)
        targets, family, _ = view_outputs(signature, given, values, family, like)
    check_initial(program, frozenset(targets))
    arrays = dict(zip(program.inputs, views, strict=True))
    shaped = shape_program(program, sizes_of_arrays(program, arrays))
    check_outputs(signature, targets, shaped.shapes, views, family)
    warn_doubts((*program.doubts, *shaped.doubts, *start_doubts(shaped, frozenset(targets))), 2)
    try:
        bounds = bound_of_shaped(shaped, arrays, targets)
    except MemoryError as error:
        raise out_of_memory(shaped) from error
    results = [bounds[name] for name in program.outputs]
    return results[0] if len(results) == 1 else result_type(program.name, program.outputs)(*results)


def compile(
    src: str | Source,
    *,
    entry: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
) -> Compiled:
    """A def of a text as a function of arrays.

    The text is parsed and checked now, and compiled when first called with new sizes. `check`
    says whether reads that may leave their tensor, and integer divisions, are tested (G7): None is
    the backend's default, which is on for CPUs. `backend` is one of `tc.backends()`.

    Raises ParseError, CheckError, and BackendError for a backend that there is not.

    >>> import numpy as np
    >>> mm = compile(
    ...     "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    ...     backend="interpret")
    >>> mm(np.ones((2, 3), np.float32), B=np.ones((3, 2), np.float32))
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    >>> print(mm.infer(M=2, K=3, N=4)["C"])
    float32(2, 4)
    """
    program = _program(src, entry)
    function = _function(program, backend, options, check)
    warn_doubts(program.doubts, 2)
    return function


class Definitions:
    """The defs of a text as functions; made by `tc.define`.

    A def is an attribute, and an item: `m.mm`, `m["2LUT"]`. Iteration gives the names. A def
    whose name starts with an underscore, or is no Python name, is an item only.
    """

    def __init__(self, functions: dict[str, Compiled]) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> Compiled:
        if name not in self._functions:
            raise InputError(self._unknown(name), repair=self._repair(name))
        return self._functions[name]

    def __getattr__(self, name: str) -> Compiled:
        functions: dict[str, Compiled] = self.__dict__.get("_functions", {})
        if name.startswith("_") or name not in functions:
            raise AttributeError(self._unknown(name))
        return functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *filter(str.isidentifier, self._functions)})

    def __repr__(self) -> str:
        return f"<tc definitions {', '.join(self._functions)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Definitions, (self._functions,)

    def _unknown(self, name: object) -> str:
        return f"there is no def {name!r}; there are {', '.join(self._functions)}"

    def _repair(self, name: object) -> str | None:
        close = nearest(name, self._functions) if isinstance(name, str) else None
        return f'["{close}"]' if close else None


def define(
    src: str | Source,
    *,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
) -> Definitions:
    """All defs of a text as functions: an object with one method per def.

    Takes what `compile` takes, and raises the same.

    >>> import numpy as np
    >>> m = define('''
    ...     def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }
    ...     def 2sum(float(N) x) -> (s) { s +=! 2 * x(i) }
    ... ''', backend="interpret")
    >>> list(m), m.twice(np.ones(2, np.float32)), m["2sum"](np.ones(2, np.float32))
    (['twice', '2sum'], array([2., 2.], dtype=float32), array(4., dtype=float32))
    """
    module = parse_source(_source(src))
    functions = {
        name: _function(program, backend, options, check)
        for name, program in check_defs(module).items()
    }
    doubts = [doubt for function in functions.values() for doubt in function.program.doubts]
    warn_doubts(dict.fromkeys(doubts), 2)
    return Definitions(functions)


def emit(
    src: str | Source,
    inputs_or_sizes: object,
    *,
    entry: str | None = None,
    backend: str = "c",
    options: Options | None = None,
    check: bool = False,
    device: Device | None = None,
) -> KernelText:
    """The code for one set of sizes in a backend's language, without running a compiler.

    `inputs_or_sizes` is a sequence with an array, a number or a shape as a tuple per input, or a
    dict by name of such inputs and of sizes; what follows from the others may be left out, and
    without an array an input is row-major. `str` of the result is the code, for outputs that
    start fresh; with `check` it tests what `compile` tests. `device` is the processor that it is
    for, by default this one.

    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(emit(mv, {"M": 2, "K": 3}))  # doctest: +ELLIPSIS
    /...
    """
    found = registry.get(backend)
    if not isinstance(found, Backend):
        raise _runs_text(backend)
    stages = _trace(src, inputs_or_sizes, entry, found, options, check, device)
    warn_doubts((*stages.program.doubts, *stages.shaped.doubts), 2)
    return stages.text


def explain(
    src: str | Source,
    inputs_or_sizes: object,
    *,
    entry: str | None = None,
    stage: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
    device: Device | None = None,
) -> Explanation:
    """What tc makes of a program at given sizes; `str` of the result is the explanation.

    `inputs_or_sizes` and `device` are as for `emit`, `backend`, `options` and `check` as for
    `compile`. The text shows the kind and range of each variable and the accesses that fixed it,
    shapes and dtypes, preconditions (G6), operations and bytes; then the schedule, how it was
    mapped to the processor, and how fast that can be. With `stage` it shows one stage of the
    compiler, or "all"; `stages` of the result has them by name.

    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> explanation = explain(mv, {"M": 2, "K": 3})
    >>> explanation.total.operations
    12
    >>> list(explanation.stages)  # doctest: +NORMALIZE_WHITESPACE
    ['ranges', 'rewrite', 'scop', 'dependences', 'schedule', 'mapping', 'loops', 'kernel',
     'estimate', 'source']
    """
    check_stage(stage)
    found = registry.get(backend)
    if isinstance(found, Backend):
        check = found.checks_by_default if check is None else check
        stages = _trace(src, inputs_or_sizes, entry, found, options, check, device)
        return Explanation(stages.shaped, stages, stage)
    if stage not in (None, "ranges", "all"):
        raise _runs_text(backend)
    program = _program(src, entry)
    shaped = shape_program(program, resolve_sizes(program, inputs_or_sizes))
    return Explanation(shaped, stage=stage)


def _runs_text(backend: str) -> BackendError:
    return BackendError(
        f"the backend {backend!r} runs the text itself: it has no code to show",
        repair='backend="c"',
    )


def _trace(
    src: str | Source,
    inputs_or_sizes: object,
    entry: str | None,
    backend: Backend,
    options: Options | None,
    check: bool,
    device: Device | None,
) -> Trace:
    if device is not None and not isinstance(device, Device):
        raise BackendError(
            f"device= is a tc.Device, and not of type {type(device).__name__}",
            repair="tc.Device(vector_bits=256)",
        )
    _check_entry(entry)
    return trace(
        _source(src),
        entry,
        lambda program: resolve_sizes(program, inputs_or_sizes),
        backend,
        _options(options),
        check=check,
        device=device,
    )


def _source(src: object) -> Source:
    if isinstance(src, Source):
        return src
    if isinstance(src, str):
        return Source(src)
    raise InputError(
        f"the program is text, or a tc.Source, and not of type {type(src).__name__}",
        repair='tc.Source(Path("f.tc").read_text(), "f.tc")',
    )


def _program(src: object, entry: str | None) -> Program:
    _check_entry(entry)
    return check_module(parse_source(_source(src)), entry)


def _check_entry(entry: object) -> None:
    if entry is not None and not isinstance(entry, str):
        raise InputError(f"entry= is the name of a def, and not of type {type(entry).__name__}")


def _function(
    program: Program, backend: str, options: Options | None, check: bool | None
) -> Compiled:
    if check is not None and not isinstance(check, bool | np.bool_):
        raise InputError(f"check={check!r}: it is True, False or None", repair="check=True")
    return Compiled(program, backend, _options(options), check)


def _options(options: object) -> Options:
    if options is None:
        return Options()
    if isinstance(options, Options):
        return options
    raise BackendError(
        f"options= is a tc.Options, and not of type {type(options).__name__}",
        repair="tc.Options(threads=1)",
    )
