"""Work that several threads do at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable


def run_at_once(works: Iterable[Callable[[], object]]) -> None:
    """Calls functions, each in a thread of its own, which begin together. Raises what the first
    that failed has raised, once all threads are over."""
    calls, failures = list(works), []
    begin = threading.Barrier(len(calls))

    def call(work: Callable[[], object]) -> None:
        try:
            begin.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call, args=(work,)) for work in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
