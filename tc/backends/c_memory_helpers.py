"""The C functions that load and store vectors, wherever their lanes lie."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tc.backends.c_lane_helpers import shuffle_name
from tc.backends.c_templates import INLINE, instance
from tc.backends.c_types import C_TYPES
from tc.dtypes import DType

_NEAR = {
    "load_backward": -1,
    **{f"load_every{step}": step for step in (2, 3, 4)},
    **{f"load_every{step}_backward": -step for step in (2, 3, 4)},
}
"""The steps at which elements are best loaded together with those between them."""

_AVX512 = "defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)"
_AVX2 = "defined(__AVX2__)"
INSTRUCTIONS = f"#if {_AVX2}\n#include <immintrin.h>\n#endif"
"""The header for a text in which "_mm" occurs."""

_PLAIN: Mapping[str, str] = {
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
    "load_strided": """
T tc_load_strided_T(const E* p, int64_t step)
{
    return (T){EACH[p[$ * step]]};
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
    return (T){EACH[p[at[$]]]};
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
}

# INSTRUCTION is what machines have for a mask, before OTHERWISE
_MASKED: Mapping[str, str] = {
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
}


def memory_text(family: str, dtype: DType) -> str | None:
    """The helper of a family, None where there is no such family here."""
    if family in _PLAIN:
        return instance(_PLAIN[family], dtype)
    if family in _MASKED:
        return instance(_with_instructions(family, dtype), dtype)
    if family in _NEAR:
        return _load_near(family, dtype, _NEAR[family])
    return None


# --- masks ------------------------------------------------------------------------------------


def _with_instructions(family: str, dtype: DType) -> str:
    """The template of a masked access, preceded by what machines have for it."""
    head, _, body = _MASKED[family].strip().removesuffix("\n}").partition("{\n")
    texts = _instructions(family, dtype)
    if not texts:
        return f"{head}{{\n{body}\n}}"
    words = itertools.chain(["#if"], itertools.repeat("#elif"))
    lines = [
        line
        for (condition, text), word in zip(texts, words, strict=False)
        for line in (f"{word} {condition}", f"    {text}")
    ]
    return "\n".join((f"{head}{{", *lines, "#else", body, "#endif", "}"))


def _instructions(family: str, dtype: DType) -> list[tuple[str, str]]:
    """What to do with the pointer p, the mask and the value x, and on which machines."""
    size, bits = dtype.bytes * dtype.lanes, dtype.bits
    if size not in (16, 32, 64):
        return []
    prefix, all_bits = f"_mm{'' if size == 16 else size * 8}", f"__m{size * 8}i"
    lanes, mask = f"{prefix}_movepi{bits}_mask(({all_bits})mask)", f"({all_bits})mask"
    word = "int" if bits == 32 else "long long"
    if family == "load_masked":
        wide = f"return (T){prefix}_maskz_loadu_epi{bits}({lanes}, p);"
        short = f"return (T){prefix}_maskload_epi{bits}((const {word}*)p, {mask});"
    else:
        wide = f"{prefix}_mask_storeu_epi{bits}(p, {lanes}, ({all_bits})x);"
        short = f"{prefix}_maskstore_epi{bits}(({word}*)p, {mask}, ({all_bits})x);"
    has_short = bits >= 32 and size <= 32
    return [(_AVX512, wide), *([(_AVX2, short)] if has_short else [])]


# --- elements apart ---------------------------------------------------------------------------


def near_name(step: int, dtype: DType) -> str | None:
    """The helper that loads elements so many apart, given a pointer to that of lane 0, without
    touching others than those between them; None where each is loaded alone."""
    found = next((f for f, known in _NEAR.items() if known == step), None)
    return None if found is None else f"tc_{found}_{dtype}"


def _load_near(family: str, dtype: DType, step: int) -> str:
    """Vectors are loaded one after the other, the last so that it ends with the last element
    wanted, and what they bring is gathered by shuffles."""
    count, reach = dtype.lanes, abs(step)
    span = reach * (count - 1) + 1
    wanted = [reach * lane for lane in range(count)]
    if step < 0:
        wanted.reverse()
    places = [place if place < count else 0 for place in wanted]
    first = f" - {span - 1}" if step < 0 else ""
    lines = [
        f"{INLINE} {dtype} tc_{family}_{dtype}(const {C_TYPES[dtype.scalar]}* p)",
        "{",
        f"    {dtype} x = tc_load_{dtype}(p{first});",
    ]
    have = [place < count for place in wanted]
    if reach == 1:
        lines.append(f"    x = {shuffle_name(dtype, tuple(places))}(x, x);")
    for start in (min(count * n, span - count) for n in range(1, reach)):
        for lane, place in enumerate(wanted):
            if not have[lane] and start <= place < start + count:
                places[lane], have[lane] = count + place - start, True
        load = f"tc_load_{dtype}(p + {start}{first})"
        lines.append(f"    x = {shuffle_name(dtype, tuple(places))}(x, {load});")
        places = list(range(count))
    return "\n".join((*lines, "    return x;", "}"))
