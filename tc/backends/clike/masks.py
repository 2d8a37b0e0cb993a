"""Vectors of bool in C: masks (`types.mask_type`), of the bits per lane that their uses want."""

from __future__ import annotations

from tc.backends.clike.dialect import ATOM, BITS, CHOICE, OR, SUM, UNARY, Context, Printed
from tc.backends.clike.lane_helpers import shuffle_name
from tc.backends.clike.scalars import at_least, sum_text, text_of
from tc.backends.clike.types import MAX_COMPARED_BYTES, c_type, mask_type, memory_type
from tc.backends.clike.vector_helpers import COMPARISONS
from tc.dtypes import BOOL, INT64, UINT8, DType, limits
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import LaneOffsets, lane_offsets
from tc.kernel.intervals import interval

_NAMES = {op: name for name, op in COMPARISONS.items()}


def mask_text(expr: ir.Expr, bits: int, context: Context) -> str:
    """The text of a vector of bool as a mask of `bits` bits per lane."""
    return mask_printed(expr, bits, context)[0]


def mask_at_least(expr: ir.Expr, bits: int, level: int, context: Context) -> str:
    text, own = mask_printed(expr, bits, context)
    return text if own >= level else f"({text})"


# --- how many bits ----------------------------------------------------------------------------


def bits_of(expr: ir.Expr, context: Context) -> int:
    """The bits per lane in which a mask is computed."""
    return _own_bits(expr, context) or min(64, max(8, 512 // expr.dtype.lanes))


def bits_of_local(let: ir.Let, later: tuple[ir.Stmt, ...], context: Context) -> int:
    """The bits per lane of a local of bools: as its first use in the statements after it has them,
    else as its own value has them."""
    return _bits_wanted(let.var, later) or bits_of(let.value, context)


def _bits_wanted(name: str, stmts: tuple[ir.Stmt, ...]) -> int | None:
    for stmt in ir.statements(stmts):
        match stmt:
            case ir.Store(mask=ir.Var(name=found), value=value) if found == name:
                return memory_type(value.dtype).bits
        for expr in ir.expressions(stmt):
            match expr:
                case ir.Load(mask=ir.Var(name=found), dtype=dtype) if found == name:
                    return memory_type(dtype).bits
                case ir.Select(condition=ir.Var(name=found), dtype=dtype) if (
                    found == name and dtype.scalar != BOOL
                ):
                    return dtype.bits
    return None


def _own_bits(expr: ir.Expr, context: Context) -> int | None:
    """As `bits_of`, but None for masks that are as easily computed in any."""
    match expr:
        case ir.Var(name=name):
            return context.masks[name]
        case ir.Load():
            return UINT8.bits
        case ir.Compare(left=left):
            if _distance(expr, context) is not None:
                return None
            return _own_bits(left, context) if left.dtype.scalar == BOOL else left.dtype.bits
        case ir.Cast(operand=operand) if operand.dtype.scalar != BOOL:
            return operand.dtype.bits
        case ir.Const() | ir.Broadcast():
            return None
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            vector = (condition,) if condition.dtype.lanes > 1 else ()
            sides: tuple[ir.Expr, ...] = (then, otherwise, *vector)
        case _:
            sides = ir.children(expr)
    return next((bits for side in sides if (bits := _own_bits(side, context))), None)


# --- the text ---------------------------------------------------------------------------------


def mask_printed(expr: ir.Expr, bits: int, context: Context) -> Printed:
    dtype = mask_type(bits, expr.dtype.lanes)
    own = _own_bits(expr, context)
    if own is not None and own != bits:
        return f"__builtin_convertvector({mask_text(expr, own, context)}, {c_type(dtype)})", ATOM
    match expr:
        case ir.Var(name=name):
            return context.names.variables[name], ATOM
        case ir.Const(value=value):
            name = c_type(dtype)
            return f"tc_broadcast_{name}(-1)" if value else f"({name}){{0}}", ATOM
        case ir.Broadcast(operand=operand):
            test = at_least(operand, OR, context)
            return f"tc_broadcast_{c_type(dtype)}({test} ? -1 : 0)", ATOM
        case ir.Load():
            stored = memory_type(expr.dtype)
            bytes_ = text_of(ir.Load(expr.buffer, expr.indices, stored, expr.mask), context)
            return f"({c_type(dtype)})({bytes_} != ({c_type(stored)}){{0}})", UNARY
        case ir.Cast(operand=operand) if operand.dtype.scalar == BOOL:
            return mask_printed(operand, bits, context)
        case ir.Cast(operand=operand):
            zero = ir.Const(0.0 if operand.dtype.is_float else 0, operand.dtype)
            return _compare(ir.Compare("!=", operand, zero, expr.dtype), dtype, context)
        case ir.Compare():
            return _compare(expr, dtype, context)
        case ir.Logical(op="!", operands=(operand,)):
            return f"~{mask_at_least(operand, bits, UNARY, context)}", UNARY
        case ir.Logical(op=op, operands=(left, right)):
            return _on_masks("&" if op == "&&" else "|", left, right, bits, context)
        case ir.Binary(op=op, left=left, right=right):
            word = {"min": "&", "max": "|"}.get(op, op)
            return _on_masks(word, left, right, bits, context)
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            chosen = mask_text(then, bits, context), mask_text(otherwise, bits, context)
            if condition.dtype.lanes == 1:
                test = at_least(condition, OR, context)
                return f"{test} ? ({chosen[0]}) : ({chosen[1]})", CHOICE
            mask = mask_text(condition, bits, context)
            return f"tc_select_{c_type(dtype)}({mask}, {', '.join(chosen)})", ATOM
        case ir.Shuffle(left=left, right=right, lanes=lanes):
            name = shuffle_name(mask_type(bits, left.dtype.lanes), lanes)
            sides = mask_text(left, bits, context), mask_text(right, bits, context)
            return f"{name}({', '.join(sides)})", ATOM
        case _:
            raise ir.unknown_node(expr)  # type: ignore[arg-type]  # those that are never bool


def _on_masks(op: str, left: ir.Expr, right: ir.Expr, bits: int, context: Context) -> Printed:
    texts = (mask_at_least(side, bits, UNARY, context) for side in (left, right))
    return f" {op} ".join(texts), BITS


def _compare(expr: ir.Compare, mask: DType, context: Context) -> Printed:
    op, left, right = expr.op, expr.left, expr.right
    if (found := _distance(expr, context)) is not None:
        return _compare_lanes(op, found, mask, context)
    if left == right and not left.dtype.is_float:  # of which compilers warn
        return mask_printed(
            ir.Const(op in ("==", "<=", ">="), BOOL.vector(mask.lanes)), mask.bits, context
        )
    if left.dtype.scalar == BOOL:
        return _compare_masks(op, left, right, mask.bits, context)
    if left.dtype.bytes * left.dtype.lanes > MAX_COMPARED_BYTES:
        texts = f"{text_of(left, context)}, {text_of(right, context)}"
        return f"tc_{_NAMES[op]}_{c_type(left.dtype)}({texts})", ATOM
    text = f"{at_least(left, SUM, context)} {op} {at_least(right, SUM, context)}"
    return f"({c_type(mask)})({text})", UNARY


def _compare_masks(op: str, left: ir.Expr, right: ir.Expr, bits: int, context: Context) -> Printed:
    """False is less than true, though their masks are 0 and -1."""
    texts = [mask_at_least(side, bits, UNARY, context) for side in (left, right)]
    if op in (">", ">="):
        texts.reverse()
    match op:
        case "!=":
            return f"{texts[0]} ^ {texts[1]}", BITS
        case "==":
            return f"~({texts[0]} ^ {texts[1]})", UNARY
        case "<" | ">":
            return f"~{texts[0]} & {texts[1]}", BITS
        case _:
            return f"~{texts[0]} | {texts[1]}", BITS


def _distance(expr: ir.Compare, context: Context) -> LaneOffsets | None:
    """The left index minus the right one where that is a number and a step from lane to lane;
    None where it is not, or where something in it might wrap around."""
    sides, lanes = (expr.left, expr.right), expr.dtype.lanes
    if expr.left.dtype.scalar != INT64:
        return None
    places = [lane_offsets((side,), (1,), lanes, context.scope.lets) for side in sides]
    reach = sum(_reach(place, context) for place in places)
    if any(place.vectors.terms for place in places) or reach > limits(INT64)[1]:
        return None
    return lane_offsets(sides, (1, -1), lanes, context.scope.lets)


def _reach(place: LaneOffsets, context: Context) -> int:
    """No sum of terms of a place is farther from 0."""
    terms = (
        abs(factor) * max(map(abs, interval(term, context.scope.bounds)))
        for term, factor in place.scalars.terms.items()
    )
    return abs(place.scalars.constant) + max(map(abs, place.distances)) + sum(terms)


def _compare_lanes(op: str, place: LaneOffsets, mask: DType, context: Context) -> Printed:
    """The distance of each lane from lane 0 against minus that of lane 0: in the bits of the mask
    if those suffice, for a number out of their range is as good as the nearest in it."""
    step = place.distances[1]
    farthest = abs(step) * (mask.lanes - 1)
    narrow = (b for b in (8, 16, 32, 64) if b >= mask.bits and farthest < 2 ** (b - 1) - 1)
    lane = mask_type(next(narrow), mask.lanes)
    name = c_type(lane)
    family = "broadcast" if lane.bits == 64 else "nearest"
    terms = {**place.scalars.terms, ir.Const(1, INT64): place.scalars.constant}
    number = sum_text(tuple(terms), [-factor for factor in terms.values()], context)
    sides = f"tc_ramp_{name}(0, {step})", f"tc_{family}_{name}({number})"
    if lane.bytes * lane.lanes > MAX_COMPARED_BYTES:
        text, level = f"tc_{_NAMES[op]}_{name}({', '.join(sides)})", ATOM
    else:
        text, level = f"({name})({f' {op} '.join(sides)})", UNARY
    if lane.bits == mask.bits:
        return text, level
    return f"__builtin_convertvector({text}, {c_type(mask)})", ATOM
