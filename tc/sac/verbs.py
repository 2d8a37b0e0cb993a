"""What a user calls: interpret, demand, desugar, shape_function."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tc.errors import CheckError, InputError, TCWarning, ends_at_caller, render
from tc.frontend.given_text import Text, given_source
from tc.sac import ast
from tc.sac.free_names import free_names
from tc.sac.levels.demand import demand_of
from tc.sac.levels.values import Level
from tc.sac.reference import WeakInput, interpret_module
from tc.sac.text.parser import parse


@ends_at_caller
def interpret(src: Text, /, *inputs: Any, entry: str | None = None, **named: Any) -> Any:
    """The results of a program by the reference: slow, checked, always right.

    >>> import numpy as np
    >>> import tc.sac
    >>> tc.sac.interpret("{ [i] -> a[i] + 1 }", a=np.int32([1, 2]))
    array([2, 3], dtype=int32)
    """
    module = parse(given_source(src))
    chosen = entry_of(module, entry)
    names = (
        tuple(parameter.name.text for parameter in chosen.parameters)
        if chosen is not None
        else free_names(module)
    )
    given = _bound(names, inputs, named, is_expression=chosen is None)
    arrays = {name: _array(name, value) for name, value in given.items()}
    results, context = interpret_module(module, arrays, chosen.name.text if chosen else None)
    for span, text in context.warnings.values():
        warnings.warn(render("TCWarning", CheckError(text, rule="C15", span=span)), TCWarning, 2)
    return results[0] if len(results) == 1 else results


@ends_at_caller
def demand(src: Text, level: str, *, entry: str | None = None) -> dict[str, str]:
    """How much of each input a level of the result needs (C24): "F" its value, "S" its shape, "D"
    its rank, "N" nothing.

    >>> import tc.sac
    >>> tc.sac.demand("int[+] plus(int[+] A, int B) { return A + B; }", "S")
    {'A': 'S', 'B': 'N'}
    """
    if level not in Level.__members__:
        raise InputError(f"the level {level!r} is none of F, S, D and N", rule="C25")
    module = parse(given_source(src))
    found = demand_of(module, entry_of(module, entry), Level[level])
    return {name: needed.name for name, needed in found.items()}


def entry_of(module: ast.Module, entry: str | None) -> ast.Definition | None:
    """The function that a call runs; None of an expression (C4)."""
    names = [definition.name.text for definition in module.definitions]
    if module.body is not None:
        if entry is not None:
            raise CheckError(f"the text is an expression, which has no '{entry}'", rule="C4")
        return None
    if entry is None:
        if len(names) > 1:
            told = ", ".join(names)
            raise CheckError(f"the text has several functions, {told}: give entry=", rule="C4")
        return module.definitions[0]
    if entry not in names:
        raise CheckError(f"the text has no function '{entry}', only {names}", rule="C4")
    return module.definitions[names.index(entry)]


def _bound(
    names: Sequence[str], inputs: tuple[Any, ...], named: Mapping[str, Any], is_expression: bool
) -> dict[str, Any]:
    values: dict[str, Any] = dict(named)
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        values.update(inputs[0])
    elif inputs:
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple) and len(names) != 1:
            inputs = tuple(inputs[0])
        elif len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            inner = inputs[0]
            if len(inner) == 1 and isinstance(inner[0], np.ndarray):
                inputs = tuple(inner)
        if is_expression and names:
            raise InputError("inputs of an expression are given by name", rule="C25")
        if len(inputs) > len(names):
            raise InputError(f"{len(inputs)} inputs for {len(names)}", rule="C25")
        values.update(zip(names, inputs, strict=False))
    for name in names:
        if name not in values:
            raise InputError(f"input '{name}' is missing", rule="C25")
    for name in values:
        if name not in names:
            raise InputError(f"there is no input '{name}', only {list(names)}", rule="C25")
    return values


def _array(name: str, value: Any) -> Any:
    if isinstance(value, str):
        raise InputError(f"input '{name}' is a text, and an array is asked for", rule="C25")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"input '{name}' is no array: {error}", rule="C25") from None
    if array.dtype.kind not in "buif":
        raise InputError(f"input '{name}' has elements of {array.dtype}", rule="C25")
    weak = isinstance(value, int | float | list | tuple) and not isinstance(value, np.generic)
    return WeakInput(array) if weak else value if isinstance(value, np.ndarray) else array
