"""A program made ready for one set of sizes, layouts and outputs, and how it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from tc.device import LINE_BYTES, PAGE_BYTES
from tc.dtypes import Array
from tc.errors import AccessError, BackendError, InternalError, is_strict
from tc.kernel.ir import Buffer, Failure, Kernel
from tc.process.object_pool import ObjectPool
from tc.runtime.arrays import address, empty
from tc.runtime.arrays.kept_memory import KEPT, MAPPED_BYTES
from tc.runtime.device_frames import DeviceFrames
from tc.runtime.fallback import Request, faults_of_run_reported, is_fault
from tc.runtime.loaded import CompiledKernel, ProgramRunner
from tc.semantics.dependent_ranges import rows_first
from tc.semantics.faults import (
    division_error,
    range_error,
    read_error,
    twice_error,
    write_error,
)
from tc.semantics.program import Binary, ProgramWarning, Read, ShapedProgram, Statement, walk

OutputSpace: TypeAlias = tuple[str, tuple[int, ...], np.dtype[Any]]
"""Name, shape and dtype of an array to allocate."""

LARGE_BYTES = 1 << 20
"""Outputs of this many bytes or more start with a page.

So kernels may write them past the caches; and loads do not wait for stores: a kernel that walks
from one array to another takes up to a quarter longer where its output starts, but for whole pages,
64 to 256 bytes behind its input, as neighbours in memory do; large arrays that others make start
close behind the start of a page."""

_MAX_SPARE = 4  # calls whose temporaries are kept

IDENTITIES = {
    "+": "0",
    "*": "1",
    "min": "the largest value of its type",
    "max": "the smallest value of its type",
    "&": "all bits, or true",
    "|": "0",
    "^": "0",
}


@dataclass(frozen=True, slots=True)
class Temporaries:
    """The memory of a kernel's temporaries, and behind it the sizes that a kernel for many sizes is
    called with. Each call under way has memory of its own; the memory of a few calls is kept in
    `spare`, so that later calls allocate nothing, at any sizes of such a kernel: then the memory is
    that of the largest ones."""

    buffers: tuple[Buffer, ...]
    sizes: tuple[np.ndarray, ...] = ()
    spare: ObjectPool[list[np.ndarray]] = field(default_factory=partial(ObjectPool, _MAX_SPARE))

    @classmethod
    def of(
        cls,
        buffers: tuple[Buffer, ...],
        sizes: tuple[int, ...] = (),
        spare: ObjectPool[list[np.ndarray]] | None = None,
    ) -> Temporaries:
        numbers = (np.array(sizes, np.int64),) if sizes else ()
        own = tuple(b for b in buffers if b.role == "temporary")
        return cls(own, numbers, spare_memory() if spare is None else spare)

    def take(self) -> list[np.ndarray]:
        arrays = self.spare.take(lambda: [_memory_of(buffer) for buffer in self.buffers])
        for place, buffer in enumerate(self.buffers):
            if arrays[place].nbytes < buffer.bytes:
                arrays[place] = _memory_of(buffer)
        return [*arrays, *self.sizes]

    def give_back(self, arrays: list[np.ndarray]) -> None:
        self.spare.give_back(arrays[: len(self.buffers)])


def spare_memory() -> ObjectPool[list[np.ndarray]]:
    """Where the memory of the temporaries of a few calls is kept."""
    return ObjectPool(_MAX_SPARE)


def _memory_of(buffer: Buffer) -> np.ndarray:
    return empty(buffer.shape, buffer.dtype.numpy, LINE_BYTES)


@dataclass(frozen=True, slots=True)
class Specialisation:
    """What `run_specialised` needs: a compiled kernel, or a backend that takes the shaped program
    itself.

    `request` is what was asked for. `copies` are the places of inputs that must be copied, as
    their strides are no multiple of their elements; `warnings` are those of a call (R3, G2).
    `fault` says why other code than that asked for runs, `told` where a plan comes from that is
    known for it; `request` has that plan.
    """

    request: Request
    shaped: ShapedProgram
    runner: CompiledKernel | None
    shaped_backend: ProgramRunner
    copies: tuple[int, ...]
    outputs: tuple[OutputSpace, ...]
    warnings: tuple[ProgramWarning, ...]
    temporaries: Temporaries
    frames: DeviceFrames
    fault: ProgramWarning | None = None
    told: tuple[str, ...] = ()


def spaces(shaped: ShapedProgram, names: tuple[str, ...]) -> tuple[OutputSpace, ...]:
    tensors = shaped.program.tensors
    return tuple((name, shaped.shapes[name], tensors[name].dtype.numpy) for name in names)


def new_output(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 1) -> Array:
    """An array that is aligned to `alignment` bytes; a large array at least to a page. Memory of
    the largest ones is used again when nobody holds them any more."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE_BYTES:
        return empty(shape, dtype, alignment)
    alignment = max(alignment, PAGE_BYTES)
    if size < MAPPED_BYTES:
        return empty(shape, dtype, alignment)
    return empty(shape, dtype, alignment, KEPT.block)


def run_specialised(
    special: Specialisation,
    inputs: list[Array],
    targets: Mapping[str, Array],
    *,
    alignment: int,
    threads: int | None,
) -> list[Array]:
    """The outputs in return order: those of `targets` where given, else fresh ones, aligned.

    Inputs and targets have been checked. Raises AccessError where a check fails (G7).
    """
    runner = special.runner
    try:
        if runner is None:
            return _run_shaped(special, inputs, targets, alignment)
        for place in special.copies:
            inputs[place] = inputs[place].copy()
        outputs = [
            targets[name] if name in targets else new_output(shape, dtype, alignment)
            for name, shape, dtype in special.outputs
        ]
        temporaries = special.temporaries.take()
    except MemoryError as error:
        raise out_of_memory(special.shaped) from error
    arrays = [*inputs, *outputs, *temporaries]
    failure = runner.run([address(array) for array in arrays], threads=threads)
    special.temporaries.give_back(temporaries)
    if failure is not None:
        raise access_error(special.shaped, runner.kernel, failure)
    return outputs


def _run_shaped(
    special: Specialisation, inputs: list[Array], targets: Mapping[str, Array], alignment: int
) -> list[Array]:
    arrays = dict(zip(special.shaped.program.inputs, inputs, strict=True))
    with faults_of_run_reported(special.request):
        results = special.shaped_backend.run_shaped(special.shaped, arrays, targets)
    outputs = []
    for name, shape, dtype in special.outputs:
        result = results[name]
        if name in targets or alignment > 1:
            target = targets[name] if name in targets else new_output(shape, dtype, alignment)
            target[...] = result
            result = target
        outputs.append(result)
    return outputs


def access_error(shaped: ShapedProgram, kernel: Kernel, failure: Failure) -> AccessError:
    """The error that the interpreter raises for the same failure (G7, Y4).

    That a check failed is true however tc has numbered it: where the expression is not found, or
    the values are not those of one instance, the error says what is known.
    """
    try:
        return _found_error(shaped, kernel, failure)
    except Exception as error:
        if is_strict() or not is_fault(error):
            raise
        return _unplaced_error(shaped, kernel, failure, error)


def _found_error(shaped: ShapedProgram, kernel: Kernel, failure: Failure) -> AccessError:
    site = kernel.sites[failure.site]
    statement = shaped.statements[site.statement].statement
    if len(failure.values) < len(site.variables):
        raise InternalError(f"{len(failure.values)} values of {', '.join(site.variables)}")
    indices = dict(zip(site.variables, failure.values, strict=False))
    subscripts = failure.values[len(site.variables) :]
    match site.kind:
        case "write":
            firsts = {v: shaped.statements[site.statement].ranges[v].begin for v in statement.outer}
            target = statement.targets[subscripts[0]]
            at = _in_order({**firsts, **indices}, statement)
            return write_error(statement, target, at, subscripts[1:], shaped.shapes[target])
        case "twice":
            rank, count = len(statement.subscripts), len(statement.variables)
            ends = (rank, rank + count, rank + 2 * count)
            first, second = (
                dict(zip(statement.variables, subscripts[a:b], strict=True))
                for a, b in pairwise(ends)
            )
            return twice_error(statement, subscripts[:rank], first, second)
        case "range":
            variable = statement.variables[subscripts[0]]
            box = shaped.statements[site.statement].ranges[variable]
            told = subscripts[1], subscripts[2]
            clause = statement.clause_of(variable)
            upstream = () if clause is None else clause.depends_on
            at = {v: value for v, value in indices.items() if v in upstream}
            return range_error(statement, variable, at, told, (box.begin, box.end))
    if not statement.is_plain:
        ranges = shaped.statements[site.statement].ranges
        inside = {clause.variable for clause in statement.where if clause.depends_on}
        firsts = {v: ranges[v].begin for v in statement.variables if v not in inside}
        indices = _in_order({**firsts, **indices}, statement)
    for expr in (e for outermost in statement.expressions for e in walk(outermost)):
        match expr:
            case Read(site=number, tensor=tensor) if site.kind == "read":
                if number == site.expression:
                    shape = shaped.shapes[tensor]
                    return read_error(statement, expr, indices, subscripts, shape)
            case Binary(site=number) if site.kind == "division":
                if number == site.expression:
                    return division_error(statement, expr, indices)
    raise InternalError(f"{statement.name} has no {site.kind} {site.expression}")


def _in_order(indices: Mapping[str, int], statement: Statement) -> dict[str, int]:
    """The values of index variables in the order in which the interpreter tells them."""
    return {v: indices[v] for v in rows_first(statement.variables, statement) if v in indices}


_MEANS = {
    "read": ("G7", "a read leaves its tensor"),
    "division": ("Y4", "an integer division, or remainder, is by zero"),
    "write": ("S5", "a place that is written lies outside of the target"),
    "twice": ("S2", "two instances write one element"),
    "range": ("W3", "a range that data decide is none, or leaves its box"),
}


def _unplaced_error(
    shaped: ShapedProgram, kernel: Kernel, failure: Failure, error: Exception
) -> AccessError:
    """The error of a failed check whose expression is not found."""
    sites = kernel.sites[failure.site : failure.site + 1] if failure.site >= 0 else ()
    kind = sites[0].kind if sites else ""
    rule, means = _MEANS.get(kind, (None, "a read leaves its tensor, or a division is by zero"))
    statements = [s.statement for s in shaped.statements]
    found = statements[sites[0].statement : sites[0].statement + 1] if sites else []
    where = f"{found[0].name}, {found[0].text}" if found else shaped.program.name
    return AccessError(
        f"in {where}, {means}, but tc does not find where: {type(error).__name__}: "
        f"{error.cause if isinstance(error, InternalError) else error}. "
        f"Check {failure.site} has recorded {', '.join(map(str, failure.values)) or 'nothing'}. "
        "Please report this, with the program, its sizes and the options",
        rule=rule,
        span=found[0].span if found else None,
        repair='backend="interpret", which says where',
    )


def start_warnings(shaped: ShapedProgram, given: frozenset[str]) -> tuple[ProgramWarning, ...]:
    """The warnings of R3: statements that continue from a value that does not exist."""
    return tuple(
        _start_warning(statement, position)
        for statement in shaped.program.statements
        for position, target in enumerate(statement.targets)
        if statement.continues_of(position) == "nothing"
        or (statement.continues_of(position) == "caller" and target not in given)
    )


def _start_warning(statement: Statement, position: int) -> ProgramWarning:
    target, op = statement.targets[position], f"{statement.op}="
    missing, also = "nothing was written to it before", ""
    if statement.continues_of(position) == "caller":
        missing, also = "nothing was passed for it", f', or pass outputs={{"{target}": ...}}'
    return ProgramWarning(
        "R3",
        f"{statement.name}, {statement.text}, continues from what {target} holds, but {missing}: "
        f"it starts at {IDENTITIES[statement.op]}",
        span=statement.span,
        repair=f"write {op}! for {op}{also}",
    )


def out_of_memory(shaped: ShapedProgram) -> BackendError:
    """The error about outputs and temporaries that do not fit into memory."""
    program = shaped.program
    names = (*program.outputs, *program.temporaries)
    needed = [
        f"{name} of shape {shaped.shapes[name]} and dtype {program.tensors[name].dtype}"
        for name in names
    ]
    return BackendError(
        f"{program.name}: there is not enough memory for {', '.join(needed)}",
        repair="call it with smaller inputs",
    )
