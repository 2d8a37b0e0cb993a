"""What all printers know and ask about a kernel, and the lines that all texts begin with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.errors import BackendError
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import LaneOffsets, lane_offsets
from tc.kernel.ir import For, Grid, Kernel, Let
from tc.kernel.rebuild import Scope
from tc.kernel.walk import every_statement


@dataclass(frozen=True)
class TextContext:
    """What is known where a text goes on: `scope` knows the values of variables."""

    names: Spellings
    buffers: Mapping[str, ir.Buffer]
    scope: Scope

    def place(self, buffer: str, indices: Sequence[ir.Expr], lanes: int) -> LaneOffsets:
        """Where the lanes of an access lie."""
        return lane_offsets(indices, self.buffers[buffer].strides, lanes, self.scope.lets)


def no_launches(language: str) -> BackendError:
    """What to raise where a kernel for GPUs is printed in a language of processors."""
    return BackendError(
        f"blocks and threads of a GPU are not printed in {language}",
        repair='tc.compile(source, backend="numba"), or "c"',
    )


def shared_loop(region: tuple[ir.Stmt, ...]) -> ir.For | None:
    """The parallel loop of a region whose iterations may be shared among threads."""
    loops = [s for s in region if not isinstance(s, ir.Comment | ir.Let)]
    loop = loops[0] if len(loops) == 1 else None
    return loop if isinstance(loop, ir.For) and loop.parallel else None


def used_buffers(*regions: tuple[ir.Stmt, ...]) -> Mapping[str, str]:
    """The buffers that regions use, and whether they write them: "writable" or "read_only"."""
    stmts = tuple(s for region in regions for s in ir.statements(region))
    read = {
        e.buffer: "read_only" for s in stmts for e in ir.expressions(s) if isinstance(e, ir.Load)
    }
    read |= {s.buffer: "read_only" for s in stmts if isinstance(s, ir.Prefetch)}
    read |= {s.source: "read_only" for s in stmts if isinstance(s, ir.CopyAsync)}
    writers = ir.Store | ir.Atomic | ir.CopyAsync
    return {**read, **{s.buffer: "writable" for s in stmts if isinstance(s, writers)}}


def values_of_fails(*regions: tuple[ir.Stmt, ...]) -> dict[int, int]:
    """How many values the Fails of each site record."""
    found = (s for region in regions for s in ir.statements(region))
    return {s.site: len(s.values) for s in found if isinstance(s, ir.Fail)}


def buffer_lines(kernel: ir.Kernel, names: Spellings) -> Iterator[str]:
    """The lines that name the kernel and describe its buffers."""
    yield in_a_comment(kernel.name)
    for buffer in kernel.buffers:
        spelling = names.buffers[buffer.name]
        name = buffer.name if buffer.name == spelling else f"{buffer.name} (here {spelling})"
        text = f"  {buffer.role} {buffer.dtype}({', '.join(map(str, buffer.shape))}) {name}"
        if buffer.strides != ir.row_major(buffer.shape):
            text += f", strides ({', '.join(map(str, buffer.strides))})"
        yield in_a_comment(text)
    for place, size in enumerate(kernel.sizes):
        yield in_a_comment(f"    [{place}]: {size}")


def plus(text: str, number: int) -> str:
    """A sum, which may have no terms yet, and a number."""
    if not text:
        return str(number)
    return f"{text} {'-' if number < 0 else '+'} {abs(number)}" if number else text


def in_a_comment(text: str) -> str:
    """A text as one line of a comment, without characters that would end the comment, join it to
    the next line, or reorder its characters on a screen."""
    visible = "".join(c if c.isprintable() else "?" for c in text).replace("\\", "/")
    return re.sub(r"\?{2,}", "?", visible)


def product_text(extents: Sequence[int]) -> str:
    """Sizes of several dimensions.

    >>> product_text((32, 8, 1))
    '32 x 8 x 1'
    """
    return " x ".join(map(str, extents))


# --- names ------------------------------------------------------------------------------------


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
