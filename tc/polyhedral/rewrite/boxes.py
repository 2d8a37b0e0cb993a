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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tc.builtins import identity
from tc.dtypes import INT64, DType, limits
from tc.polyhedral.rewrite.box_statements import BoxProgram, BoxStatements, Place
from tc.polyhedral.rewrite.expressions import conjunction
from tc.polyhedral.rewrite.rewriting import rewrite
from tc.semantics import program as p
from tc.semantics.dependent_ranges import substituted

NONE = limits(INT64)[0]
"""The number of no instance."""

MAX_STORED = 1 << 24
"""The most values that are stored so that they can be compared later."""


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
    >>> from tc.source import Source
    >>> text = "def h(int(N) I) -> (h) { h(I(n)) +=! 1 where h.0 = 5 }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"I": (9,)}, {})
    >>> for statement in as_boxes(shaped, frozenset(), check=False).program.statements:
    ...     print(statement.text)
    h(p0) +=! I(n) == p0 ? 1 : 0
    """
    if all(each.statement.is_plain for each in shaped.statements):
        return shaped
    made = BoxProgram(shaped, initial, check, check or places, at_once)
    for each in shaped.statements:
        if each.statement.is_plain:
            made.add(each)
        else:
            _Boxes(each, made).add_all()
    return made.program()


class _Boxes(BoxStatements):
    """One statement of a program as boxes."""

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
            inner = self._inner()
            if inner:
                values = self._summed(values, inner)
            elif self.each.checked and not self._is_plain_place and not self._is_ragged:
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

    def _inner(self) -> tuple[str, ...]:
        """The variables over which terms are combined before they go to a computed place that none
        of them decides, where their ranges follow from those that do: rows of terms, and prefixes,
        are then reductions as others are. Nothing where there is no room for what goes there."""
        statement, ranges = self.statement, self.each.ranges
        deciding = {name for s in statement.subscripts for name in p.index_names(s)}
        inner = tuple(v for v in statement.variables if v not in deciding)
        bounds = {clause.variable: set(clause.depends_on) for clause in statement.where}
        follow = any(bounds.get(v, set()) & deciding for v in inner)
        lead = any(bounds.get(v, set()) & set(inner) for v in deciding)
        if self._is_plain_place or not follow or lead:
            return ()
        if any(ranges[v].begin < 0 for v in deciding):
            return ()
        return inner if prod(ranges[v].end for v in deciding) <= MAX_STORED else ()

    def _summed(self, values: Sequence[p.Expr], inner: Sequence[str]) -> list[p.Expr]:
        """The values of the targets, combined over `inner`; the statement has no such variables
        from then on."""
        statement, op = self.statement, self.statement.op
        names = tuple(v for v in statement.variables if v not in inner)
        shape = tuple(self.each.ranges[name].end for name in names)
        found = []
        for position, value in enumerate(values):
            target = f"{statement.targets[position]}.sum"
            tensor = self.made.temporary(target, value.dtype, shape, self.span)
            term = value
            if self.domain is not None:
                term = self.of.select(self.domain, value, self.of.identity(op, value.dtype))
            place = Place(names, {}, (), {})
            name = f"{self._name_of(position)}.{tensor}"
            self._add_placed(name, tensor, place, term, op, True, "")
            found.append(self._read(tensor, names))
        tests = () if self.domain is None else p.conjuncts(self.domain)
        left = [test for test in tests if not {*inner}.intersection(p.index_names(test))]
        self.domain = conjunction(left)
        self.statement = replace(
            statement,
            variables=names,
            where=tuple(clause for clause in statement.where if clause.variable not in inner),
        )
        return found

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
        writers: dict[tuple[int, ...], tuple[Place, str, list[str]]] = {}
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

    def _writers(self, target: str, *, is_first: bool) -> tuple[Place, str, list[str]]:
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

    def _deciding(self, place: Place) -> tuple[str, ...]:
        """The variables of a plain left side on which it depends which instance writes an element,
        but for the values of bare variables."""
        bare = {s.name for s in self.statement.subscripts if isinstance(s, p.Index)}
        return tuple(v for v in place.variables if v not in bare or self._is_needed_elsewhere(v))

    def _numbers(self, op: str, number: p.Expr, place: Place, target: str) -> str:
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

    def _check_once(self, first: str, last: str, place: Place, counted: Sequence[str]) -> None:
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
