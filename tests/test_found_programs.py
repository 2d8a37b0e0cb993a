"""Programs that once failed, found by generation and shrunk, on every backend.

Each is a file of `tests/programs/found`; its header says how it was run when it failed
(`tests/fuzz/files.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz import files
from tests.fuzz.execute import judge_run
from tests.fuzz.workers import Workers

FOUND = sorted((Path(__file__).parent / "programs" / "found").glob("*.tc"))
OTHERS = {
    "numba": {"backend": "numba", "options": {}, "device": {}},
    "c": {"backend": "c", "options": {}, "device": {}},
    "naive": {"backend": "numba", "options": {"preset": "naive"}, "device": {}},
}


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.close()


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_as_it_was_found(path: Path, workers: Workers) -> None:
    """In another process, which may die."""
    run = files.read(path)
    verdict = workers.of(run.compile_for).judge_run(run)
    assert not verdict.failed, verdict


@pytest.mark.drawn(3)
@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_otherwise(path: Path, how: str) -> None:
    run = replace(files.read(path), compile_for="", **OTHERS[how])
    verdict = judge_run(run)
    assert not verdict.failed, verdict
