"""The inputs that a module holds, as they are given: errors that say how they would fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from tc.edits import Edit, within
from tc.errors import InputError
from tc.frontend.lexer import scan
from tc.function import Compiled
from tc.runtime.arguments import Parameter, fault, ranked
from tc.runtime.sizes import EXAMPLE_SIZE
from tc.semantics.program import Literal, Program, Size
from tc.semantics.suggest import nearest
from tc.source import Span

HeldShapes = Mapping[str, tuple[int, ...]]


def described(value: Any) -> str:
    """The type and shape of a tensor as a text, or a number printed."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}({', '.join(map(str, value.shape))})" if value.dim() else dtype


def shape_of(
    program: Program, parameter: Parameter, value: tuple[Any, ...], known: HeldShapes
) -> Any:
    """The shape that a tuple is; InputError for what is none of the declared rank."""
    if len(value) == parameter.rank and all(type(n) is int and n >= 0 for n in value):
        return value
    cause = f"has the shape {value!r}, but {parameter.text} is asked for"
    raise fault(parameter, cause, f"{{name}}={_near(program, parameter, value, known)}")


def is_no_tensor(
    program: Program, parameter: Parameter, value: object, known: HeldShapes
) -> InputError:
    """The error about what is neither a tensor nor a shape."""
    is_float = parameter.dtype.is_float
    wanted = "or a shape as a tuple" if is_float else "whose integers are its values"
    cause = f"is given as {type(value).__name__}, where a tensor is asked for, {wanted}"
    if not is_float and not parameter.rank:
        number = value[0] if isinstance(value, tuple | list) and value else value
        repair = f"{{name}}={int(number) if isinstance(number, int | float) else 1}"
    elif is_float and (
        _is_whole(value) or value is None or isinstance(value, str) or _is_shape(parameter, value)
    ):
        sizes = value if isinstance(value, list | range) else (value,)
        repair = f"{{name}}={_near(program, parameter, sizes, known)}"
    elif isinstance(value, int | float | tuple | str) or value is None:
        filled = value if isinstance(value, int | float) else 0
        shape = _near(program, parameter, value if isinstance(value, tuple) else (), known)
        repair = f"{{name}}=torch.full({shape}, {filled}, dtype=torch.{{dtype}})"
    else:
        repair = "{name}=torch.as_tensor({name}, dtype=torch.{dtype})"
    return fault(parameter, cause, repair)


def is_another_tensor(parameter: Parameter, value: Any) -> InputError:
    """The error about a tensor of another type or rank than declared."""
    cause = f"is {described(value)}, but {parameter.text} is asked for"
    given = "{name}"
    if value.dim() != parameter.rank:
        given = ranked(tuple(value.shape), parameter) or "{name}"
    if value.dtype != getattr(torch, parameter.dtype.name):
        given = f"{given.partition(' for ')[0]}.to(torch.{{dtype}})"
    return fault(parameter, cause, given)


def is_taken(program: Program, parameter: Parameter) -> InputError:
    """The error about an input whose name is an attribute of torch's modules, such as `forward`."""
    name = parameter.name
    error = fault(parameter, "is the name of what modules of torch have")
    if program.span is None:
        return error
    tokens = scan(program.source).tokens
    new = f"{name}_"
    while any(token.text == new for token in tokens):
        new += "_"
    inside = range(program.span.start, program.span.end)
    named = [token for token in tokens if token.text == name and token.start in inside]
    spans = [Span(program.source, token.start, token.end) for token in named]
    edits = within(program.span, [Edit(span, new) for span in spans])
    return InputError(error.cause, span=error.span, edits=edits)


def is_unknown(function: Compiled, name: str, value: Any, others: Iterable[str]) -> InputError:
    """The error about a name that no input has."""
    program = function.program
    names = program.inputs
    free = [p for p in function._signature.inputs if p.name not in others]
    rank = len(value) if isinstance(value, tuple) else getattr(value, "ndim", 0)
    alike = [p for p in free if p.name.startswith(name) or name.startswith(p.name)]
    by_rank = [p for p in free if p.rank == rank]
    meant = nearest(name, names) or next((p.name for p in (*alike, *by_rank, *free)), None)
    known = next((p for p in function._signature.inputs if p.name == meant), None)
    if known is None:
        repair = None
    elif isinstance(value, tuple):
        repair = f"{meant}={_near(program, known, value, {})}"
    else:
        repair = f"{meant}={'...' if hasattr(value, 'shape') else repr(value)}"
    cause = f"{program.name} has no input {name!r}; it takes {', '.join(names) or 'none'}"
    return InputError(cause, repair=repair)


def check_sizes(program: Program, shapes: HeldShapes) -> None:
    """InputError where two parameters, or a parameter and its declaration, disagree (T4)."""
    known: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        tensor = program.tensors[name]
        wanted = list(shape)
        cause = ""
        for axis, (size, declared) in enumerate(zip(shape, tensor.shape or (), strict=True)):
            where = ""
            match declared:
                case Literal(value=number):
                    wanted[axis], where = int(number), "its declaration"
                case Size(name=label):
                    wanted[axis], where = known.setdefault(label, (size, name))
            if wanted[axis] != size and not cause:
                cause = f"dimension {axis} of {name} is {size}, but {wanted[axis]} by {where}"
        if cause:
            raise InputError(
                f"{program.name}: {cause}",
                rule="T4",
                span=tensor.span,
                repair=f"{name}={tuple(wanted)}",
            )


def _near(
    program: Program, parameter: Parameter, given: Sequence[Any], known: HeldShapes
) -> tuple[int, ...]:
    """The shape of the declared rank that is nearest to the given one."""
    sizes: dict[str, int] = {}
    for name, shape in known.items():
        for extent, dim in zip(shape, program.tensors[name].shape or (), strict=True):
            if isinstance(dim, Size):
                sizes[dim.name] = extent
    found = []
    for axis, dim in enumerate(program.tensors[parameter.name].shape or ()):
        size: Any = given[axis] if axis < len(given) else None
        if isinstance(dim, Literal):
            found.append(int(dim.value))
        elif isinstance(dim, Size) and dim.name in sizes:
            found.append(sizes[dim.name])
        else:
            found.append(int(size) if _is_whole(size) else EXAMPLE_SIZE)
    return tuple(found)


def _is_whole(size: Any) -> bool:
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    return is_number and size >= 0 and size == size // 1


def _is_shape(parameter: Parameter, value: object) -> bool:
    """Whether a list has the form of a shape of the declared rank."""
    return (
        isinstance(value, list | range)
        and len(value) == parameter.rank
        and all(isinstance(n, int) for n in value)
    )
