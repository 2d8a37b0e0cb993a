"""The types that jax gives the results of a function: shapes by range inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import PartitionSpec

from tc.derivatives.symbolic_sizes import SymbolArithmetic, expressions_of, symbolic_shapes
from tc.errors import InputError
from tc.function import Compiled
from tc.jax.unstable import ShapedArray, max_dim, min_dim, vary, varying
from tc.pipeline import shape_program
from tc.runtime.arguments import Parameter, fault, ranked
from tc.runtime.sizes import CallSizes
from tc.runtime.specialisation import start_warnings
from tc.semantics.program import ProgramWarning

_X64_BYTES = 8


def result_types(
    function: Compiled, numbers: Sequence[tuple[int, int]], operands: Sequence[Any]
) -> list[Any]:
    """Those of the results, for operands of these types; errors as of `result_shapes`."""
    program = function.program
    dtypes = [program.tensors[name].dtype.numpy for name in program.outputs]
    shapes = result_shapes(function, numbers, operands)
    return [typed_like(operands, *one) for one in zip(shapes, dtypes, strict=True)]


def result_shapes(
    function: Compiled, numbers: Sequence[tuple[int, int]], operands: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """The shapes of the results, for operands of these types, or for arrays. InputError and
    RangeError for what a call with arrays would refuse."""
    program, sizes = function.program, _sizes(function, numbers, operands)
    if not is_known(operands):
        return _symbolic(function, sizes)
    shaped = shape_program(program, sizes)
    return [shaped.shapes[name] for name in program.outputs]


def warnings_of(
    function: Compiled, numbers: Sequence[tuple[int, int]], operands: Sequence[Any]
) -> list[ProgramWarning]:
    """What there is to say of a call, where sizes are known; errors as of `result_shapes`."""
    if not is_known(operands):
        result_shapes(function, numbers, operands)
        return []
    shaped = shape_program(function.program, _sizes(function, numbers, operands))
    return [*shaped.warnings, *start_warnings(shaped, frozenset())]


def is_known(operands: Sequence[Any]) -> bool:
    """Whether all sizes are numbers: for `jax.export` they may be symbols."""
    return all(isinstance(size, int) for operand in operands for size in operand.shape)


def _sizes(
    function: Compiled, numbers: Sequence[tuple[int, int]], operands: Sequence[Any]
) -> CallSizes:
    """The sizes of a call; InputError for operands of other types than were declared."""
    program, values = function.program, dict(numbers)
    places = [at for at in range(len(program.inputs)) if at not in values]
    shapes: dict[str, tuple[Any, ...]] = dict.fromkeys(program.inputs, ())
    for at, operand in zip(places, operands, strict=True):
        check_operand(function._signature.inputs[at], operand)
        shapes[program.inputs[at]] = operand.shape
    scalars = {program.inputs[at]: number for at, number in numbers}
    return CallSizes(shapes, {name: scalars[name] for name in program.static_scalars})


def _symbolic(function: Compiled, sizes: CallSizes) -> list[tuple[Any, ...]]:
    """The shapes of the results where sizes are symbols, as `jax.export` has them."""
    program = function.program

    def demand(holds: bool, text: str) -> None:
        if not holds:
            raise InputError(
                f"{program.name}: {text}, or is not known to be the same by jax.export",
                repair="jax.export.symbolic_shape with one name for both",
            )

    found = expressions_of(program)
    if found is None:
        raise InputError(
            f"{program.name}: the shapes of its results are no expressions of the sizes, so that "
            "jax.export cannot have symbols for these",
            rule="D4",
            repair="numbers in place of symbolic sizes",
        )
    arithmetic = SymbolArithmetic(min_dim, max_dim, demand)
    return symbolic_shapes(program, found, sizes.shapes, sizes.scalars, arithmetic)


def check_operand(parameter: Parameter, operand: Any) -> None:
    """InputError for an array or tracer that is of another type than declared."""
    if operand.dtype != parameter.numpy:
        repair: str | None = '{name}.astype("{dtype}")'
        if parameter.numpy.itemsize == _X64_BYTES and not jax.config.jax_enable_x64:
            repair = 'jax.config.update("jax_enable_x64", True), without which jax has no {dtype}'
        elif not hasattr(operand.dtype, "kind"):
            repair = None  # a type of jax's own, as of keys
        elif operand.dtype.kind == "c":
            repair = '{name}.real.astype("{dtype}")'
        cause = f"has dtype {operand.dtype}, but {parameter.text} asks for {parameter.dtype}"
        raise fault(parameter, cause, repair, "Y3")
    if operand.ndim != parameter.rank:
        cause = (
            f"has rank {operand.ndim} and shape {operand.shape}, but {parameter.text} asks for "
            f"rank {parameter.rank}"
        )
        raise fault(parameter, cause, ranked(operand.shape, parameter))


def typed_like(operands: Sequence[Any], shape: tuple[Any, ...], dtype: Any) -> Any:
    """The type of a result, on the mesh of the operands, and varying along what they do."""
    like = next((o for o in operands if not _is_plain(o)), None)
    if like is None:
        return ShapedArray(shape, dtype)
    whole = like.sharding.update(spec=PartitionSpec(*[None] * len(shape)))
    return like.update(shape=shape, dtype=dtype, weak_type=False, sharding=whole)


def varying_alike(operands: Sequence[Any]) -> list[Any]:
    """The operands, typed as varying along every axis of the mesh along which one of them varies.
    So `jax.shard_map` adds up the gradients of an operand that is the same on all devices."""
    axes = [varying(jax.typeof(operand)) for operand in operands]
    whole = frozenset[Any]().union(*axes)
    if not whole:
        return list(operands)
    pairs = zip(operands, axes, strict=True)
    return [o if own == whole else vary(o, tuple(whole - own)) for o, own in pairs]


def _is_plain(operand: Any) -> bool:
    """Whether a type says nothing of a mesh."""
    sharding = getattr(operand, "sharding", None)
    return sharding is None or sharding.mesh.empty


def traced_number(parameter: Parameter) -> InputError:
    """The error about a tracer where code is made for a value."""
    return fault(
        parameter,
        f"is traced by jax, but shapes and code follow from the value of {parameter.text}",
        'a number, which jax.jit(..., static_argnames="{name}") leaves as it is',
    )
