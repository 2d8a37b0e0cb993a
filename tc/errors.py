"""The errors of tc: where, why with the actual numbers, and a repair to paste.

An error carries data, not only text: the rule of the language that it cites, the span it
points at, the cause, the repair, and notes that point elsewhere.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

from tc.source import Edit, Span, apply, described, visible

Notes: TypeAlias = tuple[tuple[Span, str], ...]
"""The places that an error points at beside its own place, with words for each."""


F = TypeVar("F", bound=Callable[..., Any])

STRICT = "TC_STRICT"

_OWN = __name__.partition(".")[0]
_BETWEEN = ("torch", "jax", "jaxlib")
"""Libraries that call tc for their users: in layers, and where they trace."""


def is_strict() -> bool:
    """Whether faults of tc raise, and errors show what in tc raised them: `TC_STRICT` is set, and
    not to 0."""
    return os.environ.get(STRICT, "0") not in ("", "0")


def ends_at_caller(function: F) -> F:
    """A public function, whose errors show the line that called it and nothing below: see
    `TCError.__traceback__`. The frame of this function, which stays where Python prints a
    traceback itself, is hidden by IPython and pytest."""

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TCError as error:
            __tracebackhide__ = True
            error._without_own_frames()
            raise error

    return cast(F, called)


class ErrorDetails(TypedDict, total=False):
    """The optional fields of an error: all but cause, rule and span (`TCError`)."""

    repair: str | None
    notes: Notes
    paste: str | None
    edits: tuple[Edit, ...]
    idiom: str | None
    example: tuple[Edit, ...]


class Facts(NamedTuple):
    """What is known of an instance that failed, for a front end that tells it in its own words.

    `kind` is "read" (a read that left its tensor), "division" (by zero), "write" (a place outside
    of the target), "twice" (a place that two instances write) or "range" (a range that data decide
    and that is none); `indices` are the values of the index variables; `place` are the subscripts
    of a read or a place, or the ends of a range, and `shape` is the shape of what was read or
    written."""

    kind: str
    indices: tuple[tuple[str, int], ...]
    place: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


class TCError(Exception):
    """Base of all errors that tc raises on purpose.

    Attributes: `rule` (a name of the language's rules such as "R1", or None), `span` (or None
    where no source text is to blame), `cause`, `repair` (or None), `notes` (pairs of span and
    text), `facts` (of a checked read or division that failed, else None).

    A repair that can be pasted is given as `edits` of the text, and `repair` says the edits in
    words; `paste` is short for one edit of the span. Edits keep the meaning that the text was to
    have. Where this meaning is not known, `idiom` says what the language lacks and what is written
    in its place, and `example` has edits that show the idiom in the text, for the reader to adapt.
    """

    def __init__(
        self,
        cause: str,
        *,
        rule: str | None = None,
        span: Span | None = None,
        repair: str | None = None,
        notes: Notes = (),
        paste: str | None = None,
        edits: tuple[Edit, ...] = (),
        idiom: str | None = None,
        example: tuple[Edit, ...] = (),
        facts: Facts | None = None,
    ) -> None:
        self.cause = cause
        self.rule = rule
        self.span = span
        if paste is not None and span is not None:
            edits = (Edit(span, paste),)
        self.edits = edits
        self.repair = described(edits) if edits and repair is None else repair
        self.notes = notes
        self.idiom = idiom
        self.example = example
        self.facts = facts
        super().__init__(cause)

    @property
    def __traceback__(self) -> TracebackType | None:
        """Where it was raised, up to the last line that is not of tc's, nor of a library's that
        calls tc for its users. With `TC_STRICT=1`, and of what is to be reported, all lines."""
        found: TracebackType | None = _TRACEBACK.__get__(self)
        if found is None or is_strict() or isinstance(self, InternalError):
            return found
        last, at = None, cast("TracebackType | None", found)
        while at is not None:
            room = at.tb_frame.f_globals.get("__name__", "").partition(".")[0]
            if room != _OWN and room not in _BETWEEN:
                last = at
            at = at.tb_next
        if last is not None and last.tb_next is not None:
            last.tb_next = None
        return found

    @__traceback__.setter
    def __traceback__(self, found: TracebackType | None) -> None:
        _TRACEBACK.__set__(self, found)

    def _without_own_frames(self) -> None:
        """Forgets where the error was raised, for a public function that raises the error anew."""
        if not is_strict() and not isinstance(self, InternalError):
            self.__traceback__ = None

    def repaired(self) -> str | None:
        """The whole text with the repair made, or None where there is nothing to paste.

        >>> import tc
        >>> try:
        ...     tc.compile("def f(float(N) x) -> (o) { o = x + 1 }")
        ... except tc.CheckError as error:
        ...     print(error.repaired())
        def f(float(N) x) -> (o) { o(i) = x(i) + 1 }
        """
        return apply(self.edits) if self.edits else None

    def exemplified(self) -> str | None:
        """The whole text with the idiom's example in it, or None where it has none."""
        return apply(self.example) if self.example else None

    def __str__(self) -> str:
        return render(type(self).__name__, self)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (
            type(self),
            self.cause,
            {name: getattr(self, name) for name in _PICKLED_FIELDS},
        )


_TRACEBACK: Any = BaseException.__dict__["__traceback__"]

_PICKLED_FIELDS = ("rule", "span", "repair", "notes", "edits", "idiom", "example", "facts")


class ParseError(TCError):
    """The text is not of the language (rules T)."""


class CheckError(TCError):
    """Names, types, reductions or calls are wrong, whatever the sizes (rules N, Y, R)."""


class RangeError(TCError):
    """Ranges or shapes do not follow from the sizes, or do not fit them (rules G, P)."""


class InputError(TCError):
    """An argument of a call is not what the parameter asks for."""

    _framework_adapter: str | None = None
    """The module that may serve the call, where a framework asks for more than numbers."""


class AccessError(TCError):
    """A checked read or division failed while the program ran (G7, Y4).

    The interpreter has touched no array of the caller's; the elements that compiled code has left
    in the outputs are unspecified.
    """


class GradError(TCError):
    """A program, or a part of one, has no gradient that tc can derive (rules D)."""


class BackendError(TCError):
    """A backend, tool or option cannot be used here."""


class VerificationError(TCError):
    """A kernel does not compute what a text says (`tc.verify`)."""


class InternalError(TCError):
    """A pass of tc has broken its own contract; please report the error."""


class TCWarning(UserWarning):
    """A warning about a program that runs, but may mean something else (R3, G2, Y1, N1, ...)."""


def render(kind: str, error: TCError) -> str:
    """The text of an error or a warning, as a terminal may show it.

    >>> from tc.source import Source
    >>> source = Source("C(i) = a(j)", "f.tc")
    >>> print(CheckError("'j' is only on the right", rule="R1", span=Span(source, 9, 10),
    ...                  repair="write +=! for ="))
    CheckError [R1]: 'j' is only on the right
     --> f.tc:1:10
      |
    1 | C(i) = a(j)
      |          ^
    repair: write +=! for =
    """
    rule = f" [{error.rule}]" if error.rule else ""
    parts = [f"{kind}{rule}: {shortened(error.cause)}"]
    if error.span is not None:
        parts += [f" --> {error.span}", error.span.underline()]
    for span, text in error.notes:
        parts += [f"note: {shortened(text)}", f" --> {span}", span.underline()]
    if error.repair:
        parts.append("repair: " + shortened(error.repair).replace("\n", "\n        "))
    if error.idiom:
        parts.append(f"idiom: {shortened(error.idiom)}")
    if error.idiom and error.example:
        parts.append("       " + described(error.example).replace("\n", "\n       "))
    return visible("\n".join(parts))


_LONG_WORD = r"[A-Za-z0-9_.]{60,}"


def shortened(text: str) -> str:
    """The text with very long words that it quotes cut in the middle.

    >>> shortened("'" + 1000 * "a" + "' is no tensor")
    "'aaaaaaaaaaaaaaaaaa...aaaaaaaaaaaaaaaaaa' is no tensor"
    """
    return re.sub(_LONG_WORD, lambda word: f"{word.group()[:18]}...{word.group()[-18:]}", text)


def _rebuild(kind: type[TCError], cause: str, kept: dict[str, Any]) -> TCError:
    return kind(cause, **kept)
