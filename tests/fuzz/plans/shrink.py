"""A failing plan, and its program, made smaller for as long as they fail alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from tc.plan import Action, Part, Plan
from tests.fuzz import shrink as programs
from tests.fuzz.model import Case

SECONDS = 60.0
MOST_TRIES = 300


def shrink(case: str, plan: str, fails: Callable[[str, str], bool]) -> tuple[str, str]:
    """The smallest program and plan found; actions go first, then what they act on."""
    end, tries = time.monotonic() + SECONDS, 0
    improved = True
    while improved:
        improved = False
        for smaller in (*_pairs(case, plan),):
            tries += 1
            if tries > MOST_TRIES or time.monotonic() > end:
                return case, plan
            if fails(*smaller):
                case, plan = smaller
                improved = True
                break
    return case, plan


def _pairs(case: str, plan: str) -> Iterator[tuple[str, str]]:
    for smaller in candidates(Plan.from_json(plan)):
        yield case, smaller.to_json()
    whole = replace(Case.from_json(case), ranges=(), shapes={}, refused=None)
    for program in programs.candidates(whole):
        yield program.to_json(), plan


def candidates(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less."""
    for at, part in enumerate(plan.parts):
        if len(plan.parts) > 1:
            yield Plan((*plan.parts[:at], *plan.parts[at + 1 :]))
        for place in range(len(part.actions)):
            yield _with(plan, at, (*part.actions[:place], *part.actions[place + 1 :]))
    for at, part in enumerate(plan.parts):
        for place, action in enumerate(part.actions):
            for simpler in _simpler(action):
                yield _with(plan, at, (*part.actions[:place], simpler, *part.actions[place + 1 :]))


def _with(plan: Plan, at: int, actions: tuple[Action, ...]) -> Plan:
    part = Part(plan.parts[at].statements, actions)
    return Plan((*plan.parts[:at], part, *plan.parts[at + 1 :]))


def _simpler(action: Action) -> Iterator[Action]:
    for item in fields(action):
        value: Any = getattr(action, item.name)
        plain = value if item.default is MISSING else item.default
        if value != plain and item.name not in ("inside", "axis"):
            yield replace(action, **{item.name: plain})
        if item.name in ("sizes", "loops", "axes") and len(value) > 1:
            for at in range(len(value)):
                yield replace(action, **{item.name: (*value[:at], *value[at + 1 :])})
