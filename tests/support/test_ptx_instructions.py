"""Each instruction of the PTX machine against Python's integers, fractions and numpy, at the edges
of all types; each error of the machine once.

Long because it is one table of instructions, types and edges."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.support.ptx.machine import Launch, PtxError
from tests.support.ptx.memory import GlobalMemory
from tests.support.ptx.parse import TYPES, Unreadable, parse

LETTERS = {1: "h", 2: "h", 4: "r", 8: "d"}
HEAD = """
.version 9.0
.target sm_90
.address_size 64
"""
REGISTERS = """
    .reg .pred %p<9>; .reg .b16 %h<32>; .reg .b32 %r<32>; .reg .b64 %d<32>;
    .reg .f32 %f<32>;
"""


def launched(
    body: str, *arrays: np.ndarray, threads: int = 32, grid: int = 1, before: str = ""
) -> list[np.ndarray]:
    """The arrays after a function of this body, which finds their addresses in %d0, %d1, ... and
    the number of the thread in %r0 and %d31."""
    names = [f"k_param_{n}" for n in range(len(arrays))]
    text = (
        f"{HEAD}{before}\n.visible .entry k({', '.join('.param .u64 ' + n for n in names)}) {{"
        + REGISTERS
        + "".join(f"ld.param.u64 %d{n}, [{name}];\n" for n, name in enumerate(names))
        + "mov.u32 %r0, %tid.x;\ncvt.u64.u32 %d31, %r0;\n"
        + body
        + "\nret;\n}"
    )
    memory = GlobalMemory()
    addresses = [memory.add(f"array {n}", array) for n, array in enumerate(arrays)]
    Launch(parse(text)["k"], (grid, 1, 1), (threads, 1, 1), addresses, memory).run()
    return [memory.array(a, array) for a, array in zip(addresses, arrays, strict=True)]


def applied(operation: str, sources: Sequence[str], result: str, given: Sequence[Any]) -> Any:
    """What an instruction makes of each row of operands, a thread each."""
    body, operands = "", []
    arrays = [np.asarray(a, TYPES[t]) for a, t in zip(given, sources, strict=True) if t != "pred"]
    flags = [np.asarray(a, np.uint32) for a, t in zip(given, sources, strict=True) if t == "pred"]
    count = max(len(a) for a in (*arrays, *flags))
    place = 0
    for array, kind in zip((*arrays, *flags), sources, strict=True):
        size = array.dtype.itemsize
        register = f"%{LETTERS[size]}{10 + place}"
        load = "u32" if kind == "pred" else f"b{8 * size}"
        body += (
            f"mad.wide.u32 %d20, %r0, {size}, %d{place};\nld.global.{load} {register}, [%d20];\n"
        )
        if kind == "pred":
            body += f"setp.ne.u32 %p{place}, {register}, 0;\n"
            register = f"%p{place}"
        operands.append(register)
        place += 1
    size = TYPES[result].itemsize if result != "pred" else 4
    target = "%p8" if result == "pred" else f"%{LETTERS[size]}9"
    body += f"{operation} {target}, {', '.join(operands)};\n"
    if result == "pred":
        body += "selp.u32 %r9, 1, 0, %p8;\n"
    body += f"mad.wide.u32 %d20, %r0, {size}, %d{place};\n"
    body += f"st.global.b{8 * size} [%d20], %{LETTERS[size]}9;"
    out = np.zeros(count, TYPES["u32" if result == "pred" else result])
    return launched(body, *arrays, *flags, out, threads=count)[-1]


def edges(kind: str) -> list[Any]:
    dtype = TYPES[kind]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        some = [0.0, 1.0, 1.5, 3.0, 0.1, float(info.max), float(info.tiny), float(info.eps)]
        some += [float(info.smallest_subnormal), math.inf, math.nan, 2.5, 1000.7]
        return [s * x for x in some for s in (1, -1)]
    info = np.iinfo(dtype)
    some = {0, 1, 2, 3, 7, 31, 100, info.max, info.max - 1, info.min, info.min + 1, info.max // 3}
    return sorted(some | ({-1, -2, -7} if info.min else set()))


def pairs(kind: str) -> tuple[list[Any], list[Any]]:
    a, b = zip(*itertools.product(edges(kind), repeat=2), strict=True)
    return list(a), list(b)


def wrapped(value: int, kind: str) -> int:
    bits = 8 * TYPES[kind].itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if TYPES[kind].kind == "i" and value >> (bits - 1) else value


def truncated(a: int, b: int) -> int:
    return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")
OF_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b,
    "min": min, "max": max, "div": truncated, "rem": lambda a, b: a - truncated(a, b) * b,
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", [*OF_INTEGERS, "mul.hi"])
def test_integers(name: str, kind: str) -> None:
    bits = 8 * TYPES[kind].itemsize
    formula = OF_INTEGERS.get(name, lambda a, b: a * b >> bits)
    a, b = pairs(kind)
    if name in ("div", "rem"):
        a, b = zip(*((x, y) for x, y in zip(a, b, strict=True) if y), strict=True)
    found = applied(f"{name}.{kind}", (kind, kind), kind, (a, b))
    assert found.tolist() == [wrapped(formula(x, y), kind) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    longer = f"{kind[0]}{2 * int(kind[1:])}"
    a, b = pairs(kind)
    found = applied(f"mul.wide.{kind}", (kind, kind), longer, (a, b))
    assert found.tolist() == [x * y for x, y in zip(a, b, strict=True)]
    c = edges(longer)[: len(a)] * len(a)
    found = applied(f"mad.wide.{kind}", (kind, kind, longer), longer, (a, b, c[: len(a)]))
    assert found.tolist() == [wrapped(x * y + z, longer) for x, y, z in zip(a, b, c, strict=False)]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64"])
def test_multiply_adds_of_integers(kind: str) -> None:
    a, b = pairs(kind)
    c = b[::-1]
    found = applied(f"mad.lo.{kind}", (kind, kind, kind), kind, (a, b, c))
    assert found.tolist() == [wrapped(x * y + z, kind) for x, y, z in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_bits(kind: str) -> None:
    a, b = pairs("u" + kind[1:])
    unsigned = "u" + kind[1:]
    for name, formula in (
        ("and", lambda x, y: x & y), ("or", lambda x, y: x | y), ("xor", lambda x, y: x ^ y),
    ):  # fmt: skip
        found = applied(f"{name}.{kind}", (kind, kind), unsigned, (a, b))
        assert found.tolist() == [formula(x, y) for x, y in zip(a, b, strict=True)]
    found = applied(f"not.{kind}", (kind,), unsigned, (a,))
    assert found.tolist() == [wrapped(~x, unsigned) for x in a]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_shifts(kind: str) -> None:
    """By as many bits as there are and more, too: zeros or signs then."""
    bits = 8 * TYPES[kind].itemsize
    a, by = zip(*itertools.product(edges(kind), (0, 1, bits - 1, bits, bits + 1, 200)), strict=True)
    found = applied(f"shr.{kind}", (kind, "u32"), kind, (a, by))
    assert found.tolist() == [x >> k for x, k in zip(a, by, strict=True)]
    found = applied(f"shl.b{bits}", (kind, "u32"), kind, (a, by))
    assert found.tolist() == [wrapped(x << k, kind) for x, k in zip(a, by, strict=True)]


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_counts_of_bits(kind: str) -> None:
    unsigned = "u" + kind[1:]
    a, bits = edges(unsigned), int(kind[1:])
    found = applied(f"popc.{kind}", (kind,), "u32", (a,)).tolist()
    assert found == [bin(x).count("1") for x in a]
    found = applied(f"clz.{kind}", (kind,), "u32", (a,)).tolist()
    assert found == [bits - len(f"{x:b}".lstrip("0")) for x in a]


def test_funnel_shifts() -> None:
    a, b = pairs("u32")
    by = [(7 * n) % 67 for n in range(len(a))]
    for side in "lr":
        found = applied(f"shf.{side}.wrap.b32", ("u32", "u32", "u32"), "u32", (a, b, by))
        for low, high, count, f in zip(a, b, by, found.tolist(), strict=True):
            both, n = high << 32 | low, count % 32
            assert f == ((both << n >> 32) if side == "l" else both >> n) & 0xFFFFFFFF


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind: str) -> None:
    a = edges(kind)
    assert applied(f"neg.{kind}", (kind,), kind, (a,)).tolist() == [wrapped(-x, kind) for x in a]
    assert applied(f"abs.{kind}", (kind,), kind, (a,)).tolist() == [
        wrapped(abs(x), kind) for x in a
    ]


def test_fields_and_bytes() -> None:
    a, b = pairs("u32")
    start, length = [(7 * n) % 33 for n in range(len(a))], [(5 * n) % 33 for n in range(len(a))]
    found = applied("bfi.b32", ("u32", "u32", "u32", "u32"), "u32", (a, b, start, length))
    for x, y, s, n, f in zip(a, b, start, length, found.tolist(), strict=True):
        mask = ((1 << n) - 1) << s & 0xFFFFFFFF
        assert f == (y & ~mask) | (x << s & mask)
    selector = [(0x9E3779B9 * n) & 0xFFFF for n in range(len(a))]
    found = applied("prmt.b32", ("u32", "u32", "u32"), "u32", (a, b, selector))
    for x, y, c, f in zip(a, b, selector, found.tolist(), strict=True):
        octets = (x | y << 32).to_bytes(8, "little")
        wanted = []
        for k in range(4):
            control = c >> 4 * k & 15
            octet = octets[control & 7]
            wanted.append((255 if octet >> 7 else 0) if control & 8 else octet)
        assert f == int.from_bytes(bytes(wanted), "little")
    for kind in ("s32", "u32"):
        c = pairs(kind)[0][: len(a)] + [0] * len(a)
        found = applied(f"dp4a.{kind}.{kind}", ("u32", "u32", kind), kind, (a, b, c[: len(a)]))
        signed = kind == "s32"
        for x, y, z, f in zip(a, b, c, found.tolist(), strict=False):
            rows = [[int.from_bytes(bytes([o]), "little", signed=signed)
                     for o in v.to_bytes(4, "little")] for v in (x, y)]  # fmt: skip
            assert f == wrapped(sum(p * q for p, q in zip(*rows, strict=True)) + z, kind)


FLOATS = ("f16", "f32", "f64")


def same(found: Any, wanted: Any) -> None:
    """Equal bits, but for which NaN it is."""
    assert found.dtype == wanted.dtype
    bits = f"u{found.itemsize}"
    equal = (found.view(bits) == wanted.view(bits)) | (np.isnan(found) & np.isnan(wanted))
    assert equal.all(), (found[~equal], wanted[~equal])


@pytest.mark.parametrize("kind", FLOATS)
def test_floats(kind: str) -> None:
    a, b = (np.array(x, TYPES[kind]) for x in pairs(kind))
    with np.errstate(all="ignore"):
        rows = {"add": a + b, "sub": a - b, "mul": a * b}
        if kind != "f16":
            rows |= {"div.rn": a / b}
    for name, wanted in rows.items():
        same(applied(f"{name}.{kind}", (kind, kind), kind, (a, b)), wanted)
    same(applied(f"neg.{kind}", (kind,), kind, (a,)), -a)
    same(applied(f"abs.{kind}", (kind,), kind, (a,)), np.abs(a))
    if kind != "f16":
        same(applied(f"sqrt.rn.{kind}", (kind,), kind, (np.abs(a),)), np.sqrt(np.abs(a)))
        same(applied(f"copysign.{kind}", (kind, kind), kind, (a, b)), np.copysign(b, a))


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("nan", ["", ".NaN"])
def test_extremes(kind: str, nan: str) -> None:
    a, b = (np.array(x, TYPES[kind]) for x in pairs(kind))

    def least(x: float, y: float) -> float:
        if math.isnan(x) or math.isnan(y):
            return math.nan if nan or (math.isnan(x) and math.isnan(y)) else y if x != x else x
        return min((x, math.copysign(1, x)), (y, math.copysign(1, y)))[0]

    least_of = [least(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    most_of = [-least(-x, -y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    same(applied(f"min{nan}.{kind}", (kind, kind), kind, (a, b)), np.array(least_of, a.dtype))
    same(applied(f"max{nan}.{kind}", (kind, kind), kind, (a, b)), np.array(most_of, a.dtype))


def to_float32(value: Fraction, mode: str) -> np.float32:
    """A fraction rounded to a float, for numbers that are no infinities."""
    if value == 0:
        return np.float32(0)
    exponent = max(math.floor(math.log2(abs(value))) - 23, -149)
    while abs(value) / Fraction(2) ** exponent >= 2**24:
        exponent += 1
    units = value / Fraction(2) ** exponent
    whole = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](units)
    return np.float32(math.ldexp(whole, exponent))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_multiply_adds_are_rounded_once(mode: str) -> None:
    """Where the sum is near the middle of two floats, where it cancels, and where subnormal."""
    rng = np.random.default_rng(35)
    x = (1 + rng.integers(1, 9, 200) * 2.0**-12).astype(np.float32)
    y = (1 + rng.integers(1, 9, 200) * 2.0**-12).astype(np.float32)
    z = rng.choice([2.0**-60, -(2.0**-60), 1.0, -1.0, 2.0**24, 0.0], 200).astype(np.float32)
    small = rng.standard_normal(200).astype(np.float32) * np.float32(2.0**-70)
    x, y, z = (np.concatenate(v) for v in ((x, small), (y, small[::-1]), (z, small * small)))
    found = applied(f"fma.{mode}.f32", ("f32",) * 3, "f32", (x, y, z))
    for a, b, c, f in zip(x, y, z, found, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert f == to_float32(exact, mode), (a, b, c)
    for name, of in (("add", lambda a, b: a + b), ("mul", lambda a, b: a * b)):
        found = applied(f"{name}.{mode}.f32", ("f32", "f32"), "f32", (x, z))
        for a, c, f in zip(x, z, found, strict=True):
            assert f == to_float32(of(Fraction(float(a)), Fraction(float(c))), mode), (name, a, c)


def test_multiply_adds_of_doubles() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((2, 300))
    z = np.where(rng.random(300) < 0.5, -x * y, rng.standard_normal(300))
    found = applied("fma.rn.f64", ("f64",) * 3, "f64", (x, y, z))
    for a, b, c, f in zip(x, y, z, found, strict=True):
        exact = float(Fraction(a) * Fraction(b) + Fraction(c))
        assert abs(f - exact) <= np.spacing(abs(exact))


@pytest.mark.parametrize("kind", ["f32", "f64", "s32", "u32", "s64", "u64", "s16", "u16"])
def test_comparisons(kind: str) -> None:
    a, b = pairs(kind)
    is_float = kind.startswith("f")
    rows: dict[str, Callable[[Any, Any], bool]] = {
        "eq": lambda x, y: x == y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
        "ne": lambda x, y: x != y and x == x and y == y,
    }  # fmt: skip
    if is_float:
        ordered = dict(rows)
        rows["nan"] = lambda x, y: x != x or y != y
        rows["num"] = lambda x, y: x == x and y == y
        for name, holds in ordered.items():
            rows[name + "u"] = lambda x, y, holds=holds: x != x or y != y or holds(x, y)
    a, b = (np.array(v, TYPES[kind]).tolist() for v in (a, b))
    for name, holds in rows.items():
        found = applied(f"setp.{name}.{kind}", (kind, kind), "pred", (a, b))
        assert found.tolist() == [int(holds(x, y)) for x, y in zip(a, b, strict=True)], name
    if kind.startswith("u"):
        for name, same_as in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
            found = applied(f"setp.{name}.{kind}", (kind, kind), "pred", (a, b))
            assert found.tolist() == [int(rows[same_as](x, y)) for x, y in zip(a, b, strict=True)]


def test_predicates() -> None:
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    for name, wanted in (("and", [0, 0, 0, 1]), ("or", [0, 1, 1, 1]), ("xor", [0, 1, 1, 0])):
        assert applied(f"{name}.pred", ("pred", "pred"), "pred", (a, b)).tolist() == wanted
    assert applied("not.pred", ("pred",), "pred", (a,)).tolist() == [1, 1, 0, 0]
    found = applied("setp.lt.and.s32", ("s32", "s32", "pred"), "pred", ([1, 1], [2, 2], [0, 1]))
    assert found.tolist() == [0, 1]
    found = applied("selp.f32", ("f32", "f32", "pred"), "f32", ([1, 1], [2, 2], [0, 1]))
    assert found.tolist() == [2, 1]


NUMBERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "f32", "f64")


@pytest.mark.parametrize("source", NUMBERS[2:])
@pytest.mark.parametrize("target", NUMBERS[2:])
def test_conversions(source: str, target: str) -> None:
    a = np.array(edges(source), TYPES[source])
    of_float, to_float = source.startswith("f"), target.startswith("f")
    rounding = ".rzi" if of_float and not to_float else ".rn" if to_float else ""
    if of_float and to_float and TYPES[source].itemsize <= TYPES[target].itemsize:
        rounding = "" if source != target else ".rni"
    found = applied(f"cvt{rounding}.{target}.{source}", (source,), target, (a,))
    if to_float:
        with np.errstate(all="ignore"):
            wanted = (np.rint(a) if rounding == ".rni" else a).astype(TYPES[target])
        same(found, wanted)
        return
    low, high = np.iinfo(TYPES[target]).min, np.iinfo(TYPES[target]).max
    bits = 8 * TYPES[target].itemsize
    of_nan = 0 if source != "f64" and bits < 64 else wrapped(1 << (bits - 1), target)
    for value, f in zip(a.tolist(), found.tolist(), strict=True):
        if not of_float:
            assert f == wrapped(value, target)
        elif math.isnan(value):
            assert f == of_nan
        else:
            assert f == (min(max(math.trunc(value), low), high) if math.isfinite(value)
                         else high if value > 0 else low)  # fmt: skip


def test_conversions_that_round_and_saturate() -> None:
    a = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, np.nan, -0.0], np.float32)
    for name, function in (
        ("rni", np.rint),
        ("rzi", np.trunc),
        ("rmi", np.floor),
        ("rpi", np.ceil),
    ):
        same(applied(f"cvt.{name}.f32.f32", ("f32",), "f32", (a,)), function(a))
    found = applied("cvt.sat.f32.f32", ("f32",), "f32", (a,))
    assert found.tolist() == [0, 0, 0, 0.5, 1, 1, 1, 0, 0]
    found = applied("cvt.sat.s16.s32", ("s32",), "s16", ([-(2**31), -5, 40000],))
    assert found.tolist() == [-32768, -5, 32767]
    found = applied("cvt.s32.s8", ("b16",), "s32", ([0x00FF, 0x017F, 0x0080],))
    assert found.tolist() == [-1, 127, -128]


def test_approximations() -> None:
    a = np.array([0.25, 1.0, 3.0, 100.0, 1e-40], np.float32)
    with np.errstate(all="ignore"):
        for name, function in (
            ("ex2", np.exp2), ("lg2", np.log2), ("rsqrt", lambda x: 1 / np.sqrt(x)),
            ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("rcp", lambda x: 1 / x),
            ("sqrt", np.sqrt),
        ):  # fmt: skip
            wanted = function(a.astype(np.float64)).astype(np.float32)
            found = applied(f"{name}.approx.f32", ("f32",), "f32", (a,))
            same(found, wanted)
    flushed = applied("mul.ftz.f32", ("f32", "f32"), "f32", (a, np.full(5, 1e-39, np.float32)))
    assert flushed.tolist() == [0] * 5


# --- memory -----------------------------------------------------------------------------------


def test_vectors_bytes_and_signs() -> None:
    a = np.arange(-64, 64, dtype=np.int8)
    out = np.zeros(32, np.int32)
    body = """
    mad.wide.u32 %d10, %r0, 4, %d0;
    ld.global.nc.v4.s8 {%r1, %r2, %r3, %r4}, [%d10];
    mad.lo.s32 %r5, %r1, 1000, %r4;
    mad.wide.u32 %d11, %r0, 4, %d1;
    st.global.u32 [%d11+0], %r5;
    """
    rows = a.reshape(32, 4).astype(np.int32)
    assert (launched(body, a, out)[1] == rows[:, 0] * 1000 + rows[:, 3]).all()


def test_moves_of_parts() -> None:
    out = np.zeros(32, np.uint64)
    body = """
    mov.b32 {%h1, %h2}, 0x00020001;
    mov.b32 %r1, {%h2, %h1};
    mov.b64 %d10, {%r1, %r0};
    mov.b64 {%r2, _}, %d10;
    xor.b32 %r2, %r2, %r1;
    mov.b64 {_, %r3}, %d10;
    mov.b64 %d11, {%r1, %r3};
    mad.wide.u32 %d12, %r0, 8, %d0;
    @!%p1 st.global.u64 [%d12], %d11;
    """
    (found,) = launched("setp.ne.s32 %p1, 0, 0;\n" + body, out)
    assert (found == (np.arange(32, dtype=np.uint64) << np.uint64(32)) + np.uint64(0x10002)).all()


def test_shared_local_and_generic_memory() -> None:
    """What a thread has put into its own and into shared memory, by generic addresses too."""
    out = np.zeros(64, np.uint32)
    body = """
    .shared .align 16 .b8 tile[256];
    .local .align 8 .b8 own[16];
    mov.u64 %d10, own;
    cvta.local.u64 %d11, %d10;
    st.local.u32 [%d10+4], %r0;
    ld.u32 %r1, [%d11+4];
    mov.u32 %r2, tile;
    mad.lo.s32 %r3, %r0, 4, %r2;
    st.shared.u32 [%r3], %r1;
    bar.sync 0;
    cvta.shared.u64 %d12, 0;
    sub.s64 %d13, 63, %d31;
    mad.lo.s64 %d14, %d13, 4, %d12;
    ld.u32 %r4, [%d14];
    cvta.to.global.u64 %d0, %d0;
    mad.wide.u32 %d15, %r0, 4, %d0;
    st.global.u32 [%d15], %r4;
    """
    assert (launched(body, out, threads=64)[0] == np.arange(64)[::-1]).all()


def test_addresses_of_32_bits() -> None:
    """A register below all of shared memory, and what is added to it."""
    out = np.zeros(64, np.uint32)
    body = """
    .shared .align 16 .b8 tile[256];
    mov.u32 %r2, tile;
    mad.lo.s32 %r3, %r0, 4, %r2;
    add.s32 %r3, %r3, -256;
    st.shared.u32 [%r3+256], %r0;
    ld.shared.u32 %r4, [%r3+256];
    mad.wide.u32 %d15, %r0, 4, %d0;
    st.global.u32 [%d15], %r4;
    """
    assert (launched(body, out, threads=64)[0] == np.arange(64)).all()
    with pytest.raises(PtxError, match="out of bounds"):
        launched(body.replace("[%r3+256]", "[%r3+252]"), out, threads=64)


def test_atomics() -> None:
    counts = np.array([0] * 8 + [1], np.uint32)
    body = """
    and.b32 %r1, %r0, 3;
    mad.wide.u32 %d10, %r1, 4, %d0;
    atom.global.add.u32 %r2, [%d10], 2;
    red.global.max.u32 [%d10+16], %r0;
    setp.eq.s32 %p1, %r0, 9;
    @%p1 atom.global.cas.b32 %r3, [%d0+32], 1, %r0;
    atom.global.exch.b32 %r3, [%d0+12], 7;
    """
    assert launched(body, counts)[0].tolist() == [16, 16, 16, 7, 28, 29, 30, 31, 9]


def test_branches_and_blocks() -> None:
    """Threads that go round a loop as often as their number says."""
    out = np.zeros(64, np.uint32)
    body = """
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
    mad.lo.s32 %r3, %r1, %r2, %r0;
    mov.u32 %r4, 0; mov.u32 %r5, 0;
    $again:
    setp.ge.u32 %p1, %r4, %r3;
    @%p1 bra $done;
    add.s32 %r4, %r4, 1;
    add.s32 %r5, %r5, %r4;
    bra.uni $again;
    $done:
    mad.wide.u32 %d10, %r3, 4, %d0;
    st.global.u32 [%d10], %r5;
    """
    found = launched(body, out, grid=2)[0]
    assert found.tolist() == [n * (n + 1) // 2 for n in range(64)]


# --- warps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["bfly", "up", "down", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(mode: str, width: int) -> None:
    """In segments of 8 lanes, too; who would read beyond keeps its own."""
    out, inside = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    clamp = ((32 - width) << 8) | (0 if mode == "up" else 31)
    body = f"""
    add.s32 %r1, %r0, 100;
    shfl.sync.{mode}.b32 %r2|%p1, %r1, 3, {clamp}, -1;
    selp.u32 %r3, 1, 0, %p1;
    mad.wide.u32 %d10, %r0, 4, %d0;  st.global.u32 [%d10], %r2;
    mad.wide.u32 %d11, %r0, 4, %d1;  st.global.u32 [%d11], %r3;
    """
    found = launched(body, out, inside, threads=64)
    for thread in range(64):
        first = thread // width * width
        source = {"bfly": thread ^ 3, "up": thread - 3, "down": thread + 3, "idx": first + 3}[mode]
        fits = first <= source < first + width
        assert found[1][thread] == fits
        assert found[0][thread] == 100 + (source if fits else thread)


MATRICES = """
    .shared .align 16 .b8 tile[2048];
    mov.u32 %r1, tile;
    mad.wide.u32 %d10, %r0, 16, %d0;
    mad.lo.s32 %r2, %r0, 16, %r1;
    ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d10];
    st.shared.v4.b32 [%r2], {%r3, %r4, %r5, %r6};
    bar.sync 0;
"""


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_a_warp(count: int, transposed: str) -> None:
    rows = np.arange(32 * 8, dtype=np.uint16).reshape(4, 8, 8)
    out = np.zeros((32, count), np.uint32)
    registers = ", ".join(f"%r{10 + n}" for n in range(count))
    stores = "".join(f"st.global.u32 [%d11+{4 * n}], %r{10 + n};\n" for n in range(count))
    body = f"""{MATRICES}
    ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{registers}}}, [%r2];
    mad.wide.u32 %d11, %r0, {4 * count}, %d1;
    {stores}"""
    found = launched(body, rows, out)[1].view(np.uint16).reshape(32, count, 2)
    for lane, matrix, half in itertools.product(range(32), range(count), range(2)):
        row, column = lane // 4, 2 * (lane % 4) + half
        place = (column, row) if transposed else (row, column)
        assert found[lane, matrix, half] == rows[(matrix, *place)]


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32"])
def test_products_of_a_warp(kind: str) -> None:
    """A and B by ldmatrix, as the manual's example has it, against numpy's product. A row has 32
    bytes."""
    rng, steps = np.random.default_rng(16), 8 if kind == "tf32" else 16
    a, b = rng.integers(-8, 9, (16, steps)), rng.integers(-8, 9, (8, steps))

    def halves(x: Any) -> Any:
        if kind == "f16":
            return x.astype(np.float16).view(np.uint16)
        words = x.astype(np.float32).view(np.uint32)
        return words.view(np.uint16) if kind == "tf32" else (words >> np.uint32(16)).astype("u2")

    content = np.zeros(32 * 8 * 4, np.uint16)
    content[:256], content[256:384] = halves(a).ravel(), halves(b).ravel()
    c = rng.integers(-99, 99, (16, 8)).astype(np.float32)
    body = f"""
    .shared .align 16 .b8 tile[2048];
    mov.u32 %r1, tile;
    mad.wide.u32 %d10, %r0, 16, %d0;
    mad.lo.s32 %r2, %r0, 16, %r1;
    ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%d10];
    st.shared.v4.b32 [%r2], {{%r3, %r4, %r5, %r6}};
    setp.gt.u32 %p1, %r0, 15;
    @!%p1 ld.global.v4.u32 {{%r3, %r4, %r5, %r6}}, [%d10+512];
    @!%p1 st.shared.v4.b32 [%r2+512], {{%r3, %r4, %r5, %r6}};
    bar.sync 0;
    and.b32 %r3, %r0, 15;  shr.u32 %r4, %r0, 4;
    mad.lo.s32 %r5, %r3, 32, %r1;  mad.lo.s32 %r5, %r4, 16, %r5;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r5];
    and.b32 %r3, %r0, 7;  shr.u32 %r4, %r0, 3;  and.b32 %r4, %r4, 1;
    mad.lo.s32 %r5, %r3, 32, %r1;  mad.lo.s32 %r5, %r4, 16, %r5;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14, %r15}}, [%r5+512];
    shr.u32 %r6, %r0, 2;  and.b32 %r7, %r0, 3;
    mad.wide.u32 %d12, %r6, 32, %d1;  mad.wide.u32 %d12, %r7, 8, %d12;
    ld.global.v2.f32 {{%f0, %f1}}, [%d12];
    ld.global.v2.f32 {{%f2, %f3}}, [%d12+256];
    mma.sync.aligned.m16n8k{steps}.row.col.f32.{kind}.{kind}.f32 {{%f0, %f1, %f2, %f3}},
        {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
    st.global.v2.f32 [%d12], {{%f0, %f1}};
    st.global.v2.f32 [%d12+256], {{%f2, %f3}};
    """
    assert (launched(body, content, c)[1] == a @ b.T + c).all()


def test_rounding_to_tf32() -> None:
    """Ties away from 0, numbers below 2**-126 to multiples of 2**-136; the largest are infinite."""
    eleven = np.float32([1 + 2.0**-10, 1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-23, 2 - 2.0**-23])
    few = np.float32([2.0**-137, 2.0**-137 - 2.0**-149, 3.4028e38, np.inf, -0.0])
    x = np.concatenate([eleven, few, -eleven, -few, np.zeros(14, np.float32)]).astype(np.float32)
    body = """
    mad.wide.u32 %d10, %r0, 4, %d0;  mad.wide.u32 %d11, %r0, 4, %d1;
    ld.global.f32 %f0, [%d10];
    cvt.rna.tf32.f32 %r1, %f0;
    st.global.u32 [%d11], %r1;
    """
    found = launched(body, x, np.zeros(32, np.uint32))[1].view(np.float32)
    rounded = [1 + 2.0**-10, 1 + 2.0**-10, 1, 2, 2.0**-136, 0.0, np.inf, np.inf, -0.0]
    wanted = np.float32([*rounded, *(-value for value in rounded)])
    np.testing.assert_array_equal(found[:18].view(np.uint32), wanted.view(np.uint32))


ASYNC = """
    .shared .align 16 .b8 tile[1024];
    mov.u32 %r1, tile;
    mad.lo.s32 %r2, %r0, 16, %r1;
    mad.wide.u32 %d10, %r0, 16, %d0;
    mad.wide.u32 %d11, %r0, 4, %d1;
    cp.async.cg.shared.global [%r2], [%d10], 16, 8;
    cp.async.commit_group;
    cp.async.ca.shared.global [%r2+512], [%d10], 8;
    cp.async.commit_group;
"""


def test_copies_that_are_waited_for() -> None:
    a, out = np.arange(1, 129, dtype=np.uint32), np.zeros(64, np.uint32)
    read = "ld.shared.u32 %r3, [%r2+{}];\nst.global.u32 [%d11+{}], %r3;\n"
    first = ASYNC + "cp.async.wait_group 1;\n" + read.format(4, 0) + read.format(516, 128)
    found = launched(first, a, out)[1]
    assert (found[:32] == a[1::4]).all()
    assert (found[32:] == 0xFFFFFFFF).all(), "poison: only the first group has arrived"
    found = launched(
        ASYNC + "cp.async.wait_all;\n" + read.format(8, 0) + read.format(516, 128), a, out
    )[1]
    assert (found[:32] == 0).all(), "beyond the 8 bytes that are read there are zeros"
    assert (found[32:] == a[1::4]).all()


# --- errors -----------------------------------------------------------------------------------

ERRORS = {
    "out of bounds": (
        "mad.wide.u32 %d10, %r0, 8, %d0;\nld.global.f32 %f1, [%d10];",
        "ld.global.f32 %f1, [%d10]: bytes 128 to 131 of array 0, which has 128, are out of bounds; "
        "block (0, 0, 0), thread (16, 0, 0)",
    ),
    "no array": (
        "mov.u64 %d10, 64;\nst.global.u32 [%d10], %r0;",
        "st.global.u32 [%d10], %r0: the address is in no array: out of bounds; "
        "block (0, 0, 0), thread (0, 0, 0)",
    ),
    "misaligned": (
        "and.b32 %r1, %r0, 7;\nmad.wide.u32 %d10, %r1, 4, %d0;\n"
        "ld.global.v2.f32 {%f1, %f2}, [%d10];",
        "ld.global.v2.f32 {%f1, %f2}, [%d10]: 0x10000000004 is no multiple of 8: misaligned; "
        "block (0, 0, 0), thread (1, 0, 0)",
    ),
    "shared memory": (
        ".shared .align 4 .b8 tile[64];\nmov.u32 %r1, tile;\nmad.lo.s32 %r1, %r0, 4, %r1;\n"
        "st.shared.u32 [%r1], %r0;",
        "st.shared.u32 [%r1], %r0: bytes 64 to 67 of shared memory, which has 64, are out of "
        "bounds; block (0, 0, 0), thread (16, 0, 0)",
    ),
    "a shuffle in part": (
        "setp.eq.s32 %p1, %r0, 7;\n@%p1 bra $out;\nshfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\n$out:",
        "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1: only a part of a warp meets it; "
        "block (0, 0, 0), thread (0, 0, 0)",
    ),
    "a shuffle of another lane": (
        "setp.gt.u32 %p1, %r0, 7;\n@%p1 bra $out;\nshfl.sync.idx.b32 %r1, %r0, 9, 31, 255;\n$out:",
        "shfl.sync.idx.b32 %r1, %r0, 9, 31, 255: it reads of a lane that takes no part; "
        "block (0, 0, 0), thread (0, 0, 0)",
    ),
    "ldmatrix in part": (
        ".shared .align 16 .b8 tile[512];\nmov.u32 %r1, tile;\nsetp.eq.s32 %p1, %r0, 0;\n"
        "@!%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];",
        "@!%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1]: only a part of a warp meets "
        "it; block (0, 0, 0), thread (1, 0, 0)",
    ),
    "mma in part": (
        "setp.lt.u32 %p1, %r0, 16;\n@%p1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f0, %f1, %f2, %f3};",
        "@%p1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, "
        "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f0, %f1, %f2, %f3}: only a part of a warp meets it; "
        "block (0, 0, 0), thread (0, 0, 0)",
    ),
    "a factor that is not rounded": (
        "mov.u32 %r1, 0x3f800000;\nadd.u32 %r1, %r1, %r0;\n"
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f0, %f1, %f2, %f3};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, "
        "{%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f0, %f1, %f2, %f3}: a factor is not rounded to tf32; "
        "block (0, 0, 0), thread (1, 0, 0)",
    ),
    "a barrier in part": (
        "setp.eq.s32 %p1, %r0, 3;\n@%p1 bra $out;\nbar.sync 0;\n$out:",
        "bar.sync 0: a part of the block does not meet this barrier; "
        "block (0, 0, 0), thread (3, 0, 0)",
    ),
    "a copy that is misaligned": (
        ".shared .align 16 .b8 tile[64];\nmov.u32 %r1, tile;\n"
        "cp.async.ca.shared.global [%r1], [%d0+4], 8;",
        "cp.async.ca.shared.global [%r1], [%d0+4], 8: 0x10000000004 is no multiple of 8: "
        "misaligned; block (0, 0, 0), thread (0, 0, 0)",
    ),
    "a race": (
        ".shared .align 4 .b8 tile[4];\nst.shared.u32 [tile], %r0;\nld.shared.u32 %r1, [tile];\n"
        "mad.wide.u32 %d10, %r0, 4, %d0;\nst.global.u32 [%d10], %r1;",
        "k: array 0 depends on which warp comes first: a race; block (0, 0, 0)",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    body, message = ERRORS[name]
    with pytest.raises(PtxError, match=re.escape(message) + "$"):
        launched(body, np.zeros(32, np.float32))


def test_races_of_warps() -> None:
    """Of 64 threads each reads what one of the other warp has written."""
    body = """
    .shared .align 4 .b8 tile[256];
    mov.u32 %r1, tile;
    mad.lo.s32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0;
    {}
    xor.b32 %r3, %r0, 32;
    mad.lo.s32 %r4, %r3, 4, %r1;
    ld.shared.u32 %r5, [%r4];
    mad.wide.u32 %d10, %r0, 4, %d0;
    st.global.u32 [%d10], %r5;
    """
    out = np.zeros(64, np.uint32)
    found = launched(body.format("bar.sync 0;"), out, threads=64)[0]
    assert (found == np.arange(64) ^ 32).all()
    with pytest.raises(PtxError, match="a race"):
        launched(body.format(""), out, threads=64)


def test_endless_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.ptx.machine.MOST_STEPS", 1000)
    with pytest.raises(PtxError, match=r"bra \$again: it goes on without an end"):
        launched("$again:\nbra $again;", np.zeros(1))


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.fence.sync.aligned;",
        "add.rz.f64 %d1, %d2, %d3;",
        "lop3.b32 %r1, %r2, %r3, %r4, 96;",
        "bar.sync 1, 64;",
        "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0}, {%r1}, {%r2}, {%f0};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0}, {%r1}, {%r2}, {%f0};",
        "cvt.rn.tf32.f32 %r1, %f1;",
    ],
)
def test_what_it_cannot_read(text: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(text[:-1])):
        launched(text, np.zeros(1))
