/* Machine benchmark: arithmetic, branches, atomics and the cost of a parallel region. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

/* As wide as the vectors of the instruction set that this is built for. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef double vector_f64 __attribute__((vector_size(VECTOR_BYTES)));
typedef float vector_f32 __attribute__((vector_size(VECTOR_BYTES)));

/* Chains hide the latency of the multiply-add units: two units of up to six cycles with the twelve that
 * fit sixteen registers; with 32 registers twenty-four, for four units (Neoverse V2) or nine cycles
 * (A64FX). */
#if defined(__AVX512F__) || defined(__aarch64__) || defined(__powerpc64__)
enum { CHAINS = 24, STEPS = 64 };
#define WITH_32_REGISTERS(...) __VA_ARGS__
#else
enum { CHAINS = 12, STEPS = 64 };
#define WITH_32_REGISTERS(...)
#endif

/* One unit: STEPS multiply-adds in each of the chains, on every thread. The chains are named
 * one by one because an array of them need not stay in registers. */
#define FMA_BURST(name, vector, scalar)                                                            \
    static void name(void *context, int64_t count)                                                 \
    {                                                                                              \
        scalar total = 0;                                                                          \
        OMP(parallel reduction(+ : total))                                                         \
        {                                                                                          \
            const vector m = (vector){0} + (scalar)0.999, c = (vector){0} + (scalar)0.001;         \
            vector a0 = c, a1 = c + 1, a2 = c + 2, a3 = c + 3, a4 = c + 4, a5 = c + 5;             \
            vector a6 = c + 6, a7 = c + 7, a8 = c + 8, a9 = c + 9, aa = c + 10, ab = c + 11;       \
            WITH_32_REGISTERS(                                                                     \
                vector b0 = c + 12, b1 = c + 13, b2 = c + 14, b3 = c + 15, b4 = c + 16, b5 = c + 17, \
                       b6 = c + 18, b7 = c + 19, b8 = c + 20, b9 = c + 21, ba = c + 22, bb = c + 23;) \
            for (int64_t i = 0; i < count * STEPS; i++) {                                          \
                a0 = a0 * m + c, a1 = a1 * m + c, a2 = a2 * m + c, a3 = a3 * m + c;                \
                a4 = a4 * m + c, a5 = a5 * m + c, a6 = a6 * m + c, a7 = a7 * m + c;                \
                a8 = a8 * m + c, a9 = a9 * m + c, aa = aa * m + c, ab = ab * m + c;                \
                WITH_32_REGISTERS(                                                                 \
                    b0 = b0 * m + c, b1 = b1 * m + c, b2 = b2 * m + c, b3 = b3 * m + c,            \
                    b4 = b4 * m + c, b5 = b5 * m + c, b6 = b6 * m + c, b7 = b7 * m + c,            \
                    b8 = b8 * m + c, b9 = b9 * m + c, ba = ba * m + c, bb = bb * m + c;)           \
            }                                                                                      \
            vector sum = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + aa + ab;                \
            WITH_32_REGISTERS(                                                                     \
                sum += b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7 + b8 + b9 + ba + bb;)                 \
            for (size_t lane = 0; lane < sizeof sum / sizeof sum[0]; lane++)                       \
                total += sum[lane];                                                                \
        }                                                                                          \
        *(double *)context += (double)total;                                                       \
    }

FMA_BURST(fma_f64, vector_f64, double)
FMA_BURST(fma_f32, vector_f32, float)

static volatile double sink;

static void print_flops(burst_fn burst, size_t lanes, int threads, double seconds)
{
    double total = 0.0;
    struct rate rate = measure(burst, &total, seconds);
    sink = total;
    rate.per_s *= 2.0 * CHAINS * STEPS * (double)lanes * threads;
    print_rate("flop/s", rate);
    printf(", \"vector_bytes\": %d", VECTOR_BYTES);
}

void bench_flops_f64(int threads, double seconds)
{
    print_flops(fma_f64, VECTOR_BYTES / sizeof(double), threads, seconds > 0 ? seconds : 0.5);
}

void bench_flops_f32(int threads, double seconds)
{
    print_flops(fma_f32, VECTOR_BYTES / sizeof(float), threads, seconds > 0 ? seconds : 0.5);
}

/* Eight independent chains of an add and an exclusive or. */
static void integer_burst(void *context, int64_t count)
{
    uint64_t total = 0;
    OMP(parallel reduction(+ : total))
    {
        uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, k = 0x5851f42d;
        for (int64_t i = 0; i < count; i++) {
            FORGET(k);
            a = (a + k) ^ 21, b = (b + k) ^ 22, c = (c + k) ^ 23, d = (d + k) ^ 24;
            e = (e + k) ^ 25, f = (f + k) ^ 26, g = (g + k) ^ 27, h = (h + k) ^ 28;
            FORGET(a);
            FORGET(b);
            FORGET(c);
            FORGET(d);
            FORGET(e);
            FORGET(f);
            FORGET(g);
            FORGET(h);
        }
        total += a + b + c + d + e + f + g + h;
    }
    *(uint64_t *)context += total;
}

void bench_int_ops(int threads, double seconds)
{
    uint64_t total = 0;
    struct rate rate = measure(integer_burst, &total, seconds > 0 ? seconds : 0.3);
    sink = (double)total;
    rate.per_s *= 16.0 * threads;
    print_rate("op/s", rate);
}

/* One unit is four cycles: additions and exclusive ors of registers that each wait for the one before
 * take one cycle on every core, two on POWER (POWER9 Processor User's Manual). A multiplication would
 * take two to five. */
#ifdef __powerpc64__
enum { PAIRS_OF_STEPS = 1 };
#else
enum { PAIRS_OF_STEPS = 2 };
#endif

static void chain_burst(void *context, int64_t count)
{
    uint64_t total = 0;
    OMP(parallel reduction(+ : total))
    {
        uint64_t x = 88172645463325252u, k = 0x5851f42d;
        for (int64_t i = 0; i < count * PAIRS_OF_STEPS; i++) {
            FORGET(k);
            x += k;
            FORGET(x);
            x ^= k;
            FORGET(x);
        }
        total += x;
    }
    *(uint64_t *)context += total;
}

void bench_scalar_chain(int threads, double seconds)
{
    uint64_t total = 0;
    struct rate rate = measure(chain_burst, &total, seconds > 0 ? seconds : 0.3);
    sink = (double)total;
    rate.per_s *= threads;
    print_rate("dependent step/s", rate);
}

enum { COINS = 1 << 20 };

/* Branches on each byte; the empty asm on both ways keeps it a branch. */
static void branch_burst(void *context, int64_t count)
{
    const unsigned char *coins = context;
    OMP(parallel)
    {
        int64_t heads = 0, tails = 0;
        for (int64_t i = 0; i < count; i++) {
            if (coins[i % COINS]) {
                heads++;
                FORGET(heads);
            } else {
                tails++;
                FORGET(tails);
            }
        }
    }
}

void bench_branchy(int threads, double seconds)
{
    const double half = seconds > 0 ? seconds / 2 : 0.2;
    unsigned char *coins = bench_memory(COINS);
    for (int64_t i = 0; i < COINS; i++)
        coins[i] = 1;
    const struct rate tame = measure(branch_burst, coins, half);
    for (int64_t i = 0; i < COINS; i++)
        coins[i] = mix((uint64_t)i) & 1;
    const struct rate wild = measure(branch_burst, coins, half);
    free(coins);
    print_rate("unpredictable branch/s", (struct rate){wild.per_s * threads, wild.spread});
    printf(", \"predictable_per_s\": %.6g", tame.per_s * threads);
    /* Half of the coin's branches are mispredicted; what they add is the price of a miss. */
    const double added_s = 1.0 / wild.per_s - 1.0 / tame.per_s;
    if (added_s > 0)
        printf(", \"misses_per_s\": %.6g", 0.5 / added_s * threads);
    else
        printf(", \"misses_per_s\": null");
}

static void atomic_burst(void *context, int64_t count)
{
    atomic_llong *counter = context;
    OMP(parallel)
    for (int64_t i = 0; i < count; i++)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void bench_atomic(int threads, double seconds)
{
    atomic_llong counter = 0;
    struct rate rate = measure(atomic_burst, &counter, seconds > 0 ? seconds : 0.3);
    rate.per_s *= threads;
    print_rate("atomic add/s", rate);
}

#ifdef _OPENMP
static void region_burst(void *context, int64_t count)
{
    int *used = context;
    for (int64_t i = 0; i < count; i++) {
        OMP(parallel)
        {
            OMP(master)
            (*used)++;
            FORGET_MEMORY();
        }
    }
}
#endif

void bench_fork_join(int threads, double seconds)
{
    (void)threads;
#ifdef _OPENMP
    int used = 0;
    const struct rate rate = measure(region_burst, &used, seconds > 0 ? seconds : 0.3);
    printf("\"unit\": \"ns\", \"value\": %.6g, \"spread\": %.4f", 1e9 / rate.per_s, rate.spread);
#else
    (void)seconds;
    printf("\"unit\": \"ns\", \"value\": null, \"spread\": null"); /* no regions to launch */
#endif
}
