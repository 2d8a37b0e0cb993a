"""The dialect CUDA C++: a kernel function for each launch, text that needs no header.

It prints no vectors. Functions of doubles and of floats have CUDA's own names, as far as CUDA's
guide promises the ulps of the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

from tc.backends.clike import tensor_cores
from tc.backends.clike.c import C99
from tc.backends.clike.dialect import Dialect, LaunchWords, Reserved, respelling, suffixed
from tc.backends.clike.grid_text import has_grid_barrier
from tc.backends.clike.templates import returning
from tc.backends.geometry import extents
from tc.dtypes import DTYPES, FLOAT64, INT64, UINT64, DType
from tc.gpu import REGISTERS_BESIDE, SHARED_ALIGNMENT_BYTES, Gpu
from tc.kernel.ir import Buffer, For, Grid, Kernel, Set, WarpMultiply, statements

STATIC_SHARED_BYTES = 48 << 10
"""The bytes of arrays in shared memory that a function may declare; a launch asks for more."""

FLAGS = ("--ptxas-options=-v",)
"""What the text is compiled with, beside the architecture: products and sums may be contracted to
multiply-adds, and the log has what each function needs."""

_NAMES = {
    "bool": "bool", "float32": "float", "float64": "double",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip
_TYPES: Mapping[DType, str] = {
    dtype: _NAMES[dtype.unsigned.name if dtype.is_storage else name]
    for name, dtype in DTYPES.items()
}
_SUFFIXES = {"int64": "LL", "uint64": "ULL", "uint32": "u"}
_INFINITY, _NAN = "__int_as_float(0x7f800000)", "__int_as_float(0x7fffffff)"
_INFINITE_DOUBLE = "__longlong_as_double(0x7ff0000000000000LL)"
_NAN_DOUBLE = "__longlong_as_double(0x7fffffffffffffffLL)"

# --- names ------------------------------------------------------------------------------------

# functions of the table that C lacks; the Bessel functions of real order are less exact than it
# says where arguments are large
_NATIVE = """
cospi cyl_bessel_i0 cyl_bessel_i1 erfcinv erfcx erfinv exp10 norm3d norm4d normcdf normcdfinv rcbrt
rhypot rnorm3d rnorm4d rsqrt sinpi
""".split()  # noqa: SIM905

# those of C are reserved too, and all of these forms
_WORDS = """
alignas alignof and and_eq asm assert atomicAdd atomicAnd atomicCAS atomicDec atomicExch atomicInc
atomicMax atomicMin atomicOr atomicSub atomicXor bitand bitor blockDim blockIdx catch char8_t
char16_t char32_t class clock clock64 co_await co_return co_yield compl concept const_cast
consteval constexpr constinit decltype delete dim3 dynamic_cast explicit export fdividef free
friend gridDim j0 j1 jn malloc mutable namespace new noexcept not not_eq nullptr operator or or_eq
printf private protected public reinterpret_cast requires saturate sincospi static_assert
static_cast std template this thread_local threadIdx throw try typeid typename using virtual
warpSize wchar_t xor xor_eq y0 y1 yn abs llabs labs min max umin umax llmin llmax ullmin ullmax
""".split()  # noqa: SIM905
_FUNCTIONS = frozenset(name + suffix for name in (*_NATIVE, *_WORDS) for suffix in ("", "f"))

RESERVED = Reserved(
    words=C99.reserved.words | _FUNCTIONS,
    functions=C99.reserved.functions | _FUNCTIONS,
    forms=re.compile(
        r"_.*|tc_.*|(u?(char|short|int|long|longlong)|float|double)[1-4](_\w+)?"
        r"|(u?int|float)\d+x\d+|(cuda|CUDA|CU|NV|surf|tex)\w*|u?int\w*_t"
        r"|(size|ptrdiff|wchar|clock|time|nullptr|max_align)_t"
    ),
)

# --- texts ------------------------------------------------------------------------------------

_MIN = {8: "(-128)", 16: "(-32768)", 32: "(-2147483647 - 1)", 64: "(-9223372036854775807LL - 1)"}


def _limits() -> Iterator[tuple[str, str]]:
    """The names that <stdint.h> has for the bounds of integers, and their values."""
    for dtype in DTYPES.values():
        if dtype.is_integer:
            greatest = 2 ** (dtype.bits - (dtype.kind == "int")) - 1
            yield f"{dtype.name.upper()}_MAX", f"{greatest}{_SUFFIXES.get(dtype.name, '')}"
            if dtype.kind == "int":
                yield f"{dtype.name.upper()}_MIN", _MIN[dtype.bits]


_RESPELT: Mapping[str, str] = {
    **{f"{dtype.name}_t": name for dtype, name in _TYPES.items() if dtype.is_integer},
    **dict(_limits()),
    "static": "static __device__",
    "INFINITY": _INFINITY,
    "NAN": _NAN,
}
"""Words of C99 in helper functions."""


MANY_SUMS = 32
"""Sums of a thread from which on these decide how many blocks a multiprocessor has room for."""


def _head(gpu: Gpu, grid: Grid | None) -> str:
    """The head of the function for a grid. Where blocks wait for each other, all blocks run at
    once, so the threads get few enough registers for `blocks / processors` blocks on each
    multiprocessor. Where each thread holds many sums, it has as many registers as these need, but
    none for which a block less would fit, if there are that many blocks for each multiprocessor."""
    threads = math.prod(extents(grid.threads if grid else ()))
    blocks = math.prod(extents(grid.blocks if grid else ()))
    sums, each = _sums(grid) if grid else 0, -(-blocks // gpu.processors)
    if not grid or not has_grid_barrier(grid):
        fitting = gpu.blocks_at_once(threads, 0, REGISTERS_BESIDE + sums) // gpu.processors
        each = min(each, fitting) if sums >= MANY_SUMS else 1
    bounds = f"{threads}, {each}" if each > 1 else f"{threads}"
    return f'extern "C" __global__ void __launch_bounds__({bounds})'


def _sums(grid: Grid) -> int:
    """How many 32-bit registers the locals take to which loops add."""
    loops = (s for s in statements(grid.body) if isinstance(s, For))
    sums: dict[str, int] = {}
    for stmt in (s for loop in loops for s in statements(loop.body)):
        if isinstance(stmt, Set):
            sums[stmt.var] = -(-stmt.value.dtype.bits // 32)
        elif isinstance(stmt, WarpMultiply):
            sums.update(dict.fromkeys(stmt.sums, 1))
    return sum(sums.values())


_WAIT = "tc_wait_for_grid"
_WAITING = f"""
// All blocks together add the highest bit to the word, which changes when the last has come.
static __device__ void {_WAIT}(unsigned int* word)
{{
    __syncthreads();
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {{
        const unsigned int others = gridDim.x * gridDim.y * gridDim.z - 1u;
        const bool is_first = (blockIdx.x | blockIdx.y | blockIdx.z) == 0;
        __threadfence();
        const unsigned int before = atomicAdd(word, is_first ? 0x80000000u - others : 1u);
        while (((before ^ *(volatile unsigned int*)word) & 0x80000000u) == 0) {{
        }}
        __threadfence();
    }}
    __syncthreads();
}}
""".strip()


_COPY, _COMMIT, _ARRIVED = "tc_copy", "tc_commit_copies", "tc_wait_for_copies"
COPIED_SINCE = 80
"""The first architecture that has asynchronous copies (PTX ISA, cp.async)."""


def _copy_async(to: str, source: str, size: int, condition: str | None) -> str:
    if condition is None:
        return f"{_COPY}_{size}({to}, {source});"
    return f"{_COPY}_{size}_if({condition}, {to}, {source});"


def _copying(size: int, *, is_conditional: bool) -> str:
    """The function that begins to copy; reads of 16 bytes do not go through the first cache."""
    test, cache = "bool is_copied, " if is_conditional else "", "cg" if size == 16 else "ca"
    name = f"{_COPY}_{size}{'_if' if is_conditional else ''}"
    taken = ", %2" if is_conditional else ""
    given = f', "r"(is_copied ? {size} : 0)' if is_conditional else ""
    return f"""
static __device__ __forceinline__ void {name}({test}void* to, const void* source)
{{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}{taken};"
                 :: "r"(shared), "l"(source){given} : "memory");
}}
""".strip()


_GROUPS: Mapping[str, str] = {
    _COMMIT: f"""
static __device__ __forceinline__ void {_COMMIT}()
{{
    asm volatile("cp.async.commit_group;" ::: "memory");
}}
""".strip(),
    _ARRIVED: f"""
template <int left>
static __device__ __forceinline__ void {_ARRIVED}()
{{
    asm volatile("cp.async.wait_group %0;" :: "n"(left) : "memory");
}}
""".strip(),
}


_ATOMICS = {"+": "Add", "min": "Min", "max": "Max", "&": "And", "|": "Or", "^": "Xor"}
_COMPARING = ("min", "max")


def _atomic(op: str, buffer: Buffer, element: str, value: str) -> str:
    """An Atomic. Of integers of 64 bits with a sign, CUDA has only the functions that compare; the
    others have the same bits without a sign."""
    pointer = f"&{element}"
    if buffer.dtype == INT64 and op not in _COMPARING:
        wide = _TYPES[UINT64]
        pointer, value = f"({wide}*){pointer}", f"({wide})({value})"
    return f"atomic{_ATOMICS[op]}({pointer}, {value});"


def _half_conversion(name: str, target: str, source: str, instruction: str) -> str:
    """A conversion of a half, of which the text knows the bits, by an instruction of PTX."""
    letters = {"unsigned short": "h", "float": "f", "double": "d"}
    operands = f'"={letters[target]}"(result) : "{letters[source]}"(x)'
    return "\n".join([
        f"static __device__ inline {target} {name}({source} x)",
        "{",
        f"    {target} result;",
        f'    asm("{instruction} %0, %1;" : {operands});',
        "    return result;",
        "}",
    ])  # fmt: skip


_HALF = {
    name: _half_conversion(name, *rest)
    for name, *rest in (
        ("tc_float_of_half", "float", "unsigned short", "cvt.f32.f16"),
        ("tc_half_of_float", "unsigned short", "float", "cvt.rn.f16.f32"),
        ("tc_half_of_double", "unsigned short", "double", "cvt.rn.f16.f64"),
    )
}


def _on_bits(function: str, dtype: DType) -> str:
    """A function of integers by CUDA's for 32 or 64 bits, zeros standing above narrower ones."""
    name, unsigned = _TYPES[dtype], _TYPES[DTYPES[f"uint{dtype.bits}"]]
    wide, suffix = ("long long", "ll") if dtype.bits == 64 else ("int", "")
    value = f"__{function}{suffix}(({wide})({unsigned})x)"
    if function == "clz" and dtype.bits < 32:
        value += f" - {32 - dtype.bits}"
    head = f"static __device__ inline {name} tc_{function}_{dtype}({name} x)"
    return returning(head, f"({name})({value})")


_ON_BITS = {
    f"tc_{function}_{dtype}": _on_bits(function, dtype)
    for dtype in _TYPES
    if dtype.is_integer
    for function in ("popc", "clz")
}


def _preamble(_kernel: Kernel, text: str) -> Iterator[str]:
    if _WAIT in text:
        yield _WAITING
    for size, is_conditional in product((4, 8, 16), (False, True)):
        if f"{_COPY}_{size}{'_if' if is_conditional else ''}(" in text:
            yield _copying(size, is_conditional=is_conditional)
    yield from (definition for name, definition in _GROUPS.items() if name in text)


CUDA = Dialect(
    name="CUDA C++",
    types=_TYPES,
    integer=suffixed(_SUFFIXES, _MIN),
    infinity=lambda dtype: _INFINITE_DOUBLE if dtype == FLOAT64 else _INFINITY,
    nan=lambda dtype: _NAN_DOUBLE if dtype == FLOAT64 else _NAN,
    suffix="f",
    native={name: name for name in _NATIVE},
    respelt=respelling(_RESPELT, _SUFFIXES["uint64"]),
    reserved=RESERVED,
    preamble=_preamble,
    head=partial(_head, Gpu()),
    space="",
    restrict="__restrict__",
    unused="(void)&{};",  # without an address it warns of what is written and not read
    aligned="{name} = ({pointer})__builtin_assume_aligned({name}, {bytes});",
    unroll="#pragma unroll",
    fails=lambda number: (
        f"if (atomicCAS((unsigned long long*)status, 0ULL, {number}ULL) == 0) {{",
    ),
    launch=LaunchWords(
        block=lambda axis: f"blockIdx.{axis}",
        thread=lambda axis: f"threadIdx.{axis}",
        barrier="__syncthreads();",
        grid_barrier=f"{_WAIT}({{word}});",
        shared=f"__shared__ __align__({SHARED_ALIGNMENT_BYTES})",
        atomic=_atomic,
        exchange=lambda value, distance: f"__shfl_xor_sync(0xffffffffu, {value}, {distance})",
        spread=lambda value, lanes: f"__shfl_sync(0xffffffffu, {value}, 0, {lanes})",
        copy_async=_copy_async,
        commit=f"{_COMMIT}();",
        wait=f"{_ARRIVED}<{{left}}>();",
        multiply=tensor_cores.multiply_lines,
        most_static=STATIC_SHARED_BYTES,
        arena=f"extern __shared__ __align__({SHARED_ALIGNMENT_BYTES}) unsigned char",
    ),
    prefetch=lambda _stmt, _context: iter(()),  # GPUs do other work meanwhile
    vectors=None,
    helpers={**_HALF, **_ON_BITS, **tensor_cores.HELPERS},
)


def cuda_for(gpu: Gpu, *, aligned: bool = True) -> Dialect:
    """CUDA C++ for a GPU, whose multiprocessors bound the registers of threads. Arrays lie at
    multiples of their `wide_bytes`, or, unless they are `aligned`, anywhere."""
    launch = CUDA.launch
    if launch is not None and _number(gpu.arch) < COPIED_SINCE:
        launch = replace(launch, copy_async=None)
    start = partial(_head, gpu)
    return replace(CUDA, head=start, aligned=CUDA.aligned if aligned else "", launch=launch)


def _number(arch: str) -> int:
    """The number of an architecture.

    >>> _number("sm_90a"), _number("compute_75")
    (90, 75)
    """
    found = re.search(r"\d+", arch)
    return int(found[0]) if found else COPIED_SINCE
