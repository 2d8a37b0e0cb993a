"""Unknown names that no subscript and no range bounds (N1).

As index variables, which N1 makes of them, they could never have a range, so they were meant to
be something else: a size, a tensor of rank 0, or a constant of another language.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from tc.errors import CheckError
from tc.semantics.names import Signature
from tc.semantics.resolved import Bound, Index, Read, Resolved, operands
from tc.semantics.suggest import listed, nearest
from tc.source import Span

_CONSTANTS = {
    "True": "bool(1)",
    "true": "bool(1)",
    "False": "bool(0)",
    "false": "bool(0)",
    "inf": "(1.0 / 0.0)",
    "Infinity": "(1.0 / 0.0)",
    "INFINITY": "(1.0 / 0.0)",
    "nan": "(0.0 / 0.0)",
    "NaN": "(0.0 / 0.0)",
    "NAN": "(0.0 / 0.0)",
}
"""Constants of other languages, by what they are here."""


def loose_names(
    variables: Mapping[str, Span], bounded: Container[str], exprs: Iterable[Resolved]
) -> tuple[str, ...]:
    """The variables that are neither `bounded` nor in a subscript of a read in `exprs`."""
    subscripted = _subscripted(exprs)
    return tuple(n for n in variables if n not in bounded and n not in subscripted)


def check_loose(names: Iterable[str], variables: Mapping[str, Span], signature: Signature) -> None:
    """Raise CheckError for loose names that are constants elsewhere, or look like sizes."""
    for name in names:
        if name in _CONSTANTS:
            raise CheckError(
                f"'{name}' is no constant of the language, and as an index variable it would "
                "occur in no subscript",
                rule="N1",
                span=variables[name],
                repair=_CONSTANTS[name],
            )
        if name.isupper():
            raise _no_size(name, variables[name], signature)


def _no_size(name: str, span: Span, signature: Signature) -> CheckError:
    sizes = [*signature.sizes]
    near = nearest(name, (*sizes, *(t for t in signature.tensors() if not signature.ranks.get(t))))
    if not sizes:
        known, repair = "which has no sizes", f"declare it as an input: int {name}"
    elif len(sizes) == 1:
        known, repair = f"whose only size is {listed(sizes)}", sizes[0]
    else:
        known, repair = f"whose sizes are {listed(sizes)}", f"write one of {listed(sizes, 'or')}"
    return CheckError(
        f"'{name}' is no size of '{signature.name}', {known}, and as an index variable it would "
        "occur in no subscript" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=span,
        repair=near or repair,
    )


def _subscripted(exprs: Iterable[Resolved]) -> set[str]:
    """The index variables in the subscripts of reads."""
    found: set[str] = set()
    stack = [(expr, False) for expr in exprs]
    seen: set[tuple[int, bool]] = set()
    while stack:
        node, inside = stack.pop()
        if isinstance(node, Bound):  # shared by its uses
            if (id(node.value), inside) in seen:
                continue
            seen.add((id(node.value), inside))
        if isinstance(node, Index) and inside:
            found.add(node.name)
        inside = inside or isinstance(node, Read)
        stack += [(child, inside) for child in operands(node)]
    return found
