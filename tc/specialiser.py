"""The making of specialisations: a program compiled for one set of sizes, layouts and outputs."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tc.backends.base import AnyBackend, Backend, GpuBackend, TemplateBackend
from tc.backends.interpret import InterpretBackend
from tc.backends.library import BACKENDS as LIBRARY_BACKENDS
from tc.backends.library import (
    LIBRARY_TERMS,
    DeviceLibraryKernel,
    LibraryKernel,
    device_library_kernel,
    library_kernel,
    match_contraction,
)
from tc.device import Device
from tc.errors import TCError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.options import Options
from tc.pipeline import MakeWith, StageResult, at_place, compile_for, element_strides, shape_program
from tc.process.uninterrupted import load, uninterrupted
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.device_frames import DeviceFrames
from tc.runtime.fallback import Request, compile_or_fall_back
from tc.runtime.loaded import CompiledKernel
from tc.runtime.sizes import CallSizes
from tc.runtime.specialisation import Specialisation, Temporaries, spaces, start_warnings
from tc.semantics.program import Program, ShapedProgram
from tc.semantics.selected_sums import comparison_warnings
from tc.stored_texts import stored_text
from tc.templates import Templates
from tc.tuning.lookup import TunedOptions, is_on, is_tuned, with_tuned_plan

MAX_SPECIALISATIONS = 256
"""The number of specialisations of a function that are kept, those used last."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a call asks of a device: `place` is where its arrays lie, `library` the library that may
    compute there in place of a kernel, None where none may."""

    place: DeviceLocation
    library: str | None


_LOG = logging.getLogger("tc")


@dataclass(eq=False)
class Specialiser:
    """Makes the specialisations of one function, and keeps them by their keys in `made`, those
    used last at the end; any number of threads may ask."""

    program: Program
    backend: AnyBackend
    options: Options
    check: bool
    check_places: bool
    tuned: TunedOptions | None = None
    templates: Templates | None = None
    made: OrderedDict[Hashable, Specialisation] = field(default_factory=OrderedDict)
    building: Any = field(default_factory=threading.RLock)
    tuning: Any = field(default_factory=threading.RLock)

    def find(self, key: Hashable) -> Specialisation | None:
        """The specialisation of this key; None where none was made, or where it is forgotten."""
        special = self.made.get(key)
        if special is not None:
            with contextlib.suppress(KeyError):  # it may just have gone
                self.made.move_to_end(key)
        return special

    def make(
        self,
        key: Hashable,
        sizes: CallSizes,
        given: frozenset[str],
        on: DeviceRequest | None = None,
    ) -> Specialisation:
        """The specialisation for these sizes, of inputs that were checked, the outputs that a
        caller has given, and the device that has the arrays, None for the processor. RangeError for
        sizes that do not fit, BackendError."""

        def make() -> Specialisation:
            # one thread compiles; the others find what it made
            with self.building:
                special = self.made.get(key)
                if special is None:
                    self.made[key] = special = self._specialise(sizes, given, on)
                    while len(self.made) > MAX_SPECIALISATIONS:
                        self.made.popitem(last=False)
                return special

        if self.tuned is not None:
            with self.tuning:  # one thread searches
                if key not in self.made:
                    self._search(self.tuned, sizes, given, on)
        return uninterrupted(make)

    @property
    def with_tuned_plan(self) -> MakeWith:
        """The function that makes a result with the stored plan of a request, if there is one."""
        return partial(with_tuned_plan, database=self.tuned.database if self.tuned else None)

    def _search(
        self, tuned: TunedOptions, sizes: CallSizes, given: frozenset[str], on: DeviceRequest | None
    ) -> None:
        """Searches for a plan, unless a search for just such a call has ended. Where there can be
        no search, the call goes on without."""
        backend = self.backend
        if not isinstance(backend, Backend) or not is_on():
            return
        backend = at_place(backend, None if on is None else on.place)
        request = self.request(sizes, given)
        shaped = shape_program(self.program, sizes, request)
        if is_tuned(request, shaped, backend.device(), tuned.database):
            return
        problem = load("tc.tuning.problem").Problem
        found = problem.of(self.program, sizes, backend, check=self.check, given=given)
        try:
            result = tuned.search_for(found, backend)
        except TCError as error:  # as where there is one plan only
            _LOG.info("%s is not tuned: %s", self.program.name, error.cause)
            return
        if result.interrupted:
            raise KeyboardInterrupt

    def request(self, sizes: CallSizes, given: frozenset[str]) -> Request:
        how = (self.backend.name, self.options, self.check)
        return Request(self.program, sizes, given, *how, check_places=self.check_places)

    def after_fork_in_child(self) -> None:
        """A lock that another thread of the parent held is never released there."""
        self.building, self.tuning = threading.RLock(), threading.RLock()

    def _specialise(
        self, sizes: CallSizes, given: frozenset[str], on: DeviceRequest | None
    ) -> Specialisation:
        request, backend = self.request(sizes, given), self.backend
        if on is not None and isinstance(backend, Backend):
            backend = at_place(backend, on.place)
        shaped = shape_program(self.program, sizes, request)
        on_gpu = isinstance(backend, GpuBackend)
        comparisons = () if on_gpu else comparison_warnings(shaped, check=request.check)
        made: StageResult[Any] | None = None
        fault = None
        if isinstance(backend, Backend):
            made, fault = compile_or_fall_back(
                lambda how: self._made(backend, replace(request, options=how), shaped, on),
                request,
                can_interpret=on is None,
            )
        runner = None if made is None else made.value
        return Specialisation(
            request if made is None else replace(request, options=made.options),
            shaped,
            runner,
            InterpretBackend() if isinstance(backend, Backend) else backend,
            odd_strides(shaped, sizes),
            spaces(shaped, self.program.outputs),
            (*shaped.warnings, *start_warnings(shaped, given), *comparisons),
            _temporaries(runner),
            DeviceFrames(),
            fault,
            () if made is None else made.told,
        )

    def _made(
        self, backend: Backend, request: Request, shaped: ShapedProgram, on: DeviceRequest | None
    ) -> StageResult[Any]:
        """What is compiled for these options, or for a plan that was tuned with them."""

        def compile_with(options: Options) -> Any:
            return self._compile(backend, replace(request, options=options), shaped, on)

        return self.with_tuned_plan(compile_with, request, shaped, backend.device())

    def _compile(
        self, backend: Backend, request: Request, shaped: ShapedProgram, on: DeviceRequest | None
    ) -> Any:
        """A kernel that is loaded: a `CompiledKernel`, on a device a `DeviceKernel` or a
        `DeviceComputation`."""
        start = time.perf_counter()
        strides = element_strides(shaped, request.sizes)
        found: Any = None
        if request.options.match_library:
            found = _by_library(backend, request, shaped, strides, on)
        if found is None:
            device = backend.device()
            if (template := self._by_template(backend, request, strides, device)) is not None:
                return template
            text = stored_text(
                request, shaped, strides, backend, device,
                lambda: compile_for(request, shaped, backend, device)[1],
            )  # fmt: skip
            found = self._find(text.kernel, place_of(backend)) or backend.load(text)
        shapes = request.sizes.shapes.items()
        _LOG.info(
            "%s is ready for %s after %.0f ms (backend %s)",
            self.program.name,
            ", ".join(f"{name} {shape}" for name, shape in shapes) or "no inputs",
            1000 * (time.perf_counter() - start),
            backend.name,
        )
        return found

    def _by_template(
        self,
        backend: Backend,
        request: Request,
        strides: Mapping[str, tuple[int, ...]],
        device: Device | Gpu,
    ) -> CompiledKernel | None:
        """Code for many sizes that serves those of a request, where sizes are dynamic: in the
        processor's memory, for arrays that are row-major."""
        if self.templates is None or strides or not isinstance(backend, TemplateBackend):
            return None
        if request.sizes.outputs:  # whose shapes say more than the sizes
            return None
        return self.templates.find(request, backend, device, self.with_tuned_plan)

    def _find(self, kernel: Kernel, place: DeviceLocation | None) -> CompiledKernel | None:
        """A kernel that was compiled before at this place and does the same: that a caller passes
        an output often changes nothing."""
        wanted = replace(kernel, initial=frozenset())
        runners = [s.runner for s in tuple(self.made.values()) if s.runner is not None]
        here = (r for r in runners if getattr(r, "place", None) == place)
        return next((r for r in here if replace(r.kernel, initial=frozenset()) == wanted), None)


def _by_library(
    backend: Backend,
    request: Request,
    shaped: ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    on: DeviceRequest | None,
) -> LibraryKernel | DeviceLibraryKernel | None:
    """A plain contraction as a call of a library, where there is one that computes here."""
    contraction = match_contraction(shaped, request.given)
    if contraction is None:
        return None
    if on is not None and on.library in LIBRARY_TERMS:
        where = (on.library, on.place)
        return device_library_kernel(contraction, shaped, strides, request.given, *where)
    if on is None and backend.name in LIBRARY_BACKENDS:
        return library_kernel(contraction, shaped, strides, request.given)
    return None


def _temporaries(runner: CompiledKernel | None) -> Temporaries:
    if runner is None:
        return Temporaries.of(())
    spare = getattr(runner, "temporaries", None)  # of kernels that keep it for several sizes
    return Temporaries.of(runner.kernel.arguments, runner.kernel.sizes, spare)


def place_of(backend: Backend) -> DeviceLocation | None:
    """Where what it loads expects its arrays."""
    return backend.place if isinstance(backend, GpuBackend) else None


def odd_strides(shaped: ShapedProgram, sizes: CallSizes) -> tuple[int, ...]:
    """The places of inputs with strides that are no multiple of their elements."""
    program = shaped.program
    return tuple(
        place
        for place, name in enumerate(program.inputs)
        if any(s % program.tensors[name].dtype.bytes for s in sizes.strides.get(name, ()))
    )
