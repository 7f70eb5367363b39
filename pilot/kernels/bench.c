/* Machine benchmark: the timing loop and the list of what can be measured. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { REPEATS = 5, USAGE = 2, FAILED = 1, PAGE = 4096 };

static const struct {
    const char *name;
    void (*print)(int threads, double seconds);
} benches[] = {
    {"flops_f64", bench_flops_f64},       {"flops_f32", bench_flops_f32},
    {"bandwidth", bench_bandwidth},       {"latency", bench_latency},
    {"reduction", bench_reduction},       {"branchy", bench_branchy},
    {"gather", bench_gather},             {"int_ops", bench_int_ops},
    {"scalar_chain", bench_scalar_chain}, {"atomic", bench_atomic},
    {"fork_join", bench_fork_join},
};

static int bench_team(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* The clock, without the time for which the first thread was ready and waited for a processor that
 * others had; the processor time where the kernel does not tell. */
static double wanted_s(void)
{
    unsigned long long ran, waited;
    FILE *file = fopen("/proc/self/schedstat", "r");
    const bool told = file && fscanf(file, "%llu %llu", &ran, &waited) == 2;
    if (file)
        fclose(file);
    return told ? now_s() - 1e-9 * (double)waited : computed_s();
}

/* By processor time of each thread: what others on this machine or a quota take of the seconds is
 * none of the work's (the quota is read by pilot/control_groups.py). */
static double timed(burst_fn burst, void *context, int64_t count)
{
    const double start = computed_s();
    burst(context, count);
    return (computed_s() - start) / bench_team();
}

/* Best of some repeats, as STREAM does: whatever disturbs a run can only slow it down. A burst
 * counts only when its shortest run is long enough to time: one disturbed run says nothing. */
struct rate measure(burst_fn burst, void *context, double seconds)
{
    const double wanted = seconds / (REPEATS + 1);
    for (int64_t count = 1;;) {
        double shortest = timed(burst, context, count), longest = shortest;
        for (int k = 1; k < REPEATS; k++) {
            const double elapsed = timed(burst, context, count);
            shortest = elapsed < shortest ? elapsed : shortest;
            longest = elapsed > longest ? elapsed : longest;
        }
        if (shortest >= wanted / 2 || count >= INT64_C(1) << 40)
            return (struct rate){(double)count / shortest, longest / shortest - 1};
        const double factor = shortest > 0 ? wanted / shortest : 16;
        count = (int64_t)((double)count * (factor < 2 ? 2 : factor > 16 ? 16 : factor));
    }
}

void *bench_memory(size_t bytes)
{
    void *memory;
    if (posix_memalign(&memory, PAGE, bytes)) {
        fprintf(stderr, "berth-kernels: the benchmark needs %zu MiB of memory\n", bytes >> 20);
        exit(FAILED);
    }
    return memory;
}

static size_t largest = (size_t)512 << 20;

size_t bench_ceiling(void)
{
    return largest;
}

void print_rate(const char *unit, struct rate rate)
{
    printf("\"unit\": \"%s\", \"value\": %.6g, \"spread\": %.4f", unit, rate.per_s, rate.spread);
}

int run_bench(const char *what, int threads, double seconds, int64_t ceiling)
{
    if (ceiling)
        largest = (size_t)ceiling;
    const size_t count = sizeof benches / sizeof *benches;
    for (size_t k = 0; k < count; k++) {
        if (strcmp(what, benches[k].name))
            continue;
        const double computed = computed_s(), wanted = wanted_s();
        printf("{\"what\": \"%s\", \"threads\": %d, ", what, threads);
        benches[k].print(threads, seconds);
        printf(", \"computed_s\": %.6f, \"wanted_s\": %.6f}\n", computed_s() - computed,
               wanted_s() - wanted);
        return 0;
    }
    fprintf(stderr, "berth-kernels: no benchmark '%s'; there are:", what);
    for (size_t k = 0; k < count; k++)
        fprintf(stderr, " %s", benches[k].name);
    fputc('\n', stderr);
    return USAGE;
}
