"""The primitive of jax for all programs, `tc_run`: the types of its results by range inference, its
numbers, and how calls with tracers are bound to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import PartitionSpec

from tc.derivatives.symbolic_sizes import SymbolArithmetic, expressions_of, symbolic_shapes
from tc.derivatives.text_functions import texts_of
from tc.errors import BackendError, InputError
from tc.function import Compiled, issue_warnings
from tc.jax.ready_calls import PLATFORM, TARGET, attributes, ready_calls
from tc.jax.unstable import Primitive, ShapedArray, Tracer, max_dim, min_dim, mlir, vary, varying
from tc.pipeline import shape_program
from tc.runtime.arguments import NUMBERS, Parameter, fault, ranked, read_number, view_of
from tc.runtime.arrays.encoded_arrays import user_dtype
from tc.runtime.arrays.family import type_name
from tc.runtime.outputs import check_initial
from tc.runtime.sizes import CallSizes
from tc.runtime.specialisation import start_warnings
from tc.semantics.program import ProgramWarning

_X64_BYTES = 8


def result_types(
    function: Compiled, numbers: Sequence[tuple[int, int]], operands: Sequence[Any]
) -> list[Any]:
    """Those of the results, for operands of these types; errors as of `result_shapes`."""
    program = function.program
    dtypes = [user_dtype(program.tensors[name].dtype.numpy) for name in program.outputs]
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
    if operand.dtype != user_dtype(parameter.numpy):
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


def call(function: Compiled, inputs: tuple[Any, ...], outputs: Any, refused: InputError) -> Any:
    """The results of a call that the usual way has refused, for this reason, as jax traces it."""
    if outputs is not None:
        raise InputError(
            f"{refused.cause}: what jax traces is written to no array of outputs=",
            rule="R4",
            span=refused.span,
            repair=function._signature.call_text(),
        )
    check_initial(function.program, frozenset())
    numbers, operands = [], []
    pairs = zip(function._signature.inputs, inputs, strict=True)
    for place, (parameter, value) in enumerate(pairs):
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            number = read_number(parameter, value)
            if parameter.static or not _has_type(number.dtype):
                numbers.append((place, number.item()))
            else:
                operands.append(number)
            continue
        if not isinstance(value, jax.Array):
            raise _of_another_kind(function, place, inputs)
        if parameter.static:
            if isinstance(value, Tracer):
                raise traced_number(parameter)
            numbers.append((place, int(value)))
            continue
        operands.append(_adapted(parameter, value))
    told: set[ProgramWarning] = kept(function, "told", set)
    found = [w for w in warnings_of(function, numbers, operands) if w not in told]
    told.update(found)
    issue_warnings(found)
    results = run(function, tuple(numbers), operands)
    return results[0] if function._result_type is None else function._result_type(*results)


def _adapted(parameter: Parameter, value: Any) -> Any:
    """A number of Python's that jax traces, whose type is not more than its kind, in the type of
    the parameter, where there is one of that kind."""
    wanted = user_dtype(parameter.numpy)
    if value.ndim or value.dtype == wanted or not getattr(value, "weak_type", False):
        return value
    fits = parameter.dtype.is_float or (wanted.kind in "iu" and value.dtype.kind in "iu")
    return jax.lax.convert_element_type(value, wanted) if fits and _has_type(wanted) else value


def _has_type(dtype: np.dtype[Any]) -> bool:
    """Whether jax has arrays of a type as it is set up now."""
    return bool(jax.dtypes.canonicalize_dtype(dtype) == dtype)


def _of_another_kind(function: Compiled, place: int, inputs: tuple[Any, ...]) -> InputError:
    """The error about an array of another library, or what is none."""
    parameters = function._signature.inputs
    if isinstance(inputs[place], list | tuple | range):
        cause = f"is of {type_name(type(inputs[place]))}, which is no array, beside arrays of jax"
        raise fault(parameters[place], cause, 'jax.numpy.asarray({name}, "{dtype}")')
    family, _ = view_of(parameters[place], inputs[place])
    first = next(at for at, value in enumerate(inputs) if isinstance(value, jax.Array))
    return fault(
        parameters[place],
        f"is an array of {family.name}, but {parameters[first].name} is one of jax: the arrays of "
        "a call are of one kind",
        "jax.numpy.asarray({name})",
    )


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
