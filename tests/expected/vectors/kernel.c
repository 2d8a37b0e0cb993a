// tile
//   input float32(3, 20) A
//   input float32(20, 27) B
//   output float32(3, 27) C
//   scratch float32(20, 16) packed
//   register float32(3, 16) total
//   workspace of 4096 bytes, aligned to 64

#if defined(__AVX512VL__) && !(defined(__AVX512BW__) && defined(__AVX512DQ__))
#if defined(__GNUC__) && !defined(__clang__)
// or elements are touched that a mask leaves out
#pragma GCC optimize ("no-tree-loop-if-convert")
#endif
#endif

#include <math.h>
#include <stdint.h>
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"
typedef float float32x16 __attribute__((vector_size(64)));
typedef int32_t int32x16 __attribute__((vector_size(64)));
typedef uint32_t uint32x16 __attribute__((vector_size(64)));

static inline __attribute__((always_inline, unused)) uint32x16 tc_broadcast_uint32x16(uint32_t x)
{
    return (uint32x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

static inline __attribute__((always_inline, unused)) int32x16 tc_ramp_int32x16(int32_t base, int32_t step)
{
    uint32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (int32x16)(tc_broadcast_uint32x16((uint32_t)base) + tc_broadcast_uint32x16((uint32_t)step) * lanes);
}

static inline __attribute__((always_inline, unused)) int32x16 tc_broadcast_int32x16(int32_t x)
{
    return (int32x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

// in all lanes the number nearest to x
static inline __attribute__((always_inline, unused)) int32x16 tc_nearest_int32x16(int64_t x)
{
    return tc_broadcast_int32x16(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x);
}

static inline __attribute__((always_inline, unused)) void tc_store_float32x16(float* p, float32x16 x)
{
    typedef float32x16 anywhere __attribute__((aligned(4), may_alias));
    *(anywhere*)p = x;
}

static inline __attribute__((always_inline, unused)) float32x16 tc_load_float32x16(const float* p)
{
    typedef float32x16 anywhere __attribute__((aligned(4), may_alias));
    return *(const anywhere*)p;
}

// reads only where the mask is true, and gives 0 elsewhere
static inline __attribute__((always_inline, unused)) float32x16 tc_load_masked_float32x16(const float* p, int32x16 mask)
{
#if defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
    return (float32x16)_mm512_maskz_loadu_epi32(_mm512_movepi32_mask((__m512i)mask), p);
#else
    float lanes[16];
    for (int l = 0; l < 16; l++)
        lanes[l] = mask[l] ? p[l] : 0;
    return tc_load_float32x16(lanes);
#endif
}

static inline __attribute__((always_inline, unused)) float32x16 tc_fma_float32x16(float32x16 x, float32x16 y, float32x16 z)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(x, y, z);
#else
    return (float32x16){fmaf(x[0], y[0], z[0]), fmaf(x[1], y[1], z[1]), fmaf(x[2], y[2], z[2]), fmaf(x[3], y[3], z[3]), fmaf(x[4], y[4], z[4]), fmaf(x[5], y[5], z[5]), fmaf(x[6], y[6], z[6]), fmaf(x[7], y[7], z[7]), fmaf(x[8], y[8], z[8]), fmaf(x[9], y[9], z[9]), fmaf(x[10], y[10], z[10]), fmaf(x[11], y[11], z[11]), fmaf(x[12], y[12], z[12]), fmaf(x[13], y[13], z[13]), fmaf(x[14], y[14], z[14]), fmaf(x[15], y[15], z[15])};
#endif
}

static inline __attribute__((always_inline, unused)) float32x16 tc_broadcast_float32x16(float x)
{
    return (float32x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

// writes only where the mask is true
static inline __attribute__((always_inline, unused)) void tc_store_masked_float32x16(float* p, int32x16 mask, float32x16 x)
{
#if defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
    _mm512_mask_storeu_epi32(p, _mm512_movepi32_mask((__m512i)mask), (__m512i)x);
#else
    for (int l = 0; l < 16; l++)
        if (mask[l])
            p[l] = x[l];
#endif
}

static inline __attribute__((always_inline, unused)) float32x16 tc_select_float32x16(int32x16 mask, float32x16 x, float32x16 y)
{
    return (float32x16)((mask & (int32x16)x) | (~mask & (int32x16)y));
}

// the greater, NaN where either is
static inline __attribute__((always_inline, unused)) float32x16 tc_max_float32x16(float32x16 x, float32x16 y)
{
#if defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
    return _mm512_mask_mov_ps(_mm512_max_ps(x, y), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
#else
    return tc_select_float32x16((int32x16)((x > y) | (x != x)), x, y);
#endif
}

void tile(
    const float* restrict A,
    const float* restrict B,
    float* restrict C,
    unsigned char* restrict workspace)
{
    float* restrict packed = (float*)(workspace + 0);
    float total[48];
    for (int64_t j = 0; j < 2; j++) {
        int32x16 inside = (int32x16)(tc_ramp_int32x16(0, 1) < tc_nearest_int32x16(j * -16 + 27));
        for (int64_t k = 0; k < 20; k++) {
            tc_store_float32x16(&packed[k * 16], tc_load_masked_float32x16(&B[k * 27 + j * 16], inside));
        }
        #pragma GCC unroll 3
        for (int64_t r = 0; r < 3; r++) {
            tc_store_float32x16(&total[r * 16], (float32x16){0});
        }
        for (int64_t k = 0; k < 20; k++) {
            #pragma GCC unroll 3
            for (int64_t r = 0; r < 3; r++) {
                tc_store_float32x16(&total[r * 16], tc_fma_float32x16(tc_broadcast_float32x16(A[r * 20 + k]), tc_load_float32x16(&packed[k * 16]), tc_load_float32x16(&total[r * 16])));
            }
        }
        #pragma GCC unroll 3
        for (int64_t r = 0; r < 3; r++) {
            tc_store_masked_float32x16(&C[r * 27 + j * 16], inside, tc_max_float32x16(tc_load_float32x16(&total[r * 16]), (float32x16){0}));
        }
    }
}
