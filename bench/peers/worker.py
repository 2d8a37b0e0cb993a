"""The process of one peer, which answers each line of JSON on its input by a line on its output."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from bench.cpu_kernels.kernel import Subject, SubjectCase
from bench.cpu_kernels.table import BY_NAME
from bench.peers.catalogue import PEERS
from bench.peers.peer import Peer, Run

BATCH = 1e-3
"""Seconds of a sample at least, so that the clock and one late interrupt weigh little."""

TRIALS = 3
"""Turns of each form before one is chosen."""

Note = Callable[[str], None]
Answer = Callable[[Mapping[str, Any]], None]


def one_line(error: BaseException) -> str:
    """
    >>> one_line(ValueError("a\\n  b"))
    'ValueError: a b'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


def seconds_of(run: Run, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def samples(run: Run, budget: float) -> list[float]:
    """Seconds per call, one number per batch of calls, for about `budget` seconds after one call
    to warm up.

    >>> len(samples(lambda: time.sleep(0.001), 0.004)) in (2, 3, 4)
    True
    """
    estimate = min(seconds_of(run, 1), seconds_of(run, 1))
    calls = max(1, round(BATCH / max(estimate, 1e-7)))
    end = time.perf_counter() + budget
    taken = [seconds_of(run, calls)]
    while time.perf_counter() + taken[-1] * calls / 2 < end:
        taken.append(seconds_of(run, calls))
    return taken


class Session:
    """A peer and the kernel it is at."""

    def __init__(self, peer: Peer, note: Note) -> None:
        self._peer = peer
        self._note = note
        self._case: SubjectCase | None = None
        self._runs: dict[str, Run] = {}
        self._wrong: dict[str, str] = {}

    def prepare(self, kernel: Subject, skip: Sequence[str]) -> Mapping[str, Any]:
        """Builds and runs each form once; a form that fails is named with the reason."""
        self._runs, self._wrong = {}, {}
        self._case = kernel.case()
        for name, form in self._peer.forms(kernel.family).items():
            if name in skip:
                continue
            self._note(name)
            try:
                self._case.reset()
                run = form(self._case)
                run()
                self._runs[name] = run
            except Exception as error:
                self._wrong[name] = one_line(error)
        return {"built": list(self._runs), "failures": self._wrong}

    def choose(self, references: Sequence[str], tolerances: Sequence[float]) -> Mapping[str, Any]:
        """Checks every form, and keeps the fastest of those that are right, by their least times
        over several turns."""
        errors = {}
        for name, run in list(self._runs.items()):
            self._note(name)
            errors[name] = self._error(run, references, tolerances)
            if not errors[name] <= 1:
                self._wrong[name] = f"wrong: {errors[name]:.3g} times the tolerance"
                del self._runs[name]
        least = dict.fromkeys(self._runs, float("inf"))
        for _ in range(TRIALS):
            for name, run in self._runs.items():
                self._note(name)
                least[name] = min(least[name], *samples(run, 0.01))
        best = min(least, key=lambda name: least[name], default="")
        self._runs = {best: self._runs[best]} if best else {}
        return {
            "form": best,
            "seconds": least.get(best),
            "error": errors.get(best),
            "failures": self._wrong,
        }

    def sample(self, budget: float) -> Mapping[str, Any]:
        (run,) = self._runs.values()
        return {"samples": samples(run, budget)}

    def check(self, references: Sequence[str], tolerances: Sequence[float]) -> Mapping[str, Any]:
        """The error of the chosen form after all that ran."""
        (run,) = self._runs.values()
        return {"error": self._error(run, references, tolerances)}

    def drop(self) -> Mapping[str, Any]:
        self._case, self._runs = None, {}
        return {}

    def _error(self, run: Run, references: Sequence[str], tolerances: Sequence[float]) -> float:
        """The largest error of any output in units of its tolerance; NaN where one is NaN."""
        if self._case is None:
            raise RuntimeError("no kernel is prepared")
        self._case.reset()
        result = run()
        if result is None:
            result = self._case.outputs
        results = result if isinstance(result, (tuple, list)) else (result,)
        errors = [
            error_of(np.asarray(value), np.load(path, mmap_mode="r"), tolerance)
            for value, path, tolerance in zip(results, references, tolerances, strict=True)
        ]
        return float(np.max(errors))


def error_of(value: Any, reference: Any, tolerance: float) -> float:
    """
    >>> error_of(np.array([1.0, 2.5]), np.array([1.0, 2.0]), 0.25)
    2.0
    >>> error_of(np.zeros((3, 2)), np.zeros((1, 6)), 1.0)
    0.0
    >>> error_of(np.zeros(3), np.zeros(6), 1.0)
    inf
    """
    if value.size != reference.size or value.dtype.kind not in "fiu":
        return float("inf")
    return float(np.max(np.abs(value.reshape(reference.shape) - reference))) / (tolerance or 1e-30)


def serve(
    session: object, requests: TextIO, answer: Answer, kernels: Mapping[str, Subject] = BY_NAME
) -> None:
    """Each request names a method of the session; kernels go by their names."""
    for line in requests:
        request = json.loads(line)
        do = request.pop("do")
        if do == "prepare":
            request["kernel"] = kernels[request["kernel"]]
        try:
            answer({"done": getattr(session, do)(**request)})
        except Exception as error:
            answer({"failed": one_line(error)})


def own_answers() -> Answer:
    """What libraries print goes to the log: answers have a descriptor of their own."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    return answer


def start(threads: int, make: Callable[[int], Peer]) -> tuple[Peer, Answer] | None:
    """The peer in this process, once it has said so; None where it cannot start, and said why."""
    answer = own_answers()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        peer = make(threads)
    except Exception as error:
        answer({"failed": one_line(error)})
        return None
    imported = getattr(sys.modules.get("tc"), "__file__", None)
    answer({"done": {"version": peer.version(), "tc": imported or ""}})
    return peer, answer


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    started = start(threads, PEERS[name].make)
    if started is not None:
        peer, answer = started
        serve(Session(peer, lambda form: answer({"at": form})), sys.stdin, answer)


if __name__ == "__main__":
    main()
