"""Ways to break one rule of a legal program: its text, types and names.

An edit takes a legal case and gives the call that is to be refused, or None where the program has
nothing that it could break.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.fuzz.legal import Call, call_of, edited, pick, ranked, with_input, with_statement, zeros
from tests.fuzz.model import Case, Expr, Param, Statement, num, read, reads, replace_at, var, walk
from tests.fuzz.mutation_table import (
    adding,
    breaks,
    more_returns,
    once,
    returning,
    texts,
    with_sum,
    with_value,
)

# --- T: the text ---------------------------------------------------------------------------------

texts("T1", "a character of no language", with_value("× 2"))
texts("T1", "a zero before other digits", with_value("+ 012"))
texts("T1", "letters behind a number", with_value("+ 2.5x"))
texts("T2", "a semicolon", with_value("+ 1 ;"))
texts("T2", "a reserved word as parameter", once(r"def f\(", "def f(float half, "))
texts("T3", "no such type", once(r"def f\(", "def f(flaot zz, "))
texts("T3", "a parameter without type", once(r"def f\(", "def f(zz, "))
texts("T3", "a cast of two values", with_value("+ int32(1, 2)"))
texts("T4", "no closing brace", once(r"\n}\n$", "\n"))
texts("T4", "no arrow", once(r"->", ""))
texts("T4", "a power", with_value("** 2"))
texts("T4", "an unknown reduction", once(r" [+]?=!? ", " -= "))
texts("T4", "a comparison for an assignment", once(r" [+]?=!? ", " == "))
texts("T4", "a choice without its other side", with_value("? 1"))
texts("T4", "nothing returned", once(r"-> \([^)]*\)", "-> ()"))
texts("T4", "an operator without an operand", with_value("+ *"))
texts("T5", "two clauses with where", once(r" where ([^\n]*)\n", r" where \1 where zz in 0:2\n"))
texts("Y1", "a number that fits no type", with_value("+ 1e999"))


@breaks("T2", "CheckError")
def a_dimension_that_there_is_not(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    return adding(case, f"zo = {p.name}.{len(p.dims) + rng.randrange(3)}")


@breaks("T5", "CheckError")
def a_binding_of_itself(case: Case, _rng: random.Random) -> Call | None:
    return adding(case, "zo = zb + 1 where zb = zb + 1")


@breaks("T4", "CheckError")
def a_size_that_no_input_has(case: Case, _rng: random.Random) -> Call | None:
    name = case.returns[0]
    first = next(s for s in case.statements if s.target == name)
    if (
        not case.shapes[name]
        or first.where
        or first.op not in ("=", "+=!", "*=!", "min=!", "max=!")
    ):
        return None  # a part, or what goes on: an array that is passed says the size
    dims = ",".join(["ZZ"] * len(case.shapes[name]))
    return returning(case, name, f"float({dims}) {name}")


# --- Y: types ------------------------------------------------------------------------------------


@breaks("Y1", "CheckError")
def a_literal_too_large_for_its_type(case: Case, rng: random.Random) -> Call | None:
    type, value = rng.choice((("uint8", 300), ("int8", 200), ("uint16", 70000), ("half", 70000)))
    more = with_input(case, Param("zz", type, (), "ones"))
    rhs: Expr = ("bin", rng.choice("+*-"), read("zz"), num(value))
    return call_of(with_statement(more, Statement("zo", (), "=", rhs), returned=True))


@breaks("Y2", "CheckError")
def a_condition_as_subscript(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    condition: Expr = ("bin", "<", read(p.name, *zeros(len(p.dims))), num(1))
    broken = with_sum(case, rng, read(p.name, condition, *zeros(len(p.dims) - 1)))
    return broken and call_of(broken)


@breaks("Y2", "CheckError")
def a_condition_as_bound(case: Case, rng: random.Random) -> Call | None:
    if not case.sizes:
        return None
    name = rng.choice(sorted(case.sizes))
    return adding(case, f"zo +=! 1 where zk in 0:({name} > 0)")


@breaks("Y3", "CheckError")
def a_wider_type_into_a_narrower(case: Case, rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "double", (), "ones"))
    more = with_statement(more, Statement("zo", (), "=", read("zz")), returned=True)
    return returning(more, "zo", rng.choice(("float zo", "half zo", "int zo", "bool zo")))


@breaks("Y3", "InputError")
def an_argument_of_another_type(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    arrays = [n for n, a in call.inputs.items() if a.ndim]
    if not arrays:
        return None
    name = rng.choice(arrays)
    other = "float64" if call.inputs[name].dtype != np.float64 else "float32"
    return replace(call, inputs={**call.inputs, name: call.inputs[name].astype(other)})


@breaks("Y4", "AccessError")
def a_division_by_zero(case: Case, rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", rng.choice(("int", "int64", "uint8")), ("4",), "zeros"))
    rhs: Expr = ("bin", rng.choice("/%"), num(7), read("zz", var("i")))
    return call_of(with_statement(more, Statement("zo", ("i",), "=", rhs), returned=True))


@breaks("Y7", "CheckError")
def a_function_of_too_few(case: Case, rng: random.Random) -> Call | None:
    name = rng.choice(("fmaxf", "pow", "hypot", "atan2", "fma"))
    broken = with_sum(case, rng, ("call", name, (num(1),)))
    return broken and call_of(broken)


@breaks("Y9", "CheckError")
def a_float_as_subscript(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    broken = with_sum(case, rng, read(p.name, num("0.5"), *zeros(len(p.dims) - 1)))
    return broken and call_of(broken)


# --- N: names and statements ---------------------------------------------------------------------


def _read_replaced(case: Case, rng: random.Random, new: Callable[[Expr], Expr]) -> Call | None:
    at = pick(case, rng, lambda s: any(e[2] for e in reads(s.rhs)))
    if at is None:
        return None
    rhs = case.statements[at].rhs
    places = [k for k, e in enumerate(walk(rhs)) if e[0] == "read" and e[2]]
    k = rng.choice(places)
    return call_of(edited(case, at, rhs=replace_at(rhs, k, new(list(walk(rhs))[k]))))


@breaks("N1", "CheckError")
def a_tensor_that_there_is_not(case: Case, rng: random.Random) -> Call | None:
    return _read_replaced(case, rng, lambda e: read("zz", *e[2]))


@breaks("N1", "CheckError")
def one_subscript_too_many(case: Case, rng: random.Random) -> Call | None:
    return _read_replaced(case, rng, lambda e: read(e[1], *e[2], num(0)))


@breaks("N1", "CheckError")
def a_tensor_without_subscripts(case: Case, rng: random.Random) -> Call | None:
    return _read_replaced(case, rng, lambda e: read(e[1]))


@breaks("N1", "CheckError")
def a_function_that_there_is_not(case: Case, rng: random.Random) -> Call | None:
    return _read_replaced(case, rng, lambda e: ("call", "zrelu", (e,)))


@breaks("N1", "CheckError")
def a_size_on_the_left(case: Case, rng: random.Random) -> Call | None:
    if not case.sizes:
        return None
    return adding(case, f"zo({rng.choice(sorted(case.sizes))}) = 1")


@breaks("N1", "CheckError")
def another_rank_on_the_left(case: Case, rng: random.Random) -> Call | None:
    name = rng.choice(case.returns)
    indices = ", ".join(f"z{k}" for k in range(len(case.shapes[name]) + 1))
    ranges = ", ".join(f"z{k} in 0:1" for k in range(len(case.shapes[name]) + 1))
    return adding(case, f"{name}({indices}) = 1 where {ranges}", returned=False)


@breaks("N2", "CheckError")
def an_input_written(case: Case, rng: random.Random) -> Call | None:
    if not case.params:
        return None
    p = rng.choice(case.params)
    left = ", ".join(f"z{k}" for k in range(len(p.dims)))
    line = f"{p.name}({left}) = 1" if p.dims else f"{p.name} = 1"
    return adding(case, line, returned=False)


@breaks("N2", "CheckError")
def an_index_twice_on_the_left(case: Case, _rng: random.Random) -> Call | None:
    return adding(case, "zo(zi, zi) = 1 where zi in 0:2")


@breaks("N2", "CheckError")
def a_return_that_nothing_defines(case: Case, _rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, text=more_returns(call.text, "zo"))


@breaks("N2", "CheckError")
def a_return_twice(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, text=more_returns(call.text, rng.choice(case.returns)))


@breaks("N2", "CheckError")
def an_input_twice(case: Case, rng: random.Random) -> Call | None:
    if not case.params:
        return None
    call = call_of(case)
    name = rng.choice(case.params).name
    return replace(call, text=call.text.replace("def f(", f"def f(float {name}, ", 1))


@breaks("N2", "CheckError")
def two_defs_of_one_name(case: Case, _rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, text=call.text + call.text)


@breaks("N4", "InputError")
def two_defs_and_no_entry(case: Case, _rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, text=call.text + call.text.replace("def f(", "def g(", 1))


@breaks("N4", "CheckError")
def a_def_that_there_is_not(case: Case, _rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    return None if p is None else adding(case, f"zo, zp = zz({p.name})")


@breaks("N4", "CheckError")
def a_def_that_calls_itself(case: Case, _rng: random.Random) -> Call | None:
    names = ", ".join(p.name for p in case.params)
    targets = ", ".join(f"zo{k}" if k else "zo" for k in range(len(case.returns) + 1))
    return adding(case, f"{targets} = f({names})") if names else None


@breaks("N4", "CheckError")
def a_scalar_in_a_concat(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", (), "ones"))
    return adding(more, "zo = concat(zz, zz)")


@breaks("N4", "CheckError")
def two_ranks_in_a_concat(case: Case, _rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    more = with_input(case, Param("zz", p.type, ("2",) * (len(p.dims) + 1), "ones"))
    return adding(more, f"zo = concat({p.name}, zz)")
