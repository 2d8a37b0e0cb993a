"""The rules of domains, places and values (W, S, V1), instance by instance, in plain Python.

It shares nothing with `tc.semantics`: it takes a syntax tree, arrays, and the ranges of the index
variables that the generator knows; bounds that use other variables are read from the tree. What a
program gives is an `Outcome`: arrays, or the classes of errors that may be raised, or both, where
the rules allow both. Where the rules say nothing, `Open` is raised, or `Reading` has a choice.

Long because one machine executes the rules from types to writes, and nothing of it is shared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

import numpy as np

from tc.frontend import ast

Array: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = dict[str, int]
Place: TypeAlias = tuple[int, ...]
Number: TypeAlias = int | float
Ranges: TypeAlias = Mapping[str, tuple[int, int]]

NUMPY = {"float": "float32", "double": "float64", "int": "int32", "byte": "uint8"}
BITS = {"uint8": 8, "int32": 32, "int64": 64}
WEAK = ("literal", "index", "real")
"""Types of what has none by itself: integer literals, sizes and index variables, floats (Y1)."""

COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
FUNCTIONS = ("min", "max", "abs", "inf", "nan")
AT_RUN_TIME = frozenset({"AccessError"})
BEFORE = frozenset({"RangeError"})
EITHER = AT_RUN_TIME | BEFORE
REFUSED = frozenset({"CheckError", "RangeError"})


class Open(Exception):
    """The rules do not say what the program means."""


class Fails(Exception):
    """The program is an error of one of the classes."""

    def __init__(self, rule: str, classes: frozenset[str], why: str) -> None:
        super().__init__(f"{rule}: {why}")
        self.rule, self.classes = rule, classes


@dataclass(frozen=True)
class Reading:
    """What the rules say twice. `starts_plain`: `op=!` without a reduction variable starts its
    range where it has conditions (W1), and is `=` otherwise (R2). `starts_hull`: what starts is the
    hull of a dependent left-hand variable, not the part of it that has points. `starts_fresh`: what
    `op=` without `!` starts in a fresh tensor (R3) is what `op=!` would, not the places alone that
    have an instance."""

    starts_plain: bool = True
    starts_hull: bool = True
    starts_fresh: bool = True


READINGS = tuple(
    Reading(plain, hull, fresh) for fresh, plain, hull in itertools.product((True, False), repeat=3)
)


@dataclass(frozen=True)
class Outcome:
    """`arrays` are the outputs by name, None where the program is an error; `classes` are those of
    errors that may be raised; `exact` says that no order of computation gives other numbers;
    `doubts` are the rules by which both may happen."""

    arrays: dict[str, Array] | None
    classes: frozenset[str] = frozenset()
    rule: str = ""
    exact: bool = True
    doubts: tuple[str, ...] = ()


def execute(
    definition: ast.Def,
    inputs: Mapping[str, Array],
    ranges: Sequence[Ranges],
    initial: Mapping[str, Array] | None = None,
    reading: Reading = Reading(),
) -> Outcome:
    """What the rules say of a def, for inputs, the ranges of each statement's variables, and the
    output arrays that the caller passes."""
    doubts: list[tuple[str, frozenset[str]]] = []
    try:
        machine = Machine(definition, inputs, ranges, dict(initial or {}), reading, doubts)
        arrays = machine.run()
    except Fails as failure:
        return Outcome(None, failure.classes | doubted(doubts), str(failure))
    rules = tuple(rule for rule, _ in doubts)
    return Outcome(arrays, doubted(doubts), "", machine.exact, rules)


def doubted(doubts: Sequence[tuple[str, frozenset[str]]]) -> frozenset[str]:
    return frozenset[str]().union(*(classes for _, classes in doubts))


# --- trees ------------------------------------------------------------------------------------


def substituted(e: ast.Expr, bindings: Mapping[str, ast.Expr]) -> ast.Expr:
    """The expression with each binding in place of its name (T5)."""
    match e:
        case ast.Name(text=text) if text in bindings:
            return substituted(bindings[text], bindings)
        case ast.Apply(args=args):
            return replace(e, args=tuple(substituted(x, bindings) for x in args))
        case ast.Name() | ast.Number() | ast.Dim():
            return e
    changed: dict[str, Any] = {
        f.name: substituted(getattr(e, f.name), bindings)
        for f in fields(e)
        if f.name in ("operand", "left", "right", "condition", "then", "otherwise")
    }
    return replace(e, **changed)


def names_of(e: ast.Expr) -> list[str]:
    """The bare names of an expression, each once."""
    found = [x.text for x in ast.walk(e) if isinstance(x, ast.Name)]
    return list(dict.fromkeys(found))


class Form:
    """A statement with its bindings substituted, and its variables told apart."""

    def __init__(self, statement: ast.Comprehension, known: Callable[[str], bool]) -> None:
        self.op, self.where = statement.op, statement.where
        bindings = {c.name.text: c.value for c in self.where if isinstance(c, ast.Binding)}
        self.names = tuple(t.name.text for t in statement.targets)
        self.lefts = tuple(
            tuple(substituted(s, bindings) for s in t.subscripts or ()) for t in statement.targets
        )
        self.left = self.lefts[0]
        self.values = tuple(substituted(e, bindings) for e in statement.values)
        self.conditions = [
            substituted(c.test, bindings) for c in self.where if isinstance(c, ast.Condition)
        ]
        self.sizes = [c for c in self.where if isinstance(c, ast.SizeClause)]
        self.bounds = {
            c.variable.text: (substituted(c.begin, bindings), substituted(c.end, bindings))
            for c in self.where
            if isinstance(c, ast.RangeClause)
        }
        bounds = [b for pair in self.bounds.values() for b in pair]
        self.exists = [a for c in self.where if isinstance(c, ast.Exists) for a in c.read.args]

        def variables(*expressions: ast.Expr) -> list[str]:
            found = [n for e in expressions for n in names_of(e) if not known(n)]
            return list(dict.fromkeys(found))

        self.variables_of = variables
        self.left_variables = variables(*self.left)
        all_ = variables(*self.left, *self.values, *self.conditions, *bounds, *self.exists)
        self.variables = list(dict.fromkeys([*all_, *self.bounds]))
        self.reduced = [v for v in self.variables if v not in self.left_variables]

    def bare(self, subscript: ast.Expr) -> str | None:
        """The variable that a left subscript is, if it is nothing else."""
        is_variable = isinstance(subscript, ast.Name) and subscript.text in self.variables
        return subscript.text if is_variable and isinstance(subscript, ast.Name) else None

    @property
    def is_plain(self) -> bool:
        bare = [self.bare(s) for s in self.left]
        return None not in bare and len(set(bare)) == len(bare)


# --- types ------------------------------------------------------------------------------------


def promoted(a: str, b: str, keeps_bool: bool = False) -> str:
    """The type in which two operands meet (Y1, Y2)."""
    if keeps_bool and a == b == "bool":
        return "bool"
    a, b = ("int32" if t == "bool" else t for t in (a, b))
    if a in WEAK and b in WEAK:
        return max(a, b, key=WEAK.index)
    if a in WEAK or b in WEAK:
        weak, strong = (a, b) if a in WEAK else (b, a)
        if weak == "real":
            return strong if strong.startswith("float") else "float32"
        return "int32" if weak == "index" and strong == "uint8" else strong
    order = ("uint8", "int32", "int64", "float32", "float64")
    return max(a, b, key=order.index)


def settled(type: str) -> str:
    """The type of a tensor whose values are of a type."""
    return {"literal": "int32", "index": "int32", "real": "float32"}.get(type, type)


def wrapped(value: Number, type: str) -> Number:
    """The number in a type; what a float type does not hold stays as it is."""
    if type == "bool":
        return int(bool(value))
    if type.startswith("float") or type == "real":
        return float(value)
    value, bits = int(value), BITS.get(type, 64)
    value &= (1 << bits) - 1
    return value - (1 << bits) if type != "uint8" and value >> (bits - 1) else value


def identity(op: str, type: str) -> Number:
    """What a reduction starts with (R2)."""
    if op in ("+", "|", "^"):
        return 0
    if op == "*":
        return 1
    if op == "&":
        return 1 if type == "bool" else wrapped(-1, type)
    return largest(type) if op == "min" else least(type)


def largest(type: str) -> Number:
    if type.startswith("float"):
        return math.inf
    return 1 if type == "bool" else 255 if type == "uint8" else 2 ** (BITS[type] - 1) - 1


def least(type: str) -> Number:
    if type.startswith("float"):
        return -math.inf
    return 0 if type in ("bool", "uint8") else -(2 ** (BITS[type] - 1))


def combined(op: str, a: Number, b: Number) -> Number:
    if op in ("min", "max"):
        if a != a or b != b:
            return math.nan
        return (min if op == "min" else max)(a, b)
    if op == "+":
        return a + b
    if op == "*":
        return a * b
    x, y = int(a), int(b)
    return x & y if op == "&" else x | y if op == "|" else x ^ y


def chosen(op: str, a: Sequence[Number], b: Sequence[Number]) -> Sequence[Number]:
    """The term that `min=` or `max=` of several targets chooses of two (V1)."""
    if any(x != x for x in (*a[1:], *b[1:])):
        raise Open("V1: a NaN among the values that are carried")
    nan_a, nan_b = a[0] != a[0], b[0] != b[0]
    if nan_a != nan_b:
        return a if nan_a else b
    if not nan_a and a[0] != b[0]:
        return a if (a[0] < b[0]) == (op == "min") else b
    return a if tuple(a[1:]) <= tuple(b[1:]) else b


# --- the machine ------------------------------------------------------------------------------


@dataclass
class Write:
    """What one instance writes: its values of the index variables, its place, its values."""

    point: Point
    place: Place
    values: list[Number]
    reads: set[tuple[str, Place]] = field(default_factory=set)


class Machine:
    """Tensors, and statements that are executed one after another."""

    def __init__(
        self,
        definition: ast.Def,
        inputs: Mapping[str, Array],
        ranges: Sequence[Ranges],
        initial: dict[str, Array],
        reading: Reading,
        doubts: list[tuple[str, frozenset[str]]],
    ) -> None:
        self.definition, self.initial, self.reading = definition, initial, reading
        self.ranges, self.doubts, self.exact = list(ranges), doubts, True
        self.sizes: dict[str, int] = {}
        self.held: dict[str, Any] = {}
        self.types: dict[str, str] = {}
        self.shapes: dict[str, Place] = {}
        for param in definition.params:
            array = np.asarray(inputs[param.name.text])
            name = param.name.text
            self.types[name] = NUMPY.get(param.type.spelling, param.type.spelling)
            self.shapes[name] = array.shape
            self.held[name] = {i: array[i].item() for i in np.ndindex(array.shape)}
            for dim, size in zip(param.type.dims or (), array.shape, strict=True):
                if isinstance(dim, ast.Name):
                    self.sizes[dim.text] = size
        statements = [s for s in definition.body if isinstance(s, ast.Comprehension)]
        self.targets = {t.name.text for s in statements for t in s.targets}
        self.constants = {
            p.name.text
            for p in definition.params
            if not p.type.dims and self.types[p.name.text] in BITS
        }
        self.forms = [Form(s, self.is_known) for s in statements]
        self.written: set[str] = set()
        self.own: tuple[str, ...] = ()
        self.touched: set[tuple[str, Place]] = set()

    def is_known(self, name: str) -> bool:
        return name in self.sizes or name in self.types or name in self.targets

    def run(self) -> dict[str, Array]:
        for form in self.forms:
            self.refuse(form)
        self.infer_types()
        self.infer_shapes()
        self.steps()
        return {r.name.text: self.array(r.name.text) for r in self.definition.returns}

    def steps(self) -> None:
        """Executes all statements. What is decided before anything runs may be told before an
        error of an earlier statement."""
        first: Fails | None = None
        for form, ranges in zip(self.forms, self.ranges, strict=True):
            try:
                self.step(form, ranges)
            except Fails as failure:
                if first is not None:
                    self.doubt(failure.rule, failure.classes & REFUSED)
                first = first or failure
                self.written.update(form.names)
                for name in form.names:
                    if name not in self.held:
                        self.begin(name)
        if first is not None:
            raise first

    def array(self, name: str) -> Array:
        result = np.zeros(self.shapes[name], self.types[name])
        for place, value in self.held[name].items():
            result[place] = value
            if (
                self.types[name] == "float32"
                and value == value
                and float(np.float32(value)) != value
            ):
                self.exact = False
        return result

    # --- what is refused whatever the sizes ---------------------------------------------------

    def refuse(self, form: Form) -> None:
        bare = [form.bare(s) for s in form.left]
        if form.op == "=" and form.reduced:
            raise Fails("R1", frozenset({"CheckError"}), f"{form.reduced} only on the right")
        if None not in bare and len(set(bare)) < len(bare):
            raise Fails("N2", frozenset({"CheckError"}), "the left side names an index twice")
        if any(isinstance(s, ast.Name) and s.text in self.sizes for s in form.left):
            raise Fails("N1", frozenset({"CheckError"}), "a size on the left")
        repeated = [b for b in bare if b is not None]
        if len(set(repeated)) < len(repeated):
            raise Open("N2: a variable that is bare twice beside a computed place")
        outside = [*form.conditions, *(b for pair in form.bounds.values() for b in pair)]
        if any(self.reads_any(e, form.names) for e in outside):
            raise Fails("W5", REFUSED, "a condition or a bound reads the target")
        if any(self.reads_any(s, form.names) for s in form.left):
            raise Fails("P1", REFUSED, "a left subscript reads the target")

    def reads_any(self, e: ast.Expr, names: tuple[str, ...]) -> bool:
        return any(name in names for name, _ in self.reads_of(e))

    def reads_of(self, e: ast.Expr) -> Iterator[tuple[str, tuple[ast.Expr, ...]]]:
        """The tensors read, with subscripts."""
        for x in ast.walk(e):
            match x:
                case ast.Apply(name=name, args=args) if name.text not in FUNCTIONS:
                    yield name.text, args
                case ast.Name(text=text) if text in self.types or text in self.targets:
                    if text not in self.sizes and text not in self.constants:
                        yield text, ()

    def is_affine(self, e: ast.Expr, form: Form) -> bool:
        """Whether ranges could follow from the expression (G2)."""
        if any(True for _ in self.reads_of(e)):
            return False
        for x in ast.walk(e):
            if isinstance(x, ast.Binary) and x.op in ("*", "/", "%"):
                varies = [bool(form.variables_of(y)) for y in (x.left, x.right)]
                if varies[1] and (varies[0] or x.op != "*"):
                    return False
        return True

    # --- types --------------------------------------------------------------------------------

    def infer_types(self) -> None:
        """The types of outputs and temporaries: the join of what statements write (Y3)."""
        declared = {
            r.name.text: NUMPY.get(r.type.spelling, r.type.spelling)
            for r in self.definition.returns
            if r.type is not None
        }
        self.types.update(declared)
        for _ in range(len(self.forms) + 2):
            joined: dict[str, str] = {}
            for form in self.forms:
                for name, e in zip(form.names, form.values, strict=True):
                    type = self.type_of(e)
                    if type == "?":
                        continue
                    arithmetic = type == "bool" and form.op[0] in "+*"
                    if arithmetic and not self.is_reduction(form) and self.is_narrowed(form):
                        raise Open("R2, W1: the type of conditions under op=! in a part of a range")
                    if arithmetic and self.is_reduction(form):
                        type = "int32"
                    joined[name] = promoted(joined[name], type, True) if name in joined else type
            self.types.update({n: settled(t) for n, t in joined.items() if n not in declared})
        if self.targets - set(self.types):
            raise Open("Y3: no type")

    def is_reduction(self, form: Form) -> bool:
        """Whether terms meet (R2, S3); `op=` without `!` continues, so that it is one."""
        return not form.op.endswith("!") or bool(form.reduced) or not form.is_plain

    def type_of(self, e: ast.Expr, wide: bool = False) -> str:
        """The type of a value; "?" where it is that of a tensor not known yet. In a subscript
        (`wide`) integers are int64 (Y9)."""
        type = self._type_of(e)
        whole = type in BITS or type in ("literal", "index")
        return "int64" if wide and whole else type

    def _type_of(self, e: ast.Expr) -> str:
        match e:
            case ast.Number(value=value):
                return "literal" if isinstance(value, int) else "real"
            case ast.Name(text=text):
                if text in self.sizes:
                    return "index"
                return self.types.get(text, "?" if text in self.targets else "index")
            case ast.Dim():
                return "index"
            case ast.Apply(name=name, args=args):
                if name.text in ("inf", "nan"):
                    return "real"
                if name.text == "abs":
                    return promoted(self._type_of(args[0]), "literal")
                if name.text in ("min", "max"):
                    return self._joined(*args)
                return self.types.get(name.text, "?")
            case ast.Cast(spelling=spelling):
                return NUMPY.get(spelling, spelling)
            case ast.Unary(op=op, operand=operand):
                inner = self._type_of(operand)
                return "bool" if op == "!" else "int32" if inner == "bool" else inner
            case ast.Binary(op=op, left=left, right=right):
                if op in COMPARED or op in ("&&", "||"):
                    return "bool"
                types = self._type_of(left), self._type_of(right)
                return "?" if "?" in types else promoted(*types, op in "&|^")
            case ast.Conditional(then=then, otherwise=otherwise):
                return self._joined(then, otherwise)

    def _joined(self, left: ast.Expr, right: ast.Expr) -> str:
        types = self._type_of(left), self._type_of(right)
        return "?" if "?" in types else promoted(*types, keeps_bool=True)

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
                return self.sizes[text] if text in self.sizes else self.read(text, (), True)
            case ast.Dim(tensor=tensor, axis=axis):
                return self.shapes[tensor.text][axis]
            case ast.Apply(name=name, args=args) if name.text in FUNCTIONS:
                return self._function(name.text, e, args, at, wide)
            case ast.Apply(name=name, args=args):
                place = tuple(self.integer(a, at) for a in args)
                data = any(True for a in args for _ in self.reads_of(a))
                return self.read(name.text, place, not data)
            case ast.Cast(operand=operand):
                return self.value(operand, at, wide)
            case ast.Unary(op=op, operand=operand):
                inner = self.value(operand, at, wide)
                return int(not inner) if op == "!" else -inner if op == "-" else inner
            case ast.Binary(op="&&", left=left, right=right):
                return int(bool(self.value(left, at, wide)) and bool(self.value(right, at, wide)))
            case ast.Binary(op="||", left=left, right=right):
                return int(bool(self.value(left, at, wide)) or bool(self.value(right, at, wide)))
            case ast.Binary(op=op, left=left, right=right):
                return self._binary(op, left, right, at, wide)
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                holds = bool(self.value(condition, at, wide))
                return self.value(then if holds else otherwise, at, wide)

    def _function(
        self, name: str, e: ast.Expr, args: tuple[ast.Expr, ...], at: Point, wide: bool
    ) -> Number:
        if not args:
            return math.inf if name == "inf" else math.nan
        type = self.type_of(e, wide)
        values = [wrapped(self.value(a, at, wide), type) for a in args]
        return abs(values[0]) if name == "abs" else combined(name, *values)

    def _binary(self, op: str, left: ast.Expr, right: ast.Expr, at: Point, wide: bool) -> Number:
        types = self.type_of(left, wide), self.type_of(right, wide)
        type = promoted(*types, keeps_bool=op in COMPARED or op in "&|^")
        a, b = (wrapped(self.value(x, at, wide), type) for x in (left, right))
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

    def read(self, name: str, place: Place, affine: bool) -> Number:
        shape = self.shapes[name]
        if not inside(place, shape):
            classes = EITHER if affine else AT_RUN_TIME
            raise Fails("G7", classes, f"reads {name}{place} of shape {shape}")
        if name not in self.held:
            if name not in self.initial:
                raise Fails("R4", frozenset({"CheckError", "InputError"}), f"{name} is not written")
            self.begin(name)
        if name in self.own:
            self.touched.add((name, place))
        value: Number = self.held[name].get(place, 0)
        return value

    def begin(self, name: str) -> None:
        given = self.initial.get(name)
        self.held[name] = (
            {} if given is None else {i: given[i].item() for i in np.ndindex(given.shape)}
        )

    # --- domains ------------------------------------------------------------------------------

    def kind_of(self, variable: str, form: Form) -> str:
        """ "box", "dependent" (W2) or "ragged" (W3)."""
        bounds = form.bounds.get(variable)
        if bounds is None or not (
            form.variables_of(*bounds) or any(True for b in bounds for _ in self.reads_of(b))
        ):
            return "box"
        return "dependent" if all(self.is_affine(b, form) for b in bounds) else "ragged"

    def ordered(self, form: Form, wanted: Sequence[str]) -> list[str]:
        """Variables and those that their bounds use, each behind those that its bounds use."""
        found: list[str] = []

        def visit(v: str, inside: tuple[str, ...]) -> None:
            if v in inside:
                raise Fails("W2", REFUSED, "bounds in a circle")
            if v not in found:
                for w in form.variables_of(*form.bounds.get(v, ())):
                    visit(w, (*inside, v))
                found.append(v)

        for v in wanted:
            visit(v, ())
        return found

    def span(self, variable: str, form: Form, ranges: Ranges, at: Point) -> range:
        """The values of a variable, for values of those that its bounds use."""
        kind = self.kind_of(variable, form)
        if kind == "box":
            bounds = form.bounds.get(variable)
            if bounds is not None:
                begin, end = (self.integer(b, {}) for b in bounds)
                if end < begin:
                    raise Fails("G5", BEFORE, f"{begin}:{end}")
                assert (begin, end) == tuple(ranges.get(variable, (begin, end)))
                return range(begin, end)
            return range(*ranges[variable])
        begin, end = (self.integer(b, at) for b in form.bounds[variable])
        if kind == "ragged":
            low, high = ranges[variable]
            if not low <= begin <= end <= high:
                raise Fails("W3", AT_RUN_TIME, f"{begin}:{end} is no part of {low}:{high}")
        return range(begin, end)

    def points(
        self, form: Form, ranges: Ranges, wanted: Sequence[str], boxes: bool = False
    ) -> Iterator[Point]:
        """All values of variables, in their ranges, conditions aside; with `boxes`, in the box of
        a variable whose range data decide."""
        order = self.ordered(form, wanted)

        def below(depth: int, at: Point) -> Iterator[Point]:
            if depth == len(order):
                yield at
                return
            ragged = boxes and self.kind_of(order[depth], form) == "ragged"
            box = range(*ranges[order[depth]]) if ragged else None
            for x in self.span(order[depth], form, ranges, at) if box is None else box:
                yield from below(depth + 1, {**at, order[depth]: x})

        yield from below(0, {})

    def hull(self, variable: str, form: Form, ranges: Ranges) -> tuple[int, int]:
        """The box of a variable: its range, or the hull of a dependent one (W2)."""
        if self.kind_of(variable, form) == "box":
            span = self.span(variable, form, ranges, {})
            return span.start, span.stop
        if self.kind_of(variable, form) == "ragged":
            return ranges[variable]
        begin, end = form.bounds[variable]
        points = list(self.points(form, ranges, form.variables_of(begin, end), boxes=True))
        pairs = [(self.integer(begin, at), self.integer(end, at)) for at in points]
        some = [(a, b) for a, b in pairs if a < b]
        if not some:
            zero = not points or all(b <= 0 for _, b in pairs)
            if zero and all(a >= 0 for a, _ in pairs):
                return 0, 0
            raise Open("W2: the hull of a dependent variable without values")
        exact = min(a for a, _ in some), max(b for _, b in some)
        if (min(a for a, _ in pairs), max(b for _, b in pairs)) != exact:
            raise Open("W2: the hull counts empty ranges or not")
        corners = [self.integer_ends(e, form, ranges)[side] for side, e in enumerate((begin, end))]
        if tuple(corners) != exact:
            raise Open("W2: the hull over the box or over points")
        return exact

    def integer_ends(self, e: ast.Expr, form: Form, ranges: Ranges) -> tuple[int, int]:
        """The least and the greatest value of an affine expression over the box."""
        names = form.variables_of(e)
        spans = [range(*self.hull(v, form, ranges)) for v in names]
        values = [
            self.integer(e, dict(zip(names, at, strict=True))) for at in itertools.product(*spans)
        ]
        if not values:
            raise Open("S4: an affine expression over an empty box")
        return min(values), max(values)

    def check_ragged(self, form: Form, ranges: Ranges) -> None:
        """The bounds that data decide, for each value of the variables in them (W3)."""
        for v in form.variables:
            if self.kind_of(v, form) != "ragged":
                continue
            try:
                for at in self.points(form, ranges, form.variables_of(*form.bounds[v])):
                    self.span(v, form, ranges, at)
            except Fails:
                if form.conditions:
                    raise Open("W3: bounds that fall where a condition may not hold") from None
                others = [w for w in form.variables if self.kind_of(w, form) == "box"]
                if any(len(self.span(w, form, ranges, {})) == 0 for w in others):
                    raise Open("W3: bounds that fall in a statement without instances") from None
                raise

    def holds(self, form: Form, at: Point) -> bool:
        return all(bool(self.value(c, at)) for c in form.conditions)

    # --- shapes -------------------------------------------------------------------------------

    def infer_shapes(self) -> None:
        """The shapes of outputs and temporaries (S4, S8, G4, G5)."""
        for r in self.definition.returns:
            if r.type is not None:
                self.shapes[r.name.text] = tuple(
                    self.sizes[d.text] if isinstance(d, ast.Name) else int(d.value)
                    for d in r.type.dims or ()
                )
        for name in dict.fromkeys(n for f in self.forms for n in f.names):
            if name not in self.shapes:
                self.shapes[name] = self.shape_of(name)
        for form in self.forms:
            for clause in form.sizes:
                if self.integer(clause.value, {}) != self.shapes[clause.tensor.text][clause.axis]:
                    raise Fails("S4", REFUSED, "a size clause says another size")
        for name, given in self.initial.items():
            if given.shape != self.shapes[name]:
                raise Fails("R4", frozenset({"InputError"}), "the caller's array has another shape")

    def shape_of(self, name: str) -> Place:
        rank = next(len(f.left) for f in self.forms if name in f.names)
        return tuple(self.size_of(name, axis) for axis in range(rank))

    def size_of(self, name: str, axis: int) -> int:
        clauses: list[int] = []
        slices: list[int] = []
        firsts: list[int] = []
        empty: list[int] = []
        problems: list[Exception] = []
        for form, ranges in zip(self.forms, self.ranges, strict=True):
            if name not in form.names:
                continue
            clauses += [
                self.integer(c.value, {})
                for c in form.sizes
                if c.tensor.text == name and c.axis == axis
            ]
            try:
                kind, end = self.end_of(form, ranges, axis)
            except (Open, Fails) as problem:
                problems.append(problem)
                continue
            if end is not None:
                wanted = slices if kind == "slice" else firsts
                (empty if self.has_no_points(form, ranges) else wanted).append(end)
        if clauses:
            if len(set(clauses)) > 1 or max(slices, default=0) > clauses[0]:
                raise Open("S8: size clauses that differ, or a slice beyond one")
            return clauses[0]
        if problems:
            raise problems[0]
        if slices:
            if firsts and max(firsts) > max(slices):
                raise Open("S8: a slice and an inferred range that is longer")
            if firsts and empty:
                raise Open("G5: a statement over an empty range")
            if max(empty, default=0) > max(slices):
                raise Open("G5, S8: a slice over an empty range that ends later")
            return max(slices)
        if firsts:
            if max(firsts) > firsts[0]:
                raise Open("G3: a later statement that is longer")
            if max(empty, default=0) > firsts[0]:
                raise Open("G5, S8: a slice over an empty range that ends later")
            return firsts[0]
        if empty and len(set(empty)) == 1:
            return empty[0]
        if empty:
            raise Open("G5: the shape that a statement over an empty range gives")
        raise Fails("S4", REFUSED, f"nothing gives the size of {name}.{axis}")

    def has_no_points(self, form: Form, ranges: Ranges) -> bool:
        """Whether a left-hand variable has no values (G5)."""
        return any(self.is_empty(v, form, ranges) for v in form.left_variables)

    def is_empty(self, v: str, form: Form, ranges: Ranges) -> bool:
        low, high = self.hull(v, form, ranges)
        return high <= low

    def end_of(self, form: Form, ranges: Ranges, axis: int) -> tuple[str, int | None]:
        """The end that a statement gives to a dimension of its targets, and whether other
        statements may give further slices (S8)."""
        subscript = form.left[axis]
        variable = form.bare(subscript)
        if variable is not None:
            end = self.hull(variable, form, ranges)[1]
            sliced = variable in form.bounds and self.kind_of(variable, form) == "box"
            return "slice" if sliced else "first", end
        if not form.variables_of(subscript) and not any(True for _ in self.reads_of(subscript)):
            return "slice", self.integer(subscript, {}) + 1
        if not self.is_affine(subscript, form):
            return "data", None
        low, high = self.integer_ends(subscript, form, ranges)
        points = [
            self.integer(subscript, at)
            for at in self.points(form, ranges, form.variables_of(subscript), boxes=True)
        ]
        if low < 0:
            if points and min(points) < 0:
                raise Fails("S4", EITHER, "an affine place that is negative over the box")
            raise Open("S4: an affine place that is negative over the box alone")
        if not points or max(points) != high:
            raise Open("S4: the size of an affine place over the box or over points")
        return "first", high + 1

    # --- a statement --------------------------------------------------------------------------

    def step(self, form: Form, ranges: Ranges) -> None:
        self.check_ragged(form, ranges)
        self.own, self.touched = form.names, set()
        writes: list[Write] = []
        points = list(self.points(form, ranges, form.variables))
        for at in points:
            if not self.holds(form, at):
                continue
            place = tuple(self.integer(s, at) for s in form.left)
            self.check_place(form, place)
            self.touched = set()
            values = [
                wrapped(self.value(e, at), self.types[n])
                for n, e in zip(form.names, form.values, strict=True)
            ]
            writes.append(Write(at, place, values, self.touched))
        self.own = ()
        self.check_own(form, writes, points)
        self.store(form, ranges, writes)
        self.written.update(form.names)

    def is_decided(self, form: Form) -> bool:
        """Whether places and domain are known before anything runs."""
        expressions = [*form.left, *form.conditions]
        return all(not any(True for _ in self.reads_of(e)) for e in expressions) and all(
            self.kind_of(v, form) != "ragged" for v in form.variables
        )

    def has_affine_place(self, form: Form) -> bool:
        return all(self.is_affine(s, form) for s in form.left)

    def errors_at_place(self, form: Form) -> frozenset[str]:
        if not self.has_affine_place(form):
            return AT_RUN_TIME
        return BEFORE if self.is_decided(form) else EITHER

    def check_place(self, form: Form, place: Place) -> None:
        for name in form.names:
            if not inside(place, self.shapes[name]):
                why = f"writes {name}{place} of shape {self.shapes[name]}"
                raise Fails("S5", self.errors_at_place(form), why)

    def check_own(self, form: Form, writes: list[Write], points: list[Point]) -> None:
        """Whether the statement reads what another instance of it writes (P1, S6)."""
        own = [
            (name, args)
            for e in form.values
            for name, args in self.reads_of(e)
            if name in form.names
        ]
        if not own:
            return
        few = len(points) <= 1
        starts = form.op.endswith("!") and (bool(form.reduced) or not form.is_plain)
        if starts and form.reduced:
            raise Fails("P1", REFUSED, "reads its target under op=!")
        if any(self.reads_any(a, form.names) for _, args in own for a in args):
            raise Fails("P1", REFUSED, "reads its target in a subscript")
        data = [args for _, args in own if not all(self.is_affine(a, form) for a in args)]
        if starts or (form.op.endswith("!") and self.is_narrowed(form)):
            self.doubt("P1: a self-read under op=! without a reduction variable", REFUSED)
        if data or not self.has_affine_place(form):
            words = all(args == form.left for _, args in own)
            if form.op != "=" or not words:
                if not few:
                    raise Fails("S6", REFUSED, "reads its target at a place that data decide")
                self.doubt("S6: one instance", REFUSED)
        writers: dict[Place, list[Point]] = {}
        for write in writes:
            writers.setdefault(write.place, []).append(write.point)
        for write in writes:
            for _, place in write.reads:
                if any(p != write.point for p in writers.get(place, [])):
                    raise Fails("P1", EITHER | REFUSED, f"{place} is read and written")
        if not few and not self.is_decided(form) and not (form.op == "=" and data):
            self.doubt("P1: conditions and bounds that data decide", REFUSED)

    def doubt(self, rule: str, classes: frozenset[str]) -> None:
        self.doubts.append((rule, classes))

    def store(self, form: Form, ranges: Ranges, writes: list[Write]) -> None:
        starts = form.op.endswith("!") and (
            bool(form.reduced) or not form.is_plain or self.starts_plain(form)
        )
        assigns = form.op == "=" or (form.op.endswith("!") and not starts)
        op = form.op.rstrip("!").removesuffix("=")
        fresh = [n not in self.written and n not in self.initial for n in form.names]
        if not assigns and not starts and len(set(fresh)) > 1:
            raise Open("V1: targets that continue beside targets that start")
        for name in form.names:
            if name not in self.held:
                self.begin(name)
        if assigns:
            self.assign(form, writes, ranges)
            return
        chooses = op in ("min", "max") and len(form.names) > 1
        if starts or fresh[0]:
            for k, name in enumerate(form.names):
                type = self.types[name]
                start = identity(op, type) if not chooses or k == 0 else largest(type)
                places = list(self.started(name, form, ranges))
                if not starts and not self.reading.starts_fresh:
                    places = [write.place for write in writes]
                self.held[name].update(dict.fromkeys(places, start))
        magnitudes: dict[tuple[int, Place], float] = {}
        for write in writes:
            olds = [self.held[n].get(write.place, 0) for n in form.names]
            if chooses:
                news = list(chosen(op, olds, write.values))
            else:
                news = [
                    wrapped(combined(op, a, b), self.types[n])
                    for n, a, b in zip(form.names, olds, write.values, strict=True)
                ]
                self.measure(form, op, write, olds, magnitudes)
            for name, value in zip(form.names, news, strict=True):
                self.held[name][write.place] = value

    def measure(
        self,
        form: Form,
        op: str,
        write: Write,
        olds: list[Number],
        magnitudes: dict[tuple[int, Place], float],
    ) -> None:
        """Notes that a sum or product of floats depends on its order."""
        for k, (name, old, new) in enumerate(zip(form.names, olds, write.values, strict=True)):
            if not self.types[name].startswith("float") or op not in "+*":
                continue
            if not math.isfinite(old) or not math.isfinite(new):
                continue
            scale = 64 if op == "+" else 1
            if any((x * scale) % 1 for x in (old, new)):
                self.exact = False
            key = k, write.place
            before = magnitudes.get(key, abs(old) if op == "+" else max(1.0, abs(old)))
            after = before + abs(new) if op == "+" else before * max(1.0, abs(new))
            magnitudes[key] = after
            if after >= 2**17:
                self.exact = False

    def is_narrowed(self, form: Form) -> bool:
        """Whether the domain is less than the box."""
        kinds = [self.kind_of(v, form) for v in form.variables]
        return bool(form.conditions) or bool(set(kinds) - {"box"})

    def starts_plain(self, form: Form) -> bool:
        return self.is_narrowed(form) and self.reading.starts_plain

    def started(self, name: str, form: Form, ranges: Ranges) -> Iterator[Place]:
        """The elements that start at the identity (R2, S3)."""
        shape = self.shapes[name]
        spans: list[range] = []
        bare = [form.bare(s) for s in form.left]
        for v, size in zip(bare, shape, strict=True):
            spans.append(range(size) if v is None else range(*self.hull(v, form, ranges)))
        narrow = not self.reading.starts_hull
        names = [v for v in bare if v is not None]
        if narrow:
            order = [v for v in form.variables if v in names]
            there = {tuple(at[v] for v in names) for at in self.points(form, ranges, order)}
        for place in itertools.product(*spans):
            if not inside(place, shape):
                raise Fails("S5", self.errors_at_place(form), f"starts {place} of {shape}")
            values = tuple(x for x, v in zip(place, bare, strict=True) if v is not None)
            if not narrow or values in there:
                yield place

    def assign(self, form: Form, writes: list[Write], ranges: Ranges) -> None:
        seen: set[Place] = set()
        for write in writes:
            if write.place in seen:
                raise Fails("S2", self.errors_at_place(form), f"writes {write.place} twice")
            seen.add(write.place)
            for name, value in zip(form.names, write.values, strict=True):
                self.held[name][write.place] = value
        if not form.is_plain and self.has_affine_place(form) and not self.is_decided(form):
            self.check_undecided(form, ranges)

    def check_undecided(self, form: Form, ranges: Ranges) -> None:
        """A doubt where affine places would meet if conditions that data decide held."""
        known = [c for c in form.conditions if not any(True for _ in self.reads_of(c))]
        seen: set[Place] = set()
        boxes = [range(*self.hull(v, form, ranges)) for v in form.variables]
        for values in itertools.product(*boxes):
            at = dict(zip(form.variables, values, strict=True))
            if not all(bool(self.value(c, at)) for c in known):
                continue
            place = tuple(self.integer(s, at) for s in form.left)
            if place in seen:
                self.doubt("S2: affine places, conditions that data decide", EITHER)
                return
            seen.add(place)


def inside(place: Place, shape: Place) -> bool:
    return len(place) == len(shape) and all(0 <= x < n for x, n in zip(place, shape, strict=True))
