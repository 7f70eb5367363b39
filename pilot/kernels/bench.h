/* The machine benchmark: bursts of one kind of work, timed. */
#ifndef BERTH_BENCH_H
#define BERTH_BENCH_H

#include "kernels.h"

/* Does `count` units of work. */
typedef void (*burst_fn)(void *context, int64_t count);

struct rate {
    double per_s;  /* units per second: the best of the repeats */
    double spread; /* how much longer the slowest repeat took, as a share */
};

/* Finds a count that fills a repeat, then times the repeats; about `seconds` in all. */
struct rate measure(burst_fn burst, void *context, double seconds);

/* Makes the compiler forget what it knows: of memory, or of one integer. */
#define FORGET_MEMORY() __asm__ volatile("" ::: "memory")
#define FORGET(integer) __asm__ volatile("" : "+r"(integer))

/* Zeroed memory, first touched by nobody; ends the program when there is none. */
void *bench_memory(size_t bytes);

/* Bytes of the largest working set that the benchmarks use: --largest, else 512 MiB. */
size_t bench_ceiling(void);

/* Each prints the members of a JSON object after "what" and "threads". */
void bench_flops_f64(int threads, double seconds);
void bench_flops_f32(int threads, double seconds);
void bench_int_ops(int threads, double seconds);
void bench_scalar_chain(int threads, double seconds);
void bench_branchy(int threads, double seconds);
void bench_atomic(int threads, double seconds);
void bench_fork_join(int threads, double seconds);
void bench_bandwidth(int threads, double seconds);
void bench_latency(int threads, double seconds);
void bench_reduction(int threads, double seconds);
void bench_gather(int threads, double seconds);

void print_rate(const char *unit, struct rate rate);

#endif
