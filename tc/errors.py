"""The errors of tc: where, why with the actual numbers, and a repair to paste.

An error carries data, not only text: the rule of the language that it cites, the span it
points at, the cause, the repair, and notes that point elsewhere.
"""

from __future__ import annotations

from tc.source import Span


class TCError(Exception):
    """Base of all errors that tc raises on purpose.

    Attributes: `rule` (a name of semantics.md such as "R1", or None), `span` (or None where no
    source text is to blame), `cause`, `repair` (or None), `notes` (pairs of span and text).
    """

    def __init__(
        self,
        cause: str,
        *,
        rule: str | None = None,
        span: Span | None = None,
        repair: str | None = None,
        notes: tuple[tuple[Span, str], ...] = (),
    ) -> None:
        self.cause = cause
        self.rule = rule
        self.span = span
        self.repair = repair
        self.notes = notes
        super().__init__(cause)

    def __str__(self) -> str:
        return render(type(self).__name__, self)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.cause, self.rule, self.span, self.repair, self.notes)


class ParseError(TCError):
    """The text is not of the language (rules T)."""


class CheckError(TCError):
    """Names, types, reductions or calls are wrong, whatever the sizes (rules N, Y, R)."""


class RangeError(TCError):
    """Ranges or shapes do not follow from the sizes, or do not fit them (rules G, P)."""


class InputError(TCError):
    """An argument of a call is not what the parameter asks for."""


class AccessError(TCError):
    """A checked read or division failed while the program ran (G7, Y4)."""


class BackendError(TCError):
    """A backend, tool or option cannot be used here."""


class InternalError(TCError):
    """A pass of tc broke its own contract; please report it."""


class TCWarning(UserWarning):
    """A doubt about a program: it runs, but perhaps means something else (R3, G2, Y1, Y2, N1)."""


def render(kind: str, error: TCError) -> str:
    """The text of an error or a doubt.

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
    parts = [f"{kind}{rule}: {error.cause}"]
    if error.span is not None:
        parts += [f" --> {error.span}", error.span.underline()]
    for span, text in error.notes:
        parts += [f"note: {text}", f" --> {span}", span.underline()]
    if error.repair:
        parts.append(f"repair: {error.repair}")
    return "\n".join(parts)


def _rebuild(
    kind: type[TCError],
    cause: str,
    rule: str | None,
    span: Span | None,
    repair: str | None,
    notes: tuple[tuple[Span, str], ...],
) -> TCError:
    return kind(cause, rule=rule, span=span, repair=repair, notes=notes)
