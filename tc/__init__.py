"""Tensor Comprehensions: operators in index notation, interpreted and compiled.

>>> import numpy as np
>>> import tc
>>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
>>> tc.interpret(mv, [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
array([3., 3.], dtype=float32)

Public names are loaded when first used, so that `import tc` is fast.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any


def _is_command() -> bool:
    """Whether this process is `tc`, `tensorc` or `python -m tc`, and no program that uses tc."""
    called = sys.argv[0] if sys.argv else ""
    if called == "-m":  # as long as Python looks for the module
        words = sys.orig_argv
        return "-m" in words and words[words.index("-m") + 1 :][:1] == ["tc"]
    return os.path.basename(called).removesuffix(".exe") in ("tc", "tensorc")


if _is_command():
    import signal

    # Ctrl-C ends the process without a traceback until `tc.cli.main` can be interrupted
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

from tc.process.uninterrupted import load  # noqa: E402  # from here on it takes time

if TYPE_CHECKING:
    from tc import plan
    from tc.api import Definitions, autotune, compile, define, emit, error_bound, explain, interpret
    from tc.backends.base import KernelText
    from tc.backends.registry import usable_names as backends
    from tc.derivatives.generic import GenericFunction, written_out
    from tc.device import Device
    from tc.errors import (
        AccessError,
        BackendError,
        CheckError,
        GradError,
        InputError,
        InternalError,
        ParseError,
        RangeError,
        TCError,
        TCWarning,
        VerificationError,
    )
    from tc.explanation import Explanation
    from tc.function import Compiled
    from tc.gpu import Gpu
    from tc.gradient.batching import batch
    from tc.gradient.forward_and_backward import vjp
    from tc.gradient.forward_mode import jvp
    from tc.gradient.reverse_mode import grad
    from tc.introspection import TensorInfo
    from tc.options import PRESETS, GpuOptions, MappingOptions, Options, ScheduleOptions
    from tc.plan import Plan
    from tc.process.processors import get_threads, set_threads
    from tc.runtime import cache
    from tc.source import Source
    from tc.tuning.lookup import tuned
    from tc.verification.verdict import Verdict
    from tc.verification.verify import verify

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "AccessError",
    "BackendError",
    "CheckError",
    "Compiled",
    "Definitions",
    "Device",
    "Explanation",
    "GenericFunction",
    "Gpu",
    "GpuOptions",
    "GradError",
    "InputError",
    "InternalError",
    "KernelText",
    "MappingOptions",
    "Options",
    "ParseError",
    "Plan",
    "RangeError",
    "ScheduleOptions",
    "Source",
    "TCError",
    "TCWarning",
    "TensorInfo",
    "Verdict",
    "VerificationError",
    "autotune",
    "backends",
    "batch",
    "cache",
    "compile",
    "define",
    "emit",
    "error_bound",
    "explain",
    "get_threads",
    "grad",
    "interpret",
    "jvp",
    "plan",
    "set_threads",
    "tuned",
    "verify",
    "vjp",
    "written_out",
]

_HOMES = {
    "tc.api": (
        "Definitions",
        "autotune",
        "compile",
        "define",
        "emit",
        "error_bound",
        "explain",
        "interpret",
    ),
    "tc.backends.base": ("KernelText",),
    "tc.derivatives.generic": ("GenericFunction", "written_out"),
    "tc.function": ("Compiled",),
    "tc.errors": tuple(name for name in __all__ if name.endswith(("Error", "Warning"))),
    "tc.device": ("Device",),
    "tc.explanation": ("Explanation",),
    "tc.gpu": ("Gpu",),
    "tc.gradient.batching": ("batch",),
    "tc.gradient.forward_mode": ("jvp",),
    "tc.gradient.forward_and_backward": ("vjp",),
    "tc.gradient.reverse_mode": ("grad",),
    "tc.introspection": ("TensorInfo",),
    "tc.options": ("PRESETS", "GpuOptions", "MappingOptions", "Options", "ScheduleOptions"),
    "tc.plan": ("Plan",),
    "tc.source": ("Source",),
    "tc.process.processors": ("get_threads", "set_threads"),
    "tc.tuning.lookup": ("tuned",),
    "tc.verification.verdict": ("Verdict",),
    "tc.verification.verify": ("verify",),
}
_MODULES = {
    "backends": "tc.backends",
    "cache": "tc.runtime.cache",
    "jax": "tc.jax",
    "plan": "tc.plan",
    "sac": "tc.sac",
    "torch": "tc.torch",
}
"""Modules that are loaded on their first use; `tc.backends` can be called, too."""
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return load(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'tc' has no attribute {name!r}")
    value = getattr(load(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, *(name for name in globals() if name.startswith("__"))))
