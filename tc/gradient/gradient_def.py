"""The def around the statements of a gradient: its inputs, its results, and the values of the
program that it computes again."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import BOOL, DType, Type, join
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, is_spelled
from tc.gradient.def_text import (
    SPELLED,
    Comprehension,
    FreshNames,
    Joined,
    SampleCall,
    SizeOf,
    TextStep,
    WrittenDef,
    checked_def,
    element_names,
    without_idle_ranges,
)
from tc.gradient.reductions import outdated
from tc.gradient.symbolic_ranges import SymbolicRanges
from tc.gradient.versions import VersionStep, retargeted
from tc.semantics import program as p
from tc.semantics.size_values import KnownSizes, evaluate

EACH_VERSION = "each version"
"""A value of `save`: each version that a gradient needs is saved, even if it is overwritten later.
"""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The parts of a gradient.

    Of the program: `steps` make its versions, `given` are versions of the caller with their
    tensors, `save` says which versions are saved: "outputs", "all", "none" (D17), or EACH_VERSION.
    `redone` are the steps by which versions are computed again; `terms` are the tensors in which
    terms of maxima, and products of terms, are stored, with their types (D11, D12). Of the
    gradient: `cotangents` of the caller by output, `results` by the tensor whose gradient they are,
    the statements `written`, and the `shapes` of all tensors of these.
    """

    program: CallFreeDef
    names: FreshNames
    steps: tuple[VersionStep, ...]
    given: Mapping[str, str]
    save: str
    redone: tuple[VersionStep, ...]
    terms: Mapping[str, DType]
    cotangents: Mapping[str, str]
    results: Mapping[str, str]
    written: Sequence[Comprehension]
    shapes: dict[str, tuple[p.Expr, ...]]
    copies: dict[str, str] = field(default_factory=dict)  # of which versions
    dims: dict[str, list[str]] = field(default_factory=dict)

    # --- which versions are saved, and which are computed again -------------------------------

    @property
    def found(self) -> SymbolicRanges:
        assert self.program.found is not None
        return self.program.found

    @property
    def saved(self) -> tuple[str, ...]:
        """The versions that the gradient is given."""
        return tuple(self.needed()[0])

    def tensor(self, version: str) -> str:
        """The tensor of a version; a name of no version is that of a tensor."""
        tensors = dict(self.given) | {step.version: step.tensor for step in self.steps}
        return tensors.get(self.copies.get(version, version), version)

    def dtype(self, version: str) -> DType:
        if version in self.terms:
            return self.terms[version]
        return self.program.dtypes[self.tensor(version)]

    def needed(self) -> tuple[list[str], list[TextStep]]:
        """The versions that are saved, and the statements that compute other versions again."""
        stale = {
            step.version
            for step in self.redone
            if not self.terms.keys().isdisjoint(step.line.sources)
        }
        while True:
            saved, again = self._needed(stale)
            compared = [w.rhs for w in self.written] + [step.line.rhs for step in again]
            versions = {step.version for step in again}
            more = outdated(self.redone, self.dtype, saved, versions, compared)
            if not more:
                return saved, self._statements(again, {})
            stale |= more

    def _needed(self, stale: Container[str]) -> tuple[list[str], list[VersionStep]]:
        """The versions that are saved, no `stale` one among them, and the steps that make other
        versions."""
        needed = {read.tensor for line in self.written for read in line.all_reads}
        saved: list[str] = []
        again: list[VersionStep] = []
        for step in reversed(self.redone):
            version = step.version
            if version not in needed:
                continue
            if self._is_saved(step) and version not in stale:
                if version not in saved:
                    saved.insert(0, version)
                continue
            needed |= step.sources
            if step.chosen is not None:
                needed |= {s.previous for s in self._of(step.chosen) if s.previous is not None}
            again.insert(0, step)
        order = [step.version for step in self.steps]
        return sorted(saved, key=order.index), again

    def _is_saved(self, step: VersionStep) -> bool:
        program, tensor = self.program, step.tensor
        if tensor in self.terms:
            return False
        if program.dtypes[tensor].is_integer and not program.ranks[tensor]:
            return False  # as an input, ranges would depend on it where conditions do
        kind = "output" if tensor in program.outputs else "temporary"
        kinds = {"outputs": ("output",), "none": ()}.get(self.save, ("output", "temporary"))
        is_last = self._last[tensor] == step.version
        return kind in kinds and (is_last or self.save == EACH_VERSION)

    @property
    def _last(self) -> dict[str, str]:
        return {step.tensor: step.version for step in self.steps}

    def _whole(self, saved: Sequence[str]) -> list[TextStep]:
        """The statements of the program. Versions that are not saved are held by the tensor that
        holds the version after them."""
        holders: dict[str, str] = {version: version for version in self.given}
        latest = dict(self._last)
        for step in reversed(self.steps):
            if step.version in saved:
                latest[step.tensor] = step.version
            holders[step.version] = latest[step.tensor]

        return self._statements(self.steps, holders)

    def _statements(
        self, steps: Sequence[VersionStep], holders: Mapping[str, str]
    ) -> list[TextStep]:
        """The statements of some steps; `holders` are the tensors that hold versions."""
        made: list[TextStep] = []
        for step in steps:
            if step.chosen is None:
                made += self._made(step, holders)
            elif step is next(s for s in steps if s.chosen == step.chosen):
                made += self._with_targets(step.chosen, steps, holders)
        return made

    def _with_targets(
        self, chosen: Comprehension, steps: Sequence[VersionStep], holders: Mapping[str, str]
    ) -> list[TextStep]:
        """A statement with several targets. Targets that are no versions of `steps`, as their
        values are given, are others of the same values."""
        made: list[TextStep] = []
        names = dict(holders)
        for step in self._of(chosen):
            if step not in steps:
                names[step.version] = self._other(step)
            made += self._begun(step, names)
        op = chosen.op
        if all(step.is_anew for step in self._of(chosen)) and not chosen.starts:
            op += "!"
        renamed = chosen.changed(lambda expr: e.with_tensors(expr, holders))
        return [*made, retargeted(replace(renamed, op=op), names)]

    def _other(self, step: VersionStep) -> str:
        """The name of a tensor that gets the values of a version once more."""
        for other, version in self.copies.items():
            if version == step.version:
                return other
        other = self.names.fresh(f"o_{step.version}")
        self.copies[other] = step.version
        self.shapes[other] = self.program.inferred[step.tensor]
        return other

    def _of(self, chosen: Comprehension) -> list[VersionStep]:
        """The steps of a statement with several targets."""
        return [step for step in self.steps if step.chosen == chosen]

    def _made(self, step: VersionStep, holders: Mapping[str, str]) -> list[TextStep]:
        """The statements that make a version, or add to it; `holders` are the tensors that hold
        versions."""
        line, op = step.line, step.line.op
        pieces = [s for s in self.steps if s.concat is step.concat is not None]
        sources = [s.line.sources[0] for s in pieces]
        version = holders.get(step.version, step.version)
        if (
            pieces
            and {s.version for s in pieces} == {step.version}
            and not pieces[0].joins
            and self._concat_type(sources) == self.dtype(step.version)
        ):
            held = tuple(holders.get(source, source) for source in sources)
            return [Joined(version, held)] if step is pieces[0] else []
        if step.is_anew and not line.starts:
            op += "!"
        renamed = line.changed(lambda expr: e.with_tensors(expr, holders))
        written = retargeted(replace(renamed, op=op), holders)
        return [*self._begun(step, holders), written]

    def _begun(self, step: VersionStep, holders: Mapping[str, str]) -> list[TextStep]:
        """What stands before a statement that does not write all of a version: a copy of the
        version before, or zeros."""
        line = step.line
        version = holders.get(step.version, step.version)
        previous = step.previous and holders.get(step.previous, step.previous)
        if previous == version or step.joins or step.tensor in self.terms:
            return []
        shape = self.program.inferred[step.tensor]
        if previous is None and step.covers:
            return []
        if previous is None:
            ends = (line.where[v][1] if v is not None else None for v in line.bare)
            if all(end in (None, size) for end, size in zip(ends, shape, strict=True)):
                return []
        indices = self.names.indices(len(shape))
        whole = {name: (e.ZERO, size) for name, size in zip(indices, shape, strict=True)}
        value: p.Expr = e.ZERO
        if previous is not None:
            value = e.read(previous, tuple(map(e.index, indices)))
        elif self.program.dtypes[step.tensor] == BOOL:
            value = p.Convert(value, BOOL, True, span=e.NO_SPAN)
        return [Comprehension(version, indices, "=", value, whole)]

    def _concat_type(self, sources: Sequence[str]) -> Type:
        """The element type of a concat of versions. The tensor that holds the concat may have a
        wider type, by later statements."""
        first: Type = self.dtype(sources[0])
        return functools.reduce(join, map(self.dtype, sources), first)

    # --- defs ---------------------------------------------------------------------------------

    def backward(self, suffix: str) -> WrittenDef:
        """The def of the gradient."""
        program, cotangents = self.program, self.cotangents
        saved, again = self.needed()
        statements = self._finished((*again, *self.written), self.results.values())
        asked = [v for v in self.given if v in self.results]
        for version in dict.fromkeys((*cotangents, *asked, *saved)):
            self._dims(version)
        returns = [self._declared(name, result) for name, result in self.results.items()]
        body = "\n".join([*(s.text for s in statements), *returns])
        given = [v for v in self.given if _names(body, v) or v in asked]
        tail = [self._declared(v, v) for v in given]
        tail += [self._declared(v, v) for v in saved]
        tail += [self._declared(o, n) for o, n in cotangents.items()]
        kept = self._kept(body, tail)
        head = [self._declared(n, n) for n in program.inputs if n in kept]
        shown = {n: o for o, n in cotangents.items()} | {v: v for v in (*given, *saved)}
        versions = {n for w in again for n in w.targets} | {
            w.target for w in self.written if w.target in self.terms
        }
        return self._written(suffix, [*head, *tail], returns, statements, shown, versions)

    def forward(self, suffix: str) -> WrittenDef:
        """The def of the program, which also returns the versions that are saved."""
        program, given, saved = self.program, self.given, self.saved
        shapes = program.shapes
        declared = [output for output in program.outputs if is_spelled(shapes.get(output))]
        statements = self._finished(self._whole(saved), declared)
        params = [self._declared(n, n) for n in (*program.inputs, *given)]
        returns = [self._returned(n) for n in program.outputs]
        returns += [v for v in saved if v not in program.outputs]
        versions = {n for w in statements for n in w.targets}
        return self._written(suffix, params, returns, statements, {v: v for v in given}, versions)

    def _written(
        self,
        suffix: str,
        params: Sequence[str],
        returns: Sequence[str],
        statements: Sequence[TextStep],
        shown: Mapping[str, str],
        versions: Iterable[str],
    ) -> WrittenDef:
        """The def of some statements. `shown` are the versions, or outputs, whose shapes parameters
        have beside the inputs; `versions` are the versions that statements make."""
        name = self.names.fresh(f"{self.program.name}_{suffix}")
        types = {v: self.dtype(v) for v in versions}
        calls = [self._call(sample, shown) for sample in self.found.samples]
        edges = [self._call(sample, shown) for sample in self.found.edges]
        made = checked_def(name, params, returns, statements, types, rule="D4")
        return without_idle_ranges(made, self.shapes, calls, edges)

    def _kept(self, body: str, tail: Iterable[str]) -> set[str]:
        """The inputs that the body uses, and inputs that are needed to name a size."""
        program = self.program
        kept = {n for n in program.inputs if _names(body, n)}
        missing = [s for s in program.sizes if _names(body, s)]
        for name in program.inputs:
            declared = " ".join([*(self._declared(k, k) for k in kept), *tail])
            mine = self._declared(name, name)
            if any(not _names(declared, s) and _names(mine, s) for s in missing):
                kept.add(name)
        return kept

    def _call(self, sample: p.ShapedProgram, shown: Mapping[str, str]) -> SampleCall:
        known = KnownSizes(sample.sizes, sample.shapes, sample.scalars)
        tensors = {word: name for name, word in self.program.words.items()}
        shapes = dict(sample.shapes)
        for name, version in shown.items():
            tensor = self.tensor(version)
            shape = sample.shapes.get(tensors.get(tensor, tensor))
            if shape is None:  # of a part of a right side
                dims = (evaluate(dim, known) for dim in self.program.inferred[tensor])
                shape = tuple(max(dim or 0, 0) for dim in dims)
            shapes[name] = shape
        return SampleCall(shapes, sample.scalars)

    def _dims(self, version: str) -> list[str]:
        """The dimensions of a tensor that is no input, as text: sizes and numbers, and for other
        expressions names of their own, after the variables of the statement that writes the tensor.
        """
        tensor = self.tensor(version)
        if tensor not in self.dims:
            first = next(line for line in self.program.lines if tensor in line.targets)
            left = element_names(first, self.names)
            self.dims[tensor] = []
            sizes = self.program.inferred[tensor]
            for axis, (size, variable) in enumerate(zip(sizes, left, strict=True)):
                plain = isinstance(size, p.Size | p.Literal) and self._is_size(tensor, axis)
                dim = e.text(size) if plain else self.names.fresh(f"O{variable.upper()}")
                self.dims[tensor].append(dim)
        return self.dims[tensor]

    def _is_size(self, tensor: str, axis: int) -> bool:
        """Whether a dimension has its size where others are 0, too: a range that depends on a
        variable without values is empty."""
        names = {word: name for name, word in self.program.words.items()}
        size = self.program.inferred[tensor][axis]
        for edge in self.found.edges:
            shape = edge.shapes.get(names.get(tensor, tensor))
            known = KnownSizes(edge.sizes, edge.shapes, edge.scalars)
            if shape is not None and shape[axis] != evaluate(size, known):
                return False
        return True

    def _declared(self, version: str, name: str) -> str:
        program, tensor = self.program, self.tensor(version)
        if tensor not in program.inputs:
            dims = self._dims(version)
        else:
            shapes = program.inferred if self.found.is_known else program.shapes
            dims = [e.text(d) for d in shapes[tensor]]
        listed = f"({','.join(dims)})" if dims else ""
        return f"{SPELLED[program.dtypes[tensor].name]}{listed} {name}"

    def _returned(self, output: str) -> str:
        """An output of the program, with its type where it is declared."""
        shape = self.program.shapes.get(output)
        return self._declared(output, output) if is_spelled(shape) else output

    def _finished(self, statements: Sequence[TextStep], declared: Iterable[str]) -> list[TextStep]:
        """The statements as they are printed: `pad` stands for the conditions that it makes, and
        sizes stand for dimensions of tensors."""
        program, found = self.program, self.found

        def change(node: p.Expr) -> p.Expr | None:
            if isinstance(node, p.Extent):
                tensor = self.tensor(node.tensor)
                if tensor not in program.inputs or found.is_known:
                    return program.inferred[tensor][node.axis]
            if isinstance(node, p.Size) and found.is_known:
                return e.number(found.samples[0].sizes[node.name])
            return None

        def finished(written: TextStep) -> TextStep:
            if isinstance(written, Joined):
                return written
            where = {
                v: (e.rebuilt(b, change), e.rebuilt(c, change))
                for v, (b, c) in written.where.items()
            }
            sizes = tuple(replace(s, value=e.rebuilt(s.value, change)) for s in written.sizes)
            new = written.changed(lambda expr: e.rebuilt(e.with_pads(expr), change))
            return replace(new, where=where, sizes=sizes)

        return self._with_sizes([*map(finished, statements)], declared)

    def _with_sizes(self, steps: list[TextStep], declared: Iterable[str]) -> list[TextStep]:
        """The statements with size clauses for dimensions that no statement before gives a size:
        those whose places are computed, or whose ranges depend on tensors (S4)."""
        known = {*declared}
        made: list[TextStep] = []
        for step in steps:
            if isinstance(step, Comprehension):
                told = {(size.target, size.axis) for size in step.sizes}
                open_ = [
                    SizeOf(target, axis, self.shapes[target][axis])
                    for target in step.targets
                    if target not in known
                    for axis, variable in enumerate(step.bare)
                    if variable is None or variable in step.within
                    if (target, axis) not in told
                ]
                step = replace(step, sizes=(*step.sizes, *open_))
            made.append(step)
            known |= {*step.targets}
        return made


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
