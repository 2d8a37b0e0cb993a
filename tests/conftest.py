"""Options, Hypothesis profiles and the golden fixture shared by all tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent

settings.register_profile("dev", max_examples=40, deadline=None)
settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("nightly", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def forget_constants_of_modules() -> None:
    """Hypothesis also draws constants from the modules that are loaded by then. Which these are
    depends on the tests that a process happened to run before, so that even `derandomize` would
    draw other examples in each run. (Older versions do not.)"""
    with contextlib.suppress(ImportError, AttributeError):
        from hypothesis.internal.conjecture import providers

        none = providers._local_constants
        providers._get_local_constants = lambda: none


if settings.default is not None and settings.default.derandomize:
    forget_constants_of_modules()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="write the expected files anew")
    parser.addoption("--slow", action="store_true", help="run long fuzzing too")


LONGEST = tuple(
    f"tests/{name}"
    for name in (
        "tuning/test_faults.py", "test_soak.py", "test_differential.py", "test_damaged_files.py",
        "outside_check/test_wrong_long_texts.py", "outside_check/test_wrong_tuner.py",
    )
)  # fmt: skip
"""They come first: one that begins last has a process run while others have nothing to do."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="long; run with --slow"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with an expected file whole; with --accept, writes the file."""

    def check(path: Path, actual: str) -> None:
        actual = actual.rstrip("\n") + "\n"
        if request.config.getoption("--accept"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing; look at the text and run with --accept"
        assert actual == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")
