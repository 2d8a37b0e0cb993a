"""The arguments of a command as values: a text, a def, values for its inputs, options.

NAME=VALUE gives an input or a size a number, a list, a file or a fill (`tc.cli.values`). A
*pragma*, a comment `# tc: NAME=VALUE ...`, or `// tc: NAME=VALUE ...` in SaC's notation, states
such values in the text for one of its defs. Pragmas stand right before a def, or before the line in
which the def begins, on one line or on several, and mean what NAME=VALUE means on the command line.
So a file can be run, explained and tuned as it is; to everything but the command line pragmas are
comments.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from tc import files
from tc.cli.front_ends import Callee, front_end_of
from tc.cli.parser import UsageError
from tc.cli.terminal import write
from tc.cli.values import FILLS, middle, pairs_of, range_of, values_of
from tc.errors import BackendError, InputError
from tc.options import PRESETS, Options, options_json
from tc.plan import Plan
from tc.source import ENCODING, Source, Span
from tc.wording import nearest


def pragma_values(callee: Callee, comment: str) -> dict[str, str]:
    """The values that a text states for one of its defs, by name. InputError for what is no
    NAME=VALUE, for names that the def does not have, and for those that are given twice.

    >>> front_end = front_end_of("f.tc")
    >>> text = Source("# tc: N=8\\ndef f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    >>> pragma_values(front_end.callee(text, "f"), front_end.comment)
    {'N': '8'}
    """
    pairs: dict[str, str] = {}
    known = names_given(callee)
    for span in _words(callee, comment):
        name, equals, value = span.text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{span.text!r} is not of the form NAME=VALUE", span=span)
        if name in pairs:
            raise InputError(f"{name} is stated twice", span=span)
        if name not in known:
            close = nearest(name, sorted(known))
            raise InputError(
                _unknown(callee, name), span=span, paste=f"{close}={value}" if close else None
            )
        pairs[name] = value
    return pairs


def names_given(callee: Callee) -> set[str]:
    """The inputs and sizes that a call may be given by name."""
    return {*callee.inputs, *callee.sizes}


def _unknown(callee: Callee, name: str) -> str:
    what = "input or size" if callee.sizes else "input"
    known = ", ".join(sorted(names_given(callee))) or "none"
    return f"{callee.name} has no {what} {name!r}; it has {known}"


def merged(callee: Callee, stated: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The values of the command line and the pragmas that they leave room for: an array on the
    command line gives the sizes of its shape."""
    said = set(given)
    for name, value in given.items():
        if name in callee.inputs and not _is_size(callee, name, value):
            sizes = callee.inputs[name].sizes or ()
            said |= {size for size in sizes if isinstance(size, str)}
    return {**{name: v for name, v in stated.items() if name not in said}, **given}


def _is_size(callee: Callee, name: str, value: str) -> bool:
    """Whether a value is for the size of this name, where a tensor has it, too (N1), or needs the
    sizes itself, as `random` without a shape does."""
    is_size = value.isdigit() or range_of(name, value) is not None
    return (name in callee.sizes and is_size) or value in FILLS


def _words(callee: Callee, comment: str) -> Iterator[Span]:
    """The words after "tc:" of the comments that may have pragmas for this callee."""
    line_of = re.compile(rf"^[ \t]*{comment}[ \t]*tc:([^\n]*)", re.MULTILINE)
    for line in line_of.finditer(callee.source.text, *callee.pragma_range()):
        for word in re.finditer(r"\S+", line[1]):
            start = line.start(1) + word.start()
            yield Span(callee.source, start, start + len(word[0]))


@dataclass
class CallArguments:
    """A def and the NAME=VALUE pairs of a command: `pairs` as written, `values` once they are read.
    `states` is whether the text has pragmas of its own (`tc.cli.arguments`). `dynamic` has the
    sizes that are given as ranges; their values are in the middle."""

    callee: Callee
    pairs: dict[str, str]
    values: dict[str, Any]
    states: bool = False
    dynamic: dict[str, range] = field(default_factory=dict)

    @property
    def how(self) -> dict[str, Any]:
        """What the commands ask of a def beside values: the sizes that vary, if any do."""
        return {"dynamic": self.dynamic} if self.dynamic else {}

    @property
    def inputs(self) -> dict[str, Any]:
        return {name: v for name, v in self.values.items() if name in self.callee.inputs}


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
    front_end = front_end_of(arguments.file)
    source, pairs = read_text(arguments.file), pairs_of(arguments.values)
    source = front_end.with_types(source, arguments.entry, pairs)
    callee = front_end.callee(source, arguments.entry)
    call = arguments.call = CallArguments(callee, pairs, {})
    known = names_given(callee)
    for name, text in call.pairs.items():
        if name not in known:
            close = nearest(name, sorted(known))
            raise InputError(_unknown(callee, name), repair=f"{close}={text}" if close else None)
    if stated := pragma_values(callee, front_end.comment):
        call.states, call.pairs = True, merged(callee, stated, call.pairs)
    for name, text in call.pairs.items():
        found = range_of(name, text) if name in callee.sizes else None
        if found is not None:
            if not callee.may_vary:
                raise InputError(
                    f"{name}={text}: {callee.name} is of SaC's notation, in which no size varies",
                    repair=f"{name}={middle(found)}",
                )
            call.dynamic[name] = found
            call.pairs[name] = str(middle(found))
    rng = np.random.default_rng(getattr(arguments, "seed", 0))
    call.values = values_of(callee.name, callee.inputs, call.pairs, rng)
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


def given_outputs(call: CallArguments, texts: Sequence[str], seed: int = 1) -> dict[str, Any]:
    """What outputs hold before the call, by name, from the NAME=VALUE of --outputs; InputError."""
    callee = call.callee
    sizes = {name: value for name, value in call.values.items() if isinstance(value, int)}
    outputs = {}
    for name, text in pairs_of(texts).items():
        if name not in callee.result_names:
            close = nearest(name, callee.result_names) or callee.result_names[0]
            raise InputError(
                f"{callee.name} has no output {name!r}; it has {', '.join(callee.result_names)}",
                repair=f"--outputs {close}={text}",
            )
        outputs[name] = callee.output(name, text, sizes, seed)
    return outputs
