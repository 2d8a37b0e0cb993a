"""The process of a peer that runs backward passes: `python -m bench.backward_passes.process`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from bench.backward_passes.peers import BackwardPeer
from bench.backward_passes.table import LAYERS
from bench.peers.catalogue import environment
from bench.peers.process import PeerProcess
from bench.peers.worker import Session, serve, start


class BackwardProcess(PeerProcess):
    """As those of `bench.cpu`: stopped while others run."""

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "bench.backward_passes.process"),
            *(self.name, str(self._threads)),
        ]

    def _environment(self) -> Mapping[str, str]:
        return environment(self.name, self._threads)


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    started = start(threads, lambda threads: BackwardPeer(name, threads))
    if started is not None:
        peer, answer = started
        serve(Session(peer, lambda form: answer({"at": form})), sys.stdin, answer, LAYERS)


if __name__ == "__main__":
    main()
