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
from dataclasses import dataclass, field, replace
from typing import Any

from tc.backends.base import Backend
from tc.device import Device
from tc.dynamic import (
    DynamicSizes,
    TrackedCall,
    set_text,
    sizes_at,
    tracked_calls,
    values_of,
)
from tc.errors import TCError, is_strict
from tc.extents.sizes import Questions
from tc.gpu import Gpu
from tc.pipeline import MakeWith, lower_tracked, planned, shape_program
from tc.process.call_sites import warn
from tc.runtime import cache as disk
from tc.runtime.fallback import Request, is_fault
from tc.runtime.loaded import CompiledKernel
from tc.semantics.program import Program, ProgramWarning
from tc.stored_templates import TemplateText, key_of, store, stored_templates

MOST_TEMPLATES = 3, 6
"""Templates of one function, for calls that differ in nothing but in dynamic sizes: where one size
is dynamic, and where several are."""

MAX_FAMILIES = 64
"""Kinds of calls whose templates are kept, the latest ones: what is not dynamic may vary, too."""

EXACT_FIRST = 3
"""Values of a size that get code of their own before the size is known to vary, with "auto"."""

NEAR = 4.0
"""How many times as large as a template's hint a size may be, or the other way round, so that the
template is taken without a second look."""

_LOG = logging.getLogger("tc")


@dataclass(eq=False)
class Template:
    """The code of a kernel for many sizes, which is loaded when it is first used."""

    of: TemplateText
    runner: Any = None

    def at(self, sizes: Mapping[str, int], backend: Backend) -> CompiledKernel:
        """The code as that of the kernel for these sizes."""
        if self.runner is None:
            self.runner = backend.load(self.of.text)
        runner: CompiledKernel = self.runner.at_sizes(sizes)
        return runner


@dataclass(eq=False)
class _Family:
    """The templates of calls that differ in dynamic sizes alone, and the key under which they are
    kept on disk. `looks` counts how often the chooser was asked, `refused` are sizes that no
    template could be made for, or, as long as there is none, that none served."""

    key: str | None
    templates: list[Template]
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
        family = self._family(request, values, dynamic, backend, device, with_plan)
        near = sorted(
            (template for template in family.templates if template.of.admits(sizes)),
            key=lambda template: template.of.distance(sizes),
        )
        best = near[0] if near else None
        most = MOST_TEMPLATES[len(sizes) > 1]
        may_look = len(family.templates) < most and family.looks < 2 * most and family.refused < 2
        is_near = best is not None and (self.is_prepared or best.of.distance(sizes) <= NEAR)
        if may_look and not is_near:
            made = self._made(family, dynamic, request, backend, device, with_plan, near)
            best = made or best
        if best is None:
            return None
        self._tell_pinned(best.of.questions, request.program, dynamic)
        return best.at(sizes, backend)

    def _varying(self, values: Mapping[str, int]) -> DynamicSizes:
        """The sizes that have had more than `EXACT_FIRST` values."""
        for name in self.dynamic.ranges:
            seen = self.seen.setdefault(name, set())
            if len(seen) <= EXACT_FIRST:
                seen.add(values[name])
        return self.dynamic.only([n for n, seen in self.seen.items() if len(seen) > EXACT_FIRST])

    def _family(
        self,
        request: Request,
        values: Mapping[str, int],
        dynamic: DynamicSizes,
        backend: Backend,
        device: Device | Gpu,
        with_plan: MakeWith,
    ) -> _Family:
        fixed = {n: v for n, v in values.items() if n not in dynamic.ranges}
        scalars = tuple(request.sizes.scalars.items())
        key = (request.given, tuple(fixed.items()), scalars, request.options)
        family = self.families.get(key)
        if family is None:
            on_disk = key_of(request, fixed, dynamic, backend, device)
            texts = [] if on_disk is None else stored_templates(on_disk, dynamic)
            if any(_has_own_plan(request, each.hints, device, with_plan) for each in texts):
                on_disk, texts = None, []
            self.families[key] = family = _Family(on_disk, [*map(Template, texts)])
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
        that admit them, where the code is the same: that depends on the plan, and on what passes
        make of sizes, as whether results go past the caches."""
        family.looks += 1
        values = values_of(request.program, request.sizes)
        sizes = {name: values[name] for name in dynamic.ranges}
        start, chances = time.perf_counter(), disk.chances()
        outside: TrackedCall | None = None
        for call in tracked_calls(request.program, request.sizes, dynamic):
            try:
                made = planned(call, request, device, with_plan)
                kernel = lower_tracked(call, request, made, device)[1].kernel
                if not call.serves(sizes):
                    outside = outside or (None if call.is_small else call)
                    continue
                text = backend.emit(kernel, made.options)
                for template in near:
                    if template.of.text.source == text.source:
                        template.of.anchors.append(call.hints)
                        self._keep(family, dynamic)
                        return template
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
            own = TemplateText(call.hints, call.questions, text, [call.hints])
            family.templates.append(Template(own, runner))
            if made.told or disk.chances() != chances:  # of a tuned plan, or of chance
                family.key = None
            self._keep(family, dynamic)
            return family.templates[-1]
        if outside is None or not family.templates:
            family.refused += 1
        if outside is not None:
            self._tell_pinned(outside.questions, request.program, dynamic)
        return None

    def _keep(self, family: _Family, dynamic: DynamicSizes) -> None:
        """Keeps the templates of a family on disk."""
        if family.key is not None:
            most = MOST_TEMPLATES[len(dynamic.ranges) > 1]
            store(family.key, [template.of for template in family.templates], dynamic, most)

    def _tell_pinned(self, questions: Questions, program: Program, dynamic: DynamicSizes) -> None:
        """A TCWarning, once for each size that the caller names and that is pinned."""
        guards = questions.guards
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


def _has_own_plan(
    request: Request, hints: Mapping[str, int], device: Device | Gpu, with_plan: MakeWith
) -> bool:
    """Whether a plan that was tuned is known for calls of these sizes."""
    at_hints = replace(request, sizes=sizes_at(request.program, request.sizes, hints))
    shaped = shape_program(request.program, at_hints.sizes, at_hints)
    return bool(with_plan(lambda options: options, at_hints, shaped, device).told)
