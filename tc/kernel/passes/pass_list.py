"""The passes from a kernel with marked loops to one that printers take as it is, in order.

Each stands for itself: it takes a well-formed kernel and gives one, the very same object where it
finds nothing to do. Their order, and for what processors they are, is in the list alone.
"""

from __future__ import annotations

from collections.abc import Callable

from tc.kernel.ir import Call
from tc.kernel.pass_manager import Pass, PassContext
from tc.kernel.passes.blocked_sums import sum_in_blocks
from tc.kernel.passes.check_blocks import check_in_blocks, test_blocks
from tc.kernel.passes.contraction import contract
from tc.kernel.passes.copies import copy_by_vectors
from tc.kernel.passes.dead_code import eliminate_dead_code
from tc.kernel.passes.demanded_lanes import narrow_to_demanded_lanes
from tc.kernel.passes.guarded_tiles import skip_guarded_tiles
from tc.kernel.passes.loads_ahead import load_ahead
from tc.kernel.passes.loop_splitting import end_by_data, split_loops
from tc.kernel.passes.narrow_floats import convert_narrow_floats
from tc.kernel.passes.pipelining import pipeline
from tc.kernel.passes.prefetch import prefetch
from tc.kernel.passes.prefix_sums import carry_prefixes
from tc.kernel.passes.prefix_vectors import add_prefixes_by_vectors
from tc.kernel.passes.reciprocal_division import divide_by_reciprocals
from tc.kernel.passes.scalar_replacement import replace_by_scalars
from tc.kernel.passes.stores import store_whole_lines
from tc.kernel.passes.unroll import unroll
from tc.kernel.passes.value_numbering import number_values
from tc.kernel.passes.vector_functions import expand_vector_functions, has_vector_form
from tc.kernel.passes.vectorize import leave_as_loops, vectorize
from tc.kernel.passes.warp_products import multiply_by_warps


def _with_vectors(context: PassContext) -> bool:
    return context.lanes_bits > 0


def _supported(context: PassContext) -> Callable[[Call], bool]:
    """Whether vectors may make a call: the formulas count on a fused multiply-add."""
    return lambda call: context.fma and has_vector_form(call.function, call.dtype.scalar)


def _with_fma(context: PassContext) -> bool:
    return context.fma


_NARROW_FLOATS = Pass(
    "narrow floats",
    "conversions of bfloat16 and of floats of 8 bits are arithmetic of their bits",
    lambda kernel, _: convert_narrow_floats(kernel),
)

PASSES: tuple[Pass, ...] = (
    Pass(
        "copies",
        "rows next to each other are stored in whole cache lines, those along another dimension as "
        "vectors that are shuffled in registers",
        lambda kernel, context: copy_by_vectors(kernel, lanes_bits=context.lanes_bits),
    ),
    Pass(
        "loop splitting",
        "last iterations with masks, guards of terms and edges are in loops of their own",
        lambda kernel, context: split_loops(kernel, vectors=_with_vectors(context)),
    ),
    Pass(
        "checked loops",
        "loops with checks test blocks of iterations first, and compute those as vectors",
        lambda kernel, context: test_blocks(kernel, context.lanes_bits),
    ),
    Pass(
        "prefix sums",
        "reductions of which each has the terms of the one before are recurrences",
        lambda kernel, _: carry_prefixes(kernel),
    ),
    Pass(
        "prefix vectors",
        "recurrences over elements next to each other add vectors, lane to lane",
        lambda kernel, context: add_prefixes_by_vectors(kernel, context.lanes_bits),
        _with_vectors,
    ),
    Pass(
        "vectorization",
        "vector loops become vectors, conditions in them masks; without vectors, plain loops",
        lambda kernel, context: (
            vectorize(kernel, supports=_supported(context))
            if _with_vectors(context)
            else leave_as_loops(kernel)
        ),
    ),
    Pass(
        "unrolling",
        "unroll loops become straight-line code",
        lambda kernel, context: unroll(kernel, limit=context.unroll_limit),
    ),
    Pass(
        "scalar replacement",
        "elements of private arrays become locals",
        lambda kernel, _: replace_by_scalars(kernel),
    ),
    Pass(
        "dead code elimination",
        "what no store needs is gone; branches on one condition are one; extrema start with a term",
        lambda kernel, _: eliminate_dead_code(kernel),
    ),
    Pass(
        "check blocks",
        "loops of checks alone test blocks of iterations without branches first",
        lambda kernel, _: check_in_blocks(kernel),
    ),
    Pass(
        "demanded lanes",
        "vectors of which only the first lanes are of use are shorter",
        lambda kernel, _: narrow_to_demanded_lanes(kernel),
    ),
    Pass(
        "stores",
        "every n-th element is stored in vectors of all of them, large outputs past the caches",
        lambda kernel, context: store_whole_lines(kernel, context.shared_cache),
        _with_vectors,
    ),
    Pass(
        "value numbering",
        "locals with one value are one local, and checks of one condition one check; what a block "
        "loads or computes several times is a local, and calls that every iteration makes alike "
        "are made before the loop",
        lambda kernel, _: number_values(kernel),
    ),
    Pass(
        "contraction",
        "products that are added to something are fused multiply-adds",
        lambda kernel, _: contract(kernel),
        _with_fma,
    ),
    Pass(
        "vector functions",
        "functions on vectors become arithmetic",
        lambda kernel, context: expand_vector_functions(kernel, exponents=context.exponents),
    ),
    Pass(
        "prefetch",
        "blocks and gathered rows of large buffers are asked for before they are touched",
        lambda kernel, context: prefetch(kernel, context.l2, line=context.line, page=context.page),
    ),
    Pass(
        "blocked sums",
        "long sums of floats are added up in blocks, whose sums are added",
        lambda kernel, _: sum_in_blocks(kernel),
    ),
    Pass(
        "reciprocal division",
        "vectors divided by one scalar are products, corrected to the very quotients",
        lambda kernel, _: divide_by_reciprocals(kernel),
        _with_fma,
    ),
    _NARROW_FLOATS,
)
"""Those for processors: first loops lose their marks, then locals are cleaned up, at last comes
what the processor has instructions for, and what stands for conversions that it has none for.
Formulas of functions rely on how each operation rounds, so nothing is contracted after them; hints
are placed when it is known what is stored past the caches, and where there are loops."""

_ON_GPUS = ("unrolling", "scalar replacement", "dead code elimination", "value numbering")

GPU_PASSES = (
    Pass(
        "ends by data",
        "loops over rows whose ends are loaded go through these rows alone",
        lambda kernel, _: end_by_data(kernel),
    ),
    Pass(
        "guarded tiles",
        "loops over tiles of sums leave out those in which a guard fails, and test few for it",
        lambda kernel, context: skip_guarded_tiles(kernel, limit=context.unroll_limit),
    ),
    Pass(
        "pipelining",
        "tiles are copied to buffers of several stages while those before them are used",
        lambda kernel, _: pipeline(kernel),
    ),
    *(each for each in PASSES if each.name in _ON_GPUS),
    Pass(
        "loads ahead",
        "what threads copy to shared memory is loaded before any of it is stored",
        lambda kernel, _: load_ahead(kernel),
    ),
    Pass(
        "warp products",
        "steps of sums that the threads of a warp share are products of tiles of matrices",
        lambda kernel, _: multiply_by_warps(kernel),
    ),
    _NARROW_FLOATS,
)
"""Those for GPUs, whose threads are scalar: compilers contract and prefetch by themselves."""
