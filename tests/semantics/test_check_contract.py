"""Every checked program keeps the contract of program.py, and no tree crashes the checker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given

from tc import builtins
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, compute_dtype, fits
from tc.errors import TCError
from tc.frontend import ast
from tc.frontend.parser import parse
from tc.frontend.printer import to_text
from tc.semantics.check import check_all
from tc.semantics.program import (
    Binary,
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
from tests.support import ast_strategies
from tests.support.program_strategies import Generated, programs

PROGRAMS = Path(__file__).parents[1] / "programs"


def assert_well_typed(expr: Expr, program: Program, statement: Statement | None) -> None:
    """Check one expression and all below it against the contract."""
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
            assert left.dtype == right.dtype == dtype != FLOAT16
            assert dtype != BOOL or op in ("min", "max")
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
            builtin = builtins.BUILTINS[function]
            assert len(args) == builtin.arity
            assert all(a.dtype == dtype for a in args)
            assert dtype in (FLOAT32, FLOAT64) or builtin.rule == "keep"
        case Convert(operand=operand, dtype=dtype):
            assert operand.dtype != dtype
    for child in children(expr):
        # half appears only below its widening, and is rounded only by a cast
        if child.dtype == FLOAT16:
            assert isinstance(expr, Convert)
            assert expr.dtype == FLOAT32
            assert isinstance(child, Read) or (isinstance(child, Convert) and child.written)


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
        assert statement.rhs.dtype == compute_dtype(target.dtype)
        assert len(statement.subscripts) == target.rank
        assert statement.variables[: len(statement.outer)] == statement.outer
        assert set(statement.variable_spans) == set(statement.variables)
        assert statement.op in ("=", "+", "*", "min", "max")
        if statement.op == "=":
            assert not statement.reduction
            assert not statement.init
        assert not statement.init or statement.reduction
        expected = "written" if target.name in written else "caller"
        if target.role == "temporary" and target.name not in written:
            expected = "nothing"
        assert statement.continues == ("" if statement.op == "=" or statement.init else expected)
        written.add(target.name)
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


@given(programs())
def test_generated_programs_keep_the_contract(generated: Generated) -> None:
    try:
        checked = check_all(parse(Source(generated.text)))
    except TCError as error:
        assert error.rule is not None
        assert error.span is not None
        assert error.repair
        assert str(error)
        return
    for program in checked.values():
        assert_contract(program)


@given(ast_strategies.modules())
def test_any_tree_gives_a_program_or_an_error(module: ast.Module) -> None:
    """Trees of random names, printed and parsed so that their spans are real."""
    try:
        checked = check_all(parse(Source(to_text(module))))
    except TCError as error:
        assert error.rule is not None
        assert error.repair
        assert str(error)
        return
    for program in checked.values():
        assert_contract(program)
