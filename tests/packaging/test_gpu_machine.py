"""`tools/gpu_machine.sh` on a machine that has a shell alone: a script stands in for its Python,
and says which steps were taken."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu_machine.sh"
PYTHON = """#!/bin/bash
if [ "$1" = - ]; then shift; printf '%s\\n' "$@"; exit; fi
echo "$*" >>"$CALLS"
while read -r words status pause; do
  if [[ "$*" == *"$words"* ]]; then echo "said by $words"; sleep "${pause:-0}"; exit "$status"; fi
done <"$BEHAVIOUR"
if [[ "$*" == *tests.fuzz* ]]; then echo "  12 ran (cuda)"; fi
"""
TESTED = ("api", "backends", "benchmarks", "runtime")
LONG = 600


class Machine:
    """A folder in which a pack lies unpacked; `behaviour` are parts of commands with the status
    that each of them ends with, and how many seconds it takes."""

    def __init__(self, folder: Path, commit: str = "abc") -> None:
        self.pack, self.out = folder / "gpu-pack", folder / "results.tar.gz"
        tools = folder / "bin"
        folders = ("tools", "wheels", *(f"tests/{name}" for name in TESTED))
        for path in (*(self.pack / name for name in folders), tools):
            path.mkdir(parents=True)
        shutil.copy(SCRIPT, self.pack / "tools")
        (self.pack / "commit").write_text(f"{commit}\n")
        (self.pack / "wheels" / "tc-1.whl").touch()
        (self.pack / "tests" / "runtime" / "test_device_calls.py").touch()
        (tools / "python3").write_text(PYTHON)
        (tools / "python3").chmod(0o755)
        self.calls, self.behaviour = folder / "calls", folder / "behaviour"
        self.calls.touch()
        self.behaviour.touch()
        self.environment = {
            "PATH": f"{tools}:{os.defpath}",
            "CALLS": str(self.calls),
            "BEHAVIOUR": str(self.behaviour),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.calls.write_text("")
        return subprocess.Popen(
            [str(self.pack / "tools" / SCRIPT.name), "there", "--out", str(self.out), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def take(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=LONG)
        return process.returncode, said

    def called(self, words: str) -> int:
        return sum(words in line for line in self.calls.read_text().splitlines())

    def results(self) -> dict[str, str]:
        """The files that are brought back."""
        with tarfile.open(self.out) as archive:
            files = {m.name.removeprefix("./"): archive.extractfile(m) for m in archive}
            return {name: file.read().decode() for name, file in files.items() if file}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    made: list[Machine] = []

    def make(commit: str = "abc") -> Machine:
        made.append(Machine(tmp_path / str(len(made)), commit))
        return made[-1]

    return make


def summary(text: str) -> dict[str, str]:
    """By step what is said of it."""
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


POSSIBLE = (
    "machine", "emitted", "called", "overhead", "tests", "bench", "constants", "generated"
)  # fmt: skip
LACKING = ("memcheck", "racecheck", "synccheck", "counters", "build-pycuda", "pycuda")


def test_every_step_is_taken_and_brought_back(machine: Callable[..., Machine]) -> None:
    there = machine()
    status, said = there.take()
    assert status == 0, said
    told = summary(there.results()["summary.txt"])
    assert told.pop("commit") == "abc"
    assert told == {
        **dict.fromkeys(POSSIBLE, "passed"),
        **dict.fromkeys(LACKING, "not possible on this machine"),
    }
    assert {f"logs/{name}.txt" for name in (*POSSIBLE, *LACKING)} < {*there.results()}
    for part in (
        "pip install",
        "run_on_gpu emitted",
        "-m pytest",
        "tests/runtime/test_device_calls.py",
    ):
        assert there.called(part) == 1
    assert there.called("-m bench.gpu --commit abc --out") == 1


def test_a_step_that_fails_is_told_and_the_others_taken(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.behaviour.write_text("emitted 1\n")
    status, said = there.take("--steps", "machine,emitted,overhead")
    assert status == 1
    told = summary(there.results()["summary.txt"])
    assert told["emitted"] == "FAILED with status 1"
    assert (told["machine"], told["overhead"], told["bench"]) == ("passed", "passed", "left")
    assert "said by emitted" in there.results()["logs/emitted.txt"]
    assert "== emitted: status 1 after" in said


def test_a_gpu_that_cannot_be_used_ends_it(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.behaviour.write_text("import 1\n")
    assert there.take()[0] == 1
    told = summary(there.results()["summary.txt"])
    assert (told["machine"], told["emitted"]) == ("FAILED with status 1", "left")
    assert there.called("run_on_gpu") == 0


def test_generated_programs_that_did_not_run_are_a_failure(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.behaviour.write_text("tests.fuzz 0\n")
    assert there.take("--steps", "generated")[0] == 1


def test_another_machine_goes_on(machine: Callable[..., Machine]) -> None:
    first, second = machine(), machine()
    first.behaviour.write_text("bench.gpu_overhead 1\nbench.gpu 3\n")
    assert first.take()[0] == 1  # one has failed, and one is left
    assert summary(first.results()["summary.txt"])["bench"] == "left"
    status, said = second.take("--before", str(first.out))
    assert status == 1, said
    assert second.called("run_on_gpu") == 0
    assert second.called("bench.gpu_overhead") == 0
    assert second.called("-m bench.gpu ") == 1
    told = summary(second.results()["summary.txt"])
    assert (told["bench"], told["overhead"]) == ("passed", "FAILED with status 1")
    assert "said by emitted" not in second.results()["logs/emitted.txt"]
    assert second.take("--steps", "overhead")[0] == 0
    assert second.called("bench.gpu_overhead") == 1
    assert summary(second.results()["summary.txt"])["overhead"] == "passed"


def test_another_commit_takes_all_anew_but_keeps_what_was_measured(
    machine: Callable[..., Machine],
) -> None:
    first, second = machine(), machine("abd")
    first.take()
    measured = first.pack / "work" / "results" / "gpu.json"
    measured.write_text("{}")
    first.take("--steps", "machine")
    assert second.take("--before", str(first.out))[0] == 0
    assert second.called("run_on_gpu emitted") == 1
    assert second.results()["gpu.json"] == "{}"
    assert second.results()["commit"] == "abd\n"


def test_what_there_is_no_time_for_is_left(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.environment["LEAST"] = "1"
    there.behaviour.write_text("run_on_gpu 0 300\n")
    status, said = there.take("--seconds", "3", "--steps", "machine,emitted,bench")
    assert status == 3, said
    told = summary(there.results()["summary.txt"])
    assert (told["machine"], told["emitted"], told["bench"]) == ("passed", "left", "left")
    assert there.called("-m bench.gpu ") == 0


def test_a_run_that_is_ended_brings_back_what_there_is(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.behaviour.write_text("run_on_gpu 0 300\n")
    process = there.start("--steps", "machine,emitted")
    while not there.called("run_on_gpu emitted"):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG)
    assert process.returncode == 143
    assert {"status/machine", "logs/emitted.txt"} < {*there.results()}


def test_what_cannot_be_installed_ends_it(machine: Callable[..., Machine]) -> None:
    there = machine()
    there.behaviour.write_text("install 1\n")
    status, said = there.take()
    assert status == 1
    assert "said by install" in said
    assert there.called("run_on_gpu") == 0
    assert "said by install" in there.results()["logs/install.txt"]


def test_a_folder_that_is_no_pack_is_told(machine: Callable[..., Machine]) -> None:
    there = machine()
    (there.pack / "commit").unlink()  # as in a checkout
    status, said = there.take()
    assert status == 2
    script = there.pack / "tools" / SCRIPT.name
    assert said == (
        f"there: {there.pack} is no pack: make one by `{script} pack`, unpack it on the machine "
        "with a GPU, and run gpu-pack/tools/gpu_machine.sh there\n"
    )
    assert not there.out.exists()


@pytest.mark.parametrize("arguments", [[], ["her"]])
def test_other_words_are_told_how_it_is_used(arguments: list[str]) -> None:
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("Brings tc to a machine with a GPU and no network")
    assert "set -euo" not in done.stdout
