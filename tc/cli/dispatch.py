"""From words to a command: runs it, and prints errors and warnings in the words of a shell."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

from tc.cli.command_line import parser_of, tune_db_parser_of
from tc.cli.parser import UsageError, sizes_text
from tc.cli.terminal import say
from tc.errors import TCError, TCWarning


def run(name: str, words: Sequence[str]) -> int:
    """Runs the command of these words and returns the exit status; `name` is the program's."""
    arguments = _parsed(name, words)
    arguments.program = name
    said = partial(_said, arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TCWarning)
            warnings.showwarning = lambda message, *_, **__: say(said(str(message)))
            return _command(arguments.command)(arguments)
    except TCError as error:
        say(said(error))
        return 1
    except MemoryError:
        say(f"{name}: there is not enough memory for these sizes")
        return 1
    except UsageError as error:
        say(f"{name}: {error}")
        return 2


def _parsed(name: str, words: Sequence[str]) -> argparse.Namespace:
    """The arguments; NAME=VALUE may stand before and after the options."""
    parser = parser_of(name)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words[:2] == ["tune", "db"]:
        parser, words = tune_db_parser_of(name), words[2:]
    arguments: argparse.Namespace
    arguments, rest = parser.parse_known_args(words)
    unknown = [item for item in rest if item.startswith("-") or "=" not in item]
    if unknown or (rest and not hasattr(arguments, "values")):
        meant = "" if unknown else _as_sizes(arguments, rest)
        arguments.own.error(f"unrecognized arguments: {' '.join(unknown or rest)}{meant}")
    if rest:
        arguments.values += rest
    return arguments


def _as_sizes(arguments: argparse.Namespace, pairs: Sequence[str]) -> str:
    """The repair for NAME=VALUE in a command that has --sizes."""
    if not hasattr(arguments, "sizes"):
        return ""
    given = [sizes_text(arguments.sizes)] if arguments.sizes else []
    return f"; sizes are --sizes {','.join([*given, *pairs])}"


def _command(target: str) -> Callable[[argparse.Namespace], int]:
    """The function of "module:function", imported now."""
    module, _, function = target.partition(":")
    command: Callable[[argparse.Namespace], int] = getattr(import_module(module), function)
    return command


def _said(arguments: argparse.Namespace, message: TCError | str) -> str:
    """A message with its repair as options and NAME=VALUE; `call` is set once inputs are known."""
    shell = import_module("tc.cli.shell_hints")
    said: str = shell.in_shell_words(message, getattr(arguments, "call", None))
    return said
