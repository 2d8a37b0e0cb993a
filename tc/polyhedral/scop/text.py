"""Scops and dependences as text, in isl's notation of sets and relations, for `tc explain`.

A variable of a dependence's sink is written as the source's where the two are equal, else primed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tc.affine.forms import Form, text_of
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import SINK, SOURCE, Key, Relation
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.polyhedral.scop.value_flow import value_flow

KINDS = {
    "zero": "zeros, as some elements are never written (G4)",
    "init": "the start at the identity (R2, R3)",
}
NONE = ("  none",)


def scop_text(scop: Scop) -> str:
    """The statements of a scop in order, each with its domain and its access relations."""
    return "\n".join(line for statement in scop.statements for line in _lines(scop, statement))


def dependences_text(dependences: Dependences) -> str:
    """The dependences, and for each read the write whose value is read."""
    scop = dependences.scop
    by_memory, by_value = [], []
    for dependence in dependences.all:
        order = ", in any order (R5)" if dependence.relaxed else ""
        relation = _relation(dependence, scop)
        by_memory.append(f"  {dependence.kind} through {dependence.tensor}{order}: {relation}")
    for flow in value_flow(scop):
        whose = " as the caller passed it" if flow.source is None else ""
        by_value.append(f"  {flow.tensor}{whose}: {flow.relation}")
    memory_based = ("memory-based, without those that follow from others:", *(by_memory or NONE))
    value_based = ("value-based, the last write before each read:", *(by_value or NONE))
    return "\n".join((*memory_based, *value_based))


def _lines(scop: Scop, statement: ScopStatement) -> Iterator[str]:
    own = KINDS.get(statement.kind)
    text = scop.shaped.statements[statement.position].statement.text
    yield f"{statement.name}: {f'{own}, before ' if own else ''}{text}"
    instance = _instance(statement)
    box = [f"{begin} <= {v} < {end}" for v, (begin, end) in statement.ranges.items()]
    yield f"  domain {_set(instance, box)}"
    yield f"  writes {_access(instance, statement.write)}"
    for place, access in enumerate(statement.reads):
        if place == 0 and statement.accumulates:
            note = f", the accumulator of {statement.op}="
        else:
            note = ", in a branch" if access.guarded else ""
        is_may = access.guarded or None in access.subscripts
        yield f"  {'may read' if is_may else 'reads'} {_access(instance, access)}{note}"


def _instance(statement: ScopStatement) -> str:
    return f"{statement.name}[{', '.join(statement.variables)}]"


def _access(instance: str, access: Access) -> str:
    """An access relation; a subscript that is not linear is any element in its bounds."""
    subscripts, conditions = [], []
    for axis, (form, (begin, end)) in enumerate(zip(access.subscripts, access.bounds, strict=True)):
        if form is None:
            subscripts.append(f"x{axis}")
            conditions.append(f"{begin} <= x{axis} < {end}")
        else:
            subscripts.append(text_of(form))
    return _set(f"{instance} -> {access.tensor}[{', '.join(subscripts)}]", conditions)


def _relation(dependence: Dependence, scop: Scop) -> str:
    relation = dependence.relation
    source, sink = scop.statement(dependence.source), scop.statement(dependence.sink)
    names = _names(relation)
    places = [_solved(relation, names, (SINK, v)) for v in sink.variables]
    conditions = [
        f"{v} = {text}"
        for v, (begin, end) in source.ranges.items()
        if end - begin > 1 and (text := _solved(relation, names, (SOURCE, v))) != v
    ]
    for root, (begin, end) in relation.ranges.items():
        if (begin, end) != relation.boxes[root]:
            name, offset = names[root]
            conditions.append(f"{begin} <= {text_of(Form(offset, {name: 1}))} < {end}")
    for constraint in relation.rest:
        values = {root: Form(offset, {name: 1}) for root, (name, offset) in names.items()}
        text, (low, high) = text_of(constraint.form.substituted(values)), constraint.inside
        conditions.append(f"{text} = {low}" if low == high else f"{low} <= {text} < {high + 1}")
    return _set(f"{_instance(source)} -> {sink.name}[{', '.join(places)}]", conditions)


def _names(relation: Relation) -> dict[Key, tuple[str, int]]:
    """Each root as a variable to write plus a constant: one of the source where there is one."""
    names: dict[Key, tuple[str, int]] = {}
    for (side, name), (root, offset) in relation.solved.items():
        if root is not None and root not in names:
            names[root] = (name if side == SOURCE else f"{name}'", -offset)
    return names


def _solved(relation: Relation, names: Mapping[Key, tuple[str, int]], key: Key) -> str:
    root, offset = relation.solved[key]
    if root is None:
        return str(offset)
    name, plus = names[root]
    return text_of(Form(plus + offset, {name: 1}))


def _set(what: str, conditions: Iterable[str]) -> str:
    joined = " and ".join(conditions)
    return f"{{ {what} : {joined} }}" if joined else f"{{ {what} }}"
