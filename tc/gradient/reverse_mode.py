"""Reverse mode: the text of a program's gradient (D1 to D3, D7, D8, D11, D12, D17)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from tc.dtypes import FLOAT16, FLOAT32, FLOAT64
from tc.errors import GradError
from tc.frontend.format import format_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.gradient.adjoints import Contribution, contributions
from tc.gradient.inversion import invert
from tc.gradient.sampled_ranges import SampledRanges, sampled_ranges
from tc.gradient.statement_text import (
    ExprBounds,
    SampleCall,
    Written,
    body_text,
    without_idle_ranges,
)
from tc.gradient.versions import VersionStep, versions
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.source import Source

SPELLED = {"float32": "float", "float64": "double", "float16": "half"}


def grad(
    src: str | Source,
    wrt: Sequence[str] | str | None = None,
    *,
    entry: str | None = None,
    constant: Iterable[str] = (),
) -> str:
    """The text of a def that computes the gradient of a def (D1).

    It takes the inputs that it uses, outputs that it needs, and a cotangent `d_O` for each
    floating output `O`, and returns `d_A` for each input `A` named by `wrt`, by default each
    floating one. Nothing flows through the tensors in `constant`.

    Raises GradError, with the rule and the statement, for what is not derived.

    >>> import tc
    >>> mv = "def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"
    >>> print(tc.grad(mv), end="")
    def mv_grad(float(M, K) A, float(K) x, float(M) d_C) -> (float(M, K) d_A, float(K) d_x) {
      d_A(i, k) = d_C(i) * x(k)
      d_x(k) +=! d_C(i) * A(i, k)
    }
    """
    source = src if isinstance(src, Source) else Source(src)
    program = check(parse(source), entry)
    return _Reverse.of(program, _asked(program, wrt), frozenset(constant)).text()


def _asked(program: p.Program, wrt: Sequence[str] | str | None) -> tuple[str, ...]:
    floating = tuple(n for n in program.inputs if program.tensors[n].dtype.is_float)
    asked = floating if wrt is None else (wrt,) if isinstance(wrt, str) else tuple(wrt)
    for name in asked:
        if name not in floating:
            what = "is no floating input" if name in program.inputs else "is no input"
            raise GradError(
                f"wrt names '{name}', which {what} of '{program.name}'",
                rule="D16",
                span=program.span,
                repair=f"wrt={list(floating)}",
            )
    if not asked:
        raise GradError(f"'{program.name}' has no floating input", rule="D16", span=program.span)
    return asked


@dataclass
class _Reverse:
    """What is known and made so far of one gradient."""

    program: p.Program
    wrt: tuple[str, ...]
    found: SampledRanges
    steps: tuple[VersionStep, ...]
    taken: set[str]
    active: set[str]
    shapes: dict[str, tuple[p.Expr, ...]]
    types: dict[str, str]
    cotangents: dict[str, str] = field(default_factory=dict)  # of a version
    started: set[str] = field(default_factory=set)  # cotangents that hold something
    written: list[Written] = field(default_factory=list)

    @classmethod
    def of(cls, program: p.Program, wrt: tuple[str, ...], constant: frozenset[str]) -> _Reverse:
        found = sampled_ranges(program)
        for tensor in program.tensors.values():
            if tensor.dtype == FLOAT16:
                raise GradError(
                    f"'{tensor.name}' is half, of which no gradient is derived",
                    rule="D17",
                    span=tensor.span,
                    repair="float",
                )
        taken = {*program.tensors, *program.sizes}
        taken |= {v for s in program.statements for v in s.variables}
        new = cls(program, wrt, found, (), taken, set(wrt) - constant, {}, {})
        new.steps = versions(program, found, new.fresh)
        for name, tensor in program.tensors.items():
            new.shapes[name] = found.shapes[name]
            new.types[name] = tensor.dtype.name
        for step in new.steps:
            new.shapes[step.version] = found.shapes[step.tensor]
            new.types[step.version] = program.tensors[step.tensor].dtype.name
            reads = {c.read.tensor for c in contributions(step.statement.rhs, e.ZERO)}
            if reads & new.active and step.tensor not in constant and step.version not in constant:
                new.active.add(step.version)
        return new

    def fresh(self, name: str) -> str:
        """The name, or with _2, _3, ... where it is taken (D2)."""
        stem = re.sub(r"\W", "_", name)
        name = self.untaken(stem)
        self.taken.add(name)
        return name

    def untaken(self, stem: str, here: Container[str] = ()) -> str:
        """The name of an index variable, which is free for other statements."""
        numbered = (f"{stem}_{n}" for n in itertools.count(2))
        tried = itertools.chain([stem], numbered)
        return next(name for name in tried if name not in self.taken and name not in here)

    # --- statements -------------------------------------------------------------------------

    def text(self) -> str:
        outputs = [o for o in self.program.outputs if self.program.tensors[o].dtype.is_float]
        given = {o: self.fresh(f"d_{o}") for o in outputs}
        results = {a: self.fresh(f"d_{a}") for a in self.wrt}
        self.cotangents.update(results)
        read = {
            c.read.tensor
            for step in self.steps
            for c in contributions(step.statement.rhs, e.ZERO)
            if step.version in self.active
        }
        for output in outputs:
            self.cotangents[output] = given[output]
            self.started.add(given[output])
            if output in read and output in self.active:
                self.cotangents[output] = self.fresh(f"b_{output}")
                self._add(output, self._variables(output), e.read(given[output], ()), copy=True)
        for step in reversed(self.steps):
            cotangent = self.cotangents.get(step.version)
            if step.version in self.active and cotangent in self.started:
                self._derive(step, cotangent)
        for name in self.wrt:
            if results[name] not in self.started:
                self._add(name, self._variables(name), e.ZERO)
        return self._whole(given, results)

    def _variables(self, tensor: str) -> tuple[str, ...]:
        return tuple("ijklmnpq"[k] if k < 8 else f"i{k}" for k in range(len(self.shapes[tensor])))

    def _add(
        self,
        tensor: str,
        indices: tuple[str, ...],
        rhs: p.Expr,
        where: dict[str, ExprBounds] | None = None,
        copy: bool = False,
    ) -> None:
        """One contribution to the cotangent of a tensor: the first assigns, as it covers it."""
        if copy:
            assert isinstance(rhs, p.Read)
            rhs = e.read(rhs.tensor, tuple(map(e.index, indices)))
        target = self.cotangents.setdefault(tensor, "")
        if not target:
            target = self.cotangents[tensor] = self.fresh(f"d_{tensor}")
        names = set(self.types.values())
        if {FLOAT32.name, FLOAT64.name} <= names:
            dtype = FLOAT32 if self.types[tensor] == FLOAT32.name else FLOAT64
            rhs = p.Convert(rhs, dtype, True, span=e.NOWHERE)
        op = "+="
        if target not in self.started:
            op = "+=!" if where else "="
        self.started.add(target)
        sizes = zip(indices, self.shapes[tensor], strict=True)
        ranges = {name: (e.ZERO, size) for name, size in sizes} | (where or {})
        self.written.append(Written(target, indices, op, rhs, ranges))

    def _derive(self, step: VersionStep, cotangent: str) -> None:
        """What one statement gives to all that it reads (D3)."""
        statement, ranges = step.statement, self.found.ranges[step.statement.name]
        adjoint: p.Expr = e.read(cotangent, statement.subscripts)
        guard: tuple[p.Expr, ...] = ()
        if statement.op in ("min", "max"):
            equal = e.compare("==", statement.rhs, e.read(step.version, statement.subscripts))
            count = self.fresh(f"n_{step.version}")
            one = e.select(equal, e.number(1))
            op = "+=!" if statement.reduction else "="
            self.written.append(Written(count, statement.outer, op, one, dict(ranges)))
            adjoint = e.binary("/", adjoint, e.read(count, statement.subscripts))
            guard = (equal,)
            self._refuse_offset(step)
        elif statement.op == "*":
            adjoint = e.product(adjoint, self._others(step))
            self._refuse_offset(step)
        for found in contributions(statement.rhs, adjoint, guard):
            if found.read.tensor in self.active:
                self._contribute(step, found)

    def _refuse_offset(self, step: VersionStep) -> None:
        """Tensors made on the way have the shape that the ranges give, from 0."""
        for variable in step.statement.outer:
            if self.found.ranges[step.statement.name][variable][0] != e.ZERO:
                raise GradError(
                    f"the range of '{variable}' does not begin at 0 in a reduction with "
                    f"{step.statement.op}, of which no gradient is derived",
                    rule="D11" if step.statement.op != "*" else "D12",
                    span=step.statement.span,
                    repair=f"let '{variable}' begin at 0",
                )

    def _others(self, step: VersionStep) -> p.Expr:
        """The product of the other terms of an instance (D12)."""
        statement, ranges = step.statement, self.found.ranges[step.statement.name]
        if not statement.reduction:
            return p.Literal(1.0, FLOAT64, span=e.NOWHERE)
        for variable in statement.reduction:
            if ranges[variable][0] != e.ZERO:
                raise GradError(
                    f"the range of '{variable}' does not begin at 0 in a product, of which no "
                    "gradient is derived",
                    rule="D12",
                    span=statement.span,
                )
        others = {v: self.fresh("q") for v in statement.reduction}
        same = [e.compare("==", e.index(o), e.index(v)) for v, o in others.items()]
        renamed = {v: e.index(o) for v, o in others.items()}
        rhs = e.substituted(statement.rhs, renamed)
        name = self.fresh(f"x_{step.version}")
        term = p.Select(e.conjunction(same), e.number(1), rhs, FLOAT64, span=e.NOWHERE)
        where = dict(ranges) | {o: ranges[v] for v, o in others.items()}
        indices = (*statement.outer, *statement.reduction)
        self.written.append(Written(name, indices, "*=!", term, where))
        return e.read(name, tuple(map(e.index, indices)))

    def _contribute(self, step: VersionStep, found: Contribution) -> None:
        """The statement of one read: subscripts inverted, guards outermost (D5, D7)."""
        statement, ranges = step.statement, self.found.ranges[step.statement.name]
        order = (*statement.outer, *statement.reduction)
        made = invert(found.read.subscripts, order, self.untaken)
        shape = self.shapes[found.read.tensor]
        conditions = [part for c in found.conditions for part in self._parts(c, found.read)]
        adjoint = e.substituted(found.adjoint, made.values)
        inside = list(made.selections)
        covered: list[p.Expr] = []
        for variable, (begin, end) in ranges.items():
            value = made.values.get(variable)
            if value is None and variable in made.elements:
                value, limit = e.index(variable), shape[made.elements.index(variable)]
                checks = [("<=", begin, value)] * (begin != e.ZERO)
                checks += [("<", value, end)] * (end != limit)
            elif value is not None:
                checks = [("<=", begin, value), ("<", value, end)]
            else:
                continue
            guards = [e.compare(op, left, right) for op, left, right in checks]
            is_read = (variable, begin, end) in self._bare(found.adjoint)
            (covered if is_read else inside).extend(guards)
        plain = not any(isinstance(n, p.Select | p.Logical) for n in p.walk(adjoint))
        if covered and plain and not conditions:
            rhs = e.pad(adjoint)
        else:
            inside += covered
            inside += [e.substituted(c, made.values) for c in conditions]
            rhs = adjoint
        if inside:
            rhs = e.select(e.conjunction(inside), rhs)
        gone = {*made.values, *made.elements}
        where = {v: bounds for v, bounds in ranges.items() if v not in gone}
        self._add(found.read.tensor, made.elements, rhs, where)

    def _parts(self, condition: p.Expr, access: p.Read) -> list[p.Expr]:
        """A condition without what says that the read itself is in bounds."""
        return [c for c in e.parts(condition) if c not in e.bounds(access)]

    def _bare(self, adjoint: p.Expr) -> set[tuple[str, p.Expr, p.Expr]]:
        """The variables that alone index a read that is always made, with the dimension."""
        found = set()
        shapes = dict(self.shapes)
        for tensor, cotangent in self.cotangents.items():
            shapes.setdefault(cotangent, self.shapes[tensor])
        for node in p.walk(adjoint):
            if isinstance(node, p.Read) and node.tensor in shapes:
                for subscript, size in zip(node.subscripts, shapes[node.tensor], strict=True):
                    if isinstance(subscript, p.Index):
                        found.add((subscript.name, e.ZERO, size))
        return found

    # --- the whole text ---------------------------------------------------------------------

    def _whole(self, given: dict[str, str], results: dict[str, str]) -> str:
        saved, forward = self._needed()
        statements = [*forward, *self.written]
        dims = {o: self._dims(o, n) for o, n in zip(given, self._named(given), strict=True)}
        for output in saved:
            if output not in dims:
                dims[output] = self._dims(output, self._named([output])[0])
        returns = [self._declared(a, results[a]) for a in self.wrt]
        body = "\n".join(s.text for s in statements) + " ".join(returns)
        kept = {n for n in self.program.inputs if re.search(rf"\b{re.escape(n)}\b", body)}
        tail = [self._declared(o, o, dims[o]) for o in saved]
        tail += [self._declared(o, n, dims[o]) for o, n in given.items()]
        for name in self.program.inputs:
            missing = [s for s in self.program.sizes if re.search(rf"\b{re.escape(s)}\b", body)]
            declared = " ".join([*(self._declared(k, k) for k in kept), *tail])
            mine = self._declared(name, name)
            if any(not _names(declared, s) and _names(mine, s) for s in missing):
                kept.add(name)
        head = [self._declared(n, n) for n in self.program.inputs if n in kept]
        name = self.fresh(f"{self.program.name}_grad")
        start = f"def {name}({', '.join([*head, *tail])}) -> ({', '.join(returns)})"
        calls = [self._call(shaped, given) for shaped in self.found.samples]
        written = without_idle_ranges(start, statements, calls)
        text = format_source(Source(body_text(start, written)))
        check(parse(Source(text)))
        return text

    def _call(self, shaped: p.ShapedProgram, given: dict[str, str]) -> SampleCall:
        shapes = dict(shaped.shapes) | {n: shaped.shapes[o] for o, n in given.items()}
        return SampleCall(shapes, shaped.scalars)

    def _named(self, outputs: Iterable[str]) -> list[list[str]]:
        """Names that sizes of outputs may get where they are expressions: O and the variable."""
        named = []
        for output in outputs:
            left = [s.outer for s in self.program.statements if s.target == output]
            named.append([f"O{v.upper()}" for v in left[0]])
        return named

    def _dims(self, output: str, names: list[str]) -> list[str]:
        dims = []
        for size, name in zip(self.shapes[output], names, strict=True):
            plain = isinstance(size, p.Size | p.Literal)
            dims.append(e.text(size) if plain else self.fresh(name))
        return dims

    def _declared(self, tensor: str, name: str, dims: list[str] | None = None) -> str:
        declared = self.program.tensors[tensor]
        if dims is None:
            dims = [e.text(d) for d in declared.shape or ()]
        spelled = SPELLED.get(declared.dtype.name, declared.dtype.name)
        return f"{spelled}({','.join(dims)}) {name}" if dims else f"{spelled} {name}"

    def _needed(self) -> tuple[list[str], list[Written]]:
        """The outputs that are saved, and the statements that are computed again (D17)."""
        needed = {n.tensor for w in self.written for n in p.walk(w.rhs) if isinstance(n, p.Read)}
        forward: list[Written] = []
        for step in reversed(self.steps):
            if step.version not in needed or step.version in self.program.outputs:
                continue
            statement = step.statement
            needed |= {n.tensor for n in p.walk(statement.rhs) if isinstance(n, p.Read)}
            op = "=" if statement.op == "=" else _OPERATORS[statement.op]
            if statement.op != "=" and step.fresh:
                op += "!"
            where = dict(self.found.ranges[statement.name])
            forward.insert(0, Written(step.version, statement.outer, op, statement.rhs, where))
        return [o for o in self.program.outputs if o in needed], forward


_OPERATORS = {"+": "+=", "*": "*=", "min": "min=", "max": "max="}


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
