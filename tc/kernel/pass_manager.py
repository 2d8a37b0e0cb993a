"""The pass manager: passes as data, run one after the other and verified, and what each made of a
kernel as text, for `explain`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import groupby

from tc.device import LINE_BYTES
from tc.errors import is_strict
from tc.kernel.ir import Kernel
from tc.kernel.printer import to_text
from tc.kernel.verify import Verified, verify
from tc.kernel.walk import every_statement

UNROLL_LIMIT = 4096
"""Statements that loops become at most."""

CONTEXT = 1
"""Lines around a change that are shown with it."""

RUN, LONGEST = 5, 24
"""Lines that are shown of a stretch of lines that are gone, or new; and of a whole pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassContext:
    """What passes know of the processor and the options.

    Vectors have `lanes_bits` bits (0: there are none); loops become `unroll_limit` statements at
    most. `fma` and `exponents` are instructions for vectors, `line` and `page` bytes, as in
    `Device`. The caches of a core hold `l2` bytes, and all of them `shared_cache` (0: nothing is
    known of them).
    """

    lanes_bits: int
    unroll_limit: int = UNROLL_LIMIT
    fma: bool = False
    exponents: bool = False
    line: int = LINE_BYTES
    page: int = 4096
    l2: int = 0
    shared_cache: int = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass: its name, a line on what the pass does, and the contexts in which it runs."""

    name: str
    summary: str
    run: Callable[[Kernel, PassContext], Kernel]
    when: Callable[[PassContext], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class PassResult:
    """The kernel that a pass gave, and the seconds of the pass."""

    of: Pass
    before: Kernel
    kernel: Kernel
    seconds: float

    @property
    def is_changed(self) -> bool:
        return self.kernel is not self.before


def trace_passes(
    kernel: Kernel, context: PassContext, passes: Sequence[Pass]
) -> Iterator[PassResult]:
    """The result of each pass that is for this context; InternalError where the last one is
    ill-formed, and with `TC_STRICT=1` where any one is, as verification takes a fifth of the time
    of a compilation."""
    verified, strict = Verified(), is_strict()
    for each in passes:
        if each.when(context):
            start = time.perf_counter()
            new = each.run(kernel, context)
            result = PassResult(each, kernel, new, time.perf_counter() - start)
            if result.is_changed and strict:
                verify(new, verified)
            yield result
            kernel = new
    if not strict:
        verify(kernel, verified)


def run_passes(kernel: Kernel, context: PassContext, passes: Sequence[Pass]) -> Kernel:
    """The kernel after all passes: without registers, and without marked loops, but for those that
    would be vectors where there are none.

    >>> empty = Kernel("k", (), ((),))
    >>> run_passes(empty, PassContext(lanes_bits=512), ()) is empty
    True
    """
    for result in trace_passes(kernel, context, passes):
        kernel = result.kernel
    return kernel


def passes_text(results: Iterable[PassResult]) -> str:
    """Each pass with what it does and the milliseconds that it took, and how the text of the
    kernel changed: lines with - are gone, those with + are new.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.folding import integer
    >>> from tc.kernel.ir import Buffer, For, Store, Var
    >>> from tc.kernel.passes.pass_list import PASSES
    >>> store = Store("o", (Var("i", INT64),), integer(7))
    >>> loop = For("i", integer(0), integer(9), (store,), mark="unroll")
    >>> kernel = Kernel("k", (Buffer("o", INT64, (9,), (1,), "output"),), ((loop,),))
    >>> lines = passes_text(trace_passes(kernel, PassContext(lanes_bits=128), PASSES)).splitlines()
    >>> start = next(n for n, line in enumerate(lines) if line.startswith("unrolling"))
    >>> print(*lines[start:start + 11], sep="\\n")
    unrolling: unroll loops become straight-line code (... ms, 2 statements became 9)
       region
      -  unroll for i in 0:9
      -    o[i] = 7
      +  o[0] = 7
      +  o[1] = 7
      +  o[2] = 7
      +  o[3] = 7
      +  o[4] = 7
      +  ... and 4 lines more
    scalar replacement: elements of private arrays become locals (... ms, unchanged)
    """
    return "\n".join(line for result in results for line in _lines(result))


def _lines(result: PassResult) -> Iterator[str]:
    before, after = result.before, result.kernel
    effect = f"{_size(before)} statements became {_size(after)}"
    effect = effect if result.is_changed else "unchanged"
    yield f"{result.of.name}: {result.of.summary} ({1e3 * result.seconds:.1f} ms, {effect})"
    if result.is_changed:
        lines = list(_changes(before, after))
        yield from (f"  {line}" for line in lines[:LONGEST])
        if len(lines) > LONGEST:
            yield f"  ... and {len(lines) - LONGEST} lines more"


def _changes(before: Kernel, after: Kernel) -> Iterator[str]:
    """The lines of a unified diff, long stretches cut."""
    old, new = (to_text(kernel).splitlines() for kernel in (before, after))
    found = list(unified_diff(old, new, lineterm="", n=CONTEXT))[3:]  # without its head
    for mark, lines in groupby(found, key=lambda line: line[0]):
        stretch = ["..." if mark == "@" else line for line in lines]
        cut = RUN if len(stretch) > RUN + 1 else len(stretch)
        yield from stretch[:cut]
        if stretch[cut:]:
            indent = len(stretch[0][1:]) - len(stretch[0][1:].lstrip())
            yield f"{mark}{' ' * indent}... and {len(stretch) - cut} lines more"


def _size(kernel: Kernel) -> int:
    return sum(1 for _ in every_statement(kernel))
