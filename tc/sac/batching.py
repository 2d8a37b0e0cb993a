"""Batching: the text of a function for many inputs at a time (D18), in the notation itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc.errors import GradError
from tc.sac import ast
from tc.sac.program import Program
from tc.sac.text.format import format_source
from tc.sac.text.printer import printed
from tc.source import Source, Span
from tc.wording import listed, nearest

ANY_SHAPE, NO_SCALAR = "*", "+"


def batched_text(program: Program, in_axes: object) -> str:
    """The text of a program with one more function at its end, which computes a function for each
    element of a batch: a comprehension over the batch, which is the first axis of each result.

    `in_axes` says along which axis inputs are batched: by name, in the order of the inputs, or one
    for all; a negative axis counts from the end, and inputs with None, and those that a mapping
    leaves out, are the same for all elements. Raises GradError where `in_axes` does not fit, and
    for an expression, whose inputs are not declared.

    >>> from tc.source import Source
    >>> text = "float f(float[n] x, float[n] y) { return sum(x * y); }"
    >>> print(batched_text(Program.of(Source(text), None), {"x": 1}), end="")
    float f(float[n] x, float[n] y) {
      return sum(x * y);
    }
    <BLANKLINE>
    float[.] f_batch(float[*] x, float[n] y) {
      return { [b] -> f(x[.,b], y) };
    }
    """
    definition = program.definition
    if definition is None:
        raise GradError(
            "an expression declares no inputs, so that a batch of them has no text",
            rule="D18",
            repair="tc.sac.compile('float[*] f(float[*] x) { return ...; }')",
        )
    axes = _axes(program, in_axes)
    taken = {d.name.text for d in program.module.definitions} | set(program.inputs)
    taken |= {size for p in definition.parameters for size in _size_names(p.type)}
    helpers, bodies = [], []
    for number, declared in enumerate(definition.types):
        name = definition.name.text
        if len(definition.types) > 1:
            name = _fresh(f"{name}_{number + 1}", taken)
            helpers.append(_one_result(definition, number, declared, name))
        bodies.append(name)
    index = _fresh("b", taken)
    args = ", ".join(_selected(name, axes.get(name), index) for name in program.inputs)
    results = [f"{{ [{index}] -> {name}({args}) }}" for name in bodies]
    value = results[0] if len(results) == 1 else f"({', '.join(results)})"
    types = ", ".join(printed(_batched(declared, 0)) for declared in definition.types)
    parameters = ", ".join(
        f"{printed(_batched(p.type, axes.get(p.name.text)))} {p.name.text}"
        for p in definition.parameters
    )
    name = _fresh(f"{definition.name.text}_batch", taken)
    own = f"{types} {name}({parameters}) {{ return {value}; }}"
    text = "\n\n".join([program.module.source.text.rstrip(), *helpers, own])
    return format_source(Source(f"{text}\n"))


def _one_result(definition: ast.Definition, number: int, declared: ast.Type, name: str) -> str:
    """A function that gives one of the results of a function of several."""
    taken = {p.name.text for p in definition.parameters}
    names = [_fresh(f"result_{k + 1}", taken) for k in range(len(definition.types))]
    parameters = ", ".join(map(printed, definition.parameters))
    args = ", ".join(p.name.text for p in definition.parameters)
    call = f"{', '.join(names)} = {definition.name.text}({args});"
    return f"{printed(declared)} {name}({parameters}) {{ {call} return {names[number]}; }}"


def _selected(name: str, axis: int | None, index: str) -> str:
    """An element of a batch: `x[., b]` of a batch along axis 1, `x[..., b]` along the last one."""
    if axis is None:
        return name
    entries = [*["."] * axis, index] if axis >= 0 else ["...", index, *["."] * (-axis - 1)]
    return f"{name}[{', '.join(entries)}]"


def _batched(declared: ast.Type, axis: int | None) -> ast.Type:
    """The type with an axis more: where its other axes are declared and the new one is the first,
    they stay declared."""
    if axis is None:
        return declared
    if isinstance(declared.sizes, str):
        return replace(declared, sizes=NO_SCALAR)
    if axis != 0:
        return replace(declared, sizes=ANY_SHAPE)
    return replace(declared, sizes=(ast.Size(None, None, span=_no_span()), *declared.sizes))


def _no_span() -> Span:
    return Span(Source(""), 0, 0)


def _size_names(declared: ast.Type) -> list[str]:
    if isinstance(declared.sizes, str):
        return []
    parts = [part for size in declared.sizes for part in (size.count, size.name)]
    return [part.text for part in parts if isinstance(part, ast.Name)]


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _axes(program: Program, in_axes: object) -> dict[str, int]:
    """The axis of the batch for each input that is batched."""
    names = program.inputs
    given: dict[object, object]
    if isinstance(in_axes, Mapping):
        given = dict(in_axes)
    elif isinstance(in_axes, Sequence) and not isinstance(in_axes, str):
        if len(in_axes) != len(names):
            raise _wrong(
                f"in_axes has {len(in_axes)} elements, and '{program.name}' has {len(names)} "
                f"inputs, {listed(list(names))}",
                names,
            )
        given = dict(zip(names, in_axes, strict=True))
    else:
        given = dict.fromkeys(names, in_axes)
    axes: dict[str, int] = {}
    for name, axis in given.items():
        if name not in names:
            near = nearest(str(name), names)
            told = f"in_axes names {name!r}, which is no input of '{program.name}'"
            raise _wrong(told, (near,) if near else names)
        if isinstance(axis, int) and not isinstance(axis, bool):
            axes[str(name)] = axis
        elif axis is not None:
            raise _wrong(f"in_axes has {axis!r} for '{name}', which is no axis", (str(name),))
    if not axes:
        raise _wrong(f"in_axes gives no input of '{program.name}' a batch", names)
    return axes


def _wrong(cause: str, names: Sequence[str]) -> GradError:
    repair = f"in_axes={{{names[0]!r}: 0}}" if names else None
    return GradError(cause, rule="D18", repair=repair)
