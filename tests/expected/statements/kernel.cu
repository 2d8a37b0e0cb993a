// float
//   input float16(9) 2LUT (here v_2LUT)
//   input int32(4) p
//   input bool(4) mask
//   input float64() extra
//   output float16(4) o
//   at multiples of 16 bytes: p
//   at multiples of 8 bytes: o
//   float_0: 1 x 1 x 1 blocks of 1 x 1 x 1 threads (x, y, z)
//   float_1: 1 x 1 x 1 blocks of 1 x 1 x 1 threads (x, y, z)

static __device__ inline float tc_float_of_half(unsigned short x)
{
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
}

// the greater, NaN where either is
static __device__ inline float tc_max_float32(float a, float b)
{
    return a > b || a != a ? a : b;
}

static __device__ inline unsigned short tc_half_of_float(float x)
{
    unsigned short result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}

extern "C" __global__ void __launch_bounds__(1) float_0(
    const unsigned short* __restrict__ v_2LUT,
    const int* __restrict__ p,
    const unsigned char* __restrict__ mask,
    unsigned short* __restrict__ o,
    long long* __restrict__ status)
{
    p = (const int*)__builtin_assume_aligned(p, 16);
    o = (unsigned short*)__builtin_assume_aligned(o, 8);
    for (long long i = 0; i < 4; i++) {
        // o(i) += ... */ ?/ /
        float total = 0.0f;
        short unused = 1;
        if ((long long)p[i] < 0 || (long long)p[i] >= 9) {
            if (atomicCAS((unsigned long long*)status, 0ULL, 1ULL) == 0) {
                status[1] = i;
                status[2] = (long long)p[i];
            }
        } else {
            total += sinpif(tc_float_of_half(v_2LUT[(long long)p[i]]));
        }
        if (mask[i] != 0) {
            total = tc_max_float32(total, tc_float_of_half(v_2LUT[(long long)p[i]]));
        }
        o[i] = tc_half_of_float(total);
        (void)&unused;
    }
}

extern "C" __global__ void __launch_bounds__(1) float_1(void)
{
    long long n = 4;
    for (long long i = 0; i < 2; i++) {
    }
    (void)&n;
}
