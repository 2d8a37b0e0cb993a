"""The machine code of NVIDIA's GPUs, as nvdisasm shows what NVRTC and ptxas have made of a text."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tc.errors import BackendError

_PACKAGE = "nvidia-cuda-nvdisasm"
_FUNCTION = re.compile(r"^\.text\.(?P<name>\w+):")
_LABEL = re.compile(r"^(?P<name>\.L_x_\d+):")
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+\{?\s*(?:@(?P<guard>!?U?P\w+)\s+)?"
    r"(?P<op>[A-Z0-9_.]+)\s*(?P<rest>[^;]*);"
)
_LINE = re.compile(r"^\s*//## File .*?, line (?P<line>\d+)")
_UPPER = re.compile(r"^\s*/\* (?P<word>0x[0-9a-f]{16}) \*/\s*$")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_MEMORY = frozenset(
    "LDS STS LDG STG LDL STL LDSM LDGSTS ATOMG ATOMS ATOM RED".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Control:
    """What ptxas tells the hardware with an instruction: its warp issues nothing for `stall`
    cycles, and `yields` if another warp is to go on. One of six scoreboards counts what is not
    done: `result` until the result is there, `operands` until the operands are read; the bits of
    `waits` are the scoreboards that must be at zero before. (Bits 105 to 121 of an instruction,
    since sm_70: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking",
    2018, section 2.1.)

    >>> Control.of(0x000FE20000000F00)
    Control(stall=1, yields=False, result=None, operands=None, waits=0)
    >>> Control.of(0x002EA40000002100)
    Control(stall=2, yields=False, result=2, operands=None, waits=2)
    """

    stall: int = 1
    yields: bool = False
    result: int | None = None
    operands: int | None = None
    waits: int = 0

    @staticmethod
    def of(word: int) -> Control:
        """Of the upper 64 bits of an instruction."""
        bits = word >> 41
        result, operands = bits >> 5 & 7, bits >> 8 & 7
        return Control(
            bits & 15,
            not bits >> 4 & 1,
            None if result == 7 else result,
            None if operands == 7 else operands,
            bits >> 11 & 63,
        )


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `target` is the number of the instruction that a branch may go to, `line`
    the line of the text that the instruction is of, 0 where that is not known."""

    address: int
    guard: str
    op: str
    operands: str
    target: int | None = None
    line: int = 0
    control: Control = Control()

    @property
    def kind(self) -> str:
        """The name without its modifiers, but for the width of an access in bits.

        >>> Instruction(0, "", "LDS.128", "R4, [R2]").kind, Instruction(0, "", "FFMA.FTZ", "").kind
        ('LDS.128', 'FFMA')
        """
        name, *modifiers = self.op.split(".")
        if name not in _MEMORY:
            return name
        widths = {"128": "128", "64": "64", "U16": "16", "S16": "16", "U8": "8", "S8": "8"}
        return f"{name}.{next((widths[m] for m in modifiers if m in widths), '32')}"


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions `first` to `last`, after which there is a branch back to the first. `counts` are
    how many of each kind the loop has beside those of loops in it."""

    first: int
    last: int
    counts: Mapping[str, int]

    @property
    def length(self) -> int:
        return sum(self.counts.values())

    def share(self, kind: str) -> float:
        """The part of its instructions that are of a kind, as "FFMA" or "HMMA"."""
        return self.counts.get(kind, 0) / self.length

    def told(self) -> str:
        """
        >>> Loop(4, 8, {"FFMA": 2, "LDS.128": 1, "BRA": 1}).told()
        'hottest loop of 4 instructions: 2 FFMA, 1 BRA, 1 LDS.128'
        """
        kinds = sorted(self.counts.items(), key=lambda kv: (-kv[1], kv[0]))
        told = ", ".join(f"{count} {kind}" for kind, count in kinds)
        return f"hottest loop of {self.length} instructions: {told}"


def is_installed() -> bool:
    """Whether there is an nvdisasm to show machine code with."""
    return _program() is not None


def disassembled(cubin: bytes) -> Mapping[str, Sequence[Instruction]]:
    """The instructions of the functions of a cubin; BackendError without nvdisasm."""
    program = _program()
    if program is None:
        raise BackendError("there is no nvdisasm", repair=f"pip install {_PACKAGE}")
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "kernel.cubin"
        file.write_bytes(cubin)
        shown = ["--print-code", "--print-instruction-encoding", "--print-line-info-inline"]
        command = [program, *shown, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackendError(f"nvdisasm failed: {done.stderr.strip()}")
    return instructions_of(done.stdout)


def instructions_of(listing: str) -> Mapping[str, Sequence[Instruction]]:
    """The functions that nvdisasm has listed, without the empty instructions at their ends.

    >>> code = instructions_of('''.text.f:
    ... .L_x_0:
    ...         /*0000*/                   FFMA R0, R1, R2, R0 ;
    ...         /*0010*/              @!P0 BRA `(.L_x_0) ;
    ...         /*0020*/                   EXIT ;
    ...         /*0030*/                   NOP;''')["f"]
    >>> [(i.kind, i.guard, i.target) for i in code]
    [('FFMA', '', None), ('BRA', '!P0', 0), ('EXIT', '', None)]
    """
    parts = re.split(r"(?m)^(?=\.text\.\w+:)", listing)
    found = ((_FUNCTION.match(part), part) for part in parts)
    return {head["name"]: tuple(_code(part)) for head, part in found if head}


def _code(part: str) -> Iterator[Instruction]:
    labels: dict[str, int] = {}
    rows: list[tuple[re.Match[str], int]] = []
    controls: dict[int, Control] = {}
    line = 0
    for text in part.splitlines():
        if label := _LABEL.match(text):
            labels[label["name"]] = len(rows)
        elif row := _INSTRUCTION.match(text):
            rows.append((row, line))
        elif of_line := _LINE.match(text):
            line = int(of_line["line"])
        elif upper := _UPPER.match(text):
            controls[len(rows) - 1] = Control.of(int(upper["word"], 16))
    while rows and rows[-1][0]["op"] == "NOP":
        rows.pop()
    for number, (row, line) in enumerate(rows):
        target = _TARGET.search(row["rest"])
        yield Instruction(
            int(row["address"], 16), row["guard"] or "", row["op"], row["rest"].strip(),
            labels.get(target[1]) if target else None, line, controls.get(number, Control()),
        )  # fmt: skip


def loops_of(code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """The loops of a function by where they begin: an instruction and a branch back to it. (The
    endless branch behind the end of each function is none, nor a branch to the rest of a function
    from what is rare and therefore stands behind the function's end.)"""
    exits = [n for n, i in enumerate(code) if i.op.startswith(("EXIT", "RET")) and not i.guard]
    ends: dict[int, int] = {}
    for number, instruction in enumerate(code):
        target = instruction.target
        if instruction.op.startswith("BRA") and target is not None and target < number:
            if any(target <= n < number for n in exits):
                continue
            ends[target] = max(number, ends.get(target, 0))
    spans = sorted(ends.items())

    def own(first: int, last: int) -> Iterator[str]:
        inner = [(a, b) for a, b in spans if first <= a and b <= last and (a, b) != (first, last)]
        for number in range(first, last + 1):
            if not any(a <= number <= b for a, b in inner):
                yield code[number].kind

    return tuple(Loop(first, last, Counter(own(first, last))) for first, last in spans)


def hottest(code: Sequence[Instruction]) -> Loop:
    """The innermost loop with the most multiply-adds, of scalars or of matrices, then the longest;
    without loops, the whole function."""
    loops = loops_of(code)
    inner = [
        loop for loop in loops
        if not any(loop.first <= o.first and o.last <= loop.last and o != loop for o in loops)
    ]  # fmt: skip
    whole = Loop(0, len(code) - 1, Counter(i.kind for i in code))

    def heat(loop: Loop) -> tuple[int, int]:
        products = sum(loop.counts.get(kind, 0) for kind in ("FFMA", "DFMA", "HFMA2", "HMMA"))
        return products, loop.length

    return max(inner, key=heat, default=whole)


@lru_cache(maxsize=1)
def _program() -> str | None:
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name in ("nvdisasm", "nvdisasm.exe")), None)
