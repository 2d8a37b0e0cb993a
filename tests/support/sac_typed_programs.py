"""Generated programs of SaC's notation of all element types, with their meaning in numpy.

Long because each construct of the notation stands here once, with its text and its value.

Each construct is a text and a function of Python on numpy arrays, written from the rules C1 to C24
alone. Types are those of C5; values that depend on rounding, on overflow of weak integers or on
what a rule leaves open make `Unsettled`, and the program is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Env = Mapping[str, Any]
Shape = tuple[int, ...]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
FLOATS = ("float16", "float32", "float64")
PALETTES: tuple[tuple[str, ...], ...] = (
    ("int32",),
    ("float32",),
    ("float64",),
    ("int32", "bool"),
    ("int32", "int64"),
    ("int32", "float32"),
    ("int32", "float64", "bool"),
    INTEGERS,
    FLOATS,
    ("int8", "uint8", "int16"),
    ("bool",),
    (*INTEGERS, *FLOATS, "bool"),
    ("uint64", "int8"),
    ("float16", "int8"),
    ("int64", "float64"),
)
SPELLINGS = {
    "int32": ("int", "int32"),
    "float32": ("float", "float32"),
    "float64": ("double", "float64"),
    "float16": ("half", "float16"),
    "uint8": ("byte", "uint8"),
}
MOST_INSTANCES = 3_000
MOST_SIZE = 35


class Unsettled(Exception):
    """A program whose value the rules do not settle, or not within exact arithmetic."""


class Fault(Exception):
    """A program that is refused for its data; `rules` are those that may say so."""

    def __init__(self, *rules: str) -> None:
        super().__init__(*rules)
        self.rules = rules


@dataclass(frozen=True)
class Typ:
    """An element type: `kind` is "strong", or of weak values "literal", "size" or "fraction"."""

    kind: str
    name: str = ""

    @property
    def is_weak(self) -> bool:
        return self.kind != "strong"

    @property
    def computed(self) -> str:
        return {"strong": self.name, "fraction": "float64"}.get(self.kind, "int64")

    @property
    def alone(self) -> str:
        return {"strong": self.name, "fraction": "float64"}.get(self.kind, "int32")

    @property
    def is_float(self) -> bool:
        return self.kind == "fraction" or self.name in FLOATS

    @property
    def is_index(self) -> bool:
        return not self.is_float and self.name != "bool"


LITERAL, SIZE, FRACTION = Typ("literal"), Typ("size"), Typ("fraction")
BOOL, INT = Typ("strong", "bool"), Typ("strong", "int32")


def widened(a: str, b: str) -> str:
    """Y2 of two numeric types."""
    if a in FLOATS or b in FLOATS:
        return max((n for n in (a, b) if n in FLOATS), key=FLOATS.index)
    if (a[0] == "u") == (b[0] == "u"):
        return max(a, b, key=lambda n: int(n.strip("uint")))
    signed, unsigned = (b, a) if a[0] == "u" else (a, b)
    bits = max(int(signed[3:]), 2 * int(unsigned[4:]))
    if bits > 64:
        raise Unsettled("int64 with uint64")
    return f"int{bits}"


def met(a: Typ, b: Typ, *, keeps_bool: bool) -> Typ:
    """The type of two operands or of two values that join (C5)."""
    if a.is_weak and b.is_weak:
        order = ("literal", "size", "fraction")
        return max(a, b, key=lambda t: order.index(t.kind))
    if BOOL == a == b:
        return BOOL if keeps_bool else INT
    a, b = (INT if t == BOOL else t for t in (a, b))
    if a.is_weak:
        a, b = b, a
    if not b.is_weak:
        return Typ("strong", widened(a.name, b.name))
    if b.kind == "fraction":
        return a if a.is_float else Typ("strong", "float64")
    if b.kind == "size":
        if a.name == "uint64":
            raise Unsettled("uint64 with an index")
        return a if a.is_float else Typ("strong", widened(a.name, "int32"))
    return a


def joined(types: Sequence[Typ], *, keeps_bool: bool = True) -> Typ:
    """The type of several values in the order of the text, where the order is of no matter."""
    found = types[0]
    for other in types[1:]:
        found = met(found, other, keeps_bool=keeps_bool)
    back = types[-1]
    for other in reversed(types[:-1]):
        back = met(back, other, keeps_bool=keeps_bool)
    if back != found:
        raise Unsettled("the order of joins")
    return found


def converted(value: Any, found: Typ, target: Typ) -> Array:
    """A value in the type in which another is computed; no number may change."""
    value = np.asarray(value)
    if found == target:
        return value
    name = target.computed
    if found.kind in ("literal", "size") and target.kind == "strong" and name in INTEGERS:
        limits = np.iinfo(name)
        if value.size and (value.min() < limits.min or value.max() > limits.max):
            raise Unsettled("a weak number that does not fit")
    with np.errstate(all="ignore"):
        result = value.astype(name)
    if name in FLOATS and not np.array_equal(result.astype("float64"), value.astype("float64")):
        raise Unsettled("rounding")
    return result


def exact(value: Any, wide: Any, typ: Typ) -> Array:
    """A floating value that is the same in a wider type; halves and weak numbers within limits."""
    value = np.asarray(value)
    if typ.is_float:
        if not np.array_equal(value.astype("float64"), wide):
            raise Unsettled("rounding")
    elif typ.is_weak and value.size and int(np.abs(value).max()) > 2**31 - 1:
        raise Unsettled("a large weak number")
    return value


@dataclass(frozen=True)
class Expr:
    """A text with its shape, its element type, and its value where the indices have values."""

    text: str
    shape: Shape
    typ: Typ
    value: Callable[[Env], Any]
    most: int = 100
    """Of literals, the largest magnitude; negative ones count as too large for unsigned types."""
    is_known: bool = True
    """Whether the shape is known without the value of any index."""


@dataclass(frozen=True)
class Scope:
    """What may be named: index scalars with their ends, index vectors, and variables."""

    scalars: tuple[tuple[str, int], ...] = ()
    vectors: tuple[tuple[str, Shape], ...] = ()
    variables: tuple[Expr, ...] = ()

    def with_scalars(self, names: Sequence[str], ends: Sequence[int]) -> Scope:
        pairs = tuple(zip(names, ends, strict=True))
        return Scope((*self.scalars, *pairs), self.vectors, self.variables)

    def with_vector(self, name: str, ends: Shape) -> Scope:
        return Scope(self.scalars, (*self.vectors, (name, ends)), self.variables)

    def with_variable(self, variable: Expr) -> Scope:
        return Scope(self.scalars, self.vectors, (*self.variables, variable))

    @property
    def has_indices(self) -> bool:
        return bool(self.scalars or self.vectors)


@dataclass
class Program:
    """A text, its inputs, and its results, or the rules of which one may refuse it; `is_faulty`
    says that places which the results leave out may fault, too."""

    text: str
    entry: str | None
    inputs: dict[str, Array]
    due: tuple[Array, ...] = ()
    faults: tuple[str, ...] = ()
    is_faulty: bool = False


@dataclass
class _Writer:
    random: Random
    palette: tuple[str, ...]
    is_faulty: bool = False
    most: int = 4
    inputs: dict[str, Array] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    selections: list[tuple[str, Any]] = field(default_factory=list)
    names: int = 0
    instances: int = 0
    is_inner: bool = False
    """Whether the text is that of a function, which sees no input."""

    # --- choices ----------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    def shape(self, most_axes: int = 3, most: int | None = None) -> Shape:
        most = self.most if most is None else most
        if self.chance(0.04):
            return (self.number(5, MOST_SIZE),)
        return tuple(
            self.number(0 if self.chance(0.15) else 1, most)
            for _ in range(self.number(0, most_axes))
        )

    def spelled(self, name: str) -> str:
        return str(self.pick(*SPELLINGS.get(name, (name,))))

    def counted(self) -> None:
        self.instances += 1
        if self.instances > MOST_INSTANCES:
            raise Unsettled("too many instances")

    # --- leaves -----------------------------------------------------------------------------------

    def data(self, shape: Shape, name: str) -> Array:
        numbers = np.random.default_rng(self.number(0, 2**30))
        if name == "bool":
            return numbers.integers(0, 2, shape).astype(bool)
        if name in FLOATS:
            return np.asarray(numbers.integers(-16, 17, shape) / 8).astype(name)
        limits = np.iinfo(name)
        low, high = max(limits.min, -9), 10
        if self.chance(0.1):
            low, high = max(int(limits.min), -(2**62)), min(int(limits.max), 2**62)
        return numbers.integers(
            low, high, shape, dtype="int64" if name != "uint64" else "uint64"
        ).astype(name)

    def input(self, shape: Shape, name: str | None = None, data: Array | None = None) -> Expr:
        if self.is_inner:
            return self.made(shape)
        if data is None:
            old = [
                n
                for n, a in self.inputs.items()
                if a.shape == shape and n[0] == "a" and (name is None or a.dtype == name)
            ]
            if old and self.chance(0.6):
                found = str(self.pick(*old))
                array = self.inputs[found]
                return Expr(found, shape, Typ("strong", str(array.dtype)), lambda _: array)
            data = self.data(shape, name or str(self.pick(*self.palette)))
            stem = "a"
        else:
            stem = "t"
        new = self.fresh(stem)
        self.inputs[new] = data
        return Expr(new, shape, Typ("strong", str(data.dtype)), lambda _: data)

    def made(self, shape: Shape) -> Expr:
        """An array without an input."""
        if not shape:
            return self.literal()
        if 0 in shape or self.chance(0.5) or np.prod(shape) > 8:
            value = self.literal()
            ends = self.vector(shape)
            return Expr(
                f"genarray({ends.text}, {value.text})",
                shape,
                value.typ,
                lambda env: np.full(shape, value.value(env)),
                value.most,
            )
        rows = [self.made(shape[1:]) for _ in range(shape[0])]
        return self.rows(rows)

    def literal(self) -> Expr:
        kind = self.number(0, 5)
        floats = any(n in FLOATS for n in self.palette)
        if kind == 0 and "bool" in self.palette:
            truth = self.chance(0.5)
            return Expr(str(truth).lower(), (), BOOL, lambda _: np.bool_(truth))
        if kind == 1 and floats:
            eighths = self.number(0, 16)
            text = f"{eighths * 125}e-3" if self.chance(0.2) else f"{eighths / 8}"
            if self.chance(0.2):
                end, name = self.pick(("f", "float32"), ("d", "float64"))
                number = np.array(eighths / 8, name)
                return Expr(text + end, (), Typ("strong", name), lambda _: number)
            return Expr(text, (), FRACTION, lambda _: np.float64(eighths / 8))
        value = self.number(0, 9)
        if kind == 2:
            suffix, name = self.pick(
                *[("i", "int32"), ("l", "int64")],
                *([("f", "float32"), ("d", "float64")] if floats else []),
            )
            return Expr(
                f"{value}{suffix}", (), Typ("strong", name), lambda _: np.array(value, name)
            )
        text = f"0x{value:X}" if kind == 3 else str(value)
        return Expr(text, (), LITERAL, lambda _: np.int64(value), value)

    def leaf(self, shape: Shape, scope: Scope) -> Expr:
        old = [v for v in scope.variables if v.shape == shape]
        if old and self.chance(0.6):
            return self.pick(*old)  # type: ignore[no-any-return]
        if shape:
            if len(shape) == 1 and self.chance(0.3) and not self.is_inner:
                ranked = [n for n, a in self.inputs.items() if a.ndim == shape[0]]
                if ranked:
                    found = self.pick(*ranked)
                    sizes = np.array(self.inputs[found].shape, "int64")
                    return Expr(f"shape({found})", shape, SIZE, lambda _: sizes)
            return self.input(shape)
        if self.chance(0.4) and scope.has_indices:
            return self.index_leaf(scope)
        if self.chance(0.4):
            return self.input(())
        if self.chance(0.2):
            array = self.input(self.shape())
            rank = len(array.shape)
            return Expr(f"dim({array.text})", (), SIZE, lambda _: np.int64(rank))
        if self.chance(0.1):
            array = self.input(self.shape())
            return Expr(
                f"zero({array.text})", (), array.typ, lambda _: np.zeros((), array.typ.computed)
            )
        return self.literal()

    def index_leaf(self, scope: Scope) -> Expr:
        vectors = [(name, ends) for name, ends in scope.vectors if ends]
        if scope.scalars and (not vectors or self.chance(0.7)):
            name, _ = self.pick(*scope.scalars)
            return Expr(name, (), SIZE, lambda env: np.int64(env[name]))
        if not vectors:
            return self.literal()
        name, ends = self.pick(*vectors)
        axis = self.number(0, len(ends) - 1)
        return Expr(f"{name}[{axis}]", (), SIZE, lambda env: np.int64(env[name][axis]))

    # --- vectors of sizes -------------------------------------------------------------------------

    def vector(self, values: Shape, *, may_be_scalar: bool = True) -> Expr:
        """A vector of these integers that no index decides."""
        texts = []
        fitting = [n for n, a in self.inputs.items() if a.shape[: len(values)] == values]
        if self.is_inner:
            fitting = []
        for name in fitting:
            if self.inputs[name].shape == values:
                texts.append(f"shape({name})")
            elif values:
                texts.append(f"take([{len(values)}], shape({name}))")
        if values and not self.is_inner:
            beyond = [n for n, a in self.inputs.items() if a.shape == tuple(v + 1 for v in values)]
            texts += [f"(shape({name}) - 1)" for name in beyond]
            texts += [
                f"(0 * shape({n}) + [{', '.join(map(str, values))}])"
                for n, a in self.inputs.items()
                if a.ndim == len(values)
            ][:1]
            if self.chance(0.08):
                data = np.array(values, self.pick("int32", "int64"))
                return self.input((len(values),), data=data)
        if texts and self.chance(0.6):
            text = self.pick(*texts)
            return Expr(text, (len(values),), SIZE, lambda _: np.array(values, "int64"))
        if len(values) > 1 and self.chance(0.1):
            cut = self.number(0, len(values))
            first, second = (
                self.vector(v, may_be_scalar=False) for v in (values[:cut], values[cut:])
            )
            return Expr(
                f"({first.text} ++ {second.text})",
                (len(values),),
                SIZE,
                lambda _: np.array(values, "int64"),
            )
        if len(values) == 1 and may_be_scalar and self.chance(0.15):  # a scalar n stands for [n]
            return Expr(self.size(values[0]), (1,), LITERAL, lambda _: np.array(values, "int64"))
        text = f"[{', '.join(map(self.size, values))}]"
        return Expr(text, (len(values),), LITERAL, lambda _: np.array(values, "int64"))

    def size(self, value: int) -> str:
        if not self.is_inner and self.chance(0.35):
            for name, array in self.inputs.items():
                for axis, n in enumerate(array.shape):
                    if n == value and self.chance(0.5):
                        return f"shape({name})[{axis}]"
        if not self.is_inner and self.chance(0.06):
            kind = self.pick("int32", "int64", "uint8", "int16")
            return self.input((), data=np.array(value, kind)).text
        return str(value)

    # --- expressions ------------------------------------------------------------------------------

    def expr(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        if depth <= 0 or self.chance(0.04):
            return self.leaf(shape, scope)
        makers = [
            self.arithmetic,
            self.arithmetic,
            self.quotient,
            self.comparison,
            self.choice,
            self.selection,
            self.selection,
            self.where,
            self.unary,
            self.cast,
            self.maths,
            self.least,
            self.applied,
            self.dotted_selection,
        ]
        if shape:
            makers += [
                self.reversed,
                self.transposed,
                self.cut,
                self.comprehension,
                self.comprehension,
                self.comprehension,
                self.by_vector,
                self.by_vector,
                self.partitions,
                self.partitions,
                self.genarray,
                self.modarray,
                self.modarray_function,
                self.dotted,
                self.filled,
                self.reshaped,
                self.rotated,
                self.fold_of_arrays,
                self.called,
                self.bound_found,
                self.bound_found,
                self.bound_found,
            ]
            if shape[0]:
                makers += [self.joined, self.row]
            if len(shape) <= 2:
                makers += [self.iota]
        else:
            makers += [self.reduced, self.reduced, self.ragged, self.fold, self.logic, self.fold]
        return self.random.choice(makers)(shape, depth - 1, scope)

    def strong(self, e: Expr, name: str) -> Expr:
        """A cast: integers wrap, floats are cut off (Y4)."""
        found = e.typ

        def value(env: Env) -> Array:
            inner = np.asarray(e.value(env))
            if name == "bool":
                return inner != 0
            if found.is_float and name not in FLOATS:
                limits = np.iinfo(name)
                low, high = float(limits.min), float(limits.max)
                whole = np.trunc(inner.astype("f8"))  # no half holds the limits
                if not np.all((whole >= low) & (whole < high)):
                    raise Unsettled("beyond the type")
            with np.errstate(all="ignore"):
                result = np.asarray(inner.astype(name))
            if name in FLOATS and not np.array_equal(result.astype("f8"), inner.astype("f8")):
                raise Unsettled("rounding")
            return result

        word = self.spelled(name)
        functions = {"int32": "toi", "float32": "tof", "float64": "tod"}
        if name in functions and self.chance(0.5):
            word = functions[name]
        return Expr(f"{word}({e.text})", e.shape, Typ("strong", name), value)

    def meeting(self, exprs: list[Expr], *, keeps_bool: bool) -> tuple[list[Expr], Typ]:
        """Expressions of types that may meet, with the type; casts where the rules are open."""
        try:
            typ = joined([e.typ for e in exprs], keeps_bool=keeps_bool)
        except Unsettled:
            name = str(self.pick("int32", "float64"))
            exprs = [self.strong(e, name) for e in exprs]
            typ = Typ("strong", name)
        if not keeps_bool and typ == BOOL:
            typ = INT
        if typ.kind == "strong" and typ.name not in FLOATS:
            exprs = [
                self.strong(e, "int32" if typ == BOOL else typ.name)
                if e.typ.kind == "literal" and e.most > 100
                else e
                for e in exprs
            ]
        return exprs, typ

    def valued(self, e: Expr, typ: Typ) -> Callable[[Env], Array]:
        return lambda env: converted(e.value(env), e.typ, typ)

    def pair(self, shape: Shape, depth: int, scope: Scope) -> tuple[Expr, Expr]:
        first = self.expr(shape, depth, scope)
        second = self.expr(self.pick(shape, ()), depth - 1, scope)
        return (first, second) if self.chance(0.6) else (second, first)

    def arithmetic(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        op = str(self.pick("+", "-", "*", "+", "-"))
        pair = list(self.pair(shape, depth, scope))
        (left, right), typ = self.meeting(pair, keeps_bool=False)
        function = {"+": np.add, "-": np.subtract, "*": np.multiply}[op]
        a, b = self.valued(left, typ), self.valued(right, typ)

        def value(env: Env) -> Array:
            x, y = a(env), b(env)
            with np.errstate(all="ignore"):
                result = function(x, y)
                wide = function(x.astype("f8"), y.astype("f8")) if typ.is_float else None
            return exact(result, wide, typ)

        most = (
            10**6 if op == "-" else left.most + right.most if op == "+" else left.most * right.most
        )
        return Expr(f"({left.text} {op} {right.text})", shape, typ, value, most)

    def unary(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        inner = self.expr(shape, depth, scope)
        kind = self.number(0, 2)
        if kind == 0:
            return Expr(
                f"(!{inner.text})", shape, BOOL, lambda env: np.asarray(inner.value(env)) == 0
            )
        typ = INT if inner.typ == BOOL else inner.typ
        value = self.valued(inner, typ)
        function = np.negative if kind == 1 else np.abs
        text = f"(-{inner.text})" if kind == 1 else f"abs({inner.text})"

        def computed(env: Env) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(function(value(env)))

        return Expr(text, shape, typ, computed, 10**6)

    def quotient(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`/` and `%`, which round down; floats by powers of two."""
        left = self.expr(shape, depth, scope)
        op = str(self.pick("/", "%"))
        if left.typ.is_float:
            power = int(self.pick(1, 2, 4, 8))
            spelled = f"({power}.0 / 1)" if self.chance(0.2) else f"{power}.0"
            function = np.true_divide if op == "/" else np.mod

            def by_power(env: Env) -> Array:
                x = np.asarray(left.value(env))
                result = function(x, np.array(power, x.dtype))
                return exact(result, function(x.astype("f8"), power), left.typ)

            return Expr(f"({left.text} {op} {spelled})", shape, left.typ, by_power)
        since = len(self.selections)
        right = self.expr(self.pick(shape, ()), depth - 1, scope)
        if right.typ.is_float or right.typ == BOOL:
            del self.selections[since:]
            right = self.literal_of(self.number(1, 7))
        if left.typ == BOOL:
            left = self.strong(left, "int16")
        if not self.is_faulty and not (
            right.typ.kind == "literal" and right.text.isdigit() and right.text != "0"
        ):
            inner = right
            kind = met(right.typ, LITERAL, keeps_bool=False)
            less = self.pick(True, False)
            bounded = f"({inner.text} % 5 + 1)" if less else f"({inner.text} % 3 - 4)"
            low = kind.kind == "strong" and kind.name[0] == "u"
            if low:
                bounded = f"({inner.text} % 5 + 1)"
            less = less or low
            right = Expr(
                bounded,
                inner.shape,
                kind,
                lambda env: _bounded(converted(inner.value(env), inner.typ, kind), less),
                10**6,
            )
        (left, right), typ = self.meeting([left, right], keeps_bool=False)
        a, b = self.valued(left, typ), self.valued(right, typ)
        if typ.is_float:
            raise Unsettled("quotients of floats")
        function = np.floor_divide if op == "/" else np.mod

        def value(env: Env) -> Array:
            x, y = a(env), b(env)
            if np.any(y == 0) and np.broadcast(x, y).size:
                raise Fault("Y4")
            with np.errstate(all="ignore"):
                return exact(function(x, y), None, typ)

        return Expr(f"({left.text} {op} {right.text})", shape, typ, value, 10**6)

    def literal_of(self, value: int) -> Expr:
        return Expr(str(value), (), LITERAL, lambda _: np.int64(value), value)

    def near_limits(self) -> Expr:
        """A scalar of an integer type near the ends of its values, and what is computed of it."""
        name = str(self.pick(*INTEGERS, "uint64"))
        limits = np.iinfo(name)
        value = self.pick(limits.min, limits.max)
        value += self.number(0, 3) * (1 if value == limits.min else -1)
        if self.is_inner:
            value = max(value, 1 - 2**63)  # the number behind the sign has to fit too (C2)
        whole = np.array(value, name)
        if self.is_inner:
            written = value - 2**64 if value >= 2**63 else value  # a cast wraps
            return Expr(f"{name}({written})", (), Typ("strong", name), lambda _: whole)
        k = self.input((), name, whole)
        n = self.number(0, 3)
        text, function = self.pick(
            (k.text, lambda k: k),
            (f"(-{k.text})", np.negative),
            (f"({k.text} + {k.text})", lambda k: k + k),
            (f"({k.text} - {n})", lambda k: k - np.array(n, name)),
            (f"({k.text} * 3)", lambda k: k * np.array(3, name)),
            (f"(({k.text} + {n}) / 2)", lambda k: (k + np.array(n, name)) // np.array(2, name)),
            (f"(({k.text} - {n}) % 7)", lambda k: (k - np.array(n, name)) % np.array(7, name)),
        )

        def computed(_: Env) -> Array:
            with np.errstate(all="ignore"):
                return np.asarray(function(whole)).astype(name)

        return Expr(text, (), k.typ, computed)

    def comparison(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        op = str(self.pick("<", "<=", ">", ">=", "==", "!="))
        if self.chance(0.15):
            other = self.near_limits() if not shape and self.chance(0.3) else None
            pair = [other or self.expr(shape, depth - 1, scope), self.near_limits()]
        else:
            pair = list(self.pair(shape, depth, scope))
        (left, right), typ = self.meeting(pair, keeps_bool=False)
        a, b = self.valued(left, typ), self.valued(right, typ)
        function = {
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
            "==": np.equal,
            "!=": np.not_equal,
        }[op]
        return Expr(
            f"({left.text} {op} {right.text})",
            shape,
            BOOL,
            lambda env: np.asarray(function(a(env), b(env))),
        )

    def least(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        op = str(self.pick("min", "max"))
        (left, right), typ = self.meeting(list(self.pair(shape, depth, scope)), keeps_bool=True)
        a, b = self.valued(left, typ), self.valued(right, typ)
        function = np.minimum if op == "min" else np.maximum
        return Expr(
            f"{op}({left.text}, {right.text})",
            shape,
            typ,
            lambda env: np.asarray(function(a(env), b(env))),
            max(left.most, right.most),
        )

    def logic(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        op = str(self.pick("&&", "||"))
        left, right = (self.expr(shape, depth - 1, scope) for _ in range(2))

        def value(env: Env) -> Array:
            first = bool(left.value(env))
            return np.bool_(bool(right.value(env)) if first == (op == "&&") else first)

        return Expr(f"({left.text} {op} {right.text})", shape, BOOL, value)

    def condition(self, depth: int, scope: Scope) -> Expr:
        if self.chance(0.5) and scope.scalars:
            name, end = self.pick(*scope.scalars)
            k = self.number(0, max(end, 1))
            op, function = self.pick(("<", np.less), ("==", np.equal), (">=", np.greater_equal))
            return Expr(f"({name} {op} {k})", (), BOOL, lambda env: function(env[name], k))
        return self.expr((), depth, scope)

    def choice(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        test = self.condition(depth - 1, scope)
        branches = [self.expr(shape, depth, scope) for _ in range(2)]
        branches, typ = self.meeting(branches, keeps_bool=True)
        then, otherwise = (self.valued(e, typ) for e in branches)
        return Expr(
            f"({test.text} ? {branches[0].text} : {branches[1].text})",
            shape,
            typ,
            lambda env: (then if np.asarray(test.value(env)) != 0 else otherwise)(env),
            max(e.most for e in branches),
        )

    def where(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        shapes = [shape, self.pick(shape, ()), self.pick(shape, ())]
        test, *branches = (self.expr(s, depth - 1, scope) for s in self.random.sample(shapes, 3))
        branches, typ = self.meeting(branches, keeps_bool=True)
        then, otherwise = (self.valued(e, typ) for e in branches)
        return Expr(
            f"where({test.text}, {branches[0].text}, {branches[1].text})",
            shape,
            typ,
            lambda env: np.where(np.asarray(test.value(env)) != 0, then(env), otherwise(env)),
            max(e.most for e in branches),
        )

    def cast(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        return self.strong(self.expr(shape, depth, scope), str(self.pick(*self.palette)))

    def maths(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """Functions whose values are exact."""
        inner = self.expr(shape, depth, scope)
        typ = (
            inner.typ
            if inner.typ.is_float
            else Typ("strong", "float64")
            if not inner.typ.is_weak
            else FRACTION
        )
        name, function = self.pick(
            ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("fabs", np.abs)
        )
        value = self.valued(inner, typ)
        return Expr(
            f"{name}({inner.text})", shape, typ, lambda env: np.asarray(function(value(env)))
        )

    # --- selections -------------------------------------------------------------------------------

    def index(self, scope: Scope, depth: int) -> tuple[str, Callable[[Env], int], int, str]:
        """An index: text, value, a size below which it stays, and the variable that it is."""
        if scope.scalars and self.chance(0.55):
            name, end = self.pick(*scope.scalars)
            if end and self.chance(0.5):
                return name, lambda env: int(env[name]), end + self.pick(0, 0, 0, 1, 2), name
            if end and self.chance(0.4):
                return f"({end - 1} - {name})", lambda env: end - 1 - int(env[name]), end, ""
            shift, size = self.number(0, 3), self.number(1, 4)
            return (
                f"(({name} + {shift}) % {size})",
                lambda env: (int(env[name]) + shift) % size,
                size,
                "",
            )
        size = self.number(1, 5)
        if depth > 0 and self.chance(0.5):
            since = len(self.selections)
            inner = self.expr((), depth - 1, scope)
            if inner.typ.is_index and not (inner.typ.kind == "literal" and inner.most > 100):
                if self.is_faulty and self.chance(0.5):
                    return inner.text, lambda env: int(inner.value(env)), size, ""
                return (
                    f"({inner.text} % {size})",
                    lambda env: int(inner.value(env)) % size,
                    size,
                    "",
                )
            del self.selections[since:]
        literal = self.number(0, size - 1 if not self.is_faulty else size)
        return str(literal), lambda _: literal, size, ""

    def selected(self, array: Expr, index: Sequence[int], env: Env, axis: int = 0) -> Array:
        """An array at an index along the axes from one on."""
        sizes = array.shape[axis:]
        is_outside = any(not 0 <= k < n for k, n in zip(index, sizes, strict=False))
        try:
            found = np.asarray(array.value(env))
        except Fault as fault:  # either may be told
            raise Fault(*fault.rules, *["C8"] * is_outside) from None
        if is_outside:
            raise Fault("C8")
        return np.asarray(found[(*[slice(None)] * axis, *index)])

    def selection(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        if scope.vectors and self.chance(0.5):
            return self.by_index_vector(shape, depth, scope)
        if self.chance(0.2):
            return self.gathered(shape, depth, scope)
        items = [self.index(scope, depth - 1) for _ in range(self.number(1, 2))]
        array = self.expr((*(i[2] for i in items), *shape), depth - 1, scope)
        for axis, (_, _, size, name) in enumerate(items):
            if name:
                self.selections.append((name, (axis, size, array.is_known)))
        index = ", ".join(i[0] for i in items)
        text = f"{array.text}[{index}]"
        if self.chance(0.15):
            text = f"sel([{index}], {array.text})"
            if any(i[3] for i in items):
                text = f"{array.text}[{index}]"
        elif self.chance(0.1) and not any(i[3] for i in items):
            text = f"{array.text}[[{index}]]"
        return Expr(
            text,
            shape,
            array.typ,
            lambda env: self.selected(array, [i[1](env) for i in items], env),
            array.most,
        )

    def gathered(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`t[n[i]]`: an index that is data."""
        size = self.number(1, 4)
        names = [(n, end) for n, end in scope.scalars if end]
        if not names:
            return self.leaf(shape, scope)
        name, end = self.pick(*names)
        numbers = np.random.default_rng(self.number(0, 2**30))
        kind = self.pick("int32", "int64", "uint8", "int16", "int8")
        high = size + (1 if self.is_faulty and self.chance(0.4) else 0)
        if self.is_inner:
            return self.leaf(shape, scope)
        table = self.input((end,), data=numbers.integers(0, high, end).astype(kind))
        self.selections.append((name, (0, end, True)))
        array = self.expr((size, *shape), depth - 1, scope)
        return Expr(
            f"{array.text}[{table.text}[{name}]]",
            shape,
            array.typ,
            lambda env: self.selected(array, [int(np.asarray(table.value(env))[env[name]])], env),
            array.most,
        )

    def by_index_vector(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        name, ends = self.pick(*scope.vectors)
        kind = self.number(0, 5)
        if kind == 0:
            array = self.expr((*ends[::-1], *shape), depth - 1, scope)
            return Expr(
                f"{array.text}[reverse({name})]",
                shape,
                array.typ,
                lambda env: self.selected(array, env[name][::-1], env),
                array.most,
            )
        if kind == 1 and 0 not in ends:
            shift = self.number(0, 3)
            array = self.expr((*ends, *shape), depth - 1, scope)
            size = self.vector(ends)
            if ends or size.text.startswith("["):
                text = f"{array.text}[({name} + {shift}) % {size.text}]"
                return Expr(
                    text,
                    shape,
                    array.typ,
                    lambda env: self.selected(
                        array, [(k + shift) % n for k, n in zip(env[name], ends, strict=True)], env
                    ),
                    array.most,
                )
        if kind == 2 and 0 not in ends:
            index, value, size, _ = self.index(scope, 0)
            array = self.expr((size, *ends, *shape), depth - 1, scope)
            return Expr(
                f"{array.text}[[{index}] ++ {name}]",
                shape,
                array.typ,
                lambda env: self.selected(array, [value(env), *env[name]], env),
                array.most,
            )
        if kind == 3 and ends:
            k = self.number(0, len(ends))
            array = self.expr((*ends[k:], *shape), depth - 1, scope)
            return Expr(
                f"{array.text}[drop([{k}], {name})]",
                shape,
                array.typ,
                lambda env: self.selected(array, env[name][k:], env),
                array.most,
            )
        larger = tuple(n + self.pick(0, 0, 0, 1) for n in ends)
        array = self.expr((*larger, *shape), depth - 1, scope)
        self.selections.append((name, ((*larger, *shape), array.is_known)))
        text = f"sel({name}, {array.text})" if self.chance(0.1) else f"{array.text}[{name}]"
        return Expr(
            text, shape, array.typ, lambda env: self.selected(array, env[name], env), array.most
        )

    def dotted_selection(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`a[., 1]`, `a[..., i, .]`."""
        if len(shape) > 3:
            return self.leaf(shape, scope)
        text, value, size, name = self.index(scope, 0)
        axis = self.number(0, len(shape))
        array = self.expr((*shape[:axis], size, *shape[axis:]), depth - 1, scope)
        before = "..., " if self.chance(0.4) else "., " * axis
        after = ", ." * (len(shape) - axis)
        if before != "..., ":
            after = self.pick(after, "", ", ...", ", ." * self.number(0, len(shape) - axis))
        elif self.chance(0.2):
            before, after = "., " * axis + "..., ", after
        if name:
            self.selections.append((name, (axis, size, array.is_known)))
        return Expr(
            f"{array.text}[{before}{text}{after}]",
            shape,
            array.typ,
            lambda env: self.selected(array, [value(env)], env, axis),
            array.most,
        )

    # --- functions of arrays ----------------------------------------------------------------------

    def as_is(self, e: Expr, text: str, shape: Shape, value: Callable[[Array], Any]) -> Expr:
        return Expr(
            text, shape, e.typ, lambda env: np.asarray(value(np.asarray(e.value(env)))), e.most
        )

    def reversed(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        inner = self.expr(shape, depth, scope)
        return self.as_is(inner, f"reverse({inner.text})", shape, lambda a: a[::-1])

    def transposed(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        inner = self.expr(shape[::-1], depth, scope)
        return self.as_is(inner, f"transpose({inner.text})", shape, lambda a: a.T)

    def cut(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`take` and `drop` of some axes, from either end."""
        axes = self.number(1, len(shape))
        extra = [self.number(0, 2) for _ in range(axes)]
        fronts = [self.chance(0.5) for _ in range(axes)]
        whole = (*(n + k for n, k in zip(shape, extra, strict=False)), *shape[axes:])
        inner = self.expr(whole, depth, scope)
        is_drop = self.chance(0.5)
        if is_drop:
            amounts = [k if front else -k for k, front in zip(extra, fronts, strict=True)]
            place = tuple(
                slice(k, None) if front else slice(0, n)
                for k, n, front in zip(extra, shape, fronts, strict=False)
            )
        else:
            amounts = [n if front else -n for n, front in zip(shape, fronts, strict=False)]
            place = tuple(
                slice(0, n) if front else slice(k, None)
                for k, n, front in zip(extra, shape, fronts, strict=False)
            )
        text = f"[{', '.join(map(str, amounts))}]"
        if axes == 1 and self.chance(0.2):
            text = str(amounts[0])
        return self.as_is(
            inner,
            f"{'drop' if is_drop else 'take'}({text}, {inner.text})",
            shape,
            lambda a: a[place],
        )

    def joined(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        first = self.number(0, shape[0])
        parts = [self.expr((n, *shape[1:]), depth, scope) for n in (first, shape[0] - first)]
        parts, typ = self.meeting(parts, keeps_bool=True)
        left, right = (self.valued(e, typ) for e in parts)
        return Expr(
            f"({parts[0].text} ++ {parts[1].text})",
            shape,
            typ,
            lambda env: np.concatenate([left(env), right(env)]),
            max(e.most for e in parts),
        )

    def rows(self, rows: list[Expr]) -> Expr:
        rows, typ = self.meeting(rows, keeps_bool=True)
        values = [self.valued(e, typ) for e in rows]
        text = f"[{', '.join(row.text for row in rows)}]"
        return Expr(
            text,
            (len(rows), *rows[0].shape),
            typ,
            lambda env: np.stack([value(env) for value in values]),
            max(e.most for e in rows),
        )

    def row(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        if shape[0] > 5:
            return self.leaf(shape, scope)
        return self.rows([self.expr(shape[1:], depth - 1, scope) for _ in range(shape[0])])

    def iota(self, shape: Shape, _depth: int, scope: Scope) -> Expr:
        n = shape[0]
        if len(shape) == 1:
            return Expr(f"iota({self.size(n)})", shape, SIZE, lambda _: np.arange(n))
        rest = tuple(self.number(1, 3) for _ in range(shape[1]))
        whole = (*rest, shape[1])
        inner = self.as_is(
            self.literal_of(0),
            f"iota({self.bracketed(rest)})",
            whole,
            lambda _: np.moveaxis(np.indices(rest), 0, -1).reshape(whole),
        )
        inner = Expr(inner.text, whole, SIZE, inner.value)
        if not rest or shape[1] > 3:
            return self.leaf(shape, scope)
        at = tuple(self.number(0, k - 1) for k in rest)
        row = self.as_is(
            inner, f"{inner.text}[{', '.join(map(str, at))}]", (shape[1],), lambda a: a[at]
        )
        return self.rows([row] * n) if n else self.leaf(shape, scope)

    def bracketed(self, values: Shape) -> str:
        return f"[{', '.join(map(str, values))}]"

    def filled(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`genarray(v, a)` and `reshape`."""
        k = self.number(0, len(shape))
        inner = self.expr(shape[k:], depth, scope)
        ends = self.vector(shape[:k])
        return self.as_is(
            inner,
            f"genarray({ends.text}, {inner.text})",
            shape,
            lambda a: np.broadcast_to(a, shape),
        )

    def reshaped(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        order = list(shape)
        self.random.shuffle(order)
        whole = (int(np.prod(shape)),) if self.chance(0.5) else tuple(order)
        inner = self.expr(whole, depth, scope)
        return self.as_is(
            inner,
            f"reshape({self.vector(shape).text}, {inner.text})",
            shape,
            lambda a: np.reshape(a, shape),
        )

    def rotated(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """A rotation by an index or number: `drop([k], a) ++ take([k], a)`."""
        inner = self.expr(shape, depth, scope)
        k = self.number(0, shape[0])
        return self.as_is(
            inner,
            f"(drop([{k}], {inner.text}) ++ take([{k}], {inner.text}))",
            shape,
            lambda a: np.roll(a, -k, 0),
        )

    def modarray_function(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        if 0 in shape:
            return self.leaf(shape, scope)
        k = self.number(1, len(shape))
        parts = [self.expr(shape, depth, scope), self.expr(shape[k:], depth - 1, scope)]
        parts, typ = self.meeting(parts, keeps_bool=True)
        array, new = (self.valued(e, typ) for e in parts)
        items = [self.index(scope, depth - 1) for _ in range(k)]
        texts, values = [], []
        for (text, value, size, _), n in zip(items, shape, strict=False):
            fits = size <= n
            texts.append(text if fits else f"({text} % {n})")
            values.append(value if fits else _modulo(value, n))

        def value(env: Env) -> Array:
            result = np.array(array(env))
            at = tuple(v(env) for v in values)
            if any(not 0 <= i < n for i, n in zip(at, shape, strict=False)):
                raise Fault("C8", "C12")
            result[at] = new(env)
            return result

        return Expr(
            f"modarray({parts[0].text}, [{', '.join(texts)}], {parts[1].text})",
            shape,
            typ,
            value,
            max(e.most for e in parts),
        )

    # --- folds ------------------------------------------------------------------------------------

    def folded(self, name: str, e: Expr) -> Expr:
        """`sum`, `prod`, `minval`, `maxval`, `any` and `all` of an array."""
        found = e.typ
        if name in ("any", "all"):
            function = np.any if name == "any" else np.all
            return Expr(
                f"{name}({e.text})",
                (),
                BOOL,
                lambda env: np.asarray(function(np.asarray(e.value(env)) != 0)),
            )
        typ = INT if found == BOOL and name in ("sum", "prod") else found
        value = self.valued(e, typ)

        def computed(env: Env) -> Array:
            array = value(env)
            if typ.is_weak and not array.size and name in ("minval", "maxval") and not typ.is_float:
                return np.asarray(_identity(name, "int32"), "int64")
            return _reduced(name, array, typ)

        return Expr(f"{name}({e.text})", (), typ, computed, 10**9)

    def reduced(self, _shape: Shape, depth: int, scope: Scope) -> Expr:
        name = str(self.pick("sum", "sum", "prod", "minval", "maxval", "any", "all"))
        inner = self.expr(self.shape(3, 3), depth, scope)
        return self.folded(name, inner)

    def ragged(self, _shape: Shape, depth: int, scope: Scope) -> Expr:
        """A fold over a comprehension whose end an index or data decide, or over `take`."""
        name = str(self.pick("sum", "prod", "minval", "maxval", "any", "all"))
        text, value, size, _ = self.index(scope, depth - 1)
        if self.chance(0.3):
            array = self.expr((size + self.number(0, 2),), depth - 1, scope)
            word = self.pick("take", "drop")
            inner = Expr(
                f"{word}([{text}], {array.text})",
                (size,),
                array.typ,
                lambda env: _cut(np.asarray(array.value(env)), value(env), word),
            )
            return self.folded(name, inner)
        new = self.fresh("i")
        body = self.expr((), depth - 1, scope.with_scalars([new], [size]))
        start = self.pick(0, 0, 1)
        lower = f"[{start}] <= " if start else ""

        def values(env: Env) -> Array:
            end = value(env)
            result = np.zeros(max(end, 0), body.typ.computed)
            if end < 0:
                raise Fault("C14")
            if start < end and end > MOST_INSTANCES:
                raise Unsettled("too many instances")
            for k in range(start, end):
                self.counted()
                result[k] = body.value({**env, new: k})
            return result

        inner = Expr(
            f"{{ [{new}] -> {body.text} | {lower}[{new}] < [{text}] }}", (size,), body.typ, values
        )
        return self.folded(name, inner)

    def fold(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """A with-loop that folds, of one or two partitions."""
        end, low = self.number(0, 4), self.number(0, 2)
        op = str(self.pick("+", "*", "min", "max", "&&", "||"))
        if self.chance(0.6):
            name = self.fresh("i")
            inner = scope.with_scalars([name], [end])
            index, ends = f"[{name}]", (end,)
        else:
            name = self.fresh("v")
            ends = tuple(self.number(1, 3) for _ in range(self.number(0, 2)))
            inner, index = scope.with_vector(name, ends), name
        is_vector = index == name
        block, inner = self.block(depth - 1, inner)
        bodies = [self.expr(shape, depth, inner)]
        lows = [0 if is_vector else low]
        if not is_vector and self.chance(0.3):
            bodies.append(self.expr(shape, depth - 1, scope.with_scalars([name], [end])))
            lows.append(0)
        neutral = self.expr(shape, 0, Scope(variables=scope.variables))
        parts, typ = self.meeting([*bodies, neutral], keeps_bool=op not in ("+", "*"))
        if op in ("&&", "||"):
            typ = BOOL
        bodies, neutral = parts[:-1], parts[-1]

        def converted_in(e: Expr, env: Env) -> Array:
            found = np.asarray(e.value(env))
            return found != 0 if op in ("&&", "||") else converted(found, e.typ, typ)

        def value(env: Env) -> Array:
            terms = [np.asarray(converted_in(neutral, env))]
            for k in np.ndindex(*ends):
                self.counted()
                here = k if is_vector else k[0]
                for number, (e, first) in enumerate(zip(bodies, lows, strict=True)):
                    if is_vector or k[0] >= first:
                        outer = {**env, name: here}
                        if number == 0:
                            outer = block(outer)
                        terms.append(converted_in(e, outer))
                        break
            array = np.stack(np.broadcast_arrays(*terms))
            word = {
                "+": "sum",
                "*": "prod",
                "min": "minval",
                "max": "maxval",
                "&&": "all",
                "||": "any",
            }[op]
            return _reduced(word, array, typ, axis=0)

        ranges = [
            f"({self.lower(first, ends, is_vector)} <= {index} < {self.bracketed(ends)})"
            for first in lows
        ]
        loops = "".join(
            f"{r}{block.text if n == 0 else ''} : {e.text}; "
            for n, (r, e) in enumerate(zip(ranges, bodies, strict=True))
        )
        return Expr(f"with {{ {loops}}} : fold({op}, {neutral.text})", shape, typ, value, 10**9)

    def lower(self, first: int, ends: Shape, is_vector: bool) -> str:
        return f"[{', '.join('0' for _ in ends)}]" if is_vector else f"[{first}]"

    def fold_of_arrays(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        return self.fold(shape, depth, scope)

    # --- blocks and functions ---------------------------------------------------------------------

    def block(self, depth: int, scope: Scope) -> tuple[_Block, Scope]:
        """The statements of a partition of a with-loop, and the scope behind them."""
        if not self.chance(0.3):
            return _Block("", []), scope
        return self.statements(self.number(1, 2), depth, scope, is_block=True)

    def statements(
        self, count: int, depth: int, scope: Scope, *, is_block: bool
    ) -> tuple[_Block, Scope]:
        texts: list[str] = []
        made: list[tuple[str, Callable[[Env], Any]]] = []
        for _ in range(count):
            name = self.fresh("x")
            e = self.expr(self.shape(2, 3), depth, scope)
            texts.append(f"{name} = {e.text};")
            value = e.value
            if self.chance(0.2) and not (e.typ.kind == "literal" and e.most > 100):
                made.append((name, value))
                op = str(self.pick("+", "-", "*"))
                right = self.expr((), depth - 1, scope)
                (left, right), typ = self.meeting([e, right], keeps_bool=False)
                if left is not e:  # the name of the text has no cast
                    scope = scope.with_variable(Expr(name, e.shape, e.typ, _lookup(name), e.most))
                    continue
                if typ != e.typ and typ.is_weak:
                    typ = met(e.typ, right.typ, keeps_bool=False)
                a, b = self.valued(e, typ), self.valued(right, typ)
                function = {"+": np.add, "-": np.subtract, "*": np.multiply}[op]

                def changed(
                    env: Env, a: Any = a, b: Any = b, f: Any = function, t: Typ = typ
                ) -> Any:
                    x, y = a(env), b(env)
                    with np.errstate(all="ignore"):
                        wide = f(x.astype("f8"), y.astype("f8")) if t.is_float else None
                        return exact(f(x, y), wide, t)

                texts.append(f"{name} {op}= {right.text};")
                e = Expr(name, e.shape, typ, changed, 10**6)
                value = changed
            elif self.chance(0.15):
                made.append((name, value))
                scope = scope.with_variable(Expr(name, e.shape, e.typ, _lookup(name), e.most))
                text, e = self.branches(e.shape, depth - 1, scope)
                texts.append(text)
                name, value = e.text, e.value
            elif self.chance(0.2):
                test = self.condition(depth - 1, scope)
                new = self.expr(e.shape, depth - 1, scope)
                (old, new), typ = self.meeting([e, new], keeps_bool=True)
                if old is not e:
                    made.append((name, value))
                    variable = Expr(name, e.shape, e.typ, _lookup(name), e.most)
                    scope = scope.with_variable(variable)
                    continue
                texts.append(f"if ({test.text}) {{ {name} = {new.text}; }}")
                a, b = self.valued(new, typ), self.valued(e, typ)

                def chosen(env: Env, test: Expr = test, a: Any = a, b: Any = b) -> Any:
                    return (a if np.asarray(test.value(env)) != 0 else b)(env)

                e = Expr(name, e.shape, typ, chosen, max(new.most, e.most))
                value = chosen
            made.append((name, value))
            scope = scope.with_variable(Expr(name, e.shape, e.typ, _lookup(name), e.most))
        text = " ".join(texts)
        return _Block(f" {{ {text} }}" if is_block else text, made), scope

    def branches(self, shape: Shape, depth: int, scope: Scope) -> tuple[str, Expr]:
        """An `if` of two or three branches that all set a new variable, perhaps to one other."""
        name, count = self.fresh("x"), self.number(2, 3)
        tests = [self.condition(depth, scope) for _ in range(count - 1)]
        same = [v for v in scope.variables if v.shape == shape and re.fullmatch(r"\w+", v.text)]
        if same and self.chance(0.5):
            values = [self.pick(*same)] * count
        else:
            made = [self.expr(shape, depth, scope) for _ in range(count)]
            values, typ = self.meeting(made, keeps_bool=True)
        typ = joined([v.typ for v in values])
        text = f"if ({tests[0].text}) {{ {name} = {values[0].text}; }} "
        if count == 3:
            text += f"else if ({tests[1].text}) {{ {name} = {values[1].text}; }} "
        text += f"else {{ {name} = {values[-1].text}; }}"
        ways = [self.valued(v, typ) for v in values]

        def chosen(env: Env) -> Any:
            for test, way in zip(tests, ways, strict=False):
                if np.asarray(test.value(env)) != 0:
                    return way(env)
            return ways[-1](env)

        return text, Expr(name, shape, typ, chosen, max(v.most for v in values))

    def called(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """A call of a function that is made for it, or of a rank-polymorphic one."""
        if len(self.functions) > 3:
            return self.applied(shape, depth, scope)
        arguments = [self.expr(shape, depth - 1, scope)]
        if self.chance(0.5):
            arguments.append(self.expr(self.pick(shape, ()), 0, scope))
        arguments = [
            a if a.typ.kind == "strong" else self.strong(a, a.typ.alone) for a in arguments
        ]
        names = [self.fresh("p") for _ in arguments]
        outer = self.inputs, self.is_inner, self.selections
        self.is_inner, self.selections = True, []
        parameters = tuple(
            Expr(n, a.shape, a.typ, _lookup(n)) for n, a in zip(names, arguments, strict=True)
        )
        inner_scope = Scope(variables=parameters)
        block, inner_scope = self.statements(
            self.number(0, 2), min(depth, 1), inner_scope, is_block=False
        )
        result = self.expr(shape, min(depth, 2), inner_scope)
        self.inputs, self.is_inner, self.selections = outer
        name = self.fresh("f")
        known: dict[int, str] = {}
        typed = [f"{self.declared(a, known)} {n}" for a, n in zip(arguments, names, strict=True)]
        strong = result.typ if result.typ.kind == "strong" else Typ("strong", result.typ.alone)
        wide = strong
        back = Expr(name, result.shape, wide, result.value)
        declared = self.declared(back, known)
        if result.typ.kind == "literal" and result.most > 2**31 - 1:
            raise Unsettled("a large literal")
        self.functions.append(
            f"{declared} {name}({', '.join(typed)}) {{ {block.text} return {result.text}; }}"
        )
        value = self.valued(result, wide)

        def call(env: Env) -> Array:
            def thunk(e: Expr) -> Callable[[], Any]:
                return _once(lambda: e.value(env))

            given = {n: thunk(a) for n, a in zip(names, arguments, strict=True)}
            return value(block(given))

        return Expr(f"{name}({', '.join(a.text for a in arguments)})", shape, wide, call)

    def declared(self, e: Expr, known: dict[int, str]) -> str:
        """A type with `[*]`, `[+]`, `.`, numbers, names of sizes, or a rank."""
        spelled = self.spelled(e.typ.name)
        kind = self.number(0, 5)
        if not e.shape:
            return self.pick(spelled, f"{spelled}[*]")  # type: ignore[no-any-return]
        if kind == 0:
            return f"{spelled}[*]"
        if kind == 1:
            return f"{spelled}[+]"
        if kind == 2 and self.chance(0.5):
            return f"{spelled}[{len(e.shape)}:{self.fresh('s')}]"
        if kind == 3 and self.chance(0.5):
            k = self.number(0, len(e.shape))
            rest = "".join(f",{self.pick('.', str(n))}" for n in e.shape[k:])
            return f"{spelled}[{self.fresh('d')}:{self.fresh('s')}{rest}]"
        entries = []
        for n in e.shape:
            entry = self.pick(".", str(n), "")
            if not entry:
                entry = known.setdefault(n, self.fresh("n"))
            entries.append(entry)
        return f"{spelled}[{','.join(entries)}]"

    def applied(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """A call of a function that serves any rank and any numbers, of one element type."""
        inner = self.expr(shape, depth, scope)
        name = str(self.pick("int32", "float64"))
        if inner.typ != Typ("strong", name):
            inner = self.strong(inner, name)
        spelled = {"int32": "int", "float64": "double"}[name]
        known = [row for row in _POLYMORPHIC if row[0] != "shifted" or 0 not in shape[:1]]
        word, text, function = self.pick(*known)
        word = f"{word}_{spelled}"
        text = text.format(t=spelled, name=word)
        if text not in self.functions:
            self.functions.append(text)

        def value(env: Env) -> Array:
            found = np.asarray(inner.value(env))
            for _ in range(found.size):
                self.counted()
            with np.errstate(all="ignore"):
                result = np.asarray(function(found)).astype(name)
                if name in FLOATS and not np.array_equal(result, function(found.astype("g"))):
                    raise Unsettled("rounding")
            return result

        return Expr(f"{word}({inner.text})", shape, inner.typ, value)

    # --- comprehensions ---------------------------------------------------------------------------

    def sized(self, names: Sequence[str], ends: Sequence[int], since: int) -> bool:
        """Whether the selections since a point bound all variables by these ends (C15)."""
        for name, end in zip(names, ends, strict=True):
            sizes = [s[1] for n, s in self.selections[since:] if n == name and s[2]]
            if not sizes or min(sizes) != end:
                return False
        return True

    def sized_vector(self, name: str, ends: Shape, since: int) -> bool:
        shapes = [s[0] for n, s in self.selections[since:] if n == name and s[1]]
        if not shapes:
            return False
        length = min(map(len, shapes))
        least = tuple(min(s[axis] for s in shapes) for axis in range(length))
        return least == ends

    def generator(
        self, index: str, ends: Shape, is_inferred: bool, *, count: int
    ) -> tuple[str, Shape]:
        """The text of a generator of the last partition, and the lower bound that it gives."""
        lows = tuple(0 for _ in ends)
        kind = self.number(0, 6)
        if is_inferred and self.chance(0.7):
            upper = ""
        else:
            upper = self.upper(index, ends)
        lower = ""
        if kind == 0:
            lower = f". <= {index}"
        elif kind == 1 and count:
            lows = tuple(self.number(0, n) for n in ends)
            lower = f"{self.bracketed(lows)} <= {index}"
        elif kind == 2 and count and all(ends):
            lows = tuple(self.number(0, n) for n in ends)
            lower = f"{self.bracketed(tuple(n - 1 for n in lows))} < {index}"
        elif kind == 3:
            lower = f"{self.vector(lows).text} <= {index}"
        if not upper and not lower:
            return "", lows
        if not upper:
            return f" | {lower}", lows
        return (f" | {lower}{upper[len(index) :]}" if lower else f" | {upper}"), lows

    def upper(self, index: str, ends: Shape) -> str:
        ends_text = self.vector(ends).text
        if ends and all(ends) and self.chance(0.15):
            return f"{index} <= {self.bracketed(tuple(n - 1 for n in ends))}"
        return f"{index} < {ends_text}"

    def positions(
        self,
        shape: Shape,
        axes: Sequence[int],
        lows: Shape,
        body: Callable[[Env], Any],
        env: Env,
        name: Any,
        typ: Typ,
    ) -> Array:
        """An array whose parts along some axes are bodies at an index."""
        result = np.zeros(shape, typ.computed)
        if not result.size:
            return result
        for index in np.ndindex(*(shape[axis] for axis in axes)):
            if any(k < low for k, low in zip(index, lows, strict=True)):
                continue
            self.counted()
            place: list[Any] = [slice(None)] * len(shape)
            for axis, k in zip(axes, index, strict=True):
                place[axis] = k
            result[tuple(place)] = body(_with(env, name, index))
        return result

    def comprehension(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        count = self.number(1, min(3, len(shape)))
        names = [self.fresh("i") for _ in range(count)]
        since = len(self.selections)
        body = self.expr(shape[count:], depth, scope.with_scalars(names, shape[:count]))
        index = f"[{', '.join(names)}]"
        inferred = self.sized(names, shape[:count], since)
        text, lows = self.generator(index, shape[:count], inferred, count=count)
        return Expr(
            f"{{ {index} -> {body.text}{text} }}",
            shape,
            body.typ,
            lambda env: self.positions(shape, range(count), lows, body.value, env, names, body.typ),
            body.most,
        )

    def bound_found(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """A comprehension whose bounds its selections tell: `{ iv -> a[iv] + .. }`."""
        count = self.number(1, min(2, len(shape)))
        is_vector = self.chance(0.5)
        since = len(self.selections)
        if is_vector:
            name: Any = self.fresh("v")
            array = self.expr(shape, 0, scope)
            self.selections.append((name, (shape, True)))
            extra = self.expr((), depth - 1, scope.with_vector(name, shape))
            pick, index, rest = f"{array.text}[{name}]", name, ()
            ends: Shape = shape
            axes = range(len(shape))
        else:
            name = [self.fresh("i") for _ in range(count)]
            order = list(range(count))
            self.random.shuffle(order)
            ends, rest = shape[:count], shape[count:]
            whole = (*(ends[k] for k in order), *rest)
            array = self.expr(whole, 0, scope)
            for axis, k in enumerate(order):
                self.selections.append((name[k], (axis, ends[k], True)))
            extra = self.expr(self.pick((), rest), depth - 1, scope.with_scalars(name, ends))
            pick = f"{array.text}[{', '.join(name[k] for k in order)}]"
            index = f"[{', '.join(name)}]"
            axes = range(count)
        first = Expr(
            pick,
            rest,
            array.typ,
            lambda env: np.asarray(array.value(env))[
                tuple(env[name]) if is_vector else tuple(env[name[k]] for k in order)
            ],
            array.most,
        )
        pair, typ = self.meeting([first, extra], keeps_bool=True)
        values = [self.valued(e, typ) for e in pair]
        word, function = self.pick(("min", np.minimum), ("max", np.maximum))
        inferred = (
            self.sized_vector(name, ends, since) if is_vector else self.sized(name, ends, since)
        )
        text, lows = self.generator(index, ends, inferred, count=len(ends))
        return Expr(
            f"{{ {index} -> {word}({pair[0].text}, {pair[1].text}){text} }}",
            shape,
            typ,
            lambda env: self.positions(
                shape, axes, lows, lambda e: function(values[0](e), values[1](e)), env, name, typ
            ),
            max(e.most for e in pair),
        )

    def by_vector(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        count = self.number(0, len(shape))
        name = self.fresh("v")
        ends = shape[:count]
        since = len(self.selections)
        body = self.expr(shape[count:], depth, scope.with_vector(name, ends))
        text, lows = self.generator(name, ends, self.sized_vector(name, ends, since), count=count)
        return Expr(
            f"{{ {name} -> {body.text}{text} }}",
            shape,
            body.typ,
            lambda env: self.positions(shape, range(count), lows, body.value, env, name, body.typ),
            body.most,
        )

    def pattern(self, shape: Shape) -> tuple[list[str], list[int], list[str]]:
        """Entries of a pattern with dots, the axes of its names, and the names."""
        count = self.number(0, min(2, len(shape)))
        axes = sorted(self.random.sample(range(len(shape)), count))
        names = [self.fresh("i") for _ in axes]
        entries = ["."] * len(shape)
        for name, axis in zip(names, axes, strict=True):
            entries[axis] = name
        if self.chance(0.5):
            start = self.number(0, len(entries))
            end = start
            while end < len(entries) and entries[end] == ".":
                end += 1
            entries = [*entries[:start], "...", *entries[end:]]
        else:
            while entries and entries[-1] == "." and self.chance(0.5):
                entries.pop()
        return entries, axes, names

    def dotted(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """`[., i]`, `[..., i]`, `[i, ..., j]` and their like."""
        entries, axes, names = self.pattern(shape)
        rest = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        ends = tuple(shape[axis] for axis in axes)
        since = len(self.selections)
        body = self.expr(rest, depth, scope.with_scalars(names, ends))
        index = f"[{', '.join(names)}]"
        inferred = self.sized(names, ends, since)
        text, lows = self.generator(index, ends, inferred, count=len(names))
        return Expr(
            f"{{ [{', '.join(entries)}] -> {body.text}{text} }}",
            shape,
            body.typ,
            lambda env: self.positions(shape, axes, lows, body.value, env, names, body.typ),
            body.most,
        )

    def partitions(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        """One to three earlier partitions, of indices of several lengths, before a last one."""
        parts: list[tuple[str, Expr, Any, Sequence[int], Shape, Shape]] = []
        for _ in range(self.number(1, 3)):
            parts.append(self.earlier(shape, depth - 1, scope))
        last = self.number(0, 2)
        since = len(self.selections)
        count = self.number(1, len(shape))
        name: Any
        if last == 0:
            name = self.fresh("v")
            body = self.expr(shape[count:], depth, scope.with_vector(name, shape[:count]))
            inferred, index = self.sized_vector(name, shape[:count], since), name
        else:
            count = min(count, 2)
            name = [self.fresh("i") for _ in range(count)]
            body = self.expr(shape[count:], depth, scope.with_scalars(name, shape[:count]))
            inferred = self.sized(name, shape[:count], since)
            index = f"[{', '.join(name)}]"
        text, lows = self.generator(index, shape[:count], inferred, count=count)
        bodies, typ = self.meeting([*(p[1] for p in parts), body], keeps_bool=True)
        values = [self.valued(e, typ) for e in bodies]
        texts = []
        places = []
        for (shown, _, named, axes, low, high), e in zip(parts, bodies, strict=False):
            texts.append(shown.replace("@", e.text, 1))
            places.append((named, axes, low, high))
        texts.append(f"{index} -> {bodies[-1].text}{text}")
        places.append((name, range(count), lows, shape[:count]))

        def value(env: Env) -> Array:
            result = np.zeros(shape, typ.computed)
            free = np.ones(shape, bool)
            for (named, axes, low, high), body_value in zip(places, values, strict=True):
                if not result.size:
                    continue
                for k in np.ndindex(*(max(0, h - n) for n, h in zip(low, high, strict=True))):
                    at = tuple(n + d for n, d in zip(low, k, strict=True))
                    place: list[Any] = [slice(None)] * len(shape)
                    for axis, i in zip(axes, at, strict=True):
                        place[axis] = i
                    left = free[tuple(place)]
                    if not np.any(left):
                        continue
                    self.counted()
                    try:
                        found = np.asarray(body_value(_with(env, named, at)))
                    except Fault:
                        if not np.all(left):
                            raise Unsettled("a place covered in part") from None
                        raise
                    if not left.ndim:
                        result[tuple(place)] = found
                    else:
                        result[tuple(place)] = np.where(left, found, result[tuple(place)])
                    free[tuple(place)] = False
            return result

        return Expr(f"{{ {'; '.join(texts)} }}", shape, typ, value, max(e.most for e in bodies))

    def earlier(
        self, shape: Shape, depth: int, scope: Scope
    ) -> tuple[str, Expr, Any, Sequence[int], Shape, Shape]:
        """A partition before the last: its text with `@` for the body, and its places."""
        kind = self.number(0, 2)
        name: Any
        if kind == 0:
            count = self.number(0, len(shape))
            axes: Sequence[int] = range(count)
            name = self.fresh("v")
            pattern = index = name
        elif kind == 1:
            count = self.number(1, min(2, len(shape)))
            axes = range(count)
            name = [self.fresh("i") for _ in range(count)]
            pattern = index = f"[{', '.join(name)}]"
        else:
            entries, axes, name = self.pattern(shape)
            pattern, index = f"[{', '.join(entries)}]", f"[{', '.join(name)}]"
        ends = tuple(shape[axis] for axis in axes)
        rest = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        low = tuple(self.number(0, n) for n in ends)
        high = tuple(self.number(k, n) for k, n in zip(low, ends, strict=True))
        if self.chance(0.1) and ends:
            high = tuple(self.number(-1, k) for k in low)  # an empty range
        if self.is_faulty and self.chance(0.3) and ends:
            raise Unsettled("faulty ranges are made elsewhere")
        lower, upper = f"{self.bracketed(low)} <= ", f" < {self.bracketed(high)}"
        if self.chance(0.3):
            high, upper = ends, " <= ."
        if self.chance(0.2):
            low, lower = tuple(0 for _ in ends), ". <= "
        elif self.chance(0.15):
            low, lower = tuple(0 for _ in ends), ""
        if isinstance(name, str) and lower in ("", ". <= ") and upper == " <= .":
            low, lower = tuple(0 for _ in ends), f"{self.bracketed((0,) * len(ends))} <= "
        clipped = tuple(max(0, n) for n in high)
        if isinstance(name, str):
            inner = scope.with_vector(name, clipped)
        else:
            inner = scope.with_scalars(name, clipped)
        body = self.expr(rest, depth, inner)
        return f"{pattern} -> @ | {lower}{index}{upper}", body, name, axes, low, high

    def genarray(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        return self.loop(shape, depth, scope, is_genarray=True)

    def modarray(self, shape: Shape, depth: int, scope: Scope) -> Expr:
        return self.loop(shape, depth, scope, is_genarray=False)

    def loop(self, shape: Shape, depth: int, scope: Scope, *, is_genarray: bool) -> Expr:
        """A with-loop of some partitions, of which the first that covers an index counts."""
        count = self.number(0 if is_genarray else 1, len(shape))
        default = self.expr(shape[count:] if is_genarray else shape, depth - 1, scope)
        texts, bodies, places = [], [], []
        for _ in range(self.number(0, 2)):
            width = count if is_genarray or self.chance(0.7) else self.number(1, len(shape))
            ends = shape[:width]
            low = tuple(self.number(0, n) for n in ends)
            high = tuple(self.number(k, n) for k, n in zip(low, ends, strict=True))
            lower, upper = f"{self.bracketed(low)} <= ", f" < {self.bracketed(high)}"
            if self.chance(0.3) and width == count and is_genarray:
                high, upper = ends, " <= ."
            name: Any
            if self.chance(0.5):
                name = self.fresh("v")
                index, inner = name, scope.with_vector(name, high)
            else:
                name = [self.fresh("i") for _ in range(width)]
                index, inner = f"[{', '.join(name)}]", scope.with_scalars(name, high)
            block, inner = self.block(depth - 1, inner)
            bodies.append(self.expr(shape[width:], depth - 1, inner))
            texts.append(f"({lower}{index}{upper}){block.text} : @; ")
            places.append((name, low, high, block))
        parts, typ = self.meeting([*bodies, default], keeps_bool=True)
        values = [self.valued(e, typ) for e in parts]

        def value(env: Env) -> Array:
            result = np.zeros(shape, typ.computed)
            free = np.ones(shape, bool)
            if not result.size:
                return result
            for (name, low, high, block), body in zip(places, values, strict=False):
                for k in np.ndindex(*(h - n for n, h in zip(low, high, strict=True))):
                    at = tuple(n + d for n, d in zip(low, k, strict=True))
                    left = free[at]
                    if not np.any(left):
                        continue
                    self.counted()
                    found = np.asarray(body(block(_with(env, name, at))))
                    result[at] = np.where(left, found, result[at])
                    free[at] = False
            if free.any():
                rest = np.broadcast_to(values[-1](env), shape)
                result = np.where(free, rest, result)
            return result

        shown = "".join(t.replace("@", e.text, 1) for t, e in zip(texts, parts, strict=False))
        operation = (
            f"genarray({self.vector(shape[:count]).text}, {parts[-1].text})"
            if is_genarray
            else f"modarray({parts[-1].text})"
        )
        return Expr(
            f"with {{ {shown}}} : {operation}", shape, typ, value, max(e.most for e in parts)
        )


class _Block:
    """Statements: their text, and the names that they give values when these are asked for."""

    def __init__(self, text: str, made: list[tuple[str, Callable[[Env], Any]]]) -> None:
        self.text = text
        self.made = made

    def __call__(self, env: Env) -> dict[str, Any]:
        known = dict(env)
        for name, value in self.made:
            known[name] = _once(lambda value=value, at=dict(known): value(at))
        return known


def _once(value: Callable[[], Any]) -> Callable[[], Any]:
    kept: list[Any] = []

    def asked() -> Any:
        if not kept:
            kept.append(value())
        return kept[0]

    return asked


def _lookup(name: str) -> Callable[[Env], Any]:
    return lambda env: env[name]()


def _with(env: Env, name: Any, index: Sequence[int]) -> dict[str, Any]:
    if isinstance(name, str):
        return {**env, name: tuple(index)}
    return {**env, **dict(zip(name, index, strict=True))}


def _modulo(value: Callable[[Env], int], n: int) -> Callable[[Env], int]:
    return lambda env: value(env) % n


def _bounded(value: Array, is_positive: bool) -> Array:
    with np.errstate(all="ignore"):
        if is_positive:
            return np.asarray(np.mod(value, value.dtype.type(5)) + value.dtype.type(1))
        return np.asarray(np.mod(value, value.dtype.type(3)) - value.dtype.type(4))


def _cut(array: Array, k: int, word: str) -> Array:
    if abs(k) > array.shape[0]:
        raise Fault("C9")
    n = array.shape[0]
    if word == "take":
        return array[:k] if k >= 0 else array[n + k :]
    return array[k:] if k >= 0 else array[: n + k]


def _identity(name: str, dtype: str) -> Any:
    if name in ("sum", "prod"):
        return 0 if name == "sum" else 1
    if name in ("any", "all"):
        return name == "all"
    if dtype == "bool":
        return name == "minval"
    if dtype in FLOATS:
        return np.inf if name == "minval" else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if name == "minval" else limits.min


def _reduced(name: str, array: Array, typ: Typ, axis: int | None = None) -> Array:
    """A fold of an array over all axes or one, exact in every order."""
    dtype = array.dtype
    if name in ("any", "all"):
        return np.asarray((np.any if name == "any" else np.all)(array, axis=axis))
    if typ.is_float and name in ("sum", "prod"):
        magnitude = np.abs(array.astype("f8"))
        if name == "sum":
            digits = {"float16": 2.0**10, "float32": 2.0**23, "float64": 2.0**52}[typ.alone]
            scale = 2.0**-12 if typ.alone != "float16" else 2.0**-6
            if not np.array_equal(array.astype("f8") / scale, np.rint(array.astype("f8") / scale)):
                raise Unsettled("rounding")
            if np.any(magnitude.sum(axis=axis) / scale >= digits):
                raise Unsettled("rounding")
        elif (
            np.any(np.maximum(magnitude, 1).prod(axis=axis) >= 2.0**8)
            or not np.array_equal(array * 8, np.rint(array * 8))
            or array.shape[0 if axis == 0 else -1 :][:1] > (3,)
            or array.size > 3 * max(1, array[0].size if axis == 0 else 1)
        ):
            raise Unsettled("rounding")
    with np.errstate(all="ignore"):
        if name == "sum":
            result = np.sum(array, axis=axis, dtype=dtype)
        elif name == "prod":
            result = np.prod(array, axis=axis, dtype=dtype)
        elif name == "minval":
            result = np.min(array, axis=axis, initial=_identity(name, str(dtype)))
        else:
            result = np.max(array, axis=axis, initial=_identity(name, str(dtype)))
    return exact(np.asarray(result, dtype), np.asarray(result, "f8") if typ.is_float else None, typ)


def _convolved(a: Array) -> Array:
    """The sum of each element and those that follow it on every axis, around."""
    total = np.zeros_like(a)
    for offset in np.ndindex(*(2,) * a.ndim):
        part = np.roll(a, tuple(-k for k in offset), tuple(range(a.ndim))) if a.ndim else a
        total = total + part
    return total


_POLYMORPHIC: tuple[tuple[str, str, Callable[[Array], Any]], ...] = (
    ("twice", "{t}[*] {name}({t}[*] r) {{ return r + r; }}", lambda a: a + a),
    (
        "around",
        "{t}[*] {name}({t}[d:s] r) {{ return {{ iv -> sum({{ ov -> r[(iv + ov) % s] "
        "| ov < genarray([d], 2) }}) | iv < s }}; }}",
        _convolved,
    ),
    (
        "shifted",
        "{t}[*] {name}({t}[*] r) {{ return dim(r) == 0 ? r : drop([1], r ++ take([1], r)); }}",
        lambda a: np.roll(a, -1, 0) if a.ndim and a.shape[0] else _refused(a),
    ),
    (
        "mirrored",
        "{t}[*] {name}({t}[d:s] r) {{ return {{ iv -> r[s - 1 - iv] | iv < s }}; }}",
        lambda a: a[(slice(None, None, -1),) * a.ndim],
    ),
    (
        "flipped",
        "{t}[*] {name}({t}[*] r) {{ x = {{ iv -> r[iv] }}; if (dim(r) > 1) {{ x = reverse(x); }} "
        "else {{ x = -x; }} return x; }}",
        lambda a: a[::-1] if a.ndim > 1 else -a,
    ),
)


def _refused(a: Array) -> Array:
    if a.ndim:
        raise Fault("C9")
    return a


def drawn(random: Random, depth: int = 4) -> Program:
    """A program. Raises Unsettled where its value is not settled."""
    palette = random.choice(PALETTES)
    writer = _Writer(
        random, palette, is_faulty=random.random() < 0.15, most=random.choice((2, 3, 3, 4, 6))
    )
    depth = random.randint(1, depth)
    scope = Scope()
    block = _Block("", [])
    if random.random() < 0.35:
        block, scope = writer.statements(random.randint(1, 3), depth - 1, scope, is_block=False)
    count = 1 if random.random() < 0.85 else 2
    results = [writer.expr(writer.shape(4 if depth < 4 else 3), depth, scope) for _ in range(count)]
    is_expression = count == 1 and not writer.functions and random.random() < 0.4
    outer = [np.dtype(e.typ.alone) for e in results]
    known: dict[int, str] = {}
    if is_expression:
        text, entry = f"{block.text} {results[0].text}", None
        used = {n for n in writer.inputs if _is_named(n, text)}
        writer.inputs = {n: a for n, a in writer.inputs.items() if n in used}
    else:
        typed = [f"{writer.declared(_array(n, a), known)} {n}" for n, a in writer.inputs.items()]
        kinds = []
        for e in results:
            wide = e.typ.alone
            if e.typ.kind == "literal" and e.most > 2**31 - 1:
                raise Unsettled("a large literal")
            kinds.append(writer.declared(Expr("", e.shape, Typ("strong", wide), e.value), known))
        returned = ", ".join(e.text for e in results)
        returned = f"({returned})" if count > 1 else returned
        text = "\n".join(
            [
                *writer.functions,
                f"{', '.join(kinds)} main({', '.join(typed)}) "
                f"{{ {block.text} return {returned}; }}",
            ]
        )
        entry = "main"
    program = Program(text, entry, writer.inputs, is_faulty=writer.is_faulty)
    faults: list[str] = []
    try:
        env = block({})
    except Fault as fault:
        program.faults = fault.rules
        return program
    due = []
    for e, kind in zip(results, outer, strict=True):
        try:
            value = np.asarray(e.value(env))
        except Fault as fault:  # of several results, any may be told
            faults += fault.rules
            continue
        is_whole = e.typ.is_weak and not e.typ.is_float
        if is_whole and not np.array_equal(value, value.astype("int32")):
            raise Unsettled("a large weak number")
        due.append(np.array(np.broadcast_to(value.astype(kind), e.shape)))
    program.faults = tuple(faults)
    program.due = () if faults else tuple(due)
    return program


def _array(name: str, array: Array) -> Expr:
    return Expr(name, array.shape, Typ("strong", str(array.dtype)), lambda _: array)


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None
