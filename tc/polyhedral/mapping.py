"""From a schedule to a mapped one: the plan of each part, given or chosen, and its tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tc.errors import BackendError, InternalError
from tc.options import Options
from tc.plan import Part, Plan, Scatter, scatters_of, with_scatters
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import Generate, apply_plan
from tc.polyhedral.schedule import Node, Sequence, in_order, leaves, sequence_of
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import PartPlan, Target
from tc.wording import closest


@dataclass(frozen=True)
class MappedTree:
    """The tree with tiles, promotions and roles, the plan that made the tree, and notes that say
    why the plan is so, in a sentence or two."""

    tree: Node
    plan: Plan
    notes: tuple[str, ...]


def map_schedule(
    tree: Node,
    info: AccessInfo,
    dependences: Dependences,
    target: Target,
    options: Options,
    plan: Plan | None = None,
    generate: Generate = lambda _: None,
) -> MappedTree:
    """The tree after a plan. Parts that the plan leaves out are chosen by the target. Statements of
    the plan that do not run at these sizes are passed over.

    Raises BackendError for a plan that cannot be done, that no dependence allows, or of whose tree
    `generate` makes no kernel; `generate` is not asked about plans that the target chose.
    """
    parts = () if plan is None else tuple(filter(_says_more, plan.parts))
    running = Plan(tuple(_running(parts, info.scop)))
    whole = Plan(tuple(part for part in parts if part in running.parts))
    try:
        try:
            found = _mapped(tree, info, dependences, target, options, running, generate)
        except BackendError:
            if whole == running:
                raise
            found = _mapped(tree, info, dependences, target, options, whole, generate)
    except BackendError as error:
        near = with_scatters(Plan.from_json(error.repair or str(Plan())), scatters_of(plan))
        raise BackendError(error.cause, repair=str(near)) from None
    return replace(found, plan=with_scatters(found.plan, scatters_of(plan)))


def _says_more(part: Part) -> bool:
    """Whether a part says something of loops."""
    return not part.actions or not all(isinstance(action, Scatter) for action in part.actions)


def _running(parts: Iterable[Part], scop: Scop) -> Iterator[Part]:
    """Parts without the statements that the program has, and that have nothing to do."""
    program = scop.shaped.program
    every = {f"{s.name}{end}" for s in program.statements for end in ("", ".init")}
    idle = {*every, *(f"{t}.zero" for t in program.tensors)} - {s.name for s in scop.statements}
    for part in parts:
        names = tuple(name for name in part.statements if name not in idle)
        if names:
            yield part if names == part.statements else Part(names, part.actions)


def _mapped(
    tree: Node,
    info: AccessInfo,
    dependences: Dependences,
    target: Target,
    options: Options,
    plan: Plan,
    generate: Generate,
) -> MappedTree:
    """As `map_schedule`, where all statements of a plan run."""
    ends, wrong = _ends(plan.parts, tree)
    if wrong is not None:
        near = Plan(tuple(_parts_near(plan.parts, tree)))
        repair: str | None = str(near)
        try:
            _mapped(tree, info, dependences, target, options, near, generate)
        except BackendError as error:
            repair = error.repair
        raise BackendError(wrong, repair=repair)
    places = zip(plan.parts, ends, strict=True)
    found = list(_chosen(tree, info, dependences, target, options, places))
    whole = Plan(tuple(chosen.part for chosen in found))
    notes = tuple(note for chosen in found for note in chosen.notes)
    if not plan.parts:
        nodes = tuple(target.finish(chosen.tree, dependences) for chosen in found)
        done = Sequence(nodes) if isinstance(tree, Sequence) else target.joined(nodes)
        return MappedTree(done, whole, notes)
    ends, wrong = _ends(whole.parts, tree)
    if wrong is not None:
        raise InternalError(f"parts were chosen that are none: {wrong}")
    nodes = tuple(sequence_of(in_order(tree)[first:end]) for first, end in ends)
    try:
        done = apply_plan(nodes, whole, info, dependences, target, generate)
        return MappedTree(done, whole, notes)
    except BackendError as error:
        own = {part.statements for part in plan.parts}
        near = Plan.from_json(error.repair or str(Plan()))
        given = Plan(tuple(part for part in near.parts if part.statements in own))
        raise BackendError(error.cause, repair=str(given)) from None


def _chosen(
    tree: Node,
    info: AccessInfo,
    dependences: Dependences,
    target: Target,
    options: Options,
    given: Iterable[tuple[Part, tuple[int, int]]],
) -> Iterator[PartPlan]:
    """The parts of a tree: those given, with the places of their nodes, and between them chosen
    ones."""
    nodes, done = in_order(tree), 0

    def choose(some: tuple[Node, ...]) -> Iterator[PartPlan]:
        try:
            yield from target.choose(sequence_of(some), info, dependences, options)
        except BackendError as error:
            raise InternalError(f"an action was chosen that cannot be done: {error}") from error

    for part, (first, end) in given:
        if first > done:
            yield from choose(nodes[done:first])
        note = f"{', '.join(part.statements)}: as the plan says."
        yield PartPlan(part, (note,), sequence_of(nodes[first:end]))
        done = end
    if done < len(nodes) or not done:
        yield from choose(nodes[done:])


def _ends(parts: Iterable[Part], tree: Node) -> tuple[list[tuple[int, int]], str | None]:
    """Where the nodes of each part begin and end; or what is wrong with the first that has none."""
    own = [tuple(leaves(node)) for node in in_order(tree)]
    there = f"the program's parts, in order, are {'; '.join(map(', '.join, own)) or 'none'}"
    known = {name for names in own for name in names}
    found: list[tuple[int, int]] = []
    for number, part in enumerate(parts):
        what = f"part {number + 1} of the plan, {', '.join(part.statements)}"
        unknown = [name for name in part.statements if name not in known]
        if unknown:
            return found, f"{what}: there is no statement {unknown[0]!r}; {there}"
        first = next(i for i, names in enumerate(own) if part.statements[0] in names)
        end = first + 1
        while end < len(own) and sum(map(len, own[first:end])) < len(part.statements):
            end += 1
        if sum(own[first:end], ()) != part.statements:
            return (
                found,
                f"{what}: {there}; a part is one of these, or several that follow each other",
            )
        if found and first < found[-1][1]:
            return found, f"{what}: it comes before the part that stands before it; {there}"
        found.append((first, end))
    return found, None


def _parts_near(parts: Iterable[Part], tree: Node) -> Iterator[Part]:
    """The parts of a tree, in order, that are nearest to those of a plan, with their actions."""
    nodes = in_order(tree)
    places = {name: i for i, node in enumerate(nodes) for name in leaves(node)}
    near = []
    for part in parts:
        names = (n if n in places else closest(n, places, cutoff=0.7) for n in part.statements)
        found = [places[name] for name in names if name is not None]
        if found:
            near.append((min(found), max(found) + 1, part.actions))
    done = 0
    for first, end, actions in sorted(near, key=lambda one: one[:2]):
        if first >= done:
            yield Part(tuple(n for node in nodes[first:end] for n in leaves(node)), actions)
            done = end
