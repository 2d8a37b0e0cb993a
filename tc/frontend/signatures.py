"""The header of a def: parameters, returns and their types (rules T3, T4)."""

from __future__ import annotations

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.ast import (
    Expr,
    Name,
    Number,
    Param,
    Return,
    TensorType,
    TypeVariable,
    Unary,
)
from tc.frontend.constructs import dims_behind, name_before_type
from tc.frontend.cursor import Cursor
from tc.frontend.expression_parser import parse_part
from tc.frontend.lexer import number_value
from tc.frontend.tokens import CONSTANTS, PI, PRECEDENCE, Kind
from tc.source import Edit
from tc.wording import closest, counted

_ELSEWHERE = {
    "bool": "boolean",
    "int8": "char, i8, signed char",
    "uint8": "u8, uchar, unsigned char",
    "int16": "short, i16, short int",
    "uint16": "u16, ushort, unsigned short, unsigned short int",
    "int32": "integer, i32, signed int",
    "uint32": "unsigned, uint, u32, unsigned int",
    "int64": "long, i64, long int, long long, long long int",
    "uint64": "size_t, u64, unsigned long, unsigned long int, unsigned long long, "
    "unsigned long long int",
    "float16": "f16, fp16",
    "float32": "real, single, f32, fp32",
    "float64": "f64, fp64, long double",
    "bfloat16": "bf16, brain, bfloat",
    "float8_e4m3fn": "float8, fp8, f8, e4m3, e4m3fn, float8_e4m3, f8e4m3, f8e4m3fn, fp8_e4m3",
    "float8_e5m2": "e5m2, f8e5m2, fp8_e5m2",
}
"""The element types, by what they are called in other languages; types of C by their sizes."""

_FOREIGN_TYPES = {name: here for here, names in _ELSEWHERE.items() for name in names.split(", ")}
_SEVERAL_WORDS = frozenset(name for name in _FOREIGN_TYPES if " " in name)
_C_WORDS = frozenset(word for name in _SEVERAL_WORDS for word in name.split())

_NO_TYPES = {
    "complex": "float(N, 2) A, with real and imaginary parts",
    "complex64": "float(N, 2) A, with real and imaginary parts",
    "complex128": "double(N, 2) A, with real and imaginary parts",
    "tensor": "float(N, M) A",
    "vector": "float(N) A",
    "matrix": "float(N, M) A",
    "array": "float(N) A",
    "void": "def f(float(N) A) -> (C) { C(i) = A(i) }",
}
"""Names of other languages that are no element types, with the repairs that replace them."""


def parse_variables(cursor: Cursor, name: Name) -> tuple[TypeVariable, ...]:
    """`<T: half | float, U>`, from its `<` on (T6)."""
    opening = cursor.step()
    found: list[TypeVariable] = []
    while not cursor.at(">") or found:
        variable = _variable(cursor)
        first = next((v for v in found if v.name.text == variable.name.text), None)
        if first is not None:
            raise cursor.error(
                f"'{first.name.text}' is declared twice among the type variables of '{name.text}'",
                rule="T6",
                span=variable.name.span,
                repair="give one of them another name",
                notes=((first.name.span, "the first one is here"),),
            )
        found.append(variable)
        if not cursor.accept(","):
            break
    if not found:
        raise no_variables(cursor, name, opening.start)
    if not cursor.at(">"):
        raise cursor.unexpected(
            "',' or '>' after the type variable",
            rule="T6",
            repair=f"def {name.text}<T: half | float, U>(...)",
        )
    cursor.step()
    return tuple(found)


def no_variables(cursor: Cursor, name: Name, start: int | None = None) -> ParseError:
    """The error for `<>` and `< >`, at its end."""
    return cursor.error(
        f"'{name.text}' declares no type variable in '<>'",
        rule="T6",
        span=cursor.span(cursor.token.start if start is None else start, cursor.token.end),
        paste="",
    )


def _variable(cursor: Cursor) -> TypeVariable:
    if cursor.token.kind is Kind.KEYWORD and cursor.token.text in SPELLINGS:
        raise cursor.error(
            f"'{cursor.token.text}' is a type, and no name for one",
            rule="T6",
            idiom=f"T: {cursor.token.text}, for a variable with this bound",
        )
    name = cursor.name("a type variable")
    bound: list[str] = []
    if cursor.accept(":"):
        while True:
            if cursor.token.kind is not Kind.KEYWORD or cursor.token.text not in SPELLINGS:
                raise _no_type(cursor, "the bound")
            bound.append(cursor.step().text)
            if not cursor.accept("|"):
                break
    span = cursor.span(name.span.start, cursor.previous_end)
    return TypeVariable(name, tuple(dict.fromkeys(bound)), span=span)


def parse_params(cursor: Cursor, name: Name) -> tuple[Param, ...]:
    """`(float(N) A, int k = 3)`, from its `(` on."""
    opening = cursor.expect("(", f"before the parameters of '{name.text}'")
    params: list[Param] = []
    while not cursor.at(")") or params:
        params.append(_param(cursor))
        if not cursor.accept(","):
            break
    cursor.close_bracket(opening, "',' or ')' after the parameter")
    return tuple(params)


def parse_returns(cursor: Cursor, name: Name) -> tuple[Return, ...]:
    """`-> (C, float(N) D)`, from its `->` on."""
    if not cursor.at("->"):
        repair = "write '->' here" if cursor.at("(") else "-> (C)"
        raise cursor.unexpected(f"'->' and the returns of '{name.text}'", repair=repair)
    cursor.step()
    if not cursor.at("("):
        raise _no_parentheses(cursor, name)
    opening = cursor.step()
    if cursor.at(")"):
        raise cursor.error(
            f"'{name.text}' returns nothing; a def computes at least one tensor",
            span=cursor.span(opening.start, cursor.token.end),
            repair="-> (C)",
        )
    returns = [_return(cursor)]
    while cursor.accept(","):
        returns.append(_return(cursor))
    cursor.close_bracket(opening, "',' or ')' after the return")
    return tuple(returns)


def _param(cursor: Cursor) -> Param:
    token, after = cursor.token, cursor.ahead(1)
    if token.kind is Kind.NAME and after.kind is Kind.SIGN and after.text in (",", ")", "="):
        raise cursor.error(
            f"the parameter '{token.text}' has no type",
            rule="T3",
            idiom=f"float(N) {token.text}, for a vector of floats; int {token.text}, for a number",
        )
    if token.kind is Kind.NAME and (swapped := name_before_type(cursor)) is not None:
        raise swapped
    if token.text == "const":
        raise cursor.error("all parameters are constant", rule="T3", paste="")
    type_ = _type(cursor, "a parameter")
    if cursor.at("["):
        raise _dims_in_brackets(cursor, type_)
    name = cursor.name("a parameter")
    if cursor.at("(") or cursor.at("["):
        raise dims_behind(cursor, type_, name)
    if not cursor.at("="):
        return Param(type_, name, span=type_.span.to(name.span))
    default = _default(cursor, type_, name)
    return Param(type_, name, default, span=cursor.span(type_.span.start, cursor.previous_end))


def _default(cursor: Cursor, type_: TensorType, name: Name) -> Expr:
    """The default of a parameter, from its `=` on: a literal, or one with a sign."""
    start = cursor.step().start
    value = parse_part(cursor)
    if type_.dims:
        raise cursor.error(
            f"'{name.text}' has {counted(len(type_.dims), 'dimension')}, and only a parameter "
            "without dimensions has a default",
            span=cursor.span(start, value.end),
            edits=(Edit(cursor.span(name.span.end, value.end), ""),),
        )
    expr, literal = value.expr, value.expr
    if isinstance(literal, Unary) and literal.op in ("-", "+"):
        literal = literal.operand
    if isinstance(literal, Number) and value.start == expr.span.start:
        return expr
    cause = f"the default of '{name.text}' is a literal, perhaps with a sign"
    if isinstance(literal, Number):
        raise cursor.error(cause, span=value.span, paste=expr.span.line)
    known = _CONSTANTS.get(expr.text) if isinstance(expr, Name) else None
    raise cursor.error(
        cause,
        span=value.span,
        paste=known,
        idiom=None
        if known
        else f"{type_.spelling} {name.text} = "
        f"{'3' if _is_whole(type_) else '0.5'}; what follows from other values is computed in "
        "the body",
    )


_CONSTANTS = {
    name: {"bool(1)": "1", "bool(0)": "0", "pi()": PI}.get(here, here)
    for name, here in CONSTANTS.items()
    if here not in ("inf()", "nan()")
}
"""Constants of other languages that are literals here."""


def _is_whole(type_: TensorType) -> bool:
    found = SPELLINGS.get(type_.spelling)
    return found is not None and not found.is_float


def _return(cursor: Cursor) -> Return:
    start = cursor.token.start
    token, after = cursor.token, cursor.ahead(1)
    is_type = token.kind is Kind.NAME and (after.text == "(" or after.kind is Kind.NAME)
    typed = token.kind is Kind.KEYWORD or is_type
    type_ = _type(cursor, "a return") if typed else None
    name = cursor.name("a return")
    return Return(type_, name, span=cursor.span(start, name.span.end))


def _type(cursor: Cursor, what: str) -> TensorType:
    if not cursor.is_type(cursor.token):
        raise _no_type(cursor, what)
    spelling = cursor.step()
    dims = _dims(cursor) if cursor.at("(") else None
    return TensorType(spelling.text, dims, span=cursor.span(spelling.start, cursor.previous_end))


def _dims(cursor: Cursor) -> tuple[Name | Number, ...]:
    opening = cursor.step()
    dims: list[Name | Number] = []
    while not cursor.at(")") or dims:
        dims.append(_dim(cursor))
        if not cursor.accept(","):
            break
    if dims and cursor.token.kind is Kind.SIGN and cursor.token.text in PRECEDENCE:
        raise _dim_expression(cursor)
    cursor.close_bracket(opening, "',' or ')' after the dimension")
    return tuple(dims)


def _dim_expression(cursor: Cursor) -> ParseError:
    """The error for `float(N + 1)` and `float(2*N)`, from the operator on."""
    start = cursor.tokens[cursor.index - 1].start
    cursor.skip_to(",", ")", "{", "}")
    return cursor.error(
        "a dimension is a name or a whole number, and no expression",
        span=cursor.span(start, cursor.previous_end),
        idiom="a parameter has a size of its own, such as float(M) x; the shape of a return "
        "follows from its ranges, such as -> (o) { o(i) = x(i / 2) where i in 0:2 * N }",
    )


def _dim(cursor: Cursor) -> Name | Number:
    token = cursor.token
    if token.kind is not Kind.NUMBER:
        return cursor.name("a size")
    value = number_value(token.text)
    if isinstance(value, float):
        whole = str(int(value)) if value < 1e15 and value == int(value) else None
        raise cursor.error(
            f"a dimension is a whole number or a name, and '{token.text}' is neither",
            paste=whole,
            repair=None if whole else "write a whole number",
        )
    cursor.step()
    return Number(token.text, value, span=cursor.span_of(token))


def _dims_in_brackets(cursor: Cursor, type_: TensorType) -> ParseError:
    """The error for `float[N, M] A`, from the bracket on."""
    start = cursor.token.start
    while not cursor.at_end and cursor.step().text != "]":
        pass
    span = cursor.span(start, cursor.previous_end)
    cause = "the sizes of a type stand in parentheses"
    inside = span.text[1:-1]
    if type_.dims or set(inside) & set("[]+-*/:?.\n") or not inside.strip() or cursor.at("["):
        return cursor.error(cause, rule="T3", span=span, idiom=f"{type_.spelling}(N, M) A")
    return cursor.error(cause, rule="T3", span=span, paste=f"({inside})")


def _no_type(cursor: Cursor, what: str) -> ParseError:
    token = cursor.token
    if token.kind is not Kind.NAME:
        return cursor.unexpected(f"the type of {what}", rule="T3", repair="float(N) A")
    if token.text.lower() in _NO_TYPES:
        return cursor.error(
            f"'{token.text}' is not an element type; they are {', '.join(SPELLINGS)}",
            rule="T3",
            idiom=_NO_TYPES[token.text.lower()],
        )
    if (several := _several_words(cursor)) is not None:
        return several
    known = _FOREIGN_TYPES.get(token.text.lower()) or _nearest_type(token.text.lower()[:40])
    return cursor.error(
        f"'{token.text}' is not a type",
        rule="T3",
        paste=known,
        repair=None if known else "write one of " + ", ".join(SPELLINGS),
    )


def _nearest_type(name: str) -> str | None:
    """The type that a name is a misspelling of; other digits are another type."""
    digits = "".join(c for c in name if c.isdecimal())
    known = [t for t in SPELLINGS if "".join(c for c in t if c.isdecimal()) == digits]
    return name if name in known else closest(name, known)


def _several_words(cursor: Cursor) -> ParseError | None:
    """The error for `unsigned int`, if the type here is of several words."""
    words, count = [cursor.token], 1
    while cursor.ahead(count).text in _C_WORDS:
        words.append(cursor.ahead(count))
        count += 1
    written = " ".join(word.text for word in words)
    if len(words) == 1 or written not in _SEVERAL_WORDS:
        return None
    return cursor.error(
        f"'{written}' is not a type",
        rule="T3",
        span=cursor.span(words[0].start, words[-1].end),
        paste=_FOREIGN_TYPES[written],
    )


def _no_parentheses(cursor: Cursor, name: Name) -> ParseError:
    """The error for `-> C {`."""
    first = cursor.token
    while cursor.token.text not in ("{", "}", "=") and not cursor.at_end:
        cursor.step()
    span = cursor.span(first.start, max(cursor.previous_end, first.end))
    written = span.line
    known = cursor.at("{") and first.kind in (Kind.NAME, Kind.KEYWORD) and len(written) <= 80
    return cursor.error(
        f"the returns of '{name.text}' are written in parentheses",
        span=span,
        paste=f"({written})" if known else None,
        repair=None if known else "-> (C)",
    )
