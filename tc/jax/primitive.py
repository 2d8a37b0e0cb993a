"""The primitive of jax for all programs, `tc_run`: what it gives, by shapes and by numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax

from tc.derivatives.text_functions import texts_of
from tc.errors import BackendError
from tc.function import Compiled
from tc.jax.ffi_target import PLATFORM, TARGET, attributes
from tc.jax.ready_calls import ready_calls
from tc.jax.result_types import is_known, result_types, varying_alike
from tc.jax.unstable import Primitive, mlir

Numbers = tuple[tuple[int, int], ...]
"""Values of inputs by their places: those of the others are operands."""

T = TypeVar("T")

_NAME = "tc.jax"

RUN = Primitive("tc_run")
RUN.multiple_results = True


def kept(function: Compiled, key: Hashable, make: Callable[[], T]) -> T:
    """The value that `make` gives, made once for a function and dropped with the function."""
    made: dict[Hashable, T] = function._framework_adapters.setdefault(_NAME, {})
    found = made.get(key)
    return made.setdefault(key, make()) if found is None else found


def run(function: Compiled, numbers: Numbers, operands: Sequence[Any]) -> list[Any]:
    """The results of a function for arrays and tracers, whatever jax does with them."""
    operands = varying_alike(operands)
    found: list[Any] = RUN.bind(*operands, function=function, numbers=numbers)
    return found


def _computed(*operands: Any, function: Compiled, numbers: Numbers) -> Any:
    """The results of a call that jax compiles, even where users have switched off compilation."""

    def make() -> Any:
        return jax.jit(lambda *operands: run(function, numbers, operands))

    with jax.disable_jit(False):
        return kept(function, ("compiled", numbers), make)(*operands)


def _typed(*operands: Any, function: Compiled, numbers: Numbers) -> Any:
    return result_types(function, numbers, operands)


def _lowered(context: Any, *operands: Any, function: Compiled, numbers: Numbers) -> Any:
    names = function.program.inputs
    named = {names[at]: number for at, number in numbers}
    shapes = [aval.shape for aval in context.avals_in]
    if is_known(context.avals_in):
        ready_calls().prepare(texts_of(function, named), tuple(shapes))
    return jax.ffi.ffi_lowering(TARGET)(context, *operands, **attributes(function, named))


def _refused(context: Any, *_: Any, function: Compiled, numbers: Numbers) -> Any:  # noqa: ARG001
    platforms = ", ".join(context.module_context.platforms)
    raise BackendError(
        f"{function.__name__} is compiled by jax for {platforms}, and tc runs in the memory of the "
        "processor there",
        repair='jax.default_device(jax.devices("cpu")[0]) around the call',
    )


RUN.def_impl(_computed)
RUN.def_abstract_eval(_typed)
mlir.register_lowering(RUN, _refused)
mlir.register_lowering(RUN, _lowered, platform=PLATFORM)
