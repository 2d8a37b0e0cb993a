"""The shapes that shape functions of SaC's programs give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tc
import tc.sac
from tc.sac.text.parser import parse


def shapes_by_function(
    source: str, given: Mapping[str, Any] | Sequence[Any], **entry: str
) -> list[tuple[int, ...]]:
    """The shapes of the results, by the shape function, from what it is demanded of each input:
    the value, the shape or the rank (C22, section 6.2)."""
    needed = tc.sac.demand(source, "S", **entry)
    if not isinstance(given, Mapping):
        given = dict(zip(needed, given, strict=True))
    text = tc.sac.shape_function(source, **entry)
    inputs: dict[str, Any] = {}
    for name, level in needed.items():
        value = np.asarray(given[name])
        if level != "N":
            shape = np.array(value.shape, np.int32)
            inputs[name] = {"F": given[name], "S": shape, "D": np.int32(value.ndim)}[level]
    function = parse(tc.Source(text)).definitions[-1].name.text
    found = tc.sac.interpret(text, inputs, entry=function)
    shapes = found if isinstance(found, tuple) else (found,)
    return [tuple(shape.tolist()) for shape in shapes]
