"""Times tc beside other libraries on the kernels of the promise: `python -m bench.cpu`.

Each library runs in its own process and is stopped while another is timed; rounds alternate
between them. Every output is checked against float64. The machine's limits are measured in the
same run. `--kernels softmax --peers numpy,torch,tc` takes part of it; `--runs 3` measures three
times with fresh processes and takes medians. `--tables-of FILE.json` measures nothing: it makes the
tables of what was recorded anew.

`--kernels places` are sums by key, running sums, sparse rows and triangles, each with the ratio
that is asked of it; `--kernels places-other-sizes` the same at 0.37 and 2.3 of each size.

`--against COMMIT` times tc against itself as it was in a commit, and no other library
(`bench/cpu_against.py`): `--against HEAD~9 --kernels listed,extra,prime --rounds 15 --runs 3`.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import cpu_against, cpu_machine
from bench.cpu_kernels.kernel import Kernel
from bench.cpu_kernels.table import BY_NAME, select
from bench.cpu_limits import Limits
from bench.cpu_measure import Settings, Timing, measure
from bench.cpu_report import (
    Row,
    as_json,
    failures_text,
    limits_text,
    row_of,
    summary,
    table,
)
from bench.peers.catalogue import DEFAULT, PEERS, SUBJECT
from bench.peers.process import ROOT, PeerProcess
from bench.timing import milliseconds

RESULTS = ROOT / "bench" / "results"
Runs = dict[str, list[dict[str, Timing]]]


def words(text: str) -> list[str]:
    """
    >>> words("numpy,torch"), words("")
    (['numpy', 'torch'], [])
    """
    return [word for word in text.split(",") if word]


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kernels", default="", help="groups, families or parts of names: a,b")
    parser.add_argument("--peers", default=",".join(DEFAULT), help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--runs", type=int, default=1, help="repeat all and take medians")
    parser.add_argument("--threads", type=int, default=Settings.threads)
    parser.add_argument("--quick", action="store_true", help="3 rounds, coarser limits")
    parser.add_argument("--least", action="store_true", help="tables from least times")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds before a busy turn")
    parser.add_argument("--niceness", type=int, default=0, help="of a peer in its turn")
    parser.add_argument("--out", type=Path, help="where to write .json and .md; else nowhere")
    parser.add_argument(
        "--tables-of", type=Path, metavar="FILE", help="make the tables of recorded data anew"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="tc against tc of a commit (--peers tc or tc-c)"
    )
    parser.add_argument("--save", action="store_true", help="write into bench/results")
    chosen = parser.parse_args(given)
    unknown = [name for name in words(chosen.peers) if name not in PEERS]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if chosen.against is not None:
        check_against(parser, chosen)
    return chosen


def check_against(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    """Leaves the hash of the commit, and the one peer that is tc."""
    try:
        chosen.against = cpu_against.commit_of(chosen.against)
    except ValueError as error:
        parser.error(str(error))
    own = [name for name in words(chosen.peers) if PEERS[name].module == PEERS[SUBJECT].module]
    if len(own) != 1:
        parser.error(f"--against: of the peers one is tc, and not {', '.join(own) or 'none'}")
    chosen.peers = own[0]


def against(chosen: argparse.Namespace, kernels: Sequence[Kernel], settings: Settings) -> None:
    """Prints the report; with --out or --save it is a file, too."""
    described = cpu_machine.describe(PEERS[chosen.peers].packages, settings.threads)
    commit = chosen.against
    rows = cpu_against.measured(commit, kernels, chosen.peers, settings, chosen.runs)
    text = cpu_against.report(rows, cpu_machine.one_line(described), commit)
    print(f"\n{text}")
    out = chosen.out or RESULTS / f"cpu-{cpu_machine.short_name(described)}-against-{commit[:10]}"
    if chosen.out or chosen.save:
        out.with_suffix(".md").write_text(text, encoding="utf-8")


def measured_limits(settings: Settings, step: int) -> Limits:
    """In a process of its own, which is gone before the peers start."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.cpu_limits"),
            *("--threads", str(settings.threads), "--step", str(step)),
            *("--niceness", str(settings.niceness)),
        ],
        start_new_session=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    rates = (tuple(found[name]) for name in ("sizes", "read", "copy"))
    return Limits(found["flops"], *rates)


def measured_run(
    kernels: Sequence[Kernel], names: Sequence[str], settings: Settings, runs: Runs
) -> None:
    """Adds one run of each kernel to `runs`, in fresh processes."""
    peers = [PeerProcess(name, settings.threads, settings.niceness) for name in names]
    try:
        with tempfile.TemporaryDirectory() as folder:
            for kernel in kernels:
                timings = measure(kernel, peers, settings, Path(folder))
                runs.setdefault(kernel.name, []).append(timings)
                print(progress(kernel, timings), flush=True)
    finally:
        for peer in peers:
            peer.end()


def progress(kernel: Kernel, timings: dict[str, Timing]) -> str:
    times = [
        f"{name} {'-' if timing.seconds is None else milliseconds(timing.seconds)}"
        for name, timing in timings.items()
    ]
    return f"{kernel.name}: {', '.join(times)}"


def bars(rows: Sequence[Row]) -> str:
    """The kernels of which a ratio is asked, a line each: what is asked, and what was reached.

    >>> run = {"numpy": Timing(1.0), "tc": Timing(2.0)}
    >>> limits = Limits(1e9, (1, 10), (1e9, 1e9), (1e9, 1e9))
    >>> print(bars([row_of(BY_NAME["syrk 1024x512"], [run], limits)]))
    - syrk 1024x512: asked 0.9, reached 0.50 (short)
    """
    lines = []
    for row in rows:
        if asked := row.kernel.asked:
            reached = "-" if row.ratio is None else f"{row.ratio:.2f}"
            mark = "" if row.ratio is not None and row.ratio >= asked else " (short)"
            lines.append(f"- {row.kernel.name}: asked {asked}, reached {reached}{mark}")
    return "\n".join(lines)


def markdown(rows: Sequence[Row], names: Sequence[str], heading: str, limits: Limits) -> str:
    parts = [
        heading,
        limits_text(limits),
        "`ratio` is the fastest peer's time over tc's, both as printed; `of limit` the machine's "
        "least time over tc's and over the fastest peer's.",
        table(rows, names, "github"),
        summary(rows),
        bars(rows),
        failures_text(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def tables_of(path: Path, *, least: bool = False) -> None:
    """Reads recorded data, and writes the data and tables in the present form."""
    data = json.loads(path.read_text(encoding="utf-8"))
    runs = {
        record["kernel"]: [{n: Timing(**t) for n, t in run.items()} for run in record["runs"]]
        for record in data["kernels"]
    }
    limits = Limits(**data["limits"])
    rows = [row_of(BY_NAME[name], of, limits, least=least) for name, of in runs.items()]
    data["kernels"] = as_json(rows, runs)
    names = list(dict.fromkeys(name for of in runs.values() for run in of for name in run))
    write(path, data, markdown(rows, names, cpu_machine.one_line(data["machine"]), limits))


def write(path: Path, data: dict[str, Any], text: str) -> None:
    path.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments_of(given)
    if chosen.tables_of is not None:
        tables_of(chosen.tables_of, least=chosen.least)
        return
    kernels, names = select(words(chosen.kernels)), words(chosen.peers)
    rounds = min(chosen.rounds, 3) if chosen.quick else chosen.rounds
    settings = Settings(chosen.threads, rounds, patience=chosen.wait, niceness=chosen.niceness)
    if chosen.against is not None:
        against(chosen, kernels, settings)
        return
    packages = tuple(dict.fromkeys(p for name in names for p in PEERS[name].packages))
    described = cpu_machine.describe(packages, settings.threads)
    step = 3 if chosen.quick else 1
    limits, runs = measured_limits(settings, step), Runs()
    for _ in range(chosen.runs):
        measured_run(kernels, names, settings, runs)
    limits = limits.best(measured_limits(settings, step))
    rows = [row_of(kernel, runs[kernel.name], limits, least=chosen.least) for kernel in kernels]
    heading = cpu_machine.one_line(described)
    print(f"\n{heading}\n{limits_text(limits)}\n\n{table(rows, names)}\n\n{summary(rows)}")
    for text in (bars(rows), failures_text(rows)):
        if text:
            print(f"\n{text}")
    out = chosen.out or (RESULTS / f"cpu-{cpu_machine.short_name(described)}")
    if chosen.out or chosen.save:
        data = {
            "machine": described,
            "settings": {**asdict(settings), "runs": chosen.runs},
            "limits": asdict(limits),
            "kernels": as_json(rows, runs),
        }
        write(out, data, markdown(rows, names, heading, limits))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main()
