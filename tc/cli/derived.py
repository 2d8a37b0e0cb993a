"""The commands that print a program made of another: grad, jvp, batch."""

from __future__ import annotations

import argparse
import sys

from tc.cli.given import read_text
from tc.gradient import batching, forward_mode, reverse_mode


def grad(arguments: argparse.Namespace) -> int:
    return _print(
        reverse_mode.grad(
            read_text(arguments.file),
            arguments.wrt,
            entry=arguments.entry,
            constant=arguments.constant,
            ties=arguments.ties,
            save=arguments.save,
            sizes=arguments.sizes,
        )
    )


def jvp(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _print(
        forward_mode.jvp(source, arguments.wrt, entry=arguments.entry, constant=arguments.constant)
    )


def batch(arguments: argparse.Namespace) -> int:
    source = read_text(arguments.file)
    return _print(batching.batch(source, arguments.in_axes, entry=arguments.entry))


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0
