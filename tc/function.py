"""A program as a function: specialised for each new set of sizes, remembered, thread-safe."""

from __future__ import annotations

import re
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from tc.backends import registry
from tc.backends.base import LANGUAGES, AnyBackend, Backend, GpuBackend
from tc.call_times import CallTime, time_of
from tc.dynamic import Dynamic, dynamic_sizes, inherited, spread
from tc.errors import BackendError, InputError, TCError, ends_at_caller
from tc.explanation import Explanation
from tc.introspection import (
    PerInstance,
    TensorInfo,
    followed_by_torch,
    hide_from_torch,
    python_signature,
)
from tc.options import Options, how_compiled
from tc.pipeline import check_module, parse_source, shape_program, trace
from tc.process import forks
from tc.process.call_sites import warn
from tc.process.processors import get_threads, on_change
from tc.process.uninterrupted import load
from tc.runtime.arguments import (
    NUMBERS,
    bind_call,
    name_kind_of_others,
    name_order,
    read_inputs,
    signature_of,
)
from tc.runtime.arrays import NUMPY, address
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.arrays.encoded_arrays import ENCODED, check_users_have, user_dtype
from tc.runtime.arrays.family import Family
from tc.runtime.device_calls import CopyingKernel, common_place, run_on_device
from tc.runtime.entries.device_entry import DeviceEntry, is_entry_of, new_device_entry
from tc.runtime.entries.host_entry import HostEntry, new_host_entry
from tc.runtime.entries.inline_cache import CacheEntry, new_entry
from tc.runtime.guards import Server
from tc.runtime.outputs import (
    bind_outputs,
    check_initial,
    check_outputs,
    field_names,
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
    specialisation_key,
)
from tc.runtime.specialisation import Specialisation, run_specialised, spaces
from tc.semantics.program import Program, ProgramWarning
from tc.source import ShownText, Source, Span
from tc.specialiser import DeviceRequest, Specialiser
from tc.templates import Templates
from tc.tuning.lookup import TunedOptions

_COLLECTIONS = (list, tuple, dict, Mapping)

_NO_TARGETS: Mapping[str, Any] = {}


class Entry(Protocol):
    """What is asked first by a call."""

    @property
    def serve(self) -> Server: ...


_FUNCTIONS: weakref.WeakValueDictionary[int, Compiled] = weakref.WeakValueDictionary()
"""By their ids."""


def live_functions() -> Iterator[Compiled]:
    """All that there are; other threads may make more meanwhile."""
    for reference in _FUNCTIONS.valuerefs():  # a list, made at once
        function = reference()
        if function is not None:
            yield function


def _forget_entries() -> None:
    """Entries run with the threads that were allowed when they were made."""
    for function in live_functions():
        function._install_inline_cache(None)


on_change(_forget_entries)


def _after_fork_in_child() -> None:
    for function in live_functions():
        function._specialiser.after_fork_in_child()


forks.renew_in_child(_after_fork_in_child)


class Compiled:
    """A def of a text as a function of arrays; made by `tc.compile` and `tc.define`.

    A call is `f(*inputs, outputs=None)`; inputs also by keyword, but for an input named `outputs`,
    or all in one list, tuple or dict by name. Arrays are of numpy, or of any library with
    `__dlpack__` (torch, jax), all of one library; arrays are not copied, and results are of the
    same library. Arrays lie where the backend runs: in the memory of the processor, for "cuda" on
    one CUDA device, for "opencl" in buffers of one context (pyopencl); the backends "cuda" and
    "opencl" take arrays of the processor, too. Numbers of Python and numpy stand for inputs of rank
    0 whose type holds their value. Several results come as a named tuple. Tensors of torch that
    require gradients get gradients: `backward` runs the program that `tc.grad` derives, with the
    backend and options of this function. A call that torch traces becomes a node of the graph,
    torch.func transforms calls, and JAX's transformations take calls as operations of JAX.

    `outputs` (R4) is a sequence in return order, a dict by name of some or all, or the array of a
    single output: row-major, writable, apart from all other arrays, and returned as it is. A call
    that is refused has written nothing to the outputs, but for an AccessError: then the interpreter
    has touched no array of the caller's, and the elements that compiled code has left in the
    outputs are unspecified (G7).

    The function is specialised at the first call for each set of shapes, strides, and values of
    those integer scalars that occur in subscripts, `where` or affine conditions; no other value
    compiles again. Any number of threads may call the function; it is pickled as its text. Raises
    InputError for arguments that do not fit, RangeError for sizes that do not, AccessError for
    reads that leave their tensor (G7), BackendError where the backend cannot compile.
    """

    program: Program
    """The checked program that is compiled, with the names, types and shapes of its tensors; its
    form may change from version to version."""

    options: Options
    """The options that the function is compiled with."""

    _gives_bits = False
    """Whether results of types that numpy does not have are bits where nobody has loaded ml_dtypes:
    of such a call, else, nothing is run."""

    check: bool
    """Whether compiled code checks reads and divisions that may fail (G7, Y4)."""

    __signature__ = PerInstance("_python_signature")
    _numba_type_ = PerInstance("_numba_type")

    def __init__(
        self,
        program: Program,
        backend: str,
        options: Options | None,
        check: bool | None,
        tuned: TunedOptions | None = None,
        dynamic: Dynamic = None,
    ) -> None:
        self.program = program
        self.__doc__ = program.source.text if program.span is None else program.span.text
        self.options = options or Options()
        self._backend: AnyBackend = registry.get(backend)
        self._kinds: frozenset[str] = frozenset()
        if isinstance(self._backend, GpuBackend):
            self._backend.check()
            self._kinds = self._backend.kinds
        self._requested_check = check
        self.check = self._backend.checks_by_default if check is None else check
        self._signature = signature_of(program)
        self._encoded = [n for n in program.outputs if not program.tensors[n].dtype.is_in_numpy]
        self._result_type = (
            result_type(program.name, program.outputs) if len(program.outputs) > 1 else None
        )
        self._dynamic = dynamic_sizes(program, dynamic)
        varying = None if self._dynamic is None else self._dynamic.to_value()
        self._how = how_compiled(self.backend, self.options, check, varying)
        self._specialiser = Specialiser(
            *(program, self._backend, self.options, self.check, check is None, tuned),
            None if self._dynamic is None else Templates(self._dynamic),
        )
        _FUNCTIONS[id(self)] = self
        hide_from_torch(Compiled.__call__)
        self._warned: set[tuple[Span | None, str]] = set()
        self._reported = self._told_copies = False
        self._last: Specialisation | None = None
        self._entry: Entry | None = None
        self._serve: Server | None = None  # of the entry: a call takes less time than by the entry
        self._inline_cache: CacheEntry | HostEntry | DeviceEntry | None = None
        self._framework_adapters: dict[str, Any] = {}
        self._dispatcher: Entry | None = None

    @property
    def backend(self) -> str:
        """The name of the backend."""
        return self._backend.name

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "_numba_type_"]

    def _numba_type(self) -> Any:
        """Numba asks a value that code of `@njit` names for its type, and tells users of a
        ValueError."""
        result = ", ".join(
            f"{field}='{parameter.dtype.name}[{', '.join([':'] * parameter.rank)}]'"
            if parameter.rank
            else f"{field}='{parameter.dtype.name}'"
            for field, parameter in zip(
                field_names(self.program.outputs), self._signature.outputs, strict=True
            )
        )
        names = ", ".join(field_names(self.program.outputs))
        raise ValueError(
            f"{self.__name__} is a function of tc, which code of @njit cannot call. Call it "
            "outside of @njit, on whole arrays, or leave compiled code for the call: "
            f"with numba.objmode({result}): {names} = {self._signature.call_text()}"
        )

    @property
    def text(self) -> str:
        """The text of the program, with all its defs."""
        return self.program.source.text

    @property
    def __name__(self) -> str:  # as functions have it
        return self.program.name

    @followed_by_torch
    def __call__(self, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        try:
            serve = self._serve
            if serve is not None and not named:
                results = serve(inputs, outputs)
                if results is not None:
                    return results
            few = len(inputs) != len(self._signature.inputs)
            if named or few or (len(inputs) == 1 and isinstance(inputs[0], _COLLECTIONS)):
                inputs = bind_call(self._signature, inputs, named)
            return self._call(inputs, outputs)
        except TCError as error:  # as `ends_at_caller`, in less time
            __tracebackhide__ = True
            error._without_own_frames()
            raise error

    def _call(self, inputs: tuple[Any, ...], outputs: Any, *, numbers: bool = False) -> Any:
        """Calls the function with one value per input. With `numbers`, arrays of which their
        library asks for more than these are refused."""
        signature, devices = self._signature, bool(self._kinds)
        refused = None
        try:
            views, family, like, sizes_key = read_inputs(signature, inputs, devices=devices)
        except InputError as error:
            if error._framework_adapter is None or numbers:
                name_kind_of_others(error, signature, inputs)
                name_order(error, signature, inputs)
                raise
            refused = error.with_traceback(None)  # frames would keep the arrays
            refused.__context__ = None
        if refused is not None:  # outside of `except`: an error of the adapter is alone
            return load(str(refused._framework_adapter)).call(self, inputs, outputs, refused)
        mark = None if family.mark is None else family.mark(self.program.name)
        if mark is None:
            return self._run(inputs, outputs, views, family, like, sizes_key)
        with mark:
            return self._run(inputs, outputs, views, family, like, sizes_key)

    def _run(
        self,
        inputs: tuple[Any, ...],
        outputs: Any,
        views: list[Any],
        family: Family,
        like: Any,
        sizes_key: Any,
    ) -> Any:
        """The results of a call whose inputs have been read."""
        signature, kinds, on = self._signature, self._kinds, None
        devices = bool(kinds)
        given = targets = _NO_TARGETS
        if family is NUMPY and self._encoded and not self._gives_bits:
            self._check_users_have(outputs)
        if outputs is not None:
            given = bind_outputs(signature, outputs)
            targets, family, like = view_outputs(
                signature, given, inputs, family, like, devices=devices
            )
        shapes = output_shapes(self.program, targets)
        key: Any = (sizes_key, *targets, *shapes.values())
        if kinds:
            place = common_place(signature, views, targets, kinds, self.backend, family)
            if place is not None:
                on = self._on(place, family.name)
            key = (on, *key)
        special = self._specialiser.find(key)
        if special is None:
            arrays = dict(zip(self.program.inputs, views, strict=True))
            sizes = replace(sizes_of_arrays(self.program, arrays), outputs=shapes)
            try:
                special = self._make(key, sizes, frozenset(targets), on)
            except InputError as error:  # sizes that do not agree
                name_order(error, signature, inputs)
                raise
        if targets:
            check_outputs(signature, targets, special.shaped.shapes, views, family)
            if family.touch is not None:
                for array in given.values():
                    family.touch(array)
        if special.warnings or special.fault:
            self._warn(special.warnings)
            self._report(special)
        if devices and on is None:
            self._tell_copies(special)
        results: list[Any]
        if on is not None:
            results = run_on_device(special, signature, views, targets, family, like)
        else:
            results = run_specialised(
                special, views, targets, alignment=family.alignment, threads=_threads(special)
            )
        if self._may_be_next(special, targets):
            self._install_inline_cache_for(special, inputs, views, given, targets, family, on)
        if given or self._encoded or family is not NUMPY:
            wrap = family.wrap if on is None else _as_is
            results = [
                given[name] if name in given else wrap(result, like)
                for name, result in zip(self.program.outputs, results, strict=True)
            ]
        return results[0] if self._result_type is None else self._result_type(*results)

    def _check_users_have(self, outputs: Any) -> None:
        """BackendError for results that numpy has no arrays for; such arrays cannot be passed."""
        given = {} if outputs is None else bind_outputs(self._signature, outputs)
        for name in self._encoded:
            if name not in given:
                check_users_have(name, self.program.tensors[name].dtype, self.program.name)

    def _install_inline_cache(self, cache: CacheEntry | HostEntry | DeviceEntry | None) -> None:
        """Calls are served by `cache` from here on, or by none; where there is a dispatcher, it
        still comes first."""
        self._inline_cache = cache
        if self._dispatcher is None:
            self._install(cache)

    def _install_dispatcher(self, dispatcher: Entry) -> None:
        """Calls ask `dispatcher` first from here on; the dispatcher asks `_inline_cache` where a
        call wants nothing but numbers."""
        self._dispatcher = dispatcher
        self._install(dispatcher)

    def _install(self, entry: Entry | None) -> None:
        self._entry = entry
        self._serve = None if entry is None else entry.serve

    @ends_at_caller
    def infer(self, /, *inputs_or_sizes: Any, **named: Any) -> dict[str, TensorInfo]:
        """Shape and dtype of each output by name, without running or compiling anything.

        Takes inputs, or sizes as in `f.infer(N=3)`; see `tc.emit` for all ways to say them.
        """
        sizes = self._sizes(inputs_or_sizes, named)
        shaped = shape_program(self.program, sizes, self._specialiser.request(sizes, frozenset()))
        found = spaces(shaped, self.program.outputs)
        return {name: TensorInfo(shape, user_dtype(dtype)) for name, shape, dtype in found}

    @ends_at_caller
    def prepare(self, /, *inputs_or_sizes: Any, **named: Any) -> None:
        """Compiles ahead of calls with these inputs or sizes, row-major where no array is given;
        for calls with `outputs=` and for calls without. A range in the place of a dynamic size, as
        `N=range(2, 4097)`, makes the code that serves all of it."""
        for chosen in spread(named):
            sizes = self._sizes(inputs_or_sizes, chosen)
            if not self.program.needs_initial:
                self._specialised(sizes, ())
            self._specialised(sizes, self.program.outputs)
        templates = self._specialiser.templates
        if templates is not None and any(isinstance(each, range) for each in named.values()):
            templates.is_prepared = True

    @ends_at_caller
    def time(
        self, /, *inputs: Any, outputs: Any = None, seconds: float = 0.5, **named: Any
    ) -> CallTime:
        """The time of a call with these inputs once the function is compiled, measured for
        `seconds`. `outputs` are those of a call, and are written to; without `outputs`, each call
        makes its own.

        >>> import numpy as np
        >>> import tc
        >>> f = tc.compile("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
        >>> f.time(np.ones(1000, np.float32), seconds=0.01).seconds < 1
        True
        """
        return time_of(lambda: self(*inputs, outputs=outputs, **named), seconds)

    @ends_at_caller
    def source(self, /, *inputs_or_sizes: Any, **named: Any) -> str:
        """The code of a call with these inputs, in the language of the backend."""
        sizes = self._sizes(inputs_or_sizes, named)
        needed = self.program.needs_initial
        special = self._specialised(sizes, tuple(n for n in self.program.outputs if n in needed))
        if special.runner is None:
            raise runs_text(self.backend)
        return ShownText(special.runner.source, LANGUAGES.get(self.backend, "text"))

    def _compiled_alike(self, program: Program) -> Compiled:
        """The function of another program, with the backend and the options of this function, but
        for a plan: a plan is for the loops of one program."""
        options = replace(self.options, plan=None)
        dynamic = None if self._dynamic is None else inherited(self._dynamic, program)
        own = (self._requested_check, self._specialiser.tuned, dynamic)
        return Compiled(program, self.backend, options, *own)

    @ends_at_caller
    def explain(self, /, *inputs_or_sizes: Any, outputs: Any = None, **named: Any) -> Explanation:
        """An explanation of the program for these inputs or sizes, from ranges to code: `print`
        shows the ranges and a summary, `.stages` has a text of every stage. `outputs` are those
        that a call is going to pass, as arrays or shapes.
        """
        planned = PlannedOutputs.of(self.program, outputs)
        sizes = planned.sizes(self.program, self._sizes(inputs_or_sizes, named))
        if not isinstance(self._backend, Backend):
            request = self._specialiser.request(sizes, frozenset(planned.targets))
            shaped = shape_program(self.program, sizes, request)
            planned.check(shaped.shapes)
            return Explanation(shaped)
        stages = trace(
            self.program.source,
            self.program.name,
            lambda _: sizes,
            self._backend,
            self.options,
            check=self.check,
            check_places=self._requested_check is None,
            make_with=self._specialiser.with_tuned_plan,
            dynamic=None if self._dynamic is None else self._dynamic.asked,
            given=planned.targets,
        )
        planned.check(stages.shaped.shapes)
        return Explanation(stages.shaped, stages)

    def __repr__(self) -> str:
        inputs = ", ".join(p.text for p in self._signature.inputs)
        outputs = ", ".join(self.program.outputs)
        how = f"backend {self.backend}"
        if self._dynamic is not None:
            how += f", {self._dynamic}"
        return f"<tc {self.program.name}({inputs}) -> ({outputs}), {how}>"

    def __deepcopy__(self, _: Any = None) -> Compiled:  # as functions of Python
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.program.source
        text = (source.text, source.name, self.program.name)
        own = (self.backend, self.options, self._requested_check, self._specialiser.tuned)
        dynamic = None if self._dynamic is None else self._dynamic.asked
        return rebuild, (*text, *own, dynamic)

    def _python_signature(self) -> Any:
        return python_signature(self._signature)

    def _sizes(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> CallSizes:
        return resolve_sizes(self.program, as_collection(self._signature, inputs, named))

    def _specialised(self, sizes: CallSizes, outputs: tuple[str, ...] = ()) -> Specialisation:
        """What runs for inputs of these sizes, and these outputs passed; compiled if need be."""
        key: Any = (specialisation_key(self.program, sizes), *outputs, *sizes.outputs.values())
        on = None
        if self._kinds:
            if sizes.place is not None and sizes.place.kind in self._kinds:
                on = self._on(sizes.place, sizes.library)
            key = (on, *key)
        special = self._specialiser.find(key) or self._make(key, sizes, frozenset(outputs), on)
        self._report(special)
        return special

    def _on(self, place: DeviceLocation, library: str | None) -> DeviceRequest:
        return DeviceRequest(place, library if self.options.match_library else None)

    def _make(
        self,
        key: Hashable,
        sizes: CallSizes,
        given: frozenset[str],
        on: DeviceRequest | None = None,
    ) -> Specialisation:
        check_initial(self.program, given)
        return self._specialiser.make(key, sizes, given, on)

    def _may_be_next(self, special: Specialisation, targets: Mapping[str, Any]) -> bool:
        """After a call: whether the next may be served as this one, as this one was called as the
        one before, and its outputs were all given or all new."""
        again, self._last = self._last is special, special
        return again and (not targets or len(targets) == len(self.program.outputs))

    def _install_inline_cache_for(
        self,
        special: Specialisation,
        inputs: tuple[Any, ...],
        views: list[Any],
        given: Mapping[str, Any],
        targets: Mapping[str, Any],
        family: Family,
        on: DeviceRequest | None,
    ) -> None:
        """Later calls with arrays like these are served by the inline cache of their family: that
        of numpy, of other libraries in the processor's memory, or of devices."""
        if self.program.static_scalars and (on is not None or family is not NUMPY):
            return
        names = self.program.outputs if targets else ()
        outputs, wanted = [given[n] for n in names], [targets[n] for n in names]
        current, threads = self._inline_cache, _threads(special)
        made: CacheEntry | HostEntry | DeviceEntry | None
        if on is not None:
            if is_entry_of(special, current, views, family, given=bool(targets)):
                return
            made = new_device_entry(
                *(special, self._signature, inputs, views, outputs, wanted),
                *(family, self._result_type),
            )
        elif family is NUMPY:
            arrays = [
                view if isinstance(value, NUMBERS) else value
                for view, value in zip(views, inputs, strict=True)
            ]
            if not all(map(_is_view, views, arrays)):  # a copy
                return
            if type(current) is CacheEntry and current.expects(special, arrays, outputs):
                return
            made = new_entry(special, self._signature, arrays, outputs, self._result_type, threads)
        elif family.layout_check is not None and not self._kinds:
            if type(current) is HostEntry and current.expects(special, inputs, outputs):
                return
            made = new_host_entry(
                *(special, self._signature, inputs, views, outputs, wanted),
                *(family, self._result_type, threads),
            )
        else:
            return
        self._install_inline_cache(made)
        if _threads(special) != threads:  # another thread has called `tc.set_threads` meanwhile
            self._install_inline_cache(None)

    def _warn(self, warnings: Iterable[ProgramWarning]) -> None:
        """Issues each warning once for its place, whatever sizes the warning names."""
        for warning in warnings:
            place = warning.span, _NUMBER.sub("", warning.message)
            if place not in self._warned:
                self._warned.add(place)
                issue_warnings((warning,))

    def _tell_copies(self, special: Specialisation) -> None:
        """Warns, once for a function, of the cost of arrays that are not on the device that uses
        them."""
        runner = special.runner
        if self._told_copies or not isinstance(runner, CopyingKernel):
            return
        copies = runner.copied
        if copies is None:
            return
        self._told_copies = True
        names = (*self.program.inputs, *self.program.outputs)
        name = next((n for n in names if self.program.tensors[n].rank), names[0])
        warning = ProgramWarning(
            "",
            f"{self.program.name} is called with arrays in the memory of the processor: each call "
            f"copies {copies.there} bytes to {copies.device} and {copies.back} bytes back, and "
            "waits for that",
            repair=f"pass arrays that are there, such as {copies.move.format(name=name)}",
        )
        issue_warnings((warning,))

    def _report(self, special: Specialisation) -> None:
        """A fault of tc, once for a function: the same one may be met at many sizes."""
        if special.fault is not None and not self._reported:
            self._reported = True
            issue_warnings((special.fault,))


def _threads(special: Specialisation) -> int | None:
    """The most that a call may use."""
    return special.request.options.threads or get_threads()


def _is_view(view: Any, array: Any) -> bool:
    """Whether a view that numbers are read of is the array itself, or its bits."""
    return view is array or (view.dtype in ENCODED and address(view) == address(array))


def _as_is(array: Any, _like: Any) -> Any:
    return array


def runs_text(backend: str, *, lacks: str = "code to show") -> BackendError:
    return BackendError(
        f"the backend {backend!r} runs the text itself: it has no {lacks}",
        repair='backend="c"',
    )


def rebuild(
    text: str,
    name: str,
    entry: str,
    backend: str,
    options: Options,
    check: bool | None,
    tuned: TunedOptions | None = None,
    dynamic: Dynamic = None,
) -> Compiled:
    """The function of pickled values; the warnings of its text were issued where the function was
    made first."""
    program = check_module(parse_source(Source(text, name)), entry)
    return Compiled(program, backend, options, check, tuned, dynamic)


_NUMBER = re.compile(r"\d+")


def issue_warnings(found: Iterable[ProgramWarning]) -> None:
    """Issues the warnings of a program as Python warnings at the line that called tc."""
    for warning in found:
        warn(warning.text)
