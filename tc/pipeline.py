"""The stages from text to kernel, in order, one function each.

    Source --parse--> Module --check--> Program --infer_ranges--> ShapedProgram
        --lower--> Kernel --emit--> KernelText

`trace` runs them all and keeps every result with the time it took; what `lower` consists of, and
made, is in `tc.polyhedral.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tc.backends.base import Backend, GpuBackend, KernelText, TemplateBackend
from tc.device import Device
from tc.dynamic import (
    Dynamic,
    DynamicSizes,
    TrackedCall,
    dynamic_sizes,
    tracked_calls,
    values_of,
)
from tc.errors import BackendError, TCError
from tc.frontend.ast import Module
from tc.frontend.parser import parse
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.options import Options
from tc.plan import Plan
from tc.process.uninterrupted import load
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.fallback import Request, faults_reported, text_faults_reported
from tc.runtime.sizes import CallSizes
from tc.semantics.check.checker import check, check_all
from tc.semantics.program import Program, ShapedProgram
from tc.semantics.ranges.range_inference import infer_ranges
from tc.source import Source
from tc.stages import Stopwatch

if TYPE_CHECKING:
    from tc.polyhedral.lowering import Lowering
    from tc.polyhedral.target import Target

T = TypeVar("T")

_LOWERING = "tc.polyhedral.lowering"
"""The part that makes kernels, which is loaded once a kernel must be made: calls whose code is on
disk need none of it."""

_A_PROCESSOR = "device=tc.Device(vector_bits=256)"
_A_GPU = 'device=tc.Gpu.named("sm_80")'


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """A result of the stages and the options that it was made with. `told` are sentences on where
    the options come from, if not from the caller."""

    value: T
    options: Options
    told: tuple[str, ...] = ()


class MakeWith(Protocol):
    """Makes something with the options of a request, or with a plan that is known for it."""

    def __call__(
        self,
        make: Callable[[Options], T],
        request: Request,
        shaped: ShapedProgram,
        device: Device | Gpu,
    ) -> StageResult[T]: ...


def as_asked(
    make: Callable[[Options], T],
    request: Request,
    shaped: ShapedProgram,  # noqa: ARG001
    device: Device | Gpu,  # noqa: ARG001
) -> StageResult[T]:
    """What `make` makes with the options of the request."""
    return StageResult(make(request.options), request.options)


@dataclass(frozen=True)
class Trace:
    """What each stage made of a program for `device`, and the seconds that each took, by its name;
    `lowering` has the parts of `lower`; `told` says where the plan comes from. `call` has the
    tracked sizes, where the kernel is for many."""

    module: Module
    program: Program
    shaped: ShapedProgram
    lowering: Lowering
    text: KernelText
    options: Options
    device: Device | Gpu
    seconds: Mapping[str, float]
    told: tuple[str, ...] = ()
    call: TrackedCall | None = None

    @property
    def kernel(self) -> Kernel:
        return self.lowering.kernel


def parse_source(source: Source) -> Module:
    """The syntax tree of a text; ParseError."""
    with text_faults_reported(source):
        return parse(source)


def check_module(module: Module, entry: str | None) -> Program:
    """The program of one def, the only one if `entry` is None; CheckError."""
    with text_faults_reported(module.span.source):
        return check(module, entry)


def check_defs(module: Module) -> Mapping[str, Program]:
    """The programs of all defs by name, in text order; CheckError."""
    with text_faults_reported(module.span.source):
        return check_all(module)


def shape_program(
    program: Program, sizes: CallSizes, request: Request | None = None, *, warns: bool = True
) -> ShapedProgram:
    """Ranges and shapes for the sizes of a call; InputError, RangeError.

    `request` says what the shapes are wanted for; by default they are all that is. Without `warns`,
    nothing is asked of the sizes for the sake of warnings.
    """
    nothing: frozenset[str] = frozenset()
    request = request or Request(program, sizes, nothing, "interpret", Options(), check=True)
    with faults_reported(request, repair=None):
        return infer_ranges(program, sizes.shapes, sizes.scalars, sizes.outputs, warns=warns)


def target_of(device: Device | Gpu) -> Target:
    """The target of a device: this function alone knows which kinds of devices there are."""
    target: Target = (
        load("tc.polyhedral.gpu.gpu_target").gpu_target(device)
        if isinstance(device, Gpu)
        else load("tc.polyhedral.cpu.cpu_target").cpu_target(device)
    )
    return target


def device_for(backend: Backend, device: Device | Gpu | None) -> Device | Gpu:
    """The device that is asked for, by default the backend's own; BackendError for what is none,
    and for one of another kind."""
    for_gpus = isinstance(backend, GpuBackend)
    if device is not None and not isinstance(device, Device | Gpu):
        raise BackendError(
            f"device= is a tc.Device or a tc.Gpu, and not of type {type(device).__name__}",
            repair=_A_GPU if for_gpus else _A_PROCESSOR,
        )
    if isinstance(device, Gpu) and not for_gpus:
        raise BackendError(
            f"device= is a GPU, and backend {backend.name!r} is for processors",
            repair='backend="cuda"',
        )
    if isinstance(device, Device) and for_gpus:
        raise BackendError(
            f"device= is a processor, and backend {backend.name!r} is for GPUs",
            repair=_A_GPU,
        )
    return device or backend.device()


def at_place(backend: Backend, place: DeviceLocation | None) -> Backend:
    """The backend where arrays lie, if it can run there."""
    if place is not None and isinstance(backend, GpuBackend) and place.kind in backend.kinds:
        return backend.at(place)
    return backend


def lower_for(
    request: Request, shaped: ShapedProgram, target: Target, *, plan_is_own: bool = False
) -> Lowering:
    """The kernel of a program that was shaped for the sizes of a request, with the result of every
    stage; BackendError for options that the target cannot have."""
    made: Lowering = load(_LOWERING).trace_lowering(
        shaped,
        element_strides(shaped, request.sizes),
        target,
        initial=request.given,
        check=request.check,
        check_places=request.check_places,
        options=request.options,
        plan_is_own=plan_is_own,
    )
    return made


def compile_for(
    request: Request,
    shaped: ShapedProgram,
    backend: Backend,
    device: Device | Gpu,
    timed: Stopwatch | None = None,
) -> tuple[Lowering, KernelText]:
    """The kernel of `lower_for`, lowered for a device, and its text in the backend's language;
    `timed` notes the seconds of both stages."""
    timed = timed or Stopwatch()
    lowering = timed("lower", lambda: lower_for(request, shaped, target_of(device)))
    return lowering, timed("emit", lambda: _emitted(backend, lowering.kernel, request, device))


def _emitted(
    backend: Backend, kernel: Kernel, request: Request, device: Device | Gpu
) -> KernelText:
    if isinstance(backend, GpuBackend) and isinstance(device, Gpu):
        return backend.emit(kernel, request.options, device)
    return backend.emit(kernel, request.options)


def trace(
    source: Source,
    entry: str | None,
    resolve: Callable[[Program], CallSizes],
    backend: Backend,
    options: Options,
    *,
    check: bool,
    check_places: bool = False,
    device: Device | Gpu | None = None,
    make_with: MakeWith = as_asked,
    dynamic: Dynamic = None,
    given: Iterable[str] = (),
) -> Trace:
    """All stages for one set of sizes, which `resolve` finds once the program is known, and for a
    device, by default that of the arrays that were given, else the backend's. `given` are the
    outputs that a caller passes, besides those that the program needs. `make_with` may know a plan.
    With `dynamic` sizes the kernel is the one that serves sizes like these, if there is one."""
    timed = Stopwatch()
    module = timed("parse", lambda: parse_source(source))
    program = timed("check", lambda: check_module(module, entry))
    sizes = resolve(program)
    device = device_for(at_place(backend, sizes.place), device)
    initial = frozenset((*program.needs_initial, *given))
    how = (backend.name, options, check, device, check_places)
    request = Request(program, sizes, initial, *how)
    varying = dynamic_sizes(program, dynamic)
    if varying is not None and isinstance(backend, TemplateBackend):
        found = _traced_for_many(request, varying, module, backend, device, make_with)
        if found is not None:
            return found
    shaped = timed("infer_ranges", lambda: shape_program(program, sizes, request))

    def make(options: Options) -> tuple[Lowering, KernelText]:
        wanted = replace(request, options=options)
        return compile_for(wanted, shaped, backend, device, timed)

    with faults_reported(request):
        made = make_with(make, request, shaped, device)
    lowering, text = made.value
    return Trace(
        module, program, shaped, lowering, text, made.options, device, timed.seconds, made.told
    )


# --- kernels for many sizes -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan that was chosen at hints, and the options that it came of."""

    plan: Plan
    options: Options
    told: tuple[str, ...] = ()


def planned(
    call: TrackedCall, request: Request, device: Device | Gpu, make_with: MakeWith
) -> Planned:
    """The plan for the hints of a call, as for any call of these sizes."""
    at_hints = replace(request, sizes=call.sizes)
    shaped = shape_program(request.program, call.sizes, at_hints)

    def make(options: Options) -> Plan:
        plan: Plan = load(_LOWERING).plan_for(
            *(shaped, {}, target_of(device)),
            initial=request.given,
            check=request.check,
            options=options,
        )
        return plan

    made = make_with(make, at_hints, shaped, device)
    return Planned(Plan.from_json(str(made.value)), made.options, made.told)


def lower_tracked(
    call: TrackedCall, request: Request, made: Planned, device: Device | Gpu
) -> tuple[ShapedProgram, Lowering]:
    """The program, shaped for tracked sizes, and its kernel by a plan."""
    wanted = replace(request, sizes=call.tracked, options=replace(made.options, plan=made.plan))
    shaped = shape_program(request.program, call.tracked, wanted, warns=False)
    return shaped, lower_for(wanted, shaped, target_of(device), plan_is_own=True)


def _traced_for_many(
    request: Request,
    dynamic: DynamicSizes,
    module: Module,
    backend: Backend,
    device: Device | Gpu,
    make_with: MakeWith,
) -> Trace | None:
    """The trace of a kernel for sizes like those of a request, of one that does not serve these
    where there is no other; None where there is none."""
    values = values_of(request.program, request.sizes)
    if not dynamic.admits(values):
        return None
    found = None
    for call in tracked_calls(request.program, request.sizes, dynamic):
        timed = Stopwatch()
        try:
            made = timed("plan", partial(planned, call, request, device, make_with))
            lower = partial(lower_tracked, call, request, made, device)
            shaped, lowering = timed("lower", lower)
        except TCError:
            continue
        serves = call.serves(values)
        if serves or found is None or found[0].is_small:
            found = call, shaped, lowering, made, timed
        if serves:
            break
    if found is None:
        return None
    call, shaped, lowering, made, timed = found
    call.questions.closed = True
    text = timed("emit", partial(backend.emit, lowering.kernel, made.options))
    own = (lowering, text, made.options, device, timed.seconds, made.told, call)
    return Trace(module, request.program, shaped, *own)


def element_strides(shaped: ShapedProgram, sizes: CallSizes) -> dict[str, tuple[int, ...]]:
    """Strides in elements of the inputs that are not row-major.

    Along a dimension of at most one element any stride does, so it gets the row-major one: arrays
    that differ only there share their code. Byte strides that are no multiple of the element are
    left out: such arrays are copied before the call.
    """
    strides = {}
    for name, in_bytes in sizes.strides.items():
        size = shaped.program.tensors[name].dtype.bytes
        shape = shaped.shapes[name]
        if any(s % size for s in in_bytes) or 0 in shape:
            continue
        step, normal, elements = 1, [], []
        for extent, stride in zip(reversed(shape), reversed(in_bytes), strict=True):
            normal.append(step)
            elements.append(stride // size if extent > 1 else step)
            step *= extent
        if elements != normal:
            strides[name] = tuple(reversed(elements))
    return strides
