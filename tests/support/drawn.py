"""A part of the tests, drawn by a seed: the same in each process of a run, another for each commit
where the commit is the seed. `--tenth SEED` runs a tenth of all. `--draw SEED` runs all but for
long rows of cases: of a test that is marked `drawn(n)`, one in n of its cases, and of others what
`share` says. Of the tests whose cases take longest, those of long_tests.txt, it runs one case in
`REST`, and of few cases now and then none; `--note-long FILE` writes that list.
`--note-passed FILE` writes down which passed, and `--leave-out FILE` runs all but those. All tests
are collected."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import crc32

import pytest


def is_drawn(test: str, seed: str) -> bool:
    """Whether the seed draws the test of this identifier.

    >>> sum(is_drawn(f"tests/test_some.py::test_{n}", "3b50d3e") for n in range(1000))
    109
    """
    return crc32(f"{seed} {test}".encode()) % 10 == 0


REST = 4
LONG_SECONDS = 1.0
"""The mean time of a case of a test that rests in most runs: on two cores that run it alone."""

LONG_TESTS = Path(__file__).with_name("long_tests.txt")


def share(cases: int) -> int:
    """One in how many cases is drawn of a test that has so many, and no mark.

    >>> [share(cases) for cases in (1, 7, 8, 23, 24, 143, 144, 500)]
    [1, 1, 2, 2, 3, 3, 6, 6]
    """
    return 6 if cases >= 144 else 1 + (cases >= 8) + (cases >= 24)


def drawn_of(tests: Sequence[str], each: int, seed: str, *, rests: bool = False) -> set[str]:
    """One in `each` of the cases of a test, and one at least, but where it `rests`.

    >>> sorted(drawn_of(["test[a]", "test[b]", "test[c]", "test[d]"], 3, "3b50d3e"))
    ['test[a]', 'test[d]']
    >>> sum(bool(drawn_of(["test"], 4, f"{n}", rests=True)) for n in range(1000))
    247
    """
    ordered = sorted(tests, key=lambda test: crc32(f"{seed} {test}".encode()))
    first = crc32(f"{seed} {ordered[0].partition('[')[0]}".encode()) % each if rests else 0
    return set(ordered[first::each])


def long_tests(seconds: Mapping[str, float]) -> list[str]:
    """The tests whose cases took long, of the times of cases. Pages run always.

    >>> long_tests({"test_some.py::test[a]": 1.5, "test_some.py::test[b]": 0.7, "some.md": 3.0})
    ['test_some.py::test']
    """
    cases = defaultdict(list)
    for case, spent in seconds.items():
        cases[case.partition("[")[0]].append(spent)
    means = {test: sum(spent) / len(spent) for test, spent in cases.items()}
    return sorted(t for t, mean in means.items() if mean > LONG_SECONDS and ".py::" in t)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tenth", metavar="SEED", help="run a tenth of the tests, drawn by SEED")
    parser.addoption("--draw", metavar="SEED", help="draw cases of tests that are marked `drawn`")
    parser.addoption("--note-passed", metavar="FILE", help="write the tests that passed into FILE")
    parser.addoption("--note-long", metavar="FILE", help="write the longest tests into FILE")
    parser.addoption("--leave-out", metavar="FILE", help="run no test that FILE says has passed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "drawn(n): CI runs one in n of the cases, `make test` all")
    file = config.getoption("--note-passed")
    if file is not None and not hasattr(config, "workerinput"):  # workers report to one process
        config.pluginmanager.register(_Passed(Path(file)))
    file = config.getoption("--note-long")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Long(Path(file)))


class _Passed:
    """The tests that passed, for `--leave-out`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._passed), encoding="utf-8")


class _Long:
    """The tests that took long."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        lines = (f"{test}\n" for test in long_tests(self._seconds))
        self._file.write_text("".join(lines), encoding="utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = set[str]()
    if file := config.getoption("--leave-out"):
        passed.update(json.loads(Path(file).read_text(encoding="utf-8")))
    tests = [item.nodeid for item in items]
    left = passed | _not_drawn(items, config.getoption("--draw"))
    if seed := config.getoption("--tenth"):
        left.update(test for test in tests if not is_drawn(test, seed))
    if not left.isdisjoint(tests):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]


def _not_drawn(items: Sequence[pytest.Item], seed: str | None) -> set[str]:
    rows = defaultdict(list)
    for item in items if seed is not None else ():
        mark = item.get_closest_marker("drawn")
        each = None if mark is None else mark.args[0]
        rows[item.nodeid.partition("[")[0], each].append(item.nodeid)
    long = set(LONG_TESTS.read_text(encoding="utf-8").splitlines())
    left = set[str]()
    for (test, marked), row in rows.items():
        each, rests = marked or share(len(row)), test in long
        drawn = drawn_of(row, max(each, REST) if rests else each, seed or "", rests=rests)
        left.update(case for case in row if case not in drawn)
    return left
