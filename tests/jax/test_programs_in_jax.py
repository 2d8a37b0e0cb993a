"""Every program of the table inside of jax, against its independent numpy formula (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.gradient.table import SOME
from tests.jax.layers import in_64_bits
from tests.support.bounds import assert_within
from tests.support.programs import Case
from tests.test_programs import as_tuple, expected_and_bounds, fresh

jax: Any = pytest.importorskip("jax", reason="jax is not installed")


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", SOME, ids=lambda c: c.name)
def test_a_program_of_the_table(case: Case) -> None:
    expected, bounds = expected_and_bounds(case)
    function = tc.compile(case.text, entry=case.def_name, backend="interpret")
    static = function.program.static_scalars
    with in_64_bits(jax):
        arrays = {n: v if n in static else jax.numpy.asarray(v) for n, v in fresh(case)[0].items()}
        results = as_tuple(jax.jit(function, static_argnames=[*static])(**arrays))
    for result, value, bound in zip(results, expected, bounds, strict=True):
        found = np.asarray(result)
        assert_within(found, np.asarray(value).astype(found.dtype), bound)


def test_warnings_are_told_where_the_call_stands() -> None:
    """Rules G2 and R3, once for a function."""
    function = tc.compile("def f(float(N) x) -> (y) { y(i) += x(i) }", backend="interpret")
    x = jax.numpy.ones(3)
    with pytest.warns(tc.TCWarning, match="R3") as caught:
        assert jax.jit(lambda x: function(x))(x).tolist() == [1, 1, 1]
    assert [each.filename for each in caught] == [__file__]
    assert jax.vmap(function)(x[None]).tolist() == [[1, 1, 1]]
