"""A part of the tests. `--tenth SEED` runs a tenth of them, drawn by the seed: the same in each
process of a run, another for each commit where the commit is the seed. `--note-passed FILE` writes
down which passed, and `--leave-out FILE` runs all but those. All tests are collected."""

from __future__ import annotations

import json
from pathlib import Path
from zlib import crc32

import pytest


def is_drawn(test: str, seed: str) -> bool:
    """Whether the seed draws the test of this identifier.

    >>> sum(is_drawn(f"tests/test_some.py::test_{n}", "3b50d3e") for n in range(1000))
    109
    """
    return crc32(f"{seed} {test}".encode()) % 10 == 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tenth", metavar="SEED", help="run a tenth of the tests, drawn by SEED")
    parser.addoption("--note-passed", metavar="FILE", help="write the tests that passed into FILE")
    parser.addoption("--leave-out", metavar="FILE", help="run no test that FILE says has passed")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--note-passed")
    if file is not None and not hasattr(config, "workerinput"):  # workers report to one process
        config.pluginmanager.register(_Passed(Path(file)))


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed, file = config.getoption("--tenth"), config.getoption("--leave-out")
    passed = set() if file is None else set(json.loads(Path(file).read_text(encoding="utf-8")))

    def runs(item: pytest.Item) -> bool:
        return (seed is None or is_drawn(item.nodeid, seed)) and item.nodeid not in passed

    left = [item for item in items if not runs(item)]
    if left:
        items[:] = [item for item in items if runs(item)]
        config.hook.pytest_deselected(items=left)
