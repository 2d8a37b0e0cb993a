"""The nearest plan that works, where a plan does not: which action is to blame, names that exist in
the place of misspelt ones, sizes that fit, and the rest without actions that cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeAlias

from tc.errors import BackendError, InternalError
from tc.plan import MAX_ACTION_NUMBER, PACKED, SCRATCH, SHARED, Action, Bind, Promote, Split, Tile
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.loops import loop_name, name_of
from tc.polyhedral.schedule import Member, Node, leaves, members
from tc.polyhedral.target import Target
from tc.wording import closest

Actions: TypeAlias = "list[tuple[Action, ...]]"
"""The actions of each part."""


class Refused(NamedTuple):
    """The reason why a tree is not legal; or why the action at `place`, which is the numbers of a
    part and of an action, cannot be done."""

    reason: str
    place: tuple[int, int] | None = None


Attempt: TypeAlias = "Callable[[Actions], Node | Refused]"
"""The tree after actions."""

DoAction: TypeAlias = "Callable[[Node, Action], Node]"

ROUNDS = 6
"""How many actions that make a tree illegal are looked for, one after the other."""

TRIES = 200
"""How many other actions are tried, in a part, in the place of some that cannot be done."""


def blamed(refused: Refused, wanted: Actions, attempt: Attempt) -> tuple[int, int, str]:
    """The part and the place of an action that makes a tree illegal, and why: without this action
    and all actions after it, the tree is legal."""
    if refused.place is not None:
        return (*refused.place, refused.reason)
    places = [(n, k) for n, some in enumerate(wanted) for k in range(len(some))]
    reason = refused.reason  # with the first `high` actions

    def is_legal(length: int) -> bool:
        nonlocal reason
        found = attempt(_first(wanted, length))
        if isinstance(found, Refused):
            reason = found.reason
        return not isinstance(found, Refused)

    high, low, step = len(places), len(places) - 1, 1
    while low > 0 and not is_legal(low):
        high, low, step = low, max(0, low - step), 2 * step
    if low <= 0 and not is_legal(0):
        raise InternalError(f"the tree is not legal before any action: {reason}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_legal(middle) else (low, middle)
    return (*places[high - 1], reason)


def _first(wanted: Actions, length: int) -> Actions:
    """The first of all actions."""
    found = []
    for some in wanted:
        found.append(some[:length])
        length = max(0, length - len(some))
    return found


def nearest(
    trees: Collection[Node],
    wanted: Actions,
    attempt: Attempt,
    apply: DoAction,
    info: AccessInfo,
    target: Target,
) -> Actions:
    """Actions that can be done to the trees of the parts, the nearest to `wanted` that are
    found."""
    for _ in range(ROUNDS):
        wanted = [
            tuple(_doable(tree, some, apply, info, target))
            for tree, some in zip(trees, wanted, strict=True)
        ]
        found = attempt(wanted)
        if not isinstance(found, Refused):
            return wanted
        number, place, _ = blamed(found, wanted, attempt)
        legal = [*wanted[:number], wanted[number][:place], *(() for _ in wanted[number + 1 :])]
        wanted[number] = (*wanted[number][:place], *wanted[number][place + 1 :])
    return legal


def _doable(
    tree: Node, actions: Iterable[Action], apply: DoAction, info: AccessInfo, target: Target
) -> Iterator[Action]:
    """Actions that can be done one after the other: those given, or actions near to them."""
    tries = 0
    for action in actions:
        for candidate in chain((action,), _variants(action, tree, info, target)):
            try:
                tree = apply(tree, candidate)
            except BackendError:
                tries += 1
                if tries > TRIES:
                    break
            else:
                yield candidate
                break


# --- what an action may have meant --------------------------------------------------------------


def _variants(action: Action, tree: Node, info: AccessInfo, target: Target) -> Iterator[Action]:
    """Actions near to an action that cannot be done to a tree; the nearest first."""
    there = list(members(tree))
    named = _with_names_there(action, tree, there)
    yield named
    match named:
        case Tile():
            yield from _tiles(named, there)
        case Bind(role=role):
            near = closest(role, target.roles)
            if near is not None:
                yield replace(named, role=near)
        case Split(loops=loops):
            yield replace(named, inside=None)
            yield from (replace(named, loops=(name,)) for name in map(name_of, there) if loops)
        case Promote():
            yield from _promotions(named, tree, there, info, target)


def _with_names_there(action: Action, tree: Node, there: list[Member]) -> Any:
    """The action with names of loops and statements of the tree."""
    statements = list(dict.fromkeys(leaves(tree)))
    found: dict[str, Any] = {}
    for item in fields(action):
        value = getattr(action, item.name)
        if item.name in ("loop", "inside") and value is not None:
            found[item.name] = _loop_there(value, there)
        elif item.name == "loops":
            found[item.name] = tuple(dict.fromkeys(_loop_there(name, there) for name in value))
        elif item.name == "statement":
            found[item.name] = _closest(value, statements)
        elif item.name == "statements":
            found[item.name] = tuple(dict.fromkeys(_closest(name, statements) for name in value))
    return replace(action, **found)


def _loop_there(text: str, there: list[Member]) -> str:
    """The name of the loop that a text may have meant: of the same variable and form, if
    possible."""
    try:
        wanted = loop_name(text)
    except BackendError:
        return _closest(text, list(map(name_of, there)))
    if any(map(wanted.fits, there)) or not there:
        return text

    def distance(member: Member) -> tuple[object, ...]:
        variables = {member.name, *(v.variable for v in member.values.values())}
        form = ((member.span is None) != (wanted.span is None)) + (
            (member.step == 1) != (wanted.step == 1)
        )
        sizes = abs(member.step - wanted.step) + abs((member.span or 0) - (wanted.span or 0))
        return wanted.name not in variables, member.name != near, form, sizes

    near = closest(wanted.name, (member.name for member in there))
    return name_of(min(there, key=distance))


def _closest(text: str, there: Iterable[str]) -> str:
    names = list(there)
    return text if text in names else closest(text, names, cutoff=0) or text


def _tiles(action: Tile, there: list[Member]) -> Iterator[Action]:
    """Tilings of the loop with sizes that divide each other, and the iterations of the loop."""
    member = next(filter(loop_name(action.loop).fits, there), None)
    sizes = [min(size, MAX_ACTION_NUMBER) for size in action.sizes]
    if member is None or not sizes:
        return
    if member.span is not None:
        sizes[0] = _divisor(member.span // member.step, sizes[0])
    for place, (outer, inner) in enumerate(pairwise(sizes)):
        if outer % inner:
            sizes[place + 1] = _divisor(outer, inner)
    yield replace(action, sizes=tuple(sizes))
    yield replace(action, sizes=tuple(sizes[:1]))


def _divisor(whole: int, size: int) -> int:
    """The divisor of a number that is nearest to a size."""
    small = [n for n in range(1, min(whole, 1 << 16) + 1) if whole % n == 0]
    return min({*small, *(whole // n for n in small)}, key=lambda n: (abs(n - size), n))


def _promotions(
    action: Promote, tree: Node, there: list[Member], info: AccessInfo, target: Target
) -> Iterator[Action]:
    """Promotions of a tensor and to a memory that exist, in plainer layouts, at other places."""
    touched = {a.tensor for n in leaves(tree) for a in info.scop.statement(n).promotable}
    if action.tensor not in touched:
        action = replace(action, tensor=_closest(action.tensor, sorted(touched)))
    scopes = [scope.name for scope in target.scopes]
    if action.scope not in scopes:
        action = replace(action, scope=closest(action.scope, scopes) or SCRATCH)
    if action.scope == PACKED and action.inside is not None:
        action = replace(action, inside=None)
    yield action
    yield replace(action, statements=())
    is_shared = action.scope == SHARED
    action = replace(
        action, unroll=action.unroll and is_shared, as_stored=action.as_stored and is_shared
    )
    yield action
    yield replace(action, as_stored=False)
    yield replace(action, pitch=None)
    plain = replace(action, axes=(), lanes=1, align=1, padded=False, lines=False, pitch=None)
    yield replace(action, padded=False, lines=False)
    yield plain
    for name in dict.fromkeys(map(name_of, there)) if action.scope != PACKED else ():
        yield replace(action, inside=name)
        yield replace(plain, inside=name)
