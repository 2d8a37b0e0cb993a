"""The peers that run a drawn program: tc, torch by a formula, numba by loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.broad_programs.lazy_torch import load
from bench.broad_programs.program import DrawnCase, Program
from bench.broad_programs.table import FILES

Run = Callable[[], Any]
Form = Callable[[DrawnCase], Run]

NAMES = ("tc", "tuned", "torch", "compile", "numba")
SUBJECTS = ("tc", "tuned")
DEFAULT = ("tc", "torch", "compile", "numba")
PACKAGES = ("numba", "torch", "numpy", "islpy")


class DrawnPeer:
    """One form for each program. `plans` is the folder where tuned options stand."""

    def __init__(self, name: str, threads: int, plans: Path) -> None:
        self._version, self._form = MAKERS[name](threads, plans)

    def version(self) -> str:
        return self._version

    def forms(self, family: str) -> Mapping[str, Form]:  # noqa: ARG002
        return {"it": self._form}


def tc_peer(threads: int, plans: Path, *, tuned: bool = False) -> tuple[str, Form]:  # noqa: ARG001
    import tc

    warnings.simplefilter("ignore", tc.TCWarning)

    def form(case: DrawnCase) -> Run:
        options = tc.Options()
        if tuned:
            kept = plan_file(plans, case.kernel.program)
            options = tc.Options.from_json(kept.read_text(encoding="utf-8"))
        function = tc.compile(case.kernel.text, options=options)
        inputs = case.inputs
        return lambda: function(*inputs)

    return f"tc {tc.__version__}", form


def tuned_peer(threads: int, plans: Path) -> tuple[str, Form]:
    return tc_peer(threads, plans, tuned=True)


def plan_file(plans: Path, program: Program) -> Path:
    return plans / f"{program.key.replace(': ', '-').replace(' ', '-')}.json"


def torch_peer(threads: int, plans: Path) -> tuple[str, Form]:  # noqa: ARG001
    import torch

    load(FILES)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)

    def form(case: DrawnCase) -> Run:
        inputs, formula = tensors(case), case.kernel.program.formula
        return lambda: formula(*inputs)

    return f"torch {torch.__version__}", form


def compile_peer(threads: int, plans: Path) -> tuple[str, Form]:
    """torch.compile, whose own start of some seconds is paid here."""
    import torch

    version, _ = torch_peer(threads, plans)
    torch.compile(lambda x: x + 1)(torch.ones(8))

    def form(case: DrawnCase) -> Run:
        torch.compiler.reset()
        inputs = tensors(case)
        compiled = torch.compile(case.kernel.program.formula, fullgraph=True, dynamic=False)
        return lambda: compiled(*inputs)

    return version, form


def tensors(case: DrawnCase) -> list[Any]:
    import torch

    return [x if isinstance(x, float) else torch.from_numpy(x) for x in case.inputs]


def numba_peer(threads: int, plans: Path) -> tuple[str, Form]:  # noqa: ARG001
    import numba
    import numpy as np

    numba.set_num_threads(threads)
    compiled = numba.njit(parallel=True, fastmath=True, error_model="numpy")

    def form(case: DrawnCase) -> Run:
        loops = case.kernel.program.loops
        if loops is None:
            raise ValueError("numba has no such arithmetic")
        function = compiled(loops)
        inputs = [np.float32(x) if isinstance(x, float) else x for x in case.inputs]
        return lambda: function(*inputs)

    return f"numba {numba.__version__}", form


MAKERS: Mapping[str, Callable[[int, Path], tuple[str, Form]]] = {
    "tc": tc_peer,
    "tuned": tuned_peer,
    "torch": torch_peer,
    "compile": compile_peer,
    "numba": numba_peer,
}
