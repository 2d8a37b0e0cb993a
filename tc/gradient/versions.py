"""The forward program in single assignment (D9), and the cotangents of its versions (D8).

Each version of a tensor is a tensor of its own. A version begins where all of a tensor is written
anew; a sum may go on in the version, and other parts of the version be written. A statement makes a
new version of the one before where it writes a part again, goes on by another operation, or changes
elements that were read. The last version has the tensor's own name, and the version that the caller
gives is `T_0`.

The first contribution to a cotangent assigns, as it covers the whole tensor; later contributions
add. A cotangent that the caller gives is copied before anything is added to it (N2). Contributions
to a half are summed as float, and the sum is rounded once (D17).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from tc.gradient import terms as e
from tc.gradient.def_text import Comprehension, ExprBounds
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
        shape = self.found.shapes[target]
        covers = all(
            ranges[name] == (e.ZERO, size)
            for name, size in zip(statement.outer, shape, strict=True)
        )
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


LETTERS = "ijklmnpq"


@dataclass
class Cotangents:
    """The cotangents made so far. `shapes` and `types` are those of all tensors and versions,
    `names` the cotangents of versions, `returned` the cotangents that are results, and `given`
    those of the caller."""

    shapes: dict[str, tuple[p.Expr, ...]]
    types: dict[str, DType]
    fresh: Callable[[str], str]
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # indices of versions
    names: dict[str, str] = field(default_factory=dict)  # of versions
    given: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    rounded: dict[str, tuple[str, str]] = field(default_factory=dict)
    written: list[Comprehension] = field(default_factory=list)

    def result(self, tensor: str) -> str:
        """The name of the cotangent of an input, which the gradient returns."""
        name = self.fresh(f"d_{tensor}")
        self.names[tensor] = name
        self.returned.add(name)
        self._declare(name, tensor)
        if self.types[tensor] == FLOAT16:
            self.names[tensor] = self.fresh(f"b_{tensor}")
            self._declare(self.names[tensor], tensor, FLOAT32)
            self.rounded[tensor] = (name, self.names[tensor])
        return name

    def give(self, tensor: str) -> str:
        """The name of the cotangent of an output, which the caller gives."""
        name = self.names[tensor] = self.fresh(f"d_{tensor}")
        self._declare(name, tensor)
        self.given.add(name)
        self.started.add(name)
        return name

    def _declare(self, name: str, tensor: str, dtype: DType | None = None) -> None:
        self.shapes[name] = self.shapes[tensor]
        self.types[name] = dtype or self.types[tensor]

    def of(self, version: str) -> str | None:
        """The name of the cotangent of a version; None where nothing has contributed to the
        cotangent."""
        name = self.names.get(version)
        return name if name in self.started else None

    def is_owned(self, name: str) -> bool:
        return name not in self.given

    def alias(self, version: str, name: str) -> None:
        """Makes the cotangent `name` that of a version, too."""
        self.names[version] = name

    def indices(self, tensor: str) -> tuple[str, ...]:
        if tensor in self.left:
            return self.left[tensor]
        rank = len(self.shapes[tensor])
        return tuple(LETTERS[k] if k < len(LETTERS) else f"i{k}" for k in range(rank))

    def whole(self, tensor: str, indices: tuple[str, ...]) -> dict[str, ExprBounds]:
        return {
            name: (e.ZERO, size) for name, size in zip(indices, self.shapes[tensor], strict=True)
        }

    def add(
        self,
        version: str,
        indices: tuple[str, ...],
        rhs: p.Expr,
        loops: Mapping[str, ExprBounds] | None = None,
        parts: Mapping[str, ExprBounds] | None = None,
    ) -> None:
        """Adds a contribution to the cotangent of a version. The contribution is summed over
        `loops`; `parts` are ranges of indices that are less than a whole dimension."""
        name = self._own(version)
        if parts and name not in self.started:
            self.add(version, self.indices(version), self.zero(version))
        op = "+="
        if name not in self.started:
            op = "+=!" if loops else "="
        self.started.add(name)
        where = self.whole(version, indices) | dict(parts or {}) | dict(loops or {})
        self.write(name, indices, op, rhs, where)

    def zero(self, version: str) -> p.Expr:
        """A zero to start a cotangent with, cast to the type of the cotangent where no declaration
        gives the type."""
        name = self.names.get(version)
        if name in self.returned:
            return e.ZERO
        dtype = FLOAT64 if self.types[version] == FLOAT64 else FLOAT32
        return p.Convert(e.ZERO, dtype, True, span=e.NO_SPAN)

    def _own(self, version: str) -> str:
        """The name of the cotangent of a version, after a cotangent of the caller is copied."""
        name = self.names.get(version)
        if name is None:
            name = self.names[version] = self.fresh(f"d_{version}")
            dtype = self.types[version]
            self._declare(name, version, FLOAT32 if dtype == FLOAT16 else dtype)
        elif name in self.given:
            self.copy(version, name)
            name = self.names[version]
        return name

    def copy(self, version: str, source: str) -> None:
        """Begins the cotangent of a version as a copy of another."""
        name = self.names[version] = self.fresh(f"b_{version}")
        dtype = self.types[source]
        self._declare(name, version, FLOAT32 if dtype == FLOAT16 else dtype)
        indices = self.indices(version)
        value = self.read(source, tuple(map(e.index, indices)))
        self.started.add(name)
        self.write(name, indices, "=", value, self.whole(version, indices))

    def read(self, tensor: str, subscripts: tuple[p.Expr, ...]) -> p.Read:
        return replace(e.read(tensor, subscripts), dtype=self.types.get(tensor, FLOAT64))

    def write(
        self,
        target: str,
        indices: tuple[str, ...],
        op: str,
        rhs: p.Expr,
        where: Mapping[str, ExprBounds],
    ) -> None:
        """Writes a statement. Where float and double meet in a gradient, the right side is cast to
        the type of the target."""
        dtype = self.types.get(target)
        kinds = {each for each in self.types.values() if each in (FLOAT32, FLOAT64)}
        if len(kinds) == 2 and dtype is not None:
            rhs = p.Convert(rhs, dtype, True, span=e.NO_SPAN)
        new = Comprehension(target, indices, op, self._in_float(rhs), dict(where))
        place = _last_of(target, self.written)
        both = None if place is None else _merged(self.written[place], new)
        if both is not None and place is not None:
            del self.written[place]
        self.written.append(both or new)

    def round(self) -> None:
        """Rounds the sums of contributions to halves."""
        for tensor, (name, total) in self.rounded.items():
            indices = self.indices(tensor)
            value = p.Convert(
                e.read(total, tuple(map(e.index, indices))), FLOAT16, True, span=e.NO_SPAN
            )
            where = self.whole(tensor, indices)
            self.written.append(Comprehension(name, indices, "=", value, where))

    def _in_float(self, rhs: p.Expr) -> p.Expr:
        """An expression in which halves are converted to float, in which they are computed with
        (Y8)."""

        def change(node: p.Expr) -> p.Expr | None:
            match node:
                case p.Convert(operand=p.Read(tensor=t) as read) if self._is_half(t):
                    return p.Convert(read, node.dtype, True, span=e.NO_SPAN)
                case p.Read(tensor=t) if self._is_half(t):
                    return p.Convert(node, FLOAT32, True, span=e.NO_SPAN)
            return None

        return e.rebuilt(rhs, change)

    def _is_half(self, tensor: str) -> bool:
        return self.types.get(tensor) == FLOAT16


def _last_of(target: str, written: Sequence[Comprehension]) -> int | None:
    """The place of the last statement that writes a target; None where the statement may not be
    moved behind the statements after it."""
    changed: set[str] = set()
    read: set[str] = set()
    for place in reversed(range(len(written))):
        each = written[place]
        used = {n.tensor for n in p.walk(each.rhs) if isinstance(n, p.Read)}
        if each.target == target:
            return None if target in read or used & changed else place
        changed.add(each.target)
        read |= used
    return None


def _merged(first: Comprehension, second: Comprehension) -> Comprehension | None:
    """One statement for two that sum over the same instances (D3); None where they do not."""
    first = _with_indices(first, second)
    if (first.target, first.indices, first.where) != (second.target, second.indices, second.where):
        return None
    if first.op not in ("=", "+=", "+=!") or second.op != "+=":
        return None
    if first.op == "=" and first.where.keys() != set(first.indices):
        return None
    if any(isinstance(n, p.Read) and n.tensor == first.target for n in p.walk(second.rhs)):
        return None
    rhs = e.sum_of(first.rhs, second.rhs)
    return None if rhs is None else replace(first, rhs=rhs)


def _with_indices(first: Comprehension, second: Comprehension) -> Comprehension:
    """The first statement with the index names of the second, where the first has no other
    variables."""
    names = dict(zip(first.indices, second.indices, strict=False))
    if first.target != second.target or first.where.keys() != set(first.indices):
        return first
    rhs = e.substituted(first.rhs, {old: e.index(new) for old, new in names.items()})
    where = {names[name]: bounds for name, bounds in first.where.items()}
    return replace(first, indices=second.indices, rhs=rhs, where=where)
