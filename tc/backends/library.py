"""Plain contractions computed by a library: numpy's matmul, which is its BLAS, or on a device that
of the library of a call's arrays.

    ShapedProgram --match_contraction--> Contraction --library_kernel--> LibraryKernel

Only with `Options(match_library=True)`. What does not match is compiled as ever.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np

from tc.dtypes import FLOAT32, FLOAT64
from tc.kernel.ir import Buffer, Comment, Failure, Kernel, row_major
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.arrays.family import is_out_of_memory
from tc.semantics import program as p

BACKENDS = ("c", "numba")
"""The backends whose kernels a library call may stand for."""


@dataclass(frozen=True, slots=True)
class WholeTensor:
    """A tensor that is read whole: each of its dimensions is walked by one of the `variables`."""

    tensor: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contraction:
    """target(...) = sum of left(...) * right(...) over `reduction`, all of one float type.

    `batch` variables are in all three, `rows` in left and target, `columns` in right and target,
    `reduction` in left and right; the first three in the order of the target, the last in that of
    left. Each dimension is walked whole.
    """

    left: WholeTensor
    right: WholeTensor
    target: WholeTensor
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    reduction: tuple[str, ...]
    extents: Mapping[str, int]


def match_contraction(shaped: p.ShapedProgram, initial: frozenset[str]) -> Contraction | None:
    """The contraction that a program consists of; None where it is not one contraction alone.
    `initial` are the outputs that hold values of the caller on entry.

    >>> from tc.pipeline import check_module, parse_source, shape_program
    >>> from tc.runtime.sizes import CallSizes
    >>> from tc.source import Source
    >>> text = "def f(float(N,K) a, float(K,M) b) -> (o) { o(i,j) +=! a(i,k) * b(k,j) }"
    >>> program = check_module(parse_source(Source(text)), None)
    >>> shaped = shape_program(program, CallSizes({"a": (2, 3), "b": (3, 4)}, {}))
    >>> found = match_contraction(shaped, frozenset())
    >>> found.rows, found.columns, found.reduction
    (('i',), ('j',), ('k',))
    """
    program = shaped.program
    if len(shaped.statements) != 1 or program.temporaries:
        return None
    only = shaped.statements[0]
    statement = only.statement
    if only.checked or statement.op != "+" or not statement.starts_fresh(initial):
        return None
    match statement.rhs:
        case p.Binary(op="*", left=p.Read() as first, right=p.Read() as second):
            pass
        case _:
            return None
    if {first.tensor, second.tensor} - set(program.inputs):
        return None
    names = (first.tensor, second.tensor, statement.target)
    dtypes = {program.tensors[name].dtype for name in names}
    if dtypes not in ({FLOAT32}, {FLOAT64}):
        return None
    left = _operand(first.tensor, first.subscripts, shaped, only)
    right = _operand(second.tensor, second.subscripts, shaped, only)
    target = _operand(statement.target, statement.subscripts, shaped, only)
    if left is None or right is None or target is None:
        return None
    return _classified(left, right, target, only)


def _operand(
    tensor: str, subscripts: tuple[p.Expr, ...], shaped: p.ShapedProgram, only: p.ShapedStatement
) -> WholeTensor | None:
    """The tensor with the variables that walk it, a different one for each dimension; None where
    the tensor is not walked whole."""
    variables = []
    for subscript, extent in zip(subscripts, shaped.shapes[tensor], strict=True):
        if not isinstance(subscript, p.Index):
            return None
        found = only.ranges[subscript.name]
        if (found.begin, found.end) != (0, extent):
            return None
        variables.append(subscript.name)
    return WholeTensor(tensor, tuple(variables)) if len({*variables}) == len(variables) else None


def _classified(
    left: WholeTensor, right: WholeTensor, target: WholeTensor, only: p.ShapedStatement
) -> Contraction | None:
    owners = (left, right, target)
    classes: dict[tuple[bool, ...], list[str]] = {
        (True, True, True): [],
        (True, False, True): [],
        (False, True, True): [],
        (True, True, False): [],
    }
    in_order = dict.fromkeys((*target.variables, *left.variables, *only.statement.variables))
    for variable in in_order:
        where = tuple(variable in owner.variables for owner in owners)
        if where not in classes:
            return None
        classes[where].append(variable)
    batch, rows, columns, reduction = map(tuple, classes.values())
    if not reduction:
        return None
    extents = {name: found.extent for name, found in only.ranges.items()}
    return Contraction(left, right, target, batch, rows, columns, reduction, extents)


# --- the call -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LibraryTerms:
    """How the functions of a library are written; `name` is the name of its module in a text."""

    name: str
    transpose: str
    contiguous: str
    copy: str


NUMPY = LibraryTerms("np", "transpose", "np.ascontiguousarray({})", "np.copyto({}, {})")
LIBRARY_TERMS = {
    "torch": LibraryTerms("torch", "permute", "{}.contiguous()", "{}.copy_({})"),
    "cupy": LibraryTerms("cupy", "transpose", "cupy.ascontiguousarray({})", "cupy.copyto({}, {})"),
}
"""The terms of the libraries that multiply on a device."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A tensor as a stack of matrices: its dimensions in the order `axes`, then of `shape`.
    `is_joined`: which is another shape. `is_view`: without a copy, in strides that BLAS takes."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    is_joined: bool
    is_view: bool

    def transposed(self, name: str, words: LibraryTerms) -> str:
        plain = self.axes == tuple(range(len(self.axes)))
        return name if plain else f"{name}.{words.transpose}{_tuple(self.axes)}"

    def text(self, name: str, words: LibraryTerms) -> str:
        found = self.transposed(name, words)
        return f"{found}.reshape{_tuple(self.shape)}" if self.is_joined else found


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


def _form(
    operand: WholeTensor,
    buffer: Buffer,
    extents: Mapping[str, int],
    groups: Sequence[Sequence[str]],
) -> _Form:
    """A tensor with the variables of the first group as they are and those of each other group
    joined to one dimension."""
    batch, *joined = groups
    place = {variable: axis for axis, variable in enumerate(operand.variables)}
    axes = tuple(place[variable] for group in groups for variable in group)
    shape = (*(extents[v] for v in batch), *(prod(extents[v] for v in g) for g in joined))
    steps = [_joined_stride([(extents[v], buffer.strides[place[v]]) for v in g]) for g in joined]
    is_joined = any(len(group) != 1 for group in joined)
    return _Form(axes, shape, is_joined, _is_matrix(shape[-2:], steps))


def _joined_stride(dimensions: Sequence[tuple[int, int]]) -> int | None:
    """The stride of dimensions that are joined to one: 1 if the joined dimension has one element,
    None if joining needs a copy.

    >>> _joined_stride([(2, 12), (3, 4)]), _joined_stride([(2, 12), (3, 1)])
    (4, None)
    """
    real = [(extent, stride) for extent, stride in dimensions if extent > 1]
    for (_, outer), (extent, inner) in pairwise(real):
        if outer != extent * inner:
            return None
    return real[-1][1] if real else 1


def _is_matrix(shape: Sequence[int], strides: Sequence[int | None]) -> bool:
    """Whether BLAS takes a matrix of this shape: rows or columns are contiguous and do not
    overlap."""
    (rows, columns), (down, across) = shape, strides
    if down is None or across is None:
        return False
    by_rows = across == 1 and (down >= columns or rows <= 1)
    by_columns = down == 1 and (across >= rows or columns <= 1)
    return by_rows or by_columns


def library_kernel(
    call: Contraction,
    shaped: p.ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    initial: frozenset[str],
) -> LibraryKernel:
    """The call for inputs with these strides in elements, row-major where none are given."""
    return LibraryKernel(*_line(call, shaped, strides, initial, NUMPY))


def device_library_kernel(
    call: Contraction,
    shaped: p.ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    initial: frozenset[str],
    library: str,
    place: DeviceLocation,
) -> DeviceLibraryKernel:
    """The same for arrays on a device, by a library of `LIBRARY_TERMS`, which has been imported."""
    line = _line(call, shaped, strides, initial, LIBRARY_TERMS[library])
    return DeviceLibraryKernel(*line, library, sys.modules[library], place)


def _line(
    call: Contraction,
    shaped: p.ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    initial: frozenset[str],
    words: LibraryTerms,
) -> tuple[Kernel, str, CodeType, tuple[tuple[str, int], ...]]:
    """The kernel that stands for a call of the library, the line with its code, and the places of
    the names in the line."""
    program = shaped.program
    buffers = []
    for name in (*program.inputs, *program.outputs):
        tensor, shape = program.tensors[name], shaped.shapes[name]
        steps = strides.get(name) or row_major(shape)
        buffers.append(Buffer(name, tensor.dtype, shape, steps, tensor.role))
    tensors = (call.left.tensor, call.right.tensor, call.target.tensor)
    plain = all(_is_python_name(tensor, words) for tensor in tensors)
    names = tensors if plain else ("left", "right", "target")
    places = {b.name: at for at, b in enumerate(buffers)}
    own = {name: places[tensor] for name, tensor in zip(names, tensors, strict=True)}
    source = _source(call, [buffers[places[tensor]] for tensor in tensors], names, words)
    # the comment sets the kernel apart from one that does nothing
    kernel = Kernel(program.name, tuple(buffers), ((Comment(source),),), initial=initial)
    return kernel, source, compile(source, "<library>", "eval"), tuple(own.items())


def _is_python_name(name: str, words: LibraryTerms) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name != words.name


def _source(
    call: Contraction, buffers: Sequence[Buffer], names: Sequence[str], words: LibraryTerms
) -> str:
    extents = call.extents
    left, right = _operand_forms(call, buffers)
    target = _form(call.target, buffers[2], extents, (call.batch, call.rows, call.columns))
    operands = ", ".join(
        form.text(name, words) if form.is_view else words.contiguous.format(form.text(name, words))
        for form, name in zip((left, right), names, strict=False)
    )
    if target.is_view:
        return f"{words.name}.matmul({operands}, out={target.text(names[2], words)})"
    apart = tuple(extents[v] for v in (*call.batch, *call.rows, *call.columns))
    found = f"{words.name}.matmul({operands})"
    if apart != target.shape:
        found += f".reshape{_tuple(apart)}"
    return words.copy.format(target.transposed(names[2], words), found)


def _operand_forms(call: Contraction, buffers: Sequence[Buffer]) -> tuple[_Form, _Form]:
    """The operands with the reduction variables in the order that copies the fewest elements."""

    def forms(order: tuple[str, ...]) -> tuple[_Form, _Form]:
        left = _form(call.left, buffers[0], call.extents, (call.batch, call.rows, order))
        right = _form(call.right, buffers[1], call.extents, (call.batch, order, call.columns))
        return left, right

    def copied(pair: tuple[_Form, _Form]) -> int:
        return sum(prod(form.shape) for form in pair if not form.is_view)

    other = tuple(v for v in call.right.variables if v in call.reduction)
    return min(forms(call.reduction), forms(other), key=copied)


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """Implements `CompiledKernel` by one line of numpy, `source`, over arrays of these `names`.

    The library decides on its threads itself.
    """

    kernel: Kernel
    source: str
    code: CodeType
    names: tuple[tuple[str, int], ...]
    """Names of arrays in `source`, each with its place among the buffers."""

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        buffers = self.kernel.buffers
        arrays = {name: _array(buffers[at], addresses[at]) for name, at in self.names}
        with np.errstate(all="ignore"):
            eval(self.code, {"np": np, **arrays})
        return None


@dataclass(frozen=True, slots=True)
class DeviceLibraryKernel:
    """Implements `DeviceComputation` by one line of a library, whose module is `module`, at
    `place`."""

    kernel: Kernel
    source: str
    code: CodeType
    names: tuple[tuple[str, int], ...]
    library: str
    module: Any
    place: DeviceLocation

    def compute(self, arrays: Sequence[Any]) -> None:
        named = {name: arrays[at] for name, at in self.names}
        with ExitStack() as stack:
            for context in self._contexts(arrays):
                stack.enter_context(context)
            try:
                eval(self.code, {self.library: self.module, **named})
            except Exception as error:
                if is_out_of_memory(error):
                    raise MemoryError(str(error)) from error
                raise

    def _contexts(self, arrays: Sequence[Any]) -> Iterator[AbstractContextManager[Any]]:
        """The contexts of a call: torch must neither record a call nor round its operands to half,
        and CuPy computes on its current device."""
        if self.library != "torch":
            yield self.module.cuda.Device(self.place.number)
            return
        yield self.module.no_grad()
        kind = arrays[0].device.type
        if self.module.is_autocast_enabled(kind):
            yield self.module.autocast(kind, enabled=False)


def _array(buffer: Buffer, address: int) -> np.ndarray:
    """The array at an address, which has no elements or stays alive for long enough."""
    dtype = buffer.dtype.numpy
    if 0 in buffer.shape:
        return np.empty(buffer.shape, dtype)
    interface = {
        "version": 3,
        "shape": buffer.shape,
        "typestr": dtype.str,
        "data": (address, buffer.role == "input"),
        "strides": tuple(step * dtype.itemsize for step in buffer.strides),
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
