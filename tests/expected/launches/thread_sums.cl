// rows
//   input float32(8, 640) a
//   output float32(8) o
//   shared float32(32) exchange_float32
//   rows_0: 8 x 1 x 1 blocks of 32 x 1 x 1 threads (x, y, z), 128 bytes of shared memory

#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void rows_0(
    __global const float* restrict a,
    __global float* restrict o)
{
    __local __attribute__((aligned(16))) float exchange_float32[32];
    const long bx = (long)get_group_id(0);
    const long tx = (long)get_local_id(0);
    // o(i) +=! a(i,j)
    float o_acc_0 = 0.0f;
    float o_partial_0 = 0.0f;
    for (long j0 = 0; j0 < 20; j0++) {
        o_partial_0 += a[bx * 640 + j0 * 32 + tx];
    }
    exchange_float32[tx] = o_partial_0;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    long first = tx - tx % 32;
    float acc = exchange_float32[first] + exchange_float32[first + 16] + (exchange_float32[first + 8] + exchange_float32[first + 24]) + (exchange_float32[first + 4] + exchange_float32[first + 20] + (exchange_float32[first + 12] + exchange_float32[first + 28])) + (exchange_float32[first + 2] + exchange_float32[first + 18] + (exchange_float32[first + 10] + exchange_float32[first + 26]) + (exchange_float32[first + 6] + exchange_float32[first + 22] + (exchange_float32[first + 14] + exchange_float32[first + 30]))) + (exchange_float32[first + 1] + exchange_float32[first + 17] + (exchange_float32[first + 9] + exchange_float32[first + 25]) + (exchange_float32[first + 5] + exchange_float32[first + 21] + (exchange_float32[first + 13] + exchange_float32[first + 29])) + (exchange_float32[first + 3] + exchange_float32[first + 19] + (exchange_float32[first + 11] + exchange_float32[first + 27]) + (exchange_float32[first + 7] + exchange_float32[first + 23] + (exchange_float32[first + 15] + exchange_float32[first + 31]))));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    o_acc_0 += acc;
    if (tx == 0) {
        o[bx] = o_acc_0;
    }
}
