"""Templates on disk: kernels for many sizes, with the guards that say for which."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tc.backends.base import Backend, KernelText
from tc.device import Device
from tc.dynamic import SMALL_HINTS, DynamicSizes
from tc.errors import TCError
from tc.extents.guards import Guard
from tc.extents.polynomials import Atom, Dimension, Polynomial, constant, division, of_dimension
from tc.extents.sizes import Questions, is_tracked
from tc.gpu import Gpu
from tc.kernel.sizes import at_sizes
from tc.kernel.storage import FormError, kernel_of, rows_of
from tc.runtime import cache as disk
from tc.runtime.fallback import Request
from tc.stored_texts import how_made, is_kept, parts_of_program, unzipped

MOST_DIVISIONS = 64
"""Floors in floors that a polynomial which is read may have."""


@dataclass(frozen=True, eq=False)
class TemplateText:
    """The text of a kernel for the sizes that `questions` admit. It was planned for the `hints`;
    `anchors` are these, and other sizes at which the same code was made."""

    hints: Mapping[str, int]
    questions: Questions
    text: KernelText
    anchors: list[Mapping[str, int]]

    def admits(self, sizes: Mapping[str, int]) -> bool:
        return self.questions.admits(sizes)

    def distance(self, sizes: Mapping[str, int]) -> float:
        """How far sizes are from the nearest ones that the code was made for: the largest ratio
        of two sizes of one name. The smallest are all alike, as they have the same hint."""
        return min(_distance(anchor, sizes) for anchor in self.anchors)


def _distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    least = SMALL_HINTS[0]
    ratios = (max(one[n], least) / max(other[n], least) for n in one)
    return max((max(ratio, 1 / ratio) for ratio in ratios), default=1.0)


def key_of(
    request: Request,
    fixed: Mapping[str, int],
    dynamic: DynamicSizes,
    backend: Backend,
    device: Device | Gpu,
) -> str | None:
    """The key of the templates of calls that differ from a request in dynamic sizes alone, with the
    sizes that are not dynamic; None where nothing is kept."""
    if not is_kept(backend):
        return None
    sizes = repr((sorted(fixed.items()), sorted(request.sizes.scalars.items())))
    ranges = repr(sorted(dynamic.ranges.items()))
    try:
        program = [*parts_of_program(request.program)]
    except RecursionError:  # nested too deeply to be written down
        return None
    return disk.digest("templates", *how_made(request, backend, device), sizes, ranges, *program)


def stored_templates(key: str, dynamic: DynamicSizes) -> list[TemplateText]:
    """The templates that are kept under a key."""
    stored = disk.get(key)
    return [] if stored is None else templates_of(stored, dynamic)


def store(key: str, templates: Sequence[TemplateText], dynamic: DynamicSizes, most: int) -> None:
    """Keeps templates under a key, and of those that are there, up to a number of all, what has
    other hints."""
    mine = [template.hints for template in templates]
    others = [each for each in stored_templates(key, dynamic) if each.hints not in mine]
    disk.put(key, bytes_of([*templates, *others][:most]))


def bytes_of(templates: Sequence[TemplateText]) -> bytes:
    """Templates of one backend as they are kept (`cache.packed`)."""
    content = json.dumps([*map(_values, templates)], separators=(",", ":"))
    packed = zlib.compress(content.encode(errors="surrogatepass"), 1)
    return disk.packed(_KIND, {"backend": templates[0].text.backend}, packed)


def templates_of(stored: bytes, dynamic: DynamicSizes) -> list[TemplateText]:
    """The templates that were kept; none where the bytes have not the form that `bytes_of`
    writes."""
    found = disk.unpacked(_KIND, stored)
    if found is None:
        return []
    header, body = found
    try:
        backend = header["backend"]
        if not isinstance(backend, str):
            raise FormError("the backend has no name")
        return [_template(values, backend, dynamic) for values in json.loads(unzipped(body))]
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, zlib.error, TCError):
        return []


_KIND = "templates"


# --- the form -----------------------------------------------------------------------------------


def _values(template: TemplateText) -> dict[str, Any]:
    """A template as JSON knows it: the kernel at the hints, and the polynomials of what is tracked
    in it."""
    kernel = template.text.kernel
    buffers = [[_rows_of_numbers(b.shape), _rows_of_numbers(b.strides)] for b in kernel.buffers]
    guards = [
        [_rows(guard.polynomial), *guard.interval, sorted(guard.excluded)]
        for guard in template.questions.guards.values()
    ]
    return {
        "hints": dict(template.hints),
        "anchors": [dict(anchor) for anchor in template.anchors],
        "asks_all": template.questions.asks_all,
        "guards": guards,
        "source": template.text.source,
        "kernel": rows_of(at_sizes(kernel, template.hints)),
        "buffers": buffers,
        "sizes": _rows_of_numbers(kernel.sizes),
    }


def _template(values: Mapping[str, Any], backend: str, dynamic: DynamicSizes) -> TemplateText:
    questions = Questions(dynamic.ranges, values["asks_all"] is True)
    hints = _sizes(values["hints"], dynamic)
    read = _Reader(questions, hints)
    kernel = kernel_of(values["kernel"])
    shapes = values["buffers"]
    buffers = [
        replace(
            buffer, shape=read.numbers(buffer.shape, a), strides=read.numbers(buffer.strides, b)
        )
        for buffer, (a, b) in zip(kernel.buffers, shapes, strict=True)
    ]
    sizes: Any = read.numbers(kernel.sizes, values["sizes"])
    kernel = replace(kernel, buffers=tuple(buffers), sizes=sizes)
    for rows, low, high, excluded in values["guards"]:
        polynomial = read.polynomial(rows)
        interval, others = (_whole(low), _whole(high)), frozenset(map(_whole, excluded))
        questions.guards[str(polynomial)] = Guard(polynomial, interval, others)
    questions.closed = True
    source = values["source"]
    if not isinstance(source, str):
        raise FormError("a source is no text")
    anchors: list[Mapping[str, int]] = [_sizes(each, dynamic) for each in values["anchors"]]
    if not anchors or not questions.admits(hints):
        raise FormError("a template does not admit its hints")
    return TemplateText(hints, questions, KernelText(kernel, backend, source), anchors)


def _sizes(values: object, dynamic: DynamicSizes) -> dict[str, int]:
    if not isinstance(values, dict) or set(values) != set(dynamic.ranges):
        raise FormError(f"{values!r:.80} has not the dynamic sizes")
    return {name: _whole(values[name]) for name in dynamic.ranges}


def _whole(value: object) -> int:
    if type(value) is not int:
        raise FormError(f"{value!r:.80} is no integer")
    return value


def _rows_of_numbers(numbers: Sequence[int]) -> list[Any]:
    """The polynomials of numbers that are tracked; None for others."""
    return [_rows(each.polynomial) if is_tracked(each) else None for each in numbers]


def _rows(polynomial: Polynomial) -> list[Any]:
    """A constant, and a list of a coefficient and atoms for each term; an atom is a name, or two
    polynomials and the operator between them."""
    terms = [
        [coefficient, *map(_atom_rows, product)]
        for product, coefficient in polynomial.terms.items()
    ]
    return [polynomial.constant, *terms]


def _atom_rows(atom: Atom) -> Any:
    if isinstance(atom, Dimension):
        return atom.name
    return [_rows(atom.dividend), atom.op, _rows(atom.divisor)]


class _Reader:
    """Reads polynomials of the sizes that `questions` have ranges of."""

    def __init__(self, questions: Questions, hints: Mapping[str, int]) -> None:
        self.questions, self.hints = questions, hints
        self.atoms: dict[str, Atom] = {}
        for name, own in questions.ranges.items():
            (product,) = of_dimension(name, (own.begin, own.last), own.multiple).terms
            self.atoms[name] = product[0]

    def numbers(self, numbers: Sequence[int], rows: Sequence[Any]) -> tuple[int, ...]:
        """Numbers of which some are tracked; those are what their polynomials are at the hints."""
        found = []
        for number, row in zip(numbers, rows, strict=True):
            if row is not None:
                tracked = self.questions.number(self.polynomial(row), self.hints)
                if not is_tracked(tracked) or tracked.hint != number:
                    raise FormError("a polynomial is not its number at the hints")
                number = tracked
            found.append(number)
        return tuple(found)

    def polynomial(self, rows: Any, depth: int = 0) -> Polynomial:
        if depth > MOST_DIVISIONS:
            raise FormError("a polynomial is nested too deeply")
        number, *terms = rows
        total = constant(_whole(number))
        for coefficient, *atoms in terms:
            term = constant(_whole(coefficient))
            for atom in atoms:
                term = term * self._atom(atom, depth)
            total = total + term
        return total

    def _atom(self, rows: Any, depth: int) -> Polynomial:
        if isinstance(rows, str):
            return Polynomial(0, {(self.atoms[rows],): 1})
        dividend, op, divisor = rows
        if op not in ("/", "%"):
            raise FormError(f"{op!r:.80} is no operator of polynomials")
        return division(
            op, self.polynomial(dividend, depth + 1), self.polynomial(divisor, depth + 1)
        )
