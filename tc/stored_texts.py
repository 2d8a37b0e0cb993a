"""Texts of kernels on disk: what was lowered and printed before, by any process, is read back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from typing import Any

from tc.backends.base import Backend, KernelText
from tc.backends.geometry import LaunchGeometry, LaunchText
from tc.device import Device
from tc.errors import TCError
from tc.gpu import Gpu
from tc.kernel.storage import FormError, kernel_of, rows_of
from tc.options import Options
from tc.process.uninterrupted import load
from tc.runtime import cache as disk
from tc.runtime.fallback import Request, version_of
from tc.semantics.program import Program, ShapedProgram


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
    if not is_kept(backend):
        return make()
    how = how_made(request, backend, device)
    try:
        key = disk.digest("text", *how, repr(sorted(strides.items())), *canonical(shaped))
    except RecursionError:  # nested too deeply to be written down
        return make()
    stored = disk.get(key)
    kept = None if stored is None else text_of(stored)
    if kept is not None and kept.backend == backend.name:
        return kept
    chances = disk.chances()
    text = make()
    if disk.chances() == chances:
        disk.put(key, bytes_of(text))
    return text


def is_kept(backend: Backend) -> bool:
    """Whether texts of a backend are kept."""
    return type(backend).__module__.startswith("tc.")


def how_made(request: Request, backend: Backend, device: Device | Gpu) -> tuple[str, ...]:
    """What else than the program and the sizes decides what is made for a request."""
    options, given = request.options.to_json(), repr(sorted(request.given))
    where = repr(device), version_of("islpy")
    checks = repr((request.check, request.check_places))
    return (backend.name, options, checks, given, *where)


_KIND = "text"


def bytes_of(text: KernelText) -> bytes:
    """A text as it is kept (`cache.packed`); what is printed for a GPU has its launches in the
    header, and CUDA's texts what they were lowered for."""
    header: dict[str, Any] = {"backend": text.backend, "class": type(text).__name__}
    if isinstance(text, LaunchText):
        header["launches"] = [astuple(launch) for launch in text.launches]
    if header["class"] == _CUDA_TEXT:
        header |= {"options": text.options.to_json(), "arch": text.arch}  # type: ignore[attr-defined]
    content = json.dumps([text.source, rows_of(text.kernel)], separators=(",", ":"))
    return disk.packed(_KIND, header, zlib.compress(content.encode(errors="surrogatepass"), 1))


def text_of(stored: bytes) -> KernelText | None:
    """The text that was kept; None where the bytes have not the form that `bytes_of` writes."""
    found = disk.unpacked(_KIND, stored)
    if found is None:
        return None
    header, body = found
    try:
        source, rows = json.loads(unzipped(body))
        kernel = kernel_of(rows)
        if kernel.sizes:  # of a template
            return None
        backend, known = _word(header["backend"]), (kernel, header["backend"], _word(source))
        if header["class"] == KernelText.__name__:
            return KernelText(*known)
        launches = tuple(_launch(*values) for values in header["launches"])
        if header["class"] == LaunchText.__name__:
            return LaunchText(*known, launches=launches)
        if header["class"] != _CUDA_TEXT or backend != "cuda":
            return None
        text: KernelText = load("tc.backends.cuda").CudaText(
            *known,
            launches=launches,
            options=Options.from_json(_word(header["options"])),
            arch=_word(header["arch"]),
        )
        return text
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error, TCError):
        return None


_CUDA_TEXT = "CudaText"
"""The name of a class, as the module of the class is loaded for that backend alone."""


def unzipped(body: bytes) -> bytes:
    """What was compressed, at most as much as a whole directory of kernels holds, whatever the body
    says."""
    reader = zlib.decompressobj()
    content = reader.decompress(body, disk.LIMIT_BYTES)
    if not reader.eof or reader.unused_data:
        raise FormError("it goes on, or was cut off")
    return content


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise FormError(f"{value!r:.80} is no text")
    return value


def _launch(*values: Any) -> LaunchGeometry:
    function, grid, block, shared, dynamic, cooperative = values
    if type(cooperative) is not bool:
        raise FormError(f"{cooperative!r:.80} is neither true nor false")
    x, y, z = map(_count, grid)
    u, v, w = map(_count, block)
    sizes = _count(shared), _count(dynamic)
    return LaunchGeometry(_word(function), (x, y, z), (u, v, w), *sizes, cooperative)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise FormError(f"{value!r:.80} is no number of things")
    return value


def canonical(shaped: ShapedProgram) -> Iterator[str]:
    """The parts of a shaped program that its kernel depends on, without the layout of its text.

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


def parts_of_program(program: Program) -> Iterator[str]:
    """The parts of a program that decide what it is for any sizes, without the layout of its
    text."""
    yield repr((program.name, program.inputs, program.outputs, program.temporaries))
    yield repr((tuple(program.needs_initial), sorted(program.static_scalars)))
    yield repr((*program.tensors.values(), *program.sizes.values(), *program.equalities))
    yield repr(program.statements)
