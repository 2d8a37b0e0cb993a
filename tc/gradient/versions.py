"""The forward program in single assignment (D9): each version of a tensor is a tensor of its own. A
version begins where all of a tensor is written anew; a sum may go on in the version, and other
parts of the version be written. A statement makes a new version of the one before where it writes a
part again, goes on by another operation, or changes elements that were read. The last version has
the tensor's own name, and the version that the caller gives is `T_0`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tc.gradient import terms as e
from tc.gradient.def_text import ExprBounds
from tc.gradient.sampled_ranges import SampledRanges
from tc.gradient.terms import SYMBOLS
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import atom, linear, to_expr, to_poly


@dataclass(frozen=True, slots=True)
class VersionStep:
    """A statement that makes a version of a tensor or, where it `joins`, adds to one, or writes
    another part of one. Reads of the statement are of versions, and its subscripts are variables.
    `previous` is the version that the statement changes, None where it writes all elements anew.
    `covers`: the statement writes each element. `concat` is the same for the statements of one
    concat, None for others."""

    statement: p.Statement
    ranges: Mapping[str, ExprBounds]
    version: str
    tensor: str
    previous: str | None
    joins: bool
    covers: bool
    concat: tuple[str, int] | None = None

    @property
    def is_anew(self) -> bool:
        """Whether the statement keeps nothing of the elements that it writes."""
        statement = self.statement
        return statement.op == "=" or statement.init or (self.previous is None and not self.joins)


@dataclass
class _Versions:
    """The versions after the statements taken so far."""

    program: p.Program
    found: SampledRanges
    fresh: Callable[[str], str]
    current: dict[str, str] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)  # versions that nobody has read, to add to
    counts: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[tuple[ExprBounds, ...]]] = field(default_factory=dict)
    """What is written so far of each version."""
    steps: list[VersionStep] = field(default_factory=list)

    def take(self, statement: p.Statement) -> None:
        target, concat = statement.target, concat_of(statement)
        statement, ranges = _in_place(statement, self.found)
        rhs = self._renamed(_alike(statement.rhs))
        old = self.current.get(target)
        read = {node.tensor for node in p.walk(rhs) if isinstance(node, p.Read)}
        self.sums -= read
        covers = self._covers(target, statement, ranges)
        is_anew = statement.op == "=" or statement.init or old is None
        part = tuple(ranges[v] for v in statement.outer)
        joins = old in self.sums and (self._is_apart(part, old) if is_anew else statement.op == "+")
        previous = None if joins or (is_anew and covers) else old
        if joins:
            assert old is not None
            version = old
        else:
            self.counts[target] = self.counts.get(target, 0) + 1
            version = self.current[target] = self.fresh(f"{target}_{self.counts[target]}")
            if statement.op in ("=", "+"):
                self.sums.add(version)
        written = [] if previous is None else self.parts[previous]
        self.parts.setdefault(version, [*written]).append(part)
        new = replace(statement, rhs=rhs)
        step = VersionStep(new, ranges, version, target, previous, joins, covers, concat)
        self.steps.append(step)

    def _is_apart(self, part: tuple[ExprBounds, ...], version: str) -> bool:
        """Whether no earlier statement writes to a part of a version, whatever the sizes."""
        return all(
            any(
                e.is_at_most(end, other) or e.is_at_most(until, begin)
                for (begin, end), (other, until) in zip(part, written, strict=True)
            )
            for written in self.parts[version]
        )

    def _renamed(self, rhs: p.Expr) -> p.Expr:
        names = self.current

        def change(node: p.Expr) -> p.Expr | None:
            if isinstance(node, p.Read) and node.tensor in names:
                inside = tuple(e.rebuilt(s, change) for s in node.subscripts)
                return replace(node, tensor=names[node.tensor], subscripts=inside)
            if isinstance(node, p.Extent) and node.tensor in names:
                return replace(node, tensor=names[node.tensor])
            return None

        return e.rebuilt(rhs, change)

    def _covers(
        self, target: str, statement: p.Statement, ranges: Mapping[str, ExprBounds]
    ) -> bool:
        shape = self.found.shapes[target]
        return all(
            ranges[name] == (e.ZERO, size)
            for name, size in zip(statement.outer, shape, strict=True)
        )


def versions(
    program: p.Program, found: SampledRanges, fresh: Callable[[str], str]
) -> tuple[tuple[VersionStep, ...], Mapping[str, str]]:
    """The statements with a name for each version, and the tensors of the caller by version."""
    given = {fresh(f"{name}_0"): name for name in program.needs_initial}
    made = _Versions(program, found, fresh, {name: version for version, name in given.items()})
    for version, name in given.items():
        made.parts[version] = [tuple((e.ZERO, size) for size in found.shapes[name])]
    for statement in program.statements:
        made.take(statement)
    last = {version: name.replace(".", "_") for name, version in made.current.items()}
    names = {v: name if name in program.tensors else fresh(name) for v, name in last.items()}
    names |= {version: version for version in given}
    return tuple(_named(step, names) for step in made.steps), given


def _named(step: VersionStep, names: Mapping[str, str]) -> VersionStep:
    """A step in which last versions have the names of their tensors."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Read) and node.tensor in names:
            inside = tuple(e.rebuilt(s, change) for s in node.subscripts)
            return replace(node, tensor=names[node.tensor], subscripts=inside)
        if isinstance(node, p.Extent) and node.tensor in names:
            return replace(node, tensor=names[node.tensor])
        return None

    statement = replace(step.statement, rhs=e.rebuilt(step.statement.rhs, change))
    version = names.get(step.version, step.version)
    previous = step.previous and names.get(step.previous, step.previous)
    return replace(step, statement=statement, version=version, previous=previous)


def _alike(expr: p.Expr) -> p.Expr:
    """An expression whose reads have no numbers, so that reads of one element are equal."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Read(subscripts=subscripts, dtype=dtype):
                return p.Read(
                    node.tensor, tuple(map(_alike, subscripts)), dtype, -1, span=node.span
                )
            case p.Binary(site=site) if site >= 0:
                return replace(node, left=_alike(node.left), right=_alike(node.right), site=-1)
        return None

    return e.rebuilt(expr, change)


def _in_place(
    statement: p.Statement, found: SampledRanges
) -> tuple[p.Statement, Mapping[str, ExprBounds]]:
    """A statement that writes each element at its own variables, and its ranges. Statements of
    concat write at an offset, by which their variables are moved."""
    ranges = found.ranges[statement.name]
    moved: dict[str, p.Expr] = {}
    bounds = dict(ranges)
    for name, subscript in zip(statement.outer, statement.subscripts, strict=True):
        form = linear(e.in_sizes(subscript, found.shapes), SYMBOLS)
        assert form is not None
        offset = form.constant
        if offset:
            moved[name] = to_expr(atom(e.index(name)) - offset, SYMBOLS)
            begin, end = (to_expr(to_poly(b, SYMBOLS) + offset, SYMBOLS) for b in ranges[name])
            bounds[name] = (begin, end)
    if not moved:
        return statement, ranges
    subscripts = tuple(map(e.index, statement.outer))
    rhs = e.substituted(statement.rhs, moved)
    return replace(statement, rhs=rhs, subscripts=subscripts), bounds


def concat_of(statement: p.Statement) -> tuple[str, int] | None:
    """A key that the statements of one concat share, None for other statements. The variables of
    concat do not stand in the text."""
    for subscript in statement.subscripts:
        for node in p.walk(subscript):
            if isinstance(node, p.Index) and node.span.text != node.name:
                return statement.target, statement.span.start
    return None
