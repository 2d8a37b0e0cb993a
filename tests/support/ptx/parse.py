"""What stands in a text of PTX: functions with their instructions, labels, and variables."""

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
    >>> i.name, i.modifiers, i.operands, i.guard, i.negated
    ('ld', ('global', 'v2', 'f32'), (('%f1', '%f2'), '[%rd1+8]'), '%p1', True)
    """

    text: str
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str = ""
    negated: bool = False
    line: int = 0
    """Of the text in CUDA C++, where that was compiled with its lines."""

    @property
    def type(self) -> str:
        """The last type: of all operands, or of the source."""
        return self.modifiers[-1] if self.modifiers else ""


@dataclass(frozen=True, slots=True)
class Variable:
    """An array of bytes in a memory: its place there, and what it holds at first."""

    space: str
    start: int
    size: int
    content: bytes = b""


@dataclass
class Function:
    """`registers` are their types by name, without numbers; `variables` are those of shared, local
    and constant memory and the parameters, by name; `sizes` the bytes that they take."""

    name: str
    parameters: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    registers: dict[str, np.dtype] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def type_of(self, register: str) -> np.dtype:
        known = self.registers.get(register) or self.registers.get(register.rstrip("0123456789"))
        if known is None:
            raise Unreadable(f"register {register}")
        return known

    def declare(self, name: str, space: str, align: int, size: int, content: bytes = b"") -> None:
        if name in self.variables:  # of a call before, in another scope
            return
        start = -(-self.sizes.get(space, 0) // align) * align
        self.variables[name] = Variable(space, start, size, content)
        self.sizes[space] = start + size


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEAD = re.compile(
    r"\.(?P<kind>entry|func)\s*(?:\((?P<results>[^)]*)\))?\s*(?P<name>[\w$]+)\s*"
    r"\((?P<parameters>[^)]*)\)(?P<rest>[^;{]*)(?P<end>[;{])"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak)\s+)*\.(?P<space>shared|local|const|global|param)\s+"
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)"
    r"(?:\[(?P<count>\d*)\])?(?:\s*=\s*\{?(?P<content>[^}]*)\}?)?"
)
_REGISTERS = re.compile(r"\.reg\s+\.(?P<type>\w+)\s+(?P<names>.*)", re.DOTALL)
_LOCATION = re.compile(r"\.loc\s+\d+\s+(?P<line>\d+)[^\n]*")
_LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
_INSTRUCTION = re.compile(
    r"(?:@(?P<not>!?)(?P<guard>%[\w$]+)\s+)?(?P<op>[a-z]\w*(?:(?:\.|::)\w+)*)\s*(?P<rest>.*)",
    re.DOTALL,
)
_OPERAND = re.compile(r"\{([^}]*)\}|((?:\[[^\]]*\]|[^,\[{])+)")


@lru_cache(maxsize=64)
def parse(text: str) -> Mapping[str, Function]:
    """The functions of a text of PTX by their names."""
    text = _COMMENT.sub("", text)
    functions: dict[str, Function] = {}
    outer = Function("")
    place = 0
    for head in _HEAD.finditer(text):
        _variables(text[place : head.start()], outer)
        place = head.end()
        if head["end"] == "{":
            place = _end_of_body(text, place)
            function = Function(head["name"])
            function.variables.update(outer.variables)
            function.sizes.update(outer.sizes)
            function.parameters = _names(head["parameters"], function)
            function.results = _names(head["results"] or "", function)
            line = 0
            for statement in _statements(text[head.end() : place - 1]):
                if location := _LOCATION.fullmatch(statement):
                    line = int(location["line"])
                _add(statement, function, line)
            functions[function.name] = function
    return functions


def instruction(text: str, line: int = 0) -> Instruction:
    found = _INSTRUCTION.fullmatch(text)
    if not found:
        raise Unreadable(f"`{text}`")
    name, *modifiers = found["op"].split(".")
    operands = tuple(
        single.strip() or tuple(name.strip() for name in several.split(","))
        for several, single in _OPERAND.findall(found["rest"])
        if several or single.strip()
    )
    return Instruction(
        " ".join(text.split()),
        name,
        tuple(modifiers),
        operands,
        found["guard"] or "",
        bool(found["not"]),
        line,
    )


def _names(declared: str, function: Function) -> tuple[str, ...]:
    """The names of parameters, which the function gets room for."""
    return tuple(_declare(found, function) for found in _VARIABLE.finditer(declared))


def _variables(text: str, outer: Function) -> None:
    for found in _VARIABLE.finditer(text):
        _declare(found, outer)


def _declare(found: re.Match[str], function: Function) -> str:
    dtype = TYPES[found["type"]]
    words = (found["content"] or "").replace(" ", "").replace("\n", "").split(",")
    content = np.array([int(word, 0) for word in words if word]).astype(dtype).tobytes()
    size = int(found["count"] or 1) * dtype.itemsize if found["count"] != "" else 0
    align = int(found["align"] or dtype.itemsize)
    function.declare(found["name"], found["space"], align, size, content)
    return found["name"]


def _end_of_body(text: str, place: int) -> int:
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return place


def _statements(body: str) -> Iterator[str]:
    """Labels, as "name:", lines of the text in CUDA C++, declarations and instructions; scopes are
    of no interest."""
    place = 0
    while place < len(body):
        if body[place] in "{};" or body[place].isspace():
            place += 1
            continue
        whole = _LABEL.match(body, place) or _LOCATION.match(body, place)
        end = whole.end() if whole else body.index(";", place)
        yield body[place:end].strip()
        place = end


def _add(statement: str, function: Function, line: int) -> None:
    registers, variable = _REGISTERS.fullmatch(statement), _VARIABLE.fullmatch(statement)
    if statement.endswith(":"):
        function.labels[statement[:-1]] = len(function.code)
    elif registers:
        for name in registers["names"].split(","):
            function.registers[re.sub(r"<\d+>", "", name).strip()] = TYPES[registers["type"]]
    elif variable:
        _declare(variable, function)
    elif not statement.startswith("."):
        function.code.append(instruction(statement, line))
