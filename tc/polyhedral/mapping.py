"""From a schedule to a mapped one: the plan of each part, given or chosen, and its tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tc.errors import BackendError
from tc.options import MappingOptions
from tc.plan import Part, Plan
from tc.polyhedral.actions.apply import apply_plan
from tc.polyhedral.actions.loops import sequence_of
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Node, Sequence, leaves
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import Chosen, Target


@dataclass(frozen=True)
class Mapped:
    """The tree with tiles, promotions and roles, the plan that made it, and why it is so, a
    sentence or two a note."""

    tree: Node
    plan: Plan
    notes: tuple[str, ...]


def map_schedule(
    tree: Node,
    facts: Facts,
    dependences: Dependences,
    target: Target,
    options: MappingOptions,
    plan: Plan | None = None,
) -> Mapped:
    """A tree as a plan says; parts that it leaves out are chosen. Statements of a part that do not
    run at these sizes are passed over; where the rest cannot be done without them, it is chosen.

    Raises BackendError for a plan that cannot be done, or that no dependence allows.
    """
    parts = () if plan is None else plan.parts
    running = Plan(tuple(_running(parts, facts.scop)))
    try:
        return _mapped(tree, facts, dependences, target, options, running)
    except BackendError:
        whole = Plan(tuple(part for part in parts if part in running.parts))
        if whole == running:
            raise
    return _mapped(tree, facts, dependences, target, options, whole)


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
    facts: Facts,
    dependences: Dependences,
    target: Target,
    options: MappingOptions,
    plan: Plan,
) -> Mapped:
    found = list(_parts(tree, facts, target, options, plan))
    whole = Plan(tuple(chosen.part for chosen in found))
    notes = tuple(note for chosen in found for note in chosen.notes)
    if plan.parts:
        return Mapped(apply_plan(tree, whole, facts, dependences, target), whole, notes)
    nodes = tuple(chosen.tree for chosen in found)
    return Mapped(Sequence(nodes) if isinstance(tree, Sequence) else nodes[0], whole, notes)


def _parts(
    tree: Node, facts: Facts, target: Target, options: MappingOptions, plan: Plan
) -> Iterator[Chosen]:
    """The parts of a tree: those of the plan, and between them chosen ones."""
    left = list(tree.children if isinstance(tree, Sequence) else (tree,))
    between: list[Node] = []
    for part in plan.parts:
        while left and next(leaves(left[0])) not in part.statements[:1]:
            between.append(left.pop(0))
        own: list[Node] = []
        while left and len([n for c in own for n in leaves(c)]) < len(part.statements):
            own.append(left.pop(0))
        if not own or tuple(n for c in own for n in leaves(c)) != part.statements:
            raise _no_such_part(part, tree)
        if between:
            yield from target.choose(sequence_of(between), facts, options)
            between = []
        note = f"{', '.join(part.statements)}: as the plan says."
        yield Chosen(part, (note,), sequence_of(own))
    between += left
    if between or not plan.parts:
        yield from target.choose(sequence_of(between), facts, options)


def _no_such_part(part: Part, tree: Node) -> BackendError:
    nodes = tree.children if isinstance(tree, Sequence) else (tree,)
    there = "; ".join(", ".join(leaves(node)) for node in nodes)
    return BackendError(
        f"the plan has a part {', '.join(part.statements)!r}, and the program's parts, in order, "
        f"are {there}; a part is one of these, or several that follow each other",
        repair=str(Plan(tuple(Part(tuple(leaves(node))) for node in nodes))),
    )
