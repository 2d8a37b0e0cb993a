"""The grammar (language-G1 to language-G10) and of rules T2 to T5, tree by tree."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tc.errors import ParseError
from tc.frontend.ast import (
    Annotation,
    Apply,
    Binary,
    Binding,
    CallStatement,
    Cast,
    Comprehension,
    Condition,
    Dim,
    Exists,
    Name,
    Number,
    RangeClause,
    Return,
    SizeClause,
    Target,
    TensorType,
    Unary,
)
from tc.frontend.operator_parser import MAX_HEIGHT, MAX_NESTING
from tc.frontend.parser import parse
from tc.source import Source
from tests.support.ast_strategies import NO_SPAN
from tests.support.syntax import parse_expression, to_text

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.tc"))

# by where they are printed, as spec/promises.md names these documents
PRINTED = {
    "language grammar": "def f(float(A,B) x) -> (y) { y(i,j) = -x(i,j) }",
    "introduction mv": "def mv(float(R,C) A, float(C) B) -> (o) {\no(i) +=! A(i,j) * B(j)\n}",
    "introduction mm": "def mm(float(X,Y) A, float(Y,Z) B) -> (R) {\nR(i,j) += A(i,j) * B(j,k)\n}",
    "introduction conv": """def conv(float(B,IP,H,W) input, float(OP,IP,KH,KW) weight) -> (output) {
output(b, op, h, w) += input(b, ip, h + kh, w + kw) * weight(op, ip, kh, kw)
}""",
    "position softmax": """def softmax(float(N, D) I) -> (O, expsum) {
    expsum(n) +=! exp(I(n, d))
       O(n, d) =  exp(I(n, d)) / expsum(n)
}""",
    "paper mv": """def mv(float(M,K) A, float(K) x) -> (C) {
  C(i) = 0
  C(i) += A(i,k) * x(k)
}""",
    "paper sgemm": """def sgemm(float a, float b,
          float(N,M) A, float(M,K) B) -> (C) {
  C(i,j) = b * C(i,j)                    # initialization
  C(i,j) += a * A(i,k) * B(k,j)          # accumulation
}""",
    "paper fcrelu": """def fcrelu(float(B,I) in, float(O,I) weight, float(O) bias) -> (out) {
  out(b,o) = bias(o)  out(b,o) += in(b,i)*weight(o,i)  out(b,o) = fmaxf(out(b,o), 0)
}""",
    "paper conv2d": """def conv2d(float(B,IP,H,W) in,
           float(OP,IP,KH,KW) weight) -> (out) {
  out(b,op,h,w) +=! in(b,ip, h + kh, w + kw)
                  * weight(op,ip,kh,kw) }""",
    "paper maxpool2x2": """def maxpool2x2(float(B,C,H,W) in) -> (out) {
  out(b,c,i,j) max=! in(b,c, 2 * i + kw, 2 * j + kh)
     where kw in 0:2, kh in 0:2
}""",
    "paper gather": "def gather(float(N) X, int(A,B) I) -> (Z) {\n  Z(i,j) = X(I(i,j))\n}",
    "paper sconv2d": """def sconv2d(int sh, int sw, float(N,C,H,W) I,
            float(F,C,KH,KW) W, float(F) B) -> (O) {
  O(n,f,h,w) = B(f)
  O(n,f,h,w) += I(n,c, sh * h + kh, sw * w + kw)
              * W(f,c,kh,kw)
}""",
    "paper conv1d": "def conv1d(float(M) I, float(N) K) -> (O) {\n  O(i) = K(x) * I(i + x)\n}",
    "paper outerProductMM": """def outerProductMM(float(P,Q,R) A, float(S,R,T) B) -> (O) {
  O(p,s,q,t) +=! A(p,q,r) * B(s,r,t) }""",
    "paper tmm": "def tmm(float(M,K) A, float(N,K) B) -> (C) {\n  C(m,n) +=! A(m,kk) * B(n,kk)\n}",
    "paper tbmm": """def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) {
  Z(b,n,k) +=! X(b,n,m) * Y(b,k,m)
}""",
    "paper dconv": """def dconv(float(N,F,H,W) I, float(F,GCI,KH,KW) W1,
          float(M) B) -> (O) {
  O(n,o,h,w) +=! I(n,gci,h+kh,w+kw) * W1(gci % grp,o/grp,gci/grp,kh,kw)
  O(n,o,h,w)   = O(n,o,h,w) + B(m)
}""",
    "paper 2LUT": """def 2LUT(float(E1,D) LUT1, int(B,L1) I1,
         float(E2,D) LUT2, int(B,L2) I2) -> (O1, O2) {
  O1(i,j) +=! LUT1(I1(i,k),j)
  O2(i,j) +=! LUT2(I2(i,k),j)
}""",
    "paper MLP1": """def MLP1(float(B,M) I, float(O,N) W1, float(O) B1) -> (O1) {
  O1(b,n) = B1(n)
  O1(b,n) += I(b,m) * W1(n,m)
  O1(b,n) = fmaxf(O1(b,n), 0)
}""",
    "paper prodModel": """def prodModel(float(E1,D) LUT1, int(B,L1) I1,
              float(B,WX) I3, float(WY,WX) W,
              float(N,M) W1, float(N) B1)
   -> (C1,C2,C3,I,O1,O2,O3,O4) {
  (C1,C2)    = 2LUT(LUT1,I1,LUT2,I2)
  C3(b,wy)  += I3(b,wxx) * W(wy,wxx)
  I          = concat(C1, C2, C3) # not implemented yet
  O1         = MLP1(I, W1, B1)
  (O2,O3,O4) = MLP3(O1,W2,B2,W3,B3,W4,B4)
  # O4 goes out to binary classifier, omitted here
}""",
}


def body(text: str) -> tuple[object, ...]:
    return parse(Source(f"def f() -> (o) {{ {text} }}")).defs[0].body


def only(text: str) -> Comprehension:
    (statement,) = body(text)
    assert isinstance(statement, Comprehension)
    return statement


def name(text: str) -> Name:
    return Name(text, span=NO_SPAN)


def number(value: int) -> Number:
    return Number(str(value), value, span=NO_SPAN)


def read(tensor: str, *args: str) -> Apply:
    return Apply(name(tensor), tuple(name(arg) for arg in args), span=NO_SPAN)


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED)
def test_programs_in_print_parse(text: str) -> None:
    module = parse(Source(text))
    assert len(module.defs) == 1
    assert parse(Source(to_text(module))) == module


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_the_table_of_programs_parses(path: Path) -> None:
    module = parse(Source(path.read_text(encoding="utf-8"), path.name))
    assert parse(Source(to_text(module))) == module


def test_a_matrix_vector_product_tree_by_tree() -> None:
    (mv,) = parse(Source(PRINTED["introduction mv"])).defs
    assert mv.name == name("mv")
    assert [(to_text(p.type), p.name.text) for p in mv.params] == [
        ("float(R, C)", "A"),
        ("float(C)", "B"),
    ]
    assert mv.returns == (Return(None, name("o"), span=NO_SPAN),)
    (statement,) = mv.body
    assert isinstance(statement, Comprehension)
    assert (statement.target, statement.indices) == (name("o"), (name("i"),))
    assert (statement.op, statement.op_span.text) == ("+=!", "+=!")
    product = Binary("*", read("A", "i", "j"), read("B", "j"), span=NO_SPAN)
    assert (statement.rhs, statement.where, statement.annotation) == (product, (), None)


def test_000_G1_the_left_side_lists_index_variables() -> None:
    assert only("o(i, j) = x").indices == (name("i"), name("j"))
    assert only("o() = x").indices == ()
    assert only("o = x").indices is None
    assert only("in(i) = x").target == name("in")


@pytest.mark.parametrize(
    "subscript",
    ["0", "-1", "i + 1", "2 * i", "I(n)", "o(o(i))", "T.0", "a ? b : c", "int(x)", "(i)", "a & 3"],
)
def test_rule_T6_a_subscript_on_the_left_is_any_expression(subscript: str) -> None:
    expected = parse_expression(Source(subscript))
    assert only(f"o({subscript}) +=! x").indices == (expected,)
    assert only(f"o(i,{subscript}, j) = x").indices == (name("i"), expected, name("j"))
    (target,) = only(f"o({subscript}) = x").targets
    assert target.span.text == f"o({subscript})"


@pytest.mark.parametrize("op", ["=", "+=", "*=!", "min=", "max=!", "&=", "^=!"])
def test_rule_T6_a_statement_may_have_several_targets(op: str) -> None:
    found = only(f"m(n), at(n), o {op} x(n, d), -d, 2 where d in 0:3")
    at_n = (name("n"),)
    assert found.targets == (
        Target(name("m"), at_n, span=NO_SPAN),
        Target(name("at"), at_n, span=NO_SPAN),
        Target(name("o"), None, span=NO_SPAN),
    )
    assert found.values == (
        read("x", "n", "d"),
        Unary("-", name("d"), span=NO_SPAN),
        number(2),
    )
    assert found.op == op
    assert found.where == (RangeClause(name("d"), number(0), number(3), span=NO_SPAN),)


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("a, b = b, a", ["a, b = b, a"]),
        ("a, b = f(x), g(y)", ["a, b = f(x), g(y)"]),
        ("a, b = f(x) + 1, y c = 2", ["a, b = f(x) + 1, y", "c = 2"]),
        ("a(i), b(i) = b(i), a(i) c, d = f(x)", ["a(i), b(i) = b(i), a(i)", "(c, d) = f(x)"]),
        ("a, b = x, c (p, q) = f(a)", ["a, b = x, c", "(p, q) = f(a)"]),
        ("a, b = f(x) (p, q) = f(a)", ["(a, b) = f(x)", "(p, q) = f(a)"]),
        ("a, b = f(x)\nb(0), c(i) += 1, 2", ["(a, b) = f(x)", "b(0), c(i) += 1, 2"]),
        ("and(i), or(i) = not, if(i)", ["and(i), or(i) = not, if(i)"]),
        ("for(i), if(0) = 1, 2", ["for(i), if(0) = 1, 2"]),
        ("min, max = 1, 2 max, min = 3, 4", ["min, max = 1, 2", "max, min = 3, 4"]),
    ],
)
def test_rule_T6_where_statements_of_several_targets_end(text: str, statements: list[str]) -> None:
    assert [to_text(statement) for statement in body(text)] == statements  # type: ignore[arg-type]


def test_rule_T6_a_statement_has_as_many_values_as_targets() -> None:
    for wrong in (
        "a, b = x",
        "a(i), b(i) += f(i)",
        "a = x, y",
        "a, b = x, y, z",
        "a, b = f(x) + 1",
    ):
        with pytest.raises(ParseError, match="one value for each of its targets"):
            body(wrong)


@pytest.mark.parametrize("op", ["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"])
def test_000_G2_and_000_R2_operators(op: str) -> None:
    for text in (f"o(i) {op} x", f"o(i){op}x", f"o {op} x", f"o(){op} x"):
        assert only(text).op == op


def test_000_G3_subscripts_are_any_expressions() -> None:
    found = only("o = log(T(i * j, T(i), a ? b : c))").rhs
    assert isinstance(found, Apply)
    assert found.name == name("log")
    (inner,) = found.args
    assert isinstance(inner, Apply)
    assert [type(arg).__name__ for arg in inner.args] == ["Binary", "Apply", "Conditional"]
    assert only("o = T()").rhs == read("T")


def test_000_G6_dimensions_of_tensors() -> None:
    assert only("o = T.1").rhs == Dim(name("T"), 1, span=NO_SPAN)
    assert only("o = 2f.0 + in.3").rhs == Binary(
        "+",
        Dim(name("2f"), 0, span=NO_SPAN),
        Dim(name("in"), 3, span=NO_SPAN),
        span=NO_SPAN,
    )


def test_000_G7_where_has_a_non_empty_list_of_ranges() -> None:
    found = only("o(i) max=! A(i + k + l) where k in 0:2, l in N - 1 : A.0 ? 3 : 4").where
    assert [to_text(clause) for clause in found] == ["k in 0:2", "l in N - 1 : (A.0 ? 3 : 4)"]
    assert found[0] == RangeClause(name("k"), number(0), number(2), span=NO_SPAN)
    for wrong in ("o = x where", "o = x where k in 0:2,", "o = x where k in 0", "o = x where k 2"):
        with pytest.raises(ParseError):
            body(wrong)


@pytest.mark.parametrize("text", ["a ? b : c:d", "(a ? b : c):d"])
def test_a_conditional_bound_ends_at_its_own_colon(text: str) -> None:
    (clause,) = only(f"o = x where k in {text}").where
    assert isinstance(clause, RangeClause)
    assert to_text(clause.begin) == "a ? b : c"
    assert clause.end == name("d")


@pytest.mark.parametrize("text", ["a, b = f(x, y)", "(a, b) = f(x, y)", "(a,b)=f(x,y)"])
def test_000_G8_and_rule_N4_calls_of_defs(text: str) -> None:
    call = CallStatement((name("a"), name("b")), name("f"), (name("x"), name("y")), span=NO_SPAN)
    assert body(text) == (call,)


def test_a_call_with_one_target() -> None:
    assert body("(a) = f()") == (CallStatement((name("a"),), name("f"), (), span=NO_SPAN),)
    assert only("a = f(x)").rhs == read("f", "x")


@pytest.mark.parametrize(
    "spelling",
    [
        "bool",
        "byte",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "int",
        "half",
        "float16",
        "float",
        "float32",
        "double",
        "float64",
    ],
)
def test_000_G9_and_rule_T3_types_and_casts(spelling: str) -> None:
    (found,) = parse(Source(f"def f({spelling}(N) A, {spelling} b) -> (o) {{}}")).defs
    assert [param.type for param in found.params] == [
        TensorType(spelling, (name("N"),), span=NO_SPAN),
        TensorType(spelling, None, span=NO_SPAN),
    ]
    assert only(f"o = {spelling}(x)").rhs == Cast(spelling, name("x"), span=NO_SPAN)
    for wrong in (f"o = {spelling}()", f"o = {spelling}(x, y)", f"o = {spelling}"):
        with pytest.raises(ParseError, match=r"\[T3\]"):
            body(wrong)


def test_000_G10_several_outputs_and_white_space_between_statements() -> None:
    (found,) = parse(Source("def f(float(N) A)->(o,p){o(i)=A(i)p(i)=o(i)}")).defs
    assert [return_.name.text for return_ in found.returns] == ["o", "p"]
    assert [to_text(statement) for statement in found.body] == ["o(i) = A(i)", "p(i) = o(i)"]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("k = c\n(p, q) = f(a)", ["k = c", "(p, q) = f(a)"]),
        ("k = c (p) = f(a)", ["k = c", "(p) = f(a)"]),
        ("k = x + c\n(p, q) = f(a)", ["k = x + c", "(p, q) = f(a)"]),
        ("k = c(p, q)\n(p, q) = f(a)", ["k = c(p, q)", "(p, q) = f(a)"]),
        ("k = c(p, q) == d", ["k = c(p, q) == d"]),
        ("k = x where l in 0:c (p, q) = f(a)", ["k = x where l in 0:c", "(p, q) = f(a)"]),
        ("k = x where y = c (p, q) = f(a)", ["k = x where y = c", "(p, q) = f(a)"]),
        ("k = T.1(p, q) = f(a)", ["k = T.1", "(p, q) = f(a)"]),
        ("k = 2 (p, q) = f(a)", ["k = 2", "(p, q) = f(a)"]),
        ("k = c p, q = f(a)", ["k = c", "(p, q) = f(a)"]),
        ("k = c in = 3", ["k = c", "in = 3"]),
        ("k = x where y = c in(i) = 3", ["k = x where y = c", "in(i) = 3"]),
        ("k = x where in in in:in.0", ["k = x where in in in:in.0"]),
        ("k = c min = 3 max min= 4", ["k = c", "min = 3", "max min= 4"]),
    ],
)
def test_rule_T2_statements_are_separated_by_white_space(text: str, statements: list[str]) -> None:
    assert [to_text(statement) for statement in body(text)] == statements  # type: ignore[arg-type]


def test_rule_T4_constant_dimensions_and_typed_returns() -> None:
    (found,) = parse(Source("def f(float(3, N) A, float() b) -> (float(N, 3) C, d, int e) {}")).defs
    assert found.params[0].type.dims == (number(3), name("N"))
    assert found.params[1].type.dims == ()
    assert [to_text(return_) for return_ in found.returns] == ["float(N, 3) C", "d", "int e"]


def test_rule_T5_bindings_exists_and_annotations() -> None:
    found = only("o(i) = x where x = y + 1, exists T(i, j), k in 0:x <=> gemm(A, 2)")
    assert found.where == (
        Binding(name("x"), Binary("+", name("y"), number(1), span=NO_SPAN), span=NO_SPAN),
        Exists(read("T", "i", "j"), span=NO_SPAN),
        RangeClause(name("k"), number(0), name("x"), span=NO_SPAN),
    )
    annotation = Annotation(name("gemm"), (name("A"), number(2)), span=NO_SPAN)
    assert found.annotation == annotation
    assert only("o = x <=> gemm(A, 2) where k in 0:2").annotation == annotation


@pytest.mark.parametrize(
    "test",
    [
        *("x(i) > 0", "i == 3", "k", "3", "!k", "-x(i)", "(a) || b", "int(x) != 2", "a ? b : c"),
        *("o.0", "o.0 == N", "a < b == c", "(a < b) < c", "x(i) < 3 && y(i)", "keep(i)", "in"),
    ],
)
def test_rule_T6_any_other_clause_is_a_condition(test: str) -> None:
    condition = Condition(parse_expression(Source(test)), span=NO_SPAN)
    k_range = RangeClause(name("k"), number(0), number(3), span=NO_SPAN)
    assert only(f"o = x where {test}").where == (condition,)
    assert only(f"o = x where {test}, k in 0:3").where == (condition, k_range)
    assert only(f"o = x where k in 0:3, {test}").where == (k_range, condition)
    assert only(f"o = x where {test} <=> g(a)").where == (condition,)
    (first, second) = body(f"o = x where {test} p(i), q(i) = 3, 4")
    assert isinstance(first, Comprehension)
    assert first.where == (condition,)
    assert to_text(second) == "p(i), q(i) = 3, 4"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("o = x where c (p, q) = f(a)", ["o = x where c", "(p, q) = f(a)"]),
        ("o = x where c in = 3", ["o = x where c", "in = 3"]),
        ("o = x where c in(i) += 3", ["o = x where c", "in(i) += 3"]),
        ("o = x where c in(i), a = 3, 4", ["o = x where c", "in(i), a = 3, 4"]),
        ("o = x where c in(i):a", ["o = x where c in (i):a".replace("(i)", "i")]),
        ("o = x where in in = 3", ["o = x where in", "in = 3"]),
        ("o = x where for a = 3", ["o = x where for", "a = 3"]),
        ("o = x where exist x(i) = 3", ["o = x where exist", "x(i) = 3"]),
        ("o = x where i in 0:3, x(i) > 0 p = 2", ["o = x where i in 0:3, x(i) > 0", "p = 2"]),
    ],
)
def test_rule_T6_where_conditions_end(text: str, statements: list[str]) -> None:
    assert [to_text(statement) for statement in body(text)] == statements  # type: ignore[arg-type]


def test_rule_T6_size_clauses() -> None:
    found = only("out(place(i)) = x(i) where keep(i), out.0 = N + 1, n = out.1")
    assert found.where == (
        Condition(read("keep", "i"), span=NO_SPAN),
        SizeClause(name("out"), 0, Binary("+", name("N"), number(1), span=NO_SPAN), span=NO_SPAN),
        Binding(name("n"), Dim(name("out"), 1, span=NO_SPAN), span=NO_SPAN),
    )
    assert found.where[1].span.text == "out.0 = N + 1"
    with pytest.raises(ParseError, match="no space stands around the dot of a size"):
        body("out(i) = x where out .0 = 3")


def test_rule_T6_bounds_may_depend_on_other_variables_and_on_data() -> None:
    found = only("o(r) +=! v(e) * x(c(e)) where e in row(r):row(r + 1), j in i + 1 : a ? N : 3")
    assert [to_text(clause) for clause in found.where] == [
        "e in row(r):row(r + 1)",
        "j in i + 1 : (a ? N : 3)",
    ]


def test_rule_T6_parameters_of_rank_0_may_have_a_default() -> None:
    text = "def f(float(N) A, float a = 0.5, int n = -3, bool() b = +1, int m) -> (o) {}"
    (found,) = parse(Source(text)).defs
    half = Number("0.5", 0.5, span=NO_SPAN)
    assert [param.default for param in found.params] == [
        None,
        half,
        Unary("-", number(3), span=NO_SPAN),
        Unary("+", number(1), span=NO_SPAN),
        None,
    ]
    assert found.params[2].span.text == "int n = -3"
    for wrong in ("float(N) a = 1", "float(3) a = 0.5", "float a = (1)", "float a = 1 + 1"):
        with pytest.raises(ParseError, match="default"):
            parse(Source(f"def f({wrong}) -> (o) {{}}"))
    for wrong in ("float a = --1", "float a = n", "float a = !1", "float a = float(1)"):
        with pytest.raises(ParseError, match="the default of 'a' is a literal"):
            parse(Source(f"def f({wrong}) -> (o) {{}}"))


@pytest.mark.parametrize("word", ["def", "where", "exists", "int", "half", "float64"])
def test_rule_T2_reserved_words_name_nothing(word: str) -> None:
    texts = [
        f"def {word}() -> (o) {{}}",
        f"def f(float {word}) -> (o) {{}}",
        f"def f(float({word}) x) -> (o) {{}}",
        f"def f() -> (float {word}) {{}}",
        f"def f() -> (o) {{ o({word}) = 1 }}",
        f"def f() -> (o) {{ o(i), {word}(i) = 1, 2 }}",
        f"def f() -> (o) {{ o = x where {word} in 0:2 }}",
    ]
    for text in texts:
        if word == "exists" and "where exists" in text:
            continue
        with pytest.raises(ParseError, match=r"\[T2\].* is a reserved word and cannot name"):
            parse(Source(text))


def test_several_defs_empty_lists_and_empty_bodies() -> None:
    module = parse(Source("def f() -> (o) {} def g(float x) -> (o) { o() = T() }"))
    assert [d.name.text for d in module.defs] == ["f", "g"]
    assert module.defs[0].body == ()
    assert module.defs[0].params == ()


@pytest.mark.parametrize("text", ["", " \n\t", "# only a comment", "#\n#"])
def test_a_text_without_a_def_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match="the text has no def"):
        parse(Source(text))


def test_spans_cover_what_is_written() -> None:
    text = "def f(float(N) A) -> (o) {\n  o(i) = (A(i) + 1) * 2 where k in (0):3 <=> g(a)\n}"
    source = Source(text)
    module = parse(source)
    assert module.span.text == module.defs[0].span.text == text
    (statement,) = module.defs[0].body
    assert isinstance(statement, Comprehension)
    assert statement.span.text == "o(i) = (A(i) + 1) * 2 where k in (0):3 <=> g(a)"
    assert statement.rhs.span.text == "(A(i) + 1) * 2"
    assert isinstance(statement.rhs, Binary)
    assert statement.rhs.left.span.text == "A(i) + 1"
    assert statement.where[0].span.text == "k in (0):3"
    assert statement.annotation is not None
    assert statement.annotation.span.text == "<=> g(a)"
    assert module.defs[0].params[0].span.text == "float(N) A"
    assert module.defs[0].params[0].type.span.text == "float(N)"


@pytest.mark.parametrize(
    ("opening", "closing"), [("(", ")"), ("f(", ")"), ("int(", ")"), ("a?", ":b"), ("-f(2, ", ")")]
)
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    depth = MAX_NESTING
    parse_expression(Source(opening * depth + "x" + closing * depth))
    depth += 1
    with pytest.raises(ParseError, match="nested more than 100 deep"):
        parse_expression(Source(opening * depth + "x" + closing * depth))


@pytest.mark.parametrize("unit", ["~", "| ", "x // ", "x & ", "x ** ", "(int) ", "x @ "])
def test_chains_of_foreign_operators_are_refused_at_once(unit: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        parse_expression(Source(unit * 3000 + "x"))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("unit", ["x + ", "x * ", "-", "!", "x ? y : "])
def test_the_height_of_a_tree_is_bounded(unit: str) -> None:
    parse_expression(Source(unit * MAX_HEIGHT + "x"))
    with pytest.raises(ParseError, match=r"more than 200 operations (deep|stand in a row)"):
        parse_expression(Source(unit * (2 * MAX_HEIGHT) + "x"))


@pytest.mark.parametrize("unit", ["1.5 + ", "1.5 - 0.5 + ", "x && ", "x && y || "])
def test_chains_that_may_be_grouped_are_bounded_by_grouping(unit: str) -> None:
    levels = [parse_expression(Source(unit * 2000 + "1.5"))]
    for _ in range(MAX_HEIGHT + 1):
        levels = [
            side for expr in levels if isinstance(expr, Binary) for side in (expr.left, expr.right)
        ]
    assert not levels


def test_chains_count_through_brackets() -> None:
    chain = "(" + " + ".join("x" * 150) + ")"
    parse_expression(Source(chain))
    with pytest.raises(ParseError, match=r"more than 200 operations (deep|stand in a row)"):
        parse_expression(Source(f"f({chain} {'* x' * 60})"))
