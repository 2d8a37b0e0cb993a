"""How CUDA C++ multiplies matrices by the threads of a warp: PTX for ldmatrix and mma.sync.

Each thread gives the address of a line of eight halves, and gets its part of 8 x 8 matrices; which
line is that of which thread follows from where the instructions want rows ("Matrix Fragments for
mma.m16n8k16" and "ldmatrix" in the PTX ISA).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from tc.backends.clike.dialect import Context
from tc.backends.clike.scalars import element
from tc.kernel import ir
from tc.kernel.folding import plus

_LANE_HELPER = """
static __device__ inline unsigned int tc_lane()
{
    unsigned int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
""".strip()

_MULTIPLY = """
// adds the products of 16 rows of a and 8 rows of b, all of 16 halves
static __device__ inline void tc_multiply(float& c0, float& c1, float& c2, float& c3,
    const unsigned int (&a)[4], unsigned int b0, unsigned int b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
""".strip()


def _load(name: str, count: int, transposed: str) -> str:
    """The function that loads so many 8 x 8 matrices of halves; each thread of a warp gives a line
    of one of these."""
    words = [f"to[{n}]" for n in range(count)]
    registers = ", ".join(f"%{n}" for n in range(count))
    targets = ", ".join(f'"=r"({word})' for word in words)
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16"
    address = '"r"((unsigned int)__cvta_generic_to_shared(line))'
    return "\n".join([
        f"static __device__ inline void {name}{count}(",
        f"    unsigned int (&to)[{count}], const unsigned short* line)",
        "{",
        f'    asm volatile("{instruction} {{{registers}}}, [%{count}];"',
        f'        : {targets} : {address} : "memory");',
        "}",
    ])  # fmt: skip


_LOAD, _LOAD_TRANSPOSED = "tc_load_matrix_x", "tc_load_transposed_x"

HELPERS: Mapping[str, str] = {
    "tc_lane": _LANE_HELPER,
    **{f"{_LOAD}{count}": _load(_LOAD, count, "") for count in (2, 4)},
    **{f"{_LOAD_TRANSPOSED}{n}": _load(_LOAD_TRANSPOSED, n, ".trans") for n in (2, 4)},
    "tc_multiply": _MULTIPLY,
}
"""The functions by their names."""

_LANE = "tc_lane()"
_LEFT = (
    (f"{_LANE} % 16", f"{_LANE} / 16 * 8"),
    (f"{_LANE} / 8 % 2 * 8", f"({_LANE} % 8 + {_LANE} / 16 * 8)"),
)
_RIGHT = (
    (f"({_LANE} / 16 * 8 + {_LANE} % 8)", f"{_LANE} / 8 % 2 * 8"),
    (f"{_LANE} / 16 * 8", f"{_LANE} % 16"),
)
"""Of the line that a thread names, the row and the step where it begins, in a left tile and in two
right tiles: where the lines are rows, and where they are steps."""


def multiply_lines(stmt: ir.WarpMultiply, context: Context) -> Iterator[str]:
    """The lines of a WarpMultiply; two right tiles that are neighbours are loaded together."""
    left, right = _loads(stmt.left), _in_pairs(_loads(stmt.right), stmt.right_axes[0])
    yield "{"
    for n, tile in enumerate(left):
        yield from _loaded(f"tc_left{n}", 4, tile, stmt.left_axes, _LEFT, context)
    for n, tiles in enumerate(right):
        count = 2 * len(tiles)
        yield from _loaded(f"tc_right{n}", count, tiles[0], stmt.right_axes, _RIGHT, context)
    places = [(n, 2 * m) for n, tiles in enumerate(right) for m in range(len(tiles))]
    names = context.names.variables
    each = (stmt.sums[at : at + ir.RESULTS] for at in range(0, len(stmt.sums), ir.RESULTS))
    for (a, (b, m)), sums in zip(product(range(len(left)), places), each, strict=True):
        results = ", ".join(names[name] for name in sums)
        other = f"tc_right{b}[{m}], tc_right{b}[{m + 1}]"
        yield f"    tc_multiply({results}, tc_left{a}, {other});"
    yield "}"


def _loaded(
    name: str,
    count: int,
    tile: ir.Load,
    axes: tuple[int, ...],
    lines: tuple[tuple[str, str], tuple[str, str]],
    context: Context,
) -> Iterator[str]:
    """The declaration of a fragment of so many 8 x 8 matrices, and how it is loaded."""
    is_across = axes[0] == len(tile.indices) - 1
    strides = context.buffers[tile.buffer].strides
    places = zip(lines[is_across], (strides[axis] for axis in axes), strict=True)
    terms = [text if stride == 1 else f"{text} * {stride}" for text, stride in places]
    function = _LOAD_TRANSPOSED if is_across else _LOAD
    line = " + ".join([f"&{element(tile.buffer, tile.indices, context)}", *terms])
    yield f"    unsigned int {name}[{count}];"
    yield f"    {function}{count}({name}, {line});"


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
