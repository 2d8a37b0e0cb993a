"""Copies to shared memory that run while threads go on, in C-like languages; where a language has
none, threads copy at once."""

from __future__ import annotations

from collections.abc import Iterator

from tc.backends.clike.dialect import CHOICE, Context
from tc.backends.clike.scalars import at_least, element, text_of
from tc.backends.geometry import wide_bytes
from tc.kernel import ir
from tc.kernel.folding import binary, constant, integer
from tc.kernel.verify import COPIED_BYTES


def copy_lines(copy: ir.CopyAsync, context: Context) -> Iterator[str]:
    """The statements that begin to copy neighbours: as many bytes at once as the place of the
    source in memory allows, which is known of arrays of texts that count on it."""
    dialect = context.dialect
    source, item = context.buffers[copy.source], context.buffers[copy.source].dtype.bytes
    known = max(item, wide_bytes(source)) if dialect.aligned else item
    words = dialect.launch.copy_async if dialect.launch is not None else None
    together = min(copy.count, known // item) if words is not None else 1
    if together * item < min(COPIED_BYTES):
        words, together = None, 1
    for by in range(0, copy.count, together):
        to = element(copy.buffer, _moved(copy.indices, by), context)
        of = element(copy.source, _moved(copy.source_indices, by), context)
        if words is not None:
            test = None if copy.condition is None else text_of(copy.condition, context)
            yield words(f"&{to}", f"&{of}", together * item, test)
        elif copy.condition is None:
            yield f"{to} = {of};"
        else:
            test = at_least(copy.condition, CHOICE + 1, context)
            bits = source.dtype.unsigned if source.dtype.is_storage else source.dtype
            zero = text_of(constant(0, bits), context)
            yield f"{to} = {test} ? {of} : {zero};"


def group_lines(left: int | None, context: Context) -> Iterator[str]:
    """The statement that ends a group of copies, or waits for all groups but so many."""
    launch = context.dialect.launch
    if launch is not None and launch.copy_async is not None:
        yield launch.commit if left is None else launch.wait.format(left=left)


def _moved(indices: tuple[ir.Expr, ...], by: int) -> tuple[ir.Expr, ...]:
    return (*indices[:-1], binary("+", indices[-1], integer(by))) if by else indices
