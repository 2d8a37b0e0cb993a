"""Texts of kernels on disk: what was lowered and printed before, by any process, is read back."""

from __future__ import annotations

import contextlib
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping

from tc.backends.base import Backend, KernelText
from tc.device import Device
from tc.gpu import Gpu
from tc.runtime import cache as disk
from tc.runtime.fallback import Request, version_of
from tc.semantics.program import ShapedProgram


def stored_text(
    request: Request,
    shaped: ShapedProgram,
    strides: Mapping[str, tuple[int, ...]],
    backend: Backend,
    device: Device | Gpu,
    make: Callable[[], KernelText],
) -> KernelText:
    """What `make` gives, or gave when it was called for the same.

    Texts of backends from elsewhere are not kept, as nothing tells when those backends change.
    """
    if not type(backend).__module__.startswith("tc."):
        return make()
    how = (backend.name, request.options.to_json(), str(request.check), repr(sorted(request.given)))
    where = (repr(sorted(strides.items())), repr(device), version_of("islpy"))
    try:
        key = disk.digest("text", *how, *where, *canonical(shaped))
    except RecursionError:  # nested too deeply to be written down
        return make()
    stored = disk.get(key)
    kept = None if stored is None else _text(stored)
    if kept is not None:
        return kept
    chances = disk.chances()
    text = make()
    if disk.chances() == chances:
        with contextlib.suppress(RecursionError):
            disk.put(key, zlib.compress(pickle.dumps(text), 1))  # to a tenth
    return text


def _text(stored: bytes) -> KernelText | None:
    """What was stored, or None where it cannot be read back, as by another version of numpy."""
    try:
        kept = pickle.loads(zlib.decompress(stored))
    except Exception:  # whatever pickle may raise
        return None
    return kept if isinstance(kept, KernelText) else None


def canonical(shaped: ShapedProgram) -> Iterator[str]:
    """All of a shaped program that its kernel depends on, without the layout of its text.

    >>> from tc.pipeline import check_module, parse_source, shape_program
    >>> from tc.runtime.sizes import CallSizes
    >>> from tc.source import Source
    >>> def of(text):
    ...     program = check_module(parse_source(Source(text)), None)
    ...     return list(canonical(shape_program(program, CallSizes({"a": (3,)}, {}))))
    >>> one = of("def f(float(N) a) -> (o) { o(i) = 2 * (a(i)) }")
    >>> one == of("def f(float(N) a) -> (o) {  # doubled\\n  o(i) = 2*a(i) }")
    True
    >>> one == of("def f(float(N) a) -> (o) { o(i) = 3 * a(i) }")
    False
    """
    program = shaped.program
    yield program.name
    yield repr((program.inputs, program.outputs, program.temporaries, tuple(program.needs_initial)))
    yield repr([(tensor, shaped.shapes[name]) for name, tensor in program.tensors.items()])
    yield repr((shaped.sizes, shaped.scalars))
    for shaped_statement in shaped.statements:
        ranges = [(name, r.begin, r.end) for name, r in shaped_statement.ranges.items()]
        yield repr((shaped_statement.statement, ranges, sorted(shaped_statement.checked)))
