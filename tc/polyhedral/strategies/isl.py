"""The strategy "isl": isl's own scheduler, in a process with a time limit.

isl finds the wanted tree only for some programs, skews others, and on some does not end in any
useful time, which no quota of operations bounds. So it runs in a process that is killed, and what
it finds is taken only if our trees can say it and it passes the same check as all others. Whether
it ends in time depends on what else the machine does: a process remembers what came of it, so that
loops have the same names whenever a plan, or the repair of one, is applied there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tc.affine.forms import text_of
from tc.polyhedral.legality import annotated, respects
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, Value
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import box_text, instance_text, variable_text
from tc.polyhedral.scop.scop import ScopStatement
from tc.process.programs import run_program

WORKER = "tc.polyhedral.strategies.isl_worker"


REMEMBERED = 256
"""Questions whose answers are remembered."""


class _NotAsked(Exception):
    """Why isl was not asked, or told nothing: it may be asked again."""


def isl_tree(dependences: Dependences, seconds: float) -> str | Node:
    """The tree that isl's scheduler finds, its flags our own; or why there is none, in words that
    follow "but"."""
    scop = dependences.scop
    if not scop.statements:
        return Sequence(())
    try:
        answer = _ask(json.dumps(_question(dependences)), seconds)
    except _NotAsked as error:
        return str(error)
    if isinstance(answer, str):
        return answer
    names = [s.name for s in scop.statements]
    tree = annotated(_tree(answer, scop.statements, names), dependences)
    reason = respects(tree, dependences)
    return tree if reason is None else f"its schedule is not legal: {reason}"


@lru_cache(REMEMBERED)
def _ask(question: str, seconds: float) -> dict[str, Any] | str:
    """The tree that the worker prints, or what kept isl from finding one."""
    if not sys.executable:
        raise _NotAsked("there is no Python to run it in a process of its own")
    # The child must find tc and islpy where this process did, however its path was set up.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        done = run_program(
            [sys.executable, "-m", WORKER],
            seconds=seconds,
            environment={**os.environ, "PYTHONPATH": path},
            given=question,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end in {seconds:g} s"
    except OSError as error:
        raise _NotAsked(f"its process did not start: {error}") from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().split("\n")
        raise _NotAsked(f"its process failed with {done.returncode}: {lines[-1]}") from None
    if "problem" in answer:
        return str(answer["problem"])
    tree: dict[str, Any] = answer["tree"]
    return tree


# --- to isl's notation ------------------------------------------------------------------------


def _question(dependences: Dependences) -> dict[str, Any]:
    """What the worker is given: statements are named s0, s1, ..., in text order."""
    statements = dependences.scop.statements
    number = {s.name: f"s{i}" for i, s in enumerate(statements)}
    domain = "; ".join(f"{instance_text(number[s.name], s)} : {box_text(s)}" for s in statements)

    def union(some: Iterable[Dependence]) -> str:
        return "{ " + "; ".join(_map(d, number, dependences) for d in some) + " }"

    return {
        "names": {number[s.name]: [s.name, *s.variables] for s in statements},
        "domain": f"{{ {domain} }}",
        "validity": union(dependences.order),
        "proximity": union(d for d in dependences.all if d.kind == "flow"),
    }


def _map(dependence: Dependence, number: dict[str, str], dependences: Dependences) -> str:
    source, sink = (
        dependences.scop.statement(name) for name in (dependence.source, dependence.sink)
    )
    spelled = {variable_text((0, v)): f"v{i}" for i, v in enumerate(source.variables)}
    spelled |= {variable_text((1, v)): f"v{i}'" for i, v in enumerate(sink.variables)}
    conditions = [box_text(source), box_text(sink, "'")]
    for form, (low, high) in dependence.relation.conditions():
        conditions.append(f"{low} <= {text_of(form.renamed(spelled.__getitem__))} <= {high}")
    first = instance_text(number[source.name], source)
    second = instance_text(number[sink.name], sink, "'")
    return f"{first} -> {second} : {' and '.join(conditions)}"


# --- from what the worker answers -------------------------------------------------------------


def _tree(node: dict[str, Any], statements: tuple[ScopStatement, ...], below: list[str]) -> Node:
    match node["kind"]:
        case "leaf":
            found = tuple(Leaf(name) for name in below)
            return found[0] if len(found) == 1 else Sequence(found)
        case "sequence":
            parts = node["children"]
            return Sequence(tuple(_tree(child, statements, names) for names, child in parts))
        case _:
            members = tuple(
                _member(f"c{node['depth'] + i}", row, statements)
                for i, row in enumerate(node["members"])
            )
            return Band(members, False, _tree(node["child"], statements, below))


def _member(name: str, row: dict[str, list[Any]], statements: tuple[ScopStatement, ...]) -> Member:
    """A member with each statement's variable (or None) and offset, as the worker names them."""
    values = {statement: Value(*value) for statement, value in row.items()}
    ranges = {s.name: s.ranges for s in statements}
    origin = min(
        value.offset + (ranges[statement][value.variable][0] if value.variable else 0)
        for statement, value in values.items()
    )
    return Member(name, values, False, origin)
