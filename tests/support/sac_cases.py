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
ROUNDED = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}
"""How far a float may lie from numpy's, of the greater magnitude: sums may have another order."""


def assert_result(found: Any, want: Any) -> None:
    """Asserts that a result has the shape, the type and the values that are due; only floats may be
    rounded. Several results are a tuple."""
    if isinstance(want, tuple):
        assert len(found) == len(want)
        for each, due in zip(found, want, strict=True):
            assert_result(each, due)
        return
    found, want = np.asarray(found), np.asarray(want)
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    if str(want.dtype) in ROUNDED:
        rounded = ROUNDED[str(want.dtype)]
        np.testing.assert_allclose(found, want, rtol=rounded, atol=rounded)
    else:  # `assert_allclose` compares integers as doubles
        np.testing.assert_array_equal(found, want)


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
    for got, want in zip(results, due, strict=True):
        assert_result(got, want)
