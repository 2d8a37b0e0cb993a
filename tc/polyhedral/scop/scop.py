"""The scop: a program's statements, their domains and their accesses, for the sizes of one call.

A reduction that starts afresh is two statements here, the start at the identity ("S0.init") and
the updates ("S0"); filling a tensor with zeros (G4) is one too ("O.zero"). Domains are boxes:
range inference gives each variable one range, and where clauses take part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import lcm
from operator import itemgetter
from typing import TypeAlias

from tc.affine.forms import Form, LinearForm
from tc.affine.intervals import Box, closed
from tc.dtypes import DType
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.ranges.integer_sums import interval_of
from tc.semantics.ranges.preconditions import is_exact
from tc.semantics.size_values import KnownSizes

HalfOpen: TypeAlias = "tuple[int, int]"

ElementBox: TypeAlias = "tuple[HalfOpen, ...]"
"""A half-open range per dimension."""


@dataclass(frozen=True)
class Access:
    """The elements of a tensor that an instance touches: one for each dimension.

    subscripts[k] is the linear form of dimension k, None where it has none (then any element in
    bounds[k] may be the one: a may-access). bounds[k] contains all values for all instances;
    just each of its first one and of those that follow in steps[k], 0 where that is not known.
    `guarded`: it stands in a branch of ?:, && or ||, or in a pad, so an instance may not touch it.
    `meets`: it is the target of a statement that updates it in one step (`ScopStatement.meets`).
    """

    tensor: str
    subscripts: tuple[LinearForm | None, ...]
    bounds: ElementBox
    guarded: bool = False
    site: int = -1  # of the Read in the program; -1 for a target
    steps: tuple[int, ...] = ()  # none: each is 1
    meets: bool = False

    @property
    def places(self) -> tuple[tuple[HalfOpen, int], ...]:
        """The bounds of each dimension with its step."""
        return tuple(zip(self.bounds, self.steps or (1,) * len(self.bounds), strict=True))

    def touches_as(self, other: Access) -> bool:
        """Whether each instance touches by this access the element that it touches by another."""
        return (self.tensor, self.subscripts, self.bounds) == (
            other.tensor,
            other.subscripts,
            other.bounds,
        )


@dataclass(frozen=True)
class ScopStatement:
    """`kind` is "zero", "init" or "update" (also for "="). `position` is that of the program's
    statement, for "zero" the one before which the zeros are needed.

    `accumulates`: each instance combines the target's element with its value, by `op`; reductions
    may be reordered (R2, R5). `waits_for`: checks of ranges (W3), by what they write, without which
    the statement might read, or divide, where nothing is tested again.
    """

    name: str
    kind: str
    position: int
    op: str
    variables: tuple[str, ...]  # in the program's order
    outer: tuple[str, ...]  # those of the target
    ranges: Mapping[str, HalfOpen]
    write: Access
    reads: tuple[Access, ...] = ()
    accumulates: bool = False
    gathers: tuple[Access, ...] = ()  # of the scop's gathers
    walk: p.RowWalk | None = None
    waits_for: tuple[Access, ...] = ()

    @property
    def reduction(self) -> tuple[str, ...]:
        return tuple(v for v in self.variables if v not in self.outer)

    @property
    def scatters(self) -> bool:
        """Whether data say where an instance writes (S1): any two instances then write elements of
        their own (S2), or update elements in one step each (`meets`)."""
        return None in self.write.subscripts

    @property
    def meets(self) -> bool:
        """Whether an instance updates the element where data say that it belongs in one step, so
        that any number of instances may do so at once."""
        return self.write.meets

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The write, then the reads."""
        return (self.write, *self.reads)

    @property
    def promotable(self) -> tuple[Access, ...]:
        """The accesses, and what is gathered."""
        return (*self.accesses, *self.gathers)


@dataclass(frozen=True, slots=True)
class GatherDimension:
    """A dimension of what is gathered: `name`, in the read, stands for first + step * place."""

    name: str
    first: int
    step: int
    extent: int


@dataclass(frozen=True, slots=True)
class Gather:
    """What a read at places that other tensors hold finds, as a tensor of its own, which nothing
    holds: the element (d0, d1, ...) of "T(I(d0, d1), d2)" is just that, `value`.

    The program reads all of its elements: each is in bounds. `fault` says why there may be others;
    `is_checked`: this is tested at run time, where tests are made (G7).
    """

    value: p.Read
    dimensions: tuple[GatherDimension, ...]
    is_checked: bool
    fault: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dimension.extent for dimension in self.dimensions)

    @property
    def tensors(self) -> frozenset[str]:
        """All that are read."""
        return frozenset(e.tensor for e in p.walk(self.value) if isinstance(e, p.Read))


@dataclass(frozen=True)
class Scop:
    """Statements in text order; `initial` names outputs that hold the caller's values, where some
    of these are read, or stay. `gathers` are called as they read."""

    shaped: p.ShapedProgram
    initial: frozenset[str]
    statements: tuple[ScopStatement, ...]
    gathers: Mapping[str, Gather] = field(default_factory=dict)

    def statement(self, name: str) -> ScopStatement:
        return self._by_name[name]

    def users(self, tensor: str) -> tuple[ScopStatement, ...]:
        """The statements that touch a tensor, or what is gathered, in text order."""
        return self._users.get(tensor, ())

    def dtype(self, tensor: str) -> DType:
        """The type of the elements of a tensor, or of what is gathered."""
        gather = self.gathers.get(tensor)
        return self.shaped.program.tensors[tensor].dtype if gather is None else gather.value.dtype

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, or of what is gathered."""
        gather = self.gathers.get(tensor)
        return self.shaped.shapes[tensor] if gather is None else gather.shape

    @cached_property
    def _users(self) -> dict[str, tuple[ScopStatement, ...]]:
        found: dict[str, list[ScopStatement]] = {}
        for statement in self.statements:
            for tensor in dict.fromkeys(access.tensor for access in statement.promotable):
                found.setdefault(tensor, []).append(statement)
        return {tensor: tuple(users) for tensor, users in found.items()}

    @cached_property
    def _by_name(self) -> dict[str, ScopStatement]:
        return {statement.name: statement for statement in self.statements}


def build_scop(shaped: p.ShapedProgram, initial: frozenset[str]) -> Scop:
    """The scop of a shaped program; `initial` names the outputs that hold the caller's values.

    Statements in text order, each after the zeros that are needed before it (G4) and after its
    own start at the identity (R2, R3); those that write nothing are left out.
    """
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    own: list[ScopStatement] = []
    checks: tuple[Access, ...] = ()
    for position, statement in enumerate(shaped.statements):
        if _writes(statement, initial):
            if statement.statement.starts_fresh(initial):
                own.append(_init(statement, position, known))
            if not statement.is_empty:
                update = _update(statement, position, known)
                if checks and _goes_untested(statement, update):
                    update = replace(update, waits_for=checks)
                own.append(update)
                if _may_end_call(statement.statement):
                    checks = (*checks, update.write)
    program = shaped.program
    fresh = [t for t in (*program.outputs, *program.temporaries) if t not in initial]
    zeros = [_zero(t, first, known) for t, first in _zero_fills(fresh, own, known).items()]
    # sorting keeps what has the same position in this order
    kept = frozenset(_zero_fills(initial & frozenset(program.outputs), own, known))
    statements = tuple(sorted((*zeros, *own), key=lambda s: s.position))
    return Scop(shaped, kept, statements)


def subtract(boxes: Iterable[ElementBox], hole: ElementBox) -> list[ElementBox]:
    """Disjoint boxes that cover what the boxes cover, but for the hole. A list, as generators
    inside of each other, one for each statement, would end with the stack.

    >>> subtract([((0, 4), (0, 2))], ((1, 4), (0, 1)))
    [((0, 1), (0, 2)), ((1, 4), (1, 2))]
    """
    return [piece for box in boxes for piece in _without(box, hole)]


def _without(box: ElementBox, hole: ElementBox) -> Iterator[ElementBox]:
    rest = box
    for axis, ((begin, end), (low, high)) in enumerate(zip(box, hole, strict=True)):
        low, high = min(max(low, begin), end), max(min(high, end), begin)
        if low >= high:
            yield rest
            break
        for piece in ((begin, low), (high, end)):
            if piece[0] < piece[1]:
                yield (*rest[:axis], piece, *rest[axis + 1 :])
        rest = (*rest[:axis], (low, high), *rest[axis + 1 :])


def all_written(elements: ElementBox, writes: Iterable[Access]) -> bool:
    """Whether some writes together reach all elements of a box.

    >>> i = Form(0, {"i": 2})
    >>> even, odd = (Access("t", (i,), ((n, 8),), steps=(2,)) for n in (0, 1))
    >>> all_written(((0, 8),), [even]), all_written(((0, 8),), [even, odd])
    (False, True)
    """
    known = [write.places for write in writes if 0 not in write.steps]
    periods = [lcm(*(places[d][1] for places in known)) for d in range(len(elements))]
    for residues in product(*map(range, periods)):
        classes = tuple(zip(residues, periods, strict=True))
        left: list[ElementBox] = [tuple(map(_in_class, elements, classes))]
        for places in known:
            if not left:
                break
            dimensions = zip(residues, places, strict=True)
            if all((residue - begin) % step == 0 for residue, ((begin, _), step) in dimensions):
                left = subtract(left, tuple(map(_in_class, (b for b, _ in places), classes)))
        if any(all(begin < end for begin, end in box) for box in left):
            return False
    return True


def _in_class(values: HalfOpen, of: tuple[int, int]) -> HalfOpen:
    """The n for which residue + n * period is one of some values."""
    (begin, end), (residue, period) = values, of
    return -((residue - begin) // period), -((residue - end) // period)


def _writes(shaped_statement: p.ShapedStatement, initial: frozenset[str]) -> bool:
    """Whether the statement has instances, or elements to start at the identity (R2)."""
    if any(shaped_statement.ranges[v].extent == 0 for v in shaped_statement.statement.outer):
        return False
    return not shaped_statement.is_empty or shaped_statement.statement.starts_fresh(initial)


def _zero_fills(
    fresh: Iterable[str], statements: Iterable[ScopStatement], known: KnownSizes
) -> Mapping[str, int]:
    """Those of some tensors of which some element is never written, or read before it is, so that
    tensors of tc are filled with zeros first (G4); and the position of the first statement that
    touches each."""
    shapes = {tensor: known.shapes[tensor] for tensor in fresh}
    unwritten = {tensor for tensor, shape in shapes.items() if 0 not in shape}
    writes: dict[str, list[Access]] = {tensor: [] for tensor in shapes}
    first: dict[str, int] = {}
    needed: set[str] = set()
    started = -1
    for s in statements:
        begun = (w.places for w in writes.get(s.write.tensor, ()) if 0 not in w.steps)
        is_begun = s.accumulates and (s.position == started or s.write.places in begun)
        reads = s.reads[1:] if is_begun else s.reads  # not the accumulator's
        unwritten_reads = (a for a in reads if a.tensor in unwritten)
        needed |= {a.tensor for a in unwritten_reads if not all_written(a.bounds, writes[a.tensor])}
        for access in s.accesses:
            first.setdefault(access.tensor, s.position)
        target = s.write.tensor
        if target in unwritten:
            writes[target].append(s.write)
            everything = tuple((0, extent) for extent in shapes[target])
            if all_written(everything, writes[target]):
                unwritten.remove(target)
        started = s.position if s.kind == "init" else -1
    return {t: first.get(t, 0) for t in shapes if t in needed or t in unwritten}


def _zero(tensor: str, position: int, known: KnownSizes) -> ScopStatement:
    ranges = {f"i{axis}": (0, extent) for axis, extent in enumerate(known.shapes[tensor])}
    names = tuple(ranges)
    place = Access(tensor, tuple(Form(0, {n: 1}) for n in names), tuple(ranges.values()))
    return ScopStatement(f"{tensor}.zero", "zero", position, "=", names, names, ranges, place)


def _init(shaped: p.ShapedStatement, position: int, known: KnownSizes) -> ScopStatement:
    statement = shaped.statement
    outer, ranges = statement.outer, _ranges(shaped, statement.outer)
    return ScopStatement(
        f"{statement.name}.init",
        "init",
        position,
        statement.op,
        outer,
        outer,
        ranges,
        _access(statement.target, statement.subscripts, known, closed(ranges)),
        walk=shaped.walk,
    )


def _update(shaped: p.ShapedStatement, position: int, known: KnownSizes) -> ScopStatement:
    statement = shaped.statement
    ranges = _ranges(shaped, statement.variables)
    space = closed(ranges)
    target = _access(statement.target, statement.subscripts, known, space)
    accumulates = statement.op != "="
    target = replace(target, meets=accumulates and None in target.subscripts)
    reads = [target] if accumulates else []
    for read, guarded in _all_reads(statement):
        if read.tensor not in known.scalars:
            access = _access(read.tensor, read.subscripts, known, space)
            reads.append(replace(access, guarded=guarded, site=read.site))
    return ScopStatement(
        statement.name,
        "update",
        position,
        statement.op,
        statement.variables,
        statement.outer,
        ranges,
        target,
        tuple(reads),
        accumulates,
        walk=shaped.walk,
    )


def _may_end_call(statement: p.Statement) -> bool:
    return any(isinstance(n, p.Check) and n.ends for n in p.walk(statement.rhs))


def _goes_untested(shaped: p.ShapedStatement, update: ScopStatement) -> bool:
    """Whether a statement reads where data say, or divides by data, and this is not tested, as a
    check of ranges has tested it (G7, W3)."""
    untested = {a.site for a in update.reads if None in a.subscripts} - shaped.checked
    nodes = (n for e in shaped.statement.expressions for n in p.walk(e))
    divisions = (n for n in nodes if isinstance(n, p.Binary) and n.op in ("/", "%"))
    divisions = (n for n in divisions if n.dtype.is_integer and n.site not in shaped.checked)
    by_data = (isinstance(m, p.Read) for n in divisions for m in p.walk(n.right))
    return bool(untested) or any(by_data)


def _ranges(shaped: p.ShapedStatement, variables: tuple[str, ...]) -> dict[str, HalfOpen]:
    return {v: (shaped.ranges[v].begin, shaped.ranges[v].end) for v in variables}


def _all_reads(statement: p.Statement) -> Iterator[tuple[p.Read, bool]]:
    """The reads of an instance: of its conditions, in order, and behind them of its place and its
    value (W1)."""
    guarded = False
    for condition in statement.conditions:
        yield from _reads(condition, guarded)
        guarded = True
    for expr in (*statement.subscripts, statement.rhs):
        yield from _reads(expr, guarded)


def _reads(expr: p.Expr, guarded: bool) -> Iterator[tuple[p.Read, bool]]:
    """The reads of an expression in text order, each with whether a branch guards it (Y6)."""
    if isinstance(expr, p.Read):
        yield expr, guarded
    for place, child in enumerate(p.children(expr)):
        is_branch = isinstance(expr, p.Select | p.Logical) and place > 0
        yield from _reads(child, guarded or is_branch)


def _access(
    tensor: str, subscripts: tuple[p.Expr, ...], known: KnownSizes, space: Box[str]
) -> Access:
    forms, bounds, steps = [], [], []
    for subscript, extent in zip(subscripts, known.shapes[tensor], strict=True):
        form = linear_form(subscript, known)
        if form is not None and is_exact(subscript, known, space):
            low, high = form.interval(space)
        else:
            form = None
            interval = interval_of(subscript, known, space)
            low, high = interval.low, interval.high
        is_whole = form is not None and low >= 0 and high < extent
        forms.append(form)
        bounds.append((min(max(low, 0), extent), max(min(high + 1, extent), 0)))
        steps.append(_step(form, space) if form is not None and is_whole else 0)
    return Access(tensor, tuple(forms), tuple(bounds), steps=tuple(steps))


def _step(form: LinearForm, space: Box[str]) -> int:
    """How far the values of a form over a box are apart, each from the next one; 0 where they are
    not all as far.

    >>> space = {"i": (0, 2), "j": (0, 4), "k": (0, 0)}
    >>> forms = ({"i": 2}, {"i": 5, "j": 1}, {"i": 6, "j": 1}, {"i": 2, "j": 6}, {"k": 9})
    >>> [_step(Form(0, form), space) for form in forms]
    [2, 1, 0, 2, 1]
    """
    extents = {v: high - low + 1 for v, (low, high) in space.items()}
    several = [(abs(c), extents[v]) for v, c in form.terms.items() if extents[v] > 1]
    terms = sorted(several, key=itemgetter(0))
    if not terms:
        return 1
    step, reach = terms[0][0], 1
    for factor, extent in terms:
        if factor % step or factor // step > reach:
            return 0
        reach += factor // step * (extent - 1)
    return step
