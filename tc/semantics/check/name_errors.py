"""The errors of names and calls that mean nothing here, and what was meant (N1, Y7).

Unknown names that no subscript and no range bounds could, as the index variables which N1 makes of
them, never have a range. So they were meant to be something else: a size, a tensor of rank 0, or a
constant of another language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NoReturn, TypeAlias

from tc import builtins
from tc.errors import CheckError
from tc.frontend import ast
from tc.frontend.tokens import CONSTANTS
from tc.semantics.check import whole_tensors
from tc.semantics.check.builder import NameScope
from tc.semantics.check.declarations import CONCAT, MIN_MAX, PAD, DefSignature
from tc.semantics.check.foreign_functions import (
    FORMULAS,
    REDUCTIONS,
    filled,
    formula,
    idiom,
    is_foreign,
)
from tc.semantics.program import Expr, Index, Read, Unary, children
from tc.semantics.resolved import FlatStatement, FlatTensor, is_use
from tc.semantics.suggest import (
    before,
    element,
    number_written,
    one_line,
    product_written,
    renamed_index,
    unused,
)
from tc.source import Edit, Span, within
from tc.wording import closest, counted, listed, nearest


def no_subscripts(expr: ast.Name, rank: int, scope: NameScope) -> NoReturn:
    name = expr.text
    signature, statement = scope.frame.signature, scope.statement
    edits: tuple[Edit, ...] = ()
    inside = statement is not None and (
        statement.rhs.span.start <= expr.span.start and expr.span.end <= statement.rhs.span.end
    )
    repair = None
    hint = f"write an element of it, such as {element(name, rank)}"
    if statement is not None and inside:
        edits = whole_tensors.with_subscripts(statement, signature)
        if not edits and whole_tensors.is_matrix_product(statement, signature):
            hint = "C(i,j) = A(i,j) * B(i,j), element by element; C(i,j) +=! A(i,k) * B(k,j), the "
            hint += "product of matrices"
        elif not edits and _is_read_in(statement, name):
            new, edits = renamed_index(statement.span, name)
            repair = f"another name for the index variable, such as {new}"
    raise CheckError(
        f"'{name}' has rank {rank}, and only a tensor of rank 0 is read without parentheses",
        rule="N1",
        span=expr.span,
        edits=edits,
        repair=repair,
        idiom=None if edits else hint,
        notes=((signature.ranked_at[name], f"'{name}' has rank {rank} here"),),
    )


def _is_read_in(statement: ast.Comprehension, name: str) -> bool:
    """Whether a statement has a tensor with subscripts beside its bare name, which then was meant
    for an index variable."""
    nodes = ast.walk(statement.rhs)
    return any(isinstance(node, ast.Apply) and node.name.text == name for node in nodes)


def unknown_tensor(name: ast.Name, scope: NameScope, whole: Span | None = None) -> NoReturn:
    signature = scope.frame.signature
    near = nearest(name.text, signature.tensors())
    edits: tuple[Edit, ...] = ()
    if near:
        edits = (Edit(name.span, near),)
    elif name.text in signature.sizes and whole is not None:
        edits = (Edit(whole, name.text),)
    kind = "a size" if name.text in signature.sizes else "no tensor"
    raise CheckError(
        f"'{name.text}' is {kind} of '{signature.name}'"
        + (", not a tensor" if name.text in signature.sizes else "")
        + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=name.span,
        edits=edits,
        repair=None if edits else f"name one of the tensors: {', '.join(signature.tensors())}",
    )


def unknown_function(expr: ast.Apply, scope: NameScope) -> NoReturn:
    name = expr.name.text
    signature = scope.frame.signature
    what = "is neither a tensor of this def nor a function"
    if name in signature.sizes:
        what = "is a size, which has no elements and takes no arguments"
    elif name in scope.bindings or name in scope.hidden:
        what = "is a binding, which has no elements and takes no arguments"
    if "is neither" in what and is_foreign(name):
        raise _foreign(expr, scope, what)
    count = len(expr.args)
    functions = [
        known
        for known in (*builtins.FUNCTIONS, *builtins.ALIASES)
        if (found := builtins.lookup(known)) is not None and found.arity == count
    ]
    functions += {1: (*builtins.REINTERPRETED,), 2: (*MIN_MAX, PAD)}.get(count, ())
    others = {*scope.defs, CONCAT} - {signature.name}
    tensors = [t for t in signature.tensors() if signature.ranks.get(t, count) == count]
    near = nearest(name, (*tensors, *functions, *others)) or closest(name, others)
    span, repair, hint = expr.name.span, None, None
    edits: tuple[Edit, ...] = ()
    if near in others:
        edits = _call_before(expr, near, scope)
        repair = f"t = {_called(expr, near)}, before this statement, and read t here"
    elif near is not None:
        edits = (Edit(expr.name.span, near),)
    elif "is neither" not in what:
        edits = (Edit(expr.span, name),)
    elif product_of := _juxtaposed(name, signature):
        edits = (Edit(expr.name.span, product_of),)
    else:
        dims = ", ".join("NMKLPQ"[: len(expr.args)])
        hint = f"float({dims}) {name}, among the parameters, if it is a tensor"
    raise CheckError(
        f"'{name}' {what}" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=span,
        repair=None if edits else repair,
        edits=edits,
        idiom=hint,
    )


def _juxtaposed(name: str, signature: DefSignature) -> str | None:
    """`2 * x` for the name `2x`, where `x` is a tensor."""
    digits = name[: len(name) - len(name.lstrip("0123456789"))]
    rest = name[len(digits) :]
    return f"{digits} * {rest}" if digits and signature.is_tensor(rest) else None


def _foreign(expr: ast.Apply, scope: NameScope, what: str) -> CheckError:
    """The error for a function of another library."""
    name, signature, statement = expr.name.text, scope.frame.signature, scope.statement
    text = formula(expr, whole_tensors.names_of(signature))
    edits: tuple[Edit, ...] = (Edit(expr.span, text),) if text is not None else ()
    hint = None
    example: tuple[Edit, ...] = ()
    if not edits and name in REDUCTIONS:
        edits, hint = _reduction(expr, scope)
    elif not edits and statement is not None:
        edits = whole_tensors.product(statement, expr, signature)
        if not edits:
            edits, example = whole_tensors.steps(statement, expr, signature)
    if not edits:
        match expr.args:
            case (ast.Name(text=tensor),) if name in ("len", "length", "numel"):
                if signature.ranks.get(tensor) == 1:
                    edits = (Edit(expr.span, f"{tensor}.0"),)
            case (ast.Name(text=tensor), ast.Number(value=int() as axis)):
                if name in ("size", "shape") and axis < signature.ranks.get(tensor, 0):
                    edits = (Edit(expr.span, f"{tensor}.{axis}"),)
    if example:
        hint = "it is several statements; over the last index,"
    elif not edits and hint is None:
        hint = idiom(name) or f"{name} takes other arguments"
    return CheckError(
        f"'{name}' {what}",
        rule="N1",
        span=expr.span,
        edits=edits,
        idiom=hint,
        example=example,
    )


def check_count(expr: ast.Apply, arity: int, scope: NameScope) -> None:
    count = len(expr.args)
    if count == arity:
        return
    name = expr.name.text
    texts = [one_line(arg.span) for arg in expr.args]
    edits: tuple[Edit, ...] = ()
    words = f"'{name}' takes {counted(arity, 'argument')}"
    repair: str | None = f"give it {counted(arity, 'argument')}"
    hint = None
    if name in MIN_MAX and count > 2:
        text = texts[0]
        for other in texts[1:]:
            text = f"{name}({text}, {other})"
        edits, repair = (Edit(expr.span, text),), None
    elif name in MIN_MAX and count == 1:
        words += f"; the {'greatest' if name == 'max' else 'least'} of many is a reduction"
        edits, hint = _reduction(expr, scope)
        repair = None
    elif name == PAD and count == 1:
        edits, repair = (Edit(expr.span, f"pad({texts[0]}, 0)"),), None
    elif (name, count) in FORMULAS:
        text = filled(FORMULAS[name, count], expr.args, texts)
        edits, repair = (Edit(expr.span, text),), None
    elif (hint := idiom(name)) is not None:
        repair = None
    if any("..." in text for text in texts):
        edits = ()
    raise CheckError(
        f"{words} and is given {count}" if ";" not in words else f"{words}, and {count} is given",
        rule="G9" if name == PAD else "Y7",
        span=expr.span,
        repair=repair,
        edits=edits,
        idiom=hint,
    )


def _reduction(expr: ast.Apply, scope: NameScope) -> tuple[tuple[Edit, ...], str | None]:
    """The edits that make a call such as `sum(x(i))` a reduction, or an idiom that shows one."""
    name = expr.name.text
    statement, signature = scope.statement, scope.frame.signature
    edits = whole_tensors.reduced(statement, expr, signature) if statement is not None else ()
    if edits:
        return edits, None
    operator = REDUCTIONS[name]
    inside = f"t {operator} A(i), and read t here; t(i) {operator} A(i,j), for one of each row"
    return (), inside


def call_inside(expr: ast.Apply, scope: NameScope) -> CheckError:
    """The error for a call of a def, or of concat, within an expression."""
    name = expr.name.text
    edits = _call_before(expr, name, scope)
    ranks = _ranks_differ(expr, name, scope)
    return CheckError(
        f"'{name}' gives whole tensors and is called by a statement of its own, not within "
        "an expression",
        rule="N4",
        span=expr.span,
        edits=() if ranks else edits,
        repair=None
        if edits or ranks
        else f"t = {_called(expr, name)}, before this statement, and read t here",
        idiom=ranks,
    )


def _ranks_differ(expr: ast.Apply, callee: str, scope: NameScope) -> str | None:
    """What serves where a def of elements is given elements, as `g(x(i))` of `def g(float y)`."""
    if callee == CONCAT:
        return None
    for arg, parameter in zip(expr.args, scope.defs[callee].params.values(), strict=False):
        rank = len(parameter.type.dims or ())
        if not isinstance(arg, ast.Apply) or rank >= len(arg.args):
            continue
        if scope.frame.signature.is_tensor(arg.name.text):
            dims = ", ".join(("N", "M", "K", "L")[: len(arg.args)])
            name, own = parameter.name.text, parameter.type.spelling
            of = "smaller tensors" if rank else "numbers"
            return (
                f"'{callee}' is of {of}; with {own}({dims}) {name}, and "
                f"{name}({', '.join(one_line(a.span) for a in arg.args)}) in it, it is of all "
                "elements"
            )
    return None


def _call_before(expr: ast.Apply, callee: str, scope: NameScope) -> tuple[Edit, ...]:
    """The edits that move a call to a statement of its own, whose result the statement then
    reads."""
    statement = scope.statement
    if statement is None or not statement.indices or statement.where:
        return ()
    signature = scope.frame.signature
    names = [_whole_tensor(arg, statement, signature) for arg in expr.args]
    if None in names:
        return ()
    if callee == CONCAT:
        rank = signature.ranks.get(names[0]) if names and names[0] else None
    else:
        results = [*scope.defs[callee].returns]
        rank = scope.defs[callee].ranks.get(results[0]) if len(results) == 1 else None
    if rank is None or rank > len(statement.indices):
        return ()
    t = unused("t", expr.span)
    indices = statement.index_texts[len(statement.indices) - rank :]
    read = f"{t}({', '.join(indices)})" if rank else t
    call = before(statement.span, f"{t} = {callee}({', '.join(map(str, names))})")
    return within(statement.span, (call, Edit(expr.span, read)))


def _called(expr: ast.Apply, callee: str) -> str:
    """The call as a statement of its own may stand: with the names of whole tensors."""
    names = [
        arg.name.text if isinstance(arg, ast.Apply) else one_line(arg.span) for arg in expr.args
    ]
    return f"{callee}({', '.join(names)})"


def _whole_tensor(
    arg: ast.Expr, statement: ast.Comprehension, signature: DefSignature
) -> str | None:
    """The tensor that an argument names, whole or by its element at the left side's indices."""
    left = statement.index_texts
    match arg:
        case ast.Name(text=name) if signature.is_tensor(name):
            return name
        case ast.Apply(name=ast.Name(text=name), args=args) if signature.is_tensor(name):
            names = [sub.text for sub in args if isinstance(sub, ast.Name)]
            return name if len(names) == len(args) and names == left else None
    return None


def products_meant(statement: FlatStatement, known: Container[str]) -> Iterator[tuple[str, str]]:
    """The reduction variables that look like products of a number and another name, with those:
    `2i` beside an index variable `i`. What has a range in the `where` is meant as it is."""
    given = {clause.variable for clause in statement.where}
    for name in statement.variables:
        product = product_written(name)
        if product is None or name in given or name in statement.outer:
            continue
        factor, rest = product
        if rest in statement.variables or rest in known:
            yield name, f"{factor} * {rest}"


def misspelt_index(
    statement: FlatStatement, tensors: Mapping[str, FlatTensor]
) -> Iterator[tuple[str, str]]:
    """Pairs of a reduced index variable and the variable that it is probably a slip for: the
    reduced variable stands once, in a dimension of the same size as one of the other variable,
    whose name is alike."""
    whole = [n for part in (statement.rhs, *statement.exists) for n in _descendants(part)]
    counts = Counter(n.name for n in whole if isinstance(n, Index))
    given = {clause.variable for clause in statement.where}
    lone = [
        name
        for name in reversed([*statement.variables])
        if name not in statement.outer and name not in given and counts[name] == 1
    ]
    if not lone:
        return
    places: dict[str, list[Dimension]] = {}
    for number, node in enumerate(whole):
        if not isinstance(node, Read):
            continue
        for axis, subscript in enumerate(node.subscripts):
            shape = tensors[node.tensor].shape
            size = None if shape is None else shape[axis]
            for inner in _descendants(subscript):
                if isinstance(inner, Index):
                    bare = size if inner is subscript else None
                    places.setdefault(inner.name, []).append((number, bare))
    told: set[str] = set()
    for name in lone:
        if name in told or len(places.get(name, ())) != 1:
            continue
        number, size = places[name][0]
        for other in statement.variables:
            is_like = name.startswith(other) and set(name) == set(other) and name != other
            if not is_like and nearest(name, [other]) is None:
                continue
            there = places.get(other, ())
            apart = all(n != number for n, _ in there)
            if apart and size is not None and size in [d for _, d in there]:
                told.add(other)
                yield name, other
                break


Dimension: TypeAlias = tuple[int, Expr | None]
"""Which read of a statement, and the size of a dimension that a variable alone indexes there."""


def _descendants(expr: Expr) -> Iterator[Expr]:
    """An expression and all its descendants, in text order; the value of a binding once."""
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if isinstance(node, Unary) and is_use(node):
            if id(node.operand) in seen:
                continue
            seen.add(id(node.operand))
        yield node
        stack += reversed(children(node))


def check_loose(
    variables: Mapping[str, Span],
    bounded: Container[str],
    exprs: Iterable[Expr],
    signature: DefSignature,
) -> list[str]:
    """The variables that are neither `bounded` nor in a subscript of a read in `exprs`.

    Raises CheckError for those of them that are constants elsewhere, or look like sizes.
    """
    unbounded = [name for name in variables if name not in bounded]
    subscripted = _subscripted(exprs) if unbounded else ()
    names = [name for name in unbounded if name not in subscripted]
    for name in names:
        if name in CONSTANTS:
            raise CheckError(
                f"'{name}' is no constant of the language, and as an index variable it would "
                "occur in no subscript",
                rule="N1",
                span=variables[name],
                paste=CONSTANTS[name],
            )
        text = number_written(name, {*signature.sizes, *_scalars(signature)}, loose=True)
        if text is not None or name[0].isdigit():
            raise CheckError(
                f"'{name}' is a name, since names may begin with digits, and as an index "
                "variable it would occur in no subscript",
                rule="N1",
                span=variables[name],
                paste=text,
                idiom=None if text else "2, 2.0, 1e5 or 0x1F, for a number",
            )
        if name.isupper():
            raise _no_size(name, variables[name], signature)
    return names


def _scalars(signature: DefSignature) -> list[str]:
    return [name for name in signature.tensors() if not signature.ranks.get(name)]


def _no_size(name: str, span: Span, signature: DefSignature) -> CheckError:
    sizes = [*signature.sizes]
    near = nearest(name, (*sizes, *_scalars(signature)))
    known = "which has no sizes"
    if sizes:
        known = f"whose {'only size is' if len(sizes) == 1 else 'sizes are'} {listed(sizes)}"
    return CheckError(
        f"'{name}' is no size of '{signature.name}', {known}, and as an index variable it would "
        "occur in no subscript" + (f"; did you mean '{near}'?" if near else ""),
        rule="N1",
        span=span,
        paste=near,
        repair=None if near else f"declare it as an input, int {name}, or name a size",
    )


def _subscripted(exprs: Iterable[Expr]) -> set[str]:
    """The index variables in the subscripts of reads."""
    found: set[str] = set()
    stack = [(expr, False) for expr in exprs]
    seen: set[tuple[int, bool]] = set()
    while stack:
        node, inside = stack.pop()
        if isinstance(node, Unary) and is_use(node):  # shared by its uses
            if (id(node.operand), inside) in seen:
                continue
            seen.add((id(node.operand), inside))
        if isinstance(node, Index) and inside:
            found.add(node.name)
        inside = inside or isinstance(node, Read)
        stack += [(child, inside) for child in children(node)]
    return found
