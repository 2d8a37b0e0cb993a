"""Statements on whole tensors, as numpy has them: `o = x + 1`, `o = sum(x)`, `C = dot(A, B)`.

Every element is named here, by index variables; which ones these are follows from the ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tc.frontend import ast
from tc.frontend.cursor import DeclaredNames
from tc.frontend.foreign import MATRIX_PRODUCTS, kind_of
from tc.semantics.check.declarations import DefSignature
from tc.semantics.check.foreign_functions import MEANS, REDUCTIONS, TRUTHS, as_operand
from tc.semantics.suggest import before, unused
from tc.source import Edit, Span, within

Edits = tuple[Edit, ...]
_PRODUCTS = {"dot", "inner", "vdot", "matmul", "mm", "gemm", "mv", "bmm", "outer", "matvec"}
_LETTERS = "ijklmnpqrs"


def with_subscripts(statement: ast.Comprehension, signature: DefSignature) -> Edits:
    """The statement with subscripts on its whole tensors, as numpy aligns them; empty where it
    does not tell them."""
    bare = list(_bare(statement.rhs, signature))
    ranks = {name.text: signature.ranks.get(name.text, 0) for name in bare}
    if not bare or statement.where or is_matrix_product(statement, signature):
        return ()
    top = max(ranks.values())
    indices = statement.indices
    written = _indices_in(statement.rhs, signature)
    edits = []
    if indices is None and statement.op == "=":
        if written:
            return ()
        names = _fresh(statement, top, signature)
        if _has_other_rank(statement, signature, top):
            return ()
        edits.append(Edit(statement.target.span, read(statement.target.text, names)))
    elif indices is None or (statement.op != "=" and not indices):
        if written or set(ranks.values()) != {top}:
            return ()
        names = _fresh(statement, top, signature)
    else:
        names = statement.index_texts
        if statement.op != "=" or top > len(names):
            return ()
    sizes = _sizes_of(statement.rhs, names, signature)
    for name in bare:
        own = _subscripts(name.text, names, sizes, signature)
        if own is None:
            return ()
        edits.append(Edit(name.span, f"{name.text}({', '.join(own)})"))
    return within(statement.span, tuple(edits))


def _subscripts(
    name: str, names: list[str], sizes: dict[str, str], signature: DefSignature
) -> list[str] | None:
    """The subscripts of a whole tensor beside indices of some sizes: those of the same sizes, or
    with which the def writes it; otherwise the last ones, as numpy has it. None where none of
    this is told by the text."""
    rank = signature.ranks[name]
    last = names[len(names) - rank :]
    param = signature.params.get(name)
    if param is None:
        for step in signature.steps:
            if isinstance(step, ast.Comprehension) and step.target.text == name:
                written = step.index_texts
                if set(written) <= set(names):
                    return written
        return last if rank == len(names) else None
    dims = [dim.text for dim in param.type.dims or ()]
    if all(
        sizes.get(index, dim) in (dim, "1") or dim == "1"
        for index, dim in zip(last, dims, strict=True)
    ):
        return [
            "0" if d == "1" != sizes.get(i, "1") else i for i, d in zip(last, dims, strict=True)
        ]
    same = [[index for index in names if sizes.get(index) == dim] for dim in dims]
    if any(len(found) != 1 for found in same) or len({found[0] for found in same}) != rank:
        return None
    return [found[0] for found in same]


def _sizes_of(expr: ast.Expr, names: list[str], signature: DefSignature) -> dict[str, str]:
    """The declared sizes of indices: of parameters read at them, and of whole ones of full rank."""
    sizes: dict[str, str] = {}
    for node in ast.walk(expr):
        name = node.name.text if isinstance(node, ast.Apply) else ""
        param = signature.params.get(node.text if isinstance(node, ast.Name) else name)
        dims = (param.type.dims or ()) if param else ()
        indices: list[str] = names if isinstance(node, ast.Name) and len(dims) == len(names) else []
        if isinstance(node, ast.Apply):
            indices = [arg.text if isinstance(arg, ast.Name) else "" for arg in node.args]
        for index, dim in zip(indices, dims, strict=False):
            if index in names and sizes.get(index, "1") == "1":
                sizes[index] = dim.text
    return sizes


def reduced(statement: ast.Comprehension, call: ast.Apply, signature: DefSignature) -> Edits:
    """`o = sum(x(i))` as a reduction; empty where the call is not the whole right side, or an
    argument says along which axis."""
    if not _is_whole(statement, call) or len(call.args) != 1:
        return ()
    arg = call.args[0]
    bare = list(_bare(arg, signature))
    left = statement.index_texts
    inside = _indices_in(arg, signature)
    edits = []
    if bare:
        ranks = {signature.ranks.get(name.text, 0) for name in bare}
        if inside or left or len(ranks) != 1:
            return ()
        inside = dict.fromkeys(_fresh(statement, ranks.pop(), signature))
        edits = [Edit(n.span, f"{n.text}({', '.join(inside)})") for n in bare]
    over = [name for name in inside if name not in left]
    if not over:
        return ()
    text = _edited(arg.span, edits)
    if text is None:
        return ()
    if call.name.text in MEANS:
        count = _count(arg, over, signature, [*inside] if bare else None)
        if count is None:
            return ()
        if kind_of(arg, names_of(signature)) != "float":
            count = f"float({count})"  # or the quotient would be rounded down
        elif "*" in count:
            count = f"({count})"
        text = f"{as_operand(arg, text)} / {count}"
    if call.name.text in TRUTHS and kind_of(arg, names_of(signature)) != "bool":
        text = f"({text}) != 0" if as_operand(arg, "x") != "x" else f"{text} != 0"
    operator = Edit(statement.op_span, REDUCTIONS[call.name.text])
    return within(statement.span, (operator, Edit(call.span, text)))


def steps(
    statement: ast.Comprehension, call: ast.Apply, signature: DefSignature
) -> tuple[Edits, Edits]:
    """A function of a whole tensor in several statements: as a repair, or as an example where the
    text does not say over which index; both empty where it is none of these."""
    templates = _STEPS.get(call.name.text)
    if templates is None or not _is_whole(statement, call) or len(call.args) != 1:
        return (), ()
    keeps = call.name.text in _KEEPING
    arg = call.args[0]
    left = statement.index_texts
    if isinstance(arg, ast.Name) and signature.ranks.get(arg.text, 0) == 1 and not left:
        names, tensor = _fresh(statement, 1, signature), arg.text
        if keeps:
            left = names
    elif isinstance(arg, ast.Apply) and signature.is_tensor(arg.name.text):
        names = [a.text for a in arg.args if isinstance(a, ast.Name)]
        tensor = arg.name.text
        if len(names) != len(arg.args) or set(names) & {tensor, *signature.sizes}:
            return (), ()
    else:
        return (), ()
    kept = names[:-1] if keeps else [name for name in names if name in left]
    over = names[-1:] if keeps else [name for name in names if name not in left]
    if len(over) != 1 or left != (names if keeps else kept):
        return (), ()
    span = statement.span
    new = {key: unused(key, span) for key in ("m", "s", "k")}
    values = {
        "x": read(tensor, names),
        "other": read(tensor, [*names[:-1], new["k"]]),
        "o": read(statement.target.text, left),
        "m": read(new["m"], kept),
        "s": read(new["s"], kept),
        "i": over[0],
        "k": new["k"],
        "n": f"{tensor}.{names.index(over[0])}",
    }
    lines = [line.format(**values) for line in templates]
    edits = tuple(before(span, line) for line in lines[:-1])
    text = "".join(edit.text for edit in edits) + lines[-1]
    edit = (Edit(span, text),)
    return ((), edit) if keeps and kept else (edit, ())


_KEEPING = frozenset(("softmax", "log_softmax", "cumsum", "cumprod"))
"""Functions whose result has all dimensions of the argument."""

_STEPS = {
    "argmax": ("{m} max=! {x}", "{o} min=! {x} == {m} ? {i} : {n}"),
    "argmin": ("{m} min=! {x}", "{o} min=! {x} == {m} ? {i} : {n}"),
    "logsumexp": ("{m} max=! {x}", "{s} +=! exp({x} - {m})", "{o} = log({s}) + {m}"),
    "norm": ("{s} +=! {x} * {x}", "{o} = sqrt({s})"),
    "softmax": ("{m} max=! {x}", "{s} +=! exp({x} - {m})", "{o} = exp({x} - {m}) / {s}"),
    "log_softmax": ("{m} max=! {x}", "{s} +=! exp({x} - {m})", "{o} = {x} - {m} - log({s})"),
    "cumsum": ("{o} +=! {k} <= {i} ? {other} : 0 where {i} in 0:{n}",),
    "cumprod": ("{o} *=! {k} <= {i} ? {other} : 1 where {i} in 0:{n}",),
}


def read(name: str, indices: Sequence[str]) -> str:
    """An element of a tensor."""
    return f"{name}({', '.join(indices)})" if indices else name


def product(statement: ast.Comprehension, call: ast.Apply, signature: DefSignature) -> Edits:
    """`C = matmul(A, B)` of whole parameters; empty where it is something else."""
    name = call.name.text
    if name not in _PRODUCTS or not _is_whole(statement, call) or statement.indices is not None:
        return ()
    texts = [arg.text for arg in call.args if isinstance(arg, ast.Name)]
    ranks = tuple(signature.ranks.get(text, 0) for text in texts)
    if len(call.args) != 2 or len(ranks) != 2 or 0 in ranks:
        return ()
    special = {"outer": {(1, 1): ("ij", "i", "j")}, "bmm": {(3, 3): ("bij", "bik", "bkj")}}
    letters = special.get(name, MATRIX_PRODUCTS).get(ranks)
    if letters is None or _has_other_rank(statement, signature, len(letters[0])):
        return ()
    left, first, second = map(read, (statement.target.text, *texts), letters)
    operator = "=" if name == "outer" else "+=!"
    return (Edit(statement.span, f"{left} {operator} {first} * {second}"),)


def _is_whole(statement: ast.Comprehension, call: ast.Apply) -> bool:
    """Whether the statement only assigns the result of the call to its target."""
    return statement.rhs is call and statement.op == "=" and not statement.where


def names_of(signature: DefSignature) -> DeclaredNames:
    """The names of a def, as `kind_of` asks for them."""
    params = {name: param.type for name, param in signature.params.items()}
    return DeclaredNames(params, frozenset((*signature.returns, *signature.temporaries)))


def _bare(expr: ast.Expr, signature: DefSignature) -> Iterator[ast.Name]:
    """The tensors of rank 1 and more in an expression that have no subscripts."""
    for node in ast.walk(expr):
        if isinstance(node, ast.Name) and signature.ranks.get(node.text, 0):
            yield node


def _indices_in(expr: ast.Expr, signature: DefSignature) -> dict[str, None]:
    """The index variables in an expression, in the order of the text."""
    names = sorted(
        (node for node in ast.walk(expr) if isinstance(node, ast.Name)), key=lambda n: n.span.start
    )
    return {
        name.text: None
        for name in names
        if not signature.is_tensor(name.text) and name.text not in signature.sizes
    }


def is_matrix_product(statement: ast.Comprehension, signature: DefSignature) -> bool:
    """Whether `C = A * B` may mean the product of matrices."""
    match statement.rhs:
        case ast.Binary(op="*", left=ast.Name(text=left), right=ast.Name(text=right)):
            return signature.ranks.get(left) == signature.ranks.get(right) == 2
    return False


def _has_other_rank(statement: ast.Comprehension, signature: DefSignature, rank: int) -> bool:
    """Whether the target has another rank where it is declared."""
    result = signature.returns.get(statement.target.text)
    return bool(result and result.type and len(result.type.dims or ()) != rank)


def _fresh(statement: ast.Comprehension, rank: int, signature: DefSignature) -> list[str]:
    """Names of index variables that are neither in the statement nor of sizes and tensors."""
    taken = (*signature.sizes, *signature.tensors())
    used = {n.text for n in ast.walk(statement.rhs) if isinstance(n, ast.Name)} | {*taken}
    free = [letter for letter in _LETTERS if letter not in used]
    return free[:rank] if len(free) >= rank else [f"i_{axis}" for axis in range(rank)]


def _edited(span: Span, edits: list[Edit]) -> str | None:
    """The text of a span on one line, with the edits made."""
    text = span.text
    for edit in sorted(edits, key=lambda e: e.span.start, reverse=True):
        start, end = edit.span.start - span.start, edit.span.end - span.start
        text = text[:start] + edit.text + text[end:]
    return " ".join(text.split()) if "#" not in text and len(text) <= 160 else None


def _count(
    arg: ast.Expr, over: list[str], signature: DefSignature, names: list[str] | None
) -> str | None:
    """How many values some index variables take together, where each indexes a tensor alone."""
    found: dict[str, str] = {}
    for node in ast.walk(arg):
        if isinstance(node, ast.Apply) and signature.is_tensor(node.name.text):
            for axis, subscript in enumerate(node.args):
                if isinstance(subscript, ast.Name):
                    found.setdefault(subscript.text, f"{node.name.text}.{axis}")
                elif any(isinstance(n, ast.Name) and n.text in over for n in ast.walk(subscript)):
                    return None
        if names is not None and isinstance(node, ast.Name) and signature.ranks.get(node.text):
            for axis, name in enumerate(names):
                found.setdefault(name, f"{node.text}.{axis}")
    if any(name not in found for name in over):
        return None
    return " * ".join(found[name] for name in over)
