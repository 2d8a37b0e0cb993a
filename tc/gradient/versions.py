"""The forward program in single assignment (D9), and the cotangents of its versions (D8).

Each version of a tensor is a tensor of its own. A version begins where all of a tensor is written
anew; a sum may go on in the version, and other parts of the version be written. A statement that
writes a part again, goes on by another operation, or changes elements that were read makes a new
version of the version before. The last version has the tensor's own name, and the version that the
caller gives is `T_0`.

The first contribution to a cotangent assigns, as it covers the whole tensor; later contributions
add. A cotangent that the caller gives is copied before anything is added to it (N2). Contributions
to a half are summed as float, and the sum is rounded once (D17).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import FLOAT32, FLOAT64, DType
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef
from tc.gradient.def_text import Comprehension, ExprBounds, FreshNames, Joined
from tc.gradient.domains import Domain
from tc.semantics import program as p


@dataclass(frozen=True, slots=True)
class VersionStep:
    """A statement that makes a version of a tensor or, where the statement `joins`, adds to a
    version or writes another part of the version. The target and the reads of the statement `line`
    are versions, and its clauses are the ranges of all its variables. `previous` is the version
    that the statement changes, None where it writes all elements anew. `covers`: the statement
    writes each element. `concat` is the concat of which the statement is a piece. Of a statement
    that chooses one term for several targets (V1) there is a step for each of them, whose `line`
    has this target first; `chosen` is the whole statement."""

    line: Comprehension
    tensor: str
    previous: str | None
    joins: bool
    covers: bool
    concat: Joined | None = None
    chosen: Comprehension | None = None

    @property
    def version(self) -> str:
        return self.line.target

    @property
    def sources(self) -> set[str]:
        """The versions that the statement reads, the one that it changes among them."""
        own = {read.tensor for read in self.line.all_reads}
        return own | ({self.previous} if self.previous else set())

    @property
    def is_anew(self) -> bool:
        """Whether the statement keeps nothing of the elements that it writes."""
        return self.line.starts or (self.previous is None and not self.joins)


@dataclass
class _Versions:
    """The versions after the statements taken so far."""

    shapes: Mapping[str, tuple[p.Expr, ...]]
    fresh: Callable[[str], str]
    current: dict[str, str] = field(default_factory=dict)
    sums: set[str] = field(default_factory=set)  # versions that nobody has read, to add to
    counts: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[tuple[ExprBounds, ...]]] = field(default_factory=dict)
    """The parts of each version that are written so far."""
    steps: list[VersionStep] = field(default_factory=list)

    def take(self, line: Comprehension, concat: Joined | None) -> None:
        new = line.changed(lambda expr: e.with_tensors(expr, self.current))
        self.sums -= {self.current.get(name, name) for name in line.sources}
        if not line.others:
            self._add(line.target, new, concat)
            return
        first = len(self.steps)
        pairs = [*zip(new.targets, new.values, strict=True)]
        for target, value in pairs:
            others = tuple(pair for pair in pairs if pair[0] != target)
            self._add(target, replace(new, target=target, rhs=value, others=others), None)
        made = self.steps[first:]
        names = {step.tensor: step.version for step in made}
        whole = retargeted(new, names)
        self.steps[first:] = [
            replace(step, line=retargeted(step.line, names), chosen=whole) for step in made
        ]

    def _add(self, target: str, line: Comprehension, concat: Joined | None) -> None:
        """Adds the step of one target of a statement, whose reads are of versions."""
        old = self.current.get(target)
        part = self._part(target, line)
        is_whole = line.op != "=" or (line.is_box and line.places is None)
        covers = is_whole and part == tuple((e.ZERO, size) for size in self.shapes[target])
        is_anew = line.starts or old is None
        joins = (
            old is not None
            and old in self.sums
            and not line.others
            and (self._is_apart(part, old) if is_anew else line.operator == "+")
        )
        previous = None if joins or (is_anew and covers) else old
        if joins:
            assert old is not None
            version = old
        else:
            self.counts[target] = self.counts.get(target, 0) + 1
            version = self.current[target] = self.fresh(f"{target}_{self.counts[target]}")
            if line.operator in ("=", "+"):
                self.sums.add(version)
        written = [] if previous is None else self.parts[previous]
        self.parts.setdefault(version, [*written]).append(part)
        new = retargeted(line, {target: version})
        self.steps.append(VersionStep(new, target, previous, joins, covers, concat))

    def _part(self, target: str, line: Comprehension) -> tuple[ExprBounds, ...]:
        """The part of a tensor that a statement may write: all of a dimension whose place is
        computed."""
        return tuple(
            (e.ZERO, size) if variable is None else line.where[variable]
            for variable, size in zip(line.bare, self.shapes[target], strict=True)
        )

    def _is_apart(self, part: tuple[ExprBounds, ...], version: str) -> bool:
        """Whether no earlier statement writes to a part of a version, whatever the sizes."""
        return all(
            any(
                e.is_at_most(end, other) or e.is_at_most(until, begin)
                for (begin, end), (other, until) in zip(part, written, strict=True)
            )
            for written in self.parts[version]
        )


def versions(
    program: CallFreeDef, fresh: Callable[[str], str]
) -> tuple[tuple[VersionStep, ...], Mapping[str, str]]:
    """The statements with a name for each version, and the tensors of the caller by version."""
    given = {fresh(f"{name}_0"): name for name in program.callers}
    made = _Versions(program.inferred, fresh, {name: version for version, name in given.items()})
    for version, name in given.items():
        made.parts[version] = [tuple((e.ZERO, size) for size in program.inferred[name])]
    for step in program.steps:
        concat = step if isinstance(step, Joined) else None
        for line in (step,) if isinstance(step, Comprehension) else step.pieces:
            made.take(line, concat)
    last = {version: name for name, version in made.current.items() if version not in given}
    return tuple(_named(step, last) for step in made.steps), given


def _named(step: VersionStep, names: Mapping[str, str]) -> VersionStep:
    """A step in which last versions have the names of their tensors."""

    def named(line: Comprehension) -> Comprehension:
        return retargeted(line.changed(lambda expr: e.with_tensors(expr, names)), names)

    return replace(
        step,
        line=named(step.line),
        previous=step.previous and names.get(step.previous, step.previous),
        chosen=step.chosen and named(step.chosen),
    )


def retargeted(line: Comprehension, names: Mapping[str, str]) -> Comprehension:
    """The statement with other names for its targets."""
    others = tuple((names.get(target, target), value) for target, value in line.others)
    sizes = tuple(replace(s, target=names.get(s.target, s.target)) for s in line.sizes)
    target = names.get(line.target, line.target)
    return replace(line, target=target, others=others, sizes=sizes)


def _placed(subscripts: Sequence[p.Expr]) -> tuple[p.Expr, ...]:
    """Subscripts as a left side may have them: a variable stands alone once, and other names do not
    (S1, N1)."""
    places: list[p.Expr] = []
    for subscript in subscripts:
        inner = subscript.operand if isinstance(subscript, p.Convert) else subscript
        is_name = isinstance(inner, p.Size)
        if is_name or (isinstance(subscript, p.Index) and subscript in places):
            subscript = e.binary("+", subscript, e.ZERO)
        places.append(subscript)
    return tuple(places)


@dataclass
class Cotangents:
    """The cotangents made so far. `shapes` and `types` are those of all tensors and versions,
    `names` the cotangents of versions, `returned` the cotangents that are results, and `given`
    those of the caller."""

    shapes: dict[str, tuple[p.Expr, ...]]
    types: dict[str, DType]
    new_names: FreshNames
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # indices of versions
    names: dict[str, str] = field(default_factory=dict)  # of versions
    given: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    rounded: dict[str, tuple[str, str]] = field(default_factory=dict)
    written: list[Comprehension] = field(default_factory=list)

    def result(self, tensor: str) -> str:
        """The name of the cotangent of an input, which the gradient returns."""
        name = self.new_names.fresh(f"d_{tensor}")
        self.names[tensor] = name
        self.returned.add(name)
        self._declare(name, tensor)
        if self.types[tensor].is_storage:
            self.names[tensor] = self.new_names.fresh(f"b_{tensor}")
            self._declare(self.names[tensor], tensor, FLOAT32)
            self.rounded[tensor] = (name, self.names[tensor])
        return name

    def give(self, tensor: str) -> str:
        """The name of the cotangent of an output, which the caller gives."""
        name = self.names[tensor] = self.new_names.fresh(f"d_{tensor}")
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
        """Makes the cotangent `name` that of a version, too; a result has a tensor of its own."""
        if self.names.get(version) in self.returned or version in self.rounded:
            self.copy(version, name)
        else:
            self.names[version] = name

    def apart(self, version: str) -> str | None:
        """Takes away the cotangent of a version, if something has contributed to it, so that
        another begins; `join` adds the former to this."""
        name = self.of(version)
        if name is not None:
            del self.names[version]
        return name

    def join(self, version: str, name: str) -> None:
        """Adds the cotangent of a version to the cotangent `name`, which it has from then on."""
        other = self.names[version]
        self.names[version] = name
        indices = self.indices(version)
        self.add(version, indices, self.read(other, tuple(map(e.index, indices))))

    def indices(self, tensor: str) -> tuple[str, ...]:
        if tensor in self.left:
            return self.left[tensor]
        return self.new_names.indices(len(self.shapes[tensor]))

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
        domain: Domain | None = None,
    ) -> None:
        """Adds a contribution to the cotangent of a version. The contribution is summed over
        `loops`; `parts` are ranges of indices that are less than a whole dimension. Of instances
        with a `domain` only those in it contribute."""
        name = self._own(version)
        if parts and name not in self.started:
            self.add(version, self.indices(version), self.zero(version))
        op = "+="
        if name not in self.started:
            op = "+=!" if loops else "="
        self.started.add(name)
        where = self.whole(version, indices) | dict(parts or {}) | dict(loops or {})
        domain = domain or Domain()
        if not loops:  # all elements have a value, those of no instance, too
            if not domain.is_box:
                rhs = e.select(e.conjunction(domain.tests), rhs)
            domain = Domain()
        made = Comprehension(name, indices, op, rhs, where)
        self.write(domain.of(made))

    def scatter(
        self,
        version: str,
        places: tuple[p.Expr, ...],
        rhs: p.Expr,
        ranges: Mapping[str, ExprBounds],
        domain: Domain,
    ) -> None:
        """Adds contributions at computed places to the cotangent of a version (D20); `ranges` are
        those of all variables."""
        name = self._own(version)
        indices = tuple(dict.fromkeys(v for place in places for v in p.index_names(place)))
        made = Comprehension(name, indices, "+=", rhs, ranges, places=_placed(places))
        if name not in self.started:
            whole = zip(made.bare, self.shapes[version], strict=True)
            is_sum = bool(made.reduction) or None in made.bare or not domain.is_box
            if not is_sum or any(v and ranges[v] != (e.ZERO, size) for v, size in whole):
                self.add(version, self.indices(version), self.zero(version))
            else:
                made = replace(made, op="+=!")
        self.started.add(name)
        self.write(domain.of(made))

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
            name = self.names[version] = self.new_names.fresh(f"d_{version}")
            dtype = self.types[version]
            self._declare(name, version, dtype.computed)
        elif name in self.given:
            self.copy(version, name)
            name = self.names[version]
        return name

    def copy(self, version: str, source: str) -> None:
        """Begins the cotangent of a version as a copy of another."""
        name = self.names.get(version)
        if name is None or name in self.started:
            name = self.names[version] = self.new_names.fresh(f"b_{version}")
            self._declare(name, version, self.types[source].computed)
        indices = self.indices(version)
        value = self.read(source, tuple(map(e.index, indices)))
        self.started.add(name)
        where = self.whole(version, indices)
        self.write(Comprehension(name, indices, "=", value, where))

    def read(self, tensor: str, subscripts: tuple[p.Expr, ...]) -> p.Read:
        return replace(e.read(tensor, subscripts), dtype=self.types.get(tensor, FLOAT64))

    def write(self, new: Comprehension) -> None:
        """Writes a statement. Where float and double meet in a gradient, the right side is cast to
        the type of the target."""
        target, rhs = new.target, new.rhs
        dtype = self.types.get(target)
        kinds = {each for each in self.types.values() if each in (FLOAT32, FLOAT64)}
        if len(kinds) == 2 and dtype is not None:
            rhs = p.Convert(rhs, dtype, True, span=e.NO_SPAN)
        new = replace(new, rhs=self._in_float(rhs))
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
                e.read(total, tuple(map(e.index, indices))),
                self.types[tensor],
                True,
                span=e.NO_SPAN,
            )
            where = self.whole(tensor, indices)
            self.written.append(Comprehension(name, indices, "=", value, where))

    def _in_float(self, rhs: p.Expr) -> p.Expr:
        """An expression in which halves are converted to float, the type of computations with
        halves (Y8)."""

        def change(node: p.Expr) -> p.Expr | None:
            match node:
                case p.Convert(operand=p.Read(tensor=t) as read) if self._is_half(t):
                    return p.Convert(read, node.dtype, True, span=e.NO_SPAN)
                case p.Read(tensor=t) if self._is_half(t):
                    return p.Convert(node, FLOAT32, True, span=e.NO_SPAN)
            return None

        return e.rebuilt(rhs, change)

    def _is_half(self, tensor: str) -> bool:
        return (dtype := self.types.get(tensor)) is not None and dtype.is_storage


def _last_of(target: str, written: Sequence[Comprehension]) -> int | None:
    """The place of the last statement that writes a target; None where the statement may not be
    moved behind the statements after it."""
    changed: set[str] = set()
    read: set[str] = set()
    for place in reversed(range(len(written))):
        each = written[place]
        used = set(each.sources)
        if each.target == target:
            return None if target in read or used & changed else place
        changed.add(each.target)
        read |= used
    return None


def _merged(first: Comprehension, second: Comprehension) -> Comprehension | None:
    """One statement for two statements that sum over the same instances (D3), else None."""
    first = _with_indices(first, second)
    if _instances(first) != _instances(second):
        return None
    if first.op not in ("=", "+=", "+=!") or second.op != "+=":
        return None
    if first.op == "=" and first.where.keys() != set(first.indices):
        return None
    if first.target in second.sources:
        return None
    rhs = e.sum_of(first.rhs, second.rhs)
    return None if rhs is None else replace(first, rhs=rhs)


def _instances(line: Comprehension) -> tuple[object, ...]:
    """What two statements that sum over the same instances have in common."""
    domain = (line.within, line.conditions, line.exists)
    return line.target, line.indices, line.places, line.where, *domain


def _with_indices(first: Comprehension, second: Comprehension) -> Comprehension:
    """The first statement with the index names of the second, where the first has no other
    variables."""
    names = dict(zip(first.indices, second.indices, strict=False))
    is_whole = first.places is None and first.where.keys() == set(first.indices)
    if first.target != second.target or not is_whole or second.places is not None:
        return first
    rhs = e.substituted(first.rhs, {old: e.index(new) for old, new in names.items()})
    where = {names[name]: bounds for name, bounds in first.where.items()}
    return replace(first, indices=second.indices, rhs=rhs, where=where)
