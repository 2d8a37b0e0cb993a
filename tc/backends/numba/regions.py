"""What both printers of the numba backend ask about a region."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tc.kernel.ir import (
    Comment,
    For,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    expressions,
    statements,
)


def shared_loop(region: tuple[Stmt, ...]) -> For | None:
    """The parallel loop of a region whose iterations may be shared among threads."""
    loops = [s for s in region if not isinstance(s, Comment | Let)]
    loop = loops[0] if len(loops) == 1 else None
    return loop if isinstance(loop, For) and loop.parallel else None


def used_buffers(region: tuple[Stmt, ...]) -> Mapping[str, str]:
    """The buffers that a region uses, and whether it writes them: "writable" or "read_only"."""
    stmts = tuple(statements(region))
    read = {e.buffer: "read_only" for s in stmts for e in expressions(s) if isinstance(e, Load)}
    read |= {s.buffer: "read_only" for s in stmts if isinstance(s, Prefetch)}
    return {**read, **{s.buffer: "writable" for s in stmts if isinstance(s, Store)}}


def assigned(region: tuple[Stmt, ...]) -> frozenset[str]:
    """The locals that a Set changes."""
    return frozenset(s.var for s in statements(region) if isinstance(s, Set))


def short(value: float) -> str:
    """The shortest text of a float32 that still reads as it, by way of a float64.

    >>> short(float(np.float32(0.1))), short(1.0), short(float("-inf"))
    ('0.1', '1.0', '-inf')
    """
    text = str(np.float32(value))
    return text if np.float32(float(text)) == np.float32(value) else repr(value)
