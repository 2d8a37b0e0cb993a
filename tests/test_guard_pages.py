"""Compiled programs touch nothing beyond their arrays: each array ends at a page that nobody may
touch, and then begins after one. A touch ends the process, so programs run in others.

The arrays have whole tiles, and parts; those of `test_programs.py` are smaller than a tile of most
kernels, and lie at such edges there.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import registry
from tests.support.guarded import allocator, at_edge_or_not, copy_at_edge
from tests.support.opencl import name_the_processor
from tests.support.poison import NAN, poisoned
from tests.support.processes import run_python
from tests.support.programs import CASES, Case, normal

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


def cases() -> dict[str, Case]:
    return {name: replace(TABLE[name], inputs=LARGER[name]) for name in LARGER}


@pytest.mark.parametrize("backend", BACKENDS)
def test_programs_touch_only_their_arrays(backend: str) -> None:
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    failures, names = [], list(cases())
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
    """The program of a line that the other process prints before it runs one."""
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
    case = cases()[name]
    for order in ("C", "F") if name in IN_COLUMNS else ("C",):
        compiled = tc.compile(case.text, entry=case.def_name, backend=backend)
        rng = np.random.default_rng(0)
        inputs = {n: ordered(a, order) for n, a in case.inputs(rng).items()}
        starts = list((case.outputs(rng) if case.outputs else {}).values())
        shapes = compiled.infer(**inputs)
        results = []
        for edge in ("ends", "begins", None):
            print(f"{name} | {order} | {edge}", flush=True)
            given = {n: copy_at_edge(a, edge, order) for n, a in inputs.items()}
            targets = [at_edge_or_not(info.shape, info.dtype, edge) for info in shapes.values()]
            for target, start in zip(targets, starts, strict=False):
                target[...] = start
            with poisoned(NAN, allocator(edge)):
                compiled(**given, outputs=targets)
            results.append([np.array(target) for target in targets])
        for found in results[:2]:
            for result, value in zip(found, results[2], strict=True):
                np.testing.assert_array_equal(result, value)


def ordered(value: Any, order: Any) -> Any:
    return np.array(value, order=order) if isinstance(value, np.ndarray) else value
