"""TCCG: contractions of quantum chemistry, by the equations of its benchmark."""

from __future__ import annotations

import re
from pathlib import Path

from bench.suites.contraction import Contraction

GROUPS = ("intensli", "ao2mo", "ccsd", "ccsd_t")
LAYOUTS = ("column", "row")
FLOAT_BYTES = 4


def equations(root: Path) -> list[tuple[str, str]]:
    """The group and the equation, result first, of each contraction that the suite runs. Of two
    lists of a group the last one is used there."""
    text = (root / "benchmark" / "benchmark.py").read_text(encoding="utf-8")
    found = []
    for group in GROUPS:
        lists = re.findall(rf"testcases_{group} *=\s*\[(.*?)\]", text, re.DOTALL)
        equations = re.findall(r'"([a-z]+-[a-z]+-[a-z]+)"', lists[-1]) if lists else []
        found += [(group, equation) for equation in equations]
    return found


def sizes_of(group: str, equation: str, mib: float) -> dict[str, int]:
    """By the suite's rule: about as large in every dimension, so that the largest tensor has so
    many MiB; the first index of each tensor is a multiple of 24, and others are multiples of 4.

    >>> sizes_of("ccsd", "ij-ik-kj", 16)
    {'i': 2064, 'j': 2048, 'k': 2064}
    """
    result, left, right = equation.split("-")
    dimensions = max(map(len, (result, left, right)))
    average = (mib * 2**20 / FLOAT_BYTES) ** (1 / dimensions)
    sizes = {}
    for index in sorted(set(result + left + right)):
        if group == "intensli" and index == "j":
            sizes[index] = 24
        elif index in (result[0], left[0], right[0]):
            sizes[index] = int((average + 23) / 24) * 24
        else:
            up, down = int((average + 3) / 4) * 4, max(4, int(average / 4) * 4)
            sizes[index] = up if abs(average - up) < abs(average - down) else down
    return sizes


def contraction_of(group: str, equation: str, mib: float, layout: str) -> Contraction:
    """The equation at a size. The suite's tensors are in columns, the first index contiguous, so
    that numpy's have the indices in the other order; with "row" they are as they stand.

    >>> contraction_of("intensli", "abj-bka-kj", 1, "column").einsum
    'akb,jk->jba'
    """
    tensors = equation.split("-")
    result, left, right = (t[::-1] if layout == "column" else t for t in tensors)
    return Contraction(left, right, result, sizes_of(group, equation, mib))
