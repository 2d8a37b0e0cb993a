"""Functions of scipy that C lacks, as C: inverses of the error function, its scaled complement, and
Bessel functions.

All compute in double. Each range of the argument has a polynomial, or a quotient of two, with the
lowest power first. Polynomials interpolate at the zeros of Chebyshev's polynomial, and quotients
are fitted there by least squares of the relative error; both were computed with 60 digits, and
without rounding are off by less than a tenth of a unit in the last place of a double.

The largest errors that were found stand in spec/functions.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tc.backends.clike.templates import function

# --- coefficients -----------------------------------------------------------------------------

# erfinv(x) / x for |x| <= 0.75, in 0.5625 - x*x
_MIDDLE_ABOVE = (
    1.0845597967968248, 7.253241827453406, 18.552722466406347, 22.757552266427275,
    13.740460083320787, 3.748522563262108, 0.36031585277151273, 0.0054619998914364485,
)  # fmt: skip

_MIDDLE_BELOW = (
    1.0, 7.2064769130191655, 20.22520916411237, 27.948780363332563, 19.80924981369543,
    6.8121868390126314, 0.9576322923146925, 0.034941630120068526,
)  # fmt: skip

# erfcinv(z) for r = sqrt(-log(z)) in [1.177, 4], in r - 1.177
_TAIL_ABOVE = (
    0.8130052853895235, 3.113866033179495, 5.043889835208229, 4.47203530867486,
    2.331906147340604, 0.7105972989087238, 0.11835805506713383, 0.009397566618990032,
    0.00025503257630168913,
)  # fmt: skip

_TAIL_BELOW = (
    1.0, 2.586481512661672, 2.9006986412054934, 1.7576726333134975, 0.5985397687036617,
    0.10827732876983803, 0.009099549764952116, 0.00025501715720684884,
)  # fmt: skip

# and for r in [4, 27.4], where z is at least the smallest double, in r - 4
_FAR_TAIL_ABOVE = (
    3.7513593440414827, 4.589806562776475, 2.340841723708521, 0.6438696978346333,
    0.10330380920901117, 0.009780632437155589, 0.0005288276073067095, 1.5079096462313568e-05,
    1.9423649104840417e-07, 7.940408212989048e-10,
)  # fmt: skip

_FAR_TAIL_BELOW = (
    1.0, 0.9484438089791835, 0.36425937268349207, 0.07239776843190751, 0.007922565909565216,
    0.0004720621700772989, 1.4317587218947078e-05, 1.9106125212660335e-07,
    7.940399346550378e-10,
)  # fmt: skip

# erfcx(x) for x in [0, 4]
_ERFCX_ABOVE = (
    1.0, 1.8114842801533588, 1.6449464254453836, 0.9375506739218002, 0.36152833230678705,
    0.09590974581511555, 0.017063848845427856, 0.0018652451336634275, 9.649409232180725e-05,
)  # fmt: skip

_ERFCX_BELOW = (
    1.0, 2.9398634472488716, 3.9622270934266, 3.2208345122607507, 1.745144248496329,
    0.655825373098469, 0.17164896281830508, 0.030330379088383715, 0.0033060617895563286,
    0.00017103130817010682,
)  # fmt: skip

# x * erfcx(x) for x >= 4, in 1 / (x*x)
_FAR_ERFCX_ABOVE = (
    0.5641895835477563, 17.020174753268527, 177.7958583455901, 786.508678794447,
    1436.3971296985076, 869.5435924495059, 76.43275243611434,
)  # fmt: skip

_FAR_ERFCX_BELOW = (
    1.0, 30.667474284515645, 329.7186909419508, 1537.7840762573103, 3118.4896581943594,
    2393.6311528116976, 456.2154096795686,
)  # fmt: skip

# for x in [0, 5], in u = x*x / 12.5 - 1: j0(x), j1(x) / x, and y0(x) and y1(x) / x without their
# terms with log(x) and 1 / x
_J0 = (
    -0.3847445098140454, -0.21650541389819178, 0.7094160035335418, -0.36018076595038634,
    0.08539182354259656, -0.012035214154329392, 0.0011343635095873478, -7.683433602057727e-05,
    3.928508884801871e-06, -1.5718428565138998e-07, 5.05929853764489e-09,
    -1.3389957576848749e-10, 2.9662824489353906e-12, -5.5870798257479657e-14,
    9.04252577921691e-16,
)  # fmt: skip

_J1 = (
    0.03464086622371068, -0.22701312113073338, 0.17288676765618544, -0.054650767067261796,
    0.009628171323463516, -0.001088988969203854, 8.605445634303652e-05,
    -5.028491372546286e-06, 2.263453713594767e-07, -8.094877660471482e-09,
    2.3566323235455013e-10, -5.695262063084007e-12, 1.1621889603402637e-13,
    -2.0256137801818856e-15,
)  # fmt: skip

_Y0 = (
    0.4837248578102995, -0.4326558222855125, -0.4705763655297288, 0.38851639956570944,
    -0.11151682184328618, 0.01763534538933876, -0.0018028096665526022, 0.0001299462909208217,
    -6.985504367742786e-06, 2.914220688963699e-07, -9.720964498315574e-09,
    2.653997524870454e-10, -6.043180387114119e-12, 1.1666039506524883e-13,
    -1.9304457499806366e-15,
)  # fmt: skip

_Y1 = (
    0.13974939033568806, 0.09108650838448444, -0.16312020358118715, 0.06634695354779108,
    -0.013433433740818165, 0.001668803132863594, -0.00014141835794484212,
    8.733098304849315e-06, -4.1137780795312214e-07, 1.528890182483862e-08,
    -4.6013010745671044e-10, 1.1448944556867688e-11, -2.397782335135821e-13,
    4.2776864260420625e-15,
)  # fmt: skip

# Hankel's P and x*Q of order 0 for x >= 5, in 1 / (x*x)
_P0_ABOVE = (
    1.0, 131.58972346906984, 5386.333462720202, 83262.25721968447, 470454.63060744776,
    781034.4811738635, 186820.54410994536,
)  # fmt: skip

_P0_BELOW = (
    1.0, 131.66003596906975, 5395.478656899876, 83627.43336449804, 475798.87187717186,
    807509.289870115, 216796.24761287417,
)  # fmt: skip

_Q0_ABOVE = (
    -0.125, -26.335243373410993, -1868.1085472474406, -55965.300093094615, -728137.282991153,
    -3789483.4622330237, -6166987.201346709, -1356198.0397626266,
)  # fmt: skip

_Q0_BELOW = (
    1.0, 211.26788448728786, 15066.841290032959, 456180.6048660946, 6067742.248179402,
    33213822.37469611, 61925248.40935265, 23921428.95388561,
)  # fmt: skip

# and of order 1
_P1_ABOVE = (
    1.0, 129.38927913073954, 5187.475687525497, 78143.12493900265, 427873.0675718228,
    689861.975971938, 178847.36262141683,
)  # fmt: skip

_P1_BELOW = (
    1.0, 129.27209163073962, 5172.4708098439205, 77554.93988482666, 419449.86461769714,
    649159.4566649861, 133964.33832634805,
)  # fmt: skip

_Q1_ABOVE = (
    0.375, 78.08224591640221, 5464.644451615606, 161230.43195239, 2063413.0280876597,
    10583063.891946698, 17257817.777739745, 4393899.124157727,
)  # fmt: skip

_Q1_BELOW = (
    1.0, 208.4927599437392, 14628.654739498103, 433798.83025932254, 5611259.124309099,
    29498960.334839594, 51459803.88785214, 17221356.36184071,
)  # fmt: skip

# i0(x) and i1(x) / x for x in [0, 8], in x*x; sqrt(x) / exp(x) times them for x >= 8, in 16 / x - 1
_I0 = (
    1.0, 0.25, 0.015625, 0.0004340277777777775, 6.781684027777911e-06, 6.781684027774486e-08,
    4.709502797119892e-10, 2.4028075489680156e-12, 9.385967032245393e-15,
    2.89690316428368e-17, 7.242267541567186e-20, 1.4963078669428447e-22,
    2.5983723706728313e-25, 3.834067796995256e-28, 4.997639489067726e-31,
    4.7592464774137935e-34, 8.166410419456399e-37,
)  # fmt: skip

_FAR_I0 = (
    0.4021765094450081, 0.0033605519836678844, 0.00013621607439240856, 1.1143033788559087e-05,
    1.4838475391383468e-06, 2.9735993216471474e-07, 8.872278303607728e-08,
    3.9324793517123454e-08, 2.1541699603632043e-08, 7.563107589679047e-09,
    -6.7023325619894366e-09, -1.3450608319883882e-08, -5.6022211783247e-09,
    7.687473295440412e-09, 8.006764881281122e-09, -3.799241020140616e-09,
    -7.1046429701883025e-09, 1.9518431205146255e-09, 5.2159872385826355e-09,
    -9.961827005971165e-10, -3.0791787996480336e-09, 4.1991218209463363e-10,
    1.3291938884143105e-09, -1.1746991110551324e-10, -3.6353603909526465e-10,
    1.556423962829591e-11, 4.655655751294525e-11,
)  # fmt: skip

_I1 = (
    0.5, 0.0625, 0.0026041666666666665, 5.4253472222222206e-05, 6.781684027777838e-07,
    5.651403356480084e-09, 3.363930569354913e-11, 1.5017547182433149e-13,
    5.214426120759989e-16, 1.4484516178803955e-18, 3.2919386638225116e-21,
    6.234642061203085e-24, 9.993309775033794e-27, 1.3698096705959986e-29,
    1.6620202291401677e-32, 1.5050496568801432e-35, 2.3649011134132794e-38,
)  # fmt: skip

_FAR_I1 = (
    0.38939845902587233, -0.009749577193235758, -0.00021923576383438729,
    -1.5038547198351201e-05, -1.8349101048965518e-06, -3.483856445811428e-07,
    -1.000134929730233e-07, -4.312819645562664e-08, -2.336697227282623e-08,
    -8.435630024967513e-09, 6.687257309165881e-09, 1.4073201407347145e-08,
    6.180080050252965e-09, -7.768471997806944e-09, -8.488549054437278e-09,
    3.7003762012994875e-09, 7.441519822394391e-09, -1.842354234931444e-09,
    -5.438072168110142e-09, 9.265252428334351e-10, 3.2055586346236238e-09,
    -3.8986710944632543e-10, -1.3834389708637022e-09, 1.0940884042721056e-10,
    3.784510012514866e-10, -1.4553819054184817e-11, -4.848238653363404e-11,
)  # fmt: skip

# --- functions --------------------------------------------------------------------------------


def _polynomial(name: str, coefficients: Sequence[float], variable: str) -> Iterator[str]:
    """Lines that compute a polynomial by Horner's rule."""
    *rest, last = coefficients
    yield f"double {name} = {last!r};"
    for coefficient in reversed(rest):
        sign = "-" if coefficient < 0 else "+"
        yield f"{name} = {name} * {variable} {sign} {abs(coefficient)!r};"


def _quotient(above: Sequence[float], below: Sequence[float], variable: str) -> Iterator[str]:
    """Lines that compute the polynomials `above` and `below`."""
    yield from _polynomial("above", above, variable)
    yield from _polynomial("below", below, variable)


def _inline(head: str, *lines: str) -> str:
    return function(f"static inline double {head}", *lines)


_ERROR_FUNCTIONS = {
    "tc_middle_of_erfinv": _inline(
        "tc_middle_of_erfinv(double x)",
        "double rest = 0.5625 - x * x;",
        *_quotient(_MIDDLE_ABOVE, _MIDDLE_BELOW, "rest"),
        "return x * (above / below);",
    ),
    "tc_near_tail_of_erfcinv": _inline(
        "tc_near_tail_of_erfcinv(double r)",
        *_quotient(_TAIL_ABOVE, _TAIL_BELOW, "r"),
        "return above / below;",
    ),
    "tc_far_tail_of_erfcinv": _inline(
        "tc_far_tail_of_erfcinv(double r)",
        *_quotient(_FAR_TAIL_ABOVE, _FAR_TAIL_BELOW, "r"),
        "return above / below;",
    ),
    "tc_tail_of_erfcinv": _inline(
        "tc_tail_of_erfcinv(double z)",
        "double r = sqrt(-log(z));",
        "if (z == 0)",
        "    return INFINITY;",
        "return r < 4 ? tc_near_tail_of_erfcinv(r - 1.177) : tc_far_tail_of_erfcinv(r - 4);",
    ),
    "tc_erfinv": _inline(
        "tc_erfinv(double x)",
        "double size = fabs(x);",
        "if (size <= 0.75)",
        "    return tc_middle_of_erfinv(x);",
        "return copysign(tc_tail_of_erfcinv(1 - size), x);",
    ),
    "tc_erfcinv": _inline(
        "tc_erfcinv(double z)",
        "if (z >= 0.25 && z <= 1.75)",
        "    return tc_middle_of_erfinv(1 - z);",
        "return z < 1 ? tc_tail_of_erfcinv(z) : -tc_tail_of_erfcinv(2 - z);",
    ),
    "tc_normcdfinv": _inline(
        "tc_normcdfinv(double x)",
        "if (x >= 0.125 && x <= 0.875)",
        "    return 1.4142135623730951 * tc_middle_of_erfinv(2 * (x - 0.5));",
        "return 1.4142135623730951",
        "     * (x < 0.5 ? -tc_tail_of_erfcinv(2 * x) : tc_tail_of_erfcinv(2 * (1 - x)));",
    ),
    "tc_near_erfcx": _inline(
        "tc_near_erfcx(double x)",
        *_quotient(_ERFCX_ABOVE, _ERFCX_BELOW, "x"),
        "return above / below;",
    ),
    "tc_far_erfcx": _inline(
        "tc_far_erfcx(double x)",
        "double z = 1 / (x * x);",
        *_quotient(_FAR_ERFCX_ABOVE, _FAR_ERFCX_BELOW, "z"),
        "return above / below / x;",
    ),
    "tc_erfcx": _inline(
        "tc_erfcx(double x)",
        "double size = fabs(x);",
        "double square = x * x;",
        "double right = size < 4 ? tc_near_erfcx(size) : tc_far_erfcx(size);",
        "if (!(x < 0))",
        "    return right;",
        "if (x < -26.8)",
        "    return INFINITY;",
        "return 2 * exp(square) * (1 + fma(x, x, -square)) - right; // with what rounding lost",
    ),
}


def _hankel(order: int) -> Iterator[str]:
    """Lines that compute P and Q of order 0 or 1."""
    tables = (
        ("p", _P0_ABOVE, _P0_BELOW) if order == 0 else ("p", _P1_ABOVE, _P1_BELOW),
        ("q", _Q0_ABOVE, _Q0_BELOW) if order == 0 else ("q", _Q1_ABOVE, _Q1_BELOW),
    )
    yield "double z = 1 / (x * x);"
    for name, above, below in tables:
        yield from _polynomial(f"{name}_above", above, "z")
        yield from _polynomial(f"{name}_below", below, "z")
    yield "double p = p_above / p_below;"
    yield "double q = q_above / q_below / x;"


# sin(x) and cos(x) rather than those of x less an eighth of a turn, which rounding would move
_WAVES = (
    "double sum = sin(x) + cos(x);",
    "double difference = sin(x) - cos(x);",
    "double size = sqrt(x) * 1.772453850905516; // the root of pi * x",
)

_BESSEL = {
    "tc_far_j0": _inline(
        "tc_far_j0(double x)",
        *_hankel(0),
        *_WAVES,
        "return x < INFINITY ? (p * sum - q * difference) / size : 1 / x;",
    ),
    "tc_far_y0": _inline(
        "tc_far_y0(double x)",
        *_hankel(0),
        *_WAVES,
        "return x < INFINITY ? (p * difference + q * sum) / size : 1 / x;",
    ),
    "tc_far_j1": _inline(
        "tc_far_j1(double x)",
        *_hankel(1),
        *_WAVES,
        "return x < INFINITY ? (p * difference + q * sum) / size : 1 / x;",
    ),
    "tc_far_y1": _inline(
        "tc_far_y1(double x)",
        *_hankel(1),
        *_WAVES,
        "return x < INFINITY ? (q * difference - p * sum) / size : 1 / x;",
    ),
    **{
        f"tc_near_{name}": _inline(
            f"tc_near_{name}(double x)",
            "double u = x * x / 12.5 - 1;",
            *_polynomial("value", coefficients, "u"),
            f"return {result};",
        )
        for name, coefficients, result in (
            ("j0", _J0, "value"),
            ("j1", _J1, "x * value"),
            ("y0", _Y0, "0.6366197723675814 * log(x) * tc_near_j0(x) + value"),
            ("y1", _Y1, "0.6366197723675814 * (log(x) * tc_near_j1(x) - 1 / x) + x * value"),
        )
    },
    "tc_j0": _inline(
        "tc_j0(double x)",
        "return fabs(x) <= 5 ? tc_near_j0(x) : tc_far_j0(fabs(x));",
    ),
    "tc_j1": _inline(
        "tc_j1(double x)",
        "if (fabs(x) <= 5)",
        "    return tc_near_j1(x);",
        "return x < 0 ? -tc_far_j1(-x) : tc_far_j1(x);",
    ),
    **{
        f"tc_{name}": _inline(
            f"tc_{name}(double x)",
            "if (x == 0)",
            "    return -INFINITY;",
            f"return x < 0 ? NAN : x <= 5 ? tc_near_{name}(x) : tc_far_{name}(x);",
        )
        for name in ("y0", "y1")
    },
    **{
        f"tc_near_i{order}": _inline(
            f"tc_near_i{order}(double x)",
            "double square = x * x;",
            *_polynomial("value", coefficients, "square"),
            f"return {result};",
        )
        for order, coefficients, result in ((0, _I0, "value"), (1, _I1, "x * value"))
    },
    **{
        f"tc_far_i{order}": _inline(
            f"tc_far_i{order}(double x)",
            "double u = 16 / x - 1;",
            "double root = exp(0.5 * x); // its square may be too large where the result is not",
            *_polynomial("value", coefficients, "u"),
            "return x < INFINITY ? root * (value / sqrt(x)) * root : x;",
        )
        for order, coefficients in ((0, _FAR_I0), (1, _FAR_I1))
    },
    "tc_cyl_bessel_i0": _inline(
        "tc_cyl_bessel_i0(double x)",
        "return fabs(x) <= 8 ? tc_near_i0(x) : tc_far_i0(fabs(x));",
    ),
    "tc_cyl_bessel_i1": _inline(
        "tc_cyl_bessel_i1(double x)",
        "if (fabs(x) <= 8)",
        "    return tc_near_i1(x);",
        "return x < 0 ? -tc_far_i1(-x) : tc_far_i1(x);",
    ),
}

SPECIAL_FUNCTIONS = {**_ERROR_FUNCTIONS, **_BESSEL}
"""The texts of functions by name, each after the functions that its own text calls."""
