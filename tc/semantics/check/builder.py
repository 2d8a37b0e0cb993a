"""The builder of a flat def: it gathers statements and tensors, and checks the order of reads and
writes (N3, R4); and where names are looked up while an expression is resolved, and what is found
(N1, T5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from tc.dtypes import BOOL, INT64, SPELLINGS, DType, fits
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics import program as p
from tc.semantics.check.declarations import DefSignature
from tc.semantics.program import Expr
from tc.semantics.resolved import Argument, FlatStatement, FlatTensor
from tc.semantics.suggest import element
from tc.source import Span


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A def where it is inlined, or the entry itself.

    `tensors` gives the name in the program of each tensor, `prefix` stands before the names of
    its sizes, and `calls` are the call statements from the entry to here.
    """

    signature: DefSignature
    tensors: Mapping[str, str]
    prefix: str
    calls: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A read met while resolving."""

    tensor: str
    text: str
    span: Span
    in_subscript: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """What an expression mentions: index variables with their first place, and its reads.

    `used` holds the bindings whose findings are in here, each with whether within a subscript, so
    that bindings which use each other many times count once.
    """

    variables: dict[str, Span] = field(default_factory=dict)
    reads: list[Seen] = field(default_factory=list)
    used: set[tuple[str, bool]] = field(default_factory=set)

    def take(self, other: Findings) -> None:
        """Adds what another expression mentions."""
        for name, span in other.variables.items():
            self.variables.setdefault(name, span)
        self.reads.extend(other.reads)


@dataclass(frozen=True, slots=True)
class BindingValue:
    value: Expr
    height: int
    findings: Findings


@dataclass(frozen=True, slots=True)
class NameScope:
    """Where names are looked up.

    `shaped` holds the program's tensors whose extents are known before the statement; `bindings`
    are those in scope; `hidden` are the names of bindings that are not in scope here, and
    `binding` is the one whose value is resolved. `statement` is the one around, for repairs.
    """

    frame: CallFrame
    defs: Mapping[str, DefSignature]
    shaped: Container[str]
    bindings: Mapping[str, BindingValue]
    hidden: Mapping[str, Span]
    binding: str | None = None
    statement: ast.Comprehension | None = None


@dataclass(frozen=True, slots=True)
class Builder:
    """What flattening has gathered so far; local to one call of `flatten`.

    `written` maps the tensors written so far to the statement, `touched` those read or written,
    and `shaped` are the tensors whose extents may be named.
    """

    defs: Mapping[str, DefSignature]
    tensors: dict[str, FlatTensor] = field(default_factory=dict)
    sizes: dict[str, p.SizeDef] = field(default_factory=dict)
    equalities: list[p.Equality] = field(default_factory=list)
    statements: list[FlatStatement] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    warnings: list[p.ProgramWarning] = field(default_factory=list)
    written: dict[str, Span] = field(default_factory=dict)
    touched: dict[str, Span] = field(default_factory=dict)
    shaped: set[str] = field(default_factory=set)
    needs_initial: dict[str, Span] = field(default_factory=dict)
    inlinings: Counter[str] = field(default_factory=Counter)

    def declare_inputs(self, signature: DefSignature) -> None:
        for name, param in signature.params.items():
            shape = shape_of(param.type, "")
            declared = SPELLINGS[param.type.spelling]
            self.tensors[name] = FlatTensor(
                name,
                len(shape),
                "input",
                declared,
                param.span,
                shape,
                param.name.span,
                default_of(param),
            )
            self.shaped.add(name)
        names = {name: name for name in signature.params}
        self.add_sizes(signature, names, "", "")

    def add_sizes(
        self, signature: DefSignature, tensors: Mapping[str, str], prefix: str, given: str
    ) -> None:
        """The sizes of a def and its literal dimensions, from the extents of its parameters."""
        extents: dict[str, list[p.Extent]] = {}
        open_: dict[str, list[p.Extent]] = {}
        for name, param in signature.params.items():
            for axis, dim in enumerate(param.type.dims or ()):
                extent = p.Extent(tensors[name], axis, span=dim.span)
                if isinstance(dim, ast.Name):
                    extents.setdefault(dim.text, []).append(extent)
                else:
                    self.equalities.append(
                        p.Equality(
                            extent,
                            p.Literal(dim.value, INT64, span=dim.span),
                            f"dimension {axis} of parameter '{name}' of '{signature.name}' is "
                            f"declared as {dim.value}{given}",
                            span=dim.span,
                        )
                    )
        if not prefix:  # outputs that a caller passes say what no parameter says
            for name, result in signature.returns.items():
                for axis, dim in enumerate((result.type.dims or ()) if result.type else ()):
                    if isinstance(dim, ast.Name) and dim.text not in extents:
                        of_output = p.Extent(name, axis, span=dim.span)
                        open_.setdefault(dim.text, []).append(of_output)
            extents |= open_
        for size, found in extents.items():
            self.sizes[prefix + size] = p.SizeDef(
                prefix + size, tuple(found), span=signature.sizes[size]
            )

    def add_temporaries(self, frame: CallFrame) -> None:
        for name, span in frame.signature.temporaries.items():
            tensor = frame.tensors[name]
            rank = frame.signature.ranks.get(name, 0)
            self.tensors[tensor] = FlatTensor(tensor, rank, "temporary", None, None, None, span)

    def note_read(self, read: Seen, frame: CallFrame, writing: Sequence[str]) -> None:
        """Record a read; raise where it is of a temporary that nothing has written (R4)."""
        self.touched.setdefault(read.tensor, read.span)
        tensor = self.tensors[read.tensor]
        if tensor.role == "input" or read.tensor in self.written:
            return
        if tensor.role == "output":
            self.needs_initial.setdefault(read.tensor, read.span)
            return
        own = ", which this statement writes for the first time," if read.tensor in writing else ""
        known = frame.tensors.get(read.text) == read.tensor and not frame.calls
        repair = f"write it first: {element(read.text, tensor.rank)} = 0"
        if read.tensor not in writing:
            repair = f"move the statement that writes '{read.text}' above this one"
        if known:
            repair += f"; or return '{read.text}', so that the caller gives its contents"
        else:
            repair = "make the target of the call a return of the entry, so that the caller gives "
            repair += f"the contents of '{read.text}'"
        raise CheckError(
            f"the temporary '{read.text}'{own} is read before any statement has written it",
            rule="R4",
            span=read.span,
            repair=repair,
        )

    def note_write(self, tensor: str, span: Span) -> None:
        self.touched.setdefault(tensor, span)
        self.written.setdefault(tensor, span)
        self.shaped.add(tensor)


def default_of(param: ast.Param) -> int | float | bool | None:
    """The value that a call may leave out (E5); CheckError where the type does not hold it."""
    expr = param.default
    if expr is None:
        return None
    sign = -1 if isinstance(expr, ast.Unary) and expr.op == "-" else 1
    number = expr.operand if isinstance(expr, ast.Unary) else expr
    assert isinstance(number, ast.Number)
    value, dtype = sign * number.value, SPELLINGS[param.type.spelling]
    if dtype == BOOL and value in (0, 1) and isinstance(value, int):
        return bool(value)
    is_whole = isinstance(value, int)
    if dtype == BOOL or (not is_whole and not dtype.is_float) or not fits(value, dtype):
        raise CheckError(
            f"the default {value} of '{param.name.text}' does not fit {dtype}",
            rule="Y1",
            span=expr.span,
            paste=f"{int(value)}" if not dtype.is_float and fits(int(value), dtype) else None,
            repair="declare a type that holds it, such as double",
        )
    return float(value) if dtype.is_float else value


def declared(
    result: ast.Return, prefix: str
) -> tuple[DType | None, Span | None, tuple[p.Expr, ...] | None]:
    """Element type, its place, and shape of a return, where it is annotated (T4)."""
    if result.type is None:
        return None, None, None
    return SPELLINGS[result.type.spelling], result.span, shape_of(result.type, prefix)


def shape_of(type_: ast.TensorType, prefix: str) -> tuple[p.Expr, ...]:
    return tuple(
        p.Size(prefix + dim.text, span=dim.span)
        if isinstance(dim, ast.Name)
        else p.Literal(dim.value, INT64, span=dim.span)
        for dim in type_.dims or ()
    )
