"""The commands that print a program made of another: grad, vjp, jvp, batch."""

from __future__ import annotations

import argparse
from typing import Any

from tc.cli.arguments import put_text, read_text
from tc.gradient import batching, forward_and_backward, forward_mode, reverse_mode


def grad(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _put(arguments, reverse_mode.grad(source, arguments.wrt, **_how(arguments)))


def vjp(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    found = forward_and_backward.vjp(source, arguments.wrt, **_how(arguments))
    return _put(arguments, str(found))


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    """What reverse mode takes beside the text and `wrt`."""
    names = ("entry", "constant", "ties", "save", "sizes")
    return {name: getattr(arguments, name) for name in names}


def jvp(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    how = {"entry": arguments.entry, "constant": arguments.constant}
    return _put(arguments, forward_mode.jvp(source, arguments.wrt, **how))


def batch(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _put(arguments, batching.batch(source, arguments.in_axes, entry=arguments.entry))


def _put(arguments: argparse.Namespace, text: str) -> int:
    put_text(arguments.output, text)
    return 0
