"""Calls of XLA that are ready: what the handler in machine code finds in its table, and what
Python does where it finds nothing.

A call is named by the digest of its texts and by the shapes of its arrays. The first one of a kind
comes to Python, unless `prepare` has been there before; from then on the handler runs the kernel
alone, up to `SLOTS` at a time. Where a kernel runs by Python only, Python serves each call.

`register` makes the one target of XLA's foreign function interface that all programs have,
`tc_run`: arrays in, arrays out, the program as text among the attributes of the call.
"""

from __future__ import annotations

import _thread
import ctypes
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import jax
import numpy as np

from tc.derivatives.text_functions import Texts, function_of, texts_of
from tc.dtypes import Array
from tc.errors import AccessError, InputError, TCError
from tc.function import Compiled
from tc.jax.call_handler_llvm import (
    ENTRY_WORDS,
    NUMBERS,
    SLOT_WORDS,
    SLOTS,
    CallHandler,
    XlaCall,
    error_of,
    hashed,
    new_handler,
    read_frame,
)
from tc.process.forks import renew_in_child
from tc.process.processors import get_threads, on_change
from tc.process.uninterrupted import Lazy
from tc.runtime.arguments import read_number, were_given
from tc.runtime.arrays import address
from tc.runtime.loaded import WORD_BYTES, Direct, MachineKernel
from tc.runtime.sizes import CallSizes
from tc.runtime.specialisation import Specialisation, access_error, run_specialised
from tc.wording import counted

T = TypeVar("T")

ROWS = 1024
MAX_READY_KINDS = 512
"""Kinds of calls that the handler knows; the memory of their temporaries is kept."""

MAX_KINDS = 256
"""Kinds of calls that Python serves without looking their texts up."""


CallKind = tuple[int, tuple[tuple[int, ...], ...]]
"""The digest of texts, and the shapes of the arguments."""


def digest_of(texts: Texts) -> int:
    """A number of 128 bits for texts."""
    parts = (len(text.encode()).to_bytes(8, "little") + text.encode() for text in texts)
    return int.from_bytes(hashlib.blake2b(b"".join(parts), digest_size=16).digest(), "little")


def digest_words(digest: int) -> np.ndarray:
    """A digest as the handler takes it: two words."""
    return np.frombuffer(digest.to_bytes(16, "little"), np.int64)


@dataclass(frozen=True, slots=True)
class TextCall:
    """What texts stand for: a function, and numbers for some of its inputs, by their places;
    `places` are those of the others."""

    function: Compiled
    numbers: dict[int, Array]
    places: tuple[int, ...]

    def sizes(self, shapes: Sequence[tuple[int, ...]]) -> CallSizes:
        """The sizes of a call with arguments of these shapes."""
        program = self.function.program
        if len(shapes) != len(self.places):
            raise InputError(
                f"{program.name} takes {counted(len(self.places), 'array')}, but "
                f"{were_given(len(shapes))}",
                repair=self.function._signature.call_text(),
            )
        found: dict[str, tuple[int, ...]] = dict.fromkeys(program.inputs, ())
        found |= {program.inputs[at]: shape for at, shape in zip(self.places, shapes, strict=True)}
        numbers = {program.inputs[at]: number for at, number in self.numbers.items()}
        static = program.static_scalars
        return CallSizes(found, {n: int(numbers[n]) for n in static if n in numbers})


@lru_cache(maxsize=MAX_KINDS)
def call_of(texts: Texts) -> TextCall:
    """The call of these texts: of a function that there is, or of one made here. TCError for texts
    that are none."""
    function, numbers, _ = function_of(*texts)
    parameters = function._signature.inputs
    arrays = {at: read_number(parameters[at], number) for at, number in numbers.items()}
    missing = [p for at, p in enumerate(parameters) if p.static and at not in arrays]
    if missing:
        raise InputError(f"{missing[0].function}: there is no number for {missing[0].name}")
    places = tuple(at for at in range(len(parameters)) if at not in arrays)
    return TextCall(function, arrays, places)


@dataclass(frozen=True, slots=True)
class KnownCall:
    """The calls of one kind, as Python runs them; `slots` are the slots of the handler for this
    kind."""

    call: TextCall
    special: Specialisation
    entry: Any
    slots: list[Any]

    def run(self, frame: XlaCall) -> None:
        """Runs the kernel. InputError for arrays of other types or shapes, AccessError where a
        check fails."""
        program = self.call.function.program
        names = [program.inputs[at] for at in self.call.places]
        wanted = [program.tensors[name].dtype.numpy for name in names]
        if [array.dtype for array in frame.inputs] != wanted:
            raise InputError(f"{program.name}: the arguments have other types than were declared")
        spaces = [(space[1], space[2]) for space in self.special.outputs]
        if [(array.shape, array.dtype) for array in frame.outputs] != spaces:
            raise InputError(f"{program.name}: the results have other shapes than follow")
        given = iter(frame.inputs)
        numbers = self.call.numbers
        inputs = [
            numbers[at] if at in numbers else next(given) for at in range(len(program.inputs))
        ]
        runs_kernel = self.special.runner is not None
        targets = dict(zip(program.outputs, frame.outputs, strict=True)) if runs_kernel else {}
        threads = self.special.request.options.threads or get_threads()
        found = run_specialised(self.special, inputs, targets, alignment=1, threads=threads)
        if not runs_kernel:
            for array, result in zip(frame.outputs, found, strict=True):
                array[...] = result


@dataclass
class ReadyCalls:
    """The calls of this process. What the handler may be reading is never freed: `kept`."""

    known: OrderedDict[CallKind, KnownCall] = field(default_factory=OrderedDict)
    failing: dict[int, tuple[Specialisation, Direct]] = field(default_factory=dict)
    table: Any = None
    entries: int = 0
    kept: list[Any] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)
    handler: CallHandler = field(init=False)

    def __post_init__(self) -> None:
        self.handler = new_handler(self._serve, self._fail)
        self.forget()

    def forget(self) -> None:
        """Has all calls come to Python once more."""
        with self.lock:
            self.known = OrderedDict()
            self.entries = 0
            self.table = (ctypes.c_int64 * (1 + ROWS))(ROWS - 1)
            self.kept.append(self.table)
            self.handler.publish(self.handler.table, ctypes.addressof(self.table))

    def prepare(self, texts: Texts, shapes: tuple[tuple[int, ...], ...]) -> Specialisation:
        """Compiles what calls of this kind run. InputError, RangeError, BackendError."""
        return self._find((digest_of(texts), shapes), texts).special

    # --- what the handler leaves to Python --------------------------------------------------

    def _serve(self, at: int, _slot: int) -> int:
        """Serves the call of a frame, and gives null or the error."""
        return _reported(at, lambda: self._run(at))

    def _fail(self, at: int, slot: int) -> int:
        """Gives the error of a call in which a check has failed."""

        def fail() -> None:
            special, direct = self.failing[slot]
            failure = direct.take_failure()
            if failure is not None and special.runner is not None:
                raise access_error(special.shaped, special.runner.kernel, failure)

        return _reported(at, fail)

    def _run(self, at: int) -> None:
        frame = read_frame(at)
        if frame is None:
            return
        texts = (frame.texts["text"], frame.texts["entry"], frame.texts["how"])
        kind = (digest_of(texts), tuple(array.shape for array in frame.inputs))
        known = self.known.get(kind) or _apart(lambda: self._find(kind, texts))
        if known.entry is not None and len(known.slots) < SLOTS:
            with self.lock:
                self._add_slot(known)
        known.run(frame)

    # --- the table --------------------------------------------------------------------------

    def _find(self, kind: CallKind, texts: Texts) -> KnownCall:
        known = self.known.get(kind)
        if known is not None:
            return known
        call = call_of(texts)
        sizes = call.sizes(kind[1])
        special = call.function._specialised(sizes)
        with self.lock:
            known = self.known.get(kind)
            if known is None:
                self.known[kind] = known = self._new(kind, call, special)
                while len(self.known) > MAX_KINDS:
                    self.known.popitem(last=False)
            return known

    def _new(self, kind: CallKind, call: TextCall, special: Specialisation) -> KnownCall:
        """A call that is known, with an entry of the table if machine code can run it."""
        known = KnownCall(call, special, None, [])
        if not isinstance(special.runner, MachineKernel) or self.entries >= MAX_READY_KINDS:
            return known
        program = call.function.program
        inputs = [program.inputs[at] for at in call.places]
        shapes = {**dict(zip(inputs, kind[1], strict=True)), **special.shaped.shapes}
        words = []
        for name in (*inputs, *program.outputs):
            number = NUMBERS[program.tensors[name].dtype.numpy]
            words += [number, len(shapes[name]), *shapes[name]]
        first = len(program.inputs)
        places = [*call.places, *range(first, first + len(program.outputs))]
        where = (ctypes.c_int64 * len(places))(*places)
        entry = (ctypes.c_int64 * (ENTRY_WORDS + len(words)))(
            *digest_words(kind[0]).tolist(),
            *(len(inputs), len(program.outputs), 0, ctypes.addressof(where), 0),
            *[0] * SLOTS,
            *words,
        )
        known = KnownCall(call, special, entry, [])
        self.kept.append((entry, where))
        if not self._add_slot(known):
            return KnownCall(call, special, None, [])
        row = 1 + hashed(kind[0] & ((1 << 64) - 1), kind[1]) % ROWS
        entry[6] = self.table[row]
        self.entries += 1
        self.handler.publish(
            ctypes.addressof(self.table) + row * WORD_BYTES, ctypes.addressof(entry)
        )
        return known

    def _add_slot(self, known: KnownCall) -> bool:
        """Memory for one more call at the same time, and whether there is some."""
        special, runner = known.special, known.special.runner
        if len(known.slots) >= SLOTS or not isinstance(runner, MachineKernel):
            return False
        try:
            direct = runner.direct(threads=special.request.options.threads or get_threads())
            if direct is None:
                return False
            temporaries = special.temporaries.take()
        except (MemoryError, TCError):
            return False
        program = known.call.function.program
        first = len(program.inputs) + len(program.outputs)
        fixed = dict(known.call.numbers)
        fixed |= {first + at: array for at, array in enumerate(temporaries)}
        for at, array in fixed.items():
            ctypes.c_int64.from_address(direct.addresses + at * WORD_BYTES).value = address(array)
        slot = (ctypes.c_int64 * (SLOT_WORDS + 1))(
            0, 0, direct.function, *direct.arguments, direct.addresses, 1
        )
        always = (
            ctypes.addressof(slot) + SLOT_WORDS * WORD_BYTES
        )  # the address of a word that is not 0
        slot[1] = direct.ready or always
        self.kept.append((slot, direct, temporaries, special))
        self.failing[ctypes.addressof(slot)] = special, direct
        known.slots.append(slot)
        number = len(known.slots)
        known.entry[7 + number - 1] = ctypes.addressof(slot)
        self.handler.publish(ctypes.addressof(known.entry) + 4 * WORD_BYTES, number)
        return True

    def renew_in_child(self) -> None:
        self.lock = threading.RLock()


def _reported(at: int, work: Callable[[], None]) -> int:
    """Does work for the call of a frame; null, or the error that it raises."""
    try:
        work()
        return 0
    except BaseException as error:
        kind = "argument" if isinstance(error, TCError) else ""
        if isinstance(error, AccessError):
            kind = "access"
        elif isinstance(error, KeyboardInterrupt):
            kind = "interrupt"
            _thread.interrupt_main()  # again, where Python may raise it
        message = str(error) if isinstance(error, TCError) else f"{type(error).__name__}: {error}"
        try:
            return error_of(at, kind, message)
        finally:
            del error


def _apart(work: Callable[[], T]) -> T:
    """The result of work that needs room on the stack, which threads of XLA may not have."""
    if threading.current_thread() is threading.main_thread():
        return work()
    found: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="tc compiles for XLA")
    thread.start()
    thread.join()
    if errors:
        raise errors.pop()
    return found.pop()


@Lazy
def ready_calls() -> ReadyCalls:
    """The calls of this process."""
    made = ReadyCalls()
    on_change(made.forget)
    renew_in_child(made.renew_in_child)
    return made


TARGET = "tc_run"
PLATFORM = "cpu"

_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_KIND = b"xla._CUSTOM_CALL_TARGET"


@Lazy
def register() -> None:
    """Registers the target with XLA, so that compiled and stored programs can call it."""
    handler = ready_calls().handler.address
    jax.ffi.register_ffi_target(TARGET, _capsule(handler, _KIND, None), platform=PLATFORM)


def attributes(function: Compiled, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The attributes of a call of a function, with numbers for some of its inputs. The handler
    expects the digest first, in the order of their names."""
    text, entry, how = texts = texts_of(function, numbers)
    return {"digest": digest_words(digest_of(texts)), "entry": entry, "how": how, "text": text}
