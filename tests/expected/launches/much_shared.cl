// k
//   input float32(124) a
//   output float32(124) o
//   output bool(124) p
//   shared float32(124, 129) s
//   shared bool(125) u
//   k_0: 1 x 1 x 1 blocks of 124 x 1 x 1 threads (x, y, z), 64112 bytes of shared memory

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(124, 1, 1))) void k_0(
    __global const float* restrict a,
    __global float* restrict o,
    __global uchar* restrict p)
{
    __local __attribute__((aligned(16))) float s[124][129];
    __local __attribute__((aligned(16))) uchar u[125];
    const long t0 = (long)get_local_id(0);
    for (long i = 0; i < 129; i++) {
        s[t0][i] = a[t0] + (float)i;
    }
    u[t0] = a[t0] < 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    o[t0] = s[-t0 + 123][t0];
    p[t0] = u[-t0 + 123] != 0;
}
