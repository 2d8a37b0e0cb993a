// k
//   input float32(4, 5) a, strides (-22, -2)
//   input float32(4, 5) z, strides (1, 0)
//   output float32(4, 5) o
//   k_0: 4 x 1 x 1 blocks of 5 x 1 x 1 threads (x, y, z)

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(5, 1, 1))) void k_0(
    __global const float* restrict tc_lowest_a,
    __global const float* restrict z,
    __global float* restrict o)
{
    __global const float* restrict a = tc_lowest_a + 74;
    const long b0 = (long)get_group_id(0);
    const long t0 = (long)get_local_id(0);
    o[b0 * 5 + t0] = a[b0 * -22 - t0 * 2] + z[b0];
}
