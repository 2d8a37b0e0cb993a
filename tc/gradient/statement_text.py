"""The statements of a gradient without where clauses whose ranges follow from subscripts."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.errors import InputError, RangeError
from tc.gradient import terms as e
from tc.gradient.def_text import Comprehension, FreshNames, Joined, TextStep, WrittenDef, refused
from tc.semantics import program as p
from tc.semantics.ranges.range_inference import RangeInference


@dataclass(frozen=True, slots=True)
class SampleCall:
    """The sizes of one call at which clauses are tried: shapes of the inputs and values of integer
    scalars."""

    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, int]


def without_idle_ranges(
    made: WrittenDef,
    shapes: Mapping[str, tuple[p.Expr, ...]],
    calls: Sequence[SampleCall],
    edges: Sequence[SampleCall],
) -> WrittenDef:
    """The def without idle where clauses. A clause is idle where a subscript of a tensor, whose
    dimensions are in `shapes`, gives its variable the same range, and where the def without the
    clause has the same ranges at the sizes of all `calls` and `edges`; `edges` are calls in which
    some sizes are 0. Clauses are tried at one of the calls first, and at another one where the
    result has other ranges there."""
    statements, whole = made.steps, RangeInference.of(made.program)
    try:
        wanted = [_shaped(whole, call) for call in calls]
    except (InputError, RangeError) as error:
        raise refused(made.program.name, error, "D4") from error
    tried = wanted[-1:]
    fixed = _fixed_dimensions(made.program, statements, shapes)
    said = [names for statement in statements for names in _said(statement, shapes, fixed)]
    for call in edges:
        with contextlib.suppress(InputError, RangeError):
            wanted.append(_shaped(whole, call))
    while True:
        kept = _without_idle_ranges(whole, said, tried)
        other = next((shaped for shaped in wanted if not kept.has_ranges_of(shaped)), None)
        if other is None:
            left = [*_with_clauses_of(statements, kept.program)]
            return WrittenDef(made.head, left, kept.program)
        tried.append(other)


def _shaped(inference: RangeInference, call: SampleCall) -> p.ShapedProgram:
    shapes = {name: call.shapes[name] for name in inference.program.inputs}
    return inference.at(shapes, call.scalars, warns=False)


def _without_idle_ranges(
    whole: RangeInference,
    said: Sequence[set[str]],
    wanted: Sequence[p.ShapedProgram],
) -> RangeInference:
    """The def without as many of the clauses of the variables in `said` as the ranges at the
    `wanted` sizes allow. All clauses are left out at once; where that changes ranges, those of each
    half of the statements, and at last those of one statement or variable."""
    places = [n for n, s in enumerate(whole.program.statements) if _clauses(s, said[n])]

    def without(inference: RangeInference, places: Sequence[int]) -> RangeInference:
        if not places:
            return inference
        attempt = _left_out(inference, {n: said[n] for n in places})
        if all(map(attempt.has_ranges_of, wanted)):
            return attempt
        if len(places) > 1:
            half = len(places) // 2
            return without(without(inference, places[:half]), places[half:])
        (place,) = places
        variables = _clauses(inference.program.statements[place], said[place])
        for variable in variables if len(variables) > 1 else ():
            attempt = _left_out(inference, {place: {variable}})
            if all(map(attempt.has_ranges_of, wanted)):
                inference = attempt
        return inference

    return without(whole, places)


def _clauses(statement: p.Statement, variables: Container[str]) -> list[str]:
    """The variables among these for which a statement has a clause."""
    return [w.variable for w in statement.where if w.variable in variables]


def _left_out(inference: RangeInference, variables: Mapping[int, Container[str]]) -> RangeInference:
    """The program without the clauses of some variables, which are given by the place of the
    statement."""
    statements = list(inference.program.statements)
    for place, names in variables.items():
        where = tuple(w for w in statements[place].where if w.variable not in names)
        statements[place] = replace(statements[place], where=where)
    return inference.with_clauses_of(replace(inference.program, statements=tuple(statements)))


def _fixed_dimensions(
    program: p.Program,
    statements: Sequence[TextStep],
    shapes: Mapping[str, tuple[p.Expr, ...]],
) -> set[tuple[str, int]]:
    """The dimensions of tensors that are declared, or that the range of some statement's variable
    gives."""
    fixed = {
        (n, k) for n, tensor in program.tensors.items() for k in range(len(tensor.shape or ()))
    }
    for statement in statements:
        if isinstance(statement, Comprehension):
            (names,) = _said(statement, shapes, fixed)
            ends = {v: e.total(e.in_sizes(statement.where[v][1], shapes), e.ZERO) for v in names}
            dims = (e.total(e.in_sizes(d, shapes), e.ZERO) for d in shapes[statement.target])
            pairs = enumerate(zip(statement.indices, dims, strict=True))
            fixed |= {(statement.target, axis) for axis, (v, dim) in pairs if ends.get(v) == dim}
        else:
            axes = range(len(shapes[statement.target]))
            fixed |= {(statement.target, axis) for axis in axes}
    return fixed


def _said(
    statement: TextStep,
    shapes: Mapping[str, tuple[p.Expr, ...]],
    fixed: Container[tuple[str, int]],
) -> Iterator[set[str]]:
    """The variables that alone are a subscript of a dimension as large as their range, for each
    statement of the program that one statement stands for. Dimensions of targets count where they
    are `fixed`."""
    if isinstance(statement, Joined):
        yield from (set() for _ in statement.sources)
        return
    reads = [n for n in p.walk(statement.rhs) if isinstance(n, p.Read)]
    places = [(n.tensor, axis, s) for n in reads for axis, s in enumerate(n.subscripts)]
    left = enumerate(map(e.index, statement.indices))
    places += [(statement.target, k, s) for k, s in left if (statement.target, k) in fixed]
    dims = {
        (subscript.name, e.total(e.in_sizes(shapes[tensor][axis], shapes), e.ZERO))
        for tensor, axis, subscript in places
        if isinstance(subscript, p.Index)
    }
    ends = {v: e.total(e.in_sizes(end, shapes), e.ZERO) for v, (_, end) in statement.where.items()}
    limited = {
        variable
        for read in _conditional_reads(statement.rhs)
        for axis, subscript in enumerate(read.subscripts)
        for variable in p.index_names(subscript)
        if not isinstance(subscript, p.Index)
        or ends.get(variable) != e.total(e.in_sizes(shapes[read.tensor][axis], shapes), e.ZERO)
    }
    yield {
        variable
        for variable, (begin, _) in statement.where.items()
        if begin == e.ZERO and (variable, ends[variable]) in dims and variable not in limited
    }


def _conditional_reads(expr: p.Expr, conditional: bool = False) -> Iterator[p.Read]:
    """The reads that are made under a condition, and may be out of bounds elsewhere, though ranges
    follow from them. Reads in `pad` are left out: no ranges follow from these."""
    if e.is_pad(expr) or (isinstance(expr, p.Call) and expr.function == e.PAD):
        return
    if isinstance(expr, p.Read) and conditional:
        yield expr
    for place, child in enumerate(p.children(expr)):
        is_branch = isinstance(expr, p.Select | p.Logical) and place > 0
        yield from _conditional_reads(child, conditional or is_branch)


def _with_clauses_of(statements: Sequence[TextStep], program: p.Program) -> Iterator[TextStep]:
    """The statements with just those of their clauses that the statements of a program have."""
    kept = iter(program.statements)
    for statement in statements:
        if isinstance(statement, Joined):
            for _ in statement.sources:
                next(kept)
            yield statement
        else:
            left = {w.variable for w in next(kept).where}
            where = {v: bounds for v, bounds in statement.where.items() if v in left}
            yield replace(statement, where=where)


def with_free_indices(names: Iterable[str], statements: Sequence[TextStep]) -> list[TextStep]:
    """The statements with other names for index variables that have the name of a tensor or a size
    (N1). `names` are those of tensors and sizes beside the targets; variables of defs that the
    program calls, and variables that a gradient chooses, may have the same names."""
    taken = {*names, *(statement.target for statement in statements)}

    def free(statement: TextStep) -> TextStep:
        if isinstance(statement, Joined):
            return statement
        bounds = (bound for bounds in statement.where.values() for bound in bounds)
        named = (n for expr in (statement.rhs, *bounds) for n in p.index_names(expr))
        variables = dict.fromkeys((*statement.indices, *statement.where, *named))
        fresh = FreshNames(taken | variables.keys())
        new = {v: fresh.fresh(v) for v in variables if v in taken}
        return _with_names(statement, new) if new else statement

    return list(map(free, statements))


def _with_names(statement: Comprehension, names: Mapping[str, str]) -> Comprehension:
    indices = {old: e.index(new) for old, new in names.items()}
    where = {
        names.get(v, v): (e.substituted(begin, indices), e.substituted(end, indices))
        for v, (begin, end) in statement.where.items()
    }
    left = tuple(names.get(v, v) for v in statement.indices)
    rhs = e.substituted(statement.rhs, indices)
    return replace(statement, indices=left, rhs=rhs, where=where)
