"""THE table of the built-in functions (C9): one row each, with value, shape, rank, element type,
and the level that is needed of each argument. A new function is one row, in the module that it
belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from tc.sac.levels.applications import Row
from tc.sac.levels.array_functions import ARRAY_FUNCTIONS
from tc.sac.levels.elementwise import ELEMENTWISE_FUNCTIONS, MATHS_ALIASES

FUNCTIONS: Mapping[str, Row] = {**ARRAY_FUNCTIONS, **ELEMENTWISE_FUNCTIONS}
"""The rows by name. `sel(iv, a)` has none, since it is the selection `a[iv]` (C8)."""

SELECTION = "sel"


def row_of(name: str) -> Row | None:
    """The row of a built-in function or of an alias of a maths function.

    >>> row_of("expf").name, row_of("take").arity, row_of("sel")
    ('exp', 2, None)
    """
    return FUNCTIONS.get(name) or FUNCTIONS.get(MATHS_ALIASES.get(name, name))
