"""The types and values of expressions (Y, G7, G9, E4), and which of them are affine (G2, Y11)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tc.frontend import ast
from tests.fuzz.places import arithmetic
from tests.fuzz.places.arithmetic import (
    BITS,
    BITWISE,
    COMPARED,
    SHIFTS,
    WEAK,
    WHOLE,
    Number,
    combined,
    numpy_name,
    promoted,
    wrapped,
)
from tests.fuzz.places.outcomes import (
    AT_RUN_TIME,
    EITHER,
    UNTYPED,
    Array,
    Fails,
    Open,
    OutOfBounds,
    Place,
    Point,
    Reading,
    inside,
)
from tests.fuzz.places.trees import FUNCTIONS, Form, reads_below

CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
"""Weak floating values (E4)."""

COUNTS = ("popc", "clz")
"""Functions that count bits in the width of their argument's type (Y12)."""


class Expressions:
    """Tensors, and what expressions make of them."""

    def __init__(self, initial: Mapping[str, Array], reading: Reading) -> None:
        self.initial, self.reading = initial, reading
        self.exact = True
        self.sizes: dict[str, int] = {}
        self.dimensions: dict[str, tuple[str, int]] = {}
        """Sizes of called defs: dimensions of the tensors that are passed."""
        self.held: dict[str, dict[Place, Number]] = {}
        self.types: dict[str, str] = {}
        self.shapes: dict[str, Place] = {}
        self.targets: set[str] = set()
        self.constants: set[str] = set()
        """Integers that are inputs: they count as sizes do."""
        self.own: tuple[str, ...] = ()
        self.touched: set[tuple[str, Place]] = set()
        self.form: Form | None = None
        """The statement that is executed."""
        self.is_typed = False
        self._types: dict[tuple[int, bool], str] = {}
        self._reads: dict[int, list[tuple[str, tuple[ast.Expr, ...]]]] = {}

    def is_size(self, name: str) -> bool:
        return name in self.sizes or name in self.dimensions

    def is_known(self, name: str) -> bool:
        return self.is_size(name) or name in self.types or name in self.targets

    def size(self, name: str) -> int:
        if name in self.sizes:
            return self.sizes[name]
        tensor, axis = self.dimensions[name]
        if tensor not in self.shapes:
            raise Open("N4: a size of a tensor whose shape is not known yet")
        return self.shapes[tensor][axis]

    def reads_any(self, e: ast.Expr, names: tuple[str, ...]) -> bool:
        return any(name in names for name, _ in self.reads_of(e))

    def reads_of(self, e: ast.Expr) -> list[tuple[str, tuple[ast.Expr, ...]]]:
        """The tensors read, with subscripts."""
        found = self._reads.get(id(e))
        if found is None:
            found = self._reads[id(e)] = [
                (name, args or ())
                for name, args in reads_below(e)
                if args is not None or self._is_read(name)
            ]
        return found

    def _is_read(self, name: str) -> bool:
        is_tensor = name in self.types or name in self.targets
        return is_tensor and not self.is_size(name) and name not in self.constants

    # --- affine -------------------------------------------------------------------------------

    def is_affine(self, e: ast.Expr, form: Form) -> bool:
        """Whether ranges could follow from the expression (G2)."""
        return not self.reads_of(e) and all(self._is_linear(x, form) for x in ast.walk(e))

    def _is_linear(self, e: ast.Expr, form: Form) -> bool:
        match e:
            case ast.Unary(op="~") | ast.Apply(name=ast.Name(text="popc" | "clz")):
                return not form.variables_of(e)
            case ast.Binary(op=op, left=left, right=right) if op in (*BITWISE, *SHIFTS):
                return is_factor(op, right) or not form.variables_of(e)
            case ast.Binary(op="*" | "/" | "%" as op, left=left, right=right):
                varies = [bool(form.variables_of(x)) for x in (left, right)]
                return not (varies[1] and (varies[0] or op != "*"))
        return True

    # --- types --------------------------------------------------------------------------------

    def type_of(self, e: ast.Expr, wide: bool = False) -> str:
        """The type of a value; "?" where it is that of a tensor not known yet. In a subscript
        (`wide`) integers are int64 (Y9)."""
        key = id(e), wide
        if key in self._types:
            return self._types[key]
        type = self._type_of(e)
        type = "int64" if wide and type in WHOLE else type
        if self.is_typed:
            self._types[key] = type
        return type

    def _type_of(self, e: ast.Expr) -> str:
        match e:
            case ast.Number(value=value):
                return "literal" if isinstance(value, int) else "real"
            case ast.Name(text=text):
                if self.is_size(text):
                    return "index"
                return self.types.get(text, "?" if text in self.targets else "index")
            case ast.Dim():
                return "index"
            case ast.Apply(name=name, args=args):
                if name.text in CONSTANTS:
                    return "real"
                if name.text in COUNTS:
                    return "int32"
                if name.text == "abs":
                    return promoted(self._type_of(args[0]), "literal")
                if name.text in ("min", "max", "pad"):
                    return self._joined(args[0], args[1])
                return self.types.get(name.text, "?")
            case ast.Cast(spelling=spelling):
                return numpy_name(spelling)
            case ast.Unary(op=op, operand=operand):
                inner = self._type_of(operand)
                return "bool" if op == "!" else "int32" if inner == "bool" else inner
            case ast.Binary(op=op, left=left, right=right):
                if op in COMPARED or op in ("&&", "||"):
                    return "bool"
                if op in SHIFTS:
                    return self._type_of(left)
                return self._joined(left, right, op in BITWISE)
            case ast.Conditional(then=then, otherwise=otherwise):
                return self._joined(then, otherwise)

    def _joined(self, left: ast.Expr, right: ast.Expr, keeps_bool: bool = True) -> str:
        """The type in which two operands meet: of the least solution (Y3), that of the other where
        one is not known yet."""
        known = [t for t in (self._type_of(left), self._type_of(right)) if t != "?"]
        if len(known) < 2:
            return known[0] if known else "?"
        return promoted(known[0], known[1], keeps_bool)

    def check_types(self, e: ast.Expr, wide: bool) -> None:
        """What operators do not take, wherever they stand (Y1, Y9, Y11)."""
        inner = wide
        match e:
            case ast.Apply(name=name, args=args) if name.text not in FUNCTIONS:
                inner = True
                if any(self.type_of(a) not in WHOLE for a in args):
                    raise Fails("Y9", UNTYPED, "a subscript that is no integer")
            case ast.Apply(args=(left, right)) | ast.Conditional(then=left, otherwise=right):
                self._check_literals(left, right, wide)
            case ast.Unary(op="~", operand=operand):
                if self.type_of(operand) not in WHOLE:
                    raise Fails("Y11", UNTYPED, "'~' of no integer")
            case ast.Apply(name=name, args=(operand,)) if name.text in COUNTS:
                if self.type_of(operand) not in WHOLE:
                    raise Fails("Y12", UNTYPED, f"'{name.text}' of no integer")
            case ast.Binary(op=op, left=left, right=right) if op in (*BITWISE, *SHIFTS):
                self._check_bits(op, left, right, wide)
            case ast.Binary(op=op, left=left, right=right) if op not in ("&&", "||"):
                self._check_literals(left, right, wide)
        for operand in ast.children(e):
            self.check_types(operand, inner)

    def check_stored(self, e: ast.Expr, type: str) -> None:
        """Literals alone fit the tensor that holds them (Y1)."""
        value = constant(e) if self.type_of(e) == "literal" and type in BITS else None
        if value is not None and wrapped(value, type) != value and not complements(e):
            raise Open("Y1: a literal that its tensor does not hold")

    def _check_bits(self, op: str, left: ast.Expr, right: ast.Expr, wide: bool) -> None:
        types = self.type_of(left), self.type_of(right)
        if types == ("bool", "bool") and op in BITWISE:
            return
        if not WHOLE.issuperset(types):
            raise Fails("Y11", UNTYPED, f"'{op}' of {types[0]} and {types[1]}")
        if op in BITWISE:
            self._check_literals(left, right, wide)
            return
        count = constant(right)
        if count is not None and not 0 <= count < BITS.get(types[0], 32):
            if types[0] in WEAK or wide:
                raise Open("Y11: a literal count beyond int32 of what has no type")
            raise Fails("Y11", UNTYPED, f"a shift by {count}")

    def _check_literals(self, left: ast.Expr, right: ast.Expr, wide: bool) -> None:
        """Literals fit the type that they meet (Y1)."""
        for literal, other in ((left, right), (right, left)):
            type = self.type_of(other)
            type = "int32" if type == "bool" else type
            if self.type_of(literal) != "literal" or type not in BITS or wide:
                continue
            value = constant(literal)
            if value is None or wrapped(value, type) == value:
                continue
            if not (type == "uint8" and complements(literal) and -256 <= value < 0):
                raise Fails("Y1", UNTYPED, f"{value} is no {type}")

    # --- values -------------------------------------------------------------------------------

    def integer(self, e: ast.Expr, at: Point) -> int:
        """A subscript or a bound (Y9)."""
        return int(self.value(e, at, True))

    def value(self, e: ast.Expr, at: Point, wide: bool = False) -> Number:
        result = self._value(e, at, wide)
        type = self.type_of(e, wide)
        if type == "float32" and math.isfinite(result) and float(np.float32(result)) != result:
            self.exact = False
        return wrapped(result, type)

    def _value(self, e: ast.Expr, at: Point, wide: bool) -> Number:
        match e:
            case ast.Number(value=value):
                return value
            case ast.Name(text=text):
                if text in at:
                    return at[text]
                return self.size(text) if self.is_size(text) else self.read(text, (), True)
            case ast.Dim(tensor=tensor, axis=axis):
                if tensor.text not in self.shapes:
                    raise Open("T2: a size of a tensor whose shape is not known yet")
                return self.shapes[tensor.text][axis]
            case ast.Apply(name=name, args=args) if name.text in FUNCTIONS:
                return self._function(name.text, e, args, at, wide)
            case ast.Apply(name=name, args=args):
                place = tuple(self.integer(a, at) for a in args)
                data = any(self.reads_of(a) for a in args)
                return self.read(name.text, place, not data)
            case ast.Cast(operand=operand, spelling=spelling):
                inner = self.value(operand, at, wide)
                return arithmetic.converted(inner, numpy_name(spelling))
            case ast.Unary(op=op, operand=operand):
                inner = self.value(operand, at, wide)
                if op == "~":
                    return -1 - int(inner)
                return int(not inner) if op == "!" else -inner if op == "-" else inner
            case ast.Binary(op="&&", left=left, right=right):
                return int(bool(self.value(left, at, wide)) and bool(self.value(right, at, wide)))
            case ast.Binary(op="||", left=left, right=right):
                return int(bool(self.value(left, at, wide)) or bool(self.value(right, at, wide)))
            case ast.Binary(op=op, left=left, right=right) if op in SHIFTS:
                bits = BITS.get(self.type_of(left, wide), 64)
                value, count = (int(self.value(x, at, wide)) for x in (left, right))
                return arithmetic.shifted(op, value, count, bits)
            case ast.Binary(op=op, left=left, right=right):
                return self._binary(op, left, right, at, wide)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                holds = bool(self.value(condition, at, wide))
                return self.value(then if holds else otherwise, at, wide)

    def _function(
        self, name: str, e: ast.Expr, args: tuple[ast.Expr, ...], at: Point, wide: bool
    ) -> Number:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name == "pad":
            return self._padded(args[0], args[1], at, wide)
        if name in COUNTS:
            type = self.type_of(args[0])
            if type not in BITS:
                raise Open("Y12: the width of a number without a type")
            ones = int(self.value(args[0], at)) % (1 << BITS[type])
            return ones.bit_count() if name == "popc" else BITS[type] - ones.bit_length()
        type = self.type_of(e, wide)
        values = [rounded(self.value(a, at, wide), type) for a in args]
        return abs(values[0]) if name == "abs" else combined(name, *values)

    def _padded(self, e: ast.Expr, beyond: ast.Expr, at: Point, wide: bool) -> Number:
        """`e` where all its reads are in bounds, else `beyond`, whose reads are checked as they are
        made (G9)."""
        before = len(self.touched)
        try:
            return self.value(e, at, wide)
        except OutOfBounds:
            if len(self.touched) > before:
                raise Open("G9: a self-read beside a read that is out of bounds") from None
        try:
            return self.value(beyond, at, wide)
        except OutOfBounds as failure:
            raise OutOfBounds(failure.rule, AT_RUN_TIME, str(failure)) from None

    def _binary(self, op: str, left: ast.Expr, right: ast.Expr, at: Point, wide: bool) -> Number:
        wide = wide or (op in COMPARED and self.is_wide(left) and self.is_wide(right))
        types = self.type_of(left, wide), self.type_of(right, wide)
        type = promoted(*types, keeps_bool=op in COMPARED or op in BITWISE)
        a, b = (rounded(self.value(x, at, wide), type) for x in (left, right))
        if op in COMPARED:
            return int(COMPARED[op](a, b))
        if op == "-":
            return a - b
        if op in ("/", "%"):
            if b == 0:
                raise Fails("Y4", EITHER, "division by zero")
            if isinstance(a, float):
                return a / b if op == "/" else a % b
            return a // b if op == "/" else a % b
        return combined(op, a, b)

    def is_wide(self, side: ast.Expr) -> bool:
        """Whether a side of a comparison is computed in int64, as affine conditions are (Y9)."""
        is_whole = self.type_of(side) in WHOLE
        return is_whole and self.form is not None and self.is_affine(side, self.form)

    def read(self, name: str, place: Place, affine: bool) -> Number:
        shape = self.shapes[name]
        if not inside(place, shape):
            classes = EITHER if affine else AT_RUN_TIME
            raise OutOfBounds("G7", classes, f"reads {name}{place} of shape {shape}")
        if name not in self.held:
            if name not in self.initial:
                classes = frozenset({"CheckError", "InputError"})
                raise Fails("R4", classes, f"{name} is not written")
            self.begin(name)
        if name in self.own:
            self.touched.add((name, place))
        return self.held[name].get(place, 0)

    def begin(self, name: str) -> None:
        given = self.initial.get(name)
        self.held[name] = (
            {} if given is None else {i: given[i].item() for i in np.ndindex(given.shape)}
        )


def rounded(value: Number, type: str) -> Number:
    """An operand in the type that it meets."""
    value = wrapped(value, type)
    return float(np.float32(value)) if type == "float32" else value


# --- literals ---------------------------------------------------------------------------------


def constant(e: ast.Expr) -> int | None:
    """The value of integer literals, computed as far as this is done without types."""
    match e:
        case ast.Number(value=int(value)):
            return value
        case ast.Unary(op=op, operand=operand) if op in "+-~":
            inner = constant(operand)
            if inner is None:
                return None
            return -1 - inner if op == "~" else -inner if op == "-" else inner
        case ast.Binary(op=op, left=left, right=right):
            a, b = constant(left), constant(right)
            if a is None or b is None:
                return None
            if op in ("+", "*", *BITWISE):
                return int(combined(op, a, b))
            if op in SHIFTS:
                return arithmetic.shifted(op, a, b, 64)
            return a - b if op == "-" else None
    return None


def complements(e: ast.Expr) -> bool:
    return any(isinstance(x, ast.Unary) and x.op == "~" for x in ast.walk(e))


def is_factor(op: str, right: ast.Expr) -> bool:
    """Whether a shift or a mask is a product, a quotient or a remainder (Y11)."""
    value = constant(right)
    if value is None:
        return False
    return 0 <= value < 63 if op in SHIFTS else op == "&" and value > 0 and not value & (value + 1)
