"""Functions of defs with type variables (T6): one function for each binding, made at its first
call (Y10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tc.call_times import CallTime
from tc.dtypes import SPELLINGS
from tc.dynamic import Dynamic
from tc.errors import InputError, ends_at_caller
from tc.explanation import Explanation
from tc.frontend import ast
from tc.frontend.given_text import Text, given_source
from tc.function import Compiled, issue_warnings
from tc.introspection import TensorInfo
from tc.options import Options
from tc.pipeline import check_defs, check_module, parse_source
from tc.process.uninterrupted import LazyByKey
from tc.semantics.check.generic import (
    Types,
    bound_text,
    entry_of,
    types_given,
    types_needed,
    types_of_inputs,
)
from tc.semantics.check.generic import (
    written_out as written_out_source,
)
from tc.source import Origin, Source
from tc.tuning.lookup import TunedOptions

_HEAD = re.compile(r"def\s[^(]*<")
"""What a text with type variables has."""


class GenericFunction:
    """A def with type variables as a function of arrays; made by `tc.compile` and `tc.define`.

    A call binds each variable by the first input that has it, and is a call of the function of the
    text that is written out with these types: a `tc.Compiled`, which is made at the first call with
    them, and which `written_out` gives. All else is as for `tc.Compiled`.

    >>> import numpy as np
    >>> import tc
    >>> twice = tc.compile("def twice<T>(T(N) x) -> (y) { y(i) = x(i) + x(i) }")
    >>> twice(np.float32([1, 2])), twice(np.int8([3]))
    (array([2., 4.], dtype=float32), array([6], dtype=int8))
    """

    options: Options
    """The options that the functions are compiled with."""

    def __init__(
        self,
        source: Source,
        entry: str,
        backend: str,
        options: Options | None,
        check: bool | None,
        tuned: TunedOptions | None = None,
        dynamic: Dynamic = None,
    ) -> None:
        self._source, self._entry = source, entry
        self._definition = _definition(source, entry)
        self.__doc__ = self._definition.span.text
        self.backend = backend
        self.options = options or Options()
        self._requested_check, self._tuned, self._dynamic = check, tuned, dynamic
        self._made: LazyByKey[Compiled] = LazyByKey()
        self._called: dict[tuple[Any, ...], Compiled] = {}

    @property
    def text(self) -> str:
        """The text of the program, with all its defs."""
        return self._source.text

    @property
    def generic_source(self) -> tuple[Source, str]:
        """The text, and the name of the def, for what derives texts of texts."""
        return self._source, self._entry

    @property
    def __name__(self) -> str:  # as functions have it
        return self._entry

    @ends_at_caller
    def __call__(self, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        key = tuple(getattr(value, "dtype", None) for value in inputs)
        function = self._called.get(key) if not named and None not in key else None
        if function is None:
            function = self._bound(inputs, named)
            if not named and None not in key:
                self._called[key] = function
        return function(*inputs, outputs=outputs, **named)

    @ends_at_caller
    def written_out(self, /, **types: str) -> Compiled:
        """The function of the text in which the type variables are these types.

        >>> import tc
        >>> half = tc.compile("def f<T>(T(N) x) -> (y) { y(i) = 2 * x(i) }").written_out(T="half")
        >>> print(half.infer(N=3)["y"])
        float16(3)
        """
        return self._function(types_given(self._definition, types))

    @ends_at_caller
    def infer(self, /, *inputs: Any, **named: Any) -> dict[str, TensorInfo]:
        """Shape and dtype of each output by name, for inputs that bind the type variables."""
        return self._bound(inputs, named).infer(*inputs, **named)

    @ends_at_caller
    def prepare(self, /, *inputs: Any, **named: Any) -> None:
        """Compiles ahead of calls with these inputs."""
        self._bound(inputs, named).prepare(*inputs, **named)

    @ends_at_caller
    def time(
        self, /, *inputs: Any, outputs: Any = None, seconds: float = 0.5, **named: Any
    ) -> CallTime:
        """The time of a call with these inputs once the function is compiled."""
        function = self._bound(inputs, named)
        return function.time(*inputs, outputs=outputs, seconds=seconds, **named)

    @ends_at_caller
    def source(self, /, *inputs: Any, **named: Any) -> str:
        """The code of a call with these inputs, in the language of the backend."""
        return self._bound(inputs, named).source(*inputs, **named)

    @ends_at_caller
    def explain(self, /, *inputs: Any, **named: Any) -> Explanation:
        """An explanation of the program for these inputs, from ranges to code."""
        return self._bound(inputs, named).explain(*inputs, **named)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Compiled:
        definition = self._definition
        return self._function(types_of_inputs(definition, _dtypes(definition, inputs, named)))

    def _function(self, types: Types) -> Compiled:
        key = tuple(SPELLINGS[spelling].name for spelling in types.values())

        def make() -> Compiled:
            program = check_module(
                parse_source(_written(self._source, self._entry, types)), self._entry
            )
            issue_warnings(program.warnings)
            own = (self.backend, self.options, self._requested_check, self._tuned)
            return Compiled(program, *own, self._dynamic)

        return self._made.get(key, make)

    def __repr__(self) -> str:
        listed = ", ".join(
            f"{v.name.text}: {bound_text(v)}" if v.bound else v.name.text
            for v in self._definition.variables
        )
        inputs = ", ".join(param.span.line for param in self._definition.params)
        outputs = ", ".join(result.name.text for result in self._definition.returns)
        return f"<tc {self._entry}<{listed}>({inputs}) -> ({outputs}), backend {self.backend}>"

    def __deepcopy__(self, _: Any = None) -> GenericFunction:  # as functions of Python
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Any, ...]:
        own = (self.backend, self.options, self._requested_check, self._tuned, self._dynamic)
        return _rebuilt, (self._source.text, self._source.name, self._entry, *own)


def _rebuilt(text: str, name: str, entry: str, *own: Any) -> GenericFunction:
    return GenericFunction(Source(text, name), entry, *own)


def generic_function(
    source: Source,
    entry: str | None,
    backend: str,
    options: Options | None,
    check: bool | None,
    tuned: TunedOptions | None = None,
    dynamic: Dynamic = None,
) -> GenericFunction | None:
    """The function of a def with type variables; None where the def has none."""
    found = generic_entry(source, entry)
    if found is None:
        return None
    own = (options, check, tuned, dynamic)
    return GenericFunction(source, found.name.text, backend, *own)


def generic_entry(source: Source, entry: str | None) -> ast.Def | None:
    """The def of a text that is asked for, where it has type variables; the text is checked for
    the types of its bounds."""
    if not _HEAD.search(source.text):
        return None
    found = entry_of(parse_source(source), entry)
    return None if found is None else _definition(source, found.name.text)


def generic_names(source: Source) -> tuple[str, ...]:
    """The defs of a text that have type variables."""
    if not _HEAD.search(source.text):
        return ()
    module = parse_source(source)
    return tuple(definition.name.text for definition in module.defs if definition.variables)


def bound_source(
    source: Source, entry: str | None, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Source, str | None]:
    """A text with the types that the inputs of a call bind, and the name of its def; the very text
    where the def has no type variables."""
    definition = generic_entry(source, entry)
    if definition is None:
        return source, entry
    types = types_of_inputs(definition, _dtypes(definition, inputs, named))
    return _written(source, definition.name.text, types), definition.name.text


@ends_at_caller
def written_out(src: Text, /, *, entry: str | None = None, **types: str) -> str:
    """The text of a def with these types in the place of its type variables (T6).

    `src` and `entry` are as for `tc.compile`; types are names of types, by keyword. What is made of
    a text alone, such as a gradient, is made of this text.

    >>> import tc
    >>> text = "def f<T: half | float>(T(N) x) -> (y) { y(i) = 2 * x(i) }"
    >>> tc.written_out(text, T="half")
    'def f(half(N) x) -> (y) { y(i) = 2 * x(i) }'
    """
    source = given_source(src)
    definition = generic_entry(source, entry)
    if definition is None:
        if types:
            raise InputError(
                f"the def has no type variable {next(iter(types))}",
                rule="T6",
                repair=f"def f<{next(iter(types))}>(...), in the text",
            )
        return source.text
    if not types:
        raise types_needed(definition)
    return with_types(source, definition, types).text


def with_types(source: Source, definition: ast.Def, types: Mapping[str, object]) -> Source:
    """A text with types, which are checked, in the place of the type variables of its def."""
    return _written(source, definition.name.text, types_given(definition, types))


def _written(source: Source, entry: str, types: Types) -> Source:
    return _written_text(source.text, source.name, source.origin, entry, tuple(types.items()))


@lru_cache(maxsize=256)
def _written_text(
    text: str, name: str, origin: Origin | None, entry: str, types: tuple[tuple[str, str], ...]
) -> Source:
    """A text is written out once for its types, as it is read once where it is given again."""
    return written_out_source(parse_source(Source(text, name, origin)), entry, dict(types))


def _definition(source: Source, entry: str) -> ast.Def:
    return _checked(source.text, source.name, source.origin, entry)


@lru_cache(maxsize=256)
def _checked(text: str, name: str, origin: Origin | None, entry: str) -> ast.Def:
    module = parse_source(Source(text, name, origin))
    check_defs(module)
    return next(d for d in module.defs if d.name.text == entry)


def _dtypes(
    definition: ast.Def, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, str | None]:
    """The element types of the inputs of a call by name, which come one by one and by keyword, or
    all in one collection; None where an input has none."""
    names = [param.name.text for param in definition.params]
    values: dict[str, Any] = {}
    if len(inputs) == 1 and isinstance(inputs[0], list | tuple | Mapping) and not named:
        (given,) = inputs
        values = (
            dict(given) if isinstance(given, Mapping) else dict(zip(names, given, strict=False))
        )
    else:
        values = {**dict(zip(names, inputs, strict=False)), **named}
    return {name: _dtype(value) for name, value in values.items() if name in names}


def _dtype(value: Any) -> str | None:
    if isinstance(value, tuple):  # a shape
        return None
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        if not hasattr(value, "__dlpack__"):
            return None
        dtype = np.from_dlpack(value).dtype
    name = str(dtype)
    return name.rpartition(".")[2]
