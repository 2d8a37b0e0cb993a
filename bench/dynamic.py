"""One function for sizes that vary, beside code for each size: `python -m bench.dynamic`.

Of each program some sizes are dynamic. They are drawn from 2 to the largest, log-uniformly, by
`--seed`; two functions, one with `dynamic` and one without, then take turns on the same arrays, on
one thread, by the time of the processor. The ratio is the time with dynamic sizes over that of
exact code. `--save` writes the table into `bench/results`.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

import tc
from bench.cpu_report import geometric_mean
from bench.timing import machine, seconds_of_rounds, with_one_thread

RESULTS = Path(__file__).parent / "results"
SMALL = 16
"""Sizes below are told apart: a call takes little more than its own overhead."""

GROUPS: Mapping[str, tuple[float, float, float]] = {
    "batch and outer": (1.03, 1.10, 1.15),
    "rows and reductions": (1.06, 1.15, 1.30),
    "vectorised": (1.10, 1.25, 1.50),
    "several": (1.12, 1.30, 1.60),
}
"""The bars of each group: geometric mean, the worst of sizes of 16 and more, the worst below."""

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
ADD = "def add(float(N,D) a, float(N,D) b) -> (o) { o(n,d) = a(n,d) + b(n,d) }"
SOFTMAX = """def softmax(float(N,D) I) -> (O) {
  m(n) max=! I(n,d)
  e(n,d) = exp(I(n,d) - m(n))
  s(n) +=! e(n,d)
  O(n,d) = e(n,d) / s(n)
}"""
LAYERNORM = """def layernorm(float(N,D) x, float(D) g, float(D) b) -> (y) {
  mean(n) +=! x(n,d) / D
  var(n) +=! (x(n,d) - mean(n)) * (x(n,d) - mean(n)) / D
  y(n,d) = (x(n,d) - mean(n)) * rsqrt(var(n) + 1e-5) * g(d) + b(d)
}"""
LAYER = """def layer(float(B,C) x, float(M,C) W, float(M) b) -> (y) {
  y(n,m) +=! x(n,c) * W(m,c)
  y(n,m) = max(y(n,m) + b(m), 0)
}"""
INT8 = """def product(int8(M,K) A, int8(N,K) B, float(M) sa, float(N) sb) -> (C) {
  acc(i,j) +=! int32(A(i,k)) * int32(B(j,k))
  C(i,j) = float(acc(i,j)) * sa(i) * sb(j)
}"""
CONV = """def conv(float(N,C,H,W) I, float(M,C,KH,KW) K, float(M) b) -> (O) {
  O(n,m,h,w) +=! I(n,c,h+kh,w+kw) * K(m,c,kh,kw)
  O(n,m,h,w) = max(O(n,m,h,w) + b(m), 0)
}"""
ATTENTION = """def attention(float(B,H,T,D) Q, float(B,H,S,D) K, float(B,H,S,D) V) -> (O) {
  s(b,h,t,u) +=! Q(b,h,t,d) * K(b,h,u,d)
  m(b,h,t) max=! s(b,h,t,u)
  e(b,h,t,u) = exp((s(b,h,t,u) - m(b,h,t)) * 0.125)
  z(b,h,t) +=! e(b,h,t,u)
  a(b,h,t,d) +=! e(b,h,t,u) * V(b,h,u,d)
  O(b,h,t,d) = a(b,h,t,d) / z(b,h,t)
}"""
ROWS = "def rows(float(E,D) T, int(N,L) I) -> (O) { O(n,d) +=! T(I(n,l),d) }"
POOL = """def pool(float(N,C,H,W) x) -> (o) {
  o(n,c,h,w) max=! x(n,c,2*h+kh,2*w+kw) where kh in 0:3, kw in 0:3
}"""

rng = np.random.default_rng(36)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


def bytes_of(*shape: int) -> Any:
    return rng.integers(-127, 127, shape).astype(np.int8)


def for_softmax(N: int, D: int) -> list[Any]:
    return [normal(N, D)]


def for_layernorm(N: int, D: int) -> list[Any]:
    return [normal(N, D), normal(D), normal(D)]


def for_matmul(M: int, K: int, N: int) -> list[Any]:
    return [normal(M, K), normal(K, N)]


def for_layer(B: int, C: int, M: int) -> list[Any]:
    return [normal(B, C), normal(M, C), normal(M)]


def for_int8(M: int, K: int, N: int) -> list[Any]:
    return [bytes_of(M, K), bytes_of(N, K), normal(M), normal(N)]


def for_conv(N: int, H: int, W: int) -> list[Any]:
    return [normal(N, 32, H, W), normal(32, 32, 3, 3), normal(32)]


def for_attention(B: int, T: int, S: int) -> list[Any]:
    return [normal(B, 8, extent, 64) for extent in (T, S, S)]


def for_gather(N: int, L: int) -> list[Any]:
    return [normal(1000, 64), rng.integers(0, 1000, (N, L)).astype(np.int32)]


def for_pool(N: int) -> list[Any]:
    return [normal(N, 8, 31, 31)]


def for_add(N: int, D: int) -> list[Any]:
    return [normal(N, D), normal(N, D)]


@dataclass(frozen=True)
class Program:
    """A program of which some sizes vary, each up to its largest value; `arrays` makes the inputs
    for all sizes, those of `fixed` among them."""

    name: str
    group: str
    text: str
    largest: Mapping[str, int]
    fixed: Mapping[str, int]
    arrays: Callable[..., list[Any]]
    least: int = 2


def _programs() -> Iterator[Program]:
    batch, rows, vectors, several = GROUPS
    yield Program("softmax N", batch, SOFTMAX, {"N": 4096}, {"D": 1000}, for_softmax)
    yield Program("layernorm N", batch, LAYERNORM, {"N": 4096}, {"D": 768}, for_layernorm)
    yield Program("conv N", batch, CONV, {"N": 64}, {"H": 30, "W": 30}, for_conv)
    yield Program("attention B", batch, ATTENTION, {"B": 32}, {"T": 128, "S": 128}, for_attention)
    yield Program("gather N", batch, ROWS, {"N": 4096}, {"L": 20}, for_gather)
    yield Program("pooling N", batch, POOL, {"N": 512}, {}, for_pool)
    yield Program("matmul M", rows, MATMUL, {"M": 4096}, {"K": 512, "N": 512}, for_matmul)
    yield Program("matmul K", rows, MATMUL, {"K": 4096}, {"M": 512, "N": 512}, for_matmul)
    yield Program("layer B", rows, LAYER, {"B": 4096}, {"C": 512, "M": 512}, for_layer)
    yield Program("int8 M", rows, INT8, {"M": 4096}, {"K": 512, "N": 256}, for_int8)
    yield Program("attention T", rows, ATTENTION, {"T": 2048}, {"B": 2, "S": 128}, for_attention)
    yield Program("1LUT L", rows, ROWS, {"L": 512}, {"N": 128}, for_gather)
    yield Program("softmax D", vectors, SOFTMAX, {"D": 4096}, {"N": 128}, for_softmax)
    yield Program("matmul N", vectors, MATMUL, {"N": 4096}, {"M": 512, "K": 512}, for_matmul)
    yield Program("conv W", vectors, CONV, {"W": 256}, {"N": 4, "H": 30}, for_conv, least=5)
    yield Program("add D", vectors, ADD, {"D": 4096}, {"N": 512}, for_add)
    every = {"M": 1024, "K": 1024, "N": 1024}
    yield Program("matmul MKN", several, MATMUL, every, {}, for_matmul)
    yield Program(
        "attention BTS", several, ATTENTION, {"B": 8, "T": 700, "S": 700}, {}, for_attention
    )
    yield Program("layer BCM", several, LAYER, {"B": 700, "C": 700, "M": 700}, {}, for_layer)
    yield Program("conv NHW", several, CONV, {"N": 16, "H": 64, "W": 64}, {}, for_conv, least=5)


PROGRAMS = tuple(_programs())


def drawn_sizes(program: Program, count: int, seed: int) -> list[dict[str, int]]:
    """Sizes between the least and the largest, log-uniformly."""
    draw = np.random.default_rng([seed, *program.name.encode()])
    return [
        {
            name: int(math.exp(draw.uniform(math.log(program.least), math.log(largest + 1))))
            for name, largest in program.largest.items()
        }
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Outcome:
    """The ratios at all sizes, how many templates and exact kernels were made, and the elements
    that are not as those of exact code, but for rounding."""

    program: Program
    ratios: Mapping[tuple[int, ...], float]
    made: int
    wrong: int

    def row(self) -> list[Any]:
        large = [r for sizes, r in self.ratios.items() if min(sizes) >= SMALL]
        small = [r for sizes, r in self.ratios.items() if min(sizes) < SMALL]
        mean = geometric_mean(list(self.ratios.values()))
        bars = GROUPS[self.program.group]
        found = (mean, max(large, default=math.nan), max(small, default=math.nan))
        texts = [
            f"**{value:.2f}**" if value > bar else f"{value:.2f}"
            for value, bar in zip(found, bars, strict=True)
        ]
        return [self.program.group, self.program.name, *texts, self.made, self.wrong]


class _Compilations(logging.Handler):
    count = 0

    def emit(self, _record: logging.LogRecord) -> None:
        self.count += 1


def measured(program: Program, sizes: Sequence[Mapping[str, int]], budget: float) -> Outcome:
    options = tc.Options(threads=1)
    dynamic = tc.compile(program.text, options=options, dynamic=set(program.largest))
    logger, counted = logging.getLogger("tc"), _Compilations()
    logger.setLevel(logging.INFO)
    ratios: dict[tuple[int, ...], float] = {}
    wrong = 0
    for chosen in sizes:
        inputs = program.arrays(**program.fixed, **chosen)
        logger.addHandler(counted)
        result = dynamic(*inputs)
        logger.removeHandler(counted)
        exact = tc.compile(program.text, options=options)
        expected = exact(*inputs)
        bound = 1e-3 * max(1.0, float(np.abs(expected).max(initial=0)))
        wrong += int((np.abs(result.astype(float) - expected) > bound).sum())
        outputs = [np.empty_like(expected), np.empty_like(expected)]
        runs = {
            "dynamic": lambda i=inputs, o=outputs[0]: dynamic(*i, outputs=o),
            "exact": lambda i=inputs, o=outputs[1], f=exact: f(*i, outputs=o),
        }
        found = seconds_of_rounds(runs, budget=budget, clock=time.process_time)
        ratios[tuple(chosen.values())] = min(found["dynamic"]) / min(found["exact"])
    return Outcome(program, ratios, counted.count, wrong)


def table(outcomes: Sequence[Outcome]) -> str:
    headers = ("sizes", "program", "mean", "worst", "worst below 16", "compiled", "wrong")
    rows = [outcome.row() for outcome in outcomes]
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.dynamic", description=__doc__.split("\n\n")[0])
    parser.add_argument("programs", nargs="*", help="those whose names contain one of these words")
    parser.add_argument("--sizes", type=int, default=24, help="that are drawn of each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds for each size")
    parser.add_argument("--save", help="the name of the table in bench/results")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    chosen = arguments_of(given)
    outcomes = []
    for program in PROGRAMS:
        if chosen.programs and not any(word in program.name for word in chosen.programs):
            continue
        sizes = drawn_sizes(program, chosen.sizes, chosen.seed)
        outcomes.append(measured(program, sizes, chosen.budget))
        print(table(outcomes[-1:]).splitlines()[-1], flush=True)
    text = table(outcomes)
    if chosen.save:
        head = f"# Dynamic sizes over exact code\n\n{machine()}; one thread, seed {chosen.seed}, "
        head += f"{chosen.sizes} sizes a program. Bold: over the bar.\n\n"
        (RESULTS / f"{chosen.save}.md").write_text(f"{head}{text}\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    with_one_thread("bench.dynamic")
    main()
