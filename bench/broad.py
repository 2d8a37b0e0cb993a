"""Times tc on many programs at sizes that a seed draws: `python -m bench.broad`.

Each run draws a new seed, prints it, and measures each program in turn: tc as it chooses, tc tuned
for some seconds (`--tune 60`), torch, torch.compile, and loops under numba. Each has a process of
its own, stopped while another runs; rounds alternate between them, and every output is checked
against torch's formula in float64. A line of JSON for each program is written as soon as it is
measured, so that `--resume FILE.jsonl` goes on where a run was ended; the tables stand beside it.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import cpu_machine
from bench.broad_programs.peers import DEFAULT, NAMES, PACKAGES, SUBJECTS, plan_file
from bench.broad_programs.process import DrawnProcess
from bench.broad_programs.program import Drawn, Program
from bench.broad_programs.table import FAMILIES, select, some_of_each
from bench.broad_report import report, row_of
from bench.cpu import RESULTS, words
from bench.cpu_measure import Settings, Timing, measure
from bench.timing import milliseconds

BUILD_LIMIT = 90.0
"""Seconds for a peer to compile a program; those of torch.compile are many."""


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, help="of the sizes; a new one by default")
    parser.add_argument("--families", default="", help=", ".join(FAMILIES))
    parser.add_argument("--programs", default="", help="parts of names: a,b")
    parser.add_argument("--each", type=int, default=0, help="of each family; 0: all of them")
    parser.add_argument("--peers", default=",".join(DEFAULT), help=", ".join(NAMES))
    parser.add_argument("--tune", type=float, default=0.0, help="seconds for each program; 0: none")
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--threads", type=int, default=Settings.threads)
    parser.add_argument("--least", action="store_true", help="tables from least times")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds before a busy turn")
    parser.add_argument("--niceness", type=int, default=0, help="of a peer in its turn")
    parser.add_argument("--out", type=Path, help="where to write .jsonl and .md")
    parser.add_argument("--resume", type=Path, metavar="FILE.jsonl", help="go on with a run")
    parser.add_argument("--tables-of", type=Path, metavar="FILE.jsonl", help="measure nothing")
    chosen = parser.parse_args(given)
    unknown = [name for name in words(chosen.peers) if name not in NAMES]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(NAMES)}")
    try:
        chosen.selected = select(words(chosen.families), words(chosen.programs))
    except ValueError as error:
        parser.error(str(error))
    return chosen


def read_run(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The heading of a run, and the records of its programs. A last line that was cut off is left
    out."""
    values = [json.loads(line) for line in whole_lines(path).splitlines()]
    return values[0], values[1:]


def whole_lines(path: Path) -> str:
    """
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "run.jsonl"
    ...     _ = file.write_text('{"seed": 1}\\n{"pro')
    ...     whole_lines(file)
    '{"seed": 1}\\n'
    """
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1]


def tuned_options(drawn: Drawn, seconds: float, plans: Path) -> Mapping[str, Any]:
    """Searches, keeps the best options in a file for the process that runs them, and says what the
    search did. A program without a choice keeps its defaults."""
    import tc

    begin = time.monotonic()
    try:
        tuned = tc.autotune(
            drawn.text, *drawn.case().inputs, max_seconds=seconds, database=plans / "tuned.db"
        )
    except tc.BackendError as error:
        options, told = tc.Options(), {"reason": str(error).splitlines()[0]}
    else:
        options = tuned.result.best.options
        told = {"speedup": tuned.result.speedup, "trials": len(tuned.result.trials)}
    text = options.to_json()
    plan_file(plans, drawn.program).write_text(text, encoding="utf-8")
    return {**told, "seconds": time.monotonic() - begin, "options": json.loads(text)}


def progress(name: str, timings: Mapping[str, Timing]) -> str:
    times = [
        f"{peer} {'-' if timing.seconds is None else milliseconds(timing.seconds)}"
        for peer, timing in timings.items()
    ]
    return f"{name}: {', '.join(times)}"


def measured(
    programs: Sequence[Program],
    names: Sequence[str],
    chosen: argparse.Namespace,
    seed: int,
    path: Path,
) -> None:
    """Appends a record for each program to the file."""
    settings = Settings(
        chosen.threads,
        chosen.rounds,
        build_limit=BUILD_LIMIT,
        patience=chosen.wait,
        niceness=chosen.niceness,
    )
    with tempfile.TemporaryDirectory(prefix="tc-broad-") as name:
        folder = Path(name)
        peers = [DrawnProcess(n, chosen.threads, seed, folder, chosen.niceness) for n in names]
        try:
            for program in programs:
                drawn = program.drawn(seed)
                record = {"program": program.key, "family": program.family, "sizes": drawn.sizes}
                if chosen.tune:
                    record["search"] = tuned_options(drawn, chosen.tune, folder)
                timings = measure(drawn, peers, settings, folder)
                record["timings"] = {peer: asdict(timing) for peer, timing in timings.items()}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(progress(program.key, timings), flush=True)
        finally:
            for peer in peers:
                peer.end()


def write_tables(path: Path, *, least: bool) -> str:
    """The report of a run, beside its records."""
    heading, records = read_run(path)
    rows = [row_of(record, least=least) for record in records]
    names = dict.fromkeys(peer for record in records for peer in record["timings"])
    first = f"{cpu_machine.one_line(heading['machine'])}; seed {heading['seed']}"
    text = report(first, rows, list(names))
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments_of(given)
    if chosen.tables_of is not None:
        print(write_tables(chosen.tables_of, least=chosen.least))
        return
    names = words(chosen.peers)
    if chosen.tune and SUBJECTS[1] not in names:
        names.insert(1, SUBJECTS[1])
    programs: list[Program] = chosen.selected
    if chosen.resume is not None:
        path = chosen.resume
        path.write_text(whole_lines(path), encoding="utf-8")
        heading, records = read_run(path)
        seed, each = heading["seed"], heading.get("each", 0)
        done = {record["program"] for record in records}
    else:
        seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
        each, done = chosen.each, set()
        machine = cpu_machine.describe(PACKAGES, chosen.threads)
        out = chosen.out or RESULTS / f"broad-{cpu_machine.short_name(machine)}-seed{seed}"
        path = out.with_suffix(".jsonl")
        heading = {
            "machine": machine,
            "seed": seed,
            "each": each,
            "tune": chosen.tune,
            "rounds": chosen.rounds,
        }
        path.write_text(json.dumps(heading) + "\n", encoding="utf-8")
    if each:
        programs = some_of_each(programs, each, seed)
    programs = [program for program in programs if program.key not in done]
    print(f"seed {seed}, {len(programs)} programs, {path}", flush=True)
    measured(programs, names, chosen, seed, path)
    print(f"\n{write_tables(path, least=chosen.least)}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main()
