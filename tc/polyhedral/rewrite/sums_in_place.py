"""Sums in place: a temporary that only becomes another tensor is computed there.

`t(i,j) +=! a(i,k) * b(k,j)` and `o(i,j) = max(t(i,j) + c(j), 0)` become
`o(i,j) +=! a(i,k) * b(k,j)` and `o(i,j) = max(o(i,j) + c(j), 0)`: statements of one tensor are its
start, updates and epilogue, which a schedule keeps together, so that the sum is a register until it
is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tc.polyhedral.rewrite.rewriting import Rewriting, writes_all
from tc.semantics import program as p
from tc.semantics.bounded_sums import keeps_order
from tc.semantics.program import ShapedProgram, ShapedStatement
from tc.semantics.size_values import KnownSizes


def sum_in_place(shaped: ShapedProgram) -> ShapedProgram:
    """The program with sums, products and extrema of temporaries in place of the tensors that they
    become; the very same where there are none.

    A temporary goes where one statement alone reads it, behind all that write it, which assigns a
    tensor of the same type and shape, each element from the element of the temporary at its place,
    and is the first one that touches that tensor; of two such temporaries the first. Results are
    the same bits.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(N,D) x) -> (m) { s(n) +=! x(n,d)  m(n) = s(n) / D }")
    >>> placed = sum_in_place(infer_ranges(check(parse(source)), {"x": (10, 20)}, {}))
    >>> [statement.text for statement in placed.program.statements]
    ['m(n) +=! x(n, d)', 'm(n) = m(n) / D']
    """
    places = _places(shaped)
    return Rewriting(shaped, "in place").with_others(places, write=True) if places else shaped


def _places(shaped: ShapedProgram) -> dict[str, str]:
    """The temporaries that go, and the tensor that stands in for each."""
    writers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(shaped.statements):
        writers[each.statement.target].append(place)
        for name in {n.tensor for n in p.walk(each.statement.rhs) if isinstance(n, p.Read)}:
            readers[name].append(place)
    found: dict[str, str] = {}
    for name in shaped.program.temporaries:
        own = [shaped.statements[place] for place in writers[name]]
        others = [place for place in readers[name] if place not in writers[name]]
        if len(others) != 1 or not _accumulates(own, shaped):
            continue
        reader = shaped.statements[others[0]]
        target = reader.statement.target
        is_first = others[0] == min((*writers[target], *readers[target]))
        is_first &= others[0] not in readers[target]  # what the target held before is gone then
        is_done = max(writers[name]) < others[0]  # it is not written again behind
        if is_first and is_done and target not in found.values() and _becomes(name, reader, shaped):
            found[name] = target
    return {name: _last(name, found) for name in found}


def _last(name: str, places: dict[str, str]) -> str:
    while name in places:
        name = places[name]
    return name


def _accumulates(writers: Sequence[ShapedStatement], shaped: ShapedProgram) -> bool:
    """Whether statements write all of a tensor, some of them as sums, without checks; not those
    whose loops stand by themselves."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    if any(keeps_order(each.statement, known) for each in writers):
        return False
    return any(each.statement.reduction for each in writers) and all(
        writes_all(each, shaped) for each in writers
    )


def _becomes(name: str, reader: ShapedStatement, shaped: ShapedProgram) -> bool:
    """Whether a statement assigns all of a tensor like a temporary, each element from the one at
    its place."""
    statement, tensors = reader.statement, shaped.program.tensors
    if statement.op != "=" or not writes_all(reader, shaped):
        return False
    if shaped.shapes[statement.target] != shaped.shapes[name]:
        return False
    if tensors[statement.target].dtype != tensors[name].dtype:
        return False
    reads = [n for n in p.walk(statement.rhs) if isinstance(n, p.Read)]
    subscripts = (n for r in reads for s in r.subscripts for n in p.walk(s))
    if any(isinstance(n, p.Read) and n.tensor == name for n in subscripts):
        return False
    return all(r.subscripts == statement.subscripts for r in reads if r.tensor == name)
