"""When kernels are verified: after each pass in tests, and else after the last alone."""

from __future__ import annotations

import pytest

from tc.dtypes import FLOAT32, INT64
from tc.errors import InternalError
from tc.kernel.ir import Buffer, Const, Kernel, Load, Store
from tc.kernel.pass_manager import Pass, PassContext, run_passes

A = Buffer("a", FLOAT32, (4,), (1,), "output")


FIRST = (Const(0, INT64),)
RIGHT = Kernel("k", (A,), ((Store("a", FIRST, Const(1.0, FLOAT32)),),))
WRONG = Kernel("k", (A,), ((Store("a", FIRST, Load("b", FIRST, FLOAT32)),),))
BREAKS = Pass("break", "reads a buffer that there is not", lambda *_: WRONG)
MENDS = Pass("mend", "makes the kernel again", lambda *_: RIGHT)
CONTEXT = PassContext(lanes_bits=0)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_the_last_kernel_is_verified(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_STRICT", strict)
    with pytest.raises(InternalError):
        run_passes(RIGHT, CONTEXT, (MENDS, BREAKS))


def test_each_kernel_is_verified_in_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_STRICT", "1")
    with pytest.raises(InternalError):
        run_passes(RIGHT, CONTEXT, (BREAKS, MENDS))
    monkeypatch.setenv("TC_STRICT", "0")
    assert run_passes(RIGHT, CONTEXT, (BREAKS, MENDS)) is RIGHT
