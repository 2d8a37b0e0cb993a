"""Value-based flow: for each read, the write that gives it its value.

For explanations, and for what asks whether a temporary outlives an iteration. Legality needs the
memory-based dependences (`tc.polyhedral.scop.dependences`): once a reduction is reordered, the
write that is last in text order need not be the last that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tc.polyhedral.scop.relations import box_text, instance_text
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.process.uninterrupted import load

if TYPE_CHECKING:
    import islpy as isl


@dataclass(frozen=True, slots=True)
class Flow:
    """The instances of `sink` that read from `tensor` what those of `source` wrote last, as a
    relation in isl's notation; `source` is None where they read what the caller passed."""

    tensor: str
    source: str | None
    sink: str
    relation: str


def value_flow(scop: Scop) -> tuple[Flow, ...]:
    """The value-based flow of a scop, without reads of inputs, in the text order of the sinks."""
    found: list[Flow] = []
    for tensor in dict.fromkeys(s.write.tensor for s in scop.statements):
        found += _of_tensor(scop, tensor)
    place = {s.name: i for i, s in enumerate(scop.statements)}
    return tuple(sorted(found, key=lambda f: (place[f.sink], place.get(f.source or "", -1))))


def _of_tensor(scop: Scop, tensor: str) -> Iterator[Flow]:
    load("islpy")  # only explanations come here, and most programs load no isl
    import islpy as isl

    context = isl.Context()
    depth = max(len(s.variables) for s in scop.statements)
    spelled = {f"s{i}": s for i, s in enumerate(scop.statements)}

    def union(parts: Iterable[str]) -> isl.UnionMap:
        return isl.UnionMap(f"{{ {'; '.join(parts)} }}", context)

    reads = union(
        _relation(name, s, read)
        for name, s in spelled.items()
        for read in s.reads
        if read.tensor == tensor
    )
    writes = union(
        _relation(name, s, s.write) for name, s in spelled.items() if s.write.tensor == tensor
    )
    order = union(
        f"{instance_text(name, s)} -> [{', '.join(_key(i, s, depth))}]"
        for i, (name, s) in enumerate(spelled.items())
    )
    info = isl.UnionAccessInfo.from_sink(reads).set_must_source(writes).set_schedule_map(order)
    result = info.compute_flow()
    initial = tensor in scop.initial
    for relation in _maps(result.get_may_dependence().coalesce()):
        source = spelled[relation.get_tuple_name(isl.dim_type.in_)]
        sink = spelled[relation.get_tuple_name(isl.dim_type.out)]
        named = _renamed(relation, isl.dim_type.in_, source, "")
        text = _renamed(named, isl.dim_type.out, sink, "'").to_str()
        yield Flow(tensor, source.name, sink.name, text)
    for relation in _maps(result.get_may_no_source().coalesce()) if initial else ():
        sink = spelled[relation.get_tuple_name(isl.dim_type.in_)]
        named = _renamed(relation, isl.dim_type.in_, sink, "")
        yield Flow(tensor, None, sink.name, named.set_tuple_name(isl.dim_type.out, tensor).to_str())


def _key(position: int, statement: ScopStatement, depth: int) -> list[str]:
    count = len(statement.variables)
    return [str(position), *(f"v{i}" for i in range(count)), *["0"] * (depth - count)]


def _relation(name: str, statement: ScopStatement, access: Access) -> str:
    """An access relation, by positions; the tensor is without a name."""
    place = {v: i for i, v in enumerate(statement.variables)}
    conditions = [box_text(statement)]
    subscripts = []
    for axis, (form, bounds) in enumerate(zip(access.subscripts, access.bounds, strict=True)):
        conditions.append(f"{bounds[0]} <= x{axis} < {bounds[1]}")
        if form is not None:
            terms = [f"{factor} v{place[v]}" for v, factor in form.terms.items()]
            conditions.append(f"x{axis} = {' + '.join([*terms, str(form.constant)])}")
        subscripts.append(f"x{axis}")
    target = f"[{', '.join(subscripts)}]"
    return f"{instance_text(name, statement)} -> {target} : {' and '.join(conditions)}"


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(lambda part: found.append(part.copy()))
    return found


def _renamed(
    relation: isl.Map, side: isl.dim_type, statement: ScopStatement, prime: str
) -> isl.Map:
    """The relation with a statement's name and variables on one side."""
    relation = relation.set_tuple_name(side, statement.name)
    for place, variable in enumerate(statement.variables):
        relation = relation.set_dim_name(side, place, variable + prime)
    return relation
