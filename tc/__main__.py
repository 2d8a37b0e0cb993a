"""The command line: `tc check | fmt | explain | run | emit | cache`.

Exit status 0: done; 1: an error in the program or the inputs, printed with its place and repair;
2: wrong usage.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tc import api, cache
from tc.api import emit, explain
from tc.backends import registry
from tc.dtypes import BOOL
from tc.errors import InputError, TCError, TCWarning
from tc.explanation import STAGES
from tc.frontend.format import format_source
from tc.options import PRESETS, Options
from tc.pipeline import check_defs, check_module, parse_source
from tc.semantics.program import Literal, Program, Size, Tensor
from tc.source import Source

VALUES = """\
NAME=VALUE gives an input or a size. VALUE is a number, a file FILE.npy, or one of
  random:128x64      normal floats, integers 0 to 9, fair bools; random:128x64:0:500 sets bounds
  zeros:128x64  ones:128x64
  random  zeros  ones    the declared shape, where NAME=VALUE gives all its sizes"""
FILLS = ("random", "zeros", "ones")


class UsageError(Exception):
    """The command line itself is wrong: exit status 2."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    arguments = _parse(argv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TCWarning)
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            status: int = arguments.command(arguments)
            return status
    except TCError as error:
        print(_in_shell_words(error), file=sys.stderr)
        return 1
    except MemoryError:
        print("tc: there is not enough memory for these sizes", file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"tc: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"tc: cannot write the output: {error.strerror}", file=sys.stderr)
        return 2


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; NAME=VALUE may stand before and after the options."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    unknown = [item for item in rest if item.startswith("-") or "=" not in item]
    if unknown or (rest and not hasattr(arguments, "values")):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}")
    if rest:
        arguments.values += rest
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tc", description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="check every def of a text")
    check.add_argument("files", nargs="+", metavar="FILE", help="a text, - for standard input")
    check.set_defaults(command=_check)

    fmt = commands.add_parser("fmt", help="print a text in its standard layout, comments kept")
    fmt.add_argument("files", nargs="+", metavar="FILE")
    how = fmt.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="rewrite the files instead")
    how.add_argument("--check", action="store_true", help="status 1 where a file would change")
    fmt.set_defaults(command=_fmt)

    explained = _program_command(commands, "explain", "show what tc makes of it at given sizes")
    explained.add_argument(
        "--stage",
        choices=(*STAGES, "all"),
        help="one stage, or all, in place of the ranges and a summary",
    )
    explained.add_argument("--backend", default="numba", choices=registry.names())
    _add_preset(explained)
    explained.set_defaults(command=_explain)

    run = _program_command(commands, "run", "run a def on arrays")
    run.add_argument("--backend", default="numba", choices=registry.names())
    run.add_argument("--out", metavar="DIR", help="save each output as DIR/NAME.npy")
    run.add_argument("--seed", type=_seed, default=0, help="of random inputs (default 0)")
    run.add_argument(
        "--outputs",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="what an output holds before the call (R3, R4)",
    )
    run.set_defaults(command=_run)

    emitted = _program_command(commands, "emit", "print the code made for given sizes")
    emitted.add_argument("--backend", default="c", choices=registry.names())
    _add_preset(emitted)
    emitted.set_defaults(command=_emit)

    kept = commands.add_parser("cache", help="the kernels that are kept on disk")
    actions = kept.add_subparsers(required=True, metavar="ACTION")
    shown = actions.add_parser("show", help="where they are, and how many")
    shown.set_defaults(command=_show_cache)
    cleared = actions.add_parser("clear", help="remove them all")
    cleared.set_defaults(command=_clear_cache)
    return parser


def _program_command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        epilog=VALUES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="a text, - for standard input")
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE", default=[])
    parser.add_argument("--entry", metavar="DEF", help="the def, where the text has several")
    return parser


def _add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), help="options by name, where tc is not to choose"
    )


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)  # argparse makes it a usage error
    return value


def _in_shell_words(error: TCError) -> TCError:
    """The error with a repair for the command line, where it names Python arguments.

    >>> _in_shell_words(TCError("no entry", repair="entry='2x'")).repair
    '--entry 2x'
    >>> _in_shell_words(TCError("M is missing", repair='{"N": 2, "M": 64}')).repair
    'N=2 M=64'
    """
    repair = error.repair or ""
    if repair.startswith("entry="):
        error.repair = f"--entry {ast.literal_eval(repair.removeprefix('entry='))}"
    elif repair.startswith("{"):
        with contextlib.suppress(SyntaxError, ValueError):
            sizes = ast.literal_eval(repair)
            error.repair = " ".join(f"{name}={value}" for name, value in sizes.items())
    return error


def _show_warning(message: Warning, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


# --- the commands -----------------------------------------------------------------------------


def _check(arguments: argparse.Namespace) -> int:
    status = 0
    for name in arguments.files:
        source = _read(name)
        try:
            programs = check_defs(parse_source(source))
        except TCError as error:
            print(error, file=sys.stderr)
            status = 1
            continue
        for program in programs.values():
            for doubt in program.doubts:
                print(f"warning: [{doubt.rule}] {doubt.message} ({doubt.span})", file=sys.stderr)
        print(f"{source.name}: {', '.join(programs)}: no errors")
    return status


def _fmt(arguments: argparse.Namespace) -> int:
    status = 0
    for name in arguments.files:
        source = _read(name)
        text = format_source(source)
        if arguments.check:
            if text != source.text:
                print(f"{source.name}: would change")
                status = 1
        elif arguments.write and name != "-":
            if text != source.text:
                Path(name).write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
    return status


def _explain(arguments: argparse.Namespace) -> int:
    source, _, values = _program_and_values(arguments)
    explanation = explain(
        source,
        values,
        entry=arguments.entry,
        stage=arguments.stage,
        backend=arguments.backend,
        options=_options(arguments),
    )
    print(explanation)
    return 0


def _emit(arguments: argparse.Namespace) -> int:
    source, _, values = _program_and_values(arguments)
    options, backend = _options(arguments), arguments.backend
    print(emit(source, values, entry=arguments.entry, backend=backend, options=options))
    return 0


def _options(arguments: argparse.Namespace) -> Options | None:
    return None if arguments.preset is None else PRESETS[arguments.preset]


def _show_cache(_: argparse.Namespace) -> int:
    report = cache.store().report()
    print(f"directory  {report.directory}")
    print(f"entries    {report.entries}")
    print(f"size       {_megabytes(report.size)} of at most {_megabytes(report.limit)}")
    if report.fault is None:
        print("used       yes")
        return 0
    print(f"used       no: {report.fault.reason}")
    if report.fault.repair is not None:
        print(f"repair: {report.fault.repair}", file=sys.stderr)
    return 1


def _clear_cache(_: argparse.Namespace) -> int:
    store = cache.store()
    removed = store.clear()
    left = store.report().entries
    print(f"removed {removed} of {removed + left} kernels from {store.directory}")
    return 1 if left else 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _run(arguments: argparse.Namespace) -> int:
    source, program, values = _program_and_values(arguments)
    outputs = _outputs(program, arguments, values)
    inputs = {name: value for name, value in values.items() if name in program.inputs}
    compiled = api.compile(source, entry=arguments.entry, backend=arguments.backend)
    begin = time.perf_counter()
    result = compiled(**inputs, outputs=outputs or None)
    seconds = time.perf_counter() - begin
    results = result if isinstance(result, tuple) else (result,)
    for name, array in zip(program.outputs, results, strict=True):
        print(_summary(name, np.asarray(array)))
    print(f"backend {arguments.backend}, first call with compilation {seconds * 1e3:.1f} ms")
    if arguments.out:
        _save(Path(arguments.out), program.outputs, results)
    return 0


def _save(folder: Path, names: Sequence[str], results: Sequence[Any]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in zip(names, results, strict=True):
            np.save(folder / f"{name}.npy", np.asarray(array))
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error


def _summary(name: str, array: Any) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    head = f"{name}: {array.dtype} {shape}"
    if array.size == 0:
        return head + ", empty"
    if array.size <= 16:
        return head + f" = {np.array2string(array, separator=', ', precision=6)}"
    wide = array.astype(np.float64)
    return head + f", min {wide.min():.6g}, mean {wide.mean():.6g}, max {wide.max():.6g}"


# --- texts and values -------------------------------------------------------------------------


def _read(name: str) -> Source:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (AttributeError, OSError, UnicodeDecodeError) as error:  # no standard input: None
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text, or not there"
        raise UsageError(f"cannot read {name}: {reason}") from error
    return Source(text, "<stdin>" if name == "-" else name)


def _program_and_values(arguments: argparse.Namespace) -> tuple[Source, Program, dict[str, Any]]:
    source = _read(arguments.file)
    program = check_module(parse_source(source), arguments.entry)
    pairs = _pairs(arguments.values)
    known = {*program.inputs, *program.sizes}
    for name in pairs:
        if name not in known:
            raise InputError(
                f"{program.name} has no input or size {name!r}; "
                f"it has {', '.join(sorted(known)) or 'none'}"
            )
    rng = np.random.default_rng(getattr(arguments, "seed", 0))
    return source, program, _values(program, pairs, rng)


def _pairs(items: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{item!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{name} is given twice")
        pairs[name] = value
    return pairs


def _values(program: Program, pairs: dict[str, str], rng: np.random.Generator) -> dict[str, Any]:
    numbers = {name: _number(text) for name, text in pairs.items()}
    sizes = {name: value for name, value in numbers.items() if isinstance(value, int)}
    values: dict[str, Any] = {}
    for name, text in pairs.items():
        number = numbers[name]
        tensor = program.tensors.get(name)
        if number is not None and tensor is not None and tensor.dtype == BOOL:
            values[name] = bool(number)
        elif number is not None:
            values[name] = number
        elif tensor is None:
            raise InputError(f"{name} is a size of {program.name}: give an integer, not {text!r}")
        else:
            values[name] = _array(tensor, text, sizes, rng)
    return values


def _outputs(
    program: Program, arguments: argparse.Namespace, values: dict[str, Any]
) -> dict[str, Any]:
    pairs = _pairs(arguments.outputs)
    rng = np.random.default_rng(arguments.seed + 1)
    sizes = {name: value for name, value in values.items() if isinstance(value, int)}
    outputs = {}
    for name, text in pairs.items():
        if name not in program.outputs:
            raise InputError(
                f"{program.name} has no output {name!r}; it has {', '.join(program.outputs)}"
            )
        tensor = program.tensors[name]
        number = _number(text)
        outputs[name] = (
            np.array(number, tensor.dtype.numpy)
            if number is not None
            else _array(tensor, text, sizes, rng)
        )
    return outputs


def _number(text: str) -> int | float | bool | None:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _array(tensor: Tensor, text: str, sizes: dict[str, int], rng: np.random.Generator) -> Any:
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
        low, high = _bounds(tensor.name, bounds_text)
    else:
        low, high = (0, 2) if dtype.kind == "bool" else (0, 10)
    if dtype.is_float:
        values = rng.uniform(low, high, shape) if bounds_text else rng.standard_normal(shape)
        return np.asarray(values, dtype.numpy)
    return np.asarray(rng.integers(int(low), max(int(high), int(low) + 1), shape), dtype.numpy)


def _bounds(name: str, text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        bounds = float(low), float(high) if colon else math.nan
    except ValueError:
        bounds = math.nan, math.nan
    if not bounds[0] <= bounds[1] < math.inf:
        raise UsageError(
            f"{name}=random:SHAPE:LOW:HIGH needs two numbers, LOW not above HIGH, not {text!r}"
        )
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
        return np.load(text, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{tensor.name}={text} is neither a number, {', '.join(FILLS)} nor a readable "
            f".npy file: {error}",
            span=tensor.span,
            repair=f"{tensor.name}=random:{'x'.join(['16'] * tensor.rank)}",
        ) from error


if __name__ == "__main__":
    sys.exit(main())
