"""The def around the statements of a gradient: its inputs, its results, and the values of the
program that it computes again."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.dtypes import DType
from tc.gradient import terms as e
from tc.gradient.call_free_def import is_spelled
from tc.gradient.def_text import (
    SPELLED,
    Comprehension,
    Joined,
    SampleCall,
    TextStep,
    WrittenDef,
    checked_def,
    reads_of,
    with_free_indices,
    without_idle_ranges,
)
from tc.gradient.maxima import outdated
from tc.gradient.sampled_ranges import SampledRanges
from tc.gradient.versions import LETTERS, VersionStep
from tc.semantics import program as p

EACH_VERSION = "each version"
"""Of what is saved: all that a gradient needs, what is overwritten later, too."""
OPERATORS = {"=": "=", "+": "+=", "*": "*=", "min": "min=", "max": "max="}


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward program as its gradient uses it: the versions that steps make, `given` versions
    of the caller with their tensors, and which versions are saved: "outputs", "all", "none" (D17),
    or EACH_VERSION. `redone` are the steps by which versions are computed again; `terms` are the
    tensors in which they store terms of maxima, with their types (D11)."""

    program: p.Program
    found: SampledRanges
    steps: tuple[VersionStep, ...]
    given: Mapping[str, str]
    save: str
    redone: tuple[VersionStep, ...]
    terms: Mapping[str, DType]

    def tensor(self, version: str) -> str:
        """The tensor of a version, or the name itself where it is that of no version."""
        tensors = dict(self.given) | {step.version: step.tensor for step in self.steps}
        return tensors.get(version, version)

    def dtype(self, version: str) -> DType:
        if version in self.terms:
            return self.terms[version]
        return self.program.tensors[self.tensor(version)].dtype

    def needed(self, written: Sequence[Comprehension]) -> tuple[list[str], list[TextStep]]:
        """The versions that are saved, and the statements that compute other versions again."""
        stale = {
            step.version
            for step in self.redone
            if any(read.tensor in self.terms for read in reads_of(step.statement.rhs))
        }
        while True:
            saved, again = self._needed(written, stale)
            compared = [w.rhs for w in written] + [step.statement.rhs for step in again]
            versions = {step.version for step in again}
            more = outdated(self.redone, self.dtype, saved, versions, compared)
            if not more:
                return saved, [made for step in again for made in self._made(step, {})]
            stale |= more

    def _needed(
        self, written: Sequence[Comprehension], stale: Container[str]
    ) -> tuple[list[str], list[VersionStep]]:
        """The versions that are saved, no `stale` one among them, and the steps that make other
        versions."""
        needed = {n.tensor for w in written for n in p.walk(w.rhs) if isinstance(n, p.Read)}
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
            rhs = step.statement.rhs
            needed |= {node.tensor for node in p.walk(rhs) if isinstance(node, p.Read)}
            if step.previous is not None:
                needed.add(step.previous)
            again.insert(0, step)
        order = [step.version for step in self.steps]
        return sorted(saved, key=order.index), again

    def _is_saved(self, step: VersionStep) -> bool:
        if step.tensor in self.terms:
            return False
        tensor = self.program.tensors[step.tensor]
        if tensor.dtype.is_integer and not tensor.rank:
            return False  # as an input, ranges would depend on it where conditions do
        kinds = {"outputs": ("output",), "none": ()}.get(self.save, ("output", "temporary"))
        is_last = self._last[step.tensor] == step.version
        return tensor.role in kinds and (is_last or self.save == EACH_VERSION)

    @property
    def _last(self) -> dict[str, str]:
        return {step.tensor: step.version for step in self.steps}

    def whole(self, saved: Sequence[str]) -> list[TextStep]:
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
        version = holders.get(step.version, step.version)
        previous = step.previous and holders.get(step.previous, step.previous)
        pieces = [s for s in self.steps if s.concat == step.concat and s.concat is not None]
        if pieces and {s.version for s in pieces} == {step.version} and not pieces[0].joins:
            sources = [next(reads_of(s.statement.rhs)).tensor for s in pieces]
            held = tuple(holders.get(source, source) for source in sources)
            return [Joined(version, held)] if step is pieces[0] else []
        statement, op = step.statement, OPERATORS[step.statement.op]
        if statement.op != "=" and step.is_anew:
            op += "!"
        rhs = _held(statement.rhs, holders)
        made = Comprehension(version, statement.outer, op, rhs, dict(step.ranges))
        if previous == version or step.joins or step.tensor in self.terms:
            return [made]
        shape = self.found.shapes[step.tensor]
        ends = (step.ranges[v][1] for v in statement.outer)
        if previous is None and all(map(operator.eq, ends, shape)):
            return [made]
        indices = tuple(LETTERS[k] for k in range(len(statement.outer)))
        whole = {name: (e.ZERO, size) for name, size in zip(indices, shape, strict=True)}
        value: p.Expr = e.ZERO
        if previous is not None:
            value = e.read(previous, tuple(map(e.index, indices)))
        return [Comprehension(version, indices, "=", value, whole), made]


def _held(expr: p.Expr, holders: Mapping[str, str]) -> p.Expr:
    """An expression with tensors in the place of the versions that they hold."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Extent) and node.tensor in holders:
            return replace(node, tensor=holders[node.tensor])
        if isinstance(node, p.Read) and node.tensor in holders:
            inside = tuple(e.rebuilt(s, change) for s in node.subscripts)
            return replace(node, tensor=holders[node.tensor], subscripts=inside)
        return None

    return e.rebuilt(expr, change)


@dataclass(frozen=True, slots=True)
class Derivation:
    """The parts of a gradient: `cotangents` of the caller by output, `results` by the tensor whose
    gradient they are, the statements `written`, and the `shapes` of all tensors of these."""

    forward: Forward
    fresh: Callable[[str], str]
    cotangents: Mapping[str, str]
    results: Mapping[str, str]
    written: Sequence[Comprehension]
    shapes: Mapping[str, tuple[p.Expr, ...]]

    @property
    def saved(self) -> tuple[str, ...]:
        """The versions that the gradient is given."""
        return tuple(self.forward.needed(self.written)[0])


def gradient_def(made: Derivation) -> WrittenDef:
    """The def of a gradient."""
    return _Def(made.forward, made.fresh, made.shapes).backward(made, "grad")


def forward_and_backward(made: Derivation) -> tuple[WrittenDef, WrittenDef]:
    """The def of the program, which returns what is saved, too, and that of its gradient."""
    texts = _Def(made.forward, made.fresh, made.shapes)
    return texts.forward_saving(made.saved, "forward"), texts.backward(made, "backward")


@dataclass(frozen=True, slots=True)
class _Def:
    forward: Forward
    fresh: Callable[[str], str]
    shapes: Mapping[str, tuple[p.Expr, ...]]
    dims: dict[str, list[str]] = field(default_factory=dict)

    def backward(self, made: Derivation, suffix: str) -> WrittenDef:
        program = self.forward.program
        saved, again = self.forward.needed(made.written)
        statements = self._finished((*again, *made.written))
        cotangents = made.cotangents
        asked = [v for v in self.forward.given if v in made.results]
        for version in dict.fromkeys((*cotangents, *asked, *saved)):
            self._dims(version)
        returns = [self._declared(name, result) for name, result in made.results.items()]
        body = "\n".join([*(s.text for s in statements), *returns])
        given = [v for v in self.forward.given if _names(body, v) or v in asked]
        tail = [self._declared(v, v) for v in given]
        tail += [self._declared(v, v) for v in saved]
        tail += [self._declared(o, n) for o, n in cotangents.items()]
        kept = self._kept(body, tail)
        head = [self._declared(n, n) for n in program.inputs if n in kept]
        shown = {n: o for o, n in cotangents.items()} | {v: v for v in (*given, *saved)}
        versions = {w.target for w in again}
        return self._written(suffix, [*head, *tail], returns, statements, shown, versions)

    def forward_saving(self, saved: Sequence[str], suffix: str) -> WrittenDef:
        program, given = self.forward.program, self.forward.given
        statements = self._finished(self.forward.whole(saved))
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
        name = self.fresh(f"{self.forward.program.name}_{suffix}")
        types = {v: self.forward.dtype(v) for v in versions}
        found = self.forward.found
        calls = [self._call(shaped, shown) for shaped in found.samples]
        edges = [self._call(shaped, shown) for shaped in found.edges]
        made = checked_def(name, params, returns, statements, types, rule="D4")
        return without_idle_ranges(made, self.shapes, calls, edges)

    def _kept(self, body: str, tail: Iterable[str]) -> set[str]:
        """The inputs that the body uses, and inputs that are needed to name a size."""
        program = self.forward.program
        kept = {n for n in program.inputs if _names(body, n)}
        missing = [s for s in program.sizes if _names(body, s)]
        for name in program.inputs:
            declared = " ".join([*(self._declared(k, k) for k in kept), *tail])
            mine = self._declared(name, name)
            if any(not _names(declared, s) and _names(mine, s) for s in missing):
                kept.add(name)
        return kept

    def _call(self, shaped: p.ShapedProgram, shown: Mapping[str, str]) -> SampleCall:
        shapes = {n: shaped.shapes[self.forward.tensor(version)] for n, version in shown.items()}
        return SampleCall(dict(shaped.shapes) | shapes, shaped.scalars)

    def _dims(self, version: str) -> list[str]:
        """The dimensions of a tensor that is no input, as text: sizes and numbers, and for other
        expressions names of their own, after the variables of the statement that writes the tensor.
        """
        tensor = self.forward.tensor(version)
        if tensor not in self.dims:
            left = next(s.outer for s in self.forward.program.statements if s.target == tensor)
            self.dims[tensor] = []
            for size, variable in zip(self.forward.found.shapes[tensor], left, strict=True):
                plain = isinstance(size, p.Size | p.Literal)
                dim = e.text(size) if plain else self.fresh(f"O{variable.upper()}")
                self.dims[tensor].append(dim)
        return self.dims[tensor]

    def _declared(self, version: str, name: str) -> str:
        tensor = self.forward.tensor(version)
        declared = self.forward.program.tensors[tensor]
        if declared.role != "input":
            dims = self._dims(version)
        elif self.forward.found.is_known:
            dims = [e.text(d) for d in self.forward.found.shapes[tensor]]
        else:
            dims = [e.text(d) for d in declared.shape or ()]
        listed = f"({','.join(dims)})" if dims else ""
        return f"{SPELLED[declared.dtype.name]}{listed} {name}"

    def _returned(self, output: str) -> str:
        """An output of the program, with its type where it is declared."""
        shape = self.forward.program.tensors[output].shape
        return self._declared(output, output) if is_spelled(shape) else output

    def _finished(self, statements: Sequence[TextStep]) -> list[TextStep]:
        """The statements as they are printed: index variables have free names, `pad` stands for the
        conditions that it makes, and sizes stand for dimensions of tensors."""
        program, found = self.forward.program, self.forward.found

        def change(node: p.Expr) -> p.Expr | None:
            if isinstance(node, p.Extent):
                tensor = self.forward.tensor(node.tensor)
                if tensor not in program.inputs or found.is_known:
                    return found.shapes[tensor][node.axis]
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

        names = (*self.shapes, *program.sizes)
        return [finished(written) for written in with_free_indices(names, statements)]


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
