"""`python -m tests.record`: does tc still make the texts that are on record?

On record are digests of the C and numba texts of the programs of `tests/programs`, those of `found`
included, and of the benchmark's kernels, whose mapped trees are there as well: by default and with
every preset, for processors that are given field by field, so that the machine plays no part.
Nothing is compiled. What differs is named, and the status is 1.

    --only mm              only the programs with this in their names
    --show mm              writes their texts into build/record, to be compared between commits
    --store                makes what there is now the record (with --only: of these programs)
    -j 2                   in two processes

The record stands while code moves; it goes when the reorganisation is at its end.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.record.digests import Digests, differences, digests_of, read, texts_of, write
from tests.record.texts import SUBJECTS

SUFFIXES = {"c": "c", "numba": "py", "tree": "txt"}
SHOWN = 100
"""Lines of differences."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="of a program's name")
    parser.add_argument("--show", metavar="SUBSTRING", help="write texts instead")
    parser.add_argument("--to", type=Path, default=Path("build/record"), help="where --show writes")
    parser.add_argument("--store", action="store_true", help="write the digests anew")
    parser.add_argument("-j", dest="processes", type=int, default=1, help="how many processes")
    chosen = parser.parse_args(arguments)
    part = chosen.only if chosen.show is None else chosen.show
    names = [name for name in SUBJECTS if part in name]
    if not names:
        parser.error(f"no program has {part!r} in its name; there are {', '.join(SUBJECTS)}")
    if chosen.show is not None:
        show(names, chosen.to)
        return 0
    found, stored = digests(names, chosen.processes), read()
    concerned = {k: v for k, v in stored.items() if part in k.split()[0]}
    lines = differences(concerned, found)
    if len(lines) > SHOWN:
        print(f"{len(lines) - SHOWN} more, and")
    print("\n".join([*lines[:SHOWN], f"{len(lines)} of {len(found)} differ"]))
    if chosen.store:
        write({**{k: v for k, v in stored.items() if k not in concerned}, **found})
        return 0
    return 1 if lines else 0


def digests(names: list[str], processes: int) -> Digests:
    if processes == 1:
        each = map(digests_of, names)
        return {key: value for one in each for key, value in one.items()}
    with ProcessPoolExecutor(processes) as pool:
        return {key: value for one in pool.map(digests_of, names) for key, value in one.items()}


def show(names: list[str], folder: Path) -> None:
    """One file a text: FOLDER/NAME/DEVICE-OPTIONS.c, .py and .txt (the tree)."""
    for name in names:
        for key, texts in texts_of(name).items():
            _, device, options = key.split()
            for kind, text in texts.items():
                path = folder / name / f"{device}-{options}.{SUFFIXES[kind]}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    print(f"{len(names)} programs: {folder}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
