"""From a schedule to a mapped one: the plan of each part, given or chosen, and its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tc.errors import BackendError
from tc.options import MappingOptions
from tc.plan import Part, Plan
from tc.polyhedral.actions.apply import apply_plan
from tc.polyhedral.actions.loops import sequence_of
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Node, Sequence, leaves
from tc.polyhedral.scop.dependences import Dependences
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
    """A tree as a plan says; parts that it leaves out are chosen.

    Raises BackendError for a plan that cannot be done, or that no dependence allows.
    """
    found = list(_parts(tree, facts, target, options, plan or Plan()))
    whole = Plan(tuple(chosen.part for chosen in found))
    notes = tuple(note for chosen in found for note in chosen.notes)
    if plan is not None and plan.parts:
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
            yield from target.choose(sequence_of(between), facts, target, options)
            between = []
        note = f"{', '.join(part.statements)}: as the plan says."
        yield Chosen(part, (note,), sequence_of(own))
    between += left
    if between or not plan.parts:
        yield from target.choose(sequence_of(between), facts, target, options)


def _no_such_part(part: Part, tree: Node) -> BackendError:
    nodes = tree.children if isinstance(tree, Sequence) else (tree,)
    there = "; ".join(", ".join(leaves(node)) for node in nodes)
    return BackendError(
        f"the plan has a part {', '.join(part.statements)!r}, and the program's parts, in order, "
        f"are {there}; a part is one of these, or several that follow each other",
        repair=str(Plan(tuple(Part(tuple(leaves(node))) for node in nodes))),
    )
