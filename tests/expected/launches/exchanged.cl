// k
//   input float32(3, 8) a
//   output float32(3, 8, 3) o
//   temporary float32(3, 8) w
//   k_0: 3 x 1 x 1 blocks of 8 x 1 x 1 threads (x, y, z)

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k_0(
    __global const float* restrict a,
    __global float* restrict o,
    __global float* w)
{
    const long b0 = (long)get_group_id(0);
    const long t0 = (long)get_local_id(0);
    w[b0 * 8 + t0] = a[b0 * 8 + t0];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    float x = w[b0 * 8];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t0 == 3) {
        w[b0 * 8] = w[b0 * 8 + t0] + 1.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    float y = w[b0 * 8];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t0 == 7) {
        w[b0 * 8] = 1.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    o[b0 * 24 + t0 * 3] = x;
    o[b0 * 24 + t0 * 3 + 1] = y;
    o[b0 * 24 + t0 * 3 + 2] = w[b0 * 8];
}
