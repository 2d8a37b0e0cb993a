"""Kernels as data of JSON, and back: a list of rows, one for each different node.

A row is the name of a node's class and the values of its fields in order. In place of a node that
a field holds stands the number of its row, which comes before. So a text of any depth and with any
number of shared parts is flat, and reading it needs neither recursion nor names from the text:
`NODES` has all classes that can come of it, and every value is compared with the type of its field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from operator import index
from typing import Any

from tc.dtypes import DTYPES, DType
from tc.kernel import ir
from tc.kernel.ir import Kernel

_EXPRESSIONS = (
    ir.Const, ir.Var, ir.Load, ir.Unary, ir.Binary, ir.Compare, ir.Logical, ir.Select, ir.Call,
    ir.Cast, ir.Bits, ir.Broadcast, ir.Ramp, ir.Reduce, ir.Shuffle, ir.WarpReduce,
)  # fmt: skip
_STATEMENTS = (
    ir.For, ir.If, ir.Let, ir.Set, ir.Store, ir.Prefetch, ir.Fail, ir.Comment, ir.Grid, ir.Barrier,
    ir.Atomic, ir.CopyAsync, ir.Commit, ir.Wait, ir.WarpMultiply,
)  # fmt: skip
_OTHERS = (ir.LaunchIndex, ir.Buffer, ir.Site, ir.Kernel)

NODES: Mapping[str, type] = {
    kind.__name__: kind for kind in (*_EXPRESSIONS, *_STATEMENTS, *_OTHERS)
}
"""The classes of rows by their names."""

_SORTS = dict.fromkeys(_EXPRESSIONS, "Expr") | dict.fromkeys(_STATEMENTS, "Stmt")
_SORTS |= {kind: kind.__name__ for kind in _OTHERS}
"""As what a field names a node: an expression, a statement, or by its class."""

_DOUBLE = struct.Struct(">d")


class FormError(ValueError):
    """What was read has not the form of what is written."""


def rows_of(kernel: Kernel) -> list[tuple[Any, ...]]:
    """The rows of a kernel, whose own is the last; one for many sizes has numbers in the place of
    what is tracked (`tc.kernel.sizes.at_sizes`).

    >>> from tc.dtypes import FLOAT32
    >>> one = ir.Const(1.0, FLOAT32)
    >>> store = ir.Store("o", (), ir.Binary("+", one, one, FLOAT32))
    >>> kernel = Kernel("f", (ir.Buffer("o", FLOAT32, (), (), "output"),), ((store,),))
    >>> for row in rows_of(kernel):
    ...     print(*row)
    Buffer o float32 () () output False 1
    Const f3ff0000000000000 float32
    Binary + 1 1 float32
    Store o () 2 None False
    Kernel f (0,) ((3,),) () () ()
    >>> kernel_of(rows_of(kernel)) == kernel
    True
    """
    rows: list[tuple[Any, ...]] = []
    places: dict[int, int] = {}  # of nodes by their identity
    known: dict[tuple[Any, ...], int] = {}  # of rows by what is in them
    waiting: list[tuple[Any, bool]] = [(kernel, False)]
    while waiting:
        node, are_children_done = waiting.pop()
        if id(node) in places:
            continue
        form = _FORMS[type(node)]
        if not are_children_done:
            waiting.append((node, True))
            below = [child for name, kind in form for child in kind.nodes(getattr(node, name))]
            waiting.extend((child, False) for child in reversed(below))
            continue
        row = (type(node).__name__, *(kind.write(getattr(node, n), places) for n, kind in form))
        at = known.setdefault(row, len(rows))
        if at == len(rows):
            rows.append(row)
        places[id(node)] = at
    return rows


def kernel_of(rows: object) -> Kernel:
    """The kernel of rows; FormError where the rows are of no kernel."""
    made: list[tuple[str, Any]] = []
    for row in _list(rows):
        name, *values = _list(row) or [None]
        kind = NODES.get(name) if isinstance(name, str) else None
        if kind is None:
            raise FormError(f"no node is called {name!r}")
        form = _FORMS[kind]
        if len(values) != len(form):
            raise FormError(f"{name} has {len(form)} fields, not {len(values)}")
        read = {n: f.read(value, made) for (n, f), value in zip(form, values, strict=True)}
        made.append((_SORTS[kind], kind(**read)))
    kernel = made[-1][1] if made else None
    if not isinstance(kernel, Kernel):
        raise FormError("the last row is no kernel")
    return kernel


# --- the fields -------------------------------------------------------------------------------


class _Field:
    """How values of one type are written and read, and which nodes are in them."""

    def __init__(
        self,
        write: Callable[[Any, Mapping[int, int]], Any],
        read: Callable[[object, Sequence[tuple[str, Any]]], Any],
        nodes: Callable[[Any], Iterator[Any]] = lambda _: iter(()),
    ) -> None:
        self.write, self.read, self.nodes = write, read, nodes


def _plain(kind: type) -> _Field:
    def read(value: object, _: object) -> Any:
        if type(value) is not kind:
            raise FormError(f"a field of type {kind.__name__} holds one of {type(value).__name__}")
        return value

    return _Field(lambda value, _: value, read)


def _node(sort: str) -> _Field:
    def read(value: object, made: Sequence[tuple[str, Any]]) -> Any:
        if type(value) is not int or not 0 <= value < len(made) or made[value][0] != sort:
            raise FormError(f"a field holds {value!r} where a row of a {sort} is due")
        return made[value][1]

    return _Field(lambda node, places: places[id(node)], read, lambda node: iter((node,)))


def _or_none(inner: _Field) -> _Field:
    return _Field(
        lambda value, places: None if value is None else inner.write(value, places),
        lambda value, made: None if value is None else inner.read(value, made),
        lambda value: iter(()) if value is None else inner.nodes(value),
    )


def _tuple_of(inner: _Field) -> _Field:
    return _Field(
        lambda values, places: tuple([inner.write(value, places) for value in values]),
        lambda values, made: tuple([inner.read(value, made) for value in _list(values)]),
        lambda values: (node for value in values for node in inner.nodes(value)),
    )


def _list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise FormError(f"{value!r:.80} is no list")
    return [*value]


def _read_dtype(value: object, _: object) -> DType:
    if not isinstance(value, str):
        raise FormError(f"{value!r:.80} is no type")
    return _dtype_of(value)


@cache
def _dtype_of(value: str) -> DType:
    """The type that a row spells; kernels have thousands of rows, and few types."""
    name, _, lanes = value.partition("x")
    if name not in DTYPES or (lanes and not lanes.isdecimal()) or len(lanes) > 4:
        raise FormError(f"{value!r:.80} is no type")
    return DTYPES[name].vector(int(lanes or "1"))


def _constant(value: Any, _: object) -> str:
    """With the type of the number, as 1, 1.0 and True are equal; floats by their bits."""
    if isinstance(value, bool):
        return f"b{int(value)}"
    return f"f{_DOUBLE.pack(value).hex()}" if isinstance(value, float) else f"i{index(value)}"


def _read_constant(value: object, _: object) -> int | float | bool:
    if not isinstance(value, str) or value[:1] not in ("b", "i", "f"):
        raise FormError(f"{value!r:.80} is no constant")
    kind, digits = value[:1], value[1:]
    if kind == "f":
        content = bytes.fromhex(digits)
        if len(content) != _DOUBLE.size:
            raise FormError(f"{value!r:.80} is no double")
        number: float = _DOUBLE.unpack(content)[0]
        return number
    return bool(int(digits)) if kind == "b" else int(digits)


_STR, _INT = _plain(str), _plain(int)
_EXPR, _STMT = _node("Expr"), _node("Stmt")
_NAMES = _tuple_of(_STR)

_FIELDS: Mapping[str, _Field] = {
    "str": _STR,
    "int": _INT,
    "bool": _plain(bool),
    "int | float | bool": _Field(_constant, _read_constant),
    "DType": _Field(lambda dtype, _: str(dtype), _read_dtype),
    "Expr": _EXPR,
    "Expr | None": _or_none(_EXPR),
    "tuple[Expr, ...]": _tuple_of(_EXPR),
    "tuple[Stmt, ...]": _tuple_of(_STMT),
    "tuple[tuple[Stmt, ...], ...]": _tuple_of(_tuple_of(_STMT)),
    "tuple[int, ...]": _tuple_of(_INT),
    "tuple[str, ...]": _NAMES,
    "frozenset[str]": _Field(
        lambda names, places: _NAMES.write(sorted(names), places),
        lambda names, made: frozenset(_NAMES.read(names, made)),
    ),
    "tuple[LaunchIndex, ...]": _tuple_of(_node("LaunchIndex")),
    "tuple[Buffer, ...]": _tuple_of(_node("Buffer")),
    "tuple[Site, ...]": _tuple_of(_node("Site")),
    "tuple[Size, ...]": _tuple_of(_INT),
}
"""How fields are written and read, by their types as the classes spell them."""

_FORMS: Mapping[type, tuple[tuple[str, _Field], ...]] = {
    kind: tuple((item.name, _FIELDS[str(item.type)]) for item in fields(kind))
    for kind in NODES.values()
}
