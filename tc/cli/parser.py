"""The parser of words: as `argparse` has it, with repairs as all errors of tc have them, and with
options of several values (A,B and N=3,K=4 and A=0,B=none)."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from tc.backends import registry
from tc.cli.terminal import say, write
from tc.wording import nearest


def name_list(text: str) -> list[str]:
    """
    >>> name_list("A,B")
    ['A', 'B']
    """
    return _parts(text)


def size_list(text: str) -> dict[str, int | tuple[int, ...]]:
    """
    >>> size_list("N=3,K=4"), size_list("A=3x4")
    ({'N': 3, 'K': 4}, {'A': (3, 4)})
    """
    return {name: _size(name, value) for name, value in _pairs(text, "N=3,K=4")}


def sizes_text(sizes: Mapping[str, int | tuple[int, ...]]) -> str:
    """
    >>> sizes_text({"N": 3, "A": (3, 4)})
    'N=3,A=3x4'
    """
    numbers = ((name, (v,) if isinstance(v, int) else v) for name, v in sizes.items())
    return ",".join(f"{name}={'x'.join(map(str, value))}" for name, value in numbers)


def axis_list(text: str) -> int | dict[str, int | None]:
    """
    >>> axis_list("A=0,B=none"), axis_list("0")
    ({'A': 0, 'B': None}, 0)
    """
    if "=" not in text:
        return _number(text, "A=0,B=none, or 0 for all inputs")
    return {
        name: None if value.lower() == "none" else _number(value, f"{name}=0 or {name}=none")
        for name, value in _pairs(text, "A=0,B=none")
    }


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str, example: str) -> list[tuple[str, str]]:
    found = []
    for part in _parts(text):
        name, mark, value = part.partition("=")
        if not mark:
            raise argparse.ArgumentTypeError(f"pairs such as {example}, and not {part!r}")
        found.append((name.strip(), value.strip()))
    names = [name for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise argparse.ArgumentTypeError(f"{name} is given twice in {text!r}")
    return found


def _size(name: str, text: str) -> int | tuple[int, ...]:
    """A size, or the shape of an input."""
    example = f"{name}=3, or {name}=3x4 for an input"
    first, *others = (_number(part, example, text) for part in text.split("x"))
    return (first, *others) if others else first


def _number(text: str, example: str, whole: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{example}, and not {whole or text!r}") from None


class UsageError(Exception):
    """The command line, or a file that it names, is wrong: exit status 2."""


_CHOICE = re.compile(r"(?:argument (--?[\w-]+)[^:]*: )?invalid choice: '(.*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """Prints help where a command that has others is typed alone, and repairs below errors."""

    examples: Mapping[str, str] = {}
    """Examples of the values of required options, by the names of options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it; the result has the parser of the command as `own`."""
        if not args and self._subparsers is not None:
            self.print_help()
            self.exit()
        self.set_defaults(own=self)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        told = f"{self.format_usage()}{self.prog}: error: {message}"
        repair = self._repair(message)
        say(told if repair is None else f"{told}\nrepair: {repair}")
        sys.exit(2)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """An OSError where the output cannot be written."""
        if message:
            say(message.rstrip("\n"))
        sys.stdout.flush()
        sys.exit(status)

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is None or file is sys.stderr:
            say(message.rstrip("\n"))
        else:
            write(message)

    def _repair(self, message: str) -> str | None:
        """The words that should have been typed in place of wrong ones; None where they are not
        known."""
        chosen = _CHOICE.search(message)
        if chosen is not None:
            close = nearest(chosen[2], re.findall(r"[\w.-]+", chosen[3]))
            if chosen[1] == "--backend":  # such as cpu
                close = registry.meant_by(chosen[2])
            return " ".join(filter(None, (chosen[1], close))) if close else None
        if required := re.search(r"arguments are required: (--[\w-]+)$", message):
            example = self.examples.get(required[1])
            return f"{required[1]} {example}" if example else None
        if unknown := re.search(r"unrecognized arguments: (--[\w-]+)(.*)", message):
            close = self._option(unknown[1])
            return f"{close}{unknown[2]}" if close else None
        return None

    def _option(self, name: str) -> str | None:
        """The option that an unknown name is short for, or a misspelling of; None where there is
        none."""
        known = [word for action in self._actions for word in action.option_strings]
        longer = [word for word in known if word.endswith(f"-{name.lstrip('-')}")]
        return longer[0] if longer else nearest(name, [word for word in known if len(word) > 2])
