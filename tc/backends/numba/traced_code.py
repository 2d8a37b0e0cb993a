"""The text in LLVM's language of one function, written instruction by instruction, at one place at
a time.

Every instruction without a side effect is looked up first among the instructions that are already
computed at this place, so that the text holds an instruction once, however often a kernel repeats
it.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tc.dtypes import BOOL, UINT8, DType

ARGUMENTS = ("arguments", "failure", "part", "parts")
"""The parameters of a region, all int64; see `tc.backends.numba.tracing`."""

_ATTRIBUTES = 'nounwind "stackrealign"'
"""The stack is aligned to vectors before it is known whether some are kept there. LLVM cannot do
so once it has given out all registers, and a vector across two cache lines is slow to read back."""

_LOOPS = 1 << 20  # the metadata of loops has numbers from here on
_STREAMS = _LOOPS - 1  # that of stores past the caches
_RARE = _LOOPS - 2  # that of branches seldom taken

_X86 = ("x86_64", "amd64", "i386", "i686")

_FLOATS = {32: "float", 64: "double"}


def llvm_type(dtype: DType) -> str:
    """The type of a value; a type of storage is its bits.

    >>> from tc.dtypes import FLOAT16, FLOAT32, INT64
    >>> llvm_type(INT64), llvm_type(FLOAT32.vector(16)), llvm_type(FLOAT16)
    ('i64', '<16 x float>', 'i16')
    """
    plain = dtype.is_float and not dtype.is_storage
    element = _FLOATS[dtype.bits] if plain else f"i{dtype.bits}"
    return element if dtype.lanes == 1 else f"<{dtype.lanes} x {element}>"


def memory_type(dtype: DType) -> str:
    """The type of a value in memory, where bool is a byte."""
    return llvm_type(UINT8.vector(dtype.lanes) if dtype.kind == "bool" else dtype)


def suffix(dtype: DType) -> str:
    """The type in the name of an intrinsic, such as v16f32."""
    vector = "" if dtype.lanes == 1 else f"v{dtype.lanes}"
    letter = "f" if dtype.is_float and not dtype.is_storage else "i"
    return f"{vector}{letter}{dtype.bits}"


def constant(value: float, dtype: DType) -> str:
    """A constant, in all lanes of its type.

    >>> from tc.dtypes import FLOAT64, INT64
    >>> constant(-1, INT64), constant(1.0, FLOAT64.vector(2)), constant(True, BOOL)
    ('-1', '<double 0x3ff0000000000000, double 0x3ff0000000000000>', 'true')
    """
    return constants([value] * dtype.lanes, dtype)


def constants(values: Sequence[float], dtype: DType) -> str:
    """A constant whose lanes are these values."""
    texts = [_element_text(value, dtype.scalar) for value in values]
    if dtype.lanes == 1:
        return texts[0]
    element = llvm_type(dtype.scalar)
    return f"<{', '.join(f'{element} {text}' for text in texts)}>"


def _element_text(value: float, dtype: DType) -> str:
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    number = struct.unpack("=f", struct.pack("=f", value))[0] if dtype.bits == 32 else float(value)
    return f"0x{struct.unpack('=Q', struct.pack('=d', number))[0]:016x}"


class Code:
    """The function `name`; `block` is the label of the current block, `vectors_read` the number of
    vectors read so far, `libraries` are numba's libraries of the functions that it calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = "entry"
        self.vectors_read = 0
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._declarations: dict[str, str] = {}
        self._scopes: dict[str, int] = {}
        self._known: list[dict[str, str]] = [{}]
        self._count = 0
        self._loops = 0
        self._streams = False
        self._rare = False
        self.libraries: list[Any] = []

    # --- instructions -----------------------------------------------------------------------

    def pure(self, instruction: str) -> str:
        """The result of an instruction that depends on its operands alone."""
        for known in reversed(self._known):
            if instruction in known:
                return known[instruction]
        result = self._known[-1][instruction] = self.define(instruction)
        return result

    def define(self, instruction: str) -> str:
        """The result of an instruction that must run here."""
        result = self.fresh()
        self._lines.append(f"  {result} = {instruction}")
        return result

    def read(self, instruction: str, lanes: int) -> str:
        """The result of an instruction that reads `lanes` elements, one behind the other."""
        self.vectors_read += lanes > 1
        return self.define(instruction)

    def emit(self, instruction: str) -> int:
        """Writes an instruction without a result; gives its place, for `replace`."""
        self._lines.append(f"  {instruction}")
        return len(self._lines) - 1

    def replace(self, place: int, instruction: str) -> None:
        self._lines[place] = f"  {instruction}"

    def link(self, library: Any) -> None:
        if library not in self.libraries:
            self.libraries.append(library)

    def slot(self, kind: str) -> str:
        """The address of a variable of a type; the variable has no value yet."""
        result = self.fresh()
        self._slots.append(f"  {result} = alloca {kind}")
        return result

    def call(self, function: str, result: str, *operands: tuple[str, str]) -> str:
        """An instruction that calls a function of another module on pairs (type, value)."""
        kinds = ", ".join(kind for kind, _ in operands)
        self._declarations[function] = f"declare {result} @{function}({kinds})"
        return f"call {result} @{function}({', '.join(map(' '.join, operands))})"

    def apart(self, kind: str) -> str:
        """What to append to an access of memory that no access of another kind meets."""
        number = self._scopes.setdefault(kind, len(self._scopes))
        return f", !alias.scope !{_lists(number)}, !noalias !{_lists(number) + 1}"

    def kept_as_loop(self) -> str:
        """What to append to the branch back of a loop that LLVM is not to unroll."""
        self._loops += 1
        return f", !llvm.loop !{_LOOPS + self._loops}"

    def past_caches(self) -> str:
        """The text to append to a store that goes past the caches. The function then ends with a
        fence, as such stores are not ordered before the store that tells that the function has
        ended."""
        self._streams = True
        return f", !nontemporal !{_STREAMS}"

    def rarely(self) -> str:
        """The text to append to a branch that seldom goes to its first label, so that LLVM does not
        compute beforehand the values of the block there."""
        self._rare = True
        return f", !prof !{_RARE}"

    # --- blocks -----------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}.{self._count}"

    def label(self, hint: str) -> str:
        return self.fresh(hint)[1:]

    def start(self, label: str) -> None:
        """Goes on in a new block, which the current one need not lead to."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block whose values are not known after its end."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    # --- the whole --------------------------------------------------------------------------

    def module(self) -> str:
        """The text of a module with this function, which ends at the current place."""
        end = [*self._fence(), "  ret void", "}"]
        parameters = ", ".join(f"i64 %{name}" for name in ARGUMENTS)
        lines = [*sorted(self._declarations.values())]
        lines += [f"define void @{self.name}({parameters}) {_ATTRIBUTES} {{", "entry:"]
        lines += [*self._slots, *self._lines, *end, *self._metadata()]
        return "\n".join(lines) + "\n"

    def _fence(self) -> Iterator[str]:
        if self._streams:
            is_x86 = platform.machine().lower() in _X86
            yield f"  {self.call('llvm.x86.sse.sfence', 'void') if is_x86 else 'fence seq_cst'}"

    def _metadata(self) -> Iterator[str]:
        """What the instructions refer to."""
        if self._scopes:
            yield from self._kinds()
        if self._streams:
            yield f"!{_STREAMS} = !{{i32 1}}"
        if self._rare:
            yield f'!{_RARE} = !{{!"branch_weights", i32 1, i32 1000}}'
        if self._loops:
            yield f'!{_LOOPS} = !{{!"llvm.loop.unroll.disable"}}'
        for number in range(_LOOPS + 1, _LOOPS + 1 + self._loops):
            yield f"!{number} = distinct !{{!{number}, !{_LOOPS}}}"

    def _kinds(self) -> Iterator[str]:
        """The domain !0, and for each kind a scope, the list of it, and that of all others."""
        yield '!0 = distinct !{!0, !"tc"}'
        for kind, number in self._scopes.items():
            scope, own = _lists(number) - 1, _lists(number)
            others = ", ".join(f"!{_lists(n) - 1}" for n in self._scopes.values() if n != number)
            yield f'!{scope} = distinct !{{!{scope}, !0, !"{kind}"}}'
            yield f"!{own} = !{{!{scope}}}"
            yield f"!{own + 1} = !{{{others}}}"


def _lists(number: int) -> int:
    """The metadata number of the list of the scope of a kind; that of the others follows."""
    return 3 * number + 2
