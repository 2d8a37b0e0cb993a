"""From tokens to the syntax tree: recursive descent over the grammar of C1, and the operators of
`OperatorParser`.

What other languages write in a place, and what SaC has but this language has not (C27), is refused
by `rejections`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tc.dtypes import SPELLINGS
from tc.errors import ParseError
from tc.frontend.operator_parser import MAX_HEIGHT, OperatorParser, Pending
from tc.frontend.token_cursor import Parsed
from tc.frontend.tokens import Kind, Token
from tc.sac import ast
from tc.sac.text import rejections
from tc.sac.text.cursor import Cursor
from tc.sac.text.rejections.loops import Side
from tc.sac.text.tokens import (
    ASSIGNMENTS,
    PREFIX_STRENGTH,
    PREFIXES,
    RELATIONS,
    STRENGTH,
    TERNARY_STRENGTH,
    number_value,
)
from tc.source import Source, apply

FOLDS = ("+", "*", "min", "max", "&&", "||")
"""The operations of fold with-loops."""


def parse(source: Source) -> ast.Module:
    """The syntax tree of a text of functions, or of statements and one expression (C1).

    Raises ParseError with rule, place, cause and repair for any other text, in time linear in its
    length.

    >>> from tc.source import Source
    >>> parse(Source("{ iv -> a[iv] + 1 }")).body.results[0].parts[0].pattern.name.text
    'iv'
    """
    cursor = Cursor(source)
    try:
        return _parsed(cursor)
    except ParseError as error:
        for edits in rejections.statements.quotients_for_comment(cursor):
            try:
                _parsed(Cursor(Source(apply(edits))))
            except ParseError:
                continue
            raise rejections.statements.comment_for_quotient(error, edits) from None
        raise


def _parsed(cursor: Cursor) -> ast.Module:
    parser = _Parser()
    definitions: list[ast.Definition] = []
    body = None
    rejections.unsupported.refuse_unsupported(cursor)
    rejections.statements.refuse_function_without_type(cursor)
    if _starts_definition(cursor):
        while not cursor.at_end:
            definitions.append(parser.definition(cursor))
    else:
        body = parser.expression_body(cursor)
    cursor.finish()
    return ast.Module(cursor.source, tuple(definitions), body)


def _starts_definition(cursor: Cursor) -> bool:
    is_type = cursor.token.kind is Kind.KEYWORD and cursor.token.text in SPELLINGS
    return is_type and cursor.ahead(1).text != "("


class _Parser(OperatorParser[Cursor, ast.Expr]):
    STRENGTH = STRENGTH
    TERNARY_STRENGTH = TERNARY_STRENGTH
    PREFIX_STRENGTH = PREFIX_STRENGTH
    PREFIXES = PREFIXES

    # --- functions, types, statements -------------------------------------------------------------

    def definition(self, cursor: Cursor) -> ast.Definition:
        rejections.unsupported.refuse_unsupported(cursor)
        if not _starts_definition(cursor):
            raise rejections.statements.no_definition(cursor)
        start = cursor.token.start
        types = [self.type(cursor)]
        while cursor.accept(","):
            types.append(self.type(cursor))
        rejections.unsupported.refuse_operator_definition(cursor)
        rejections.statements.refuse_type_as_variable(cursor, types)
        name = cursor.name("a function")
        if cursor.at("="):
            raise rejections.unsupported.declared_variable(cursor, types, name)
        opening = cursor.expect("(", f"before the parameters of '{name.text}'")
        parameters: list[ast.Parameter] = []
        while not cursor.at(")") or parameters:
            parameters.append(self.parameter(cursor, types[0].element))
            if not cursor.accept(","):
                break
        cursor.close_bracket(opening, "',' or ')' after the parameter")
        rejections.unsupported.refuse_constraint(cursor)
        brace = cursor.expect("{", f"before the statements of '{name.text}'")
        statements = tuple(self.statements(cursor, 0))
        results = self.results(cursor, name, brace)
        if not cursor.at("}"):
            raise rejections.statements.behind_return(cursor, name, brace)
        cursor.step()
        if len(results) != len(types):
            raise rejections.statements.result_count(cursor, name, types, results)
        body = ast.Body(statements, results, span=cursor.span(brace.start, cursor.previous_end))
        span = cursor.span(start, cursor.previous_end)
        return ast.Definition(tuple(types), name, tuple(parameters), body, span=span)

    def parameter(self, cursor: Cursor, element: str) -> ast.Parameter:
        """A parameter; `element` is the element type for one that is written without a type."""
        start = cursor.token.start
        rejections.statements.refuse_parameter_without_type(cursor, element)
        kind = self.type(cursor)
        name = cursor.name("a parameter")
        return ast.Parameter(kind, name, span=cursor.span(start, cursor.previous_end))

    def type(self, cursor: Cursor) -> ast.Type:
        if not (cursor.token.kind is Kind.KEYWORD and cursor.token.text in SPELLINGS):
            raise rejections.statements.no_type(cursor)
        element = cursor.step()
        sizes: str | tuple[ast.Size, ...] = ()
        if cursor.at("["):
            opening = cursor.step()
            if cursor.at("*") or cursor.at("+"):
                rejections.statements.refuse_sizes_beside(cursor)
                sizes = cursor.step().text
            else:
                entries = [self.size(cursor)]
                while cursor.accept(","):
                    entries.append(self.size(cursor))
                sizes = tuple(entries)
            cursor.close_bracket(opening, "',' or ']' after the size")
            rejections.statements.refuse_second_brackets(cursor)
        span = cursor.span(element.start, cursor.previous_end)
        return ast.Type(element.text, sizes, span=span)

    def size(self, cursor: Cursor) -> ast.Size:
        token = cursor.token
        if cursor.accept("."):
            return ast.Size(None, None, span=cursor.span_of(token))
        count: int | ast.Name
        if token.kind is Kind.NUMBER:
            value = number_value(token.text)
            if not isinstance(value, int) or token.text[-1] in "il":
                raise cursor.error(
                    f"the size '{token.text}' is no plain whole number",
                    repair="write a whole number without a suffix, or '.' for any size",
                )
            cursor.step()
            count = value
        elif token.kind is Kind.NAME:
            count = cursor.name("a size")
        else:
            raise rejections.statements.no_size(cursor)
        name = cursor.name("a vector of sizes") if cursor.accept(":") else None
        return ast.Size(count, name, span=cursor.span(token.start, cursor.previous_end))

    def statements(self, cursor: Cursor, nesting: int) -> Iterator[ast.Statement]:
        while True:
            rejections.unsupported.refuse_statement(cursor, self)
            if cursor.at("if"):
                yield self.choice(cursor, nesting)
            elif _starts_assignment(cursor):
                yield self.assignment(cursor, nesting)
            else:
                return

    def assignment(self, cursor: Cursor, nesting: int) -> ast.Assign:
        start = cursor.token.start
        targets = [cursor.name("a variable")]
        while cursor.accept(","):
            targets.append(cursor.name("a variable"))
        if len(targets) > 1 and not cursor.at("="):
            raise cursor.missing(
                "'=' after the names of the results", repair="a, b = f(x);, for two results of f"
            )
        operator = cursor.step().text
        value = self.parse(cursor, nesting)
        self.end_of_statement(cursor)
        span = cursor.span(start, cursor.previous_end)
        return ast.Assign(tuple(targets), operator[:-1], value.expr, span=span)

    def choice(self, cursor: Cursor, nesting: int) -> ast.If:
        start = cursor.step().start
        inside = self.nested(cursor, nesting)
        opening = cursor.expect("(", "before the condition of 'if'")
        condition = self.parse(cursor, inside)
        cursor.close_bracket(opening, "')' after the condition")
        then = self.block(cursor, inside, "of 'if'")
        otherwise: tuple[ast.Statement, ...] = ()
        if cursor.accept("else"):
            if cursor.at("if"):
                otherwise = (self.choice(cursor, inside),)
            else:
                otherwise = self.block(cursor, inside, "of 'else'")
        span = cursor.span(start, cursor.previous_end)
        return ast.If(condition.expr, then, otherwise, span=span)

    def block(self, cursor: Cursor, nesting: int, what: str) -> tuple[ast.Statement, ...]:
        opening = cursor.expect("{", f"before the statements {what}")
        found = tuple(self.statements(cursor, self.nested(cursor, nesting)))
        if cursor.at("return"):
            raise rejections.statements.early_return(cursor)
        cursor.close_bracket(opening, "a statement or '}'")
        return found

    def end_of_statement(self, cursor: Cursor) -> None:
        if not cursor.accept(";"):
            raise rejections.statements.no_end(cursor, "';' after the statement")

    def results(self, cursor: Cursor, name: ast.Name, brace: Token) -> tuple[ast.Expr, ...]:
        if not cursor.at("return"):
            raise rejections.statements.no_return(cursor, name, brace)
        cursor.step()
        if cursor.at("(") and cursor.behind(0).text in (";", "", "}"):
            opening = cursor.step()
            parts = self.expressions(cursor, self.nested(cursor, 0))
            cursor.close_bracket(opening, "',' or ')' after the result")
        else:
            parts = [self.parse(cursor)]
            if cursor.at(","):
                raise rejections.statements.results_without_parentheses(cursor, parts[0], self)
        if not cursor.accept(";"):
            raise rejections.statements.no_end(cursor, "';' after the result")
        return tuple(part.expr for part in parts)

    def expression_body(self, cursor: Cursor) -> ast.Body:
        start = cursor.token.start
        statements = tuple(self.statements(cursor, 0))
        if cursor.at("return"):
            raise rejections.statements.return_without_function(cursor)
        if cursor.token.kind is Kind.END:
            raise rejections.statements.no_result(cursor, statements)
        result = self.parse(cursor)
        cursor.accept(";")
        if not cursor.at_end:
            raise rejections.statements.behind_expression(cursor)
        span = cursor.span(start, cursor.previous_end)
        return ast.Body(statements, (result.expr,), span=span)

    # --- expressions ------------------------------------------------------------------------------

    def expressions(self, cursor: Cursor, nesting: int) -> list[Parsed[ast.Expr]]:
        """At least one expression, separated by commas."""
        parts = [self.parse(cursor, nesting)]
        while cursor.accept(","):
            parts.append(self.parse(cursor, nesting))
        return parts

    def primary(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        token = cursor.token
        found: Parsed[ast.Expr]
        if token.kind is Kind.NUMBER:
            cursor.step()
            span = cursor.span_of(token)
            found = _leaf(ast.Number(token.text, number_value(token.text), span=span))
        elif token.kind is Kind.NAME:
            found = self.named(cursor, nesting)
        elif token.kind is Kind.KEYWORD:
            found = self.keyword(cursor, nesting)
        elif cursor.at("("):
            cursor.step()
            inner = self.parse(cursor, self.nested(cursor, nesting))
            rejections.expressions.refuse_tuple(cursor, token, inner, self)
            closing = cursor.close_bracket(token, "')'")
            found = Parsed(inner.expr, cursor.span(token.start, closing.end), inner.height)
        elif cursor.at("["):
            found = self.row(cursor, nesting)
        elif cursor.at("{"):
            found = self.comprehension(cursor, nesting)
        else:
            raise rejections.expressions.no_expression(cursor)
        while cursor.at("["):
            found = self.selection(cursor, found, nesting)
        rejections.expressions.refuse_member(cursor, found, self)
        return found

    def named(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        rejections.expressions.refuse_word(cursor, self)
        name = cursor.name("a value")
        if not cursor.at("("):
            return _leaf(name)
        opening = cursor.step()
        inside = self.nested(cursor, nesting)
        parts: list[Parsed[ast.Expr]] = []
        if not cursor.at(")"):
            parts = self.expressions(cursor, inside)
        if cursor.at("="):
            raise rejections.expressions.named_argument(cursor, name, parts)
        rejections.expressions.refuse_list_comprehension(cursor, opening, parts, self)
        cursor.close_bracket(opening, "',' or ')'")
        span = cursor.span(name.span.start, cursor.previous_end)
        call = ast.Call(name, tuple(part.expr for part in parts), span=span)
        return self.checked(cursor, call, span, *parts)

    def keyword(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        token = cursor.token
        if token.text in ("true", "false"):
            cursor.step()
            return _leaf(ast.Bool(token.text == "true", span=cursor.span_of(token)))
        if token.text == "with":
            return self.with_loop(cursor, nesting)
        if token.text not in SPELLINGS:
            raise rejections.expressions.word_in_expression(cursor)
        cursor.step()
        if not cursor.at("("):
            raise rejections.expressions.no_cast(cursor, token, self)
        opening = cursor.step()
        operand = self.parse(cursor, self.nested(cursor, nesting))
        cursor.close_bracket(opening, "')' after the value of the cast")
        span = cursor.span(token.start, cursor.previous_end)
        return self.checked(cursor, ast.Cast(token.text, operand.expr, span=span), span, operand)

    def row(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        opening = cursor.step()
        inside = self.nested(cursor, nesting)
        parts: list[Parsed[ast.Expr]] = []
        while not cursor.at("]") or parts:
            rejections.expressions.refuse_dot_in_row(cursor)
            parts.append(self.parse(cursor, inside))
            if not cursor.accept(","):
                break
        rejections.expressions.refuse_list_comprehension(cursor, opening, parts, self)
        cursor.close_bracket(opening, "',' or ']'")
        span = cursor.span(opening.start, cursor.previous_end)
        row = ast.Row(tuple(part.expr for part in parts), span=span)
        return self.checked(cursor, row, span, *parts)

    def selection(self, cursor: Cursor, array: Parsed[ast.Expr], nesting: int) -> Parsed[ast.Expr]:
        opening = cursor.step()
        inside = self.nested(cursor, nesting)
        parts: list[Parsed[ast.Expr]] = []
        items: list[ast.Expr | ast.Dot | ast.Dots] = []
        if cursor.at("]"):
            raise rejections.expressions.empty_selection(cursor, opening)
        while True:
            if dot := _dot(cursor):
                if isinstance(dot, ast.Dots) and any(isinstance(i, ast.Dots) for i in items):
                    raise rejections.expressions.second_dots(cursor, dot, "selection")
                items.append(dot)
                rejections.expressions.refuse_spaced_dots(cursor, dot)
            elif cursor.at(":"):
                raise rejections.expressions.a_slice(cursor, array, opening, self)
            else:
                parts.append(self.parse(cursor, inside))
                items.append(parts[-1].expr)
            if cursor.at(":"):
                raise rejections.expressions.a_slice(cursor, array, opening, self)
            if not cursor.accept(","):
                break
        cursor.close_bracket(opening, "',' or ']'")
        span = cursor.span(array.start, cursor.previous_end)
        select = ast.Select(array.expr, tuple(items), span=span)
        return self.checked(cursor, select, span, array, *parts)

    def unary(self, op: Token, operand: Parsed[ast.Expr], cursor: Cursor) -> ast.Expr:
        return ast.Unary(op.text, operand.expr, span=cursor.span(op.start, operand.end))

    def binary(self, left: Parsed[ast.Expr], op: Token, right: Parsed[ast.Expr]) -> ast.Expr:
        span = left.span.to(right.span)
        return ast.Binary(op.text, left.expr, right.expr, span=span)

    def conditional(
        self,
        condition: Parsed[ast.Expr],
        then: Parsed[ast.Expr],
        otherwise: Parsed[ast.Expr],
    ) -> ast.Expr:
        span = condition.span.to(otherwise.span)
        return ast.Conditional(condition.expr, then.expr, otherwise.expr, span=span)

    def foreign_operator(
        self,
        cursor: Cursor,
        operands: list[Parsed[ast.Expr]],
        pending: list[Pending[ast.Expr]],
        _nesting: int,
    ) -> ParseError | None:
        return rejections.expressions.foreign_operator(cursor, operands, pending, self)

    def regrouped(
        self, _cursor: Cursor, _left: Parsed[ast.Expr], _op: str
    ) -> Parsed[ast.Expr] | None:
        return None

    def too_deep(self, _expr: ast.Expr) -> str:
        return f"the expression is more than {MAX_HEIGHT} operations deep"

    # --- comprehensions and with-loops ------------------------------------------------------------

    def comprehension(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        opening = cursor.step()
        inside = self.nested(cursor, nesting)
        parts: list[ast.Part] = []
        heights: list[Parsed[ast.Expr]] = []
        while True:
            parts.append(self.part(cursor, inside, heights))
            if not cursor.accept(";") or cursor.at("}"):
                break
        rejections.unsupported.refuse_several_bodies(cursor)
        rejections.loops.refuse_where(cursor)
        due = "'|', ';' or '}'" if parts[-1].generator is None else "';' or '}'"
        cursor.close_bracket(opening, f"{due} after the partition")
        span = cursor.span(opening.start, cursor.previous_end)
        comprehension = ast.Comprehension(tuple(parts), span=span)
        return self.checked(cursor, comprehension, span, *heights)

    def part(self, cursor: Cursor, nesting: int, heights: list[Parsed[ast.Expr]]) -> ast.Part:
        start = cursor.token.start
        pattern = _pattern(cursor, may_have_dots=True)
        if not cursor.accept("->"):
            raise rejections.loops.no_arrow(cursor)
        body = self.parse(cursor, nesting)
        heights.append(body)
        generator = None
        bar = cursor.token
        if cursor.accept("|"):
            rejections.loops.refuse_empty_generator(cursor, bar)
            generator = self.generator(cursor, pattern, nesting, heights)
        span = cursor.span(start, cursor.previous_end)
        return ast.Part(pattern, body.expr, generator, span=span)

    def generator(
        self,
        cursor: Cursor,
        pattern: ast.Pattern,
        nesting: int,
        heights: list[Parsed[ast.Expr]],
    ) -> ast.Generator:
        index = _without_dots(pattern)
        sides, relations = self.sides(cursor, nesting, heights, pattern)
        written = next(
            (
                at
                for at in ((1,) if len(sides) == 3 else (0, 1))
                if at < len(sides) and _is_index(sides[at], index)
            ),
            None,
        )
        if written is None or not relations:
            raise rejections.loops.no_generator(cursor, pattern, index, sides, relations)
        side = sides[written]
        assert isinstance(side, Parsed)
        index = _at(side.expr)
        lower = upper = None
        if written == 1:
            lower = _bound(sides[0], relations[0])
        if written < len(relations):
            upper = _bound(sides[-1], relations[-1])
        rejections.loops.refuse_strict_dots(cursor, lower, upper, relations)
        rejections.unsupported.refuse_more_than_a_box(cursor)
        return ast.Generator(
            lower, index, upper, span=cursor.span(sides[0].span.start, cursor.previous_end)
        )

    def sides(
        self,
        cursor: Cursor,
        nesting: int,
        heights: list[Parsed[ast.Expr]],
        pattern: ast.Pattern,
    ) -> tuple[list[Side], list[Token]]:
        """Two or three operands and the relations between them, of a generator of the pattern."""
        rejections.loops.refuse_dots_in_index(cursor, pattern, _without_dots(pattern))
        sides: list[Side] = [self.side(cursor, nesting, heights)]
        relations: list[Token] = []
        while len(sides) < 3 and cursor.token.text in RELATIONS:
            relations.append(cursor.step())
            rejections.loops.refuse_dots_in_index(cursor, pattern, _without_dots(pattern))
            sides.append(self.side(cursor, nesting, heights))
        rejections.loops.refuse_other_relations(cursor, sides, relations, self)
        return sides, relations

    def side(self, cursor: Cursor, nesting: int, heights: list[Parsed[ast.Expr]]) -> Side:
        if cursor.at("."):
            return ast.Dot(span=cursor.span_of(cursor.step()))
        heights.append(self.parse(cursor, nesting, STRENGTH["++"]))
        return heights[-1]

    def with_loop(self, cursor: Cursor, nesting: int) -> Parsed[ast.Expr]:
        start = cursor.step().start
        opening = cursor.expect("{", "after 'with'")
        inside = self.nested(cursor, nesting)
        parts: list[ast.LoopPart] = []
        heights: list[Parsed[ast.Expr]] = []
        while cursor.at("("):
            parts.append(self.loop_part(cursor, inside, heights))
            if not cursor.accept(";"):
                break
        if not cursor.at("}"):
            raise rejections.loops.no_loop_part(cursor, opening, self)
        cursor.step()
        cursor.expect(":", "and an operation after the partitions of the with-loop")
        operation = self.operation(cursor, inside, heights)
        span = cursor.span(start, cursor.previous_end)
        return self.checked(
            cursor, ast.WithLoop(tuple(parts), operation, span=span), span, *heights
        )

    def loop_part(
        self, cursor: Cursor, nesting: int, heights: list[Parsed[ast.Expr]]
    ) -> ast.LoopPart:
        opening = cursor.step()
        begin = cursor.token.start
        lower = self.side(cursor, nesting, heights)
        first = self.relation(cursor, "the lower bound", None)
        pattern = _pattern(cursor, may_have_dots=False)
        second = self.relation(cursor, "the index", pattern)
        upper = self.side(cursor, nesting, heights)
        bounds = _bound(lower, first), _bound(upper, second)
        rejections.loops.refuse_strict_dots(cursor, *bounds, [first, second])
        generator = ast.Generator(
            bounds[0], pattern, bounds[1], span=cursor.span(begin, cursor.previous_end)
        )
        rejections.unsupported.refuse_more_than_a_box(cursor)
        cursor.close_bracket(opening, "')' after the generator")
        statements: tuple[ast.Statement, ...] = ()
        if cursor.at("{"):
            statements = self.block(cursor, nesting, "of the partition")
        cursor.expect(":", "before the body of the partition")
        body = self.parse(cursor, nesting)
        heights.append(body)
        span = cursor.span(opening.start, cursor.previous_end)
        return ast.LoopPart(generator, statements, body.expr, span=span)

    def relation(self, cursor: Cursor, what: str, pattern: ast.Pattern | None) -> Token:
        if cursor.token.text not in RELATIONS:
            raise rejections.loops.no_relation(cursor, what, pattern)
        return cursor.step()

    def operation(
        self, cursor: Cursor, nesting: int, heights: list[Parsed[ast.Expr]]
    ) -> ast.Genarray | ast.Modarray | ast.Fold:
        name = cursor.token
        if not cursor.at_word("genarray", "modarray", "fold"):
            raise rejections.loops.no_operation(cursor)
        cursor.step()
        opening = cursor.expect("(", f"after '{name.text}'")
        op = ""
        if name.text == "fold":
            op = self.fold_operator(cursor)
            cursor.expect(",", "after the operation of the fold")
        args = self.expressions(cursor, nesting)
        heights += args
        count = 2 if name.text == "genarray" else 1
        if len(args) != count:
            raise rejections.loops.operands_of(cursor, name)
        cursor.close_bracket(opening, "')'")
        span = cursor.span(name.start, cursor.previous_end)
        if name.text == "genarray":
            return ast.Genarray(args[0].expr, args[1].expr, span=span)
        if name.text == "modarray":
            return ast.Modarray(args[0].expr, span=span)
        return ast.Fold(op, args[0].expr, span=span)

    def fold_operator(self, cursor: Cursor) -> str:
        token = cursor.token
        if token.text not in FOLDS or token.kind not in (Kind.SIGN, Kind.NAME):
            raise rejections.loops.no_fold_operator(cursor, FOLDS)
        return cursor.step().text


def _leaf(expr: ast.Expr) -> Parsed[ast.Expr]:
    return Parsed(expr, expr.span, 0)


def _dot(cursor: Cursor) -> ast.Dot | ast.Dots | None:
    """Step over a `.` or `...`, if one is here."""
    token = cursor.token
    if cursor.accept("."):
        return ast.Dot(span=cursor.span_of(token))
    if cursor.accept("..."):
        return ast.Dots(span=cursor.span_of(token))
    return None


def _starts_assignment(cursor: Cursor) -> bool:
    if cursor.token.kind is not Kind.NAME:
        return False
    after = cursor.ahead(1)
    return after.kind is Kind.SIGN and (after.text in ASSIGNMENTS or after.text == ",")


def _pattern(cursor: Cursor, *, may_have_dots: bool) -> ast.Pattern:
    """`iv`, or indices in brackets (C3)."""
    if cursor.token.kind is Kind.NAME:
        name = cursor.name("an index vector")
        return ast.VectorPattern(name, span=name.span)
    if not cursor.at("["):
        raise rejections.loops.no_pattern(cursor)
    return _scalar_pattern(cursor, may_have_dots)


def _scalar_pattern(cursor: Cursor, may_have_dots: bool) -> ast.ScalarPattern:
    opening = cursor.step()
    entries: list[ast.Name | ast.Dot | ast.Dots] = []
    seen: set[str] = set()
    while not cursor.at("]") or entries:
        if dot := _dot(cursor):
            if not may_have_dots:
                raise rejections.loops.dot_in_index(cursor, dot)
            if isinstance(dot, ast.Dots) and any(isinstance(e, ast.Dots) for e in entries):
                raise rejections.expressions.second_dots(cursor, dot, "pattern")
            rejections.expressions.refuse_spaced_dots(cursor, dot)
            entries.append(dot)
        elif cursor.token.kind is Kind.NAME:
            name = cursor.name("an index")
            if name.text in seen:
                raise rejections.loops.doubled_index(cursor, name, opening)
            seen.add(name.text)
            entries.append(name)
        else:
            raise rejections.loops.no_index(cursor)
        if not cursor.accept(","):
            break
    cursor.close_bracket(opening, "',' or ']' after the index")
    return ast.ScalarPattern(tuple(entries), span=cursor.span(opening.start, cursor.previous_end))


def _without_dots(pattern: ast.Pattern) -> ast.Pattern:
    """The pattern as generators have it (C3)."""
    if isinstance(pattern, ast.VectorPattern):
        return pattern
    return ast.ScalarPattern(pattern.names, span=pattern.span)


def _is_index(side: Side, index: ast.Pattern) -> bool:
    """Whether a side of a generator is its index, without parentheses around it."""
    if isinstance(side, ast.Dot) or side.span != side.expr.span:
        return False
    if isinstance(index, ast.VectorPattern):
        return side.expr == index.name
    return isinstance(side.expr, ast.Row) and side.expr.items == index.entries


def _at(written: ast.Expr) -> ast.Pattern:
    """The index that a side of a generator is."""
    if isinstance(written, ast.Name):
        return ast.VectorPattern(written, span=written.span)
    assert isinstance(written, ast.Row)
    names = tuple(item for item in written.items if isinstance(item, ast.Name))
    return ast.ScalarPattern(names, span=written.span)


def _bound(side: Side, relation: Token) -> ast.Bound:
    value = side if isinstance(side, ast.Dot) else side.expr
    return ast.Bound(value, relation.text == "<", span=side.span)
