"""tc itself, with default options, on one of its backends."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import tc
from bench.cpu_kernels.kernel import Case
from bench.peers.peer import Form, Run


class TcPeer:
    def __init__(self, backend: str) -> None:
        warnings.simplefilter("ignore", tc.TCWarning)
        self._backend = backend

    def forms(self, family: str) -> Mapping[str, Form]:  # noqa: ARG002
        return {"defaults": self._defaults}

    def version(self) -> str:
        return f"tc {tc.__version__}"

    def _defaults(self, case: Case) -> Run:
        function = tc.compile(case.kernel.text, backend=self._backend)
        inputs = case.inputs
        outputs: Any = case.outputs[0] if len(case.outputs) == 1 else case.outputs
        return lambda: function(*inputs, outputs=outputs)
