"""What jax derives from calls: tangents, their transposition, and batches. All are calls again, of
the functions that follow from a function, and so have derivatives and batches themselves.

A call's tangents are a primitive of their own, `tc_tangents`, linear in the tangents of the inputs:
it has the results as operands, too, which its transpose, the gradient, may read (D17).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from tc.derivatives.followers import Followers
from tc.derivatives.gradients import COTANGENT, INPUT, OUTPUT, Gradient, Gradients
from tc.function import Compiled
from tc.jax.primitive import RUN, Numbers, kept, run, typed_like, varying_alike
from tc.jax.unstable import Primitive, ad, batching, mlir

TANGENTS = Primitive("tc_tangents")
"""Of operands that are the inputs, the results, and a tangent for each input in `wrt`: the tangents
of the floating results."""

TANGENTS.multiple_results = True

_STOP = "jax.lax.stop_gradient({})"


class Derivatives:
    """The derivatives of a function for jax. `places` are the places of its floating outputs;
    `alone` makes gradients that read no results."""

    def __init__(self, function: Compiled) -> None:
        self.gradients = Gradients(function, _STOP)
        self.alone = Gradients(function, _STOP, save="none")
        self.places = self.gradients.floating
        self.followers = Followers(function, _STOP)


def derivatives_of(function: Compiled) -> Derivatives:
    return kept(function, Derivatives, lambda: Derivatives(function))


# --- tangents -----------------------------------------------------------------------------------


def _jvp(
    operands: Sequence[Any], tangents: Sequence[Any], *, function: Compiled, numbers: Numbers
) -> tuple[list[Any], list[Any]]:
    results = run(function, numbers, operands)
    places = derivatives_of(function).places
    given = dict(zip(_places(function, numbers), map(_or_none, tangents), strict=True))
    wrt = tuple(at for at, tangent in given.items() if tangent is not None)
    found: list[Any] = [_zero(result) for result in results]
    if wrt and places:
        known = [given[at] for at in wrt]
        tangents = _tangents(function, numbers, wrt, operands, results, known)
        for at, tangent in zip(places, tangents, strict=True):
            found[at] = tangent
    return results, found


def _or_none(tangent: Any) -> Any:
    """A tangent that is not 0; integers have none."""
    none = tangent is None or type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0
    return None if none else tangent


def _zero(result: Any) -> Any:
    """The tangent 0 of a result, that of integers included."""
    return ad.Zero(jax.typeof(result).to_tangent_aval())


def _tangents(
    function: Compiled,
    numbers: Numbers,
    wrt: tuple[int, ...],
    inputs: Sequence[Any],
    results: Sequence[Any],
    tangents: Sequence[Any],
) -> list[Any]:
    """The tangents of floating results, where inputs at `wrt` have these; all results are given,
    which the gradient may read."""
    operands = varying_alike([*inputs, *results, *tangents])
    found: list[Any] = TANGENTS.bind(*operands, function=function, numbers=numbers, wrt=wrt)
    return found


class _Split:
    """The operands of `TANGENTS`."""

    def __init__(self, operands: Sequence[Any], function: Compiled, numbers: Numbers) -> None:
        few, several = len(_places(function, numbers)), len(function.program.outputs)
        self.inputs = list(operands[:few])
        self.results = list(operands[few : few + several])
        self.tangents = list(operands[few + several :])


def _typed(*operands: Any, function: Compiled, numbers: Numbers, **_: Any) -> list[Any]:
    results = _Split(operands, function, numbers).results
    floating = (results[at] for at in derivatives_of(function).places)
    return [typed_like(operands, result.shape, result.dtype) for result in floating]


def _computed(
    *operands: Any, function: Compiled, numbers: Numbers, wrt: tuple[int, ...]
) -> list[Any]:
    split = _Split(operands, function, numbers)
    tangents = derivatives_of(function).followers.tangents(wrt)
    found = run(tangents.function, numbers, [*split.inputs, *split.tangents])
    return found[tangents.first :]


def _tangents_jvp(
    operands: Sequence[Any],
    changes: Sequence[Any],
    *,
    function: Compiled,
    numbers: Numbers,
    wrt: tuple[int, ...],
) -> tuple[list[Any], list[Any]]:
    """That of inputs and tangents; results follow from the inputs."""
    how = function, numbers
    split, changed = _Split(operands, *how), _Split([*map(_or_none, changes)], *how)
    if all(change is None for change in changed.inputs):
        found = TANGENTS.bind(*operands, function=function, numbers=numbers, wrt=wrt)
        moved = [(at, t) for at, t in zip(wrt, changed.tangents, strict=True) if t is not None]
        if not moved:
            return found, [_zero(tangent) for tangent in found]
        fewer, known = zip(*moved, strict=True)
        return found, _tangents(function, numbers, fewer, split.inputs, split.results, known)
    tangents = derivatives_of(function).followers.tangents(wrt)
    both, first = tangents.function, tangents.first
    inputs = [*split.inputs, *split.tangents]
    results = run(both, numbers, inputs)
    pairs = zip(_places(both, numbers), [*changed.inputs, *changed.tangents], strict=True)
    moved = [(at, change) for at, change in pairs if change is not None]
    fewer, known = zip(*moved, strict=True)
    found = _tangents(both, numbers, fewer, inputs, results, known)
    return results[first:], found[len(found) - len(results[first:]) :]


# --- transposition ------------------------------------------------------------------------------


def _tangents_transposed(
    cotangents: Sequence[Any],
    *operands: Any,
    function: Compiled,
    numbers: Numbers,
    wrt: tuple[int, ...],
) -> list[Any]:
    """The gradients for the tangents that jax asks for, None for the others."""
    split = _Split(operands, function, numbers)
    asked = [ad.is_undefined_primal(tangent) for tangent in split.tangents]
    fewer = tuple(at for at, ask in zip(wrt, asked, strict=True) if ask)
    by = derivatives_of(function)
    values: dict[Any, Any] = dict(
        zip([(INPUT, at) for at in _places(function, numbers)], split.inputs, strict=True)
    )
    values |= {(OUTPUT, at): result for at, result in enumerate(split.results)}
    given = dict(zip(by.places, cotangents, strict=True))
    found = _gradients(by.gradients, numbers, fewer, values, given)
    rest = iter(found)
    first = [None] * (len(operands) - len(wrt))
    return [*first, *(next(rest) if ask else None for ask in asked)]


def _transposed(
    cotangents: Sequence[Any], *operands: Any, function: Compiled, numbers: Numbers
) -> list[Any]:
    """The transpose of a call that is linear in the operands that jax asks for, as a gradient."""
    places = _places(function, numbers)
    asked = [ad.is_undefined_primal(operand) for operand in operands]
    wrt = tuple(at for at, ask in zip(places, asked, strict=True) if ask)
    by = derivatives_of(function)
    values = {(INPUT, at): operand for at, operand in zip(places, operands, strict=True)}
    given = {at: cotangents[at] for at in by.places}
    found = iter(_gradients(by.alone, numbers, wrt, values, given))
    return [next(found) if ask else None for ask in asked]


def _gradients(
    gradients: Gradients,
    numbers: Numbers,
    wrt: tuple[int, ...],
    values: dict[Any, Any],
    cotangents: dict[int, Any],
) -> Sequence[Any]:
    """The gradients for inputs at `wrt`, of inputs and results, and cotangents that may be zeros of
    jax."""
    unused = tuple(at for at, cotangent in cotangents.items() if type(cotangent) is ad.Zero)
    if len(unused) == len(cotangents):
        return [None] * len(wrt)
    known = dict(numbers)
    program = gradients.function.program
    inputs = [
        known[at] if at in known else _type_of(values[INPUT, at])
        for at in range(len(program.inputs))
    ]
    whole = gradients.of(wrt, inputs)
    gradient: Gradient = gradients.without(whole, unused)
    for at, cotangent in cotangents.items():
        values[COTANGENT, at] = ad.instantiate_zeros(cotangent)
    taken = gradient.arguments
    fixed = tuple(
        (place, known[at])
        for place, (kind, at) in enumerate(taken)
        if kind == INPUT and at in known
    )
    places = {place for place, _ in fixed}
    operands = [values[argument] for place, argument in enumerate(taken) if place not in places]
    return run(gradient.function, fixed, operands)


def _type_of(value: Any) -> Any:
    return value.aval if ad.is_undefined_primal(value) else value


# --- batches ------------------------------------------------------------------------------------


def _batched(
    operands: Sequence[Any],
    axes: Sequence[int | None],
    *,
    function: Compiled,
    numbers: Numbers,
) -> tuple[list[Any], list[int | None]]:
    """One call for all of the batch."""
    if all(axis is None for axis in axes):
        found = run(function, numbers, operands)
        return found, [None] * len(found)
    by_place = dict(zip(_places(function, numbers), axes, strict=True))
    whole = tuple(by_place.get(at) for at in range(len(function.program.inputs)))
    batch = derivatives_of(function).followers.batched(whole)
    found = run(batch.function, numbers, operands)
    return found, [0 if is_batched else None for is_batched in batch.batched]


def _tangents_batched(
    operands: Sequence[Any],
    axes: Sequence[int | None],
    *,
    function: Compiled,
    numbers: Numbers,
    wrt: tuple[int, ...],
) -> tuple[list[Any], list[int | None]]:
    how = function, numbers
    split, along = _Split(operands, *how), _Split(axes, *how)
    tangents = derivatives_of(function).followers.tangents(wrt)
    found, where = _batched(
        [*split.inputs, *split.tangents],
        [*along.inputs, *along.tangents],
        function=tangents.function,
        numbers=numbers,
    )
    return found[tangents.first :], where[tangents.first :]


def _places(function: Compiled, numbers: Numbers) -> list[int]:
    """Those of the inputs that are operands."""
    known = dict(numbers)
    return [at for at in range(len(function.program.inputs)) if at not in known]


TANGENTS.def_impl(_computed)
TANGENTS.def_abstract_eval(_typed)
ad.primitive_jvps[RUN] = _jvp
ad.primitive_transposes[RUN] = _transposed
batching.primitive_batchers[RUN] = _batched
ad.primitive_jvps[TANGENTS] = _tangents_jvp
ad.primitive_transposes[TANGENTS] = _tangents_transposed
batching.primitive_batchers[TANGENTS] = _tangents_batched
mlir.register_lowering(TANGENTS, mlir.lower_fun(_computed, multiple_results=True))
