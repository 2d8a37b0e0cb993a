"""Worker processes seen from outside: a death or a hang is a verdict like any other."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tests.fuzz.execute import LOST_DEVICE, Run, Verdict
from tests.fuzz.model import Case
from tests.support.processes import processor_seconds

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 90.0
"""The longest time of one case in a long campaign: a case that takes longer hangs. It is a time of
processors, as campaigns run beside other work, of which a case with little to do may wait long for
its turn."""

MAX_WAIT = 30
"""Times the longest time of a case that its answer is waited for, whatever it has used of it."""

TESTED_CASE_SECONDS = 600.0
"""The longest time of one case in tests, whose machine may have other work: a case alone takes a
second or two."""

FEATURES = (
    "+64bit,+cmov,+cx16,+fxsr,+mmx,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+lzcnt,+bmi,"
    "+bmi2,+avx,+avx2,+fma,+f16c,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"
)
"""Of the processors that programs are compiled for and not run."""

LIFETIME = 300
"""Cases until a process is replaced."""


class Worker:
    """A process that judges one case after another; a new process replaces a dead one."""

    def __init__(
        self,
        tree: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        seconds: float = TESTED_CASE_SECONDS,
    ) -> None:
        self.tree, self.environment, self.seconds = tree.resolve(), dict(environment or {}), seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._done = 0
        self._errors: IO[bytes] | None = None

    def judge(self, case: Case) -> Verdict:
        return self._ask(["case", json.loads(case.to_json())])

    def judge_run(self, run: Run) -> Verdict:
        return self._ask(["run", asdict(run)])

    def ask(self, what: str, about: Mapping[str, Any]) -> Verdict:
        """The answer to a question of `tests.fuzz.worker`."""
        return self._ask([what, dict(about)])

    def _ask(self, question: list[Any]) -> Verdict:
        if self._done >= LIFETIME:
            self.close()
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        self._done += 1
        line = b""
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            if not self._answers(process):
                self.close()
                return Verdict("hang", f"no answer within {self.seconds:.0f} s")
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        if not line:
            code = process.wait()
            last = self._last_words()
            self.close()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
            return Verdict("died", f"{how}: {last}")
        verdict = Verdict(**json.loads(line))
        if verdict.kind == LOST_DEVICE:
            self.close()
        return verdict

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits for an answer; False where a process hangs: it has used its seconds without one, or
        none of a processor's for as long, as what waits for a lock."""
        first = last = processor_seconds(process.pid)
        for _ in range(MAX_WAIT):
            ready, _, _ = select.select([process.stdout], [], [], self.seconds)
            now = processor_seconds(process.pid)
            if ready or first is None or last is None or now is None:
                return bool(ready)
            if now == last or now - first >= self.seconds:
                return False
            last = now
        return False

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._done = 0
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *_paths()]),
            "TC_STRICT": "1",
            "PYTHONFAULTHANDLER": "",
            **self.environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(self.tree)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=environment,
        )
        return self._process

    def _last_words(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:])[-600:]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


class Workers:
    """A worker for what runs here, and one for what is only compiled for another processor."""

    def __init__(self, tree: Path = ROOT, seconds: float = TESTED_CASE_SECONDS) -> None:
        self.tree, self.seconds = tree, seconds
        self._by_processor: dict[str, Worker] = {}

    def judge(self, case: Case) -> Verdict:
        return self.of(case.compile_for).judge(case)

    def of(self, processor: str) -> Worker:
        if processor not in self._by_processor:
            environment = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": FEATURES}
            environment = environment if processor else {}
            self._by_processor[processor] = Worker(self.tree, environment, self.seconds)
        return self._by_processor[processor]

    def close(self) -> None:
        for worker in self._by_processor.values():
            worker.close()
