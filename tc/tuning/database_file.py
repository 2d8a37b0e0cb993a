"""The file of the tuning database: opened, made, brought up to date; what may be wrong with it.

Each operation opens the file anew: connections must not cross a fork, and hold no locks meanwhile.
Kernels are files of their own (`tc.runtime.cache`), and not rows here: a first call reads two of
them. To open a database, to read a row and to mark it as used takes 1.3 ms at least, and 20 ms more
where `sqlite3` is loaded first; a file takes 0.04 ms (an AMD EPYC, a local disk).
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import platformdirs

from tc.errors import InputError
from tc.process.forks import step
from tc.process.uninterrupted import load

if TYPE_CHECKING:
    from sqlite3 import Connection

VARIABLE = "TC_TUNE_DB"
"""The environment variable that names the file."""

APPLICATION = 0x74637475
"""What tells databases of tc from others."""

PATIENCE_SECONDS = 10.0
"""Seconds to wait for another process that writes."""

_MAGIC = b"SQLite format 3\0"
"""What files of SQLite begin with."""

MIGRATIONS = (
    """
    CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE problems (
        id INTEGER PRIMARY KEY,
        program TEXT NOT NULL,
        backend TEXT NOT NULL,
        checked INTEGER NOT NULL,
        given TEXT NOT NULL,
        shapes TEXT NOT NULL,
        scalars TEXT NOT NULL,
        strides TEXT NOT NULL,
        names TEXT NOT NULL,
        problem TEXT NOT NULL,
        UNIQUE (program, backend, checked, given, scalars, shapes, strides, names)
    );
    CREATE TABLE trials (
        id INTEGER PRIMARY KEY,
        problem INTEGER NOT NULL REFERENCES problems,
        device INTEGER NOT NULL REFERENCES texts,
        versions INTEGER NOT NULL REFERENCES texts,
        options INTEGER NOT NULL REFERENCES texts,
        time REAL,
        confirmed INTEGER NOT NULL,
        samples TEXT NOT NULL,
        failure TEXT,
        at REAL NOT NULL,
        search TEXT NOT NULL,
        seed TEXT NOT NULL,
        UNIQUE (problem, device, options, at, samples, confirmed)
    );
    CREATE INDEX fastest ON trials (problem, device, options, confirmed, time);
    """,
    """
    ALTER TABLE trials ADD COLUMN base INTEGER REFERENCES texts;
    DROP INDEX fastest;
    CREATE INDEX fastest ON trials (problem, device, base, options, confirmed, time);
    CREATE INDEX verdicts ON trials (problem, device, base, options) WHERE confirmed;
    CREATE INDEX alike ON problems (program, backend, checked, scalars, shapes, strides, given);
    """,
)
"""From each version to the next; the first makes what a file of version 1 has. A trial without a
base is one of the default options."""


def default_path() -> Path | None:
    """The user's file: the one that TC_TUNE_DB names, or in the user's data directory; None where
    there is no home."""
    chosen = os.environ.get(VARIABLE)
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        path = Path(platformdirs.user_data_dir("tc", appauthor=False), "tuned.db")
    except (RuntimeError, OSError, KeyError):  # there is no home, and no such user
        return None
    return path if path.is_absolute() else None


@contextmanager
def reading(path: Path, *, patience: float = PATIENCE_SECONDS) -> Iterator[Connection]:
    """The file as it is now, brought up to date; InputError for a file that tc cannot read."""
    with _connected(path, patience, _mode(path)) as connection:
        is_current = _version(connection, path) == len(MIGRATIONS)
        if is_current:
            yield connection
    if not is_current:
        with _connected(path, patience, "mode=rw") as connection:
            _migrate(connection, path)
            yield connection


@contextmanager
def writing(path: Path) -> Iterator[Connection]:
    """A transaction: all of what is done in it stands in the file in the end, or nothing. Makes the
    file where there is none. InputError where that cannot be, or the file cannot be read."""
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise InputError(
            f"nothing can be written to {path}: {error.strerror or error}",
            repair=f"export {VARIABLE}=~/tuned.db",
        ) from error
    with _connected(path, PATIENCE_SECONDS, "mode=rw") as connection:
        if _version(connection, path) < len(MIGRATIONS):
            _migrate(connection, path)
        with _transaction(connection):
            yield connection


def shrink(path: Path) -> None:
    """Gives back the space of what was removed, where there is room to do that, and nobody else is
    at it."""
    with suppress(InputError), _connected(path, PATIENCE_SECONDS, "mode=rw") as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def is_database(path: Path) -> bool:
    """Whether a file is one of SQLite, of whatever program."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _mode(path: Path) -> str:
    """How a file is opened to be read: where nobody can write, nobody keeps a log beside it."""
    can_write = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return "mode=ro" if can_write or os.path.exists(f"{path}-wal") else "immutable=1"


@contextmanager
def _connected(path: Path, patience: float, mode: str) -> Iterator[Connection]:
    _check_kind(path)
    sqlite = load("sqlite3")
    where = f"file:{quote(str(path))}?{mode}"
    try:
        with (
            step(),
            closing(
                sqlite.connect(where, timeout=patience, isolation_level=None, uri=True)
            ) as connection,
        ):
            connection.text_factory = _text  # one that is none is the matter of its row
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA foreign_keys=ON")
            yield connection
    except sqlite.DatabaseError as error:
        if isinstance(error, sqlite.ProgrammingError):
            raise
        raise fault_of(error, path, patience) from error
    except UnicodeDecodeError as error:  # of what SQLite says, which cites what is damaged
        raise fault_of(error, path, patience) from error


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _check_kind(path: Path) -> None:
    """InputError for what is no regular file: who opens a pipe waits for whoever writes to it."""
    for end in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            if not stat.S_ISREG(os.stat(f"{path}{end}").st_mode):
                raise InputError(
                    f"{path}{end} is no regular file, and cannot be a database",
                    repair=f"export {VARIABLE}=~/tuned.db",
                )


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself may have rolled it back
            connection.execute("ROLLBACK")
        raise


def _version(connection: Connection, path: Path) -> int:
    """The version of a file, 0 for an empty one; InputError for files that are not for this tc."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application or version or tables:
            raise InputError(
                f"{path} is a database of another program, and stays as it is",
                repair=f"export {VARIABLE}={shlex.quote(f'{path}.tc')}",
            )
        return 0
    if version > len(MIGRATIONS):
        raise InputError(
            f"{path} was written by a newer tc: it has version {version}, and this tc reads "
            f"versions up to {len(MIGRATIONS)}; it stays as it is",
            repair="pip install --upgrade tensor-comprehensions",
        )
    return int(version)


def _migrate(connection: Connection, path: Path) -> None:
    """Brings a file up to date, at once; another process may just have done so."""
    with suppress(load("sqlite3").OperationalError):
        connection.execute("PRAGMA journal_mode=WAL")
    with _transaction(connection):
        for number in range(_version(connection, path), len(MIGRATIONS)):
            for statement in MIGRATIONS[number].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")


def damage_of(path: Path, error: InputError) -> InputError:
    """The error of a damaged row of a file, with the command that removes the row."""
    return InputError(
        f"a row of the tuning database {path} cannot be read ({error.cause}); it is passed over, "
        "and so are others like it",
        repair=f"{VARIABLE}={shlex.quote(str(path))} tc tune db prune --keep 1000",
    )


def fault_of(error: Exception, path: Path, patience: float = PATIENCE_SECONDS) -> InputError:
    """An error of SQLite as an InputError with a repair."""
    for known, (told, repair) in _FAULTS.items():
        if known in str(error):
            where = shlex.quote(str(path))
            cause = told.format(path=path, error=error, patience=patience)
            return InputError(cause, repair=repair.format(where))
    return InputError(
        f"{path} is damaged, and stays as it is: {error}",
        repair=f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}",
    )


_FAULTS = {
    "disk is full": (
        "there is no space left for {path}",
        f"{VARIABLE}={{}} tc tune db prune --keep 10",
    ),
    "disk I/O error": ("{path} cannot be read or written: {error}", "df {}"),
    "readonly": ("nothing can be written to {path}", "chmod u+w {}"),
    "unable to open": ("{path} cannot be opened", "ls -l {}"),
    "locked": ("another process has kept {path} for {patience:g} s", "fuser {}"),
}
"""By what is in SQLite's messages: the cause, and the repair."""
