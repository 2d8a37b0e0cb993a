"""What each pass made of a kernel, as text: for `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from itertools import groupby

from tc.kernel.ir import Kernel
from tc.kernel.passes.pass_list import PassResult
from tc.kernel.printer import to_text
from tc.kernel.walk import every_statement

CONTEXT = 1
"""Lines around a change that are shown with it."""

RUN, LONGEST = 5, 24
"""Lines that are shown of a stretch of lines that are gone, or new; and of a whole pass."""


def passes_text(results: Iterable[PassResult]) -> str:
    """Each pass with what it does and the milliseconds that it took, and how the text of the
    kernel changed: lines with - are gone, those with + are new.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.folding import integer
    >>> from tc.kernel.ir import Buffer, For, Store, Var
    >>> from tc.kernel.passes.pass_list import PassContext, trace_passes
    >>> store = Store("o", (Var("i", INT64),), integer(7))
    >>> loop = For("i", integer(0), integer(9), (store,), mark="unroll")
    >>> kernel = Kernel("k", (Buffer("o", INT64, (9,), (1,), "output"),), ((loop,),))
    >>> lines = passes_text(trace_passes(kernel, PassContext(lanes_bits=128))).splitlines()
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
