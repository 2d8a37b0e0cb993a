"""Halide: each algorithm under several schedules by hand and under the autoschedulers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import halide as hl

from bench.cpu_kernels.kernel import Case
from bench.peers import halide_images, halide_layers, halide_pointwise, halide_products
from bench.peers.halide_language import TABLE, Algorithm, Builder
from bench.peers.peer import Form, Run

ALGORITHMS = (halide_images, halide_layers, halide_pointwise, halide_products)
"""The modules that fill the table."""

PLUGINS = Path(hl.__file__).parent / "lib64"


class HalidePeer:
    """With Halide's checks on: schedules that would leave an array are found out by them.

    A family has one schedule by hand, or two between which its shape decides; `tuned` tries more
    tiles of it.
    """

    def __init__(self, threads: int, *, tuned: bool) -> None:
        self._tuned = tuned
        os.environ["HL_NUM_THREADS"] = str(threads)
        self._target = hl.get_host_target()
        cache = {"last_level_cache_size": str(2**24), "balance": "40"}
        parameters = {
            "Adams2019": {},
            "Li2018": {},
            "Mullapudi2016": cache,
        }
        self._schedulers: dict[str, Any] = {}
        for name, settings in parameters.items():
            plugin = PLUGINS / f"libautoschedule_{name.lower()}.so"
            if plugin.exists():
                hl.load_plugin(str(plugin))
                settings = {"parallelism": str(threads), **settings}
                self._schedulers[name] = hl.AutoschedulerParams(name, settings)

    def version(self) -> str:
        return f"halide {version('halide')}"

    def forms(self, family: str) -> Mapping[str, Form]:
        if family not in TABLE:
            return {}
        entry = TABLE[family]
        tiles = (*entry.tiles, *(entry.more if self._tuned else ()))
        by_hand = {f"hand {'x'.join(map(str, t))}": self._by_hand(entry.build, t) for t in tiles}
        automatic = {n: self._automatic(entry.build, p) for n, p in self._schedulers.items()}
        return {**by_hand, **automatic}

    def _by_hand(self, build: Builder, tile: tuple[int, ...]) -> Form:
        def form(case: Case) -> Run:
            algorithm = build(case)
            algorithm.schedule(*tile)
            return self._compiled(algorithm, case)

        return form

    def _automatic(self, build: Builder, parameters: Any) -> Form:
        def form(case: Case) -> Run:
            algorithm = build(case)
            shapes = [array.shape for array in algorithm.arrays or case.outputs]
            for func, shape in zip(algorithm.outputs, shapes, strict=False):
                func.set_estimates([(0, extent) for extent in reversed(shape)])
            hl.Pipeline(algorithm.outputs).apply_autoscheduler(self._target, parameters)
            return self._compiled(algorithm, case)

        return form

    def _compiled(self, algorithm: Algorithm, case: Case) -> Run:
        arrays = algorithm.arrays or case.outputs
        for func, array in zip(algorithm.outputs, arrays, strict=False):
            step = 1
            for dimension, extent in enumerate(reversed(array.shape)):
                bound = func.output_buffers()[0].dim(dimension)
                bound.set_bounds(0, extent).set_stride(step)
                step *= extent
        pipeline = hl.Pipeline(algorithm.outputs)
        pipeline.compile_jit(self._target)
        filled = [hl.Buffer(array) for array in arrays]
        held = (algorithm, filled)
        return lambda: pipeline.realize(held[1], self._target)
