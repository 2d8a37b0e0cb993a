"""How the names of a kernel are spelt in a target language: like those in the program, and free
of clashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tc.kernel.ir import For, Grid, Kernel, Let
from tc.kernel.walk import every_statement


@dataclass(frozen=True)
class Spellings:
    """The spelling of a kernel's functions, buffers and variables."""

    functions: tuple[str, ...]
    buffers: Mapping[str, str]
    variables: Mapping[str, str]


class Speller:
    """Gives out names, each once: `plain` makes a name of the language out of one of a program
    (of which `words` leaves letters and digits), and none is in `taken`.

    >>> speller = Speller(lambda name: words(name), {"lambda"})
    >>> speller.spell("a.b"), speller.spell("a#b"), speller.spell("lambda")
    ('a_b', 'a_b_1', 'lambda_1')
    """

    def __init__(self, plain: Callable[[str], str], taken: Iterable[str] = ()) -> None:
        self._plain = plain
        self._taken = set(taken)

    def spell(self, name: str) -> str:
        return self.unique(self._plain(name))

    def unique(self, plain: str) -> str:
        """The name, with a number behind it where the name is taken; the result is taken from then
        on."""
        spelling, count = plain, 0
        while spelling in self._taken:
            count += 1
            spelling = f"{plain}_{count}"
        self._taken.add(spelling)
        return spelling

    def buffers(self, kernel: Kernel) -> Mapping[str, str]:
        return {buffer.name: self.spell(buffer.name) for buffer in kernel.buffers}

    def variables(self, kernel: Kernel) -> Mapping[str, str]:
        spelt: dict[str, str] = {}
        for name in _declared(kernel):
            if name not in spelt:
                spelt[name] = self.spell(name)
        return spelt


def _declared(kernel: Kernel) -> Iterator[str]:
    """The variables of a kernel, in order."""
    for stmt in every_statement(kernel):
        match stmt:
            case For(var=var) | Let(var=var):
                yield var
            case Grid(blocks=blocks, threads=threads):
                yield from (index.var for index in (*blocks, *threads))


def words(name: str) -> str:
    """A name with an underscore for all that is neither letter nor digit.

    >>> words("MLP1#2.t")
    'MLP1_2_t'
    """
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
