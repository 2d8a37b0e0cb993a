"""Where names are looked up while an expression is resolved, and what is found (N1, T5)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from tc.frontend import ast
from tc.semantics.check.declarations import DefSignature
from tc.semantics.program import Expr
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
