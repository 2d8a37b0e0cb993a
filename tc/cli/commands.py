"""The commands that look at a program (check, fmt, explain, emit), those that print a program made
of another (grad, vjp, jvp, batch), and those of the cache."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tc import rules
from tc.cli.arguments import (
    CallArguments,
    given_outputs,
    put_text,
    read_call,
    read_options,
    read_text,
)
from tc.cli.front_ends import FRONT_ENDS, front_end_of
from tc.cli.parser import UsageError
from tc.cli.shell_hints import in_shell_words
from tc.cli.terminal import print_line, say
from tc.errors import TCError
from tc.gradient import batching, forward_and_backward, forward_mode, reverse_mode
from tc.runtime import cache
from tc.source import Source


def check(arguments: argparse.Namespace) -> int:
    return _for_each_file(arguments, _check)


def fmt(arguments: argparse.Namespace) -> int:
    return _for_each_file(arguments, partial(_format, arguments))


def _for_each_file(arguments: argparse.Namespace, act: Callable[[str], int]) -> int:
    """Runs a command on each file and returns the worst status; an error in one file does not keep
    the command from the others."""
    worst = 0
    for name in arguments.files:
        try:
            status = act(name)
        except TCError as error:
            say(in_shell_words(error))
            status = 1
        except UsageError as error:
            say(f"{arguments.program}: {error}")
            status = 2
        worst = max(worst, status)
    return worst


def _check(name: str) -> int:
    source = read_text(name)
    found = front_end_of(name).check(source)
    print_line(f"{source.name}: {', '.join(found)}: no errors")
    return 0


def _format(arguments: argparse.Namespace, name: str) -> int:
    source = read_text(name)
    text = front_end_of(name).format(source)
    if arguments.check:
        if text != source.text:
            print_line(f"{source.name}: would change")
            return 1
    elif arguments.write and name != "-":
        if text != source.text:
            put_text(name, text)
    else:
        put_text(None, text)
    return 0


def explain(arguments: argparse.Namespace) -> int:
    looks = re.fullmatch(r"[A-Z]\d+", arguments.file, re.IGNORECASE)
    if looks is not None and not arguments.values and not os.path.exists(arguments.file):
        name = arguments.file.upper()
        if name not in rules.RULES:
            raise UsageError(f"there is no rule {name}; the rules are {', '.join(rules.RULES)}")
        print_line(rules.RULES[name])
        return 0
    options, call = read_options(arguments), read_call(arguments)
    how = {"stage": arguments.stage, "backend": arguments.backend, "options": options, **call.how}
    how |= _outputs(call, arguments)
    put_text(arguments.output, f"{call.callee.explain(call.values, **how)}\n")
    return 0


def emit(arguments: argparse.Namespace) -> int:
    options, call = read_options(arguments), read_call(arguments)
    how = {"backend": arguments.backend, "options": options, **call.how}
    how |= _outputs(call, arguments)
    made = call.callee.emit(call.values, **how)
    put_text(arguments.output, f"{made}\n")
    return 0


def _outputs(call: CallArguments, arguments: argparse.Namespace) -> dict[str, Any]:
    """The argument `outputs`, where the command has --outputs."""
    outputs = given_outputs(call, arguments.outputs)
    return {"outputs": outputs} if outputs else {}


def show_cache(_: argparse.Namespace) -> int:
    report = cache.store().report()
    print_line(f"directory  {report.directory}")
    print_line(f"entries    {report.entries}")
    print_line(f"size       {_megabytes(report.size)} of at most {_megabytes(report.limit)}")
    if report.fault is None:
        print_line("used       yes")
        return 0
    print_line(f"used       no: {report.fault.reason}")
    if report.fault.repair is not None:
        say(in_shell_words(f"repair: {report.fault.repair}"))
    return 1


def clear_cache(_: argparse.Namespace) -> int:
    store = cache.store()
    removed = store.clear()
    left = store.report().entries
    print_line(f"removed {removed} of {removed + left} kernels from {store.directory}")
    return 1 if left else 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def grad(arguments: argparse.Namespace) -> int:
    source = _tc_text(arguments)
    return _put(arguments, reverse_mode.grad(source, arguments.wrt, **_how(arguments)))


def vjp(arguments: argparse.Namespace) -> int:
    source = _tc_text(arguments)
    found = forward_and_backward.vjp(source, arguments.wrt, **_how(arguments))
    return _put(arguments, str(found))


def _tc_text(arguments: argparse.Namespace) -> Source:
    """The text of a command that takes texts of tc alone."""
    name = arguments.file
    if name.endswith(tuple(FRONT_ENDS)):
        made = f"{Path(name).stem}.tc"
        words = [arguments.program, "explain", name, "--stage", "def", "-o", made]
        raise UsageError(
            f"{arguments.own.prog} takes texts of tc, and {name} is one of SaC, which has a def "
            f"for each set of shapes: {shlex.join(words)}, with NAME=VALUE for the inputs, writes "
            f"the def to {made}"
        )
    return read_text(name)


def _how(arguments: argparse.Namespace) -> dict[str, Any]:
    """What reverse mode takes beside the text and `wrt`."""
    names = ("entry", "constant", "ties", "save", "sizes")
    return {name: getattr(arguments, name) for name in names}


def jvp(arguments: argparse.Namespace) -> int:
    source = _tc_text(arguments)
    how = {"entry": arguments.entry, "constant": arguments.constant}
    return _put(arguments, forward_mode.jvp(source, arguments.wrt, **how))


def batch(arguments: argparse.Namespace) -> int:
    source = _tc_text(arguments)
    return _put(arguments, batching.batch(source, arguments.in_axes, entry=arguments.entry))


def _put(arguments: argparse.Namespace, text: str) -> int:
    put_text(arguments.output, text)
    return 0
