/* Machine benchmark: bandwidth and latency by working set, reductions and gathers. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { SMALLEST = 16 << 10, LINE = 64, SHARE = 4096 };

static volatile double sink;

/* One working set: every thread has its own slab, and in it three arrays. */
struct triad {
    double *slabs[MAX_THREADS];
    int64_t elements; /* of each array of each thread */
};

static inline int thread_number(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static inline int team_size(void)
{
#ifdef _OPENMP
    return omp_get_num_threads();
#else
    return 1;
#endif
}

/* One unit: every thread goes through its arrays once. */
static void triad_burst(void *context, int64_t count)
{
    const struct triad *triad = context;
    const int64_t n = triad->elements;
    OMP(parallel)
    {
        double *a = triad->slabs[thread_number()];
        const double *b = a + n, *c = b + n;
        const double s = 0.1;
        for (int64_t pass = 0; pass < count; pass++) {
            for (int64_t i = 0; i < n; i++)
                a[i] = b[i] + s * c[i];
            FORGET_MEMORY();
        }
    }
}

void bench_bandwidth(int threads, double seconds)
{
    const size_t ceiling = bench_ceiling();
    size_t smallest = SMALLEST;
    while (smallest < (size_t)SHARE * (size_t)threads)
        smallest *= 2;
    int sizes = 0;
    for (size_t bytes = smallest; bytes <= ceiling; bytes *= 2)
        sizes++;
    const double each = (seconds > 0 ? seconds : 0.5) / sizes;
    struct triad triad;
    const size_t slab = ceiling / (size_t)threads;
    for (int t = 0; t < threads; t++)
        triad.slabs[t] = bench_memory(slab);
    OMP(parallel)
    {
        double *mine = triad.slabs[thread_number()];
        for (size_t i = 0; i < slab / sizeof *mine; i++)
            mine[i] = 1.0;
    }
    const char *separator = "";
    printf("\"points\": [");
    for (size_t bytes = smallest; bytes <= ceiling; bytes *= 2) {
        /* Whole cache lines, so that the arrays of a slab stay aligned. */
        triad.elements = (int64_t)(bytes / (size_t)threads / 3 / LINE * (LINE / sizeof(double)));
        const struct rate rate = measure(triad_burst, &triad, each);
        const double moved = 24.0 * (double)triad.elements * threads;
        printf("%s{\"bytes\": %zu, \"bytes_per_s\": %.6g, \"spread\": %.4f}", separator, bytes,
               moved * rate.per_s, rate.spread);
        separator = ", ";
    }
    printf("]");
    for (int t = 0; t < threads; t++)
        free(triad.slabs[t]);
}

struct chase {
    char *memory;
    uint64_t at;
};

/* Follows `count` links, each a load that waits for the one before. */
static void chase_burst(void *context, int64_t count)
{
    struct chase *chase = context;
    uint64_t at = chase->at;
    for (int64_t i = 0; i < count; i++)
        at = *(const uint64_t *)(chase->memory + at);
    chase->at = at;
}

/* Links all lines into one cycle in the order of a full-period congruential generator. */
static void link_lines(char *memory, uint64_t lines)
{
    for (uint64_t i = 0; i < lines; i++)
        *(uint64_t *)(memory + i * LINE) =
            (i * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) % lines * LINE;
}

void bench_latency(int threads, double seconds)
{
    (void)threads; /* one thread: the latency of an idle machine */
    const size_t ceiling = bench_ceiling();
    int sizes = 0;
    for (size_t bytes = SMALLEST; bytes <= ceiling; bytes *= 2)
        sizes++;
    const double each = (seconds > 0 ? seconds : 0.8) / sizes;
    struct chase chase = {bench_memory(ceiling), 0};
    const char *separator = "";
    printf("\"points\": [");
    for (size_t bytes = SMALLEST; bytes <= ceiling; bytes *= 2) {
        link_lines(chase.memory, bytes / LINE);
        chase.at = 0;
        const struct rate rate = measure(chase_burst, &chase, each);
        printf("%s{\"bytes\": %zu, \"ns\": %.5g, \"spread\": %.4f}", separator, bytes,
               1e9 / rate.per_s, rate.spread);
        separator = ", ";
    }
    printf("]");
    free(chase.memory);
}

struct table {
    double *values;
    int64_t length;
    int *where;
    int64_t picks;
    double total;
};

static struct table table_new(int64_t length, int64_t picks)
{
    struct table table = {.length = length, .picks = picks};
    table.values = bench_memory((size_t)length * sizeof *table.values);
    OMP(parallel for)
    for (int64_t i = 0; i < length; i++)
        table.values[i] = 1.0;
    if (picks) {
        int *where = table.where = bench_memory((size_t)picks * sizeof *where);
        OMP(parallel for)
        for (int64_t i = 0; i < picks; i++)
            where[i] = (int)(mix((uint64_t)i) % (uint64_t)length);
    }
    return table;
}

static void table_free(struct table *table)
{
    sink = table->total;
    free(table->values);
    free(table->where);
}

static void sum_burst(void *context, int64_t count)
{
    struct table *table = context;
    const double *values = table->values;
    const int64_t length = table->length;
    for (int64_t pass = 0; pass < count; pass++) {
        double sum = 0.0;
        OMP(parallel for reduction(+ : sum))
        for (int64_t i = 0; i < length; i++)
            sum += values[i];
        table->total += sum;
        FORGET_MEMORY();
    }
}

void bench_reduction(int threads, double seconds)
{
    (void)threads;
    struct table table = table_new((int64_t)(bench_ceiling() / 2 / sizeof(double)), 0);
    struct rate rate = measure(sum_burst, &table, seconds > 0 ? seconds : 0.5);
    rate.per_s *= (double)table.length * sizeof(double);
    print_rate("byte/s", rate);
    table_free(&table);
}

/* One unit: every thread picks its share of the indices once. */
static void gather_burst(void *context, int64_t count)
{
    struct table *table = context;
    const double *values = table->values;
    double total = 0.0;
    OMP(parallel reduction(+ : total))
    {
        const int64_t share = table->picks / team_size();
        const int *where = table->where + share * thread_number();
        for (int64_t pass = 0; pass < count; pass++) {
            double sum = 0.0;
            for (int64_t i = 0; i < share; i++)
                sum += values[where[i]];
            total += sum;
            FORGET_MEMORY();
        }
    }
    table->total += total;
}

static struct rate gather(int64_t length, int64_t picks, double seconds)
{
    struct table table = table_new(length, picks);
    struct rate rate = measure(gather_burst, &table, seconds);
    rate.per_s *= (double)picks;
    table_free(&table);
    return rate;
}

void bench_gather(int threads, double seconds)
{
    const double half = seconds > 0 ? seconds / 2 : 0.25;
    const int64_t cells = (int64_t)(bench_ceiling() / 2 / sizeof(double));
    const int64_t large = cells < INT32_MAX ? cells : INT32_MAX; /* indices are 32 bits */
    const struct rate far = gather(large, INT64_C(1) << 20, half);
    /* In cache: a table of 16 KiB and the indices of 8 KiB a thread. */
    const struct rate near = gather(2048, INT64_C(2048) * threads, half);
    print_rate("out-of-cache gather/s", far);
    printf(", \"in_cache_per_s\": %.6g", near.per_s);
}
