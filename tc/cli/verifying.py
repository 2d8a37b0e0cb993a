"""`tc verify`: whether a kernel of a Python file computes what a text says."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from tc.cli.arguments import read_text
from tc.cli.parser import UsageError
from tc.cli.terminal import print_line
from tc.verification.verify import verify as verified
from tc.wording import nearest


def verify(arguments: argparse.Namespace) -> int:
    kernel = kernel_of(arguments.kernel)
    verdict = verified(
        kernel,
        read_text(arguments.file),
        entry=arguments.entry,
        sizes=arguments.sizes or None,
        like=arguments.like,
        compute=arguments.compute,
        gradient=arguments.gradient,
        isolate=not arguments.no_isolate,
        seconds=arguments.seconds,
        same_bits=arguments.same_bits,
    )
    print_line(verdict.to_json() if arguments.json else str(verdict))
    if arguments.script and verdict.findings:
        Path(arguments.script).write_text(verdict.findings[0].script)
    return 0 if verdict else 1


def kernel_of(name: str) -> Any:
    """The kernel called "FILE.py:NAME" or "MODULE:NAME"; UsageError where there is none."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise UsageError(f"{name}: a kernel is FILE.py:NAME, or MODULE:NAME")
    found: Any = _module(place)
    for part in attribute.split("."):
        if not hasattr(found, part):
            close = nearest(part, [n for n in dir(found) if not n.startswith("_")])
            meant = f"; did you mean {close}?" if close else ""
            raise UsageError(f"{place} has no {part}{meant}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{name} is a value of the type {type(found).__name__}, and no kernel")
    return found


def _module(place: str) -> Any:
    path = Path(place)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(place)
        if not path.is_file():
            raise UsageError(f"{place}: there is no such file")
        sys.path.insert(0, str(path.resolve().parent))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{place}: {type(error).__name__}: {error}") from error
    return module
