"""Splitting reductions into partial ones: a long reduction to few elements has nothing parallel.

`s +=! X(i,j) * Y(j,i)` becomes `t(i) +=! X(i,j) * Y(j,i)` and `s +=! t(i)`: each t(i) is
independent. The parts are the same for any number of threads, so the bits of the result are too;
R5 allows the order, as it allows any. Statements with checks keep theirs. Where no variable has a
number of values that suits, the longest is cut into strips: `s +=! x(i)` becomes
`t(p) +=! x(p * L + i)`, `s +=! t(p)`, and `s += x(i)` for the few that are left.

Where all elements need all of an operand, as in `C(i,j) +=! A(k,i) * B(k,j)`, more of them count as
few: a strip of the operands stays in the cache for all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import gcd, prod

from tc.affine.forms import Form
from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.rewriting import REST, Rewriting, unused_name
from tc.polyhedral.rewrite.simplifying import substituted
from tc.polyhedral.rewrite.thresholds import BlockSplits, Thresholds
from tc.semantics.bounded_sums import data_bounded
from tc.semantics.program import (
    Range,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    index_names,
    walk,
)
from tc.semantics.selected_sums import selected_variables

_PARTIAL = "part"

MANY = 1 << 62


def name_of_partial(statement: str) -> str:
    """What the statement is called whose partial reductions a statement combines.

    >>> name_of_partial("S0")
    'S0.part'
    """
    return f"{statement}.{_PARTIAL}"


def is_partial(statement: str) -> bool:
    """Whether a statement of this name computes partial reductions.

    >>> is_partial("S0.part"), is_partial("S0")
    (True, False)
    """
    return statement.endswith(f".{_PARTIAL}")


def split(
    shaped: ShapedProgram,
    thresholds: Thresholds | None = None,
    forms: Mapping[str, str] | None = None,
) -> ShapedProgram:
    """The program with long reductions to few elements split along one variable; of scatters to
    which `forms` give one, by statement, just those that have "parts" (X2).

    The temporaries are new, named after the target ("s.p0"); the statement that combines them
    keeps its name. A program in which nothing is split is returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(I,J) X) -> (s) { s +=! X(i,j) }")
    >>> parts = split(infer_ranges(check(parse(source)), {"X": (1000, 1000)}, {}))
    >>> [statement.text for statement in parts.program.statements]
    ['s.p0(i) +=! X(i, j)', 's +=! s.p0(i)']
    >>> row = Source("def f(float(I) x) -> (s) { s +=! x(i) }")
    >>> parts = split(infer_ranges(check(parse(row)), {"x": (100_000,)}, {}))
    >>> [statement.text for statement in parts.program.statements]
    ['s.p0(i_part) +=! x(1536 * i_part + i)', 's +=! s.p0(i_part)', 's += x(i)']
    """
    rewriting, limits = Rewriting(shaped, "split"), thresholds or Thresholds()
    whole = replace(limits.splitting_all(), few=MANY, shared=MANY)

    def each(old: ShapedStatement) -> list[ShapedStatement] | None:
        form = (forms or {}).get(old.statement.name)
        if form is None:
            return _split(old, rewriting, limits)
        return _split(old, rewriting, whole) if form == "parts" else None

    return rewriting.program(each, partials_first)


def partials_first(statements: list[ShapedStatement]) -> list[ShapedStatement]:
    """The statements with partial reductions before what finishes those in front of them, where
    neither touches what the other writes: neighbours may share loops."""
    names = {s.statement.name for s in statements}
    combined = {name for name in names if name_of_partial(name) in names}
    partial = set(map(name_of_partial, combined))
    order: list[ShapedStatement] = []
    for shaped in statements:
        place, statement = len(order), shaped.statement
        while statement.name in partial and place:
            before = order[place - 1].statement
            is_passed = before.name.removesuffix(f".{REST}") in combined
            if not is_passed or not _are_independent(before, statement):
                break
            place -= 1
        order.insert(place, shaped)
    return order


def _are_independent(one: Statement, other: Statement) -> bool:
    """Whether neither statement touches what the other writes."""
    return not any(
        a.target == b.target
        or any(isinstance(n, Read) and n.tensor == a.target for n in walk(b.rhs))
        for a, b in ((one, other), (other, one))
    )


def _is_long(old: ShapedStatement, limits: Thresholds) -> bool:
    """Whether a reduction is long, and to few elements."""
    most = limits.few if _has_own_reads(old) else limits.shared
    return at_hint(_elements(old)) <= most and at_hint(_steps(old)) >= limits.long


def _elements(old: ShapedStatement) -> int:
    return prod(old.ranges[v].extent for v in old.statement.outer)


def _has_own_reads(old: ShapedStatement) -> bool:
    """Whether a variable of the left side is in each subscript list that is read: threads that
    share its values among them read nothing twice. A product of matrices has none."""
    return bool({*old.statement.outer}.intersection(*_read_variables(old)))


def _read_variables(old: ShapedStatement) -> list[set[str]]:
    reads = (node for node in walk(old.statement.rhs) if isinstance(node, Read))
    return [{*index_names(node)} for node in reads]


def _steps(old: ShapedStatement) -> int:
    return prod(old.ranges[v].extent for v in old.statement.reduction)


def _starting_at_0(old: ShapedStatement) -> dict[str, int]:
    """The reduction variables that begin at 0, as the elements of a temporary do, which must all
    be written, with their numbers of values."""
    ranges = {v: old.ranges[v] for v in old.statement.reduction}
    return {v: r.extent for v, r in ranges.items() if r.begin == 0}


def _variable(old: ShapedStatement, limits: Thresholds) -> str | None:
    """The variable to split along, if that is worthwhile: the first of as many values as give
    enough parts, and parts long enough. Parts of more than a few elements are few."""
    parts = _starting_at_0(old)
    most = _steps(old) // limits.left if _elements(old) <= limits.few else limits.strips
    enough = (v for v, n in parts.items() if limits.parts <= n <= most)
    return next(enough, None)


def _split(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[ShapedStatement] | None:
    if old.statement.op == "=" or old.checked or old.is_empty:
        return None
    if data_bounded(old.statement):  # rows are as long as data say
        return None
    if limits.blocks is not None:
        return _over_blocks(old, rewriting, limits.blocks)
    if selected := selected_variables(old.statement):
        return _scattered(old, rewriting, limits, selected)
    if not _is_long(old, limits):
        return None
    variable = _variable(old, limits)
    if variable is None:
        return _cut(old, rewriting, limits)
    return partials(old, rewriting, _with_part(old, variable))


def _with_part(old: ShapedStatement, variable: str) -> tuple[str, ...]:
    """The variables of partial results along one more variable: where all elements of a part read
    what the part reads, parts are outermost."""
    outer = old.statement.outer
    return (*outer, variable) if _has_own_reads(old) else (variable, *outer)


def partials(
    old: ShapedStatement, rewriting: Rewriting, outer: tuple[str, ...]
) -> list[ShapedStatement]:
    """A reduction to an element for all values of `outer`, variables of the left side and of the
    reduction, and the reduction along the latter."""
    statement = old.statement
    rest = tuple(v for v in statement.reduction if v not in outer)
    partial, read = rewriting.store(old, statement.rhs, outer, rest, name=_PARTIAL, kind="p")
    return [partial, rewriting.remaining(old, read, outer)]


def _cut(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[ShapedStatement] | None:
    """A reduction whose longest variable is cut into strips, whose lengths are multiples of
    `limits.strip`, and what is left behind the last of them. Not where a value is rounded when it
    is stored (Y8): what is left would round it again."""
    statement, starting = old.statement, _starting_at_0(old)
    variable = max(starting, key=lambda v: starting[v], default=None)
    if variable is None or variable not in index_names(statement.rhs):
        return None
    extent = starting[variable]
    length = max(extent // limits.strips // limits.strip, 1) * limits.strip
    number = extent // length
    if number < limits.parts:
        return None
    return _in_strips(old, rewriting, variable, length, lambda strip: _with_part(old, strip))


def _scattered(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds, selected: Iterable[str]
) -> list[ShapedStatement] | None:
    """A reduction of which each term goes to one element, in parts: what starts and combines their
    results takes less time than the terms then. What no part has is a part, too: terms would be
    compared with all elements where results are combined."""
    statement, elements, steps = old.statement, at_hint(_elements(old)), at_hint(_steps(old))
    places = prod(at_hint(old.ranges[v].extent) for v in selected)
    most = min(limits.strips, steps // max(limits.filled * places, 1))
    is_small = elements <= max(limits.shared, steps // max(limits.filled, 1))
    if steps < limits.long or most < 2 or not is_small:
        return None
    starting = _starting_at_0(old)
    whole = next((v for v, n in starting.items() if limits.parts <= n <= most), None)
    if whole is not None:
        return partials(old, rewriting, _with_part(old, whole))
    variable = max(starting, key=lambda v: starting[v], default=None)
    if variable is None or variable not in index_names(statement.rhs):
        return None
    length = starting[variable] // min(most, starting[variable])
    made = _in_strips(old, rewriting, variable, length, lambda part: _with_part(old, part))
    return made and _with_rest_apart(made, rewriting)


def _in_strips(
    old: ShapedStatement,
    rewriting: Rewriting,
    variable: str,
    length: int,
    with_part: Callable[[str], tuple[str, ...]],
) -> list[ShapedStatement] | None:
    """A reduction in strips of one variable, and what is left behind the last strip."""
    statement, extent = old.statement, old.ranges[variable].extent
    number = extent // length
    if rewriting.shaped.program.tensors[statement.target].dtype != statement.rhs.dtype:
        return None
    strip = unused_name(
        f"{variable}_part", {*statement.variables, *rewriting.shaped.program.tensors}
    )
    cut = replace(
        old,
        statement=substituted(statement, {variable: Form(0, {strip: length, variable: 1})}),
        ranges={**old.ranges, strip: Range(0, number), variable: Range(0, length)},
    )
    made = partials(cut, rewriting, with_part(strip))
    if number * length < extent:
        made.append(rewriting.apart(old, {variable: Range(number * length, extent)}))
    return made


# --- over the blocks of a device ----------------------------------------------------------------

_TRIED = 128
"""Lengths of strips that are tried."""

_LEFT = 4
"""How many times longer steps take that no strip has, where no others are left."""

_WIDE, _NEAR = 4, 64
"""Strips of neighbours in memory have a multiple of so many of them, and so many or more: as many
as buffers hold at a time."""

_TURN, _LAUNCH = 6, 96
"""The time between two turns of such buffers, and that of a launch for what no strip has, in
steps."""

_MOST_LEFT = 128
"""Steps that no strip has, and parts, up to which what combines the parts takes such steps, too."""


def _over_blocks(
    old: ShapedStatement, rewriting: Rewriting, limits: BlockSplits
) -> list[ShapedStatement] | None:
    """A reduction of few elements in so many parts that all of a device computes them: a part has
    one value of some variables, and a strip of one more."""
    most = _wanted_parts(old, limits)
    if _steps(old) < limits.long or most < 2:
        return None
    outer = old.statement.outer
    is_near = bool(outer) and old.ranges[outer[-1]].extent >= limits.near

    def with_parts(*parts: str) -> tuple[str, ...]:
        return (*parts, *outer) if is_near else (*outer, *parts)

    last = {v for node in _reads(old) for v in index_names(node.subscripts[-1])}
    extents = {v: n for v, n in _starting_at_0(old).items() if n > 1}
    apart = [v for v in extents if v not in last]
    whole = max(
        (found for n in range(3) for found in combinations(apart, n)),
        key=lambda found: (p := _parts_of(found, extents)) * (p <= most),
    )
    found = _parts_of(whole, extents)
    left = {v: n for v, n in extents.items() if v not in whole and v in _read(old)}
    cut = max(left, key=lambda v: (v not in last, left[v]), default=None)
    if cut is not None and most >= 2 * found:
        length = _strip(left[cut], most // found, found, near=cut in last)
        if 1 < length <= left[cut] // 2:
            made = _in_strips(old, rewriting, cut, length, lambda strip: with_parts(*whole, strip))
            rest = left[cut] % length * (_steps(old) // left[cut])
            number = left[cut] // length * found
            is_long = rest > _MOST_LEFT or number > _MOST_LEFT
            return made and (_with_rest_apart(made, rewriting, limits) if is_long else made)
        if length == 1 and len(whole) + 1 < len(extents):
            whole = (*whole, cut)
    if whole and len(whole) < len(old.statement.reduction):
        return partials(old, rewriting, with_parts(*whole))
    return None


def _with_rest_apart(
    made: list[ShapedStatement], rewriting: Rewriting, limits: BlockSplits | None = None
) -> list[ShapedStatement]:
    """What strips have left behind as a sum of its own, so that what combines their sums reads no
    more than sums; in parts itself, where it is long, if `limits` say so."""
    *others, last = made
    if last.statement.name.endswith(f".{REST}") and last.statement.outer:
        rest = _over_blocks(last, rewriting, limits) if limits else None
        return [*others, *(rest or partials(last, rewriting, last.statement.outer))]
    return made


def _wanted_parts(old: ShapedStatement, limits: BlockSplits) -> int:
    """How many parts a reduction may have at most."""
    elements, steps = max(_elements(old), 1), _steps(old)
    outer = {*old.statement.outer}
    own = [node for node in _reads(old) if outer.issubset(index_names(node))]
    if not own and not _has_own_reads(old):
        return min(limits.products // elements, steps // limits.steps)
    largest = max(
        own or _reads(old),
        key=lambda node: prod(old.ranges[v].extent for v in {*index_names(node)}),
        default=None,
    )
    if largest is not None and outer.intersection(index_names(largest.subscripts[-1])):
        return min(limits.columns // elements, steps // limits.column_steps)
    return min(limits.rows // elements, steps // limits.row_steps)


def _strip(extent: int, parts: int, others: int, *, near: bool) -> int:
    """How long strips are, of which there are about so many: few steps are left behind the last,
    for each of which so many `others` are taken one after the other; and strips of neighbours in
    memory have a part that buffers hold at a time.

    >>> _strip(1000, 8, 1, near=False), _strip(1000, 8, 1, near=True)
    (125, 160)
    >>> _strip(1021, 8, 1, near=False), _strip(1021, 8, 1, near=True)
    (145, 144)
    """
    least = -(-extent // parts)
    least, wide = (max(least, _NEAR), _WIDE) if near else (least, 1)
    first = -(-least // wide) * wide
    tried = range(first, min(3 * least, extent // 2, first + _TRIED * wide) + 1, wide)

    def cost(length: int) -> float:
        rest = extent % length
        if not near:
            return length + _LEFT * others * rest
        held = gcd(length, _NEAR)
        return length * (1 + _TURN / held) + others * rest + _LAUNCH * (rest > 0)

    return min(tried, key=cost, default=extent)


def _parts_of(variables: Sequence[str], extents: Mapping[str, int]) -> int:
    return prod(extents[v] for v in variables)


def _read(old: ShapedStatement) -> set[str]:
    return {*index_names(old.statement.rhs)}


def _reads(old: ShapedStatement) -> list[Read]:
    reads = (node for node in walk(old.statement.rhs) if isinstance(node, Read))
    return [node for node in reads if node.subscripts]
