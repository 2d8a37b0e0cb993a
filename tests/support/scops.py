"""Programs for the polyhedral stages, at sizes small enough to enumerate their instances."""

from __future__ import annotations

from dataclasses import dataclass, field

from tc.polyhedral.scop.dependences import Dependences, compute_dependences
from tc.polyhedral.scop.scop import Scop, build_scop
from tests.support.programs import TEXTS
from tests.support.sizes_of_call import shape


@dataclass(frozen=True)
class Small:
    """A text, its sizes, and the outputs that the caller gives."""

    name: str
    text: str
    sizes: dict[str, int]
    initial: frozenset[str] = field(default=frozenset())

    def scop(self) -> Scop:
        entry = self.name if "def " in self.text[4:] else None
        return build_scop(shape(self.text, entry, **self.sizes), self.initial)


def scop_of(text: str, initial: frozenset[str] = frozenset(), **sizes: int) -> Scop:
    return Small("", text, sizes, initial).scop()


def dependences_of(text: str, initial: frozenset[str] = frozenset(), **sizes: int) -> Dependences:
    return compute_dependences(scop_of(text, initial, **sizes))


def _file(name: str, initial: frozenset[str] = frozenset(), **sizes: int) -> Small:
    return Small(name, (TEXTS / f"{name}.tc").read_text(encoding="utf-8"), sizes, initial)


UPSAMPLE = """def upsample(float(N,C,H) I, float(C,K) W) -> (O) {
  P(n,c,h,k) = I(n,c,h) * W(c,k)
  O(n,c,x) +=! pad(P(n,c,x/2-k,2*k+x%2), 0) where x in 0:2*H, k in 0:2
}"""
"""A transposed convolution of stride 2, gathered; its subscripts are not linear."""

CHAIN = """def chain(float(N,M) a) -> (d) {
  b(i,j) = a(i,j) + a(i,j+1)
  c(i,j) = b(i,j) * b(i+1,j)
  d(i,j) = c(i,j+2) - c(i,j)
}"""

SHIFTED = """def shifted(float(N) a) -> (b, c) {
  b(i) = a(i) * 2
  c(i) = b(i+1) + 1
}"""

MOMENTS = """def moments(float(N,D) x) -> (s, q) {
  s(n) +=! x(n,d)
  q(n) +=! x(n,d) * x(n,d)
}"""

REUSE = """def reuse(float(N,D) x) -> (m, e, f) {
  m(n) max=! x(n,d)
  e(n,d) = x(n,d) - m(n)
  m(n) +=! e(n,d)
  f(n,d) = e(n,d) / m(n)
}"""
"""m starts twice, the second time after e has read it."""

PROGRAMS: tuple[Small, ...] = (
    _file("mm", X=3, Y=4, Z=2),
    _file("sgemm", frozenset({"C"}), N=3, M=4, K=2),
    _file("fcrelu", B=3, I=4, O=2),
    _file("MLP3", B=3, N=4, O=3, P=2, Q=3),
    _file("softmax", N=3, D=4),
    _file("stable_softmax", N=3, D=4),
    _file("layernorm", N=3, D=4),
    _file("conv2d", B=2, IP=2, H=4, W=3, OP=2, KH=2, KW=2),
    _file("conv_pad", N=1, C=2, H=3, W=2, M=1, KH=3, KW=2),
    _file("gconv", N=1, G=2, C=2, H=3, W=3, F=2, KH=2, KW=1),
    _file("2LUT", E1=5, D=3, B=2, L1=3, E2=4, L2=2),
    _file("maxpool2x2", B=2, C=2, H=4, W=4),
    _file("stencil", T=2, N=9),
    _file("attention", B=2, T=2, D=3, S=3, E=2),
    _file("outer_sum", N=3, M=4),
    _file("reverse_bool", N=4),
    _file("prodModel", E1=3, D=2, B=2, L1=2, E2=3, L2=2, WX=3, WY=3, N=2, M=7, O=2, P=3, Q=2),
    Small("upsample", UPSAMPLE, {"N": 2, "C": 2, "H": 3, "K": 4}),
    Small("chain", CHAIN, {"N": 4, "M": 6}),
    Small("shifted", SHIFTED, {"N": 6}),
    Small("moments", MOMENTS, {"N": 3, "D": 4}),
    Small("reuse", REUSE, {"N": 3, "D": 4}),
)


def program(name: str) -> Small:
    return next(p for p in PROGRAMS if p.name == name)
