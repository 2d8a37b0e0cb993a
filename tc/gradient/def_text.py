"""Statements of defs that are derived, and the texts of these defs. A gradient is written without
the where clauses whose ranges follow from subscripts."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tc.dtypes import FLOAT32, SPELLINGS, DType
from tc.errors import CheckError, GradError, InputError, RangeError
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.semantics.ranges.range_inference import RangeInference
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source

SPELLED = {dtype.name: word for word, dtype in SPELLINGS.items()}
"""The short spelling of each type, which stands last."""


ExprBounds: TypeAlias = tuple[p.Expr, p.Expr]
"""Begin and end of the range of an index variable."""


@dataclass(frozen=True, slots=True)
class SizeOf:
    """A size clause, `target.axis = value` (S4)."""

    target: str
    axis: int
    value: p.Expr


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A statement of a def to be, `target(indices) op rhs where ...`, with `op` as it is written.
    `clauses` are the variables with a where clause in the program from which the statement comes,
    None for all those of `where`.

    `places` are the subscripts of a target whose place is computed (S1), `indices` then the
    variables in these. `within` are ranges that depend on other variables or on tensors (W2, W3):
    the ranges of their variables in `where` are boxes around them. All `conditions` hold for each
    instance (W1). `others` are the further targets, and their values (V1); `sizes` the clauses
    that give dimensions of targets a size (S4).

    >>> first = {"i": (e.ZERO, e.number(1))}
    >>> Comprehension("o", ("i",), "=", e.read("a", (e.index("i"),)), first).text
    'o(i) = a(i) where i in 0:1'
    >>> place = (e.read("p", (e.index("i"),)),)
    >>> Comprehension("o", ("i",), "+=!", e.read("a", (e.index("i"),)), places=place).text
    'o(p(i)) +=! a(i)'
    """

    target: str
    indices: tuple[str, ...]
    op: str
    rhs: p.Expr
    where: Mapping[str, ExprBounds] = field(default_factory=dict)
    exists: tuple[p.Read, ...] = ()
    clauses: frozenset[str] | None = field(default=None, compare=False)
    places: tuple[p.Expr, ...] | None = None
    within: Mapping[str, ExprBounds] = field(default_factory=dict)
    conditions: tuple[p.Expr, ...] = ()
    others: tuple[tuple[str, p.Expr], ...] = ()
    sizes: tuple[SizeOf, ...] = ()

    @property
    def operator(self) -> str:
        """The operation, "=", "+", "*", "min" or "max"."""
        return self.op.rstrip("=!") or "="

    @property
    def variables(self) -> tuple[str, ...]:
        """The index variables, those of the left side first."""
        named = [n for expr in (*self.inner, *self.exists) for n in p.index_names(expr)]
        return tuple(dict.fromkeys((*self.indices, *named, *self.where, *self.within)))

    @property
    def reduction(self) -> tuple[str, ...]:
        return tuple(v for v in self.variables if v not in self.indices)

    @property
    def starts(self) -> bool:
        """Whether the statement keeps nothing of the elements that it writes."""
        return self.op == "=" or self.op.endswith("!")

    @property
    def meeting(self) -> tuple[str, ...]:
        """The variables that an element of the target does not tell."""
        return tuple(v for v in self.variables if v not in self.bare)

    @property
    def combines(self) -> bool:
        """Whether elements may have any number of terms, and not one each."""
        return bool(self.reduction) or self.places is not None or not self.is_box

    @property
    def is_box(self) -> bool:
        """Whether the instances are all points of a box."""
        return not self.within and not self.conditions

    @property
    def left(self) -> tuple[p.Expr, ...]:
        """The subscripts of the target."""
        return tuple(map(e.index, self.indices)) if self.places is None else self.places

    @property
    def bare(self) -> tuple[str | None, ...]:
        """The variable that alone is the subscript of a dimension, None where the place is
        computed."""
        return tuple(s.name if isinstance(s, p.Index) else None for s in self.left)

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target, *(name for name, _ in self.others))

    @property
    def values(self) -> tuple[p.Expr, ...]:
        """The right sides, in the order of `targets`."""
        return (self.rhs, *(value for _, value in self.others))

    @property
    def bounds(self) -> tuple[p.Expr, ...]:
        """The bounds of the ranges that depend on variables or tensors."""
        return tuple(bound for pair in self.within.values() for bound in pair)

    @property
    def inner(self) -> tuple[p.Expr, ...]:
        """The expressions that each instance evaluates."""
        return (*(self.places or ()), *self.values, *self.bounds, *self.conditions)

    @property
    def outer(self) -> dict[str, ExprBounds]:
        """The clauses of the variables of the left side."""
        return {v: bounds for v, bounds in self.where.items() if v in self.indices}

    @property
    def sources(self) -> tuple[str, ...]:
        """The tensors that the instances read."""
        return tuple(read.tensor for expr in self.inner for read in reads_of(expr))

    @property
    def all_reads(self) -> tuple[p.Read, ...]:
        """The reads of the instances and of `exists`."""
        return tuple(read for expr in (*self.inner, *self.exists) for read in reads_of(expr))

    def changed(self, change: Callable[[p.Expr], p.Expr]) -> Comprehension:
        """The statement with other expressions for those that each instance evaluates."""
        return replace(
            self,
            rhs=change(self.rhs),
            places=None if self.places is None else tuple(map(change, self.places)),
            within={v: (change(b), change(c)) for v, (b, c) in self.within.items()},
            conditions=tuple(map(change, self.conditions)),
            others=tuple((name, change(value)) for name, value in self.others),
        )

    def beside(self, target: str, op: str, rhs: p.Expr) -> Comprehension:
        """A statement of another target with the same instances, at the same places."""
        if op.endswith("=!") and not self.combines:
            op = "="
        sizes = tuple(replace(s, target=target) for s in self.sizes if s.target == self.target)
        return replace(self, target=target, op=op, rhs=rhs, others=(), sizes=sizes, clauses=None)

    @property
    def text(self) -> str:
        left = ", ".join(f"{target}{self._left_text}" for target in self.targets)
        values = ", ".join(printed(e.with_signs(e.with_pads(value))) for value in self.values)
        ranges = {**self.where, **self.within}
        clauses = [f"{v} in {printed(b)}:{printed(c)}" for v, (b, c) in ranges.items()]
        clauses += [f"exists {printed(read)}" for read in self.exists]
        clauses += [f"{size.target}.{size.axis} = {printed(size.value)}" for size in self.sizes]
        clauses += [printed(e.with_signs(condition)) for condition in self.conditions]
        where = f" where {', '.join(clauses)}" if clauses else ""
        return f"{left} {self.op} {values}{where}"

    @property
    def _left_text(self) -> str:
        return f"({', '.join(map(printed, self.left))})" if self.left else ""


@dataclass(frozen=True, slots=True)
class Joined:
    """`target = concat(sources)`; `pieces` are the statements for each source, where the ranges of
    a program are known."""

    target: str
    sources: tuple[str, ...]
    pieces: tuple[Comprehension, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target,)

    @property
    def text(self) -> str:
        return f"{self.target} = concat({', '.join(self.sources)})"


TextStep: TypeAlias = Comprehension | Joined


def reads_of(expr: p.Expr) -> Iterator[p.Read]:
    """The reads in an expression, those in subscripts too."""
    return (node for node in p.walk(expr) if isinstance(node, p.Read))


def index_names_of(read: p.Read) -> set[str]:
    """The variables in the subscripts of a read."""
    return {name for subscript in read.subscripts for name in p.index_names(subscript)}


def accesses(expr: p.Expr, names: Mapping[str, str]) -> set[tuple[str, int, p.Expr]]:
    """The tensor, dimension and subscript of each access in an expression; a tangent counts as its
    tensor."""
    tensors = {tangent: name for name, tangent in names.items()}
    return {
        (tensors.get(read.tensor, read.tensor), axis, subscript)
        for read in reads_of(expr)
        for axis, subscript in enumerate(read.subscripts)
    }


def printed(expr: p.Expr) -> str:
    """The expression as text: `pad` as it was written, whole numbers and types in short."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Select(padded=True, then=then, otherwise=otherwise, dtype=dtype):
                both = (e.rebuilt(then, change), e.rebuilt(otherwise, change))
                return p.Call(e.PAD, both, dtype, span=node.span)
            case p.Convert(written=True, operand=operand, dtype=dtype):
                args = (e.rebuilt(operand, change),)
                return p.Call(SPELLED[dtype.name], args, dtype, span=node.span)
            case p.Literal(value=float(value)) if re.fullmatch(r"-?\d+", node.span.text):
                return e.number(int(value))
        return None

    return to_text(e.rebuilt(expr, change))


INDICES = "ijklmnpq"


class FreshNames:
    """Names for tensors, sizes and index variables that a text gets in addition (D2). `taken` are
    the names of tensors and sizes, `variables` those of index variables."""

    def __init__(self, taken: Iterable[str], variables: Iterable[str] = ()) -> None:
        self._taken = {*taken}
        self._variables = {*variables} - self._taken
        self._taken |= self._variables

    def fresh(self, name: str) -> str:
        """The name, with _2, _3, ... behind it where the name is taken. The result is taken from
        now on."""
        found = self.untaken(re.sub(r"\W", "_", name))
        self._taken.add(found)
        return found

    def untaken(self, stem: str, here: Container[str] = ()) -> str:
        """A name for an index variable, which other statements may use, too."""
        return next(n for n in _numbered(stem) if n not in self._taken and n not in here)

    def indices(self, rank: int) -> tuple[str, ...]:
        """Names for the index variables of a statement that has no others; other statements may
        have variables of these names."""
        stems = (*INDICES, *(f"i{k}" for k in range(len(INDICES), rank)))[:rank]
        tensors = self._taken - self._variables
        return tuple(next(n for n in _numbered(stem) if n not in tensors) for stem in stems)


def element_names(line: Comprehension, names: FreshNames) -> tuple[str, ...]:
    """Names for the indices of an element of a statement's target, one for each dimension: the
    variables of the left side where they stand alone or are the first in a subscript."""
    found: list[str] = []
    others = names.indices(len(line.left))
    for axis, subscript in enumerate(line.left):
        taken = {*found, *(v for v in line.bare[axis + 1 :] if v is not None)}
        wanted = (*p.index_names(subscript), others[axis])
        free = next((v for v in wanted if v not in taken), None)
        found.append(free or names.untaken(others[axis], taken))
    return tuple(found)


def part_of(
    line: Comprehension, names: Sequence[str], shape: Sequence[p.Expr]
) -> dict[str, ExprBounds]:
    """The ranges, under some names, of the indices of the elements that a statement may change in a
    target of some shape."""
    return {
        name: (e.ZERO, size) if v is None else line.where[v]
        for name, v, size in zip(names, line.bare, shape, strict=True)
    }


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}_{n}" for n in itertools.count(2))


@dataclass(frozen=True, slots=True)
class WrittenDef:
    """A def to be, `head { steps }`, and its program, whose places are those of a text in which all
    where clauses stand.

    >>> scale = Comprehension("o", ("i",), "=", e.read("a", (e.index("i"),)))
    >>> made = checked_def("f", ["float(N) a"], ["o"], [scale], {})
    >>> print(made.layout, [*made.program.tensors])
    def f(float(N) a) -> (o) {
      o(i) = a(i)
    }
     ['a', 'o']
    """

    head: str
    steps: Sequence[TextStep]
    program: p.Program

    @property
    def layout(self) -> str:
        """The text of the def in its standard layout."""
        return format_source(_source(self.head, self.steps))


def checked_def(
    name: str,
    params: Sequence[str],
    returns: Sequence[str],
    steps: Sequence[TextStep],
    dtypes: Mapping[str, DType],
    *,
    rule: str = "D18",
) -> WrittenDef:
    """The def, checked, whose tensors have the types `dtypes`: a right side is cast where its
    target would have another type. GradError of the `rule` where the def would not be accepted."""
    head = f"def {name}({', '.join(params)}) -> ({', '.join(returns)})"
    cast = set[str]()
    while True:
        try:
            program = check(parse(_source(head, steps)))
        except CheckError as error:
            raise refused(name, error, rule) from error
        types = {n: program.tensors[n].dtype for step in steps for n in step.targets}
        wrong = {n for n, dtype in types.items() if dtype != dtypes.get(n, dtype)}
        if not wrong:
            return WrittenDef(head, steps, program)
        if wrong <= cast:
            first = min(wrong)
            raise GradError(f"no type makes '{first}' {dtypes[first]}", rule=rule)
        steps = [_with_types(s, {n: dtypes[n] for n in wrong - cast}) for s in steps]
        cast |= wrong


def _source(head: str, steps: Sequence[TextStep]) -> Source:
    lines = "\n".join(step.text for step in steps)
    return Source(f"{head} {{\n{lines}\n}}\n")


def refused(name: str, error: CheckError | InputError | RangeError, rule: str) -> GradError:
    """The error of a def that would not be accepted."""
    return GradError(
        f"the text of '{name}' would not be accepted: {error.cause}",
        rule=rule,
        repair="the same of the parts of the program, each a def",
    )


def _with_types(step: TextStep, dtypes: Mapping[str, DType]) -> TextStep:
    """The statement with the right sides of some targets cast to their types; a concat stays as it
    is."""
    if isinstance(step, Joined):
        return step
    rhs, *others = (
        _as_type(value, dtypes[name]) if name in dtypes else value
        for name, value in zip(step.targets, step.values, strict=True)
    )
    names = (name for name, _ in step.others)
    return replace(step, rhs=rhs, others=tuple(zip(names, others, strict=True)))


def _as_type(value: p.Expr, dtype: DType) -> p.Expr:
    if value == e.ZERO and dtype == FLOAT32:
        return p.Literal(0.0, dtype, span=e.NO_SPAN)
    return p.Convert(value, dtype, True, span=e.NO_SPAN)


def declaration(name: str, dtype: DType, dims: Sequence[p.Expr]) -> str:
    """A parameter or a return with its type."""
    listed = f"({','.join(map(printed, dims))})" if dims else ""
    return f"{SPELLED[dtype.name]}{listed} {name}"


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
    fixed = _fixed_dimensions(made.program, statements, shapes)
    said = [names for statement in statements for names in _said(statement, shapes, fixed)]
    for call in edges:
        with contextlib.suppress(InputError, RangeError):
            wanted.append(_shaped(whole, call))
    # a range that depends on others may be the lesser of two sizes with all clauses, too
    wanted = [shaped for shaped in wanted if whole.has_ranges_of(shaped)]
    if not wanted:
        return made
    tried = wanted[-1:]
    while True:
        kept = _without_idle_ranges(whole, said, tried)
        other = next((shaped for shaped in wanted if not kept.has_ranges_of(shaped)), None)
        if other is None:
            left = [*_with_clauses_of(statements, kept.program)]
            return WrittenDef(made.head, left, kept.program)
        tried.append(other)


def _shaped(inference: RangeInference, call: SampleCall) -> p.ShapedProgram:
    program = inference.program
    shapes = {name: call.shapes[name] for name in program.inputs}
    outputs = {name: call.shapes[name] for name in program.open_outputs if name in call.shapes}
    return inference.at(shapes, call.scalars, outputs, warns=False)


def _without_idle_ranges(
    whole: RangeInference,
    said: Sequence[set[str]],
    wanted: Sequence[p.ShapedProgram],
) -> RangeInference:
    """The def without as many of the clauses of the variables in `said` as the ranges at the
    `wanted` sizes allow. All clauses are left out at once. Where leaving them out changes ranges,
    the clauses of each half of the statements are left out, and at last those of single statements
    and variables."""
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
    """The variables, among those given, for which a statement has a clause."""
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
            pairs = enumerate(zip(statement.bare, dims, strict=True))
            fixed |= {
                (statement.target, axis)
                for axis, (v, dim) in pairs
                if v is not None and ends.get(v) == dim
            }
            fixed |= {(size.target, size.axis) for size in statement.sizes}
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
    reads = [read for expr in statement.inner for read in reads_of(expr)]
    places = [(n.tensor, axis, s) for n in reads for axis, s in enumerate(n.subscripts)]
    left = enumerate(statement.left)
    places += [(statement.target, k, s) for k, s in left if (statement.target, k) in fixed]
    dims = {
        (subscript.name, e.total(e.in_sizes(shapes[tensor][axis], shapes), e.ZERO))
        for tensor, axis, subscript in places
        if isinstance(subscript, p.Index)
    }
    ends = {v: e.total(e.in_sizes(end, shapes), e.ZERO) for v, (_, end) in statement.where.items()}
    limited = {
        variable
        for expr in statement.values
        for read in _conditional_reads(expr, bool(statement.conditions))
        for axis, subscript in enumerate(read.subscripts)
        for variable in _affine_names(subscript)
        if not isinstance(subscript, p.Index)
        or ends.get(variable) != e.total(e.in_sizes(shapes[read.tensor][axis], shapes), e.ZERO)
    }
    if statement.conditions:
        computed = (s for s in statement.left if not isinstance(s, p.Index))
        limited |= {variable for subscript in computed for variable in _affine_names(subscript)}
    yield {
        variable
        for variable, (begin, _) in statement.where.items()
        if begin == e.ZERO and (variable, ends[variable]) in dims and variable not in limited
        if variable not in statement.within
    }


def _affine_names(subscript: p.Expr) -> set[str]:
    """The variables whose ranges a subscript may bound: those in it that are not in an element."""
    if isinstance(subscript, p.Index):
        return {subscript.name}
    inner = () if isinstance(subscript, p.Read) else p.children(subscript)
    return {name for child in inner for name in _affine_names(child)}


def _conditional_reads(expr: p.Expr, conditional: bool = False) -> Iterator[p.Read]:
    """The reads that are made under a condition, and may be out of bounds elsewhere, though ranges
    follow from them. Reads in `pad` are left out, as no ranges follow from reads in `pad`."""
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
