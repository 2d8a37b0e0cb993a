"""What all printers ask about a kernel, and the lines that all texts begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from tc.backends.spellings import Spellings
from tc.kernel import ir


def shared_loop(region: tuple[ir.Stmt, ...]) -> ir.For | None:
    """The parallel loop of a region whose iterations may be shared among threads."""
    loops = [s for s in region if not isinstance(s, ir.Comment | ir.Let)]
    loop = loops[0] if len(loops) == 1 else None
    return loop if isinstance(loop, ir.For) and loop.parallel else None


def used_buffers(*regions: tuple[ir.Stmt, ...]) -> Mapping[str, str]:
    """The buffers that regions use, and whether they write them: "writable" or "read_only"."""
    stmts = tuple(s for region in regions for s in ir.statements(region))
    read = {
        e.buffer: "read_only" for s in stmts for e in ir.expressions(s) if isinstance(e, ir.Load)
    }
    read |= {s.buffer: "read_only" for s in stmts if isinstance(s, ir.Prefetch)}
    return {**read, **{s.buffer: "writable" for s in stmts if isinstance(s, ir.Store)}}


def values_of_fails(*regions: tuple[ir.Stmt, ...]) -> dict[int, int]:
    """How many values the Fails of each site record."""
    found = (s for region in regions for s in ir.statements(region))
    return {s.site: len(s.values) for s in found if isinstance(s, ir.Fail)}


def buffer_lines(kernel: ir.Kernel, names: Spellings) -> Iterator[str]:
    """The name of the kernel, and what its buffers are."""
    yield in_a_comment(kernel.name)
    for buffer in kernel.buffers:
        spelling = names.buffers[buffer.name]
        name = buffer.name if buffer.name == spelling else f"{buffer.name} (here {spelling})"
        text = f"  {buffer.role} {buffer.dtype}({', '.join(map(str, buffer.shape))}) {name}"
        if buffer.strides != ir.row_major(buffer.shape):
            text += f", strides ({', '.join(map(str, buffer.strides))})"
        yield in_a_comment(text)


def in_a_comment(text: str) -> str:
    """One line of a comment: nothing that ends it, joins it to the next or reorders it."""
    visible = "".join(c if c.isprintable() else "?" for c in text).replace("\\", "/")
    return re.sub(r"\?{2,}", "?", visible)


def short(value: float) -> str:
    """The shortest text of a float32 that still reads as it, by way of a float64.

    >>> short(float(np.float32(0.1))), short(1.0), short(float("-inf"))
    ('0.1', '1.0', '-inf')
    """
    text = str(np.float32(value))
    return text if np.float32(float(text)) == np.float32(value) else repr(value)
