"""The C functions on vectors that printed kernels call, in the extensions of GCC and Clang.

A name is "tc_", what it does, and the vector that it does it to: "tc_load_float32x16". Most
work lane by lane, in loops, which compilers turn into single instructions where there are any;
the others are in `c_lane_helpers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tc.backends.c_lane_helpers import INLINE, REDUCTIONS, lanes_of, reduction, shuffle
from tc.backends.c_types import C_TYPES, mask_type, memory_type, vector_type
from tc.builtins import BUILTINS
from tc.dtypes import FLOAT16, FLOAT32, FLOAT64, DType

COMPARISONS: Mapping[str, str] = {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
"""Operators by the names of the helpers that stand in for them; see `WIDEST`."""

WIDEST = 64
"""The bytes up to which GCC compares vectors well; it takes larger ones apart lane by lane."""

# functions of the table that are an instruction or a few; calls of others are not copied about
_INSTRUCTIONS = frozenset(
    [
        "abs",
        "ceil",
        "copysign",
        "fabs",
        "fdivide",
        "floor",
        "fma",
        "fmax",
        "fmin",
        "rint",
        "round",
        "rsqrt",
        "sqrt",
        "trunc",
    ]
)

# T is the type, E that of an element, M its mask, U its unsigned vector, N the number of lanes;
# EACH(x) lists x for all lanes, with the lane's number for $

_TEMPLATES: Mapping[str, str] = {
    "broadcast": """
T tc_broadcast_T(E x)
{
    return (T){EACH(x)};
}""",
    "ramp": """
T tc_ramp_T(E base, E step)
{
    return (T)(tc_broadcast_U((A)base) + tc_broadcast_U((A)step) * (U){EACH($)});
}""",
    "nearest": """
// in all lanes the number nearest to x
T tc_nearest_T(int64_t x)
{
    return tc_broadcast_T(x < MIN ? MIN : x > MAX ? MAX : (E)x);
}""",
    "load": """
T tc_load_T(const E* p)
{
    typedef T anywhere __attribute__((aligned(BYTES), may_alias));
    return *(const anywhere*)p;
}""",
    "store": """
void tc_store_T(E* p, T x)
{
    typedef T anywhere __attribute__((aligned(BYTES), may_alias));
    *(anywhere*)p = x;
}""",
    "load_masked": """
// reads only where the mask is true, and gives 0 elsewhere
T tc_load_masked_T(const E* p, M mask)
{
    E lanes[N];
    for (int l = 0; l < N; l++)
        lanes[l] = mask[l] ? p[l] : 0;
    return tc_load_T(lanes);
}""",
    "store_masked": """
// writes only where the mask is true
void tc_store_masked_T(E* p, M mask, T x)
{
    for (int l = 0; l < N; l++)
        if (mask[l])
            p[l] = x[l];
}""",
    "load_strided": """
T tc_load_strided_T(const E* p, int64_t step)
{
    E lanes[N];
    for (int l = 0; l < N; l++)
        lanes[l] = p[l * step];
    return tc_load_T(lanes);
}""",
    "store_strided": """
void tc_store_strided_T(E* p, int64_t step, T x)
{
    for (int l = 0; l < N; l++)
        p[l * step] = x[l];
}""",
    "gather": """
T tc_gather_T(const E* p, INDEX at)
{
    E lanes[N];
    for (int l = 0; l < N; l++)
        lanes[l] = p[at[l]];
    return tc_load_T(lanes);
}""",
    "gather_masked": """
T tc_gather_masked_T(const E* p, INDEX at, M mask)
{
    E lanes[N];
    for (int l = 0; l < N; l++)
        lanes[l] = mask[l] ? p[at[l]] : 0;
    return tc_load_T(lanes);
}""",
    "scatter": """
void tc_scatter_T(E* p, INDEX at, T x)
{
    for (int l = 0; l < N; l++)
        p[at[l]] = x[l];
}""",
    "scatter_masked": """
void tc_scatter_masked_T(E* p, INDEX at, M mask, T x)
{
    for (int l = 0; l < N; l++)
        if (mask[l])
            p[at[l]] = x[l];
}""",
    "select": """
T tc_select_T(M mask, T x, T y)
{
    for (int l = 0; l < N; l++)
        x[l] = mask[l] ? x[l] : y[l];
    return x;
}""",
    "any": """
bool tc_any_T(T mask)
{
    E found = 0;
    for (int l = 0; l < N; l++)
        found |= mask[l];
    return found != 0;
}""",
    "all": """
bool tc_all_T(T mask)
{
    E found = -1;
    for (int l = 0; l < N; l++)
        found &= mask[l];
    return found != 0;
}""",
}

# as tc_float_of_half and tc_half_of_float do it
_HALF: Mapping[str, str] = {
    "from_half": """
T tc_from_half_T(HALF x)
{
    U half = __builtin_convertvector(x, U), size = half & 0x7FFFu;
    U number = (U)((T)(size << 13) * 5.192296858534828e33f);
    U special = (U)(size >= 0x7C00u) & 0x7F800000u;
    return (T)(number | special | (half & 0x8000u) << 16);
}""",
    "to_half": """
HALF tc_to_half_T(T x)
{
    U sign = (U)x >> 16 & 0x8000u, size = (U)x & 0x7FFFFFFFu;
    U half = (size + (size >> 13 & 1u) + 0xFFFu - 0x38000000u) >> 13;
    U small = (U)((T)size + 0.5f) - 0x3F000000u;
    half = tc_select_U((M)(size < 0x38800000u), small, half);
    half = tc_select_U((M)(size >= 0x477FF000u), tc_broadcast_U(0x7C00u), half);
    half = tc_select_U((M)(size > 0x7F800000u), tc_broadcast_U(0x7E00u), half);
    return __builtin_convertvector(sign | half, HALF);
}""",
}


def vector_helper_text(name: str) -> str | None:
    """The definition of a helper on vectors, None where there is no such name.

    >>> print(vector_helper_text("tc_sqrt_float32x4"))
    static inline __attribute__((always_inline)) float32x4 tc_sqrt_float32x4(float32x4 x)
    {
        for (int l = 0; l < 4; l++)
            x[l] = sqrtf(x[l]);
        return x;
    }
    """
    found = re.fullmatch(r"tc_(\w+?)_((?:u?int|float)\d+x\d+)(?:_(\w+))?", name)
    dtype = vector_type(found[2]) if found else None
    if found is None or dtype is None:
        return None
    family, detail = found[1], found[3]
    if family in _HALF and dtype.scalar == FLOAT32:
        return _instance(_HALF[family], dtype)
    if family in _TEMPLATES and detail is None:
        return _instance(_TEMPLATES[family], dtype)
    if family in REDUCTIONS and detail is None:
        return reduction(family, dtype)
    if family == "shuffle" and detail is not None:
        return shuffle(dtype, lanes_of(detail))
    if family == "to" and detail is not None:
        return _conversion(name, dtype, detail)
    if family == "to_half" and dtype.scalar == FLOAT64:
        return _half_of_double(name, dtype)
    return _lane_by_lane(name, family, dtype)


def _instance(template: str, dtype: DType) -> str:
    text = re.sub(r"EACH\((.*?)\)", lambda m: _each(m[1], range(dtype.lanes)), template.strip())
    unsigned = f"uint{dtype.bits}"
    words = {
        "T": str(dtype),
        "E": C_TYPES[dtype.scalar],
        "M": str(mask_type(dtype.bits, dtype.lanes)),
        "U": f"{unsigned}x{dtype.lanes}",
        "A": f"{unsigned}_t",
        "INDEX": f"int64x{dtype.lanes}",
        "HALF": f"uint16x{dtype.lanes}",
        "N": str(dtype.lanes),
        "BYTES": str(dtype.bytes),
        "MIN": f"{dtype.name.upper()}_MIN",
        "MAX": f"{dtype.name.upper()}_MAX",
    }
    text = re.sub(r"(?<![a-zA-Z0-9])[A-Z]+(?![a-zA-Z0-9_])", lambda m: words.get(m[0], m[0]), text)
    return _inlined(text)


def _inlined(text: str) -> str:
    return re.sub(r"^(?=\w+ tc_)", f"{INLINE} ", text, count=1, flags=re.MULTILINE)


def _each(text: str, lanes: Iterable[int]) -> str:
    return ", ".join(text.replace("$", str(lane)) for lane in lanes)


# --- one function for all lanes ---------------------------------------------------------------


def _lane_by_lane(name: str, family: str, dtype: DType) -> str | None:
    """A function of the table, an operation that C has on scalars only, or a comparison."""
    type_, count = str(dtype), 2
    if family in COMPARISONS:
        mask = mask_type(dtype.bits, dtype.lanes)
        return _loop(
            f"{INLINE} {mask} {name}({type_} x, {type_} y)",
            (f"{mask} mask = {{0}};",),
            f"mask[l] = -(x[l] {COMPARISONS[family]} y[l]);",
            dtype.lanes,
            "mask",
        )
    if family in ("min", "max", "div", "mod") or (family == "abs" and dtype.is_integer):
        function = f"tc_{family}_{dtype.name}"
        count = 1 if family == "abs" else 2
    elif family in BUILTINS and dtype.is_float and (c := BUILTINS[family].c) is not None:
        function, count = c + ("f" if dtype.name == "float32" else ""), BUILTINS[family].arity
    else:
        return None
    names = "xyzw"[:count]
    inline = "static inline" if family in BUILTINS and family not in _INSTRUCTIONS else INLINE
    head = f"{inline} {type_} {name}({', '.join(f'{type_} {n}' for n in names)})"
    call = f"x[l] = {function}({', '.join(f'{n}[l]' for n in names)});"
    return _loop(head, (), call, dtype.lanes, "x")


def _loop(head: str, before: Iterable[str], body: str, lanes: int, result: str) -> str:
    return "\n".join(
        (
            head,
            "{",
            *(f"    {line}" for line in before),
            f"    for (int l = 0; l < {lanes}; l++)",
            f"        {body}",
            f"    return {result};",
            "}",
        )
    )


# --- conversions ------------------------------------------------------------------------------


def _conversion(name: str, target: DType, source_name: str) -> str | None:
    """Floats to integers. Where a value is out of range, GCC gives any integer, as the kernel
    allows, but Clang's optimiser may do anything, so it gets a 0 instead."""
    source = vector_type(f"{source_name}x{target.lanes}")
    if source is None or not source.is_float or not target.is_integer:
        return None
    return "\n".join(
        (
            f"{INLINE} {target} {name}({source} x)",
            "{",
            "#ifdef __clang__",
            f"    for (int l = 0; l < {target.lanes}; l++)",
            f"        x[l] = {_in_range('x[l]', source, target)} ? x[l] : 0;",
            "#endif",
            f"    return __builtin_convertvector(x, {target});",
            "}",
        )
    )


def _in_range(x: str, source: DType, target: DType) -> str:
    """That a float truncates to a value of the integer type."""
    bits = target.bits - (target.kind == "int")
    suffix, digits = ("f", 24) if source.scalar == FLOAT32 else ("", 53)
    if target.kind == "uint":
        least = f"{x} > -1.0{suffix}"
    elif bits < digits:
        least = f"{x} > -{2.0**bits + 1!r}{suffix}"
    else:  # the next float below is out of range
        least = f"{x} >= -{2.0**bits!r}{suffix}"
    return f"{least} && {x} < {2.0**bits!r}{suffix}"


def _half_of_double(name: str, dtype: DType) -> str:
    halves = memory_type(FLOAT16.vector(dtype.lanes))
    return _loop(
        f"{INLINE} {halves} {name}({dtype} x)",
        (f"uint16_t lanes[{dtype.lanes}];",),
        "lanes[l] = tc_half_of_double(x[l]);",
        dtype.lanes,
        f"tc_load_{halves}(lanes)",
    )
