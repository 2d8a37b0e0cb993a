"""How CUDA C++ multiplies matrices by the threads of a warp: PTX for ldmatrix and mma.sync.

Each thread gives the address of a line of 16 bytes, and gets its words of eight lines at a time;
which line is that of which thread follows from where the instructions want rows ("Matrix Fragments
for mma.m16n8k16", "mma.m16n8k8" and "ldmatrix" in the PTX ISA). A word is of two neighbours of a
line, or one float: of lines of steps, ldmatrix gives what is wanted; of other lines, it turns
halves around, and of floats threads read the words themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tc.backends.clike.dialect import Context
from tc.backends.clike.scalars import element
from tc.dtypes import FLOAT32
from tc.kernel import ir
from tc.kernel.folding import plus
from tc.kernel.matrix_products import F16, PRODUCTS, TF32, MatrixProduct

_LANE_HELPER = """
static __device__ inline unsigned int tc_lane()
{
    unsigned int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
""".strip()

_HELD = {F16.name: ("halves", "unsigned short"), TF32.name: ("floats", "float")}
"""What tiles hold, in words, and as a type of CUDA C++."""


def _multiply(product: MatrixProduct) -> str:
    """The function that adds products to four results."""
    name, shape = product.name, f"m16n8k{product.steps}"
    return f"""
// adds the products of 16 rows of a and 8 rows of b, all of {product.steps} {_HELD[name][0]}
static __device__ inline void {_MULTIPLY[name]}(float& c0, float& c1, float& c2, float& c3,
    const unsigned int (&a)[4], unsigned int b0, unsigned int b1)
{{
    asm volatile("mma.sync.aligned.{shape}.row.col.f32.{name}.{name}.f32 "
        "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}
""".strip()


_MULTIPLY = {F16.name: "tc_multiply", TF32.name: "tc_multiply_tf32"}

_ROUNDED = """
// to 10 bits of mantissa, ties away from zero
static __device__ inline unsigned int tc_to_tf32(float value)
{
    unsigned int rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded;
}
""".strip()


def _load(name: str, count: int, transposed: str, element: str) -> str:
    """The function that loads the words of so many times eight lines of elements; each thread of a
    warp gives a line of these."""
    words = [f"to[{n}]" for n in range(count)]
    registers = ", ".join(f"%{n}" for n in range(count))
    targets = ", ".join(f'"=r"({word})' for word in words)
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16"
    address = '"r"((unsigned int)__cvta_generic_to_shared(line))'
    return "\n".join([
        f"static __device__ inline void {name}{count}(",
        f"    unsigned int (&to)[{count}], const {element}* line)",
        "{",
        f'    asm volatile("{instruction} {{{registers}}}, [%{count}];"',
        f'        : {targets} : {address} : "memory");',
        "}",
    ])  # fmt: skip


_LOAD, _LOAD_TRANSPOSED = "tc_load_matrix_x", "tc_load_transposed_x"
_LOAD_FLOATS = "tc_load_floats_x"

HELPERS: Mapping[str, str] = {
    "tc_lane": _LANE_HELPER,
    "tc_to_tf32": _ROUNDED,
    **{
        f"{name}{count}": _load(name, count, transposed, _HELD[product.name][1])
        for name, transposed, product in (
            (_LOAD, "", F16),
            (_LOAD_TRANSPOSED, ".trans", F16),
            (_LOAD_FLOATS, "", TF32),
        )
        for count in (2, 4)
    },
    **{_MULTIPLY[product.name]: _multiply(product) for product in PRODUCTS.values()},
}
"""The functions by their names."""

_LANE = "tc_lane()"


@dataclass(frozen=True)
class _Side:
    """The left tile, or two right tiles that are neighbours.

    `lines`: of the line that a thread names, the row and the step where it begins, where lines are
    rows and where they are steps; L stands for the elements of a line. `words`: the rows, and the
    steps in halves of all, by which the words of a thread are apart from its first."""

    lines: tuple[tuple[str, str], tuple[str, str]]
    words: tuple[tuple[int, int], ...]


_LEFT = _Side(
    (
        (f"{_LANE} % 16", f"{_LANE} / 16 * L"),
        (f"{_LANE} / 8 % 2 * 8", f"({_LANE} % 8 + {_LANE} / 16 * 8)"),
    ),
    ((0, 0), (8, 0), (0, 1), (8, 1)),
)
_RIGHT = _Side(
    (
        (f"({_LANE} / 16 * 8 + {_LANE} % 8)", f"{_LANE} / 8 % 2 * L"),
        (f"{_LANE} / 16 * 8", f"{_LANE} % 16"),
    ),
    ((0, 0), (0, 1), (8, 0), (8, 1)),
)
_OWN_WORD = f"{_LANE} / 4", f"{_LANE} % 4"
"""The row and the step of the first word of a thread, where words are floats."""


def multiply_lines(stmt: ir.WarpMultiply, context: Context) -> Iterator[str]:
    """The lines of a WarpMultiply; two right tiles that are neighbours are loaded together."""
    left, right = _loads(stmt.left), _in_pairs(_loads(stmt.right), stmt.right_axes[0])
    yield "{"
    for n, tile in enumerate(left):
        yield from _loaded(f"tc_left{n}", 4, tile, stmt.left_axes, _LEFT, stmt.product, context)
    for n, tiles in enumerate(right):
        own = f"tc_right{n}", 2 * len(tiles), tiles[0], stmt.right_axes, _RIGHT
        yield from _loaded(*own, stmt.product, context)
    places = [(n, 2 * m) for n, tiles in enumerate(right) for m in range(len(tiles))]
    names = context.names.variables
    each = (stmt.sums[at : at + ir.RESULTS] for at in range(0, len(stmt.sums), ir.RESULTS))
    for (a, (b, m)), sums in zip(product(range(len(left)), places), each, strict=True):
        results = ", ".join(names[name] for name in sums)
        other = f"tc_right{b}[{m}], tc_right{b}[{m + 1}]"
        yield f"    {_MULTIPLY[stmt.factors]}({results}, tc_left{a}, {other});"
    yield "}"


def _loaded(
    name: str,
    count: int,
    tile: ir.Load,
    axes: tuple[int, ...],
    side: _Side,
    product: MatrixProduct,
    context: Context,
) -> Iterator[str]:
    """The declaration of a fragment of so many words, and how it is loaded and rounded."""
    is_across = axes[0] == len(tile.indices) - 1
    strides = [context.buffers[tile.buffer].strides[axis] for axis in axes]
    is_float = product.dtype == FLOAT32
    places = _OWN_WORD if is_across and is_float else side.lines[is_across]
    terms = [
        _times(text.replace("L", str(product.line)), n)
        for text, n in zip(places, strides, strict=True)
    ]
    first = " + ".join([f"&{element(tile.buffer, tile.indices, context)}", *terms])
    if is_across and is_float:
        apart = [
            row * strides[0] + half * product.steps // 2 * strides[1] for row, half in side.words
        ]
        words = ", ".join(f"tc_to_tf32({name}_at[{n}])" for n in apart[:count])
        yield f"    const float* {name}_at = {first};"
        yield f"    const unsigned int {name}[{count}] = {{{words}}};"
        return
    function = _LOAD_FLOATS if is_float else _LOAD_TRANSPOSED if is_across else _LOAD
    yield f"    unsigned int {name}[{count}];"
    yield f"    {function}{count}({name}, {first});"
    if product.rounds:
        for n in range(count):
            yield f"    {name}[{n}] = tc_to_tf32(__uint_as_float({name}[{n}]));"


def _times(text: str, stride: int) -> str:
    return text if stride == 1 else f"{text} * {stride}"


def _loads(tiles: Sequence[ir.Expr]) -> list[ir.Load]:
    return [tile for tile in tiles if isinstance(tile, ir.Load)]


def _in_pairs(tiles: Sequence[ir.Load], axis: int) -> list[tuple[ir.Load, ...]]:
    """Tiles that follow each other, two at a time where the second begins after the first."""
    found: list[tuple[ir.Load, ...]] = []
    for tile in tiles:
        if found and len(found[-1]) == 1:
            indices = [*found[-1][0].indices]
            indices[axis] = plus(indices[axis], ir.RIGHT_ROWS)
            if tile.buffer == found[-1][0].buffer and tile.indices == tuple(indices):
                found[-1] = (*found[-1], tile)
                continue
        found.append((tile,))
    return found
