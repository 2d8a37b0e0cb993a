"""The table: all that users do with programs, and for which programs that is refused.

A verb is a function from a program of `tests.support.programs` that raises where something is
wrong. A verb runs on every program in each run of the tests, or, if the verb takes long, on one of
several programs (`make soak` runs all). A hole says what is refused, and the test of a hole
fails where that is refused no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tc
from tc.options import PRESETS
from tests.support.opencl import MISSING, REASON, on_pocl
from tests.support.places import PLACES
from tests.support.programs import CASES, Case
from tests.test_programs import fresh
from tests.verbs import calls, derivatives, texts


@on_pocl
def opencl(case: Case) -> None:
    calls.on("opencl")(case)


@on_pocl
def opencl_naive(case: Case) -> None:
    """With tests of reads, which are off by default (G7)."""
    calls.on("opencl", options=PRESETS["naive"], check=True)(case)


def tune(case: Case) -> None:
    """For a second, on the inputs of the table: no candidate fails, and the best is right."""
    inputs, _ = fresh(case)
    with TemporaryDirectory(prefix="tc-verbs-") as folder:
        function, result = tc.autotune(
            case.text, inputs, entry=case.def_name, max_seconds=1, search="random",
            database=Path(folder) / "tuned.db",
        )  # fmt: skip
    assert [trial.failure for trial in result.trials] == [None] * len(result.trials)
    calls.assert_right(case, calls.called(case, function))


@dataclass(frozen=True)
class Verb:
    """What is done with a program, `run(case=...)`. In each run of the tests it is done with every
    `every`-th program; `needs` are the libraries that it takes, or why it cannot be done here."""

    name: str
    run: Callable[..., None]
    every: int = 1
    needs: tuple[str, ...] = ()
    missing: str = ""


VERBS = (
    Verb("interpret", calls.interpret),
    Verb("numba at guarded pages", calls.at_guarded_pages("numba")),
    Verb("c at guarded pages", calls.at_guarded_pages("c")),
    Verb("opencl", opencl, missing=REASON if MISSING else ""),
    Verb("opencl naive", opencl_naive, missing=REASON if MISSING else ""),
    Verb("dynamic sizes", calls.with_dynamic_sizes, every=9),
    Verb("strided inputs", calls.strided, every=12),
    Verb("broadcast inputs", calls.broadcast, every=9),
    Verb("outputs=", calls.with_outputs, every=4),
    Verb("pickled", calls.pickled, every=11),
    Verb("from disk", calls.from_disk, every=9),
    Verb("torch", calls.in_torch, every=9, needs=("torch",)),
    Verb("jax", calls.in_jax, needs=("jax",)),
    Verb("grad", derivatives.grad),
    Verb("grad in torch", derivatives.grad_in_torch, every=9, needs=("torch",)),
    Verb("grad in jax", derivatives.grad_in_jax, every=9, needs=("jax",)),
    Verb("vjp", derivatives.vjp, every=4),
    Verb("jvp", derivatives.jvp),
    Verb("second order", derivatives.second_order, every=6),
    Verb("batch", derivatives.batch),
    Verb("format and parse", texts.format_and_parse),
    Verb("explain", texts.explain),
    Verb("plan replayed", texts.plan_replayed, every=9),
    Verb("emit", texts.emit, every=6),
    Verb("tune", tune, every=18),
    Verb("verify", calls.verified, every=24),
    Verb("plan printed and read", texts.plan, every=4),
)


@dataclass(frozen=True)
class Hole:
    """A program that a verb refuses, with this error, whose text matches `says`; and why."""

    error: type[Exception]
    says: str
    reason: str


_INTEGERS = Hole(
    tc.GradError, "no floating input", "D10: functions of integers alone have no derivatives"
)
_IN_TORCH = Hole(RuntimeError, "does not require grad", _INTEGERS.reason)
_IN_JAX = Hole(TypeError, "requires real- or complex-valued inputs", _INTEGERS.reason)
_WITHOUT = ("histogram", "wrap", "reverse_bool", "annotated", "hash_words", "word_bits")
_IN_FRAMEWORKS = ("grad in torch", "grad in jax")
_DERIVED = ("grad", "vjp", "jvp", "second order")

_IN_DOUBLE = Hole(
    tc.CheckError, "takes the 32 bits", "Y12: the verb has doubles, whose bits are 64"
)

_NO_OUTPUTS = Hole(
    tc.InputError,
    "what jax traces is written to no array of outputs=",
    "R4: C begins with values, and arrays of jax are never written to",
)

_HELD = Hole(
    tc.InputError, "what is written to outputs= has no gradients", "R4: C begins with values"
)
_PLACES_OF_INTEGERS = (
    "count_keys", "one_hot", "bigrams", "triangles", "offsets", "pairs_in_range", "argmin_last",
    "odd_places", "counting_sort",
)  # fmt: skip
_SAME_ROWS = Hole(
    tc.AccessError, "writes each element once", "S2: equal rows of places are no permutation"
)

_READ_FIRST = Hole(
    tc.InputError, "before it writes it", "R4: a kernel would be given what it returns"
)

HOLES: dict[tuple[str, str], Hole] = {
    **{(program, verb): _INTEGERS for program in _PLACES_OF_INTEGERS for verb in _DERIVED},
    ("recall_at_thresholds", "jvp"): Hole(
        tc.GradError, "no floating output", "D10: counts have no tangents"
    ),
    **{(program, "grad in torch"): _IN_TORCH for program in _PLACES_OF_INTEGERS},
    **{(program, "grad in jax"): _IN_JAX for program in _PLACES_OF_INTEGERS},
    **{(p.name, "grad in torch"): _HELD for p in PLACES if p.outputs},
    **{(p.name, verb): _NO_OUTPUTS for p in PLACES if p.outputs for verb in ("jax", "grad in jax")},
    ("permute_rows", "broadcast inputs"): _SAME_ROWS,
    **{(program, verb): _INTEGERS for program in _WITHOUT for verb in _DERIVED},
    **{(program, "grad in torch"): _IN_TORCH for program in _WITHOUT},
    **{(program, "grad in jax"): _IN_JAX for program in _WITHOUT},
    **{("float_bits", verb): _IN_DOUBLE for verb in (*_DERIVED, *_IN_FRAMEWORKS, "batch")},
    **{(program, "verify"): _READ_FIRST for program in ("sgemm", "scale_selected")},
    ("sgemm", "grad in torch"): _HELD,
    ("sgemm", "jax"): _NO_OUTPUTS,
    ("sgemm", "grad in jax"): _NO_OUTPUTS,
}
"""By the names of program and verb."""


def drawn() -> dict[tuple[str, str], tuple[Verb, Case, bool]]:
    """All pairs of a verb and a program by their names, and whether each run of the tests has that
    pair: verbs take turns, so that every program has some of the long ones."""
    found, places = {}, [verb.name for verb in VERBS if verb.every > 1]
    for verb in VERBS:
        first = places.index(verb.name) if verb.name in places else 0
        for number, case in enumerate(CASES):
            is_drawn = (number + 5 * first) % verb.every == 0
            found[verb.name, case.name] = verb, case, is_drawn
    return found
