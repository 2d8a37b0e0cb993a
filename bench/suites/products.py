"""Products of matrices of m x k x n: few rows, few columns, odd and long sums."""

from __future__ import annotations

import numpy as np

from bench.suites.contraction import Contraction

ROWS = (1, 2, 4, 8, 16, 64, 128, 129)
OTHERS = (17, 64, 500, 1000, 4096)


def products(seed: int = 0) -> dict[str, Contraction]:
    """All by name, m x k x n and with m and n exchanged, in an order that a seed draws, so that
    those which are measured first are as good as any. Squares of 2048 come first.

    >>> list(products())[:2], len(products())
    (['2048x2048x2048', '2048x2048x2048 double'], 397)
    """
    shapes = [(m, k, n) for m in ROWS for k in OTHERS for n in OTHERS]
    shapes = list(dict.fromkeys([*shapes, *((n, k, m) for m, k, n in shapes)]))
    order = np.random.default_rng(seed).permutation(len(shapes))
    found = {}
    for type_ in ("float", "double"):
        name = "2048x2048x2048" + (" double" if type_ == "double" else "")
        found[name] = _product(2048, 2048, 2048, type_)
    for place in order:
        m, k, n = shapes[place]
        found[f"{m}x{k}x{n}"] = _product(m, k, n)
    return found


def _product(m: int, k: int, n: int, type_: str = "float") -> Contraction:
    return Contraction("ik", "kj", "ij", {"i": m, "k": k, "j": n}, type_)
