"""Right sides whose derivatives would be much longer than they are, in parts (D17).

The derivative of `max(u, v)` has its cotangent twice, and `u` and `v` several times: of choices in
choices it would grow by a factor with each, and of functions of functions with the square of their
number. Values that are needed twice become temporaries: the parts of such a right side are
statements before its own, and the gradient of each statement is at most MOST_TIMES_AS_LONG times as
long as the statement.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tc.builtins.derivatives import DERIVATIVES
from tc.gradient import terms as e
from tc.gradient.adjoints import ARGUMENTS, carries, parsed_derivative
from tc.gradient.call_free_def import CallFreeDef, PairedRanges
from tc.gradient.def_text import Comprehension, TextStep
from tc.gradient.domains import Domain, by_data
from tc.gradient.reductions import stored_terms
from tc.semantics import program as p

MOST_TIMES_AS_LONG = 12
"""The most nodes of a gradient for each node of the expression that is derived. Among layers and
activations that are written out in one statement, a gelu has the most, 8."""

FEWEST_NODES = 120
"""Gradients with at most this many nodes count as short."""


@dataclass
class Parts:
    """The parts of one right side, in order, and the expression that reads the parts. `variables`
    are those of the statement, in order, and `bounded` the variables that have a where clause.
    `begins` are the begins of variables that may begin below 0: values of these variables stand in
    parts from 0 on. `fresh` makes names. A part has the indices that it needs, or those in `all`.
    """

    variables: tuple[str, ...]
    bounded: frozenset[str]
    begins: Mapping[str, p.Expr]
    fresh: Callable[[], str]
    all: tuple[str, ...] | None = None
    made: list[Comprehension] = field(default_factory=list)

    def of(self, expr: p.Expr, conditions: tuple[p.Expr, ...] = ()) -> p.Expr:
        """The expression with reads of parts, which the statements in `made` compute, so that its
        gradient is not much longer than the expression. The expression is evaluated where all
        `conditions` hold."""
        if not expr.dtype.is_float or not carries(expr):
            return expr
        if self._is_opened(expr):
            expr = _opened(expr)
        if _is_leaf(expr):
            return expr
        operands = [self.of(operand, (*conditions, *more)) for operand, more in _operands(expr)]
        new = _with_operands(expr, operands)
        if isinstance(new, p.Convert | p.Unary) or (
            isinstance(new, p.Binary) and new.op in ("+", "-")
        ):
            return new
        while is_long(new):
            lengths = [0 if _is_short(x) else gradient_length(x) for x in operands]
            if not any(lengths):
                break
            place = lengths.index(max(lengths))
            (_, more), part = list(_operands(new))[place], operands[place]
            operands[place] = self._part(part, (*conditions, *more))
            new = _with_operands(new, operands)
        return new

    def _part(self, expr: p.Expr, conditions: tuple[p.Expr, ...]) -> p.Expr:
        """A read of an expression as a part, for which a statement is made. The statement is
        evaluated everywhere: where only `conditions` keep reads of the expression in bounds, the
        statement has these conditions."""
        if conditions and not self._is_always_defined(expr):
            otherwise = p.Convert(e.ZERO, expr.dtype, False, span=e.NO_SPAN)
            condition = e.conjunction(list(conditions))
            expr = p.Select(condition, expr, otherwise, expr.dtype, span=e.NO_SPAN)
        name = self.fresh()
        named = set(p.index_names(expr))
        indices = tuple(v for v in self.variables if v in named) if self.all is None else self.all
        places = {v: self._place(v) for v in indices}
        own: dict[p.Expr, p.Expr] = {}
        for v in indices:
            if v in self.begins:
                own |= {e.index(v): e.total(e.index(v), self.begins[v]), places[v]: e.index(v)}
        made = Comprehension(name, indices, "=", e.rebuilt(expr, own.get))
        self.made.append(made)
        return p.Read(name, tuple(places.values()), made.rhs.dtype.computed, -1, span=e.NO_SPAN)

    def _is_opened(self, expr: p.Expr) -> bool:
        """Whether a pad is to be a choice by the conditions that the pad stands for, so that its
        first argument may have parts: where its gradient would be long, and the ranges of the
        statement are written, as the reads of a choice bound ranges, and those of a pad do not."""
        is_pad = isinstance(expr, p.Select) and expr.padded
        return is_pad and self.bounded >= {*self.variables} and is_long(expr)

    def _place(self, variable: str) -> p.Expr:
        """The subscript of a part at which the value for an index variable stands."""
        index, begin = e.index(variable), self.begins.get(variable)
        return index if begin is None else e.difference(index, begin)

    def _is_always_defined(self, expr: p.Expr) -> bool:
        """Whether an expression has a value wherever it is evaluated, whatever conditions hold: its
        reads bound the ranges of its indices, and it divides no integers."""
        for node in p.walk(expr):
            if isinstance(node, p.Read):
                inside = (
                    isinstance(s, p.Index) and s.name not in self.bounded for s in node.subscripts
                )
                if node.bare_only or not all(inside):
                    return False
            if isinstance(node, p.Binary) and node.op in "/%" and not node.dtype.is_float:
                return False
        return True


def is_short(rhs: p.Expr) -> bool:
    """Whether a right side and its gradient are short, so that it has no parts."""
    return gradient_length(rhs) <= FEWEST_NODES


def is_long(expr: p.Expr) -> bool:
    """Whether the gradient of an expression would be much longer than the expression."""
    return gradient_length(expr) > max(FEWEST_NODES, MOST_TIMES_AS_LONG * length(expr))


def length(expr: p.Expr) -> int:
    """The number of nodes of an expression."""
    return sum(1 for _ in p.walk(expr))


# --- how long a gradient would be -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Growth:
    """The nodes of the gradients of all reads in an expression whose adjoint has n nodes: `copies`
    * n + `others`; `reads` is the number of the reads."""

    copies: int = 0
    others: int = 0
    reads: int = 0


def gradient_length(expr: p.Expr) -> int:
    """The number of nodes, before simplification, of the gradients of the reads of an expression
    whose adjoint has a few nodes."""
    found = _growth(expr)
    return 3 * found.copies + found.others


def _growth(expr: p.Expr) -> _Growth:
    if not expr.dtype.is_float or not carries(expr) or isinstance(expr, p.Bits):
        return _Growth()
    if isinstance(expr, p.Read):
        return _Growth(1, 0, 1)
    copies = others = reads = 0
    for operand, (times, more, conditional) in zip(
        (operand for operand, _ in _operands(expr)), _factors(expr), strict=True
    ):
        own = _growth(operand)
        copies += own.copies * times
        others += own.copies * more + own.others + own.reads * conditional
        reads += own.reads
    return _Growth(copies, others, reads)


def _factors(expr: p.Expr) -> Iterator[tuple[int, int, int]]:
    """For each operand: how many copies of the expression's adjoint its own adjoint has, how many
    other nodes, and how many nodes of a condition each of its reads gets."""
    match expr:
        case p.Convert():
            yield 1, 0, 0
        case p.Unary():
            yield 1, 1, 0
        case p.Select(condition=condition):
            size = length(condition) + 2
            yield from ((1, 0, size), (1, 0, size + 1))
        case p.Binary(op="+" | "-"):
            yield from ((1, 0, 0), (1, 1, 0))
        case p.Binary(op="*", left=left, right=right):
            yield from ((1, length(right) + 1, 0), (1, length(left) + 1, 0))
        case p.Binary(op="/", right=right):
            size = length(right) + 1
            yield from ((1, size, 0), (1, size + length(expr) + 2, 0))
        case p.Binary(op="min" | "max", left=left, right=right):
            both = 2 * (length(left) + length(right)) + 8
            times = 2 if carries(left) and carries(right) else 1
            yield from ((times, both * times // 2, 0), (times, both * times // 2, 0))
        case p.Binary(left=left, right=right):
            yield from ((1, 0, 0), (1, length(left) + length(right) + 4, 0))
        case p.Call(function=function, args=args):
            table = DERIVATIVES.get(function)
            for place, _ in enumerate(args):
                yield (1, 0, 0) if table is None else (*_of_call(expr, table[place]), 0)
        case _:
            raise AssertionError(expr)


def _of_call(call: p.Call, derivative: str) -> tuple[int, int]:
    """How many copies of a call's adjoint an argument's adjoint has, and how many other nodes."""
    made = parsed_derivative(derivative)
    sizes = dict(zip(ARGUMENTS, map(length, call.args), strict=False)) | {"f": length(call)}
    size = sum(sizes[n.tensor] if isinstance(n, p.Read) else 1 for n in p.walk(made))
    return _outcomes(made), size + 1


def _outcomes(derivative: p.Expr) -> int:
    """The number of values other than 0 that the choices of a derivative may give."""
    if isinstance(derivative, p.Select):
        return _outcomes(derivative.then) + _outcomes(derivative.otherwise)
    if isinstance(derivative, p.Convert):
        return _outcomes(derivative.operand)
    return 0 if isinstance(derivative, p.Literal) and not derivative.value else 1


# --- operands -------------------------------------------------------------------------------------


def _operands(expr: p.Expr) -> Iterator[tuple[p.Expr, tuple[p.Expr, ...]]]:
    """The operands by which an expression is derived, each with the conditions under which the
    operand is evaluated."""
    match expr:
        case p.Convert(operand=operand) | p.Unary(operand=operand):
            yield operand, ()
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            yield then, (condition,)
            yield otherwise, (e.negation(condition),)
        case p.Binary(left=left, right=right):
            yield left, ()
            yield right, ()
        case p.Call(args=args):
            yield from ((arg, ()) for arg in args)


def _with_operands(expr: p.Expr, operands: list[p.Expr]) -> p.Expr:
    condition = (expr.condition,) if isinstance(expr, p.Select) else ()
    return p.with_children(expr, (*condition, *operands))


def _opened(pad: p.Expr) -> p.Expr:
    """A pad as a choice by the conditions that the pad stands for."""

    def plain(node: p.Expr) -> p.Expr | None:
        if not isinstance(node, p.Read):
            return None
        subscripts = tuple(e.rebuilt(s, plain) for s in node.subscripts)
        return replace(node, subscripts=subscripts, bare_only=False, late=False)

    assert isinstance(pad, p.Select)
    once = dict.fromkeys(p.conjuncts(pad.condition))  # several reads of one element ask the same
    return e.rebuilt(replace(pad, condition=e.conjunction([*once]), padded=False), plain)


def _is_leaf(expr: p.Expr) -> bool:
    """Whether an expression has no parts: a read, the float of some bits, or a pad, which is
    evaluated as a whole."""
    return isinstance(expr, p.Read | p.Bits) or (isinstance(expr, p.Select) and expr.padded)


def _is_short(expr: p.Expr) -> bool:
    """Whether a part would gain nothing: the expression has no parts, or carries no gradient."""
    match expr:
        case p.Convert(operand=operand) | p.Unary(operand=operand):
            return _is_short(operand)
    return _is_leaf(expr) or not expr.dtype.is_float or not carries(expr)


# --- programs -------------------------------------------------------------------------------------


def in_parts(program: CallFreeDef) -> CallFreeDef:
    """The def in which right sides whose derivatives would be much longer have parts, which are
    statements before them."""
    names = program.fresh_names()
    paired = PairedRanges(program, {}, frozenset())
    dtypes, ranks = dict(program.dtypes), dict(program.ranks)
    inferred = dict(program.inferred)
    steps: list[TextStep] = []
    for place, line in enumerate(program.steps):
        if not isinstance(line, Comprehension) or is_short(line.rhs) or _is_whole(line, program):
            steps.append(line)
            continue
        if any(isinstance(n, p.Select) and n.padded and is_long(n) for n in p.walk(line.rhs)):
            line = _with_ranges(line, paired)
        box = replace(line, within={}, conditions=())
        terms = stored_terms(program, box, program.steps[:place])
        whole = terms.line
        clauses = frozenset(line.where if line.clauses is None else line.clauses)
        fresh = functools.partial(names.fresh, f"v_{line.target}")
        indices = whole.indices if program.found is None else None
        parts = Parts(line.variables, clauses, terms.begins, fresh, indices)
        tests = tuple(Domain(line.within, line.conditions).tests)
        rhs = line.rhs if terms.waits else parts.of(line.rhs, tests)
        for made in parts.made:
            dtypes[made.target] = made.rhs.dtype.computed
            ranks[made.target] = len(made.indices)
            if program.found is None:
                made = paired.ranged(whole, made)
            else:
                made = replace(made, where={v: whole.where[v] for v in made.indices})
                inferred[made.target] = tuple(end for _, end in made.where.values())
            steps.append(made)
        steps.append(replace(line, rhs=rhs))
    return replace(program, steps=tuple(steps), dtypes=dtypes, ranks=ranks, inferred=inferred)


def _is_whole(line: Comprehension, program: CallFreeDef) -> bool:
    """Whether a statement has no parts, as its terms may have no value at all points of a box: some
    range depends on tensors, or on variables whose ranges are not known."""
    if line.others or program.found is None:
        return bool(line.others or line.within)
    return bool(by_data(line, program.static_scalars))


def _with_ranges(line: Comprehension, paired: PairedRanges) -> Comprehension:
    """The statement with the ranges of all its variables written, where they are known."""
    if paired.program.found is not None:
        return replace(line, clauses=None)
    plain = paired.plain_ranges(line, [v for v in line.variables if v not in line.where])
    if plain is None:
        return line
    return replace(line, where={**line.where, **plain}, clauses=None)
