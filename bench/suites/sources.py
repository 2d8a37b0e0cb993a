"""Where the suites come from: checkouts or bare git directories of them, of which references, sizes
and equations are read. Nothing of the suites is in this repository."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path


@dataclass(frozen=True)
class Suite:
    """A suite by its repository: a path that only this suite has, the parts that are read, and the
    commit that is taken from a git directory."""

    name: str
    marker: str
    parts: tuple[str, ...]
    commit: str = "HEAD"


SUITES = (
    Suite("tccg", "benchmark/benchmark.py", ("benchmark/benchmark.py",)),
    Suite("npbench", "bench_info", ("bench_info", "npbench")),
    Suite(
        "kernelbench",
        "KernelBench/level1",
        ("KernelBench/level1", "KernelBench/level2"),
        "21fbe5a",
    ),
)


def find_suites(paths: Sequence[Path], folder: Path) -> dict[str, Path]:
    """The root of each suite by its name; parts of bare git directories are written into the
    folder. ValueError for a path that has none of the suites."""
    found = {}
    for path in paths:
        suite, root = _found(path.resolve(), folder)
        found[suite.name] = root
    return found


def _found(path: Path, folder: Path) -> tuple[Suite, Path]:
    for suite in SUITES:
        if (path / suite.marker).exists():
            return suite, path
    for suite in SUITES:
        listed = _git(path, "ls-tree", suite.commit, suite.marker)
        if listed:
            root = folder / suite.name
            archive = _git(path, "archive", "--format=tar", suite.commit, *suite.parts)
            with tarfile.open(fileobj=BytesIO(archive)) as files:
                files.extractall(root, filter="data")
            return suite, root
    names = ", ".join(suite.name for suite in SUITES)
    raise ValueError(f"{path} is no checkout or git directory of {names}")


def _git(path: Path, *arguments: str) -> bytes:
    """What git prints, or nothing where it fails."""
    done = subprocess.run(["git", "-C", path, *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""
