// k
//   input float32(124) a
//   output float32(124) o
//   output bool(124) p
//   shared float32(124, 129) s
//   shared bool(125) u
//   at multiples of 16 bytes: a, o
//   k_0: 1 x 1 x 1 blocks of 124 x 1 x 1 threads (x, y, z), 64112 bytes of shared memory

extern "C" __global__ void __launch_bounds__(124) k_0(
    const float* __restrict__ a,
    float* __restrict__ o,
    unsigned char* __restrict__ p)
{
    extern __shared__ __align__(16) unsigned char tc_arena[];
    float (* const s)[129] = (float (*)[129])(tc_arena + 0);
    unsigned char* const u = (unsigned char*)(tc_arena + 63984);
    a = (const float*)__builtin_assume_aligned(a, 16);
    o = (float*)__builtin_assume_aligned(o, 16);
    const long long t0 = threadIdx.x;
    for (long long i = 0; i < 129; i++) {
        s[t0][i] = a[t0] + (float)i;
    }
    u[t0] = a[t0] < 0.0f;
    __syncthreads();
    o[t0] = s[-t0 + 123][t0];
    p[t0] = u[-t0 + 123] != 0;
}
