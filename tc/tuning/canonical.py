"""Programs without their names: a measurement of one program holds for all programs that are
written alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tc.errors import InputError
from tc.pipeline import element_strides
from tc.polyhedral.rewrite.rewriting import rewrite
from tc.runtime.fallback import Request
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.tuning.rows import value_of


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the tensors of a program, in order of declaration, and of the variables of each
    statement, in order of appearance."""

    tensors: tuple[str, ...]
    variables: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, program: p.Program) -> Names:
        return cls(tuple(program.tensors), tuple(s.variables for s in program.statements))

    def to_json(self) -> str:
        """
        >>> names = Names(("x", "y"), (("i",),))
        >>> Names.from_json(names.to_json()) == names
        True
        """
        return json.dumps([self.tensors, self.variables])

    @classmethod
    def from_json(cls, text: object) -> Names:
        """What `to_json` has written; InputError for anything else."""
        value = value_of(text, 'the text of "names"')
        if not isinstance(value, list) or len(value) != 2 or not _are_lists(value[1:]):
            raise InputError(f"names: {text!r:.60} are none")
        tensors, variables = value
        if not all(map(_are_texts, (tensors, *variables))):
            raise InputError(f"names: {text!r:.60} are none")
        return cls(tuple(tensors), tuple(map(tuple, variables)))

    def are_like(self, other: Names) -> bool:
        """Whether a plan can be told under the one and under the other: they are as many."""
        mine, theirs = (self.tensors, *self.variables), (other.tensors, *other.variables)
        return [*map(len, mine)] == [*map(len, theirs)]


def _are_lists(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, list) for each in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def canonical_text(program: p.Program) -> str:
    """A program as a text without the names, the layout and the comments of its own.

    >>> from tc.pipeline import check_module, parse_source
    >>> from tc.source import Source
    >>> def of(text):
    ...     return canonical_text(check_module(parse_source(Source(text)), None))
    >>> print(of("def mv(float(M,K) A, float(K) x) -> (C) { C(i) +=! A(i,k) * x(k) }"))
    input float32 t0(n0, n1)
    input float32 t1(n1)
    output float32 t2[1]
    n0: t0.0
    n1: t0.1, t1.0
    t2(v0) +=! t0(v0, v1) * t1(v1) [float32 float32 int64 int64 float32 int64]
    >>> of("def f(float(N) a) -> (b) { b(i) = 2 * a(i) }  # twice") == of(
    ...    "def g(float(M) x) -> (y) { y(k) = 2*x(k) }")
    True
    """
    return "\n".join(_Spelling(program).lines())


class _Spelling:
    """Spells a program: tensors are t0, t1, ..., sizes n0, n1, ..., and the variables of each
    statement v0, v1, ..."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.tensors = {name: f"t{i}" for i, name in enumerate(program.tensors)}
        self.sizes = {name: f"n{i}" for i, name in enumerate(program.sizes)}

    def lines(self) -> Iterator[str]:
        for tensor in self.program.tensors.values():
            shape = f"[{tensor.rank}]"
            if tensor.shape is not None:
                shape = f"({', '.join(self.text(e, {}) for e in tensor.shape)})"
            yield f"{tensor.role} {tensor.dtype} {self.tensors[tensor.name]}{shape}"
        for name, size in self.program.sizes.items():
            yield f"{self.sizes[name]}: {', '.join(self.text(e, {}) for e in size.extents)}"
        for statement in self.program.statements:
            yield "".join(self.statement(statement))

    def statement(self, statement: p.Statement) -> Iterator[str]:
        """With the types of all that is computed, which the text leaves to be inferred."""
        own = {name: f"v{i}" for i, name in enumerate(statement.variables)}
        subscripts = ", ".join(self.text(e, own) for e in statement.subscripts)
        op = "=" if statement.op == "=" else f"{statement.op}={'!' if statement.init else ''}"
        yield f"{self.tensors[statement.target]}({subscripts}) {op} {self.text(statement.rhs, own)}"
        for where in statement.where:
            begin, end = self.text(where.begin, own), self.text(where.end, own)
            yield f" where {own.get(where.variable)} in {begin}:{end}"
        for read in statement.exists:
            yield f" exists {self.text(read, own)}"
        for test in statement.conditions:
            yield f" if {self.text(test, own)}"
        for clause in statement.sizes:
            sized = f"{self.tensors[clause.target]}.{clause.axis}"
            yield f" size {sized} = {self.text(clause.value, own)}"
        for companion in statement.companions:
            yield f" and {self.tensors[companion.target]} = {self.text(companion.rhs, own)}"
            yield f" continues {companion.continues}" if companion.continues else ""
        if statement.continues:
            yield f" continues {statement.continues}"
        computed = (*statement.values, *statement.conditions)
        nodes = (node for expr in computed for node in p.walk(expr))
        yield f" [{' '.join(str(node.dtype) for node in nodes)}]"

    def text(self, expr: p.Expr, variables: Mapping[str, str]) -> str:
        def named(node: p.Expr) -> p.Expr:
            match node:
                case p.Read(tensor=tensor) | p.Extent(tensor=tensor):
                    return replace(node, tensor=self.tensors[tensor])
                case p.Size(name=name):
                    return replace(node, name=self.sizes[name])
                case p.Index(name=name):
                    return replace(node, name=variables[name])
                case _:
                    return node

        return to_text(rewrite(expr, named))


@dataclass(frozen=True, slots=True)
class CanonicalCall:
    """What a call is, whatever its program calls things: `program` is a digest of the canonical
    text; `check` says whether anything is tested at these sizes (G7); `shapes` are those of the
    inputs, and of outputs that are passed and say them, and `scalars` the values of the static
    scalars, in order of declaration. `strides` are, by the places of inputs, those that are not
    row-major, in elements; `given` the places of the outputs that the caller passes."""

    program: str
    backend: str
    check: bool
    shapes: tuple[tuple[int, ...], ...]
    scalars: tuple[int, ...]
    strides: tuple[tuple[int, tuple[int, ...]], ...]
    given: tuple[int, ...]


def canonical_call(request: Request, shaped: p.ShapedProgram) -> CanonicalCall:
    """The call that a request asks code for, of a program that was shaped for its sizes."""
    program, sizes = shaped.program, request.sizes
    strides = element_strides(shaped, sizes)
    return CanonicalCall(
        hashlib.sha256(canonical_text(program).encode()).hexdigest(),
        request.backend,
        request.check and any(statement.is_checked for statement in shaped.statements),
        (
            *(tuple(sizes.shapes[name]) for name in program.inputs),
            *(tuple(sizes.outputs[name]) for name in program.outputs if name in sizes.outputs),
        ),
        tuple(sizes.scalars[n] for n in program.inputs if n in program.static_scalars),
        tuple((i, tuple(strides[n])) for i, n in enumerate(program.inputs) if n in strides),
        tuple(i for i, name in enumerate(program.outputs) if name in request.given),
    )


def as_json(value: Any) -> str:
    """The one text of a value of JSON.

    >>> as_json({"b": (1, 2), "a": None})
    '{"a":null,"b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
