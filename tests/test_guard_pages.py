"""Compiled programs touch nothing beyond their arrays: each array ends at a page that nobody may
touch, and then begins after one. A touch ends the process, so programs run in others.

The arrays have whole tiles, and parts; those of `test_programs.py` are smaller than a tile of most
kernels, and lie at such edges there. What is left of a row behind its last whole vector is stored
under a mask: rows of all types of elements have all tails of 1 to 15 elements, and (with --slow) so
has each size of each program of the table.
"""

from __future__ import annotations

import json
import re
import subprocess
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import registry
from tests.support.guarded import allocator, at_edge_or_not, copy_at_edge
from tests.support.opencl import name_the_processor
from tests.support.poison import NAN, poisoned
from tests.support.processes import run_python
from tests.support.programs import CASES, normal

BACKENDS = ("numba", "c", "opencl")
COMMAND = "from tests.test_guard_pages import run_in_child; run_in_child({})"


def _lut(rng: np.random.Generator) -> dict[str, Any]:
    table = rng.standard_normal((13, 70)).astype(np.float32)
    return {"LUT1": table, "I1": rng.integers(0, 13, (5, 7)).astype(np.int32)}


LARGER: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "mv": normal(A=(37, 133), x=(133,)),
    "mm": normal(A=(37, 70), B=(70, 83)),
    "tmm": normal(A=(37, 70), B=(83, 70)),
    "tbmm": normal(X=(3, 26, 72), Y=(3, 29, 72)),
    "conv1d": normal(I=(211,), K=(4,)),
    "conv2d": normal(**{"in": (2, 5, 12, 37), "weight": (19, 5, 3, 3)}),
    "conv_pad": normal(I=(2, 5, 9, 37), F=(19, 5, 3, 3)),
    "gconv": normal(I=(2, 3, 5, 9, 23), W=(3, 19, 5, 3, 3), B=(3, 19)),
    "maxpool2x2": normal(**{"in": (2, 3, 14, 75)}),
    "downsample": normal(I=(14, 75)),
    "softmax": normal(I=(5, 203)),
    "stable_softmax": normal(I=(5, 203)),
    "layernorm": lambda rng: {**normal(I=(5, 203), gamma=(203,), beta=(203,))(rng), "eps": 1e-5},
    "outerProductMM": normal(A=(3, 5, 37), B=(7, 37, 21)),
    "MLP1": normal(I=(37, 70), W1=(83, 70), B1=(83,)),
    "1LUT": _lut,
    "stencil": normal(A=(3, 77)),
}


# one of each kind of access: products, windows, strides, reductions of rows, gathers
IN_COLUMNS = ("mv", "mm", "tmm", "conv2d", "maxpool2x2", "softmax", "layernorm", "1LUT", "stencil")

TABLE = {case.name: case for case in CASES}
LONGER = tuple(name for name in TABLE if name != "prodModel")
"""Programs whose sizes may be greater by any number, all by the same."""
TAILS = range(1, 16)
TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("half", "float", "double", "bool"),
)
ROWS = tuple(f"{dtype} {n}" for k, dtype in enumerate(TYPES) for n in (k + 4, 30 - k))
"""Rows of each type, with the number of elements."""

Inputs = Callable[[np.random.Generator], dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """A program with a function that makes inputs, and one that makes outputs passed by the
    caller."""

    text: str
    entry: str
    inputs: Inputs
    outputs: Inputs | None = None


def program(name: str) -> Program:
    """That of a name: of the table with the inputs of `LARGER`, "mm"; with all its sizes greater,
    "mm +7"; or one row, "int64 9"."""
    first, _, number = name.partition(" ")
    if first in TYPES:
        return _row(first, int(number))
    case = TABLE[first]
    inputs = LARGER.get(first, case.inputs)
    if number:
        inputs = _longer(case.text, case.def_name, inputs, int(number))
    return Program(case.text, case.def_name, inputs, case.outputs)


def _row(dtype: str, count: int) -> Program:
    value = "!a(i)" if dtype == "bool" else "a(i) * a(i)"
    text = f"def f({dtype}(N) a) -> (o) {{ o(i) = {value} }}"
    element = {"half": "float16", "float": "float32", "double": "float64"}.get(dtype, dtype)
    return Program(text, "f", lambda rng: {"a": rng.integers(0, 9, count).astype(element)})


def _longer(text: str, entry: str, inputs: Inputs, more: int) -> Inputs:
    """Each size of a program greater by a number: arrays go on as they began."""
    signature = re.search(rf"def {entry}\((.*?)\)\s*->", text, re.DOTALL)
    assert signature is not None
    ranks = re.findall(r"\w+\(([\w\s,]+)\)\s*(\w+)", signature[1])
    named = {name: [dim.strip().isidentifier() for dim in dims.split(",")] for dims, name in ranks}

    def make(rng: np.random.Generator) -> dict[str, Any]:
        return {name: _resized(a, named.get(name, []), more) for name, a in inputs(rng).items()}

    return make


def _resized(value: Any, named: Sequence[bool], more: int) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    shape = [n + more * has_name for n, has_name in zip(value.shape, named, strict=True)]
    return np.resize(value, shape)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("backend", BACKENDS)
def test_programs_touch_only_their_arrays(backend: str) -> None:
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    _check_all(backend, list(LARGER))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_rows_touch_only_their_arrays(backend: str) -> None:
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    _check_all(backend, list(ROWS))


@pytest.mark.slow
@pytest.mark.drawn(4)
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_all_tails_of_all_programs(backend: str, tail: int) -> None:
    rows = [f"{dtype} {whole + tail}" for dtype in TYPES for whole in (0, 64)]
    _check_all(backend, [*rows, *(f"{name} {tail}" for name in LONGER)])


def _check_all(backend: str, names: list[str]) -> None:
    failures = []
    while names:
        begun, reason = _run(backend, names)
        if reason is None:
            break
        last = begun[-1] if begun else "at the start"
        failures.append(f"{last}: {reason}")
        names = names[max(1, len({name_of(line) for line in begun})) :]
    assert not failures, "\n".join(failures)


def test_a_touch_is_noticed() -> None:
    """The process ends at the page behind an array, and at that before one."""
    for before, place in ((False, 3), (True, -1)):
        code = (
            "import ctypes, numpy; from tests.support.guarded import at_edge; "
            f"a = at_edge((3,), numpy.dtype('f4'), before={before}); print(a.sum(), flush=True); "
            f"ctypes.string_at(a.ctypes.data + 4 * {place}, 1)"
        )
        done = _python(code)
        assert done.returncode < 0
        assert done.stdout == "0.0\n"


def name_of(line: str) -> str:
    """The name of the program in a line that the other process prints before each run."""
    return line.partition(" | ")[0]


def _run(backend: str, names: Sequence[str]) -> tuple[list[str], str | None]:
    """The runs begun, and why the last of them failed, if it did."""
    task = json.dumps([backend, list(names)])
    done = _python(COMMAND.format(repr(task)))
    begun = done.stdout.splitlines()
    if done.returncode == 0:
        assert list(dict.fromkeys(map(name_of, begun))) == list(names)
        return begun, None
    if done.returncode < 0:
        return begun, f"ended by signal {-done.returncode}\n{done.stderr[-2000:]}"
    return begun, done.stderr[-2000:]


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return run_python(code, limit=3600)  # for all programs


# --- in the other process ---------------------------------------------------------------------


def run_in_child(task: str) -> None:
    backend, names = json.loads(task)
    if backend == "opencl":
        name_the_processor()
    warnings.simplefilter("ignore", tc.TCWarning)
    for name in names:
        check(name, backend)


def check(name: str, backend: str) -> None:
    """Arrays at both edges give what ordinary ones give, in some programs also where the elements
    of columns are neighbours, not those of rows."""
    run = program(name)
    for order in ("C", "F") if name in IN_COLUMNS else ("C",):
        compiled = tc.compile(run.text, entry=run.entry, backend=backend)
        rng = np.random.default_rng(0)
        inputs = {n: ordered(a, order) for n, a in run.inputs(rng).items()}
        starts = list((run.outputs(rng) if run.outputs else {}).values())
        shapes = compiled.infer(**inputs)
        results = []
        for edge in ("ends", "begins", None):
            print(f"{name} | {order} | {edge}", flush=True)
            given = {n: copy_at_edge(a, edge, order) for n, a in inputs.items()}
            targets = [at_edge_or_not(info.shape, info.dtype, edge) for info in shapes.values()]
            for target, start in zip(targets, starts, strict=False):
                target[...] = np.resize(start, target.shape)
            with poisoned(NAN, allocator(edge)):
                compiled(**given, outputs=targets)
            results.append([np.array(target) for target in targets])
        for found in results[:2]:
            for result, value in zip(found, results[2], strict=True):
                np.testing.assert_array_equal(result, value)


def ordered(value: Any, order: Any) -> Any:
    return np.array(value, order=order) if isinstance(value, np.ndarray) else value
