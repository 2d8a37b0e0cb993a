"""The process that has the GPU: it answers lines of JSON on its input by lines on its output.

It is gone with whatever a kernel does to the device, and is started anew for the next one.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

import numpy as np

import tc
from bench.cpu_kernels.kernel import Kernel
from bench.cpu_measure import first_reason
from bench.gpu_device import GpuDevice, Timed
from bench.gpu_kernels import KERNELS, PAPER, bounds_of
from bench.gpu_limits import measure as measure_limits
from bench.peers.peer import Run
from bench.peers.worker import Note, one_line, own_answers, serve
from tc.backends import nvrtc
from tc.backends.cuda_driver import opened_driver

PEERS = ("tc", "paper", "torch", "compile")
"""tc with default options and with the paper's, torch as it is and by torch.compile."""

TRIALS = 20
LEAST_BOUND = 1e-300

GpuForm = Callable[[], Run]


class GpuCase:
    """A kernel's arrays on the device, what is expected, and how far from that a result may be."""

    def __init__(self, kernel: Kernel, device: GpuDevice) -> None:
        case = kernel.case()
        self.kernel = kernel
        self.device = device
        self.expected = [device.tensor(x) for x in map(_float64, case.expected())]
        self.bounds = [device.tensor(x) for x in map(_float64, bounds_of(case))]
        self.inputs = [device.tensor(x) for x in case.inputs]
        self.outputs = [device.tensor(x) for x in case.outputs]
        self._initial = [None if x is None else device.tensor(x) for x in case.initial]

    def reset(self) -> None:
        """Outputs as before the first run: the initial values, or nothing that could pass."""
        for output, initial in zip(self.outputs, self._initial, strict=True):
            if initial is None:
                output.fill_(float("nan"))
            else:
                output.copy_(initial)
        self.device.poison(self.outputs)

    def error(self, run: Run) -> float:
        """The largest error of any output in units of its bound; NaN where one is NaN."""
        self.reset()
        results = run()
        if results is None:
            results = self.outputs
        values = results if isinstance(results, (tuple, list)) else (results,)
        each = zip(values, self.expected, self.bounds, strict=True)
        return reduce(worse, (self._error(*of) for of in each))

    def _error(self, value: Any, expected: Any, bound: Any) -> float:
        if value.numel() != expected.numel() or value.dtype != self.outputs[0].dtype:
            return float("inf")
        apart = (value.double().reshape(expected.shape) - expected).abs()
        return float((apart / bound.clamp_min(LEAST_BOUND)).max().item())


def worse(first: float, second: float) -> float:
    """
    >>> worse(0.5, 2.0), worse(float("nan"), 2.0), worse(2.0, float("nan"))
    (2.0, nan, nan)
    """
    return max(first, second, key=lambda error: (math.isnan(error), error))


def _float64(array: Any) -> Any:
    """Row-major, for torch."""
    return np.ascontiguousarray(array, np.float64).reshape(np.shape(array))


def tc_form(case: GpuCase, options: tc.Options | None, backend: str) -> GpuForm:
    def form() -> Run:
        function = tc.compile(case.kernel.text, backend=backend, options=options)
        inputs = case.inputs
        outputs: Any = case.outputs[0] if len(case.outputs) == 1 else case.outputs
        return lambda: function(*inputs, outputs=outputs)

    return form


def torch_forms(case: GpuCase, *, compiled: bool) -> dict[str, GpuForm]:
    """Those of `bench.cpu`, on the tensors of the case; expressions alone for torch.compile."""
    from bench.peers.torch_peer import EXPRESSIONS, IN_PLACE

    kernel, torch = case.kernel, case.device.torch
    inputs = [*case.outputs, *case.inputs] if kernel.updates else case.inputs

    def expression(function: Callable[..., Any]) -> GpuForm:
        def form() -> Run:
            called = function
            if compiled:
                torch.compiler.reset()
                called = torch.compile(function, fullgraph=True, dynamic=False)
            return lambda: called(*inputs)

        return form

    def in_place(function: Callable[..., Any]) -> GpuForm:
        return lambda: lambda: function(case.inputs, case.outputs)

    forms = {name: expression(f) for name, f in EXPRESSIONS[kernel.family].items()}
    if not compiled:
        forms |= {name: in_place(f) for name, f in IN_PLACE[kernel.family].items()}
    return forms


def forms_of(peer: str, case: GpuCase, backend: str) -> dict[str, GpuForm]:
    match peer:
        case "tc":
            return {"defaults": tc_form(case, None, backend)}
        case "paper":
            options = PAPER.get(case.kernel.name, {})
            return {name: tc_form(case, each, backend) for name, each in options.items()}
        case "torch" | "compile":
            return torch_forms(case, compiled=peer == "compile")
    raise ValueError(f"no peer {peer!r}; there are {', '.join(PEERS)}")


@dataclass
class GpuTiming:
    """What one peer did with one kernel; `reason` says why there are no times.

    `events` are the device's, `clock` those of a call with its results. `first` is what the first
    run took, with all that was compiled for it. `error` is in units of the bound, the larger of
    those before and after timing. `failures` names the forms that could not be built or were wrong.
    """

    events: Timed | None = None
    clock: Timed | None = None
    form: str = ""
    first: float | None = None
    error: float | None = None
    reason: str = ""
    failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> GpuTiming:
        """From what `asdict` gives."""
        timed = {n: data[n] and Timed(**data[n]) for n in ("events", "clock")}
        return cls(**{**data, **timed})


@dataclass(frozen=True)
class RightForm:
    """A form that was built: the seconds of its first run, its error, and the seconds of a trial
    run."""

    run: Run
    first: float
    error: float
    trial: float


class GpuSession:
    """The device, and the kernel whose forms are being measured."""

    def __init__(self, device: GpuDevice, note: Note, backend: str = "cuda") -> None:
        self._device = device
        self._note = note
        self._backend = backend
        self._case: GpuCase | None = None

    def describe(self) -> Mapping[str, Any]:
        return {
            **self._device.describe(),
            "torch": self._device.torch.__version__,
            "nvrtc": nvrtc.version(),
            "tc_driver": opened_driver().driver.name,
        }

    def limits(self) -> Mapping[str, float]:
        return asdict(measure_limits(self._device))

    def measure(
        self, kernel: str, peer: str, skip: Sequence[str], runs: int, longest: float
    ) -> Mapping[str, Any]:
        """A `GpuTiming` of the fastest form that is right. Whoever asks is told of each form when
        its turn comes."""
        timing = GpuTiming()
        case = self._arrays(kernel)
        right = self._right_forms(case, peer, skip, timing.failures)
        timing.form = min(right, key=lambda name: right[name].trial, default="")
        if not timing.form:
            timing.reason = first_reason(timing.failures)
            return asdict(timing)
        chosen = right[timing.form]
        timing.first = chosen.first
        self._note(timing.form)
        timing.events = self._device.by_events(chosen.run, runs, longest)
        timing.clock = self._device.by_clock(chosen.run, runs, longest)
        timing.error = worse(chosen.error, case.error(chosen.run))
        if not timing.error <= 1:
            timing.events = timing.clock = None
            timing.reason = f"wrong after timing: {timing.error:.3g} times the bound"
        return asdict(timing)

    def _arrays(self, kernel: str) -> GpuCase:
        if self._case is None or self._case.kernel.name != kernel:
            self._case = None  # its memory is free before the next one's is taken
            self._note("")
            self._case = GpuCase(KERNELS[kernel], self._device)
        return self._case

    def _right_forms(
        self, case: GpuCase, peer: str, skip: Sequence[str], failures: dict[str, str]
    ) -> dict[str, RightForm]:
        """Each form is built, checked and tried; what fails is named with its reason."""
        right = {}
        for name, form in forms_of(peer, case, self._backend).items():
            if name in skip:
                continue
            self._note(name)
            try:
                found = self._tried(case, form)
            except Exception as failure:
                failures[name] = one_line(failure)
                self._device.wait()  # raises where the device is lost
                continue
            if found.error <= 1:
                right[name] = found
            else:
                failures[name] = f"wrong: {found.error:.3g} times the bound"
        return right

    def _tried(self, case: GpuCase, form: GpuForm) -> RightForm:
        case.reset()
        begin = time.perf_counter()
        run = form()
        run()
        self._device.wait()
        first, error = time.perf_counter() - begin, case.error(run)
        trial = self._device.by_events(run, TRIALS, 0.2).p50 if error <= 1 else 0.0
        return RightForm(run, first, error, trial)


def main() -> None:
    answer = own_answers()
    warnings.simplefilter("ignore")
    try:
        import torch

        device = GpuDevice(torch)
    except Exception as error:
        answer({"failed": one_line(error)})
        return
    session = GpuSession(device, lambda form: answer({"at": form}))
    answer({"done": {"version": f"tc {tc.__version__}", "tc": tc.__file__ or ""}})
    serve(session, sys.stdin, answer)


if __name__ == "__main__":
    main()
