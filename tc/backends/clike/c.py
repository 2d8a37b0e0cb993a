"""The dialect C: C99, with the vectors of GCC and Clang where a kernel has any."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tc.backends.clike.dialect import Dialect, Reserved, VectorPrinter
from tc.backends.clike.gcc_faults import pragmas
from tc.backends.clike.instructions import HEADER
from tc.backends.clike.masks import bits_of_local
from tc.backends.clike.types import C_TYPES, VECTOR_PRAGMA, typedef_texts
from tc.backends.clike.vector_helpers import vector_helper_text
from tc.backends.clike.vector_memory import prefetch_lines
from tc.backends.clike.vectors import local_type_text, local_value, vector_store_text, vector_text
from tc.dtypes import INT32, INT64, UINT32, UINT64, DType
from tc.kernel.ir import Kernel

# keywords, macros that headers define, and the functions that compilers know undeclared
_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union unsigned
void volatile while asm typeof bool true false complex imaginary status workspace main NULL EOF
INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL MAXFLOAT DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS linux
unix i386
""".split()  # noqa: SIM905
LIBRARY = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2
logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalbln
scalbn sin sinh sqrt tan tanh tgamma trunc
""".split()  # noqa: SIM905
_OTHER_FUNCTIONS = """
abort abs atexit atof atoi atol atoll bcmp bcopy bsearch bzero calloc clock cabs carg cexp cimag
clog conj cpow cproj creal csqrt div drem exit exp10 fclose ffs fopen fpclassify fprintf fputc
fputs fread free fscanf fwrite gamma getchar getenv gets index isalnum isalpha isblank iscntrl
isdigit isfinite isgraph isgreater isgreaterequal isinf isless islessequal islessgreater islower
isnan isnormal isprint ispunct isspace isunordered isupper isxdigit j0 j1 jn labs ldiv llabs lldiv
malloc max memchr memcmp memcpy memmove memset min mempcpy perror pow10 printf putchar puts qsort
raise rand realloc remove rename rewind rindex scalb scanf signal signbit significand sincos
snprintf sprintf srand sscanf stpcpy strcat strchr strcmp strcpy strcspn strdup strlen strncat
strncmp strncpy strpbrk strrchr strspn strstr strtod strtok strtol system time tolower toupper
vprintf y0 y1 yn
""".split()  # noqa: SIM905


def _with_suffixes(*names: str) -> frozenset[str]:
    """Functions of doubles, of floats and of long doubles."""
    return frozenset(name + suffix for name in names for suffix in ("", "f", "l"))


_WORDS = _with_suffixes(*LIBRARY).union(_KEYWORDS)
RESERVED = Reserved(
    words=_WORDS,
    functions=_WORDS | _with_suffixes(*_OTHER_FUNCTIONS),
    forms=re.compile(
        r"_.*|tc_.*|u?int\w*_t|(u?int|float)\d+x\d+"
        r"|(size|ptrdiff|wchar|float|double)_t|U?INT(8|16|32|64|MAX|PTR|_LEAST|_FAST)\w*"
        r"|(FP|MATH|M|SIZE|PTRDIFF|SIG_ATOMIC|WCHAR|WINT)_\w*"
    ),
)

_INCLUDES = (
    ("#include <math.h>", rf"\b(INFINITY|NAN|({'|'.join(LIBRARY)})f?\()"),
    ("#include <stdbool.h>", r"\b(bool|true|false)\b"),
    ("#include <stdint.h>", r"\w_t\b"),
    (HEADER, r"\b_mm\d*_"),
)
"""Lines of a text, each with a pattern that matches the texts that need the line."""


def _preamble(kernel: Kernel, text: str) -> Iterator[str]:
    yield from pragmas(kernel)
    vectors = typedef_texts(text)
    whole = "\n".join((*vectors, text))
    if includes := [line for line, used in _INCLUDES if re.search(used, whole)]:
        yield "\n".join(includes)
    if vectors:
        yield "\n".join((VECTOR_PRAGMA, *vectors))


def _integer(value: int, dtype: DType) -> str:
    """A constant of exactly its type."""
    if dtype in (INT32, INT64) and value == -(2 ** (dtype.bits - 1)):
        return f"{dtype.name.upper()}_MIN"
    if dtype in (INT64, UINT64):
        return f"{'-' if value < 0 else ''}{dtype.name.upper()}_C({abs(value)})"
    return f"{value}u" if dtype == UINT32 else str(value)


C99 = Dialect(
    name="C",
    types=C_TYPES,
    integer=_integer,
    infinity=lambda _dtype: "INFINITY",
    nan=lambda _dtype: "NAN",
    suffix="f",
    native={},
    respelt=lambda helper: helper,
    reserved=RESERVED,
    preamble=_preamble,
    head=lambda _grid: "void",
    space="",
    restrict="restrict",
    unused="(void){};",
    aligned="",
    unroll="#pragma GCC unroll {count}",
    fails=lambda number: ("if (status[0] == 0) {", f"    status[0] = {number};"),
    launch=None,
    prefetch=prefetch_lines,
    vectors=VectorPrinter(
        vector_text,
        vector_store_text,
        local_type_text,
        local_value,
        bits_of_local,
        vector_helper_text,
    ),
)
