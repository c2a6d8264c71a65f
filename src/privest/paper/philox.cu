// Philox4x64-10 (Salmon et al. 2011), as numpy.random.Philox: four words a counter.

__device__ inline void philox_one(long long index, unsigned long long first,
                                  unsigned long long key0, unsigned long long key1,
                                  unsigned long long *words) {
    unsigned long long c0 = first + (unsigned long long)index, c1 = 0, c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long high0 = __umul64hi(0xD2E7470EE14C6C93ULL, c0);
        unsigned long long low0 = 0xD2E7470EE14C6C93ULL * c0;
        unsigned long long high1 = __umul64hi(0xCA5A826395121157ULL, c2);
        unsigned long long low1 = 0xCA5A826395121157ULL * c2;
        c0 = high1 ^ c1 ^ key0;
        c1 = low1;
        c2 = high0 ^ c3 ^ key1;
        c3 = low0;
        key0 += 0x9E3779B97F4A7C15ULL;
        key1 += 0xBB67AE8584CAA73BULL;
    }
    words[4 * index] = c0;
    words[4 * index + 1] = c1;
    words[4 * index + 2] = c2;
    words[4 * index + 3] = c3;
}

#ifdef __CUDACC__
extern "C" __global__ void philox(long long counters, unsigned long long first,
                                  unsigned long long key0, unsigned long long key1,
                                  unsigned long long *words) {
    long long index = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (index < counters) philox_one(index, first, key0, key1, words);
}
#endif
