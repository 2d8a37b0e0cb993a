"""Range inference over a whole function: ranges, shapes, preconditions (G1 to G9, P1).

    infer_ranges(program, sizes of a call) = the sizes and declared shapes that the call gives;
        then shapes of the other tensors, statement by statement (G3);
        then each statement's remaining ranges, its preconditions (G6), its in-place reads (P1)

The parts: `size_values` evaluates size expressions, `accesses` lists what a statement touches,
`rounds` infers one statement's ranges, `preconditions` and `inplace` check it, `symbolic` writes
ranges as expressions, `range_errors` says what is wrong, and `feasible_ranges` what would not be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc import sets
from tc.affine.intervals import Box, is_empty
from tc.errors import InputError, RangeError
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.ranges.accesses import Accesses, accesses_of
from tc.semantics.ranges.guarded_ranges import without_own_shape
from tc.semantics.ranges.inplace import check_in_place, is_written_once
from tc.semantics.ranges.integer_sums import integer_warnings, interval_of
from tc.semantics.ranges.place_errors import (
    below_zero,
    negative_size,
    no_shape,
    other_size,
)
from tc.semantics.ranges.preconditions import LeavesTensor, check_accesses
from tc.semantics.ranges.range_errors import cut_warnings, no_range, outside, unresolved
from tc.semantics.ranges.rounds import NoRange, RangeFixpoint, ShapingContext, resolve
from tc.semantics.ranges.symbolic import Symbols, greatest_of, in_symbols
from tc.semantics.size_values import (
    KnownSizes,
    check_shape,
    evaluate,
    known_of_call,
    resolve_sizes,
    value_warnings,
)
from tc.source import Span

NO_OUTPUTS: Mapping[str, tuple[int, ...]] = {}


@dataclass(frozen=True, slots=True)
class Shaping:
    """How far the shapes of a program are known, and which statement fixed which."""

    program: p.Program
    known: KnownSizes
    symbolic: Mapping[str, tuple[p.Expr | None, ...]]
    fixed_by: Mapping[str, Span]
    rounds: Mapping[str, RangeFixpoint]  # of the statements that fixed a shape, by name
    outputs: Mapping[str, tuple[int, ...]]  # the shapes of outputs that the caller passes


def infer_ranges(
    program: p.Program,
    shapes: Mapping[str, tuple[int, ...]],
    scalars: Mapping[str, int],
    outputs: Mapping[str, tuple[int, ...]] = NO_OUTPUTS,
    *,
    warns: bool = True,
) -> p.ShapedProgram:
    """The ranges and shapes that follow from the shapes of the inputs, the values of
    `program.static_scalars`, and the shapes of the `program.open_outputs` that a caller passes;
    without warnings where they are not wanted.

    Inputs of rank 0 may be left out of `shapes`. Raises InputError where the arguments contradict
    the declarations (T4), and RangeError where ranges do not follow, an access leaves its
    tensor, or an in-place update would read what it writes (G3, G5, G6, G8, P1).

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.symbolic import to_text
    >>> from tc.source import Source
    >>> text = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i + x) }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"I": (10,), "K": (3,)}, {})
    >>> shaped.shapes["O"], to_text(shaped.statements[0].ranges["i"].symbolic_end)
    ((8,), 'M - N + 1')
    """
    return RangeInference.of(program).at(shapes, scalars, outputs, warns=warns)


@dataclass(frozen=True, slots=True)
class RangeInference:
    """A program whose ranges are inferred at several sizes: what these do not change is found once.

    `accesses` are those of the statements, by their names.
    """

    program: p.Program
    accesses: Mapping[str, Accesses]

    @classmethod
    def of(cls, program: p.Program) -> RangeInference:
        return cls(program, {s.name: accesses_of(s) for s in program.statements})

    def with_clauses_of(self, program: p.Program) -> RangeInference:
        """The inference of a program that has other `where` clauses alone."""
        old = zip(self.program.statements, program.statements, strict=True)
        changed = {
            s.name: self.accesses[s.name].with_clauses_of(s) for before, s in old if s is not before
        }
        return RangeInference(program, {**self.accesses, **changed})

    def before(self, count: int) -> RangeInference:
        """The inference of the first statements alone, without the tensors that others write."""
        statements = self.program.statements[:count]
        kept = {*self.program.inputs, *(name for s in statements for name in s.targets)}
        tensors = {n: tensor for n, tensor in self.program.tensors.items() if n in kept}
        program = replace(self.program, statements=statements, tensors=tensors)
        return RangeInference(program, self.accesses)

    def at(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        scalars: Mapping[str, int],
        outputs: Mapping[str, tuple[int, ...]] = NO_OUTPUTS,
        *,
        warns: bool = True,
    ) -> p.ShapedProgram:
        """What `infer_ranges` gives, and raises; without warnings where it need not warn."""
        program, shaping = self.program, self._shaped(shapes, scalars, outputs)
        statements: list[p.ShapedStatement] = []
        preconditions: list[p.Precondition] = []
        warnings: list[p.ProgramWarning] = []
        for context, rounds in self._resolved(shaping):
            statement = context.statement
            ranges = {name: rounds.ranges[name] for name in statement.variables}
            _check_sizes(context, shaping)
            try:
                found = check_accesses(context, rounds)
            except LeavesTensor as failure:
                raise outside(context, failure, ranges) from None
            check_in_place(context, ranges)
            statements.append(
                p.ShapedStatement(
                    statement,
                    ranges,
                    found.checked,
                    None,
                    found.checked_axes,
                    frozenset(c.variable for c in statement.where if c.kind == p.DATA),
                    not is_written_once(context, ranges),
                )
            )
            preconditions += found.preconditions
            if warns:
                fixes_shape = statement.name in shaping.rounds
                own = without_own_shape(context) if fixes_shape else context
                warnings += _warnings(own, rounds, ranges, shaping)
        return p.ShapedProgram(
            program,
            shaping.known.sizes,
            shaping.known.scalars,
            {name: shaping.known.shapes[name] for name in program.tensors},
            {name: shaping.symbolic[name] for name in program.tensors},
            {name: shaping.fixed_by[name] for name in program.tensors},
            tuple(statements),
            tuple(preconditions),
            tuple(dict.fromkeys(warnings)),
        )

    def has_ranges_of(self, shaped: p.ShapedProgram) -> bool:
        """Whether the program has the shapes and ranges of another one at the sizes of that, and
        no range is the lesser of two sizes, of which G2 warns.

        Accesses are not checked: those of the other program are, and it has the same but for
        `where` clauses.
        """
        try:
            shaping = self._shaped(
                {name: shaped.shapes[name] for name in self.program.inputs},
                shaped.scalars,
                {name: shaped.shapes[name] for name in self.program.open_outputs},
            )
            if shaping.known.shapes != shaped.shapes:
                return False
            found = zip(self._resolved(shaping), shaped.statements, strict=True)
            return all(
                _are_same(rounds, wanted) and not rounds.warnings for (_, rounds), wanted in found
            )
        except (InputError, RangeError):
            return False

    def _shaped(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        scalars: Mapping[str, int],
        outputs: Mapping[str, tuple[int, ...]],
    ) -> Shaping:
        """The shapes of all tensors at some sizes."""
        known = known_of_call(self.program, shapes, scalars, outputs)
        shaping = _with_declared(Shaping(self.program, known, {}, {}, {}, outputs))
        return _fix_shapes(shaping, self.accesses)

    def _resolved(self, shaping: Shaping) -> Iterator[tuple[ShapingContext, RangeFixpoint]]:
        """The statements with the ranges of all their variables."""
        for statement in self.program.statements:
            context = _situation(shaping, statement, self.accesses[statement.name])
            yield context, _finish(context, shaping.rounds.get(statement.name))


def _are_same(rounds: RangeFixpoint, wanted: p.ShapedStatement) -> bool:
    ends = {name: (found.begin, found.end) for name, found in wanted.ranges.items()}
    return {n: (r.begin, r.end) for n, r in rounds.ranges.items()} == ends


def _warnings(
    context: ShapingContext, rounds: RangeFixpoint, ranges: Mapping[str, p.Range], shaping: Shaping
) -> Iterator[p.ProgramWarning]:
    """The warnings of one statement, in the context in which it got its ranges."""
    statement, known = context.statement, shaping.known
    yield from rounds.warnings
    yield from cut_warnings(context, ranges)
    yield from value_warnings(statement, known)
    yield from integer_warnings(statement, context.tensors[statement.target], ranges, known)


# --- shapes (G3) ------------------------------------------------------------------------------


def fix_in_order(
    statements: Sequence[p.Statement],
    is_open: Callable[[p.Statement], bool],
    is_ready: Callable[[p.Statement], bool],
    fix: Callable[[p.Statement], bool],
) -> None:
    """Lets statements fix the shapes of their targets, in the order of G3: the first open statement
    in text order that can fix a shape does, and the search starts again.

    A statement that is not ready, as it reads a tensor of unknown shape, is tried only when nothing
    moves otherwise. `fix` says whether the statement could; one that is ready and could not will
    not later either.
    """
    failed: set[str] = set()
    left = deque(statements)

    def fixes_next(waits: bool) -> bool:
        while left and not is_open(left[0]):  # nothing opens again
            left.popleft()
        for statement in filter(is_open, left):
            if waits and (statement.name in failed or not is_ready(statement)):
                continue
            if fix(statement):
                return True
            if waits:
                failed.add(statement.name)
        return False

    while fixes_next(waits=True) or fixes_next(waits=False):
        pass


def _fix_shapes(shaping: Shaping, accesses: Mapping[str, Accesses]) -> Shaping:
    """The shapes of all tensors."""

    def fix(statement: p.Statement) -> bool:
        nonlocal shaping
        try:
            rounds = resolve(_situation(shaping, statement, accesses[statement.name]))
        except (NoRange, RangeError):
            return False  # another statement may fix the shape, and this one fit it
        found = _with_shapes(shaping, statement, rounds, accesses)
        if found is None:
            return False
        shaping = found
        return True

    fix_in_order(
        shaping.program.statements,
        lambda s: any(target not in shaping.known.shapes for target in s.targets),
        lambda s: _is_ready(accesses[s.name], shaping.known),
        fix,
    )
    if any(name not in shaping.known.shapes for name in shaping.program.tensors):
        raise _stuck(shaping, accesses)
    return shaping


def _is_ready(accesses: Accesses, known: KnownSizes) -> bool:
    return accesses.tensors <= known.shapes.keys() and accesses.sizes <= known.sizes.keys()


def _with_shapes(
    shaping: Shaping,
    statement: p.Statement,
    rounds: RangeFixpoint,
    accesses: Mapping[str, Accesses],
) -> Shaping | None:
    """The shaping after a statement has fixed the shapes of its targets (G4, S4); None where it
    does not tell them."""
    context = _situation(shaping, statement, accesses[statement.name])
    axes = range(len(statement.subscripts))
    open_ = [target for target in statement.targets if target not in shaping.known.shapes]
    found = {
        t: [
            _end_of(context, rounds.ranges, t, axis) or _passed_end(shaping, context, t, axis)
            for axis in axes
        ]
        for t in open_
    }
    if any(end is None for ends in found.values() for end in ends):
        return None
    known, symbolic, fixed_by = shaping.known, dict(shaping.symbolic), dict(shaping.fixed_by)
    for target, ends in found.items():
        tensor = shaping.program.tensors[target]
        dims = [end for end in ends if end is not None]
        dims = [_greatest(shaping, target, axis, dim, statement) for axis, dim in enumerate(dims)]
        dims = [_as_passed(shaping, target, axis, dim, statement) for axis, dim in enumerate(dims)]
        shape = tuple(dim.end for dim in dims)
        check_shape(tensor, shape, statement.span)
        known = replace(known, shapes={**known.shapes, target: shape})
        symbolic[target] = tuple(dim.symbolic for dim in dims)
        fixed_by[target] = statement.span
    sized = {(clause.target, clause.axis) for clause in statement.sizes}
    inside = {
        access.number
        for access in context.accesses.written
        if access.tensor in open_ and (access.tensor, access.axis) not in sized
    }
    rounds = replace(rounds, used=rounds.used | inside)  # it writes what it fixed
    return _with_declared(
        Shaping(
            shaping.program,
            resolve_sizes(shaping.program, known),
            symbolic,
            fixed_by,
            {**shaping.rounds, statement.name: rounds},
            shaping.outputs,
        )
    )


@dataclass(frozen=True, slots=True)
class DimensionEnd:
    """Where a statement lets a dimension of its target end; `is_given`: by a `where` of size
    expressions, a constant place or a size clause, and not by what it reads (S8)."""

    end: int
    symbolic: p.Expr | None
    is_given: bool


def _end_of(
    context: ShapingContext, ranges: Mapping[str, p.Range], target: str, axis: int
) -> DimensionEnd | None:
    """Where a dimension of a target ends (G4, S4); None where the statement does not tell."""
    statement, known, subscript = (
        context.statement,
        context.known,
        context.statement.subscripts[axis],
    )
    for clause in statement.sizes:
        if (clause.target, clause.axis) == (target, axis):
            size = evaluate(clause.value, known)
            if size is not None and size < 0:
                raise negative_size(context, clause, size)
            return None if size is None else DimensionEnd(size, clause.value, True)
    if isinstance(subscript, p.Index):
        found = ranges.get(subscript.name)
        clause_of = statement.clause_of(subscript.name)
        is_given = clause_of is not None and clause_of.kind == p.SIZES
        if found is None:
            return None
        return DimensionEnd(found.end, found.symbolic_end, is_given)
    names = p.index_names(subscript)
    if not affine.is_affine(subscript, known) or any(name not in ranges for name in names):
        return None
    box = affine.box_of(ranges, names)
    if is_empty(box):
        return DimensionEnd(0, None, False)
    low, high = _extremes(context, subscript, box)
    if low < 0:
        raise below_zero(context, axis, low)
    last = greatest_of(subscript, ranges, context.symbols)
    if last is None or evaluate(last, known) != high:
        return DimensionEnd(high + 1, None, not names)
    end = context.symbols.binary("+", last, context.symbols.number(1))
    return DimensionEnd(high + 1, in_symbols(end, context.symbols), not names)


def _extremes(context: ShapingContext, subscript: p.Expr, box: Box[str]) -> tuple[int, int]:
    """The least and the greatest value of an affine expression over a box."""
    form = affine.linear_form(subscript, context.known)
    if form is not None:
        return form.interval(box)
    try:
        with sets.bounded():
            space, function = affine.function_on(subscript, context.known, tuple(box), box)
            points = space.box(box)
            return sets.smallest_value(points, function), sets.largest_value(points, function)
    except sets.TooComplex:
        found = interval_of(subscript, context.known, box)
        return found.low, found.high


def _greatest(
    shaping: Shaping, target: str, axis: int, found: DimensionEnd, fixing: p.Statement
) -> DimensionEnd:
    """The greatest end that any statement gives a dimension, where the one that fixes the shape
    gives it, and does not infer it (S8)."""
    if not found.is_given:
        return found
    for statement in shaping.program.statements:
        if statement is not fixing and target in statement.targets:
            other = _given_end(shaping, statement, target, axis)
            if other is not None and other.end > found.end:
                found = other
    return found


def _as_passed(
    shaping: Shaping, target: str, axis: int, found: DimensionEnd, fixing: p.Statement
) -> DimensionEnd:
    """The end that an array of the caller has, where the statement that fixes the shape writes a
    part of the dimension."""
    shape = shaping.outputs.get(target, ())
    if len(shape) <= axis or shape[axis] <= found.end or not fixing.is_part(axis, target):
        return found
    return DimensionEnd(shape[axis], None, True)


def _passed_end(
    shaping: Shaping, context: ShapingContext, target: str, axis: int
) -> DimensionEnd | None:
    """The end that an array of the caller has, where data decide the place in the dimension."""
    shape, subscript = shaping.outputs.get(target, ()), context.statement.subscripts[axis]
    if len(shape) <= axis or affine.is_affine(subscript, context.known):
        return None
    return DimensionEnd(shape[axis], None, True)


def _given_end(
    shaping: Shaping, statement: p.Statement, target: str, axis: int
) -> DimensionEnd | None:
    """The end that a statement gives a dimension of its target by size expressions alone."""
    subscript = statement.subscripts[axis]
    own = (clause for clause in statement.sizes if (clause.target, clause.axis) == (target, axis))
    exprs = [clause.value for clause in own]
    if not exprs and isinstance(subscript, p.Index):
        clause_of = statement.clause_of(subscript.name)
        if clause_of is not None and clause_of.kind == p.SIZES:
            exprs = [clause_of.end]
    elif not exprs and not p.index_names(subscript):
        exprs = [_after(subscript, shaping, statement.span)]
    for expr in exprs:
        value = evaluate(expr, shaping.known)
        if value is not None:
            return DimensionEnd(value, expr, True)
    return None


def _after(place: p.Expr, shaping: Shaping, span: Span) -> p.Expr:
    """The size of which a place is the last."""
    symbols = Symbols(shaping.symbolic, shaping.program.sizes, shaping.known, span)
    return symbols.binary("+", place, symbols.number(1))


def _check_sizes(context: ShapingContext, shaping: Shaping) -> None:
    """Raise for a size clause that says another size than the targets have (S4)."""
    statement = context.statement
    for clause in statement.sizes:
        value, target = evaluate(clause.value, context.known), clause.target
        extent = context.known.shapes[target][clause.axis]
        others = (
            _given_end(shaping, other, target, clause.axis)
            for other in shaping.program.statements
            if other is not statement and target in other.targets
        )
        is_greatest = extent in [other.end for other in others if other is not None]
        if value is None or value > extent or (value < extent and not is_greatest):
            raise other_size(context, clause, extent)


def _with_declared(shaping: Shaping) -> Shaping:
    """The shaping with symbolic shapes and places for tensors whose declaration gives a shape."""
    shapes = shaping.known.shapes
    missing = shapes.keys() - shaping.symbolic.keys()
    if not missing:
        return shaping
    symbolic, fixed_by = dict(shaping.symbolic), dict(shaping.fixed_by)
    for tensor in shaping.program.declared:
        if tensor.name not in missing:
            continue
        symbols = Symbols(symbolic, shaping.program.sizes, shaping.known, tensor.span)
        dims = (in_symbols(dim, symbols) for dim in tensor.shape or ())
        shape = shapes[tensor.name]
        symbolic[tensor.name] = tuple(
            dim if evaluate(dim, shaping.known) == extent else None
            for dim, extent in zip(dims, shape, strict=True)
        )
        fixed_by[tensor.name] = tensor.span
    return replace(shaping, symbolic=symbolic, fixed_by=fixed_by)


def _stuck(shaping: Shaping, accesses: Mapping[str, Accesses]) -> RangeError:
    """The error of the statement to blame for a shape that nothing fixes: first one that has a
    wrong range, then one that waits for nothing, and mentions its open variables on the right."""
    candidates: list[tuple[int, int, RangeError]] = []
    known = shaping.known.shapes
    open_ = [s for s in shaping.program.statements if any(t not in known for t in s.targets)]
    for position, statement in enumerate(open_):
        found = accesses[statement.name]
        context = _situation(shaping, statement, found)
        try:
            rounds = resolve(context)
        except NoRange as failure:
            return no_range(context, failure)
        except RangeError as error:
            return error
        names = {name for name in statement.outer if name not in rounds.ranges}
        if not names:
            return no_shape(context)
        mentioned = any(names & set(a.variables) for r in found.reads for a in r.accesses)
        rank = 2 * (not _is_ready(found, shaping.known)) + (not mentioned)
        candidates.append((rank, position, unresolved(context, rounds)))
    return min(candidates, key=lambda c: c[:2])[2]


# --- one statement ----------------------------------------------------------------------------


def _situation(shaping: Shaping, statement: p.Statement, accesses: Accesses) -> ShapingContext:
    program, known = shaping.program, shaping.known
    symbols = Symbols(shaping.symbolic, program.sizes, known, statement.span)
    return ShapingContext(statement, accesses, known, symbols, shaping.fixed_by, program.tensors)


def _finish(context: ShapingContext, rounds: RangeFixpoint | None) -> RangeFixpoint:
    """The ranges of all variables of a statement, now that all shapes are known."""
    try:
        rounds = resolve(context, rounds)
    except NoRange as failure:
        raise no_range(context, failure) from None
    if any(name not in rounds.ranges for name in context.statement.variables):
        raise unresolved(context, rounds)
    return rounds
