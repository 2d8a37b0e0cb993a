"""What the boxes of a program are made of: statements at plain places, and what checks them.

`as_boxes` (`tc.polyhedral.rewrite.boxes`) says which boxes a statement becomes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tc.dtypes import INT64, DType
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.rewriting import rewrite, statement_text, unused_name
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.dependent_ranges import domain_guards, in_order, rows_first, substituted
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Source, Span


class BoxProgram:
    """The statements and temporaries of a program in the making."""

    def __init__(
        self,
        shaped: p.ShapedProgram,
        initial: frozenset[str],
        check: bool,
        places: bool,
        at_once: bool,
    ) -> None:
        self.shaped, self.initial, self.check, self.places = shaped, initial, check, places
        self.at_once = at_once
        self.known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
        self.tensors = dict(shaped.program.tensors)
        self.shapes = dict(shaped.shapes)
        self.temporaries: list[str] = []
        self.statements: list[p.ShapedStatement] = []
        self.written: set[str] = set()
        nodes = (n for s in shaped.program.statements for e in s.expressions for n in p.walk(e))
        used = (n.site for n in nodes if isinstance(n, p.Read | p.Binary))
        self.sites = count(max(used, default=-1) + 1)

    def add(self, each: p.ShapedStatement) -> None:
        self.statements.append(each)
        self.written.update(each.statement.targets)

    def temporary(self, name: str, dtype: DType, shape: tuple[int, ...], span: Span) -> str:
        name = unused_name(name, self.tensors)
        self.tensors[name] = p.Tensor(name, dtype, len(shape), "temporary", None, span=span)
        self.shapes[name] = shape
        self.temporaries.append(name)
        return name

    def program(self) -> p.ShapedProgram:
        program = self.shaped.program
        return replace(
            self.shaped,
            program=replace(
                program,
                tensors=self.tensors,
                temporaries=(*program.temporaries, *self.temporaries),
                statements=tuple(each.statement for each in self.statements),
            ),
            shapes=self.shapes,
            statements=tuple(self.statements),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The left side of a statement as a plain one: its variables, one for each dimension, with
    their ranges; `tests` say that an instance goes there. `moved` are index variables as
    expressions of those of the left side."""

    variables: tuple[str, ...]
    ranges: Mapping[str, p.Range]
    tests: tuple[p.Expr, ...]
    moved: Mapping[str, p.Expr]


class BoxStatements:
    """Makes boxes of one statement of a program."""

    def __init__(self, each: p.ShapedStatement, made: BoxProgram) -> None:
        self.each, self.made = each, made
        self.statement = each.statement
        self.span = each.statement.span
        self.of = Expressions(self.span)
        self.taken = {*self.statement.variables}
        self.domain = conjunction(
            [test for test, _ in domain_guards(self.statement)] + [*self.statement.conditions]
        )

    # --- places -------------------------------------------------------------------------------

    def _guard(self, place: Place, tests: Sequence[p.Expr] = ()) -> p.Expr | None:
        """Whether an instance exists, and goes to a place, and some tests hold."""
        domain = [] if self.domain is None else [self.domain]
        return conjunction([*domain, *place.tests, *tests])

    def _name_of(self, position: int) -> str:
        return f"{self.statement.name}.{position}" if position else self.statement.name

    def _add_placed(
        self,
        name: str,
        target: str,
        place: Place,
        value: p.Expr,
        op: str,
        init: bool,
        continues: str,
        without: Container[str] = (),
        *,
        once: bool = False,
    ) -> None:
        """A statement at a place, over all variables of the old one but those `without` which."""
        for old, new in place.moved.items():
            value = substituted(value, old, new)
        value = self._renewed(value)
        ranges = {**self.each.ranges, **place.ranges}
        variables = (v for v in self.statement.variables if v not in without)
        rest = rows_first((v for v in variables if v not in place.moved), self.statement)
        reduced = tuple(v for v in rest if v not in place.variables)
        self._add(
            name, target, place.variables, reduced, op, init, value, ranges, continues, once=once
        )

    def _place(self, target: str, *, starts: bool = False) -> Place:
        """The left side of the statement for one target; one that `starts` does so in whole
        dimensions, but for those with a bare variable (S3)."""
        statement, each = self.statement, self.each
        shape = self.made.shapes[target]
        variables: list[str] = []
        ranges: dict[str, p.Range] = {}
        tests: list[p.Expr] = []
        moved: dict[str, p.Expr] = {}
        for axis, subscript in enumerate(statement.subscripts):
            if isinstance(subscript, p.Index):
                variables.append(subscript.name)
                if each.ranges[subscript.name].end > shape[axis]:
                    ranges[subscript.name] = _inside(each.ranges[subscript.name], shape[axis])
                continue
            form = linear_form(subscript, self.made.known, exact=True)
            name = self._fresh(f"p{axis}")
            variables.append(name)
            own = p.Index(name, span=subscript.span)
            if not starts and form is not None and not form.terms:
                ranges[name] = _inside(p.Range(form.constant, form.constant + 1), shape[axis])
                continue
            alone = self._shifted(subscript)
            if not starts and form is not None and alone is not None:
                old = each.ranges[alone]
                begin, end = (at + form.constant for at in (old.begin, old.end))
                ranges[name] = _inside(p.Range(begin, end), shape[axis])
                back = p.Literal(form.constant, INT64, span=subscript.span)
                moved[alone] = p.Binary("-", own, back, INT64, span=subscript.span)
                continue
            ranges[name] = p.Range(0, shape[axis])
            tests.append(self.of.compare("==", subscript, own))
        return Place(tuple(variables), ranges, tuple(tests), moved)

    def _shifted(self, subscript: p.Expr) -> str | None:
        """The one variable of a subscript, to which a number is added, where no other subscript has
        the variable."""
        form = linear_form(subscript, self.made.known, exact=True)
        if form is None or list(form.terms.values()) != [1]:
            return None
        if self.each.checked:  # errors tell the variables of the text
            return None
        (name,) = form.terms
        others = (s for s in self.statement.subscripts if s is not subscript)
        is_elsewhere = any(name in p.index_names(s) for s in others)
        return None if is_elsewhere else name

    @property
    def _is_plain_place(self) -> bool:
        """Whether each dimension has a variable of its own, a number, or a variable and a
        number."""
        return all(
            isinstance(s, p.Index)
            or self._shifted(s) is not None
            or evaluate(s, self.made.known) is not None
            for s in self.statement.subscripts
        )

    # --- what is checked ----------------------------------------------------------------------

    def _check_ranges(self) -> None:
        """Statements that check the ranges that data decide (W3), and what their bounds read, which
        need not be checked again then: where such a check fails, no other statement follows, but
        for launches."""
        known: set[int] = set()
        for clause in in_order(self.statement):
            if clause.variable not in self.each.checked_ranges:
                continue
            box = self.each.ranges[clause.variable]
            tests = (
                self.of.compare("<=", self.of.number(box.begin), clause.begin),
                self.of.compare("<=", clause.begin, clause.end),
                self.of.compare("<=", clause.end, self.of.number(box.end)),
            )
            number = self.statement.variables.index(clause.variable)
            told = (self.of.number(number), clause.begin, clause.end)
            upstream = domain_guards(self.statement, set(clause.depends_on))
            guard = conjunction([test for test, _ in upstream])
            ends = not self.made.at_once
            self._add_check(p.Check("range", tests, told, ends=ends, span=clause.span), guard)
            nodes = (n for bound in (clause.begin, clause.end) for n in p.walk(bound))
            known |= {n.site for n in nodes if isinstance(n, p.Read | p.Binary)}
        if not self.made.at_once:
            self.each = replace(self.each, checked=self.each.checked - known)

    def _check_place(self) -> None:
        """Statements that check that places are in the targets (S5)."""
        axes = sorted(self.each.checked_axes)
        shapes = {self.made.shapes[target]: target for target in reversed(self.statement.targets)}
        if not axes:
            return
        fixed = {
            s.name: self.of.number(self.each.ranges[s.name].begin)
            for s in self.statement.subscripts
            if isinstance(s, p.Index) and not self._is_needed_elsewhere(s.name)
        }
        place = [
            fixed.get(s.name, s) if isinstance(s, p.Index) else s for s in self.statement.subscripts
        ]
        for shape, target in shapes.items():
            tests: list[p.Expr] = []
            for axis in axes:
                tests.append(self.of.compare("<=", self.of.number(0), place[axis]))
                tests.append(self.of.compare("<", place[axis], self.of.number(shape[axis])))
            position = self.of.number(self.statement.targets.index(target))
            guard, firsts = self._first_instance()
            told = (*reversed(firsts.values()), position, *place)
            others = tuple(reversed(firsts))
            check = p.Check("write", tuple(tests), told, others=others, span=self.span)
            self._add_check(check, guard)

    def _first_instance(self) -> tuple[p.Expr | None, dict[str, p.Expr]]:
        """Whether an instance exists, of those that share a place: the first one of a range that
        decides nothing else, where the range is not empty; with the variables of such ranges, and
        their first values."""
        used = {name for s in self.statement.subscripts for name in p.index_names(s)}
        used |= {name for test in self.statement.conditions for name in p.index_names(test)}
        domain, firsts = self.domain, dict[str, p.Expr]()
        for clause in reversed(in_order(self.statement)):
            if clause.depends_on and clause.variable not in used and domain is not None:
                domain = substituted(domain, clause.variable, clause.begin)
                firsts[clause.variable] = clause.begin
            used |= set(clause.depends_on)  # whether it is empty depends on these
        return domain, firsts

    @property
    def _is_ragged(self) -> bool:
        """Whether data decide between which values a variable runs."""
        return any(clause.kind == p.DATA for clause in self.statement.where)

    def _is_needed_elsewhere(self, variable: str) -> bool:
        """Whether a variable of the left side decides more than one bare dimension."""
        computed = [s for s in self.statement.subscripts if not isinstance(s, p.Index)]
        exprs = (*computed, *([] if self.domain is None else [self.domain]))
        return any(variable in p.index_names(expr) for expr in exprs)

    def _add_check(self, check: p.Check, guard: p.Expr | None) -> None:
        """A statement of one number, always 0, which nothing reads, that makes a check wherever a
        guard holds; or of one for each instance, so that these may be checked at once."""
        value: p.Expr = check
        if guard is not None:
            value = self.of.select(guard, check, p.Literal(0, INT64, span=self.span))
        value = self._renewed(value)
        names = p.index_names(value)
        target = f"{self.statement.target}.{check.kind}"
        ranges = self.each.ranges
        own = [*names] if self.made.at_once and all(ranges[v].begin >= 0 for v in names) else []
        target = self.made.temporary(target, INT64, tuple(ranges[v].end for v in own), self.span)
        name = f"{self.statement.name}.{target}"
        reduced = rows_first((v for v in names if v not in own), self.statement)
        self._add(name, target, own, reduced, "max", True, value, ranges)

    # --- expressions --------------------------------------------------------------------------

    def _read(self, tensor: str, names: Sequence[str]) -> p.Expr:
        place = tuple(map(self.of.index, names))
        dtype = self.made.tensors[tensor].dtype
        return p.Read(tensor, place, dtype, next(self.made.sites), span=self.span)

    def _at(self, tensor: str, dtype: DType, place: tuple[p.Expr, ...]) -> p.Expr:
        """The element of a tensor at a place, in a type."""
        own = self.made.tensors[tensor].dtype
        read = p.Read(tensor, place, own, next(self.made.sites), span=self.span)
        return self.of.converted(read, dtype)

    def _fresh(self, name: str) -> str:
        name = unused_name(name, self.taken)
        self.taken.add(name)
        return name

    def _renewed(self, expr: p.Expr) -> p.Expr:
        """The expression with sites of its own for reads and divisions that are not checked: what
        is checked keeps those by which its error is told."""
        kept = self.each.checked

        def renewed(node: p.Expr) -> p.Expr:
            if isinstance(node, p.Read | p.Binary) and node.site >= 0 and node.site not in kept:
                return replace(node, site=next(self.made.sites))
            return node

        return rewrite(expr, renewed)

    def _add(
        self,
        name: str,
        target: str,
        outer: Sequence[str],
        reduced: Sequence[str],
        op: str,
        init: bool,
        value: p.Expr,
        ranges: Mapping[str, p.Range],
        continues: str = "",
        *,
        once: bool = False,
    ) -> None:
        """One plain statement."""
        variables = (*outer, *reduced)
        if op != "=" and init and not reduced:
            op, init = "=", False
        statement = replace(
            self.statement,
            name=name,
            target=target,
            subscripts=tuple(p.Index(v, span=self.span) for v in outer),
            outer=tuple(outer),
            variables=variables,
            op=op,
            init=init,
            continues=continues,
            rhs=value,
            where=(),
            exists=(),
            variable_spans={},
            conditions=(),
            companions=(),
            sizes=(),
            once=once,
        )
        text = statement_text(statement).replace("#", "_")  # a "#" would begin a comment
        source = Source(text, f"a box from {self.span}")
        statement = replace(statement, span=Span(source, 0, len(text)))
        sites = {n.site for n in p.walk(value) if isinstance(n, p.Read | p.Binary)}
        checks = {p.CHECKED for n in p.walk(value) if isinstance(n, p.Check)}
        self.made.add(
            p.ShapedStatement(
                statement, {v: ranges[v] for v in variables}, (self.each.checked & sites) | checks
            )
        )


MAX_STORED = 1 << 24
"""The most values that are stored so that they can be compared later."""


def _inside(found: p.Range, extent: int) -> p.Range:
    """The part of a range in a dimension: elsewhere the conditions of a statement do not hold."""
    begin, end = (min(max(at, 0), extent) for at in (found.begin, found.end))
    return found if (begin, end) == (found.begin, found.end) else p.Range(begin, max(begin, end))
