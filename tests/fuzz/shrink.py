"""A failing case made smaller for as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.execute import Verdict
from tests.fuzz.model import (
    KNOWN,
    Case,
    Expr,
    Outputs,
    Param,
    Statement,
    children,
    num,
    reads,
    replace_at,
    walk,
)
from tests.fuzz.workers import Workers

SECONDS = 60.0
MOST_TRIES = 250


def shrink(case: Case, verdict: Verdict, workers: Workers) -> Case:
    """The smallest case found that fails in the same way."""
    end, tries = time.monotonic() + SECONDS, 0
    case = replace(case, ranges=(), shapes={})
    if verdict.kind == "oracle":
        return case  # only the whole model tells what is right
    improved = True
    while improved:
        improved = False
        for smaller in candidates(case):
            if tries >= MOST_TRIES or time.monotonic() > end:
                return case
            tries += 1
            if fails_alike(smaller, verdict, workers):
                case, improved = smaller, True
                break
    return case


def fails_alike(case: Case, verdict: Verdict, workers: Workers) -> bool:
    found = workers.judge(replace(case, refused=None))
    if found.kind != verdict.kind or found.rule != verdict.rule:
        return False
    return _head(found.detail) == _head(verdict.detail) or found.kind == "wrong"


def _head(detail: str) -> str:
    return detail.partition(":")[0]


def candidates(case: Case) -> Iterator[Case]:
    """Cases with one thing less, the largest steps first."""
    for at in range(len(case.statements)):
        yield from _without(case, at)
    for key in list(case.options):
        yield replace(case, options={k: v for k, v in case.options.items() if k != key})
        inner = case.options[key]
        if isinstance(inner, dict):
            for name in inner:
                less = {k: v for k, v in inner.items() if k != name}
                yield replace(case, options={**case.options, key: less})
    if case.helper:
        yield replace(case, helper=0)
    if case.device and case.backend != "evaluate":
        yield replace(case, device={})
    if case.outputs.names:
        yield replace(case, outputs=Outputs())
    used = {e[1] for s in case.statements for x in _expressions(s) for e in reads(x)}
    used |= {n for s in case.statements if s.rhs[0] == "concat" for n in s.rhs[1]}
    for p in case.params:
        if p.name not in used:
            yield replace(case, params=tuple(q for q in case.params if q is not p))
    for name in case.returns:
        if len(case.returns) > 1:
            names = tuple(n for n in case.outputs.names if n != name)
            yield replace(
                case,
                returns=tuple(n for n in case.returns if n != name),
                outputs=replace(case.outputs, names=names, form="dict"),
            )
    for at, p in enumerate(case.params):
        for simpler in _simpler(p):
            yield replace(case, params=(*case.params[:at], simpler, *case.params[at + 1 :]))
    for at, statement in enumerate(case.statements):
        for smaller in _smaller(statement):
            yield replace(case, statements=_with(case.statements, at, smaller))
    for name, size in case.sizes.items():
        for less in dict.fromkeys((1, 2, size // 2, size - 1)):
            if 0 < less < size:
                yield replace(case, sizes={**case.sizes, name: less})


def _with(statements: tuple[Statement, ...], at: int, new: Statement) -> tuple[Statement, ...]:
    return (*statements[:at], new, *statements[at + 1 :])


def _without(case: Case, at: int) -> Iterator[Case]:
    if len(case.statements) == 1:
        return
    statements = (*case.statements[:at], *case.statements[at + 1 :])
    helper = case.helper - 1 if at < case.helper else case.helper
    targets = {s.target for s in statements}
    returns = tuple(n for n in case.returns if n in targets)
    if not returns:
        returns = (statements[-1].target,)
    names = tuple(n for n in case.outputs.names if n in returns)
    yield replace(
        case,
        statements=statements,
        helper=helper,
        returns=returns,
        outputs=replace(case.outputs, names=names, form="dict"),
    )


def _expressions(s: Statement) -> tuple[Expr, ...]:
    bounds = tuple(x for _, low, high in s.where for x in (low, high))
    return (*bounds, s.rhs) if s.rhs[0] != "concat" else bounds


def _simpler(p: Param) -> Iterator[Param]:
    if p.axes or p.steps:
        yield replace(p, axes=(), steps=())
    counted_on = p.values.startswith(("index", "beyond", KNOWN))
    if p.type != "float" and not counted_on:
        yield replace(p, type="float")
    if p.values not in ("ones", "integers") and not counted_on:
        yield replace(p, values="ones")
        yield replace(p, values="integers")
    for at, dim in enumerate(p.dims):
        if dim.isdigit() and int(dim) > 1:
            for less in dict.fromkeys((int(dim) // 2, int(dim) - 1)):
                yield replace(p, dims=(*p.dims[:at], str(less), *p.dims[at + 1 :]))


def _smaller(s: Statement) -> Iterator[Statement]:
    if s.rhs[0] == "concat":
        for at in range(len(s.rhs[1])):
            if len(s.rhs[1]) > 1:
                yield replace(s, rhs=("concat", (*s.rhs[1][:at], *s.rhs[1][at + 1 :])))
        return
    for at in range(len(s.where)):
        yield replace(s, where=(*s.where[:at], *s.where[at + 1 :]))
    for position, e in enumerate(walk(s.rhs)):
        for simpler in _instead(e):
            yield replace(s, rhs=replace_at(s.rhs, position, simpler))
    for at, (name, low, high) in enumerate(s.where):
        for new in _fewer(low, high):
            yield replace(s, where=(*s.where[:at], (name, *new), *s.where[at + 1 :]))


def _instead(e: Expr) -> Iterator[Expr]:
    if e[0] in ("var", "size"):
        return
    if e[0] == "num":
        if e[1] not in ("0", "1"):
            yield num(1)
        return
    if e[0] != "read":
        yield from children(e)
    elif e[2] != () and any(x[0] not in ("var", "num") for x in e[2]):
        for at, x in enumerate(e[2]):
            for y in children(x):
                if y[0] == "var":
                    yield ("read", e[1], (*e[2][:at], y, *e[2][at + 1 :]))
    yield num(1)


def _fewer(low: Expr, high: Expr) -> Iterator[tuple[Expr, Expr]]:
    if low != num(0):
        yield num(0), high
    if high[0] == "num":
        value: Any = int(high[1])
        for less in dict.fromkeys((2, value // 2, value - 1)):
            if 0 < less < value:
                yield low, num(less)
