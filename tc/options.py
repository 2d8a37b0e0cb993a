"""How a program is compiled: frozen values that can be compared, stored and read back.

Every field may be left to tc (None, or the default): it then chooses by the shape of the program.
`PRESETS` names common choices. Options are checked when they are made, and against the processor or
GPU that they are for when they are used (`check_options`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from tc.device import Device
from tc.errors import BackendError
from tc.gpu import MULTIPLYING_THREADS, Gpu
from tc.plan import AXES, MAX_ACTION_NUMBER, Plan, coerced, shown
from tc.wording import closest

FUSIONS = ("auto", "max", "min", "preserve3coincident", "isl")
VECTOR_BITS = (0, 128, 256, 512)


def _refuse(cause: str, repair: str | None) -> None:
    raise BackendError(cause, repair=repair)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a name; None where none is."""
    names = list(known)
    inside = [n for n in names if n in name.split("_")]
    return inside[0] if inside else closest(name, names)


_Kind = TypeVar("_Kind", bound=type)


def _names_checked(kind: _Kind) -> _Kind:
    """The class, whose keywords are refused by name where there are none such."""
    plain: Any = vars(kind)["__init__"]

    @functools.wraps(plain)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        names = [f.name for f in dataclasses.fields(kind)]
        for name in given:
            if name not in names:
                near = _nearest(name, names)
                repair = near and f"{kind.__name__}({near}=...)"
                cause = f"{kind.__name__} has no option {name!r}; it has {', '.join(names)}"
                _refuse(cause, repair)
        plain(self, *args, **given)

    setattr(kind, "__init__", checked)  # noqa: B010  # mypy allows no assignment to it
    return kind


def _check_count(owner: str, name: str, value: object, least: int = 1) -> None:
    if value is not None and (type(value) is not int or value < least):
        _refuse(
            f"{name}={value!r}: it is an integer of at least {least}, or None",
            f"{owner}({name}={least})",
        )


def _check_flag(owner: str, name: str, value: object) -> None:
    if value is not None and type(value) is not bool:
        _refuse(f"{name}={value!r}: it is True, False or None", f"{owner}({name}=True)")


@_names_checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """How statements are fused (Vasilache et al. 2018, section 5.2), and for how long isl may
    think about it.

    `fusion`: "max" fuses neighbours that share any loop, "preserve3coincident" those that keep
    three parallel loops, "min" only the statements that write one tensor; "isl" leaves it to isl's
    own scheduler, for at most `seconds`. "auto" is "max" where the operands of what is fused fit
    into the cache, else "min". `apart` names statements ("S1") that share no loops with what stands
    before them; with "isl" it has no effect. `rewrite`: sums of products may be factored, long
    reductions split, and adjacent dimensions joined (R5). `factor`: all sums of products for which
    an order takes fewer operations are factored, or none; `split`: likewise reductions that can be
    split; None leaves it to tc.

    >>> import tc
    >>> tc.ScheduleOptions(fusion="min").fusion
    'min'
    """

    fusion: str = "auto"
    apart: tuple[str, ...] = ()
    rewrite: bool = True
    factor: bool | None = None
    split: bool | None = None
    seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.fusion not in FUSIONS:
            names = ", ".join(map(repr, FUSIONS))
            _refuse(f"fusion={self.fusion!r}: there are {names}", 'ScheduleOptions(fusion="auto")')
        apart: object = self.apart
        if not isinstance(apart, list | tuple) or not all(isinstance(x, str) for x in apart):
            _refuse(
                f"apart={apart!r}: it is a list of names of statements",
                'ScheduleOptions(apart=("S1",))',
            )
        object.__setattr__(self, "apart", tuple(self.apart))
        for name in ("rewrite", "factor", "split"):
            _check_flag("ScheduleOptions", name, getattr(self, name))
        seconds: object = self.seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            _refuse(f"seconds={seconds!r}: it is a positive number", "ScheduleOptions(seconds=5.0)")


@_names_checked
@dataclass(frozen=True, slots=True, kw_only=True)
class MappingOptions:
    """How loops become vectors, registers and threads; None leaves a choice to tc.

    `vector_bits`: width of vectors; 0 for none. `rows`, `vectors`: the register tile, rows times
    vectors accumulators. `reduction_tile`: steps of a reduction between loads and stores of its
    accumulators. `pack`: operands may be packed. `unroll`: the most statements that unrolling may
    make of a region. `parallel`: loops may be shared among threads.

    >>> import tc
    >>> tc.MappingOptions(rows=8, vectors=3).rows
    8
    """

    vector_bits: int | None = None
    rows: int | None = None
    vectors: int | None = None
    reduction_tile: int | None = None
    pack: bool | None = None
    unroll: int = 4096
    parallel: bool = True

    def __post_init__(self) -> None:
        if self.vector_bits is not None and self.vector_bits not in VECTOR_BITS:
            _refuse(
                f"vector_bits={self.vector_bits!r}: there are 0, 128, 256 and 512",
                "MappingOptions(vector_bits=256)",
            )
        for name in ("rows", "vectors", "reduction_tile"):
            _check_count("MappingOptions", name, getattr(self, name))
        unroll: object = self.unroll
        if unroll is None:
            _refuse("unroll=None: it is an integer of at least 1", "MappingOptions(unroll=256)")
        _check_count("MappingOptions", "unroll", unroll)
        _check_flag("MappingOptions", "pack", self.pack)
        _check_flag("MappingOptions", "parallel", self.parallel)


@_names_checked
@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """How loops become blocks and threads of a GPU; None leaves a choice to tc.

    Lists are outermost first. `tile`: sizes of the tiles of the outermost parallel loops, then of a
    reduction's in them; loops beyond it are in one tile. `blocks`: how many may share each of the
    outermost loops over tiles; `threads`: each of the innermost loops inside. The last of at most
    three such loops is along x; of fewer loops than entries, the last of `blocks` and the first of
    `threads` are not needed. Where a loop has more iterations than blocks or threads, each block or
    thread runs several iterations; blocks and threads beyond the iterations are not launched.
    `shared`, `private`: tiles of tensors may be promoted to shared memory, and to registers.
    `unroll`: the most statements that unrolling may make of a kernel; with `unroll_copies`, copies
    to shared memory are unrolled, too. `single_kernel`: a program is one launch, in which all
    blocks wait for each other where they must, or an error where they cannot. `tf32`: factors of
    products of floats may be rounded to tf32, 10 bits of mantissa in place of 23, so that tensor
    cores add up their products; `tc.error_bound` then needs these options. An error where there are
    no tensor cores.

    >>> import tc
    >>> tc.GpuOptions(tile=[4, 32], threads=[1, 32]).threads
    (1, 32)
    """

    tile: tuple[int, ...] | None = None
    blocks: tuple[int, ...] | None = None
    threads: tuple[int, ...] | None = None
    shared: bool | None = None
    private: bool | None = None
    unroll: int | None = None
    unroll_copies: bool | None = None
    single_kernel: bool = False
    tf32: bool = False

    def __post_init__(self) -> None:
        for name, most in (("tile", None), ("blocks", len(AXES)), ("threads", len(AXES))):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, value := tuple(value))
            if value is not None:
                _check_sizes(name, value, most)
        for name in ("shared", "private", "unroll_copies"):
            _check_flag("GpuOptions", name, getattr(self, name))
        _check_count("GpuOptions", "unroll", self.unroll)
        for name in ("single_kernel", "tf32"):
            value = getattr(self, name)
            if type(value) is not bool:
                _refuse(f"{name}={value!r}: it is True or False", f"GpuOptions({name}=True)")


def _check_sizes(name: str, value: object, most: int | None) -> None:
    """Raises BackendError for a value that is no list of sizes, or a list of more than `most`
    sizes."""
    if not isinstance(value, tuple):
        _refuse(
            f"{name}={shown(value)}: it is a list of integers, outermost first, or None",
            f"GpuOptions({name}=({_mended(value)},))",
        )
        return
    cause = None
    if not value:
        cause = f"{name}=(): it has a size for at least one loop"
    elif most is not None and len(value) > most:
        cause = f"{name}={shown(value)} are {len(value)} sizes, but there are {most} axes"
    elif not all(type(size) is int and 1 <= size <= MAX_ACTION_NUMBER for size in value):
        cause = f"{name}={shown(value)}: its sizes are integers from 1 to {MAX_ACTION_NUMBER}"
    if cause is not None:
        mended = tuple(map(_mended, value[-(most or len(value)) :])) or None
        _refuse(cause, f"GpuOptions({name}={mended!r})")


def _mended(size: object) -> int:
    """The size that is nearest to this."""
    found = coerced(size, "int") if type(size) is float else size
    return min(max(found, 1), MAX_ACTION_NUMBER) if type(found) is int else 1


@_names_checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `tc.compile`, `tc.define` and `tc.emit`.

    `schedule` says how statements are fused. `mapping` and `threads` are for processors and are
    ignored for GPUs, `gpu` is for GPUs and is ignored for processors. `threads` is the largest
    number of threads that a call may use; None leaves the number to the backend.
    `match_library`: calls of a program that is one plain contraction of float or double tensors,
    `C(...) +=! A(...) * B(...)` over whole dimensions, are left to numpy's matmul, with the threads
    that its BLAS chooses, on a GPU to that of torch or CuPy; all else is compiled as ever. `plan`
    has the actions on some or all parts of a program, in place of what tc would choose for these
    (see `tc.plan`); the other options hold as ever, and whether the plan can be done is seen at the
    sizes of a call. The reference interpreter runs the text and takes no notice of options. Raises
    BackendError for values that make no sense.

    >>> import tc
    >>> tc.Options(threads=2).threads
    2
    >>> options = tc.Options(threads=2, mapping=tc.MappingOptions(rows=4))
    >>> tc.Options.from_json(options.to_json()) == options
    True
    """

    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    mapping: MappingOptions = field(default_factory=MappingOptions)
    gpu: GpuOptions = field(default_factory=GpuOptions)
    threads: int | None = None
    match_library: bool = False
    plan: Plan | None = None

    def __post_init__(self) -> None:
        for name, kind in _PARTS.items():
            value: object = getattr(self, name)
            if not isinstance(value, kind):
                _refuse(
                    f"{name}= is a tc.{kind.__name__}, and not of type {type(value).__name__}",
                    f"Options({name}=tc.{kind.__name__}())",
                )
        threads: object = self.threads
        if threads is not None and (type(threads) is not int or threads < 1):
            _refuse(
                f"threads={threads!r}: the number of threads is an integer of at least 1, or None",
                "Options(threads=1)",
            )
        match: object = self.match_library
        if type(match) is not bool:
            _refuse(f"match_library={match!r}: it is True or False", "Options(match_library=False)")
        _check_plan(self.plan, self.match_library)

    @classmethod
    def preset(cls, name: str) -> Options:
        """The preset of a name (`PRESETS`); BackendError for an unknown one.

        >>> import tc
        >>> tc.Options.preset("naive").mapping.vector_bits
        0
        """
        if name not in PRESETS:
            names, near = ", ".join(map(repr, PRESETS)), _nearest(str(name), PRESETS)
            repair = near and f"Options.preset({near!r})"
            _refuse(f"no preset {name!r}; there are {names}", repair)
        return PRESETS[name]

    def to_json(self) -> str:
        """The options as a JSON object, to be read by `from_json`."""
        return json.dumps(self.to_value())

    def to_value(self) -> dict[str, Any]:
        """The options as a value of JSON: objects, numbers, names."""
        plan = None if self.plan is None else json.loads(self.plan.to_json())
        return {**dataclasses.asdict(dataclasses.replace(self, plan=None)), "plan": plan}

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Options written by `to_json`; BackendError for anything else. What is left out has its
        default."""
        read = dict(_known(cls, options_json(text, repair="{}"), text))
        for name, kind in _PARTS.items():
            if name in read:
                read[name] = kind(**_known(kind, read[name], json.dumps(read[name])))
        if read.get("plan") is not None:
            read["plan"] = Plan.from_json(json.dumps(read["plan"]))
        return cls(**read)


def how_compiled(backend: str, options: Options, check: bool | None, dynamic: object = None) -> str:
    """What a program is compiled with, as text: a JSON object without what is left to tc; `dynamic`
    is a value of JSON (`tc.dynamic.DynamicSizes.to_value`).

    >>> import tc
    >>> how_compiled("c", tc.Options(), None), how_compiled("c", tc.Options(), False)
    ('{"backend": "c"}', '{"backend": "c", "check": false}')
    """
    value: dict[str, Any] = {"backend": backend}
    if check is not None:
        value["check"] = bool(check)
    if options != Options():
        value["options"] = options.to_value()
    if dynamic is not None:
        value["dynamic"] = dynamic
    return json.dumps(value)


def options_json(text: str, *, repair: str) -> Any:
    """The value of a text of JSON; BackendError for other texts.

    >>> options_json('{"threads": 2}', repair="{}")
    {'threads': 2}
    """
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "they are nested too deeply" if isinstance(error, RecursionError) else error
        raise BackendError(f"the options are no JSON: {reason}", repair=repair) from error


_PARTS: Mapping[str, Any] = {
    "schedule": ScheduleOptions,
    "mapping": MappingOptions,
    "gpu": GpuOptions,
}


def options_from(given: object) -> Options:
    """The options that a caller gave: none are the default ones. BackendError for anything else.

    >>> options_from(None) == Options()
    True
    """
    if given is None:
        return Options()
    if isinstance(given, Options):
        return given
    parts = {**_PARTS, "plan": Plan}
    part = next((name for name, kind in parts.items() if isinstance(given, kind)), None)
    repair = "tc.Options(threads=1)" if part is None else f"tc.Options({part}=options)"
    if isinstance(given, str):
        near = _nearest(given, PRESETS)
        repair = f"tc.Options.preset({near!r})" if near else "tc.Options.preset(...), with one of "
        repair += "" if near else ", ".join(map(repr, PRESETS))
    raise BackendError(
        f"options= is a tc.Options, and not of type {type(given).__name__}", repair=repair
    )


def _check_plan(plan: object, match_library: bool) -> None:
    if plan is not None and not isinstance(plan, Plan):
        text = "text" if isinstance(plan, str) else "json.dumps(value)"
        if isinstance(plan, os.PathLike):
            text = "path.read_text()"
        _refuse(
            f"plan= is a tc.Plan, and not of type {type(plan).__name__}",
            f"Options(plan=tc.Plan.from_json({text}))",
        )
    if isinstance(plan, Plan) and plan.parts and match_library:
        _refuse(
            "a call that is left to a library has no loops for a plan",
            "Options(plan=plan, match_library=False)",
        )


def _known(kind: Any, values: object, text: str) -> Mapping[str, Any]:
    names = [f.name for f in fields(kind)]
    if not isinstance(values, dict) or not set(values) <= set(names):
        raise BackendError(
            f"the options {text!r} are not an object with the keys {', '.join(names)}",
            repair=json.dumps(
                Options().to_value() if kind is Options else dataclasses.asdict(kind())
            ),
        )
    return values


def check_options(options: Options, device: Device | Gpu) -> None:
    """BackendError if a processor or a GPU cannot do what the options for its kind ask for.

    >>> check_options(Options(), Device())
    >>> check_options(Options(mapping=MappingOptions(rows=99)), Gpu())
    """
    if isinstance(device, Gpu):
        _check_launch(options.gpu, device)
    else:
        _check_mapping(options.mapping, device)


def _check_mapping(mapping: MappingOptions, device: Device) -> None:
    bits = device.vector_bits if mapping.vector_bits is None else mapping.vector_bits
    if bits > device.vector_bits:
        _refuse(
            f"vector_bits={bits}, but the processor has vectors of {device.vector_bits} bits",
            f"MappingOptions(vector_bits={device.vector_bits})",
        )
    rows, vectors = mapping.rows or 1, mapping.vectors or 1
    most = device.vector_registers - 2
    if rows * vectors > most:
        _refuse(
            f"rows={rows} times vectors={vectors} are {rows * vectors} accumulators, but of "
            f"{device.vector_registers} vector registers {most} can be accumulators",
            f"MappingOptions(rows={max(1, most // vectors)}, vectors={min(vectors, most)})",
        )


def _check_launch(options: GpuOptions, gpu: Gpu) -> None:
    """What a launch asks for fits into a grid, and into a block of it; products are rounded where
    there are tensor cores."""
    if options.tf32 and not gpu.multiplies_matrices:
        reason = "no tensor cores" if not gpu.tensor_cores else f"warps of {gpu.warp} threads"
        _refuse(
            f"tf32=True, but the GPU has {reason}: factors are rounded for tensor cores that "
            f"multiply for warps of {MULTIPLYING_THREADS} threads, as NVIDIA has since sm_80",
            "GpuOptions(tf32=False)",
        )
    for name, sizes, limits, most in (
        ("threads", options.threads, gpu.thread_limits, gpu.threads),
        ("blocks", options.blocks, gpu.grid_limits, math.prod(gpu.grid_limits)),
    ):
        if sizes is None:
            continue
        repair = f"GpuOptions({name}={fitting(sizes, limits, most)!r})"
        for axis, size, limit in zip(AXES, reversed(sizes), limits, strict=False):
            if size > limit:
                _refuse(
                    f"{name}={sizes!r} are {size} along {axis}, but the GPU has at most {limit} "
                    "there",
                    repair,
                )
        if (count := math.prod(sizes)) > most:
            _refuse(
                f"{name}={sizes!r} are {count} {name} in all, but the GPU has at most {most}",
                repair,
            )


def fitting(sizes: Sequence[int], limits: Sequence[int], most: int) -> tuple[int, ...]:
    """The sizes within the limits along x, y and z and, in all, within the most; those along x
    lose least.

    >>> fitting((2, 64, 32), (1024, 1024, 64), 1024), fitting((8, 2048), (1024, 1024, 64), 1024)
    ((1, 32, 32), (1, 1024))
    """
    found: list[int] = []
    for size, limit in zip(reversed(sizes), limits, strict=False):
        found.append(min(size, limit, most))
        most //= found[-1]
    return tuple(reversed(found))


_NAIVE = Options(
    schedule=ScheduleOptions(fusion="min", rewrite=False),
    mapping=MappingOptions(vector_bits=0, rows=1, vectors=1, pack=False),
    gpu=GpuOptions(blocks=(1,), threads=(1,), shared=False, private=False, unroll=1),
)
PRESETS: Mapping[str, Options] = {
    "naive": _NAIVE,
    "pointwise": Options(
        schedule=ScheduleOptions(fusion="max"), mapping=MappingOptions(rows=1, pack=False)
    ),
    "contraction": Options(
        schedule=ScheduleOptions(fusion="min"), mapping=MappingOptions(pack=True)
    ),
    "convolution": Options(
        schedule=ScheduleOptions(fusion="preserve3coincident"), mapping=MappingOptions(pack=True)
    ),
    "mlp": Options(schedule=ScheduleOptions(fusion="max"), mapping=MappingOptions(pack=True)),
}
"""Named choices: plain loops in text order; streaming; one large contraction; convolutions with
what follows them; chains of small contractions, a few rows at a time."""
