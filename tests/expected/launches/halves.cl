// k
//   input float16(2, 9) a
//   output float16(2, 9) o
//   shared float16(9) s
//   k_0: 2 x 1 x 1 blocks of 9 x 1 x 1 threads (x, y, z), 32 bytes of shared memory

#pragma OPENCL FP_CONTRACT OFF

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

__kernel __attribute__((reqd_work_group_size(9, 1, 1))) void k_0(
    __global const ushort* restrict a,
    __global ushort* restrict o)
{
    __local __attribute__((aligned(16))) ushort s[9];
    const long b0 = (long)get_group_id(0);
    const long t0 = (long)get_local_id(0);
    s[t0] = tc_half_of_float(tc_float_of_half(a[b0 * 9 + t0]));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    o[b0 * 9 + t0] = tc_half_of_float((tc_float_of_half(s[t0]) + 1.0f) / 3.0f);
}
