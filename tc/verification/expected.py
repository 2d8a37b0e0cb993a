"""What a kernel has to return, and where its results are something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.builtins import BUILTINS
from tc.dtypes import BFLOAT16, FLOAT16, FLOAT32, Array, DType
from tc.errors import InputError
from tc.runtime.arrays.encoded_arrays import ENCODED, numbers
from tc.semantics import program as p
from tc.semantics.program import Program, ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tc.semantics.reference.uncertain import Allowance
from tc.tuning.measuring.profiling import is_within

COMPUTED: Mapping[str, DType | None] = {
    "float32": FLOAT32,
    "tf32": None,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
}
"""The types that a kernel may say that it computes in."""


def check_compute(compute: object) -> None:
    if compute is not None and compute not in COMPUTED:
        raise InputError(
            f"compute={compute!r}: a kernel may compute in {', '.join(COMPUTED)}",
            repair='compute="float32"',
        )


@dataclass(frozen=True)
class Expected:
    """The results of the interpreter, and their bounds (R5)."""

    names: tuple[str, ...]
    values: tuple[Array, ...]
    bounds: tuple[Array, ...]

    @classmethod
    def of(
        cls, shaped: ShapedProgram, arrays: Mapping[str, Array], compute: str | None = None
    ) -> Expected:
        """Raises AccessError where the text fails on these inputs."""
        names = shaped.program.outputs
        found = interpret(shaped, arrays, {})
        allowance = Allowance(
            None if compute is None else COMPUTED[compute],
            _has_other_ways(shaped.program),
            _TIMES_ULPS,
            _MORE_ULPS,
        )
        bounds = error_bound(shaped, arrays, {}, tf32=compute == "tf32", allowance=allowance)
        return cls(names, tuple(found[n] for n in names), tuple(bounds[n] for n in names))

    @property
    def is_exact(self) -> bool:
        """Whether all results are the same for any order of computation."""
        return all(not np.any(bound) for bound in self.bounds)

    def difference(self, results: Sequence[Any]) -> Difference | None:
        """The first result that is none of the text's; None where all are."""
        for position, name in enumerate(self.names):
            found = self._of_one(name, position, results[position])
            if found is not None:
                return found
        return None

    def _of_one(self, name: str, position: int, result: Any) -> Difference | None:
        value, bound = self.values[position], self.bounds[position]
        if isinstance(result, bool | int | float):
            if value.ndim:
                text = f"{name} is the number {result}, and no array"
                return Difference("shape", name, position, text)
            if not _is_number_of(result, value.dtype):
                text = f"{name} is the number {result!r:.40}, and no {type_of(value)}"
                return Difference("type", name, position, text)
            with np.errstate(all="ignore"):
                result = np.asarray(result).astype(value.dtype)
        if result.shape != value.shape:
            text = f"{name} has the shape {result.shape}, and has to have {value.shape}"
            return Difference("shape", name, position, text)
        if result.dtype != value.dtype:
            text = f"{name} is {type_of(result)}, and has to be {type_of(value)}"
            return Difference("type", name, position, text)
        bounds = np.broadcast_to(bound, value.shape)
        with np.errstate(all="ignore"):
            wrong = ~(is_within(result, value, bounds) | _are_subnormal(result, value))
        if not wrong.any():
            return None
        at = np.unravel_index(int(wrong.argmax()), wrong.shape) if wrong.ndim else ()
        first = tuple(int(i) for i in at)
        place = f"({', '.join(map(str, first))})" if first else ""
        within = f"within {bounds[first]:.3g} of " if bounds[first] else ""
        text = (
            f"{name}{place} is {numbers(result)[first]}, and has to be "
            f"{within}{numbers(value)[first]}"
        )
        return Difference("value", name, position, text, result, wrong, first)


@dataclass(frozen=True)
class Difference:
    """Where one result is none of the text's: its `kind`, "shape", "type" or "value"; of values the
    elements that are `wrong`, and the first of them."""

    kind: str
    name: str
    position: int
    text: str
    result: Array | None = None
    wrong: Array | None = None
    first: tuple[int, ...] = ()

    @property
    def is_nan(self) -> bool:
        """Whether all wrong elements are NaN."""
        if self.result is None or self.result.dtype.kind != "f":
            return False
        return bool(np.isnan(self.result[self.wrong]).all())


_TIMES_ULPS, _MORE_ULPS = 4.0, 4.0
"""How many times, and how many units in the last place more, than tc's own functions those of
others may be off."""


def _has_other_ways(program: Program) -> bool:
    """Whether right kernels may compute otherwise than the text says, as a variance in one pass
    over running means: so that sums of whole numbers, which are exact in the text, are rounded."""
    nodes = (
        node
        for statement in program.statements
        for expr in statement.values
        for node in p.walk(expr)
        if node.dtype.is_float
    )
    return any(
        (isinstance(n, p.Binary) and n.op == "/")
        or (isinstance(n, p.Call) and BUILTINS[n.function].ulps > 0)
        for n in nodes
    )


def _is_number_of(number: bool | int | float, dtype: np.dtype[Any]) -> bool:
    """Whether a number of Python can stand for one of a type."""
    if dtype.kind == "b":
        return isinstance(number, bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return isinstance(number, int) and limits.min <= number <= limits.max
    return not isinstance(number, int) or abs(number) < 2**63


def _are_subnormal(result: Array, value: Array) -> Array:
    """Where both are subnormal numbers, or 0, of a type that many processors flush to 0."""
    if value.dtype.kind != "f" or value.dtype.itemsize < 4:
        return np.zeros(value.shape, bool)
    least = np.finfo(value.dtype).smallest_normal
    return np.asarray((np.abs(result) < least) & (np.abs(value) < least))


def type_of(array: Array) -> str:
    return str(ENCODED.get(array.dtype, array.dtype))
