// k
//   input float32(128, 32) A
//   input float32(256, 32) B
//   output float32(128, 256) C
//   shared float32(4, 33) shared_A
//   shared float32(32, 33) shared_B
//   register float32(4, 1) private_C
//   k_0: 8 x 32 x 1 blocks of 32 x 1 x 1 threads (x, y, z), 4752 bytes of shared memory

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void k_0(
    __global const float* restrict A,
    __global const float* restrict B,
    __global float* restrict C)
{
    __local __attribute__((aligned(16))) float shared_A[4][33];
    __local __attribute__((aligned(16))) float shared_B[32][33];
    float private_C[4][1];
    const long b0 = (long)get_group_id(1);
    const long b1 = (long)get_group_id(0);
    const long t0 = (long)get_local_id(1);
    const long t1 = (long)get_local_id(0);
    for (long c2 = 0; c2 < 4; c2++) {
        shared_A[c2][t1] = A[(b0 * 4 + c2) * 32 + t1];
    }
    for (long c2 = 0; c2 < 32; c2++) {
        shared_B[c2][t1] = B[(b1 * 32 + c2) * 32 + t1];
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (long c2 = 0; c2 < 4; c2++) {
        private_C[c2][t0] = 0.0f;
        for (long c4 = 0; c4 < 32; c4++) {
            private_C[c2][t0] += shared_A[c2][c4] * shared_B[t1][c4];
        }
    }
    for (long c2 = 0; c2 < 4; c2++) {
        C[(b0 * 4 + c2) * 256 + b1 * 32 + t1] = private_C[c2][t0];
    }
}
