"""Suites that others wrote, beside other libraries: `python -m bench.suites SOURCE...`.

Each SOURCE is a checkout, or a bare git directory, of HPAC/tccg, spcl/npbench or
ScalingIntelligence/KernelBench: equations, references, inputs and sizes are read there, and only
the texts of tc stand here. `--contractions 40 --seed 1` adds contractions that the seed draws,
`--products` products of matrices of m x k x n, `--images` chains of stencils beside Halide's. With
`--records FILE.jsonl` a program is written as
soon as it is measured, and what the file has is not measured again; no program starts later than
`--minutes` after the first. With `--one-thread` each library has one thread, and
the time of the processor is taken. `--save` writes the tables of all records into `bench/results`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.broad import read_run, whole_lines
from bench.cpu import RESULTS, words
from bench.cpu_machine import describe, git, one_line, short_name
from bench.suites.record import Record, one_thread
from bench.suites.report import line, report, summary
from bench.suites.sources import SUITES, find_suites
from bench.suites.task import tasks
from bench.suites.tccg import LAYOUTS
from bench.timing import with_one_thread

KINDS = [suite.name for suite in SUITES]
PACKAGES = ("numpy", "numba", "torch", "jax")


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.suites", description=__doc__.split("\n\n")[0])
    parser.add_argument("source", nargs="*", type=Path)
    parser.add_argument("--kind", default=",".join(KINDS), help="of the sources, only these suites")
    parser.add_argument("--only", default="", help="parts of names: a,b")
    parser.add_argument("--layout", default="column", help="of TCCG: " + ", ".join(LAYOUTS))
    parser.add_argument("--mib", default="16", help="of TCCG: sizes of the largest tensor")
    parser.add_argument("--presets", default="S,M", help="of NPBench: its sizes")
    parser.add_argument(
        "--recurrences", action="store_true", help="of NPBench: also loops in Python over defs"
    )
    parser.add_argument(
        "--without", default="", help="of NPBench and KernelBench: numba, jax, torch.compile"
    )
    parser.add_argument("--contractions", type=int, default=0, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the contractions")
    parser.add_argument("--types", default="float,double", help="of the contractions: half, int8")
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--images", action="store_true", help="chains, beside Halide's")
    parser.add_argument("--seconds", type=float, default=4.0, help="of taking turns, a program")
    parser.add_argument("--minutes", type=float, default=30.0, help="no program starts later")
    parser.add_argument(
        "--one-thread", action="store_true", help="times of the processor, of one thread"
    )
    parser.add_argument("--least", action="store_true", help="tables from least times")
    parser.add_argument("--records", type=Path, metavar="FILE.jsonl", help="go on with a run")
    parser.add_argument("--save", action="store_true", help="write the tables of all records")
    return parser.parse_args(given)


def described() -> dict[str, Any]:
    """The machine, with what identifies the compiler that is measured."""
    changes = git("status", "--porcelain", "--", "tc")
    return {
        **describe(PACKAGES, 1 if one_thread() else len(os.sched_getaffinity(0))),
        "tc": git("rev-parse", "HEAD:tc"),
        "changes": changes,
    }


def opened(path: Path, machine: dict[str, Any]) -> tuple[dict[str, Any], list[Record]]:
    """The heading and the records of a file, which is begun where there is none. ValueError for
    records of other code or of another machine."""
    if not path.exists():
        path.write_text(json.dumps(machine) + "\n", encoding="utf-8")
        return machine, []
    path.write_text(whole_lines(path), encoding="utf-8")
    heading, records = read_run(path)
    for name in ("tc", "changes", "threads", "processor", "packages"):
        if heading[name] != machine[name]:
            raise ValueError(f"{path} has records of another run: {name} differs")
    return heading, [Record.read(values) for values in records]


def measure_all(
    roots: Mapping[str, Path], chosen: argparse.Namespace, path: Path, records: list[Record]
) -> None:
    """Appends what is not yet measured to the records and their file."""
    end = time.monotonic() + 60 * chosen.minutes
    done = {(record.suite, record.name) for record in records}
    only = words(chosen.only)
    left = 0
    for task in tasks(roots, chosen):
        if only and not any(part in task.name for part in only):
            continue
        if (task.suite, task.name) in done:
            continue
        if time.monotonic() > end:
            left += 1
            continue
        record = task.run(chosen.seconds)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
        records.append(record)
        print(line(record), flush=True)
    if left:
        print(f"{left} programs are left: start again with the same records")


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments_of(given)
    if chosen.one_thread:
        with_one_thread("bench.suites")
    with tempfile.TemporaryDirectory(prefix="tc-suites-") as name:
        folder = Path(name)
        os.environ.update(TC_CACHE_DIR=str(folder / "kernels"), TC_TUNE="0")
        path = chosen.records or folder / "records.jsonl"
        machine = described()
        try:
            roots = find_suites(chosen.source, folder)
            heading, records = opened(path, machine)
        except ValueError as error:
            sys.exit(str(error))
        roots = {kind: root for kind, root in roots.items() if kind in words(chosen.kind)}
        measure_all(roots, chosen, path, records)
        shown = [record.with_least() for record in records] if chosen.least else records
        print(f"\n{summary(shown)}")
        if chosen.save:
            saved = RESULTS / f"suites-{short_name(heading)}{'-one-thread' * one_thread()}.md"
            first = f"{one_line(heading)}{'; least times' if chosen.least else ''}."
            saved.write_text(report(first, shown), encoding="utf-8")


if __name__ == "__main__":
    main()
