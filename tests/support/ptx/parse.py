"""What stands in a text of PTX: kernels with their instructions, labels, and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np

Operand: TypeAlias = "str | tuple[str, ...]"
"""A register, a constant, an address in brackets; names in braces are a tuple."""

TYPES: Mapping[str, np.dtype] = {
    "pred": np.dtype(np.bool_),
    "bf16": np.dtype(np.uint16),  # as bits: numpy has no such type
    **{f"{k}{bits}": np.dtype(f"{'u' if k in 'bu' else 'i'}{bits // 8}")
       for k in "bus" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
}  # fmt: skip


class Unreadable(Exception):
    """Something that this machine does not know."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `text` is the whole, `guard` the predicate that it is executed under.

    >>> i = instruction("@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8]")
    >>> i.name, i.modifiers, i.operands, i.guard
    ('ld', ('global', 'v2', 'f32'), (('%f1', '%f2'), '[%rd1+8]'), '!%p1')
    """

    text: str
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    line: int = 0
    """Of the kernel in CUDA C++, where that was compiled with its lines; for what is of a function
    that the compiler has put there, the line of the call."""

    @property
    def type(self) -> str:
        """The last type: of all operands, or of the source."""
        return self.modifiers[-1] if self.modifiers else ""


@dataclass
class Function:
    """A kernel. `registers` are their types by name, without numbers; `variables` the addresses of
    shared and local arrays and of parameters by name; `sizes` the bytes of these memories; `gaps`
    lie between shared arrays."""

    name: str
    parameters: list[str] = field(default_factory=list)
    registers: dict[str, np.dtype] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def type_of(self, register: str) -> np.dtype:
        known = self.registers.get(register) or self.registers.get(register.rstrip("0123456789"))
        if known is None:
            raise Unreadable(f"register {register}")
        return known

    def declare(self, found: re.Match[str]) -> None:
        """A match of `_VARIABLE`."""
        size, space = TYPES[found["type"]].itemsize, found["space"]
        align = int(found["align"] or size)
        before = self.sizes.get(space, 0)
        start = -(-before // align) * align
        if space == "shared":
            self.gaps.append((before, start))
        self.variables[found["name"]] = start
        self.sizes[space] = start + size * int(found["count"] or not found["array"])


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEAD = re.compile(r"\.entry\s+(?P<name>[\w$]+)\s*\((?P<parameters>[^)]*)\)[^;{]*\{")
_VARIABLE = re.compile(
    r"(?P<outside>\.extern\s+)?\.(?P<space>shared|local|param)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$]+)(?P<array>\[(?P<count>\d*)\])?"
)
_REGISTERS = re.compile(r"\.reg\s+\.(?P<type>\w+)\s+(?P<names>.*)", re.DOTALL)
_LOCATION = re.compile(
    r"\.loc\s+\d+\s+(?P<line>\d+\s+\d+)(?:[^\n]*inlined_at\s+\d+\s+(?P<call>\d+\s+\d+))?[^\n]*"
)
_LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
_INSTRUCTION = re.compile(
    r"(?:@(?P<guard>!?%[\w$]+)\s+)?(?P<op>[a-z]\w*(?:(?:\.|::)\w+)*)\s*(?P<rest>.*)", re.DOTALL
)
_OPERAND = re.compile(r"\{([^}]*)\}|((?:\[[^\]]*\]|[^,\[{])+)")


@lru_cache(maxsize=64)
def parse(text: str) -> Mapping[str, Function]:
    """The kernels of a text of PTX by their names."""
    text = _COMMENT.sub("", text)
    functions: dict[str, Function] = {}
    for head in _HEAD.finditer(text):
        function = functions[head["name"]] = Function(head["name"])
        for variable in _VARIABLE.finditer(head["parameters"]):
            function.declare(variable)
            function.parameters.append(variable["name"])
        line, lines = 0, dict[str, int]()
        for statement in _statements(text, head.end()):
            if location := _LOCATION.fullmatch(statement):
                place = location["call"] or location["line"]
                line = lines[location["line"]] = lines.get(location["call"], int(place.split()[0]))
            elif registers := _REGISTERS.fullmatch(statement):
                for name in registers["names"].split(","):
                    name = re.sub(r"<\d+>", "", name).strip()
                    function.registers[name] = TYPES[registers["type"]]
            elif variable := _VARIABLE.fullmatch(statement):
                function.declare(variable)
            elif statement.endswith(":"):
                function.labels[statement[:-1]] = len(function.code)
            elif not statement.startswith("."):
                function.code.append(instruction(statement, line))
        for variable in _VARIABLE.finditer(text, 0, head.start()):
            if variable["outside"]:  # shared memory of a size that the launch says
                function.declare(variable)
    return functions


def _statements(text: str, place: int) -> Iterator[str]:
    """From a place behind a brace to the brace that closes: labels, as "name:", lines of CUDA C++,
    declarations and instructions; scopes are of no interest."""
    depth = 1
    while depth:
        if text[place] in "{};" or text[place].isspace():
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            place += 1
            continue
        whole = _LABEL.match(text, place) or _LOCATION.match(text, place)
        end = whole.end() if whole else text.index(";", place)
        yield text[place:end].strip()
        place = end


def instruction(text: str, line: int = 0) -> Instruction:
    found = _INSTRUCTION.fullmatch(text)
    if not found:
        raise Unreadable(f"`{text}`")
    name, *modifiers = found["op"].split(".")
    operands = tuple(
        single.strip() or tuple(part.strip() for part in several.split(","))
        for several, single in _OPERAND.findall(found["rest"])
        if several or single.strip()
    )
    whole = " ".join(text.split())
    return Instruction(whole, name, tuple(modifiers), operands, found["guard"] or "", line)
