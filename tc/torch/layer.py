"""A program as a layer: a module of torch that holds some of its inputs. Errors say how the inputs
that were given would fit; start values of parameters follow from how the program uses each
parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol
from typing import cast as cast_to_type

import torch

from tc.api import compile
from tc.dtypes import DType
from tc.errors import InputError
from tc.frontend.given_text import Text
from tc.frontend.lexer import scan
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS, Parameter, bind_call, fault, ranked, read_number
from tc.runtime.sizes import EXAMPLE_SIZE
from tc.semantics import program as p
from tc.semantics.program import Literal, Program, Size
from tc.source import Edit, Span, within
from tc.torch.autocasting import cast, dtype_of
from tc.wording import counted, nearest

Start = Callable[[Any], Any]
"""What gives a tensor its first values."""


def first_values(program: p.Program, name: str) -> Start:
    """As torch has it for its own layers: uniform up to 1 / sqrt(terms) where a program sums over
    dimensions of a tensor, normal where it gathers from it; else 1 for a factor, 0 for a term."""
    uses = list(_uses(program, name))
    summed = {axis for use in uses for axis in use.summed}
    if summed:
        return partial(_uniform, axes=tuple(sorted(summed)))
    if any(use.gathered for use in uses):
        return partial(torch.nn.init.normal_, mean=0.0, std=1.0)
    if any(use.factor for use in uses):
        return torch.nn.init.ones_  # type: ignore[no-any-return]
    return torch.nn.init.zeros_  # type: ignore[no-any-return]


class _Use:
    """One read of a tensor: the dimensions that are summed over, whether data choose the elements,
    and whether the read is a factor of a product."""

    def __init__(self, read: p.Read, statement: p.Statement, factor: bool) -> None:
        reduced = set(statement.reduction)
        self.summed = [
            axis
            for axis, subscript in enumerate(read.subscripts)
            if reduced.intersection(p.index_names(subscript))
        ]
        inside = (node for subscript in read.subscripts for node in p.walk(subscript))
        self.gathered = any(isinstance(node, p.Read) and node.subscripts for node in inside)
        self.factor = factor


def _uses(program: p.Program, name: str) -> Iterator[_Use]:
    for statement in program.statements:
        for read, factor in _reads(statement.rhs, factor=False):
            if read.tensor == name:
                yield _Use(read, statement, factor)


def _reads(expr: p.Expr, *, factor: bool) -> Iterator[tuple[p.Read, bool]]:
    """The reads of an expression, with whether each is a factor of a product or quotient."""
    match expr:
        case p.Read():
            yield expr, factor
        case p.Binary(op="*" | "/"):
            factor = True
        case p.Convert() | p.Unary():
            pass
        case _:
            factor = False
    for child in p.children(expr):
        yield from _reads(child, factor=factor)


def _uniform(tensor: Any, axes: tuple[int, ...]) -> Any:
    terms = math.prod(tensor.shape[axis] for axis in axes)
    bound = 1 / math.sqrt(max(terms, 1))
    return torch.nn.init.uniform_(tensor, -bound, bound)


class OfAnyRank(Protocol):
    """A function whose inputs may have any rank, as those of `tc.sac`."""

    declared_types: Mapping[str, DType | None]
    """The element types of the inputs by name, None where none is declared."""

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """The results; inputs may be given in one mapping."""


def first_values_of_weights(tensor: Any) -> Any:
    """As torch has it for the weights of its own layers: uniform up to 1 / sqrt(terms), where the
    terms are the elements of one of the first axis, or all of a vector."""
    return _uniform(tensor, tuple(range(1, tensor.dim())) or (0,)[: tensor.dim()])


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


class Layer(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A program as a module of torch, `tc.torch.Module`: the inputs that are named belong to the
    module.

    An input is given as a tensor, or as the shape of a parameter. A parameter that is given by its
    shape starts as in torch's own layers: uniform, by the number of terms, where the program sums
    over the parameter; normal where the program gathers from it; otherwise with 1 for a factor and
    0 for a term. A float is a parameter of rank 0; tensors of integers are buffers, and integers
    constants. The call takes the other inputs, in order or by name. `src` is a program as for
    `tc.compile`, or a compiled function, which is the attribute `function`. With
    `autocast="float32"` the call takes part in `torch.autocast`, as `tc.torch.autocast` has it for
    functions; where the program has an input `autocast`, the keyword gives that input.

    `src` may also be a function of `tc.sac`, whose inputs have any rank. Parameters that are given
    by their shapes then start uniform, by the number of elements of one of their first axis.

    Raises InputError for names and shapes that do not fit, and the errors of `tc.compile`.

    >>> import tc.torch, torch
    >>> linear = tc.torch.Module(
    ...     "def linear(float(N,I) x, float(O,I) W, float(O) b) -> (y) {"
    ...     " y(n,o) = b(o)  y(n,o) += x(n,i) * W(o,i) }", W=(2, 3), b=(2,))
    >>> linear
    Module(linear(x), W=float32(2, 3), b=float32(2))
    >>> [name for name, _ in linear.named_parameters()], linear(torch.ones(5, 3)).shape
    (['W', 'b'], torch.Size([5, 2]))
    """

    def __init__(self, src: Text | Compiled | OfAnyRank, /, **parameters: Any) -> None:
        super().__init__()
        self.function: Any
        self._started: dict[str, Any] = {}
        if hasattr(src, "declared_types"):
            self._hold_of_any_rank(cast_to_type(OfAnyRank, src), parameters)
            return
        function = src if isinstance(src, Compiled) else compile(src)
        self.function = function
        known = {p.name: p for p in function._signature.inputs}
        self._cast_to = None
        if "autocast" not in known and parameters.get("autocast") is not None:
            self._cast_to = dtype_of(parameters["autocast"])
        if "autocast" not in known:
            parameters.pop("autocast", None)
        shapes: dict[str, tuple[int, ...]] = {}
        for name, value in parameters.items():
            if name not in known:
                raise is_unknown(function, name, value, parameters)
            shape = self._take(known[name], value, shapes)
            if shape is not None:
                shapes[name] = shape
        check_sizes(function.program, shapes)
        self._taken = tuple(p.name for p in function._signature.inputs if p.name not in parameters)
        self.reset_parameters()

    def _hold_of_any_rank(self, function: OfAnyRank, parameters: dict[str, Any]) -> None:
        """Keeps the inputs that are given; the shapes of a call tell whether they fit."""
        self.function = function
        declared = function.declared_types
        self._cast_to = None
        if "autocast" not in declared and (to := parameters.pop("autocast", None)) is not None:
            self._cast_to = dtype_of(to)
        for name, value in parameters.items():
            if name not in declared:
                close = nearest(name, list(declared))
                raise InputError(
                    f"there is no input {name!r}; the inputs are {', '.join(declared) or 'none'}",
                    rule="C25",
                    repair=f"{close}=..." if close else None,
                )
            if hasattr(self, name):
                raise InputError(
                    f"the input {name!r} has the name of what modules of torch have: give it "
                    "another one in the text",
                    rule="C25",
                    repair=f"{name}_",
                )
            self._keep(name, declared[name], value)
        self._taken = tuple(name for name in declared if name not in parameters)
        self.reset_parameters()

    def _keep(self, name: str, declared: DType | None, value: Any) -> None:
        """Keeps the value of an input of any rank: a tensor, the shape of a parameter, a number."""
        dtype = torch.get_default_dtype() if declared is None else getattr(torch, declared.name)
        if isinstance(value, tuple) and all(type(n) is int and n >= 0 for n in value):
            if not dtype.is_floating_point:
                raise InputError(
                    f"'{name}' is declared {declared}, whose values do not start at random",
                    rule="C25",
                    repair=f"{name}=torch.zeros({value}, dtype={dtype})",
                )
            value = torch.empty(value, dtype=dtype)
            self._started[name] = first_values_of_weights
        elif isinstance(value, bool | int) and not dtype.is_floating_point:
            setattr(self, name, value)
            return
        elif isinstance(value, bool | int | float):
            value = torch.tensor(float(value), dtype=dtype)
        elif not isinstance(value, torch.Tensor):
            raise InputError(
                f"'{name}' is given as {type(value).__name__}, where a tensor is asked for, or a "
                "shape as a tuple",
                rule="C25",
                repair=f"{name}=torch.as_tensor({name})",
            )
        if declared is not None and value.dtype != dtype:
            raise InputError(
                f"'{name}' is declared {declared}, its type is {str(value.dtype)[6:]}",
                rule="C6",
                repair=f"{name}={name}.to({dtype})",
            )
        if value.dtype.is_floating_point:
            given = isinstance(value, torch.nn.Parameter)
            self.register_parameter(name, value if given else torch.nn.Parameter(value))
        else:
            self.register_buffer(name, value)

    def _take(self, parameter: Parameter, value: Any, shapes: HeldShapes) -> tuple[int, ...] | None:
        """Keeps the value of an input, and returns its shape; None for a constant. `shapes` are the
        shapes of the inputs before."""
        program = self.function.program
        name, dtype = parameter.name, getattr(torch, parameter.dtype.name)
        is_float = parameter.dtype.is_float
        if hasattr(self, name):
            raise is_taken(program, parameter)
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            number = read_number(parameter, value)
            if not is_float:
                setattr(self, name, number.item())
                return None
            value = torch.tensor(number.item(), dtype=dtype)
        elif isinstance(value, tuple) and is_float:
            value = torch.empty(shape_of(program, parameter, value, shapes), dtype=dtype)
            self._started[name] = first_values(program, name)
        elif not isinstance(value, torch.Tensor):
            raise is_no_tensor(program, parameter, value, shapes)
        if value.dtype != dtype or value.dim() != parameter.rank:
            raise is_another_tensor(parameter, value)
        if is_float:
            given = isinstance(value, torch.nn.Parameter)
            self.register_parameter(name, value if given else torch.nn.Parameter(value))
        else:
            self.register_buffer(name, value)
        return tuple(value.shape)

    def reset_parameters(self) -> None:
        """Gives parameters that were given by their shapes values to start from."""
        with torch.no_grad():
            for name, start in self._started.items():
                start(getattr(self, name))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The results for the other inputs."""
        if not isinstance(self.function, Compiled):
            return self._call_of_any_rank(inputs, named)
        if named or len(inputs) != len(self._taken):
            inputs = self._bound(inputs, named)
        given = dict(zip(self._taken, inputs, strict=True))
        names = self.function.program.inputs
        values = [given[n] if n in given else getattr(self, n) for n in names]
        return self.function(*self._as_cast(values))

    def _as_cast(self, values: list[Any]) -> list[Any]:
        return values if self._cast_to is None else [cast(v, self._cast_to) for v in values]

    def _call_of_any_rank(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        if len(inputs) > len(self._taken):
            raise InputError(
                f"the module takes {counted(len(self._taken), 'input')}, not {len(inputs)}",
                rule="C25",
                repair=f"module({', '.join(self._taken)})",
            )
        held = [name for name in self.function.declared_types if name not in self._taken]
        values = {  # in one: torch 2.7 does not trace `|=` of dicts
            **{name: getattr(self, name) for name in held},
            **dict(zip(self._taken, inputs, strict=False)),
            **named,
        }
        return self.function(dict(zip(values, self._as_cast([*values.values()]), strict=True)))

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        signature = self.function._signature
        rest = tuple(p for p in signature.inputs if p.name in self._taken)
        return bind_call(replace(signature, inputs=rest), inputs, named)

    def extra_repr(self) -> str:
        held = [name for name in self.function.program.inputs if name not in self._taken]
        parts = [f"{name}={described(getattr(self, name))}" for name in held]
        if self._cast_to is not None:
            parts.append(f"autocast={str(self._cast_to).removeprefix('torch.')!r}")
        return ", ".join([f"{self.function.__name__}({', '.join(self._taken)})", *parts])


Layer.__name__ = Layer.__qualname__ = "Module"  # as users know it
Layer.__module__ = "tc.torch"
