"""Kernels whose places or ranges data decide, or other indices: running sums, histograms, sums by
key, sparse rows, triangles, places of maxima. Each is made from sizes alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bench.cpu_kernels.kernel import Array, Kernel, program

Maker = Callable[[np.random.Generator], Array]


def cumulative_rows(r: int, n: int) -> Kernel:
    return Kernel(
        name=f"cumulative sum of rows {r}x{n}",
        family="cumulative_rows",
        text=program("cumulative_rows"),
        shapes={"x": (r, n)},
        outputs={"o": (r, n)},
        reference=lambda x: x.cumsum(1),
        flops=r * n,
        terms=n,
        asked=1.1,
    )


def cumulative_sum(n: int) -> Kernel:
    return Kernel(
        name=f"cumulative sum {n}",
        family="cumulative_sum",
        text=program("cumulative_sum"),
        shapes={"x": (n,)},
        outputs={"o": (n,)},
        reference=np.cumsum,
        flops=n,
        terms=n,
        asked=1.1,
    )


def integral_image(h: int, w: int) -> Kernel:
    """Along rows and then down columns, or otherwise round, each sum has `h + w` additions."""
    return Kernel(
        name=f"integral image {h}x{w}",
        family="integral_image",
        text=program("integral_image"),
        shapes={"x": (h, w)},
        outputs={"o": (h, w)},
        reference=lambda x: x.cumsum(0).cumsum(1),
        flops=2 * h * w,
        terms=h + w,
        asked=1.5,
    )


def histogram(n: int, k: int) -> Kernel:
    return Kernel(
        name=f"histogram {n} into {k}",
        family="histogram",
        text=f"def histogram(int(N) I) -> (h) {{ h(I(n)) +=! 1 where h.0 = {k} }}",
        shapes={"I": (n,)},
        outputs={"h": (k,)},
        reference=lambda keys: np.bincount(keys, minlength=k),
        flops=n,
        terms=1,
        rows=k,
        integers=frozenset({"h"}),
        asked=1.5,
    )


def scatter(n: int, k: int, asked: float = 1.3) -> Kernel:
    return Kernel(
        name=f"scatter-add {n} into {k}",
        family="scatter",
        text=f"def scatter(int(N) I, float(N) x) -> (h) {{ h(I(n)) +=! x(n) where h.0 = {k} }}",
        shapes={"I": (n,), "x": (n,)},
        outputs={"h": (k,)},
        reference=lambda keys, x: np.bincount(keys, x, minlength=k),
        flops=n,
        terms=n // k,
        rows=k,
        asked=asked,
    )


def summed_rows(keys: Array, x: Array, k: int) -> Array:
    """The sums of the rows of `x` with equal keys.

    >>> summed_rows(np.array([2, 0, 2]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3)
    array([[3., 4.],
           [0., 0.],
           [6., 8.]])
    """
    sums = np.zeros((k, x.shape[1]))
    np.add.at(sums, keys, x)
    return sums


def scatter_rows(n: int, d: int, k: int) -> Kernel:
    return Kernel(
        name=f"scatter-add of rows {n}x{d} into {k}",
        family="scatter_rows",
        text=(
            "def scatter_rows(int(N) I, float(N,D) x) -> (h) "
            f"{{ h(I(n),d) +=! x(n,d) where h.0 = {k} }}"
        ),
        shapes={"I": (n,), "x": (n, d)},
        outputs={"h": (k, d)},
        reference=lambda keys, x: summed_rows(keys, x, k),
        flops=n * d,
        terms=n // k,
        rows=k,
        asked=1.1,
    )


def embedding_backward(v: int, d: int, b: int, n: int) -> Kernel:
    """The gradient of a table of `v` rows, of which a batch takes `b x n`."""
    return Kernel(
        name=f"embedding backward {v}x{d},{b}x{n}",
        family="embedding_backward",
        text=(
            "def embedding_backward(int(B,L) I, float(B,L,D) d_o) -> (d_W) "
            f"{{ d_W(I(b,l),d) +=! d_o(b,l,d) where d_W.0 = {v} }}"
        ),
        shapes={"I": (b, n), "d_o": (b, n, d)},
        outputs={"d_W": (v, d)},
        reference=lambda keys, x: summed_rows(keys.ravel(), x.reshape(-1, d), v),
        flops=b * n * d,
        terms=b * n // v,
        rows=v,
        asked=1.2,
    )


def offsets_of(keys: Array, rows: int) -> Array:
    """Where the entries of each row begin, once they are sorted by rows, and where the last ends.

    >>> offsets_of(np.array([2, 0, 2]), 4)
    array([0, 1, 1, 3, 3], dtype=int32)
    """
    counts = np.bincount(keys, minlength=rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def even_rows(rows: int, entries: int) -> Maker:
    return lambda rng: offsets_of(rng.integers(0, rows, entries), rows)


def power_law_rows(rows: int, entries: int) -> Maker:
    """The row of rank k has a share of the entries that falls as 1 / k; ranks are shuffled."""

    def make(rng: np.random.Generator) -> Array:
        shares = 1 / (1 + rng.permutation(rows))
        return offsets_of(rng.choice(rows, entries, p=shares / shares.sum()), rows)

    return make


def csr_matrix(rows: int, entries: int, d: int, *, power_law: bool = False) -> Kernel:
    """A square sparse matrix times a dense one."""

    def reference(row: Array, col: Array, v: Array, b: Array) -> Array:
        of_entry = np.repeat(np.arange(rows), np.diff(row))
        columns = [np.bincount(of_entry, v * x[col], minlength=rows) for x in b.T]
        return np.stack(columns, axis=1)

    average = entries // rows
    longest = round(entries / math.log(rows + 1)) if power_law else average
    return Kernel(
        name=f"CSR{' by a power law' if power_law else ''} {rows}x{rows}, {entries}, times {d}",
        family="csr_matrix",
        text=program("csr_matrix"),
        shapes={"row": (rows + 1,), "col": (entries,), "v": (entries,), "B": (rows, d)},
        outputs={"y": (rows, d)},
        reference=reference,
        flops=2 * entries * d,
        terms=longest,
        made={
            "row": (power_law_rows if power_law else even_rows)(rows, entries),
            "col": lambda rng: rng.integers(0, rows, entries, dtype=np.int32),
        },
        asked=1.2,
    )


def segment_softmax(e: int, k: int, *, in_order: bool = False) -> Kernel:
    """The weights of a graph's edges, normalised for each node that edges lead to."""

    def reference(keys: Array, s: Array) -> Array:
        greatest = np.full(k, -np.inf)
        np.maximum.at(greatest, keys, s)
        weights = np.exp(s - greatest[keys])
        return weights / np.bincount(keys, weights, minlength=k)[keys]

    return Kernel(
        name=f"segment softmax{', sorted keys' if in_order else ''} {e} into {k}",
        family="segment_softmax_sorted" if in_order else "segment_softmax",
        text=f"""def segment_softmax(int(E) I, float(E) s) -> (o) {{
  m(I(e)) max=! s(e) where m.0 = {k}
  z(I(e)) +=! exp(s(e) - m(I(e))) where z.0 = {k}
  o(e) = exp(s(e) - m(I(e))) / z(I(e))
}}""",
        shapes={"I": (e,), "s": (e,)},
        outputs={"o": (e,)},
        reference=reference,
        flops=5 * e,
        terms=e // k,
        low=-4,
        high=4,
        rows=k,
        made={"I": lambda rng: np.sort(rng.integers(0, k, e, np.int32))} if in_order else {},
        asked=1.0,
    )


def distinct(n: int, d: int) -> Maker:
    """Rows of distinct values from -1 to 1, so that every row has one greatest."""

    def make(rng: np.random.Generator) -> Array:
        row = np.linspace(-1, 1, d, dtype=np.float32)
        return rng.permuted(np.broadcast_to(row, (n, d)), axis=1)

    return make


def greatest(n: int, d: int) -> Kernel:
    return Kernel(
        name=f"maximum with place {n}x{d}",
        family="greatest",
        text=program("argmax"),
        shapes={"x": (n, d)},
        outputs={"m": (n,), "at": (n,)},
        reference=lambda x: (x.max(1), x.argmax(1)),
        flops=n * d,
        terms=1,
        made={"x": distinct(n, d)},
        integers=frozenset({"at"}),
        asked=1.0,
    )


def lower_product(n: int) -> Kernel:
    """Above the diagonal the matrix holds values that do not count."""
    return Kernel(
        name=f"lower triangle times vector {n}",
        family="lower_product",
        text=program("lower_product"),
        shapes={"L": (n, n), "x": (n,)},
        outputs={"y": (n,)},
        reference=lambda a, x: np.tril(a) @ x,
        flops=n * (n + 1),
        terms=n,
        read=4 * (n * (n + 1) // 2 + n),
        asked=1.0,
    )


def syrk_lower(n: int, k: int) -> Kernel:
    """The lower half of a matrix times its transpose, with zeros above."""
    return Kernel(
        name=f"syrk {n}x{k}",
        family="syrk_lower",
        text=program("syrk_lower"),
        shapes={"A": (n, k)},
        outputs={"C": (n, n)},
        reference=lambda a: np.tril(a @ a.T),
        flops=n * (n + 1) * k,
        terms=k,
        asked=0.9,
    )
