"""What becomes of a program's text: formatted, explained, emitted, and its plan as a text."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np

import tc
from tc.explanation import STAGES
from tc.frontend.format import format_source
from tc.pipeline import check_module, parse_source
from tc.polyhedral.schedule import tiles as promoted_tiles
from tc.tuning.canonical import canonical_text
from tests.polyhedral.test_plans_given_back import DEVICES, assert_given_back
from tests.support.bounds import as_tuple
from tests.support.programs import Case
from tests.test_programs import fresh
from tests.verbs.calls import assert_right, called, compiled

HASWELL = tc.Device(vector_bits=256, l2=1 << 20, l3=32 << 20, threads=2, gflops=200.0, gbytes=20.0)
AMPERE = tc.Gpu.named("sm_80")


def format_and_parse(case: Case) -> None:
    """The canonical layout stays as it is, and is the same program, name for name."""
    text = format_source(tc.Source(case.text))
    assert format_source(tc.Source(text)) == text
    before, after = (
        check_module(parse_source(tc.Source(each)), case.def_name) for each in (case.text, text)
    )
    assert canonical_text(before) == canonical_text(after)
    assert [*before.tensors] == [*after.tensors]
    assert_right(case, called(case, tc.compile(text, entry=case.def_name, backend="interpret")))


def explain(case: Case) -> None:
    """Every stage has a text, which names the tensors and statements of the program."""
    inputs, _ = fresh(case)
    explanation = tc.explain(case.text, inputs, entry=case.def_name, device=HASWELL)
    stages = explanation.stages
    assert tuple(stages) == STAGES
    assert explanation.trace is not None
    for text in (*stages.values(), str(explanation)):
        assert text
        assert not any(line != line.rstrip() for line in text.split("\n"))
    made = explanation.trace.lowering
    for statement in made.scop.statements:
        for stage in ("scop", "schedule", "mapping"):
            assert statement.name in stages[stage]
    for tile in promoted_tiles(made.mapped.tree):
        assert f"- {tile.buffer}: " in stages["mapping"]
    for dependence in made.dependences.all:
        assert f"{dependence.kind} through {dependence.tensor}" in stages["dependences"]
    assert stages["source"] == str(explanation.trace.text).rstrip("\n")


def plan(case: Case) -> None:
    """The plan that is chosen, printed and read back, makes the same kernel."""
    inputs, _ = fresh(case)
    for device in DEVICES:
        for options in (tc.Options(), *tc.PRESETS.values()):
            assert_given_back(case.text, case.def_name, inputs, device, options)


def plan_replayed(case: Case) -> None:
    """The plan of a function, printed, read and given to another, which is right, and has it. An
    explanation is of a call without outputs, unless the program needs these."""
    inputs, outputs = fresh(case)
    for backend in ("numba", "c"):
        function = compiled(case, backend)
        told = function.explain(**inputs).stages["plan"]
        options = tc.Options(plan=tc.Plan.from_json(told))
        again = compiled(case, backend, options=options)
        if outputs and not function.program.needs_initial:
            for found, wanted in zip(
                as_tuple(again(**inputs)), as_tuple(function(**inputs)), strict=True
            ):
                np.testing.assert_array_equal(found, wanted)
        else:
            assert_right(case, called(case, again))
        assert again.explain(**inputs).stages["plan"] == told


def emit(case: Case) -> None:
    """In every language, without the machine that it is for; C is what a compiler takes without a
    warning."""
    inputs, _ = fresh(case)
    for backend, device in (
        ("numba", HASWELL),
        ("c", HASWELL),
        ("opencl", AMPERE),
        ("cuda", AMPERE),
    ):
        given = {"entry": case.def_name, "backend": backend, "device": device}
        emitted = tc.emit(case.text, inputs, **given)
        told = tc.explain(case.text, inputs, **given, check=False)
        assert str(emitted).rstrip("\n") == told.stages["source"]
        assert case.def_name in str(emitted)
    if compiler := shutil.which("gcc"):
        text = str(tc.emit(case.text, inputs, entry=case.def_name, backend="c"))
        command = [compiler, "-x", "c", "-march=native", "-fopenmp-simd", "-Wall", "-Werror"]
        command.append("-Wno-psabi")  # of vectors of 64 bytes, whatever a text's pragma says
        done = subprocess.run(
            [*command, "-S", "-o", "/dev/null", "-"], input=text, text=True, capture_output=True
        )
        assert (done.returncode, done.stderr) == (0, "")
