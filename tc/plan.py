"""Plans: how the loops of a program are transformed, as values.

A `Plan` has a list of actions for each part of a program (a part is what becomes a region of the
kernel: some statements that follow each other). Actions are applied in order to the part's
schedule tree (`tc.polyhedral.actions`); each names loops, tensors and statements as `tc explain`
prints them:

    i              a loop, or all that are called so
    i div 32       the loop over tiles of 32 iterations of i
    i mod 32       the loop inside of a tile; `i mod 32 div 8` the one over tiles of 8 in it
    S1.j div 32    the loop that runs along variable j of statement S1, whatever it is called

A plan is chosen by tc, found by a search, or written by hand: all are the same data, equal by
value, with a round trip through JSON. Nothing here knows what an action does.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeAlias

from tc.errors import BackendError

VERSION = 1
"""Of the JSON; other versions are refused."""

SERIAL, PARALLEL, UNROLL, VECTOR = "serial", "parallel", "unroll", "vector"
"""Roles of a loop: a plain loop; shared among threads; straight-line code; the lanes of vectors."""

REGISTER, SCRATCH, PACKED = "register", "scratch", "temporary"
"""Scopes of a promoted tile: locals; memory of one thread; memory filled before the part begins."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Loop over tiles, and loops inside of them, in the place of a loop: for sizes (32, 8) the
    loops `div 32`, `mod 32 div 8` and `mod 8`. Each size divides the one before."""

    VERB: ClassVar[str] = "tile"
    loop: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reorder:
    """Loops of one nest in another order: they take each other's places."""

    VERB: ClassVar[str] = "reorder"
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """Loops become the innermost ones of every statement that they run: point loops below
    reductions, so that accumulators stay in registers (Vasilache et al. 2018, section 5.3)."""

    VERB: ClassVar[str] = "sink"
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Separate:
    """The innermost loops around some statements become loops of their own for them (loop
    distribution), for those before and for those after them."""

    VERB: ClassVar[str] = "separate"
    loops: tuple[str, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fuse:
    """The outermost loops of neighbours become one loop; first with first, and so on."""

    VERB: ClassVar[str] = "fuse"
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """The reduction of a statement has an accumulator for each iteration of some loops inside of
    tiles; they are combined once the loops around these, up to `inside`, have run (R5)."""

    VERB: ClassVar[str] = "split"
    statement: str
    loops: tuple[str, ...]
    inside: str | None = None


@dataclass(frozen=True, slots=True)
class Promote:
    """What is touched of a tensor lies in a buffer, inside of a loop (None: of none, for the whole
    part); where loops of several statements are called so, or to hold only some of those that
    run there, `statements` tells which.

    `axes` are those of the buffer, outermost first, each as [dimension of the tensor, step]: a
    step of 32 counts panels of 32 elements, one of 1 the elements (of a panel, where the dimension
    has one); without axes the dimensions lie in order. Copies run in vectors of `lanes`; the last
    axis is made a multiple of `align`. With `padded`, reads through `pad` find the padding in the
    buffer, too. With `lines`, what is written back fills whole cache lines.
    """

    VERB: ClassVar[str] = "promote"
    tensor: str
    scope: str
    inside: str | None = None
    statements: tuple[str, ...] = ()
    axes: tuple[tuple[int, int], ...] = ()
    lanes: int = 1
    align: int = 1
    padded: bool = False
    lines: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """What becomes of a loop: its role."""

    VERB: ClassVar[str] = "bind"
    loop: str
    role: str


Action: TypeAlias = Tile | Reorder | Sink | Separate | Fuse | Split | Promote | Bind
ACTIONS: tuple[type[Action], ...] = (Tile, Reorder, Sink, Separate, Fuse, Split, Promote, Bind)
_VERBS = {kind.VERB: kind for kind in ACTIONS}


@dataclass(frozen=True, slots=True)
class Part:
    """The actions on one part of a program, whose statements are named in order."""

    statements: tuple[str, ...]
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions for parts of a program; parts that it leaves out are chosen by tc.

    >>> import tc
    >>> tile = tc.plan.Tile("i", (32,))
    >>> plan = tc.Plan((tc.plan.Part(("S0",), (tile, tc.plan.Bind("i div 32", "parallel"))),))
    >>> print(plan)
    {"version": 1, "parts": [
     {"statements": ["S0"], "actions": [
      {"tile": "i", "sizes": [32]},
      {"bind": "i div 32", "role": "parallel"}
     ]}
    ]}
    >>> tc.Plan.from_json(str(plan)) == plan
    True
    """

    parts: tuple[Part, ...] = ()

    def to_json(self) -> str:
        """The plan as a JSON object, an action a line, to be read by `from_json`."""
        parts = ",\n".join(map(_part_text, self.parts))
        body = f"[\n{parts}\n]" if self.parts else "[]"
        return f'{{"version": {VERSION}, "parts": {body}}}'

    __str__ = to_json

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """A plan written by `to_json`, or by hand. Raises BackendError for anything else: no JSON,
        another version, actions and keys that do not exist, values of the wrong type."""
        try:
            value = json.loads(text)
        except (TypeError, ValueError) as error:
            raise BackendError(f"the plan is no JSON: {error}", repair=str(Plan())) from error
        return plan_of(value)


def action_text(action: Action) -> str:
    """An action as it stands in a plan.

    >>> action_text(Reorder(("j", "i")))
    '{"reorder": ["j", "i"]}'
    """
    first, *others = fields(action)
    values = {action.VERB: getattr(action, first.name)}
    for item in others:
        value = getattr(action, item.name)
        if item.default is MISSING or value != item.default:
            values[item.name] = value
    return json.dumps(values)


def _part_text(part: Part) -> str:
    head = f' {{"statements": {json.dumps(part.statements)}, "actions": '
    if not part.actions:
        return head + "[]}"
    lines = ",\n".join(f"  {action_text(action)}" for action in part.actions)
    return f"{head}[\n{lines}\n ]}}"


# --- reading ----------------------------------------------------------------------------------


def plan_of(value: object) -> Plan:
    """The plan that a value read from JSON says; BackendError."""
    whole = _object(value, "a plan", ("version", "parts"), ("version",))
    if whole["version"] != VERSION or type(whole["version"]) is not int:
        raise BackendError(
            f"the plan has version {whole['version']!r}, and this tc reads version {VERSION}",
            repair=f'"version": {VERSION}',
        )
    parts = _list(whole.get("parts", []), '"parts"')
    return Plan(tuple(_part(part) for part in parts))


def _part(value: object) -> Part:
    found = _object(value, "a part", ("statements", "actions"), ("statements",))
    statements = _names(found["statements"], '"statements"')
    actions = _list(found.get("actions", []), '"actions"')
    return Part(statements, tuple(map(_action, actions)))


def _action(value: object) -> Action:
    verbs = ", ".join(_VERBS)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise BackendError(
            f"an action is an object whose first key is one of {verbs}, and not {_shown(value)}",
            repair=action_text(Tile("i", (32,))),
        )
    verb = next((key for key in value if key in _VERBS), None)
    if verb is None:
        first = next(iter(value), "")
        nearest = difflib.get_close_matches(first, _VERBS, 1)
        raise BackendError(
            f"no action {first!r}; there are {verbs}",
            repair=_EXAMPLES[nearest[0] if nearest else "tile"],
        )
    kind = _VERBS[verb]
    first, *others = fields(kind)
    known = {first.name: verb, **{item.name: item.name for item in others}}
    required = [known[f.name] for f in fields(kind) if f.default is MISSING]
    found = _object(value, f"the action {verb!r}", tuple(known.values()), tuple(required))
    read = {
        name: _READERS[str(item.type)](found[known[name]], f"{known[name]!r} of {verb!r}")
        for item in fields(kind)
        if known[name := item.name] in found
    }
    return kind(**read)


def _object(
    value: object, what: str, known: tuple[str, ...], required: tuple[str, ...]
) -> Mapping[str, Any]:
    keys = ", ".join(map(repr, known))
    if not isinstance(value, dict):
        raise BackendError(f"{what} is an object with the keys {keys}, and not {_shown(value)}")
    for key in value:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, 1)
            raise BackendError(
                f"{what} has no key {key!r}; there are {keys}",
                repair=json.dumps(nearest[0] if nearest else known[0]),
            )
    for key in required:
        if key not in value:
            raise BackendError(f"{what} lacks the key {key!r}", repair=f"{json.dumps(key)}: ...")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BackendError(f"{what} is a list, and not {_shown(value)}", repair="[]")
    return list(value)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BackendError(f"{what} is a name, and not {_shown(value)}")
    return value


def _names(value: object, what: str) -> tuple[str, ...]:
    return tuple(_name(name, what) for name in _list(value, what))


def _count(value: object, what: str) -> int:
    if type(value) is not int or value < 1:
        raise BackendError(f"{what}: {_shown(value)} is no integer of at least 1", repair="1")
    return value


def _counts(value: object, what: str) -> tuple[int, ...]:
    return tuple(_count(number, what) for number in _list(value, what))


def _flag(value: object, what: str) -> bool:
    if type(value) is not bool:
        raise BackendError(f"{what} is true or false, and not {_shown(value)}", repair="true")
    return value


def _axes(value: object, what: str) -> tuple[tuple[int, int], ...]:
    axes = []
    for axis in _list(value, what):
        pair = _list(axis, f"an axis in {what}")
        if len(pair) != 2 or type(pair[0]) is not int or pair[0] < 0:
            raise BackendError(
                f"an axis in {what} is [dimension, step], and not {_shown(axis)}", repair="[0, 1]"
            )
        axes.append((pair[0], _count(pair[1], f"the step of an axis in {what}")))
    return tuple(axes)


def _optional_name(value: object, what: str) -> str | None:
    return None if value is None else _name(value, what)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "str": _name,
    "str | None": _optional_name,
    "tuple[str, ...]": _names,
    "int": _count,
    "tuple[int, ...]": _counts,
    "tuple[tuple[int, int], ...]": _axes,
    "bool": _flag,
}
"""How the fields of actions are read, by their types."""

_EXAMPLES = {
    action.VERB: action_text(action)
    for action in (
        Tile("i", (32,)),
        Reorder(("j", "i")),
        Sink(("i mod 32",)),
        Separate(("i",), ("S0",)),
        Fuse(("S0.i", "S1.i")),
        Split("S0", ("k mod 8",)),
        Promote("x", SCRATCH, "i div 32"),
        Bind("i", PARALLEL),
    )
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
