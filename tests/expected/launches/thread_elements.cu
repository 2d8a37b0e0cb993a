// softmax
//   input float32(8, 600) x
//   output float32(8, 600) o
//   shared float32(1, 2, 1) m_partial_shared
//   shared float32(1, 2, 1) s_partial_shared
//   at multiples of 16 bytes: x, o
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
    float* __restrict__ o)
{
    __shared__ __align__(16) float m_partial_shared[1][2][1];
    __shared__ __align__(16) float s_partial_shared[1][2][1];
    x = (const float*)__builtin_assume_aligned(x, 16);
    o = (float*)__builtin_assume_aligned(o, 16);
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    // m(i) max=! x(i,j)
    // e(i,j) = exp(x(i,j) - m(i))
    // s(i) +=! e(i,j)
    // o(i,j) = e(i,j) / s(i)
    float x_acc_0_0 = x[bx * 600 + tx];
    float x_acc_0_1 = x[bx * 600 + tx + 64];
    float x_acc_0_2 = x[bx * 600 + tx + 128];
    float x_acc_0_3 = x[bx * 600 + tx + 192];
    float x_acc_0_4 = x[bx * 600 + tx + 256];
    float x_acc_0_5 = x[bx * 600 + tx + 320];
    float x_acc_0_6 = x[bx * 600 + tx + 384];
    float x_acc_0_7 = x[bx * 600 + tx + 448];
    float x_acc_0_8 = x[bx * 600 + tx + 512];
    float x_acc_0_9 = tx < 24 ? x[bx * 600 + tx + 576] : 0.0f;
    float m_partial_0 = x_acc_0_0;
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_1);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_2);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_3);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_4);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_5);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_6);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_7);
    m_partial_0 = tc_max_float32(m_partial_0, x_acc_0_8);
    m_partial_0 = tc_max_float32(m_partial_0, tx < 24 ? x_acc_0_9 : -__int_as_float(0x7f800000));
    float acc = tc_warp_max_float32_32(m_partial_0);
    if (tx % 32 == 0) {
        m_partial_shared[0][tx / 32][0] = acc;
    }
    __syncthreads();
    float acc1 = m_partial_shared[0][0][0];
    acc1 = tc_max_float32(acc1, m_partial_shared[0][1][0]);
    float m_acc_0 = acc1;
    float e_acc_0_0 = expf(x_acc_0_0 - m_acc_0);
    float e_acc_0_1 = expf(x_acc_0_1 - m_acc_0);
    float e_acc_0_2 = expf(x_acc_0_2 - m_acc_0);
    float e_acc_0_3 = expf(x_acc_0_3 - m_acc_0);
    float e_acc_0_4 = expf(x_acc_0_4 - m_acc_0);
    float e_acc_0_5 = expf(x_acc_0_5 - m_acc_0);
    float e_acc_0_6 = expf(x_acc_0_6 - m_acc_0);
    float e_acc_0_7 = expf(x_acc_0_7 - m_acc_0);
    float e_acc_0_8 = expf(x_acc_0_8 - m_acc_0);
    float e_acc_0_9 = expf(x_acc_0_9 - m_acc_0);
    float s_acc_0 = 0.0f;
    float s_partial_0 = 0.0f;
    s_partial_0 += e_acc_0_0;
    s_partial_0 += e_acc_0_1;
    s_partial_0 += e_acc_0_2;
    s_partial_0 += e_acc_0_3;
    s_partial_0 += e_acc_0_4;
    s_partial_0 += e_acc_0_5;
    s_partial_0 += e_acc_0_6;
    s_partial_0 += e_acc_0_7;
    s_partial_0 += e_acc_0_8;
    s_partial_0 += tx < 24 ? e_acc_0_9 : 0.0f;
    float acc2 = tc_warp_sum_float32_32(s_partial_0);
    if (tx % 32 == 0) {
        s_partial_shared[0][tx / 32][0] = acc2;
    }
    __syncthreads();
    float acc3 = s_partial_shared[0][0][0];
    acc3 += s_partial_shared[0][1][0];
    s_acc_0 += acc3;
    o[bx * 600 + tx] = e_acc_0_0 / s_acc_0;
    o[bx * 600 + tx + 64] = e_acc_0_1 / s_acc_0;
    o[bx * 600 + tx + 128] = e_acc_0_2 / s_acc_0;
    o[bx * 600 + tx + 192] = e_acc_0_3 / s_acc_0;
    o[bx * 600 + tx + 256] = e_acc_0_4 / s_acc_0;
    o[bx * 600 + tx + 320] = e_acc_0_5 / s_acc_0;
    o[bx * 600 + tx + 384] = e_acc_0_6 / s_acc_0;
    o[bx * 600 + tx + 448] = e_acc_0_7 / s_acc_0;
    o[bx * 600 + tx + 512] = e_acc_0_8 / s_acc_0;
    if (tx < 24) {
        o[bx * 600 + tx + 576] = e_acc_0_9 / s_acc_0;
    }
}
