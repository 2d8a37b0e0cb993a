"""Drawing a plan for a case, and judging one: what a worker process does."""

from __future__ import annotations

import math
import random
from typing import Any

from tests.fuzz.execute import Verdict
from tests.fuzz.plans.prepared import Prepared, Unfit, plan_of_forms, prepared

MOST_ELEMENTS = 1 << 20
"""Of a buffer of a kernel that is run: small programs may have large tiles."""

MOST_EVALUATED = 700
"""Instances of a program that is run on `evaluate`, too."""

ORIGINS = {"random": 6, "mutated": 5, "chosen": 1, "decided": 4}
OF_LARGE = {"random": 1, "mutated": 3, "chosen": 3, "decided": 8}
"""How often plans come from where, and those of programs that are run compiled alone."""


def draw(case: str, seed: str) -> Verdict:
    """A plan for a case: its origin, and its text. "skipped" for a program that is refused."""
    import tc
    from tc.plan import SCATTERS, with_scatters
    from tests.fuzz.plans.draw import Drawer
    from tests.fuzz.plans.draw_launches import LaunchDrawer
    from tests.fuzz.plans.mutate import mutated

    rng = random.Random(seed)
    try:
        made = prepared(case)
    except Unfit as reason:
        return Verdict("skipped", str(reason))
    forms = {name: rng.choice(SCATTERS) for name in made.scatters if rng.random() < 0.8}
    if forms:
        try:
            made = made.with_forms(forms)
        except tc.BackendError:
            if rng.random() < 0.1:
                return Verdict("random", plan_of_forms(forms).to_json())
            forms = {}
    drawer = (LaunchDrawer if made.target.launches else Drawer)(rng, made)
    origins = ORIGINS if made.instances <= MOST_EVALUATED else OF_LARGE
    origin = rng.choices(list(origins), list(origins.values()))[0]
    chosen = made.first.mapped.plan
    if origin == "random":
        plan = with_scatters(drawer.plan(), forms)
    elif origin == "decided":
        try:
            plan = made.decided(rng)
        except tc.BackendError:  # the device has no room for it
            plan, origin = chosen, "chosen"
        except Exception as error:
            return Verdict("internal", f"decided: {type(error).__name__}: {error}")
    else:
        plan = chosen if origin == "chosen" else mutated(rng, chosen, drawer)
    return Verdict(origin, plan.to_json())


def judge_plan(case: str, plan: str, backends: list[str], check_repair: bool) -> Verdict:
    """Whether a plan is refused as it should be, or its kernel right."""
    from tc.plan import Plan

    try:
        made = prepared(case)
    except Unfit as reason:
        return Verdict("skipped", str(reason))
    given = Plan.from_json(plan)
    if given.to_json() != plan:
        return Verdict("json", given.to_json())
    verdict = _ran(made, given, backends)
    if verdict.kind == "refused" and check_repair:
        return _repaired(made, verdict) or verdict
    return verdict


def _ran(made: Prepared, plan: Any, backends: list[str]) -> Verdict:
    """The verdict on one plan; of a refusal, `rule` is its repair."""
    import tc

    try:
        kernels = made.kernels(plan)
    except tc.BackendError as error:
        return Verdict("refused", error.cause, error.repair or "")
    except tc.InternalError as error:
        return Verdict("internal", str(error))
    except Exception as error:  # whatever is no TCError is a finding
        return Verdict("internal", f"{type(error).__name__}: {error}")
    if any(math.prod(buffer.shape) > MOST_ELEMENTS for buffer in kernels[1].buffers):
        return Verdict("ran", "not run: its buffers are large")
    try:
        small = made.instances <= MOST_EVALUATED
        for name, kernel in zip(("marked", "finished"), kernels if small else (), strict=small):
            wrong = made.evaluated(kernel)
            if wrong:
                return Verdict("wrong", f"evaluate, {name}: {wrong}")
        for backend in backends:
            wrong = made.compiled(kernels[1], backend)
            if wrong:
                return Verdict("wrong", f"{backend}: {wrong}")
    except tc.InternalError as error:
        return Verdict("broken", str(error))
    except Exception as error:
        return Verdict("internal", f"{type(error).__name__}: {error}")
    return Verdict("ran")


def _repaired(made: Prepared, verdict: Verdict) -> Verdict | None:
    """What is wrong with the repair of a refusal, if anything: it is a plan that works."""
    import tc
    from tc.plan import Plan

    if not verdict.rule:
        return Verdict("no repair", verdict.detail)
    try:
        plan = Plan.from_json(verdict.rule)
    except tc.BackendError as error:
        return Verdict("bad repair", f"no plan: {error.cause}: {verdict.rule}")
    found = _ran(made, plan, [])
    if found.kind == "ran":
        return None
    return Verdict("bad repair", f"{found.kind}: {found.detail}\nafter {verdict.detail}")
