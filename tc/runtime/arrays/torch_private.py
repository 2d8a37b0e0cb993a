"""The private parts of PyTorch that tc uses: all that it asks of torch and torch does not promise.
torch is never imported here.

Each part is looked for by its name. One that is not there has a plain value in its place; so have
those that only save time, in a version of torch that no run of tc's tests has seen. What is no
attribute of a module, and so stands where it is used: tensors have `_cdata` and `_is_zerotensor`,
torch.compile reads `_torchdynamo_inline` and `_dynamo_marked_constant` of functions
(`tc.introspection`), and `tc.runtime.arrays.torch_layout_check` finds tensors behind objects of
Python, which it tries before it relies on it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from tc.process.seen_versions import check_version, was_seen

SEEN = ("2.7.1", "2.15.0")
"""The oldest and the newest version with which tests/torch has passed; pyproject.toml admits none
that is older. `make frameworks` runs both, `.ci/run` 2.13. They have all parts, but for those that
say otherwise; versions between them count as seen. (2.6 lacks what `hide_from_torch` asks for.)"""


@dataclass(frozen=True, slots=True)
class Part:
    """A private part of torch: the `path` to it, the value `plain` that stands in for it where it
    is missing, and whether the part only saves time. `lacking` are the versions of `SEEN` without
    the part."""

    path: str
    plain: Any = None
    saves_time: bool = False
    lacking: tuple[str, ...] = ()


def _no(*_: Any) -> bool:
    return False


PARTS = {
    # what torch does around a call
    "forward": Part("autograd.forward_ad"),  # its `_current_level`
    "profiler": Part("autograd.profiler"),  # its `_is_profiler_enabled`
    "function_modes": Part("_C._len_torch_function_stack"),
    "dispatch_modes": Part("_C._len_torch_dispatch_stack"),
    "early_modes": Part("_ops._len_torch_dispatch_stack_pre_dispatch"),
    "dispatch_mode": Part("_C._get_dispatch_mode"),
    "mode_keys": Part("_C._TorchDispatchModeKey"),
    "tracing_state": Part("_C._get_tracing_state"),
    "interpreter": Part("_C._functorch.peek_interpreter_stack"),
    "counts_tangents": Part("_C._is_fwd_grad_enabled", lambda: True),
    "set_counts_tangents": Part("autograd.forward_ad._set_fwd_grad_enabled", nullcontext),
    # what a tensor is
    "is_transformed": Part("_C._functorch.is_functorch_wrapped_tensor", _no),
    "is_batch": Part("_C._functorch.is_batchedtensor", _no),
    "is_legacy_batch": Part("_C._functorch.is_legacy_batchedtensor", _no),
    "is_functional": Part("_is_functional_tensor", _no),
    "unwrap_if_dead": Part("_C._functorch.unwrap_if_dead", lambda tensor: tensor),
    "unpack_dual": Part("_VF._unpack_dual"),
    # what derives the operator
    "SingleLevelFunction": Part("autograd.function._SingleLevelFunction"),
    "one_level": Part("_functorch.utils.enable_single_level_autograd_function", nullcontext),
    "after_autograd": Part("_C._after_autograd_keyset"),
    "below_autograd": Part("_C._AutoDispatchBelowAutograd"),
    "enter_batches": Part("_C._vmapmode_increment_nesting"),
    "leave_batches": Part("_C._vmapmode_decrement_nesting"),
    "add_batch_dim": Part("_add_batch_dim"),
    "remove_batch_dim": Part("_remove_batch_dim"),
    # what saves time
    "TensorGuards": Part("_C._dynamo.guards.TensorGuards", saves_time=True),
    "eval_frame": Part("_C._dynamo.eval_frame", saves_time=True),
    "cuda_stream": Part("_C._cuda_getCurrentRawStream", saves_time=True),  # in builds for CUDA
}


@lru_cache(maxsize=1)
def private_parts(torch: Any) -> Any:
    """The parts by their names, and `is_seen`, whether the version was. For one that was not, a
    TCWarning says so, once."""
    version = str(getattr(torch, "__version__", ""))
    meaning = "what only saves time of calls and is private to torch is not used"
    is_seen = check_version("torch", version, SEEN, meaning)
    parts = {name: private_part(torch, name) for name in PARTS}
    return SimpleNamespace(is_seen=is_seen, **parts)


def private_part(torch: Any, name: str) -> Any:
    """One of the parts, of a torch that may be imported by half."""
    part = PARTS[name]
    if part.saves_time and not was_seen(str(getattr(torch, "__version__", "")), SEEN):
        return part.plain
    value = torch
    for attribute in part.path.split("."):
        value = getattr(value, attribute, None)
        if value is None:
            return part.plain
    return value


# --- what torch does around a call ----------------------------------------------------------------


def tracing_of(torch: Any) -> Callable[[], bool]:
    """Whether torch records what is done, by torch.jit.trace, make_fx or fake tensors: what tc
    computes would become a constant of the record."""
    parts = private_parts(torch)
    functions, before, modes = parts.function_modes, parts.early_modes, parts.dispatch_modes
    state, mode, keys = parts.tracing_state, parts.dispatch_mode, parts.mode_keys
    if None in (functions, before, modes, state, mode, keys):
        return torch.jit.is_tracing  # type: ignore[no-any-return]
    recording = [getattr(keys, name, None) for name in ("FAKE", "PROXY", "FUNCTIONAL")]

    def is_tracing() -> bool:
        if state() is not None:
            return True
        if modes() and any(key is not None and mode(key) is not None for key in recording):
            return True
        # make_fx before dispatch has a mode of functions, too
        return bool(functions() and before())

    return is_tracing


def usual_of(torch: Any) -> Callable[[], bool]:
    """As `ArrayLayoutCheck.is_usual`."""
    parts, is_tracing = private_parts(torch), tracing_of(torch)
    forward, profiler = parts.forward, parts.profiler

    def is_usual() -> bool:
        if profiler._is_profiler_enabled:  # calls have names for it, in the usual way
            return False
        return forward._current_level < 0 and not is_tracing()

    return is_usual


def plain_of(torch: Any) -> Callable[[], bool]:
    """As `ArrayLayoutCheck.is_plain`; never where torch does not tell."""
    parts = private_parts(torch)
    forward, functions, modes = parts.forward, parts.function_modes, parts.dispatch_modes
    profiler = parts.profiler
    interpreter, state = parts.interpreter, parts.tracing_state
    if not parts.is_seen or None in (functions, modes, interpreter, state):
        return _no

    def is_plain() -> bool:
        if forward._current_level >= 0 or interpreter() is not None:
            return False
        if profiler._is_profiler_enabled:
            return False
        return not (modes() or functions()) and state() is None

    return is_plain


def marks_of(torch: Any) -> Callable[[str], Any]:
    """As `Family.mark`."""
    profiler = private_parts(torch).profiler

    def mark(name: str) -> Any:
        if not profiler._is_profiler_enabled:
            return None
        return torch.profiler.record_function(f"tc::{name}")

    return mark


def tangents_of(torch: Any) -> Callable[[Any], bool]:
    """Whether a tensor carries a tangent of forward mode, where these count."""
    parts = private_parts(torch)
    forward, count = parts.forward, parts.counts_tangents

    def has_tangent(tensor: Any) -> bool:
        if forward._current_level < 0 or not count():
            return False
        return forward.unpack_dual(tensor).tangent is not None

    return has_tangent


def plain_tensors_of(torch: Any) -> Callable[[Any], bool]:
    """Whether a tensor may be shown to code that reads torch's objects in memory: of no subclass,
    with strides. Torch's own check of many tensors ends the process at the strides of others."""
    strided, tensor, parameter = torch.strided, torch.Tensor, torch.nn.Parameter

    def is_plain(value: Any) -> bool:
        kind = type(value)
        if kind is not tensor and kind is not parameter:
            return False
        return not value.is_nested and value.layout is strided

    return is_plain
