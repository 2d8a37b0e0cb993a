"""Machine code is freed with the last function that uses the code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llvmlite.binding import newpassmanagers
from numba.core.registry import cpu_target

import tc


def test_numbas_engine_keeps_no_code_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep it for ever."""
    text = "def f(int(N) x) -> (y) { y(i) = x(i) / (x(i) + 3) }"
    tc.compile(text)(np.ones(3, np.int32))  # what numba itself needs is there
    codegen = cpu_target.target_context.codegen()
    kept: list[object] = []
    real = type(codegen)._add_module

    def add(self: object, module: object) -> object:
        kept.append(module)
        return real(self, module)

    monkeypatch.setattr(type(codegen), "_add_module", add)
    y = tc.compile(text.replace("+ 3", "+ 4"))(np.int32([5, 20]))
    assert y.tolist() == [0, 0]
    assert kept == []


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("def f(float(N) x) -> (y) { y(i) = x(i) * 7 + 1 }", np.float32),  # by LLVM alone
        ("def f(int(N) x) -> (y) { y(i) = x(i) / (x(i) + 5) }", np.int32),  # by numba
    ],
)
def test_all_passes_are_freed(monkeypatch: pytest.MonkeyPatch, text: str, dtype: type) -> None:
    """Some 50 KB for each program, which Python does not see."""
    tc.compile(text)(np.ones(3, dtype))  # what numba itself needs is there
    made: list[int] = []
    kept: set[int] = set()

    def counted(kind: Any) -> None:
        real = kind.__init__

        def init(self: Any, *arguments: Any) -> None:
            real(self, *arguments)
            made.append(id(self))
            kept.add(id(self))

        monkeypatch.setattr(kind, "__init__", init)

    counted(newpassmanagers.ModulePassManager)
    counted(newpassmanagers.FunctionPassManager)
    real = newpassmanagers.NewPassManager._dispose

    def dispose(self: Any) -> None:
        kept.discard(id(self))  # those of earlier programs may go now, too
        real(self)

    monkeypatch.setattr(newpassmanagers.NewPassManager, "_dispose", dispose)
    tc.compile(text.replace("y(i) = ", "y(i) = 3 + "))(np.ones(3, dtype))
    assert made
    assert not kept
