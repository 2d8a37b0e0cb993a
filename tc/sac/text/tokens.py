"""The tokens of SaC's notation: its words, numbers and signs (C1, C2)."""

from __future__ import annotations

import re

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.scanning import LOOKALIKES, MAX_DIGITS, Scan, scan_tokens, unknown_character
from tc.frontend.tokens import Kind, Token
from tc.source import Source, Span

RESERVED = frozenset(
    {*SPELLINGS, "with", "return", "if", "else", "true", "false", "for", "while", "do"}
)
"""The words that name nothing (C2)."""

_LOOSEST_FIRST = (
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("++",),
    ("+", "-"),
    ("*", "/", "%"),
)
STRENGTH = {op: level for level, ops in enumerate(_LOOSEST_FIRST, 1) for op in ops}
"""How strongly each binary operator binds (C1)."""

TERNARY_STRENGTH = 0
PREFIX_STRENGTH = len(_LOOSEST_FIRST) + 1
PREFIXES = frozenset("-!")

RELATIONS = ("<", "<=")
"""What stands between an index and its bounds."""

ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%="})

FOREIGN = {
    "**": ("there is no operator '**'", "pow(x, y)"),
    "^": ("there is no operator '^'", "pow(x, y)"),
    "@": ("there is no operator '@'", "{ [i,j] -> sum({ [k] -> A[i,k] * B[k,j] }) }"),
    "&": ("there is no operator '&'", "conditions are joined by '&&'"),
    "~": ("there is no operator '~'", "conditions are negated by '!'"),
    "<<": ("there is no operator '<<'", "a * 16, for a << 4"),
    ">>": ("there is no operator '>>'", "a / 16, for a >> 4"),
    "<>": ("there is no operator '<>'; it is written '!='", "a != b"),
    "=>": ("there is no operator '=>'; it is written '>='", "a >= b"),
    "=<": ("there is no operator '=<'; it is written '<='", "a <= b"),
    "===": ("there is no operator '==='; it is written '=='", "a == b"),
    "!==": ("there is no operator '!=='; it is written '!='", "a != b"),
    ":=": ("there is no ':='; a variable is assigned with '='", "x = a;"),
    "#": ("comments begin with '//'", "// a comment"),
}
"""Signs of other languages: why each is not of this one, and what serves instead."""

SIGNS = tuple(
    sorted(
        {*STRENGTH, *FOREIGN, *ASSIGNMENTS, *"?:,;(){}[]!|", "->", ".", "..."},
        key=lambda sign: (-len(sign), sign),
    )
)
"""Every sign, longer ones first: the longest match wins."""

_PADDED = re.compile(r"0+([1-9][0-9]*)([il]?)")
"""Whole numbers that begin with 0: base 8 in C, and an error in Python."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(
    r"""0[xX][0-9a-fA-F]+
      | (?: [0-9]+\.[0-9]+ (?: [eE][+-]?[0-9]+ )? | [0-9]+[eE][+-]?[0-9]+ ) [fd]?
      | [0-9]+[ilfd]?""",
    re.VERBOSE,
)
_RUN = re.compile(r"[A-Za-z0-9_]*(?:\.(?!\.)[A-Za-z0-9_]*)*")
_SIGN = re.compile("|".join(re.escape(sign) for sign in SIGNS))
_PRODUCT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")

MAX_INT64 = 2**63 - 1

_IDIOMS = {
    "²": "x * x, for the square of x",
    "³": "x * x * x, for the third power of x",
    "√": "sqrt(x)",
    "∑": "sum({ [i] -> x[i] })",
    "Σ": "sum({ [i] -> x[i] })",
    "∏": "prod({ [i] -> x[i] })",
    "'": "transpose(A)",
    "ᵀ": "transpose(A)",
    '"': "there are no strings; comments begin with '//'",
    "$": "names are of letters, digits and '_'",
    "\\": "a text may go on in the next line as it is",
    "π": "3.14159265358979",
    "∞": "(1.0 / 0.0)",
    "…": "'...', of three dots",
    "∈": "{ [i] -> x[i] | [i] < [n] }",
}
_LOOKALIKES = {**LOOKALIKES, "…": "..."}


def scan(source: Source) -> Scan:
    """All tokens up to the first error, if any; never raises."""
    return scan_tokens(source, _COMMENT, _token)


def number_value(text: str) -> int | float:
    """The value of a number's text; a suffix is ignored, except that `f` and `d` are of floats.

    >>> number_value("0x1F"), number_value("2l"), number_value("1e5f"), number_value("3d")
    (31, 2, 100000.0, 3.0)
    """
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    digits = text.rstrip("ilfd")
    return int(digits) if digits.isdecimal() and text[-1] not in "fd" else float(digits)


def _token(source: Source, at: int, _previous: Token | None) -> Token:
    text = source.text
    if number := _NUMBER.match(text, at):
        return _number(source, number)
    if name := _NAME.match(text, at):
        kind = Kind.KEYWORD if name.group() in RESERVED else Kind.NAME
        return Token(kind, name.group(), at, name.end())
    if text.startswith("/*", at):
        raise ParseError(
            "the comment '/*' is not closed",
            rule="C2",
            span=Span(source, at, at + 2),
            repair="write '*/' where the comment ends",
        )
    if text[at] == "." and at + 1 < len(text) and text[at + 1].isdecimal():
        run = _RUN.match(text, at + 1)
        whole = "." + (run.group() if run else "")
        raise ParseError(
            f"'{_shortened(whole)}': a number has a digit on both sides of its dot",
            rule="C1",
            span=Span(source, at, at + len(whole)),
            paste="0" + whole,
        )
    if sign := _SIGN.match(text, at):
        return Token(Kind.SIGN, sign.group(), at, sign.end())
    idioms = _IDIOMS
    if text[at] == "'" and not re.search(r"[\w)\]]$", text[:at][-1:]):  # no Matlab's m'
        idioms = {**_IDIOMS, "'": _IDIOMS['"']}
    raise unknown_character(source, at, rule="C1", idioms=idioms, lookalikes=_LOOKALIKES)


def _number(source: Source, number: re.Match[str]) -> Token:
    text, start = number.group(), number.start()
    run = _RUN.match(source.text, start)
    whole = source.text[start : max(number.end(), run.end() if run else 0)]
    if len(whole) > len(text):
        raise _no_number(whole, text, Span(source, start, start + len(whole)))
    span = Span(source, start, number.end())
    if padded := _PADDED.fullmatch(text):
        plain = padded[1] + padded[2]
        is_octal = not padded[1].strip("01234567")
        raise ParseError(
            f"'{_shortened(text)}': a whole number begins with no 0",
            rule="C1",
            span=span,
            paste=None if is_octal else plain,
            idiom=f"{_shortened(plain)}; 0x1F is of base 16, and no number of base 8"
            if is_octal
            else None,
        )
    value = number_value(text) if len(text) <= MAX_DIGITS else float("inf")
    if (isinstance(value, int) and value > MAX_INT64) or value == float("inf"):
        raise ParseError(
            f"the number '{_shortened(text)}' fits no type",
            rule="C2",
            span=span,
            idiom=f"{text}.0, for a number of type double"
            if text.isdecimal() and len(text) < 40
            else "(1.0 / 0.0), for infinity",
        )
    return Token(Kind.NUMBER, text, start, number.end())


def _no_number(whole: str, text: str, span: Span) -> ParseError:
    """The error for `1.`, `1.5i`, `2x` and the like; `text` is the number that it begins with."""
    rest = whole[len(text) :]
    paste = idiom = None
    if rest[0] == "." and not rest[1:].strip("fd") and text.isdecimal():
        cause = f"'{_shortened(whole)}': a number has a digit on both sides of its dot"
        paste = f"{text}.0{rest[1:]}"
    elif rest in ("i", "l") and not text.isdecimal():
        cause = f"'{_shortened(whole)}': the suffix '{rest}' is of whole decimal numbers"
        idiom = f"{'int' if rest == 'i' else 'int64'}({text}), for a cast"
    elif re.fullmatch(r"(_[0-9]+)+", rest) and text.isdecimal():
        cause = f"'{_shortened(whole)}': a number has digits alone"
        paste = whole.replace("_", "")
    elif text == "0" and re.fullmatch(r"[bB][01]{1,62}|[oO][0-7]{1,20}", rest):
        cause = f"'{whole}': numbers are decimal, or of base 16 as 0x1F"
        paste = str(int(rest[1:], 2 if rest[0] in "bB" else 8))
    elif rest.lower() in ("u", "ul", "lu", "ll", "ull") and text.isdecimal():
        cause = f"'{_shortened(whole)}': the suffixes of numbers are i, l, f and d"
        paste = (
            f"uint{32 if rest.lower() == 'u' else 64}({text})"
            if "u" in rest.lower()
            else (f"{text}l")
        )
    elif rest in ("F", "D", "L", "I") and len(whole) <= 40:
        cause = f"'{whole}': suffixes are written small"
        paste = text + rest.lower()
    else:
        cause = f"'{_shortened(whole)}' is neither a number nor a name"
        if _PRODUCT.fullmatch(rest) and len(whole) <= 40:
            idiom = f"{text} * {rest}, for a product"
    return ParseError(
        cause,
        rule="C1",
        span=span,
        paste=paste,
        idiom=idiom,
        repair=None if paste or idiom else "write a number such as 2.5, or a name",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"
