"""From a shaped program to a kernel: the stages of the polyhedral middle, in order.

    ShapedProgram --rewrite--> ShapedProgram --build_scop--> Scop
        --compute_dependences--> Dependences --schedule--> Node --map_schedule--> Node
        --lower_schedule--> Kernel, with marks --passes--> Kernel

Each tree is checked against the dependences before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tc.errors import BackendError, InternalError
from tc.extents.sizes import is_tracked
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.kernel.pass_manager import PassResult, trace_passes
from tc.kernel.sizes import with_parameters
from tc.options import Options, check_options
from tc.plan import Plan, scatters_of, without_scatter
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import check_mapped
from tc.polyhedral.codegen.context import LoweringError
from tc.polyhedral.codegen.generate import lower_schedule
from tc.polyhedral.gathers import with_gathers
from tc.polyhedral.launch_legality import launch_fault
from tc.polyhedral.legality import check_schedule
from tc.polyhedral.mapping import MappedTree, map_schedule
from tc.polyhedral.rewrite.boxes import as_boxes
from tc.polyhedral.rewrite.coalescing import Strides, coalesce
from tc.polyhedral.rewrite.dimensions import divide_dimensions
from tc.polyhedral.rewrite.equal_temporaries import without_equal_temporaries
from tc.polyhedral.rewrite.factoring import divide_last, factor
from tc.polyhedral.rewrite.half_sums import accumulate_in_float
from tc.polyhedral.rewrite.inlining import inline
from tc.polyhedral.rewrite.lone_terms import without_lone_terms
from tc.polyhedral.rewrite.nested_prefixes import sum_by_dimensions
from tc.polyhedral.rewrite.overlapped_tiles import tile_chains
from tc.polyhedral.rewrite.prefix_factors import factor_prefixes
from tc.polyhedral.rewrite.read_order import sum_in_read_order
from tc.polyhedral.rewrite.residues import linearise
from tc.polyhedral.rewrite.row_blocks import share_rows
from tc.polyhedral.rewrite.scans import scan
from tc.polyhedral.rewrite.scattering import form_of, is_scatter, scatter
from tc.polyhedral.rewrite.splitting import split
from tc.polyhedral.rewrite.sums_in_place import sum_in_place
from tc.polyhedral.rewrite.symmetric_sums import halve
from tc.polyhedral.rewrite.transposed_operands import transpose_operands
from tc.polyhedral.rewrite.triangular_sums import sum_by_strips
from tc.polyhedral.schedule import Node, in_order, leaves
from tc.polyhedral.scop.dependences import Dependences, compute_dependences
from tc.polyhedral.scop.scop import Scop, build_scop
from tc.polyhedral.strategies.fusion import kept_apart, worthwhile
from tc.polyhedral.strategies.scheduler import schedule
from tc.polyhedral.target import Target
from tc.semantics.program import ShapedProgram
from tc.stages import Stopwatch

T = TypeVar("T")


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
    mapped: MappedTree
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
    check_places: bool = False,
    options: Options | None = None,
    plan_is_own: bool = False,
) -> Lowering:
    """The kernel of a program for the sizes of one call, with the result of every stage.

    `strides` gives the strides, in elements, of inputs that are not row-major; `initial` names
    the outputs whose contents the caller passes (R3, R4); with `check`, reads and divisions that
    are not proven safe are tested (G7), with `check_places` at least the places of writes (S5).
    `plan_is_own` says that the plan of `options` is one that tc chose, so that it need not be tried
    whether there is a kernel of it. Raises BackendError for options that the target cannot have.
    """
    options, original = options or Options(), shaped
    timed = Stopwatch()
    front = _scheduled(
        *(shaped, strides, target, initial, check, options, timed),
        check_places=check_places,
        plan_is_own=plan_is_own,
    )
    shaped, strides, target, scop = front.shaped, front.strides, front.target, front.scop
    dependences, tree, mapped = front.dependences, front.tree, front.mapped
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
    except LoweringError as reason:
        raise InternalError(f"the schedule that tc chose has no kernel: {reason}") from reason
    marked = _with_sites_of(written, shaped, original)
    context = target.context(options)
    passes = timed("passes", lambda: tuple(trace_passes(marked, context, target.passes)))
    kernel = with_parameters(passes[-1].kernel) if is_dynamic(original) else passes[-1].kernel
    return Lowering(shaped, scop, dependences, tree, mapped, marked, passes, kernel, timed.seconds)


def plan_for(
    shaped: ShapedProgram,
    strides: Strides,
    target: Target,
    *,
    initial: frozenset[str],
    check: bool,
    options: Options,
) -> Plan:
    """The plan of `trace_lowering`, without the kernel."""
    front = _scheduled(shaped, strides, target, initial, check, options, Stopwatch())
    return front.mapped.plan


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """A program as rewritten, the target as it is wanted, and the trees."""

    shaped: ShapedProgram
    strides: Strides
    target: Target
    scop: Scop
    dependences: Dependences
    tree: Node
    mapped: MappedTree


def _scheduled(
    shaped: ShapedProgram,
    strides: Strides,
    target: Target,
    initial: frozenset[str],
    check: bool,
    options: Options,
    timed: Stopwatch,
    *,
    check_places: bool = False,
    plan_is_own: bool = False,
) -> _Scheduled:
    """All stages until a tree is mapped, as `trace_lowering` has them."""
    check_options(options, target.device)
    given = (shaped, strides, target, initial, check)
    target = replace(target.wanted(options), scatters=scatters_of(options.plan))
    places = check or check_places
    as_box = partial(as_boxes, check=check, places=places, at_once=target.launches)
    boxes = timed("rewrite", lambda: as_box(shaped, initial))
    forms = scatters_of(options.plan)
    shaped, strides = timed("rewrite", lambda: _rewrite(boxes, strides, options, target, forms))
    wrong = _wrong_form(forms, boxes, shaped, target)
    if wrong is not None:
        name, reason = wrong
        plan = without_scatter(options.plan or Plan(), name)
        again = replace(options, plan=plan)
        try:
            _scheduled(*given, again, timed, check_places=check_places)
            repair: str | None = str(plan)
        except BackendError as error:
            repair = error.repair
        raise BackendError(reason, repair=repair)
    scop = timed("scop", lambda: with_gathers(build_scop(shaped, initial)))
    dependences = timed("dependences", lambda: compute_dependences(scop))
    tree = timed("schedule", lambda: _schedule(scop, dependences, strides, options, target))
    timed("legality", lambda: check_schedule(tree, dependences))
    info = AccessInfo(scop, strides, check)
    generate = partial(lower_schedule, scop, strides=strides, check=check, launches=target.launches)
    about = (tree, info, dependences, target, options, options.plan)
    trying = () if plan_is_own else (generate,)
    mapped = timed("map", lambda: map_schedule(*about, *trying))
    return _Scheduled(shaped, strides, target, scop, dependences, tree, mapped)


def is_dynamic(shaped: ShapedProgram) -> bool:
    """Whether some size of a program is tracked: the kernel then serves many."""
    return any(map(is_tracked, (n for shape in shaped.shapes.values() for n in shape)))


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


def _wrong_form(
    forms: Mapping[str, str], boxes: ShapedProgram, shaped: ShapedProgram, target: Target
) -> tuple[str, str] | None:
    """The first statement for which a plan asks for a form of a scatter though it is none, or
    cannot have it, and what to say of it."""
    found = [each.statement.name for each in boxes.statements if is_scatter(each)]
    for name, form in forms.items():
        reason = None
        if name not in found:
            reason = f"there is no scatter {name}; there are {', '.join(found) or 'none'}"
        elif form == "serial" and target.launches:
            reason = "a GPU has threads for all places; one thread alone adds terms on processors"
        elif form == "atomic" and form_of(name, shaped) != form:
            reason = "threads of GPUs add integers of 32 bits so, or of 64, and nothing else"
        elif form in ("sorted", "parts") and form_of(name, shaped) != form:
            reason = f"the terms of {name} are too few for it, or stay as they are written"
        if reason is not None:
            return name, f"the plan asks for {form!r} as the form of the scatter {name}: {reason}"
    return None


def _rewrite(
    shaped: ShapedProgram,
    strides: Strides,
    options: Options,
    target: Target,
    forms: Mapping[str, str],
) -> tuple[ShapedProgram, Strides]:
    """The program without temporaries that equal another tensor or are cheaper to compute again
    where they are read, with sums in place of what they become, over prefixes one dimension at a
    time, and without lone terms, factored,
    one half of symmetric sums computed, sums in the order of what they read, small operands
    transposed, long reductions split, and adjacent dimensions joined; in any case with sums of
    halves in floats."""
    if not options.schedule.rewrite:
        return accumulate_in_float(shaped), strides
    limits, wanted = target.rewriting, options.schedule
    shaped = factor_prefixes(shaped)  # as the error bound has them, before others change products
    shaped = tile_chains(inline(without_equal_temporaries(shaped), limits), limits)
    shaped = sum_by_dimensions(sum_in_place(shaped))
    shaped = linearise(without_lone_terms(shaped), limits)
    if target.launches:
        shaped = divide_dimensions(shaped)
    if wanted.factor is not False:
        order = limits.factoring_all().order if wanted.factor else limits.order
        shaped = factor(shaped, order)
    shaped = sum_by_strips(halve(divide_last(shaped), limits), limits)
    shaped = sum_in_read_order(shaped, limits)
    if target.launches or "sorted" in forms.values():
        shaped = scatter(shaped, limits, forms)
    shaped = scan(shaped, limits)
    if wanted.split or (wanted.split is None and (target.launches or options.mapping.parallel)):
        shaped = transpose_operands(shaped, limits, strides)
        shaped = share_rows(shaped, limits, strides)
        shaped = split(shaped, limits.splitting_all() if wanted.split else limits, forms)
    shaped, strides = coalesce(shaped, strides, lightly_read=not target.launches)
    return accumulate_in_float(shaped), strides


def _with_sites_of(kernel: Kernel, shaped: ShapedProgram, original: ShapedProgram) -> Kernel:
    """The kernel with its sites at the positions of the program as written; statements with
    checks are never rewritten, and keep their names, behind which a dot and more may stand where
    one has become several boxes."""
    names = [s.name for s in original.program.statements]
    statements = shaped.program.statements
    sites = tuple(
        replace(site, statement=names.index(statements[site.statement].name.partition(".")[0]))
        for site in kernel.sites
    )
    return replace(kernel, sites=sites)


def _schedule(
    scop: Scop, dependences: Dependences, strides: Strides, options: Options, target: Target
) -> Node:
    wanted, accept, strategy = options.schedule, None, options.schedule.fusion
    if strategy == "auto":
        accept, strategy = (
            worthwhile(scop, target.fusion_bytes, strides, whole_products=target.whole_products),
            "max",
        )
    if wanted.apart:
        accept = kept_apart(scop, wanted.apart, accept)
    return schedule(scop, dependences, strategy, accept=accept, seconds=wanted.seconds)
