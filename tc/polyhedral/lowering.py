"""From a shaped program to a kernel: the stages of the polyhedral middle, in order.

    ShapedProgram --rewrite--> ShapedProgram --build_scop--> Scop
        --compute_dependences--> Dependences --schedule--> Node --map_schedule--> Node
        --lower_schedule--> Kernel, with marks --passes--> Kernel

Each tree is checked against the dependences before it is used. Where it would round the sums of
halves on the way, these get temporaries of floats, and the stages run again. Which sums do is
decided without the user's plan, so that a plan names the same statements whatever it does to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tc.errors import BackendError, InternalError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.kernel.pass_manager import PassResult, trace_passes
from tc.options import Options, check_options
from tc.plan import Plan
from tc.polyhedral.actions.apply import check_mapped
from tc.polyhedral.codegen.context import NoKernel
from tc.polyhedral.codegen.generate import lower_schedule
from tc.polyhedral.facts import Facts
from tc.polyhedral.gathers import with_gathers
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import check_schedule
from tc.polyhedral.mapping import Mapped, map_schedule
from tc.polyhedral.rewrite.coalescing import Strides, coalesce
from tc.polyhedral.rewrite.division import divide_last
from tc.polyhedral.rewrite.factoring import factor
from tc.polyhedral.rewrite.half_sums import accumulates_halves, check_sums, keep_sums, rounded_early
from tc.polyhedral.rewrite.residues import linearise
from tc.polyhedral.rewrite.splitting import split
from tc.polyhedral.schedule import Node, in_order, leaves
from tc.polyhedral.scop.dependences import Dependences, compute_dependences
from tc.polyhedral.scop.scop import Scop, build_scop
from tc.polyhedral.strategies.fusion import kept_apart, worthwhile
from tc.polyhedral.strategies.scheduler import schedule
from tc.polyhedral.target import Target
from tc.semantics.program import ShapedProgram

T = TypeVar("T")


class Stopwatch:
    """Runs stages, and notes the `seconds` that they took, by their names."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str, run: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = run()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
        return result


@dataclass(frozen=True)
class Lowering:
    """What each stage made of a program, and the seconds that each took, by its name.

    `shaped` is the program as rewritten; `marked` the kernel before its marked loops became
    vectors and straight-line code, by `passes`, and `kernel` the one after.
    """

    shaped: ShapedProgram
    scop: Scop
    dependences: Dependences
    tree: Node
    mapped: Mapped
    marked: Kernel
    passes: tuple[PassResult, ...]
    kernel: Kernel
    seconds: Mapping[str, float]


def trace_lowering(
    shaped: ShapedProgram,
    strides: Strides,
    target: Target,
    *,
    initial: frozenset[str],
    check: bool,
    options: Options | None = None,
) -> Lowering:
    """The kernel of a program for the sizes of one call, with the result of every stage.

    `strides` gives the strides, in elements, of inputs that are not row-major; `initial` names
    the outputs whose contents the caller passes (R3, R4); with `check`, reads and divisions that
    are not proven safe are tested (G7). Raises BackendError for options that the target cannot
    have.
    """
    options, original = options or Options(), shaped
    check_options(options, target.device)
    target = target.wanted(options)
    timed = Stopwatch()
    shaped, strides = timed("rewrite", lambda: _rewrite(shaped, strides, options, target))
    chosen = replace(options, plan=None) if accumulates_halves(shaped) else options
    scop, dependences, tree, mapped = _mapped(
        shaped, strides, initial, check, chosen, target, timed
    )
    while early := rounded_early(mapped.tree, scop):  # what is kept may change how others run
        shaped = keep_sums(shaped, early)
        scop, dependences, tree, mapped = _mapped(
            shaped, strides, initial, check, chosen, target, timed
        )
    if chosen != options:

        def remapped(options: Options) -> tuple[Scop, Dependences, Node, Mapped]:
            found = _mapped(shaped, strides, initial, check, options, target, timed)
            check_sums(options.plan, found[-1].tree, found[0])
            return found

        try:
            scop, dependences, tree, mapped = remapped(options)
        except BackendError as error:
            near = _working(error.repair, lambda plan: remapped(replace(options, plan=plan)))
            raise BackendError(error.cause, repair=str(near)) from None
    if target.launches and options.gpu.single_kernel:
        timed("legality of the mapping", lambda: _check_single(mapped.tree, dependences, target))
    timed("legality of the mapping", lambda: check_mapped(mapped.tree, dependences, target))
    try:
        written = timed(
            "lower",
            lambda: lower_schedule(
                scop, mapped.tree, strides, check=check, launches=target.launches
            ),
        )
    except NoKernel as reason:
        raise InternalError(f"the schedule that tc chose has no kernel: {reason}") from reason
    marked = _with_sites_of(written, shaped, original)
    context = target.context(options)
    passes = timed("passes", lambda: tuple(trace_passes(marked, context, target.passes)))
    kernel = passes[-1].kernel
    return Lowering(shaped, scop, dependences, tree, mapped, marked, passes, kernel, timed.seconds)


def _check_single(mapped: Node, dependences: Dependences, target: Target) -> None:
    """BackendError where a program that is to be one launch cannot be."""
    parts = in_order(mapped)
    reason = launch_fault(mapped, dependences)
    if len(parts) > 1:
        reason = f"{' and '.join(', '.join(leaves(part)) for part in parts)} are parts of the plan"
    if reason is not None:
        cooperative = isinstance(target.device, Gpu) and target.device.cooperative
        elsewhere = "" if cooperative else ', or backend="cuda"'
        raise BackendError(
            f"single_kernel=True, but the program needs several launches: {reason}",
            repair=f"GpuOptions(single_kernel=False){elsewhere}",
        )


def _working(repair: str | None, attempt: Callable[[Plan], object]) -> Plan:
    """A plan of which sums of halves are right, too: the repair, or its own, or that of tc."""
    for _ in range(3):
        plan = Plan() if repair is None else Plan.from_json(repair)
        try:
            attempt(plan)
        except BackendError as error:
            repair = error.repair
        else:
            return plan
    return Plan()


def _mapped(
    shaped: ShapedProgram,
    strides: Strides,
    initial: frozenset[str],
    check: bool,
    options: Options,
    target: Target,
    timed: Stopwatch,
) -> tuple[Scop, Dependences, Node, Mapped]:
    """The stages from a shaped program, rewritten, to a mapped tree."""
    scop = timed("scop", lambda: with_gathers(build_scop(shaped, initial)))
    dependences = timed("dependences", lambda: compute_dependences(scop))
    tree = timed("schedule", lambda: _schedule(scop, dependences, options, target))
    timed("legality", lambda: check_schedule(tree, dependences))
    facts = Facts(scop, strides, check)
    generate = partial(lower_schedule, scop, strides=strides, check=check, launches=target.launches)
    given = (tree, facts, dependences, target, options, options.plan, generate)
    return scop, dependences, tree, timed("map", lambda: map_schedule(*given))


def _rewrite(
    shaped: ShapedProgram, strides: Strides, options: Options, target: Target
) -> tuple[ShapedProgram, Strides]:
    """The program factored, long reductions split, and adjacent dimensions joined."""
    if not options.schedule.rewrite:
        return shaped, strides
    limits, wanted = target.rewriting, options.schedule
    shaped = linearise(shaped, limits)
    if wanted.factor is not False:
        order = limits.factoring_all().order if wanted.factor else limits.order
        shaped = factor(shaped, order)
    shaped = divide_last(shaped)
    if wanted.split or (wanted.split is None and (target.launches or options.mapping.parallel)):
        shaped = split(shaped, limits.splitting_all() if wanted.split else limits, strides)
    return coalesce(shaped, strides)


def _with_sites_of(kernel: Kernel, shaped: ShapedProgram, original: ShapedProgram) -> Kernel:
    """The kernel with its sites at the positions of the program as written; statements with
    checks are never rewritten, and keep their names."""
    names = [s.name for s in original.program.statements]
    statements = shaped.program.statements
    sites = tuple(
        replace(site, statement=names.index(statements[site.statement].name))
        for site in kernel.sites
    )
    return replace(kernel, sites=sites)


def _schedule(scop: Scop, dependences: Dependences, options: Options, target: Target) -> Node:
    wanted, accept, strategy = options.schedule, None, options.schedule.fusion
    if strategy == "auto":
        accept, strategy = worthwhile(scop, target.fusion_bytes), "max"
    if wanted.apart:
        accept = kept_apart(scop, wanted.apart, accept)
    return schedule(scop, dependences, strategy, accept=accept, seconds=wanted.seconds)
