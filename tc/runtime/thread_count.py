"""How many threads share a region where a call does not say."""

from __future__ import annotations

import os

import numba

from tc.process.processors import default_threads


def thread_count() -> int:
    """As many as numba is told to use (`NUMBA_NUM_THREADS`), else as many as can run at the same
    time on the processors, and in the time, that this process is given now."""
    told = int(numba.config.NUMBA_NUM_THREADS)
    if told != numba.config.NUMBA_DEFAULT_NUM_THREADS or "NUMBA_NUM_THREADS" in os.environ:
        return told
    return min(told, default_threads())
