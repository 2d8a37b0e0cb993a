// k
//   input float32(3, 8) a
//   output float32(3, 8, 3) o
//   temporary float32(3, 8) w
//   at multiples of 16 bytes: a, w
//   k_0: 3 x 1 x 1 blocks of 8 x 1 x 1 threads (x, y, z)

extern "C" __global__ void __launch_bounds__(8) k_0(
    const float* __restrict__ a,
    float* __restrict__ o,
    float* w)
{
    a = (const float*)__builtin_assume_aligned(a, 16);
    w = (float*)__builtin_assume_aligned(w, 16);
    const long long b0 = blockIdx.x;
    const long long t0 = threadIdx.x;
    w[b0 * 8 + t0] = a[b0 * 8 + t0];
    __syncthreads();
    float x = w[b0 * 8];
    __syncthreads();
    if (t0 == 3) {
        w[b0 * 8] = w[b0 * 8 + t0] + 1.0f;
    }
    __syncthreads();
    float y = w[b0 * 8];
    __syncthreads();
    if (t0 == 7) {
        w[b0 * 8] = 1.0f;
    }
    __syncthreads();
    o[b0 * 24 + t0 * 3] = x;
    o[b0 * 24 + t0 * 3 + 1] = y;
    o[b0 * 24 + t0 * 3 + 2] = w[b0 * 8];
}
