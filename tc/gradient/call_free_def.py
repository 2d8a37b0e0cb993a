"""A program as statements that a text can spell: calls inlined, every name one word (D15). Reverse
mode, forward mode and batching are written in terms of these statements.

Reverse mode has clauses for the ranges of all variables (D4). Forward mode and batching need no
ranges: forward mode writes statements beside those of the program, and both have the same ranges by
construction (`PairedRanges`), as the new statement has the same reads, or a clause for each read
that it lacks (D18).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tc.dtypes import DType
from tc.gradient import terms as e
from tc.gradient.def_text import (
    Comprehension,
    ExprBounds,
    FreshNames,
    Joined,
    SizeOf,
    TextStep,
    accesses,
    declaration,
    element_names,
    reads_of,
)
from tc.gradient.symbolic_ranges import SymbolicRanges
from tc.gradient.terms import SYMBOLS
from tc.semantics import program as p
from tc.semantics.dependent_ranges import in_order
from tc.semantics.ranges.polynomials import atom, linear, to_expr, to_poly


@dataclass(frozen=True, slots=True)
class CallFreeDef:
    """One def without calls: its statements, tensors and sizes. `shapes` has declared dimensions,
    over sizes of the inputs and extents; `inferred` has the dimensions that the first statement of
    a tensor shows, or with `found`, the dimensions of all tensors. `callers` are the outputs that
    are read before any statement defines them (R4). `words` has the tensors by their names in the
    checked program. `found` are the ranges of the program where all statements have clauses for
    them, else None."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: Mapping[str, DType]
    ranks: Mapping[str, int]
    shapes: Mapping[str, tuple[p.Expr, ...]]
    steps: tuple[TextStep, ...]
    callers: tuple[str, ...]
    static_scalars: frozenset[str]
    sizes: tuple[str, ...]
    words: Mapping[str, str]
    inferred: Mapping[str, tuple[p.Expr, ...]] = field(default_factory=dict)
    found: SymbolicRanges | None = None

    def extent(self, tensor: str, axis: int) -> p.Expr:
        """The size of a dimension in sizes of the inputs where these show it, else as an extent."""
        shape = self.shapes.get(tensor) or self.inferred.get(tensor)
        return p.Extent(tensor, axis, span=e.NO_SPAN) if shape is None else shape[axis]

    def only_extent(self, line: Comprehension, variable: str) -> p.Expr | None:
        """The extent of the dimensions over which a variable runs; None unless the variable always
        stands alone in a subscript, but for those in `pad`, which bound no ranges, and these
        dimensions have one extent."""
        found = set()
        if variable in line.within:
            return None
        computed = (s for s in line.left if not isinstance(s, p.Index))
        if any(variable in p.index_names(expr) for expr in (*computed, *line.bounds)):
            return None
        for read in line.all_reads:
            for axis, subscript in enumerate(read.subscripts):
                if subscript == e.index(variable):
                    found.add(self.extent(read.tensor, axis))
                elif variable in p.index_names(subscript) and not read.bare_only:
                    return None
        return found.pop() if len(found) == 1 else None

    @property
    def lines(self) -> Iterator[Comprehension]:
        """The statements, among them those of each concat."""
        for step in self.steps:
            yield from step.pieces if isinstance(step, Joined) else (step,)

    def declared(self, tensor: str) -> str:
        """The declaration of a tensor as a parameter or a return, without a type where the shape is
        inferred."""
        shape = self.shapes.get(tensor)
        return self.named_like(tensor, tensor) if is_spelled(shape) else tensor

    def named_like(self, tensor: str, name: str) -> str:
        """The declaration of another tensor with the type and shape of this one."""
        shape = self.shapes.get(tensor)
        return declaration(name, self.dtypes[tensor], shape or ()) if is_spelled(shape) else name

    def fresh_names(self) -> FreshNames:
        """Names that no tensor, size or index variable has."""
        variables = (v for line in self.lines for v in line.variables)
        return FreshNames((*self.dtypes, *self.sizes), variables)

    def with_tensors(
        self,
        dtypes: Mapping[str, DType],
        shapes: Mapping[str, tuple[p.Expr, ...]],
        ranks: Mapping[str, int],
    ) -> CallFreeDef:
        """The def with further temporaries. `shapes` are those of all, where ranges are known."""
        return replace(
            self,
            dtypes={**self.dtypes, **dtypes},
            ranks={**self.ranks, **ranks},
            inferred={**self.inferred, **shapes},
        )


def is_spelled(shape: tuple[p.Expr, ...] | None) -> bool:
    """Whether a type in the text can have this shape."""
    return shape is not None and all(isinstance(dim, p.Size | p.Literal) for dim in shape)


def call_free(program: p.Program, found: SymbolicRanges | None = None) -> CallFreeDef:
    """The program as one def, in which tensors and sizes of called defs have names of one word.
    With `found`, the ranges of the program, each statement has clauses for all of its variables."""
    names = FreshNames(filter(_is_word, (*program.tensors, *program.sizes)))
    tensors = {n: n if _is_word(n) else names.fresh(n) for n in program.tensors}
    sizes = {n: _size(program, n, tensors) for n in program.sizes if not _is_word(n)}

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Size(name=name) if name in sizes:
                return sizes[name]
            case p.Extent(tensor=tensor):
                return replace(node, tensor=tensors[tensor])
            case p.Read(tensor=tensor, subscripts=subscripts):
                inside = tuple(e.rebuilt(s, change) for s in subscripts)
                return replace(node, tensor=tensors[tensor], subscripts=inside, site=-1)
            case p.Binary(site=site, left=left, right=right) if site >= 0:
                left, right = e.rebuilt(left, change), e.rebuilt(right, change)
                return replace(node, left=left, right=right, site=-1)
        return None

    taken = {*tensors.values(), *program.sizes}
    steps: list[TextStep] = []
    for joins, group in itertools.groupby(program.statements, concat_of):
        statements = list(group)
        if joins is None:
            steps += [_line(s, tensors, change, taken, found) for s in statements]
        else:
            sources = (tensors[next(reads_of(s.rhs)).tensor] for s in statements)
            lines = (_line(s, tensors, change, taken, found) for s in statements)
            pieces = (
                []
                if found is None
                else [_placed(line, s, found) for line, s in zip(lines, statements, strict=True)]
            )
            steps.append(Joined(tensors[statements[0].target], tuple(sources), tuple(pieces)))
    shapes = {
        tensors[name]: tuple(e.rebuilt(dim, change) for dim in tensor.shape)
        for name, tensor in program.tensors.items()
        if tensor.shape is not None
    }
    made = CallFreeDef(
        program.name,
        program.inputs,
        program.outputs,
        {tensors[n]: t.dtype for n, t in program.tensors.items()},
        {tensors[n]: t.rank for n, t in program.tensors.items()},
        shapes,
        tuple(steps),
        tuple(program.needs_initial),
        program.static_scalars,
        tuple(n for n in program.sizes if n not in sizes),
        tensors,
    )
    if found is not None:
        inferred = {tensors[name]: shape for name, shape in found.shapes.items()}
        return replace(made, inferred=inferred, found=found)
    made = replace(made, steps=tuple(_with_declared_shapes(made)))
    for step in made.steps:
        shape = _shown_shape(made, step)
        if shape is not None:
            made = replace(made, inferred={**made.inferred, step.target: shape})
    return made


def _is_word(name: str) -> bool:
    return "." not in name


def _size(program: p.Program, name: str, tensors: Mapping[str, str]) -> p.Expr:
    """The size of an inlined def in sizes of the entry, or as an extent."""
    extents = program.sizes[name].extents
    for extent in extents:
        shape = program.tensors[extent.tensor].shape
        if extent.tensor in program.inputs and shape is not None:
            return shape[extent.axis]
    return replace(extents[0], tensor=tensors[extents[0].tensor])


def _line(
    statement: p.Statement,
    tensors: Mapping[str, str],
    change: Callable[[p.Expr], p.Expr | None],
    taken: set[str],
    found: SymbolicRanges | None,
) -> Comprehension:
    """The statement as one of a call-free def; index variables named like tensors are renamed."""
    names = FreshNames({*taken, *statement.variables})
    renamed = {v: names.fresh(v) for v in statement.variables if v in taken}

    def spelled(expr: p.Expr) -> p.Expr:
        return e.substituted(e.rebuilt(expr, change), {v: e.index(n) for v, n in renamed.items()})

    def both(clause: p.WhereRange) -> ExprBounds:
        return spelled(clause.begin), spelled(clause.end)

    is_placed = not statement.has_plain_places and concat_of(statement) is None
    op = "=" if statement.op == "=" else f"{statement.op}="
    is_new = all(statement.continues_of(k) == "nothing" for k, _ in enumerate(statement.targets))
    if statement.op != "=" and (statement.init or is_new):
        combines = statement.reduction or is_placed or not statement.has_box
        op = f"{op}!" if combines else "="
    clauses = [w for w in statement.where if w.kind == p.SIZES]
    where = {w.variable: both(w) for w in clauses}
    by_data = any(w.kind == p.DATA for w in statement.where)  # whose boxes follow from reads
    exists = map(spelled, statement.exists if found is None or by_data else ())
    if found is not None:
        where = dict(found.ranges[statement.name])
    dependent = [w for w in in_order(statement) if w.kind != p.SIZES]
    return Comprehension(
        tensors[statement.target],
        tuple(renamed.get(v, v) for v in statement.outer),
        op,
        spelled(statement.rhs),
        {renamed.get(v, v): bounds for v, bounds in where.items()},
        tuple(read for read in exists if isinstance(read, p.Read)),
        frozenset(renamed.get(w.variable, w.variable) for w in statement.where),
        tuple(map(spelled, statement.subscripts)) if is_placed else None,
        {renamed.get(w.variable, w.variable): both(w) for w in dependent},
        tuple(map(spelled, statement.conditions)),
        tuple((tensors[c.target], spelled(c.rhs)) for c in statement.companions),
        tuple(SizeOf(tensors[c.target], c.axis, spelled(c.value)) for c in statement.sizes),
    )


def _placed(line: Comprehension, statement: p.Statement, found: SymbolicRanges) -> Comprehension:
    """The statement of a concat, which writes at an offset, with its variables moved by the offset:
    each element is written at the variables of the left side."""
    moved: dict[str, p.Expr] = {}
    where = dict(line.where)
    for name, subscript in zip(line.indices, statement.subscripts, strict=True):
        form = linear(e.in_sizes(subscript, found.shapes), SYMBOLS)
        assert form is not None
        offset = form.constant
        if offset:
            moved[name] = to_expr(atom(e.index(name)) - offset, SYMBOLS)
            begin, end = (to_expr(to_poly(b, SYMBOLS) + offset, SYMBOLS) for b in where[name])
            where[name] = (begin, end)
    return replace(line, rhs=e.substituted(line.rhs, moved), where=where)


def concat_of(statement: p.Statement) -> tuple[str, int] | None:
    """A key that the statements of one concat share, None for other statements. The variables of
    concat do not stand in the text."""
    for subscript in statement.subscripts:
        for node in p.walk(subscript):
            if isinstance(node, p.Index) and node.span.text != node.name:
                return statement.target, statement.span.start
    return None


def _with_declared_shapes(program: CallFreeDef) -> Iterator[TextStep]:
    """The steps; a tensor whose shape only an inlined def declares is first filled with 0, unless
    its first statement gives it that shape."""
    done = {*program.inputs, *(s.target for s in program.steps if isinstance(s, Joined))}
    done |= {o for o in program.outputs if is_spelled(program.shapes.get(o))}
    for step in program.steps:
        if (
            isinstance(step, Comprehension)
            and step.target not in done
            and step.target in program.shapes
        ):
            shape = program.shapes[step.target]
            if not all(
                v is not None and program.only_extent(step, v) == dim and v not in step.where
                for v, dim in zip(step.bare, shape, strict=True)
            ):
                indices = element_names(step, program.fresh_names())
                where = {v: (e.ZERO, dim) for v, dim in zip(indices, shape, strict=True)}
                yield Comprehension(step.target, indices, "=", e.ZERO, where)
        done |= {*step.targets}
        yield step


def _shown_shape(program: CallFreeDef, step: TextStep) -> tuple[p.Expr, ...] | None:
    """The shape of a step's target, if the step is the target's first statement and shows all
    dimensions, else None."""
    known = {*program.shapes, *program.inferred}
    if (
        not isinstance(step, Comprehension)
        or step.target in known
        or step.target in program.callers
    ):
        return None
    if next(s for s in program.steps if step.target in s.targets) is not step:
        return None
    if not all(read.tensor in known for read in step.all_reads):
        return None
    where, sizes = step.where, {s.axis: s.value for s in step.sizes if s.target == step.target}
    dims: list[p.Expr | None] = []
    for axis, v in enumerate(step.bare):
        own = sizes.get(axis)
        if own is None and v is not None:
            own = where[v][1] if v in where else program.only_extent(step, v)
        dims.append(own)
    return None if None in dims else tuple(dim for dim in dims if dim is not None)


def with_given_outputs(program: CallFreeDef) -> CallFreeDef:
    """The def with an input `X_0` for each output `X` that is read before any statement defines it
    (D2, R4). A statement that goes on from another output starts at the identity."""
    names = program.fresh_names()
    given = {output: names.fresh(f"{output}_0") for output in program.callers}
    steps: list[TextStep] = []
    for output, name in given.items():
        indices = tuple(names.fresh(f"i{axis}") for axis in range(program.ranks[output]))
        left = tuple(map(e.index, indices))
        rhs = p.Read(name, left, program.dtypes[output], -1, span=e.NO_SPAN)
        steps.append(Comprehension(output, indices, "=", rhs))
    begun = set(given)
    for step in program.steps:
        is_first = begun.isdisjoint(step.targets)
        if isinstance(step, Comprehension) and is_first and not step.starts:
            steps.append(replace(step, op=f"{step.op}!" if step.combines else "="))
        else:
            steps.append(step)
        begun |= {*step.targets}
    shapes = {name: _shape_of(program, output, names) for output, name in given.items()}
    return replace(
        program,
        inputs=(*program.inputs, *given.values()),
        dtypes={**program.dtypes, **{n: program.dtypes[o] for o, n in given.items()}},
        ranks={**program.ranks, **{n: program.ranks[o] for o, n in given.items()}},
        shapes={**program.shapes, **shapes},
        steps=tuple(steps),
        callers=(),
        sizes=(
            *program.sizes,
            *(d.name for s in shapes.values() for d in s if isinstance(d, p.Size)),
        ),
    )


def _shape_of(program: CallFreeDef, output: str, names: FreshNames) -> tuple[p.Expr, ...]:
    """The dimensions of an output, each a size of the inputs or one of its own."""
    shape = program.shapes.get(output)
    if shape is not None and is_spelled(shape):
        return shape
    dims: list[p.Expr] = []
    for axis in range(program.ranks[output]):
        lines = [s for s in program.steps if isinstance(s, Comprehension) and s.target == output]
        own = p.Extent(output, axis, span=e.NO_SPAN)
        alone = [(line, line.bare[axis]) for line in lines]
        found = {program.only_extent(line, v) for line, v in alone if v is not None} - {None, own}
        is_said = any(v is None or v in line.where or v in line.within for line, v in alone)
        dim = found.pop() if len(found) == 1 and not is_said else None
        if isinstance(dim, p.Size | p.Literal):
            dims.append(dim)
        else:
            dims.append(p.Size(names.fresh(f"{output}{axis}"), span=e.NO_SPAN))
    return tuple(dims)


@dataclass(frozen=True, slots=True)
class PairedRanges:
    """Makes statements that have the ranges of statements of a program. `names` are the tangents of
    tensors, which have the shapes of these tensors."""

    program: CallFreeDef
    names: Mapping[str, str]
    several: frozenset[str]
    """The tensors that several statements write."""

    def ranged(self, line: Comprehension, made: Comprehension) -> Comprehension:
        """The statement `made` with the ranges of `line`, a statement of the program."""
        where, exists = {**line.where, **made.where}, [*line.exists, *made.exists]
        read = {access for expr in made.inner for access in accesses(expr, self.names)}
        bare: set[tuple[p.Expr, p.Expr]] = set()
        bare |= {(self._extent(t, axis), s) for t, axis, s in read if isinstance(s, p.Index)}
        inner = [access for expr in line.inner for access in reads_of(expr)]
        if not line.is_box or line.places is not None or line.others:
            seen = [_for_ranges(each) for each in inner]
            exists += [each for each in seen if not accesses(each, {}) <= read]
            return replace(made, where=where, exists=tuple(dict.fromkeys(exists)))
        for access in inner:
            open_variables = self._open_variables(line, access, read, bare)
            if not open_variables:
                continue
            plain = self.plain_ranges(line, open_variables)
            if plain is None:
                exists.append(_for_ranges(access))
                read |= accesses(exists[-1], {})
            else:
                where |= plain
        made = replace(made, where=where, exists=tuple(dict.fromkeys(exists)))
        for variable in line.variables:
            if variable not in made.variables:
                of_it = (r for r in inner if variable in p.index_names(r))
                made = replace(made, exists=(*made.exists, next(of_it)))
        return made

    def _open_variables(
        self,
        line: Comprehension,
        access: p.Read,
        read: set[tuple[str, int, p.Expr]],
        bare: set[tuple[p.Expr, p.Expr]],
    ) -> list[str]:
        """The variables that a read may bound, if the new statement has no read that bounds them in
        the same way."""
        found: list[str] = []
        for axis, subscript in enumerate(access.subscripts):
            is_bare = isinstance(subscript, p.Index)
            if access.bare_only and not is_bare:
                continue
            if any(r.subscripts for r in reads_of(subscript)):
                continue
            if (access.tensor, axis, subscript) in read:
                continue
            if is_bare and (self._extent(access.tensor, axis), subscript) in bare:
                continue
            found += [v for v in p.index_names(subscript) if v not in line.where]
        return list(dict.fromkeys(found))

    def _extent(self, tensor: str, axis: int) -> p.Expr:
        return self.program.extent(tensor, axis)

    def plain_ranges(
        self, line: Comprehension, variables: list[str]
    ) -> dict[str, ExprBounds] | None:
        """The ranges of variables that all reads bound by one extent; None where a read or the
        target bounds one of them in another way."""
        found: dict[str, ExprBounds] = {}
        for variable in variables:
            extent = self.program.only_extent(line, variable)
            if extent is None or not is_spelled((extent,)):
                return None
            if variable in line.indices and line.target in self.several:
                return None
            found[variable] = (e.ZERO, extent)
        return found


def is_bounded(line: Comprehension, variable: str) -> bool:
    """Whether a clause, or a subscript that is a sum, gives a variable its range."""
    if variable in line.where or variable in line.within:
        return True
    return any(
        variable in p.index_names(subscript) and _is_sum(subscript)
        for read in line.all_reads
        for subscript in read.subscripts
        if not read.bare_only or isinstance(subscript, p.Index)
    )


def _is_sum(expr: p.Expr) -> bool:
    """Whether an expression is a sum of indices, with whole factors, and of sizes."""
    match expr:
        case p.Index() | p.Literal() | p.Size() | p.Extent():
            return True
        case p.Unary(operand=operand) | p.Convert(operand=operand):
            return _is_sum(operand)
        case p.Binary(op=op, left=left, right=right) if op in "+-*":
            is_one = op != "*" or not (p.index_names(left) and p.index_names(right))
            return is_one and _is_sum(left) and _is_sum(right)
    return False


def _for_ranges(access: p.Read) -> p.Read:
    """The read with the subscripts from which ranges follow: in `pad` these are variables that
    stand alone (G9)."""
    if not access.bare_only:
        return access
    subscripts = (s if isinstance(s, p.Index) else e.ZERO for s in access.subscripts)
    return replace(access, subscripts=tuple(subscripts))
