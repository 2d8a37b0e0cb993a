"""What names mean behind each of the statements of a block."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")


class Bindings(Mapping[str, Meaning], Generic[Meaning]):
    """A mapping from names to what they mean at a place of the text.

    `bind` gives the mapping behind a statement and leaves this one as it is. The mappings of one
    block share what their statements have bound, so n statements take memory linear in n, and a
    name is looked up in time logarithmic in the number of statements that bind it.

    >>> first = Bindings({"a": 1})
    >>> second = first.bind({"a": 2, "b": 3})
    >>> first["a"], second["a"], "b" in first, sorted(second)
    (1, 2, False, ['a', 'b'])
    """

    __slots__ = ("_around", "_bound", "_count", "_place")

    def __init__(
        self, names: Mapping[str, Meaning], around: Mapping[str, Meaning] | None = None
    ) -> None:
        self._around = around
        self._bound: dict[str, tuple[list[int], list[Meaning]]] = {
            name: ([0], [meaning]) for name, meaning in names.items()
        }
        self._count = [0]
        """The number of times that the block was extended: one list for all its mappings."""
        self._place = 0

    def bind(self, names: Mapping[str, Meaning]) -> Bindings[Meaning]:
        """The mapping with further names, or with other meanings of old ones."""
        if self._count[0] != self._place:  # the block goes on in another way already
            return Bindings(names, self)
        found: Bindings[Meaning] = Bindings.__new__(Bindings)
        found._around, found._bound, found._count = self._around, self._bound, self._count
        found._place = self._count[0] = self._place + 1
        for name, meaning in names.items():
            places, meanings = self._bound.setdefault(name, ([], []))
            places.append(found._place)
            meanings.append(meaning)
        return found

    def inner(self) -> Bindings[Meaning]:
        """The mapping at the beginning of a block within this one."""
        return Bindings({}, self)

    def meanings(self) -> list[tuple[str, Meaning]]:
        """What the block itself binds up to here, in order, meanings that later ones replace
        included."""
        found = [
            (place, name, meaning)
            for name, (places, meanings) in self._bound.items()
            for place, meaning in zip(places, meanings, strict=True)
            if place <= self._place
        ]
        found.sort(key=lambda each: each[0])
        return [(name, meaning) for _, name, meaning in found]

    def own(self) -> tuple[str, ...]:
        """The names that the block itself binds."""
        return tuple(n for n, (places, _) in self._bound.items() if places[0] <= self._place)

    def __getitem__(self, name: str) -> Meaning:
        found = self._bound.get(name)
        if found is not None:
            places, meanings = found
            k = len(places) if places[-1] <= self._place else bisect_left(places, self._place + 1)
            if k:
                return meanings[k - 1]
        if self._around is None:
            raise KeyError(name)
        return self._around[name]

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(self.own())
        return iter(dict.fromkeys((*(self._around or ()), *names)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
