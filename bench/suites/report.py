"""The tables of the suites: means over each, then every program."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.cpu_report import geometric_mean
from bench.suites.record import Record
from bench.timing import milliseconds

FLOOR = 0.95
HOW = """\
`ratio` is the time of the fastest library over tc's, `dense` that of the fastest library whose
result is an array as asked for: numpy and torch return many contractions as permuted views. The
libraries take turns; before each the machine rests for 150 ms and the library is called for 30 ms,
but for one thread, whose time of the processor is taken. Times are medians, unless the line above
says otherwise. Each result of tc was compared with the reference, at the sizes measured and at
small ones under `tc.error_bound`. Means are geometric, over all programs that were measured: TCCG
has 24, NPBench 35 of one def and 19 others, KernelBench 55, and of products there are 397. A
library without a column took no part."""


def report(heading: str, records: Sequence[Record]) -> str:
    """Markdown."""
    suites = {record.suite: None for record in records}
    parts = ["# Suites", heading, HOW, summary(records)]
    for suite in suites:
        members = [record for record in records if record.suite == suite]
        parts.append(f"## {suite}\n\n{table(members)}")
    notes = [
        f"- {r.suite}, {r.name}: {peer}: {why}" for r in records for peer, why in r.notes.items()
    ]
    parts += ["## Without a time\n\n" + "\n".join(notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def summary(records: Sequence[Record]) -> str:
    """A line for each suite: how many results are right, the means, and what is behind."""
    lines = []
    for suite in dict.fromkeys(record.suite for record in records):
        members = [record for record in records if record.suite == suite]
        ratios = {record.name: record.ratio for record in members if record.ratio is not None}
        dense = [record.dense_ratio for record in members if record.dense_ratio is not None]
        under = sorted((ratio, name) for name, ratio in ratios.items() if ratio < FLOOR)
        listed = ", ".join(f"{name} {ratio:.2f}" for ratio, name in under)
        lines.append(
            [
                suite,
                f"{sum(record.right for record in members)} of {len(members)}",
                _mean(list(ratios.values())),
                _mean(dense),
                f"{len(under)}{': ' if under else ''}{listed}",
            ]
        )
    headers = ["suite", "right", "mean", "mean, dense", f"under {FLOOR}"]
    return str(tabulate(lines, headers, "github", disable_numparse=True))


def _mean(ratios: Sequence[float]) -> str:
    return f"{geometric_mean(ratios):.2f}" if ratios else "-"


def table(records: Sequence[Record]) -> str:
    """A line for each program: ratios, then the time of each peer. A column without a value is left
    out."""
    peers = list(dict.fromkeys(peer for record in records for peer in record.seconds))
    lines = [
        [
            record.name,
            record.sizes,
            _number(record.ratio),
            _number(record.dense_ratio),
            record.fastest or "-",
            *(milliseconds(record.seconds[p]) if p in record.seconds else "-" for p in peers),
            "" if record.beyond == 0 else str(record.beyond),
        ]
        for record in records
    ]
    headers = ["program", "sizes", "ratio", "dense", "fastest", *peers, "wrong elements"]
    kept = [n for n in range(len(headers)) if _told(headers[n], [line[n] for line in lines])]
    return str(
        tabulate(
            [[line[n] for n in kept] for line in lines],
            [headers[n] for n in kept],
            "github",
            disable_numparse=True,
        )
    )


def _told(header: str, cells: Sequence[str]) -> bool:
    """Whether a column has anything; that of the ratio stands in any case."""
    return header == "ratio" or any(cell not in ("", "-") for cell in cells)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def line(record: Record) -> str:
    """One program, as it is printed when it was measured."""
    times = ", ".join(f"{peer} {milliseconds(s)}" for peer, s in record.seconds.items())
    dense = "" if record.dense_ratio is None else f", dense {record.dense_ratio:.2f}"
    wrong = f", WRONG in {record.beyond} elements" if record.beyond else ""
    notes = "".join(f"; {peer}: {why}" for peer, why in record.notes.items())
    least = record.with_least().ratio
    ratio = f"ratio {_number(record.ratio)} ({record.fastest or '-'}), of least {_number(least)}"
    ratio += dense
    return f"{record.suite}  {record.name}  {record.sizes}: {ratio}: {times}{wrong}{notes}"
