"""From text to tokens: longest match wins, comments are kept apart (rules T1, T2)."""

from __future__ import annotations

import re

from tc.errors import ParseError
from tc.frontend.scanning import LOOKALIKES, MAX_DIGITS, Scan, scan_tokens, unknown_character
from tc.frontend.tokens import CONSTANTS, RESERVED, SIGNS, Kind, Token
from tc.source import Source, Span

_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[0-9]*[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(
    r"""0[xX][0-9a-fA-F]+[uUlL]*
      | (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? [fFlL]?
      | [0-9]+[eE][+-]?[0-9]+[fFlL]?
      | [0-9]+[uUlL]*""",
    re.VERBOSE,
)
_FIRST_OF_NUMBER = frozenset(".0123456789")
_DIM = re.compile(r"\.[0-9]+")
_REDUCTION = re.compile(r"=!?(?!=)")
_SIGN = re.compile("|".join(re.escape(sign) for sign in SIGNS))
_RUN = re.compile(r"[A-Za-z0-9_.]+")
_LEADING_ZERO = re.compile(r"0[0-9]")

_LOOKALIKES = {**LOOKALIKES, "∈": "in", "π": CONSTANTS["pi"], "∞": CONSTANTS["inf"]}
"""Characters by what they mean."""

_IDIOMS = {
    "²": "x * x, for the square of x",
    "³": "x * x * x, for the third power of x",
    "√": "sqrt(x)",
    "∑": "s +=! x(i)",
    "Σ": "s +=! x(i)",
    "∏": "s *=! x(i)",
    "'": "A(j, i), for the transpose of A(i, j)",
    "ᵀ": "A(j, i), for the transpose of A(i, j)",
    '"': "there are no strings; comments begin with '#'",
    "$": "names are of letters, digits and '_'",
    "\\": "a statement may go on in the next line as it is",
}


def scan(source: Source) -> Scan:
    """All tokens up to the first error, if any; never raises."""
    return scan_tokens(source, _COMMENT, _token)


def number_value(text: str) -> int | float:
    """The value of a number's text; suffixes are ignored (T1).

    >>> number_value("0x1F"), number_value("2ul"), number_value("1e5f"), number_value(".5")
    (31, 2, 100000.0, 0.5)
    """
    if text[:2] in ("0x", "0X"):
        return int(text.rstrip("uUlL"), 16)
    digits = text.rstrip("uUlLfF")
    return int(digits) if digits.isdecimal() else float(digits)


def _token(source: Source, at: int, previous: Token | None) -> Token:
    text = source.text
    if text[at] == "." and previous and previous.kind is Kind.NAME and previous.end == at:
        return _dim(source, at, previous)
    name = _NAME.match(text, at)
    if text[at] in _FIRST_OF_NUMBER:
        number = _NUMBER.match(text, at)
        if number and (name is None or number.end() >= name.end()):
            return _number(source, number)
    if name:
        return _word(text, name)
    if sign := _SIGN.match(text, at):
        return Token(Kind.SIGN, sign.group(), at, sign.end())
    raise _unknown_character(source, at)


def _word(text: str, name: re.Match[str]) -> Token:
    word, start, end = name.group(), name.start(), name.end()
    if word in ("min", "max") and (reduction := _REDUCTION.match(text, end)):
        return Token(Kind.SIGN, word + reduction.group(), start, reduction.end())
    kind = Kind.KEYWORD if word in RESERVED else Kind.NAME
    return Token(kind, word, start, end)


def _number(source: Source, number: re.Match[str]) -> Token:
    text, start = number.group(), number.start()
    run = _RUN.match(source.text, start)
    assert run is not None
    whole = source.text[start : max(run.end(), number.end())]
    span = Span(source, start, start + len(whole))
    if _LEADING_ZERO.match(text):
        raise _leading_zero(whole, span)
    if len(whole) > len(text):
        raise _no_number(whole, text, span)
    value = number_value(text) if len(text) <= MAX_DIGITS else float("inf")
    if value == float("inf"):
        raise ParseError(
            f"the number '{_shortened(text)}' fits no type",
            rule="Y1",
            span=Span(source, start, number.end()),
            idiom="inf(), for infinity",
        )
    return Token(Kind.NUMBER, text, start, number.end())


def _leading_zero(whole: str, span: Span) -> ParseError:
    stripped = whole.lstrip("0")
    shown = stripped if stripped[:1].isdecimal() else "0" + stripped
    cause = f"the number '{_shortened(whole)}' begins with a zero before other digits"
    if shown.isdecimal() and not set(shown) & set("89") and shown != "0" and len(shown) <= 40:
        idiom = f"{shown}, or, where it is octal as in C, {int(shown, 8)}"
        return ParseError(cause, rule="T1", span=span, idiom=idiom)
    if len(shown) <= 40:
        return ParseError(cause, rule="T1", span=span, paste=shown)
    return ParseError(cause, rule="T1", span=span, repair="write it without the zeros")


_FORTRAN = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)[dD]([0-9]*)")
_PRODUCT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def _no_number(whole: str, text: str, span: Span) -> ParseError:
    """The error for `0..2`, `2.5x`, `1.5d0` and the like; `text` is the number that it begins
    with."""
    first, dots, rest = whole.partition("..")
    idiom = paste = None
    if dots:
        idiom = "0:2, for 0 and 1"
        if rest.isdecimal() and len(rest) < 18:
            idiom = f"{first}:{rest}, which ends before {rest}; {first}:{int(rest) + 1}, with it"
        elif first.isdecimal() and _PRODUCT.fullmatch(rest) and len(rest) <= 40:
            idiom = f"{first}:{rest}, which ends before {rest}; {first}:{rest} + 1, with it"
    elif fortran := _FORTRAN.fullmatch(whole):
        paste = f"{fortran.group(1)}e{fortran.group(2) or '0'}"
    elif _PRODUCT.fullmatch(whole[len(text) :]) and len(whole) <= 40:
        paste = f"{text} * {whole[len(text) :]}"
        if len(whole) == len(text) + 1 and whole[-1] in "ijJhDdL":  # of complex and other types
            paste, idiom = None, f"{text}, or {text} * {whole[-1]} for a product"
    return ParseError(
        f"'{_shortened(whole)}' is neither a number nor a name",
        rule="T1",
        span=span,
        paste=paste,
        idiom=idiom,
        repair=None if paste or idiom else "write a number such as 2.5, or a name",
    )


_MODULES = frozenset(
    ("np", "numpy", "math", "cmath", "torch", "jnp", "jax", "tf", "tensorflow", "F", "nn", "tl")
    + ("triton", "te", "tir", "tvm", "topi", "hl", "scipy", "special", "lax", "cp", "cupy", "nl")
)
_PATH = re.compile(r"(?:\.[A-Za-z_]\w*)+")
_SIZE = re.compile(r"\.(?:shape\s*[\[(]|size\s*\(|extent\s*\(|dim\s*\()\s*([0-9])\s*[\])]")
_TRANSPOSED = re.compile(r"\.T\s*[\[(]\s*(\w+)\s*,\s*(\w+)\s*[\])]")


def _dim(source: Source, at: int, tensor: Token) -> Token:
    dim = _DIM.match(source.text, at)
    run = _RUN.match(source.text, at)
    assert run is not None
    plain = dim is not None and dim.end() == run.end() and not _LEADING_ZERO.match(run.group()[1:])
    if dim is None or not plain or len(run.group()) > 9:
        raise _no_dim(source, at, tensor, run)
    return Token(Kind.DIM, dim.group(), at, dim.end())


def _no_dim(source: Source, at: int, tensor: Token, run: re.Match[str]) -> ParseError:
    """The error for `np.exp`, `A.shape[0]`, `A.T(i, j)`, `A.n` and the like."""
    text, name, members = source.text, _shortened(tensor.text), run.group()[1:]
    first = members.partition(".")[0]
    end, paste, idiom = run.end(), None, None
    cause = f"'{_shortened(tensor.text + run.group())}' is not a size: a plain dimension number, "
    cause += "counted from 0, follows the dot"
    if tensor.text in _MODULES and (path := _PATH.match(text, at)):
        end, last = path.end(), path.group().rpartition(".")[2]
        paste = "2.71828182845905" if last == "e" else CONSTANTS.get(last, last)
        cause = f"there are no modules: '{_shortened(last)}' stands without one"
        if paste != last:
            cause = f"there are no modules, and no constant '{last}'"
    elif size := _SIZE.match(text, at):
        end, paste = size.end(), f"{tensor.text}.{size[1]}"
    elif transposed := _TRANSPOSED.match(text, at):
        end, paste = transposed.end(), f"{tensor.text}({transposed[2]}, {transposed[1]})"
    elif first.isdecimal() and first != members:
        idiom = f"{name}.{first[:1]}"
    elif members.isdecimal() and len(members.lstrip("0")) < 3:
        paste = f"{name}.{int(members)}"
    else:
        idiom = _MEMBERS.get(first, "{0}.0, for the size of the first dimension").format(name)
    span = Span(source, tensor.start, end)
    return ParseError(cause, rule="T2", span=span, paste=paste, idiom=idiom)


_MEMBERS = {
    "T": "{0}(j, i), for the transpose of {0}(i, j)",
    "t": "{0}(j, i), for the transpose of {0}(i, j)",
    "sum": "s +=! {0}(i), for a sum over i",
    "mean": "s +=! {0}(i) / {0}.0, for a mean over i",
    "prod": "s *=! {0}(i), for a product over i",
    "max": "s max=! {0}(i), for the greatest over i",
    "min": "s min=! {0}(i), for the least over i",
    "any": "s max=! {0}(i) != 0, whether one is not 0",
    "all": "s min=! {0}(i) != 0, whether none is 0",
    "dot": "s +=! {0}(i) * y(i)",
    "astype": "double({0}(i)), or another type's name, for a cast",
    "to": "double({0}(i)), or another type's name, for a cast",
    "reshape": "{0}(i / 4, i % 4), for the element i of {0} read row by row, with rows of 4",
    "view": "{0}(i / 4, i % 4), for the element i of {0} read row by row, with rows of 4",
    "x": "{0}(i), for an element",
}


def _unknown_character(source: Source, at: int) -> ParseError:
    if source.text[at] == ".":
        return ParseError(
            "a dot stands only in numbers and in sizes such as T.1, without space around it",
            rule="T2",
            span=Span(source, at, at + 1),
            idiom="A.0, for the size of A's first dimension; a * b, for products of elements",
        )
    return unknown_character(source, at, rule="T1", idioms=_IDIOMS, lookalikes=_LOOKALIKES)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"
