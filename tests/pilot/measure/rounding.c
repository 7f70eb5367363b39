/* Hashes what roundings, conversions and integers in vectors give in all four rounding modes, or
 * (with a second argument) what fused multiply-adds and wider vectors give in the usual one. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned long state = 88172645463325252ul, sum;
static unsigned long next(void) { state ^= state << 13; state ^= state >> 7; return state ^= state << 17; }
static void add(const void *bytes, int size)
{
    unsigned long word = 0;
    memcpy(&word, bytes, size);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15ul;
}
static double wide(void)
{
    static const double special[] = {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 4503599627370495.5,
        9007199254740993.0, 1e300, -1e300, 1e-310, 2147483648.0, -2147483649.0, 9.3e18, __builtin_inf(), __builtin_nan("")};
    unsigned long bits = next(), kind = next() % 4;
    double value;
    if (kind == 0)
        return special[bits % (sizeof special / sizeof *special)];
    if (kind == 1)
        return (double)(long)(bits >> 40) / 64 - 90000;
    bits = (bits & ~(0x7fful << 52)) | (0x3e0 + next() % 80) << 52;
    memcpy(&value, &bits, 8);
    return value;
}
#define ROUND(mode) { __m128 f = _mm_round_ps(_mm_set_ps(c, b, a, -a), mode); add(&f, 8); add((char *)&f + 8, 8); \
        __m128d d = _mm_round_pd(_mm_set_pd(y, x), mode); add(&d, 8); add((char *)&d + 8, 8); }
__attribute__((target("sse4.1"))) static void rounding(double x, double y)
{
    float a = (float)x, b = (float)y, c = (float)(x * 0.37);
    ROUND(0) ROUND(1) ROUND(2) ROUND(3) ROUND(4)
}
static void conversions(double x)
{
    float f = (float)x;
    int i = _mm_cvttsd_si32(_mm_set_sd(x)), j = _mm_cvtsd_si32(_mm_set_sd(x));
    long l = _mm_cvttsd_si64(_mm_set_sd(x));
    add(&f, 4), add(&i, 4), add(&j, 4), add(&l, 8);
}
static unsigned long bits(void)
{
    static unsigned long own = 88172645463325252ul;
    own ^= own << 13; own ^= own >> 7;
    return own ^= own << 17;
}
#define ADD(vector) { __m128i v = vector; add(&v, 8); add((char *)&v + 8, 8); }
#define OF_LANES(what) ADD(_mm_max_##what(a, b)) ADD(_mm_min_##what(a, b))
__attribute__((target("sse4.1"))) static void lanes(void)
{
    const __m128i a = _mm_set_epi64x(bits(), bits());
    const __m128i b = bits() & 1 ? _mm_set_epi64x(bits(), bits()) : _mm_xor_si128(a, _mm_set1_epi8(bits() & 128));
    const int signs = _mm_movemask_epi8(a);
    OF_LANES(epi8) OF_LANES(epi32) OF_LANES(epu32) OF_LANES(epu16)
    OF_LANES(epu8) OF_LANES(epi16)
    ADD(_mm_blendv_epi8(a, b, _mm_add_epi8(a, b)))
    add(&signs, 4);
}
#define WIDE(what) { const __m256i v = _mm256_##what(a, b); for (int i = 0; i < 4; i++) { long w = ((__v4di)v)[i]; add(&w, 8); } }
__attribute__((target("avx2"))) static void wide_lanes(void)
{
    const __m256i a = _mm256_set_epi64x(bits(), bits(), bits(), bits());
    const __m256i b = _mm256_set_epi64x(bits(), bits(), bits(), bits());
    const int signs = _mm256_movemask_epi8(a);
    WIDE(max_epi8) WIDE(min_epi8) WIDE(max_epi32) WIDE(min_epi32) WIDE(max_epu32) WIDE(min_epu32)
    WIDE(max_epu16) WIDE(min_epu16)
    add(&signs, 4);
}
__attribute__((target("fma,avx2"))) static void fused(double x, double y, double z)
{
    __m256d d = _mm256_fmadd_pd(_mm256_set_pd(x, y, z, 1), _mm256_set1_pd(y), _mm256_set1_pd(z));
    __m128 f = _mm_fmadd_ps(_mm_set_ps(x, y, z, 1), _mm_set1_ps(y), _mm_set1_ps(z));
    static float beside[9]; /* not aligned: a memory operand of its own address */
    for (int i = 0; i < 9; i++)
        beside[i] = (float)(x * i - y);
    const __m256 g = _mm256_setr_ps(x, y, z, 1, z, y, x, 3), once = _mm256_fmaddsub_ps(g, g, _mm256_loadu_ps(beside + 1));
    const __m256 twice = _mm256_fmsub_ps(once, g, _mm256_fmadd_ps(once, once, g));
    const __m256d e = _mm256_fmsubadd_pd(d, _mm256_fmsub_pd(d, d, d), _mm256_set1_pd(x));
    for (int i = 0; i < 8; i++) {
        const float a = once[i] == once[i] ? once[i] : 1, b = twice[i] == twice[i] ? twice[i] : 1;
        const double c = e[i & 3] == e[i & 3] ? e[i & 3] : 1;
        add(&a, 4), add(&b, 4), add(&c, 8);
    }
    for (int i = 0; i < 4; i++) { /* what is not a number may have either sign */
        const double wide = d[i] == d[i] ? d[i] : 1;
        const float narrow = f[i] == f[i] ? f[i] : 1;
        add(&wide, 8), add(&narrow, 4);
    }
}
int main(int argc, char **argv)
{
    const long times = atol(argv[1]);
    for (unsigned mode = 0; mode < (argc > 2 ? 1 : 4); mode++) {
        _MM_SET_ROUNDING_MODE(mode << 13);
        for (long i = 0; i < times; i++) {
            const double x = wide(), y = wide(), z = wide();
            if (argc == 2) {
                rounding(x, y);
                conversions(x);
                lanes();
            } else if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
                fused(x, y, z);
                wide_lanes();
            }
        }
    }
    printf("%lx\n", sum);
    return 0;
}
