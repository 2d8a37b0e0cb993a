"""The source distribution: built here, unpacked, complete, and some of its own tests run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from setuptools import build_meta
print(build_meta.build_sdist(sys.argv[1]))
"""
SAMPLE = (
    "tests/test_rules.py",
    "tests/test_errors.py",
    "tests/frontend/test_lexer.py",
    "spec/rules.md",
    "-k",
    "not check_ and not range_",
)
NEEDED = (
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "bench/cpu.py",
    "conftest.py",
    "pyproject.toml",
    "spec/README.md",
    "tc/py.typed",
    "tests/conftest.py",
    "tests/errors/check_annotation_size.tc",
    "tests/floors.txt",
    "tests/frameworks.txt",
    "tests/support/bounds.py",
    "tools/gpu_machine.sh",
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution as it was built from a copy, by the setuptools of this environment."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("sdist")
    left = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, folder / "copy", ignore=left)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=folder / "copy",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name = done.stdout.split()[-1]
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder, filter="data")
    return folder / name.removesuffix(".tar.gz")


@pytest.mark.parametrize("name", NEEDED)
def test_it_holds(unpacked: Path, name: str) -> None:
    assert (unpacked / name).is_file()


def test_it_holds_every_source_and_no_litter(unpacked: Path) -> None:
    for folder in ("tc", "tests", "spec", "bench", "examples", "changelog.d"):
        for path in (ROOT / folder).rglob("*"):
            litter = "__pycache__" in path.parts
            if path.is_file():
                assert (unpacked / path.relative_to(ROOT)).exists() is not litter, path


def test_its_own_tests_pass(unpacked: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(unpacked),
        "XDG_CACHE_HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",  # other tests look for what does not belong there
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE],
        cwd=unpacked,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
