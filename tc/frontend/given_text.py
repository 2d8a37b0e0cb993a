"""The program that a caller gives: a text, the path of a file with one, or a `Source`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias

from tc.errors import InputError
from tc.frontend.tokens import RESERVED
from tc.process.call_sites import source_of
from tc.source import ENCODING, Source

Text: TypeAlias = str | os.PathLike[str] | Source
FILE_NAME = re.compile(r"[^\n{}()]*\.(?:tc|sac)")
"""What no program is: a def has parentheses and braces, and in SaC's notation a name follows no
dot."""


def given_source(src: object) -> Source:
    """The source that a caller gives, as text, path or `Source`; InputError for anything else."""
    if isinstance(src, Source):
        return src
    if isinstance(src, str):
        if FILE_NAME.fullmatch(src):
            raise InputError(
                f"{src!r} is the name of a file, where the program's text is asked for",
                repair=f"pathlib.Path({src!r})",
            )
        return source_of(str(src))  # a subclass may mean more
    if isinstance(src, os.PathLike):
        return _read(os.fspath(src))
    cause = "the program is text, the path of a file with it, or a tc.Source, and not of type "
    cause += type(src).__name__
    if isinstance(src, bytes):
        raise InputError(cause, repair="text.decode()")
    if callable(src):
        cause += ": nothing of tc is a decorator, and no function of Python is translated"
        name = getattr(src, "__name__", "f")
        name = name if name.isidentifier() and name not in RESERVED else "f"
        text = f"def {name}(float(N) x) -> (y) {{ y(i) = 2 * x(i) }}"
        raise InputError(cause, repair=f'{name} = tc.compile("{text}")')
    raise InputError(cause, repair='pathlib.Path("f.tc")')


def _read(path: str | bytes) -> Source:
    name = os.fsdecode(path)
    try:
        return Source(Path(name).read_text(encoding=ENCODING), name)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is no text in UTF-8: byte {error.start} is {error.object[error.start]}"
        ) from error
