"""No test reads or writes the kernels that the developer keeps on disk, nor what was measured, and
none passes because plain code stands in where tc is at fault.

The tests of the cache itself turn it on, with a directory of their own; processes that tests
start have one of this session. There is no tuning database but those that tests make.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tc import cache


def is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ImportError:  # of what it is a part of
        return False


pytest_plugins = ["tests.support.skips", "tests.support.drawn"]

DIRECTORY = pytest.StashKey[str]()

NEED = {
    "tc/backends/pycuda_driver.py": "pycuda",
    "tc/backends/cuda_bindings_driver.py": "cuda.bindings",
    "tests/gradient/extremes_campaign.py": "torch",
    "tests/gradient/in_torch.py": "torch",
    "tests/gradient/torch_campaign.py": "torch",
}
collect_ignore = [path for path, library in NEED.items() if not is_installed(library)]
if not is_installed("torch"):
    collect_ignore += ["tc/torch", "spec/torch.md"]
if not is_installed("jax"):
    collect_ignore += ["tc/jax", "spec/jax.md"]
"""Modules that can only be imported where a library is, and are no tests that say so themselves:
pytest imports every module to look for examples in it."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ["TC_STRICT"] = "1"
    for variable in ("TC_CACHE_DIR", "TC_THREADS", "TC_TUNE"):
        os.environ.pop(variable, None)
    config.stash[DIRECTORY] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="tc-tests-")
    none = pathlib.Path(config.stash[DIRECTORY], "none")
    none.touch()  # a file: a test that names no database of its own cannot write one for the rest
    os.environ["TC_TUNE_DB"] = str(none / "tuned.db")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[DIRECTORY], ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end, some 900,000 objects: Python's collector looks for
    garbage among them neither meanwhile, which took a third of that time, nor during the tests."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup() -> None:
    cache.disable()
