"""A comprehension costs nothing: its desugared form (C20) has the same kernel, to the letter of the
text, in every program that the paper prints."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tc.sac

PAGE = Path(__file__).parents[2] / "spec" / "sac" / "programs.md"
Run = tuple[str, tuple[Any, ...], dict[str, Any]]


def runs_of_the_page() -> list[Run]:
    """The text and the inputs of each program of the page that gives a result."""
    found: list[Run] = []
    interpret: Callable[..., Any] = tc.sac.interpret

    def noted(text: str, *inputs: Any, **named: Any) -> Any:
        result = interpret(text, *inputs, **named)
        found.append((text, inputs, named))
        return result

    page = doctest.DocTestParser().get_doctest(
        PAGE.read_text(encoding="utf-8"), {}, PAGE.name, None, 0
    )
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    with mock.patch("tc.sac.interpret", noted):
        doctest.DocTestRunner(verbose=False, optionflags=flags).run(page, out=lambda _: None)
    return found


RUNS = runs_of_the_page()
LARGE = {
    "{ iv -> a[iv] + 1 | 0*shape(a)+1 <= iv < shape(a)-1; iv -> a[iv] }": [(300,), (40, 50)],
    "{ [i,j] -> sum({ [k] -> a[i,k] * a[j,k] }) }": [(40, 50)],
    "{ iv -> sum({ jv -> a[iv + jv] | jv < 0*shape(a) + 5 }) | iv < shape(a) - 4 }": [
        (300,),
        (40, 50),
        (10, 11, 12),
    ],
    "{ [i,j] -> a[j,i] + b[i] }": [(40, 50)],
    "{ [i] -> reverse(a[i]) }": [(40, 50), (0, 5)],
    "{ [i,.] -> a[i] / sum(a[i]) }": [(40, 50)],
    "{ [.,j] -> a[j] * 2.0f | [j] < [7] }": [(40, 50)],
    "{ [..., j] -> a[j] - minval(a) | [j] < [7] }": [(40, 50), (10, 11, 12)],
}
"""Programs of the paper's kinds, and shapes of which sums are not written out."""


def kernel(text: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> str:
    named = dict(named)
    entry = named.pop("entry", None)
    return str(tc.sac.compile(text, entry=entry, backend="numba").source(*inputs, **named))


def with_numbered_names(source: str) -> str:
    """A kernel whose loops and numbers are called by the order in which they come: what dots leave
    without a name is called otherwise in a with-loop."""
    source = re.sub(r"^ *# .*\n", "", source, flags=re.M)  # the statements as they are written
    names = dict.fromkeys(re.findall(r"(?:\bfor |^ +)(\w+) (?:in|=) ", source, re.M))
    for number, name in enumerate(names):
        source = re.sub(rf"\b{name}\b", f"name{number}", source)
    return source


def assert_same_kernels(text: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    given = {name: value for name, value in named.items() if name != "entry"}
    forms = [tc.sac.desugar(text)]
    if "entry" not in named:
        forms.append(tc.sac.desugar(text, *inputs, **given))
    due = kernel(text, inputs, named)
    for form in forms:
        assert "->" not in form
        found = kernel(form, inputs, named)
        if re.search(r"[\[,] *\.", text):
            assert with_numbered_names(found) == with_numbered_names(due)
        else:
            assert found == due


def test_the_programs_of_the_paper_are_found() -> None:
    assert len(RUNS) >= 40
    assert sum("->" in text for text, _, _ in RUNS) >= 20


@pytest.mark.parametrize(("text", "inputs", "named"), RUNS, ids=[run[0] for run in RUNS])
def test_programs_of_the_paper(text: str, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert_same_kernels(text, inputs, named)


@pytest.mark.parametrize(
    ("text", "shape"), [(text, shape) for text, shapes in LARGE.items() for shape in shapes]
)
def test_larger_arrays(text: str, shape: tuple[int, ...]) -> None:
    named = {"a": np.ones(shape, np.float32)}
    if "b[" in text:
        named["b"] = np.ones(shape[1], np.float32)
    assert_same_kernels(text, (), named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{ [i] -> sum({ [j] -> a[i,j] | [j] < [i+1] }) }", {"a": np.ones((20, 20), np.int32)}),
        (
            "{ [i] -> sum({ [j] -> a[i,j] | [j] < n[i] }) }",
            {"a": np.ones((3, 20), np.int32), "n": np.int32([20, 0, 7])},
        ),
        (
            "{ iv -> sum({ ov -> a[iv*n+ov] | ov < n }) / tof(prod(n)) | iv < shape(a) / n }",
            {"a": np.ones((8, 9), np.float32), "n": np.int32([2, 3])},
        ),
    ],
)
def test_sizes_that_an_index_or_data_decide(text: str, named: dict[str, Any]) -> None:
    given = dict(sorted(named.items()))
    form = tc.sac.desugar(text)
    own, other = (tc.sac.compile(each, backend="numba") for each in (text, form))
    assert "=!" in own.lowered(**given).text
    assert other.lowered(**given).text.split("{")[1] == own.lowered(**given).text.split("{")[1]
    np.testing.assert_array_equal(own(**given), tc.sac.interpret(text, **given))


@pytest.mark.parametrize("backend", ["interpret", "numba"])
@pytest.mark.parametrize(
    "array",
    [
        "{ [j] -> 1 | [0-1] <= [j] < [i+1] }",
        "with { ([0-1] <= [j] < [i+1]) : 1; } : genarray([i+1], 0)",
        "with { ([0] <= [j] < [i+2]) : 1; } : genarray([i+1], 0)",
    ],
)
def test_ranges_that_leave_an_array_whose_size_an_index_decides(array: str, backend: str) -> None:
    f = tc.sac.compile(f"{{ [i] -> sum({array}) | [i] < [9] }}", backend=backend)
    with pytest.raises(
        tc.TCError, match=r"leaves the result, shape \[1\], at \[i\] = \[0\]"
    ) as told:
        f()
    assert told.value.rule == "C12"


def test_with_loops_whose_size_an_index_decides() -> None:
    """Of a default element where the range does not begin, too."""
    text = "{ [i] -> sum(with { ([3] <= [j] < [i]) : j; } : genarray([i], 100)) | [i] < [20] }"
    f = tc.sac.compile(text, backend="numba")
    assert "=!" in f.lowered().text
    due = [sum(j if j >= 3 else 100 for j in range(i)) for i in range(20)]
    np.testing.assert_array_equal(f(), due)
