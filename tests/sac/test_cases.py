"""Programs of every rule C, by the reference, desugared, and by their shape functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tests.support.sac_cases import CASES, Case, array, assert_due, entry_of, inputs_of
from tests.support.sac_shapes import shapes_by_function

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds

RUNNING = [case for case in CASES if "want" in case]
REFUSED = [case for case in CASES if "error" in case]
DEMANDS = [case for case in CASES if "demand" in case]


def name_of(case: Case) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", RUNNING, ids=name_of)
def test_the_reference_gives_numpys_values(case: Case) -> None:
    assert_due(case, tc.sac.interpret(case["src"], inputs_of(case), **entry_of(case)))


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_a_refusal_names_its_rule(case: Case) -> None:
    with pytest.raises(tc.TCError) as caught:
        tc.sac.interpret(case["src"], inputs_of(case), **entry_of(case))
    assert caught.value.rule in case["error"]
    assert [text for text in case.get("says", ()) if text not in str(caught.value)] == []


@pytest.mark.parametrize("case", DEMANDS, ids=name_of)
def test_demand(case: Case) -> None:
    assert tc.sac.demand(case["src"], case["level"], **entry_of(case)) == case["demand"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", RUNNING, ids=name_of)
def test_a_desugared_text_has_the_same_results_and_only_with_loops(case: Case) -> None:
    """C20."""
    text = tc.sac.desugar(case["src"])
    assert "->" not in text
    assert "..." not in text
    assert tc.sac.desugar(text) == text
    assert_due(case, tc.sac.interpret(text, inputs_of(case), **entry_of(case)))


def test_a_desugared_sum_over_a_row_is_the_papers() -> None:
    """Section 5: bounds are inferred, and the default has the shape of the last body."""
    assert tc.sac.desugar("{ [i,j] -> a[j,i]+b[i] }").rstrip() == (
        "with { ([0,0] <= [i,j] < [min(shape(a)[1], shape(b)[0]), shape(a)[0]]) : "
        "a[j,i] + b[i]; } : genarray([min(shape(a)[1], shape(b)[0]), shape(a)[0]], "
        "genarray(shape(a[0,0] + b[0]), zero(a[0,0] + b[0])))"
    )


@pytest.mark.parametrize("case", RUNNING, ids=name_of)
def test_a_shape_function_gives_the_shape_from_what_is_demanded(case: Case) -> None:
    """C22, section 6.2."""
    found = shapes_by_function(case["src"], inputs_of(case), **entry_of(case))
    assert found == [array(want).shape for want in case["want"]]


@pytest.mark.parametrize(
    ("program", "function"),
    [
        ("int[+] plus(int[+] A, int B) { return A + B; }", "int[.] plus_s(int[.] A) { return A; }"),
        (
            "double[*] select(int[.] i, double[*] A) { return A[i]; }",
            "int[.] select_s(int[.] i, int[.] A) { return drop([i[0]], A); }",
        ),
        (
            "int[*] f(int[*] A) { return A[[0]] + 1; }",
            "int[.] f_s(int[.] A) { return drop([1], A); }",
        ),
        ("int[.] f(int[*] x) { return shape(x); }", "int[.] f_s(int x) { return [x]; }"),
        ("int f(int[*] x) { return x[0]; }", "int[.] f_s() { return []; }"),
        (
            "int[*] f(int64[2] s, int[*] a) { return reshape(s, a); }",
            "int[.] f_s(int64[2] s) { return toi(s); }",
        ),
        (
            "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }",
            "int[.] shape_s(int[.] A, int[.] B) { return [A[0], B[1]]; }",
        ),
    ],
)
def test_shape_functions_of_section_6(program: str, function: str) -> None:
    assert tc.sac.shape_function(program).rstrip() == function


@pytest.mark.parametrize(
    ("program", "inputs", "shape"),
    [
        ("c ? [1,2] : [1,2,3]", {"c": np.bool_(False)}, (3,)),
        ("any(b) ? [1,2] : [3]", {"b": np.array([True, False])}, (2,)),
        ("x = [1]; if (!b[0]) { x = [1,2]; } x", {"b": np.array([True, False])}, (1,)),
        ("{ [i] -> b[i] ? f[i] : 0 }", {"b": np.array([True, False]), "f": np.ones(3)}, (2,)),
        ("n > 2 ? [1,2] : [3]", {"n": np.int32(3)}, (2,)),
    ],
)
def test_conditions_of_an_expression_are_bools_for_its_shape_function(
    program: str, inputs: dict[str, Any], shape: tuple[int, ...]
) -> None:
    assert shapes_by_function(program, inputs) == [shape]


def test_the_shape_function_of_a_selection_with_dots_needs_nothing_of_a_scalar() -> None:
    text = tc.sac.shape_function("int[*] f(int[.,.] x, int[*] y) { return x[...,0,1] + y; }")
    assert tc.sac.interpret(text, y=np.int32([3, 2])).tolist() == [3, 2]


@pytest.mark.parametrize("shape", [(4, 6), (0, 2048)])
def test_the_papers_shape_function_is_drop(shape: tuple[int, ...]) -> None:
    text = tc.sac.shape_function("int[*] f(int[*] A) { return A[[0]] + 1; }")
    assert tc.sac.interpret(text, np.array(shape, np.int32)).tolist() == list(shape[1:])
