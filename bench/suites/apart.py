"""A program of a suite in a process of its own: compilers of other libraries may not come back.

As a module it measures one program and prints a line of JSON for each record; the last one counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bench.suites import kernelbench, npbench
from bench.suites.record import Record

SUITES = {"npbench": npbench, "kernelbench": kernelbench}
DROPPED = {"npbench": ("jax", "numba"), "kernelbench": ("torch.compile",)}
"""The libraries that are left out, one after the other, if a process does not end in time."""
LIMIT = 100.0
"""Seconds for a program with all libraries."""
MARK = "@"


def measured_apart(
    kind: str,
    root: Path,
    name: str,
    setting: str,
    budget: float,
    suite: str,
    title: str,
    left_out: Sequence[str] = (),
) -> Record:
    """A program of NPBench or KernelBench; `suite` and `title` name the record of a program that
    has none, and libraries that are left out are not asked."""
    without = list(left_out)
    while True:
        command = [sys.executable, "-m", "bench.suites.apart", kind, str(root), name, setting]
        command += [str(budget), ",".join(without)]
        printed, told = _run(command)
        lines = [line for line in printed.splitlines() if line.startswith(MARK)]
        if lines:
            record = Record.read(json.loads(lines[-1].removeprefix(MARK)))
            late = dict.fromkeys(without[len(left_out) :], f"no result in {LIMIT:g} s")
            return replace(record, notes={**record.notes, **late})
        left = [peer for peer in DROPPED[kind] if peer not in without]
        if told or not left:
            return Record(suite, title, "", {}, notes={"tc": told or f"over {LIMIT:g} s"})
        without.append(left[0])


def _run(command: Sequence[str]) -> tuple[str, str]:
    """What a process prints, and the last line of its errors if it fails by itself."""
    settings = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "MPLBACKEND": "agg"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env={**os.environ, **settings},
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(), ""
    failed = done.returncode != 0
    return done.stdout, (done.stderr.strip() or "it ended").splitlines()[-1] if failed else ""


def main(given: Sequence[str]) -> None:
    kind, root, name, setting, budget, without = given
    measured = SUITES[kind].measured
    for record in measured(Path(root), name, setting, float(budget), without.split(",")):
        print(MARK + json.dumps(asdict(record)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
