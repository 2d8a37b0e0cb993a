"""Functions by texts alone, which graphs and files of frameworks can store: the program, the name
of the def, and how the def is compiled, with the inputs that are numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tc.dynamic import dynamic_of_value
from tc.errors import BackendError, InputError
from tc.function import Compiled, live_functions, rebuild
from tc.options import Options, options_json
from tc.source import UNNAMED

Texts = tuple[str, str, str]
"""The program, the name of the def, and how it is compiled, with the inputs that are numbers."""

_HOW = '{"backend": "numba"}'
_KEYS = {"backend", "check", "options", "dynamic", "numbers"}


def texts_of(function: Compiled, numbers: Mapping[str, int]) -> Texts:
    """The texts of a function, some of whose inputs are numbers."""
    return function.text, function.program.name, how_text(function._how, numbers)


def how_text(how: str, numbers: Mapping[str, int]) -> str:
    """How a function is compiled, with inputs that are numbers. torch.compile traces this function.

    >>> how_text('{"backend": "numba"}', {"s": 2})
    '{"backend": "numba", "numbers": {"s": 2}}'
    """
    if not numbers:
        return how
    listed = ", ".join([f'"{name}": {number}' for name, number in numbers.items()])
    return f'{how[:-1]}, "numbers": {{{listed}}}}}'


def function_of(src: str, entry: str, how: str) -> tuple[Compiled, dict[int, int], bool]:
    """The function of these texts, the numbers among its inputs by their places, and whether the
    function is new, so that nobody else holds the function. ParseError,
    CheckError and BackendError for texts of no function."""
    read = options_json(how, repair=_HOW)
    if not isinstance(read, dict) or not {"backend"} <= {*read} <= _KEYS:
        raise BackendError(f"{how!r} does not say how a program is compiled", repair=_HOW)
    numbers = read.pop("numbers", {})
    plain = json.dumps(read)
    is_new = False
    for function in live_functions():
        if (function.text, function.program.name, function._how) == (src, entry, plain):
            break
    else:
        options = Options.from_json(json.dumps(read.get("options", {})))
        is_new = True
        dynamic = dynamic_of_value(read.get("dynamic"))
        own = read["backend"], options, read.get("check"), None, dynamic
        function = rebuild(src, UNNAMED, entry, *own)
    names = function.program.inputs
    for name in numbers:
        if name not in names:
            call = function._signature.call_text()
            raise InputError(f"{entry} has no input {name!r}", repair=call)
    by_place = {names.index(name): number for name, number in numbers.items()}
    return function, by_place, is_new
