"""How the names of a kernel are spelt in C: close to the program, and free of clashes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tc.kernel.ir import For, If, Kernel, Let, Stmt

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

_RESERVED = frozenset(
    (*_KEYWORDS, *LIBRARY, *(f + "f" for f in LIBRARY), *(f + "l" for f in LIBRARY))
)
_RESERVED_FUNCTIONS = _RESERVED.union(
    _OTHER_FUNCTIONS, (f + "f" for f in _OTHER_FUNCTIONS), (f + "l" for f in _OTHER_FUNCTIONS)
)
_RESERVED_FORMS = re.compile(
    r"_.*|tc_.*|u?int\w*_t|(u?int|float)\d+x\d+"
    r"|(size|ptrdiff|wchar|float|double)_t|U?INT(8|16|32|64|MAX|PTR|_LEAST|_FAST)\w*"
    r"|(FP|MATH|M|SIZE|PTRDIFF|SIG_ATOMIC|WCHAR|WINT)_\w*"
)
_PREFIX = "v_"


@dataclass(frozen=True)
class Names:
    """The spelling of a kernel's function, buffers and variables."""

    function: str
    buffers: Mapping[str, str]
    variables: Mapping[str, str]

    @classmethod
    def of(cls, kernel: Kernel) -> Names:
        taken: set[str] = set()
        function = _spell(kernel.name, taken, _RESERVED_FUNCTIONS)
        buffers = {b.name: _spell(b.name, taken, _RESERVED) for b in kernel.buffers}
        variables: dict[str, str] = {}
        for region in kernel.regions:
            _add_variables(region, variables, taken)
        return cls(function, buffers, variables)


def _add_variables(stmts: tuple[Stmt, ...], variables: dict[str, str], taken: set[str]) -> None:
    for stmt in stmts:
        if isinstance(stmt, For | Let) and stmt.var not in variables:
            variables[stmt.var] = _spell(stmt.var, taken, _RESERVED)
        if isinstance(stmt, For):
            _add_variables(stmt.body, variables, taken)
        if isinstance(stmt, If):
            _add_variables(stmt.then, variables, taken)
            _add_variables(stmt.otherwise, variables, taken)


def _spell(name: str, taken: set[str], reserved: frozenset[str]) -> str:
    """A C name like this one, neither reserved nor taken; then it is taken.

    >>> _spell("2LUT", set(), _RESERVED), _spell("MLP1#2.t", set(), _RESERVED)
    ('v_2LUT', 'MLP1_2_t')
    >>> _spell("float", set(), _RESERVED), _spell("a", {"a"}, _RESERVED)
    ('v_float', 'a_1')
    """
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    clashes = plain in reserved or _RESERVED_FORMS.fullmatch(plain) is not None
    if clashes or not plain or plain[0].isdigit():
        plain = _PREFIX + plain
    spelling, count = plain, 0
    while spelling in taken:
        count += 1
        spelling = f"{plain}_{count}"
    taken.add(spelling)
    return spelling
