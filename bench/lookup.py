"""Times how long a first call looks for a plan in a tuning database: `python -m bench.lookup`.

The database has plans of one program for many sizes, some of them confirmed. Least and median times
until the first plan is tried, for sizes that were tuned, for others, and without a file.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.timing import machine, milliseconds, once
from tc.backends import registry
from tc.backends.base import Backend
from tc.device import host
from tc.options import Options
from tc.pipeline import check_module, parse_source, shape_program
from tc.plan import Part, Plan, Tile
from tc.runtime.fallback import Request
from tc.runtime.sizes import resolve_sizes
from tc.source import Source
from tc.tuning.database import Measurement, TuningDatabase
from tc.tuning.lookup import with_tuned_plan
from tc.tuning.machines import device_value
from tc.tuning.problem import Problem, Trial

TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
BACKEND = "numba"


def request_of(columns: int) -> Request:
    program = check_module(parse_source(Source(TEXT)), None)
    sizes = resolve_sizes(program, {"M": 64, "K": 48, "N": columns})
    return Request(program, sizes, frozenset(), BACKEND, Options(), True)


def fill(database: TuningDatabase, sizes: int, plans: int) -> None:
    """Fills the database with plans for `sizes` sizes, `plans` for each size, one of them
    confirmed."""
    backend = registry.get(BACKEND)
    assert isinstance(backend, Backend)
    device = device_value(host(), BACKEND)
    found = []
    for size in range(sizes):
        request = request_of(65 + size)
        problem = Problem.of(request.program, request.sizes, backend, check=True)
        for number in range(plans):
            plan = Plan((Part(("S0.init", "S0"), (Tile("i", (number + 2,)),)),))
            trial = Trial(replace(request.options, plan=plan), (1e-3 * (number + 1),))
            measured = Measurement(
                problem=problem,
                trial=trial,
                device=device,
                versions={},
                at=0.0,
                confirmed=number == 0,
            )
            found.append(measured)
    database.add(found)


def times(path: Path, columns: int, rounds: int) -> list[float]:
    request = request_of(columns)
    shaped, device = shape_program(request.program, request.sizes), host()

    def look() -> None:
        with_tuned_plan(repr, request, shaped, device, database=path)

    return [once(look) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sizes", type=int, default=200)
    parser.add_argument("--plans", type=int, default=8, help="of each size")
    parser.add_argument("--rounds", type=int, default=100)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tc-lookup-") as folder:
        path = Path(folder) / "tuned.db"
        fill(TuningDatabase(path), chosen.sizes, chosen.plans)
        print(f"{machine()}\n{chosen.sizes} sizes with {chosen.plans} plans each")
        cases = {"tuned": (path, 65), "nearest": (path, 64), "no file": (path / "none", 64)}
        for name, (file, columns) in cases.items():
            first, *later = times(file, columns, chosen.rounds)
            told = [f"{milliseconds(each)}" for each in (first, min(later), median(later))]
            print(f"{name}: first {told[0]}, least {told[1]}, median {told[2]}")


if __name__ == "__main__":
    main()
