"""The rules of domains, places and values (W, S, V1, and E2, E4, E5, G9, N4 with them), instance by
instance, in plain Python.

It shares nothing with `tc.semantics`: it takes syntax trees, arrays, and the ranges of the index
variables that the generator knows; bounds that use other variables are read from the tree. What a
program gives is an `Outcome`: arrays, or the classes of errors that may be raised, or both, where
the rules allow both. Where the rules say nothing, `Open` is raised, or `Reading` has a choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tc.frontend import ast
from tests.fuzz.places.arithmetic import (
    BITS,
    Number,
    chosen,
    combined,
    identity,
    largest,
    numpy_name,
    promoted,
    settled,
    wrapped,
)
from tests.fuzz.places.outcomes import (
    BEFORE,
    EITHER,
    REFUSED,
    UNTYPED,
    Array,
    Fails,
    Open,
    Outcome,
    Place,
    Point,
    Ranges,
    Reading,
    inside,
)
from tests.fuzz.places.shapes import Shapes
from tests.fuzz.places.trees import Form, number_of, own_ranges, written_out

ENTRY = "f"
AS_WRITTEN = Reading()


def execute(
    defs: Sequence[ast.Def],
    inputs: Mapping[str, Array],
    ranges: Sequence[Ranges],
    initial: Mapping[str, Array] | None = None,
    reading: Reading = AS_WRITTEN,
) -> Outcome:
    """What the rules say of the def `f` of a text, for inputs, the ranges of each statement's
    variables, those of called defs in place of the call, and the output arrays that the caller
    passes."""
    machine = Machine(defs, inputs, ranges, initial or {}, reading)
    try:
        arrays = machine.run()
    except Fails as failure:
        classes = failure.classes | machine.doubted
        return Outcome(None, classes, str(failure), decided_by=frozenset(machine.decided_by))
    rules = tuple(rule for rule, _ in machine.doubts)
    decided_by = frozenset(machine.decided_by)
    return Outcome(arrays, machine.doubted, "", machine.exact, rules, decided_by)


def types_of(
    defs: Sequence[ast.Def], inputs: Mapping[str, Array], ranges: Sequence[Ranges]
) -> dict[str, str]:
    """The element types of all tensors of the def `f`."""
    machine = Machine(defs, inputs, ranges, {}, AS_WRITTEN)
    machine.infer_types()
    return machine.types


@dataclass
class Write:
    """What one instance writes: its values of the index variables, its place, its values."""

    point: Point
    place: Place
    values: list[Number]
    reads: set[tuple[str, Place]] = field(default_factory=set)


class Machine(Shapes):
    """Tensors, and statements that are executed one after another."""

    def __init__(
        self,
        defs: Sequence[ast.Def],
        inputs: Mapping[str, Array],
        ranges: Sequence[Ranges],
        initial: Mapping[str, Array],
        reading: Reading,
        entry: str = ENTRY,
    ) -> None:
        super().__init__(initial, reading)
        self.defs = defs
        self.definition = next(d for d in defs if d.name.text == entry)
        self.program = program = written_out(defs, self.definition)
        self.doubts: list[tuple[str, frozenset[str]]] = []
        self.decided_by: set[str] = set()
        for param in self.definition.params:
            name = param.name.text
            self.types[name] = type = numpy_name(param.type.spelling)
            given = inputs.get(name)
            if given is None:
                assert param.default is not None
                given = np.array(number_of(param.default), type)
            array = np.asarray(given)
            self.shapes[name] = array.shape
            self.held[name] = {i: array[i].item() for i in np.ndindex(array.shape)}
            for dim, size in zip(param.type.dims or (), array.shape, strict=True):
                if isinstance(dim, ast.Name):
                    self.sizes[dim.text] = size
            if not param.type.dims and type in BITS:
                self.constants.add(name)
        for name, (type, value) in program.constants.items():
            self.types[name], self.shapes[name] = type, ()
            self.held[name] = {(): wrapped(value, type)}
        self.dimensions = dict(program.sizes)
        self.types |= {name: type for name, (type, _) in program.declared.items()}
        statements = [s for s, _ in program.statements]
        self.targets = {t.name.text for s in statements for t in s.targets}
        self.forms = [Form(s, self.is_known, prefix) for s, prefix in program.statements]
        self.ranges = [
            own_ranges(r, form.prefix) for r, form in zip(ranges, self.forms, strict=True)
        ]
        self.written: set[str] = set()

    @property
    def doubted(self) -> frozenset[str]:
        return frozenset[str]().union(*(classes for _, classes in self.doubts))

    def doubt(self, rule: str, classes: frozenset[str]) -> None:
        self.doubts.append((rule, classes))

    def reads_rule(self, name: str) -> bool:
        """The choice of the reading, of which a note is taken."""
        self.decided_by.add(name)
        return bool(getattr(self.reading, name))

    def run(self) -> dict[str, Array]:
        for definition in self.defs:
            if definition is not self.definition:
                self.check_alone(definition)
        self.check()
        self.infer_shapes({name: dims for name, (_, dims) in self.program.declared.items()})
        self.check_passed()
        self.steps()
        return {r.name.text: self.array(r.name.text) for r in self.definition.returns}

    def check(self) -> None:
        """What is an error whatever the sizes."""
        for form in self.forms:
            self.refuse(form)
        self.infer_types()
        for form in self.forms:
            self.check_operators(form)

    def check_alone(self, definition: ast.Def) -> None:
        """A def that another one calls is right by itself (N2)."""
        given = {
            p.name.text: np.zeros([0] * len(p.type.dims or ()), numpy_name(p.type.spelling))
            for p in definition.params
        }
        ranges: list[Ranges] = [{} for _ in written_out(self.defs, definition).statements]
        try:
            Machine(self.defs, given, ranges, {}, self.reading, definition.name.text).check()
        except Open as why:
            if "Y3" in str(why):
                raise Fails("Y3", UNTYPED, "a type that follows from nothing") from None

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

    # --- types --------------------------------------------------------------------------------

    def infer_types(self) -> None:
        """The types of outputs and temporaries: the join of what statements write (Y3)."""
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
            self.types.update(
                {n: settled(t) for n, t in joined.items() if n not in self.program.declared}
            )
        if self.targets - set(self.types):
            raise Open("Y3: no type")
        self.is_typed = True

    def is_reduction(self, form: Form) -> bool:
        """Whether terms meet (R2, S3); `op=` without `!` continues, so that it is one."""
        return not form.op.endswith("!") or bool(form.reduced) or not form.is_plain

    def check_operators(self, form: Form) -> None:
        """What operators, subscripts and targets do not take (Y1, Y9, Y11)."""
        for e in (*form.values, *form.conditions):
            self.check_types(e, False)
        for e in (*form.left, *(b for pair in form.bounds.values() for b in pair)):
            self.check_types(e, True)
            if self.type_of(e, True) != "int64":
                raise Fails("Y9", UNTYPED, "a place or a bound that is no integer")
        for name, e in zip(form.names, form.values, strict=True):
            self.check_stored(e, self.types[name])

    def check_passed(self) -> None:
        """Whether the tensors that calls pass are what parameters are declared as (N4, T4)."""
        for tensor, type, dims in self.program.passed:
            if self.types[tensor] != type:
                raise Fails("N4", UNTYPED, f"{tensor} is {self.types[tensor]} and no {type}")
            if self.sizes_of(dims) != self.shapes[tensor]:
                raise Fails("T4", REFUSED | {"InputError"}, f"{tensor} is not of shape {dims}")

    # --- a statement --------------------------------------------------------------------------

    def step(self, form: Form, ranges: Ranges) -> None:
        self.check_empty(form, ranges)
        self.check_ragged(form, ranges)
        self.form, self.own, self.touched = form, form.names, set()
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

    def check_empty(self, form: Form, ranges: Ranges) -> None:
        """A statement over an empty range contradicts no shape, and yet its places take part in
        finding the ranges (G5, S5)."""
        if not self.has_no_points(form, ranges):
            return
        for axis, v in enumerate(map(form.bare, form.left)):
            end = 0 if v is None else self.hull(v, form, ranges)[1]
            if any(end > self.shapes[n][axis] for n in form.names):
                raise Open("G5, S5: a place beyond its tensor in a statement without instances")

    def check_place(self, form: Form, place: Place) -> None:
        for name in form.names:
            shape = self.shapes[name]
            if inside(place, shape):
                continue
            classes = self.errors_at_place(form)
            for subscript, x, size in zip(form.left, place, shape, strict=True):
                if not 0 <= x < size and self.is_affine(subscript, form):
                    classes |= BEFORE
            raise Fails("S5", classes, f"writes {name}{place} of shape {shape}")

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
                if not starts and not self.reads_rule("starts_fresh"):
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

    def starts_plain(self, form: Form) -> bool:
        return self.is_narrowed(form) and self.reads_rule("starts_plain")

    def started(self, name: str, form: Form, ranges: Ranges) -> Iterator[Place]:
        """The elements that start at the identity (R2, S3)."""
        shape = self.shapes[name]
        spans: list[range] = []
        bare = [form.bare(s) for s in form.left]
        for v, size in zip(bare, shape, strict=True):
            spans.append(range(size) if v is None else range(*self.hull(v, form, ranges)))
        narrow = not self.reads_rule("starts_hull")
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
        known = [c for c in form.conditions if not self.reads_of(c)]
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
