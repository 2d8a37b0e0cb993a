"""Parts shared by the rewrites of shaped programs that run before scheduling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from operator import is_

from tc.dtypes import DType
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source, Span

CALL_OPERATIONS, DIVISION_OPERATIONS = 10, 5
"""What a call and a division count for, in multiplications."""

REST = "rest"
"""Behind the name of a statement: what is left of it (`Rewriting.apart`)."""


def rewrite(expr: p.Expr, change: Callable[[p.Expr], p.Expr]) -> p.Expr:
    """The expression with every node changed, innermost first; what stays is shared.

    `change` gets each node with its operands changed, and returns it where nothing is to be done.

    >>> from tc.dtypes import INT64
    >>> from tc.semantics.ranges.symbolic_text import to_text
    >>> from tc.source import Source, Span
    >>> span = Span(Source(""), 0, 0)
    >>> i, one = p.Index("i", span=span), p.Literal(1, INT64, span=span)
    >>> expr = p.Binary("+", p.Unary("-", i, INT64, span=span), one, INT64, span=span)
    >>> to_text(rewrite(expr, lambda node: one if node == i else node))
    '-1 + 1'
    >>> rewrite(expr, lambda node: node) is expr
    True
    """

    old = p.children(expr)
    new = tuple(rewrite(operand, change) for operand in old)
    if any(one is not other for one, other in zip(new, old, strict=True)):
        expr = p.with_children(expr, new)
    return change(expr)


def extent_as_number(node: p.Expr, names: Container[str], shaped: p.ShapedProgram) -> p.Expr:
    """A number for an extent of a tensor of one of some names, which the program will not have, or
    in other dimensions; any other node as it is."""
    if isinstance(node, p.Extent) and node.tensor in names:
        return p.Literal(shaped.shapes[node.tensor][node.axis], node.dtype, span=node.span)
    return node


def with_shapes(
    shaped: p.ShapedProgram,
    shapes: Mapping[str, tuple[int, ...]],
    statements: Iterable[p.ShapedStatement],
) -> p.ShapedProgram:
    """The program whose tensors have the same elements in other dimensions, with its statements.
    What only says where sizes and ranges come from, which is settled, goes with the dimensions."""
    program, made = shaped.program, tuple(statements)
    return replace(
        shaped,
        program=replace(
            program,
            tensors={
                name: replace(tensor, rank=len(shapes[name]), shape=None)
                for name, tensor in program.tensors.items()
            },
            sizes={name: replace(size, extents=()) for name, size in program.sizes.items()},
            equalities=(),
            statements=tuple(each.statement for each in made),
        ),
        shapes=shapes,
        symbolic_shapes={},
        statements=made,
    )


def bare_variables(subscripts: Sequence[object]) -> tuple[str, ...] | None:
    """The variables that subscripts are, each another one; None where they are something else."""
    names = tuple(s.name for s in subscripts if isinstance(s, p.Index))
    return names if len({*names}) == len(subscripts) else None


def statement_text(statement: p.Statement) -> str:
    """A statement as it could be written, but for names of temporaries."""
    subscripts = ", ".join(to_text(subscript) for subscript in statement.subscripts)
    target = f"{statement.target}({subscripts})" if subscripts else statement.target
    op = "=" if statement.op == "=" else f"{statement.op}={'!' if statement.init else ''}"
    conditions = ", ".join(map(to_text, statement.conditions))
    where = f" where {conditions}" if conditions else ""
    return f"{target} {op} {to_text(statement.rhs)}{where}"


def without(names: Container[str], shaped: p.ShapedProgram) -> p.ShapedProgram:
    """A program that has no temporaries of these names any more, which no statement of it has.
    Their sizes, by which the pieces of a concat begin behind one another, and which what is read in
    their place may ask for, are numbers."""

    def number(node: p.Expr) -> p.Expr:
        return extent_as_number(node, names, shaped)

    def placed(statement: p.Statement) -> p.Statement:
        subscripts = tuple(rewrite(s, number) for s in statement.subscripts)
        rhs = rewrite(statement.rhs, number)
        is_same = subscripts == statement.subscripts and rhs is statement.rhs
        return statement if is_same else replace(statement, subscripts=subscripts, rhs=rhs)

    left = {name: t for name, t in shaped.program.tensors.items() if name not in names}
    temporaries = tuple(name for name in shaped.program.temporaries if name in left)
    return replace(
        shaped,
        program=replace(
            shaped.program,
            tensors=left,
            temporaries=temporaries,
            statements=tuple(map(placed, shaped.program.statements)),
        ),
        statements=tuple(
            replace(each, statement=placed(each.statement)) for each in shaped.statements
        ),
        shapes={name: shaped.shapes[name] for name in left},
    )


def operations_of(expr: p.Expr) -> int:
    """The operations of one evaluation of an expression, without subscripts."""
    match expr:
        case p.Read() | p.Index() | p.Literal() | p.Size() | p.Extent():
            return 0
        case p.Call():
            own = CALL_OPERATIONS
        case p.Binary(op=("/" | "%")):
            own = DIVISION_OPERATIONS
        case _:
            own = 1
    return own + sum(map(operations_of, p.children(expr)))


def unused_name(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken.

    >>> unused_name("h_w", {"h", "w"}), unused_name("h_w", {"h_w", "h_w_2"})
    ('h_w', 'h_w_3')
    """
    numbered = (f"{name}_{number}" for number in count(2))
    return next(free for free in chain((name,), numbered) if free not in taken)


def writes_all(each: p.ShapedStatement, shaped: p.ShapedProgram) -> bool:
    """Whether a statement without checks writes each element of its target at the place of its
    indices."""
    statement = each.statement
    shape = shaped.shapes[statement.target]
    return (
        not each.checked
        and all(isinstance(subscript, p.Index) for subscript in statement.subscripts)
        and all(
            (each.ranges[v].begin, each.ranges[v].end) == (0, size)
            for v, size in zip(statement.outer, shape, strict=True)
        )
    )


class Rewriting:
    """A program of which some statements are replaced, and the temporaries that this takes.

    `how` tells, in the sources of the statements made, what was done: "split"."""

    def __init__(self, shaped: p.ShapedProgram, how: str) -> None:
        self.shaped = shaped
        self._how = how
        self._tensors: dict[str, p.Tensor] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        nodes = (n for s in shaped.program.statements for n in p.walk(s.rhs))
        sites = (n.site for n in nodes if isinstance(n, (p.Read, p.Binary)))
        self._sites = count(max(sites, default=-1) + 1)

    def store(
        self,
        old: p.ShapedStatement,
        rhs: p.Expr,
        outer: tuple[str, ...],
        reduced: tuple[str, ...] = (),
        *,
        name: str,
        kind: str,
    ) -> tuple[p.ShapedStatement, p.Read]:
        """A statement that stores part of what an old one computes in a new temporary, for all
        values of `outer`, reduced over `reduced` by the operator of the old one; and a read of it.

        The statement is named after the old one ("S0.name"), the temporary after its target
        ("O.kind0"). The temporary has the type that its value is computed in, so that `half` is
        still rounded once (Y8).
        """
        statement, span = old.statement, old.statement.span
        target = self._new_name(f"{statement.target}.{kind}")
        subscripts = tuple(p.Index(v, span=span) for v in outer)
        new = replace(
            statement,
            name=f"{statement.name}.{name}",
            target=target,
            subscripts=subscripts,
            outer=outer,
            variables=(*outer, *reduced),
            op=statement.op if reduced else "=",
            init=bool(reduced),
            continues="",
            rhs=rhs,
        )
        made = self._shaped(new, old)
        own = made.statement.span
        self._tensors[target] = p.Tensor(target, rhs.dtype, len(outer), "temporary", None, span=own)
        self._shapes[target] = tuple(old.ranges[v].end for v in outer)
        return made, p.Read(target, subscripts, rhs.dtype, next(self._sites), span=span)

    def temporary(self, name: str, dtype: DType, shape: tuple[int, ...], span: Span) -> str:
        """A new tensor of this name, or with a number if it is taken."""
        name = unused_name(name, {**self.shaped.program.tensors, **self._tensors})
        self._tensors[name] = p.Tensor(name, dtype, len(shape), "temporary", None, span=span)
        self._shapes[name] = shape
        return name

    def dtype(self, tensor: str) -> DType:
        """The type of a tensor, be it a new one."""
        return (self._tensors.get(tensor) or self.shaped.program.tensors[tensor]).dtype

    def read(self, tensor: str, place: Sequence[p.Expr], span: Span) -> p.Expr:
        """An element of a tensor, in the type that it computes in."""
        dtype = self.dtype(tensor).computed
        return p.Read(tensor, tuple(place), dtype, next(self._sites), span=span)

    def made(
        self,
        old: p.ShapedStatement,
        name: str,
        target: str,
        place: Sequence[p.Expr],
        rhs: p.Expr,
        ranges: Mapping[str, p.Range],
        *,
        op: str = "=",
        reduced: tuple[str, ...] = (),
        conditions: tuple[p.Expr, ...] = (),
    ) -> p.ShapedStatement:
        """A statement that a rewrite needs, for an old one: over all variables that have `ranges`,
        where conditions hold; a reduction over some of them starts afresh."""
        statement = replace(
            old.statement,
            name=f"{old.statement.name}.{name}",
            target=target,
            subscripts=tuple(map(self.again, place)),
            outer=tuple(v for v in ranges if v not in reduced),
            variables=tuple(ranges),
            op=op,
            init=bool(reduced),
            continues="",
            rhs=self.again(rhs),
            conditions=tuple(map(self.again, conditions)),
            once=False,
        )
        return self.changed(statement, ranges, old)

    def remaining(
        self, old: p.ShapedStatement, rhs: p.Expr, variables: Collection[str]
    ) -> p.ShapedStatement:
        """An old statement with another right-hand side, over some of its variables: it still
        starts from what it started from (R2, R3)."""
        last = replace(
            old.statement,
            variables=tuple(v for v in old.statement.variables if v in variables),
            rhs=rhs,
        )
        if last.init and not last.reduction:
            last = replace(last, op="=", init=False)
        return self._shaped(last, old)

    def again(self, expr: p.Expr) -> p.Expr:
        """An expression that a statement has already, for another: with sites of its own."""

        def renewed(node: p.Expr) -> p.Expr:
            if isinstance(node, (p.Read, p.Binary)) and node.site >= 0:
                return replace(node, site=next(self._sites))
            return node

        return rewrite(expr, renewed)

    def apart(self, old: p.ShapedStatement, ranges: Mapping[str, p.Range]) -> p.ShapedStatement:
        """What is left of an old statement over other ranges, after one that has written all of its
        target: it goes on from there."""
        statement = replace(old.statement, rhs=self.again(old.statement.rhs), init=False)
        statement = replace(statement, name=f"{statement.name}.{REST}", continues="written")
        return self.changed(statement, {**old.ranges, **ranges}, old)

    def pieces(
        self, old: p.ShapedStatement, pieces: Sequence[tuple[p.Statement, Mapping[str, p.Range]]]
    ) -> list[p.ShapedStatement]:
        """The statements that an old one has become, each over ranges of its own: the last one has
        its name, the others new ones."""
        taken = {s.name for s in self.shaped.program.statements}
        names = (name for n in count() if (name := f"{old.statement.name}.piece{n}") not in taken)
        made = []
        for number, (piece, ranges) in enumerate(pieces):
            new = replace(piece, rhs=self.again(piece.rhs)) if number else piece
            new = new if number == len(pieces) - 1 else replace(new, name=next(names))
            made.append(self.changed(new, ranges, old))
        return made

    def changed(
        self, statement: p.Statement, ranges: Mapping[str, p.Range], old: p.ShapedStatement
    ) -> p.ShapedStatement:
        """A statement that replaces an old one, or a part of an old one, over ranges of its own."""
        return self._shaped(statement, replace(old, ranges=ranges))

    def program(
        self,
        change: Callable[[p.ShapedStatement], Iterable[p.ShapedStatement] | None],
        order: Callable[[list[p.ShapedStatement]], list[p.ShapedStatement]] = list,
    ) -> p.ShapedProgram:
        """The program with each statement replaced by what `change` makes of it, None where it
        stays, and all in another order; the very same where all do."""
        made: list[p.ShapedStatement] = []
        for old in self.shaped.statements:
            new = change(old)
            made += (old,) if new is None else new
        if len(made) == len(self.shaped.statements) and all(map(is_, made, self.shaped.statements)):
            return self.shaped
        shaped, program, statements = self.shaped, self.shaped.program, tuple(order(made))
        written = {s.statement.target for s in made}  # a change that was given up wrote others
        tensors = {name: t for name, t in self._tensors.items() if name in written}
        return replace(
            shaped,
            program=replace(
                program,
                tensors={**program.tensors, **tensors},
                temporaries=(*program.temporaries, *tensors),
                statements=tuple(s.statement for s in statements),
            ),
            shapes={**shaped.shapes, **{name: self._shapes[name] for name in tensors}},
            statements=statements,
        )

    def with_others(self, others: Mapping[str, str], *, write: bool) -> p.ShapedProgram:
        """The program with another tensor in place of each of these temporaries, which are none any
        more: in what reads them, and with `write` in what writes them; without, what writes them is
        gone. Their sizes, which conditions of `pad` ask for, are numbers."""

        def other(node: p.Expr) -> p.Expr:
            if isinstance(node, p.Read) and node.tensor in others:
                return replace(node, tensor=others[node.tensor])
            return extent_as_number(node, others, self.shaped)

        def changed(old: p.ShapedStatement) -> list[p.ShapedStatement] | None:
            statement, rhs = old.statement, rewrite(old.statement.rhs, other)
            if statement.target in others and not write:
                return []
            target = others.get(statement.target, statement.target)
            if target == statement.target and rhs is statement.rhs:
                return None
            new = replace(statement, target=target, rhs=rhs)
            if old.checked:  # a size alone has changed: the text stays as it was written
                return [replace(old, statement=new)]
            return [self.changed(new, old.ranges, old)]

        return without(others, self.program(changed))

    def _new_name(self, prefix: str) -> str:
        names = (f"{prefix}{number}" for number in count())
        taken = self.shaped.program.tensors
        return next(name for name in names if name not in taken and name not in self._tensors)

    def _shaped(self, statement: p.Statement, old: p.ShapedStatement) -> p.ShapedStatement:
        """A new statement with the ranges of the old one, and a text of its own to be shown; what
        only settled the ranges is gone."""
        text = statement_text(statement).replace("#", "_")  # a "#" would begin a comment
        source = Source(text, f"{self._how} from {old.statement.span}")
        return p.ShapedStatement(
            replace(
                statement,
                span=Span(source, 0, len(text)),
                where=(),
                exists=(),
                variable_spans={},
            ),
            {v: old.ranges[v] for v in statement.variables},
            frozenset(),
        )
