"""The kernels by name: those that the speed is promised for, sizes that divide nothing, and what
places and domains are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls
from bench.cpu_kernels import places as pl
from bench.cpu_kernels import pointwise as ps
from bench.cpu_kernels.kernel import Kernel

LISTED: tuple[Kernel, ...] = (
    cs.tmm(128, 32, 256),
    cs.tmm(128, 1024, 1024),
    cs.tmm(128, 4096, 16384),
    cs.tbmm(500, 26, 72, 26),
    ls.gconv(32, 32, 16, 16, 14, 14),
    ls.gconv(32, 32, 32, 32, 7, 7),
    ls.gconv(32, 32, 4, 4, 56, 56),
    ls.gconv(32, 32, 8, 8, 28, 28),
    ls.lut1(10**6, 64, 50, 128),
    ls.lut2(10**6, 64, 50, 128),
    cs.c3(128, 1024, 1000),
    ls.mlp1(128, 2000, 128),
    ls.mlp3(128, 128, 64, 32, 2),
    ls.conv2d(8, 64, 56, 56, 64),
    ls.conv2d_pad(8, 64, 56, 56, 64),
    ls.maxpool(32, 64, 112, 112),
    ps.softmax(512, 4096),
    ps.layernorm(4096, 1024),
    ps.groupnorm(16, 32, 4, 56, 56),
    ps.transpose4d(64, 64, 64, 64),
    cs.outer_product(64, 16, 32, 32, 64),
    cs.bmm_rev(32, 72, 72, 72),
    cs.mttkrp(128, 128, 128, 32),
    ps.sum_log(1000, 1000),
    cs.l2diff(512, 512, 128),
    cs.l2gemm(512, 512, 128),
    cs.sgemm(512, 512, 512),
    cs.sgemm(1024, 1024, 1024),
    cs.sgemm(2048, 2048, 2048),
)

EXTRA: tuple[Kernel, ...] = (ps.moments(4096, 1024),)

PRIME: tuple[Kernel, ...] = (
    cs.tmm(127, 1021, 509),
    cs.tbmm(101, 23, 67, 29),
    ls.gconv(13, 7, 5, 11, 29, 31),
    ls.lut1(99_991, 61, 47, 127),
    ls.mlp1(127, 1999, 131),
    ls.mlp3(127, 113, 61, 29, 3),
    ls.conv2d(3, 13, 53, 53, 17),
    ls.conv2d_pad(3, 13, 53, 53, 17),
    ls.maxpool(13, 31, 109, 113),
    ps.softmax(509, 4093),
    ps.layernorm(1021, 1019),
    ps.transpose4d(61, 59, 67, 71),
    ps.to_channels_last(61, 59, 67, 71),
    cs.bmm_rev(31, 67, 61, 71),
    cs.l2diff(241, 251, 127),
    cs.sgemm(509, 521, 503),
)

SIZES: tuple[tuple[Callable[..., Kernel], tuple[int, ...], Mapping[str, Any]], ...] = (
    (pl.cumulative_rows, (1024, 1024), {}),
    (pl.cumulative_sum, (1_000_003,), {}),
    (pl.integral_image, (1080, 1920), {}),
    (pl.histogram, (10**6, 256), {}),
    (pl.scatter, (10**6, 10**4), {}),
    (pl.scatter, (10**6, 10**6), {"asked": 1.0}),
    (pl.scatter_rows, (20_000, 64, 2_000), {}),
    (pl.csr_matrix, (20_000, 400_000, 32), {}),
    (pl.csr_matrix, (20_000, 400_000, 32), {"power_law": True}),
    (pl.segment_softmax, (200_000, 20_000), {}),
    (pl.segment_softmax, (200_000, 20_000), {"in_order": True}),
    (pl.greatest, (512, 4096), {}),
    (pl.lower_product, (2048,), {}),
    (pl.syrk_lower, (1024, 512), {}),
    (pl.embedding_backward, (50_000, 64, 32, 512), {}),
)
FACTORS = (0.37, 2.3)
"""Of each size, for sizes that no constant was chosen by."""


def scaled(sizes: Sequence[int], factor: float) -> tuple[int, ...]:
    """
    >>> scaled((20_000, 64), 0.37)
    (7400, 24)
    """
    return tuple(round(size * factor) for size in sizes)


PLACES = tuple(make(*sizes, **options) for make, sizes, options in SIZES)
OTHER_SIZES = tuple(
    make(*scaled(sizes, factor), **options) for make, sizes, options in SIZES for factor in FACTORS
)

GROUPS = {
    "listed": LISTED,
    "extra": EXTRA,
    "prime": PRIME,
    "places": PLACES,
    "places-other-sizes": OTHER_SIZES,
}
BY_NAME = {kernel.name: kernel for group in GROUPS.values() for kernel in group}


def group_of(kernel: Kernel) -> str:
    """
    >>> group_of(LISTED[0]), group_of(PRIME[0])
    ('listed', 'prime')
    """
    return next(name for name, group in GROUPS.items() if kernel in group)


def select(words: Sequence[str]) -> tuple[Kernel, ...]:
    """The kernels of the groups and families named, or with a word in their name; all for no word.

    >>> [kernel.name for kernel in select(["softmax 5"])]
    ['softmax 512x4096', 'softmax 509x4093']
    >>> select(["listed"]) == LISTED
    True
    >>> select(["sofmax"])
    Traceback (most recent call last):
        ...
    ValueError: no kernel 'sofmax'; families: bmm_rev, conv2d, ...
    """
    chosen: set[str] = set()
    for word in words:
        found = [
            kernel.name
            for kernel in BY_NAME.values()
            if word in (kernel.family, group_of(kernel)) or word.lower() in kernel.name.lower()
        ]
        if not found:
            families = sorted({kernel.family for kernel in BY_NAME.values()})
            raise ValueError(f"no kernel {word!r}; families: {', '.join(families)}")
        chosen.update(found)
    return tuple(k for k in BY_NAME.values() if not words or k.name in chosen)
