"""From trees to values: what an expression is in an environment, and what statements bind.

Nothing is computed here: the parts of a value are, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from tc.dtypes import FLOAT32, FLOAT64, INT32, INT64
from tc.errors import CheckError
from tc.sac import ast
from tc.sac.bindings import Bindings
from tc.sac.levels.applications import Application, Row
from tc.sac.levels.array_functions import ARRAY_FUNCTIONS
from tc.sac.levels.builtins import SELECTION, row_of
from tc.sac.levels.calls import CallValue, Invocation
from tc.sac.levels.element_types import BOOL_TYPE, ElementType, literal_type
from tc.sac.levels.elementwise import CASTS, NEGATION, NOT, OPERATORS
from tc.sac.levels.loops import ArrayLoop, ComprehensionValue, FoldLoop
from tc.sac.levels.selections import Choice, RowOfValues, Selection
from tc.sac.levels.values import Environment, Literal, Value
from tc.source import Span

SUFFIXES = {"i": INT32, "l": INT64, "f": FLOAT32, "d": FLOAT64}


def evaluate(expr: ast.Expr, env: Environment) -> Value:
    """The value of an expression, of which nothing is computed yet.

    What does not depend on the index of an instance is made once for all instances, and a
    comprehension once for each meaning of the names in it.
    """
    is_loop = isinstance(expr, ast.Comprehension | ast.WithLoop)
    is_outside = env.frame is env.frame.outermost and not is_loop
    if is_outside or isinstance(expr, ast.Name):
        return _made(expr, env)
    names = [name for name in env.context.free(expr) if name in env.names]
    values = [env.names[name] for name in names]
    frame = env.frame.outermost
    for value in values:
        if value.env.frame.depth > frame.depth:
            frame = value.env.frame
    if not is_loop and frame is env.frame:
        return _made(expr, env)
    key = (id(expr), *(value.identity for value in values))
    found = frame.kept.get(key)
    if found is None:
        found = frame.kept[key] = _made(expr, env.captured(names, frame))
    return found


def _made(expr: ast.Expr, env: Environment) -> Value:
    span = expr.span
    match expr:
        case ast.Number():
            return _number(expr, env)
        case ast.Bool(value=value):
            return Literal(value, BOOL_TYPE, span, env)
        case ast.Name(text=text):
            if text not in env.names:
                raise CheckError(f"unknown name '{text}'", rule="C4", span=span)
            return env.names[text]
        case ast.Row(items=items):
            spans = tuple(item.span for item in items)
            return RowOfValues([evaluate(item, env) for item in items], spans, span, env)
        case ast.Select(array=array, items=entries):
            values = [
                entry if isinstance(entry, ast.Dot | ast.Dots) else evaluate(entry, env)
                for entry in entries
            ]
            spans = (array.span, *(entry.span for entry in entries))
            is_direct = isinstance(array, ast.Comprehension | ast.WithLoop)
            inner = evaluate(array, env)
            return Selection(inner, values, spans, span, env, is_direct=is_direct)
        case ast.Call():
            return _call(expr, env)
        case ast.Cast(spelling=spelling, operand=operand):
            return _applied(CASTS[spelling], (operand,), span, env)
        case ast.Unary(op=op, operand=operand):
            return _applied(NEGATION if op == "-" else NOT, (operand,), span, env)
        case ast.Binary(op=op, left=left, right=right):
            row = ARRAY_FUNCTIONS[op] if op == "++" else OPERATORS[op]
            return _applied(row, (left, right), span, env)
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            branches = evaluate(then, env), evaluate(otherwise, env)
            test = evaluate(condition, env)
            spans = (condition.span, then.span, otherwise.span)
            return Choice(test, *branches, spans, span, env)
        case ast.Comprehension(parts=parts):
            return ComprehensionValue(parts, span, env)
        case ast.WithLoop():
            return _with_loop(expr, env)


def execute(statements: Sequence[ast.Statement], env: Environment) -> Environment:
    """The environment behind statements."""
    env = env.block()
    for statement in statements:
        match statement:
            case ast.Assign():
                env = _assigned(statement, env)
            case ast.If():
                env = _branched(statement, env)
    return env


def _number(expr: ast.Number, env: Environment) -> Value:
    text = expr.text.lower()
    suffix = "" if text.startswith("0x") else text[-1]
    if suffix not in SUFFIXES:
        return Literal(expr.value, literal_type(expr.value, expr.span), expr.span, env)
    return Literal(expr.value, ElementType(SUFFIXES[suffix]), expr.span, env)


def _applied(row: Row, args: Sequence[ast.Expr], span: Span, env: Environment) -> Value:
    values = tuple(evaluate(arg, env) for arg in args)
    return Application(row, values, tuple(arg.span for arg in args), span, env)


def _call(expr: ast.Call, env: Environment) -> Value:
    name = expr.function.text
    if name in env.context.functions:
        invocation = _invocation(expr, env)
        if len(invocation.definition.types) != 1:
            raise CheckError(
                f"'{name}' has {len(invocation.definition.types)} results; name them: 'a, b = "
                f"{name}(...)'",
                rule="C4",
                span=expr.span,
            )
        return CallValue(invocation, 0)
    if name == SELECTION:
        _check_arity(expr, 2)
        index, array = expr.args
        spans = (array.span, index.span)
        return Selection(evaluate(array, env), [evaluate(index, env)], spans, expr.span, env)
    row = row_of(name)
    if row is None:
        raise CheckError(f"unknown name '{name}'", rule="C4", span=expr.function.span)
    _check_arity(expr, row.arity)
    return _applied(row, expr.args, expr.span, env)


def _invocation(expr: ast.Call, env: Environment) -> Invocation:
    definition = env.context.functions[expr.function.text]
    _check_arity(expr, len(definition.parameters))
    values = [evaluate(arg, env) for arg in expr.args]
    key = (definition.name.text, *(value.identity for value in values))
    found = env.frame.kept.get(key)
    if found is None:
        spans = tuple(arg.span for arg in expr.args)
        found = env.frame.kept[key] = Invocation(definition, values, spans, expr.span, env)
    return found


def _check_arity(expr: ast.Call, arity: int) -> None:
    if len(expr.args) != arity:
        raise CheckError(
            f"'{expr.function.text}' takes {arity} arguments, not {len(expr.args)}",
            rule="C4",
            span=expr.span,
        )


def _with_loop(expr: ast.WithLoop, env: Environment) -> Value:
    match expr.operation:
        case ast.Genarray(shape=shape, default=default):
            sizes, element = evaluate(shape, env), evaluate(default, env)
            return ArrayLoop(expr.parts, (sizes, shape.span), element, expr.span, env)
        case ast.Modarray(array=array):
            return ArrayLoop(expr.parts, None, evaluate(array, env), expr.span, env)
        case ast.Fold(op=op, neutral=neutral):
            return FoldLoop(expr.parts, op, (evaluate(neutral, env), neutral.span), expr.span, env)


def _assigned(statement: ast.Assign, env: Environment) -> Environment:
    value = env.context.updated(statement) if statement.op else statement.value
    if len(statement.targets) == 1:
        target = statement.targets[0]
        return env.bind({target.text: evaluate(value, env)})
    assert isinstance(value, ast.Call)
    invocation = _invocation(value, env)
    return env.bind(
        {target.text: CallValue(invocation, k) for k, target in enumerate(statement.targets)}
    )


def _branched(statement: ast.If, env: Environment) -> Environment:
    """Each variable that a branch sets is `condition ? its value : the other one's` (C10)."""
    condition = evaluate(statement.condition, env)
    then, otherwise = execute(statement.then, env), execute(statement.otherwise, env)
    changed: dict[str, Value] = {}
    for name in dict.fromkeys((*_set_in(then), *_set_in(otherwise))):
        first, second = then.names.get(name), otherwise.names.get(name)
        if first is None or second is None:
            continue
        spans = (statement.condition.span,)
        changed[name] = Choice(condition, first, second, spans, statement.span, env)
    return env.bind(changed)


def _set_in(env: Environment) -> Sequence[str]:
    """The names that a block sets, by the environment behind it."""
    return env.names.own() if isinstance(env.names, Bindings) else ()
