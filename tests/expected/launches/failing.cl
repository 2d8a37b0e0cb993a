// k
//   input float32(5) a
//   input int64(40) p
//   output float32(40) o
//   output float32(40) q
//   k_0: 5 x 1 x 1 blocks of 8 x 1 x 1 threads (x, y, z)
//   k_1: 1 x 1 x 1 blocks of 40 x 1 x 1 threads (x, y, z)

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k_0(
    __global const float* restrict a,
    __global const long* restrict p,
    __global float* restrict o,
    __global long* restrict status)
{
    const long b0 = (long)get_group_id(0);
    const long t0 = (long)get_local_id(0);
    float value = 7.0f;
    if (p[b0 * 8 + t0] < 0) {
        if (atomic_cmpxchg((volatile __global int*)status, 0, 1) == 0) {
            status[1] = b0 * 8 + t0;
            status[2] = p[b0 * 8 + t0];
        }
    } else {
        if (p[b0 * 8 + t0] >= 5) {
            if (atomic_cmpxchg((volatile __global int*)status, 0, 2) == 0) {
                status[1] = b0 * 8 + t0;
            }
        } else {
            value = a[p[b0 * 8 + t0]];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    o[b0 * 8 + t0] = value;
}

__kernel __attribute__((reqd_work_group_size(40, 1, 1))) void k_1(
    __global float* restrict o,
    __global float* restrict q)
{
    const long t0 = (long)get_local_id(0);
    q[t0] = o[t0] + o[t0];
}
