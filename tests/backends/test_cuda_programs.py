"""Every program of the table by the backend cuda, with arrays of each library, on a driver that
stands in for CUDA's (R5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import as_tuple, assert_within
from tests.support.on_devices import NAMES, Library, use
from tests.support.programs import CASES, Case
from tests.support.stand_in import StandInDriver, stand_in
from tests.test_programs import copies, expected_and_bounds, fresh

__all__ = ["stand_in", "use"]


def check(results: tuple[Any, ...], case: Case) -> None:
    expected, bounds = expected_and_bounds(case)
    assert len(results) == len(expected)
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


@pytest.mark.drawn(6)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.usefixtures("stand_in")
def test_program_on_copies(case: Case) -> None:
    inputs, outputs = fresh(case)
    compiled = tc.compile(case.text, entry=case.def_name, backend="cuda")
    check(as_tuple(compiled(**inputs, outputs=copies(outputs))), case)


def written(case: Case, library: Library, compiled: tc.Compiled) -> dict[str, Any]:
    """The outputs that have to be passed."""
    inputs, outputs = fresh(case)
    made = compiled.infer(**inputs) if not library.makes else {}
    unmade = {name: np.zeros(info.shape, info.dtype) for name, info in made.items()}
    return {**unmade, **(outputs or {})}


@pytest.mark.drawn(6)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(
    ("name", "case"),
    # nothing may write to arrays of jax, so none can be passed for outputs
    [(name, case) for name in NAMES for case in CASES if name != "jax" or not case.outputs],
    ids=lambda each: getattr(each, "name", each),
)
def test_program_where_arrays_are(
    name: str, case: Case, use: Callable[[str], Library], stand_in: StandInDriver
) -> None:
    """Calls that check no places (S5) do not wait."""
    library = use(name)
    inputs, _ = fresh(case)
    compiled = tc.compile(case.text, entry=case.def_name, backend="cuda", check=False)
    numbers = compiled.program.static_scalars
    arrays = {
        n: library.put(np.array(v), 0) if isinstance(v, np.ndarray) and n not in numbers else v
        for n, v in inputs.items()
    }
    outputs = {n: library.put(v, 0) for n, v in written(case, library, compiled).items()}
    found = as_tuple(compiled(**arrays, outputs=outputs or None))
    check(tuple(map(library.get, found)), case)
    assert not {"copy_in", "copy_out"} & {*stand_in.names()}
    assert ("wait" in stand_in.names()) == (name in ("jax", "adopting") and not outputs)
