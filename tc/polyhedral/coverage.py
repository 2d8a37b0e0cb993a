"""Whether a schedule tree runs each instance of each statement exactly once.

Each statement has one leaf; the members on the way to it hold digits of its variables, and the
digits of a variable must make up its value as hours and minutes make up a time: equal origins, the
span of each the step of the one before, the last step 1, and the first without a span that its
values pass. A digit of a single value (a tile as large as what it divides) does not matter.
"""

from __future__ import annotations

from collections import Counter

from tc.plan import AXES, BLOCK, PARALLEL, SERIAL, THREAD, UNROLL, VECTOR
from tc.polyhedral.schedule import Member, Node, leaves, members_below
from tc.polyhedral.scop.scop import Scop, ScopStatement

ROLES = (SERIAL, PARALLEL, UNROLL, VECTOR, BLOCK, THREAD)


def coverage_fault(tree: Node, scop: Scop) -> str | None:
    """Why a tree does not run each instance exactly once, None where it does."""
    statements = {s.name: s for s in scop.statements}
    found = Counter(leaves(tree))
    for name in (*statements, *found):
        if found[name] != 1 or name not in statements:
            where = "" if name in statements else ", which the scop does not have"
            return f"{name} has {found[name]} leaves{where}"
    faults = (_members_fault(statements[name], m) for name, m in members_below(tree).items())
    return next(filter(None, faults), None)


def _members_fault(statement: ScopStatement, members: tuple[Member, ...]) -> str | None:
    digits: dict[str, list[Member]] = {name: [] for name in statement.variables}
    bound: dict[tuple[str, str | None], Member] = {}
    for member in members:
        value = member.values.get(statement.name)
        if value is None:
            return f"[{member}] gives {statement.name} no value"
        if not _is_well_formed(member):
            return f"[{member}] is no digit: its step, span or role makes no sense"
        other = bound.setdefault((member.role, member.axis), member)
        if member.axis is not None and other is not member:
            return f"[{other}] and [{member}] of {statement.name} are bound to one axis"
        if value.variable is None:
            least = value.offset
        elif value.variable in digits:
            digits[value.variable].append(member)
            least = statement.ranges[value.variable][0] + value.offset
        else:
            return f"[{member}] runs along {value.variable}, which {statement.name} does not have"
        if least < member.origin:
            return f"[{member}] begins after {statement.name} does, at {least}"
    faults = (_digits_fault(statement, name, found) for name, found in digits.items())
    return next(filter(None, faults), None)


def _is_well_formed(member: Member) -> bool:
    span = member.span
    is_digit = member.step >= 1 and (span is None or (span > 0 and span % member.step == 0))
    if member.role in (BLOCK, THREAD):
        is_bound = member.axis in AXES and (member.count is None or member.count >= 1)
    else:
        is_bound = member.axis is None and member.count is None
    return is_digit and member.role in ROLES and is_bound


def _digits_fault(statement: ScopStatement, variable: str, digits: list[Member]) -> str | None:
    """Why the digits do not make up the values of a variable; one that has a single value needs
    none."""
    begin, end = statement.ranges[variable]
    if not digits:
        if end - begin <= 1:
            return None
        return f"no member runs along {variable} of {statement.name}"
    starts = {m.values[statement.name].offset - m.origin for m in digits}
    if len(starts) > 1:
        return f"the digits of {variable} of {statement.name} have different origins"
    largest = end - 1 + starts.pop()
    moving = sorted((m for m in digits if m.span != m.step), key=lambda m: m.step, reverse=True)
    spans = [m.span if m.span is not None else largest + 1 for m in moving]
    steps = [m.step for m in moving]
    if largest == 0 or (steps and spans[0] > largest and spans[1:] + [1] == steps):
        return None
    listed = ", ".join(f"[{m}]" for m in digits)
    return f"the digits {listed} do not make up {variable} of {statement.name}"
