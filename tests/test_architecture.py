"""The shape of the code base: lengths of files, import layers, where isl and frameworks may
appear."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import NEED

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tc"
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONG = 700
ISL_ROOMS = ("sets.py", "polyhedral/")
OPTIONAL = {"torch", "jax", "cuda", "pycuda", "pyopencl"}
WRAPPERS = {
    "cuda": "backends/cuda_bindings_driver.py",
    "pycuda": "backends/pycuda_driver.py",
    "torch": "torch/",
    "jax": "jax/",
}
"""The modules, and rooms, about one library alone: nobody imports them before that is asked for."""


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
def test_long_files_say_why(path: Path) -> None:
    """A file of more than 700 lines says in its docstring why it is one: `Long because ...`."""
    text = path.read_text(encoding="utf-8")
    if len(text.splitlines()) > LONG:
        assert "Long because" in (ast.get_docstring(ast.parse(text)) or "")


def test_all_can_be_collected_without_frameworks() -> None:
    """pytest imports every module below tests/. One that imports PyTorch, JAX or another library
    that the extra `test` lacks, or a module that does, is left out where they are not installed,
    or asks by `importorskip`."""
    paths = [path for path in NEED if path.startswith("tests/")]
    kept_out = {path.removesuffix(".py").replace("/", "."): path for path in paths}
    found = set()
    words = re.compile("|".join(["torch", "jax", *(name.split(".")[-1] for name in kept_out)]))
    for path in TESTS:
        if not words.search(path.read_text(encoding="utf-8")):
            continue
        for name, is_inside in imported_modules(path):
            if not is_inside and (name.split(".")[0] in {"torch", "jax"} or name in kept_out):
                found.add(str(path.relative_to(ROOT)))
    assert found == set(kept_out.values())


def test_what_lowers_knows_no_pass() -> None:
    """Passes come with the target: lowering and what it shares with others import none."""
    shared = [p for p in FILES if "polyhedral" in p.parts and not {"cpu", "gpu"} & {*p.parts}]
    assert shared
    assert [p.name for p in shared if "tc.kernel.passes" in p.read_text(encoding="utf-8")] == []


# --- what texts refer to ----------------------------------------------------------------------

REFERENCE = re.compile(
    r"`((?!build/)[a-z_]+/[a-z0-9_./]*\.(?:py|md|txt)|(?:tests|spec)/[a-z_/]*"
    r"|tc(?:\.[a-z_]\w*)+(?:\.[A-Z]\w*)?)`"
)


def is_there(name: str) -> bool:
    """Whether a path exists, or what is written with dots: a module, or a name in one."""
    if "/" in name:
        return (ROOT / name).exists() or (PACKAGE / name).exists()
    module, _, last = name.rpartition(".")
    room = ROOT / module.replace(".", "/")
    if (room / f"{last}.py").exists() or (room / last).is_dir():
        return True
    file = room.with_suffix(".py") if room.with_suffix(".py").exists() else room / "__init__.py"
    return file.exists() and re.search(rf"\b{last}\b", file.read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize(
    "path",
    [*FILES, *(ROOT / name for name in ("CONTRIBUTING.md", "spec/rooms.md", "spec/testing.md"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_what_a_text_names_is_there(path: Path) -> None:
    names = REFERENCE.findall(path.read_text(encoding="utf-8"))
    assert [name for name in names if not is_there(name)] == []


# --- imports ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_isl_and_frameworks_stay_in_their_rooms(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    for module, inside in imported_modules(path):
        top = module.split(".")[0]
        if top == "islpy":
            assert relative.startswith(ISL_ROOMS), f"{relative} imports islpy"
        if top in OPTIONAL and not relative.startswith(WRAPPERS.get(top, "nowhere")):
            assert inside, f"{relative} imports {top} at module level"
        wrapped = [f"tc/{path}" for path in WRAPPERS.values()]
        imports = module.replace(".", "/") + ".py"
        is_own = any(f"tc/{relative}".startswith(path) for path in wrapped)
        assert is_own or not any(imports.startswith(path) for path in wrapped)
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


def test_every_room_is_on_the_map_or_on_the_page_of_rooms() -> None:
    pages = (ROOT / "CONTRIBUTING.md", ROOT / "spec/rooms.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for file in (*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("*/*/__init__.py")):
        room = file.parent.relative_to(PACKAGE).as_posix()
        assert f"`{room}/`" in text or f"`{file.parent.name}/`" in text, room


def test_the_map_shows_the_layers() -> None:
    """The rooms in the table of CONTRIBUTING, in the order of the layers that are checked."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("| --- | --- |")[1]
    shown = [
        {name.strip(" `/") for name in layer.split("\\|")}
        for row in table.split("\n\n")[0].strip().splitlines()
        for layer in re.split(r"(?<!\\)\|", row)[1].split(",")
    ]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r'containers = \["tc"\].*?layers = (\[.*?\n\])', project, re.DOTALL)
    assert layers
    checked = [set(layer.split(" | ")) for layer in ast.literal_eval(layers[1])]
    assert [{"__main__"}, *shown] == checked


def test_import_is_light() -> None:
    """`import tc` loads neither numba nor islpy nor a framework, so that it stays fast."""
    script = (
        "import sys, tc; "
        "print([m for m in ('numba', 'islpy', 'torch', 'jax', 'scipy', "
        "'subprocess', 'html') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_every_package_says_what_it_is() -> None:
    for path in FILES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path
