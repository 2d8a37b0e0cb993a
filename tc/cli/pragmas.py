"""Pragmas: values that a text states for its defs, in comments `# tc: NAME=VALUE ...`.

Pragmas stand right before a def, or before the line in which the def begins, on one line or on
several, and mean what NAME=VALUE means on the command line. So a file can be run, explained and
tuned as it is; to everything but the command line pragmas are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tc.errors import InputError
from tc.frontend import ast
from tc.semantics.program import Program, Size
from tc.semantics.suggest import nearest
from tc.source import Source, Span

_LINE = re.compile(r"^[ \t]*#[ \t]*tc:([^\n]*)", re.MULTILINE)


def pragma_values(program: Program, module: ast.Module) -> dict[str, str]:
    """The values that a text states for one of its defs, by name. InputError for what is no
    NAME=VALUE, for names that the def does not have, and for those that are given twice.

    >>> from tc.pipeline import check_module, parse_source
    >>> module = parse_source(Source("# tc: N=8\\ndef f(float(N) x) -> (y) { y(i) = 2 * x(i) }"))
    >>> pragma_values(check_module(module, "f"), module)
    {'N': '8'}
    """
    pairs: dict[str, str] = {}
    known = names_given(program)
    for span in _words(program, module):
        name, equals, value = span.text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{span.text!r} is not of the form NAME=VALUE", span=span)
        if name in pairs:
            raise InputError(f"{name} is stated twice", span=span)
        if name not in known:
            close = nearest(name, sorted(known))
            raise InputError(
                f"{program.name} has no input or size {name!r}; "
                f"it has {', '.join(sorted(known)) or 'none'}",
                span=span,
                paste=f"{close}={value}" if close else None,
            )
        pairs[name] = value
    return pairs


def names_given(program: Program) -> set[str]:
    """The inputs and sizes that a call may be given by name."""
    return {*program.inputs, *(name for name in program.sizes if "." not in name)}


def merged(program: Program, stated: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The values of the command line and the pragmas that they leave room for: an array on the
    command line gives the sizes of its shape."""
    said = set(given)
    for name, value in given.items():
        if name in program.inputs and not _is_size(program, name, value):
            dims = program.tensors[name].shape or ()
            said |= {dim.name for dim in dims if isinstance(dim, Size)}
    return {**{name: v for name, v in stated.items() if name not in said}, **given}


def _is_size(program: Program, name: str, value: str) -> bool:
    """Whether a value is for the size of this name, where a tensor has it, too (N1), or needs the
    sizes itself, as `random` without a shape does."""
    return (name in program.sizes and value.isdigit()) or value in ("random", "zeros", "ones")


def _words(program: Program, module: ast.Module) -> Iterator[Span]:
    """The words after "tc:" of the comments between a def and the one before it."""
    source: Source = module.span.source
    begin = 0
    for definition in module.defs:
        end = definition.span.start
        if definition.name.text == program.name:
            for line in _LINE.finditer(source.text, begin, end):
                for word in re.finditer(r"\S+", line[1]):
                    start = line.start(1) + word.start()
                    yield Span(source, start, start + len(word[0]))
        begin = definition.span.end
