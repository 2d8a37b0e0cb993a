"""Checked programs as operations of torch, whose autograd derives them: what gradients are
compared with.

Of a statement all instances are enumerated. Its right side is evaluated for all of them at once, a
branch only for those that take it, and reads are gathers; the values are reduced over the last
dimension of a matrix, a row for each element of the target. Nothing of this comes from the
interpreter or from the rules of gradients.

Where torch derives other values at kinks than D10 does, the form of the value says what D10 says:
the half of each of two equal arguments of min and max, and nothing where only one of them has a
derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from tc.dtypes import BOOL, DType
from tc.semantics import program as p


class Untranslated(Exception):
    """What a program has that this knows no operations of torch for."""


Store: TypeAlias = Callable[[str, Any, bool], Any]
"""What a tensor of this name holds of a value, which may be a term of a maximum or minimum."""


def translated(
    shaped: p.ShapedProgram,
    inputs: Mapping[str, Any],
    store: Store | None = None,
    ties: str = "split",
) -> dict[str, Any]:
    """The outputs of a program, of tensors by the names of inputs; what the caller gives in an
    output C is C_0. Of maxima, terms are stored before they are compared, of others the result;
    `ties` is as for `tc.grad`."""
    held = {name: inputs[name].reshape(-1) for name in shaped.program.inputs}
    initial = {n for n in shaped.program.needs_initial if f"{n}_0" in inputs}
    for name in initial:
        held[name] = inputs[f"{name}_0"].reshape(-1)
    for statement in shaped.statements:
        name = statement.statement.target
        if name not in held:
            size = math.prod(shaped.shapes[name])
            held[name] = torch.zeros(size, dtype=_type(shaped.program.tensors[name].dtype))
        held[name] = _Instances(shaped, held, statement, store, ties).written(initial)
    return {n: held[n].reshape(shaped.shapes[n]) for n in shaped.program.outputs}


def _type(dtype: DType) -> Any:
    if dtype.is_float:
        return getattr(torch, dtype.name)
    return torch.bool if dtype == BOOL else torch.int64


def _start(op: str, dtype: DType) -> Any:
    """What a reduction starts from."""
    if dtype == BOOL:
        return op in ("*", "min")
    if op in ("+", "*"):
        return 0 if op == "+" else 1
    if dtype.is_float:
        return math.inf if op == "min" else -math.inf
    info = np.iinfo(dtype.numpy)
    return int(info.max if op == "min" else info.min)


def _wrapped(value: Any, dtype: DType) -> Any:
    """Integers in 64 bits, as those of a type with fewer are."""
    if dtype.is_float or dtype == BOOL:
        return value
    info = np.iinfo(dtype.numpy)
    if info.bits == 64:
        if info.min == 0:
            raise Untranslated("uint64")
        return value
    wrapped = value & (2**info.bits - 1)
    return torch.where(wrapped > info.max, wrapped - 2**info.bits, wrapped)


@dataclass(frozen=True)
class _Instances:
    shaped: p.ShapedProgram
    held: Mapping[str, Any]
    each: p.ShapedStatement
    store: Store | None
    ties: str

    def written(self, initial: set[str]) -> Any:
        """The target after the statement."""
        statement, ranges = self.each.statement, self.each.ranges
        dtype = self.shaped.program.tensors[statement.target].dtype
        names = [*statement.outer, *statement.reduction]
        grids = np.meshgrid(
            *(np.arange(ranges[n].begin, ranges[n].end) for n in names), indexing="ij"
        )
        points = {n: torch.from_numpy(g.reshape(-1)) for n, g in zip(names, grids, strict=True)}
        rows = math.prod(ranges[n].extent for n in statement.outer)
        columns = math.prod(ranges[n].extent for n in statement.reduction)
        old = self.held[statement.target]
        if not rows:
            return old
        firsts = {n: points[n][:: max(1, columns)] for n in statement.outer} if columns else {}
        if not columns:
            outer = [np.arange(ranges[n].begin, ranges[n].end) for n in statement.outer]
            grids = np.meshgrid(*outer, indexing="ij")
            firsts = {
                n: torch.from_numpy(g.reshape(-1))
                for n, g in zip(statement.outer, grids, strict=True)
            }
        at = self.place(statement.target, statement.subscripts, firsts, rows)
        terms = self.value(statement.rhs, points, rows * columns).reshape(rows, columns)
        is_extreme = statement.op in ("min", "max")
        terms = terms.to(_type(dtype))
        if is_extreme and self.store is not None:
            terms = self.store(statement.target, terms, True)
        if statement.op == "=":
            found = terms[:, -1]
        else:
            start = torch.full((rows, 1), _start(statement.op, dtype), dtype=_type(dtype))
            if not statement.starts_fresh(initial):
                start = old[at].reshape(rows, 1)
            if columns or not statement.starts_fresh(initial):
                is_fresh = statement.starts_fresh(initial)
                found = _reduced(
                    statement.op, terms if is_fresh else torch.cat([start, terms], 1), self.ties
                )
            else:
                found = start[:, 0]
        found = _wrapped(found, dtype)
        if not is_extreme and self.store is not None:
            found = self.store(statement.target, found, False)
        return old.index_put((at,), found)

    def place(
        self, tensor: str, subscripts: tuple[p.Expr, ...], points: Mapping[str, Any], count: int
    ) -> Any:
        """Where elements of a tensor are in its memory."""
        place = torch.zeros(count, dtype=torch.int64)
        for subscript, size in zip(subscripts, self.shaped.shapes[tensor], strict=True):
            index = self.value(subscript, points, count)
            if bool(((index < 0) | (index >= size)).any()):
                raise IndexError(f"a read beyond {tensor}")
            place = place * size + index
        return place

    def value(self, expr: p.Expr, points: Mapping[str, Any], count: int) -> Any:
        """The values of an expression at some instances."""

        def at(inner: p.Expr) -> Any:
            return self.value(inner, points, count)

        match expr:
            case p.Literal(value=value, dtype=dtype):
                return torch.full((count,), value, dtype=_type(dtype))
            case p.Size(name=name):
                return torch.full((count,), self.shaped.sizes[name], dtype=torch.int64)
            case p.Extent(tensor=tensor, axis=axis):
                size = self.shaped.shapes[tensor][axis]
                return torch.full((count,), size, dtype=torch.int64)
            case p.Index(name=name):
                return points[name]
            case p.Read(tensor=tensor, subscripts=subscripts):
                return self.held[tensor][self.place(tensor, subscripts, points, count)]
            case p.Unary(operand=operand, dtype=dtype):
                return _wrapped(-at(operand), dtype)
            case p.Binary(op=op, left=left, right=right, dtype=dtype):
                return _wrapped(_binary(op, at(left), at(right), dtype), dtype)
            case p.Compare(op=op, left=left, right=right):
                return COMPARISONS[op](at(left), at(right))
            case p.Logical(op="!", operands=(operand,)):
                return ~at(operand)
            case p.Logical(op=op, operands=(first, second)):
                known = at(first)
                return self._chosen(known if op == "&&" else ~known, second, known, points)
            case p.Select(condition=condition, then=then, otherwise=otherwise):
                chosen = at(condition)
                blank = torch.zeros(count, dtype=_type(expr.dtype))
                value = self._chosen(chosen, then, blank, points)
                return self._chosen(~chosen, otherwise, value, points)
            case p.Call(function=function, args=args):
                if function not in FUNCTIONS:
                    raise Untranslated(function)
                return FUNCTIONS[function](*map(at, args))
            case p.Convert(operand=operand, dtype=dtype):
                return _converted(at(operand), dtype)
        raise Untranslated(type(expr).__name__)

    def _chosen(self, where: Any, expr: p.Expr, others: Any, points: Mapping[str, Any]) -> Any:
        """The values of an expression at instances that a condition holds for, beside others."""
        (at,) = torch.nonzero(where, as_tuple=True)
        few = {name: point[at] for name, point in points.items()}
        value = self.value(expr, few, len(at))
        return others.index_put((at,), value.to(others.dtype))


def _reduced(op: str, terms: Any, ties: str) -> Any:
    if terms.dtype == torch.bool:
        return (torch.any if op in ("+", "max") else torch.all)(terms, 1)
    if op in ("min", "max") and ties == "first":
        place = (torch.argmin if op == "min" else torch.argmax)(terms.detach(), 1, keepdim=True)
        return terms.gather(1, place)[:, 0]
    match op:
        case "+":
            return terms.sum(1)
        case "*":
            return terms.prod(1)
        case "min":
            return terms.amin(1)
        case "max":
            return terms.amax(1)
    raise Untranslated(op)


def _converted(value: Any, dtype: DType) -> Any:
    if dtype == BOOL:
        return value != 0
    if dtype.is_float:
        return value.to(_type(dtype))
    if value.dtype.is_floating_point:
        value = value.detach().nan_to_num(0.0, 0.0, 0.0).trunc()
        if bool((value.abs() > 2.0**31 - 1).any()):
            raise Untranslated("a large number as an integer")
    return _wrapped(value.to(torch.int64), dtype)


def _binary(op: str, left: Any, right: Any, dtype: DType) -> Any:
    if op in ("min", "max"):
        return _extreme(op, left, right)
    if op in ("/", "%") and not dtype.is_float:
        if bool((right == 0).any()):
            raise Untranslated("a division by 0")
        rounded = torch.div(left, right, rounding_mode="floor")
        return rounded if op == "/" else left - right * rounded
    if op == "%":
        return torch.remainder(left, right)
    return OPERATORS[op](left, right)


def _extreme(op: str, left: Any, right: Any) -> Any:
    """The lesser or larger of two, with a half of the derivative for each of two equal ones, or
    none where one has none (D10)."""
    if not left.dtype.is_floating_point:
        return (torch.minimum if op == "min" else torch.maximum)(left, right)
    is_left = left < right if op == "min" else left > right
    both = left.requires_grad and right.requires_grad
    equal = (left + right) / 2 if both else left.detach()
    chosen = torch.where(is_left, left, torch.where(left == right, equal, right))
    return torch.where(left.isnan(), left, torch.where(right.isnan(), right, chosen))


def _without_nan(op: str) -> Callable[[Any, Any], Any]:
    def extreme(left: Any, right: Any) -> Any:
        found = _extreme(op, left, right)
        return torch.where(left.isnan(), right, torch.where(right.isnan(), left, found))

    return extreme


def _hypot(left: Any, right: Any) -> Any:
    at_zero = (left == 0) & (right == 0)
    one = torch.ones_like(left)
    length = torch.hypot(torch.where(at_zero, one, left), torch.where(at_zero, one, right))
    return torch.where(at_zero, torch.zeros_like(left), length)


def _cbrt(x: Any) -> Any:
    root = torch.sign(x.detach()) * x.detach().abs() ** (1 / 3)
    root = root - (root**3 - x.detach()) / (3 * root**2).clamp(min=1e-300)
    if x.requires_grad:  # Newton's steps have the derivatives of the root
        for _ in range(2):
            root = root - (root**3 - x) / (3 * root**2)
    return root


def _steps(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x.detach())


def _fdim(left: Any, right: Any) -> Any:
    return torch.where(left <= right, torch.zeros_like(left), left - right)  # of NaN, NaN


def _copysign(left: Any, right: Any) -> Any:
    signs = torch.copysign(torch.ones_like(left), left) * torch.copysign(
        torch.ones_like(right), right.detach()
    )
    return left * signs.detach()


OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div,
}  # fmt: skip
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": torch.eq, "!=": torch.ne, "<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "exp": torch.exp, "tanh": torch.tanh, "sin": torch.sin, "cos": torch.cos, "atan": torch.atan,
    "erf": torch.erf, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "fabs": torch.abs, "abs": torch.abs, "pow": torch.pow, "hypot": _hypot, "fdim": _fdim,
    "copysign": _copysign, "cbrt": _cbrt, "floor": _steps(torch.floor), "ceil": _steps(torch.ceil),
    "trunc": _steps(torch.trunc), "fmax": _without_nan("max"), "fmin": _without_nan("min"),
    "log": torch.log, "exp2": torch.exp2, "expm1": torch.expm1, "log2": torch.log2,
    "log10": torch.log10, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos,
    "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erfc": torch.erfc, "atan2": torch.atan2,
    "fma": lambda x, y, z: x * y + z, "fdivide": torch.div,
}  # fmt: skip
