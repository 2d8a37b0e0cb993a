"""The cases of `tests/sac/cases.json`: programs of SaC's notation, inputs, and what is due.

A case has `name`, `rules`, `src`, perhaps `entry`, and either `inputs` with `want` (the results) or
`error` (the rules of a refusal, any of which is right; `says` is what its message contains), or
`level` with `demand`. The values were computed by numpy formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]

CASES: list[Case] = json.loads(
    (Path(__file__).parents[1] / "sac" / "cases.json").read_text(encoding="utf-8")
)
ROUNDED = {"float32": 2e-6, "float64": 1e-14}


def array(given: dict[str, Any]) -> Any:
    """An input or a result."""
    if "python" in given:
        return given["python"]
    data = [float(x) if isinstance(x, str) else x for x in given["data"]]
    return np.array(data, dtype=given["dtype"]).reshape(given["shape"])


def inputs_of(case: Case) -> Any:
    """The inputs of a case, by name or in order."""
    given = case["inputs"]
    if isinstance(given, dict):
        return {name: array(value) for name, value in given.items()}
    return [array(value) for value in given]


def entry_of(case: Case) -> dict[str, str]:
    """The entry of a case as a keyword."""
    return {"entry": case["entry"]} if "entry" in case else {}


def assert_due(case: Case, found: Any) -> None:
    """Asserts that results are those that are due: values, shapes and types."""
    results = found if isinstance(found, tuple) else (found,)
    due = [array(want) for want in case["want"]]
    assert len(results) == len(due)
    for got, want in zip(map(np.asarray, results), due, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        rounded = ROUNDED.get(str(want.dtype), 0)
        np.testing.assert_allclose(got, want, rtol=rounded, atol=rounded)
