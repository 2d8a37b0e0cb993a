"""The kinds of files, and what is asked of a damaged one."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import signal
import sys
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np

import tc
from tc import stored_templates
from tc.backends.base import KernelText
from tc.backends.numba import objects
from tc.cli import main
from tc.device import host
from tc.dynamic import DynamicSizes
from tc.kernel.sizes import at_sizes
from tc.runtime import cache
from tc.runtime.cache import KernelStore
from tc.runtime.object_files import ObjectFile
from tc.semantics.program import Literal, Tensor
from tc.stored_texts import bytes_of, text_of
from tc.tuning import lookup
from tc.tuning.database import Measurement, TuningDatabase
from tc.tuning.exchange import RefusedLine, from_lines, to_line
from tc.tuning.machines import device_value
from tests.support.tunings import MM, SIZES, measurement_of, problem_of, tiled

CASE_SECONDS = 120
"""Seconds after which a case counts as hanging."""

TEXTS = (
    "# a product, ü\ndef mm(float(M,K) A, float(K,N) B) -> (C) {\n"
    "  C(i,j) +=! A(i,k) * B(k,j)\n}\n",
    "# tc: N=5 K=2\ndef c(double(N) x, double(K) w) -> (y) {\n"
    "  y(i) +=! x(i + k) * w(k)  # a window\n}\n",
    "def s(float(N,M) x) -> (m, o) {\n  m(i) max=! x(i,j)\n"
    "  o(i,j) = x(i,j) > 0.5 ? exp(x(i,j) - m(i)) : -1e-3 * j where i in 0:N\n}\n",
    "def g(int32(N) at, float(R) t) -> (o) { o(i) = t(at(i)) }\n"
    "def f(int32(N) at, float(R) t) -> (o) { o = g(at, t) }\n",
)

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Finding(AssertionError):
    """What should not have come of a damaged file."""


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content with one byte, or one bit, changed, cut out or put in."""
    at = rng.randrange(len(content))
    byte = bytes([rng.randrange(256)])
    match rng.randrange(5):
        case 0:
            return content[:at] + content[at + 1 :]
        case 1:
            return content[:at] + byte + content[at:]
        case 2:
            return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        case 3:  # a byte that stands elsewhere in it: of texts, one that means something
            at, other = sorted((at, rng.randrange(len(content))))
            return content[:at] + content[other : other + 1] + content[at + 1 :]
        case _:
            return content[:at] + byte + content[at + 1 :]


class Kind(ABC):
    """A kind of file. `folder` is its own."""

    name: ClassVar[str]
    drawn: ClassVar[int] = 60
    """Cases in the tests that always run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def look(self, rng: random.Random) -> str:
        """Damages a file and has it read: what came of it, in a word. Finding, or any exception,
        for what should not."""


class StoredKernels(Kind):
    """Texts and object code on disk: none that was damaged is given back."""

    name = "kernels"
    drawn = 300

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        cache.enable(folder)
        try:
            self.x = np.arange(8, dtype=np.float32)
            self.call()
        finally:
            cache.disable()
        self.whole = {path: path.read_bytes() for path in folder.iterdir()}

    def call(self) -> None:
        text = "def poly(float(N) x) -> (y) { y(i) = 3 * x(i) * x(i) - 2 * x(i) + 1 }"
        if not (tc.compile(text)(self.x) == 3 * self.x * self.x - 2 * self.x + 1).all():
            raise Finding("a wrong number")

    def look(self, rng: random.Random) -> str:
        path = rng.choice(sorted(self.whole))
        content = damaged(rng, self.whole[path])
        path.write_bytes(content)
        if content == self.whole[path]:
            return "unchanged"
        if rng.randrange(40) == 0:
            cache.enable(self.folder)
            try:
                self.call()
            finally:
                cache.disable()
            if KernelStore(self.folder).get(path.stem) is None:
                raise Finding("the entry was not made again")
            self.whole[path] = path.read_bytes()
            return "made again"
        if KernelStore(self.folder).get(path.stem) is not None or path.exists():
            raise Finding("a damaged entry was taken")
        return "refused"


class KernelForms(Kind):
    """The same without the checksum, as if the file had been let in wrongly: what is read has the
    form of a kernel, and nothing is run."""

    name = "forms"
    drawn = 300

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        cases: list[dict[str, Any]] = [
            {"backend": "numba"}, {"backend": "c"}, {"backend": "opencl"}, {"backend": "cuda"},
        ]  # fmt: skip
        self.texts = [bytes_of(tc.emit(MM, SIZES, **case)) for case in cases]
        kept: dict[str, bytes] = {}
        cache.enable_in_memory(kept)
        try:
            tc.compile(MM)(np.ones((3, 4), np.float32), np.ones((4, 5), np.float32))
        finally:
            cache.disable()
        self.objects = [data for data in kept.values() if objects.object_of(data) is not None]
        self.dynamic, self.templates = self._templates()

    def _templates(self) -> tuple[DynamicSizes, bytes]:
        function = tc.compile(MM, dynamic={"M", "N"})
        for m in (3, 40):
            function(np.ones((m, 4), np.float32), np.ones((4, 2 * m), np.float32))
        made = function._specialiser.templates
        assert made is not None
        (family,) = made.families.values()
        return made.dynamic, stored_templates.bytes_of([each.of for each in family.templates])

    def look(self, rng: random.Random) -> str:
        read: object
        which = rng.randrange(3)
        if which == 2:
            found = templates_of_damaged(rng, self.templates, self.dynamic)
            return "read" if found else "refused"
        if which:
            read = objects.object_of(damaged(rng, rng.choice(self.objects)))
            kind: type = ObjectFile
        else:
            read, kind = text_of(damaged(rng, rng.choice(self.texts))), KernelText
        if read is not None and not isinstance(read, kind):
            raise Finding(f"a {type(read).__name__} was read")
        return "refused" if read is None else "read"


def templates_of_damaged(rng: random.Random, whole: bytes, dynamic: DynamicSizes) -> int:
    """How many templates are read where their bytes, or what these are once they are unzipped, were
    damaged: such as have their form, and admit their hints."""
    unpacked = cache.unpacked("templates", whole)
    assert unpacked is not None
    header, body = unpacked
    if rng.randrange(4):
        content = zlib.compress(damaged(rng, zlib.decompress(body)), 1)
        stored = cache.packed("templates", {"backend": header["backend"]}, content)
    else:
        stored = damaged(rng, whole)
    found = stored_templates.templates_of(stored, dynamic)
    for template in found:
        if not template.admits(template.hints) or not template.distance(template.hints) >= 1:
            raise Finding("a template was read that does not admit its hints")
        at_sizes(template.text.kernel, template.hints)
    return len(found)


class Databases(Kind):
    """The tuning database: calls are right and have one warning at most, and all that reads it has
    an error of tc's own at most."""

    name = "databases"
    drawn = 20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        whole = folder / "whole.db"
        device = device_value(host(), "numba")
        TuningDatabase(whole).add(
            [
                measurement_of(
                    problem_of(MM, {**SIZES, "M": size}), tiled("i", tile), 1.0 / tile,
                    confirmed=True, device=device,
                )
                for size in (64, 60, 40) for tile in (8, 16)
            ]
        )  # fmt: skip
        assert not Path(f"{whole}-wal").exists()
        self.whole = whole.read_bytes()
        self.used = self._used_pages()
        rng = np.random.default_rng(1)
        self.a = rng.integers(0, 9, (64, 48)).astype(np.float32)
        self.b = rng.integers(0, 9, (48, 40)).astype(np.float32)

    def _used_pages(self) -> list[int]:
        """Where something stands: most of a file is zeros, of which damage is seldom noticed."""
        return [at for at, byte in enumerate(self.whole) if byte]

    def look(self, rng: random.Random) -> str:
        path = self.folder / "tuned.db"
        for left in self.folder.glob("tuned.db*"):
            left.unlink()
        content = bytearray(self.whole)
        if rng.randrange(4):
            content[rng.choice(self.used)] = rng.randrange(256)
            path.write_bytes(content)
        else:
            path.write_bytes(damaged(rng, self.whole))
        lookup._WARNED.clear()
        with environment(TC_TUNE_DB=str(path)), told_by_tc() as caught:
            explanation = tc.explain(MM, [self.a, self.b])
            if rng.randrange(10) == 0:
                found = tc.compile(MM)(self.a, self.b)
                if not (found == self.a @ self.b).all():
                    raise Finding("a wrong number")
        if len(caught) > 1:
            raise Finding(f"{len(caught)} warnings")
        database = TuningDatabase(path)
        came = "passed over" if caught else "used" if told(explanation) else "not found"
        for act in (
            lambda: list(database.measurements([].append)),
            lambda: database.best(problem_of(MM, SIZES), host()),
            lambda: database.add([measurement_of(problem_of(MM, SIZES), tiled("i", 4), 1.0)]),
            lambda: database.prune(1),
        ):
            with contextlib.suppress(tc.TCError), told_by_tc():
                act()
        return came


class Lines(Kind):
    """Lines of JSON that are imported: each is a measurement, or refused."""

    name = "lines"
    drawn = 100

    def look(self, rng: random.Random) -> str:
        one, two = (
            to_line(measurement_of(problem_of(MM, SIZES), tiled("i", tile), 1.0)).encode()
            for tile in (2, 4)
        )
        file = b"\n".join((damaged(rng, one), two))
        lines = file.decode(errors="surrogateescape").split("\n")
        *found, last = from_lines(lines)
        if last != measurement_of(problem_of(MM, SIZES), tiled("i", 4), 1.0):
            raise Finding("a good line is lost")
        if not all(isinstance(each, Measurement | RefusedLine) for each in found):
            raise Finding("something else was read")
        database = TuningDatabase(self.folder / "lines.db")
        right = [each for each in (*found, last) if isinstance(each, Measurement)]
        if rng.randrange(10) == 0:
            database.add(right)
        return "refused" if any(isinstance(each, RefusedLine) for each in found) else "read"


class Plans(Kind):
    """Plans and options: refused by BackendError, or the result is right."""

    name = "plans"
    drawn = 40

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rng = np.random.default_rng(1)
        self.a = rng.integers(0, 9, (9, 17)).astype(np.float32)
        self.b = rng.integers(0, 9, (17, 20)).astype(np.float32)
        plan = tc.Plan.from_json(str(tc.explain(MM, [self.a, self.b], stage="plan")))
        self.files = [
            str(plan).encode(),
            str(tiled("i", 4).plan).encode(),
            tc.Options(plan=plan, threads=2).to_json().encode(),
            json.dumps({"mapping": {"rows": 4, "vectors": 2}, "threads": 1}).encode(),
        ]

    def look(self, rng: random.Random) -> str:
        number = rng.randrange(len(self.files))
        content = damaged(rng, self.files[number])
        file = self.folder / "plan.json"
        file.write_bytes(content)
        try:
            text = content.decode()
            if number < 2:
                options = tc.Options(plan=tc.Plan.from_json(text))
            else:
                options = tc.Options.from_json(text)
            with told_by_tc():
                found = tc.compile(MM, options=options)(self.a, self.b)
        except UnicodeDecodeError:
            return "no text"
        except tc.InternalError:
            raise
        except tc.TCError:
            return "refused"
        if not (found == self.a @ self.b).all():
            raise Finding(f"a wrong number with {text}")
        return "right"


class Arrays(Kind):
    """.npy files, and .npz ones, for `tc run`: the result is that of what numpy reads, or there is
    an error in a line."""

    name = "arrays"
    drawn = 150

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file, self.out = folder / "A.npy", folder / "out"
        (folder / "mm.tc").write_text(MM)
        files = []
        for array in (
            np.arange(12, dtype=np.float32).reshape(3, 4),
            np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
        ):
            file = io.BytesIO()
            np.save(file, array)
            files.append(file.getvalue())
        file = io.BytesIO()
        np.savez(file, A=np.ones((3, 4), np.float32))
        self.files = [*files, file.getvalue()]

    def look(self, rng: random.Random) -> str:
        whole = rng.choice(self.files)
        content = damaged(rng, whole)
        if rng.randrange(2) and whole is not self.files[-1]:  # most is told by the header
            content = damaged(rng, whole[:128]) + whole[128:]
        self.file.write_bytes(content)
        shutil.rmtree(self.out, ignore_errors=True)
        words = ["run", str(self.folder / "mm.tc"), f"A={self.file}", "B=ones:4x5"]
        status, errors = command([*words, "--backend", "interpret", "--out", str(self.out)])
        if status == 0:
            read = np.load(self.file, allow_pickle=False)
            with np.errstate(all="ignore"):
                sums = read.astype(np.float64).sum(axis=1).astype(np.float32)
            due = np.broadcast_to(sums[:, None], (len(read), 5))
            found = np.load(self.out / "C.npy")
            if not np.allclose(found, due, rtol=1e-5, equal_nan=True):
                raise Finding(f"a wrong number: {found} for {due}")
            return "right"
        if status != 1 or not errors.startswith("InputError"):
            raise Finding(f"status {status}: {errors}")
        return "refused"


class Programs(Kind):
    """Texts: checked and formatted; one that is right still means the same once it is formatted."""

    name = "programs"
    drawn = 80

    def look(self, rng: random.Random) -> str:
        file = self.folder / "p.tc"
        file.write_bytes(damaged(rng, rng.choice(TEXTS).encode()))
        before = file.read_bytes()
        status, errors = command(["check", str(file)])
        if status not in (0, 1, 2) or (status and not errors):
            raise Finding(f"status {status}: {errors}")
        formatted, errors = command(["fmt", "--write", str(file)])
        if formatted == 2 or (status == 0 and formatted):
            if status == 2 and file.read_bytes() == before:
                return "no text"
            raise Finding(f"fmt has status {formatted}: {errors}")
        if formatted and file.read_bytes() != before:
            raise Finding("fmt has changed what it refuses")
        if status:
            return "refused"
        again, errors = command(["check", str(file)])
        if again:
            raise Finding(f"a formatted text is refused: {errors}")
        old, new = (results(each) for each in (before.decode("utf-8-sig"), file.read_text("utf-8")))
        if old != new:
            raise Finding("a formatted text means something else")
        return "right"


KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (StoredKernels, KernelForms, Databases, Lines, Plans, Arrays, Programs)
}


def told(explanation: tc.Explanation) -> bool:
    return explanation.trace is not None and bool(explanation.trace.told)


def results(text: str) -> list[object]:
    """What the defs of a text give for small inputs, or what their errors are called."""
    found: list[object] = []
    with told_by_tc():
        functions = tc.define(text, backend="interpret")
        for name in functions:
            function = functions[name]
            rng = np.random.default_rng(2)
            try:
                tensors = (function.program.tensors[each] for each in function.program.inputs)
                inputs = [given(rng, tensor) for tensor in tensors]
                outputs = function(*inputs)
            except (tc.TCError, MemoryError) as error:  # such as a literal size of 10**12
                found.append((name, type(error)))
                continue
            arrays = outputs if isinstance(outputs, tuple) else (outputs,)
            found.append((name, [np.asarray(each).tobytes() for each in arrays]))
    return found


def given(rng: np.random.Generator, tensor: Tensor) -> Any:
    """Whole numbers from 0 to 3; sizes are 4."""
    dims = (int(dim.value) if isinstance(dim, Literal) else 4 for dim in tensor.shape or ())
    array = rng.integers(0, 4, tuple(dims)).astype(tensor.dtype.numpy)
    return array if tensor.rank else array.item()


def command(words: list[str]) -> tuple[int, str]:
    """The status of a command and its output, which must be safe for a terminal."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(words)
    if _CONTROL.search(errors.getvalue()):
        raise Finding(f"a terminal would obey {errors.getvalue()!r}")
    if "Traceback" in errors.getvalue():
        raise Finding(errors.getvalue())
    return status, errors.getvalue()


@contextlib.contextmanager
def told_by_tc() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings, all of them tc's."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    others = [each for each in caught if each.category is not tc.TCWarning]
    if others:
        raise Finding(f"warnings of others: {others[0].message}")
    if any("tc itself is at fault" in str(each.message) for each in caught):
        raise Finding(str(caught[0].message))


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    with mock.patch.dict("os.environ", variables):
        yield


@contextlib.contextmanager
def patience(seconds: int = CASE_SECONDS) -> Iterator[None]:
    """Finding for what takes longer, where the system has alarms."""
    if sys.platform == "win32":
        yield
        return

    def rings(*_: object) -> None:
        raise Finding(f"no end within {seconds} s")

    before = signal.signal(signal.SIGALRM, rings)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def case(kind: Kind, seed: str) -> str:
    """Runs one case; an error has a note with the seed that repeats the case."""
    try:
        with patience():
            return kind.look(random.Random(f"{kind.name} {seed}"))
    except BaseException as error:
        if sys.version_info >= (3, 11):
            error.add_note(f"python -m tests.damaged --kind {kind.name} --only {seed}")
        raise
