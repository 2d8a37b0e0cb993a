"""Temporaries that equal another tensor, element by element, are not computed: that tensor is read.

`s(n) +=! x(n,d)` and `u(n) +=! x(n,d)` become the first alone, and after `t(n,d) = x(n,d)` what
reads t reads x. Programs that are made of defs have both: two calls of a def with one input compute
the same tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tc.polyhedral.rewrite.rewriting import Rewriting, rewrite, statement_text, writes_all
from tc.semantics import program as p
from tc.semantics.program import ShapedProgram, ShapedStatement

_Definition: TypeAlias = tuple[object, ...]
"""What the statements of a tensor compute, whatever the names of the tensor and of variables."""


def without_equal_temporaries(shaped: ShapedProgram) -> ShapedProgram:
    """The program without temporaries that equal another tensor, which is read in their place; the
    very same where there are none. Results are the same bits.

    A temporary equals a tensor of its type that it copies, element by element, or that has the same
    shape and, earlier, the same statements. Nothing writes what they read after the first of these
    statements, nor the tensor or the temporary after what reads the temporary. Statements with
    checks stay, and so does what they read.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(float(N,D) x) -> (m) { s(n) +=! x(n,d)  t(i) +=! x(i,j)  m(n) = s(n) * t(n) }"
    >>> program = infer_ranges(check(parse(Source(text))), {"x": (10, 20)}, {})
    >>> [s.text for s in without_equal_temporaries(program).program.statements]
    ['s(n) +=! x(n,d)', 'm(n) = s(n) * s(n)']
    """
    if not shaped.program.temporaries:
        return shaped
    equal = _Uses(shaped).equal_temporaries()
    return Rewriting(shaped, "equal").with_others(equal, write=False) if equal else shaped


class _Uses:
    """Where the statements of a program write and read each tensor."""

    def __init__(self, shaped: ShapedProgram) -> None:
        self._shaped = shaped
        self._writers: dict[str, list[int]] = defaultdict(list)
        self._readers: dict[str, list[int]] = defaultdict(list)
        for place, each in enumerate(shaped.statements):
            self._writers[each.statement.target].append(place)
            for name in _tensors_read(each):
                self._readers[name].append(place)

    def equal_temporaries(self) -> dict[str, str]:
        """The temporaries that equal another tensor, which stays, and that tensor."""
        temporaries = frozenset(self._shaped.program.temporaries)
        equal: dict[str, str] = {}
        defined: dict[_Definition, str] = {}
        for name in sorted(self._writers, key=self._first):
            own = self._own(name)
            if not self._is_fresh(own):
                continue
            known = self._copied(name, own, equal)
            copies = known is not None
            if known is None:
                known = defined.setdefault(self._definition(name, own, equal), name)
            if name in temporaries and name != known and self._stays(name, known, copies, equal):
                equal[name] = known
        return equal

    def _first(self, name: str) -> int:
        return self._writers[name][0]

    def _own(self, name: str) -> list[ShapedStatement]:
        return [self._shaped.statements[place] for place in self._writers[name]]

    def _is_fresh(self, own: Sequence[ShapedStatement]) -> bool:
        """Whether statements compute all of a tensor from other ones, without checks."""
        first = own[0].statement
        is_start = first.op == "=" or first.init
        return is_start and all(writes_all(each, self._shaped) for each in own)

    def _copied(
        self, name: str, own: Sequence[ShapedStatement], equal: Mapping[str, str]
    ) -> str | None:
        """The tensor that a tensor copies element by element, at equal subscripts."""
        statement, tensors = own[0].statement, self._shaped.program.tensors
        read = statement.rhs
        if len(own) > 1 or statement.op != "=" or not isinstance(read, p.Read):
            return None
        if read.subscripts != statement.subscripts or not statement.subscripts:
            return None
        source = equal.get(read.tensor, read.tensor)
        return source if tensors[source].dtype == tensors[name].dtype else None

    def _definition(
        self, name: str, own: Sequence[ShapedStatement], equal: Mapping[str, str]
    ) -> _Definition:
        """What the statements of a tensor compute, whatever the names."""
        dtype, shape = self._shaped.program.tensors[name].dtype, self._shaped.shapes[name]
        return (dtype, shape, *(_without_names(each, equal) for each in own))

    def _stays(self, name: str, known: str, copies: bool, equal: Mapping[str, str]) -> bool:
        """Whether a tensor holds what a temporary does wherever that is read, and whatever reads
        the temporary may read the tensor."""
        same = [name] if copies else [name, known]
        begin = min(map(self._first, same))
        read = {n for one in same for each in self._own(one) for n in _tensors_read(each)}
        read |= {equal[n] for n in read if n in equal}
        others = [place for place in self._readers[name] if place not in self._writers[name]]
        writers = self._writers[known] + self._writers[name]
        return (
            all(place < begin for one in read.difference(same) for place in self._writers[one])
            and all(place < reader for place in writers for reader in others)
            and not any(self._shaped.statements[reader].checked for reader in others)
        )


def _tensors_read(each: ShapedStatement) -> set[str]:
    return {node.tensor for node in p.walk(each.statement.rhs) if isinstance(node, p.Read)}


def _without_names(each: ShapedStatement, equal: Mapping[str, str]) -> _Definition:
    """A statement whose target and variables have lost their names, as text: numbers that are equal
    may differ in their signs."""
    statement = each.statement
    variables = {name: f"#{number}" for number, name in enumerate(statement.variables)}
    tensors = {**equal, statement.target: "#"}

    def renamed(node: p.Expr) -> p.Expr:
        if isinstance(node, p.Index):
            return replace(node, name=variables[node.name])
        if isinstance(node, p.Read):
            return replace(node, tensor=tensors.get(node.tensor, node.tensor))
        return node

    rhs = rewrite(statement.rhs, renamed)
    subscripts = tuple(rewrite(subscript, renamed) for subscript in statement.subscripts)
    return (
        statement_text(replace(statement, target="#", subscripts=subscripts, rhs=rhs)),
        tuple(node.dtype for node in p.walk(rhs)),
        tuple((each.ranges[v].begin, each.ranges[v].end) for v in statement.variables),
    )
