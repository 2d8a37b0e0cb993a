"""How a kernel is called: with arrays of which library, in which order, and where its results
are."""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import InputError
from tc.runtime.arrays import NUMPY, family_of
from tc.runtime.arrays.encoded_arrays import as_bits, as_users
from tc.runtime.arrays.torch_tensors import torch_family
from tc.semantics.program import Program
from tc.verification.layouts import PlacedArray
from tc.wording import counted, listed

LIBRARIES = ("numpy", "torch", "jax")

RETURNS, WRITES, POINTERS = "returns", "writes", "pointers"
"""A kernel returns its results, or writes them into arrays that it is given, or is given addresses
in memory."""


_C_FUNCTION = type(ctypes.pythonapi.Py_GetVersion).__mro__[1]  # of all functions of C


@dataclass(frozen=True)
class KernelCall:
    """How one kernel is called. `arguments` are names of inputs, outputs and sizes of the text, in
    the order of the kernel's parameters; `numbers` are the inputs of rank 0. `device` is where
    tensors of torch lie, "" for the processor."""

    library: str
    form: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    numbers: frozenset[str]
    sizes: tuple[str, ...] = ()
    device: str = ""


def call_of(kernel: Callable[..., Any], program: Program, like: str | None) -> KernelCall:
    """How a kernel is called with what a text names; InputError where the text does not fit the
    kernel's parameters."""
    library, device = _library(kernel, like)
    inputs, outputs = program.inputs, program.outputs
    numbers = frozenset(n for n in inputs if program.tensors[n].rank == 0)
    sizes = tuple(n for n in program.sizes if "." not in n)
    form, arguments = _arguments(kernel, program, sizes)
    if form == POINTERS:
        library = "numpy"
    return KernelCall(library, form, arguments, outputs, numbers, sizes, device)


def _library(kernel: Any, like: str | None) -> tuple[str, str]:
    if like is None:
        return next(_libraries(kernel), "numpy"), ""
    library, _, device = str(like).partition(":")
    if library not in LIBRARIES:
        raise InputError(
            f"like={like!r}: kernels are called with arrays of {listed(LIBRARIES, 'or')}",
            repair='like="torch"',
        )
    if device:
        try:
            import torch

            torch.empty(0, device=device)
        except (ImportError, RuntimeError, AssertionError) as error:
            line = (str(error).splitlines() or [""])[0]
            cause = f"like={like!r}: there is no such device here: {line}"
            raise InputError(cause, repair=f"like={library!r}") from None
    return library, device


def _libraries(kernel: Any) -> Iterator[str]:
    """The libraries that a kernel names, the surest first."""
    found = _unwrapped(kernel)
    for each in (kernel, found):
        for name in (type(each).__module__, getattr(each, "__module__", None)):
            room = str(name).partition(".")[0]
            if room in ("torch", "triton"):
                yield "torch"
            elif room in ("jax", "jaxlib", "flax"):
                yield "jax"
            elif room in ("numba", "numpy", "ctypes", "_ctypes"):
                yield "numpy"
    if "torch" in sys.modules and isinstance(kernel, sys.modules["torch"].nn.Module):
        yield "torch"
    for module in _modules_used(found):
        if module.partition(".")[0] in LIBRARIES[1:]:
            yield module.partition(".")[0]


def _unwrapped(kernel: Any) -> Any:
    """The Python function behind a kernel."""
    for _ in range(20):
        if isinstance(kernel, functools.partial):
            kernel = kernel.func
        elif hasattr(kernel, "_torchdynamo_orig_callable"):
            kernel = kernel._torchdynamo_orig_callable
        elif hasattr(kernel, "py_func"):
            kernel = kernel.py_func
        elif hasattr(kernel, "__wrapped__"):
            kernel = kernel.__wrapped__
        else:
            break
    if isinstance(kernel, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        return kernel
    forward = getattr(kernel, "forward", None)
    own = getattr(type(kernel), "__call__", None)  # noqa: B004  # the function itself
    return forward or (own.__get__(kernel) if isinstance(own, types.FunctionType) else kernel)


def _modules_used(function: Any) -> Iterator[str]:
    """The modules whose names a function mentions, in order."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    known = {**getattr(function, "__globals__", {}), **inspect.getclosurevars(function).nonlocals}
    codes = [code]
    while codes:
        code = codes.pop()
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
        for name in code.co_names + code.co_freevars:
            value = known.get(name)
            if isinstance(value, types.ModuleType):
                yield value.__name__
            elif value is not None and isinstance(getattr(value, "__module__", None), str):
                yield value.__module__


def _arguments(kernel: Any, program: Program, sizes: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    inputs, outputs = program.inputs, program.outputs
    if isinstance(kernel, _C_FUNCTION):
        return POINTERS, _of_pointers(kernel, program, sizes)
    least, most, names = _parameters(kernel)
    if least <= len(inputs) <= most:
        return RETURNS, inputs
    known = {*inputs, *outputs, *sizes}
    if names and known.issuperset(names) and set(names) >= set(inputs):
        return (WRITES if set(outputs) <= set(names) else RETURNS), tuple(names)
    if least <= len(inputs) + len(outputs) <= most:
        return WRITES, (*inputs, *outputs)
    takes = f"takes {counted(least, 'argument')}" + (f" ({', '.join(names)})" if names else "")
    raise InputError(
        f"the kernel {takes}, but {program.name} has {counted(len(inputs), 'input')}"
        f" ({', '.join(inputs)}) and {counted(len(outputs), 'output')} ({', '.join(outputs)})",
        repair=f"lambda {', '.join(inputs)}: kernel(...), which returns {', '.join(outputs)}",
    )


def _parameters(kernel: Any) -> tuple[int, float, tuple[str, ...]]:
    """The least and the largest number of arguments by position, and the names of those without a
    default; anything where that is not known."""
    own = kernel if isinstance(kernel, functools.partial) else _unwrapped(kernel)
    try:
        found = inspect.signature(own).parameters.values()
    except (TypeError, ValueError):
        return 0, float("inf"), ()
    plain = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in plain if p.default is p.empty]
    several = any(p.kind is p.VAR_POSITIONAL for p in found)
    return len(needed), float("inf") if several else len(plain), tuple(needed)


def _of_pointers(kernel: Any, program: Program, sizes: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a function of ctypes: addresses are inputs, and then outputs; integers are
    numbers among the inputs, and then sizes."""
    types_ = kernel.argtypes
    arrays = [n for n in program.inputs if program.tensors[n].rank] + [*program.outputs]
    numbers = [n for n in program.inputs if not program.tensors[n].rank] + [*sizes]
    if types_ is None:
        raise InputError(
            "the kernel is a function of ctypes without argtypes, so that it is not known what "
            "it takes",
            repair=f"kernel.argtypes = [ctypes.c_void_p] * {len(arrays)}",
        )
    taken = [arrays.pop(0) if _is_pointer(t) and arrays else None for t in types_]
    rest = iter(numbers)
    found = [name or next(rest, None) for name in taken]
    if arrays or None in found:
        raise InputError(
            f"the kernel takes {counted(len(types_), 'argument')}, but {program.name} has the "
            f"arrays {', '.join((*program.inputs, *program.outputs))} and the sizes "
            f"{', '.join(sizes) or 'none'}",
            repair="argtypes: an address for each input and output, integers for sizes",
        )
    return tuple(name for name in found if name)


def _is_pointer(kind: Any) -> bool:
    simple = issubclass(kind, ctypes._SimpleCData)
    return not simple or kind in (ctypes.c_void_p, ctypes.c_char_p)


# --- in the process of the kernel -----------------------------------------------------------------


class DeviceCopy:
    """A placed array on a device, with what is around it."""

    def __init__(self, place: PlacedArray, device: str) -> None:
        import torch

        self.place = place
        self._bytes = torch.from_numpy(place.region).to(device, copy=True)
        array, size = place.array, place.array.itemsize
        elements = self._bytes.view(as_tensor(np.empty(0, array.dtype)).dtype)
        strides = [step // size for step in array.strides]
        self.tensor = elements.as_strided(array.shape, strides, place.begin // size)

    def write(self, values: Array) -> None:
        """Puts other values into the tensor."""
        self.tensor.copy_(as_tensor(np.ascontiguousarray(values)))

    def read_back(self) -> PlacedArray:
        """The array with what is around it as they are now."""
        self.place.region[...] = self._bytes.cpu().numpy()
        return self.place


def as_tensor(array: Array) -> Any:
    """A tensor of torch on the memory of an array."""
    import torch

    return torch_family(torch, torch.Tensor).wrap(array, None)


def argument(call: KernelCall, name: str, array: Array) -> Any:
    """An array of numpy as the kernel takes it, on the same memory where the library allows."""
    if name in call.numbers:
        return array.item()
    if call.library == "torch":
        return as_tensor(array)
    if call.library == "jax":
        import jax.numpy

        return jax.numpy.array(as_users(array))
    return array


def called(
    kernel: Callable[..., Any],
    call: KernelCall,
    given: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> list[Any]:
    """Calls the kernel with what `argument` has made of inputs and outputs, and gives its results
    in the order of the text's outputs."""
    if call.form == POINTERS:
        kernel(*_addresses(kernel, call, given, sizes))
        return [given[name] for name in call.outputs]
    result = kernel(*(given[n] if n in given else sizes[n] for n in call.arguments))
    if call.form == WRITES and result is None:
        return [given[name] for name in call.outputs]
    return results_of(result, call.outputs)


def _addresses(
    kernel: Any, call: KernelCall, arrays: Mapping[str, Any], sizes: Mapping[str, int]
) -> Iterator[Any]:
    for kind, name in zip(kernel.argtypes, call.arguments, strict=True):
        if name in call.numbers:
            yield arrays[name]
        elif name not in arrays:
            yield sizes[name]
        elif hasattr(kind, "_dtype_"):  # numpy.ctypeslib.ndpointer
            yield arrays[name]
        else:
            address = ctypes.c_void_p(arrays[name].ctypes.data)
            yield address if kind is ctypes.c_void_p else ctypes.cast(address, kind)


class NoResult(Exception):
    """What a kernel returned is no result of the text."""


def results_of(result: Any, names: Sequence[str]) -> list[Any]:
    """What a kernel returned, for each output; NoResult where that is something else."""
    if isinstance(result, Mapping):
        missing = [name for name in names if name not in result]
        if missing:
            raise NoResult(f"returned a dict without {missing[0]!r}")
        return [result[name] for name in names]
    if isinstance(result, tuple | list) and len(result) == len(names):
        return [*result]
    if len(names) == 1 and not isinstance(result, tuple | list):
        return [result]
    got = f"{len(result)} values" if isinstance(result, tuple | list) else _described(result)
    raise NoResult(
        f"returned {got}, but the text has {counted(len(names), 'output')}: {', '.join(names)}"
    )


def as_numpy(result: Any) -> Array | int | float | bool:
    """A copy of a result as an array of numpy, or the Python number that it is; NoResult where it
    is neither."""
    if isinstance(result, bool | int | float):
        return result
    if hasattr(result, "detach"):
        result = result.detach().cpu().resolve_neg().resolve_conj()
    if isinstance(result, np.generic):
        result = np.asarray(result)
    try:
        family = family_of(result)
        view = family.view(result) if family is not NUMPY else result
        return np.array(as_bits(np.asarray(view)), order="C", copy=True)
    except Exception:
        raise NoResult(f"returned {_described(result)}, which is no array") from None


def _described(value: Any) -> str:
    return "None" if value is None else f"a value of the type {type(value).__name__}"
