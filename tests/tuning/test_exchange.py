"""Measurements as lines of JSON: read back as they were written, and refused where they say what
cannot be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import TCError
from tc.tuning.exchange import RefusedLine, from_line, from_lines, to_line
from tests.support.tunings import MM, measurement_of, problem_of, tiled

STRIDED = problem_of(
    MM, [np.ones((64, 48), np.float32, order="F"), np.ones((48, 40), np.float32)], check=False
)


@pytest.mark.parametrize(
    "measurement",
    [
        measurement_of(None, None, 1.0, 0.5),
        measurement_of(STRIDED, tiled("i", 4), failure="killed: é\n\u2028 'x'"),
        measurement_of(None, tc.Options(), 0.25, confirmed=True, seed=2**70, search=""),
        measurement_of(problem_of(given=frozenset({"C"})), None, 1e-9, base=tc.Options(threads=3)),
        measurement_of(
            problem_of("def f(float(N) x, int32 k) -> (y) { y(i) = x(i + k) where i in 0:4 }",
                       {"N": 9, "k": 2}),
            tiled("i", 2),
            1.0,
            seed=None,
        ),
    ],
)  # fmt: skip
def test_a_line_is_read_back(measurement: Any) -> None:
    line = to_line(measurement)
    assert "\n" not in line
    assert from_line(line) == measurement
    assert list(from_lines(["\n", line + "\n"])) == [measurement]


def changed(**values: Any) -> str:
    found = json.loads(to_line(measurement_of(None, None, 1.0)))
    for name, value in values.items():
        if name in found["problem"]:
            found["problem"][name] = value
        else:
            found[name] = value
    return json.dumps(found)


DEVICE = measurement_of(None, None, 1.0).device
PLAN = {"version": 1, "parts": [{"statements": ["S0"], "actions": [{"tyle": "i", "sizes": [2]}]}]}


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "the line is no JSON: "),
        ("[" * 100_000, "the line is no JSON: "),
        ("[1]", "a measurement is an object with the keys version, problem, "),
        (changed(at=float("nan")), "the line is no JSON: NaN is no number in JSON"),
        ('{"version": 1}', "a measurement lacks problem, base, "),
        (changed(version=2), "the line has version 2, and this tc reads version 1"),
        (changed(version=True), "the line has version True"),
        (changed(more=1), "a measurement has no key 'more'"),
        (changed(options={"plan": PLAN}), "action 1 of the part S0, "),
        (changed(options={"threads": 0}), "threads=0: the number of threads is"),
        (changed(options={"code": "import os"}), "the options "),
        (changed(options={}), "the options of a trial that was not confirmed have a plan"),
        (changed(base={"plan": {"version": 1, "parts": []}}), "the base of a search has no plan"),
        (changed(text="def mm("), "the program: "),
        (changed(entry="other"), "the program: "),
        (changed(backend="interpret"), "no backend 'interpret' has plans; there are "),
        (changed(backend="os"), "no backend 'os' has plans"),
        (changed(check=1), "this describes nothing that was tuned: "),
        (changed(shapes=[["A", [64, 48]]]), "the program: the shapes are of A, and not of A, B"),
        (changed(shapes=[["A", [64, 48]], ["B", [48]]]), "the program: B has no shape (48,)"),
        (changed(shapes=[["A", [64, -8]], ["B", [-8, 2]]]), "the program: A has no shape"),
        (changed(shapes=[["A", [64, 48]], ["B", [4, 2]]]), "the program: "),
        (changed(scalars=[["n", 1]]), "the program: the scalars are of n, and not of nothing"),
        (changed(strides=[["A", [1]]]), "the program: strides are of inputs, one for each"),
        (changed(given=["D"]), "the program: D are no outputs of mm"),
        (changed(device={"kind": "abacus"}), "a device is an object whose kind is one of "),
        (changed(device={**DEVICE, "name": "\x1b[2J"}), "the name of a device is printable"),
        (changed(device=[]), "a device is an object whose kind is one of "),
        (changed(versions={"tc": 1}), '"versions" is an object of texts, and not '),
        (changed(seconds=[0.0]), '"seconds" is a list of at most 10000 numbers of more than 0'),
        (changed(seconds=[1e9]), '"seconds" is a list of at most 10000 numbers of more than 0'),
        (changed(seconds=[True]), '"seconds" is a list of at most 10000 numbers of more than 0'),
        (changed(seconds=[]), 'a trial has either "seconds" or a "failure"'),
        (changed(failure="late"), 'a trial has either "seconds" or a "failure"'),
        (changed(seconds=[], failure=3), '"failure" is a text, or null'),
        (changed(seconds=7), '"seconds" is a list of at most 10000 numbers'),
        (changed(at=1e300), '"at" is seconds since 1970, and not 1e+300'),
        (changed(at=-1), '"at" is seconds since 1970, and not -1'),
        (changed(seed=1.5), '"seed" is an integer, or null, and not 1.5'),
        (changed(search=[]), '"search" is a text, and not []'),
        (changed(confirmed=1), '"confirmed" is true or false, and not 1'),
        ("\udcff", "the line is no text: surrogates not allowed"),
    ],
)
def test_what_is_refused(line: str, cause: str) -> None:
    with pytest.raises(TCError) as caught:
        from_line(line)
    assert caught.value.cause.startswith(cause)
    good = to_line(measurement_of(None, None, 1.0))
    first, second, third = from_lines([good, line, good])
    assert isinstance(second, RefusedLine)
    assert second.number == 2
    assert first == third == measurement_of(None, None, 1.0)
