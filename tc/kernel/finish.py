"""The pipeline of passes from a kernel with marked loops to one that printers take as it is."""

from __future__ import annotations

from collections.abc import Iterator

from tc.kernel.clean import clean, once
from tc.kernel.invariant import hoist_calls
from tc.kernel.ir import For, If, Kernel, Stmt
from tc.kernel.lanes import Supports
from tc.kernel.lines import lines
from tc.kernel.merge import merge
from tc.kernel.narrow import narrow
from tc.kernel.neutral import start_with_terms
from tc.kernel.peel import peel
from tc.kernel.registers import registers
from tc.kernel.share import share
from tc.kernel.transpose import transpose
from tc.kernel.unroll import LIMIT, unroll
from tc.kernel.vectorize import vectorize
from tc.kernel.verify import verify


def finish(
    kernel: Kernel,
    *,
    lanes_bits: int,
    supports: Supports = lambda _: True,
    unroll_limit: int = LIMIT,
) -> Kernel:
    """The kernel with no marked loops and no registers left, for vectors of `lanes_bits` bits (0:
    for a machine without vectors) and of the functions that `supports` allows.

    >>> finish(Kernel("k", (), ((),)), lanes_bits=512)
    Kernel(name='k', buffers=(), regions=((),), sites=(), initial=frozenset())
    """
    found = stages(kernel, lanes_bits=lanes_bits, supports=supports, unroll_limit=unroll_limit)
    for _, stage in found:
        kernel = stage
    return kernel


def stages(
    kernel: Kernel,
    *,
    lanes_bits: int,
    supports: Supports = lambda _: True,
    unroll_limit: int = LIMIT,
) -> Iterator[tuple[str, Kernel]]:
    """The result of each pass, with its name, each verified."""
    verify(kernel)
    kernel = lines(kernel, lanes_bits=lanes_bits)
    yield _checked("lines", kernel)
    kernel = transpose(kernel, lanes_bits=lanes_bits)
    yield _checked("transpose", kernel)
    if lanes_bits:
        kernel = peel(kernel)
        yield _checked("peel", kernel)
    kernel = vectorize(kernel, supports=supports) if lanes_bits else _without_vectors(kernel)
    yield _checked("vectorize", kernel)
    kernel = unroll(kernel, limit=unroll_limit)
    yield _checked("unroll", kernel)
    kernel = start_with_terms(clean(registers(kernel)))
    yield _checked("registers", kernel)
    shorter = narrow(kernel)
    yield ("narrow", kernel) if shorter is kernel else _checked("narrow", shorter)
    kernel = once(share(hoist_calls(merge(shorter))))
    yield _checked("share", kernel)


def _checked(name: str, kernel: Kernel) -> tuple[str, Kernel]:
    verify(kernel)
    return name, kernel


def _without_vectors(kernel: Kernel) -> Kernel:
    """The kernel with loops instead of those that would be vectors."""
    regions = tuple(tuple(map(_serial, region)) for region in kernel.regions)
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


def _serial(stmt: Stmt) -> Stmt:
    match stmt:
        case For(var=var, begin=begin, end=end, parallel=parallel, mark=mark):
            body = tuple(map(_serial, stmt.body))
            return For(var, begin, end, body, parallel, "" if mark == "vector" else mark)
        case If(condition=condition, then=then, otherwise=otherwise):
            return If(condition, tuple(map(_serial, then)), tuple(map(_serial, otherwise)))
        case _:
            return stmt
