"""The shape of the code base: file lengths, import layers, where isl and frameworks may appear."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tc"
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LIMIT = 600
ISL_ROOMS = ("sets.py", "polyhedral/")
OPTIONAL = {"torch", "jax", "pycuda", "pyopencl"}


def imported_modules(path: Path) -> list[tuple[str, bool]]:
    """Modules that a file imports, with whether the import stands inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [(name, id(node) in inside) for name in names]
    return found


@pytest.mark.parametrize("path", FILES + TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_file_length(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LIMIT


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_isl_and_frameworks_stay_in_their_rooms(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    for module, inside in imported_modules(path):
        top = module.split(".")[0]
        if top == "islpy":
            assert relative.startswith(ISL_ROOMS), f"{relative} imports islpy"
        if top in OPTIONAL:
            assert inside, f"{relative} imports {top} at module level"
        if top == "tc":
            assert not inside, f"{relative} hides the import of {module} in a function"


def test_layers() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_import_is_light() -> None:
    """`import tc` loads neither numba nor islpy nor a framework, so that it stays fast."""
    script = (
        "import sys, tc; "
        "print([m for m in ('numba', 'islpy', 'torch', 'jax', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_every_package_says_what_it_is() -> None:
    for path in FILES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path
