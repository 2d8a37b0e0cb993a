"""The action `promote`: a tile of a tensor in a buffer, at a place of the tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tc.errors import BackendError
from tc.plan import (
    ASYNC,
    ASYNC_BYTES,
    MAX_STAGES,
    PACKED,
    REGISTER,
    REGISTERS,
    SERIAL,
    SHARED,
    Promote,
)
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.loops import TreePlace, loop_name, misplaced_digit, place_inside
from tc.polyhedral.footprint import Box, Steps, span, trips_of
from tc.polyhedral.promotion import (
    Footprint,
    Transfer,
    gather_fault,
    is_rounded_between,
    tile_fault,
    transfer,
)
from tc.polyhedral.schedule import ArrayTile, Axis, Copy, Node, Promotion, leaves, members_below
from tc.polyhedral.scop.scop import ScopStatement
from tc.polyhedral.target import Target


def apply_promote(tree: Node, action: Promote, info: AccessInfo, target: Target) -> Node:
    """The tree with a tensor promoted at a place. Raises BackendError with the reason where the
    tensor cannot be promoted."""
    _check_scope(action, target)
    place = _place(tree, action)
    misplaced = misplaced_digit(tree)
    if misplaced is not None:
        raise _refused(action, misplaced)
    _check_gather(tree, action, info)
    below = Footprint(info.scop, place.around, members_below(place.node)).of(action.scope)
    users = below.users(action.tensor)
    if not users:
        inside = map(info.scop.statement, below.inside)
        there = sorted({a.tensor for s in inside for a in s.promotable})
        raise BackendError(
            f"nothing touches a tensor {action.tensor!r} there; there are {', '.join(there)}"
        )
    if is_rounded_between(action.tensor, users, info.scop):
        raise _refused(action, "its statements give each other values that are rounded (Y8)")
    stages = _stages(action, place, info)
    tile = _tile(replace(action, stages=stages), below, users, info)
    if action.through == ASYNC:
        _check_async(action, tile, info)
    if action.scope == SHARED:
        _check_lanes(action, tile, info)
    dtype = info.scop.dtype(action.tensor)
    size = prod(tile.shape) * tile.held_type(dtype).bytes
    room = target.room(action.scope) or 0
    if size > room:
        raise BackendError(
            f"the tile of {action.tensor} has {' x '.join(map(str, tile.shape))} elements, "
            f"{size} bytes, and in {action.scope} there is room for {room}"
        )
    return place.put(_promoted(place.node, tile))


def _check_scope(action: Promote, target: Target) -> None:
    if target.room(action.scope) is None:
        names = ", ".join(scope.name for scope in target.scopes)
        raise BackendError(f"no memory scope {action.scope!r} here; there are {names}")
    if action.scope == PACKED and action.inside is not None:
        raise BackendError(
            f"memory that is filled before the part begins is not inside of {action.inside}"
        )
    is_moved = action.scope == SHARED and (action.through == ASYNC or action.as_stored)
    if target.launches and ((action.lanes > 1 and not is_moved) or action.lines):
        raise BackendError(
            "threads of a GPU copy element by element, but for what is copied to shared memory "
            "through async copies, or as it is stored: no lanes, no lines"
        )
    if action.through not in (REGISTERS, ASYNC):
        raise BackendError(f"nothing is copied through {action.through!r}: registers, or async")
    if action.stages > MAX_STAGES:
        raise BackendError(f"{action.stages} stages, and there are at most {MAX_STAGES}")
    if action.scope != SHARED and (action.stages > 1 or action.through == ASYNC):
        raise BackendError(f"stages and async copies are for {SHARED} memory")
    if action.pitch is not None and action.scope == REGISTER:
        raise BackendError("registers lie in no banks of memory: no pitch")
    if action.unroll and action.scope != SHARED:
        there = ", and those to registers always are" if action.scope == REGISTER else ""
        raise BackendError(f"unroll is for copies to shared memory{there}")
    if action.as_stored and action.scope != SHARED:
        raise BackendError(f"tiles in {action.scope} memory hold what is computed: no as_stored")


def _check_gather(tree: Node, action: Promote, info: AccessInfo) -> None:
    """Raises BackendError where the action promotes what is gathered, and that may not be
    promoted."""
    gather = info.scop.gathers.get(action.tensor)
    if gather is None:
        return
    reason = gather_fault(action.tensor, leaves(tree), info.scop)
    if reason is None and info.check and gather.is_checked:
        reason = "whether it is in bounds is tested at each read (G7)"
    if reason is None and action.as_stored:
        reason = "what is gathered is computed: no as_stored"
    if reason is None and action.scope != SHARED:
        reason = f"what is gathered lies in {SHARED} memory alone"
    if reason is not None:
        raise _refused(action, reason)


def _stages(action: Promote, place: TreePlace, info: AccessInfo) -> int:
    """How many stages a tile has: no more than the loop around has iterations."""
    if action.stages == 1:
        return 1
    if not place.around or action.inside is None:
        raise _refused(action, "stages are for the tiles of the iterations of a loop")
    if action.through == REGISTERS and not action.unroll:
        raise _refused(action, "what registers hold ahead is copied by straight-line code: unroll")
    loop = place.around[-1]
    member, statements = loop.member, [info.scop.statement(name) for name in loop.statements]
    if member.role != SERIAL:
        raise _refused(action, f"stages follow each other in a {SERIAL} loop, not a {member.role}")
    if any(s.write.tensor == action.tensor for s in statements):
        raise _refused(action, f"{member.name} writes {action.tensor}, of which a tile is ahead")
    if set(loop.statements) != set(leaves(place.node)):
        raise _refused(action, f"other statements run in {member.name}, beside those of the tile")
    return min(action.stages, trips_of(member, statements))


def _check_async(action: Promote, tile: ArrayTile, info: AccessInfo) -> None:
    """Raises BackendError where memory cannot be told to copy a tile."""
    dtype, lanes = info.scop.dtype(action.tensor), action.lanes
    if action.tensor in info.scop.gathers:
        raise _refused(action, "what is gathered is not copied by async copies")
    if tile.held_type(dtype) != dtype:
        raise _refused(
            action,
            f"async copies convert nothing, and the tile of {dtype} is to hold "
            f"{tile.held_type(dtype)}: as_stored",
        )
    if dtype.bytes not in ASYNC_BYTES:
        raise _refused(
            action, f"async copies are of elements of 2 to 8 bytes, and {dtype} has {dtype.bytes}"
        )
    if not tile.fetch:
        raise _refused(action, "nothing is copied to the tile")
    if lanes * dtype.bytes not in (4, 8, 16):
        raise _refused(
            action, f"{lanes} elements of {dtype.bytes} bytes are no 4, 8 or 16 bytes at once"
        )


def _check_lanes(action: Promote, tile: ArrayTile, info: AccessInfo) -> None:
    """Raises BackendError where threads cannot copy neighbours of a tile."""
    lanes, dtype = action.lanes, info.scop.dtype(action.tensor)
    if lanes & (lanes - 1) or lanes * dtype.bytes > 16:
        raise _refused(
            action, f"{lanes} elements of {dtype.bytes} bytes are no 2, 4, 8 or 16 bytes at once"
        )
    if lanes > 1 and tile.write_back:  # by the threads that copied it: races are told by that
        raise _refused(action, "it is written back element by element: no lanes")
    if lanes > 1:
        last = tile.layout[-1] if tile.layout else None
        rank = len(info.scop.shape(action.tensor))
        if last is None or last.step != 1 or last.dimension != rank - 1:
            raise _refused(action, f"the rows of its buffer are no rows of {action.tensor}")
        if last.size % lanes:
            raise _refused(action, f"rows of {last.size} elements are no multiple of {lanes}")


def _place(tree: Node, action: Promote) -> TreePlace:
    inside = None if action.inside is None else loop_name(action.inside)
    place = place_inside(tree, inside, action.statements)
    if action.inside is None and action.scope != PACKED:
        while isinstance(place.node, Promotion) and place.node.is_packed:
            place = place.child_place(0)
    return place


def _promoted(node: Node, tile: ArrayTile) -> Node:
    """A node below a tile. Tiles at one place are copied together: the last that was promoted
    first, but tiles that threads share in the order in which they were promoted."""
    if (
        isinstance(node, Promotion)
        and tile.scope != PACKED
        and not node.is_packed
        and all(t.tensor != tile.tensor for t in node.tiles)
    ):
        both = (*node.tiles, tile) if tile.scope == SHARED else (tile, *node.tiles)
        return replace(node, tiles=both)
    return Promotion((tile,), node)


def _refused(action: Promote, reason: str) -> BackendError:
    where = "for the whole part" if action.inside is None else f"inside of {action.inside}"
    return BackendError(f"{action.tensor} cannot be promoted {where}: {reason}")


def _tile(
    action: Promote, below: Footprint, users: list[ScopStatement], info: AccessInfo
) -> ArrayTile:
    tensor = action.tensor
    exact = below.box(tensor)
    moved = transfer(tensor, below)
    if exact is None:
        raise _refused(action, "what is touched has no fixed size or place there")
    if isinstance(moved, str):
        raise _refused(action, moved)
    written = any(s.write.tensor == tensor for s in users)
    if written and action.scope == PACKED:
        raise _refused(action, "it is written there, and packed memory is only read")
    if written and action.as_stored:
        raise _refused(action, "it is written there, and as_stored is for what is only read")
    held = exact if written else below.box(tensor, tails=True) or exact
    layout = _layout(action, held)
    tile = ArrayTile(
        tensor,
        f"{_stem(tensor, info)}_{_suffix(action, moved, layout)}",
        action.scope,
        _sizes(held, layout),
        layout,
        moved.fetch,
        moved.write_back,
        Copy(
            action.lanes,
            action.lines,
            _fill(action, users, info) if action.padded else None,
            action.unroll,
            action.stages,
            action.through,
        ),
        moved.limits,
        _before(exact, held),
        action.pitch,
        action.as_stored,
    )
    if action.pitch is not None and (not layout or action.pitch < layout[-1].size):
        least = layout[-1].size if layout else 1
        raise BackendError(f"a pitch of {action.pitch} has no room for {least} elements")
    reason = tile_fault(tile, below)
    if reason is not None:
        raise _refused(action, reason)
    return tile


def _layout(action: Promote, held: Box) -> tuple[Axis, ...]:
    rank = len(held.sizes)
    steps = [step or 1 for step in held.steps]
    if action.scope == REGISTER and not action.axes:
        return _aligned(held.axes, action.align)
    wanted = action.axes or tuple(enumerate(steps))
    last: dict[int, int] = {}
    axes = []
    for dimension, step in wanted:
        if dimension >= rank:
            raise BackendError(
                f"{action.tensor} has no dimension {dimension}; it has {rank}, counted from 0"
            )
        before = last.get(dimension)
        if before is not None and (before % step or before == step):
            raise BackendError(
                f"steps of {step} do not divide those of {before} along dimension {dimension}"
            )
        size = -(-_reach(held.digits[dimension], before) // step)
        last[dimension] = step
        axes.append(Axis(dimension, step, size))
    wide = (d for d, size in enumerate(held.sizes) if size > 1 or d not in last)
    if any(steps[d] % last.get(d, steps[d] + 1) for d in wide):
        raise BackendError(
            f"the axes {list(map(list, wanted))} do not reach each element of {action.tensor}: "
            "each dimension ends with a step of 1"
        )
    return _aligned(axes, action.align)


def _reach(digits: Steps, end: int | None) -> int:
    """How far the elements of a box reach whose distances are below `end`: up to it, unless digits
    leave out the elements before it."""
    if end is None:
        return span(digits)
    several = [(step, count) for step, count in digits if count > 1]
    below = [(step, count) for step, count in several if step < end]
    return min(span(below), end) if len(below) < len(several) else end


def _aligned(axes: Sequence[Axis], align: int) -> tuple[Axis, ...]:
    """Axes of which the last has a multiple of some elements."""
    if not axes:
        return ()
    *others, last = axes
    return (*others, replace(last, size=-(-last.size // align) * align))


def _sizes(held: Box, layout: tuple[Axis, ...]) -> tuple[int, ...]:
    """The sizes of the box for which a layout has room."""
    sizes = [1] * len(held.sizes)
    for axis in layout:
        sizes[axis.dimension] += (axis.size - 1) * axis.step
    return tuple(sizes)


def _before(exact: Box, held: Box) -> tuple[int, ...]:
    pairs = zip(exact.offsets, held.offsets, strict=True)
    before = tuple((a - b).constant for a, b in pairs)
    return before if any(before) else ()


def _stem(tensor: str, info: AccessInfo) -> str:
    """The tensor after which a buffer is called."""
    gather = info.scop.gathers.get(tensor)
    return tensor if gather is None else gather.value.tensor


def _suffix(action: Promote, moved: Transfer, layout: tuple[Axis, ...]) -> str:
    """The end of the name of a buffer, which says what the buffer is to its tensor."""
    dimensions = [axis.dimension for axis in layout]
    which = {
        "shared": action.scope == SHARED,
        "acc": action.scope == REGISTER,
        "packed": len(set(dimensions)) < len(dimensions),
        "lines": action.lines,
        "padded": action.padded,
        "local": not moved.fetch and not moved.write_back,
        "tile": moved.write_back,
        "block": dimensions != sorted(dimensions),
    }
    return next((suffix for suffix, holds in which.items() if holds), "copy")


def _fill(action: Promote, users: list[ScopStatement], info: AccessInfo) -> int | float | bool:
    """The constant with which all reads of a tensor below are padded."""
    fill = info.fill(action.tensor, users)
    if fill is None:
        raise BackendError(
            f"not all reads of {action.tensor} there are pad({action.tensor}(...), c) with one c"
        )
    return fill
