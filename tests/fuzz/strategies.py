"""The generator as Hypothesis strategies, for tests of single stages and for whole programs.

The whole of a case comes from one number: where each choice is drawn on its own, Hypothesis spends
most examples on variations of a few programs. `tests.fuzz.shrink` makes a case smaller.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from hypothesis import strategies as st

from tests.fuzz import generate
from tests.fuzz.chains import add_chain
from tests.fuzz.drafts import Body
from tests.fuzz.legal import Call, call_of, needs_outputs
from tests.fuzz.model import KNOWN, Case, replace_at, walk
from tests.fuzz.scope import Scope

SEEDS = st.integers(0, 2**32 - 1)


def cases(most_instances: int = generate.MOST_INSTANCES) -> st.SearchStrategy[Case]:
    """Cases with at most about `most_instances` instances of statements."""
    return SEEDS.map(lambda seed: small_case(seed, most_instances))


def small_case(seed: int, most_instances: int) -> Case:
    """The case of a seed."""
    drawn = (generate.case(seed, k) for k in range(10**6))
    return replace(next(c for c in drawn if instances(c) <= most_instances), helper=0)


def instances(case: Case) -> int:
    return sum(math.prod(b - a for _, a, b in span) for span in case.ranges)


def calls(most_instances: int = 1500) -> st.SearchStrategy[Call]:
    """Programs with their inputs; nearly all of them legal. None needs an output to be passed."""
    return cases(most_instances).filter(lambda case: not needs_outputs(case)).map(call_of)


def disturbed_cases(most_instances: int = 1500) -> st.SearchStrategy[Case]:
    """The same with an expression of some statement in the place of another, and perhaps an input
    of another shape: legal or not."""
    return st.builds(_disturbed, cases(most_instances), SEEDS)


def disturbed_calls(most_instances: int = 1500) -> st.SearchStrategy[Call]:
    return disturbed_cases(most_instances).map(call_of)


def _disturbed(case: Case, seed: int) -> Case:
    rng = random.Random(seed)
    at = [k for k, s in enumerate(case.statements) if s.rhs[0] != "concat"]
    if not at:
        return case
    pieces = [e for k in at for e in walk(case.statements[k].rhs)]
    statements = list(case.statements)
    for _ in range(rng.choice((1, 1, 2))):
        k = rng.choice(at)
        rhs = statements[k].rhs
        position = rng.randrange(sum(1 for _ in walk(rhs)))
        statements[k] = replace(statements[k], rhs=replace_at(rhs, position, rng.choice(pieces)))
    params = list(case.params)
    ranked = [k for k, p in enumerate(params) if p.dims]
    if ranked and rng.random() < 0.4:
        k = rng.choice(ranked)
        dims = list(params[k].dims)
        dims[rng.randrange(len(dims))] = rng.choice([*case.sizes, "2", "3"])
        params[k] = replace(params[k], dims=tuple(dims))
    return replace(
        case, params=tuple(params), statements=tuple(statements), refused=None, ranges=(), shapes={}
    )


def exact_chains() -> st.SearchStrategy[Case]:
    """Chains of statements whose results are the same to the bit in every order of operations: of
    small integers, or of integers that become halves between the statements (Y8) but are exact
    within one."""
    return SEEDS.map(_exact_chain)


def _exact_chain(seed: int) -> Case:
    rng = random.Random(seed)
    while True:
        type, values = rng.choice((("int", "integers"), ("half", "thousands")))
        body = Body(Scope(rng, (type,), values))
        add_chain(body)
        case = generate.assembled(rng, body, ("numba",))
        if case is not None:
            known = [p.values.startswith(KNOWN) for p in case.params]
            params = tuple(
                p if kept else replace(p, values=values)
                for p, kept in zip(case.params, known, strict=True)
            )
            outputs = replace(case.outputs, names=())
            return replace(case, params=params, outputs=outputs, helper=0)
