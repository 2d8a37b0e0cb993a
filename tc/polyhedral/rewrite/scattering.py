"""Scatters for devices whose threads all work at once: each term goes where it belongs.

`h(p) +=! I(n) == p ? x(n) : 0` compares all terms with all places. Where it is known that no two
terms meet, as of the numbers of the instances of `o(I(n)) = x(n)`, each is written where it
belongs, by any thread at any time:

    w(p) = none
    w(I(n)) = n where 0 <= I(n), I(n) < P

Where several may meet, threads that write at once would have to take turns, and the order of a sum
of floats would be that of time. So the terms are sorted by their places first, by a stable counting
sort of one digit of the places after the other: of a chunk of terms, each counts the terms before
it that have its digit, which is its rank, and the last one of a digit knows how many there are;
sums of these counts, over digits and chunks, say where the first one of each goes. Then the terms
of a place stand next to each other, in the order of the text, and are added up by the thread of the
place:

    h(p) +=! start(p) <= v && v < end(p) ? x(order(v)) : 0

(Satish, Harris, Garland, "Designing Efficient Sorting Algorithms for Manycore GPUs", 2009.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from tc.dtypes import INT32, INT64, limits
from tc.extents.sizes import is_tracked
from tc.polyhedral.rewrite.atomic_sums import TERM, may_meet, meet
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.one_hot import NumberedTerms, OneHot, one_hot
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.rewrite.splitting import name_of_partial
from tc.polyhedral.rewrite.thresholds import SortCosts, Thresholds
from tc.semantics import program as p

MOST_PASSES = 4

_KEY = "key"

NO_FORMS: Mapping[str, str] = MappingProxyType({})


def scatter(
    shaped: p.ShapedProgram, limits: Thresholds, forms: Mapping[str, str] = NO_FORMS
) -> p.ShapedProgram:
    """The program with terms that go where data say written there, or sorted: the latter where that
    costs less than comparisons of terms with places, by `limits.sorting`, or where `forms` ask for
    it, by statement; the very same where there are none. The bits of the results are the same for
    any number of blocks and threads.

    >>> from tc.frontend.parser import parse
    >>> from tc.polyhedral.rewrite.boxes import as_boxes
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(int(N) I, float(N) x) -> (float(9) o) { o(I(n)) = x(n) }"
    >>> shaped = infer_ranges(check(parse(Source(text))), {"I": (7,), "x": (7,)}, {})
    >>> boxes = as_boxes(shaped, frozenset(), check=False)
    >>> for each in scatter(boxes, Thresholds()).statements[:2]: print(each.statement.text)
    o.last(p0) = -9223372036854775808
    o.last(I(n)) = n where 0 <= I(n), I(n) < 9
    """
    if any(map(is_tracked, (n for shape in shaped.shapes.values() for n in shape))):
        return shaped
    rewriting = Rewriting(shaped, "scattered")
    return rewriting.program(lambda old: _scattered(old, rewriting, limits, forms))


def form_of(name: str, shaped: p.ShapedProgram) -> str | None:
    """The form that a scatter has where its terms are sorted, in parts, or meet in memory; None for
    others."""
    names = {s.name for s in shaped.program.statements}
    if f"{name}.{TERM}" in names:
        return "atomic"
    if f"{name}.{_KEY}" in names:
        return "sorted"
    return "parts" if name_of_partial(name) in names else None


def is_scatter(old: p.ShapedStatement) -> bool:
    """Whether a statement has a form (X2): a reduction whose terms go where data say, without tests
    of its own."""
    is_plain = not old.checked and not old.is_empty and not old.statement.once
    return is_plain and one_hot(old) is not None


def _scattered(
    old: p.ShapedStatement, rewriting: Rewriting, limits: Thresholds, forms: Mapping[str, str]
) -> list[p.ShapedStatement] | None:
    found = None if old.checked or old.is_empty else one_hot(old)
    if found is None:
        return None
    if old.statement.once and old.statement.init:
        return _written(found, rewriting)
    form = forms.get(old.statement.name)
    if form == "sorted":
        costs = limits.sorting or SortCosts(launches=0)
        return _Sorting(found, rewriting, costs=costs).statements()
    if form not in (None, "atomic"):
        return None
    if limits.atomics is not None and may_meet(found, limits.atomics):
        terms = found.count((*found.terms, *found.batch))
        pays = form == "atomic" or limits.atomics.cost(terms) < found.comparisons
        return meet(found, rewriting, limits.atomics) if pays else None
    if limits.sorting is None:
        return None
    sorting = _Sorting(found, rewriting, costs=limits.sorting)
    pays = sorting.passes.cost * found.count((*found.terms, *found.batch)) < found.comparisons
    return sorting.statements() if pays else None


def _written(found: OneHot, rewriting: Rewriting) -> list[p.ShapedStatement]:
    """Terms of which no two meet: all elements start at the identity, and each term is written
    where it belongs."""
    old, statement = found.old, found.old.statement
    of = Expressions(statement.span)
    start = of.identity(statement.op, found.rhs.dtype)
    ranges = {v: old.ranges[v] for v in statement.outer}
    made = [
        rewriting.made(old, "start", statement.target, statement.subscripts, start, ranges),
    ]
    variables = tuple(v for v in statement.variables if v not in found.selected)
    write = replace(
        statement,
        subscripts=tuple(rewriting.again(found.moved(s, of)) for s in statement.subscripts),
        outer=variables,
        variables=variables,
        op="=",
        init=False,
        rhs=rewriting.again(found.moved(found.rhs.then, of)),
        conditions=tuple(map(rewriting.again, found.conditions(of))),
        once=False,
    )
    made.append(rewriting.changed(write, {v: old.ranges[v] for v in variables}, old))
    return made


# --- sorted terms -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Passes:
    """A sort by `count` digits of `radix` values, of chunks of so many terms; what it takes for
    each term, in comparisons."""

    count: int
    radix: int
    chunk: int
    cost: float


def _passes(terms: int, places: int, costs: SortCosts) -> _Passes:
    """The passes of the sort of terms by their places that take least.

    >>> costs = SortCosts(launches=1 << 29)
    >>> found = [_passes(1_000_000, places, costs) for places in (200, 10_000, 1_000_000)]
    >>> [(each.count, each.radix, each.chunk) for each in found]
    [(1, 200, 128), (2, 100, 64), (3, 100, 64)]
    """

    def sort_in(count: int, chunk: int) -> _Passes:
        radix = max(ceil(places ** (1 / count) - 1e-9), 1)
        while radix**count < places:
            radix += 1
        own = 2 * chunk + costs.counted * radix / chunk + costs.moved
        launched = costs.launches * (count + 1) / 2 / max(terms, 1)
        return _Passes(count, radix, chunk, count * own + launched)

    tried = (sort_in(n, chunk) for n in range(1, MOST_PASSES + 1) for chunk in costs.chunks)
    return min(tried, key=lambda each: each.cost)


@dataclass
class _Sorting(NumberedTerms):
    """Makes the statements of a sum of sorted terms."""

    costs: SortCosts = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        terms = self.found.count(self.found.terms)
        self.passes = _passes(terms, self.found.places, self.costs)
        self.chunk = self.passes.chunk
        self.chunks = -(-terms // self.chunk)
        self.length = self.chunks * self.chunk
        self.u, self.v, self.c, self.i, self.j = self.unused("u", "v", "c", "i", "j")
        self.small = INT32 if max(self.length, self.found.places) < limits(INT32)[1] else INT64

    def small_number(self, value: int) -> p.Expr:
        return self.of.converted(self.of.number(value), self.small)

    # --- the sort -----------------------------------------------------------------------------

    def statements(self) -> list[p.ShapedStatement]:
        """The sort of the terms, and the sums of those of each place."""
        of, length = self.of, self.length
        keys = sorted_ = self.add(_KEY, self._key(of.index(self.u)), {self.u: length})
        order: str | None = None
        for number in range(self.passes.count):
            order = self._pass(sorted_, order, self.passes.radix**number)
            own = of.converted(self.at(order, of.index(self.u)), INT64)
            is_there = of.compare(">=", own, of.number(0))
            sorted_ = self.add(
                "sorted",
                of.select(is_there, self.at(keys, own), self.small_number(-1)),
                {self.u: length},
            )
        assert order is not None
        self._add_sums(order, *self._segments(sorted_))
        return self.made

    def _key(self, number: p.Expr) -> p.Expr:
        """The number of the place where a term belongs, -1 where it belongs nowhere."""
        of, found = self.of, self.found
        tests: list[p.Expr] = []
        if self.length > found.count(found.terms):
            tests.append(of.compare("<", number, of.number(found.count(found.terms))))
        for test in found.tests:
            variable = next((v for v, s in found.selected.items() if s.test is test), None)
            own = (test,) if variable is None else found.bounds(variable, of)
            tests += (self.term(each, number) for each in own)
        places = {v: of.converted(s.value, INT64) for v, s in found.selected.items()}
        key = self.term(self._flat(places), number)
        condition = conjunction(tests)
        assert condition is not None
        return of.select(condition, of.converted(key, self.small), self.small_number(-1))

    def _flat(self, places: Mapping[str, p.Expr]) -> p.Expr:
        """The number of a place."""
        ranges = {v: self.old.ranges[v] for v in self.found.selected}
        return self.of.flattened(
            [self.of.plus(places[v], -own.begin) for v, own in ranges.items()],
            [own.extent for own in ranges.values()],
        )

    def _pass(self, keys: str, order: str | None, stride: int) -> str:
        """A stable sort by one digit of the keys. Returns the order: the numbers of terms, and -1
        behind the last one."""
        of, radix, chunks = self.of, self.passes.radix, self.chunks
        c, i, j = map(of.index, (self.c, self.i, self.j))
        over = {self.c: chunks, self.j: self.chunk}
        one, zero = self.small_number(1), self.small_number(0)
        number = of.plus_all(of.times(c, self.chunk), j)
        key = self.at(keys, number)
        wide = of.converted(key, INT64)
        value = of.binary("%", of.binary("/", wide, of.number(stride)), of.number(radix))
        is_there = of.compare(">=", wide, of.number(0))
        value = of.converted(value, self.small)
        digit = self.add("digit", of.select(is_there, value, self.small_number(-1)), over)
        is_same = of.compare("==", self.at(digit, c, i), self.at(digit, c, j))
        ranks = []
        for name, test in (("before", of.compare("<", i, j)), ("behind", of.compare("<", j, i))):
            both = conjunction((test, is_same))
            assert both is not None
            counted = of.select(both, one, zero)
            inner = {**over, self.i: self.chunk}
            ranks.append(self.add(name, counted, inner, op="+", reduced=(self.i,)))
        before, behind = (self.at(rank, c, j) for rank in ranks)
        own = of.converted(self.at(digit, c, j), INT64)
        is_there = of.compare(">=", own, of.number(0))
        place = of.plus_all(of.times(own, chunks), c)
        counts = self.add(
            "count",
            p.Binary("+", before, one, self.small, span=of.span),
            over,
            shape=(radix * chunks,),
            place=(place,),
            conditions=(is_there, of.compare("==", behind, zero)),
        )
        first = self._sums_before(counts, radix * chunks)(place)
        target = self.add("order", self.small_number(-1), {self.u: self.length})
        own_number = number if order is None else self.at(order, number)
        self.add(
            "place",
            of.converted(own_number, self.small),
            over,
            into=target,
            place=(of.plus_all(of.converted(first, INT64), of.converted(before, INT64)),),
            conditions=(is_there,),
        )
        return target

    def _sums_before(self, tensor: str, length: int) -> Callable[[p.Expr], p.Expr]:
        """The sum of all that stands before a place."""
        of, zero, summed = self.of, self.small_number(0), self.costs.summed
        c, i, j = map(of.index, (self.c, self.i, self.j))
        if length <= summed:
            each = of.select(of.compare("<", i, j), self.at(tensor, i), zero)
            over = {self.j: length, self.i: length}
            all_before = self.add("sum", each, over, op="+", reduced=(self.i,))
            return lambda place: self.at(all_before, place)
        parts = -(-length // summed)
        place = of.plus_all(of.times(c, summed), i)
        is_there = of.compare("<", place, of.number(length))
        each = of.select(is_there, self.at(tensor, place), zero)
        over = {self.c: parts, self.i: summed}
        totals = self.add("chunk", each, over, op="+", reduced=(self.i,))
        around = self._sums_before(totals, parts)
        both = conjunction((of.compare("<", i, j), is_there))
        assert both is not None
        each = of.select(both, self.at(tensor, place), zero)
        over = {self.c: parts, self.j: summed, self.i: summed}
        inside = self.add("sum", each, over, op="+", reduced=(self.i,))

        def before(place: p.Expr) -> p.Expr:
            part, own = of.digits(place, (parts, summed))
            both = around(part), self.at(inside, part, own)
            return p.Binary("+", *both, self.small, span=of.span)

        return before

    # --- the sums -----------------------------------------------------------------------------

    def _segments(self, keys: str) -> tuple[str, str]:
        """Where the terms of each place begin and end, of sorted keys."""
        of, places = self.of, self.found.places
        u, last = of.index(self.u), self.length - 1
        own = of.converted(self.at(keys, u), INT64)
        is_there = of.compare(">=", own, of.number(0))
        found = []
        ends = (("start", -1, 0, "==", 0), ("end", 1, 1, "==", last))
        for name, step, offset, op, edge in ends:
            other = of.converted(self.at(keys, of.plus(u, step)), INT64)
            tests = of.compare(op, u, of.number(edge)), of.compare("!=", other, own)
            found.append(
                self.add(
                    name,
                    of.converted(of.plus(u, offset), self.small),
                    {self.u: self.length},
                    shape=(places,),
                    place=(own,),
                    conditions=(is_there, p.Logical("||", tests, span=of.span)),
                )
            )
        start, end = found
        return start, end

    def _add_sums(self, order: str, start: str, end: str) -> None:
        """The statement itself, over the terms of each place."""
        of, found, statement = self.of, self.found, self.old.statement
        v = of.index(self.v)
        place = self._flat({q: of.index(q) for q in found.selected})
        number = of.converted(self.at(order, v), INT64)
        value, rest = found.rhs.then, conjunction(found.rest)
        neutral = of.identity(statement.op, value.dtype)
        if rest is not None:
            value = of.select(rest, value, neutral)
        tests = (
            of.compare("<=", of.converted(self.at(start, place), INT64), v),
            of.compare("<", v, of.converted(self.at(end, place), INT64)),
        )
        both = conjunction(tests)
        assert both is not None
        inner = tuple(w for w in statement.variables if w not in found.terms)
        reduced = [w for w in inner if w not in statement.outer]
        variables = (*statement.outer, self.v, *reduced)
        last = replace(
            statement,
            variables=variables,
            rhs=self.rewriting.again(of.select(both, self.term(value, number), neutral)),
            once=False,
        )
        ranges = {**self.old.ranges, self.v: p.Range(0, self.length)}
        ranges = {w: ranges[w] for w in variables}
        self.made.append(self.rewriting.changed(last, ranges, self.old))
