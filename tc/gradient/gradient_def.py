"""The def around the statements of a gradient: what it takes, returns, and computes again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.gradient.cotangents import LETTERS
from tc.gradient.sampled_ranges import SampledRanges
from tc.gradient.statement_text import SampleCall, Written, body_text, without_idle_ranges
from tc.gradient.versions import VersionStep
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.source import Source

SPELLED = {"float32": "float", "float64": "double", "float16": "half"}
OPERATORS = {"=": "=", "+": "+=", "*": "*=", "min": "min=", "max": "max="}


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward program as a gradient needs it: its versions, those that the caller gives by
    their tensors, and which of them are saved: "outputs", "all" or "none" (D17)."""

    program: p.Program
    found: SampledRanges
    steps: tuple[VersionStep, ...]
    given: Mapping[str, str]
    save: str

    def tensor(self, version: str) -> str:
        """The tensor of which something is a version; its own name for what is none."""
        tensors = dict(self.given) | {step.version: step.tensor for step in self.steps}
        return tensors.get(version, version)

    def needed(self, written: Sequence[Written]) -> tuple[list[str], list[Written]]:
        """The versions that are saved, and the statements that compute others again."""
        needed = {n.tensor for w in written for n in p.walk(w.rhs) if isinstance(n, p.Read)}
        saved: list[str] = []
        again: list[Written] = []
        last = {step.tensor: step.version for step in self.steps}
        for step in reversed(self.steps):
            version = step.version
            if version not in needed:
                continue
            kinds = {"all": ("output", "temporary"), "outputs": ("output",), "none": ()}
            is_kept = self.program.tensors[step.tensor].role in kinds[self.save]
            if is_kept and last[step.tensor] == version:
                if version not in saved:
                    saved.insert(0, version)
                continue
            rhs = step.statement.rhs
            needed |= {node.tensor for node in p.walk(rhs) if isinstance(node, p.Read)}
            if step.previous is not None:
                needed.add(step.previous)
            again[:0] = self._again(step)
        return sorted(saved, key=list(last.values()).index), again

    def _again(self, step: VersionStep) -> list[Written]:
        """The statements that make a version, or add to it."""
        statement = step.statement
        op = OPERATORS[statement.op]
        if statement.op != "=" and step.is_anew:
            op += "!"
        made = Written(step.version, statement.outer, op, statement.rhs, dict(step.ranges))
        indices = tuple(LETTERS[k] for k in range(len(statement.outer)))
        shape = self.found.shapes[step.tensor]
        whole = {name: (e.ZERO, size) for name, size in zip(indices, shape, strict=True)}
        if step.previous is not None:
            value: p.Expr = e.read(step.previous, tuple(map(e.index, indices)))
        elif step.joins or step.covers:
            return [made]
        else:
            dtype = self.program.tensors[step.tensor].dtype
            value = p.Convert(e.ZERO, dtype, True, span=e.NOWHERE)
        return [Written(step.version, indices, "=", value, whole), made]


def gradient_def(
    forward: Forward,
    fresh: Callable[[str], str],
    cotangents: Mapping[str, str],
    results: Mapping[str, str],
    written: Sequence[Written],
) -> str:
    """The text of the def. `cotangents` are what the caller gives, by output, `results` what is
    returned, by what it is the gradient of."""
    return _Def(forward, fresh).text(cotangents, results, written)


@dataclass(frozen=True, slots=True)
class _Def:
    forward: Forward
    fresh: Callable[[str], str]

    def text(
        self,
        cotangents: Mapping[str, str],
        results: Mapping[str, str],
        written: Sequence[Written],
    ) -> str:
        program, found = self.forward.program, self.forward.found
        saved, again = self.forward.needed(written)
        statements = [self._finished(w) for w in (*again, *written)]
        dims = {output: self._dims(output) for output in dict.fromkeys((*cotangents, *saved))}
        returns = [self._declared(name, result) for name, result in results.items()]
        body = "\n".join(s.text for s in statements) + " ".join(returns)
        given = [v for v in self.forward.given if _names(body, v) or v in results]
        tail = [self._declared(v, v) for v in given]
        tail += [self._declared(v, v, dims[v]) for v in saved]
        tail += [self._declared(o, n, dims[o]) for o, n in cotangents.items()]
        kept = self._kept(body, tail)
        head = [self._declared(n, n) for n in program.inputs if n in kept]
        name = self.fresh(f"{program.name}_grad")
        start = f"def {name}({', '.join([*head, *tail])}) -> ({', '.join(returns)})"
        calls = [self._call(shaped, cotangents, (*given, *saved)) for shaped in found.samples]
        text = format_source(
            Source(body_text(start, without_idle_ranges(start, statements, calls)))
        )
        check(parse(Source(text)))
        return text

    def _kept(self, body: str, tail: Iterable[str]) -> set[str]:
        """The inputs that are used, and those that name sizes which nothing else names."""
        program = self.forward.program
        kept = {n for n in program.inputs if _names(body, n)}
        missing = [s for s in program.sizes if _names(body, s)]
        for name in program.inputs:
            declared = " ".join([*(self._declared(k, k) for k in kept), *tail])
            mine = self._declared(name, name)
            if any(not _names(declared, s) and _names(mine, s) for s in missing):
                kept.add(name)
        return kept

    def _call(
        self, shaped: p.ShapedProgram, cotangents: Mapping[str, str], versions: Iterable[str]
    ) -> SampleCall:
        shapes = dict(shaped.shapes) | {n: shaped.shapes[o] for o, n in cotangents.items()}
        shapes |= {v: shaped.shapes[self.forward.tensor(v)] for v in versions}
        return SampleCall(shapes, shaped.scalars)

    def _dims(self, version: str) -> list[str]:
        """The dimensions of something that is saved or given: where they are expressions, names,
        after the variables of the statement that writes it."""
        tensor = self.forward.tensor(version)
        left = next(s.outer for s in self.forward.program.statements if s.target == tensor)
        dims = []
        for size, variable in zip(self.forward.found.shapes[tensor], left, strict=True):
            plain = isinstance(size, p.Size | p.Literal)
            dims.append(e.text(size) if plain else self.fresh(f"O{variable.upper()}"))
        return dims

    def _declared(self, version: str, name: str, dims: Sequence[str] | None = None) -> str:
        tensor = self.forward.tensor(version)
        declared = self.forward.program.tensors[tensor]
        if dims is None:
            shape = self.forward.found.shapes[tensor]
            if declared.role == "input" and not self.forward.found.is_known:
                shape = declared.shape or ()
            dims = [e.text(d) for d in shape]
        spelled = SPELLED.get(declared.dtype.name, declared.dtype.name)
        return f"{spelled}({','.join(dims)}) {name}" if dims else f"{spelled} {name}"

    def _finished(self, written: Written) -> Written:
        """A statement as it is printed: `pad` where it stands for conditions, and dimensions of
        tensors in sizes."""
        program, found = self.forward.program, self.forward.found

        def change(node: p.Expr) -> p.Expr | None:
            if isinstance(node, p.Extent):
                tensor = self.forward.tensor(node.tensor)
                if tensor not in program.inputs or found.is_known:
                    return found.shapes[tensor][node.axis]
            if isinstance(node, p.Size) and found.is_known:
                return e.number(found.samples[0].sizes[node.name])
            return None

        rhs = e.rebuilt(e.with_pads(written.rhs), change)
        where = {
            v: (e.rebuilt(b, change), e.rebuilt(c, change)) for v, (b, c) in written.where.items()
        }
        return replace(written, rhs=rhs, where=where)


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
