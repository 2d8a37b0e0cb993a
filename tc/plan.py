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

What the fields of actions can hold, and how values from elsewhere are read, stands here too.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, ClassVar, TypeAlias, get_args

from tc.errors import BackendError
from tc.wording import closest

MAX_ACTION_NUMBER = 2**31 - 1
"""The largest number that a field of an action can have."""


def read_field(item: Field[Any], value: object, verb: str) -> Any:
    """The value of a field of an action; BackendError for one of another type."""
    kind = str(item.type)
    try:
        return _READERS[kind](value, f"{item.name!r} of {verb!r}")
    except BackendError as error:
        mended = coerced(value, kind)
        repair = None if mended is None else f"{item.name}={mended!r}"
        raise BackendError(error.cause, repair=repair) from None


def coerced(value: object, kind: str) -> Any:
    """What a value of another type stands for, in a field of this; None where it is nothing."""
    match kind, value:
        case "tuple[str, ...]", str():
            return (value,)
        case "tuple[int, ...]", int() if _is_count(value):
            return (value,)
        case "int", float() if value.is_integer() and _is_count(int(value)):
            return int(value)
    return None


def list_of(value: object, what: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BackendError(f"{what}, and not {shown(value)}")
    return list(value)


def _name(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BackendError(f"{what} is a name, and not {shown(value)}")
    return value


def names_of(value: object, what: str) -> tuple[str, ...]:
    return tuple(_name(name, what) for name in list_of(value, f"{what}: a list of names"))


def _is_count(value: object, least: int = 1) -> bool:
    return type(value) is int and least <= value <= MAX_ACTION_NUMBER


def _count(value: Any, what: str) -> int:
    if not _is_count(value):
        raise BackendError(f"{what}: {shown(value)} is no integer from 1 to {MAX_ACTION_NUMBER}")
    return int(value)


def _counts(value: object, what: str) -> tuple[int, ...]:
    return tuple(_count(number, what) for number in list_of(value, f"{what}: a list of integers"))


def _flag(value: object, what: str) -> bool:
    if type(value) is not bool:
        raise BackendError(f"{what} is true or false, and not {shown(value)}")
    return value


def _axes(value: object, what: str) -> tuple[tuple[int, int], ...]:
    axes = []
    for axis in list_of(value, f"{what}: a list of [dimension, step]"):
        if not isinstance(axis, list | tuple) or len(axis) != 2 or not _is_count(axis[0], 0):
            raise BackendError(f"{what}: an axis is [dimension, step], and not {shown(axis)}")
        axes.append((axis[0], _count(axis[1], f"the step of an axis in {what}")))
    return tuple(axes)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "str": _name,
    "str | None": lambda value, what: None if value is None else _name(value, what),
    "tuple[str, ...]": names_of,
    "int": _count,
    "int | None": lambda value, what: None if value is None else _count(value, what),
    "tuple[int, ...]": _counts,
    "tuple[tuple[int, int], ...]": _axes,
    "bool": _flag,
}
"""How the fields of actions are read, by their types."""


def as_json(value: object) -> str:
    """A value read from JSON, as it stands there."""
    try:
        return shortened(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return shown(value)


def shown(value: object) -> str:
    try:
        return shortened(repr(value))
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"one of type {type(value).__name__}"


def shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


__all__ = [
    "ACTIONS",
    "ASYNC",
    "AXES",
    "BLOCK",
    "MAX_ACTIONS",
    "MMA",
    "MMA_TF32",
    "PACKED",
    "PARALLEL",
    "REGISTER",
    "REGISTERS",
    "SCATTERS",
    "SCRATCH",
    "SERIAL",
    "SHARED",
    "THREAD",
    "UNROLL",
    "VECTOR",
    "VERSION",
    "Action",
    "Bind",
    "Fuse",
    "Part",
    "Plan",
    "Promote",
    "Reorder",
    "Scatter",
    "Separate",
    "Sink",
    "Split",
    "Tile",
]


def __dir__() -> list[str]:
    return sorted((*__all__, *(name for name in globals() if name.startswith("_"))))


VERSION = 1
"""Of the JSON; other versions are refused."""

SERIAL, PARALLEL, UNROLL, VECTOR = "serial", "parallel", "unroll", "vector"
"""Roles of a loop: a plain loop; shared among threads; straight-line code; the lanes of vectors."""

BLOCK, THREAD, MMA, MMA_TF32 = "block", "thread", "mma", "mma_tf32"
"""Roles on a GPU: iterations run by the blocks of a grid, or by the threads of a block; 16 steps of
a sum of products of halves, which tensor cores compute for the threads of a warp, and 8 steps of
one of floats, whose factors are rounded to tf32, with `GpuOptions(tf32=True)` alone."""

REGISTER, SCRATCH, PACKED, SHARED = "register", "scratch", "temporary", "shared"
"""Scopes of a promoted tile: locals; memory of one thread; memory filled before the part begins;
memory of a block of threads."""

REGISTERS, ASYNC = "registers", "async"
"""Through what threads copy to shared memory: each element is read to a register, then stored; or
memory is told to copy, and threads go on until they need what was copied."""

SCATTERS = ("serial", "owners", "parts", "sorted", "atomic")
"""Forms of a scatter (X2): one thread adds all terms; each thread owns some places, and goes
through all terms; contiguous parts of the terms have a copy of the target each, and the copies are
combined in order; terms are sorted, so that those of a place stand next to each other; threads of
GPUs add integers in memory that they share, each in one step."""

ASYNC_BYTES = (2, 4, 8)
"""Of the elements that are copied by copies that are async."""

MAX_STAGES = 4
"""Of a tile in shared memory."""

AXES = ("x", "y", "z")
"""Of a grid and of a block, the innermost first."""


MAX_ACTIONS = 10_000
"""In all parts of a plan."""


class _Checked:
    """What all actions have in common: a verb, which is the name of the class; lists become tuples,
    and fields of other types are refused, as are numbers below 1."""

    VERB: ClassVar[str]
    __slots__ = ()

    def __init_subclass__(cls) -> None:
        cls.VERB = cls.__name__.lower()

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value = read_field(item, getattr(self, item.name), self.VERB)
            object.__setattr__(self, item.name, value)


@dataclass(frozen=True, slots=True)
class Tile(_Checked):
    """A loop over tiles, and loops inside of the tiles, in the place of a loop: for sizes (32, 8)
    the loops `div 32`, `mod 32 div 8` and `mod 8`. Each size divides the size before."""

    loop: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reorder(_Checked):
    """Loops of one nest in another order: each takes the place of another."""

    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sink(_Checked):
    """Loops become the innermost ones of every statement that they run: point loops below
    reductions, so that accumulators stay in registers (Vasilache et al. 2018, section 5.3)."""

    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Separate(_Checked):
    """The innermost loops around some statements become loops of their own for these statements
    (loop distribution), for the statements before and for the statements after."""

    loops: tuple[str, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fuse(_Checked):
    """The outermost loops of neighbours become one loop; first with first, and so on."""

    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split(_Checked):
    """The reduction of a statement has an accumulator for each iteration of some loops inside of
    tiles; the accumulators are combined once the loops around these, up to `inside`, have run
    (R5)."""

    statement: str
    loops: tuple[str, ...]
    inside: str | None = None


@dataclass(frozen=True, slots=True)
class Promote(_Checked):
    """The elements of a tensor, or of a gather ("T(I(d0, d1), d2)"), that iterations of a loop
    touch lie in a buffer (`inside` None: the elements that the whole part touches). `statements`
    tells which statements are meant where several have loops of that name, or only some use the
    buffer.

    `axes` are those of the buffer, outermost first, each as [dimension of the tensor, step]: a
    step of 32 counts panels of 32 elements, one of 1 the elements (of a panel, where the dimension
    has one); without axes the dimensions lie in order. Copies run in vectors of `lanes`; the last
    axis is made a multiple of `align`. With `padded`, reads through `pad` find the padding in the
    buffer, too. With `lines`, what is written back fills whole cache lines. With a `pitch`, the
    buffer has room for `pitch` elements along its last axis, and copies are unrolled with `unroll`.
    A buffer holds elements in the type of computation, or, `as_stored`, in that of the tensor.

    Threads copy to shared memory `through` registers, or by copies that are "async". With several
    `stages`, at most 4, there is room for as many tiles: while a tile is used, the next ones are
    copied.
    """

    tensor: str
    scope: str
    inside: str | None = None
    statements: tuple[str, ...] = ()
    axes: tuple[tuple[int, int], ...] = ()
    lanes: int = 1
    align: int = 1
    padded: bool = False
    lines: bool = False
    pitch: int | None = None
    unroll: bool = False
    stages: int = 1
    through: str = REGISTERS
    as_stored: bool = False


@dataclass(frozen=True, slots=True)
class Bind(_Checked):
    """The role of a loop. Loops for blocks and threads have an `axis`: "x", "y" or "z"; with a
    `count`, at most `count` blocks or threads run the loop, in turns. Of loops of one axis inside
    of each other, the numbers of the blocks or threads have a digit each, the innermost loop the
    last."""

    loop: str
    role: str
    axis: str | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Scatter(_Checked):
    """The form of a reduction whose terms go where data say, one of `SCATTERS`, for a statement as
    it is called in the program ("S0"). It decides which statements there are, before any loops: in
    a part with other actions, `statements` are those of that form, as `tc explain` shows them; of a
    part that says nothing but forms, tc chooses all else.

    >>> import tc
    >>> part = tc.plan.Part(["S0"], [tc.plan.Scatter("S0", "sorted")])
    """

    statement: str
    form: str

    def __post_init__(self) -> None:
        super(Scatter, self).__post_init__()
        if self.form not in SCATTERS:
            raise BackendError(
                f"no form {shown(self.form)} of a scatter; there are {', '.join(SCATTERS)}",
                repair=f'form="{closest(self.form, SCATTERS) or SCATTERS[0]}"',
            )


Action: TypeAlias = Tile | Reorder | Sink | Separate | Fuse | Split | Promote | Bind | Scatter
ACTIONS: tuple[type[Action], ...] = get_args(Action)
_VERBS = {kind.VERB: kind for kind in ACTIONS}


@dataclass(frozen=True, slots=True)
class Part:
    """The `actions` on one part of a program; `statements` names the statements of the part, in
    their order.

    >>> import tc
    >>> part = tc.plan.Part(["S0.init", "S0"], [tc.plan.Bind("i", "parallel")])
    >>> part.statements
    ('S0.init', 'S0')
    """

    statements: tuple[str, ...]
    actions: tuple[Action, ...] = ()

    def __post_init__(self) -> None:
        names = names_of(self.statements, "the statements of a part")
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice or not names:
            what = f"names the statement {twice[0]} twice" if twice else "names no statement"
            example = tuple(dict.fromkeys(names)) or ("S0",)
            raise BackendError(f"a part {what}", repair=f"Part({example!r})")
        actions = tuple(list_of(self.actions, "the actions of a part are a list"))
        for action in actions:
            if not isinstance(action, ACTIONS):
                raise BackendError(
                    f"an action is one of {', '.join(kind.__name__ for kind in ACTIONS)} of "
                    f"tc.plan, and not {shown(action)}",
                    repair='tc.plan.Tile("i", (32,))',
                )
        object.__setattr__(self, "statements", names)
        object.__setattr__(self, "actions", actions)


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Actions for the `parts` of a program; tc chooses the actions of all parts that are left out.

    `tc.Options(plan=...)` takes it; `tc.explain` shows, as its stage "plan", the one that made a
    kernel. Raises BackendError for what is no part, a statement in two parts, and more actions
    than 10,000; whether the actions can be done is seen where a program is compiled.

    >>> import tc
    >>> tile = tc.plan.Tile("i", [32])
    >>> plan = tc.Plan([tc.plan.Part(["S0"], [tile, tc.plan.Bind("i div 32", "parallel")])])
    >>> plan
    <tc plan: S0 by 2 actions>
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

    def __post_init__(self) -> None:
        parts = tuple(list_of(self.parts, "the parts of a plan are a list"))
        for part in parts:
            if not isinstance(part, Part):
                raise BackendError(
                    f"a part of a plan is a tc.plan.Part, and not {shown(part)}",
                    repair='tc.plan.Part(("S0",), (tc.plan.Tile("i", (32,)),))',
                )
        object.__setattr__(self, "parts", parts)
        met: set[str] = set()
        for part in parts:
            twice = met.intersection(part.statements)
            if twice:
                raise BackendError(
                    f"the statement {min(twice)} is in two parts of the plan",
                    repair=str(Plan(tuple(_apart(parts)))),
                )
            met.update(part.statements)
        _check_number(sum(len(part.actions) for part in parts))

    def to_json(self) -> str:
        """The plan as a JSON object, an action a line, to be read by `from_json`."""
        parts = ",\n".join(map(_part_text, self.parts))
        body = f"[\n{parts}\n]" if self.parts else "[]"
        return f'{{"version": {VERSION}, "parts": {body}}}'

    __str__ = to_json

    def __repr__(self) -> str:
        told = [f"{', '.join(p.statements)} by {_counted(len(p.actions))}" for p in self.parts]
        return f"<tc plan: {shortened('; '.join(told) or 'all is chosen')}>"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """A plan written by `to_json`, or by hand. Raises BackendError for anything else: no JSON,
        another version, actions and keys that do not exist, values of the wrong type; the repair
        is the plan with what is wrong mended or left out."""
        if not isinstance(text, str):
            raise BackendError(
                f"a plan is read from text, and not from one of type {type(text).__name__}",
                repair='tc.Plan.from_json(pathlib.Path("plan.json").read_text())',
            )
        reader = _Reader([])
        plan = reader.plan(reader.value(text))
        if reader.errors:
            raise BackendError(reader.errors[0], repair=str(plan))
        return plan


def scatters_of(plan: Plan | None) -> dict[str, str]:
    """The forms of scatters that a plan asks for, by statement.

    >>> scatters_of(Plan((Part(("S0",), (Scatter("S0", "owners"),)),)))
    {'S0': 'owners'}
    """
    actions = (action for part in (plan.parts if plan else ()) for action in part.actions)
    return {a.statement: a.form for a in actions if isinstance(a, Scatter)}


def with_scatters(plan: Plan, forms: Mapping[str, str]) -> Plan:
    """A plan that says these forms of scatters, too, by statement, but for those that it has.

    >>> with_scatters(Plan((Part(("S0", "S1")),)), {"S1": "owners", "S2": "parts"}).parts[1]
    Part(statements=('S2',), actions=(Scatter(statement='S2', form='parts'),))
    """
    left = {name: form for name, form in forms.items() if name not in scatters_of(plan)}
    parts = []
    for part in plan.parts:
        own = tuple(Scatter(name, left.pop(name)) for name in part.statements if name in left)
        parts.append(replace(part, actions=(*own, *part.actions)) if own else part)
    others = (Part((name,), (Scatter(name, form),)) for name, form in left.items())
    return Plan((*parts, *others))


def without_scatter(plan: Plan, statement: str) -> Plan:
    """A plan that says nothing of the form of a scatter, and no part that said that alone.

    >>> without_scatter(Plan((Part(("S0",), (Scatter("S0", "owners"),)),)), "S0") == Plan()
    True
    """
    parts = []
    for part in plan.parts:
        left = tuple(
            action
            for action in part.actions
            if not (isinstance(action, Scatter) and action.statement == statement)
        )
        if left or not part.actions:
            parts.append(replace(part, actions=left))
    return Plan(tuple(parts))


def _apart(parts: tuple[Part, ...]) -> Iterator[Part]:
    """The parts of a plan but for those that name a statement of an earlier part."""
    met: set[str] = set()
    for part in parts:
        if met.isdisjoint(part.statements):
            yield part
        met.update(part.statements)


def _check_number(actions: int) -> None:
    if actions > MAX_ACTIONS:
        raise BackendError(
            f"the plan has {actions} actions, and a plan can have {MAX_ACTIONS}",
            repair=str(Plan()),
        )


def _counted(actions: int) -> str:
    return "1 action" if actions == 1 else f"{actions} actions"


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


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a plan to its end: `errors` lists all that is wrong in the text, and the plan that is
    read has the errors mended, or the faulty parts left out."""

    errors: list[str]

    def value(self, text: str) -> object:
        """The value of a text in JSON."""
        try:
            return json.loads(
                text, object_pairs_hook=self._object_of_pairs, parse_constant=self._constant
            )
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            self.errors.insert(0, f"the plan is no JSON: {reason}")
        try:
            return literal_eval(text)  # as Python writes it, or with a comma too many
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return {"version": VERSION}

    def _object_of_pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, times in counts.items() if times > 1)
            self.errors.append(f"{as_json(found)} has the key {twice!r} twice")
        return found

    def _constant(self, name: str) -> str:
        self.errors.append(f"{name} is no number in JSON")
        return name

    def plan(self, value: object) -> Plan:
        whole = self._object(value, "a plan", ("version", "parts"), ("version",))
        version = whole.get("version", VERSION)
        if version != VERSION or type(version) is not int:
            self.errors.append(
                f"the plan has version {shown(version)}, and this tc reads version {VERSION}"
            )
        values = self._list(whole.get("parts", []), '"parts"')
        lists = (v.get("actions") for v in values if isinstance(v, dict))
        _check_number(sum(len(found) for found in lists if isinstance(found, list)))
        parts = [part for value in values if (part := self._part(value)) is not None]
        try:
            return Plan(tuple(parts))
        except BackendError as error:
            self.errors.append(error.cause)
            return Plan(tuple(_apart(tuple(parts))))

    def _part(self, value: object) -> Part | None:
        found = self._object(value, "a part", ("statements", "actions"), ("statements",))
        given = found.get("statements", [])
        if isinstance(given, str):
            self.errors.append(f'"statements" is a list of names, and not {shown(given)}')
            given = [name.strip() for name in given.split(",")]
        values = self._list(found.get("actions", []), '"actions"')
        try:
            statements = Part(names_of(given, '"statements"')).statements
        except BackendError as error:
            if "statements" in found:
                self.errors.append(error.cause)
            return None
        actions = []
        for number, action in enumerate(values):
            known = len(self.errors)
            actions.append(self._action(action))
            if len(self.errors) > known:
                named = f"of the part {', '.join(statements)}, {as_json(action)}"
                wrong = [f"action {number + 1} {named}: {cause}" for cause in self.errors[known:]]
                self.errors[known:] = wrong
        return Part(statements, tuple(action for action in actions if action is not None))

    def _action(self, value: object) -> Action | None:
        verbs = ", ".join(_VERBS)
        if not isinstance(value, dict) or not value:
            self.errors.append(f"an action is an object whose first key is one of {verbs}")
            return None
        verb = next((key for key in value if key in _VERBS), None)
        if verb is None:
            first = next(iter(value))
            self.errors.append(f"no action {shown(first)}; there are {verbs}")
            verb = closest(str(first), _VERBS)
            if verb is None:
                return None
            value = {verb: value[first], **{k: v for k, v in value.items() if k != first}}
        return self._fields(_VERBS[verb], value)

    def _fields(self, kind: type[Action], value: Mapping[str, Any]) -> Action | None:
        first, *others = fields(kind)
        known = {kind.VERB: first, **{item.name: item for item in others}}
        needed = tuple(key for key, item in known.items() if item.default is MISSING)
        found = self._object(value, f"the action {kind.VERB!r}", tuple(known), needed)
        if not set(needed) <= set(found):
            return None
        read = {}
        for key, given in found.items():
            item = known[key]
            try:
                read[item.name] = read_field(item, given, kind.VERB)
            except BackendError as error:
                self.errors.append(error.cause)
                mended = coerced(given, str(item.type))
                if mended is not None:
                    read[item.name] = mended
                elif key in needed:
                    return None
        return kind(**read)

    def _object(
        self, value: object, what: str, known: tuple[str, ...], required: tuple[str, ...]
    ) -> Mapping[str, Any]:
        """The values of an object by known keys; misspelt keys are read as the nearest known
        ones."""
        keys = ", ".join(map(repr, known))
        if not isinstance(value, dict):
            self.errors.append(f"{what} is an object with the keys {keys}, and not {shown(value)}")
            return {}
        found = {key: item for key, item in value.items() if key in known}
        for key in value:
            if key not in known:
                self.errors.append(f"{what} has no key {shown(key)}; there are {keys}")
                near = closest(str(key), known)
                if near is not None and near not in found:
                    found[near] = value[key]
        for key in required:
            if key not in found:
                self.errors.append(f"{what} lacks the key {key!r}")
        return found

    def _list(self, value: object, what: str) -> list[Any]:
        if isinstance(value, list | tuple):
            return list(value)
        self.errors.append(f"{what} is a list, and not {shown(value)}")
        return [value] if isinstance(value, dict) else []
