"""Ways to break one rule of a legal program: reductions, ranges, updates in place, and its call.

An edit takes a legal case and gives the call that is to be refused, or None where the program has
nothing that it could break.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from tests.fuzz.legal import Call, call_of, edited, pick, ranked, with_input, with_statement, zeros
from tests.fuzz.model import Case, Expr, Param, Statement, num, read, var, walk
from tests.fuzz.mutation_table import adding, breaks, more_returns, with_sum

# --- R: reductions and what the caller passes ----------------------------------------------------


@breaks("R1", "CheckError")
def a_reduction_without_operator(case: Case, rng: random.Random) -> Call | None:
    def reduces(s: Statement) -> bool:
        named = {e[1] for e in walk(s.rhs) if e[0] == "var"} | {v for v, _, _ in s.where}
        return s.op != "=" and bool(named - set(s.indices))

    at = pick(case, rng, reduces)
    return None if at is None else call_of(edited(case, at, op="="))


@breaks("R4", "CheckError")
def a_temporary_read_before_it_is_written(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    head, brace, tail = call.text.partition("{\n")
    first = f"  zo = {rng.choice(('zt', '1 + zt', 'exp(zt)'))}\n"
    text = more_returns(head + brace + first + tail.removesuffix("}\n") + "  zt = 1\n}\n", "zo")
    return replace(call, text=text)


@breaks("R4", "InputError")
def an_output_read_before_it_is_defined(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    more = ", ".join("0" for _ in p.dims[1:])
    subscripts = f"zi, {more}" if more else "zi"
    op = rng.choice("+*-")
    return adding(case, f"zo(zi) = zo(zi) {op} {p.name}({subscripts})")


@breaks("R4", "InputError")
def too_many_outputs(case: Case, _rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, outputs=[np.zeros(1, np.float32)] * (len(case.returns) + 1))


# --- G: ranges -----------------------------------------------------------------------------------


@breaks("G3", "RangeError")
def a_later_statement_that_does_not_fit(case: Case, rng: random.Random) -> Call | None:
    fitting = [n for n in case.returns if case.shapes[n]]
    if not fitting:
        return None
    name = rng.choice(fitting)
    sizes = case.shapes[name]
    indices = [f"z{k}" for k in range(len(sizes))]
    at = rng.randrange(len(sizes))
    ends = [n + (2 if k == at else 0) for k, n in enumerate(sizes)]
    where = ", ".join(f"{i} in 0:{n}" for i, n in zip(indices, ends, strict=True))
    declared = with_input(case, Param("zz", "float", tuple(map(str, sizes)), "ones"))
    first = f"zo({', '.join(indices)}) = zz({', '.join(indices)})"
    return adding(declared, f"{first}  zo({', '.join(indices)}) = 1 where {where}")


@breaks("G4", "RangeError")
def a_shape_beyond_all_memory(case: Case, _rng: random.Random) -> Call | None:
    return adding(case, "zo(zi, zj) = 1 where zi in 0:10000000000, zj in 0:10000000000")


@breaks("G5", "RangeError")
def a_variable_that_cannot_start_at_0(case: Case, rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("5",), "ones"))
    return adding(more, f"zo(zi) = zz(zi - {rng.randint(1, 4)})")


@breaks("G5", "RangeError")
def a_variable_that_nothing_bounds(case: Case, rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("5",), "ones"))
    form = rng.choice(("zz(zi * zi)", "zz(zi % 5)", "zz(zi + zj)", "pad(zz(zi + 1), 0)"))
    return adding(more, f"zo({'zi, zj' if 'zj' in form else 'zi'}) = {form}")


@breaks("G5", "RangeError")
def a_range_of_negative_size(case: Case, rng: random.Random) -> Call | None:
    return adding(case, f"zo(zi) = 1 where zi in {rng.randint(3, 5)}:{rng.randint(0, 2)}")


@breaks("G6", "RangeError")
def a_constant_beyond_a_dimension(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    shape = case.shape(p)
    at = rng.randrange(len(shape))
    place = [num(shape[k] + rng.randrange(3) if k == at else 0) for k in range(len(shape))]
    return call_of(with_statement(case, Statement("zo", (), "=", read(p.name, *place)), True))


@breaks("G6", "RangeError")
def a_sum_of_variables_beyond_a_dimension(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("5",), "ones"), Param("zy", "float", ("5",)))
    return adding(more, "zo(zi, zj) = zz(zi) + zy(zj) + zz(zi + zj)")


@breaks("G7", "AccessError")
def an_index_beyond_its_table(case: Case, rng: random.Random) -> Call | None:
    more = with_input(
        case, Param("zz", "float", ("3", "4"), "ones"), Param("zy", "int", ("6",), "zeros")
    )
    more = with_statement(
        more,
        Statement("zo", ("zi", "zj"), "=", read("zz", read("zy", var("zi")), var("zj"))),
        returned=True,
    )
    call = call_of(more)
    indices = call.inputs["zy"].copy()
    indices[rng.randrange(6)] = rng.choice((-1, 3, 4, 1000))
    return replace(call, inputs={**call.inputs, "zy": indices})


@breaks("G8", "CheckError")
def two_ranges_of_one_variable(case: Case, rng: random.Random) -> Call | None:
    at = pick(case, rng, lambda s: s.where)
    if at is None:
        return None
    where = case.statements[at].where
    return call_of(edited(case, at, where=(*where, rng.choice(where))))


@breaks("G8", "CheckError")
def a_float_in_a_bound(case: Case, rng: random.Random) -> Call | None:
    at = pick(case, rng, lambda s: s.where)
    if at is None:
        return None
    (name, low, _), *rest = case.statements[at].where
    return call_of(edited(case, at, where=((name, low, num("2.5")), *rest)))


@breaks("W2", "CheckError")
def a_range_of_itself(case: Case, _rng: random.Random) -> Call | None:
    return adding(case, "zo(zi, zj) = 1 where zi in 0:3, zj in 0:zj")


@breaks("N2", "CheckError")
def an_index_twice_on_the_left(case: Case, _rng: random.Random) -> Call | None:
    return adding(case, "zo(zi, zi) = 1 where zi in 0:3")


@breaks("G8", "CheckError")
def a_tensor_in_a_bound(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("5",), "ones"))
    return adding(more, "zo(zi) = 1 where zi in 0:zz(0)")


@breaks("G8", "CheckError")
def a_size_given_a_range(case: Case, rng: random.Random) -> Call | None:
    if not case.sizes:
        return None
    return adding(case, f"zo(zi) = 1 where zi in 0:2, {rng.choice(sorted(case.sizes))} in 0:2")


@breaks("G8", "RangeError")
def a_range_on_the_left_below_0(case: Case, rng: random.Random) -> Call | None:
    at = pick(case, rng, lambda s: any(v in s.indices for v, _, _ in s.where))
    if at is None:
        return adding(case, "zo(zi) = 1 where zi in -1:3")
    indices, where = case.statements[at].indices, case.statements[at].where
    lower = tuple((v, ("un", "-", num(1)) if v in indices else a, b) for v, a, b in where)
    return call_of(edited(case, at, where=lower))


@breaks("G8", "RangeError")
def a_bound_divided_by_zero(case: Case, rng: random.Random) -> Call | None:
    if not case.sizes:
        return None
    name = rng.choice(sorted(case.sizes))
    return adding(case, f"zo(zi) = 1 where zi in 0:4/({name} - {case.sizes[name]})")


@breaks("G9", "CheckError")
def a_pad_without_its_value(case: Case, rng: random.Random) -> Call | None:
    p = ranked(case, 1)
    if p is None:
        return None
    broken = with_sum(case, rng, ("call", "pad", (read(p.name, *zeros(len(p.dims))),)))
    return broken and call_of(broken)


# --- P: updates in place -------------------------------------------------------------------------


@breaks("P1", "RangeError")
def a_transpose_in_place(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("3", "3"), "normal"))
    first = with_statement(
        more, Statement("zo", ("zi", "zj"), "=", read("zz", var("zi"), var("zj")))
    )
    swapped = Statement("zo", ("zi", "zj"), "=", read("zo", var("zj"), var("zi")))
    return call_of(with_statement(first, swapped, returned=True))


@breaks("P1", "RangeError")
def a_shift_in_place(case: Case, rng: random.Random) -> Call | None:
    fitting = [n for n in case.returns if case.shapes[n] and case.shapes[n][0] > 3]
    if not fitting:
        return None
    name = rng.choice(fitting)
    rest = [f"z{k}" for k in range(1, len(case.shapes[name]))]
    left, right = ", ".join(["zi", *rest]), ", ".join(["zi + 1", *rest])
    op = rng.choice(("=", "+="))
    return adding(case, f"{name}({left}) {op} {name}({right})", returned=False)


@breaks("P1", "RangeError")
def a_sum_of_itself(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "float", ("3",), "normal"))
    first = with_statement(more, Statement("zo", (), "=", read("zz", num(0))), returned=True)
    rhs: Expr = ("bin", "*", read("zo"), read("zz", var("zi")))
    return call_of(with_statement(first, Statement("zo", (), "+=", rhs)))


@breaks("P1", "CheckError")
def a_target_read_after_it_is_begun_anew(case: Case, rng: random.Random) -> Call | None:
    def reduces(s: Statement) -> bool:
        named = {e[1] for e in walk(s.rhs) if e[0] == "var"} | {v for v, _, _ in s.where}
        return s.op.endswith("!") and bool(named - set(s.indices))

    at = pick(case, rng, reduces)
    if at is None:
        return None
    s = case.statements[at]
    own = read(s.target, *map(var, s.indices))
    return call_of(edited(case, at, rhs=("bin", "+", s.rhs, own)))


@breaks("P1", "RangeError")
def a_gather_in_place(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "int", ("3",), "index 3"))
    first = with_statement(
        more, Statement("zo", ("zi",), "=", read("zz", var("zi"))), returned=True
    )
    rhs = read("zo", read("zz", var("zi")))
    return call_of(with_statement(first, Statement("zo", ("zi",), "=", rhs)))


@breaks("P1", "CheckError")
def a_subscript_that_reads_the_target(case: Case, _rng: random.Random) -> Call | None:
    more = with_input(case, Param("zz", "int", ("3",), "index 3"))
    first = with_statement(
        more, Statement("zo", ("zi",), "=", read("zz", var("zi"))), returned=True
    )
    rhs = read("zz", read("zo", var("zi")))
    return call_of(with_statement(first, Statement("zo", ("zi",), "=", rhs)))


# --- the call ------------------------------------------------------------------------------------


@breaks("", "InputError")
def an_argument_missing(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    if not call.inputs:
        return None
    gone = rng.choice(sorted(call.inputs))
    return replace(call, inputs={n: a for n, a in call.inputs.items() if n != gone})


@breaks("", "InputError")
def an_argument_of_no_parameter(case: Case, _rng: random.Random) -> Call | None:
    call = call_of(case)
    return replace(call, inputs={**call.inputs, "zz": np.ones(3, np.float32)})


@breaks("", "InputError")
def an_argument_of_another_rank(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    arrays = [n for n, a in call.inputs.items() if a.ndim]
    if not arrays:
        return None
    name = rng.choice(arrays)
    return replace(call, inputs={**call.inputs, name: call.inputs[name][None]})


@breaks("T4", "InputError")
def sizes_that_disagree(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    names = [d for p in case.params for d in p.dims if d in case.sizes]
    twice = [
        (p.name, axis)
        for p in case.params
        for axis, d in enumerate(p.dims)
        if d.isdigit() or names.count(d) > 1
    ]
    if not twice:
        return None
    name, axis = rng.choice(twice)
    array = call.inputs[name]
    longer = np.concatenate([array, array.take([0], axis)], axis)
    return replace(call, inputs={**call.inputs, name: longer})


@breaks("", "InputError")
def an_argument_that_is_no_array(case: Case, rng: random.Random) -> Call | None:
    call = call_of(case)
    if not call.inputs:
        return None
    return replace(call, inputs={**call.inputs, rng.choice(sorted(call.inputs)): "text"})
