"""`--tenth SEED` runs a tenth of the tests, drawn by the seed: the same in each process of a run,
another for each commit where the commit is the seed. All tests are collected."""

from __future__ import annotations

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--tenth")
    if seed is None:
        return
    left = [item for item in items if not is_drawn(item.nodeid, seed)]
    items[:] = [item for item in items if is_drawn(item.nodeid, seed)]
    config.hook.pytest_deselected(items=left)
