"""When fusing clusters pays: the cost model of the fusion strategy "auto"."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from tc.errors import BackendError
from tc.extents.sizes import at_hint
from tc.kernel.ir import row_major
from tc.polyhedral.rewrite.overlapped_tiles import is_of_tile
from tc.polyhedral.rewrite.splitting import is_partial, name_of_partial
from tc.polyhedral.rewrite.symmetric_sums import is_mirrored
from tc.polyhedral.rewrite.transposed_operands import is_transposed
from tc.polyhedral.rewrite.zero_factors import is_of_zeros
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.polyhedral.strategies.clusters import Accept, Cluster, Column
from tc.semantics.bounded_sums import keeps_order
from tc.semantics.size_values import KnownSizes
from tc.wording import closest


def worthwhile(
    scop: Scop,
    most_bytes: int,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    *,
    whole_products: int = 0,
) -> Accept:
    """Accepts a merge if what each iteration of the shared loops reads again (weights, say) has at
    most so many bytes, which stay in the cache from one to the next; then what one cluster gives to
    the other stays there too. Partial reductions and what combines them share no loops: these are
    over the few elements, and would stand around the many parts, which are for threads. Nor do the
    few terms that are 0 with the sums that start from what they add (`zero_factors`). Nor do
    copies of one half of a symmetric tensor to the other with anything (`symmetric_sums`). Nor do
    rows whose ends data say, prefixes, and terms that go where data say, with anything but their
    own start: their loops stay in the order of their terms. Nor do
    products that have nothing to do with each other, but happen to have equal sizes: each has a
    tile, packed operands and an order of loops that suit it. Nor do statements of as many
    instances, none of which touches what another writes, and of which one would go along the lines
    of memory inside of the shared loops, and another across them; nor do any that would go across
    them where they share a loop over tiles. Inside of shared loops, a product keeps the loops of
    its tile: only of the outermost ones are some iterations given to tiles. With `whole_products`,
    a product of so many steps or more, and partial reductions, share all of their parallel loops or
    none: blocks of threads have tiles of all; and neighbours in memory are not left to other blocks
    where each has parallel loops of its own. Inputs with `strides` are not row-major."""
    known = strides or {}

    def has_tile(name: str) -> bool:
        statement = scop.statement(name)
        is_large = _instances(statement) >= whole_products
        is_product = is_large and _reuses(statement, set(statement.outer))
        return is_product or is_partial(name)

    def has_more(name: str, columns: tuple[Column, ...]) -> bool:
        statement = scop.statement(name)
        long = {v for v in statement.outer if statement.ranges[v][1] - statement.ranges[v][0] > 1}
        return not long <= {c.values[name].variable for c in columns}

    def accept(first: Cluster, second: Cluster, columns: tuple[Column, ...]) -> bool:
        if any(name_of_partial(name) in first.statements for name in second.statements):
            return False
        if any(is_of_zeros(name) or is_transposed(name) for name in first.statements):
            return False
        names = (*first.statements, *second.statements)
        if any(scop.statement(name).meets for name in names):
            return _are_in_blocks(scop, first, second, columns, most_bytes)
        if any(map(is_mirrored, names)):
            return False
        targets = {scop.statement(name).write.tensor for name in names}
        if len(targets) > 1 and any(is_serial(scop, name) for name in names):
            return False
        is_launch = bool(whole_products) and not first.outer
        if is_launch and any(has_tile(n) and has_more(n, columns) for n in names):
            return False
        if first.outer:  # there operands that have nothing in common are in the cache
            apart = any(_loses_reuse(scop.statement(n), first.outer, columns) for n in names)
        else:
            products = all(_has_product(scop, cluster) for cluster in (first, second))
            apart = products and _are_unrelated(scop, first, second, columns)
        most = max(_instances(scop.statement(n)) for n in names)
        large = [n for n in names if 2 * _instances(scop.statement(n)) >= most]
        walks = {w for n in large for w in _walks(scop, n, (*columns, *first.outer), known)}
        parts = ([scop.statement(n) for n in c.statements] for c in (first, second))
        if apart or (len(walks) > 1 and not _give(*parts)):
            return False
        if is_launch and "across" in walks and all(has_more(n, columns) for n in names):
            return False
        before = {w for n in large for w in _walks(scop, n, first.outer, known)}
        is_held = first.outer or any(map(is_of_tile, first.statements))
        if is_held and walks == {"across"} and "along" in before:
            return False  # what one gives to the other is in the cache already
        reread: dict[str, int] = {}
        for name in names:
            statement = scop.statement(name)
            shared = {c.values[name].variable for c in (*columns, *first.outer)}
            for access in statement.reads:
                used = _variables(access, statement)
                if used and not used & shared:
                    size = at_hint(prod(e - b for b, e in (statement.ranges[v] for v in used)))
                    reread[access.tensor] = max(reread.get(access.tensor, 0), size)
        tensors = scop.shaped.program.tensors
        total = sum(size * tensors[name].dtype.bytes for name, size in reread.items())
        return total <= most_bytes

    return accept


def _are_in_blocks(
    scop: Scop, first: Cluster, second: Cluster, columns: tuple[Column, ...], most_bytes: int
) -> bool:
    """Whether terms that meet in memory (`atomic_sums`) share loops with the start of their target:
    blocks that hold what the terms of an iteration may touch."""
    starts = [scop.statement(name) for name in first.statements]
    if first.outer or len(second.statements) != 1:
        return False
    own = scop.statement(second.statements[0]).write.tensor
    if any(s.meets or s.reads or s.write.tensor != own for s in starts):
        return False
    extents = dict(zip(starts[0].variables, starts[0].ranges.values(), strict=True))
    for column in columns:
        extents.pop(column.values[starts[0].name].variable or "", None)
    size = prod(end - begin for begin, end in extents.values())
    blocks = prod(column.extent for column in columns)
    return blocks > 1 and size * scop.dtype(own).bytes <= most_bytes


def is_serial(scop: Scop, name: str) -> bool:
    """Whether a statement is a reduction whose loops stand by themselves."""
    own, shaped = scop.statement(name), scop.shaped
    if own.kind != "update":
        return False
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    return keeps_order(shaped.program.statements[own.position], known)


def kept_apart(scop: Scop, names: Collection[str], otherwise: Accept | None) -> Accept:
    """Refuses merges of what ends before a statement of the program with what it begins. Those of
    `names` that the program has no statement of raise BackendError."""
    places: dict[str, int] = {}
    for place, shaped in enumerate(scop.shaped.statements):
        written, _, _ = shaped.statement.name.partition(".")  # without what a rewrite has added
        places.setdefault(written, place)
    for name in names:
        if name not in places:
            near = [found] if (found := closest(name, places, cutoff=0)) else []
            raise BackendError(
                f"apart={tuple(names)!r}: there is no statement {name!r}; there are "
                f"{', '.join(places)}",
                repair=f"ScheduleOptions(apart={tuple(near)!r})",
            )
    begun = {places[name] for name in names}

    def accept(first: Cluster, second: Cluster, columns: tuple[Column, ...]) -> bool:
        before = max(scop.statement(name).position for name in first.statements)
        after = min(scop.statement(name).position for name in second.statements)
        if any(before < place <= after for place in begun):
            return False
        return otherwise is None or otherwise(first, second, columns)

    return accept


def _has_product(scop: Scop, cluster: Cluster) -> bool:
    statements = map(scop.statement, cluster.statements)
    return any(_reuses(statement, set(statement.outer)) for statement in statements)


def _reuses(statement: ScopStatement, variables: set[str]) -> bool:
    """Whether a statement sums products of operands each of which serves all values of some of the
    variables."""
    reads = [_variables(access, statement) for access in statement.reads if access.subscripts]
    moving = [used for used in reads if used & set(statement.reduction)]
    return statement.accumulates and len(moving) > 1 and all(variables - u for u in moving)


def _loses_reuse(
    statement: ScopStatement, around: tuple[Column, ...], columns: tuple[Column, ...]
) -> bool:
    """Whether a sum of products, whose operands are used again inside of the loops around, would
    read all of one of them anew for each iteration of `columns`."""
    left = {v for v in statement.outer if statement.ranges[v][1] - statement.ranges[v][0] > 1}
    left -= {c.values[statement.name].variable for c in around}
    inside = left - {c.values[statement.name].variable for c in columns}
    return bool(inside) and _reuses(statement, left) and not _reuses(statement, inside)


def _instances(statement: ScopStatement) -> int:
    number: int = at_hint(prod(end - begin for begin, end in statement.ranges.values()))
    return number


def _walks(
    scop: Scop,
    name: str,
    columns: tuple[Column, ...],
    strides: Mapping[str, tuple[int, ...]],
) -> Iterator[str]:
    """How a statement goes over tensors of which each of its instances touches another element:
    inside of shared columns it goes "along" what is contiguous, or "across" that, where the
    contiguous loop is shared and another is not."""
    statement = scop.statement(name)
    long = {v for v, (begin, end) in statement.ranges.items() if end - begin > 1}
    inside = long - {c.values[name].variable for c in columns}
    for access in statement.accesses if len(long) > 1 and inside else ():
        steps = strides.get(access.tensor) or row_major(scop.shaped.shapes[access.tensor])
        found = dict.fromkeys(long, 0)
        for subscript, step in zip(access.subscripts, steps, strict=True):
            for variable, factor in ({} if subscript is None else subscript.terms).items():
                if variable in found:
                    found[variable] += factor * step
        if all(found.values()) and (nearest := [v for v in long if abs(found[v]) == 1]):
            yield "along" if inside.intersection(nearest) else "across"


def _are_unrelated(
    scop: Scop, first: Cluster, second: Cluster, columns: tuple[Column, ...]
) -> bool:
    """Whether neither cluster touches what the other writes, and nothing that both read moves with
    their outermost loop."""
    one, other = ([scop.statement(n) for n in c.statements] for c in (first, second))
    return not _give(one, other) and not any(
        _move_alike(read, s, again, t, columns[0])
        for s in one
        for t in other
        for read in s.reads
        for again in t.reads
        if read.tensor == again.tensor
    )


def _give(one: Sequence[ScopStatement], other: Sequence[ScopStatement]) -> bool:
    """Whether some statements touch what others write."""
    for a, b in ((one, other), (other, one)):
        written = {statement.write.tensor for statement in a}
        if any(access.tensor in written for statement in b for access in statement.accesses):
            return True
    return False


def _move_alike(
    read: Access, one: ScopStatement, again: Access, other: ScopStatement, column: Column
) -> bool:
    """Whether a dimension of two reads of a tensor moves with a column, and alike."""
    first, second = (next(_of(column, s.name), None) for s in (one, other))
    pairs = zip(read.subscripts, again.subscripts, strict=True)
    return any(
        form is not None
        and like is not None
        and form.terms.get(first or "", 0) == like.terms.get(second or "", 0) != 0
        for form, like in pairs
    )


def _of(column: Column, statement: str) -> Iterator[str]:
    """The variable that a column is in a statement, if it is one there."""
    value = column.values.get(statement)
    if value is not None and value.variable is not None:
        yield value.variable


def _variables(access: Access, statement: ScopStatement) -> set[str]:
    """The variables that an access moves with; all of them if that is not known."""
    found: set[str] = set()
    for subscript in access.subscripts:
        found |= set(statement.variables if subscript is None else subscript.terms)
    return found
