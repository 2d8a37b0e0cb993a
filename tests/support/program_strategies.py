"""Hypothesis strategies that generate whole programs with arguments.

A program has one to four statements over inputs of all types, with affine and quasi-affine
subscripts, gathers, where clauses, bindings, pads, conditionals, casts, temporaries, reductions
of all operators with and without `!`, rank 0 tensors, and sizes from 0 up. Not every program is
legal: a TCError from the checker or from range inference is a fine outcome, which the tests that
use these strategies count as rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

FLOATS = ("float", "double", "half")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "byte", "int")
SPELLINGS = (*FLOATS, *FLOATS, *INTEGERS, "bool")
NUMPY = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "byte": "uint8",
    "int": "int32",
}
FUNCTIONS = (
    "exp", "tanh", "sin", "cos", "atan", "erf", "floor", "ceil", "trunc", "round", "fabs", "abs",
    "expf", "cbrt", "sqrt", "log1p", "rsqrt", "fmaxf", "fmin", "hypot", "copysign", "fdim", "pow",
)  # fmt: skip
BINARY_FUNCTIONS = ("fmaxf", "fmin", "hypot", "copysign", "fdim", "pow")
REDUCTIONS = ("+=!", "*=!", "min=!", "max=!", "+=", "max=", "*=", "min=")
OUTER = ("i", "j", "l")
INNER = ("r", "s")


@dataclass(frozen=True)
class Generated:
    """A program's text and its arguments; `seed` makes the data."""

    text: str
    inputs: dict[str, Any] = field(repr=False)
    seed: int

    def __repr__(self) -> str:
        shapes = {n: (np.shape(a), str(np.asarray(a).dtype)) for n, a in self.inputs.items()}
        return f"seed {self.seed}, {shapes}\n{self.text}"


@dataclass
class Scope:
    """What a statement under construction may name."""

    sizes: dict[str, int]
    tensors: dict[str, tuple[str, ...]]  # name -> the text of each dimension, defined so far
    gathers: list[str]  # int tensors of rank 1 or 2, usable in subscripts
    outer: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.outer, *self.inner)


@st.composite
def programs(draw: st.DrawFn) -> Generated:
    sizes = {
        name: draw(st.sampled_from((0, 1, 1, 2, 3, 3, 4, 5, 7)))
        for name in ("N", "M", "K")[: draw(st.integers(1, 3))]
    }
    params: list[str] = []
    scope = Scope(sizes, {}, [])
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
    declared: set[str] = set()
    for position in range(draw(st.integers(1, 4))):
        declared.update(_input(draw, scope, params, shapes, f"A{position}"))
    if draw(st.booleans()):
        dims = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=2))
        params.append(f"int32({','.join(dims)}) G")
        declared.update(dims)
        shapes["G"] = ("int32", tuple(sizes[d] for d in dims))
        scope.gathers.append(f"G/{len(dims)}")
    if not declared:
        declared.update(_input(draw, scope, params, shapes, "B", dims=("N",)))
    scope.sizes = {name: sizes[name] for name in sorted(declared)}
    body: list[str] = []
    ranks: dict[str, int] = {}
    for position in range(draw(st.integers(1, 4))):
        body.append(_statement(draw, scope, ranks, position))
    returned = [t for t in ranks if t.startswith("O")] or [next(iter(ranks))]
    text = "def f({}) -> ({}) {{\n  {}\n}}\n".format(
        ", ".join(params), ", ".join(returned), "\n  ".join(body)
    )
    seed = draw(st.integers(0, 10**6))
    return Generated(text, _data(shapes, sizes, seed), seed)


def _input(
    draw: st.DrawFn,
    scope: Scope,
    params: list[str],
    shapes: dict[str, tuple[str, tuple[int, ...]]],
    name: str,
    dims: Sequence[str] | None = None,
) -> set[str]:
    """Declares one input and returns the sizes in its type."""
    spelling = draw(st.sampled_from(SPELLINGS))
    if dims is None:
        dims = draw(st.lists(st.sampled_from([*sorted(scope.sizes), "3"]), max_size=3))
    params.append(f"{spelling}({','.join(dims)}) {name}" if dims else f"{spelling} {name}")
    shapes[name] = (spelling, tuple(scope.sizes.get(d, 3) for d in dims))
    scope.tensors[name] = tuple(dims)
    return {d for d in dims if d in scope.sizes}


def _data(
    shapes: dict[str, tuple[str, tuple[int, ...]]], sizes: dict[str, int], seed: int
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    inputs: dict[str, Any] = {}
    top = max([*sizes.values(), 1])
    for name, (spelling, shape) in shapes.items():
        dtype = np.dtype(NUMPY.get(spelling, spelling))
        if name == "G":
            low, high = (-1, top + 1) if rng.random() < 0.2 else (0, max(min(sizes.values()), 1))
            array = rng.integers(low, high, shape)
        elif dtype.kind == "f":
            array = rng.standard_normal(shape) * rng.choice([0.1, 1.0, 30.0])
            if rng.random() < 0.1:
                array = np.where(rng.random(shape) < 0.2, np.nan, array)
        elif dtype.kind == "b":
            array = rng.random(shape) < 0.5
        else:
            info = np.iinfo(dtype)
            wide = rng.random() < 0.2
            low, high = (info.min, info.max) if wide else (max(info.min, -5), 6)
            array = rng.integers(low, high, shape, dtype=dtype)
        inputs[name] = np.asarray(array).astype(dtype)
    return inputs


def _statement(draw: st.DrawFn, scope: Scope, ranks: dict[str, int], position: int) -> str:
    old = [t for t in ranks if draw(st.booleans())]
    target = (
        old[0]
        if old and draw(st.integers(0, 2)) == 0
        else f"{draw(st.sampled_from('OT'))}{position}"
    )
    rank = ranks.get(target, draw(st.integers(0, 3)))
    scope.outer = OUTER[:rank]
    reduces = draw(st.booleans())
    scope.inner = INNER[: draw(st.integers(1, 2))] if reduces else ()
    op = (
        draw(st.sampled_from(REDUCTIONS))
        if reduces
        else draw(st.sampled_from(("=", "=", "=", "+=")))
    )
    hidden = {target} if op.endswith("!") and reduces else set()
    readable = {n: d for n, d in scope.tensors.items() if n not in hidden}
    everything, scope.tensors = scope.tensors, readable
    rhs, bound = _covering(draw, scope)
    if draw(st.integers(0, 2)) > 0:
        rhs = f"{rhs} {draw(st.sampled_from('+-*'))} {_value(draw, scope, 2)}"
    clauses = []
    for name in scope.variables:
        if name not in bound or draw(st.integers(0, 9)) == 0:
            clauses.append(_range(draw, scope, name))
    if draw(st.integers(0, 9)) == 0:
        clauses.append(f"b{position} = {_value(draw, scope, 1)}")
        rhs = f"{rhs} + b{position}"
    where = f" where {', '.join(clauses)}" if clauses else ""
    subscripts = f"({','.join(scope.outer)})" if rank else ""
    ranks[target] = rank
    scope.tensors = {**everything, target: tuple(f"{target}.{axis}" for axis in range(rank))}
    return f"{target}{subscripts} {op} {rhs}{where}"


def _range(draw: st.DrawFn, scope: Scope, name: str) -> str:
    size = draw(st.sampled_from(sorted(scope.sizes)))
    low = draw(st.sampled_from(("0", "0", "0", "1", "-1" if name in scope.inner else "0")))
    high = draw(st.sampled_from((size, "3", f"{size}+1", f"({size}+1)/2", f"min({size}, 4)")))
    return f"{name} in {low}:{high}"


def _covering(draw: st.DrawFn, scope: Scope) -> tuple[str, set[str]]:
    """Reads joined by an operator that use most variables bare, and the variables used so."""
    bound: set[str] = set()
    terms = []
    candidates = [n for n, dims in scope.tensors.items() if dims]
    for _ in range(3):
        missing = [v for v in scope.variables if v not in bound]
        if not missing or not candidates:
            break
        name = draw(st.sampled_from(candidates))
        subscripts = []
        for dim in scope.tensors[name]:
            if missing and draw(st.integers(0, 4)) > 0:
                variable = missing.pop(0)
                bound.add(variable)
                extra = draw(st.sampled_from(("", "", "", " + " + draw(_offset(scope)))))
                subscripts.append(variable + extra)
            else:
                subscripts.append(_subscript(draw, scope, dim))
        terms.append(f"{name}({', '.join(subscripts)})")
    if not terms:
        return _value(draw, scope, 1), bound
    return f" {draw(st.sampled_from('+*'))} ".join(terms), bound


def _offset(scope: Scope) -> st.SearchStrategy[str]:
    return st.sampled_from((*scope.variables, "1", "0"))


def _subscript(draw: st.DrawFn, scope: Scope, dim: str) -> str:
    """A subscript for a dimension whose size is written `dim`."""
    variable = draw(st.sampled_from(scope.variables)) if scope.variables else "0"
    other = draw(st.sampled_from(scope.variables)) if scope.variables else "0"
    forms = [
        variable,
        variable,
        variable,
        variable,
        variable,
        f"{variable} + {other}",
        f"2 * {variable} + {other}",
        f"{variable} / 2",
        f"{variable} % 3",
        f"{dim} - 1 - {variable}",
        "0",
        f"min({variable}, 1)",
        f"({variable} < 2 ? {variable} : 0)",
    ]
    for gather in scope.gathers:
        name, rank = gather.split("/")
        forms.append(f"{name}({', '.join([variable, other][: int(rank)])})")
    return draw(st.sampled_from(forms))


def _value(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return _leaf(draw, scope)
    a = _value(draw, scope, depth - 1)
    b = _value(draw, scope, depth - 1)
    kind = draw(
        st.sampled_from(("arith", "arith", "min", "if", "call", "cast", "neg", "pad", "div"))
    )
    match kind:
        case "arith":
            return f"({a} {draw(st.sampled_from('+-*'))} {b})"
        case "div":
            return f"({a} {draw(st.sampled_from('/%'))} {b})"
        case "min":
            return f"{draw(st.sampled_from(('min', 'max')))}({a}, {b})"
        case "if":
            return f"({_condition(draw, scope, a, b)} ? {a} : {b})"
        case "call":
            name = draw(st.sampled_from(FUNCTIONS))
            return f"{name}({a}, {b})" if name in BINARY_FUNCTIONS else f"{name}({a})"
        case "cast":
            return f"{draw(st.sampled_from(SPELLINGS))}({a})"
        case "neg":
            return f"{draw(st.sampled_from(('-', '!', '+')))}({a})"
        case _:
            return f"pad({_read(draw, scope)}, {draw(st.sampled_from(('0', '1', a)))})"


def _condition(draw: st.DrawFn, scope: Scope, a: str, b: str) -> str:
    compare = draw(st.sampled_from(("<", "<=", "==", "!=", ">", ">=")))
    if scope.variables and draw(st.booleans()):
        left = draw(st.sampled_from(scope.variables))
        right = draw(st.sampled_from((*scope.variables, "1", "2", *sorted(scope.sizes))))
        return f"{left} {compare} {right}"
    joined = draw(st.sampled_from(("", "", "&&", "||")))
    first = f"{a} {compare} {b}"
    return f"{first} {joined} {_leaf(draw, scope)}" if joined else first


def _leaf(draw: st.DrawFn, scope: Scope) -> str:
    kind = draw(st.integers(0, 7))
    if kind <= 3:
        return _read(draw, scope)
    if kind == 4 and scope.variables:
        return draw(st.sampled_from(scope.variables))
    if kind == 5:
        return draw(st.sampled_from(sorted(scope.sizes)))
    return draw(st.sampled_from(("0", "1", "2", "0.5", "3.0", "1e-3", "7", "0x1F")))


def _read(draw: st.DrawFn, scope: Scope) -> str:
    if not scope.tensors:
        return "1"
    name = draw(st.sampled_from(sorted(scope.tensors)))
    dims = scope.tensors[name]
    if not dims:
        return name
    return f"{name}({', '.join(_subscript(draw, scope, dim) for dim in dims)})"
