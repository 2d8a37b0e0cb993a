"""Every checked program keeps the contract of program.py, and no tree crashes the checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given

from tc import builtins
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, UINT16, fits
from tc.errors import CheckError, TCError
from tc.frontend import ast
from tc.frontend.parser import parse
from tc.semantics.check.checker import check_all
from tc.semantics.program import (
    Binary,
    Bits,
    Call,
    Compare,
    Convert,
    Expr,
    Extent,
    Index,
    Literal,
    Logical,
    Program,
    Read,
    Select,
    Size,
    Statement,
    Unary,
    children,
    walk,
)
from tc.source import Source
from tests.fuzz import legal
from tests.fuzz.strategies import disturbed_calls
from tests.support import ast_strategies
from tests.support.syntax import to_text

PROGRAMS = Path(__file__).parents[2] / "programs"


def assert_well_typed(expr: Expr, program: Program, statement: Statement | None) -> None:
    """Check an expression and all its operands against the contract."""
    for child in children(expr):
        assert_well_typed(child, program, statement)
    match expr:
        case Literal(value=value, dtype=dtype):
            assert dtype != FLOAT16
            assert isinstance(value, float) == dtype.is_float
            assert isinstance(value, bool) == (dtype == BOOL)
            assert fits(value, dtype)
        case Size(name=name):
            assert name in program.sizes
        case Extent(tensor=tensor, axis=axis):
            assert 0 <= axis < program.tensors[tensor].rank
        case Index(name=name):
            assert statement is not None
            assert name in statement.variables
        case Read(tensor=tensor, subscripts=subscripts, dtype=dtype):
            assert dtype == program.tensors[tensor].dtype
            assert len(subscripts) == program.tensors[tensor].rank
            assert all(s.dtype == INT64 for s in subscripts)
        case Unary(op=op, operand=operand, dtype=dtype):
            assert op == "-"
            assert operand.dtype == dtype not in (BOOL, FLOAT16)
        case Binary(op=op, left=left, right=right, dtype=dtype, site=site):
            assert left.dtype == dtype != FLOAT16
            assert right.dtype == dtype or (op in ("<<", ">>") and right.dtype.is_integer)
            assert dtype != BOOL or op in ("min", "max")
            assert dtype.is_integer or op not in ("&", "|", "^", "<<", ">>")
            assert (site >= 0) == (op in ("/", "%") and dtype.is_integer)
        case Compare(left=left, right=right, dtype=dtype):
            assert left.dtype == right.dtype != FLOAT16
            assert dtype == BOOL
        case Logical(op=op, operands=operands, dtype=dtype):
            assert len(operands) == (1 if op == "!" else 2)
            assert all(o.dtype == BOOL for o in operands)
            assert dtype == BOOL
        case Select(condition=condition, then=then, otherwise=otherwise, dtype=dtype):
            assert condition.dtype == BOOL
            assert then.dtype == otherwise.dtype == dtype != FLOAT16
        case Call(function=function, args=args, dtype=dtype):
            builtin = builtins.FUNCTIONS[function]
            assert len(args) == builtin.arity
            assert all(a.dtype == dtype for a in args)
            of_floats = dtype in (FLOAT32, FLOAT64) and builtin.rule != "bits"
            assert of_floats or (builtin.rule != "float" and not dtype.is_float)
        case Convert(operand=operand, dtype=dtype):
            assert operand.dtype != dtype
        case Bits(operand=operand, dtype=dtype):
            assert operand.dtype.bits == dtype.bits
            assert {operand.dtype.kind, dtype.kind} in ({"float", "uint"}, {"float", "int"})
    for child in children(expr):
        # half appears only below its widening, and is rounded only by a cast
        if child.dtype == FLOAT16:
            moves = isinstance(expr, Bits)
            assert moves or isinstance(expr, Convert)
            assert expr.dtype == (UINT16 if moves else FLOAT32)
            is_cast = isinstance(child, Convert) and (child.written or moves)
            assert isinstance(child, Read | Bits) or is_cast


def expressions(statement: Statement) -> Iterator[Expr]:
    yield statement.rhs
    yield from statement.subscripts
    yield from statement.exists
    for clause in statement.where:
        yield clause.begin
        yield clause.end


def assert_contract(program: Program) -> None:
    assert [t.name for t in program.tensors.values()] == [
        *program.inputs,
        *program.outputs,
        *program.temporaries,
    ]
    roles = {"input": program.inputs, "output": program.outputs, "temporary": program.temporaries}
    for tensor in program.tensors.values():
        assert tensor.name in roles[tensor.role]
        assert tensor.shape is None or len(tensor.shape) == tensor.rank
        for dim in tensor.shape or ():
            assert_well_typed(dim, program, None)
    for equality in program.equalities:
        assert_well_typed(equality.left, program, None)
        assert_well_typed(equality.right, program, None)
    for size in program.sizes.values():
        for extent in size.extents:
            assert_well_typed(extent, program, None)
    sites: list[int] = []
    written: set[str] = set()
    for position, statement in enumerate(program.statements):
        assert statement.name == f"S{position}"
        target = program.tensors[statement.target]
        assert target.role != "input"
        assert statement.rhs.dtype == target.dtype.computed
        assert len(statement.subscripts) == target.rank
        assert statement.variables[: len(statement.outer)] == statement.outer
        assert set(statement.variable_spans) == set(statement.variables)
        assert statement.op in ("=", "+", "*", "min", "max", "&", "|", "^")
        if statement.op == "=":
            assert not statement.reduction
            assert not statement.init
        assert not statement.init or statement.reduction or not statement.is_plain
        expected = "written" if target.name in written else "caller"
        if target.role == "temporary" and target.name not in written:
            expected = "nothing"
        assert statement.continues == ("" if statement.op == "=" or statement.init else expected)
        written.update(statement.targets)
        for expr in expressions(statement):
            assert_well_typed(expr, program, statement)
            for node in walk(expr):
                if isinstance(node, Read) or (isinstance(node, Binary) and node.site >= 0):
                    sites.append(node.site)
        for clause in statement.where:
            assert clause.begin.dtype == clause.end.dtype == INT64
            assert clause.variable in statement.variables
    assert len(sites) == len(set(sites))
    for name in program.outputs:
        assert name in written
    for name in program.static_scalars:
        assert program.tensors[name].rank == 0
        assert program.tensors[name].dtype.is_integer
        assert name in program.inputs


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.tc")), ids=lambda p: p.stem)
def test_programs_keep_the_contract(path: Path) -> None:
    for program in check_all(parse(Source(path.read_text(encoding="utf-8")))).values():
        assert_contract(program)


def check_if_legal(text: str) -> None:
    """Check a text: it keeps the contract, or gives an error that says all it should."""
    checked: Mapping[str, Program] = {}
    failure: TCError | None = None
    try:
        checked = check_all(parse(Source(text)))
    except TCError as error:
        failure = error
    for program in checked.values():
        assert_contract(program)
    if failure is not None:
        assert failure.rule is not None
        assert failure.span is not None
        assert failure.repair or failure.idiom
        assert str(failure)


@given(disturbed_calls())
def test_generated_programs_keep_the_contract(generated: legal.Call) -> None:
    check_if_legal(generated.text)


@given(ast_strategies.modules())
def test_any_tree_gives_a_program_or_an_error(module: ast.Module) -> None:
    """Trees of random names, printed and parsed so that their spans are real."""
    check_if_legal(to_text(module))


H = "def f(float(N) A, half(N) h, int(N) I, bool(N) c) -> (o) { o(i) = "


def chain(step: str, first: str, count: int) -> str:
    """A where clause with bindings x0 = first, x1 = step of x0, ..."""
    steps = (f"x{k} = {step.replace('@', f'x{k - 1}')}" for k in range(1, count))
    return f" where x0 = {first}, {', '.join(steps)}"


DEEP = {
    "sum": "+".join(["A(i)"] * 200),
    "casts": "half(float(" * 49 + "h(i)" + "))" * 49,
    "casts of indices": "A(" + "int8(int16(" * 48 + "i" + "))" * 48 + ")",
    "gathers": "A(" + "I(1+" * 98 + "i" + ")" * 98 + ")",
    "padded gathers": "pad(A(" + "I(1+" * 50 + "i" + ")" * 50 + "), 0)",
    "pads": "pad(A(i)," * 99 + "0" + ")" * 99,
    "pads of pads": "pad(" * 99 + "A(i)" + ",0)" * 99,
    "conditionals": "(A(i) > 0 ? A(i) : " * 49 + "0" + ")" * 49,
    "functions": "exp(1+" * 99 + "A(i)" + ")" * 99,
    "negations": "!-" * 99 + "A(i)",
    "comparisons": "(1+" * 90 + "i" + "<2)" * 90,
    "logic": "(A(i) < i && " * 98 + "c(i)" + ")" * 98,
    "literals": "-" * 199 + "A(i)",
    "bound gathers": "A(x180) * 1" + chain("I(@)", "i", 181),
    "bound sums": "x180" + chain("@ + A(i)", "A(i)", 181),
    "bound casts": "x90" + chain("half(@ * h(i))", "h(i)", 91),
    "bound twice": "x10" + chain("@ * @", "A(i)", 11),
}


def in_a_deep_stack(frames: int, text: str) -> Mapping[str, Program]:
    if frames:
        return in_a_deep_stack(frames - 1, text)
    return check_all(parse(Source(text)))


@pytest.mark.parametrize("name", DEEP)
def test_the_deepest_expressions(name: str) -> None:
    """As deep as the parser lets them be, and from a caller that is deep in its own stack."""
    rhs = DEEP[name]
    text = f"{H}{rhs}{', ' if ' where ' in rhs else ' where '}i in 0:N }}"
    for program in in_a_deep_stack(100, text).values():
        assert len(list(walk(program.statements[0].rhs))) > 90


@pytest.mark.parametrize(
    ("rhs", "rule"),
    [
        ("x99 * 1" + chain("@ + @", "A(i)", 100), "T5"),
        ("x99 * A(i)" + chain("@ + @", "N", 100), "T5"),
        ("x99 * A(i)" + chain("@ * @", "2", 100), "Y1"),
        ("(x99 < i ? 1 : 2) * A(i)" + chain("@ + @", "N", 100), "T5"),
        ("x250 * 1" + chain("1 + @", "A(i)", 251), "T5"),
        ("pad(" * 12 + "A(i + 1)" + ",A(i))" * 12 + " + x9" + chain("@ + @", "A(i)", 10), None),
        ("o(i) * x99" + chain("o(i) * @ * @", "o(i)", 100), "Y3"),
    ],
)  # fmt: skip
def test_bindings_that_grow_without_bound(rhs: str, rule: str | None) -> None:  # T5
    text = f"{H}{rhs}, i in 0:N }}"
    if rule is None:
        check_all(parse(Source(text)))
        return
    with pytest.raises(CheckError) as caught:
        check_all(parse(Source(text)))
    assert caught.value.rule == rule


def test_calls_that_grow_without_bound() -> None:  # N4
    first = "def f0(float(N) A) -> (o) { o(i) = A(i) }\n"
    twice = "".join(
        f"def f{k}(float(N) A) -> (o) {{ t = f{k - 1}(A) o = f{k - 1}(t) }}\n" for k in range(1, 40)
    )
    deep = "".join(f"def f{k}(float(N) A) -> (o) {{ o = f{k - 1}(A) }}\n" for k in range(1, 60))
    cycle = "".join(
        f"def f{k}(float(N) A) -> (o) {{ o = f{(k + 1) % 500}(A) }}\n" for k in range(500)
    )
    for text in (first + twice, first + deep, cycle):
        with pytest.raises(CheckError) as caught:
            check_all(parse(Source(text)))
        assert caught.value.rule == "N4"
        assert len(str(caught.value)) < 1000
