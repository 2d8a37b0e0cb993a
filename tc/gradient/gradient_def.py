"""The def around the statements of a gradient: its inputs, its results, and the values of the
program that it computes again."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import DType, Type, join
from tc.gradient import terms as e
from tc.gradient.call_free_def import CallFreeDef, is_spelled
from tc.gradient.def_text import (
    SPELLED,
    Comprehension,
    FreshNames,
    Joined,
    SampleCall,
    TextStep,
    WrittenDef,
    checked_def,
    without_idle_ranges,
)
from tc.gradient.reductions import outdated
from tc.gradient.symbolic_ranges import SymbolicRanges
from tc.gradient.versions import VersionStep
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
    shapes: Mapping[str, tuple[p.Expr, ...]]
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
        return tensors.get(version, version)

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
                return saved, [made for step in again for made in self._made(step, {})]
            stale |= more

    def _needed(self, stale: Container[str]) -> tuple[list[str], list[VersionStep]]:
        """The versions that are saved, no `stale` one among them, and the steps that make other
        versions."""
        needed = {name for line in self.written for name in line.sources}
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

        return [made for step in self.steps for made in self._made(step, holders)]

    def _made(self, step: VersionStep, holders: Mapping[str, str]) -> list[TextStep]:
        """The statements that make a version, or add to it; `holders` are the tensors that hold
        versions."""
        line, op = step.line, step.line.op
        version = holders.get(step.version, step.version)
        previous = step.previous and holders.get(step.previous, step.previous)
        pieces = [s for s in self.steps if s.concat is step.concat is not None]
        sources = [s.line.sources[0] for s in pieces]
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
        made = replace(line, target=version, op=op, rhs=e.with_tensors(line.rhs, holders))
        if previous == version or step.joins or step.tensor in self.terms:
            return [made]
        shape = self.program.inferred[step.tensor]
        ends = (line.where[v][1] for v in line.indices)
        if previous is None and all(map(operator.eq, ends, shape)):
            return [made]
        indices = self.names.indices(len(line.indices))
        whole = {name: (e.ZERO, size) for name, size in zip(indices, shape, strict=True)}
        value: p.Expr = e.ZERO
        if previous is not None:
            value = e.read(previous, tuple(map(e.index, indices)))
        return [Comprehension(version, indices, "=", value, whole), made]

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
        statements = self._finished((*again, *self.written))
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
        versions = {w.target for w in again} | {
            w.target for w in self.written if w.target in self.terms
        }
        return self._written(suffix, [*head, *tail], returns, statements, shown, versions)

    def forward(self, suffix: str) -> WrittenDef:
        """The def of the program, which also returns the versions that are saved."""
        program, given, saved = self.program, self.given, self.saved
        statements = self._finished(self._whole(saved))
        params = [self._declared(n, n) for n in (*program.inputs, *given)]
        returns = [self._returned(n) for n in program.outputs]
        returns += [v for v in saved if v not in program.outputs]
        versions = {w.target for w in statements}
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
            left = next(line.indices for line in self.program.lines if line.target == tensor)
            self.dims[tensor] = []
            for size, variable in zip(self.program.inferred[tensor], left, strict=True):
                plain = isinstance(size, p.Size | p.Literal)
                dim = e.text(size) if plain else self.names.fresh(f"O{variable.upper()}")
                self.dims[tensor].append(dim)
        return self.dims[tensor]

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

    def _finished(self, statements: Sequence[TextStep]) -> list[TextStep]:
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
            rhs = e.rebuilt(e.with_pads(written.rhs), change)
            where = {
                v: (e.rebuilt(b, change), e.rebuilt(c, change))
                for v, (b, c) in written.where.items()
            }
            return replace(written, rhs=rhs, where=where)

        return list(map(finished, statements))


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
