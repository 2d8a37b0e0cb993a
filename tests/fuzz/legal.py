"""Legal programs to break: the generator's own, small, with all that a call of them takes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.fuzz import generate
from tests.fuzz.execute import Arrays, run_of
from tests.fuzz.model import KNOWN, Case, Expr, Param, Statement, reads

MOST_STATEMENTS = 3
MOST_ELEMENTS = 4000


@dataclass(frozen=True)
class Call:
    """A text and what it is called with; `outputs` as `outputs=` takes them."""

    text: str
    inputs: dict[str, Any]
    outputs: Any = None

    def args(self) -> dict[str, Any]:
        """Fresh copies of the inputs."""
        return {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in self.inputs.items()}


def cases(seed: int) -> Iterator[Case]:
    """Yields small programs that are legal by the model."""
    index = 0
    while True:
        case = generate.case(seed, index, ("numba",))
        index += 1
        elements = [int(np.prod(case.shape(p))) for p in case.params]
        small = len(case.statements) <= MOST_STATEMENTS and sum(elements) <= MOST_ELEMENTS
        counted_on = any(p.values.startswith(("beyond", KNOWN)) for p in case.params)
        is_whole = small and all(elements) and not needs_outputs(case)
        if case.refused == "" and is_whole and not counted_on:
            yield replace(case, outputs=replace(case.outputs, names=()), helper=0)


def needs_outputs(case: Case) -> bool:
    """Whether a statement reads its target before any has written it."""
    written: set[str] = set()
    for statement in case.statements:
        own = statement.target not in written
        if own and any(read[1] == statement.target for read in reads(statement.rhs)):
            return True
        written.add(statement.target)
    return False


def call_of(case: Case) -> Call:
    return Call(case.text, dict(Arrays(run_of(case)).values))


# --- edits ------------------------------------------------------------------------------------


def with_statement(case: Case, new: Statement, returned: bool = False) -> Case:
    """The program with a further statement at the end."""
    returns = (*case.returns, new.target) if returned and new.target not in case.returns else None
    return replace(case, statements=(*case.statements, new), returns=returns or case.returns)


def with_input(case: Case, *params: Param) -> Case:
    return replace(case, params=(*case.params, *params))


def edited(case: Case, at: int, **changes: Any) -> Case:
    """The program with one statement changed."""
    statements = list(case.statements)
    statements[at] = replace(statements[at], **changes)
    return replace(case, statements=tuple(statements))


def pick(case: Case, rng: random.Random, wanted: Any) -> int | None:
    """The number of a statement that is as wanted."""
    fitting = [k for k, s in enumerate(case.statements) if s.rhs[0] != "concat" and wanted(s)]
    return rng.choice(fitting) if fitting else None


def ranked(case: Case, least: int) -> Param | None:
    """An input of at least a rank."""
    for p in case.params:
        if len(p.dims) >= least and all(case.shape(p)):
            return p
    return None


def zeros(rank: int) -> tuple[Expr, ...]:
    return (("num", "0"),) * rank
