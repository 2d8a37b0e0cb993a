// float
//   input float16(9) 2LUT (here v_2LUT)
//   input int32(4) p
//   input bool(4) mask
//   input float64() extra
//   output float16(4) o

#include <math.h>
#include <stdint.h>

static inline double tc_sinpi(double x)
{
    double turn = fmod(fabs(x), 2);
    double quarter = floor(2 * turn + 0.5);
    double angle = 3.141592653589793 * (turn - 0.5 * quarter);
    double value = quarter == 1 ? cos(angle)
                 : quarter == 2 ? -sin(angle)
                 : quarter == 3 ? -cos(angle) : sin(angle);
    return copysign(1, x) * (value + 0.0); // no -0 at the whole numbers before x gives its sign
}

static inline float tc_sinpif(float x)
{
    return (float)tc_sinpi((double)x);
}

static inline float tc_float_of_half(uint16_t half)
{
    union { uint32_t bits; float value; } result;
    uint32_t size = half & 0x7FFFu;
    result.bits = size << 13;
    result.value *= 5.192296858534828e33f; // 2 to the power of 112, the exponents' difference
    if (size >= 0x7C00u)
        result.bits |= 0x7F800000u; // infinite or NaN
    result.bits |= (uint32_t)(half & 0x8000u) << 16;
    return result.value;
}

// the greater, NaN where either is
static inline float tc_max_float32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline uint16_t tc_half_of_float(float x)
{
    union { float value; uint32_t bits; } size;
    uint32_t sign;
    size.value = x;
    sign = size.bits >> 16 & 0x8000u;
    size.bits &= 0x7FFFFFFFu;
    if (size.bits > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u); // NaN
    if (size.bits >= 0x477FF000u)
        return (uint16_t)(sign | 0x7C00u); // 65520 and more
    if (size.bits < 0x38800000u) {
        size.value += 0.5f; // rounds to a multiple of the smallest half
        return (uint16_t)(sign | (size.bits - 0x3F000000u));
    }
    return (uint16_t)(sign | (size.bits + (size.bits >> 13 & 1u) + 0xFFFu - 0x38000000u) >> 13);
}

void v_float(
    const uint16_t* restrict v_2LUT,
    const int32_t* restrict p,
    const uint8_t* restrict mask,
    const double* restrict extra,
    uint16_t* restrict o,
    int64_t* restrict status)
{
    (void)extra;
    for (int64_t i = 0; i < 4; i++) {
        // o(i) += ... */ ?/ /
        float total = 0.0f;
        int16_t unused = 1;
        if ((int64_t)p[i] < 0 || (int64_t)p[i] >= 9) {
            if (status[0] == 0) {
                status[0] = 1;
                status[1] = i;
                status[2] = (int64_t)p[i];
            }
        } else {
            total += tc_sinpif(tc_float_of_half(v_2LUT[(int64_t)p[i]]));
        }
        if (mask[i] != 0) {
            total = tc_max_float32(total, tc_float_of_half(v_2LUT[(int64_t)p[i]]));
        }
        o[i] = tc_half_of_float(total);
        (void)unused;
    }

    {
        int64_t n = 4;
        for (int64_t i = 0; i < 2; i++) {
        }
        (void)n;
    }

    // nothing
}
