// softmax
//   input float32(8, 640) x
//   output float32(8, 640) o
//   temporary float32(8, 640) e
//   shared float32(1, 2, 1) m_partial_shared
//   shared float32(1, 2, 1) s_partial_shared
//   at multiples of 16 bytes: x, o, e
//   softmax_0: 8 x 1 x 1 blocks of 64 x 1 x 1 threads (x, y, z), 32 bytes of shared memory

// the greater, NaN where either is
static __device__ inline float tc_max_float32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static __device__ inline float tc_warp_max_float32_32(float x)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        x = tc_max_float32(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return __shfl_sync(0xffffffffu, x, 0, 32);
}

static __device__ inline float tc_warp_sum_float32_32(float x)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(64) softmax_0(
    const float* __restrict__ x,
    float* __restrict__ o,
    float* e)
{
    __shared__ __align__(16) float m_partial_shared[1][2][1];
    __shared__ __align__(16) float s_partial_shared[1][2][1];
    x = (const float*)__builtin_assume_aligned(x, 16);
    o = (float*)__builtin_assume_aligned(o, 16);
    e = (float*)__builtin_assume_aligned(e, 16);
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    // m(i) max=! x(i,j)
    // e(i,j) = exp(x(i,j) - m(i))
    // s(i) +=! e(i,j)
    // o(i,j) = e(i,j) / s(i)
    float m_partial_0 = -__int_as_float(0x7f800000);
    for (long long v_j0 = 0; v_j0 < 10; v_j0++) {
        m_partial_0 = tc_max_float32(m_partial_0, x[bx * 640 + v_j0 * 64 + tx]);
    }
    float acc = tc_warp_max_float32_32(m_partial_0);
    if (tx % 32 == 0) {
        m_partial_shared[0][tx / 32][0] = acc;
    }
    __syncthreads();
    float acc1 = m_partial_shared[0][0][0];
    acc1 = tc_max_float32(acc1, m_partial_shared[0][1][0]);
    float m_acc_0 = acc1;
    for (long long v_j1 = 0; v_j1 < 10; v_j1++) {
        e[bx * 640 + v_j1 * 64 + tx] = expf(x[bx * 640 + v_j1 * 64 + tx] - m_acc_0);
    }
    float s_acc_0 = 0.0f;
    float s_partial_0 = 0.0f;
    for (long long j2 = 0; j2 < 10; j2++) {
        s_partial_0 += e[bx * 640 + j2 * 64 + tx];
    }
    float acc2 = tc_warp_sum_float32_32(s_partial_0);
    if (tx % 32 == 0) {
        s_partial_shared[0][tx / 32][0] = acc2;
    }
    __syncthreads();
    float acc3 = s_partial_shared[0][0][0];
    acc3 += s_partial_shared[0][1][0];
    s_acc_0 += acc3;
    for (long long j3 = 0; j3 < 10; j3++) {
        o[bx * 640 + j3 * 64 + tx] = e[bx * 640 + j3 * 64 + tx] / s_acc_0;
    }
}
