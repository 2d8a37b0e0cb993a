"""The arguments of a command as values: a text, a def, values for its inputs, options.

NAME=VALUE gives an input or a size a number, a file or a fill. A *pragma*, a comment `# tc:
NAME=VALUE ...`, states such values in the text for one of its defs. Pragmas stand right before a
def, or before the line in which the def begins, on one line or on several, and mean what NAME=VALUE
means on the command line. So a file can be run, explained and tuned as it is; to everything but the
command line pragmas are comments.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array

from tc import files
from tc.cli.parser import UsageError
from tc.cli.terminal import write
from tc.dtypes import BOOL
from tc.errors import BackendError, InputError
from tc.frontend import ast
from tc.options import PRESETS, Options, options_json
from tc.pipeline import check_module, parse_source
from tc.plan import Plan
from tc.semantics.program import Literal, Program, Size, Tensor
from tc.semantics.suggest import nearest
from tc.source import ENCODING, Source, Span

_LINE = re.compile(r"^[ \t]*#[ \t]*tc:([^\n]*)", re.MULTILINE)


def pragma_values(program: Program, module: ast.Module) -> dict[str, str]:
    """The values that a text states for one of its defs, by name. InputError for what is no
    NAME=VALUE, for names that the def does not have, and for those that are given twice.

    >>> from tc.pipeline import check_module, parse_source
    >>> module = parse_source(Source("# tc: N=8\\ndef f(float(N) x) -> (y) { y(i) = 2 * x(i) }"))
    >>> pragma_values(check_module(module, "f"), module)
    {'N': '8'}
    """
    pairs: dict[str, str] = {}
    known = names_given(program)
    for span in _words(program, module):
        name, equals, value = span.text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{span.text!r} is not of the form NAME=VALUE", span=span)
        if name in pairs:
            raise InputError(f"{name} is stated twice", span=span)
        if name not in known:
            close = nearest(name, sorted(known))
            raise InputError(
                f"{program.name} has no input or size {name!r}; "
                f"it has {', '.join(sorted(known)) or 'none'}",
                span=span,
                paste=f"{close}={value}" if close else None,
            )
        pairs[name] = value
    return pairs


def names_given(program: Program) -> set[str]:
    """The inputs and sizes that a call may be given by name."""
    return {*program.inputs, *(name for name in program.sizes if "." not in name)}


def merged(program: Program, stated: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The values of the command line and the pragmas that they leave room for: an array on the
    command line gives the sizes of its shape."""
    said = set(given)
    for name, value in given.items():
        if name in program.inputs and not _is_size(program, name, value):
            dims = program.tensors[name].shape or ()
            said |= {dim.name for dim in dims if isinstance(dim, Size)}
    return {**{name: v for name, v in stated.items() if name not in said}, **given}


def _is_size(program: Program, name: str, value: str) -> bool:
    """Whether a value is for the size of this name, where a tensor has it, too (N1), or needs the
    sizes itself, as `random` without a shape does."""
    return (name in program.sizes and value.isdigit()) or value in ("random", "zeros", "ones")


def _words(program: Program, module: ast.Module) -> Iterator[Span]:
    """The words after "tc:" of the comments between a def and the one before it."""
    source: Source = module.span.source
    begin = 0
    for definition in module.defs:
        end = definition.span.start
        if definition.name.text == program.name:
            for line in _LINE.finditer(source.text, begin, end):
                for word in re.finditer(r"\S+", line[1]):
                    start = line.start(1) + word.start()
                    yield Span(source, start, start + len(word[0]))
        begin = definition.span.end


FILLS = ("random", "zeros", "ones")


def pairs_of(items: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{item!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{name} is given twice")
        pairs[name] = value
    return pairs


def values_of(program: Program, pairs: dict[str, str], rng: np.random.Generator) -> dict[str, Any]:
    numbers = {name: number_of(text) for name, text in pairs.items()}
    sizes: dict[str, int] = {}
    for name, number in numbers.items():
        if type(number) is int and (name in program.tensors or number >= 0):
            sizes[name] = number
        elif name not in program.tensors:
            raise InputError(
                f"{name} is a size of {program.name}: a whole number of at least 0, "
                f"and not {pairs[name]!r}"
            )
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        number = numbers[name]
        tensor = program.tensors.get(name)
        if number is not None and tensor is not None and tensor.dtype == BOOL:
            values[name] = bool(number)
        elif number is not None:
            values[name] = number
        else:
            assert tensor is not None
            values[name] = array_of(tensor, text, sizes, rng)
    return values


def number_of(text: str) -> int | float | bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def array_of(tensor: Tensor, text: str, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    fill, _, rest = text.partition(":")
    if fill not in FILLS:
        return _load(tensor, text)
    shape_text, _, bounds_text = rest.partition(":")
    if bounds_text and fill != "random":
        raise UsageError(f"{tensor.name}={fill}:SHAPE takes no bounds, as {bounds_text!r}")
    shape = _shape(tensor, shape_text, sizes)
    try:
        return _filled(tensor, fill, shape, bounds_text, rng)
    except (MemoryError, OverflowError, ValueError) as error:
        raise InputError(
            f"{tensor.name} of shape {shape} does not fit into memory", span=tensor.span
        ) from error


def _filled(
    tensor: Tensor, fill: str, shape: tuple[int, ...], bounds_text: str, rng: np.random.Generator
) -> Any:
    dtype = tensor.dtype
    if fill != "random":
        return np.full(shape, fill == "ones", dtype.numpy)
    if bounds_text:
        low, high = _bounds(tensor, bounds_text)
    else:
        low, high = (0, 2) if dtype.kind == "bool" else (0, 10)
    if dtype.is_float:
        values = rng.uniform(low, high, shape) if bounds_text else rng.standard_normal(shape)
        return np.asarray(values, dtype.numpy)
    return np.asarray(rng.integers(int(low), max(int(high), int(low) + 1), shape), dtype.numpy)


def _bounds(tensor: Tensor, text: str) -> tuple[float, float]:
    """LOW and HIGH, between which the type has values; integers are below HIGH."""
    name, dtype = tensor.name, tensor.dtype
    low, colon, high = text.partition(":")
    try:
        bounds = float(low), float(high) if colon else math.nan
    except ValueError:
        bounds = math.nan, math.nan
    if not bounds[0] <= bounds[1] < math.inf:
        raise UsageError(
            f"{name}=random:SHAPE:LOW:HIGH needs two numbers, LOW not above HIGH, not {text!r}"
        )
    if dtype != BOOL:
        info = np.finfo(dtype.name) if dtype.is_float else np.iinfo(dtype.name)
        least, most = float(info.min), float(info.max)
        if bounds[0] < least or bounds[1] > most + dtype.is_integer:
            raise UsageError(f"{name}=random:SHAPE:{text}: {dtype} holds {info.min} to {info.max}")
    return bounds


def _shape(tensor: Tensor, text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    if text:
        try:
            shape = tuple(int(part) for part in text.split("x"))
        except ValueError:
            shape = (-1,)
        if min(shape) < 0:
            raise UsageError(f"{tensor.name}: {text!r} is not a shape such as 128x64")
        return shape
    shape = ()
    for dim in tensor.shape or ():
        match dim:
            case Literal(value=value):
                shape += (int(value),)
            case Size(name=name) if name in sizes:
                shape += (sizes[name],)
            case Size(name=name):
                raise InputError(
                    f"the shape of {tensor.name} needs the size {name}",
                    span=tensor.span,
                    repair=f"{name}=16",
                )
            case _:
                raise InputError(
                    f"the shape of {tensor.name} is inferred",
                    span=tensor.span,
                    repair=f"{tensor.name}=random:{'x'.join(['16'] * tensor.rank)}",
                )
    return shape


def _load(tensor: Tensor, text: str) -> Any:
    try:
        with open(text, "rb") as file:
            if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:  # an .npz file, or a pickle
                raise ValueError("it is no .npy file")
            file.seek(0)
            return read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise _no_value(tensor, text, "nor a file that is there") from error
    except MemoryError as error:
        raise InputError(
            f"{tensor.name}={text} does not fit into memory", span=tensor.span
        ) from error
    except Exception as error:  # numpy reads the header as Python, which has many
        reason = getattr(error, "strerror", None) or "it is no .npy file"
        raise InputError(
            f"{tensor.name}={text} cannot be read: {reason}", span=tensor.span
        ) from error


def _no_value(tensor: Tensor, text: str, what: str) -> InputError:
    """The error of a text that is no value. The repair is the nearest file where the text is like
    the name of a file, else a value of the kind of the input."""
    folder, name = os.path.split(text)
    is_path = bool(folder) or "." in name
    there = sorted(entry for entry in _entries(folder) if entry.endswith(".npy"))
    close = nearest(name, there)
    repair = None
    if close is not None:
        repair = os.path.join(folder, close)
    elif not is_path and tensor.rank:
        fill, _, shape = text.partition(":")
        repair = f"{nearest(fill, FILLS) or 'random'}:{shape or 'x'.join(['16'] * tensor.rank)}"
    elif not is_path:
        repair = "1"
    return InputError(
        f"{tensor.name}={text} is no number, none of {', '.join(FILLS)}, {what}",
        span=tensor.span,
        repair=repair and f"{tensor.name}={repair}",
    )


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except OSError:
        return []


@dataclass
class CallArguments:
    """A def and the NAME=VALUE pairs of a command: `pairs` as written, `values` once they are read.
    `states` is whether the text has pragmas of its own (`tc.cli.arguments`)."""

    source: Source
    program: Program
    pairs: dict[str, str]
    values: dict[str, Any]
    states: bool = False

    @property
    def inputs(self) -> dict[str, Any]:
        return {name: v for name, v in self.values.items() if name in self.program.inputs}


def read_text(name: str) -> Source:
    """The text of a file, or of standard input for "-"."""
    if name == "-" and sys.stdin is None:
        raise UsageError("cannot read -: there is no standard input")
    try:
        text = _standard_input() if name == "-" else Path(name).read_text(encoding=ENCODING)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read {name}: it is no text in UTF-8, as byte {error.start} is "
            f"{error.object[error.start]}"
        ) from error
    return Source(text, "<stdin>" if name == "-" else name)


def put_text(name: str | None, text: str) -> None:
    """Writes a text to a file, whole or not at all, or as output for None and "-"."""
    if name is None or name == "-":
        write(text)
        return
    try:
        files.write_text(name, text)
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror or error}") from error


def _standard_input() -> str:
    if isinstance(sys.stdin, TextIOWrapper):  # whatever the encoding of the terminal
        sys.stdin.reconfigure(encoding=ENCODING)
    return sys.stdin.read().removeprefix("\ufeff")


def read_call(arguments: argparse.Namespace) -> CallArguments:
    """The def and its values; also `arguments.call`, for the repairs of errors from here on."""
    source = read_text(arguments.file)
    module = parse_source(source)
    program = check_module(module, arguments.entry)
    call = arguments.call = CallArguments(source, program, pairs_of(arguments.values), {})
    known = names_given(program)
    for name, text in call.pairs.items():
        if name not in known:
            close = nearest(name, sorted(known))
            raise InputError(
                f"{program.name} has no input or size {name!r}; "
                f"it has {', '.join(sorted(known)) or 'none'}",
                repair=f"{close}={text}" if close else None,
            )
    if stated := pragma_values(program, module):
        call.states, call.pairs = True, merged(program, stated, call.pairs)
    rng = np.random.default_rng(getattr(arguments, "seed", 0))
    call.values = values_of(program, call.pairs, rng)
    return call


def read_options(arguments: argparse.Namespace) -> Options | None:
    """--preset, with what --options says instead, with --plan and --threads; None where none is
    given."""
    if arguments.preset is arguments.options is arguments.threads is arguments.plan is None:
        return None
    options = Options() if arguments.preset is None else PRESETS[arguments.preset]
    given = None if arguments.options is None else _json(arguments.options)
    if given is not None:
        options = _changed(options, given)
    if arguments.plan is not None:
        if given is not None and options.plan is not None:
            raise _two_plans(arguments.plan, json.loads(given))
        plan = Plan.from_json(read_text(arguments.plan).text)
        options = dataclasses.replace(options, plan=plan)
    if arguments.threads is not None:
        options = dataclasses.replace(options, threads=arguments.threads)
    return options


def _two_plans(file: str, given: dict[str, Any]) -> BackendError:
    """For a plan among the options that are given beside that of a file."""
    words = ["--plan", file]
    if others := {name: value for name, value in given.items() if name != "plan"}:
        words += ["--options", json.dumps(others)]
    return BackendError(
        "there is a plan in --options, and one in --plan; a program has one",
        repair=shlex.join(words),
    )


def _json(text: str) -> str:
    """JSON as it was written, or from a file."""
    return text if text.lstrip().startswith("{") else read_text(text).text


def _check_names(given: object, known: dict[str, Any]) -> None:
    """BackendError for what is no object of options, or has others than there are."""
    _check_part("the options", given, known)
    assert isinstance(given, dict)
    for name, part in given.items():
        if isinstance(known[name], dict):
            _check_part(f"the options of {name!r}", part, known[name], name)


def _check_part(where: str, part: object, known: dict[str, Any], owner: str | None = None) -> None:
    if not isinstance(part, dict):
        raise BackendError(f"{where} are an object in braces, and not {part!r}")
    for name, value in part.items():
        if name not in known:
            close = nearest(name, list(known))
            whole = {owner: {close: value}} if owner else {close: value}
            raise BackendError(
                f"{where} have no {name!r}; there are {', '.join(known)}",
                repair=f"--options '{json.dumps(whole)}'" if close else None,
            )


def _changed(options: Options, text: str) -> Options:
    """
    >>> _changed(PRESETS["naive"], '{"mapping": {"rows": 4}}').mapping
    MappingOptions(vector_bits=0, rows=4, vectors=1, reduction_tile=None, pack=False, ...)
    """
    given = options_json(text, repair="--options '{\"threads\": 2}'")
    merged = options.to_value()
    _check_names(given, merged)
    for name, value in given.items():
        part = merged[name]
        merged[name] = {**part, **value} if isinstance(part, dict) else value
    return Options.from_json(json.dumps(merged))
