"""What a user asks of a text of SaC beside running it: demand, desugar, shape_function."""

from __future__ import annotations

from typing import Any

from tc.errors import InputError, ends_at_caller
from tc.frontend.given_text import Text, given_source
from tc.sac import ast
from tc.sac.desugar import desugared
from tc.sac.levels.demand import demand_of
from tc.sac.levels.values import Level
from tc.sac.names import check_names, entry_of
from tc.sac.shape_functions import shape_module
from tc.sac.text.parser import parse
from tc.sac.text.printer import module_text
from tc.source import ShownText


@ends_at_caller
def demand(src: Text, level: str, *, entry: str | None = None) -> dict[str, str]:
    """How much of each input a level of the result needs (C24): "F" its value, "S" its shape, "D"
    its rank, "N" nothing.

    `level` is the level of the result, by one of these letters. Raises the errors of the text's
    rules C, and InputError for another level.

    >>> import tc.sac
    >>> tc.sac.demand("int[+] plus(int[+] A, int B) { return A + B; }", "S")
    {'A': 'S', 'B': 'N'}
    """
    if level not in Level.__members__:
        raise InputError(f"the level {level!r} is none of F, S, D and N", rule="C25")
    module, chosen = _checked(src, entry)
    found = demand_of(module, chosen, Level[level])
    return {name: needed.name for name, needed in found.items()}


@ends_at_caller
def desugar(src: Text, /, *_inputs: Any, entry: str | None = None, **_named: Any) -> ShownText:
    """The same program with with-loops only and without dots, with the same results (C20).

    The text does not depend on inputs, which may be given all the same. Raises the errors of the
    text's rules C.

    >>> import tc.sac
    >>> tc.sac.desugar("{ [i] -> i | [i] < n }").rstrip()
    'with { ([0] <= [i] < n) : i; } : genarray(n, genarray(shape(0), zero(0)))'
    """
    module, _ = _checked(src, entry, needs_entry=entry is not None)
    return ShownText(module_text(desugared(module)), "sac")


@ends_at_caller
def shape_function(src: Text, *, entry: str | None = None) -> ShownText:
    """The text of a function that computes the shape of the result, by schemes S and D (C22).

    Its parameters have the names of the inputs that level S of the result needs: the shape of an
    input, an `int[.]`, where level S of it is needed, its value at F, its rank at D. Its name is
    that of the function with `_s` behind it, and it is the last of the text. Raises the errors of
    the text's rules C.

    >>> import tc.sac
    >>> tc.sac.shape_function("int[+] plus(int[+] A, int B) { return A + B; }")
    int[.] plus_s(int[.] A) { return A; }
    <BLANKLINE>
    """
    module, chosen = _checked(src, entry)
    return ShownText(module_text(shape_module(module, chosen)), "sac")


def _checked(
    src: Text, entry: str | None, *, needs_entry: bool = True
) -> tuple[ast.Module, ast.Definition | None]:
    """The tree of a text whose names are right, and the function that a call runs."""
    module = parse(given_source(src))
    check_names(module)
    if not needs_entry:
        return module, None
    chosen = entry_of(module, entry)
    return module, chosen if isinstance(chosen, ast.Definition) else None
