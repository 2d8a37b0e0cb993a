"""Lowering for a processor, by default this one, or for a GPU, as tests want it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tc.backends.clike import backend as clike
from tc.backends.numba import backend as numba
from tc.device import Device, host
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.pipeline import target_of
from tc.polyhedral import lowering
from tc.polyhedral.lowering import Lowering, Strides
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import ShapedProgram


def lower(
    shaped: ShapedProgram,
    strides: Strides,
    *,
    device: Device | Gpu | None = None,
    rewriting: Thresholds | None = None,
    **how: Any,
) -> Kernel:
    """The kernel of a program; `how` are further arguments of `lowering.trace_lowering`."""
    target = target_of(device or host())
    target = replace(target, rewriting=rewriting or target.rewriting)
    return lowering.trace_lowering(shaped, strides, target, **how).kernel


def trace_lowering(
    shaped: ShapedProgram, strides: Strides, *, device: Device | Gpu | None = None, **how: Any
) -> Lowering:
    """All stages; `how` are further arguments of `lowering.trace_lowering`."""
    return lowering.trace_lowering(shaped, strides, target_of(device or host()), **how)


def compile_for(device: Device, patch: pytest.MonkeyPatch) -> None:
    """Has the backends compile for a device as if it were this machine."""
    for module in (clike, numba):
        patch.setattr(module, "host", lambda: device)
