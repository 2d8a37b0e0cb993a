"""Loops that GCC makes wrong code of, and the lines that keep it from that.

For AVX-512, GCC before 14 (12.4 and 13.2 are mended) makes one masked load of a loop over a load
under a condition, and where the mask is a constant, as in `for (i < 16) if (i < 7) ... a[i]`, a
load of all lanes: past the end of the array. It does so after it has joined both sides of a
condition in a loop, which a pragma forbids.

GCC (12.2; others were not tried) also makes one store under a mask of such a loop, and where what
it stores is half of a vector of 64 bytes, `vextracti64x4`, which touches the lanes that the mask
leaves out: past the end of the array, and on processors of Intel the process ends. Functions on
vectors with a mask are such loops where they have no instructions of their own.

In loops that read every other element backwards, as `a[i * -2]`, GCC (12.2; others were not tried)
makes one load of a whole vector, which begins an element before the last that is read: it may be
before the array. It does so for loops around others, too, and where the load is in an inner one.

Loops that add to several integers in registers become wrong vectors (12.2; others were not tried),
signed and unsigned alike, also where sums wrap by -fwrapv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tc.dtypes import BOOL
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.ir import own_expressions
from tc.kernel.walk import assigned, every_statement, read_names

GUARDED = """\
#if defined(__AVX512VL__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
// or these versions read beyond the ends of arrays
#pragma GCC optimize ("no-tree-loop-if-convert")
#endif"""

MASKED = """\
#if defined(__AVX512VL__) && !(defined(__AVX512BW__) && defined(__AVX512DQ__))
#if defined(__GNUC__) && !defined(__clang__)
// or elements are touched that a mask leaves out
#pragma GCC optimize ("no-tree-loop-if-convert")
#endif
#endif"""
"""Other processors have instructions for these functions, or none that GCC could choose."""

BACKWARDS = """\
#if defined(__GNUC__) && !defined(__clang__)
// or elements before arrays are read that are read backwards
#pragma GCC optimize ("no-tree-loop-vectorize")
#endif"""

INTEGERS = """\
#if defined(__GNUC__) && !defined(__clang__)
// or version 12 makes wrong sums of integers
#pragma GCC optimize ("no-tree-loop-vectorize")
#endif"""

_Steps: TypeAlias = "Counter[str]"

FARTHEST_BACK = -63
"""The longest step, in elements, of loads backwards that may be made one vector."""


def pragmas(kernel: ir.Kernel) -> Iterator[str]:
    """What a kernel's text begins with."""
    if _has_loop_with_guarded_load(kernel):
        yield GUARDED
    if _has_masked_lanes(kernel):
        yield MASKED
    if _adds_integers(kernel):
        yield INTEGERS
    elif _reads_backwards(kernel):
        yield BACKWARDS


def _adds_integers(kernel: ir.Kernel) -> bool:
    """Whether it may add to integers in turn, in locals or in memory."""
    for stmt in every_statement(kernel):
        match stmt:
            case ir.Set(value=value) if _is_whole(value):
                return True
            case ir.Store(buffer=name, value=value) if _is_whole(value):
                if name in read_names(value):
                    return True
    return False


def _reads_backwards(kernel: ir.Kernel) -> bool:
    """Whether loops may read single elements of an argument backwards, with gaps between them."""
    strides = {buffer.name: buffer.strides for buffer in kernel.arguments}
    changing = assigned(kernel)
    locals_: dict[str, _Steps] = {}
    for stmt in every_statement(kernel):
        match stmt:
            case ir.For(var=name):
                locals_.pop(name, None)  # that was of another block
            case ir.Let(var=name, value=value) if name not in changing and _is_whole(value):
                locals_[name] = _steps((value,), (1,), locals_)
        for load in ir.expressions(stmt):
            if isinstance(load, ir.Load) and load.dtype.lanes == 1 and load.buffer in strides:
                steps = _steps(load.indices, strides[load.buffer], locals_)
                if any(FARTHEST_BACK <= step < -1 for step in steps.values()):
                    return True
    return False


def _steps(
    indices: tuple[ir.Expr, ...], strides: tuple[int, ...], locals_: Mapping[str, _Steps]
) -> _Steps:
    """How much farther in memory an access is where a variable is greater by one."""
    steps: _Steps = Counter()
    for term, factor in lane_offsets(indices, strides, 1, {}).scalars.terms.items():
        match term:
            case ir.Var(name=name):
                for inner, step in locals_.get(name, Counter({name: 1})).items():
                    steps[inner] += factor * step
            case ir.Load():
                pass  # not known to anybody
            case _:
                operands = filter(_is_whole, ir.children(term))
                found = [_steps((operand,), (factor,), locals_) for operand in operands]
                for inner in {name for each in found for name in each}:
                    steps[inner] += max(FARTHEST_BACK, min(each[inner] for each in found))
    return steps


def _is_whole(expr: ir.Expr) -> bool:
    return expr.dtype.lanes == 1 and not expr.dtype.is_float


def _has_masked_lanes(kernel: ir.Kernel) -> bool:
    """Whether vectors are loaded or stored under masks."""
    for stmt in every_statement(kernel):
        if isinstance(stmt, ir.Store) and stmt.mask is not None:
            return True
        if any(isinstance(e, ir.Load) and e.mask is not None for e in ir.expressions(stmt)):
            return True
    return False


def _has_loop_with_guarded_load(kernel: ir.Kernel) -> bool:
    """Whether a loop has loads of single elements under a condition on its indices."""
    loops = (s for region in kernel.regions for s in ir.statements(region) if isinstance(s, ir.For))
    inside = {id(stmt): stmt for loop in loops for stmt in ir.statements(loop.body)}
    return any(map(_has_guarded_load, inside.values()))


def _has_guarded_load(stmt: ir.Stmt) -> bool:
    if isinstance(stmt, ir.If) and _is_of_indices(stmt.condition):
        branches = (*ir.statements(stmt.then), *ir.statements(stmt.otherwise))
        if any(_has_scalar_load(expr) for inner in branches for expr in _expressions(inner)):
            return True
    return any(_has_guarded_operand(expr) for own in _expressions(stmt) for expr in ir.walk(own))


def _has_guarded_operand(expr: ir.Expr) -> bool:
    """Whether an operand is a load and is evaluated only under a condition on indices."""
    match expr:
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            sides: tuple[ir.Expr, ...] = (then, otherwise)
        case ir.Logical(op="&&" | "||", operands=(condition, *rest)):
            sides = tuple(rest)
        case _:
            return False
    return _is_of_indices(condition) and any(map(_has_scalar_load, sides))


def _has_scalar_load(expr: ir.Expr) -> bool:
    return any(isinstance(part, ir.Load) and part.dtype.lanes == 1 for part in ir.walk(expr))


def _is_of_indices(condition: ir.Expr) -> bool:
    """Whether it may be known before the loop runs; locals are taken to be."""
    if condition.dtype.lanes > 1:
        return False
    for part in ir.walk(condition):
        match part:
            case ir.Compare() if not any(isinstance(inner, ir.Load) for inner in ir.walk(part)):
                return True
            case ir.Var(dtype=dtype) if dtype == BOOL:
                return True
    return False


def _expressions(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    return own_expressions(stmt) if isinstance(stmt, ir.Store | ir.Let | ir.Set | ir.If) else ()
