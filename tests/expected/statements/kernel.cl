// float
//   input float16(9) 2LUT (here v_2LUT)
//   input int32(4) p
//   input bool(4) mask
//   input float64() extra
//   output float16(4) o
//   float_0: 1 x 1 x 1 blocks of 1 x 1 x 1 threads (x, y, z)
//   float_1: 1 x 1 x 1 blocks of 1 x 1 x 1 threads (x, y, z)

#pragma OPENCL FP_CONTRACT OFF

static inline float tc_float_of_half(ushort given)
{
    union { uint bits; float value; } result;
    uint size = given & 0x7FFFu;
    result.bits = size << 13;
    result.value *= 5.192296858534828e33f; // 2 to the power of 112, the exponents' difference
    if (size >= 0x7C00u)
        result.bits |= 0x7F800000u; // infinite or NaN
    result.bits |= (uint)(given & 0x8000u) << 16;
    return result.value;
}

// the greater, NaN where either is
static inline float tc_max_float32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static inline ushort tc_half_of_float(float x)
{
    union { float value; uint bits; } size;
    uint sign;
    size.value = x;
    sign = size.bits >> 16 & 0x8000u;
    size.bits &= 0x7FFFFFFFu;
    if (size.bits > 0x7F800000u)
        return (ushort)(sign | 0x7E00u); // NaN
    if (size.bits >= 0x477FF000u)
        return (ushort)(sign | 0x7C00u); // 65520 and more
    if (size.bits < 0x38800000u) {
        size.value += 0.5f; // rounds to a multiple of the smallest half
        return (ushort)(sign | (size.bits - 0x3F000000u));
    }
    return (ushort)(sign | (size.bits + (size.bits >> 13 & 1u) + 0xFFFu - 0x38000000u) >> 13);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void float_0(
    __global const ushort* restrict v_2LUT,
    __global const int* restrict p,
    __global const uchar* restrict mask,
    __global ushort* restrict o,
    __global long* restrict status)
{
    for (long i = 0; i < 4; i++) {
        // o(i) += ... */ ?/ /
        float total = 0.0f;
        short unused = 1;
        if ((long)p[i] < 0 || (long)p[i] >= 9) {
            if (atomic_cmpxchg((volatile __global int*)status, 0, 1) == 0) {
                status[1] = i;
                status[2] = (long)p[i];
            }
        } else {
            total += sinpi(tc_float_of_half(v_2LUT[(long)p[i]]));
        }
        if (mask[i] != 0) {
            total = tc_max_float32(total, tc_float_of_half(v_2LUT[(long)p[i]]));
        }
        o[i] = tc_half_of_float(total);
        (void)unused;
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void float_1(void)
{
    long n = 4;
    for (long i = 0; i < 2; i++) {
    }
    (void)n;
}
