"""Templates from the disk: new sizes in a new process, and nothing lowered again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tc
from tc import cache, stored_templates
from tc.dynamic import dynamic_sizes
from tc.extents.polynomials import Polynomial
from tc.extents.sizes import Questions, Range
from tc.kernel.sizes import at_sizes
from tc.pipeline import check_module, parse_source
from tests.api.test_dynamic import CONV, SOFTMAX
from tests.extents.test_polynomials import POLYNOMIALS, RANGES
from tests.support.bounds import as_tuple, assert_within
from tests.support.processes import run_python, told
from tests.support.programs import CASES, Case
from tests.test_programs import fresh

rng = np.random.default_rng(36)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    cache.enable(tmp_path)
    yield tmp_path
    cache.disable()


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


SCRIPT = (
    f"SOFTMAX, CONV = {SOFTMAX!r}, {CONV!r}"
    """
import sys
import numpy as np
import tc
rng = np.random.default_rng(1)

def normal(*shape):
    return rng.standard_normal(shape, np.float32)

def forbidden(*_, **__):
    raise AssertionError("this process lowers")

sizes = [(40, 30), (33, 50)]
if sys.argv[1] == "warm":
    from tc.polyhedral import lowering
    lowering.trace_lowering = lowering.plan_for = forbidden
    sizes = [(51, 44), (37, 61), (100, 90)]
for backend in ("numba", "c"):
    softmax = tc.compile(SOFTMAX, dynamic=True, backend=backend)
    conv = tc.compile(CONV, dynamic={"N", "H", "W"}, backend=backend)
    for n, d in sizes:
        for function, inputs in (
            (softmax, [normal(n, d)]),
            (conv, [normal(n // 10, 3, n, d), normal(4, 3, 3, 3)]),
        ):
            text = SOFTMAX if function is softmax else CONV
            found = function(*inputs)
            bound = tc.error_bound(text, inputs)
            assert (abs(found - tc.interpret(text, inputs)) <= bound).all()
print("right")
"""
)


def test_a_new_process_lowers_nothing(folder: Path) -> None:
    pytest.importorskip("numba")
    for how in ("cold", "warm"):
        done = run_python(SCRIPT, how, environment={"TC_CACHE_DIR": str(folder), "TC_STRICT": "1"})
        assert done.stdout == "right\n", told(done)


def check(function: Any, text: str, inputs: list[Any]) -> None:
    bounds, expected = as_tuple(tc.error_bound(text, inputs)), as_tuple(tc.interpret(text, inputs))
    for got, due, bound in zip(as_tuple(function(*inputs)), expected, bounds, strict=True):
        assert_within(got, due, bound)


def of_function(function: Any) -> list[stored_templates.TemplateText]:
    (family,) = function._specialiser.templates.families.values()
    return [template.of for template in family.templates]


def test_templates_of_two_functions_stand_together() -> None:
    """What one made for large sizes, and the other for small ones."""
    one, other, third = (tc.compile(SOFTMAX, dynamic={"N"}) for _ in range(3))
    check(one, SOFTMAX, [normal(2, 20)])
    check(other, SOFTMAX, [normal(3, 20)])
    check(third, SOFTMAX, [normal(900, 20)])
    read = of_function(tc.compile(SOFTMAX, dynamic={"N"}).prepare(N=40, D=20) or third)
    assert {each.hints["N"] for each in read} >= {each.hints["N"] for each in of_function(one)}


def test_what_stands_on_disk_is_what_was_made() -> None:
    """Kernel, guards, polynomials: all of it, for several sizes with multiples."""
    program = check_module(parse_source(tc.Source(CONV)), None)
    asked = {"N": range(2, 100), "H": range(8, 400, 8), "W": range(2, 400)}
    dynamic = dynamic_sizes(program, asked)
    assert dynamic is not None
    function = tc.compile(CONV, dynamic=asked)
    for n, h, w in ((4, 40, 33), (3, 16, 200)):
        function(normal(n, 3, h, w), normal(4, 3, 3, 3))
    made = of_function(function)
    read = stored_templates.templates_of(stored_templates.bytes_of(made), dynamic)
    assert len(read) == len(made) > 0
    for one, other in zip(made, read, strict=True):
        assert (one.hints, one.anchors) == (other.hints, other.anchors)
        assert one.text.source == other.text.source
        guards = [[*map(str, each.questions.guards.values())] for each in (one, other)]
        assert guards[0] == guards[1]
        for _ in range(50):
            sizes = {
                "N": int(rng.integers(2, 100)),
                "H": 8 * int(rng.integers(1, 50)),
                "W": int(rng.integers(2, 400)),
            }
            assert one.admits(sizes) == other.admits(sizes)
            if one.admits(sizes):
                kernels = [at_sizes(each.text.kernel, sizes) for each in (one, other)]
                assert kernels[0] == kernels[1]


@pytest.mark.drawn(4)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_templates_of_all_programs_are_read_as_they_were_made(case: Case) -> None:
    function: Any = tc.compile(case.text, entry=case.def_name, dynamic=True)
    inputs, outputs = fresh(case)
    function(inputs, outputs=outputs)
    for family in function._specialiser.templates.families.values():
        for made in (template.of for template in family.templates):
            dynamic = function._specialiser.templates.dynamic
            (read,) = stored_templates.templates_of(stored_templates.bytes_of([made]), dynamic)
            kernels = [at_sizes(each.text.kernel, made.hints) for each in (made, read)]
            assert kernels[0] == kernels[1]


def test_what_cannot_be_divided_is_not_read() -> None:
    function: Any = tc.compile(SOFTMAX, dynamic={"N"})
    function(normal(40, 30))
    (made,) = of_function(function)
    values = stored_templates._values(made)
    values["guards"] = [[[0, [1, [[1], "/", [0]]]], 0, 9, []]]
    packed = zlib.compress(json.dumps([values]).encode(), 1)
    stored = cache.packed("templates", {"backend": "numba"}, packed)
    dynamic = function._specialiser.templates.dynamic
    assert stored_templates.templates_of(stored, dynamic) == []


@given(POLYNOMIALS)
def test_polynomials(polynomial: Polynomial) -> None:
    ranges = {name: Range(*own) for name, own in RANGES.items()}
    hints = {name: own.begin for name, own in ranges.items()}
    rows = stored_templates._rows(polynomial)
    read = stored_templates._Reader(Questions(ranges), hints).polynomial(rows)
    assert read == polynomial
    assert str(read) == str(polynomial)
    assert read.bounds() == polynomial.bounds()


def test_other_requests_have_other_templates() -> None:
    keys = set()
    for how in (
        {"dynamic": {"N"}},
        {"dynamic": {"N": range(2, 50)}},
        {"dynamic": {"N", "D"}},
        {"dynamic": {"N"}, "check": False},
        {"dynamic": {"N"}, "backend": "c"},
        {"dynamic": {"N"}, "options": tc.Options(threads=1)},
    ):
        function: Any = tc.compile(SOFTMAX, **how)
        for d in (20, 21):
            function(normal(30, d))
        keys |= {family.key for family in function._specialiser.templates.families.values()}
    assert None not in keys
    assert len(keys) == 2 * 5 + 1
