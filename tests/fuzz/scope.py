"""What a program under construction holds: sizes, tensors with concrete shapes, and subscripts
that stay (or on purpose do not stay) inside them.

All shapes and ranges are decided here first, and the text is written so that range inference has
to find them: a variable has a `where`, or a read in which it alone decides how far it goes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fuzz.model import KNOWN, Expr, Param, binary, num, read, var

FLOATS = ("float", "double", "half", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int", "int64", "uint8", "uint16", "uint32", "uint64", "byte")
LENGTHS = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 19, 23, 31, 32, 33, 40, 64, 65)
SHORT = (1, 2, 3, 4, 5, 7)
NAMES = ("N", "M", "K", "L", "P", "Q", "R", "S")
MOST_INPUTS = 8


@dataclass(frozen=True)
class Variable:
    """An index variable and its range; `inferred` without a `where`."""

    name: str
    low: int
    high: int
    inferred: bool

    def __len__(self) -> int:
        return self.high - self.low


@dataclass
class Tensor:
    shape: tuple[int, ...]
    kind: str  # "f", "i" or "b", of the elements; "bits" where no statement goes on
    is_input: bool = False


@dataclass
class Scope:
    rng: random.Random
    types: tuple[str, ...]
    values: str
    params: list[Param] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # --- sizes and inputs ---------------------------------------------------------------------

    def dimension(self, size: int) -> str:
        """A dimension of an input as written: a number, or a size of that value."""
        fitting = [name for name, value in self.sizes.items() if value == size]
        if fitting and self.chance(0.6):
            return self.rng.choice(fitting)
        free = [name for name in NAMES if name not in self.sizes]
        if free and self.chance(0.85):
            self.sizes[free[0]] = size
            return free[0]
        return str(size)

    def new_input(
        self, shape: tuple[int, ...], type: str | None = None, values: str | None = None
    ) -> str:
        """Declares an input; gives its name."""
        name = "abcdefghuvxyz"[len(self.params)]
        rng = self.rng
        type = type or rng.choice(self.types)
        if values is None:
            values = (
                self.values if self.chance(0.85) else rng.choice(("integers", "normal", "ones"))
            )
        axes: tuple[int, ...] = ()
        steps: tuple[int, ...] = ()
        if len(shape) > 1 and self.chance(0.3):  # planes transposed, as `.T` makes them
            axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        elif shape and self.chance(0.15):
            axes = tuple(rng.sample(range(len(shape)), len(shape)))
        if shape and self.chance(0.15):
            choice = (1, 1, 1, -1, 2, 3, -2)
            steps = tuple(rng.choice(choice) for _ in shape)
        dims = tuple(map(self.dimension, shape))
        self.params.append(Param(name, type, dims, values, axes, steps))
        kind = "f" if type in FLOATS else "b" if type == "bool" else "i"
        self.tensors[name] = Tensor(shape, kind, is_input=True)
        return name

    @property
    def full(self) -> bool:
        return len(self.params) >= MOST_INPUTS

    def scalar(self, value: int) -> Expr:
        """A number, as an integer input that has this value in the call."""
        held = [name for name, known in self.scalars.items() if known == value]
        if not held and self.full:
            return num(value)
        if not held:
            held = [self.new_input((), self.rng.choice(("int", "int", "int64")), f"{KNOWN}{value}")]
            self.scalars[held[0]] = value
        return ("size", held[0])

    def perhaps_scalar(self, e: Expr) -> Expr:
        """The sum, product or quotient with its number, now and then, as an integer input."""
        if e[0] != "bin" or not self.chance(0.1):
            return e
        return ("bin", e[1], *(self.scalar(int(x[1])) if x[0] == "num" else x for x in e[2:]))

    def literal_of(self, value: int) -> Expr:
        """An integer as it may be written in a bound."""
        rng = self.rng
        if self.chance(0.05):
            return self.scalar(value)
        forms: list[Expr] = [num(value)] * 3
        for name, size in self.sizes.items():
            if size == value:
                forms += [("size", name)] * 3
            elif 0 < size - value <= 3:
                forms.append(binary("-", ("size", name), num(size - value)))
            elif 0 < value - size <= 2:
                forms.append(binary("+", ("size", name), num(value - size)))
            if value == size // 2:
                forms.append(binary("/", ("size", name), num(2)))
            if value < size and self.chance(0.12):
                forms.append(("call", "min", (("size", name), num(value))))
        chosen = rng.choice(forms)
        if value < 0 and chosen[0] == "num":
            return ("un", "-", num(-value))
        return chosen

    # --- subscripts -----------------------------------------------------------------------------

    def inside(self, size: int, variables: list[Variable]) -> Expr:
        """A subscript that stays in a dimension for all values of the variables."""
        rng = self.rng
        forms: list[Expr] = []
        for v in rng.sample(variables, min(3, len(variables))):
            x = var(v.name)
            if v.low >= 0 and v.high <= size:
                forms += [x] * 6
                forms.append(binary("-", num(size - 1), x))
            least, most = -v.low, size - v.high
            if v.inferred:
                least = max(least, 0)
            shifts = [c for c in range(-6, 7) if least <= c <= most and c]
            if shifts:
                shift = rng.choice(shifts)
                forms += [binary("+" if shift > 0 else "-", x, num(abs(shift)))] * 2
            if v.low >= 0:
                if 2 * (v.high - 1) < size:
                    forms.append(binary("*", num(2), x))
                if (v.high - 1) // 2 < size:
                    forms.append(binary("/", x, num(2)))
                if size or not v.inferred:  # 0 is not feasible below -1 (G5)
                    forms.append(("call", "min", (x, num(size - 1))))
            if size > 1:
                forms.append(binary("%", x, num(rng.randint(1, size))))
            w = rng.choice(variables)
            if w != v and v.low + w.low >= 0 and v.high + w.high - 2 < size:
                forms += [binary("+", x, var(w.name))] * 2
            if self.chance(0.15):
                forms += [self.gather(size, v)] * 2
        if not forms or self.chance(0.12):
            return num(rng.randrange(size)) if size else num(0)
        return self.perhaps_scalar(rng.choice(forms))

    def gather(self, size: int, v: Variable, values: str = "index") -> Expr:
        """A subscript that is read from a tensor of indices below `size`."""
        wanted = f"{values} {size}"
        fitting = [
            p.name
            for p in self.params
            if p.values == wanted and len(p.dims) == 1 and self.tensors[p.name].shape[0] >= v.high
        ]
        if fitting and v.low >= 0:
            return read(fitting[0], var(v.name))
        if self.full or v.low < 0 or v.high < 1:
            return num(self.rng.randrange(size)) if size else num(0)
        type = self.rng.choice(("int", "int", "int64", "byte", "int8", "uint32"))
        return read(self.new_input((v.high,), type, wanted), var(v.name))

    def near(self, size: int, variables: list[Variable]) -> Expr:
        """A subscript of a read in a `pad`: it may leave the dimension."""
        rng = self.rng
        if not variables or self.chance(0.15):
            return num(rng.choice((0, 1, size - 1, size, size + 2)) if size else 0)
        v = rng.choice(variables)
        x = var(v.name)
        forms: list[Expr] = [
            binary("+", x, num(rng.randint(1, 3))),
            binary("-", x, num(rng.randint(1, 3))),
            binary("-", binary("*", num(2), x), num(1)),
            binary("-", num(size), x),
            binary("+", x, num(size)),
        ]
        w = rng.choice(variables)
        if w != v:
            forms += [binary("-", x, var(w.name)), binary("+", x, var(w.name))] * 2
        if not v.inferred or (v.low >= 0 and v.high <= size):
            forms += [x] * 4
        return rng.choice(forms)

    # --- reads ----------------------------------------------------------------------------------

    def readable(self, but: str = "") -> list[str]:
        return [n for n, t in self.tensors.items() if n != but and 0 not in t.shape]

    def read_inside(self, name: str, variables: list[Variable]) -> Expr:
        return read(name, *(self.inside(size, variables) for size in self.tensors[name].shape))

    def covering(self, missing: list[Variable], covered: list[Variable], but: str) -> Expr:
        """A read that fixes the ranges of some variables, which it takes from `missing` and adds
        to `covered`: of a tensor with such a dimension, or of a new input."""
        first = missing[0]
        fitting = [
            name
            for name in self.readable(but)
            if any(size == first.high for size in self.tensors[name].shape)
        ]
        if fitting and (self.full or self.chance(0.45)):
            return self._cover_with(self.rng.choice(fitting), missing, covered)
        if self.full:
            return num(1)
        return self._cover_anew(missing, covered)

    def _cover_with(self, name: str, missing: list[Variable], covered: list[Variable]) -> Expr:
        subscripts = []
        for size in self.tensors[name].shape:
            exact = [v for v in missing if v.high == size]
            if exact:
                missing.remove(exact[0])
                covered.append(exact[0])
                subscripts.append(var(exact[0].name))
            else:
                subscripts.append(self.inside(size, [*covered, *missing]))
        return read(name, *subscripts)

    def _cover_anew(self, missing: list[Variable], covered: list[Variable]) -> Expr:
        rng = self.rng
        count = min(len(missing), rng.choice((1, 1, 2, 2, 3)))
        chosen = rng.sample(missing[1:], count - 1)
        pieces: list[tuple[int, Expr]] = []
        for v in (missing[0], *chosen):
            missing.remove(v)
            covered.append(v)
            pieces.append(self._exact(v))
        if len(pieces) < 4 and self.chance(0.25):
            size = rng.choice(SHORT)
            pieces.append((size, self.inside(size, covered)))
        rng.shuffle(pieces)
        name = self.new_input(tuple(size for size, _ in pieces))
        return read(name, *(subscript for _, subscript in pieces))

    def _exact(self, v: Variable) -> tuple[int, Expr]:
        """A dimension and a subscript from which the range of a variable follows."""
        rng, x = self.rng, var(v.name)
        form = rng.randrange(10)
        if form == 0:
            return v.high + 2, self.perhaps_scalar(binary("+", x, num(2)))
        if form == 1 and v.high:
            size = 2 * v.high - 1 + rng.randint(0, 1)
            return size, self.perhaps_scalar(binary("*", num(2), x))
        if form == 2 and v.high:
            return v.high, self.perhaps_scalar(binary("-", num(v.high - 1), x))
        return v.high, x
