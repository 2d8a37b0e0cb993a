"""The C functions that printed kernels call beside <math.h>; a text contains those it uses.
Those on vectors are in `vector_helpers`.

Names begin with "tc_", which no name of a program keeps. Helpers of arithmetic end in the type
that they are for ("tc_div_int32"), built-in functions in C's own way ("tc_sinpi" for double,
"tc_sinpif" for float).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tc.backends.clike.dialect import Dialect
from tc.backends.clike.special_functions import SPECIAL_FUNCTIONS
from tc.backends.clike.templates import function, returning
from tc.backends.clike.types import C_TYPES
from tc.backends.clike.warp_helpers import warp_helper
from tc.dtypes import DTYPES, FLOAT32, FLOAT64, DType


def _inline(head: str, value: str, comment: str = "") -> str:
    return returning(f"static inline {head}", value, comment)


# T is the type, U the unsigned one of its width, @ the suffix of float functions; # makes a
# constant one of the type, where a language does not do so by itself

_SIGNED = {
    "div": """
static inline T tc_div_N(T a, T b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (T)(0 - (U)a);
    return a % b != 0 && (a < 0) != (b < 0) ? a / b - 1 : a / b;
}""",
    "mod": """
static inline T tc_mod_N(T a, T b)
{
    if (b == 0 || b == -1)
        return 0;
    return a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b;
}""",
    "abs": _inline("T tc_abs_N(T a)", "a < 0 ? (T)(0 - (U)a) : a"),
}

_UNSIGNED = {
    "div": _inline("T tc_div_N(T a, T b)", "b == 0 ? 0 : a / b"),
    "mod": _inline("T tc_mod_N(T a, T b)", "b == 0 ? 0 : a % b"),
}

_INTEGER = {
    "min": _inline("T tc_min_N(T a, T b)", "a < b ? a : b"),
    "max": _inline("T tc_max_N(T a, T b)", "a > b ? a : b"),
    "popc": """
static inline T tc_popc_N(T a)
{
#ifdef __GNUC__
    return (T)__builtin_popcountll((U)a);
#else
    uint64_t x = (U)a;
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (T)(x * UINT64_C(0x0101010101010101) >> 56);
#endif
}""",
    "clz": """
static inline T tc_clz_N(T a)
{
    uint64_t x = (U)a;
    int zeros = 8 * (int)sizeof(a);
#ifdef __GNUC__
    return (T)(x == 0 ? zeros : zeros - 64 + __builtin_clzll(x));
#else
    for (; x != 0; x >>= 1)
        zeros--;
    return (T)zeros;
#endif
}""",
}

_FLOAT = {
    **{
        family: _inline(
            f"T tc_{family}_N(T a, T b)",
            f"a {op} b || a != a ? a : b",
            f"// the {word}, NaN where either is",
        )
        for family, op, word in (("min", "<", "lesser"), ("max", ">", "greater"))
    },
    "mod": """
static inline T tc_mod_N(T a, T b)
{
    T rest = fmod@(a, b);
    if (rest == 0)
        return copysign@(rest, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}""",
}

# no templates: their types are fixed
_PLAIN = {
    "tc_prefetch": """
static inline void tc_prefetch(uintptr_t address)
{
#ifdef __GNUC__
    __builtin_prefetch((const void*)address);
#else
    (void)address;
#endif
}""",
    "tc_float_of_half": """
static inline float tc_float_of_half(uint16_t half)
{
    union { uint32_t bits; float value; } result;
    uint32_t size = half & 0x7FFFu;
    result.bits = size << 13;
    result.value *= 5.192296858534828e33f; // 2 to the power of 112, the exponents' difference
    if (size >= 0x7C00u)
        result.bits |= 0x7F800000u; // infinite or NaN
    result.bits |= (uint32_t)(half & 0x8000u) << 16;
    return result.value;
}""",
    "tc_half_of_float": """
static inline uint16_t tc_half_of_float(float x)
{
    union { float value; uint32_t bits; } size;
    uint32_t sign;
    size.value = x;
    sign = size.bits >> 16 & 0x8000u;
    size.bits &= 0x7FFFFFFFu;
    if (size.bits > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u); // NaN
    if (size.bits >= 0x477FF000u)
        return (uint16_t)(sign | 0x7C00u); // 65520 and more
    if (size.bits < 0x38800000u) {
        size.value += 0.5f; // rounds to a multiple of the smallest half
        return (uint16_t)(sign | (size.bits - 0x3F000000u));
    }
    return (uint16_t)(sign | (size.bits + (size.bits >> 13 & 1u) + 0xFFFu - 0x38000000u) >> 13);
}""",
    "tc_half_of_double": """
static inline uint16_t tc_half_of_double(double x)
{
    union { double value; uint64_t bits; } size;
    uint64_t sign, odd;
    size.value = x;
    sign = size.bits >> 48 & 0x8000u;
    size.bits &= UINT64_C(0x7FFFFFFFFFFFFFFF);
    if (size.bits > UINT64_C(0x7FF0000000000000))
        return (uint16_t)(sign | 0x7E00u); // NaN
    if (size.bits >= UINT64_C(0x40EFFE0000000000))
        return (uint16_t)(sign | 0x7C00u); // 65520 and more
    if (size.bits < UINT64_C(0x3F10000000000000)) {
        size.value += 268435456.0; // rounds to a multiple of the smallest half
        return (uint16_t)(sign | (size.bits - UINT64_C(0x41B0000000000000)));
    }
    odd = size.bits >> 42 & 1u;
    size.bits += odd + UINT64_C(0x1FFFFFFFFFF) - UINT64_C(0x3F00000000000000);
    return (uint16_t)(sign | size.bits >> 42);
}""",
}

_BUILTINS = {
    "tc_fdivide": _inline("T tc_fdivide@(T x, T y)", "x / y"),
    "tc_rsqrt": _inline("T tc_rsqrt@(T x)", "1 / sqrt@(x)"),
    "tc_exp10": _inline("T tc_exp10@(T x)", "pow@(10#, x)"),
    "tc_scaleb": """
static inline T tc_scaleb@(T x, T n)
{
    if (n != n || n == INFINITY)
        return x == x ? x * n : n;
    if (n == -INFINITY)
        return x == x ? x * 0 : 0;
    return scalbn@(x, n > 5000 ? 5000 : n < -5000 ? -5000 : (int)floor@(n));
}""",
    "tc_significand": """
static inline T tc_significand@(T x)
{
    int exponent;
    if (!(x > 0 && x < INFINITY))
        return x == 0 ? copysign@(1#, x) : x > 0 ? 1 : NAN;
    x = frexp@(x, &exponent);
    return x < (T)0.75 ? 2 * x : x;
}""",
}

_LENGTHS = (
    ("hypot", "double x, double y", "hypot(x, y)"),
    ("norm3d", "double x, double y, double z", "hypot(hypot(x, y), z)"),
    ("norm4d", "double x, double y, double z, double w", "hypot(hypot(hypot(x, y), z), w)"),
)

_OF_HALF_TURNS = """
static inline double tc_{name}(double x)
{{
    double turn = fmod(fabs(x), 2#);
    double quarter = floor(2 * turn + 0.5);
    double angle = 3.141592653589793 * (turn - 0.5 * quarter);
    double value = quarter == 1 ? {values[0]}
                 : quarter == 2 ? {values[1]}
                 : quarter == 3 ? {values[2]} : {values[3]};
    return {result}
}}"""

# float uses these too, and rounds
_BUILTINS_IN_DOUBLE = {
    "tc_rcbrt": _inline("double tc_rcbrt(double x)", "1 / cbrt(x)"),
    **{
        f"tc_{'r' * inverse}{name}": _inline(
            f"double tc_{'r' * inverse}{name}({parameters})", f"{'1 / ' * inverse}{length}"
        )
        for name, parameters, length in _LENGTHS
        for inverse in (False, True)
        if inverse or name != "hypot"  # which C has
    },
    "tc_sinpi": _OF_HALF_TURNS.format(
        name="sinpi",
        values=("cos(angle)", "-sin(angle)", "-cos(angle)", "sin(angle)"),
        result="copysign(1#, x) * (value + 0.0); "
        "// no -0 at the whole numbers before x gives its sign",
    ),
    "tc_cospi": _OF_HALF_TURNS.format(
        name="cospi",
        values=("-sin(angle)", "-cos(angle)", "sin(angle)", "cos(angle)"),
        result="value + 0.0; // no -0",
    ),
    "tc_normcdf": """
static inline double tc_normcdf(double x)
{
    double bounded = x < -39 ? -39 : x > 39 ? 39 : x; // 0 and 1 are reached before
    double scaled = bounded * -0.7071067811865476; // and what rounding the root and this lost
    double rest = fma(bounded, -0.7071067811865476, -scaled) + bounded * 4.833646656726457e-17;
    double tail = erfc(scaled);
    if (bounded < -1)
        tail -= 2 * scaled * rest * tail;
    return 0.5 * tail;
}""",
    **SPECIAL_FUNCTIONS,
}


def helper_texts(text: str, dialect: Dialect) -> list[str]:
    """The definitions of the helpers of a text, each after the helpers that its own text calls."""
    found: dict[str, str] = {}

    def add(caller: str) -> None:
        for name in re.findall(r"\btc_\w+(?=\()", caller):
            if name not in found and (helper := helper_text(name, dialect)) is not None:
                callees = helper[helper.index("{") :]
                add(callees)
                found[name] = helper

    add(text)
    return list(found.values())


def helper_text(name: str, dialect: Dialect) -> str | None:
    """The definition of a helper, None where there is no such name."""
    if dialect.vectors is not None and (text := dialect.vectors.helper(name)) is not None:
        return text
    if name in dialect.helpers:
        return dialect.helpers[name]
    found = _builtin(name, dialect) or warp_helper(name, dialect) or _plain(name, dialect)
    return None if found is None else dialect.respelt(found)


def _plain(name: str, dialect: Dialect) -> str | None:
    if name in _PLAIN:
        return _PLAIN[name].strip()
    _, _, rest = name.partition("tc_")
    family, _, type_name = rest.partition("_")
    if family == "bits":
        return _bits(name, *(DTYPES[part] for part in type_name.split("_of_")))
    dtype = DTYPES.get(type_name)
    if dtype is None:
        return None
    if family == "to" and dtype.is_integer:
        return _conversion(dtype)
    template = _templates(dtype).get(family)
    return None if template is None else _instance(template, dtype, dialect)


def _templates(dtype: DType) -> Mapping[str, str]:
    if dtype in (FLOAT32, FLOAT64):
        return _FLOAT
    match dtype.kind:
        case "int":
            return {**_INTEGER, **_SIGNED}
        case "uint":
            return {**_INTEGER, **_UNSIGNED}
        case _:
            return {}


def _instance(template: str, dtype: DType, dialect: Dialect) -> str:
    """A template for one type. Functions of the library that have one name for all types need
    constants of exactly the argument's type."""
    is_float = dtype == FLOAT32
    text = re.sub(r"\bT\b", C_TYPES[dtype], template.strip())
    text = re.sub(r"\bU\b", f"uint{dtype.bits}_t", text)
    text = re.sub(r"_N\b", f"_{dtype.name}", text)
    text = re.sub(r"\b(tc_\w+)@", r"\1f" if is_float else r"\1", text)
    constant = "" if dialect.suffix else ".0f" if is_float else ".0"
    text = text.replace("@", dialect.suffix if is_float else "")
    return re.sub(r"#(?!if|else|endif)", constant, text)  # but for the preprocessor's


def _builtin(name: str, dialect: Dialect) -> str | None:
    plain = name.removesuffix("f")
    for known, dtype in ((name, FLOAT64), (plain, FLOAT32)):
        if known in _BUILTINS:
            return _instance(_BUILTINS[known], dtype, dialect)
        if known in _BUILTINS_IN_DOUBLE:
            in_double = _instance(_BUILTINS_IN_DOUBLE[known], FLOAT64, dialect)
            return in_double if dtype == FLOAT64 else _rounded(in_double)
    return None


def _rounded(in_double: str) -> str:
    """The float version of a helper that computes in double."""
    head, _, _ = in_double.partition("\n")
    name, parameters = head.removeprefix("static inline double ").rstrip(")").split("(")
    arguments = parameters.replace("double ", "(double)")
    floats = parameters.replace("double", "float")
    return _inline(f"float {name}f({floats})", f"(float){name}({arguments})")


def _bits(name: str, target: DType, source: DType) -> str:
    return function(
        f"static inline {C_TYPES[target]} {name}({C_TYPES[source]} x)",
        f"union {{ {C_TYPES[source]} from; {C_TYPES[target]} to; }} bits;",
        "bits.from = x;",
        "return bits.to;",
    )


def _conversion(dtype: DType) -> str:
    """A double without its fraction; the nearest where it is out of range, 0 for NaN."""
    type_, limit = C_TYPES[dtype], dtype.name.upper()
    if dtype.kind == "uint":
        low, high, below = "x > -1.0", 2**dtype.bits, "0"
    else:
        high = 2 ** (dtype.bits - 1)
        low = f"x >= -{high}.0" if dtype.bits == 64 else f"x > -{high + 1}.0"
        below = f"x < 0.0 ? {limit}_MIN : 0"
    return function(
        f"static inline {type_} tc_to_{dtype.name}(double x)",
        f"if ({low} && x < {high}.0)",
        f"    return ({type_})x;",
        f"return x > 0.0 ? {limit}_MAX : {below};",
    )
