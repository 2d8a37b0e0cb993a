"""The commands that print a program made of another: grad, vjp, jvp, batch."""

from __future__ import annotations

import argparse
from typing import Any

from tc.cli.given import read_text
from tc.cli.terminal import write
from tc.gradient import batching, forward_and_backward, forward_mode, reverse_mode


def grad(arguments: argparse.Namespace) -> int:
    return _print(reverse_mode.grad(read_text(arguments.file), arguments.wrt, **_how(arguments)))


def vjp(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _print(str(forward_and_backward.vjp(source, arguments.wrt, **_how(arguments))))


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    """What reverse mode takes beside the text and `wrt`."""
    names = ("entry", "constant", "ties", "save", "sizes")
    return {name: getattr(arguments, name) for name in names}


def jvp(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _print(
        forward_mode.jvp(source, arguments.wrt, entry=arguments.entry, constant=arguments.constant)
    )


def batch(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _print(batching.batch(source, arguments.in_axes, entry=arguments.entry))


def _print(text: str) -> int:
    write(text)
    return 0
