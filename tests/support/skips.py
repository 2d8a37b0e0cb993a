"""Tests that are skipped: with `--only-listed-skips` each fails whose reason is not listed here.

CI installs what tests need, so that one is skipped there only for want of a machine or a system.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

LISTED = {
    "long; run with --slow": "there is `make fuzz` for these",
    "no GPU: .*": "machines of CI have none",
    "root may do everything": "CI may run as root",
    "no filters here": "containers may forbid filters of system calls",
    "there are no commits beside this tree": "the tree may be an archive",
    "this system has no /dev/full": "of the system",
    "(there is no|no|needs a) (C compiler|compiler of C|gcc|clang)": "of the system",
    "for GCC on x86-64": "of the system",
    "backend c is not usable here": "of the system",
    r"needs (vectors|vectors of 256 bits|(32 )?registers of 512 bits)": "of the processor",
    "the OpenCL device takes no arrays of more than two gigabytes": "of the machine",
    "(counts|looks for) instructions of AVX-512": "of the processor",
    "this machine runs no code for haswell": "of the processor",
    "the instructions are those of x86|these are instruction sets of x86-64": "of the processor",
    "no machine code (for pools )?here": "of the processor",
    "nvdisasm is not installed": "NVIDIA has it for few systems",
    "the GPU has counted for another text": "texts change between visits to a GPU",
    "test_vectors.py runs these": "the same test stands elsewhere",
    "before torch 2.10 tensors lie a word further": "Python asks there, which is tested, too",
    "could not import 'tomllib'.*": "Python 3.10 has none",
}
"""Why tests may be skipped in CI: what their reasons match, and why that is no gap."""


def is_listed(reason: str) -> bool:
    """Whether tests may be skipped for it.

    >>> is_listed("no GPU: there is none"), is_listed("torch is not installed")
    (True, False)
    """
    return any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in LISTED)


FRAMEWORKS = re.compile(
    r"(torch|jax|flatbuffers) is not installed|could not import '(torch|jax|flatbuffers)\b.*",
    re.DOTALL,
)
"""Why tests are skipped where PyTorch and JAX are not installed."""


def how_to_have_frameworks(python: str, directory: str) -> str:
    """What is told, once, in place of the reasons of all these tests.

    >>> how_to_have_frameworks("/src/tc/.venv/bin/python", "/src/tc")
    "they need PyTorch and JAX: .venv/bin/python -m pip install --editable '.[torch,jax]'"
    """
    inside = python.startswith(directory + os.sep)
    shown = os.path.relpath(python, directory) if inside else python
    return f"they need PyTorch and JAX: {shown} -m pip install --editable '.[torch,jax]'"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-listed-skips",
        action="store_true",
        help="fail tests that are skipped for a reason that tests/support/skips.py does not list",
    )


def _checked(report: Any, config: pytest.Config) -> None:
    """Makes the report of a test that may not be skipped one of a failed test. Reports of tests
    that need PyTorch or JAX get one place and one reason, and so one line of pytest's summary."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2]).removeprefix("Skipped: ")
    if config.getoption("--only-listed-skips"):
        if not is_listed(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped, for a reason that is not listed: {reason}"
    elif FRAMEWORKS.fullmatch(reason):
        told = how_to_have_frameworks(sys.executable, str(config.rootpath))
        report.longrepr = (str(config.rootpath / "pyproject.toml"), None, f"Skipped: {told}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    _checked(outcome.get_result(), item.config)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    outcome: Any = yield
    _checked(outcome.get_result(), collector.config)
