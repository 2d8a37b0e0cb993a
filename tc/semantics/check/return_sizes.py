"""Errors about returns whose types name sizes that no parameter has (T4), with their repairs.

An output whose index ranges follow from other tensors needs no shape. An output that the caller
passes, and whose size no other tensor has, needs the size as an input, and a `where` with the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tc.edits import Edit
from tc.errors import CheckError
from tc.frontend import ast
from tc.semantics.suggest import before, indices, listed
from tc.source import Span


def unknown_size(
    definition: ast.Def, dim: ast.Name, result: ast.Return, sizes: Mapping[str, Span]
) -> CheckError:
    """The error for a size in the type of a return that no parameter has."""
    known = f"the sizes of the parameters are {listed(list(sizes))}" if sizes else "there is none"
    cause = (
        f"'{dim.text}' in the type of the return '{result.name.text}' is not the size of any "
        f"parameter; {known}"
    )
    unsized = {r.name.text: r for r in definition.returns if _unknown(r, sizes)}
    edits, written, missing = [], list[str](), dict[str, None]()
    for name, found in unsized.items():
        edits.append(Edit(found.span, name))
        text, edit = _fixing(definition, found, unsized)
        if edit is not None:
            edits.append(edit)
            written.append(text)
            missing.update(dict.fromkeys(_unknown(found, sizes)))
    name = result.name.text
    rank = len(result.type.dims or ()) if result.type else 0
    if not missing:
        repair = (
            f"-> ({name}), whose shape is then inferred from {name}({', '.join(indices(rank))})"
        )
        return CheckError(cause, rule="T4", span=dim.span, repair=repair, edits=tuple(edits))
    taken = {param.name.text for param in definition.params}
    inputs = ", ".join(f"int {size}" for size in missing if size not in taken)
    if inputs:
        edits.append(as_inputs(definition, inputs))
    repair = (
        f"{inputs or ', '.join(missing)} as input, -> ({', '.join(unsized)}), and "
        f"{' and '.join(dict.fromkeys(written))}, for the shape of {listed(list(unsized))}"
    )
    return CheckError(cause, rule="T4", span=dim.span, repair=repair, edits=tuple(edits))


def _unknown(result: ast.Return, sizes: Mapping[str, Span]) -> tuple[str, ...]:
    dims = (result.type.dims or ()) if result.type else ()
    return tuple(d.text for d in dims if isinstance(d, ast.Name) and d.text not in sizes)


def as_inputs(definition: ast.Def, inputs: str) -> Edit:
    """The insertion of declarations behind the parameters of a def."""
    source = definition.span.source
    if definition.params:
        end = definition.params[-1].span.end
        return Edit(Span(source, end, end), f", {inputs}")
    at = source.text.index("(", definition.name.span.end) + 1
    return Edit(Span(source, at, at), inputs)


def _fixing(
    definition: ast.Def, result: ast.Return, unsized: Mapping[str, ast.Return]
) -> tuple[str, Edit | None]:
    """A repair that fixes the shape of an output without its type, as text and edit: `where` ranges
    for a statement that nothing bounds, or, where the first statement writes a part of a tensor
    that the caller passes, a statement that keeps this tensor."""
    dims = [dim.span.line for dim in (result.type.dims or ())] if result.type else []
    first = next(
        (
            s
            for s in definition.body
            if isinstance(s, ast.Comprehension) and s.target.text == result.name.text
        ),
        None,
    )
    if first is None or len(first.indices or ()) != len(dims):
        return "", None
    sizes = dict(zip((index.text for index in first.indices or ()), dims, strict=True))
    given = {c.variable.text: c for c in first.where if isinstance(c, ast.RangeClause)}
    if any(_is_part(given[name], size) for name, size in sizes.items() if name in given):
        left = f"{result.name.text}({', '.join(sizes)})"
        text = f"{left} = {left} where {_clauses(sizes)}"
        return text, before(definition.body[0].span, text)
    targets = {s.target.text for s in definition.body if isinstance(s, ast.Comprehension)}
    tensors = {*targets, *(param.name.text for param in definition.params)} - set(unsized)
    bounded = {*given, *_subscripts(first, tensors)}
    text = _clauses({name: size for name, size in sizes.items() if name not in bounded})
    if not text:
        return "", None
    source = first.span.source
    if first.where:
        end = first.where[-1].span.end
        return text, Edit(Span(source, end, end), f", {text}")
    if first.annotation is not None:
        end = first.annotation.span.start
        return f"where {text}", Edit(Span(source, end, end), f"where {text} ")
    end = first.span.end
    return f"where {text}", Edit(Span(source, end, end), f" where {text}")


def _clauses(sizes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} in 0:{size}" for name, size in sizes.items())


def _is_part(clause: ast.RangeClause, size: str) -> bool:
    """Whether a range is not that of the whole dimension."""
    return (clause.begin.span.line, clause.end.span.line) != ("0", size)


def _subscripts(statement: ast.Comprehension, tensors: set[str]) -> set[str]:
    """The names in the subscripts of these tensors."""
    found: set[str] = set()
    parts: Iterable[ast.Expr] = (
        statement.rhs,
        *(c.read for c in statement.where if isinstance(c, ast.Exists)),
        *(c.value for c in statement.where if isinstance(c, ast.Binding)),
    )
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Apply) and node.name.text in tensors:
                inner = (n for arg in node.args for n in ast.walk(arg))
                found |= {n.text for n in inner if isinstance(n, ast.Name)}
    return found
