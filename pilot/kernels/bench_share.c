/* Machine benchmark: how much of the time a quota leaves. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { SHARES = 3, LINE = 4096 };

/* Seconds that this thread waited for a processor, by the second number of its schedstat. */
static double waited_s(void)
{
    unsigned long long ran, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    fclose(file);
    return (double)waited * 1e-9;
}

/* Seconds that a cgroup was held back by its quota, its processors together. */
static double throttled_in(const char *folder)
{
    char path[2 * LINE], name[64];
    unsigned long long value;
    double found = 0;
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fscanf(file, "%63s %llu", name, &value) == 2) {
        if (!strcmp(name, "throttled_usec"))
            found = (double)value * 1e-6;
        else if (!strcmp(name, "throttled_time"))
            found = (double)value * 1e-9;
    }
    fclose(file);
    return found;
}

/* The same of this process's cgroup and those above it, in cgroups of version 1 and 2. */
static double throttled_s(void)
{
    char line[LINE], folder[LINE + 64];
    double found = 0;
    FILE *file = fopen("/proc/self/cgroup", "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        const int unified = names[1] == 0;
        if (!unified && strcmp(names + 1, "cpu") && strncmp(names + 1, "cpu,", 4) &&
            strcmp(names + 1, "cpuacct,cpu"))
            continue;
        for (;;) {
            snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s%s", unified ? "" : "/cpu",
                     *path == '/' ? "" : "/", path);
            found += throttled_in(folder);
            char *end = strrchr(path, '/');
            if (!end || end[1] == 0)
                break;
            end[end == path] = 0;
        }
    }
    fclose(file);
    return found;
}

/* The share of the time in which threads that only compute have a processor, over several periods
 * of a quota (0.1 s where nobody chose another); the best of some, as of every rate. Time in which
 * another program had the processor is left out: a thread's wait counts only where a quota made
 * it, and some kernels count time of a quota among the waits. */
void bench_share(int threads, double seconds)
{
    const double wanted = seconds > 0 && seconds < 0.1 ? seconds : 0.4;
    double best = 0;
    for (int k = 0; k < SHARES; k++) {
        double others = 0;
        const double start = now_s(), before = computed_s(), held = throttled_s();
        OMP(parallel reduction(+ : others))
        {
            const double waited = waited_s();
            while (now_s() - start < wanted)
                FORGET_MEMORY();
            others += waited_s() - waited;
        }
        const double computed = computed_s() - before, all = (now_s() - start) * threads;
        others -= throttled_s() - held;
        const double share = computed / (all - (others > 0 ? others : 0));
        best = share > best ? share : best;
    }
    printf("\"unit\": \"s/s\", \"value\": %.6g, \"spread\": 0", best > 1 ? 1 : best);
}
