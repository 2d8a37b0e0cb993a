"""isl's scheduler as a program: reads a question as JSON from its input, prints a tree as JSON.

The settings are those that gave most programs a schedule without skewing: coefficients of at most
1, no shifts, coincident members first. What they still skew, reverse or stretch, our trees cannot
say; the answer then is a problem in words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import islpy as isl


class Unsayable(Exception):
    """The schedule is none of our trees."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """{"tree": ...}, or {"problem": words}."""
    context = isl.Context()
    context.set_schedule_whole_component(1)
    context.set_schedule_maximize_coincidence(1)
    context.set_schedule_max_coefficient(1)
    context.set_schedule_max_constant_term(0)
    validity = isl.UnionMap(question["validity"], context)
    constraints = (
        isl.ScheduleConstraints.on_domain(isl.UnionSet(question["domain"], context))
        .set_validity(validity)
        .set_coincidence(validity)
        .set_proximity(isl.UnionMap(question["proximity"], context))
    )
    try:
        root = constraints.compute_schedule().get_root()
        return {"tree": _node(root.child(0), question["names"], 0)}
    except (isl.Error, Unsayable) as error:
        return {"problem": str(error)}


def _node(node: Any, names: dict[str, list[str]], depth: int) -> dict[str, Any]:
    match node.get_type():
        case isl.schedule_node_type.leaf:
            return {"kind": "leaf"}
        case isl.schedule_node_type.band:
            partial = node.band_get_partial_schedule()
            count = partial.dim(isl.dim_type.set)
            members = [_row(partial.get_at(i), names) for i in range(count)]
            child = _node(node.child(0), names, depth + count)
            return {"kind": "band", "depth": depth, "members": members, "child": child}
        case isl.schedule_node_type.sequence | isl.schedule_node_type.set:
            children = []
            for i in range(node.n_children()):
                filtered = node.child(i)
                below = _statements(filtered.filter_get_filter(), names)
                children.append((below, _node(filtered.child(0), names, depth)))
            return {"kind": "sequence", "children": children}
        case other:
            raise Unsayable(f"its schedule has a node of type {other}")


def _statements(domain: Any, names: dict[str, list[str]]) -> list[str]:
    """The statements of a filter, in text order."""
    found = {part.get_tuple_name() for part in _parts(domain.foreach_set)}
    return [row[0] for name, row in names.items() if name in found]


def _parts(foreach: Callable[[Callable[[Any], None]], None]) -> list[Any]:
    """The parts of a union, of each of which isl tells in a call."""
    found: list[Any] = []
    foreach(lambda part: found.append(part.copy()))
    return found


def _row(function: Any, names: dict[str, list[str]]) -> dict[str, tuple[str | None, int]]:
    """The variable (or None) and offset of each statement in one member of a band."""
    found = {}
    for part in _parts(function.foreach_pw_aff):
        name = part.get_space().get_tuple_name(isl.dim_type.in_)
        statement, *variables = names[name]
        pieces = part.get_pieces()
        if len(pieces) != 1:
            raise Unsayable(f"it runs {statement} along a function of {len(pieces)} pieces")
        found[statement] = _value(pieces[0][1], statement, variables)
    return found


def _value(aff: Any, statement: str, variables: list[str]) -> tuple[str | None, int]:
    factors = [
        aff.get_coefficient_val(isl.dim_type.in_, i).to_python() for i in range(len(variables))
    ]
    used = [(f, v) for f, v in zip(factors, variables, strict=True) if f]
    offset = aff.get_constant_val().to_python()
    if len(used) > 1 or aff.dim(isl.dim_type.div):
        terms = " + ".join(v if f == 1 else f"{f} {v}" for f, v in used)
        raise Unsayable(f"it runs {statement} along {terms or aff}, which is skewed")
    if not used:
        return None, int(offset)
    ((factor, variable),) = used
    if factor != 1:
        how = "reversed" if factor == -1 else "stretched"
        raise Unsayable(f"it runs {statement} along {factor} {variable}, which is {how}")
    return variable, int(offset)


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
