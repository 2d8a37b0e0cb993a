"""The options and commands of the command line, with their help."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from tc import __version__
from tc.backends import registry
from tc.cli.parser import Parser, axis_list, name_list, size_list
from tc.options import PRESETS
from tc.stages import SAC_STAGES, SIZES, STAGES

DESCRIPTION = """\
Tensor Comprehensions: checks, explains and runs operators in index notation."""
CLOSING = """\
'{name} help COMMAND' describes a command, '{name} explain G5' the rule G5, which an error cites.
The commands tc and tensorc are one: where another tc is found first (that of iproute2 shapes
network traffic), say tensorc, or python -m tc."""
VALUES = """\
NAME=VALUE gives an input or a size of the def. VALUE is a number, true or false, a list as
[1,2] or [[1,2],[3,4]], a file FILE.npy, or one of
  random:128x64      normal floats, integers 0 to 9, fair bools; random:128x64:0:500 sets bounds
  zeros:128x64  ones:128x64
  1:4097  16:4097:16     of a size: it varies in this range, and the code serves all of it
  random  zeros  ones    the declared shape, where NAME=VALUE gives all its sizes
  half  float  int8 ...  of a type variable of the def; a file FILE.npy gives its type, too
  random:8:int  zeros:8:float    a type, for an input of SaC's notation without a declared one
A file FILE.sac is in SaC's notation, every other text in that of tc."""
DEFAULTS = """\
Inputs and sizes that are not given are taken from comments right before the def, after "tc:";
where there are such comments, all other inputs are random:
  # tc: N=32 eps=1e-5
In SaC's notation the comment is // tc: n=32, and FILE.sac may be an expression."""
OPTIONS = """\
--options takes the fields of tc.Options as JSON, or a file FILE.json; fields that are left out are
taken from --preset, or chosen by tc:
  --options '{"mapping": {"rows": 4, "vectors": 2}, "schedule": {"fusion": "min"}}'
  --backend cuda --options '{"gpu": {"tile": [4, 32], "threads": [8, 32]}}'"""
MODULE = "tc.cli.commands"


def parser_of(name: str) -> Parser:
    """The parser of the command line; its results have the function of the command as `command`,
    "module:function"."""
    parser = Parser(
        prog=name,
        description=DESCRIPTION,
        epilog=CLOSING.format(name=name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"{name} {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="check every def of a text")
    check.add_argument("files", nargs="+", metavar="FILE", help="a text, - for standard input")
    check.set_defaults(command=f"{MODULE}:check")

    fmt = commands.add_parser("fmt", help="print a text in its standard layout, comments kept")
    fmt.add_argument("files", nargs="+", metavar="FILE", help="a text, - for standard input")
    how = fmt.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="rewrite the files instead")
    how.add_argument("--check", action="store_true", help="status 1 where a file would change")
    fmt.set_defaults(command=f"{MODULE}:fmt")

    explained = _program_command(
        commands,
        "explain",
        "show what tc makes of a def at given sizes, or what a rule says",
        file="a text, - for standard input, or the name of a rule, such as G5",
    )
    explained.add_argument(
        "--stage",
        choices=(*STAGES, SIZES, *SAC_STAGES, "all"),
        help="one stage of the compiler, or all, in place of the ranges and a summary; "
        f"of texts of SaC {', '.join(SAC_STAGES)}, too",
    )
    _add_backend(explained, "numba", "the backend whose code is shown")
    _add_outputs(explained)
    _add_options(explained)
    _add_output(explained)
    explained.set_defaults(command=f"{MODULE}:explain")

    run = _program_command(commands, "run", "run a def on arrays")
    _add_backend(run, "numba", "the backend that runs the def; interpret is the reference")
    run.add_argument("--time", action="store_true", help="say how long a later call takes, too")
    run.add_argument("--out", metavar="DIR", help="save each output as DIR/NAME.npy")
    run.add_argument(
        "--seed",
        type=partial(_at_least, 0),
        default=0,
        help="the seed of random inputs (default 0)",
    )
    _add_outputs(run)
    _add_options(run)
    run.set_defaults(command="tc.cli.running:run")

    emitted = _program_command(commands, "emit", "print the code made for given sizes")
    _add_backend(emitted, "c", "the language of the code")
    _add_outputs(emitted)
    _add_options(emitted)
    _add_output(emitted)
    emitted.set_defaults(command=f"{MODULE}:emit")

    _add_tune(commands)
    _add_verify(commands)
    _add_derived(commands)

    kept = commands.add_parser("cache", help="the kernels that are kept on disk")
    actions = kept.add_subparsers(required=True, metavar="ACTION")
    shown = actions.add_parser(
        "show", help="print the directory of the kernels, and how many there are"
    )
    shown.set_defaults(command=f"{MODULE}:show_cache")
    cleared = actions.add_parser("clear", help="remove all kernels")
    cleared.set_defaults(command=f"{MODULE}:clear_cache")
    commands.add_parser("help", help="describe a command: help COMMAND")
    return parser


def _add_tune(commands: Any) -> None:
    tune = _program_command(
        commands, "tune", "search for the fastest plan of a def; tune db: what was measured"
    )
    _add_backend(tune, "numba", "the backend that plans are searched for")
    limits = (
        ("seconds", _positive, "S", "end the search after S seconds (default 60)"),
        ("candidates", partial(_at_least, 1), "N", "end the search after N candidates"),
    )
    for name, kind, letter, text in limits:
        tune.add_argument(f"--max-{name}", type=kind, metavar=letter, help=text)
    tune.add_argument(
        "--generations",
        type=partial(_at_least, 1),
        metavar="G",
        help="end the search after G generations",
    )
    tune.add_argument("--search", default="guided", metavar="NAME",
                      help="guided (the default), genetic or random")  # fmt: skip
    tune.add_argument("--seed", type=partial(_at_least, 0), default=0, metavar="N",
                      help="the seed of the search and of random inputs (default 0)")  # fmt: skip
    tune.add_argument(
        "--database", metavar="FILE", help="the file of measurements, in place of the user's"
    )
    tune.add_argument("--plot", metavar="FILE", help="a picture of the search: .png, .svg or .pdf")
    _add_outputs(tune)
    _add_options(tune)
    tune.set_defaults(command="tc.cli.tuning:tune")


def _add_verify(commands: Any) -> None:
    verified: Parser = commands.add_parser(
        "verify",
        help="whether a kernel of Python computes what a def says",
        description="Calls a kernel of torch, JAX, numba, numpy or ctypes with inputs that catch "
        "what is wrong, in a process of its own. The status is 1 where something is found.",
    )
    verified.add_argument("kernel", metavar="KERNEL", help="FILE.py:NAME, or MODULE:NAME")
    verified.add_argument("file", metavar="FILE", help="a text, - for standard input")
    verified.add_argument("--entry", metavar="DEF", help="the def, where the text has several")
    verified.add_argument(
        "--sizes", type=size_list, metavar="N=3,K=4", help="these sizes only; others are chosen"
    )
    verified.add_argument(
        "--like", metavar="LIBRARY", help="numpy, torch, jax or torch:cuda (default: found)"
    )
    verified.add_argument(
        "--compute", metavar="TYPE", help="a coarser type that the kernel may compute in"
    )
    verified.add_argument(
        "--gradient", action="store_true", help="the gradient of the kernel, by torch or JAX"
    )
    verified.add_argument(
        "--seconds", type=_positive, default=20.0, metavar="S", help="the most time (default 20)"
    )
    verified.add_argument(
        "--same-bits", action="store_true", help="equal inputs have to give equal bits"
    )
    verified.add_argument(
        "--no-isolate", action="store_true", help="run the kernel in the process of tc"
    )
    verified.add_argument("--json", action="store_true", help="print the verdict as JSON")
    verified.add_argument(
        "--script", metavar="FILE", help="write a script that repeats what is found into FILE"
    )
    verified.set_defaults(command="tc.cli.verifying:verify")


def tune_db_parser_of(name: str) -> Parser:
    """The parser of what follows `tune db`."""
    text = "the database of what was measured"
    parser = Parser(prog=f"{name} tune db", description=f"{text.capitalize()}.")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    module = "tc.cli.tuning"

    def action(name: str, text: str, function: str) -> Parser:
        added: Parser = actions.add_parser(name, help=text, description=text)
        added.set_defaults(command=f"{module}:{function}")
        return added

    shown = action("show", "print the file of the database, and what was measured", "show")
    exported = action("export", "all measurements as lines of JSON", "export")
    exported.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="the file for the lines, - for standard output",
    )
    imported = action("import", "adds lines of JSON, each of which is checked", "import_lines")
    imported.add_argument("file", metavar="FILE", help="the lines, - for standard input")
    found = _program_command(actions, "best", "print the fastest plan as --options takes it")
    _add_backend(found, "numba", "the backend of the plan")
    _add_outputs(found)
    _add_options(found)
    found.set_defaults(command=f"{module}:best")
    pruned = action("prune", "removes all but the fastest plans of each size", "prune")
    pruned.add_argument(
        "--keep", type=partial(_at_least, 1), default=10, metavar="N",
        help="how many plans of each size are kept (default 10)",
    )  # fmt: skip
    for each in (shown, exported, imported, found, pruned):
        each.add_argument("--database", metavar="FILE", help="the database, in place of the user's")
    return parser


def _add_derived(commands: Any) -> None:
    """Commands that print a program made of another."""

    def derived_command(name: str, text: str) -> Parser:
        added: Parser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        added.add_argument("file", metavar="FILE", help="a text, - for standard input")
        added.add_argument("--entry", metavar="DEF", help="the def, where the text has several")
        _add_output(added)
        added.set_defaults(command=f"tc.cli.commands:{name}")
        return added

    gradient = derived_command("grad", "print the gradient of a def as a def")
    both = derived_command(
        "vjp", "print a def that saves what its gradient needs, and that gradient"
    )
    tangent = derived_command("jvp", "print a def with its derivative along a direction as a def")
    for parser in (gradient, both, tangent):
        parser.add_argument(
            "--wrt",
            type=name_list,
            metavar="A,B",
            help="the inputs to differentiate with respect to (default: all floating inputs)",
        )
        parser.add_argument(
            "--constant",
            type=name_list,
            default=[],
            metavar="T,U",
            help="tensors that no gradient flows through",
        )
    for parser, save in ((gradient, "outputs"), (both, "all")):
        parser.add_argument(
            "--ties",
            default="split",
            metavar="HOW",
            help="which of equal extrema have the gradient: split (the default), or first",
        )
        parser.add_argument(
            "--save",
            default=save,
            metavar="WHICH",
            help=f"what the gradient takes as inputs: outputs, all or none (default {save})",
        )
        parser.add_argument(
            "--sizes",
            type=size_list,
            metavar="N=3,K=4",
            help="a gradient for these sizes only, where there is none for all",
        )
    batched = derived_command("batch", "print a def for each element of a batch as a def")
    batched.examples = {"--in-axes": "0"}
    batched.add_argument(
        "--in-axes",
        type=axis_list,
        required=True,
        metavar="A=0,B=none",
        help="the dimension of the batch in each input; one number is for all inputs",
    )


def _program_command(
    commands: Any, name: str, text: str, file: str = "a text, - for standard input"
) -> Parser:
    parser: Parser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=f"{VALUES}\n\n{DEFAULTS}\n\n{OPTIONS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help=file)
    parser.add_argument(
        "values",
        nargs="*",
        metavar="NAME=VALUE",
        default=[],
        help="an input or a size by its name, as described below",
    )
    parser.add_argument("--entry", metavar="DEF", help="the def, where the text has several")
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the text into FILE, whole or not at all, and print nothing",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--outputs",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of an output before the call (R3, R4); once for each output",
    )


def _add_backend(parser: Parser, default: str, what: str) -> None:
    parser.add_argument(
        "--backend", default=default, choices=registry.names(), help=f"{what} (default {default})"
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="options by name, in place of those that tc chooses",
    )
    parser.add_argument("--options", metavar="JSON", help="single options, as described below")
    parser.add_argument("--plan", metavar="FILE", help="a plan, as explain --stage plan prints it")
    parser.add_argument(
        "--threads",
        type=partial(_at_least, 1),
        metavar="N",
        help="the most threads that a call may use",
    )


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"a positive number, and not {text!r}")
    return value


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"a whole number of at least {least}, and not {text!r}")
    return value
