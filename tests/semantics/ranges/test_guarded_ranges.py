"""Reads behind conditions that decide a range: what is said of them, against Python's reading of
the text, in which a read that is not made does nothing."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import tc
from tc.errors import RangeError
from tc.frontend.parser import parse
from tc.semantics.check.checker import check
from tc.semantics.program import ShapedProgram
from tc.semantics.ranges.range_inference import infer_ranges
from tc.semantics.reference.interpreter import interpret
from tc.source import Source
from tests.support.guarded_programs import GuardedProgram, draw

MAX_PASTES = 4


def shaped(program: GuardedProgram, text: str) -> ShapedProgram:
    shapes = {name: program.shape(name) for name in program.shapes}
    return infer_ranges(check(parse(Source(text))), shapes, {})


def ranges_of(found: ShapedProgram) -> dict[str, range]:
    return {n: range(r.begin, r.end) for n, r in found.statements[0].ranges.items()}


def warned(found: ShapedProgram) -> list[tuple[str, str, str]]:
    """The variables that warnings name, and the two `where`s that each shows: without the cut, and
    with it."""
    told = []
    for warning in found.warnings:
        if warning.rule == "Y6":
            name = re.search(r"cuts the range of '(\w+)'", warning.message)
            kept = re.search(r"; (where .*) says that", warning.message)
            assert name is not None
            assert kept is not None
            assert warning.repair is not None
            told.append((name[1], warning.repair, kept[1]))
    return told


def pasted(program: GuardedProgram, where: str) -> str:
    """The text with this `where` in place of its own."""
    before, _, _ = program.text.partition("\n}")
    return f"{before.partition(' where ')[0]} {where}\n}}"


def check_values(program: GuardedProgram, found: ShapedProgram) -> None:
    """The values are those of Python over the ranges found; it raises Beyond where it reads more
    than the text lets it."""
    meant = program.value(ranges_of(found))
    given = interpret(found, program.arrays(), {})["o"]
    np.testing.assert_allclose(given, meant, rtol=1e-12)


def check_warnings(program: GuardedProgram, found: ShapedProgram) -> int:
    """What is told of the ranges found; the number of warnings."""
    ranges = ranges_of(found)
    told = warned(found)
    for name, where, kept in told:
        wider = shaped(program, pasted(program, where))
        after = ranges_of(wider)
        assert after[name].stop > ranges[name].stop, where
        assert program.is_cut(ranges, name) or program.stays_inside(after)
        assert name not in [again for again, _, _ in warned(wider)], where
        check_values(program, wider)
        same = shaped(program, pasted(program, kept))
        assert ranges_of(same) == ranges, kept
        assert name not in [again for again, _, _ in warned(same)], kept
    if not told:
        for name in program.variables:
            assert not program.is_cut(ranges, name), f"nobody is told that {name} is cut"
    return len(told)


def check_repair(program: GuardedProgram, error: RangeError) -> bool:
    """The repair of an error leads to a program that computes what Python does; whether there is
    one."""
    repaired = error.repaired()
    for _ in range(MAX_PASTES):
        if repaired is None:
            return False
        try:
            found = shaped(program, repaired)
            break
        except RangeError as again:
            repaired = again.repaired()
    else:
        pytest.fail(f"no program after {MAX_PASTES} pastes: {repaired}")
    if "pad(" in repaired:
        return True
    ranges = ranges_of(found)
    check_values(program, found)
    for name in re.findall(r"(\w+) in ", repaired.partition(" where ")[2]):
        assert len(ranges[name]) > 0, f"an empty range: {repaired}"
    free = [name for name in program.variables if name not in program.where]
    for name in free if len(free) == 1 else ():  # of two, the range of one decides on the other
        if ranges[name].start > 0:
            longer = {**ranges, name: range(ranges[name].stop)}
            assert not program.stays_inside(longer), f"{name} may start at 0: {repaired}"
    return True


def judge(seed: int) -> str:
    """What became of the program of a seed."""
    program = draw(seed)
    try:
        found = shaped(program, program.text)
    except RangeError as error:
        if error.rule == "G5" and "cannot be inferred" in error.cause:
            return "open"
        return f"{error.rule}, {'repaired' if check_repair(program, error) else 'no text'}"
    if any(len(r) == 0 for r in ranges_of(found).values()):
        return "empty"
    check_values(program, found)
    return "warned" if check_warnings(program, found) else "silent"


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_guards_are_told_of(first: int) -> None:
    kinds = [judge(seed) for seed in range(first, first + 100)]
    assert kinds.count("warned") >= 3
    assert kinds.count("G5, repaired") >= 20


@pytest.mark.slow
def test_guards_of_many_programs_are_told_of() -> None:
    for seed in range(1000, 6000):
        judge(seed)


def test_places_that_are_computed_have_no_wider_ranges() -> None:
    """Conditions that cut reads short are told of where places are plain, and are no fault where
    they are not (W1, S1)."""
    text = """def f(double(N) x) -> (o) {
      o(2,i) +=! x(i+1) where i < 4, x(i) > 0, i + i <= 4
      o(0,i) = x(i) where i in 0:2
    }"""
    x = np.array([1.0, 2.0, -3.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        found = tc.interpret(text, [x])
    np.testing.assert_array_equal(found, [[1, 2, 0], [0, 0, 0], [2, -3, 0]])
