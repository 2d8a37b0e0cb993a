"""Ranges and shapes of a program as expressions, derived from its rounds for all sizes at once.

    derive_ranges(inference) = the statements in the order in which they fix shapes (G3);
        in each, rounds as of G2, in which a subscript bounds its open variable by an expression

The expressions are those of `RangeInference.at` where no statement is empty: the rounds of a
program then depend on its sizes only through signs of coefficients and divisors, through subscripts
that are no sums (`min`, `%`, `?:`), and through divisions of where clauses. Where one of these
decides, there is no derivation. `DerivedRanges.conditions` are what sizes fulfil at which the
program has these ranges and no statement is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tc.builtins.operators import ON_BITS
from tc.semantics import program as p
from tc.semantics.affine import MAX_PIECES, pieces
from tc.semantics.ranges.accesses import Accesses, SubscriptAccess
from tc.semantics.ranges.polynomials import ONE, constant, linear, to_expr, to_poly
from tc.semantics.ranges.range_inference import RangeInference, fix_in_order
from tc.semantics.ranges.symbolic import (
    ANY_SIZES,
    SignOfSizes,
    Symbols,
    bounds_inside,
    in_symbols,
    least,
    sign_of,
)
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span


class NoDerivation(Exception):
    """The ranges of a program have no expressions that are shown to hold for all sizes."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression of sizes that is at least 0, or just 0."""

    expr: p.Expr
    is_equality: bool = False

    def lacks(self, known: KnownSizes) -> int:
        """How far the condition is from being fulfilled at some sizes: 0 where it is."""
        value = evaluate(self.expr, known)
        if value is None:
            return 1
        return abs(value) if self.is_equality else max(0, -value)


@dataclass(frozen=True, slots=True)
class DerivedRanges:
    """Begin and end by statement and variable, sizes by tensor, and conditions under which these
    are the ranges of the program, and none is empty: what a first statement fixes holds all."""

    ranges: Mapping[str, Mapping[str, tuple[p.Expr, p.Expr]]]
    shapes: Mapping[str, tuple[p.Expr, ...]]
    conditions: tuple[Condition, ...]

    def lacks(self, sizes: Mapping[str, int], scalars: Mapping[str, int]) -> int:
        """How far sizes are from fulfilling the conditions: 0 where they fulfil all."""
        known = KnownSizes(sizes, {}, scalars)
        return sum(condition.lacks(known) for condition in self.conditions)


def derive_ranges(inference: RangeInference) -> DerivedRanges | None:
    """The ranges of a program for all sizes; None where there is no derivation.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.symbolic import to_text
    >>> from tc.source import Source
    >>> text = "def conv1d(float(M) I, float(N) K) -> (O) { O(i) +=! K(x) * I(i + x) }"
    >>> derived = derive_ranges(RangeInference.of(check(parse(Source(text)))))
    >>> [to_text(end) for _, end in derived.ranges["S0"].values()]
    ['M - N + 1', 'N']
    """
    try:
        return _Derivation(inference).derived()
    except (NoDerivation, SignOfSizes):
        return None


@dataclass
class _Derivation:
    """How far the ranges and shapes of a program are derived."""

    inference: RangeInference
    shapes: dict[str, tuple[p.Expr, ...]] = field(default_factory=dict)
    ranges: dict[str, dict[str, p.Range]] = field(default_factory=dict)
    fixing: set[str] = field(default_factory=set)
    """The statements that fixed the shapes of their targets."""

    @property
    def program(self) -> p.Program:
        return self.inference.program

    def derived(self) -> DerivedRanges:
        program = self.program
        if not all(statement.is_plain for statement in program.statements):
            raise NoDerivation
        self._add_declared()
        fix_in_order(
            program.statements, lambda s: s.target not in self.shapes, self._is_ready, self._fix
        )
        if not program.tensors.keys() <= self.shapes.keys():
            raise NoDerivation
        for statement in program.statements:
            found = self._resolve(statement, self.ranges.get(statement.name, {}))
            if len(found) < len(statement.variables):
                raise NoDerivation
            self.ranges[statement.name] = found
        ranges = {
            s.name: {v: _ends(self.ranges[s.name][v]) for v in s.variables}
            for s in program.statements
        }
        shapes = {name: self.shapes[name] for name in program.tensors}
        return DerivedRanges(ranges, shapes, tuple(self._conditions()))

    # --- shapes (G3) --------------------------------------------------------------------------

    def _fix(self, statement: p.Statement) -> bool:
        """Whether a statement fixes the shape of its target, which is known from then on."""
        found = self._resolve(statement, {})
        if any(name not in found for name in statement.outer):
            return False
        self.ranges[statement.name] = found
        self.shapes[statement.target] = tuple(_ends(found[v])[1] for v in statement.outer)
        self.fixing.add(statement.name)
        self._add_declared()
        return True

    def _is_ready(self, statement: p.Statement) -> bool:
        needed = self.inference.accesses[statement.name]
        has_sizes = all(self._has_size(name) for name in needed.sizes)
        return needed.tensors <= self.shapes.keys() and has_sizes

    def _has_size(self, name: str) -> bool:
        return any(extent.tensor in self.shapes for extent in self.program.sizes[name].extents)

    def _add_declared(self) -> None:
        """Adds the shapes of tensors whose declarations have values by now."""
        program = self.program
        while True:
            open_ = [t for t in program.declared if t.name not in self.shapes]
            is_input = program.inputs.__contains__
            found = [
                t for t in open_ if is_input(t.name) or all(map(self._is_known, t.shape or ()))
            ]
            if not found:
                return
            for tensor in found:
                symbols = self._symbols(tensor.span)
                dims = tuple(in_symbols(dim, symbols) for dim in tensor.shape or ())
                self.shapes[tensor.name] = dims

    def _is_known(self, expr: p.Expr) -> bool:
        """Whether an expression has a value once the shapes that are derived have one."""
        for node in p.walk(expr):
            match node:
                case p.Size(name=name) if not self._has_size(name):
                    return False
                case p.Extent(tensor=tensor) if tensor not in self.shapes:
                    return False
                case p.Index():
                    return False
                case p.Read(tensor=tensor) if tensor not in self.program.static_scalars:
                    return False
        return True

    def _symbols(self, span: Span) -> Symbols:
        return Symbols(self.shapes, self.program.sizes, ANY_SIZES, span)

    # --- rounds (G1, G2) ----------------------------------------------------------------------

    def _resolve(self, statement: p.Statement, start: Mapping[str, p.Range]) -> dict[str, p.Range]:
        """As many ranges of a statement as follow from the shapes; those of `start` stay."""
        ranges = dict(start)  # of which the expressions alone count
        for clause in statement.where:
            bounds = (clause.begin, clause.end)
            if clause.variable not in ranges and all(map(self._is_known, bounds)):
                symbols = self._symbols(clause.span)
                first, last = (in_symbols(_defined(b), symbols) for b in bounds)
                ranges[clause.variable] = p.Range(0, 0, first, last)
        given = {clause.variable for clause in statement.where}
        while len(ranges) < len(statement.variables):
            found: dict[str, list[p.Expr]] = {}
            for access in self.inference.accesses[statement.name].all:
                free = [name for name in access.variables if name not in ranges]
                if len(free) != 1 or free[0] not in access.boundable or not access.constrains:
                    continue
                end = self._end(access, free[0], ranges)
                if end is not None and free[0] not in given:
                    found.setdefault(free[0], []).append(end)
            if not found:
                break
            symbols = self._symbols(statement.span)
            for name, ends in found.items():
                ranges[name] = p.Range(0, 0, symbols.number(0), least(ends, symbols))
        return ranges

    def _end(
        self, access: SubscriptAccess, variable: str, ranges: Mapping[str, p.Range]
    ) -> p.Expr | None:
        """Where a subscript lets its one open variable end; None where it does not bound it."""
        if access.tensor not in self.shapes:
            return None
        symbols = self._symbols(access.span)
        extent = self.shapes[access.tensor][access.axis]
        if access.is_bare:
            return extent
        if not self._is_affine(access.subscript):
            return None
        form = linear(access.subscript, symbols)
        if form is None:
            names = Counter(n.name for n in p.walk(access.subscript) if isinstance(n, p.Index))
            if max(names.values()) > 1:
                raise NoDerivation
        elif variable not in form.terms:
            raise NoDerivation  # it cancels
        found = bounds_inside(access.subscript, variable, extent, ranges, symbols)
        if found is None:
            raise NoDerivation
        return found[1]

    def _is_affine(self, expr: p.Expr) -> bool:
        """Whether an expression is quasi-affine (G2), at all sizes or at none."""
        if pieces(expr) > MAX_PIECES:
            return False
        match expr:
            case p.Index():
                return True
            case p.Read(tensor=tensor):
                return tensor in self.program.static_scalars
            case p.Literal(value=value) if isinstance(value, int):
                return True
            case p.Size() | p.Extent():
                if self._is_known(expr):
                    return True
                raise NoDerivation
            case p.Binary(op="*", left=left, right=right) if p.index_names(left):
                return not p.index_names(right) and self._are_affine((left, right))
            case p.Binary(op=("/" | "%"), right=right):
                if not self._is_known(right):
                    return False
                if sign_of(to_poly(right, self._symbols(expr.span)), self._symbols(expr.span)) <= 0:
                    raise NoDerivation
                return self._are_affine(p.children(expr))
            case p.Binary(op=op) if op in ON_BITS:
                if p.index_names(expr):
                    return False
                raise NoDerivation
            case p.Unary() | p.Binary():
                return not expr.dtype.is_float and self._are_affine(p.children(expr))
            case p.Convert(operand=operand) if expr.dtype.is_integer:
                return operand.dtype.is_integer and self._is_affine(operand)
        if any(isinstance(n, p.Read) and n.subscripts for n in p.walk(expr)):
            return False
        raise NoDerivation

    def _are_affine(self, exprs: Iterable[p.Expr]) -> bool:
        found = [self._is_affine(expr) for expr in exprs]  # each may have no derivation
        return all(found)

    # --- conditions ---------------------------------------------------------------------------

    def _conditions(self) -> Iterator[Condition]:
        """That no range is empty, that no access which is always made leaves its tensor (G6), and
        that sizes agree (T4)."""
        symbols = self._symbols(self.program.tensors[self.program.outputs[0]].span)

        def difference(left: p.Expr, right: p.Expr, less: int = 0) -> p.Expr:
            poly = to_poly(left, symbols) - to_poly(right, symbols)
            return to_expr(poly - constant(less), symbols)

        found: list[Condition] = []
        for size in self.program.sizes.values():
            extents = [e for e in size.extents if e.tensor in self.shapes]
            dims = [self.shapes[e.tensor][e.axis] for e in extents]
            found += (Condition(difference(dims[0], dim), True) for dim in dims[1:])
        for equality in self.program.equalities:
            found.append(Condition(difference(equality.left, equality.right), True))
        for statement in self.program.statements:
            ranges = self.ranges[statement.name]
            for begin, end in map(_ends, ranges.values()):
                for part in _parts_of_minimum(end):
                    found.append(Condition(difference(part, begin, 1)))
            for access in self._always_made(self.inference.accesses[statement.name]):
                found += (Condition(c) for c in self._inside(access, ranges, symbols))
        for condition in dict.fromkeys(found):
            if not isinstance(condition.expr, p.Literal) or condition.lacks(ANY_SIZES):
                yield condition

    def _always_made(self, accesses: Accesses) -> Iterator[SubscriptAccess]:
        yield from accesses.written
        for read in accesses.reads:
            if not read.guards and not read.read.late and not read.read.bare_only:
                yield from read.accesses

    def _inside(
        self, access: SubscriptAccess, ranges: Mapping[str, p.Range], symbols: Symbols
    ) -> Iterator[p.Expr]:
        """Expressions that are at least 0 where a subscript that is a sum is in bounds."""
        inner = (n for n in p.walk(access.subscript) if p.index_names(n))
        is_affine = all(
            isinstance(n, p.Index | p.Unary) or (isinstance(n, p.Binary) and n.op in "+-*")
            for n in inner
        ) and self._is_affine(access.subscript)
        form = linear(access.subscript, symbols) if is_affine else None
        if form is None:
            return
        low = high = form.constant
        for name, factor in form.terms.items():
            begin, end = _ends(ranges[name])
            first, last = to_poly(begin, symbols), to_poly(end, symbols) - ONE
            if sign_of(factor, symbols) < 0:
                first, last = last, first
            low, high = low + factor * first, high + factor * last
        yield to_expr(low, symbols)
        extent = to_poly(self.shapes[access.tensor][access.axis], symbols)
        yield to_expr(extent - high - ONE, symbols)


def _ends(found: p.Range) -> tuple[p.Expr, p.Expr]:
    assert found.symbolic_begin is not None
    assert found.symbolic_end is not None
    return found.symbolic_begin, found.symbolic_end


def _parts_of_minimum(expr: p.Expr) -> Iterator[p.Expr]:
    if isinstance(expr, p.Binary) and expr.op == "min":
        yield from _parts_of_minimum(expr.left)
        yield from _parts_of_minimum(expr.right)
    else:
        yield expr


def _defined(expr: p.Expr) -> p.Expr:
    """A bound of a where clause, if it has a value at all sizes."""
    for node in p.walk(expr):
        match node:
            case p.Binary(op=("/" | "%"), right=right) if not (
                isinstance(right, p.Literal) and right.value > 0
            ):
                raise NoDerivation
            case p.Compare() | p.Logical() | p.Select() | p.Call() | p.Index():
                raise NoDerivation
    return expr
