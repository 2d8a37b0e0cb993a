"""Programs with computed places, dependent ranges, conditions and several targets (rules S, W, V1),
with formulas by other algorithms: dense matrices for sparse ones, loops over the targets for
scatters, masks for ranges.

A `Place` makes its inputs of one value, as are the keys of a scatter or the lengths of rows. The
table of programs has each at its `usual` value; `tests/test_places_programs.py` has the edges too:
no keys, all keys the same, one row, empty rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.spatial.distance import pdist

Arrays = Mapping[str, Any]
Random = np.random.Generator
Keys = Sequence[int]

NO_PLACE = 2**31 - 1
"""What an empty range has for its place (V1)."""


@dataclass(frozen=True)
class Values:
    """What the inputs of a program are made of: a usual value, and edges by their names."""

    usual: Any
    edges: Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A program of `tests/programs`. `inputs` makes its arguments of a generator and one of the
    values, and `outputs` likewise what the caller passes as outputs=, if anything."""

    name: str
    values: Values
    inputs: Callable[[Random, Any], dict[str, Any]]
    formula: Callable[[Arrays], tuple[Any, ...]]
    outputs: Callable[[Random], dict[str, Any]] | None = None


def keys(below: int, count: int = 23) -> Values:
    """Keys of a scatter into so many targets, one of which no usual key names."""
    usual = np.random.default_rng(below).integers(0, below - 1, count).tolist()
    edges = {
        "no keys": [],
        "one key": [below - 1],
        "one target": [1] * 19,
        "each twice": [*range(below)] * 2,
    }
    return Values(usual, edges)


def filled(values: Values, usual: Any) -> Values:
    """With a usual value that leaves no target empty: a maximum of nothing is infinite."""
    return Values(usual, {**values.edges, "an empty target": values.usual})


LENGTHS = Values(
    [3, 0, 5, 1, 0, 7, 0],
    {
        "no rows": [],
        "one row": [5],
        "empty rows": [0, 0, 0],
        "one row has all": [0, 11, 0],
    },
)
"""Of the rows of a ragged tensor."""

COUNTS = Values([3, 0, 5, 1, 0, 2], {"one row": [4], "empty rows": [0, 0], "full rows": [5, 5]})
"""Of the elements of rows that are padded to 5."""


def extents(usual: Any, **edges: Any) -> Values:
    """Sizes, with edges whose names are words."""
    return Values(usual, {name.replace("_", " "): value for name, value in edges.items()})


LENGTH = extents(37, none=0, one=1, two=2)
MATRIX = extents((5, 19), no_columns=(3, 0), no_rows=(0, 3), one_element=(1, 1), one_row=(1, 7))
SQUARE = extents(19, none=0, one=1, two=2)


def floats(rng: Random, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def ints(values: Any, dtype: Any = np.int32) -> Any:
    return np.array(values, dtype)


def alone(name: str) -> Callable[[Random, Keys], dict[str, Any]]:
    """The value itself as the one input."""
    return lambda _, values: {name: ints(values)}


def starts(lengths: Keys) -> Any:
    return ints([0, *itertools.accumulate(lengths)])


def rows(start: Any) -> list[slice]:
    """Where each row lies among the elements of all."""
    return [slice(a, b) for a, b in itertools.pairwise(start.tolist())]


def of(target: int, at: Any, x: Any) -> Any:
    """The elements whose key is this target."""
    return x[at == target]


# --- scatters -------------------------------------------------------------------------------------


def _scattered(rng: Random, at: Keys) -> dict[str, Any]:
    return {"x": floats(rng, len(at)), "at": ints(at)}


def _scatter_add(a: Arrays) -> tuple[Any, ...]:
    return (a["o"] + np.eye(7)[a["at"]].T @ a["x"],)


def _scattered_rows(rng: Random, at: Keys) -> dict[str, Any]:
    return {"x": floats(rng, len(at), 19), "at": ints(at), "M": 5}


def _scatter_rows(a: Arrays) -> tuple[Any, ...]:
    return (np.eye(a["M"])[a["at"]].T @ a["x"],)


def _scatter_extremes(a: Arrays) -> tuple[Any, ...]:
    each = [of(t, a["at"], a["x"]) for t in range(6)]
    least = [x.min(initial=np.inf) for x in each]
    return least, [x.max(initial=-np.inf) for x in each], [x.prod() for x in each]


def _repeated_values(rng: Random, at: Keys) -> dict[str, Any]:
    """Among which the greatest is not alone."""
    return {"x": rng.integers(0, 3, len(at)).astype(np.float32), "at": ints(at)}


def _scatter_argmax(a: Arrays) -> tuple[Any, ...]:
    found = []
    for target in range(6):
        candidates = [(-x, n) for n, x in enumerate(a["x"]) if a["at"][n] == target]
        found.append(min(candidates, default=(np.inf, NO_PLACE)))
    return [-x for x, _ in found], [n for _, n in found]


def _binned(rng: Random, count: int) -> dict[str, Any]:
    """Points of which some lie outside of all bins."""
    x, y = rng.uniform(-0.2, 1.2, (2, count)).astype(np.float32)
    return {"x": x, "y": y, "w": rng.standard_normal(count)}


def _weighted_bins(a: Arrays) -> tuple[Any, ...]:
    unit = ((0, 1), (0, 1))
    return (np.histogram2d(a["x"], a["y"], (8, 5), unit, weights=a["w"])[0],)


def _segments(rng: Random, at: Keys) -> dict[str, Any]:
    return {"x": floats(rng, len(at)), "segment": ints(sorted(at), np.int64)}


def _segment_sum(a: Arrays) -> tuple[Any, ...]:
    cuts = np.searchsorted(a["segment"], range(1, 7))
    return ([part.sum() for part in np.split(a["x"], cuts)],)


def _embedded(rng: Random, words: Keys) -> dict[str, Any]:
    word = ints(words).reshape(-1, 3)
    return {"W": floats(rng, 6, 5), "word": word, "d_o": floats(rng, *word.shape, 5)}


def _embedding_backward(a: Arrays) -> tuple[Any, ...]:
    return (np.einsum("blv,bld->vd", np.eye(6)[a["word"]], a["d_o"]),)


WORDS = Values(
    np.random.default_rng(6).integers(0, 5, 21).tolist(),
    {"no sentences": [], "one sentence": [5, 0, 5], "one word": [2] * 12},
)


def _letters(rng: Random, count: int) -> dict[str, Any]:
    return {"letter": rng.integers(0, 5, count).astype(np.uint8)}


def _bigrams(a: Arrays) -> tuple[Any, ...]:
    h = np.zeros((5, 5))
    for pair, count in Counter(itertools.pairwise(a["letter"].tolist())).items():
        h[pair] = count
    return (h,)


def _classified(rng: Random, count: int) -> dict[str, Any]:
    p = (rng.integers(0, 9, count) / 8).astype(np.float32)
    return {"p": p, "y": rng.random(count) < 0.5, "threshold": np.float32([0, 0.375, 0.5, 2])}


def _recall_at_thresholds(a: Arrays) -> tuple[Any, ...]:
    right = np.sort(a["p"][a["y"]])
    miss = np.searchsorted(right, a["threshold"], "left")
    return len(right) - miss, miss


# --- sparse matrices and graphs -------------------------------------------------------------------


def _csr(rng: Random, lengths: Keys, columns: int = 4) -> dict[str, Any]:
    """Columns repeat within a row: their values are added."""
    count = sum(lengths)
    col = ints(rng.integers(0, columns, count))
    return {"row": starts(lengths), "col": col, "v": floats(rng, count)}


def dense(a: Arrays, columns: int) -> Any:
    matrix = np.zeros((len(a["row"]) - 1, columns))
    for r, row in enumerate(rows(a["row"])):
        for col, v in zip(a["col"][row], a["v"][row], strict=True):
            matrix[r, col] += v
    return matrix


def _csr_vector(rng: Random, lengths: Keys) -> dict[str, Any]:
    return {**_csr(rng, lengths), "x": floats(rng, 4)}


def _csr_matrix(rng: Random, lengths: Keys) -> dict[str, Any]:
    return {**_csr(rng, lengths), "B": floats(rng, 4, 19)}


def _csr_transposed(rng: Random, lengths: Keys) -> dict[str, Any]:
    return {**_csr(rng, lengths), "B": floats(rng, len(lengths), 11), "N": 4}


def _coo(rng: Random, to: Keys) -> dict[str, Any]:
    count = len(to)
    j, v = ints(rng.integers(0, 5, count)), floats(rng, count)
    return {"i": ints(to), "j": j, "v": v, "B": floats(rng, 5, 11), "M": 7}


def _coo_matrix(a: Arrays) -> tuple[Any, ...]:
    return (np.einsum("ei,ej,e,jd->id", np.eye(7)[a["i"]], np.eye(5)[a["j"]], a["v"], a["B"]),)


def _edges(rng: Random, to: Keys) -> dict[str, Any]:
    return {"to": ints(to), "s": floats(rng, len(to))}


def _edge_softmax(a: Arrays) -> tuple[Any, ...]:
    powers = np.exp(a["s"])
    return ([p / of(t, a["to"], powers).sum() for t, p in zip(a["to"], powers, strict=True)],)


def _graph(rng: Random, to: Keys) -> dict[str, Any]:
    return {"from": ints(rng.integers(0, 7, len(to))), "to": ints(to), "h": floats(rng, 7, 5)}


def _mean_messages(a: Arrays) -> tuple[Any, ...]:
    adjacency = np.eye(7)[a["to"]].T @ np.eye(7)[a["from"]]
    return (adjacency @ a["h"] / np.maximum(adjacency.sum(1, keepdims=True), 1),)


def _adjacent(rng: Random, count: int) -> dict[str, Any]:
    lower = np.tril(rng.random((count, count)) < 0.6, -1)
    return {"A": lower | lower.T}


def _triangles(a: Arrays) -> tuple[Any, ...]:
    matrix = a["A"].astype(int)
    return (np.trace(matrix @ matrix @ matrix) // 6,)


# --- ragged tensors -------------------------------------------------------------------------------


def _segment_max(a: Arrays) -> tuple[Any, ...]:
    return ([a["x"][row].max(initial=-np.inf) for row in rows(a["row"])],)


def _bags(rng: Random, lengths: Keys) -> dict[str, Any]:
    word = ints(rng.integers(0, 6, sum(lengths)))
    return {"W": floats(rng, 6, 19), "word": word, "start": starts(lengths)}


def _embedding_bag(a: Arrays) -> tuple[Any, ...]:
    found = [a["W"][a["word"][row]].sum(0) for row in rows(a["start"])]
    return (np.reshape(found, (-1, 19)),)


def _counted(rng: Random, counts: Keys) -> dict[str, Any]:
    return {"x": floats(rng, len(counts), 5, 11), "n": ints(counts)}


def _ragged_mean(a: Arrays) -> tuple[Any, ...]:
    mask = np.arange(5) < a["n"][:, None]
    return (np.einsum("btd,bt->bd", a["x"], mask) / np.maximum(a["n"], 1)[:, None],)


def _ragged(rng: Random, lengths: Keys) -> dict[str, Any]:
    return {"x": floats(rng, sum(lengths), 3), "start": starts(lengths), "T": 12}


def _ragged_to_padded(a: Arrays) -> tuple[Any, ...]:
    n = np.diff(a["start"])
    padded = [np.pad(a["x"][row], ((0, 12 - k), (0, 0))) for row, k in zip(rows(a["start"]), n)]  # noqa: B905
    return np.reshape(padded, (len(n), 12, 3)), n


def _padded(rng: Random, counts: Keys) -> dict[str, Any]:
    return {"x": floats(rng, len(counts), 5), "n": ints(counts)}


def _padded_to_ragged(a: Arrays) -> tuple[Any, ...]:
    chosen = a["x"][np.arange(5) < a["n"][:, None]]
    return starts(a["n"].tolist()), np.pad(chosen, (0, a["x"].size - len(chosen)))


def _paged(rng: Random, counts: Keys) -> dict[str, Any]:
    table = ints(rng.integers(0, 6, (len(counts), 2)))
    return {"page": floats(rng, 6, 4, 7), "table": table, "n": ints(counts)}


def _paged_read(a: Arrays) -> tuple[Any, ...]:
    pages = a["page"][a["table"]].reshape(-1, 8, 7)
    return ([row[:n].sum(0) for row, n in zip(pages, a["n"], strict=True)],)


# --- prefixes and triangles -----------------------------------------------------------------------


def vector(**names: int) -> Callable[[Random, Any], dict[str, Any]]:
    """float32 inputs of these ranks, the same size in all dimensions, or those of a shape."""

    def make(rng: Random, size: Any) -> dict[str, Any]:
        shape = size if isinstance(size, tuple) else None
        return {n: floats(rng, *(shape or (size,) * rank)) for n, rank in names.items()}

    return make


def matrix(**names: str) -> Callable[[Random, Any], dict[str, Any]]:
    """float32 inputs whose sizes are those at these numbers of a shape."""

    def make(rng: Random, shape: Any) -> dict[str, Any]:
        return {n: floats(rng, *(shape[int(k)] for k in which)) for n, which in names.items()}

    return make


def _causal_attention(a: Arrays) -> tuple[Any, ...]:
    s = np.einsum("btd,bud->btu", a["Q"], a["K"]) / np.sqrt(a["Q"].shape[-1])
    p = np.exp(np.where(np.tri(s.shape[1], dtype=bool), s, -np.inf))
    return (p / p.sum(-1, keepdims=True) @ a["V"],)


def _clipped_mean(a: Arrays) -> tuple[Any, ...]:
    places = np.arange(len(a["x"]))
    near = np.abs(places[:, None] - places) <= 2
    return (near @ a["x"] / near.sum(1),)


def _banded(rng: Random, count: int) -> dict[str, Any]:
    return {"A": floats(rng, count, 5), "x": floats(rng, count)}


def _banded_product(a: Arrays) -> tuple[Any, ...]:
    count = len(a["x"])
    matrix = np.zeros((count, count + 4))
    for i, row in enumerate(a["A"]):
        matrix[i, i : i + 5] = row
    return (matrix[:, 2 : count + 2] @ a["x"],)


def _charges(rng: Random, count: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((count, 3)), "q": rng.standard_normal(count)}


def _pair_energy(a: Arrays) -> tuple[Any, ...]:
    charges = np.outer(a["q"], a["q"])[np.triu_indices(len(a["q"]), 1)]
    return ((charges / pdist(a["x"])).sum(),)


def _pairs_in_range(a: Arrays) -> tuple[Any, ...]:
    return (sum(abs(x - y) <= 3 for x, y in itertools.combinations(a["x"].tolist(), 2)),)


# --- places of extremes ---------------------------------------------------------------------------


def _repeated_rows(rng: Random, shape: tuple[int, int]) -> dict[str, Any]:
    """Small whole numbers, whose extremes are not alone in their rows."""
    return {"x": rng.integers(0, 4, shape).astype(np.int32)}


def _with_nans(rng: Random, shape: tuple[int, int]) -> dict[str, Any]:
    """Rows of whole numbers, of which the last has a NaN at each third place."""
    x = rng.integers(0, 4, shape).astype(np.float32)
    x[-1:, 1::3] = np.nan
    return {"x": x}


def _argmax(a: Arrays) -> tuple[Any, ...]:
    x = a["x"]
    if not x.shape[1]:
        return np.full(len(x), -np.inf), np.full(len(x), NO_PLACE)
    return x.max(1), x.argmax(1)


def _argmin_last(a: Arrays) -> tuple[Any, ...]:
    x = a["x"]
    return x.min(1), x.shape[1] - 1 - x[:, ::-1].argmin(1)


def _scored(rng: Random, count: int) -> dict[str, Any]:
    score, cost = rng.integers(0, 3, (2, count))
    identity = rng.permutation(count).astype(np.int64)
    return {"score": score.astype(np.int8), "cost": cost.astype(np.float32), "id": identity}


def _best_with_two(a: Arrays) -> tuple[Any, ...]:
    best = np.lexsort((a["id"], a["cost"], -a["score"].astype(int)))[0]
    return a["score"][best], a["cost"][best], a["id"][best]


def _max_pool_places(a: Arrays) -> tuple[Any, ...]:
    x = a["x"]
    count, height, width = x.shape[0], x.shape[1] // 2, x.shape[2] // 2
    places = np.arange(x[0].size).reshape(x.shape[1:])
    m, at = np.zeros((2, count, height, width))
    u = np.zeros((count, x[0].size))
    for n, h, w in np.ndindex(count, height, width):
        window = np.s_[2 * h : 2 * h + 2, 2 * w : 2 * w + 2]
        first = x[n][window].argmax()
        m[n, h, w], at[n, h, w] = x[n][window].flat[first], places[window].flat[first]
        u[n, places[window].flat[first]] = m[n, h, w]
    return m, at, u


def _k_means_step(a: Arrays) -> tuple[Any, ...]:
    at = np.linalg.norm(a["x"][:, None] - a["c"], axis=-1).argmin(1)
    groups = [a["x"][at == k] for k in range(len(a["c"]))]
    means = [g.mean(0) if len(g) else c for g, c in zip(groups, a["c"], strict=True)]
    return at, [len(g) for g in groups], means


def _points(rng: Random, centre_of: Keys) -> dict[str, Any]:
    """Points near centres."""
    c = floats(rng, 4, 5) + 9 * np.eye(4, 5, dtype=np.float32)
    return {"x": c[ints(centre_of)] + floats(rng, len(centre_of), 5) / 9, "c": c}


# --- places that are computed, each written once --------------------------------------------------


def _compact(a: Arrays) -> tuple[Any, ...]:
    chosen = a["x"][a["x"] > 0]
    return len(chosen), np.pad(chosen, (0, len(a["x"]) - len(chosen)))


def _permuted(rng: Random, shape: tuple[int, int]) -> dict[str, Any]:
    return {"x": floats(rng, *shape), "P": ints(rng.permutation(shape[0]))}


def _permute_rows(a: Arrays) -> tuple[Any, ...]:
    inverse = np.argsort(a["P"])
    return a["x"][inverse], inverse


def _tokens(rng: Random, experts: Keys) -> dict[str, Any]:
    count = len(experts)
    x, gate = floats(rng, count, 5), floats(rng, count)
    return {"x": x, "expert": ints(experts), "gate": gate, "W": floats(rng, 4, 5, 7)}


def _mixture_of_experts(a: Arrays) -> tuple[Any, ...]:
    """An expert takes its first four tokens."""
    y = np.zeros((len(a["x"]), 7))
    for expert, weights in enumerate(a["W"]):
        chosen = np.flatnonzero(a["expert"] == expert)[:4]
        y[chosen] = a["gate"][chosen, None] * (a["x"][chosen] @ weights)
    return (y,)


def _odd_places(a: Arrays) -> tuple[Any, ...]:
    return (np.stack([np.zeros_like(a["x"]), a["x"]], 1).ravel(),)


def _rotation(a: Arrays) -> tuple[Any, ...]:
    turned = (a["x"] + 1j * a["y"]) * (a["c"] + 1j * a["s"])[:, None]
    return turned.real, turned.imag


def _transposed_convolution(a: Arrays) -> tuple[Any, ...]:
    """By convolution with zeros between the elements."""
    spread = np.zeros((len(a["x"]), 2 * a["x"].shape[1] - 1))
    spread[:, ::2] = a["x"]
    pairs = itertools.product(range(len(spread)), range(a["w"].shape[1]))
    found = np.zeros((a["w"].shape[1], spread.shape[1] + a["w"].shape[2] - 1))
    for c, f in pairs:
        found[f] += np.convolve(spread[c], a["w"][c, f])
    return (found,)


def _fold(a: Arrays) -> tuple[Any, ...]:
    h, w, k, m = a["columns"].shape
    o = np.zeros((h + k - 1, w + m - 1))
    for i, j in np.ndindex(k, m):
        o[i : i + h, j : j + w] += a["columns"][:, :, i, j]
    return (o,)


def _written(rng: Random, positions: Keys) -> dict[str, Any]:
    return {"k": floats(rng, 4, 7), "position": ints(positions), "T": 5}


def _cache_write(a: Arrays) -> tuple[Any, ...]:
    here = a["position"][:, None] == np.arange(5)
    return (np.where(here[..., None], a["k"][:, None], a["cache"]),)


def _selected(rng: Random, at: Keys) -> dict[str, Any]:
    return {"at": ints(at), "s": floats(rng, len(at)), "N": 11}


def _scale_selected(a: Arrays) -> tuple[Any, ...]:
    factors = dict(zip(a["at"].tolist(), a["s"], strict=True))
    return ([o * factors.get(k, 1) for k, o in enumerate(a["o"])],)


def _keyed_values(rng: Random, key: Keys) -> dict[str, Any]:
    return {"key": ints(key), "value": ints(rng.integers(-99, 99, len(key)))}


def _counting_sort(a: Arrays) -> tuple[Any, ...]:
    order = np.argsort(a["key"], kind="stable")
    return a["key"][order], a["value"][order]


def _ties(rng: Random, count: int) -> dict[str, Any]:
    return {"x": rng.integers(0, 9, count).astype(np.float32)}


PLACES: tuple[Place, ...] = (
    Place(
        "count_keys",
        keys(7),
        alone("key"),
        lambda a: (np.bincount(a["key"], minlength=7),),
    ),
    Place("weighted_bins", LENGTH, _binned, _weighted_bins),
    Place("scatter_add", keys(7), _scattered, _scatter_add, lambda rng: {"o": floats(rng, 7)}),
    Place("scatter_rows", keys(5), _scattered_rows, _scatter_rows),
    Place("scatter_extremes", filled(keys(6), [*range(6)] * 4), _scattered, _scatter_extremes),
    Place("scatter_argmax", filled(keys(6), [*range(6)] * 4), _repeated_values, _scatter_argmax),
    Place("segment_sum", keys(7), _segments, _segment_sum),
    Place("embedding_backward", WORDS, _embedded, _embedding_backward),
    Place(
        "one_hot",
        keys(6),
        alone("kind"),
        lambda a: (np.eye(6)[a["kind"]],),
    ),
    Place("bigrams", extents(37, one=1, two=2), _letters, _bigrams),
    Place("recall_at_thresholds", LENGTH, _classified, _recall_at_thresholds),
    Place("csr_vector", LENGTHS, _csr_vector, lambda a: (dense(a, 4) @ a["x"],)),
    Place("csr_matrix", LENGTHS, _csr_matrix, lambda a: (dense(a, 4) @ a["B"],)),
    Place("csr_transposed", LENGTHS, _csr_transposed, lambda a: (dense(a, 4).T @ a["B"],)),
    Place("coo_matrix", keys(7), _coo, _coo_matrix),
    Place("edge_softmax", keys(7), _edges, _edge_softmax),
    Place("mean_messages", keys(7), _graph, _mean_messages),
    Place("triangles", SQUARE, _adjacent, _triangles),
    Place(
        "segment_max",
        filled(LENGTHS, [3, 1, 5, 2, 7]),
        lambda rng, lengths: {"row": starts(lengths), "x": floats(rng, sum(lengths))},
        _segment_max,
    ),
    Place("embedding_bag", LENGTHS, _bags, _embedding_bag),
    Place("ragged_mean", COUNTS, _counted, _ragged_mean),
    Place("ragged_to_padded", LENGTHS, _ragged, _ragged_to_padded),
    Place("padded_to_ragged", COUNTS, _padded, _padded_to_ragged),
    Place("paged_read", COUNTS, _paged, _paged_read),
    Place("cumulative_sum", LENGTH, vector(x=1), lambda a: (a["x"].cumsum(),)),
    Place("cumulative_rows", MATRIX, vector(x=2), lambda a: (a["x"].cumsum(1),)),
    Place(
        "offsets",
        LENGTHS,
        alone("count"),
        lambda a: (np.pad(a["count"].cumsum(), (1, 0)),),
    ),
    Place("integral_image", MATRIX, vector(x=2), lambda a: (a["x"].cumsum(0).cumsum(1),)),
    Place("sums_behind", LENGTH, vector(x=1), lambda a: (a["x"][::-1].cumsum()[::-1],)),
    Place("running_maximum", MATRIX, vector(x=2), lambda a: (np.maximum.accumulate(a["x"], 1),)),
    Place("lower_product", SQUARE, vector(L=2, x=1), lambda a: (np.tril(a["L"]) @ a["x"],)),
    Place(
        "causal_attention",
        extents((2, 7, 5, 3), one_place=(1, 1, 2, 3), no_values=(1, 3, 2, 0)),
        matrix(Q="012", K="012", V="013"),
        _causal_attention,
    ),
    Place("syrk_lower", MATRIX, vector(A=2), lambda a: (np.tril(a["A"] @ a["A"].T),)),
    Place("upper_triangle", MATRIX, vector(A=2), lambda a: (np.triu(a["A"]),)),
    Place("clipped_mean", LENGTH, vector(x=1), _clipped_mean),
    Place("banded_product", LENGTH, _banded, _banded_product),
    Place("pair_energy", SQUARE, _charges, _pair_energy),
    Place(
        "pairs_in_range",
        SQUARE,
        lambda rng, count: {"x": ints(rng.integers(0, 19, count))},
        _pairs_in_range,
    ),
    Place("argmax", MATRIX, _with_nans, _argmax),
    Place(
        "argmin_last",
        extents((5, 19), no_rows=(0, 3), one_element=(1, 1), one_row=(1, 7)),
        _repeated_rows,
        _argmin_last,
    ),
    Place("best_with_two", extents(37, one=1, two=2), _scored, _best_with_two),
    Place(
        "max_pool_places",
        extents((2, 6, 9), one_window=(1, 2, 2), one_row=(1, 3, 7)),
        vector(x=3),
        _max_pool_places,
    ),
    Place("k_means_step", keys(4), _points, _k_means_step),
    Place("diagonal", SQUARE, vector(x=1), lambda a: (np.diag(a["x"]),)),
    Place(
        "block_diagonal",
        extents((3, 4, 5), one_block=(1, 3, 2), one_row=(3, 1, 2)),
        vector(x=3),
        lambda a: (block_diag(*a["x"]),),
    ),
    Place(
        "anti_diagonal",
        SQUARE,
        lambda rng, count: {"x": rng.standard_normal(count)},
        lambda a: (np.fliplr(np.diag(a["x"])),),
    ),
    Place("compact", LENGTH, vector(x=1), _compact),
    Place("permute_rows", MATRIX, _permuted, _permute_rows),
    Place("mixture_of_experts", keys(4), _tokens, _mixture_of_experts),
    Place(
        "interleave",
        extents(37, one=1, two=2),
        vector(a=1, b=1),
        lambda a: (np.stack([*a.values()], 1).ravel(),),
    ),
    Place(
        "odd_places",
        LENGTH,
        lambda rng, count: {"x": rng.integers(-99, 99, count).astype(np.int16)},
        _odd_places,
    ),
    Place(
        "halo",
        extents((5, 19), one_row=(1, 7), one_element=(1, 1), no_columns=(3, 0)),
        vector(x=2),
        lambda a: (np.pad(a["x"], ((1, 1), (0, 0)), mode="wrap"),),
    ),
    Place("exchange", LENGTH, vector(a=1, b=1), lambda a: (a["b"], a["a"])),
    Place("rotation", MATRIX, matrix(x="01", y="01", c="0", s="0"), _rotation),
    Place(
        "transposed_convolution",
        extents((3, 19, 2, 5), one_element=(1, 1, 1, 1), no_channels=(0, 3, 2, 2)),
        matrix(x="01", w="023"),
        _transposed_convolution,
    ),
    Place(
        "fold",
        extents((5, 7, 3, 2), one_window=(1, 1, 3, 2), one_column=(3, 1, 1, 1)),
        vector(columns=4),
        _fold,
    ),
    Place(
        "cache_write",
        Values([3, 0, 3, 1], {"one place": [2, 2, 2, 2], "last": [4, 4, 4, 4]}),
        _written,
        _cache_write,
        lambda rng: {"cache": floats(rng, 4, 5, 7)},
    ),
    Place(
        "scale_selected",
        Values([7, 2, 10, 0, 3], {"none": [], "one": [10], "all": [*range(11)]}),
        _selected,
        _scale_selected,
        lambda rng: {"o": floats(rng, 11)},
    ),
    Place("counting_sort", keys(6), _keyed_values, _counting_sort),
    Place("sort_by_rank", LENGTH, _ties, lambda a: (np.sort(a["x"]),)),
)
