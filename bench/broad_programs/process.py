"""The process of a peer that runs drawn programs: `python -m bench.broad_programs.process`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bench.broad_programs.peers import DrawnPeer
from bench.broad_programs.table import PROGRAMS
from bench.peers.catalogue import environment
from bench.peers.process import PeerProcess
from bench.peers.worker import Session, serve, start


class DrawnProcess(PeerProcess):
    """As those of `bench.cpu`: stopped while others run. What the user has tuned is not looked
    up."""

    def __init__(self, name: str, threads: int, seed: int, plans: Path, niceness: int = 0) -> None:
        unused = {"TC_TUNE_DB": str(plans / "unused.db")}
        super().__init__(name, threads, niceness, settings=unused)
        self._arguments = (name, str(threads), str(seed), str(plans))

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.broad_programs.process", *self._arguments]

    def _environment(self) -> Mapping[str, str]:
        return environment("tc" if self.name == "tuned" else self.name, self._threads)


def main() -> None:
    name, threads, seed, plans = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    started = start(threads, lambda threads: DrawnPeer(name, threads, plans))
    if started is not None:
        peer, answer = started
        drawn = {key: program.drawn(seed) for key, program in PROGRAMS.items()}
        serve(Session(peer, lambda form: answer({"at": form})), sys.stdin, answer, drawn)


if __name__ == "__main__":
    main()
