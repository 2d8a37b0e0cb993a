"""Whole cases from a seed: a program, its arrays, options and a processor, drawn together."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.fuzz.drafts import Body
from tests.fuzz.extremes import extremes
from tests.fuzz.model import Case, Outputs, walk
from tests.fuzz.scope import FLOATS, INTEGERS, Scope
from tests.fuzz.statements import MAKERS, Maker, contraction, pointwise

MOST_INSTANCES = 40_000
MOST_OF_EXTREMES = 3000
"""Instances of a program of maxima and minima."""

PRESETS = ("naive", "pointwise", "contraction", "convolution", "mlp")
FUSIONS = ("auto", "max", "min", "preserve3coincident", "isl", "isl")
WIDE_PROCESSOR = "skylake-avx512"
TUNED_FOR = ("skylake-avx512", "icelake-server", "haswell", "znver2")
"""What a C compiler may take the processor for when it chooses among the same instructions."""


def case(seed: int, index: int, backends: tuple[str, ...] = ("numba", "c", "evaluate")) -> Case:
    """The case of a number in the sequence of a seed; the same on every machine."""
    rng = random.Random(f"{seed}/{index}")
    while True:
        made = _case(rng, backends)
        if made is not None:
            return made


def _case(rng: random.Random, backends: tuple[str, ...]) -> Case | None:
    scope = Scope(rng, _types(rng), _values(rng))
    body = Body(scope)
    makers, weights = list(MAKERS), list(MAKERS.values())
    favourite: Maker | None = rng.choices(makers, weights)[0] if rng.random() < 0.25 else None
    for _ in range(rng.choice((1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8))):
        again = favourite is not None and rng.random() < 0.6
        maker = favourite if again and favourite else rng.choices(makers, weights)[0]
        maker(body)
        if body.instances > MOST_INSTANCES or body.refused != "":
            break
    return assembled(rng, body, backends)


def extreme_case(seed: str) -> Case:
    """A program of a few statements with such maxima and minima, in one type of floats or two."""
    rng = random.Random(f"extremes {seed}")
    orders = (
        (extremes,),
        (extremes, extremes),
        (pointwise, extremes),
        (contraction, extremes),
        (extremes, contraction),
    )
    while True:
        types = rng.choice((("half",), ("half",), ("float",), ("double",), ("float", "half")))
        body = Body(Scope(rng, types, rng.choice(("normal", "normal", "integers"))))
        for maker in rng.choice(orders):
            maker(body)
        if body.instances > MOST_OF_EXTREMES or body.refused != "" or body.needs_outputs:
            continue
        if any(e[0] == "cast" for s in body.statements for e in walk(s.rhs)):
            continue  # in float64, nothing is left of it
        made = assembled(rng, body, ("numba",))
        if made is not None:
            return made


def assembled(rng: random.Random, body: Body, backends: tuple[str, ...]) -> Case | None:
    """The case of some statements, if there are as many as there may be; all else is drawn."""
    scope = body.scope
    if not body.statements or len(body.statements) > 9:
        return None
    defined = body.defined
    returned = [n for n in defined if n == defined[-1] or rng.random() < 0.7]
    returned = [n for n in defined if n in returned or n in body.needs_outputs]
    rng.shuffle(returned)
    device = random_device(rng)
    backend = _backend(rng, backends, body.instances)
    device = device if rng.random() < (0.8 if backend == "evaluate" else 0.4) else {}
    options = _options(rng)
    if scope.types == ("half",) and rng.random() < 0.3:
        options = {"schedule": {"fusion": "isl"}}  # where sums are stored, halves are rounded
    if backend == "c" and rng.random() < 0.5:
        device["tune"] = rng.choice(TUNED_FOR)
    if backend == "c" and rng.random() < 0.35:
        options = {"preset": "naive"}  # the compiler makes vectors of plain loops
    names = {s.target: None for s in body.statements}
    return Case(
        params=tuple(scope.params),
        returns=tuple(returned),
        statements=tuple(body.statements),
        sizes=dict(scope.sizes),
        seed=rng.randrange(10**6),
        outputs=_outputs(rng, returned, body.needs_outputs),
        backend=backend,
        options=options,
        device=device,
        edge=rng.choice(("ends", "ends", "begins")),
        refused=body.refused,
        helper=_helper(rng, body),
        ranges=tuple(body.ranges),
        shapes={n: scope.tensors[n].shape for n in names},
    )


def _types(rng: random.Random) -> tuple[str, ...]:
    kind = rng.random()
    if kind < 0.5:
        return ("float",)
    if kind < 0.6:
        return ("double",)
    if kind < 0.68:
        return ("half",)
    if kind < 0.72:
        return ("bfloat16",)
    if kind < 0.84:
        return (rng.choice((*INTEGERS, "int", "int64", "uint8")),)
    if kind < 0.88:
        return ("bool", "float", "int")
    if kind < 0.94:
        return FLOATS
    return (*INTEGERS, "bool", *FLOATS)


def _values(rng: random.Random) -> str:
    return rng.choices(
        ("normal", "normal 30", "integers", "ones", "wide", "nan", "positive"),
        (5, 2, 6, 3, 1, 1, 2),
    )[0]


def _outputs(rng: random.Random, returned: list[str], needed: set[str]) -> Outputs:
    """Nothing, or arrays for all or some of the outputs, in every form in which they may come."""
    if not needed and rng.random() < 0.5:
        return Outputs()
    names = [n for n in returned if n in needed or rng.random() < 0.75]
    forms = ["dict"]
    if len(names) == len(returned):
        forms += ["sequence", "sequence"]
        if len(names) == 1:
            forms += ["array", "array"]
    values = rng.choice(("fives", "fives", "normal", "nan", "integers"))
    return Outputs(tuple(names), rng.choice(forms), values) if names else Outputs()


def _helper(rng: random.Random, body: Body) -> int:
    """How many of the first statements are called: those read inputs and each other alone."""
    if len(body.statements) < 2 or body.needs_outputs or body.refused or rng.random() < 0.9:
        return 0
    return rng.randint(1, len(body.statements) - 1)


def _backend(rng: random.Random, backends: tuple[str, ...], instances: int) -> str:
    weights = {"numba": 50, "evaluate": 38 if instances < 2000 else 0, "c": 17}
    chosen = {name: weights.get(name, 10) for name in backends}
    if not any(chosen.values()):
        return "numba"
    return rng.choices(list(chosen), list(chosen.values()))[0]


def random_device(rng: random.Random) -> dict[str, Any]:
    """A processor, often with small caches, so that small programs meet every decision."""
    return {
        "vector_bits": rng.choice((0, 128, 128, 256, 256, 512, 512)),
        "unit_bits": rng.choice((0, 0, 128, 256)),
        "vector_registers": rng.choice((8, 16, 32)),
        "fma": rng.random() < 0.8,
        "exponents": rng.random() < 0.3,
        "l1": rng.choice((64, 1 << 12, 1 << 15)),
        "l2": rng.choice((64, 1 << 12, 1 << 20)),
        "l3": rng.choice((0, 1 << 14, 1 << 23)),
        "threads": rng.choice((1, 1, 2, 4)),
    }


def _options(rng: random.Random) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.4:
        return {}
    if kind < 0.55:
        return {"preset": rng.choice(PRESETS)}
    mapping: dict[str, Any] = {}
    schedule: dict[str, Any] = {}

    def perhaps(where: dict[str, Any], name: str, values: tuple[Any, ...], chance: float) -> None:
        if rng.random() < chance:
            where[name] = rng.choice(values)

    perhaps(mapping, "vector_bits", (0, 128, 256, 512), 0.25)
    perhaps(mapping, "rows", (1, 2, 3, 4, 5, 6, 6, 7), 0.6)
    perhaps(mapping, "vectors", (1, 2), 0.25)
    perhaps(mapping, "reduction_tile", (1, 1, 1, 2, 3, 5, 16), 0.6)
    perhaps(mapping, "pack", (True, False), 0.3)
    perhaps(mapping, "unroll", (1, 8, 30, 256), 0.3)
    perhaps(mapping, "parallel", (False,), 0.2)
    perhaps(schedule, "fusion", FUSIONS, 0.6)
    perhaps(schedule, "rewrite", (False,), 0.25)
    options: dict[str, Any] = {"mapping": mapping, "schedule": schedule}
    perhaps(options, "threads", (1, 2), 0.2)
    perhaps(options, "match_library", (True,), 0.1)
    return options


def for_wide_vectors(case: Case) -> Case:
    """The same program, compiled for a processor with vectors of 512 bits and not run."""
    return replace(case, backend="numba", device={}, compile_for=WIDE_PROCESSOR)
