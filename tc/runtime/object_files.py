"""Object files by LLVM alone: made from LLVM's text, and loaded into this process.

A file refers to functions outside by name. LLVM ends the process where it finds no function of a
name, so all names have to be looked up beforehand. It ends the process, or worse, where a file is
none: so one that was not made in this process is looked through before (`is_whole`).
"""

from __future__ import annotations

import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from tc.errors import InternalError
from tc.process.forks import is_blocked, step
from tc.process.uninterrupted import Lazy

_ELF = b"\x7fELF\x02\x01"
"""How ELF files of 64 bits begin, little-endian."""

_NULL, _SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 0, 2, 4, 8
"""Kinds of sections."""

_CODE = 4
"""The flag of sections that can be run."""

_SECTION = struct.Struct("<2I4Q2I2Q")
_SYMBOL = struct.Struct("<I2BH2Q")
_RELOCATION = struct.Struct("<2Qq")


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """Machine code that can be stored; `functions` are the names of its functions."""

    content: bytes
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Machine code in memory, as long as `owner` lives: the addresses of the functions."""

    addresses: tuple[int, ...]
    owner: Any


@dataclass(frozen=True, slots=True)
class MachineTarget:
    """The target of LLVM: a processor and its features, in the terms of LLVM."""

    processor: str
    features: str
    level: int = 3
    vectorize_loops: bool = True
    vectorize_blocks: bool = False


def parse_module(text: str) -> Any:
    """A module from LLVM's text; InternalError where LLVM does not take it."""
    _initialize()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM does not take a region: {error}\n{text}") from error
    module.triple = llvm.get_process_triple()
    return module


def compile_modules(
    texts: Sequence[str], functions: Sequence[str], target: MachineTarget
) -> ObjectFile:
    """One object file of modules in LLVM's text, each of which defines some of the functions."""
    with step():
        return _compile_modules(texts, functions, target)


def _compile_modules(
    texts: Sequence[str], functions: Sequence[str], target: MachineTarget
) -> ObjectFile:
    module = parse_module("")
    for text in texts:
        module.link_in(parse_module(text))
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=target.processor,
        features=target.features,
        opt=target.level,
        reloc="static" if module.triple.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(target.level)
    tuning.loop_vectorization = target.vectorize_loops
    tuning.slp_vectorization = target.vectorize_blocks
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # llvmlite itself never frees the passes, some 50 KB
    NewPassManager._dispose(passes)
    passes.detach()
    return ObjectFile(machine.emit_object(module), tuple(functions))


def load_object(file: ObjectFile) -> LoadedCode:
    """The object file in memory; all that it needs from outside has been found."""
    with step():
        engine = new_engine(parse_module(""))
        if file.functions:
            engine.add_object_file(llvm.ObjectFileRef.from_data(file.content))
            engine.finalize_object()
        addresses = tuple(engine.get_function_address(name) for name in file.functions)
        return LoadedCode(addresses, _Owner(engine))


class _Owner:
    """Frees machine code at its end; not in a forked child in which LLVM is locked for ever."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __del__(self, _blocked: Callable[[], bool] = is_blocked) -> None:
        if _blocked():
            self.engine.detach()


def new_engine(module: Any, level: int = 2) -> Any:
    """An engine of LLVM that compiles a module and loads object files; they go with it. At a
    `level` of 0 it takes a third of the time."""
    _initialize()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return llvm.create_mcjit_compiler(module, target.create_target_machine(jit=True, opt=level))


def lasting_code(text: str, *names: str, level: int = 2) -> tuple[int, ...]:
    """The addresses of functions and variables of a module in LLVM's text, which is never freed.
    What it calls from outside has to be in this process."""
    engine = new_engine(parse_module(text), level)
    engine.finalize_object()
    addresses = tuple(map(engine.get_global_value_address, names))
    engine.detach()
    return addresses


def all_found(file: ObjectFile) -> bool | None:
    """Whether all that a file needs from outside is in this process; None where nothing can tell
    what it needs, as it is no ELF file of 64 bits."""
    if file.content[: len(_ELF)] != _ELF:
        return None if file.functions else True
    return all(llvm.address_of_symbol(name) is not None for name in outside(file.content))


def is_whole(file: ObjectFile) -> bool:
    """Whether a file is an object file whose parts lie in it, refer to parts of the file, and
    define its functions as code. Only ELF files of 64 bits, little-endian, are checked; on a Linux
    of that kind the file has to be an ELF file."""
    if not file.functions:  # nothing is loaded
        return True
    if file.content[: len(_ELF)] != _ELF:
        return sys.platform != "linux" or sys.byteorder != "little"
    try:
        elf = _Elf.of(file.content)
        defined = {name for name, section in elf.symbols() if elf.is_code(section)}
        return defined.issuperset(file.functions) and elf.has_sound_relocations()
    except (struct.error, IndexError, ValueError):
        return False


def outside(content: bytes) -> Iterator[str]:
    """The names that an ELF file of 64 bits uses and does not define."""
    return (name for name, section in _Elf.of(content).symbols() if section == 0 and name)


class _Section(NamedTuple):
    """What the head of a section of an ELF file says."""

    name: int
    kind: int
    flags: int
    address: int
    begin: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


@dataclass(frozen=True, slots=True)
class _Elf:
    """An ELF file of 64 bits, little-endian; struct.error, IndexError or ValueError where what is
    asked for is not in it."""

    content: bytes
    sections: tuple[_Section, ...]

    @classmethod
    def of(cls, content: bytes) -> _Elf:
        (start,) = struct.unpack_from("<Q", content, 40)
        size, count = struct.unpack_from("<2H", content, 58)
        if size != _SECTION.size or start + size * count > len(content):
            raise ValueError("its sections are not in it")
        heads = (_SECTION.unpack_from(content, start + i * size) for i in range(count))
        return cls(content, tuple(_Section(*head) for head in heads))

    def part(self, section: _Section) -> bytes:
        if section.begin + section.size > len(self.content):
            raise ValueError("a section is not in it")
        return self.content[section.begin : section.begin + section.size]

    def symbols(self) -> Iterator[tuple[str, int]]:
        """The names of all symbols, and the numbers of their sections, 0 for none."""
        for section in self.sections:
            if section.kind == _SYMBOL_TABLE:
                names = self.part(self.sections[section.link])
                for name, _, _, where, _, _ in _SYMBOL.iter_unpack(self.part(section)):
                    yield names[name : names.index(b"\0", name)].decode(), where

    def is_code(self, number: int) -> bool:
        return 0 < number < len(self.sections) and bool(self.sections[number].flags & _CODE)

    def has_sound_relocations(self) -> bool:
        """Whether all sections lie in the file, and all relocations change bytes of a section to
        what a symbol is."""
        for section in self.sections:
            if section.kind in (_NULL, _NO_BITS):
                continue
            content = self.part(section)
            if section.kind == _RELOCATIONS:
                changed, symbols = self.sections[section.info], self.sections[section.link]
                count = symbols.size // _SYMBOL.size
                for place, info, _ in _RELOCATION.iter_unpack(content):
                    if place + 4 > changed.size or info >> 32 >= count:
                        return False
        return True


def _initialize() -> None:
    """Safe to be called at any time."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    keep_masks()


@Lazy
def keep_masks() -> None:
    """Has LLVM leave masked loads as they are, in all of this process.

    From version 22 on, it folds one into an instruction under the same mask (llvm-project, pull
    request 161074), and may undo that without the mask: then lanes are read that lie outside of an
    array. Only to fold no loads after instructions have been chosen prevents it; no kernel of the
    bench takes longer so. An option that another build of LLVM lacks would end the process.
    """
    if llvm.llvm_version_info >= (22,) and platform.machine() in ("x86_64", "AMD64"):
        llvm.set_option("tc", "-disable-spill-fusing")
