"""How far from the best plan that a search finds the chosen plan is: `python -m bench.regret`.

Programs are drawn: contractions (`bench.suites.drawn`) and those of `bench.broad`, in turns. The
guided search of the tuner tries `--plans` of each on one thread, by the time of the processor, the
least of several calls; the best and the chosen one then take turns. Of what was decided otherwise
for the best one, each decision is taken back alone: what that costs says which choice, and so which
terms of the costs, the regret comes from. A line of JSON for each program is written as soon as it
has ended: the same command goes on where `--records` stops.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench.broad import whole_lines
from bench.broad_programs.table import select
from bench.cpu_report import geometric_mean
from bench.suites.drawn import drawn_contractions
from bench.timing import seconds_of_rounds, with_one_thread
from tc.backends import registry
from tc.errors import TCError
from tc.options import Options
from tc.runtime.sizes import resolve_sizes
from tc.tuning.problem import Problem
from tc.tuning.search import FAILED, search_named
from tc.tuning.space import Candidate, SearchSpace

BAR = 1.15
"""The time of the chosen plan over that of the best, at most."""

SECONDS = 0.15
"""Of timing a candidate; one that takes `SLOW` times as long as the best so far is called once."""

SLOW = 2.0

TOLD = 1.03
"""What taking back a decision has to cost to be told."""


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.regret", description=__doc__.split("\n\n")[0])
    parser.add_argument("--programs", type=int, default=30)
    parser.add_argument("--plans", type=int, default=200, help="that are tried of each program")
    parser.add_argument("--seed", type=int, default=1, help="draws programs, sizes and plans")
    parser.add_argument("--minutes", type=float, default=60.0, help="no program starts later")
    parser.add_argument("--records", type=Path, default=Path("build/regret.jsonl"))
    return parser.parse_args(given)


def programs(count: int, seed: int) -> Iterator[tuple[str, str, list[Any]]]:
    """Names, texts and inputs."""
    contractions = iter(drawn_contractions(count, seed))
    broad = random.Random(seed).sample(list(select((), ())), (count + 1) // 2)
    for number in range(count):
        if number % 2 == 0:
            found = next(contractions)
            arrays = found.operands(np.random.default_rng(number), found.sizes)
            sizes = ",".join(f"{n}{size}" for n, size in sorted(found.sizes.items()))
            yield f"{found.einsum} {found.type} {sizes}", found.text, list(arrays)
        else:
            drawn = broad[number // 2].drawn(seed)
            yield drawn.name, drawn.text, list(drawn.case().inputs)


def regret(text: str, inputs: list[Any], plans: int, seed: int) -> dict[str, Any]:
    """A record of one search: the times of the chosen and of the best plan, and decisions that the
    best one owes most to."""
    backend = registry.get("numba")
    function = tc.compile(text)
    values = dict(zip(function.program.inputs, inputs, strict=True))
    sizes = resolve_sizes(function.program, values)
    problem = Problem.of(function.program, sizes, backend, check=function.check)
    space = SearchSpace(problem, backend, Options(threads=1))
    search = search_named("guided", space, seed)
    expected = _run(space.default, text, inputs)()
    least, failed = FAILED, 0
    for _ in range(plans + 1):
        candidate = search.ask()
        if candidate is None:
            break
        seconds = _seconds(candidate, text, inputs, expected, SLOW * least)
        failed += seconds == FAILED
        least = min(least, seconds)
        search.tell(candidate, seconds)
    best = search.best
    assert best is not None
    point, owed = _needed(space, best, text, inputs)
    chosen, found = _in_turns([space.default, space.make(point)], text, inputs)
    return {
        "tried": len(search.times),
        "failed": failed,
        "chosen": chosen,
        "best": min(chosen, found),
        "owed": owed if chosen > TOLD * found else {},
        "point": point,
    }


def _run(candidate: Candidate, text: str, inputs: list[Any]) -> Callable[[], Any]:
    function = tc.compile(text, options=candidate.options)
    return lambda: function(*inputs)


def _seconds(
    candidate: Candidate, text: str, inputs: list[Any], expected: Any, most: float
) -> float:
    """The least time of a call; `FAILED` where there is none, or it computes something else."""
    try:
        run = _run(candidate, text, inputs)
        found = run()
    except TCError as error:
        print(f"failed: {error}", file=sys.stderr)
        return FAILED
    if not _are_close(found, expected):
        print(f"other results: {candidate.options.plan}", file=sys.stderr)
        return FAILED
    begin = time.process_time()
    run()
    first = time.process_time() - begin
    if first > most:
        return first
    times = seconds_of_rounds({"": run}, budget=SECONDS, rounds=5, clock=time.process_time)
    return min(times[""])


def _are_close(found: Any, expected: Any) -> bool:
    """Whether results differ by rounding at most, as far as a glance tells: tests know better."""
    pairs = zip(_each(found), _each(expected), strict=True)
    return all(
        np.allclose(one, other, rtol=1e-2, atol=1e-3 * float(np.abs(other).max(initial=0)),
                    equal_nan=True)
        for one, other in pairs
    )  # fmt: skip


def _each(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _in_turns(candidates: Sequence[Any], text: str, inputs: list[Any]) -> list[float]:
    runs = {str(n): _run(c, text, inputs) for n, c in enumerate(candidates)}
    for run in runs.values():
        run()
    times = seconds_of_rounds(
        runs, budget=3 * SECONDS * len(runs), rounds=15, clock=time.process_time
    )
    return [min(times[name]) for name in runs]


def _needed(
    space: SearchSpace, best: Candidate, text: str, inputs: list[Any]
) -> tuple[Mapping[str, str], dict[str, float]]:
    """The decisions that make the best plan, without those that change nothing, and what taking
    back each alone costs."""
    point, owed = dict(best.point), {}
    for name in list(point):
        less = {n: v for n, v in point.items() if n != name}
        other = space.make(less)
        if not isinstance(other, Candidate):
            continue
        if other.digest == space.make(point).digest:
            del point[name]
            continue
        own, without = _in_turns([space.make(point), other], text, inputs)
        if without <= own:
            del point[name]
        elif without > TOLD * own:
            owed[f"{name} = {point[name]}"] = without / own
    return point, owed


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """The programs, the worst first, and how many are beyond the bar.

    >>> row = {"name": "p", "chosen": 3e-3, "best": 2e-3, "tried": 9, "failed": 0}
    >>> print(report([{**row, "owed": {"rows = 4": 1.4}}]).splitlines()[-1])
    Mean 1.500; beyond 1.15: 1 of 1.
    """
    ratio = {id(r): r["chosen"] / r["best"] for r in records}
    rows = [
        [
            r["name"],
            f"{1e3 * r['chosen']:.3f}",
            f"{ratio[id(r)]:.2f}",
            r["tried"],
            "; ".join(f"{n} {v:.2f}" for n, v in sorted(r["owed"].items(), key=lambda x: -x[1])),
        ]
        for r in sorted(records, key=lambda r: -ratio[id(r)])
    ]
    heads = ["program", "chosen, ms", "over best", "plans", "owed to"]
    beyond = sum(value > BAR for value in ratio.values())
    mean = geometric_mean(list(ratio.values()))
    table = tabulate(rows, heads, tablefmt="github", disable_numparse=True)
    return f"{table}\n\nMean {mean:.3f}; beyond {BAR}: {beyond} of {len(records)}."


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments_of(given)
    with_one_thread("bench.regret")
    path, end = chosen.records, time.monotonic() + 60 * chosen.minutes
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(whole_lines(path) if path.exists() else "", encoding="utf-8")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    done = {record["name"] for record in records}
    with tempfile.TemporaryDirectory(prefix="tc-regret-") as folder:
        os.environ.update(TC_CACHE_DIR=folder, TC_TUNE="0")
        for number, (name, text, inputs) in enumerate(programs(chosen.programs, chosen.seed)):
            if name in done or time.monotonic() > end:
                continue
            record = {"name": name, **regret(text, inputs, chosen.plans, number)}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            records.append(record)
            print(f"{name}: {record['chosen'] / record['best']:.2f} {record['owed']}", flush=True)
    print(report(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
