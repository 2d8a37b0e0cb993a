// k
//   input float32(128, 32) A
//   input float32(256, 32) B
//   output float32(128, 256) C
//   shared float32(4, 33) shared_A
//   shared float32(32, 33) shared_B
//   register float32(4, 1) private_C
//   at multiples of 16 bytes: A, B, C
//   k_0: 8 x 32 x 1 blocks of 32 x 1 x 1 threads (x, y, z), 4752 bytes of shared memory

extern "C" __global__ void __launch_bounds__(32) k_0(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C)
{
    __shared__ __align__(16) float shared_A[4][33];
    __shared__ __align__(16) float shared_B[32][33];
    A = (const float*)__builtin_assume_aligned(A, 16);
    B = (const float*)__builtin_assume_aligned(B, 16);
    C = (float*)__builtin_assume_aligned(C, 16);
    float private_C[4][1];
    const long long b0 = blockIdx.y;
    const long long b1 = blockIdx.x;
    const long long t0 = threadIdx.y;
    const long long t1 = threadIdx.x;
    for (long long c2 = 0; c2 < 4; c2++) {
        shared_A[c2][t1] = A[(b0 * 4 + c2) * 32 + t1];
    }
    for (long long c2 = 0; c2 < 32; c2++) {
        shared_B[c2][t1] = B[(b1 * 32 + c2) * 32 + t1];
    }
    __syncthreads();
    for (long long c2 = 0; c2 < 4; c2++) {
        private_C[c2][t0] = 0.0f;
        for (long long c4 = 0; c4 < 32; c4++) {
            private_C[c2][t0] += shared_A[c2][c4] * shared_B[t1][c4];
        }
    }
    for (long long c2 = 0; c2 < 4; c2++) {
        C[(b0 * 4 + c2) * 256 + b1 * 32 + t1] = private_C[c2][t0];
    }
}
