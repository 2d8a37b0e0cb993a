"""A plan edited by hand: a matrix product as tc plans it, and with other tiles, timed beside it.

Squared distances of all pairs of points; the plan that tc made is printed, and one size in it is
changed to each of a few others. All are right; some are faster on some processors.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from report import best, compare

import tc

TEXT = """
def distances(float(M,D) a, float(N,D) b) -> (o) {
  o(i,j) +=! (a(i,d) - b(j,d)) * (a(i,d) - b(j,d))
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.random((size, 16), np.float32), rng.random((size, 16), np.float32)


def with_numpy(a: Any, b: Any) -> Any:
    return ((a[:, None] - b) ** 2).sum(-1)


def with_tiles(plan: str, size: int) -> str | None:
    """The plan with other tiles of the first loop that it tiles by one size, under their names."""
    found = re.search(r'{"tile": "(\w+)", "sizes": \[(\d+)\]}', plan)
    if found is None:
        return None
    loop, before = found.groups()
    text = plan.replace(found[0], f'{{"tile": "{loop}", "sizes": [{size}]}}')
    return re.sub(rf"\b{loop} (mod|div) {before}\b", rf"{loop} \1 {size}", text)


def time_plans(size: int) -> None:
    """Times the chosen plan, and those with other tiles; one that cannot be done says why."""
    given = inputs(size)
    plan = str(tc.compile(TEXT).explain(*given).stages["plan"])
    print(plan)
    chosen = tc.compile(TEXT)
    print(f"  as planned: {1e3 * best(lambda: chosen(*given)):.3g} ms")
    expected, bound = tc.interpret(TEXT, *given), tc.error_bound(TEXT, *given)
    for tiles in (2, 4, 8):
        text = with_tiles(plan, tiles)
        if text is None:
            print("  nothing is tiled by one size here")
            return
        function = tc.compile(TEXT, options=tc.Options(plan=tc.Plan.from_json(text)))
        try:
            result = function(*given)
        except tc.BackendError as error:
            print(f"  tiles of {tiles}: {error.cause}")
            continue
        if not (abs(result - expected) <= bound).all():
            raise SystemExit(f"tiles of {tiles}: an error is beyond the bound")
        print(f"  tiles of {tiles}: {1e3 * best(lambda f=function: f(*given)):.3g} ms")


if __name__ == "__main__":
    compare("distances of all pairs", TEXT, inputs, with_numpy, small=24, large=200)
    time_plans(200)
