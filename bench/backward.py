"""Times gradients of layers beside those of other libraries: `python -m bench.backward`.

The forward pass has run before; what is timed is the backward pass alone, from the cotangents of
the outputs to the gradients of all inputs: the program that `tc.grad` gives with default options,
torch's autograd, eager and under torch.compile, and JAX's vjp under jit. Each library has a process
of its own, stopped while another is timed; rounds alternate between them. Every gradient is checked
against torch's in float64.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bench import cpu_machine
from bench.backward_passes.peers import MAKERS, PACKAGES
from bench.backward_passes.process import BackwardProcess
from bench.backward_passes.table import select
from bench.cpu import RESULTS, words
from bench.cpu_measure import Settings, Timing, measure
from bench.cpu_report import fastest_of, geometric_mean, ratio_of, times_of
from bench.timing import milliseconds

GOAL = 1.2
FLOOR = 0.9
BUILD_LIMIT = 120.0


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--layers", default="", help="parts of names: a,b")
    parser.add_argument("--peers", default=",".join(MAKERS), help=", ".join(MAKERS))
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--threads", type=int, default=Settings.threads)
    parser.add_argument("--least", action="store_true", help="tables from least times")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds before a busy turn")
    parser.add_argument("--niceness", type=int, default=0, help="of a peer in its turn")
    parser.add_argument("--out", type=Path, help="where to write .json and .md; else nowhere")
    parser.add_argument("--save", action="store_true", help="write into bench/results")
    chosen = parser.parse_args(given)
    if unknown := [name for name in words(chosen.peers) if name not in MAKERS]:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(MAKERS)}")
    chosen.selected = select(words(chosen.layers))
    if not chosen.selected:
        parser.error(f"no layer has {chosen.layers} in its name")
    return chosen


def measured(chosen: argparse.Namespace) -> dict[str, dict[str, Timing]]:
    settings = Settings(
        chosen.threads,
        chosen.rounds,
        build_limit=BUILD_LIMIT,
        patience=chosen.wait,
        niceness=chosen.niceness,
    )
    runs = {}
    peers = [BackwardProcess(name, chosen.threads, chosen.niceness) for name in words(chosen.peers)]
    try:
        with tempfile.TemporaryDirectory(prefix="tc-backward-") as folder:
            for layer in chosen.selected:
                runs[layer.name] = measure(layer, peers, settings, Path(folder))
                print(f"{layer.name}: {told(runs[layer.name])}", flush=True)
    finally:
        for peer in peers:
            peer.end()
    return runs


def told(timings: Mapping[str, Timing]) -> str:
    times = (
        f"{name} {timing.reason if timing.seconds is None else milliseconds(timing.seconds)}"
        for name, timing in timings.items()
    )
    return ", ".join(times)


def report(heading: str, runs: Mapping[str, Mapping[str, Timing]], *, least: bool = False) -> str:
    """Markdown."""
    times = {name: times_of(timings, least) for name, timings in runs.items()}
    peers = dict.fromkeys(peer for timings in runs.values() for peer in timings)
    lines = [
        [
            name,
            *(milliseconds(seconds[peer]) if peer in seconds else "-" for peer in peers),
            fastest_of(seconds) or "-",
            "-" if (ratio := ratio_of(seconds)) is None else f"{ratio:.2f}",
        ]
        for name, seconds in times.items()
    ]
    table = tabulate(lines, ["layer", *peers, "fastest", "ratio"], "github", disable_numparse=True)
    failed = [
        f"- {name}: {peer}: {timing.reason}"
        for name, timings in runs.items()
        for peer, timing in timings.items()
        if timing.reason
    ]
    explained = "`ratio` is the fastest peer's time over tc's, of the backward pass alone."
    parts = [heading, explained, table, summary(times), "\n".join(failed)]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(times: Mapping[str, Mapping[str, float]]) -> str:
    """
    >>> print(summary({"a 1": {"tc": 1.0, "torch": 2.0}, "b 2": {"tc": 2.0, "jax": 1.0}}))
    geometric mean 1.00 over 2 backward passes, least 0.50 (b 2) (asked: 1.2, none under 0.9)
    under 0.9: b 2 0.50
    """
    ratios = {name: ratio_of(seconds) for name, seconds in times.items()}
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if not known:
        return ""
    worst = min(known, key=lambda name: known[name])
    under = [f"{name} {ratio:.2f}" for name, ratio in known.items() if ratio < FLOOR]
    first = (
        f"geometric mean {geometric_mean(list(known.values())):.2f} over {len(known)} backward "
        f"passes, least {known[worst]:.2f} ({worst}) (asked: {GOAL}, none under {FLOOR})"
    )
    return "\n".join([first, *([f"under {FLOOR}: {', '.join(under)}"] if under else [])])


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments_of(given)
    machine: dict[str, Any] = cpu_machine.describe(PACKAGES, chosen.threads)
    runs = measured(chosen)
    text = report(cpu_machine.one_line(machine), runs, least=chosen.least)
    print(f"\n{text}")
    out = chosen.out or RESULTS / f"backward-{cpu_machine.short_name(machine)}"
    if chosen.out or chosen.save:
        data = {
            "machine": machine,
            "layers": {
                name: {peer: asdict(timing) for peer, timing in timings.items()}
                for name, timings in runs.items()
            },
        }
        out.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main()
