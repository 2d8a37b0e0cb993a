"""What the text of a region calls: the function is run once, and writes LLVM's code.

`vector_region` calls the function with a `Machine` and values that stand for its arguments, and
everything that the function does to them becomes an instruction. Loops are written once. numba's
type inference would take four to eight times as long as LLVM itself.

A region becomes a C function of four integers: the address of the buffers' addresses, the address
of a record of the first failure (site + 1, then its values; 0 for none), and which part of how
many equal parts of its parallel loop to run. Indices of buffers may be negative (a reversed
input): nothing wraps around and nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, partialmethod
from typing import Any

import numpy as np

from tc.backends.numba import traced_functions as functions
from tc.backends.numba import traced_memory as memory
from tc.backends.numba import traced_values as values
from tc.backends.numba.traced_code import ARGUMENTS, Code, llvm_type
from tc.backends.numba.traced_memory import TracedPointer
from tc.backends.numba.traced_values import Operand, TracedValue, as_value, known
from tc.dtypes import BFLOAT16, BOOL, DTYPES, FLOAT8_E4M3FN, FLOAT8_E5M2, INT64, DType
from tc.errors import InternalError

MAX_UNROLLED = 4
"""Iterations, and vectors that each reads, up to which LLVM may unroll a loop."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorRegion:
    """A function `(m, arguments, failure, part, parts)` of a kernel, to be traced."""

    function: Callable[..., None]

    def traced(self, symbol: str) -> Code:
        """The C function `symbol` of four int64 that the function stands for."""
        code = Code(symbol)
        arguments = (TracedValue(code, f"%{argument}", INT64) for argument in ARGUMENTS)
        self.function(Machine(code), *arguments)
        return code


vector_region = VectorRegion
"""Marks a function to be traced, which `objects` does; a decorator."""


class Variable:
    """A local that is set more than once."""

    __slots__ = ("_code", "_dtype", "_place")

    def __init__(self, first: TracedValue) -> None:
        self._code, self._dtype = first.code, first.dtype
        self._place = first.code.slot(llvm_type(first.dtype))
        self.set(first)

    @property
    def value(self) -> TracedValue:
        instruction = f"load {llvm_type(self._dtype)}, ptr {self._place}"
        text = self._code.read(instruction, self._dtype.lanes)
        return TracedValue(self._code, text, self._dtype)

    def set(self, value: Operand) -> None:
        kind, text = as_value(self._code, value, self._dtype).operand
        self._code.emit(f"store {kind} {text}, ptr {self._place}")


class Machine:
    """`m` in the texts: all that Python's operators on values cannot say.

    dtypes are numpy's; a function on vectors works lane by lane.
    """

    def __init__(self, code: Code) -> None:
        self._code = code
        self._choice: tuple[int, str, str, str] | None = None

    # --- buffers ----------------------------------------------------------------------------

    def scratch(
        self,
        arguments: TracedValue,
        position: int,
        part: TracedValue,
        size: Operand,
        start: Operand,
        dtype: Any,
    ) -> TracedPointer:
        """The buffer that starts at byte `start` of this part's share, of `size` bytes, of the
        private memory at a position among the arguments."""
        first = self._word(arguments, position) + part * size + start
        name = start.text if isinstance(start, TracedValue) else start
        return self._pointer(first, dtype, f"scratch {name}")

    def _argument(
        self, kind: str, arguments: TracedValue, position: int, dtype: Any, *, wide: bool = False
    ) -> TracedPointer:
        """The buffer at a position among the arguments, which the region only reads, or writes or
        also reads. `wide`: some offsets do not fit in 32 bits."""
        return self._pointer(self._word(arguments, position), dtype, kind, wide=wide)

    read_only = partialmethod(_argument, "read_only")
    writable = partialmethod(_argument, "writable")

    def _pointer(
        self, start: TracedValue, dtype: Any, kind: str, *, wide: bool = False
    ) -> TracedPointer:
        base = self._code.pure(f"inttoptr i64 {start.text} to ptr")
        return TracedPointer(self._code, base, _dtype(dtype), kind, wide)

    def _word(self, arguments: TracedValue, position: int) -> TracedValue:
        return self._pointer(arguments, np.int64, "read_only")[position]

    load = staticmethod(memory.load)
    store = staticmethod(memory.store)
    gather = staticmethod(memory.gather)
    scatter = staticmethod(memory.scatter)
    stream = staticmethod(memory.stream)
    prefetch = staticmethod(memory.prefetch)

    # --- values -----------------------------------------------------------------------------

    def constant(self, value: float, dtype: Any, lanes: int = 1) -> TracedValue:
        return known(self._code, value, _dtype(dtype).vector(lanes))

    variable = Variable

    def lanes(self, numbers: Sequence[int]) -> TracedValue:
        """A vector of int64 constants."""
        return values.pattern(self._code, numbers, INT64)

    def ramp(self, base: Operand, step: int, lanes: int) -> TracedValue:
        """base, base + step, base + 2 * step, ..."""
        first = values.broadcast(as_value(self._code, base, INT64), lanes)
        return first + self.lanes([step * lane for lane in range(lanes)])

    broadcast = staticmethod(values.broadcast)
    shuffle = staticmethod(values.shuffle)
    reduce = staticmethod(values.reduce)
    select = staticmethod(values.select)

    minimum = staticmethod(partial(values.extremum, "min"))
    maximum = staticmethod(partial(values.extremum, "max"))

    def cast(self, value: TracedValue, dtype: Any) -> TracedValue:
        return functions.cast(value, _dtype(dtype))

    def bits(self, value: TracedValue, dtype: Any) -> TracedValue:
        return functions.bits(value, _dtype(dtype))

    call = staticmethod(functions.call)

    def __getattr__(self, name: str) -> Callable[..., TracedValue]:
        """The native functions, by the names that they have in programs."""
        if name in functions.EXPONENTS:
            return partial(functions.on_exponents, name)
        if name not in functions.NATIVE:
            raise AttributeError(name)
        return partial(functions.native, name)

    # --- control ----------------------------------------------------------------------------

    def choose(
        self,
        condition: TracedValue,
        then: Callable[[], TracedValue],
        otherwise: Callable[[], TracedValue],
    ) -> TracedValue:
        """What `then` gives where the condition is true: only one of the two runs."""
        code = self._code
        yes, no, end = (code.label(hint) for hint in ("then", "else", "chosen"))
        code.emit(f"br i1 {condition.text}, label %{yes}, label %{no}")
        chosen: list[TracedValue] = []
        edges: list[str] = []
        for label, branch in ((yes, then), (no, otherwise)):
            code.start(label)
            with code.scope():
                chosen.append(branch())
                edges.append(f"[ {chosen[-1].text}, %{code.block} ]")
            code.jump(end)
        code.start(end)
        dtype = chosen[0].dtype
        return TracedValue(code, code.define(f"phi {llvm_type(dtype)} {', '.join(edges)}"), dtype)

    def both(self, first: TracedValue, second: Callable[[], TracedValue]) -> TracedValue:
        """Whether both are true: the second is not looked at unless the first is."""
        return self.choose(first, second, lambda: known(self._code, False, BOOL))

    def either(self, first: TracedValue, second: Callable[[], TracedValue]) -> TracedValue:
        """Whether one is true: the second is not looked at if the first is."""
        return self.choose(first, lambda: known(self._code, True, BOOL), second)

    @contextmanager
    def when(self, condition: TracedValue, *, rare: bool = False) -> Iterator[None]:
        """What runs only where the condition is true, which may be said to be rare."""
        code = self._code
        yes, end = code.label("when"), code.label("end")
        place = code.emit("")
        hint = code.rarely() if rare else ""
        code.replace(place, f"br i1 {condition.text}, label %{yes}, label %{end}{hint}")
        with self._branch(yes, end):
            yield
        self._choice = (place, condition.text, yes, hint)

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What runs where the condition of the `when` just before was false."""
        if self._choice is None:
            raise InternalError("a traced otherwise() without a when()")
        (place, condition, yes, hint), self._choice = self._choice, None
        code = self._code
        no, end = code.label("otherwise"), code.label("end")
        code.replace(place, f"br i1 {condition}, label %{yes}, label %{no}{hint}")
        code.jump(end)
        with self._branch(no, end):
            yield

    @contextmanager
    def _branch(self, label: str, end: str) -> Iterator[None]:
        self._code.start(label)
        with self._code.scope():
            yield
        self._code.jump(end)
        self._code.start(end)

    def range(self, begin: Operand, end: Operand | None = None) -> Iterator[TracedValue]:
        """The index of a loop, yielded once: the code of the loop is the body that follows."""
        code = self._code
        first = as_value(code, 0 if end is None else begin, INT64)
        last = as_value(code, begin if end is None else end, INT64)
        fixed = first.number is not None and last.number is not None
        if fixed and last.addend - first.addend <= 1:
            yield from [first] * (last.addend - first.addend)
            return
        body, done, before = code.label("loop"), code.label("done"), code.block
        if fixed:
            code.jump(body)
        else:
            code.emit(f"br i1 {(first < last).text}, label %{body}, label %{done}")
        code.start(body)
        index, following = code.fresh("i"), code.fresh("i")
        place, read = code.emit(""), code.vectors_read
        with code.scope():
            yield TracedValue(code, index, INT64)
        code.emit(f"{following} = add nsw i64 {index}, 1")
        more = code.define(f"icmp slt i64 {following}, {last.text}")
        edges = f"[ {first.text}, %{before} ], [ {following}, %{code.block} ]"
        code.replace(place, f"{index} = phi i64 {edges}")
        # unrolled whole, two loops over the same elements would keep those in registers, and spill
        spilling = (
            fixed
            and last.addend - first.addend > MAX_UNROLLED
            and code.vectors_read - read >= MAX_UNROLLED
        )
        mark = code.kept_as_loop() if spilling else ""
        code.emit(f"br i1 {more}, label %{body}, label %{done}{mark}")
        code.start(done)

    def share(
        self, begin: Operand, end: Operand, part: TracedValue, parts: TracedValue
    ) -> tuple[TracedValue, TracedValue]:
        """The bounds of one of `parts` almost equal parts of a range; in order, they are it."""
        first, last = (as_value(self._code, bound, INT64) for bound in (begin, end))
        extent = values.extremum("max", last - first, 0)
        start, following = (
            TracedValue(
                self._code, self._code.pure(f"sdiv i64 {(extent * n).text}, {parts.text}"), INT64
            )
            for n in (part, part + 1)
        )
        return first + start, first + following

    def record(self, failure: TracedValue, site: Operand, *numbers: Operand) -> None:
        """Records a failed check and its values, unless an earlier failure is recorded."""
        code = self._code
        words = self._pointer(failure, np.int64, "failure")
        with self.when(words[0] == 0):
            words[0] = as_value(code, site, INT64) + 1
            for position, number in enumerate(numbers, 1):
                words[position] = as_value(code, number, INT64)


def _dtype(dtype: Any) -> DType:
    return dtype if isinstance(dtype, DType) else DTYPES[np.dtype(dtype).name]


bfloat16, float8_e4m3fn, float8_e5m2 = BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2
"""The types that numpy does not have, by the names that texts import."""
