"""The C functions that load and store vectors, wherever their lanes lie."""

from __future__ import annotations

from collections.abc import Mapping

from tc.backends.clike.instructions import with_instructions
from tc.backends.clike.lane_helpers import shuffle_name
from tc.backends.clike.templates import INLINE, function, instance, returning
from tc.backends.clike.types import C_TYPES, MAX_COMPARED_BYTES, mask_type
from tc.dtypes import DType

_NEAR = {
    "load_backward": -1,
    **{f"load_every{step}": step for step in (2, 3, 4)},
    **{f"load_every{step}_backward": -step for step in (2, 3, 4)},
}
"""The steps between elements at which loads of all elements between them are fastest."""

_LANES = "for (int l = 0; l < N; l++)"
_TEMPLATES: Mapping[str, str] = {
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
    "load_strided": returning(
        "T tc_load_strided_T(const E* p, int64_t step)", "(T){EACH[p[$ * step]]}"
    ),
    "store_strided": function(
        "void tc_store_strided_T(E* p, int64_t step, T x)", _LANES, "    p[l * step] = x[l];"
    ),
    "gather": returning("T tc_gather_T(const E* p, INDEX at)", "(T){EACH[p[at[$]]]}"),
    "gather_masked": function(
        "T tc_gather_masked_T(const E* p, INDEX at, M mask)",
        *("E lanes[N];", _LANES, "    lanes[l] = mask[l] ? p[at[l]] : 0;"),
        "return tc_load_T(lanes);",
    ),
    "scatter": function("void tc_scatter_T(E* p, INDEX at, T x)", _LANES, "    p[at[l]] = x[l];"),
    "scatter_masked": function(
        "void tc_scatter_masked_T(E* p, INDEX at, M mask, T x)",
        *(_LANES, "    if (mask[l])", "        p[at[l]] = x[l];"),
    ),
    "load_masked": function(
        "// reads only where the mask is true, and gives 0 elsewhere\n"
        "T tc_load_masked_T(const E* p, M mask)",
        *("E lanes[N];", _LANES, "    lanes[l] = mask[l] ? p[l] : 0;"),
        "return tc_load_T(lanes);",
    ),
    "store_masked": function(
        "// writes only where the mask is true\nvoid tc_store_masked_T(E* p, M mask, T x)",
        *(_LANES, "    if (mask[l])", "        p[l] = x[l];"),
    ),
}


def memory_text(family: str, dtype: DType) -> str | None:
    """The helper of a family, None where there is no such family here."""
    if family in ("load_masked", "store_masked") and dtype.bytes * dtype.lanes > MAX_COMPARED_BYTES:
        return _masked_in_parts(family, dtype)
    if family in _TEMPLATES:
        return instance(with_instructions(_TEMPLATES[family], family, dtype), dtype)
    plain = family.removesuffix("_masked")
    if plain in _NEAR:
        return _load_near(family, dtype, _NEAR[plain])
    return None


def _masked_in_parts(family: str, dtype: DType) -> str:
    """A masked access of a vector larger than registers, as those of its parts: only they have
    instructions (`with_instructions`), and of the plain loop over all lanes GCC makes stores that
    touch the lanes that a mask leaves out (`gcc_faults`)."""
    part, mask = dtype.vector(MAX_COMPARED_BYTES // dtype.bytes), mask_type(dtype.bits, dtype.lanes)
    part_mask, element = mask.vector(part.lanes), C_TYPES[dtype.scalar]
    taken = f"tc_load_{part_mask}(masks + l)"
    lines = [f"{C_TYPES[mask.scalar]} masks[{dtype.lanes}];", f"tc_store_{mask}(masks, mask);"]
    lines.insert(0, f"{element} lanes[{dtype.lanes}];")
    steps = f"for (int l = 0; l < {dtype.lanes}; l += {part.lanes})"
    if family == "load_masked":
        head = f"{dtype} tc_load_masked_{dtype}(const {element}* p, {mask} mask)"
        lines += [
            steps,
            f"    tc_store_{part}(lanes + l, tc_load_masked_{part}(p + l, {taken}));",
            f"return tc_load_{dtype}(lanes);",
        ]
    else:
        head = f"void tc_store_masked_{dtype}({element}* p, {mask} mask, {dtype} x)"
        lines += [
            f"tc_store_{dtype}(lanes, x);",
            steps,
            f"    tc_store_masked_{part}(p + l, {taken}, tc_load_{part}(lanes + l));",
        ]
    return function(f"{INLINE} {head}", *lines)


# --- elements apart ---------------------------------------------------------------------------


def near_name(step: int, dtype: DType, *, masked: bool) -> str | None:
    """The helper that loads elements `step` apart, given a pointer to the element of lane 0; None
    where each element is loaded alone. The helper touches no others than the elements between them,
    and with a mask not even these."""
    found = next((f for f, known in _NEAR.items() if known == step), None)
    return None if found is None else f"tc_{found}{'_masked' if masked else ''}_{dtype}"


def _load_near(family: str, dtype: DType, step: int) -> str:
    """A load of elements at near places: vectors are loaded one after the other, the last so that
    it ends with the last element, and shuffles gather the elements of the vectors."""
    count, reach = dtype.lanes, abs(step)
    span = reach * (count - 1) + 1
    wanted = [reach * lane for lane in range(count)]
    if step < 0:
        wanted.reverse()
    first = f" - {span - 1}" if step < 0 else ""
    masked = family.endswith("_masked")
    mask = mask_type(dtype.bits, count)

    def load(start: int) -> str:
        pointer = f"p + {start}{first}" if start else f"p{first}"
        if not masked:
            return f"tc_load_{dtype}({pointer})"
        lanes = {place - start: lane for lane, place in enumerate(wanted)}
        name = shuffle_name(mask, tuple(lanes.get(k, count) for k in range(count)))
        return f"tc_load_masked_{dtype}({pointer}, {name}(mask, none))"

    lines = [f"{mask} none = {{0}};"] if masked else []
    lines.append(f"{dtype} x = {load(0)};")
    have = [place < count for place in wanted]
    places = [place if place < count else 0 for place in wanted]
    if reach == 1:
        lines.append(f"x = {shuffle_name(dtype, tuple(places))}(x, x);")
    for start in (min(count * n, span - count) for n in range(1, reach)):
        for lane, place in enumerate(wanted):
            if not have[lane] and start <= place < start + count:
                places[lane], have[lane] = count + place - start, True
        lines.append(f"x = {shuffle_name(dtype, tuple(places))}(x, {load(start)});")
        places = list(range(count))
    parameters = f"const {C_TYPES[dtype.scalar]}* p{f', {mask} mask' if masked else ''}"
    head = f"{INLINE} {dtype} tc_{family}_{dtype}({parameters})"
    return function(head, *lines, "return x;")
