// mm
//   input float32(128, 32) A
//   input float32(32, 256) B
//   output float32(128, 256) C

#include <stdint.h>

void mm(const float* restrict A, const float* restrict B, float* restrict C)
{
    for (int64_t i = 0; i < 128; i++) {
        // C(i,j) +=! A(i,k) * B(k,j)
        for (int64_t j = 0; j < 256; j++) {
            C[i * 256 + j] = 0.0f;
        }
        for (int64_t k = 0; k < 32; k++) {
            for (int64_t j = 0; j < 256; j++) {
                C[i * 256 + j] += A[i * 32 + k] * B[k * 256 + j];
            }
        }
    }
}
