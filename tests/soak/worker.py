"""The process that acts: `python -m tests.soak.worker SEED ACTIONS SECONDS`.

The worker writes a record, one line of JSON, before each action. The campaign reads the records,
and so knows the action at which a worker died. All other output of a worker is about its death.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tc
from tc.process import forks
from tests.soak.programs import Subject, WrongResult, subject

MAX_SUBJECTS = 16
WRONG, RAISED = 3, 4  # statuses


class Stop(Exception):
    """What signal handlers raise."""


def note(act: str, **about: Any) -> None:
    """A record, whole even among those of threads and forks: a pipe takes short ones at once."""
    record = {"act": act, "pid": os.getpid(), "thread": threading.get_ident(), **about}
    os.write(1, f"\n{json.dumps(record)}\n".encode()[:4000])


class Worker:
    def __init__(self, seed: str, actions: int, patience: int) -> None:
        self.draw, self.actions, self.patience = random.Random(seed), actions, patience
        self.subjects: list[Subject] = []
        self.processors = sorted(os.sched_getaffinity(0))
        self.full = False
        self.lookups = tc.cache.lookups()

    def run(self) -> None:
        acts: dict[Callable[[random.Random], None], int] = {
            self.call: 30,
            self.compile: 20,
            self.threads: 8,
            self.fork: 8,
            self.fork_and_kill: 4,
            self.fork_among_threads: 5,
            self.signals: 10,
            self.full_disk: 5,
            self.affinity: 5,
            self.spoil: 3,
            self.small_limit: 2,
        }
        every = [act for act, weight in acts.items() for _ in range(weight)]
        for number in range(self.actions):
            act = self.draw.choice(every)
            note("begin", number=number, what=act.__name__)
            act(self.draw)
            self.note_lookups()
            note("end", what=act.__name__, **counts())
        note("over")

    # --- what it does -------------------------------------------------------------------------

    def call(self, draw: random.Random) -> None:
        chosen = draw.choice(self.subjects) if self.subjects else self.new(draw)
        for _ in range(draw.randrange(1, 30)):
            self.check(chosen, draw)

    def compile(self, draw: random.Random) -> None:
        self.check(self.new(draw), draw)

    def threads(self, draw: random.Random) -> None:
        with self.running(draw):
            self.call(draw)

    def fork(self, draw: random.Random) -> None:
        finish(self.child(draw))

    def fork_and_kill(self, draw: random.Random) -> None:
        pid = self.child(draw)
        time.sleep(draw.random() * draw.choice((0.01, 1)))
        note("kill", child=pid)
        os.kill(pid, signal.SIGKILL)
        finish(pid, killed=True)

    def fork_among_threads(self, draw: random.Random) -> None:
        with self.running(draw):
            children = []
            for _ in range(draw.randrange(1, 4)):
                time.sleep(draw.random() * 0.1)
                children.append(self.child(draw))
            for pid in children:
                finish(pid)

    def signals(self, draw: random.Random) -> None:
        """Handlers that raise, call, compile or fork; the next comes once this one is done."""
        left, armed = draw.randrange(1, 6), False
        kind = draw.choice(("raise", "call", "compile", "fork"))
        own = random.Random(draw.random())
        known = [self.new(draw), *self.subjects[-3:]]
        delay = draw.choice((0.0005, 0.01, 0.2))

        def arm() -> None:
            signal.setitimer(signal.ITIMER_REAL, delay * (0.1 + own.random()))

        def handler(*_: object) -> None:
            nonlocal left, armed
            left -= 1
            note("signal", does=kind)
            if kind == "raise" and armed:
                armed = False
                raise Stop
            if kind == "call":
                self.check(own.choice(known), own)
            elif kind == "compile":
                self.check(subject(own), own)
            elif kind == "fork" and armed:
                armed = False
                finish(self.child(own))
            if left > 0:
                arm()

        before = signal.signal(signal.SIGALRM, handler)
        try:
            for chosen in known:
                try:
                    armed = True
                    arm()
                    self.check(chosen, draw)
                    armed = False
                except Stop:
                    pass
                self.check(chosen, draw)
        finally:
            armed, left = False, 0
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def full_disk(self, draw: random.Random) -> None:
        """Files break off where they pass some length, as on a disk that has become full."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (draw.choice((0, 1, 100, 9000)), hard))
        self.full = True
        try:
            for _ in range(2):
                self.check(self.new(draw), draw)
        finally:
            self.full = False
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def affinity(self, draw: random.Random) -> None:
        """Sets the processors of this thread, and of the threads that it starts from now on."""
        number = draw.randrange(1, len(self.processors) + 1)
        chosen = set(draw.sample(self.processors, number))
        note("affinity", processors=sorted(chosen))
        os.sched_setaffinity(0, chosen)
        tc.set_threads(draw.choice((None, 1, 2, 3)))
        self.check(self.new(draw), draw)

    def spoil(self, draw: random.Random) -> None:
        """Cuts off, overwrites or removes what lies on the disk."""
        folder = Path(os.environ["TC_CACHE_DIR"])
        for path in sorted(folder.glob("*"))[:: draw.randrange(1, 9)]:
            way = draw.randrange(3)
            with contextlib.suppress(FileNotFoundError):
                if way == 0:
                    path.unlink()
                elif way == 1:
                    os.truncate(path, draw.randrange(200))
                else:
                    with path.open("r+b") as file:
                        file.seek(draw.randrange(2000))
                        file.write(b"nonsense")
        self.compile(draw)

    def small_limit(self, draw: random.Random) -> None:
        folder = os.environ["TC_CACHE_DIR"]
        tc.cache.enable(folder, limit=draw.choice((0, 10_000, 200_000)))
        try:
            for _ in range(2):
                self.compile(draw)
        finally:
            tc.cache.enable(folder)

    # --- how ------------------------------------------------------------------------------------

    def new(self, draw: random.Random) -> Subject:
        made = subject(draw)
        self.subjects = [*self.subjects, made][-MAX_SUBJECTS:]
        return made

    def note_lookups(self) -> None:
        """How many kernels were found on the disk since the last time, and how many were not."""
        before, self.lookups = self.lookups, tc.cache.lookups()
        found, missed = (now - then for now, then in zip(self.lookups, before, strict=True))
        note("looked", found=found, missed=missed)

    def check(self, chosen: Subject, draw: random.Random) -> None:
        note("call", program=chosen.number, backend=chosen.backend)
        try:
            chosen.call(draw)
        except tc.BackendError:
            full = self.full and chosen.backend == "c"  # gcc has files of its own
            if not (full or forks.is_blocked()):
                raise
            note("refused", full=full)

    @contextlib.contextmanager
    def running(self, draw: random.Random) -> Iterator[None]:
        """Threads that call and compile meanwhile, functions of each other's, too."""
        failed: list[BaseException] = []
        shared = [self.new(draw) for _ in range(2)]

        def body(own: random.Random) -> None:
            try:
                for _ in range(3):
                    self.check(own.choice(shared), own)
                    self.check(subject(own), own)
            except BaseException as error:
                failed.append(error)

        threads = [
            threading.Thread(target=body, args=(random.Random(draw.random()),))
            for _ in range(draw.randrange(1, 4))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]

    def child(self, draw: random.Random, deep: int = 0) -> int:
        """A fork that calls what is compiled, compiles, and perhaps forks again."""
        seed = draw.random()
        note("fork")
        pid = os.fork()
        if pid:
            return pid
        with leaving():
            end_after(self.patience * (8 - deep) // 10)  # the one that hangs ends first
            own = random.Random(seed)
            note("child", parent=os.getppid())
            for chosen in self.subjects[-2:]:
                self.check(chosen, own)
            self.check(subject(own), own)
            self.note_lookups()
            if deep < 2 and own.random() < 0.3:
                finish(self.child(own, deep + 1))
        raise AssertionError


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """This process ends, whatever happens, and says by its status how."""
    status = 0
    try:
        yield
    except WrongResult as error:
        status = WRONG
        note("wrong", error=str(error)[:2000])
    except BaseException:
        status = RAISED
        note("raised", error=traceback.format_exc()[-2500:])
    finally:
        os._exit(status)


def end_after(seconds: int) -> None:
    """Ends this forked process with its stacks, should it still be there.

    Not by `faulthandler.dump_traceback_later`: in a fork of this process that would wait for a
    thread which is only here.
    """
    faulthandler.unregister(signal.SIGALRM)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm(max(seconds, 1))


class ChildFailed(Exception):
    pass


def finish(pid: int, *, killed: bool = False) -> None:
    """Waits for a child, and has to know how it ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    note("reaped", child=pid, status=status)
    if status != 0 and not (killed and status == -signal.SIGKILL):
        raise ChildFailed(f"child {pid} ended with status {status}")


def counts() -> dict[str, int]:
    """What this process holds; `rss` in KiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "rss": pages * resource.getpagesize() // 1024,
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")) - 1,
    }


def main(seed: str, actions: int, patience: int) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
    note("ready")
    with leaving():
        Worker(seed, actions, patience).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
