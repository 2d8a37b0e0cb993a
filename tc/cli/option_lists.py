"""Options of the command line with several values: A,B and N=3,K=4 and A=0,B=none."""

from __future__ import annotations

import argparse
from collections.abc import Mapping


def names(text: str) -> list[str]:
    """
    >>> names("A,B")
    ['A', 'B']
    """
    return _parts(text)


def sizes(text: str) -> dict[str, int | tuple[int, ...]]:
    """
    >>> sizes("N=3,K=4"), sizes("A=3x4")
    ({'N': 3, 'K': 4}, {'A': (3, 4)})
    """
    return {name: _size(name, value) for name, value in _pairs(text, "N=3,K=4")}


def sizes_text(sizes: Mapping[str, int | tuple[int, ...]]) -> str:
    """
    >>> sizes_text({"N": 3, "A": (3, 4)})
    'N=3,A=3x4'
    """
    numbers = ((name, (v,) if isinstance(v, int) else v) for name, v in sizes.items())
    return ",".join(f"{name}={'x'.join(map(str, value))}" for name, value in numbers)


def axes(text: str) -> int | dict[str, int | None]:
    """
    >>> axes("A=0,B=none"), axes("0")
    ({'A': 0, 'B': None}, 0)
    """
    if "=" not in text:
        return _number(text, "A=0,B=none, or 0 for all inputs")
    return {
        name: None if value.lower() == "none" else _number(value, f"{name}=0 or {name}=none")
        for name, value in _pairs(text, "A=0,B=none")
    }


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str, example: str) -> list[tuple[str, str]]:
    found = []
    for part in _parts(text):
        name, mark, value = part.partition("=")
        if not mark:
            raise argparse.ArgumentTypeError(f"pairs such as {example}, and not {part!r}")
        found.append((name.strip(), value.strip()))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise argparse.ArgumentTypeError(f"{name} is given twice in {text!r}")
    return found


def _size(name: str, text: str) -> int | tuple[int, ...]:
    """A size, or the shape of an input."""
    example = f"{name}=3, or {name}=3x4 for an input"
    first, *others = (_number(part, example, text) for part in text.split("x"))
    return (first, *others) if others else first


def _number(text: str, example: str, whole: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{example}, and not {whole or text!r}") from None
