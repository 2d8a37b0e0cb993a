"""The tools of the generator: cases come again, travel, shrink, and outlive a dying process."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tc
from tests.fuzz import __main__ as programs
from tests.fuzz import files, generate, workers
from tests.fuzz.brute import Unknown, breaks_p1
from tests.fuzz.campaign import with_gpu_options
from tests.fuzz.execute import Refusal, Verdict, compare_refusals, judge, judge_run, run_of
from tests.fuzz.model import Case, Expr, Param, Statement, binary, num, read, reads, var
from tests.fuzz.plans import __main__ as plans
from tests.fuzz.rare import NO_NUMBER
from tests.fuzz.scope import Scope, Variable
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import Worker, Workers

COPY = Case(
    params=(Param("a", "float", ("N",), "normal", (0,), (-2,)),),
    returns=("o",),
    statements=(Statement("o", ("i",), "=", read("a", var("i"))),),
    sizes={"N": 5},
    refused="",
    ranges=((("i", 0, 5),),),
    shapes={"o": (5,)},
)


@pytest.mark.parametrize("index", range(40))
def test_a_case_comes_again_and_travels(index: int, tmp_path: Path) -> None:
    case = generate.case(7, index)
    assert generate.case(7, index) == case
    assert Case.from_json(case.to_json()) == case
    path = tmp_path / "case.tc"
    path.write_text(files.write(run_of(case), "wrong: for the test"))
    assert files.read(path) == run_of(case)


def test_all_verdicts_on_a_program_that_is_right() -> None:
    assert judge(COPY).kind == "ran"
    assert judge_run(run_of(COPY)).kind == "ran"
    assert judge(replace(COPY, backend="evaluate")).kind == "ran"


SCALED = replace(
    COPY,
    params=(Param("a", "float", ("N",)), Param("s", "int", (), "is 2")),
    statements=(
        Statement("o", ("i",), "=", read("a", binary("+", var("i"), ("size", "s")))),
        Statement("p", (), "+=!", read("o", var("k")), (("k", num(1), ("size", "s")),)),
    ),
    returns=("o", "p"),
    ranges=((("i", 0, 3),), (("k", 1, 2),)),
    shapes={"o": (3,), "p": ()},
)


def test_an_integer_input_that_ranges_depend_on() -> None:
    assert SCALED.constants == {"N": 5, "s": 2}
    assert judge(SCALED).kind == "ran"
    other = replace(SCALED, params=(SCALED.params[0], Param("s", "int", (), "is 1")))
    assert judge(other).detail == "o has shape (4,), and by the model (3,)"


def test_statements_of_a_def_that_is_called() -> None:
    case = replace(SCALED, helper=1)
    assert case.text == (
        "def helper(float(N) a, int s) -> (o) {\n  o(i) = a(i + s)\n}\n"
        "def f(float(N) a, int s) -> (o, p) {\n"
        "  o = helper(a, s)\n  p +=! o(k) where k in 1:s\n}\n"
    )
    assert judge(case).kind == "ran"


def test_a_size_of_0() -> None:
    a = Param("a", "float", ("N",))
    total = Statement("s", (), "max=!", read("a", var("k")))
    case = replace(
        COPY,
        params=(a,),
        returns=("o", "s"),
        statements=(*COPY.statements, total),
        sizes={"N": 0},
        ranges=((("i", 0, 0),), (("k", 0, 0),)),
        shapes={"o": (0,), "s": ()},
    )
    assert [judge(replace(case, backend=b)).kind for b in ("numba", "evaluate")] == ["ran", "ran"]


def test_every_kind_of_statement_is_drawn() -> None:
    cases = [generate.case(5, index) for index in range(150)]
    assert any(case.helper for case in cases)
    assert any(case.constants != case.sizes for case in cases)
    assert any(0 in case.shape(p) for case in cases for p in case.params)
    assert any("tune" in case.device for case in cases)


def test_what_is_no_number_is_expected_to_be_refused() -> None:
    cases = [generate.case(4, index) for index in range(1000)]
    drawn = [case for case in cases if NO_NUMBER in case.text]
    assert drawn
    assert {case.refused for case in drawn} == {"T1"}
    assert {judge(case).kind for case in drawn[:3]} == {"refused"}


def test_a_wrong_oracle_is_noticed() -> None:
    """A model that knows better than the interpreter is a finding, whoever is right."""
    assert judge(replace(COPY, shapes={"o": (4,)})).kind == "oracle"
    assert judge(replace(COPY, refused="P1")).kind == "oracle"


def test_the_model_leaves_integers_that_overflow_to_others() -> None:
    """Of 15! = 1307674368000 an int32 keeps 2004310016."""
    factorial = replace(
        COPY,
        params=(),
        statements=(
            Statement("o", ("i",), "*=", var("r"), (("i", num(0), num(1)), ("r", num(1), num(16)))),
        ),
        sizes={},
        ranges=((("i", 0, 1), ("r", 1, 16)),),
        shapes={"o": (1,)},
    )
    assert judge(factorial).kind == "ran"


def test_what_overflows_does_so_in_the_model_too() -> None:
    """e^96 is infinite in float32, and 4.9e41 in the float64 of the model."""
    copied = binary("+", binary("*", read("a", var("i")), num(0)), num(96))
    power = ("call", "exp", (read("o", var("i")),))
    case = replace(
        COPY,
        statements=(Statement("o", ("i",), "=", copied), Statement("o", ("i",), "=", power)),
        ranges=((("i", 0, 5),),) * 2,
    )
    assert judge(case).kind == "ran"


def test_subscripts_of_a_dimension_without_an_element() -> None:
    """0 is not feasible in `min(i, -1)` (G5); a `where` says what is feasible."""
    for inferred in (True, False):
        i = Variable("i", 0, 3, inferred)
        drawn = {Scope(random.Random(n), (), "").inside(0, [i]) for n in range(40)}
        is_drawn = ("call", "min", (var("i"), num(-1))) in drawn
        assert is_drawn == (not inferred)


def test_what_breaks_p1() -> None:
    def broken(rhs: object, op: str = "=", **ranges: range) -> bool:
        return breaks_p1(Statement("o", ("i",), op, rhs), ranges, {})  # type: ignore[arg-type]

    assert not broken(read("o", var("i")), i=range(4))
    assert broken(read("o", binary("+", var("i"), num(1))), i=range(4))
    assert not broken(read("o", binary("+", var("i"), num(4))), i=range(4))
    assert not broken(read("o", binary("+", var("i"), num(1))), i=range(1))
    assert broken(
        binary("*", read("o", var("i")), read("a", var("k"))), "+=", i=range(1), k=range(2)
    )


@pytest.mark.parametrize(
    ("guard", "is_broken"),
    [
        (num("0.5"), True),
        (num("0.0"), False),
        (binary("&&", binary(">", var("i"), num(2)), num("0.5")), False),
        (binary("||", binary(">", var("i"), num(2)), num("0.5")), True),
        (("un", "!", binary(">", var("i"), num(2))), True),
        (("un", "!", binary("<", var("i"), num(3))), False),
    ],
)
def test_guards_of_variables_and_literals(guard: Expr, is_broken: bool) -> None:
    rhs = ("if", guard, read("o", binary("+", var("i"), num(1))), num(0))
    assert breaks_p1(Statement("o", ("i",), "=", rhs), {"i": range(4)}, {}) == is_broken


def test_guards_that_compare_floats_are_not_decided() -> None:
    rhs = ("if", binary(">", num("0.5"), num("0.5")), read("o", num(0)), num(0))
    with pytest.raises(Unknown):
        breaks_p1(Statement("o", ("i",), "=", rhs), {"i": range(4)}, {})


def test_a_process_that_dies_is_a_verdict() -> None:
    worker = Worker()
    try:
        assert worker.judge(COPY).kind == "ran"
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGSEGV)
        verdict = worker.judge(COPY)
        assert (verdict.kind, verdict.detail[:14]) == ("died", "signal SIGSEGV")
        assert worker.judge(COPY).kind == "ran"
    finally:
        worker.close()


class Judge(Workers):
    """Takes every program that still multiplies by `b` for wrong."""

    def judge(self, case: Case) -> Verdict:
        multiplies = any(e[1] == "b" for s in case.statements for e in reads(s.rhs))
        return Verdict("wrong" if multiplies else "ran")


def test_a_failing_case_shrinks() -> None:
    a, b = read("a", var("i")), read("b", var("i"))
    case = replace(
        COPY,
        params=(*COPY.params, Param("b", "half", ("N",), "nan")),
        statements=(
            *COPY.statements,
            Statement("p", ("i",), "+=", binary("+", a, ("call", "exp", (b,)))),
            Statement("p", ("i",), "=", binary("+", read("p", var("i")), num(1))),
        ),
        returns=("p", "o"),
        options={"mapping": {"rows": 3}},
    )
    small = shrink(case, Verdict("wrong"), Judge())
    assert small.text == "def f(float(N) b) -> (p) {\n  p(i) += b(i)\n}\n"
    assert small.options == {}
    assert small.sizes == {"N": 1}


def test_options_for_gpus_are_drawn_for_gpus() -> None:
    case = replace(generate.case(7, 3), backend="cuda", device={"fma": True})
    drawn = {with_gpu_options(case, random.Random(n)).to_json() for n in range(20)}
    assert len(drawn) > 15
    for text in drawn:
        found = Case.from_json(text)
        assert (found.device, found.statements) == ({}, case.statements)
        assert tc.Options.from_json(json.dumps(found.options)).gpu is not None


def test_a_lost_device_is_a_finding() -> None:
    """Not a program that a backend cannot compile."""
    said = "'f' cannot be run by CUDA: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"
    lost = compare_refusals(Refusal("BackendError", "", said), Refusal("RangeError", "G5", ""))
    assert (lost.kind, lost.failed) == ("lost device", True)
    lacking = compare_refusals(Refusal("BackendError", "", "no half"), Refusal("", "", ""))
    assert (lacking.kind, lacking.failed) == ("skipped", False)


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([0.0], "hang"),  # it waits for what does not come
        ([0.0, 0.1, 0.1], "hang"),
        ([0.0, 0.1, 0.3], "hang"),  # it works, and does not end
        ([number / 1000 for number in range(1000)], "answered"),  # other work leaves it little time
        ([None], "hang"),  # nothing tells how much it has used
    ],
    ids=str,
)
def test_a_worker_that_waits_for_its_turn_does_not_hang(
    monkeypatch: pytest.MonkeyPatch, times: list[float | None], kind: str
) -> None:
    script = """if True:
        import sys, time
        sys.stdin.readline()
        sys.stdout.flush()
        time.sleep(float(sys.argv[1]))
        print('{"kind": "answered"}', flush=True)
        sys.stdin.readline()
    """

    class SlowWorker(Worker):
        def _start(self) -> subprocess.Popen[bytes]:
            seconds = "1" if kind == "answered" else "1000"
            command = [sys.executable, "-c", script, seconds]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
            return self._process

    used = iter(times)
    monkeypatch.setattr(workers, "processor_seconds", lambda _: next(used, times[-1]))
    monkeypatch.setattr(workers, "MAX_WAIT", 500)
    worker = SlowWorker(seconds=0.2)
    assert worker.judge(COPY).kind == kind
    worker.close()


ROOT = Path(__file__).parents[2]


def commands() -> list[tuple[str, str]]:
    """The campaigns that the Makefile and the script for machines with a GPU start, with their
    options."""
    files = (ROOT / "Makefile", ROOT / "tools" / "gpu_machine.sh")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files).replace("\\\n", " ")
    return re.findall(r"-m (tests\.fuzz[.\w]*) ([^\n|]*)", text)


@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_campaign_takes_the_options_it_is_started_with(command: tuple[str, str]) -> None:
    module, options = command
    # a variable of Make or of the shell is 1
    options = re.sub(r"\$\(\(.*?\)\)|\$\(\w+\)|\$\w+", "1", options)
    main = {"tests.fuzz": programs.main, "tests.fuzz.plans": plans.main}[module]
    assert main([*shlex.split(options), "--count", "0"]) == 0


def test_campaigns_that_are_started_are_found() -> None:
    assert [module for module, _ in commands()] == [
        "tests.fuzz", "tests.fuzz.plans", "tests.fuzz.plans", "tests.fuzz"
    ]  # fmt: skip
