"""Statements as boxes: domains, places and several targets as selections.

    y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
        becomes  y(r) +=! row(r) <= e && e < row(r+1) ? v(e) * x(col(e)) : 0
    h(I(n)) +=! x(n)
        becomes  h(p) +=! I(n) == p ? x(n) : 0
    o(p(i)) = x(i)
        becomes  w(q) max=! p(i) == q ? i : none
                 o(q) = w(q) != none ? x(w(q)) : o(q)
    m(n), at(n) max=! x(n,d), d
        becomes  m(n) max=! x(n,d)
                 at(n) min=! x(n,d) == m(n) ? d : largest

All that follows knows boxes with plain places and one value alone. What a selection leaves out
costs nothing where loops end with it ("loop splitting"), or find the one iteration that is
selected. What may fail at run time is checked by statements before (S2, S5, W3).

Long because each of the three freedoms is made plain in terms of the others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod

from tc.builtins import identity
from tc.dtypes import INT64, DType, limits
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.rewriting import rewrite, statement_text, unused_name
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.dependent_ranges import domain_guards, in_order, substituted
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Source, Span

NONE = limits(INT64)[0]
"""The number of no instance."""


def as_boxes(
    shaped: p.ShapedProgram,
    initial: frozenset[str],
    *,
    check: bool,
    places: bool = False,
    at_once: bool = False,
) -> p.ShapedProgram:
    """The program whose statements are boxes with one value at plain places; the very same where
    all are. `initial` names the outputs that hold values of the caller; `check`: what may fail at
    run time is checked; `places`: the places of writes are in any case (S5); `at_once`: checks of
    different instances do not wait for each other.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> text = "def h(int(N) I) -> (h) { h(I(n)) +=! 1 where h.0 = 5 }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"I": (9,)}, {})
    >>> for statement in as_boxes(shaped, frozenset(), check=False).program.statements:
    ...     print(statement.text)
    h(p0) +=! I(n) == p0 ? 1 : 0
    """
    if all(each.statement.is_plain for each in shaped.statements):
        return shaped
    made = _Made(shaped, initial, check, check or places, at_once)
    for each in shaped.statements:
        if each.statement.is_plain:
            made.add(each)
        else:
            _Boxes(each, made).add_all()
    return made.program()


class _Made:
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
class _Place:
    """The left side of a statement as a plain one: its variables, one for each dimension, with
    their ranges; `tests` say that an instance goes there. `moved` are index variables as
    expressions of those of the left side."""

    variables: tuple[str, ...]
    ranges: Mapping[str, p.Range]
    tests: tuple[p.Expr, ...]
    moved: Mapping[str, p.Expr]


class _Boxes:
    """One statement of a program as boxes."""

    def __init__(self, each: p.ShapedStatement, made: _Made) -> None:
        self.each, self.made = each, made
        self.statement = each.statement
        self.span = each.statement.span
        self.of = Expressions(self.span)
        self.taken = {*self.statement.variables}
        self.domain = conjunction(
            [test for test, _ in domain_guards(self.statement)] + [*self.statement.conditions]
        )

    def add_all(self) -> None:
        if self.made.check:
            self._check_ranges()
        if self.made.places:
            self._check_place()
        statement = self.statement
        if statement.op == "=" and not self._is_plain_place:
            self._assign()
        elif statement.op == "=":
            self._assign_in_place()
        elif statement.chooses:
            self._choose()
        else:
            values = self._separate(statement.values)
            if self.each.checked and not self._is_plain_place and not self._is_ragged:
                # instances are gone through for all places, and checked for none
                values = [self._stored(value) or value for value in values]
            for position, value in enumerate(values):
                into, init = statement.targets[position], statement.init
                continues = statement.continues_of(position)
                if not init and statement.starts_fresh(self.made.initial, position):
                    init, continues = True, ""
                if not init and (not self._is_plain_place or statement.where):
                    self._add_to(position, value, continues)
                    continue
                self._reduce(
                    position, value, statement.op, (), into=into, init=init, continues=continues
                )

    # --- what is checked ----------------------------------------------------------------------

    def _check_ranges(self) -> None:
        """Statements that check the ranges that data decide (W3)."""
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
            self._add_check(p.Check("range", tests, told, span=clause.span), guard)

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
            check = p.Check("write", tuple(tests), (position, *place), span=self.span)
            self._add_check(check, self.domain)

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
        reduced = [v for v in names if v not in own]
        self._add(name, target, own, reduced, "max", True, value, ranges)

    # --- reductions ---------------------------------------------------------------------------

    def _reduce(
        self,
        position: int,
        value: p.Expr,
        op: str,
        tests: Sequence[p.Expr],
        *,
        into: str,
        init: bool,
        continues: str,
    ) -> None:
        """A reduction into the tensor of one target, of the terms for which tests hold, too."""
        place = self._place(self.statement.targets[position], starts=init)
        guard = self._guard(place, tests)
        if guard is not None:
            value = self.of.select(guard, value, self.of.identity(op, value.dtype))
        self._add_placed(self._name_of(position), into, place, value, op, init, continues)

    def _add_to(self, position: int, value: p.Expr, continues: str) -> None:
        """A reduction that goes on from what the target holds, as one that starts afresh, of which
        the target takes the results: loops over what is left out are only left out of such."""
        statement, target = self.statement, self.statement.targets[position]
        shape = self.made.shapes[target]
        more = self.made.temporary(f"{target}.more", value.dtype, shape, self.span)
        self._reduce(position, value, statement.op, (), into=more, init=True, continues="")
        place = self._place(target, starts=True)
        read = self._read(more, place.variables)
        ranges = {**self.each.ranges, **place.ranges}
        name = f"{self._name_of(position)}.taken"
        own, op = place.variables, statement.op
        self._add(name, target, own, (), op, False, read, ranges, continues)

    def _guard(self, place: _Place, tests: Sequence[p.Expr] = ()) -> p.Expr | None:
        """Whether an instance exists, and goes to a place, and some tests hold."""
        domain = [] if self.domain is None else [self.domain]
        return conjunction([*domain, *place.tests, *tests])

    def _name_of(self, position: int) -> str:
        return f"{self.statement.name}.{position}" if position else self.statement.name

    def _add_placed(
        self,
        name: str,
        target: str,
        place: _Place,
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
        rest = [v for v in variables if v not in place.moved]
        given = [clause.variable for clause in in_order(self.statement) if clause.depends_on]
        # Rows come before what is in them: loops are in the order of a statement's variables.
        rest.sort(key=lambda v: given.index(v) + 1 if v in given else 0)
        reduced = tuple(v for v in rest if v not in place.variables)
        self._add(
            name, target, place.variables, reduced, op, init, value, ranges, continues, once=once
        )

    def _place(self, target: str, *, starts: bool = False) -> _Place:
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
        return _Place(tuple(variables), ranges, tuple(tests), moved)

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

    # --- several targets ----------------------------------------------------------------------

    def _separate(self, values: Sequence[p.Expr]) -> list[p.Expr]:
        """The values of the targets, one after the other: they read copies of targets that are
        written before (V1)."""
        targets = self.statement.targets
        copies: dict[str, str] = {}
        for position, value in enumerate(values):
            for node in p.walk(value):
                if isinstance(node, p.Read) and node.tensor in targets[:position]:
                    copies.setdefault(node.tensor, "")
        for tensor in copies:
            copies[tensor] = self._copy(tensor)
        result = []
        for position, value in enumerate(values):
            before = {t: copies[t] for t in targets[:position] if t in copies}

            def other(node: p.Expr, before: Mapping[str, str] = before) -> p.Expr:
                if isinstance(node, p.Read) and node.tensor in before:
                    return replace(node, tensor=before[node.tensor])
                return node

            result.append(rewrite(value, other))
        return result

    def _copy(self, tensor: str) -> str:
        """A temporary with what a tensor holds now, in the type that it computes in."""
        shape, dtype = self.made.shapes[tensor], self.made.tensors[tensor].dtype.computed
        copy = self.made.temporary(f"{tensor}.old", dtype, shape, self.span)
        names, ranges = self._whole(tensor)
        value = self.of.converted(self._read(tensor, names), dtype)
        self._add(f"{self.statement.name}.{copy}", copy, names, (), "=", False, value, ranges)
        return copy

    def _choose(self) -> None:
        """Minima and maxima with what else their terms have (V1): one reduction after the other. A
        term that the caller gives takes part."""
        statement = self.statement
        positions = range(len(statement.targets))
        fresh = [statement.starts_fresh(self.made.initial, k) for k in positions]
        olds: list[str | None] = []
        if not all(fresh):
            targets = zip(statement.targets, fresh, strict=True)
            olds = [None if is_fresh else self._copy(target) for target, is_fresh in targets]
        best: list[str] = []
        values: list[p.Expr] = []
        for position, value in enumerate(statement.values):
            tests = [
                self._same(value, self._at(tensor, value.dtype, statement.subscripts))
                for value, tensor in zip(values, best, strict=True)
            ]
            values.append(self._as_stored(value))
            best.append(self._chosen(position, values[-1], tests, olds, best))
        for position, tensor in enumerate(best):
            if tensor != statement.targets[position]:
                self._store(position, tensor)

    def _chosen(
        self,
        position: int,
        value: p.Expr,
        tests: Sequence[p.Expr],
        olds: Sequence[str | None],
        best: Sequence[str],
    ) -> str:
        """The tensor that holds the values of one target, in the type that they compute in."""
        target = tensor = self.statement.targets[position]
        op = self.statement.op if position == 0 else "min"
        if olds or self.made.tensors[target].dtype.is_storage:
            shape = self.made.shapes[target]
            tensor = self.made.temporary(f"{target}.best", value.dtype, shape, self.span)
            start = self.of.identity(op, value.dtype)
            names, ranges = self._whole(target)
            if olds:
                known = [
                    self._same(self._held(k, olds, names), self._read(found, names))
                    for k, found in enumerate(best)
                ]
                held, guard = self._held(position, olds, names), conjunction(known)
                start = held if guard is None else self.of.select(guard, held, start)
            name = f"{self.statement.name}.start{position}"
            self._add(name, tensor, names, (), "=", False, start, ranges)
        is_begun = tensor != target
        continues = "written" if is_begun else ""
        self._reduce(
            position, value, op, tests, into=tensor, init=not is_begun, continues=continues
        )
        return tensor

    def _held(self, position: int, olds: Sequence[str | None], names: Sequence[str]) -> p.Expr:
        """What a target held at a place, the identity where it held nothing (R3)."""
        old = olds[position]
        if old is not None:
            return self._read(old, names)
        op = self.statement.op if position == 0 else "min"
        return self.of.identity(op, self.statement.values[position].dtype)

    def _store(self, position: int, tensor: str) -> None:
        """The statement that rounds values to their target, and stores them where the statement
        writes, or starts."""
        target = self.statement.targets[position]
        names, ranges = self._whole(target)
        if self.statement.starts_fresh(self.made.initial, position):
            for axis, subscript in enumerate(self.statement.subscripts):
                if isinstance(subscript, p.Index):
                    ranges[names[axis]] = self.each.ranges[subscript.name]
        dtype = self.made.tensors[target].dtype.computed
        value = self.of.converted(self._read(tensor, names), dtype)
        name = f"{self.statement.name}.store{position}"
        self._add(name, target, names, (), "=", False, value, ranges)

    def _whole(self, tensor: str) -> tuple[tuple[str, ...], dict[str, p.Range]]:
        """Variables for all elements of a tensor, with their ranges."""
        shape = self.made.shapes[tensor]
        names = tuple(self._fresh(f"p{axis}") for axis in range(len(shape)))
        return names, {n: p.Range(0, extent) for n, extent in zip(names, shape, strict=True)}

    def _as_stored(self, value: p.Expr) -> p.Expr:
        """A value that is compared with itself later, in bits that cannot differ: from a tensor
        where computing it rounds, and there is room for all."""
        return value if _is_exact(value) else self._stored(value) or value

    def _stored(self, value: p.Expr) -> p.Expr | None:
        """A read of a temporary that holds a value for each instance; None where there is no
        room."""
        exprs = (value, *([] if self.domain is None else [self.domain]))
        names = tuple(dict.fromkeys(name for expr in exprs for name in p.index_names(expr)))
        shape = tuple(self.each.ranges[name].end for name in names)
        if any(self.each.ranges[name].begin < 0 for name in names) or prod(shape) > MAX_STORED:
            return None
        name = f"{self.statement.target}.term"
        tensor = self.made.temporary(name, value.dtype, shape, self.span)
        if self.domain is not None:
            value = self.of.select(self.domain, value, self.of.identity("+", value.dtype))
        name = f"{self.statement.name}.{tensor}"
        self._add(name, tensor, names, (), "=", False, self._renewed(value), self.each.ranges)
        return self._read(tensor, names)

    def _same(self, left: p.Expr, right: p.Expr) -> p.Expr:
        """Whether a value is the least, or greatest, of values among which it is. That is NaN where
        any of these is, so that just one of two NaN need be looked at."""
        equal = self.of.compare("==", left, right)
        if not left.dtype.is_float:
            return equal
        nan = self.of.compare("!=", left, left)
        return self.of.either(equal, nan)

    # --- plain values -------------------------------------------------------------------------

    def _assign_in_place(self) -> None:
        """`=` where each place has a variable of its own: what no instance writes is kept."""
        statement, made = self.statement, self.made
        values = self._separate(statement.values)
        for position, value in enumerate(values):
            target = statement.targets[position]
            place = self._place(target)
            if self.domain is not None:
                own = tuple(p.Index(v, span=self.span) for v in place.variables)
                value = self.of.select(self.domain, value, self._kept(target, own, value.dtype))
            self._add_placed(self._name_of(position), target, place, value, "=", False, "")
            made.written.add(target)

    def _kept(self, target: str, place: tuple[p.Expr, ...], dtype: DType) -> p.Expr:
        """What a target holds at a place before the statement; 0 where it holds nothing yet."""
        if target not in self.made.written and target not in self.made.initial:
            return p.Literal(identity("+", dtype), dtype, span=self.span)
        return self._at(target, dtype, place)

    def _assign(self) -> None:
        """`=` at computed places: first which instance writes each element, as a number, and then
        what that one writes."""
        statement, made = self.statement, self.made
        values = self._separate(statement.values)
        if self.each.checked:  # where instances have their own variables, which errors tell
            values = [self._stored(value) or value for value in values]
        writers: dict[tuple[int, ...], tuple[_Place, str, list[str]]] = {}
        for position, (target, value) in enumerate(zip(statement.targets, values, strict=True)):
            shape = made.shapes[target]
            if shape not in writers:
                writers[shape] = self._writers(target, is_first=not writers)
            place, last, counted = writers[shape]
            found = self._read(last, self._deciding(place))
            indices = {**self._instance(found, counted), **place.moved}
            for variable, index in indices.items():
                value = substituted(value, variable, index)
            own = tuple(p.Index(v, span=self.span) for v in place.variables)
            exists = self.of.compare("!=", found, self.of.number(NONE))
            value = self.of.select(exists, value, self._kept(target, own, value.dtype))
            ranges = {**self.each.ranges, **place.ranges}
            name, value = self._name_of(position), self._renewed(value)
            self._add(name, target, place.variables, (), "=", False, value, ranges)
            made.written.add(target)

    def _writers(self, target: str, *, is_first: bool) -> tuple[_Place, str, list[str]]:
        """The plain left side for a target, a tensor with the number of the instance that writes
        each element, and the variables that the number counts."""
        place = self._place(target)
        counted = [v for v in self.statement.variables if v not in (*place.variables, *place.moved)]
        number = self._number_of(counted)
        last = self._numbers("max", number, place, target)
        if self.each.is_checked_once and self.made.check and is_first:
            first = self._numbers("min", number, place, target)
            self._check_once(first, last, place, counted)
        return place, last, counted

    def _number_of(self, counted: Sequence[str]) -> p.Expr:
        """The number of an instance, from the values of the variables that are counted."""
        ranges = [self.each.ranges[variable] for variable in counted]
        return self.of.flattened(
            [
                self.of.plus(self.of.index(v), -r.begin)
                for v, r in zip(counted, ranges, strict=True)
            ],
            [own.extent for own in ranges],
        )

    def _instance(self, number: p.Expr, counted: Sequence[str]) -> dict[str, p.Expr]:
        """The values of the variables that are counted, from the number of an instance."""
        ranges = [self.each.ranges[variable] for variable in counted]
        digits = self.of.digits(number, [own.extent for own in ranges])
        return {
            variable: self.of.plus(digit, own.begin)
            for variable, digit, own in zip(counted, digits, ranges, strict=True)
        }

    def _deciding(self, place: _Place) -> tuple[str, ...]:
        """The variables of a plain left side on which it depends which instance writes an element,
        but for the values of bare variables."""
        bare = {s.name for s in self.statement.subscripts if isinstance(s, p.Index)}
        return tuple(v for v in place.variables if v not in bare or self._is_needed_elsewhere(v))

    def _numbers(self, op: str, number: p.Expr, place: _Place, target: str) -> str:
        """The least or greatest number of an instance that writes each element; NONE, or the
        greatest that there is, where none does."""
        kind = "last" if op == "max" else "first"
        deciding = self._deciding(place)
        extents = zip(place.variables, self.made.shapes[target], strict=True)
        shape = tuple(extent for variable, extent in extents if variable in deciding)
        tensor = self.made.temporary(f"{target}.{kind}", INT64, shape, self.span)
        guard = self._guard(place)
        assert guard is not None
        value = self.of.select(guard, number, self.of.identity(op, INT64))
        own = replace(place, variables=deciding)
        spread = {v for v in place.variables if v not in deciding}
        name = f"{self.statement.name}.{tensor}"
        is_once = not (self.made.check and self.each.is_checked_once)
        is_once = is_once and all(self.each.ranges[v].extent for v in spread)  # else none writes
        self._add_placed(name, tensor, own, value, op, True, "", spread, once=is_once)
        return tensor

    def _check_once(self, first: str, last: str, place: _Place, counted: Sequence[str]) -> None:
        """A statement that checks that no element is written twice (S2); it tells the place, and
        the values of all variables in the first and in the last instance."""
        deciding = self._deciding(place)
        low, high = self._read(first, deciding), self._read(last, deciding)
        none = self.of.compare("==", high, self.of.number(NONE))
        once = p.Logical("||", (none, self.of.compare("==", low, high)), span=self.span)
        own: dict[str, p.Expr] = {
            v: p.Index(v, span=self.span)
            if v in deciding
            else self.of.number(self.each.ranges[v].begin)
            for v in place.variables
        }
        told: list[p.Expr] = [*own.values()]
        for number in (low, high):
            values = {**own, **place.moved, **self._instance(number, counted)}
            told += (values[v] for v in self.statement.variables)
        check = p.Check("twice", (once,), tuple(told), span=self.span)
        name = self.made.temporary(f"{self.statement.target}.twice", INT64, (), self.span)
        ranges = {**self.each.ranges, **place.ranges}
        self._add(
            f"{self.statement.name}.twice", name, (), place.variables, "max", True,
            self._renewed(check), ranges,
        )  # fmt: skip

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


def _is_exact(value: p.Expr) -> bool:
    """Whether an expression has the same bits wherever it is computed: an element, or what is made
    of it without rounding."""
    return not value.dtype.is_float or all(
        isinstance(node, p.Read | p.Literal | p.Unary | p.Select | p.Compare | p.Logical | p.Index)
        or (isinstance(node, p.Binary) and (node.op in ("min", "max") or not node.dtype.is_float))
        or (isinstance(node, p.Call) and node.function == "fabs")
        or isinstance(node, p.Size | p.Extent | p.Convert | p.Bits)
        for node in p.walk(value)
    )
