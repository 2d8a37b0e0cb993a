"""Unknown names that no subscript and no range bounds (N1).

As index variables, which N1 makes of them, they could never have a range, so they were meant to
be something else: a size, a tensor of rank 0, or a constant of another language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TypeAlias

from tc.errors import CheckError
from tc.frontend.tokens import CONSTANTS
from tc.semantics.check.declarations import DefSignature
from tc.semantics.program import Expr, Index, Read, Unary, children
from tc.semantics.resolved import FlatStatement, FlatTensor, is_use
from tc.semantics.suggest import listed, nearest, number_written, product_written
from tc.source import Span


def products_meant(statement: FlatStatement, known: Container[str]) -> Iterator[tuple[str, str]]:
    """The reduction variables that look like products of a number and another name, with those:
    `2i` beside an index variable `i`. What has a range in the `where` is meant as it is."""
    given = {clause.variable for clause in statement.where}
    for name in statement.variables:
        product = product_written(name)
        if product is None or name in given or name in statement.outer:
            continue
        factor, rest = product
        if rest in statement.variables or rest in known:
            yield name, f"{factor} * {rest}"


def misspelt_index(
    statement: FlatStatement, tensors: Mapping[str, FlatTensor]
) -> Iterator[tuple[str, str]]:
    """Pairs of a reduced index variable and the variable that it is probably a slip for: the
    reduced variable stands once, in a dimension of the same size as one of the other variable,
    whose name is alike."""
    places: dict[str, list[Dimension]] = {}
    whole = [n for part in (statement.rhs, *statement.exists) for n in _descendants(part)]
    for number, node in enumerate(whole):
        if not isinstance(node, Read):
            continue
        for axis, subscript in enumerate(node.subscripts):
            shape = tensors[node.tensor].shape
            size = None if shape is None else shape[axis]
            for inner in _descendants(subscript):
                if isinstance(inner, Index):
                    bare = size if inner is subscript else None
                    places.setdefault(inner.name, []).append((number, bare))
    counts = Counter(n.name for n in whole if isinstance(n, Index))
    given = {clause.variable for clause in statement.where}
    told: set[str] = set()
    for name in reversed([*statement.variables]):
        if name in statement.outer or name in given or counts[name] != 1:
            continue
        if name in told or len(places.get(name, ())) != 1:
            continue
        number, size = places[name][0]
        for other in statement.variables:
            is_like = name.startswith(other) and set(name) == set(other) and name != other
            if not is_like and nearest(name, [other]) is None:
                continue
            there = places.get(other, ())
            apart = all(n != number for n, _ in there)
            if apart and size is not None and size in [d for _, d in there]:
                told.add(other)
                yield name, other
                break


Dimension: TypeAlias = tuple[int, Expr | None]
"""Which read of a statement, and the size of a dimension that a variable alone indexes there."""


def _descendants(expr: Expr) -> Iterator[Expr]:
    """An expression and all its descendants, in text order; the value of a binding once."""
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if isinstance(node, Unary) and is_use(node):
            if id(node.operand) in seen:
                continue
            seen.add(id(node.operand))
        yield node
        stack += reversed(children(node))


def check_loose(
    variables: Mapping[str, Span],
    bounded: Container[str],
    exprs: Iterable[Expr],
    signature: DefSignature,
) -> list[str]:
    """The variables that are neither `bounded` nor in a subscript of a read in `exprs`.

    Raises CheckError for those of them that are constants elsewhere, or look like sizes.
    """
    subscripted = _subscripted(exprs)
    names = [name for name in variables if name not in bounded and name not in subscripted]
    for name in names:
        if name in CONSTANTS:
            raise CheckError(
                f"'{name}' is no constant of the language, and as an index variable it would "
                "occur in no subscript",
                rule="N1",
                span=variables[name],
                paste=CONSTANTS[name],
            )
        text = number_written(name, {*signature.sizes, *_scalars(signature)}, loose=True)
        if text is not None or name[0].isdigit():
            raise CheckError(
                f"'{name}' is a name, since names may begin with digits, and as an index "
                "variable it would occur in no subscript",
                rule="N1",
                span=variables[name],
                paste=text,
                idiom=None if text else "2, 2.0, 1e5 or 0x1F, for a number",
            )
        if name.isupper():
            raise _no_size(name, variables[name], signature)
    return names


def _scalars(signature: DefSignature) -> list[str]:
    return [name for name in signature.tensors() if not signature.ranks.get(name)]


def _no_size(name: str, span: Span, signature: DefSignature) -> CheckError:
    sizes = [*signature.sizes]
    near = nearest(name, (*sizes, *_scalars(signature)))
    known = "which has no sizes"
    if sizes:
        known = f"whose {'only size is' if len(sizes) == 1 else 'sizes are'} {listed(sizes)}"
    return CheckError(
        f"'{name}' is no size of '{signature.name}', {known}, and as an index variable it would "
        "occur in no subscript" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=span,
        paste=near,
        repair=None if near else f"declare it as an input, int {name}, or name a size",
    )


def _subscripted(exprs: Iterable[Expr]) -> set[str]:
    """The index variables in the subscripts of reads."""
    found: set[str] = set()
    stack = [(expr, False) for expr in exprs]
    seen: set[tuple[int, bool]] = set()
    while stack:
        node, inside = stack.pop()
        if isinstance(node, Unary) and is_use(node):  # shared by its uses
            if (id(node.operand), inside) in seen:
                continue
            seen.add((id(node.operand), inside))
        if isinstance(node, Index) and inside:
            found.add(node.name)
        inside = inside or isinstance(node, Read)
        stack += [(child, inside) for child in children(node)]
    return found
