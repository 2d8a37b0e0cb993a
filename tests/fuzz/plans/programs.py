"""Programs for which there is much to plan: contractions of groups of loops, statements that go
over one matrix, transposed convolutions, chains of stencils. They are larger than those of
`tests.fuzz.generate`: some choices are made for sizes alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.chains import add_chain
from tests.fuzz.drafts import Body, Draft, finish
from tests.fuzz.generate import assembled, random_device
from tests.fuzz.model import Case, Expr, binary, num, read, var
from tests.fuzz.scope import Scope, Variable

MOST_INSTANCES, MOST_ELEMENTS = 1 << 18, 1 << 16
SIZES = range(1, 71)

Maker = Callable[[Body], None]


def planned_case(seed: str) -> Case:
    """The program of a seed."""
    rng = random.Random(f"plans {seed}")
    while True:
        scope = Scope(rng, _types(rng), rng.choice(("normal", "normal", "integers", "ones")))
        body = Body(scope)
        rng.choices(list(MAKERS), list(MAKERS.values()))[0](body)
        made = assembled(rng, body, ("numba",))
        if made is not None and made.refused != "P1":
            options = {} if rng.random() < 0.6 else made.options
            return replace(made, helper=0, options=options, device=small_processor(rng))


def small_processor(rng: random.Random) -> dict[str, Any]:
    """A processor whose caches are smaller than most arrays, so that all choices are met."""
    return {
        **random_device(rng),
        "vector_bits": rng.choice((128, 256, 256, 512, 512)),
        "vector_registers": rng.choice((16, 32)),
        "l1": rng.choice((512, 1 << 10, 1 << 12)),
        "l2": rng.choice((1 << 10, 1 << 12, 12 << 10, 1 << 15)),
        "l3": rng.choice((0, 1 << 14, 64 << 10)),
        "page": rng.choice((256, 4096)),
        "l2_bytes_per_cycle": rng.choice((8.0, 24.0, 48.0)),
        "threads": rng.choice((1, 2, 2, 3, 4)),
    }


def _types(rng: random.Random) -> tuple[str, ...]:
    return (rng.choice(("float", "float", "float", "float", "double", "half", "bfloat16", "int")),)


# --- contractions -------------------------------------------------------------------------------


@dataclass
class _Groups:
    """The loops of a contraction: in the result and one operand, in the result and the other one,
    summed, and in all."""

    left: list[Variable]
    right: list[Variable]
    summed: list[Variable]
    batch: list[Variable]

    @property
    def all(self) -> list[Variable]:
        return [*self.left, *self.right, *self.summed, *self.batch]

    def everywhere(self) -> _Groups:
        """The same loops, each with a `where`."""
        groups = (self.left, self.right, self.summed, self.batch)
        return _Groups(*([replace(v, inferred=False) for v in group] for group in groups))


def contraction(body: Body) -> None:
    """A sum of products of operands, each with some groups of loops, in any order and layout."""
    scope = body.scope
    rng = scope.rng
    found = _groups(rng)
    loops = [
        [*found.left, *found.summed, *found.batch],
        [*found.right, *found.summed, *found.batch],
    ]
    if scope.chance(0.15):
        loops.append(rng.sample(found.all, rng.randint(0, len(found.all))))
    window = _Window.drawn(rng, found) if scope.chance(0.2) else None
    if window and window.before is not None:
        found = found.everywhere()
    factors = [_operand(scope, loops[0], window), *(_operand(scope, own) for own in loops[1:])]
    rng.shuffle(factors)
    value = factors[0]
    for factor in factors[1:]:
        value = binary("*", value, factor)
    value = _masked(scope, value, found.all)
    kept = [*found.left, *found.right, *found.batch]
    draft = Draft(body.fresh_name(), rng.sample(kept, len(kept)), found.summed)
    draft.covered = [v for v in found.all if v.inferred]
    if found.summed:
        draft.op = rng.choice(("+=!", "+=!", "+=!", "+=!", "+=", "+=", "max=!"))
    finish(body, draft, value)
    if scope.chance(0.35):
        _epilogue(body, draft.target, [replace(v, inferred=True) for v in draft.outer])


def with_itself(body: Body) -> None:
    """A product of a matrix, or of several, with itself."""
    scope = body.scope
    rng = scope.rng
    rows, depth = rng.randint(1, 200), rng.randint(1, 30)
    i, j, k = (
        Variable(n, 0, size, True) for n, size in zip("ijk", (rows, rows, depth), strict=True)
    )
    several = [Variable("l", 0, rng.choice((2, 3)), True)] if scope.chance(0.2) else []
    pieces = rng.sample([*several, i, k], len(several) + 2)
    name = scope.new_input(tuple(map(len, pieces)))
    left, right = (
        read(name, *(var(v.name if v != i else row) for v in pieces)) for row in ("i", "j")
    )
    draft = Draft(body.fresh_name(), [*several, i, j], [k], covered=[*several, i, j, k])
    draft.op = rng.choice(("+=!", "+=!", "+=!", "+=", "max=!"))
    value = binary("*", left, right)
    if scope.chance(0.2):
        value = binary("*", value, read(scope.new_input((depth,)), var("k")))
    finish(body, draft, value)


def of_one_operand(body: Body) -> None:
    """A copy with its dimensions in another order, or sums over some."""
    scope = body.scope
    rng = scope.rng
    sizes = [rng.choice(SIZES) for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4)))]
    while math.prod(sizes) > MOST_INSTANCES:
        place = rng.randrange(len(sizes))
        sizes[place] = rng.randint(1, sizes[place])
    loops = [Variable(f"p{n}", 0, size, True) for n, size in enumerate(sizes)]
    summed = rng.sample(loops, rng.randint(1, len(loops))) if scope.chance(0.4) else []
    kept = [v for v in loops if v not in summed]
    draft = Draft(body.fresh_name(), rng.sample(kept, len(kept)), summed, covered=loops)
    draft.op = rng.choice(("+=!", "+=!", "max=!", "+=")) if summed else rng.choice(("=", "=", "+="))
    value = _operand(scope, loops)
    if scope.chance(0.3):
        value = binary("*", value, num("0.5"))
    finish(body, draft, value)


def _groups(rng: random.Random) -> _Groups:
    counts = (
        rng.choice((0, 1, 1, 1, 2, 2, 3, 4)),
        rng.choice((0, 1, 1, 1, 2, 2, 3, 4)),
        rng.choice((0, 1, 1, 1, 2, 2, 3, 4)),
        rng.choice((0, 0, 0, 0, 1, 1, 2, 3, 4)),
    )
    sizes = [[rng.choice(SIZES) for _ in range(n)] for n in counts]

    def is_large() -> bool:
        left, right, summed, batch = map(math.prod, sizes)
        operands = (left * summed, right * summed, left * right)
        return left * right * summed * batch > MOST_INSTANCES or (
            max(operands) * batch > MOST_ELEMENTS
        )

    while is_large():
        group = rng.choice([group for group in sizes if group])
        place = group.index(max(group))
        group[place] = rng.randint(1, max(1, group[place] - 1))
    where = rng.random() < 0.3  # or what is read says how far they go
    return _Groups(
        *(
            [Variable(f"{name}{n}", 0, size, not where) for n, size in enumerate(own)]
            for name, own in zip(("p", "q", "s", "t"), sizes, strict=True)
        )
    )


@dataclass
class _Window:
    """Loops that share a dimension of the first operand, as the places and offsets of a
    convolution; the second operand has the offsets, too. The first window begins some places
    `before` the operand, where there is padding."""

    place: Variable
    offset: Variable
    step: int
    before: int | None

    @classmethod
    def drawn(cls, rng: random.Random, groups: _Groups) -> _Window | None:
        offsets = [*groups.summed, *groups.batch]
        if not (groups.left and offsets):
            return None
        before = rng.choice((None, 0, 1, 2))
        return cls(rng.choice(groups.left), rng.choice(offsets), rng.choice((1, 1, 2)), before)

    def dimension(self) -> tuple[int, Expr]:
        place: Expr = var(self.place.name)
        place = binary("*", num(self.step), place) if self.step > 1 else place
        place = binary("+", place, var(self.offset.name))
        if self.before is None:
            return self.step * (self.place.high - 1) + self.offset.high, place
        return self.step * self.place.high, binary("-", place, num(self.before))


def _operand(scope: Scope, loops: list[Variable], window: _Window | None = None) -> Expr:
    """A read of a new input by some loops, in any order: a dimension is a loop, mostly."""
    rng = scope.rng
    pieces: list[tuple[int, Expr]] = []
    for v in rng.sample(loops, len(loops)):
        if window and v.name == window.place.name:
            pieces.append(window.dimension())
        elif not window or v.name != window.offset.name:
            pieces.append(_dimension(scope, v))
            if scope.chance(0.03):
                pieces.append((v.high, var(v.name)))  # along a diagonal
    if scope.chance(0.05):
        size = rng.choice((1, 2, 3))
        pieces.insert(rng.randrange(len(pieces) + 1), (size, num(rng.randrange(size))))
    name = scope.new_input(tuple(size for size, _ in pieces))
    whole = read(name, *(subscript for _, subscript in pieces))
    return ("pad", whole, num(0)) if window and window.before is not None else whole


def _dimension(scope: Scope, v: Variable) -> tuple[int, Expr]:
    """A dimension that a loop goes over: all of it, from a place on, in steps, or backwards."""
    rng, x = scope.rng, var(v.name)
    form = rng.randrange(24)
    if form == 0:
        shift = rng.choice((1, 2, 5))
        return v.high + shift, binary("+", x, num(shift))
    if form == 1:
        return 2 * v.high - 1, binary("*", num(2), x)
    if form == 2:
        return v.high, binary("-", num(v.high - 1), x)
    return v.high, x


def _masked(scope: Scope, value: Expr, variables: list[Variable]) -> Expr:
    """A product, perhaps only where a condition on loops holds."""
    if not variables or scope.chance(0.85):
        return value
    rng = scope.rng
    v = rng.choice(variables)
    right: Expr = num(rng.randint(0, v.high))
    if scope.chance(0.4):
        right = var(rng.choice(variables).name)
    return ("if", binary(rng.choice(("<", "<=", "!=")), var(v.name), right), value, num(0))


def _epilogue(body: Body, target: str, outer: list[Variable]) -> None:
    """What follows a sum: a bias and an activation, in place or in another tensor."""
    scope = body.scope
    rng = scope.rng
    draft = Draft(target, outer, covered=list(outer))
    value = read(target, *(var(v.name) for v in draft.outer))
    if outer and not scope.full and scope.chance(0.7):
        v = rng.choice(outer)
        value = binary(rng.choice("+*"), value, read(scope.new_input((v.high,)), var(v.name)))
    if scope.chance(0.7):
        value = rng.choice((("call", "max", (value, num(0))), binary("*", value, num("0.5"))))
    if scope.chance(0.4):
        draft.target = body.fresh_name()
    finish(body, draft, value)


# --- scatters -----------------------------------------------------------------------------------


def scattered_case(seed: str, most: int) -> Case:
    """A program with a scatter, of a seed, with at most so many instances."""
    rng = random.Random(f"scatters {seed}")
    while True:
        types = (rng.choice(("float", "int", "uint32", "int64", "half", "int8")),)
        body = Body(Scope(rng, types, rng.choice(("normal", "integers", "ones"))))
        scatter(body)
        made = assembled(rng, body, ("evaluate",))
        if made is not None and body.instances <= most:
            return replace(made, helper=0)


def scatter(body: Body) -> None:
    """Sums of terms, each at the place that a tensor of indices gives."""
    scope = body.scope
    rng = scope.rng
    many = scope.chance(0.25)  # enough for parts
    n = Variable("n", 0, rng.choice((100, 150, 220) if many else (1, 2, 3, 8, 21)), True)
    p = Variable("p", 0, rng.choice((1, 2, 3) if many else (1, 2, 3, 5, 9, 17, 40)), False)
    rows = [Variable("q", 0, rng.choice((1, 2, 5)), True)] if scope.chance(0.3) else []
    batch = [Variable("l", 0, rng.choice((2, 3)), True)] if scope.chance(0.2) else []
    keys = scope.new_input(
        tuple(map(len, (*batch, n))),
        rng.choice(("int", "int", "int64", "uint8", "uint32")),
        f"index {p.high}",
    )
    value = _operand(scope, [*batch, n, *rows])
    if scope.chance(0.3):
        value = binary("*", value, _operand(scope, [n]))
    key = read(keys, *(var(v.name) for v in (*batch, n)))
    meets = binary("==", *rng.sample((key, var("p")), 2))
    draft = Draft(body.fresh_name(), rng.sample([*batch, p, *rows], len(batch) + len(rows) + 1))
    draft.covered = [*batch, n, *rows, p]
    goes_on = scope.chance(0.3)
    if goes_on:
        finish(body, draft, _operand(scope, draft.outer))
    draft = replace(draft, inner=[n], op="+=" if goes_on else "+=!")
    finish(body, draft, ("if", meets, value, num(0)))
    if scope.chance(0.4):
        _epilogue(body, draft.target, [replace(v, inferred=True) for v in draft.outer])


# --- matrices that are read once ----------------------------------------------------------------


def matrices(body: Body) -> None:
    """Sums of the rows, and of the columns, of one matrix, or of several of one shape, of which one
    may use the other."""
    scope = body.scope
    rng = scope.rng
    rows = rng.choice((rng.randint(384, 700), rng.randint(384, 700), rng.randint(1, 383)))
    columns = rng.choice((1, 2, 7, 9, 16, 17, 33, *rng.choices(SIZES, k=3)))
    i, j = Variable("i", 0, rows, True), Variable("j", 0, columns, True)
    several = [Variable("l", 0, rng.choice((2, 3, 5)), True)] if scope.chance(0.15) else []
    places = [*several, i, j]
    matrix = read(scope.new_input(tuple(map(len, places))), *(var(v.name) for v in places))
    factors = [read(scope.new_input((len(v),)), var(v.name)) for v in (i, j)]
    for _ in range(rng.choice((1, 2, 2, 2, 3))):
        kept, summed = rng.choice(([i], [j], [j])), [i, j]
        draft = Draft(body.fresh_name(), [*several, *kept], [v for v in summed if v not in kept])
        draft.op = rng.choice(("+=!", "+=!", "+=!", "max=!", "+="))
        if scope.chance(0.12):
            draft.outer, draft.inner, draft.op = places, [], "="
        draft.covered = places
        value = binary("*", matrix, rng.choice(factors)) if scope.chance(0.8) else matrix
        if scope.chance(0.08):
            value = ("if", binary("<", var("j"), num(columns // 2)), value, num(0))
        finish(body, draft, value)
        if draft.inner:
            factors.append(read(draft.target, *(var(v.name) for v in draft.outer)))


# --- transposed convolutions --------------------------------------------------------------------


def transposed_convolution(body: Body) -> None:
    """Each element of the result asks which elements of an image reach it, some steps apart."""
    scope = body.scope
    rng = scope.rng
    rank = rng.choice((1, 1, 2))
    axes = [_Axis.drawn(rng, number, 20 // rank**2) for number in range(rank)]
    images, channels, features = (
        Variable(name, 0, rng.choice(sizes), True)
        for name, sizes in (("p", (1, 2)), ("s", (1, 3, 12)), ("q", (1, 4, 17)))
    )
    x = scope.new_input((images.high, channels.high, *(axis.size for axis in axes)))
    kinds = (None, None, None, "nan", "infinite")
    kernel = scope.new_input(
        (channels.high, features.high, *(axis.kernel.high for axis in axes)),
        values=rng.choice(kinds),
    )
    test = axes[0].test
    for axis in axes[1:]:
        test = binary("&&", test, axis.test)
    places = (binary("/", axis.place, num(axis.step)) for axis in axes)
    value: Expr = ("pad", read(x, var("p"), var("s"), *places), num(0))
    factor = read(kernel, var("s"), var("q"), *(var(axis.kernel.name) for axis in axes))
    if scope.chance(0.3):
        value = ("if", test, binary("*", value, factor), num(0))
    else:
        value = binary("*", *rng.sample((("if", test, value, num(0)), factor), 2))
    outer = [images, features, *(axis.result for axis in axes)]
    inner = [channels, *(axis.kernel for axis in axes)]
    draft = Draft(body.fresh_name(), outer, inner, "+=!")
    draft.covered = [v for v in draft.variables if v.inferred]
    if scope.chance(0.4):  # the sum goes on from a value for each feature
        start = Draft(draft.target, [replace(images, inferred=False), *outer[1:]])
        start.covered = [features]
        finish(body, start, read(scope.new_input((features.high,)), var("q")))
        draft.op = "+="
    finish(body, draft, value)


@dataclass
class _Axis:
    """A direction of a transposed convolution: `size` places of the image, `step` apart in the
    result."""

    size: int
    step: int
    result: Variable
    kernel: Variable
    place: Expr

    @classmethod
    def drawn(cls, rng: random.Random, number: int, most: int) -> _Axis:
        size, step, kernel = rng.randint(1, most), rng.choice((1, 2, 2, 3, 4)), rng.randint(1, 5)
        dilation = rng.choice((1, 1, 2))
        padding = rng.randint(0, min(2, dilation * (kernel - 1), size - 1))
        whole = (size - 1) * step + dilation * (kernel - 1) + 1 - 2 * padding + rng.randrange(step)
        y = Variable(f"y{number}", 0, max(1, whole), False)
        k = Variable(f"k{number}", 0, kernel, True)
        offset = var(k.name) if dilation == 1 else binary("*", num(dilation), var(k.name))
        place = binary("-", binary("+", var(y.name), num(padding)), offset)
        return cls(size, step, y, k, place)

    @property
    def test(self) -> Expr:
        """Whether a place of the image reaches an element of the result."""
        return binary("==", binary("%", self.place, num(self.step)), num(0))


def stencils(body: Body) -> None:
    """A chain of statements that read each other around the place that they write."""
    for _ in range(body.scope.rng.choice((1, 1, 2))):
        add_chain(body)


MAKERS: Mapping[Maker, int] = {
    contraction: 8,
    with_itself: 2,
    of_one_operand: 2,
    matrices: 5,
    transposed_convolution: 3,
    stencils: 3,
}
