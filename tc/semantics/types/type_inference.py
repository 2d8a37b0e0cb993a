"""Types of expressions and of tensors (Y1, Y2, Y3), and expressions of literals alone, folded
exactly (Y1).

A type is a DType, or Weak where literals, sizes, extents and index variables have met nothing
else yet, or None while the type of a tensor that the expression reads is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tc.builtins import BIT_FUNCTIONS, BUILTINS
from tc.builtins.operators import ARITHMETIC, BITWISE, ON_BITS, SHIFTS
from tc.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    DType,
    Type,
    Weak,
    arithmetic,
    fits,
    join,
    promote,
)
from tc.errors import CheckError, Notes
from tc.semantics import program as p
from tc.semantics import resolved as r
from tc.semantics.suggest import element, indices
from tc.semantics.types.bits import COMPLEMENT, type_of_bits

Constants: TypeAlias = MutableMapping[int, int | float | None]
"""Values of nodes by identity."""

MAX_INTEGER_BITS = 256
MAX_DOUBLE = 1.7976931348623157e308


def constant(expr: p.Expr, memo: Constants) -> int | float | None:
    """The value of an expression of literals alone, integers exactly; None for any other.

    Division by zero and results beyond the doubles are left to the program.
    """
    match expr:
        case p.Literal(value=value):
            return value
        case p.Unary() | p.Binary():
            if id(expr) not in memo:
                memo[id(expr)] = _value(expr, memo)
            return memo[id(expr)]
    return None


def integer_literals(expr: p.Expr) -> Iterator[int]:
    """The values of the whole-number constants that a weak expression is made of."""
    memo: Constants = {}
    stack = [expr]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        value = constant(node, memo)
        if isinstance(value, int):
            yield value
            continue
        match node:
            case p.Select(then=then, otherwise=otherwise):
                stack += [then, otherwise]
            case p.Convert() | p.Read() | p.Compare() | p.Logical() | p.Bits():
                pass
            case _:
                stack += p.children(node)


def _value(expr: p.Unary | p.Binary, memo: Constants) -> int | float | None:
    match expr:
        case p.Unary(op=op, operand=operand):
            inner = constant(operand, memo)
            if op == COMPLEMENT:
                return ~inner if isinstance(inner, int) else None
            return -inner if inner is not None and op == "-" else inner
        case p.Binary(op=op, left=left, right=right):
            first = constant(left, memo)
            second = None if first is None else constant(right, memo)
            return None if first is None or second is None else _fold(op, first, second)


def _fold(op: str, left: int | float, right: int | float) -> int | float | None:
    if op in ON_BITS:
        return _fold_bits(op, left, right)
    if isinstance(left, float) or isinstance(right, float):
        if abs(left) > MAX_DOUBLE or abs(right) > MAX_DOUBLE:
            return None
        left, right = float(left), float(right)
    if op in ("/", "%") and right == 0:
        return None
    result: int | float = (
        left / right if op == "/" and isinstance(left, float) else ARITHMETIC[op](left, right)
    )
    small = (
        result.bit_length() <= MAX_INTEGER_BITS
        if isinstance(result, int)
        else abs(result) < MAX_DOUBLE
    )
    return result if small else None


def _fold_bits(op: str, left: int | float, right: int | float) -> int | None:
    """None where the operation is an error, as a shift by too many bits is (Y11)."""
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    if op in SHIFTS and not 0 <= right < INT64.bits:
        return None
    result: int = ON_BITS[op](left, right)
    return result if result.bit_length() <= MAX_INTEGER_BITS else None


Memo = MutableMapping[int, Type | None]
"""Types of the nodes of one statement, by identity; uses of a binding share them."""


@dataclass(frozen=True, slots=True)
class Types:
    """The element type of every tensor, and per statement the types of its nodes."""

    tensors: Mapping[str, DType]
    nodes: tuple[Memo, ...]


def infer_types(flat: r.Flat) -> Types:
    """The element types of a flattened def.

    The type of an output or temporary is its declared one, or the join of the right-hand sides
    of all statements that define it, in text order (Y3): the least solution, since a right-hand
    side may read the tensor itself. Where that leaves tensors weak, the first takes the type of
    a literal that stands alone, and so on. Raises CheckError (Y3).
    """
    tensors: dict[str, Type | None] = {t.name: t.declared for t in flat.tensors.values()}
    open_tensors = [name for name, dtype in tensors.items() if dtype is None]
    definitions = [d for statement in flat.statements for d in statement.definitions]
    statement_of = [s for s, each in enumerate(flat.statements) for _ in each.definitions]
    defining = {
        name: [d for d, definition in enumerate(definitions) if definition.target == name]
        for name in open_tensors
    }
    nodes: list[Memo] = [{} for _ in flat.statements]
    terms: list[Type | None] = [None] * len(definitions)
    stale = set(range(len(flat.statements)))
    readers = _readers(flat.statements, open_tensors)
    settled: dict[str, DType] = {}
    first_defined = sorted(open_tensors, key=lambda name: defining[name][0])
    budget = 8 * len(flat.statements) + 64
    while True:
        while stale:
            budget -= 1
            affected: dict[str, None] = {}
            for s in stale:
                nodes[s] = {}
            for d, definition in enumerate(definitions):
                if (s := statement_of[d]) in stale:
                    found = type_of(definition.rhs, tensors, nodes[s])
                    terms[d] = term_type(definition.op, found)
                    affected[definition.target] = None
            stale = set()
            for name in affected:
                if name not in defining:
                    continue
                joined = _join([settled.get(name), *(terms[d] for d in defining[name])])
                if any(definitions[d].op != "=" for d in defining[name]) and joined is not None:
                    joined = joined if joined == BOOL else arithmetic(joined)
                if budget < 0:
                    joined = _join([tensors[name], joined])
                if joined is not None and joined != tensors[name]:
                    tensors[name] = joined
                    stale |= readers[name]
        seed = _seed(first_defined, defining, definitions, tensors, flat.statements)
        if seed is None:
            break
        name, dtype, is_final = seed
        tensors[name] = dtype
        stale = set(readers[name])
        if is_final and isinstance(dtype, DType):
            settled[name] = dtype
    known = {name: found for name, found in tensors.items() if isinstance(found, DType)}
    _check_arguments(flat.arguments, known)
    return Types(known, tuple(nodes))


def type_of(expr: p.Expr, tensors: Mapping[str, Type | None], memo: Memo) -> Type | None:
    """The type of an expression; None where a tensor of unknown type decides it.

    Numbers are weak; comparisons are BOOL; arithmetic promotes; `?:`, min, max and pad join (Y2).
    """
    key = id(expr)
    if key in memo:
        return memo[key]
    memo[key] = found = _type_of(expr, tensors, memo)
    return found


def _type_of(expr: p.Expr, tensors: Mapping[str, Type | None], memo: Memo) -> Type | None:
    types = []
    for operand in p.children(expr):
        types.append(type_of(operand, tensors, memo))
    match expr:
        case p.Read():
            found = tensors[expr.tensor]
            is_float = isinstance(found, DType) and found.is_read_as_float32
            return FLOAT32 if is_float else found
        case p.Index() | p.Size() | p.Extent():
            return Weak.SIZE
        case p.Literal(value=value):
            return Weak.FLOAT if isinstance(value, float) else Weak.LITERAL
        case p.Compare() | p.Logical():
            return BOOL
        case p.Convert():
            return expr.dtype
        case p.Unary() if r.is_use(expr):
            return types[0]
        case p.Bits():
            return type_of_bits(expr, types[0])
    parts = _parts(expr, types)
    known = [found for found in parts if found is not None]
    return _of_parts(expr, known) if len(known) == len(parts) else None


def _parts(expr: p.Expr, operands: Sequence[Type | None]) -> Sequence[Type | None]:
    """Of the types of operands, those that the type of the expression follows from."""
    if isinstance(expr, p.Binary) and expr.op in SHIFTS:
        return operands[:1]
    return operands[1:] if isinstance(expr, p.Select) else operands


def _of_parts(expr: p.Expr, types: Sequence[Type]) -> Type:
    """What comes of several types; a function computes in a floating type, FLOAT32 for integers,
    but `abs` keeps its type (Y2)."""
    if not isinstance(expr, p.Call):
        joins = ("min", "max", *BITWISE)
        arithmetic = isinstance(expr, p.Unary | p.Binary) and expr.op not in joins
        return (promote if arithmetic else join)(types[0], types[-1])
    if expr.function in BIT_FUNCTIONS:
        return INT32
    result = types[0]
    for found in types:
        result = promote(result, found)
    if BUILTINS[expr.function].rule == "keep":
        return result
    if isinstance(result, Weak):
        return Weak.FLOAT
    return result if result.is_float else FLOAT32


def term_type(op: str, rhs: Type | None) -> Type | None:
    """The type of what a statement stores: terms of + and * are arithmetic (Y2), and those of every
    reduction are to floats of 8 bits (Y8)."""
    if isinstance(rhs, DType) and (op in ("+", "*") or (op != "=" and rhs.is_read_as_float32)):
        return arithmetic(rhs)
    return rhs


def _join(types: Iterable[Type | None]) -> Type | None:
    """The join of the types that are known, pairwise in order."""
    result: Type | None = None
    for found in types:
        if found is not None:
            result = found if result is None else join(result, found)
    return result


def _readers(statements: Sequence[r.FlatStatement], names: Iterable[str]) -> dict[str, set[int]]:
    readers: dict[str, set[int]] = {name: set() for name in names}
    for s, statement in enumerate(statements):
        for tensor in statement.reads:
            if tensor in readers:
                readers[tensor].add(s)
    return readers


def _seed(
    names: Sequence[str],
    defining: Mapping[str, Sequence[int]],
    definitions: Sequence[r.Definition],
    tensors: Mapping[str, Type | None],
    statements: Sequence[r.FlatStatement],
) -> tuple[str, Type, bool] | None:
    """The next tensor to decide when no other type follows, its type, and whether the type is
    final.

    A tensor defined only by way of itself (`C(i) = b * C(i)`) takes the type that its right-hand
    sides have without the tensor; a tensor that is still weak takes the type of a literal alone.
    """
    for name in names:
        if tensors[name] is None:
            own = [definitions[d] for d in defining[name]]
            guess = _join(
                term_type(d.op, _type_without_unknown(d.rhs, tensors, {}, {})) for d in own
            )
            if guess is not None:
                return name, guess, False
    for name in names:
        if tensors[name] is None:
            raise _undecided(name, statements)
    for name in names:
        found = tensors[name]
        if isinstance(found, Weak):
            return name, _alone(found, [definitions[d].rhs for d in defining[name]]), True
    return None


def _type_without_unknown(
    expr: p.Expr, tensors: Mapping[str, Type | None], memo: Memo, guesses: Memo
) -> Type | None:
    """The type of an expression without its operands of unknown type; None if none is left."""
    known = type_of(expr, tensors, memo)
    if known is not None or id(expr) in guesses:
        return known or guesses[id(expr)]
    args = () if isinstance(expr, p.Read) else p.children(expr)
    found = [_type_without_unknown(arg, tensors, memo, guesses) for arg in args]
    types = [dtype for dtype in _parts(expr, found) if dtype is not None]
    guesses[id(expr)] = _of_parts(expr, types) if types else None
    return guesses[id(expr)]


def _alone(weak: Weak, values: Iterable[p.Expr]) -> DType:
    """The type of a weak value that meets nothing else (Y1)."""
    if weak is Weak.FLOAT:
        return FLOAT32
    literals = (literal for value in values for literal in integer_literals(value))
    return INT32 if all(fits(literal, INT32) for literal in literals) else INT64


def _undecided(tensor: str, statements: Sequence[r.FlatStatement]) -> CheckError:
    statement, name = next(
        (s, d.target_text) for s in statements for d in s.definitions if d.target == tensor
    )
    rank = len(statement.subscripts)
    dims = f"({', '.join('NMKLPQ'[:rank])})" if rank else ""
    return CheckError(
        f"the element type of '{name}' follows from nothing but '{name}' itself",
        rule="Y3",
        span=statement.span,
        repair=f"declare it: -> (float{dims} {name}), or cast: float({element(name, rank)})",
        notes=tuple((call, "in this call") for call in reversed(statement.calls)),
    )


def _check_arguments(arguments: Iterable[r.Argument], tensors: Mapping[str, DType]) -> None:
    """Raise for an argument of a call of another element type than declared (Y3)."""
    for argument in arguments:
        found = tensors[argument.tensor]
        if found == argument.declared:
            continue
        text = argument.text
        copy = f"{text}_{argument.declared}"
        left = f"{copy}({', '.join(indices(argument.rank))})" if argument.rank else copy
        notes: Notes = (
            (argument.parameter_span, "the parameter is declared here"),
            *((call, "in this call") for call in reversed(argument.calls)),
        )
        raise CheckError(
            f"the parameter '{argument.parameter}' of '{argument.callee}' is "
            f"{argument.declared}, and '{text}' is {found}",
            rule="Y3",
            span=argument.span,
            repair=f"{left} = {argument.declared}({element(text, argument.rank)}), before the "
            f"call, and pass {copy}",
            notes=notes,
        )
