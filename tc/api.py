"""What a user calls: interpret, compile, define, emit, explain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from tc.backends import registry
from tc.backends.base import Backend, KernelText
from tc.derivatives.generic import GenericFunction, bound_source, generic_function, generic_names
from tc.device import Device
from tc.dtypes import DType, encoded
from tc.dynamic import Dynamic, of_def
from tc.errors import InputError, ends_at_caller
from tc.explanation import Explanation, check_stage
from tc.frontend.given_text import Text, given_source
from tc.function import Compiled, issue_warnings, runs_text
from tc.gpu import Gpu
from tc.options import Options, options_from
from tc.pipeline import Trace, check_defs, check_module, parse_source, shape_program, trace
from tc.process.uninterrupted import load
from tc.runtime.arguments import bind_call, read_inputs, signature_of
from tc.runtime.arrays.encoded_arrays import as_bits
from tc.runtime.outputs import (
    bind_outputs,
    check_initial,
    check_outputs,
    result_type,
    view_outputs,
)
from tc.runtime.planned_outputs import PlannedOutputs
from tc.runtime.sizes import (
    CallSizes,
    as_collection,
    output_shapes,
    resolve_sizes,
    sizes_of_arrays,
)
from tc.runtime.specialisation import out_of_memory, start_warnings
from tc.semantics.program import Program
from tc.semantics.reference.error_bound import error_bound as bound_of_shaped
from tc.source import Origin, Source
from tc.stages import SIZES
from tc.tuning.lookup import TunedOptions, database_path, with_tuned_plan
from tc.wording import nearest

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tc.tuning.tuner import TuningResult

_Given: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Inputs and sizes as a call gives them: one by one, and by keyword."""


@ends_at_caller
def interpret(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    outputs: object = None,
    **named: Any,
) -> Any:
    """Runs a tensor comprehension by the reference interpreter: slow, checked, always right.

    Inputs are arrays and, for rank 0, numbers: one by one or by keyword, as for `tc.Compiled`, or
    all in one sequence or dict by name; `outputs` is as for `tc.Compiled`. Returns one array, or a
    named tuple of several, of the inputs' kind. `src` is the text, the `pathlib.Path` of a file
    with the text, or a `tc.Source`, whose name errors show; `entry` names the def to run where the
    text has several.

    Raises ParseError, CheckError, InputError, RangeError, and AccessError for a read that leaves
    its tensor (G7), always before any array of the caller's is touched.

    >>> import numpy as np
    >>> import tc
    >>> a, x = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)
    >>> tc.interpret("def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }", [a, x])
    array([ 3., 12.], dtype=float32)
    """
    program = _program(*_bound(src, entry, inputs, named))
    function = Compiled(program, "interpret", None, None)
    issue_warnings(program.warnings)
    return function._call(bind_call(function._signature, inputs, named), outputs)


@ends_at_caller
def error_bound(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    outputs: object = None,
    options: Options | None = None,
    **named: Any,
) -> Any:
    """A bound on the distance of a result from the exact one, whatever the order of computation
    (R5).

    Takes what `interpret` takes; returns float64 arrays of numpy with the shapes of the results.
    `outputs` are read where the program reads them, and are not written to. A result is right when
    each element differs from the interpreter's by at most the bound. `options` are those that a
    result was computed with: with `GpuOptions(tf32=True)`, both factors of each product of floats
    may be rounded to tf32, and bounds grow by up to 2**-10 of the magnitudes of terms. Raises what
    `interpret` raises, and BackendError for what are no options.

    >>> import numpy as np
    >>> import tc
    >>> x = np.ones(1000, np.float32)
    >>> float(tc.error_bound("def sum(float(N) x) -> (s) { s +=! x(i) }", [x])) < 1e-1
    True
    """
    program = _program(*_bound(src, entry, inputs, named))
    chosen = options_from(options)
    signature = signature_of(program)
    values = bind_call(signature, inputs, named)
    views, family, like, _ = read_inputs(signature, values)
    targets: dict[str, np.ndarray] = {}
    if outputs is not None:
        given = bind_outputs(signature, outputs)
        targets, family, _ = view_outputs(signature, given, values, family, like)
    check_initial(program, frozenset(targets))
    arrays = dict(zip(program.inputs, views, strict=True))
    shapes = output_shapes(program, targets)
    shaped = shape_program(program, replace(sizes_of_arrays(program, arrays), outputs=shapes))
    check_outputs(signature, targets, shaped.shapes, views, family)
    starts = start_warnings(shaped, frozenset(targets))
    issue_warnings((*program.warnings, *shaped.warnings, *starts))
    try:
        bounds = bound_of_shaped(shaped, arrays, targets, tf32=chosen.gpu.tf32)
    except MemoryError as error:
        raise out_of_memory(shaped) from error
    results = [bounds[name] for name in program.outputs]
    return results[0] if len(results) == 1 else result_type(program.name, program.outputs)(*results)


@ends_at_caller
def compile(
    src: Text,
    *,
    entry: str | None = None,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
    dynamic: Dynamic = None,
) -> Compiled:
    """A def of a text as a function of arrays; of a def with type variables a `tc.GenericFunction`,
    which has the methods of a `tc.Compiled`.

    `src` is the text, the `pathlib.Path` of a file with the text, or a `tc.Source`. The text is
    parsed and checked now, and compiled at the first call with new sizes. `check` says whether
    reads that may leave their tensor, and integer divisions, are tested (G7), as are places of
    writes (S5): None is the backend's default, which is all of them on CPUs, and places on GPUs.
    `backend` is one of `tc.backends()`. A plan that was tuned for the sizes of a call, or for near
    sizes, is used, unless `options` have a plan. `dynamic` names sizes that vary, so that few
    kernels serve all of them: `{"N"}`, `{"N": range(16, 4097, 16)}`, True for all, "auto" for those
    that are seen to vary.

    Raises ParseError, CheckError, InputError for a name in `dynamic` that is no size of the def,
    and BackendError for an unknown backend.

    >>> import numpy as np
    >>> import tc
    >>> mm = tc.compile(
    ...     "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
    ...     backend="interpret")
    >>> mm(np.ones((2, 3), np.float32), B=np.ones((3, 2), np.float32))
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    >>> print(mm.infer(M=2, K=3, N=4)["C"])
    float32(2, 4)
    """
    source = given_source(src)
    generic = generic_function(source, entry, backend, *_asked(options, check), dynamic)
    if generic is not None:
        registry.get(backend)
        return cast("Compiled", generic)
    program = _program(source, entry)
    function = _function(program, backend, options, check, dynamic)
    issue_warnings(program.warnings)
    return function


F = TypeVar("F")


class Definitions(Generic[F]):
    """The defs of a text as functions; made by `tc.define` and `tc.sac.define`.

    A def is an attribute, and an item: `m.mm`, `m["2LUT"]`. Iteration gives the names. A def
    whose name starts with an underscore, or is no Python name, is an item only.
    """

    def __init__(self, functions: dict[str, F]) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> F:
        if name not in self._functions:
            raise InputError(self._unknown(name), repair=self._repair(name))
        return self._functions[name]

    def __getattr__(self, name: str) -> F:
        functions: dict[str, F] = self.__dict__.get("_functions", {})
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


@ends_at_caller
def define(
    src: Text,
    *,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
    dynamic: Dynamic = None,
) -> Definitions[Compiled]:
    """All defs of a text as functions: an object with one method per def.

    Takes what `compile` takes, and raises the same. Of the sizes that `dynamic` names, each def
    takes those that it has.

    >>> import numpy as np
    >>> import tc
    >>> m = tc.define('''
    ...     def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }
    ...     def 2sum(float(N) x) -> (s) { s +=! 2 * x(i) }
    ... ''', backend="interpret")
    >>> list(m), m.twice(np.ones(2, np.float32)), m["2sum"](np.ones(2, np.float32))
    (['twice', '2sum'], array([2., 2.], dtype=float32), array(4., dtype=float32))
    """
    source = given_source(src)
    module = parse_source(source)
    programs = check_defs(module)
    functions = {
        name: _function(program, backend, options, check, of_def(program, programs, dynamic))
        for name, program in programs.items()
    }
    warnings = [warning for function in functions.values() for warning in function.program.warnings]
    issue_warnings(dict.fromkeys(warnings))
    found: dict[str, Any] = {d.name.text: functions.get(d.name.text) for d in module.defs}
    for name in generic_names(source):
        found[name] = GenericFunction(source, name, backend, *_asked(options, check), dynamic)
    return Definitions(found)


class Tuned(NamedTuple):
    """What `tc.autotune` gives: the function with the options that were found, and the result."""

    function: Compiled
    result: TuningResult


@ends_at_caller
def autotune(
    src: Text,
    /,
    *inputs_or_sizes: Any,
    entry: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
    search: str = "guided",
    seed: int = 0,
    max_seconds: float | None = 60.0,
    max_candidates: int | None = None,
    generations: int | None = None,
    database: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    outputs: object = None,
    progress: bool | None = None,
    **named: Any,
) -> Tuned:
    """Searches for the fastest plan of a program for one set of sizes, and compiles it.

    Inputs and sizes are given as for `emit`. Candidates run on the given arrays, where all inputs
    are arrays of numpy, and on drawn values otherwise. Each candidate is a plan that tc could have
    chosen, with other decisions; a candidate is compiled and run in processes of its own, and its
    results are checked under the program's bound (R5). A candidate that crashes, hangs or is wrong
    is recorded, and never returned. The best candidate is timed once more, in turns with the
    default, which wins unless the candidate is faster beyond noise. Ctrl-C ends the search at once,
    with the best so far (`result.interrupted`).

    `search` is "guided", "genetic" or "random", and `seed` its seed; the search ends after
    `max_seconds`, `max_candidates`, or `generations` of 20 candidates. All measurements are kept in
    the user's tuning database, or in the file `database`. All candidates have `options`, which have
    no plan. Candidates are compiled in processes of this machine, or by the workers of `executor`
    (of `concurrent.futures`, dask or MPI). `outputs` are as for `emit`. With `progress`, by default
    on a terminal, the standard error shows the state of the search.

    Raises the errors of `compile` and of a first call, BackendError for unknown searches and
    programs without a choice, and InputError for wrong budgets, seeds, databases and executors.

    >>> import tc
    >>> tc.autotune("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }", N=9, max_seconds=0)
    Traceback (most recent call last):
    tc.errors.InputError: InputError: max_seconds=0: a search takes a positive number of seconds
    repair: max_seconds=60
    """
    tuner = load("tc.tuning.tuner")  # with much that nothing else needs
    budget = tuner.Budget(
        max_seconds=max_seconds, max_candidates=max_candidates, generations=generations
    )
    tuner.check_seed(seed)
    path = database_path(database)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InputError(
            f"executor={executor!r}: it is an executor of concurrent.futures, or None",
            repair="executor=None",
        )
    src, entry = _bound(src, entry, inputs_or_sizes, named)
    function = compile(src, entry=entry, backend=backend, options=options, check=check)
    found = registry.get(backend)
    if not isinstance(found, Backend):
        raise runs_text(backend, lacks="plans to try")
    program, values = function.program, as_collection(function._signature, inputs_or_sizes, named)
    planned = PlannedOutputs.of(program, outputs)
    sizes = planned.sizes(program, resolve_sizes(program, values))
    given = frozenset((*program.needs_initial, *planned.targets))
    problem = tuner.Problem.of(program, sizes, found, check=function.check, given=given)
    planned.check(problem.shaped().shapes)
    with load("tc.tuning.reporting.report").progress(budget, progress) as told:
        result = tuner.tune(
            problem,
            found,
            base=function.options,
            search=search,
            seed=seed,
            budget=budget,
            inputs=_arrays(program, values),
            database=tuner.TuningDatabase(path),
            executor=executor,
            told=told,
        )
    return Tuned(Compiled(program, backend, result.best.options, check), result)


def _arrays(program: Program, values: object) -> dict[str, np.ndarray] | None:
    """The inputs by name, if each is an array of numpy or a number; None otherwise."""
    names = program.inputs
    pairs = values if isinstance(values, Mapping) else dict(zip(names, values, strict=False))  # type: ignore[call-overload]
    arrays = {name: pairs.get(name) for name in names}
    if all(isinstance(array, np.ndarray | np.generic | int | float) for array in arrays.values()):
        types = {name: program.tensors[name].dtype for name in names}
        return {name: _as_declared(array, types[name]) for name, array in arrays.items()}
    return None


def _as_declared(value: Any, dtype: DType) -> np.ndarray:
    """An array of numpy, or a number, as an array of a type."""
    array = as_bits(np.asarray(value))
    return array if array.dtype == dtype.numpy else encoded(array, dtype)


@ends_at_caller
def emit(
    src: Text,
    /,
    *inputs_or_sizes: Any,
    entry: str | None = None,
    backend: str = "c",
    options: Options | None = None,
    check: bool = False,
    device: Device | Gpu | None = None,
    dynamic: Dynamic = None,
    outputs: object = None,
    **named: Any,
) -> KernelText:
    """The code for one set of sizes in a backend's language, without running a compiler.

    Inputs and sizes are given one by one and by keyword, as for `tc.Compiled`, or in one sequence
    or dict by name: an array, a number or a shape as a tuple for an input, an integer for a size.
    By name, sizes that follow from others may be left out; an input without an array is row-major.
    `str` of the result is the code; with `check` the code tests what `compile` tests. `outputs` are
    those that the call is going to pass, as for `tc.Compiled`, as arrays or shapes. `device` is the
    processor that the code is for, by default the processor of this machine, or a GPU:
    `tc.Gpu.named("sm_90")`.

    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> import tc
    >>> print(tc.emit(mv, M=2, K=3))  # doctest: +ELLIPSIS
    /...
    """
    found = registry.get(backend)
    if not isinstance(found, Backend):
        raise runs_text(backend)
    src, entry = _bound(src, entry, inputs_or_sizes, named)
    checks = check, False
    given = inputs_or_sizes, named
    stages = _trace(src, given, entry, found, options, checks, device, dynamic, outputs)
    issue_warnings((*stages.program.warnings, *stages.shaped.warnings))
    return stages.text


@ends_at_caller
def explain(
    src: Text,
    /,
    *inputs_or_sizes: Any,
    entry: str | None = None,
    stage: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
    device: Device | Gpu | None = None,
    dynamic: Dynamic = None,
    outputs: object = None,
    **named: Any,
) -> Explanation:
    """An explanation of a program at given sizes, as a value: `str` of the result is the text.

    Inputs and sizes, `outputs` and `device` are as for `emit`, `backend`, `options` and `check` as
    for `compile`. The text shows the kind and range of each variable and the accesses that fixed
    it, shapes and dtypes, preconditions (G6), operations and bytes; then the schedule, its mapping
    to the processor, and the least time of the program. With `stage` the text shows one stage of
    the compiler, or "all"; `stages` of the result has the texts by name.

    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> import tc
    >>> explanation = tc.explain(mv, M=2, K=3)
    >>> explanation.total.operations
    12
    >>> list(explanation.stages)  # doctest: +NORMALIZE_WHITESPACE
    ['ranges', 'rewrite', 'scop', 'dependences', 'schedule', 'plan', 'mapping', 'loops', 'passes',
     'kernel', 'estimate', 'source']
    """
    check_stage(stage, (SIZES,) if dynamic else ())
    src, entry = _bound(src, entry, inputs_or_sizes, named)
    found = registry.get(backend)
    if isinstance(found, Backend):
        checks = found.checks_by_default if check is None else check, check is None
        given = inputs_or_sizes, named
        stages = _trace(src, given, entry, found, options, checks, device, dynamic, outputs)
        return Explanation(stages.shaped, stages, stage)
    if stage not in (None, "ranges", "all"):
        raise runs_text(backend)
    program = _program(src, entry)
    planned = PlannedOutputs.of(program, outputs)
    sizes = planned.sizes(program, _sizes(program, (inputs_or_sizes, named)))
    shaped = shape_program(program, sizes)
    planned.check(shaped.shapes)
    return Explanation(shaped, stage=stage)


def _bound(
    src: object, entry: str | None, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Source, str | None]:
    """The text that a call means, and the def: type variables are what the inputs bind (Y10)."""
    return bound_source(given_source(src), entry, inputs, named)


def _sizes(program: Program, given: _Given) -> CallSizes:
    return resolve_sizes(program, as_collection(signature_of(program), *given))


def _trace(
    src: Text,
    given: _Given,
    entry: str | None,
    backend: Backend,
    options: Options | None,
    checks: tuple[bool, bool],
    device: Device | Gpu | None,
    dynamic: Dynamic,
    outputs: object,
) -> Trace:
    """The stages of a call; `checks` says whether all that may fail is tested (G7), and whether the
    places of writes are in any case (S5)."""
    planned = PlannedOutputs.of(_program(src, entry), outputs)
    stages = trace(
        given_source(src),
        entry,
        lambda program: planned.sizes(program, _sizes(program, given)),
        backend,
        options_from(options),
        check=checks[0],
        check_places=checks[1],
        device=device,
        make_with=with_tuned_plan,
        dynamic=dynamic,
        given=planned.targets,
    )
    planned.check(stages.shaped.shapes)
    return stages


def _program(src: object, entry: str | None) -> Program:
    source = given_source(src)
    return _checked(source.text, source.name, source.origin, entry)


@lru_cache(maxsize=256)
def _checked(text: str, name: str, origin: Origin | None, entry: str | None) -> Program:
    """The program of a source, which is read once where it is given again and again, as to
    `tc.compile` in a function. Programs do not change. Sources of one text are equal wherever it
    stands, so that its place is an argument of its own: messages name it."""
    return check_module(parse_source(Source(text, name, origin)), entry)


def _asked(
    options: Options | TunedOptions | None, check: bool | None
) -> tuple[Options, bool | None, TunedOptions | None]:
    """The options and the check that a caller asks for, and where tuned options come from."""
    if check is not None and not isinstance(check, bool | np.bool_):
        raise InputError(f"check={check!r}: it is True, False or None", repair="check=True")
    if isinstance(options, TunedOptions):
        return options.options, check, options
    return options_from(options), check, None


def _function(
    program: Program,
    backend: str,
    options: Options | TunedOptions | None,
    check: bool | None,
    dynamic: Dynamic,
) -> Compiled:
    return Compiled(program, backend, *_asked(options, check), dynamic)
