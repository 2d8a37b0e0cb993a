"""Compares the searches of the tuner at equal budgets: `python -m bench.searches --seconds 30`.

Each search looks for plans of each program, at sizes of one drawing, with seeds of its own,
one run after the other and in turns. Nothing is remembered between runs. A line of JSON for each
is written as soon as it has ended, so that `--resume FILE.jsonl` goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bench import cpu_machine
from bench.broad import read_run, whole_lines
from bench.broad_programs.program import Program
from bench.broad_programs.table import select
from bench.cpu import RESULTS, words
from bench.cpu_report import geometric_mean
from tc.process.processors import available

PROGRAMS = (
    "thin: few rows",
    "sums: middle",
    "transposes: reversed",
    "layers: dilated",
    "norms: softmax",
    "attention: heads",
)
SEARCHES = ("random", "genetic", "guided")
PARTS = (0.25, 0.5, 1.0)
"""Of the budget, after which the best so far is told."""


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each search")
    parser.add_argument("--seeds", type=int, default=5, help="how many, of each search")
    parser.add_argument("--searches", default=",".join(SEARCHES))
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="those of bench.broad: a,b")
    parser.add_argument("--sizes", type=int, default=1, help="the seed that draws the sizes")
    parser.add_argument("--backend", default="numba")
    parser.add_argument("--out", type=Path, help="where to write .jsonl and .md")
    parser.add_argument("--resume", type=Path, metavar="FILE.jsonl", help="go on with a run")
    chosen = parser.parse_args(given)
    known = {program.key for program in select((), ())}
    if unknown := [name for name in words(chosen.programs) if name not in known]:
        parser.error(f"no program {', '.join(unknown)} in bench.broad")
    return chosen


def run(program: Program, search: str, seed: int, chosen: argparse.Namespace) -> Mapping[str, Any]:
    """A record of one search, with the best time after each trial."""
    import tc

    drawn = program.drawn(chosen.sizes)
    with tempfile.TemporaryDirectory(prefix="tc-searches-") as folder:
        result = tc.autotune(
            drawn.text,
            *drawn.case().inputs,
            backend=chosen.backend,
            search=search,
            seed=seed,
            max_seconds=chosen.seconds,
            database=Path(folder) / "tuning.db",
            progress=False,
        ).result
    return {
        "program": program.key,
        "sizes": dict(drawn.sizes),
        "search": search,
        "seed": seed,
        "default": result.default.time,
        "best": result.best.time,
        "failed": len(result.failures),
        "moments": [(moment.seconds, moment.best) for moment in result.moments],
    }


def reached(record: Mapping[str, Any], seconds: float) -> float:
    """The speed of the best candidate after `seconds` seconds, relative to the default.

    >>> record = {"default": 6.0, "best": 2.0, "moments": [(1.0, 3.0), (4.0, 2.0)]}
    >>> reached(record, 0.5), reached(record, 1.0), reached(record, 9.0)
    (1.0, 2.0, 3.0)
    """
    times = [best for moment, best in record["moments"] if moment <= seconds]
    return float(record["default"] / min(times, default=record["default"]))


def tables(records: Sequence[Mapping[str, Any]], seconds: float) -> str:
    """Means of what searches reached: of all programs, and of each."""
    searches = list(dict.fromkeys(record["search"] for record in records))
    programs = list(dict.fromkeys(record["program"] for record in records))
    parts = [f"after {part * seconds:g} s" for part in PARTS]

    def of(search: str, program: str | None = None) -> Iterator[Mapping[str, Any]]:
        for record in records:
            if record["search"] == search and program in (None, record["program"]):
                yield record

    def mean(found: Iterable[Mapping[str, Any]], part: float) -> str:
        values = [reached(record, part * seconds) for record in found]
        return f"{geometric_mean(values):.2f}" if values else "-"

    whole = []
    for search in searches:
        own = list(of(search))
        trials = sum(len(record["moments"]) for record in own) / len(own)
        failed = sum(record["failed"] for record in own) / len(own)
        confirmed = f"{geometric_mean([r['default'] / r['best'] for r in own]):.2f}"
        means = [mean(own, part) for part in PARTS]
        whole.append([search, len(own), f"{trials:.0f}", f"{failed:.1f}", *means, confirmed])
    heads = ["search", "runs", "candidates", "failed", *parts, "confirmed"]
    each = [
        [program, *(mean(of(search, program), 1.0) for search in searches)] for program in programs
    ]
    return "\n\n".join(
        tabulate(rows, headers, tablefmt="github", disable_numparse=True)
        for rows, headers in ((whole, heads), (each, ["program", *searches]))
    )


def report(path: Path) -> str:
    heading, records = read_run(path)
    text = (
        f"{cpu_machine.one_line(heading['machine'])}\n\n"
        f"How many times as fast as the default the best plan was: geometric means over "
        f"{heading['seeds']} seeds of each search, on the backend {heading['backend']}; sizes of "
        f"the seed {heading['sizes']}. `confirmed` is what was left when the best was timed once "
        "more in turns with the default.\n\n"
    )
    return text + tables(records, heading["seconds"]) + "\n"


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments_of(given)
    path = chosen.resume or (chosen.out or RESULTS / "searches").with_suffix(".jsonl")
    if chosen.resume is None:
        names = ("seconds", "seeds", "sizes", "backend", "searches", "programs")
        heading = {name: getattr(chosen, name) for name in names}
        heading["machine"] = cpu_machine.describe(("numba", "numpy"), len(available()))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(heading) + "\n", encoding="utf-8")
    path.write_text(whole_lines(path), encoding="utf-8")
    heading, records = read_run(path)
    for name in ("seconds", "seeds", "sizes", "backend", "searches", "programs"):
        setattr(chosen, name, heading[name])
    done = {(record["program"], record["search"], record["seed"]) for record in records}
    known = {program.key: program for program in select((), ())}
    programs = [known[name] for name in words(chosen.programs)]
    for seed, program, search in product(range(chosen.seeds), programs, words(chosen.searches)):
        if (program.key, search, seed) not in done:
            record = run(program, search, seed, chosen)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            found = f"{record['default'] / record['best']:.2f} times as fast"
            print(f"{program.key}, {search}, seed {seed}: {found}", flush=True)
    text = report(path)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
