"""One case, run and judged: what a worker process does.

`tc` is imported when it is needed, from whatever tree the process was started for.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.dtypes import DTYPES
from tc.function import Compiled
from tc.runtime.arguments import dtype_text
from tc.runtime.arrays.encoded_arrays import as_bits, numbers
from tests.fuzz import arrays, brute
from tests.fuzz.model import ENTRY, Case, dtype_of
from tests.support.bounds import difference, is_within

Array = np.ndarray[Any, Any]
RUN_TIME = ("G7", "Y4")  # of two failures in one program either may come first
LITERAL = "the model"
LOST_DEVICE, DRIVER_ERROR = "lost device", "CUDA_ERROR_"
"""What CUDA's driver says while it runs a kernel: nothing may run any more in that process."""
POISONS = (0xFF, 0x7F, 0x80)  # NaN; and of other numbers, the largest and the least
WIDE: Mapping[str, Any] = {
    "vector_bits": 512, "unit_bits": 0, "fma": True, "exponents": True,
    "l1": 1 << 15, "l2": 1 << 20, "l3": 1 << 23,
}  # fmt: skip
"""A processor with AVX-512, for what is compiled and not run."""


@dataclass(frozen=True)
class Run:
    """What a run needs beside the text: arrays as they were drawn, options and a processor."""

    text: str
    inputs: Mapping[str, dict[str, Any]]
    outputs: Mapping[str, Any]
    seed: int
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    edge: str = "ends"
    compile_for: str = ""


@dataclass(frozen=True)
class Verdict:
    """`kind`: "ran", "refused", or how it failed; `detail` for people."""

    kind: str
    detail: str = ""
    rule: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("ran", "refused", "skipped")


def run_of(case: Case) -> Run:
    inputs = {
        p.name: {
            "type": dtype_of(p.type),
            "shape": list(case.shape(p)),
            "values": p.values,
            "axes": list(p.axes),
            "steps": list(p.steps),
        }
        for p in case.params
    }
    outputs = {
        "names": list(case.outputs.names),
        "form": case.outputs.form,
        "values": case.outputs.values,
    }
    return Run(
        case.text, inputs, outputs, case.seed, case.backend, case.options, case.device,
        case.edge, case.compile_for,
    )  # fmt: skip


def judge(case: Case) -> Verdict:
    """The verdict on a case, the check of the oracle included."""
    run = run_of(case)
    given = Arrays(run)
    expected = expectation(run, given)
    if isinstance(expected, Refusal):
        if case.refused == "" and expected.rule[:1] in "GPR" and expected.rule not in RUN_TIME:
            return Verdict(
                "oracle", f"{LITERAL} finds nothing wrong: {expected.text}", expected.rule
            )
        if case.refused and expected.rule != case.refused:
            return Verdict("oracle", f"broken: {case.refused}; {expected.text}", expected.rule)
    elif case.refused:
        return Verdict("oracle", f"accepted by interpret, though it breaks {case.refused}")
    elif case.ranges and case.refused == "":
        wrong = _unlike_the_model(case, given, expected)
        if wrong:
            return Verdict("oracle", wrong)
    return compare(run, given, expected)


def judge_run(run: Run) -> Verdict:
    given = Arrays(run)
    return compare(run, given, expectation(run, given))


@dataclass(frozen=True)
class Refusal:
    kind: str
    rule: str
    text: str


Compiled._gives_bits = True  # as ml_dtypes may not be there


class Arrays:
    """The inputs and the outputs' first contents of a run, the same every time they are made."""

    def __init__(self, run: Run) -> None:
        self.run = run
        rng = np.random.default_rng(run.seed)
        self.values: dict[str, Array] = {}
        for name, spec in run.inputs.items():
            values = arrays.fill(spec["values"], spec["shape"], spec["type"], rng)
            self.values[name] = np.asarray(values, DTYPES[spec["type"]].numpy)

    def guarded(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The inputs in their layouts, and the memory of each."""
        views, memories = {}, {}
        for name, spec in self.run.inputs.items():
            views[name], memories[name] = arrays.laid_out(
                self.values[name], spec["axes"], spec["steps"], self.run.edge
            )
        return views, memories

    def outputs(self, spaces: Mapping[str, tuple[Any, Any]]) -> dict[str, Array]:
        """Arrays that the caller passes, for outputs of these shapes and types."""
        spec = self.run.outputs
        rng = np.random.default_rng(self.run.seed + 1)
        targets = {}
        for name in spec["names"]:
            shape, dtype = spaces[name]
            array = arrays.guarded(shape, dtype, self.run.edge)
            array[...] = arrays.fill(spec["values"], shape, dtype_text(dtype), rng)
            targets[name] = array
        return targets

    def form(self, targets: dict[str, Array], order: list[str]) -> Any:
        if not targets:
            return None
        form = self.run.outputs["form"]
        if form == "array":
            return next(iter(targets.values()))
        return [targets[name] for name in order] if form == "sequence" else targets


@dataclass
class Expected:
    results: dict[str, Array]
    bounds: dict[str, Array]
    spaces: dict[str, tuple[Any, Any]]


def expectation(run: Run, given: Arrays) -> Expected | Refusal:
    """What the interpreter says, and how far from it a result may be."""
    import tc

    with quiet():
        try:
            function = tc.compile(run.text, entry=ENTRY, backend="interpret")
            shapes = function.infer(**given.values)
            spaces = {
                name: (info.shape, as_bits(np.empty(0, info.dtype)).dtype)
                for name, info in shapes.items()
            }
            order = list(spaces)
            first = {n: a.copy() for n, a in given.outputs(spaces).items()}
            copies = {n: a.copy() for n, a in first.items()}
            text, values = run.text, given.values
            passed, again = given.form(copies, order), given.form(first, order)
            results = tc.interpret(text, values, entry=ENTRY, outputs=passed)
            how = options_of(run, tc) if "arch" in run.device or run.backend == "cuda" else None
            bounds = tc.error_bound(text, values, entry=ENTRY, outputs=again, options=how)
        except tc.TCError as error:
            return Refusal(type(error).__name__, error.rule or "", str(error))
    wanted, limits = as_tuple(results), as_tuple(bounds)
    return Expected(
        dict(zip(order, wanted, strict=True)), dict(zip(order, limits, strict=True)), spaces
    )


def compare(run: Run, given: Arrays, expected: Expected | Refusal) -> Verdict:
    """Runs the case on its backend, between forbidden pages, and compares."""
    import tc

    views, memories = given.guarded()
    before = {name: memory.tobytes() for name, memory in memories.items()}
    spaces = expected.spaces if isinstance(expected, Expected) else None
    targets = given.outputs(spaces) if spaces else {}
    try:
        with quiet(), _on_device_of(run):
            if run.compile_for:
                options = options_of(run, tc)
                tc.compile(run.text, entry=ENTRY, options=options).prepare(**views)
                return Verdict("ran", "compiled")
            check = True if isinstance(expected, Refusal) else None
            results = call(run, views, given.form(targets, list(spaces or ())), check)
    except tc.InternalError as error:
        return Verdict("internal", str(error))
    except tc.TCError as error:
        if spaces is None and error.rule == "R4" and run.outputs["names"]:
            return Verdict("refused", "no result tells the shapes of what had to be passed", "R4")
        return compare_refusals(
            Refusal(type(error).__name__, error.rule or "", str(error)), expected
        )
    except Exception as error:  # whatever is not a TCError is a finding
        return Verdict("internal", f"{type(error).__name__}: {error}")
    if isinstance(expected, Refusal):
        return Verdict("accepted", f"interpret: {expected.text}", expected.rule)
    for name, memory in memories.items():
        if memory.tobytes() != before[name]:
            return Verdict("input written", name)
    for name, want in expected.results.items():
        wrong = difference(results[name], want, expected.bounds[name])
        if wrong:
            return Verdict("wrong", f"{name}: {wrong}")
        passed = targets.get(name) if run.backend != "evaluate" else None
        if passed is not None and passed.size and not np.shares_memory(results[name], passed):
            return Verdict("wrong", f"{name}: not the array that was passed")
    return Verdict("ran")


def compare_refusals(found: Refusal, expected: Expected | Refusal) -> Verdict:
    if found.kind == "BackendError":
        return Verdict(LOST_DEVICE if DRIVER_ERROR in found.text else "skipped", found.text)
    if isinstance(expected, Expected):
        return Verdict("falsely refused", found.text, found.rule)
    same = found.rule == expected.rule or {found.rule, expected.rule} <= set(RUN_TIME)
    if not same or found.kind != expected.kind:
        return Verdict("other refusal", f"{found.text}\ninterpret: {expected.text}", found.rule)
    return Verdict("refused", found.text, found.rule)


def call(
    run: Run, views: Mapping[str, Any], outputs: Any, check: bool | None = None
) -> dict[str, Any]:
    import tc

    if run.backend == "evaluate":
        return evaluated(run, views, outputs)
    options = options_of(run, tc)
    function = tc.compile(run.text, entry=ENTRY, backend=run.backend, options=options, check=check)
    results = as_tuple(function(**views, outputs=outputs))
    return dict(zip(function.program.outputs, results, strict=True))


def evaluated(run: Run, views: Mapping[str, Any], outputs: Any) -> dict[str, Any]:
    """The lowered kernel on the machine that checks every access and race (`kernel.evaluate`)."""
    import tc
    from tc.kernel.evaluate import evaluate
    from tc.options import check_options
    from tests.support.lowering import lower
    from tests.support.pipeline import as_arrays, as_buffers, checked, shaped

    program = checked(run.text, ENTRY)
    held = {n: np.array(a, order="C") for n, a in as_arrays(program, views).items()}
    shape = shaped(program, held)
    given = (
        {}
        if outputs is None
        else outputs
        if isinstance(outputs, dict)
        else dict(
            zip(program.outputs, outputs if isinstance(outputs, list) else [outputs], strict=True)
        )
    )
    for name in program.outputs:
        dtype = program.tensors[name].dtype.numpy
        fresh = arrays.guarded(shape.shapes[name], dtype, "ends")
        held[name] = given[name].copy() if name in given else fresh
    device, options = device_of(run), options_of(run, tc)
    check_options(options, device)
    missing = set(program.needs_initial) - set(given)
    if missing:
        function = tc.compile(run.text, entry=ENTRY, backend="interpret")
        function(**views, outputs=outputs)  # raises what every call does
    kernel = lower(shape, {}, initial=frozenset(given), check=True, options=options, device=device)
    if evaluate(kernel, as_buffers(kernel, held)) is not None:
        raise tc.AccessError("the kernel recorded a failure", rule="G7")
    return {name: held[name] for name in program.outputs}


def device_of(run: Run) -> Any:
    """The processor of a run; or the GPU, which has an `arch`."""
    import tc

    kind = tc.Gpu if "arch" in run.device else tc.Device
    return kind(**{name: value for name, value in run.device.items() if name != "tune"})


def options_of(run: Run, tc: Any) -> Any:
    if "preset" in run.options:
        return tc.Options.preset(run.options["preset"])
    schedule = dict(run.options.get("schedule", {}))
    if schedule.get("fusion") == "isl":
        schedule["seconds"] = 2.0
    return tc.Options.from_json(json.dumps({**run.options, "schedule": schedule}))


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            yield


def _on_device_of(run: Run) -> AbstractContextManager[None]:
    poison = POISONS[run.seed % len(POISONS)]
    return on_device(WIDE if run.compile_for else run.device, run.backend, poison)


@contextmanager
def on_device(fields: Mapping[str, Any], backend: str, poison: int) -> Iterator[None]:
    """For the time being, tc takes this machine for another one (with no instructions that it has
    not), and what tc allocates lies between forbidden pages, full of a byte."""
    from tc import device
    from tc.backends.clike import backend as c
    from tests.support.poison import poisoned

    def empty(shape: tuple[int, ...], dtype: Any, alignment: int = 1) -> Array:
        return arrays.guarded(shape, dtype, "ends", max(alignment, np.dtype(dtype).itemsize))

    if backend == "opencl":
        from tests.support.opencl import name_the_processor

        name_the_processor()
    kept = c.FLAGS
    if "tune" in fields and platform.machine() == "x86_64":
        c.FLAGS = (*kept, f"-mtune={fields['tune']}")  # type: ignore[assignment]
    try:
        with poisoned(poison, empty):
            if backend == "opencl" and "arch" in fields:
                with _patched_gpu(fields):
                    yield
            elif "vector_bits" in fields and backend != "evaluate":
                with _patched(device, fields):
                    yield
            else:
                yield
    finally:
        c.FLAGS = kept


@contextmanager
def _patched_gpu(fields: Mapping[str, Any]) -> Iterator[None]:
    import tc
    from tc.backends.opencl_device import OpenCLDevice

    kept = OpenCLDevice.limits
    gpu = tc.Gpu(**{**fields, "cooperative": False})
    OpenCLDevice.limits = lambda _device: gpu  # type: ignore[method-assign]
    try:
        yield
    finally:
        OpenCLDevice.limits = kept  # type: ignore[method-assign]


@contextmanager
def _patched(device: Any, fields: Mapping[str, Any]) -> Iterator[None]:
    there = (True, True) if fields is WIDE else (device.has_fma(), device.has_exponents())
    new = {
        "vector_bits": lambda: fields["vector_bits"],
        "unit_bits": lambda: fields["unit_bits"],
        "_cache_bytes": lambda level, _default: fields[f"l{level}"],
        "has_fma": lambda: there[0] and fields["fma"],
        "has_exponents": lambda: there[1] and fields["exponents"],
    }
    kept = {name: getattr(device, name) for name in new}
    try:
        for name, value in new.items():
            setattr(device, name, value)
        device.host.cache_clear()
        yield
    finally:
        for name, value in kept.items():
            setattr(device, name, value)
        device.host.cache_clear()


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


def _unlike_the_model(case: Case, given: Arrays, expected: Expected) -> str:
    """Where the interpreter is not what the program says when it is read literally."""
    for name, (shape, _) in expected.spaces.items():
        if tuple(shape) != tuple(case.shapes[name]):
            return f"{name} has shape {tuple(shape)}, and by {LITERAL} {case.shapes[name]}"
    ranges = [{v: range(a, b) for v, a, b in span} for span in case.ranges]
    first = given.outputs(expected.spaces)
    first = {name: numbers(array) for name, array in first.items()}
    inputs = {name: numbers(array) for name, array in given.values.items()}
    if any(np.isnan(a).any() for a in first.values() if a.dtype.kind == "f"):
        return ""
    try:
        with np.errstate(all="ignore"):
            values = brute.evaluate(case, ranges, case.shapes, inputs, first)
    except (brute.Unknown, brute.Beyond, RecursionError):
        return ""
    # the bound is to the interpreter; each statement has also rounded to the type of its tensor
    types = [DTYPES[spec["type"]] for spec in given.run.inputs.values()]
    eps = max([t.format.epsilon for t in types if t.is_float], default=1e-6)
    for name, value in values.items():
        result = as_bits(expected.results[name])
        want, dtype = numbers(result).astype(np.float64), DTYPES[dtype_text(result.dtype)]
        if dtype.is_float:  # what is finite here may be too large there
            most = dtype.format.largest
            value = np.where(np.abs(value) > most, np.copysign(np.inf, value), value)
        largest = float(np.max(np.abs(value), initial=1.0, where=np.isfinite(value)))
        bound = 2 * expected.bounds[name] + 4 * len(case.statements) * eps * largest
        with np.errstate(all="ignore"):
            bad = ~is_within(want, value, bound)
        if bad.any():
            at = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
            return f"{name}{list(at)} is {want[at]!r}, read literally {value[at]!r}"
    return ""
