"""What a user calls: interpret, compile, define, emit, explain, error_bound (C25)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from tc import api
from tc.backends import registry
from tc.backends.base import KernelText
from tc.device import Device
from tc.errors import InputError, ends_at_caller
from tc.explanation import Explanation
from tc.frontend.given_text import Text, given_source
from tc.gpu import Gpu
from tc.options import Options, options_from
from tc.sac.arguments import family_and_like
from tc.sac.function import Function, Program
from tc.sac.text.parser import parse
from tc.source import Source
from tc.tuning.lookup import TunedOptions


@lru_cache(maxsize=256)
def _program(source: Source, entry: str | None) -> Program:
    return Program.of(source, entry)


@ends_at_caller
def interpret(src: Text, /, *inputs: Any, entry: str | None = None, **named: Any) -> Any:
    """The results of a program by the reference: slow, checked, always right.

    `src` is the text, the path of a file with it, or a `tc.Source`; inputs are given one by one, by
    keyword, or as one sequence or dict, and those of an expression by name only. One array returns,
    several as a tuple, of the inputs' library. `entry` names the function of several.

    >>> import numpy as np
    >>> import tc.sac
    >>> tc.sac.interpret("{ [i] -> a[i] + 1 }", a=np.int32([1, 2]))
    array([2, 3], dtype=int32)
    """
    program = _program(given_source(src), entry)
    given = program.bound(inputs, named)
    results = program.interpreted(given)
    family, like = family_and_like([g.array for g in given])
    wrapped = tuple(family.wrap(result, like) for result in results)
    return wrapped[0] if len(wrapped) == 1 else wrapped


@ends_at_caller
def compile(
    src: Text,
    *,
    entry: str | None = None,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
) -> Function:
    """A program as a function of arrays, compiled at the first call with new types and shapes.

    `entry`, `backend`, `options` and `check` are as for `tc.compile`. Raises the errors of the
    text's rules C, and BackendError for an unknown backend.

    >>> import numpy as np
    >>> import tc.sac
    >>> double = tc.sac.compile("float[*] f(float[*] x) { return 2f * x; }", backend="interpret")
    >>> double(np.ones((1, 2), np.float32))
    array([[2., 2.]], dtype=float32)
    """
    return _function(_program(given_source(src), entry), backend, options, check)


def _function(
    program: Program, backend: str, options: Options | TunedOptions | None, check: bool | None
) -> Function:
    registry.get(backend)
    if check is not None and not isinstance(check, bool | np.bool_):
        raise InputError(f"check={check!r}: it is True, False or None", repair="check=True")
    if not isinstance(options, TunedOptions):
        options = options_from(options)
    return Function(program, backend, options, check)


class Definitions:
    """The functions of a text; made by `tc.sac.define`. A function is an attribute, and an item."""

    def __init__(self, functions: dict[str, Function]) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> Function:
        if name not in self._functions:
            raise InputError(
                f"there is no function {name!r}; there are {', '.join(self._functions)}"
            )
        return self._functions[name]

    def __getattr__(self, name: str) -> Function:
        functions: dict[str, Function] = self.__dict__.get("_functions", {})
        if name.startswith("_") or name not in functions:
            raise AttributeError(f"there is no function {name!r}")
        return functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __len__(self) -> int:
        return len(self._functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return Definitions, (self._functions,)


@ends_at_caller
def define(
    src: Text,
    *,
    backend: str = "numba",
    options: Options | TunedOptions | None = None,
    check: bool | None = None,
) -> Definitions:
    """All functions of a text: an object with one method per function.

    >>> import tc.sac
    >>> list(tc.sac.define("int f(int a) { return a; } int g(int a) { return f(a) + 1; }"))
    ['f', 'g']
    """
    source = given_source(src)
    names = [definition.name.text for definition in parse(source).definitions]
    if not names:
        _program(source, "")  # raises: an expression has no functions
    return Definitions(
        {name: _function(_program(source, name), backend, options, check) for name in names}
    )


@ends_at_caller
def emit(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    backend: str = "c",
    options: Options | None = None,
    check: bool = False,
    device: Device | Gpu | None = None,
    **named: Any,
) -> KernelText:
    """The code for these inputs in a backend's language, without running a compiler."""
    lowered, arrays = _lowered(src, entry, inputs, named)
    return api.emit(lowered, *arrays, backend=backend, options=options, check=check, device=device)


@ends_at_caller
def explain(
    src: Text,
    /,
    *inputs: Any,
    entry: str | None = None,
    stage: str | None = None,
    backend: str = "numba",
    options: Options | None = None,
    check: bool | None = None,
    **named: Any,
) -> Explanation:
    """An explanation of the def that these inputs are lowered to, from ranges to code."""
    lowered, arrays = _lowered(src, entry, inputs, named)
    return api.explain(lowered, *arrays, stage=stage, backend=backend, options=options, check=check)


@ends_at_caller
def error_bound(src: Text, /, *inputs: Any, entry: str | None = None, **named: Any) -> Any:
    """A bound on the distance of a result from the exact one, by the lowered def (R5)."""
    lowered, arrays = _lowered(src, entry, inputs, named)
    return api.error_bound(lowered, *arrays)


def _lowered(src: Text, entry: str | None, inputs: Any, named: Any) -> tuple[Source, list[Any]]:
    function = Function(_program(given_source(src), entry), "interpret", None, None)
    compiled, arrays = function._of(inputs, named)
    return compiled.program.source, arrays
