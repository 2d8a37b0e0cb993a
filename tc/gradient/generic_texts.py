"""Texts that are derived of defs with type variables (T6): one text for all types, where texts for
each of them differ in the types alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from tc.dtypes import SPELLINGS
from tc.frontend import ast
from tc.frontend.given_text import given_source
from tc.frontend.lexer import scan
from tc.frontend.parser import parse
from tc.semantics import program as p
from tc.semantics.check.checker import check_all
from tc.semantics.check.generic import Types, entry_of, types_needed, written_out
from tc.source import Edit, Source, Span, apply

_HEAD = re.compile(r"def\s[^(]*<")
_WITHOUT_BOUND = ("float", "double")
MOST = 16
"""The most combinations of types for which texts are derived."""

_DIFFER = "what is derived of '{}' is another text for each type"

Derive = Callable[[object, str | None], tuple[str, ...]]
"""Derives texts of a program, or of a text, and the def that is asked for."""


def derived(src: object, entry: str | None, derive: Derive) -> tuple[str, ...]:
    """What is derived of a program. Of a def with type variables: texts with type variables, if
    for all floating types of the bounds they differ in the types alone; else an InputError that
    asks for the types."""
    found = _generic(src, entry)
    if found is None:
        return derive(src, entry)
    module, definition = found
    check_all(module)
    names = [variable.name.text for variable in definition.variables]
    floats = [_floats(variable) for variable in definition.variables]
    chosen = [dict(zip(names, each, strict=True)) for each in itertools.product(*floats)]
    if len(chosen) > MOST:
        raise types_needed(definition)
    own = definition.name.text
    texts = [derive(written_out(module, own, types), own) for types in chosen]
    return tuple(_joined(definition, chosen, each) for each in zip(*texts, strict=True))


def _generic(src: object, entry: str | None) -> tuple[ast.Module, ast.Def] | None:
    source = getattr(src, "generic_source", None)
    if source is not None:
        source, own = source
        entry = entry or own
    elif isinstance(getattr(src, "program", None), p.Program) or hasattr(src, "lowered"):
        return None
    else:
        source = given_source(src)
    if not _HEAD.search(source.text):
        return None
    module = parse(source)
    definition = entry_of(module, entry)
    return None if definition is None else (module, definition)


def _floats(variable: ast.TypeVariable) -> tuple[str, ...]:
    """The floating types of a bound, or all of a bound without one."""
    bound = variable.bound or _WITHOUT_BOUND
    return tuple(each for each in bound if SPELLINGS[each].is_float) or bound


def _joined(definition: ast.Def, chosen: Sequence[Types], texts: Sequence[str]) -> str:
    """One text for several that differ in types alone."""
    source = Source(texts[0])
    scanned = [scan(Source(text)).tokens for text in texts]
    if len({len(tokens) for tokens in scanned}) > 1:
        raise types_needed(definition, _DIFFER)
    edits: list[Edit] = []
    used: set[str] = set()
    for tokens in zip(*scanned, strict=True):
        if len({token.text for token in tokens}) == 1:
            continue
        meant = _variable(definition, chosen, [token.text for token in tokens])
        if meant is None:
            raise types_needed(definition, _DIFFER)
        used.add(meant)
        edits.append(Edit(Span(source, tokens[0].start, tokens[0].end), meant))
    if not used:
        return texts[0]
    listed = ", ".join(
        f"{v.name.text}: {' | '.join(_floats(v))}" if v.bound else v.name.text
        for v in definition.variables
        if v.name.text in used
    )
    after = scanned[0][1].end  # the name of the def
    return apply([*edits, Edit(Span(source, after, after), f"<{listed}>")])


def _variable(definition: ast.Def, chosen: Sequence[Types], spellings: Sequence[str]) -> str | None:
    """The variable whose types these are, one for each combination."""
    if not all(spelling in SPELLINGS for spelling in spellings):
        return None
    for variable in definition.variables:
        name = variable.name.text
        own = [SPELLINGS[types[name]] for types in chosen]
        if own == [SPELLINGS[spelling] for spelling in spellings]:
            return name
    return None
