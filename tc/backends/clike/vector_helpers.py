"""The C functions on vectors that printed kernels call, in the extensions of GCC and Clang.

A name is "tc_", what it does, and the vector that it does it to: "tc_load_float32x16". Functions
of C are listed for all lanes, which compilers turn into single instructions where there are any.
Those that move lanes are in `lane_helpers`, loads and stores in `memory_helpers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.backends.clike.instructions import with_instructions
from tc.backends.clike.lane_helpers import REDUCTIONS, lanes_of, reduction, shuffle
from tc.backends.clike.memory_helpers import memory_text
from tc.backends.clike.templates import INLINE, function, instance, returning
from tc.backends.clike.types import C_TYPES, MAX_COMPARED_BYTES, mask_type, vector_type
from tc.builtins import BUILTINS
from tc.dtypes import FLOAT32, DType
from tc.kernel.math.exponents import EXPONENT_FUNCTIONS

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
"""Operators by the names of the helpers that stand in for them on vectors of more than
`MAX_COMPARED_BYTES`."""

_PARTED: Mapping[str, int] = {"logb": 1, "max": 2, "min": 2, "scaleb": 2, "significand": 1}
"""Functions, and their numbers of arguments, that are called on parts of a vector of more than
`MAX_COMPARED_BYTES`."""

# functions of the table that are an instruction or a few; calls of others are not copied about
_INSTRUCTIONS = frozenset(
    ("abs", "ceil", "copysign", "fabs", "fdivide", "floor", "fma", "fmax", "fmin", "logb", "rint")
    + ("round", "rsqrt", "sqrt", "trunc")
)

_TEMPLATES: Mapping[str, str] = {
    "broadcast": returning("T tc_broadcast_T(E x)", "(T){EACH[x]}"),
    "select": returning("T tc_select_T(M mask, T x, T y)", "(T)((mask & (M)x) | (~mask & (M)y))"),
}

_OF_INTEGERS: Mapping[str, str] = {
    "ramp": """
T tc_ramp_T(E base, E step)
{
    U lanes = {EACH[$]};
    return (T)(tc_broadcast_U((A)base) + tc_broadcast_U((A)step) * lanes);
}""",
    "nearest": returning(
        "T tc_nearest_T(int64_t x)",
        "tc_broadcast_T(x < MIN ? MIN : x > MAX ? MAX : (E)x)",
        "// in all lanes the number nearest to x",
    ),
    "min": returning("T tc_min_T(T x, T y)", "tc_select_T((M)(x < y), x, y)"),
    "max": returning("T tc_max_T(T x, T y)", "tc_select_T((M)(x > y), x, y)"),
    "popc": """
T tc_popc_T(T x)
{
    const A all = (A)-1;
    U a = (U)x;
    a = a - (a >> (A)1 & (A)(all / 3));
    a = (a & (A)(all / 5)) + (a >> (A)2 & (A)(all / 5));
    a = (a + (a >> (A)4)) & (A)(all / 17);
#if BYTES > 1
    a = a + (a >> (A)8);
#endif
#if BYTES > 2
    a = a + (a >> (A)16);
#endif
#if BYTES > 4
    a = a + (a >> (A)32);
#endif
    return (T)(a & (A)127);
}""",
    "clz": """
T tc_clz_T(T x)
{
    U a = (U)x;
    a = a | a >> (A)1;
    a = a | a >> (A)2;
    a = a | a >> (A)4;
#if BYTES > 1
    a = a | a >> (A)8;
#endif
#if BYTES > 2
    a = a | a >> (A)16;
#endif
#if BYTES > 4
    a = a | a >> (A)32;
#endif
    return tc_popc_T((T)~a);
}""",
    "abs": """
T tc_abs_T(T x)
{
    M sign = (M)(x < 0);
    return (T)(((U)x ^ (U)sign) - (U)sign);
}""",
}

_OF_FLOATS: Mapping[str, str] = {
    family: returning(
        f"T tc_{family}_T(T x, T y)",
        f"tc_select_T((M)((x {op} y) | (x != x)), x, y)",
        f"// the {word}, NaN where either is",
    )
    for family, op, word in (("min", "<", "lesser"), ("max", ">", "greater"))
}

# as tc_float_of_half and tc_half_of_float do it
_OF_FLOAT32: Mapping[str, str] = {
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

_OF_FLOAT64: Mapping[str, str] = {
    "to_half": returning("HALF tc_to_half_T(T x)", "(HALF){EACH[tc_half_of_double(x[$])]}"),
}


def vector_helper_text(name: str) -> str | None:
    """The definition of a helper on vectors, None where there is no such name.

    >>> print(vector_helper_text("tc_sqrt_float64x2"))
    static inline __attribute__((always_inline, unused)) float64x2 tc_sqrt_float64x2(float64x2 x)
    {
        return (float64x2){sqrt(x[0]), sqrt(x[1])};
    }
    """
    found = re.fullmatch(r"tc_(\w+?)_((?:u?int|float)\d+x\d+)(?:_(\w+))?", name)
    dtype = vector_type(found[2]) if found else None
    if found is None or dtype is None:
        return None
    family, detail = found[1], found[3]
    if detail is not None and family == "shuffle":
        return shuffle(dtype, lanes_of(detail))
    if detail is not None:
        return _conversion(name, dtype, detail) if family == "to" else None
    if family in REDUCTIONS:
        return reduction(family, dtype)
    is_wide = dtype.bytes * dtype.lanes > MAX_COMPARED_BYTES
    if is_wide and (family in COMPARISONS or family in _PARTED):
        return _in_parts(family, dtype)
    if (template := _templates(dtype).get(family)) is not None:
        return instance(with_instructions(template, family, dtype), dtype)
    return memory_text(family, dtype) or _lane_by_lane(family, dtype)


def _templates(dtype: DType) -> Mapping[str, str]:
    if not dtype.is_float:
        return {**_TEMPLATES, **_OF_INTEGERS}
    return {**_TEMPLATES, **_OF_FLOATS, **(_OF_FLOAT32 if dtype.bits == 32 else _OF_FLOAT64)}


def _lane_by_lane(family: str, dtype: DType) -> str | None:
    """A function of the table, or an operation that C has on scalars only."""
    suffix = "f" if dtype.scalar == FLOAT32 else ""
    if family in ("div", "mod"):
        function, count = f"tc_{family}_{dtype.name}", 2
    elif family in EXPONENT_FUNCTIONS and dtype.is_float:
        function, count = f"tc_{family}{suffix}", EXPONENT_FUNCTIONS[family].arity
    elif family in BUILTINS and dtype.is_float and (c := BUILTINS[family].c) is not None:
        function, count = c + suffix, BUILTINS[family].arity
    else:
        return None
    names = "xyzw"[:count]
    parameters = ", ".join(f"T {name}" for name in names)
    call = f"{function}({', '.join(f'{name}[$]' for name in names)})"
    text = f"T tc_{family}_T({parameters})\n{{\n    return (T){{EACH[{call}]}};\n}}"
    is_called = family in BUILTINS and family not in _INSTRUCTIONS
    inline = "static inline" if is_called else INLINE
    return instance(with_instructions(text, family, dtype), dtype, inline)


def _in_parts(family: str, dtype: DType) -> str:
    """A comparison, or an operation with one, on vectors that GCC would take apart lane by lane."""
    part = dtype.vector(MAX_COMPARED_BYTES // dtype.bytes)
    count = _PARTED.get(family, 2)
    names, arrays = "xy"[:count], "ab"[:count]
    values = [f"tc_load_{part}({array} + l)" for array in arrays]
    result, made = dtype, f"tc_{family}_{part}({', '.join(values)})"
    if family in COMPARISONS:
        result, of_part = (mask_type(dtype.bits, d.lanes) for d in (dtype, part))
        made = f"({of_part})({f' {COMPARISONS[family]} '.join(values)})"
    store, parameters = result.vector(part.lanes), ", ".join(f"{dtype} {name}" for name in names)
    declared = ", ".join(f"{array}[{dtype.lanes}]" for array in arrays)
    return function(
        f"{INLINE} {result} tc_{family}_{dtype}({parameters})",
        f"{C_TYPES[dtype.scalar]} {declared};",
        f"{C_TYPES[result.scalar]} made[{dtype.lanes}];",
        *(f"tc_store_{dtype}({a}, {x});" for a, x in zip(arrays, names, strict=True)),
        f"for (int l = 0; l < {dtype.lanes}; l += {part.lanes})",
        f"    tc_store_{store}(made + l, {made});",
        f"return tc_load_{result}(made);",
    )


def _conversion(name: str, target: DType, source_name: str) -> str | None:
    """Floats to integers. Where a value is out of range, GCC gives any integer, as the kernel
    allows, but Clang's optimiser may do anything, so it gets a 0 instead."""
    source = vector_type(f"{source_name}x{target.lanes}")
    if source is None or not source.is_float or not target.is_integer:
        return None
    mask = mask_type(source.bits, source.lanes)
    return function(
        f"{INLINE} {target} {name}({source} x)",
        "#ifdef __clang__",
        f"x = ({source})(({mask})x & ({mask})({_in_range(source, target)}));",
        "#endif",
        f"return __builtin_convertvector(x, {target});",
    )


def _in_range(source: DType, target: DType) -> str:
    """The condition that a float truncates to a value of the integer type."""
    bits = target.bits - (target.kind == "int")
    suffix, digits = ("f", 24) if source.scalar == FLOAT32 else ("", 53)
    if target.kind == "uint":
        least = f"x > -1.0{suffix}"
    elif bits < digits:
        least = f"x > -{2.0**bits + 1!r}{suffix}"
    else:  # the next float below is out of range
        least = f"x >= -{2.0**bits!r}{suffix}"
    return f"({least}) & (x < {2.0**bits!r}{suffix})"
