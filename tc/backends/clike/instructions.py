"""What the helpers on vectors do on x86, where compilers do not find the instructions themselves.

GCC takes a masked access apart, and loads whole vectors for broadcasts where a multiply-add is
written lane by lane. Other machines, and others of these, have the plain text of the helper.
"""

from __future__ import annotations

from collections.abc import Mapping

from tc.dtypes import DType

_AVX512 = "defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)"
_AVX2 = "defined(__AVX2__) && defined(__FMA__)"
HEADER = f"#if {_AVX2}\n#include <immintrin.h>\n#endif"
"""The header of texts in which "_mm" occurs."""

_EXPONENTS: Mapping[str, tuple[str, str]] = {
    "logb": ("getexp", "x"),
    "scaleb": ("scalef", "x, y"),
    "significand": ("getmant", "x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan"),
}


def with_instructions(template: str, family: str, dtype: DType) -> str:
    """The template of a function, whose body is what to do where there are no instructions."""
    found = _instructions(family, dtype)
    if not found:
        return template
    head, _, body = template.strip().removesuffix("\n}").partition("{\n")
    lines = [f"{head}{{"]
    for condition, text in found:
        lines += [f"{'#elif' if len(lines) > 1 else '#if'} {condition}", f"    {text}"]
    return "\n".join((*lines, "#else", body, "#endif", "}"))


def _instructions(family: str, dtype: DType) -> list[tuple[str, str]]:
    """On which machines there are some, and the statement that the function then is."""
    size = dtype.bytes * dtype.lanes
    if size not in (16, 32, 64):
        return []
    prefix = "_mm" if size == 16 else f"_mm{size * 8}"
    if family in ("load_masked", "store_masked"):
        return _masked(family, dtype, prefix)
    if not dtype.is_float or family not in ("fma", "min", "max", *_EXPONENTS):
        return []
    suffix = "ps" if dtype.bits == 32 else "pd"
    if family in _EXPONENTS:
        name, operands = _EXPONENTS[family]
        condition = "defined(__AVX512F__)" if size == 64 else _AVX512
        return [(condition, f"return {prefix}_{name}_{suffix}({operands});")]
    if family == "fma":
        condition = "defined(__AVX512F__)" if size == 64 else _AVX2
        return [(condition, f"return {prefix}_fmadd_{suffix}(x, y, z);")]
    found = f"{prefix}_{family}_{suffix}(x, y)"  # y where either is NaN
    flags = f"{prefix}_cmp_{suffix}_mask(x, x, _CMP_UNORD_Q)"
    wide = f"return {prefix}_mask_mov_{suffix}({found}, {flags}, x);"
    nans = f"{prefix}_cmp_{suffix}(x, x, _CMP_UNORD_Q)"
    short = f"return {prefix}_blendv_{suffix}({found}, x, {nans});"
    return [(_AVX512, wide), *([(_AVX2, short)] if size < 64 else [])]


def _masked(family: str, dtype: DType, prefix: str) -> list[tuple[str, str]]:
    size, bits = dtype.bytes * dtype.lanes, dtype.bits
    whole, word = f"__m{size * 8}i", "int" if bits == 32 else "long long"
    lanes = f"{prefix}_movepi{bits}_mask(({whole})mask)"
    if family == "load_masked":
        wide = f"return (T){prefix}_maskz_loadu_epi{bits}({lanes}, p);"
        short = f"return (T){prefix}_maskload_epi{bits}((const {word}*)p, ({whole})mask);"
    else:
        wide = f"{prefix}_mask_storeu_epi{bits}(p, {lanes}, ({whole})x);"
        short = f"{prefix}_maskstore_epi{bits}(({word}*)p, ({whole})mask, ({whole})x);"
    has_short = bits >= 32 and size < 64
    return [(_AVX512, wide), *([(_AVX2, short)] if has_short else [])]
