// k
//   input float32(4, 5) a, strides (-22, -2)
//   input float32(4, 5) z, strides (1, 0)
//   output float32(4, 5) o
//   k_0: 4 x 1 x 1 blocks of 5 x 1 x 1 threads (x, y, z)

extern "C" __global__ void __launch_bounds__(5) k_0(
    const float* __restrict__ tc_lowest_a,
    const float* __restrict__ z,
    float* __restrict__ o)
{
    const float* __restrict__ a = tc_lowest_a + 74;
    const long long b0 = blockIdx.x;
    const long long t0 = threadIdx.x;
    o[b0 * 5 + t0] = a[b0 * -22 - t0 * 2] + z[b0];
}
