"""One verification: the cases in turn, what comes of each, and the smallest case that fails."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import AccessError, InputError, TCWarning
from tc.pipeline import shape_program
from tc.runtime.arguments import bind_call, read_inputs, signature_of
from tc.runtime.arrays.encoded_arrays import numbers
from tc.runtime.sizes import sizes_of_arrays
from tc.semantics.program import ShapedProgram
from tc.verification import probes, sizes
from tc.verification.cases import Case, all_cases, given_cases, layouts_for
from tc.verification.diagnosis import Failing, diagnosis
from tc.verification.expected import Difference, Expected
from tc.verification.kernel_call import RETURNS
from tc.verification.kernel_process import (
    Ended,
    Hung,
    KernelProcess,
    Outcome,
    Raised,
    Request,
    Returned,
)
from tc.verification.layouts import BEGINS, BROADCAST, ENDS, LAYOUTS, OFFSET, PLAIN
from tc.verification.task import Task
from tc.verification.verdict import Finding, Verdict, script_of

_LEAST_HANG_SECONDS = 3.0
_SHRINK_SHARE = 0.3  # of the seconds, for smaller inputs


@dataclass
class Session:
    """One verification."""

    task: Task
    compute: str | None
    isolate: bool
    seconds: float
    same_bits: bool
    calls: int = 0
    slowest: float = 0.0
    begin: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.process = KernelProcess(self.task.kernel, self.task.call, self.isolate)
        self.tried: dict[str, dict[str, None]] = {"sizes": {}, "inputs": {}, "arrays": {}}
        self.refused: dict[str, None] = {}
        self.not_tried: dict[str, None] = {}
        self.earlier: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self.other_results: dict[tuple[int, ...], tuple[Mapping[str, Array], tuple[Any, ...]]] = {}

    @property
    def left(self) -> float:
        return self.begin + self.seconds - time.monotonic()

    def verdict(self, given_sizes: object, inputs: object) -> Verdict:
        call = self.task.call
        layouts = layouts_for(call.library, call.form, call.device, self.isolate)
        self._note_layouts(layouts)
        finding = None
        for case in self._cases(given_sizes, inputs, layouts):
            if self.left <= 0:
                what = f"{case.probe.what} at {_sizes_text(case.sized.sizes)}, and what follows"
                self.not_tried[f"for want of time: {what}"] = None
                break
            finding = self._tried(case)
            if finding is not None:
                break
        if not self.calls:
            why = next((note for note in self.not_tried if "the text fails" in note), "")
            raise InputError(
                f"{self.task.program.name}: no inputs were found that fit the text; {why}",
                repair=f"inputs=[{', '.join(self.task.program.inputs)}]",
            )
        for note in self.process.notes:
            self.not_tried[note] = None
        if self.isolate and not self.process.is_isolated:
            self.not_tried["crashes and hangs, as the kernel ran in this process"] = None
        return Verdict(
            self.task.program.name,
            () if finding is None else (finding,),
            self.calls,
            time.monotonic() - self.begin,
            tuple(f"{kind}: {'; '.join(items)}" for kind, items in self.tried.items() if items),
            tuple(self.refused),
            tuple(self.not_tried),
        )

    def _note_layouts(self, layouts: tuple[str, ...]) -> None:
        for name, what in LAYOUTS.items():
            if name != PLAIN and name not in layouts:
                self.not_tried[what] = None
        if self.task.is_gradient:
            self.not_tried["ties, NaN and infinities: where gradients have corners"] = None

    def _cases(
        self, given_sizes: object, inputs: object, layouts: tuple[str, ...]
    ) -> Iterator[Case]:
        program = self.task.program
        smooth = self.task.is_gradient
        if inputs is None:
            choice = sizes.SizeChoice(program, given_sizes)
            self.choice: sizes.SizeChoice | None = choice
            return all_cases(choice, layouts, smooth)
        if given_sizes is not None:
            raise InputError("inputs say the sizes, which are given as well", repair="sizes=None")
        self.choice = None
        sized, arrays = self._given(inputs)
        return given_cases(sized, arrays, layouts, smooth)

    def _given(self, inputs: object) -> tuple[sizes.SizedProgram, dict[str, Array]]:
        """The inputs of the caller, as arrays of numpy, with the program at their sizes."""
        program = self.task.program
        signature = signature_of(program)
        named = dict(inputs) if isinstance(inputs, Mapping) else {}
        several = () if isinstance(inputs, Mapping) else inputs
        if not isinstance(several, Sequence):
            raise InputError(
                f"inputs={type(inputs).__name__}: inputs come as a list, a tuple or a dict by name",
                repair=f"inputs=[{', '.join(program.inputs)}]",
            )
        values = bind_call(signature, tuple(several), named)
        views, *_ = read_inputs(signature, values)
        arrays = {name: np.array(view) for name, view in zip(program.inputs, views, strict=True)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TCWarning)
            shaped = shape_program(program, sizes_of_arrays(program, arrays))
        own = {name: size for name, size in shaped.sizes.items() if "." not in name}
        return sizes.SizedProgram(own, shaped, sizes.GIVEN), arrays

    # --- one case ---------------------------------------------------------------------------------

    def _tried(self, case: Case) -> Finding | None:
        arrays = case.arrays()
        if arrays is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = Expected.of(case.sized.shaped, arrays, self.compute)
        except AccessError as error:
            if case.probe.kind == "given" and case.layout == PLAIN:
                raise
            if case.probe.kind == probes.INDICES or case.layout == BROADCAST:
                return None  # the text allows for no such integers
            found = self._with_zeros(case, error)
            if found is None:
                return None
            arrays, expected = found
        except MemoryError:
            self.not_tried[f"{_sizes_text(case.sized.sizes)}, for which memory is short"] = None
            return None
        outcome = self._run(case, arrays, expected, self._limit)
        if isinstance(outcome, Raised) and case.layout != PLAIN:
            plain = replace(case, layout=PLAIN)
            in_plain = self._run(plain, arrays, expected, self._limit)
            if isinstance(in_plain, Raised):  # so it is not for the layout
                case, outcome = plain, in_plain
        if outcome is None:
            return None
        wrong = self._judged(case, arrays, expected, outcome)
        if wrong is None:
            self.tried["sizes"][sizes.KINDS[case.sized.kind]] = None
            self.tried["inputs"][probes.KINDS.get(case.probe.kind, case.probe.what)] = None
            self.tried["arrays"][LAYOUTS[case.layout]] = None
            return None
        return self._shrunk(wrong, case, arrays)

    def _with_zeros(
        self, case: Case, error: AccessError
    ) -> tuple[dict[str, Array], Expected] | None:
        """Where places are computed in ways that nothing is known of: the integers are zeros."""
        made = case.arrays() or {}
        zeros = {
            name: np.zeros_like(a) if a.dtype.kind in "iu" and a.ndim else a
            for name, a in made.items()
        }
        try:
            return zeros, Expected.of(case.sized.shaped, zeros, self.compute)
        except (AccessError, MemoryError):
            if not any("the text fails" in note for note in self.not_tried):
                note = f"inputs for which the text fails, as {case.probe.what}: {error.cause}"
                self.not_tried[note] = None
            return None

    @property
    def _limit(self) -> float:
        """The seconds after which a call counts as one that hangs."""
        most = self.seconds if not self.calls else max(self.seconds / 2, 20 * self.slowest)
        return max(most, _LEAST_HANG_SECONDS)

    def _run(
        self,
        case: Case,
        arrays: Mapping[str, Array],
        expected: Expected,
        limit: float,
        only: str | None = None,
    ) -> Outcome | None:
        """What comes of a call; None where time is up and nothing else can be said."""
        outputs = {
            name: (value.shape, value.dtype)
            for name, value in zip(expected.names, expected.values, strict=True)
        }
        later = case.later_arrays(arrays)
        request = Request(
            dict(arrays), outputs, dict(case.sized.sizes), case.layout, case.repeats, only, later
        )
        is_first = not self.calls
        allowed = min(limit, max(self.left, 0.5))
        outcome = self.process.run(request, allowed)
        self.calls += case.repeats
        if isinstance(outcome, Returned):
            self.slowest = max(self.slowest, outcome.seconds)
        if isinstance(outcome, Hung) and allowed < limit and not is_first:
            what = f"{case.probe.what} at {_sizes_text(case.sized.sizes)}"
            self.not_tried[f"for want of time: {what}, which took {allowed:.1f} s"] = None
            return None
        return outcome

    def _judged(
        self, case: Case, arrays: Mapping[str, Array], expected: Expected, outcome: Outcome
    ) -> _Found | None:
        match outcome:
            case Raised(kind=kind, message=message, traceback=traceback):
                if not kind:
                    return _Found("no result", f"the kernel {message}")
                if case.may_be_refused:
                    sizes_ = _sizes_text(case.sized.sizes)
                    how = sizes_ if case.is_empty else LAYOUTS[case.layout]
                    line = (message.splitlines() or [""])[0][:120]
                    self.refused[f"{how}: {kind}: {line}"] = None
                    return None
                return _Found("raises", f"the kernel raises {kind}: {message}", traceback)
            case Ended(how=how, printed=printed):
                return _Found("ends", f"the kernel ends its process, {how}", printed)
            case Hung(seconds=seconds):
                return _Found("hangs", f"the kernel has not returned after {seconds:.1f} s")
        assert isinstance(outcome, Returned)
        return self._judged_results(case, arrays, expected, outcome)

    def _judged_results(
        self, case: Case, arrays: Mapping[str, Array], expected: Expected, outcome: Returned
    ) -> _Found | None:
        if outcome.changed:
            name = outcome.changed[0]
            return _Found("changes inputs", f"the kernel writes into its input {name}")
        if outcome.written_around:
            name = outcome.written_around[0]
            return _Found("writes around", f"the kernel writes outside of {name}")
        if outcome.overwrites is not None:
            name = expected.names[outcome.overwrites]
            cause = f"a call writes into {name}, the result of the call before"
            return _Found("overwrites a result", cause)
        difference = expected.difference(outcome.results)
        if difference is not None and case.is_empty and difference.is_nan:
            self.refused[f"{_sizes_text(case.sized.sizes)}: NaN, as of nothing"] = None
            return None
        if difference is not None:
            key = self._key(case)
            failing = Failing(
                case.sized.shaped,
                arrays,
                outcome.results,
                expected,
                difference,
                self.earlier.get(key),
                lambda other: self._confirms(case, other),
            )
            return _Found(difference.kind, difference.text, "", failing)
        for number, results in outcome.others:
            difference = expected.difference(results)
            if difference is not None:
                cause = f"in call {number + 1} with equal inputs, {difference.text}"
                return _Found("varies", cause, "", None, difference, expected)
            if self.same_bits:
                cause = f"call {number + 1} with equal inputs gives other bits than the first"
                return _Found("varies", cause)
        self.earlier[self._key(case)] = outcome.results
        return self._judged_later(case, case.later_arrays(arrays), outcome)

    def _judged_later(
        self, case: Case, arrays: Mapping[str, Array] | None, outcome: Returned
    ) -> _Found | None:
        """What is wrong of a call with the same arrays, which held other values."""
        if outcome.later is None or arrays is None:
            return None
        try:
            expected = Expected.of(case.sized.shaped, arrays, self.compute)
        except AccessError:
            return None
        difference = expected.difference(outcome.later)
        if difference is None:
            return None
        assert case.later is not None
        alone = replace(case, probe=case.later, later=None)
        again = self._again(alone, arrays, "value")
        if again is not None:  # wrong for these values, in whichever arrays
            return again
        cause = f"in a second call, in which the same arrays hold other values, {difference.text}"
        return _Found("varies", cause, "", None, difference, expected)

    def _confirms(self, case: Case, other: ShapedProgram) -> bool:
        """Whether another program gives what the kernel gives for other inputs of these sizes."""
        given = self.other_results.get(self._key(case))
        if given is None:
            probe = probes.real(31) if self.task.is_gradient else probes.whole(31)
            sure = Case(case.sized, probe, given=case.given)
            made = sure.arrays() or {}
            expected = Expected.of(case.sized.shaped, made, self.compute)
            outcome = self._run(sure, made, expected, max(1.0, 10 * self.slowest))
            if not isinstance(outcome, Returned):
                return False
            given = made, outcome.results
            self.other_results[self._key(case)] = given
        arrays, results = given
        return Expected.of(other, arrays, self.compute).difference(results) is None

    def _key(self, case: Case) -> tuple[int, ...]:
        return tuple(case.sized.sizes.values())

    # --- a finding --------------------------------------------------------------------------------

    def _shrunk(self, found: _Found, case: Case, arrays: Mapping[str, Array]) -> Finding:
        """The finding with the smallest sizes, and the simplest inputs, that are found in time."""
        end = time.monotonic() + max(min(_SHRINK_SHARE * self.seconds, self.left), 0.2)
        if found.kind not in ("hangs", "no result"):
            case, arrays, found = self._smaller(found, case, arrays, end)
            arrays, found = self._simpler(found, case, arrays, end)
        return self._told(found, case, arrays)

    def _again(self, case: Case, arrays: Mapping[str, Array] | None, kind: str) -> _Found | None:
        """What a call finds, if it is of the same kind."""
        if arrays is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = Expected.of(case.sized.shaped, arrays, self.compute)
        except (AccessError, MemoryError):
            return None
        earlier = dict(self.earlier)
        limit = max(1.0, 10 * self.slowest)
        found = self._run(case, arrays, expected, limit)
        result = None if found is None else self._judged(case, arrays, expected, found)
        self.earlier = earlier
        return result if result is not None and result.kind == kind else None

    def _smaller(
        self, found: _Found, case: Case, arrays: Mapping[str, Array], end: float
    ) -> tuple[Case, Mapping[str, Array], _Found]:
        is_smaller = self.choice is not None
        while is_smaller and self.choice is not None:
            is_smaller = False
            for sized in self.choice.smaller(case.sized.sizes):
                if time.monotonic() > end:
                    return case, arrays, found
                other = replace(case, sized=sized)
                made = other.arrays()
                again = self._again(other, made, found.kind)
                if again is not None and made is not None and _is_as_clear(found, again):
                    case, arrays, found, is_smaller = other, made, again, True
                    break
        return case, arrays, found

    def _simpler(
        self, found: _Found, case: Case, arrays: Mapping[str, Array], end: float
    ) -> tuple[Mapping[str, Array], _Found]:
        is_simpler = True
        while is_simpler:
            is_simpler = False
            for made in probes.simplified(arrays, case.sized.shaped):
                if time.monotonic() > end:
                    return arrays, found
                again = self._again(case, made, found.kind)
                if again is not None and again.diagnosis == found.diagnosis:
                    arrays, found, is_simpler = made, again, True
                    break
        return arrays, found

    def _told(self, found: _Found, case: Case, arrays: Mapping[str, Array]) -> Finding:
        told = ""
        if found.failing is not None:
            told = found.diagnosis
        elif found.kind == "ends" and case.layout in (ENDS, BEGINS):
            told = self._touched(case, arrays)
        if found.kind == "value" and self._varies(case, arrays):
            told = f"{told}; equal calls give other results" if told else "equal calls differ"
        difference = found.difference or (found.failing.difference if found.failing else None)
        expected = found.expected or (found.failing.expected if found.failing else None)
        got, wanted, bound = _first_wrong(difference, expected)
        return Finding(
            found.kind,
            found.cause,
            told,
            dict(case.sized.sizes),
            dict(arrays),
            LAYOUTS[case.layout],
            case.probe.what,
            found.traceback,
            got,
            wanted,
            bound,
            script_of(self.task.kernel_line, self.task.source.text, arrays, self._script_options),
        )

    @property
    def _script_options(self) -> dict[str, Any]:
        call = self.task.call
        options = {
            "entry": self.task.entry,
            "like": f"{call.library}:{call.device}" if call.device else call.library,
            "compute": self.compute,
            "gradient": self.task.is_gradient,
            "same_bits": self.same_bits,
        }
        return {name: value for name, value in options.items() if value}

    def _varies(self, case: Case, arrays: Mapping[str, Array]) -> bool:
        """Whether some of a few more calls with these inputs is right."""
        expected = Expected.of(case.sized.shaped, arrays, self.compute)
        for _ in range(3):
            outcome = self._run(case, arrays, expected, max(1.0, 10 * self.slowest))
            if isinstance(outcome, Returned) and expected.difference(outcome.results) is None:
                return True
        return False

    def _touched(self, case: Case, arrays: Mapping[str, Array]) -> str:
        """Which array a kernel reads or writes outside of: each in turn gets an edge."""
        expected = Expected.of(case.sized.shaped, arrays, self.compute)
        side = "behind the end" if case.layout == ENDS else "before the beginning"
        if isinstance(self._run(replace(case, layout=PLAIN), arrays, expected, 2.0), Ended):
            return ""  # wherever the arrays lie
        if isinstance(self._run(replace(case, layout=OFFSET), arrays, expected, 2.0), Ended):
            return "where addresses are multiples of the size of an element, and of no more"
        names = [*arrays, *(expected.names if self.task.call.form != RETURNS else ())]
        for name in names:
            outcome = self._run(case, arrays, expected, 2.0, only=name)
            if isinstance(outcome, Ended):
                return f"memory {side} of {name} is touched"
        return ""


@dataclass(frozen=True)
class _Found:
    kind: str
    cause: str
    traceback: str = ""
    failing: Failing | None = None
    difference: Difference | None = None
    expected: Expected | None = None

    @cached_property
    def diagnosis(self) -> str:
        return "" if self.failing is None else diagnosis(self.failing)

    @property
    def cause_of_it(self) -> str:
        """What the kernel does, without the elements in which that shows."""
        return self.diagnosis.partition(": ")[2]


def _is_as_clear(before: _Found, after: _Found) -> bool:
    """Whether smaller inputs show as much: what the kernel does, where that is known."""
    if before.failing is None or after.failing is None:
        return True
    wanted = before.cause_of_it
    if not wanted and " where " in before.diagnosis:
        return " where " in after.diagnosis
    return not wanted or after.cause_of_it == wanted


def _first_wrong(
    difference: Difference | None, expected: Expected | None
) -> tuple[float | None, float | None, float | None]:
    if difference is None or expected is None or difference.result is None:
        return None, None, None
    at, position = difference.first, difference.position
    value, bound = expected.values[position], expected.bounds[position]
    return (
        float(numbers(difference.result)[at]),
        float(numbers(value)[at]),
        float(np.broadcast_to(bound, value.shape)[at]),
    )


def _sizes_text(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in values.items()) or "the text's sizes"
