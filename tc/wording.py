"""The words that all messages share: what a misspelt name was meant to be, lists, counts."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a name is most likely a misspelling of: the one of which it differs by
    its case, by the order of its letters, or by one letter. Other digits are another name.

    >>> nearest("weigth", ["input", "weight"]), nearest("x", ["A", "B"])
    ('weight', None)
    >>> nearest("cosine", ["cos", "cospi"]), nearest("exp3", ["exp", "exp2"])
    (None, None)
    >>> nearest("fmix", ["fmin", "fmax"])
    """
    known = sorted(set(candidates) - {name})
    if spelled := [c for c in known if c.lower() == name.lower()]:
        return spelled[0]
    if len(name) < 3 or len(name) > 60:
        return None
    digits = re.findall(r"\d", name)
    known = [c for c in known if re.findall(r"\d", c) == digits and len(c) > 2]
    if swapped := [c for c in known if sorted(c) == sorted(name)]:  # "tahn" is tanh, not tan
        return swapped[0]
    found = [c for c in known if _differs_by_one(name, c)]
    if not found and len(name) > 6:
        found = difflib.get_close_matches(name, known, n=2, cutoff=0.85)
    return found[0] if len(found) == 1 else None


def _differs_by_one(name: str, other: str) -> bool:
    """Whether one letter more, less or other makes one name the other."""
    pairs = zip(name, other, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    a, b = name[same:], other[same:]
    return a[1:] in (b, b[1:]) or a == b[1:]


def closest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Like `nearest`, but less strict: for where the name can only be one of the candidates. The
    `cutoff` is how alike they are at least; with 0, one is found wherever there are candidates.

    >>> closest("gg", ["g", "norm"]), closest("gg", ["norm"]), closest("gg", ["norm"], cutoff=0)
    ('g', None, 'norm')
    """
    known = sorted(set(candidates) - {name})
    found = difflib.get_close_matches(name[:60], known, n=1, cutoff=cutoff)
    return nearest(name, known) or (found[0] if found else None)


def listed(names: Sequence[str], word: str = "and") -> str:
    """Names in quotes as a phrase.

    >>> listed(["i", "j", "k"])
    "'i', 'j' and 'k'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "subscript"), counted(2, "subscript")
    ('1 subscript', '2 subscripts')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def last_lines(text: str, most: int = 12) -> str:
    """The end of what a compiler has said, as much of it as is worth showing.

    >>> last_lines("one\\ntwo\\nthree\\n", most=2)
    'two\\nthree'
    """
    return "\n".join(text.strip().splitlines()[-most:])
