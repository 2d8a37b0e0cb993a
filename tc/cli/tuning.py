"""`tc tune`: the search for the fastest plan of a def, and what it found."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tc import api
from tc.cli import INTERRUPTED
from tc.cli.arguments import read_call, read_options
from tc.cli.terminal import print_line
from tc.tuning.database import TuningDatabase
from tc.tuning.database_file import VARIABLE
from tc.tuning.reporting.picture import check_picture, draw
from tc.tuning.reporting.report import report
from tc.tuning.tuner import TuningResult


def tune(arguments: argparse.Namespace) -> int:
    options, call = read_options(arguments), read_call(arguments)
    picture = None if arguments.plot is None else Path(arguments.plot)
    if picture is not None:
        check_picture(picture)
    bounded = arguments.max_candidates is not None or arguments.generations is not None
    seconds = arguments.max_seconds or (None if bounded else 60.0)
    _, result = api.autotune(
        call.source,
        call.values,
        entry=arguments.entry,
        backend=arguments.backend,
        options=options,
        search=arguments.search,
        seed=arguments.seed,
        max_seconds=seconds,
        max_candidates=arguments.max_candidates,
        generations=arguments.generations,
        database=arguments.database,
    )
    values = " ".join(f"{name}={shlex.quote(text)}" for name, text in call.pairs.items())
    print_line(f"{result.problem.entry} on {arguments.backend}: {values}")
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
