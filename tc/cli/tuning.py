"""`tc tune`, the search for the fastest plan of a def; and `tc tune db`, the database of what was
measured, shown, shared and pruned."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import groupby, islice
from pathlib import Path
from typing import TextIO

from tabulate import tabulate

from tc import api
from tc.backends import registry
from tc.backends.base import Backend
from tc.cli import INTERRUPTED
from tc.cli.arguments import CallArguments, given_outputs, read_call, read_options
from tc.cli.parser import UsageError
from tc.cli.shell_hints import in_shell_words
from tc.cli.terminal import print_line, say
from tc.errors import InputError, TCError
from tc.files import whole_file
from tc.options import Options
from tc.process.uninterrupted import uninterrupted
from tc.runtime.planned_outputs import PlannedOutputs
from tc.runtime.sizes import resolve_sizes
from tc.semantics.work import scaled
from tc.tuning.database import Measurement, TuningDatabase
from tc.tuning.database_file import VARIABLE, is_database
from tc.tuning.exchange import RefusedLine, from_lines, to_line
from tc.tuning.problem import Problem
from tc.tuning.reporting.report import check_picture, draw, report
from tc.tuning.tuner import TuningResult


def tune(arguments: argparse.Namespace) -> int:
    options, call = read_options(arguments), read_call(arguments)
    picture = None if arguments.plot is None else Path(arguments.plot)
    if picture is not None:
        check_picture(picture)
    bounded = arguments.max_candidates is not None or arguments.generations is not None
    seconds = arguments.max_seconds or (None if bounded else 60.0)
    program, values = call.callee.lowered(call.values)
    _, result = api.autotune(
        program.source,
        values,
        entry=program.name,
        backend=arguments.backend,
        options=options,
        search=arguments.search,
        seed=arguments.seed,
        max_seconds=seconds,
        max_candidates=arguments.max_candidates,
        generations=arguments.generations,
        database=arguments.database,
        outputs=given_outputs(call, arguments.outputs) or None,
    )
    pairs = " ".join(f"{name}={shlex.quote(text)}" for name, text in call.pairs.items())
    print_line(f"{result.problem.entry} on {arguments.backend}: {pairs}")
    print_line(report(result))
    _print_kept(result, arguments)
    if picture is not None:
        draw(result, picture)
        print_line(f"picture     {picture}")
    return INTERRUPTED if result.interrupted else 0


def _print_kept(result: TuningResult, arguments: argparse.Namespace) -> None:
    if not result.default.seconds:
        return
    if result.unkept:
        print_line(f"not kept    {result.unkept} measurements, as said above")
        return
    path = TuningDatabase(arguments.database and Path(arguments.database)).path
    print_line(f"kept        {path}")
    if result.best.options != result.default.options:
        where = f"{VARIABLE}={shlex.quote(str(path))} " if arguments.database else ""
        print_line(
            f"            which the next {where}tc run {shlex.quote(arguments.file)} takes it from"
        )


MAX_TOLD = 20
"""The most refused lines that are reported one by one."""

_AT_ONCE = 500  # measurements that are written in one transaction


def export(arguments: argparse.Namespace) -> int:
    """All that can be read; how many cannot is told."""
    passed_over: list[TCError] = []
    measurements = _there(arguments).measurements(passed_over.append)
    with _written(arguments.file) as file:
        count = 0
        for measurement in measurements:
            print(to_line(measurement), file=file)
            count += 1
    _tell(passed_over)
    if arguments.file != "-":
        print_line(f"{count} measurements in {arguments.file}")
    return 0


def import_lines(arguments: argparse.Namespace) -> int:
    """All lines that are right; the others are told of by their numbers."""
    database, refused, read, new = _database(arguments), 0, 0, 0
    database.check()
    with _opened(arguments.file) as lines:
        found = from_lines(lines)
        while batch := list(islice(found, _AT_ONCE)):
            right = [each for each in batch if isinstance(each, Measurement)]
            if right:
                new += uninterrupted(partial(database.add, right))
            read += len(batch)
            for line in batch:
                if isinstance(line, RefusedLine):
                    refused += 1
                    if refused <= MAX_TOLD:
                        where = "<stdin>" if arguments.file == "-" else arguments.file
                        error = in_shell_words(line.error)
                        say(f"{where}:{line.number}: refused: {error}")
    if refused > MAX_TOLD:
        say(f"and {refused - MAX_TOLD} more lines")
    print_line(
        f"{read - refused} of {read} measurements read, {new} of them new, in {database.path}"
    )
    return 1 if refused else 0


def show(arguments: argparse.Namespace) -> int:
    database = _database(arguments)
    print_line(f"file          {database.path}")
    if not database.exists:
        print_line("measurements  none yet: there is no such file")
        return 0
    passed_over: list[TCError] = []
    found = list(database.measurements(passed_over.append))
    failed = sum(each.trial.failure is not None for each in found)
    print_line(f"size          {database.path.stat().st_size / 1e6:.1f} MB")
    print_line(f"measurements  {len(found)}, of which {failed} failed")
    if found:
        head = ("def", "sizes", "backend", "device", "plans", "failed", "best", "won", "last")
        print_line("")
        print_line(tabulate(list(_rows(found)), head, tablefmt="simple", disable_numparse=True))
    _tell(passed_over)
    return 0


def best(arguments: argparse.Namespace) -> int:
    """The options with the plan, as `--options` takes them."""
    options, call = read_options(arguments) or Options(), read_call(arguments)
    backend = registry.get(arguments.backend)
    if not isinstance(backend, Backend):
        raise UsageError(f"the backend {arguments.backend!r} has no plans")
    program, values = call.callee.lowered(call.values)
    planned = PlannedOutputs.of(program, given_outputs(call, arguments.outputs) or None)
    sizes, database = planned.sizes(program, resolve_sizes(program, values)), _there(arguments)
    given = frozenset((*program.needs_initial, *planned.targets))
    check = backend.checks_by_default
    problem = Problem.of(program, sizes, backend, check=check, given=given)
    planned.check(problem.shaped().shapes)
    found = database.best(problem, backend.device(), options)
    if found is None or found.options is None:
        raise InputError(
            f"{database.path} has no plan for {program.name} at these sizes, or near ones, "
            f"on the backend {backend.name}",
            repair=shlex.join([arguments.program, "tune", *_words(arguments, call)]),
        )
    print_line(found.options.to_json())
    say(found.why)
    return 0


def _words(arguments: argparse.Namespace, call: CallArguments) -> Iterator[str]:
    """What `tc tune` is to be told to search for the same."""
    yield arguments.file
    yield from (f"{name}={text}" for name, text in call.pairs.items())
    for name in ("entry", "backend", "database"):
        value = getattr(arguments, name)
        if value is not None and (name, value) != ("backend", "numba"):
            yield from (f"--{name}", value)
    for text in arguments.outputs:
        yield from ("--outputs", text)


def prune(arguments: argparse.Namespace) -> int:
    database = _there(arguments)
    removed, left = uninterrupted(lambda: database.prune(arguments.keep))
    print_line(f"removed {removed} of {removed + left} measurements from {database.path}")
    return 0


def _database(arguments: argparse.Namespace) -> TuningDatabase:
    return TuningDatabase(arguments.database and Path(arguments.database))


def _there(arguments: argparse.Namespace) -> TuningDatabase:
    database = _database(arguments)
    if not database.exists:
        raise InputError(
            f"there is no tuning database {database.path}", repair=f"{arguments.program} tune FILE"
        )
    return database


def _tell(passed_over: Sequence[TCError]) -> None:
    """Of measurements that cannot be read, and why the first cannot."""
    if passed_over:
        why = passed_over[0].cause
        say(f"{len(passed_over)} measurements are passed over: {why}")


def _rows(found: Iterable[Measurement]) -> Iterator[tuple[str, ...]]:
    """A row for each problem on each device."""

    def key(each: Measurement) -> tuple[str, ...]:
        problem = each.problem
        shapes = ", ".join(f"{n}({', '.join(map(str, s))})" for n, s in problem.shapes if s)
        scalars = ", ".join(f"{name}={value}" for name, value in problem.scalars)
        sizes = ", ".join(filter(None, (shapes, scalars)))
        device = str(each.device.get("name") or each.device.get("kind"))
        return problem.entry, sizes, problem.backend, device

    for head, members in groupby(sorted(found, key=key), key):
        own = list(members)
        ran = [each.trial for each in own if each.trial.failure is None]
        won = [each for each in own if each.confirmed]
        said = ""
        if won:
            said = "a plan" if any(each.trial.options.plan for each in won) else "tc's choice"
        last = time.strftime("%Y-%m-%d", time.gmtime(max(each.at for each in own)))
        fastest = f"{scaled(min(trial.time for trial in ran))}s" if ran else ""
        plans = {trial.options for trial in ran if trial.options.plan is not None}
        yield (*head, str(len(plans)), str(len(own) - len(ran)), fastest, said, last)


@contextmanager
def _written(name: str) -> Iterator[TextIO]:
    """A file to write anew; an error where the file is a database."""
    if name == "-":
        yield sys.stdout
        return
    try:
        if is_database(Path(name)):
            raise InputError(
                f"{name} is a database, and stays as it is",
                repair=f"tc tune db export {shlex.quote(f'{name}.jsonl')}",
            )
        with whole_file(name) as file:
            text = TextIOWrapper(file, encoding="utf-8")
            yield text
            text.detach()  # what is left to be written is in the file now, which stays open
    except OSError as error:
        raise UsageError(f"cannot write {name}: {error.strerror or error}") from error


@contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    """An open file whose lines are read one by one; a line that is not UTF-8 is refused."""
    if name == "-":
        if sys.stdin is None:
            raise UsageError("cannot read -: there is no standard input")
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
        yield sys.stdin
        return
    try:
        with open(name, encoding="utf-8", errors="surrogateescape") as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
