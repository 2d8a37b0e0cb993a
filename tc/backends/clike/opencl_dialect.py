"""The dialect OpenCL C 1.2: a kernel function for each launch, whose blocks are work-groups and
whose threads are work-items. It needs doubles where the kernel has them, and prints no vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tc.backends.clike.c import C99
from tc.backends.clike.dialect import Dialect, LaunchWords, Reserved, respelling, suffixed
from tc.backends.clike.templates import returning
from tc.backends.geometry import extents
from tc.dtypes import DTYPES, DType
from tc.gpu import SHARED_ALIGNMENT_BYTES
from tc.kernel.ir import Buffer, Grid, Kernel
from tc.plan import AXES

FLAGS = ("-cl-std=CL1.2",)
EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
"""What the text is built with, the second where a device can divide so."""

_NAMES = {
    "bool": "bool", "float32": "float", "float64": "double", "int8": "char",
    "int16": "short", "int32": "int", "int64": "long", "uint8": "uchar", "uint16": "ushort",
    "uint32": "uint", "uint64": "ulong",
}  # fmt: skip
_TYPES: Mapping[DType, str] = {
    dtype: _NAMES[dtype.unsigned.name if dtype.is_storage else name]
    for name, dtype in DTYPES.items()
}
_SUFFIXES = {"int64": "L", "uint64": "UL", "uint32": "u"}
_LIMITS = {8: "CHAR", 16: "SHRT", 32: "INT", 64: "LONG"}
_LEAST = {bits: f"{word}_MIN" for bits, word in _LIMITS.items()}

# --- names ------------------------------------------------------------------------------------

# those of C are reserved too, and all of these forms
_WORDS = """
abs abs_diff acospi add_sat all any asinpi async_work_group_copy async_work_group_strided_copy
atan2pi atanpi barrier bitselect constant cospi cross ctz degrees distance dot event_t exp10
fast_distance fast_length fast_normalize fract generic global hadd half image1d_array_t
image1d_buffer_t image1d_t image2d_array_t image2d_t image3d_t isequal isfinite isgreater
isgreaterequal isinf isless islessequal islessgreater isnan isnormal isnotequal isordered
isunordered kernel length lgamma_r local mad mad24 mad_hi mad_sat max maxmag mem_fence min minmag
mix mul24 mul_hi ndrange_t normalize pipe popcount pown powr prefetch printf private ptrdiff_t quad
queue_t radians reserve_id_t rhadd rootn rotate rsqrt sampler_t select shuffle shuffle2 sign signbit
sincos sinpi size_t smoothstep step sub_sat tanpi uchar uint ulong uniform upsample ushort vec_step
wait_group_events
""".split()  # noqa: SIM905

RESERVED = Reserved(
    words=C99.reserved.words.union(_WORDS),
    functions=C99.reserved.functions.union(_WORDS),
    forms=re.compile(
        r"_.*|tc_.*|(u?(char|short|int|long)|float|double|half|bool|quad)(2|3|4|8|16)"
        r"|(float|double)\d+x\d+|(atomic|atom|convert|cl|sub_group|work_group|vload|vstore)_?\w*"
        r"|(native|half|as|read|write|get|intel|amd)_\w+"
        r"|(CL|CLK|FLT|DBL|HALF|FP|M|CHAR|SCHAR|UCHAR|SHRT|USHRT|INT|UINT|LONG|ULONG)_\w+"
        r"|[us]?int\w*_t"
    ),
)

# --- texts ------------------------------------------------------------------------------------

_RESPELT: Mapping[str, str] = {
    **{f"{dtype.name}_t": name for dtype, name in _TYPES.items() if dtype.is_integer},
    **{f"INT{bits}_{end}": f"{_LIMITS[bits]}_{end}" for bits in _LIMITS for end in ("MIN", "MAX")},
    **{f"UINT{bits}_MAX": f"U{_LIMITS[bits]}_MAX" for bits in _LIMITS},
    "scalbn": "ldexp",
    "half": "given",
}
"""Words of C99 in helper functions."""


_ON_BITS = {
    f"tc_{function}_{dtype}": returning(
        f"static inline {name} tc_{function}_{dtype}({name} x)", f"{own}(x)"
    )
    for dtype, name in _TYPES.items()
    if dtype.is_integer
    for function, own in (("popc", "popcount"), ("clz", "clz"))
}


_ATOMICS = {"+": "add", "&": "and", "|": "or", "^": "xor", "min": "min", "max": "max"}
_WIDE = "atom"


def _atomic(op: str, buffer: Buffer, element: str, value: str) -> str:
    """An Atomic; those of 64 bits are functions of extensions."""
    stem = "atomic" if buffer.dtype.bits == 32 else _WIDE
    return f"{stem}_{_ATOMICS[op]}(&{element}, {value});"


def _preamble(_kernel: Kernel, text: str) -> Iterator[str]:
    pragmas = ["#pragma OPENCL FP_CONTRACT OFF"]
    for kind, functions in (("base", ("add",)), ("extended", ("and", "or", "xor", "min", "max"))):
        if any(f"{_WIDE}_{name}(" in text for name in functions):
            pragmas.insert(0, f"#pragma OPENCL EXTENSION cl_khr_int64_{kind}_atomics : enable")
    if re.search(r"\bdouble\b", text):
        pragmas.insert(0, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    yield "\n".join(pragmas)


def _head(grid: Grid | None) -> str:
    """The head of a function that a grid is run by."""
    sizes = ", ".join(map(str, extents(grid.threads if grid else ())))
    return f"__kernel __attribute__((reqd_work_group_size({sizes}))) void"


OPENCL = Dialect(
    name="OpenCL C",
    types=_TYPES,
    integer=suffixed(_SUFFIXES, _LEAST),
    infinity=lambda _dtype: "INFINITY",
    nan=lambda _dtype: "NAN",
    suffix="",
    native={"exp10": "exp10", "rsqrt": "rsqrt", "sinpi": "sinpi", "cospi": "cospi"},
    respelt=respelling(_RESPELT, _SUFFIXES["uint64"]),
    reserved=RESERVED,
    preamble=_preamble,
    head=_head,
    space="__global ",
    restrict="restrict",
    unused="(void){};",
    aligned="",
    unroll=None,  # it makes compilers slow, and they unroll by themselves
    # the low half of the first word says who is first
    fails=lambda number: (
        f"if (atomic_cmpxchg((volatile __global int*)status, 0, {number}) == 0) {{",
    ),
    launch=LaunchWords(
        block=lambda axis: f"(long)get_group_id({AXES.index(axis)})",
        thread=lambda axis: f"(long)get_local_id({AXES.index(axis)})",
        barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        grid_barrier=None,
        shared=f"__local __attribute__((aligned({SHARED_ALIGNMENT_BYTES})))",
        atomic=_atomic,
    ),
    prefetch=lambda _stmt, _context: iter(()),  # GPUs do other work meanwhile
    vectors=None,
    helpers=_ON_BITS,
)
