"""Generated chains of statements at sizes of several tiles, against the interpreter (R5): exact
ones to the bit, others under the error bound, and all of them in poisoned memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.device import host
from tests.support.bounds import assert_within
from tests.support.chain_strategies import Chain, chains
from tests.support.option_strategies import options
from tests.support.poison import HUGE, LOW, NAN, forget_memory, poisoned

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
CHOICES = st.none() | st.none() | options(host())


def check(chain: Chain, chosen: tc.Options | None, backend: str) -> None:
    expected = outputs(tc.interpret(chain.text, chain.inputs))
    bounds = [0.0 for _ in expected]
    if not chain.exact:
        bounds = outputs(tc.error_bound(chain.text, chain.inputs))
    function = tc.compile(chain.text, backend=backend, options=chosen)
    is_float = chain.inputs[0].dtype.kind == "f"
    for byte in (NAN, HUGE) if is_float else (HUGE, LOW):
        with poisoned(byte):
            found = outputs(function(*chain.inputs))
        forget_memory(function)
        for got, want, bound in zip(found, expected, bounds, strict=True):
            assert_within(got, want, bound)


def outputs(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple) else [values]


@settings(max_examples=80, deadline=None, suppress_health_check=SLOW)
@given(chains(), CHOICES)
def test_chains(chain: Chain, chosen: tc.Options | None) -> None:
    check(chain, chosen, "numba")


@settings(max_examples=10, deadline=None, suppress_health_check=SLOW)
@given(chains(), CHOICES)
def test_chains_in_c(chain: Chain, chosen: tc.Options | None) -> None:
    check(chain, chosen, "c")


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "examples"), [("numba", 3000), ("c", 500)])
def test_many_chains(backend: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=SLOW)
    @given(chains(), CHOICES)
    def run(chain: Chain, chosen: tc.Options | None) -> None:
        check(chain, chosen, backend)

    run()
