/* What is measured between nodes, over whatever carries the messages.
   One JSON object on standard output of rank 0. */
#ifndef BERTH_LINK_H
#define BERTH_LINK_H

#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What carries the messages; each call returns when this rank's part is done. */
void exchange(int first, void *bytes, size_t count); /* of two ranks: there and back */
void reduce_all(double *values, size_t count);       /* the sum over all ranks, in place */

#define LATENCY_BYTES 8
#define BATCHES 7
#define BATCH_S 0.02 /* least seconds of a batch of repetitions */
#define SLOW_S 0.4   /* larger messages are not tried after one that took so long */

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A number that rank 0 chose, on all ranks. */
static long agreed(int rank, double mine)
{
    double value = rank == 0 ? mine : 0.0;
    reduce_all(&value, 1);
    return lround(value);
}

static void once(int rank, double *buffer, size_t bytes, int reduce)
{
    if (reduce)
        reduce_all(buffer, bytes / sizeof(double));
    else
        exchange(rank == 0, buffer, bytes);
}

/* Seconds of one round trip or all-reduce: the median over batches of repetitions. */
static double measured(int rank, double *buffer, size_t bytes, int reduce)
{
    double seconds[BATCHES], begun;
    once(rank, buffer, bytes, reduce);
    begun = now();
    once(rank, buffer, bytes, reduce);
    double one = now() - begun;
    long count = agreed(rank, fmin(fmax(BATCH_S / fmax(one, 1e-7), 1.0), 5000.0));
    long batches = agreed(rank, one > SLOW_S ? 3 : BATCHES);
    for (long batch = 0; batch < batches; batch++) {
        begun = now();
        for (long i = 0; i < count; i++)
            once(rank, buffer, bytes, reduce);
        seconds[batch] = (now() - begun) / (double)count;
        memset(buffer, 0, bytes); /* sums would grow beyond all bounds */
    }
    qsort(seconds, (size_t)batches, sizeof *seconds, ascending);
    return seconds[batches / 2];
}

/* All of it; 0, or 1 where a sum was wrong. */
static int measure(int rank, int ranks, const char *library)
{
    static const size_t moved[] = {1u << 20, 1u << 22, 1u << 24};
    static const size_t reduced[] = {8, 1024, 65536, 1u << 20, 1u << 23};
    double *buffer = calloc(1u << 24, 1), latency = 0, rate = 0;
    if (buffer == NULL)
        return 1;
    buffer[0] = buffer[4095] = rank + 1;
    reduce_all(buffer, 4096);
    double expected = 0.5 * ranks * (ranks + 1);
    if (buffer[0] != expected || buffer[4095] != expected || buffer[1] != 0.0) {
        fprintf(stderr, "an all-reduce gave a wrong sum\n");
        return 1;
    }
    memset(buffer, 0, 1u << 15);
    if (ranks == 2) {
        latency = measured(rank, buffer, LATENCY_BYTES, 0) / 2;
        for (int i = 0; i < 3; i++) {
            double one_way = measured(rank, buffer, moved[i], 0) / 2;
            rate = fmax(rate, (double)moved[i] / one_way);
            if (agreed(rank, one_way > SLOW_S / 8))
                break;
        }
    }
    if (rank == 0) {
        printf("{\"library\": \"");
        for (const char *c = library; *c >= ' ' && *c != '"' && *c != '\\'; c++)
            putchar(*c);
        printf("\", \"ranks\": %d, ", ranks);
        if (ranks == 2)
            printf("\"latency_s\": %.9g, \"bytes_per_s\": %.9g, ", latency, rate);
        printf("\"all_reduce\": [");
    }
    for (int i = 0; i < 5; i++) {
        double seconds = measured(rank, buffer, reduced[i], 1);
        if (rank == 0)
            printf("%s[%zu, %.9g]", i ? ", " : "", reduced[i], seconds);
        if (agreed(rank, seconds > SLOW_S))
            break;
    }
    if (rank == 0)
        printf("]}\n");
    free(buffer);
    return 0;
}
#endif
