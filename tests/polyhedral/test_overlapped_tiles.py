"""Overlapped tiles: which chains are cut, into which rows, and the results."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral import lowering
from tc.polyhedral.cpu import cpu_target
from tc.polyhedral.rewrite import overlapped_tiles
from tc.polyhedral.rewrite.overlapped_tiles import tile_chains
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import to_text
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.rewrites import (
    Arrays,
    assert_consistent,
    run_kernel,
    runnable,
    texts,
    texts_with_ranges,
)
from tests.support.sizes_of_call import shape

HEAD = "def f(float(N) x, float(N) y) -> (o)"
DEAR = ((0.0, 0.0), (inf, 1e9))
"""To store an element takes longer than any computation; in a tile it takes no time."""


def tiled(program: ShapedProgram, tile_bytes: int = 1 << 10) -> ShapedProgram:
    return tile_chains(program, Thresholds(stored=DEAR, tile_bytes=tile_bytes))


def assert_same(program: ShapedProgram, found: ShapedProgram, arrays: Arrays) -> None:
    """Fails unless the kernel of a tiled program stays within the bound of the original."""
    if found is program:
        return
    assert_consistent(found)
    results = run_kernel(found, arrays, {}, Thresholds())
    wanted, bounds = interpret(program, arrays, {}), error_bound(program, arrays, {})
    for name, want in wanted.items():
        assert_within(results[name].reshape(want.shape), want, bounds[name])


TILED = {
    "a difference of differences": (
        HEAD + " { d(i) = x(i+1) - x(i)  o(i) = d(i+1) - d(i) }",
        66,
        [
            "S0.tile: d.tile0(i_tile, i) = x(4 * i_tile + i + 1) - x(4 * i_tile + i)",
            "S1: o(4 * i_tile + i) = d.tile0(i_tile, i + 1) - d.tile0(i_tile, i)",
        ],
    ),
    "rows that are left": (
        HEAD + " { d(i) = x(i) * 2  o(i) = d(i) + d(i+2) }",
        69,
        [
            "S0.tile: d.tile0(i_tile, i) = x(4 * i_tile + i) * 2.0",
            "S1.piece0: o(4 * i_tile + i) = d.tile0(i_tile, i) + d.tile0(i_tile, i + 2)",
            "S0.rest: d.rest0(i) = x(i + 64) * 2.0",
            "S1: o(i + 64) = d.rest0(i) + d.rest0(i + 2)",
        ],
    ),
    "rows that are not there": (
        HEAD + " { d(i) = x(i) * 2  o(i) = i > 0 ? d(i-1) : d(i) where i in 0:N }",
        65,
        [
            "S0.head: d.head0(i) = x(i) * 2.0",
            "S1.piece0: o(i) = i > 0 ? d.head0(i - 1) : d.head0(i)",
            "S0.tile: d.tile0(i_tile, i) = x(4 * i_tile + i) * 2.0",
            "S1: o(4 * i_tile + i + 1) = 4 * i_tile + i + 1 > 0 ? d.tile0(i_tile, i) : "
            "d.tile0(i_tile, i + 1)",
        ],
    ),
    "of a chain what is read": (
        HEAD + " { a(i) = x(i) * 2  b(i) = a(i+1) - a(i)  o(i) = a(i+1) * b(i+2) - b(i) }",
        67,
        [
            "S0.tile: a.tile0(i_tile, i) = x(4 * i_tile + i) * 2.0",
            "S1.tile: b.tile0(i_tile, i) = a.tile0(i_tile, i + 1) - a.tile0(i_tile, i)",
            "S2: o(4 * i_tile + i) = "
            "a.tile0(i_tile, i + 1) * b.tile0(i_tile, i + 2) - b.tile0(i_tile, i)",
        ],
    ),
    "two results": (
        "def f(float(N) x) -> (o, u)"
        " { d(i) = x(i) * 2  o(i) = d(i+1) - d(i)  u(i) = d(i) * d(i+1) }",
        65,
        [
            "S0.tile: d.tile0(i_tile, i) = x(4 * i_tile + i) * 2.0",
            "S1: o(4 * i_tile + i) = d.tile0(i_tile, i + 1) - d.tile0(i_tile, i)",
            "S2: u(4 * i_tile + i) = d.tile0(i_tile, i) * d.tile0(i_tile, i + 1)",
        ],
    ),
}


@pytest.mark.parametrize("name", TILED)
def test_tiled(name: str) -> None:
    text, size, expected = TILED[name]
    rng = np.random.default_rng(3)
    names = "xy" if text.startswith(HEAD) else "x"
    program, arrays = shaped_with(text, {n: rng.normal(size=size).astype("f4") for n in names})
    found = tiled(program)
    assert texts(found) == expected
    assert_same(program, found, arrays)


STAYS = {
    "at its own place": HEAD + " { d(i) = x(i) + 1  o(i) = d(i) * d(i) }",
    "a sum": HEAD + " { d(i) +=! x(j) * y(i)  o(i) = d(i+1) - d(i) }",
    "read in a sum": HEAD + " { d(i) = x(i) * y(i)  o(i) +=! d(i+k) where k in 0:3 }",
    "an output": "def f(float(N) x) -> (d, o) { d(i) = x(i) + 1  o(i) = d(i+1) - d(i) }",
    "started twice": HEAD + " { d(i) = x(i)  d(i) += y(i)  o(i) = d(i+1) - d(i) }",
    "half of it": HEAD + " { d(i) = x(i)  d(i) = y(i) where i in 0:2  o(i) = d(i+1) - d(i) }",
    "backwards": HEAD + " { d(i) = x(i) + 1  o(i) = d(N-1-i) - d(N-2-i) }",
    "by twos": HEAD + " { d(i) = x(i) + 1  o(i) = d(2*i) - d(2*i+1) }",
    "everywhere": HEAD + " { d(i) = x(i) + 1  o(i) = d(i+1) - d(5) }",
    "what it reads changes": (
        "def f(float(N) x) -> (o, u) "
        "{ o(i) = x(i)  d(i) = o(i) + 1  o(i) = 2 * o(i)  u(i) = d(i+1) - d(i) }"
    ),
    "its size is asked for": HEAD + " { d(i) = x(i) * y(i)  o(i) = pad(d(i-1), 0) where i in 0:N }",
    "at data": "def f(float(N) x, int(N) k) -> (o) { d(i) = x(i) + 1  o(i) = d(k(i)) }",
    "of data": "def f(float(N) x, int(N) k) -> (o) { d(i) = x(k(i)) + 1  o(i) = d(i+1) - d(i) }",
    "a half": "def f(half(N) x) -> (o) { d(i) = x(i) * x(i)  o(i) = d(i+1) - d(i) }",
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    program = shape(STAYS[name], N=80)
    assert tiled(program) is program


def test_rows_are_cut_and_not_what_lies_side_by_side() -> None:
    text = "def f(float(C,N,M) x) -> (o) { d(i,j) = x(0,i,j) * 2  o(c,i,j) = d(i,j+1) * x(c,i,j) "
    program = shape(text + "+ d(i+1,j) }", C=3, N=65, M=30)
    found = texts_with_ranges(tiled(program))
    assert [line.split(" ", 1)[1] for line in found] == [
        "d.tile0(i_tile, i, j) = x(0, 4 * i_tile + i, j) * 2.0 i_tile in 0:16, i in 0:5, j in 0:30",
        "o(c, 4 * i_tile + i, j) = d.tile0(i_tile, i, j + 1) * x(c, 4 * i_tile + i, j) + "
        "d.tile0(i_tile, i + 1, j) i_tile in 0:16, c in 0:3, i in 0:4, j in 0:29",
    ]


def test_a_tile_has_as_many_rows_as_the_cache_holds() -> None:
    """Two temporaries of 100 floats a row, of which a tile has 3 rows more than of the result."""
    text = "def f(float(N,M) x) -> (o) { a(i,j) = x(i,j) * 2  b(i,j) = a(i,j) + a(i+1,j)"
    program = shape(text + "  o(i,j) = b(i,j) - b(i+1,j) }", N=1002, M=100)
    for rows in (8, 10, 40):
        found = tiled(program, 400 * (2 * rows + 3))
        assert {found.shapes["a.tile0"][1]} == {rows + 2}
    assert "b.tile0" in tiled(program, 400 * 5).shapes
    assert "b.tile0" not in tiled(program, 400 * 5 - 1).shapes


def test_what_it_costs() -> None:
    """Of tiles of 4 rows, d is computed for 5: 5 operations for every 4 elements are more than to
    store these takes, or less."""
    text = HEAD + " { d(i) = x(i+1) * y(i) - x(i) * y(i+1) + x(i) + y(i)  o(i) = d(i+1) - d(i) }"
    program = shape(text, N=66)
    for stored, is_cut in ((1.2, False), (1.3, True)):
        limits = Thresholds(stored=((0.0, 0.0), (inf, stored)), tile_bytes=1 << 10)
        assert (tile_chains(program, limits) is not program) is is_cut


def test_a_chain_of_stencils_larger_than_the_caches_is_cut() -> None:
    """In the whole pipeline: temporaries lie in small buffers inside of the loop over tiles, and
    rows are vectors; a chain that the caches hold is not cut."""
    device = tc.Device(vector_bits=256, l2=1 << 18, l3=1 << 20, threads=2)
    weights = " + ".join(f"{n}.5 * exp(b(i+{n},j+{n}))" for n in range(3))
    text = (
        "def f(float(N,M) x) -> (o) { a(i,j) = exp(x(i,j)) * exp(x(i,j+1))"
        f"  b(i,j) = exp(a(i,j)) + exp(a(i+1,j)) + exp(a(i+2,j+1))  o(i,j) = {weights} }}"
    )
    for size, is_cut in ((60, False), (600, True)):
        stages = tc.explain(text, {"N": size, "M": size}, device=device).stages
        assert (".tile0" in stages["rewrite"]) is is_cut
        if is_cut:
            assert "scratch a_tile0_local: float32[1, " in stages["kernel"]
            assert "scratch b_tile0_local: float32[1, " in stages["kernel"]
            assert "float32x8" in stages["kernel"]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(calls())
def test_generated_programs(case: Call) -> None:
    program, arrays = runnable(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlapped_tiles, "LEAST_TILES", 2)
        found = tiled(program, 1 << 6)
    event("tiled" if found is not program else "as it was")
    assert_same(program, found, arrays)


def chain(rng: random.Random) -> str:
    """A def of a chain of 2 to 6 stencils of rank 1 or 2, each of some before it: shifts from -3 to
    3, which conditions guard where an element is not there; one or two results."""
    variables = "ij"[: rng.randint(1, 2)]
    names, statements = ["x"], []
    sizes = dict(zip("ij", "NM", strict=True))
    guarded = rng.random() < 0.5
    for step in range(rng.randint(2, 6)):
        terms = []
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(names[-3:])
            shifts = {v: rng.randint(-3 if guarded else 0, 3) for v in variables}
            read = f"{name}({', '.join(f'{v} + {s}' for v, s in shifts.items())})"
            guards = [f"{v} + {s} >= 0 && {v} + {s} < {sizes[v]}" for v, s in shifts.items() if s]
            if guarded and guards:
                read = f"({' && '.join(guards)} ? {read} : {rng.randint(0, 2)})"
            terms.append(f"{rng.choice(('2', '-1', '3'))} * {read}")
        body = f" {rng.choice('+-*')} ".join(terms)
        if rng.random() < 0.3:
            body = f"({terms[0]} > 1 ? {body} : {terms[-1]})"
        names.append(f"t{step}")
        where = f" where {', '.join(f'{v} in 0:{sizes[v]}' for v in variables)}" if guarded else ""
        statements.append(f"{names[-1]}({','.join(variables)}) = {body}{where}")
    results = names[-1:] if rng.random() < 0.7 else names[-2:]
    dims = ",".join(sizes[v] for v in variables)
    return f"def f(int({dims}) x) -> ({', '.join(results)}) {{ {'  '.join(statements)} }}"


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**30))
def test_chains_of_stencils(backend: str, seed: int) -> None:
    """Chains compiled, with all temporaries in tiles that can be; a part of them with others
    inlined before."""
    rng = random.Random(seed)
    text = chain(rng)
    size = [rng.randint(38, 70) for _ in range(text.split(")")[0].count(",") + 1)]
    x = np.random.default_rng(seed).integers(-3, 4, size, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_target, "stored_operations", lambda _: DEAR)
        patch.setattr(overlapped_tiles, "LEAST_TILES", rng.choice([2, 5, 16]))
        patch.setenv("TC_STRICT", "1")
        if rng.random() < 0.8:
            patch.setattr(lowering, "inline", lambda shaped, _: shaped)
        function = tc.compile(text, backend=backend)
        found = function(x)
        is_tiled = ".tile" in function.explain(x).stages["rewrite"]
        event("tiled" if is_tiled else "as it was")
    wanted = tc.interpret(text, [x])
    for one, other in zip(
        *(r if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


ALONG_LINES = {
    "the outermost shared loops": " { a(i,j) = exp(x(i,j) + x(i,j+1))  o(i,j) = SUM }",
    "loops inside of a tile": (
        " { a(i,j) = exp(x(i,j))  b(i,j) = SUM  o(i,j) = b(i,j) * b(i,j+1) - b(i,j+2) * b(i,j+3) }"
    ),
}


@pytest.mark.parametrize("name", ALONG_LINES)
def test_in_a_tile_statements_go_along_lines(name: str) -> None:
    """Statements that depend on each other along the lines alone could share the loop along these,
    inside of which each would go across them."""
    device = tc.Device(vector_bits=256, l2=1 << 18, l3=1 << 20, threads=2)
    text = "def f(float(N,M) x) -> (o)" + ALONG_LINES[name]
    text = text.replace("SUM", " + ".join(f"{n}.5 * a(i+{n},j)" for n in range(9)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "inline", lambda shaped, _: shaped)
        lowered = tc.explain(text, {"N": 600, "M": 600}, device=device).trace.lowering
    tree = to_text(lowered.mapped.tree)
    assert "band [i_tile parallel *]" in tree
    assert "j mod 8 vector" in tree
    assert "i mod" not in tree
