"""What a wrong kernel computes, in words of the text: programs near the text are run, and one that
gives the kernel's results says what the kernel does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import TCError
from tc.runtime.arrays.encoded_arrays import numbers
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.verification.expected import Difference, Expected
from tc.verification.kernel_process import FILL


@dataclass(frozen=True)
class Failing:
    """A result that is wrong: the program with its inputs, what is expected, and where that is not
    met."""

    shaped: p.ShapedProgram
    arrays: Mapping[str, Array]
    results: tuple[Any, ...]
    expected: Expected
    difference: Difference
    earlier: tuple[Any, ...] | None = None  # results of a call with other inputs
    confirms: Callable[[p.ShapedProgram], bool] = lambda _: True
    """Whether a program gives the results of the kernel for other inputs, too."""


def diagnosis(found: Failing) -> str:
    """What is wrong, as far as that shows."""
    if found.difference.wrong is None:
        return ""
    where = elements_text(found)
    cause = next(_causes(found), None)
    return f"{where}: {cause}" if cause else where


# --- which elements -------------------------------------------------------------------------------


def elements_text(found: Failing) -> str:
    """Which elements of a result are wrong, in the variables of the text."""
    name, wrong = found.difference.name, found.difference.wrong
    assert wrong is not None
    count = int(wrong.sum())
    if count == wrong.size:
        return f"{name} is wrong everywhere" if wrong.size > 1 else f"{name} is wrong"
    names = _dimension_names(found.shaped.program, name, wrong.ndim)
    ends = found.shaped.symbolic_shapes.get(name, ())
    sets = [np.unique(axis) for axis in np.nonzero(wrong)]
    product = np.zeros_like(wrong)
    product[np.ix_(*sets)] = True
    if not (product == wrong).all():
        return f"{name} is wrong in {count} of {wrong.size} elements"
    parts = []
    for axis, indices in enumerate(sets):
        extent = wrong.shape[axis]
        if len(indices) < extent:
            end = ends[axis] if axis < len(ends) else None
            parts.append(_indices_text(names[axis], indices, extent, end))
    return f"{name} is wrong where {' and '.join(parts)}"


def _dimension_names(program: p.Program, target: str, rank: int) -> list[str]:
    for statement in reversed(program.statements):
        if target in statement.targets:
            return [
                s.name if isinstance(s, p.Index) else f"index {axis}"
                for axis, s in enumerate(statement.subscripts)
            ]
    return [f"index {axis}" for axis in range(rank)]


def _indices_text(name: str, indices: Array, extent: int, end: p.Expr | None) -> str:
    size = None if end is None else to_text(end)
    first, last = int(indices[0]), int(indices[-1])
    if len(indices) == 1:
        is_last = first == extent - 1 and size is not None and extent > 1
        return f"{name} = {size} - 1" if is_last else f"{name} = {first}"
    if len(indices) == last - first + 1:
        if last == extent - 1:
            return f"{name} >= {first}"
        return f"{name} < {last + 1}" if first == 0 else f"{name} in {first}:{last + 1}"
    steps = np.unique(np.diff(indices))
    if len(steps) == 1 and first < steps[0] and last + steps[0] >= extent:
        return f"{name} % {steps[0]} == {first}"
    shown = ", ".join(str(int(i)) for i in indices[:6])
    return f"{name} is {shown}{', ...' if len(indices) > 6 else ''}"


# --- what the kernel does instead -----------------------------------------------------------------


def _causes(found: Failing) -> Iterator[str]:
    yield from _other_results(found)
    yield from _other_order(found)
    yield from _other_ranges(found)
    yield from _other_operations(found)
    yield from _constant(found)
    yield from _other_precision(found)


def _other_results(found: Failing) -> Iterator[str]:
    position = found.difference.position
    result = np.asarray(numbers(np.asarray(found.results[position])))
    value = np.asarray(numbers(found.expected.values[position]))
    earlier = None if found.earlier is None else found.earlier[position]
    several = len(np.unique(result)) > 1
    if earlier is not None and several and np.array_equal(numbers(np.asarray(earlier)), result):
        yield "it is the result of an earlier call, with other inputs"
        return
    if _is_of_no_one(result):
        yield "memory is read that nobody has written"
        return
    if result.dtype.kind != "f":
        return
    nans = np.isnan(value)
    inputs = (np.asarray(numbers(array)) for array in found.arrays.values())
    has_nan = any(array.dtype.kind == "f" and np.isnan(array).any() for array in inputs)
    if has_nan and nans.any() and not np.isnan(result[nans]).any():
        yield "NaN of an input is lost"
    elif np.isnan(result).any() and not nans.any():
        yield "there is NaN where the text has numbers, as of an overflow, inf - inf or 0 * inf"
    with np.errstate(all="ignore"):
        ratio = result / value
    known = ratio[np.isfinite(ratio)]
    is_other = known.size > 2 and abs(known[0]) > 1e-6 and abs(known[0] - 1) > 1e-3
    if is_other and np.allclose(known, known[0], rtol=1e-4):
        yield f"the results are {known[0]:.6g} times what they have to be"


def _is_of_no_one(result: Array) -> bool:
    """Whether some elements are those of memory that the process of a kernel fills."""
    if result.dtype.kind not in "iuf" or not result.size:
        return False
    fill = np.frombuffer(bytes([FILL]) * result.dtype.itemsize, result.dtype)[0]
    with np.errstate(all="ignore"):
        near = np.abs(result.astype(np.float64) - float(fill)) <= abs(float(fill)) * 1e-3
    return bool(near.any())


def _constant(found: Failing) -> Iterator[str]:
    result = np.asarray(numbers(np.asarray(found.results[found.difference.position])))
    value = numbers(found.expected.values[found.difference.position])
    if result.size > 1 and len(np.unique(result)) == 1 and len(np.unique(value)) > 1:
        yield "all elements are equal"


def _other_order(found: Failing) -> Iterator[str]:
    """The right elements at other places."""
    position, name = found.difference.position, found.difference.name
    result = numbers(np.asarray(found.results[position]))
    value, bound = found.expected.values[position], found.expected.bounds[position]
    value = numbers(value)

    def gives(other: Array) -> bool:
        if other.shape != result.shape:
            return False
        with np.errstate(all="ignore"):
            close = np.abs(other.astype(np.float64) - result.astype(np.float64))
            most = float(np.max(bound, initial=0.0))
            same = (other == result) | (close <= (most if np.isfinite(most) else 0.0))
        return bool(np.all(same | (np.isnan(other) & np.isnan(result)))) if result.size else False

    if result.ndim == 2 and gives(value.T):
        yield f"{name} is transposed"
    names = _dimension_names(found.shaped.program, name, result.ndim)
    for axis in (axis for axis, extent in enumerate(result.shape) if extent > 1):
        if gives(np.flip(value, axis)):
            yield f"{name} is reversed along {names[axis]}"
        for by in (1, -1):
            if gives(np.roll(value, by, axis)):
                yield f"{name} is shifted by {by} along {names[axis]}"


def _other_ranges(found: Failing) -> Iterator[str]:
    """Programs of which one variable runs less far."""
    shaped, name = found.shaped, found.difference.name
    for number, each in enumerate(shaped.statements):
        for variable, box in each.ranges.items():
            if box.extent < 2:
                continue
            is_sum = variable in each.statement.reduction
            end = to_text(box.symbolic_end) if box.symbolic_end is not None else str(box.end)
            tried = [
                (replace(box, end=box.end - 1), f"{variable} = {end} - 1", "last"),
                (replace(box, begin=box.begin + 1), f"{variable} = {box.begin}", "first"),
            ]
            for width in (2, 4, 8, 16, 32):
                whole = box.begin + box.extent // width * width
                if is_sum and whole not in (box.end, box.end - 1) and whole > box.begin:
                    rest = f"{variable} >= {whole}"
                    tried.append((replace(box, end=whole), rest, f"rest behind blocks of {width}"))
            for other, where, which in tried:
                if not is_sum:
                    continue
                ranges = {**each.ranges, variable: other}
                statements = [*shaped.statements]
                statements[number] = replace(each, ranges=ranges)
                if _gives(found, replace(shaped, statements=tuple(statements))):
                    target = each.statement.target
                    of = f" of {target}" if target != name else ""
                    term = "term" if which in ("last", "first") else ""
                    yield f"the {which} {term}{of} is missing, {where}".replace("  ", " ")


def _other_operations(found: Failing) -> Iterator[str]:
    """Programs with another operation: of a product one factor, of a sum one term is missing, a
    condition is dropped."""
    shaped = found.shaped
    for number, each in enumerate(shaped.statements):
        for other, text in _without_one(each.statement.rhs):
            statements = [*shaped.statements]
            statement = replace(each.statement, rhs=other)
            statements[number] = replace(each, statement=statement)
            if _gives(found, replace(shaped, statements=tuple(statements))):
                yield text


def _without_one(expr: p.Expr) -> Iterator[tuple[p.Expr, str]]:
    """The expressions of which one operation is left out, and what is missing then."""
    for place, child in enumerate(p.children(expr)):
        for other, text in _without_one(child):
            new = [*p.children(expr)]
            new[place] = other
            with contextlib.suppress(TypeError):
                yield p.with_children(expr, tuple(new)), text
    match expr:
        case p.Binary(op="+" | "-" | "*", left=left, right=right):
            if left.dtype == expr.dtype:
                yield left, f"{expr.op} {to_text(right)} is missing"
            if right.dtype == expr.dtype and expr.op != "-":
                yield right, f"{to_text(left)} {expr.op} is missing"
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            if then.dtype == expr.dtype:
                yield then, f"the condition {to_text(condition)} is not tested"
            if otherwise.dtype == expr.dtype:
                yield otherwise, f"it is as if {to_text(condition)} never held"


def _other_precision(found: Failing) -> Iterator[str]:
    for name, text in (
        ("float32", "computed in float32"),
        ("float16", "computed in half precision"),
        ("tf32", "computed with factors of tf32"),
        ("bfloat16", "computed in bfloat16"),
    ):
        with contextlib.suppress(TCError, MemoryError):
            wider = Expected.of(found.shaped, found.arrays, name)
            if not _is_loose(wider) and wider.difference(found.results) is None:
                yield f"as if {text}, which compute={name!r} allows"
                return


def _is_loose(expected: Expected) -> bool:
    """Whether bounds are so wide that nearly any result is within them."""
    for value, bound in zip(expected.values, expected.bounds, strict=True):
        with np.errstate(all="ignore"):
            size = np.abs(numbers(value).astype(np.float64))
        finite = np.isfinite(size)
        if np.any(np.broadcast_to(bound, size.shape)[finite] > size[finite] * 0.1 + 0.1):
            return True
    return False


def _gives(found: Failing, other: p.ShapedProgram) -> bool:
    """Whether another program gives the results of the kernel, for other inputs as well."""
    with contextlib.suppress(TCError, MemoryError, KeyError, IndexError, ValueError):
        is_like = Expected.of(other, found.arrays).difference(found.results) is None
        return is_like and found.confirms(other)
    return False
