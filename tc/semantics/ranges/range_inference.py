"""Range inference over a whole function: ranges, shapes, preconditions (G1 to G9, P1).

    infer_ranges(program, sizes of a call) = the sizes and declared shapes that the call gives;
        then shapes of the other tensors, statement by statement (G3);
        then each statement's remaining ranges, its preconditions (G6), its in-place reads (P1)

The parts: `size_values` evaluates size expressions, `accesses` lists what a statement touches,
`rounds` infers one statement's ranges, `preconditions` and `inplace` check it, `symbolic` writes
ranges as expressions, `range_errors` says what is wrong, and `feasible_ranges` what would not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import InputError, RangeError
from tc.semantics import program as p
from tc.semantics.ranges.accesses import Accesses, accesses_of
from tc.semantics.ranges.guarded_ranges import without_own_shape
from tc.semantics.ranges.inplace import check_in_place
from tc.semantics.ranges.integer_sums import integer_warnings
from tc.semantics.ranges.preconditions import LeavesTensor, check_accesses
from tc.semantics.ranges.range_errors import cut_warnings, no_range, outside, unresolved
from tc.semantics.ranges.rounds import NoRange, RangeFixpoint, ShapingContext, resolve
from tc.semantics.ranges.symbolic import Symbols, in_symbols
from tc.semantics.size_values import (
    KnownSizes,
    check_shape,
    evaluate,
    known_of_call,
    resolve_sizes,
    value_warnings,
)
from tc.source import Span


@dataclass(frozen=True, slots=True)
class Shaping:
    """How far the shapes of a program are known, and which statement fixed which."""

    program: p.Program
    known: KnownSizes
    symbolic: Mapping[str, tuple[p.Expr | None, ...]]
    fixed_by: Mapping[str, Span]
    rounds: Mapping[str, RangeFixpoint]  # of the statements that fixed a shape, by name


def infer_ranges(
    program: p.Program, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, int]
) -> p.ShapedProgram:
    """The ranges and shapes that follow from the shapes of the inputs and the values of
    `program.static_scalars`.

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
    return RangeInference.of(program).at(shapes, scalars)


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
        kept = {*self.program.inputs, *(s.target for s in statements)}
        tensors = {n: tensor for n, tensor in self.program.tensors.items() if n in kept}
        program = replace(self.program, statements=statements, tensors=tensors)
        return RangeInference(program, self.accesses)

    def at(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        scalars: Mapping[str, int],
        *,
        warns: bool = True,
    ) -> p.ShapedProgram:
        """What `infer_ranges` gives, and raises; without warnings where it need not warn."""
        program, shaping = self.program, self._shaped(shapes, scalars)
        statements: list[p.ShapedStatement] = []
        preconditions: list[p.Precondition] = []
        warnings: list[p.ProgramWarning] = []
        for context, rounds in self._resolved(shaping):
            statement = context.statement
            ranges = {name: rounds.ranges[name] for name in statement.variables}
            try:
                before, checked = check_accesses(context, rounds)
            except LeavesTensor as failure:
                raise outside(context, failure, ranges) from None
            check_in_place(context, ranges)
            statements.append(p.ShapedStatement(statement, ranges, checked))
            preconditions += before
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
                {name: shaped.shapes[name] for name in self.program.inputs}, shaped.scalars
            )
            if shaping.known.shapes != shaped.shapes:
                return False
            found = zip(self._resolved(shaping), shaped.statements, strict=True)
            return all(
                _are_same(rounds, wanted) and not rounds.warnings for (_, rounds), wanted in found
            )
        except (InputError, RangeError):
            return False

    def _shaped(self, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, int]) -> Shaping:
        """The shapes of all tensors at some sizes."""
        known = known_of_call(self.program, shapes, scalars)
        shaping = _with_declared(Shaping(self.program, known, {}, {}, {}))
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

    def fixes_next(waits: bool) -> bool:
        for statement in filter(is_open, statements):
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
        if any(name not in rounds.ranges for name in statement.outer):
            return False
        shaping = _with_shape(shaping, statement, rounds)
        return True

    fix_in_order(
        shaping.program.statements,
        lambda s: s.target not in shaping.known.shapes,
        lambda s: _is_ready(accesses[s.name], shaping.known),
        fix,
    )
    if any(name not in shaping.known.shapes for name in shaping.program.tensors):
        raise _stuck(shaping, accesses)
    return shaping


def _is_ready(accesses: Accesses, known: KnownSizes) -> bool:
    return accesses.tensors <= known.shapes.keys() and accesses.sizes <= known.sizes.keys()


def _with_shape(shaping: Shaping, statement: p.Statement, rounds: RangeFixpoint) -> Shaping:
    """The shaping after a statement has fixed the shape of its target (G4)."""
    tensor = shaping.program.tensors[statement.target]
    ranges = [rounds.ranges[name] for name in statement.outer]
    shape = tuple(r.end for r in ranges)
    rounds = replace(rounds, used=rounds.used | set(range(tensor.rank)))  # it writes what it fixed
    check_shape(tensor, shape, statement.span)
    known = replace(shaping.known, shapes={**shaping.known.shapes, tensor.name: shape})
    return _with_declared(
        Shaping(
            shaping.program,
            resolve_sizes(shaping.program, known),
            {**shaping.symbolic, tensor.name: tuple(r.symbolic_end for r in ranges)},
            {**shaping.fixed_by, tensor.name: statement.span},
            {**shaping.rounds, statement.name: rounds},
        )
    )


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
    open_ = [s for s in shaping.program.statements if s.target not in shaping.known.shapes]
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
