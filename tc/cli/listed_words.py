"""Words of the command line that stand for several values: A,B and N=3,K=4 and A=0,B=none."""

from __future__ import annotations

import argparse


def names(text: str) -> list[str]:
    """
    >>> names("A,B")
    ['A', 'B']
    """
    return _parts(text)


def sizes(text: str) -> dict[str, int]:
    """
    >>> sizes("N=3,K=4")
    {'N': 3, 'K': 4}
    """
    return {name: _number(value, f"{name}=3") for name, value in _pairs(text, "N=3,K=4")}


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
    return found


def _number(text: str, example: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{example}, and not {text!r}") from None
