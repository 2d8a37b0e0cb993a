"""Code for sizes that vary: templates, each a kernel with the guards that say for which sizes.

A template is planned at its hints, plain numbers; the plan is then lowered once more with tracked
sizes, and what is asked of these are the template's guards. Sizes that no template admits, or that
none may be made for, get code of their own, as all sizes do where nothing is dynamic.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tc.backends.base import Backend
from tc.device import Device
from tc.dynamic import DynamicSizes, TrackedCall, set_text, tracked_calls, values_of
from tc.errors import TCError, is_strict
from tc.gpu import Gpu
from tc.pipeline import MakeWith, lower_tracked, planned
from tc.process.call_sites import warn
from tc.runtime.fallback import Request, is_fault
from tc.runtime.loaded import CompiledKernel
from tc.semantics.program import Program, ProgramWarning

MOST_TEMPLATES = 3, 6
"""Templates of one function, for calls that differ in nothing but in dynamic sizes: where one size
is dynamic, and where several are."""

MAX_FAMILIES = 64
"""Kinds of calls whose templates are kept, the latest ones: what is not dynamic may vary, too."""

EXACT_FIRST = 3
"""Values of a size that get code of their own before the size is known to vary, with "auto"."""

NEAR = 4.0
"""How many times as large as its hint a size may be, or the other way round, so that the plan of a
template is taken without a second look."""

_LOG = logging.getLogger("tc")


@dataclass(frozen=True, eq=False)
class Template:
    """Code for the sizes that `call.questions` admit. `anchors` are the hints, and other sizes for
    which the chooser has found the same plan."""

    call: TrackedCall
    plan: str
    runner: Any
    anchors: list[Mapping[str, int]]

    def admits(self, sizes: Mapping[str, int]) -> bool:
        return self.call.questions.admits(sizes)

    def distance(self, sizes: Mapping[str, int]) -> float:
        """How far sizes are from the nearest ones that the plan was chosen for: the largest ratio
        of two sizes of one name."""
        return min(_distance(anchor, sizes) for anchor in self.anchors)

    def at(self, sizes: Mapping[str, int]) -> CompiledKernel:
        """The code as that of the kernel for these sizes."""
        runner: CompiledKernel = self.runner.at_sizes(sizes)
        return runner


def _distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    ratios = (max(one[n], 1) / max(other[n], 1) for n in one)
    return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)


@dataclass(eq=False)
class _Family:
    """The templates of calls that differ in dynamic sizes alone. `looks` counts how often the
    chooser was asked, `refused` are sizes that no template could be made for."""

    templates: list[Template] = field(default_factory=list)
    looks: int = 0
    refused: int = 0


@dataclass(eq=False)
class Templates:
    """The templates of one function, by what calls have in common but for their dynamic sizes.
    `seen` are the values that sizes have had, where it is found out which sizes vary. What
    `is_prepared` has templates for all of some range, and is planned anew for no size of it. Of
    the sizes in `told` the caller knows that they are pinned."""

    dynamic: DynamicSizes
    families: OrderedDict[Hashable, _Family] = field(default_factory=OrderedDict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    is_prepared: bool = False
    told: set[str] = field(default_factory=set)

    def find(
        self,
        request: Request,
        backend: Backend,
        device: Device | Gpu,
        with_plan: MakeWith,
    ) -> CompiledKernel | None:
        """Code for the sizes of a request by a template, which may be made for it; None where there
        must be code for these sizes alone."""
        values = values_of(request.program, request.sizes)
        dynamic = self._varying(values) if self.dynamic.auto else self.dynamic
        sizes = {name: values[name] for name in dynamic.ranges}
        if not sizes or not dynamic.admits(sizes):
            return None
        family = self._family(request, values, dynamic)
        near = sorted(
            (template for template in family.templates if template.admits(sizes)),
            key=lambda template: template.distance(sizes),
        )
        best = near[0] if near else None
        most = MOST_TEMPLATES[len(sizes) > 1]
        may_look = len(family.templates) < most and family.looks < 2 * most and family.refused < 2
        is_near = best is not None and (self.is_prepared or best.distance(sizes) <= NEAR)
        if may_look and not is_near:
            made = self._made(family, dynamic, request, backend, device, with_plan, near)
            best = made or best
        return None if best is None else best.at(sizes)

    def _varying(self, values: Mapping[str, int]) -> DynamicSizes:
        """The sizes that have had more than `EXACT_FIRST` values."""
        for name in self.dynamic.ranges:
            seen = self.seen.setdefault(name, set())
            if len(seen) <= EXACT_FIRST:
                seen.add(values[name])
        return self.dynamic.only([n for n, seen in self.seen.items() if len(seen) > EXACT_FIRST])

    def _family(
        self, request: Request, values: Mapping[str, int], dynamic: DynamicSizes
    ) -> _Family:
        fixed = tuple((n, v) for n, v in values.items() if n not in dynamic.ranges)
        scalars = tuple(request.sizes.scalars.items())
        key = (request.given, fixed, scalars, request.options)
        family = self.families.setdefault(key, _Family())
        self.families.move_to_end(key)
        while len(self.families) > MAX_FAMILIES:
            self.families.popitem(last=False)
        return family

    def _made(
        self,
        family: _Family,
        dynamic: DynamicSizes,
        request: Request,
        backend: Backend,
        device: Device | Gpu,
        with_plan: MakeWith,
        near: list[Template],
    ) -> Template | None:
        """A template that is planned for sizes near those of a request: a new one, or one of those
        that admit them, where the plan is the same."""
        family.looks += 1
        values = values_of(request.program, request.sizes)
        sizes = {name: values[name] for name in dynamic.ranges}
        start = time.perf_counter()
        outside: TrackedCall | None = None
        for call in tracked_calls(request.program, request.sizes, dynamic):
            try:
                made = planned(call, request, device, with_plan)
                for template in near:
                    if template.plan == str(made.plan):
                        template.anchors.append(call.hints)
                        return template
                kernel = lower_tracked(call, request, made, device)[1].kernel
                if not call.questions.admits(sizes):
                    outside = outside or call
                    continue
                self._tell_pinned(call, request.program, dynamic)
                text = backend.emit(kernel, made.options)
                runner = backend.load(text)
                call.questions.closed = True
            except Exception as error:
                if not isinstance(error, TCError) and (is_strict() or not is_fault(error)):
                    raise
                _LOG.debug("%s: no template at %s: %s", request.program.name, call.hints, error)
                continue
            _LOG.info(
                "%s is ready for sizes like %s after %.0f ms (backend %s)",
                request.program.name,
                ", ".join(f"{name}={hint}" for name, hint in call.hints.items()),
                1000 * (time.perf_counter() - start),
                backend.name,
            )
            template = Template(call, str(made.plan), runner, [call.hints])
            family.templates.append(template)
            return template
        if outside is None:
            family.refused += 1
        else:
            self._tell_pinned(outside, request.program, dynamic)
        return None

    def _tell_pinned(self, call: TrackedCall, program: Program, dynamic: DynamicSizes) -> None:
        """A TCWarning, once for each size that the caller names and that is pinned."""
        guards = call.questions.guards
        for name in dynamic.ranges:
            guard = guards.get(name)
            if guard is None or not guard.is_pin or name in self.told or not dynamic.is_named:
                continue
            self.told.add(name)
            others = [each for each in dynamic.ranges if each != name]
            warn(
                ProgramWarning(
                    None,
                    f"{name} is dynamic, and code for sizes that vary could be made for {guard} "
                    f"alone: each new {name} is compiled; tc.explain(..., stage='sizes') says what "
                    "needs it",
                    span=program.sizes[name].span,
                    repair=f"dynamic={set_text(others)}" if others else "dynamic=None",
                ).text
            )
