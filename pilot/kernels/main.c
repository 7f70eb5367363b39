/* berth-kernels: runs the reference kernels and the machine benchmark, prints JSON.
 *
 *   berth-kernels list [--size N]
 *   berth-kernels run NAME [--size N] [--reps R] [--fraction F] [--threads T]
 *   berth-kernels bench WHAT [--threads T] [--seconds S] [--largest BYTES]
 *   berth-kernels check
 *
 * Exit status: 0 done, 1 failed (memory, a failed check), 2 wrong usage.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"

enum { FAILED = 1, USAGE = 2, MAX_REPS = 100000 };

const struct kernel_group *const kernel_groups[] = {
    &algorithm_group, &apps_group,         &apps_halo_group, &apps_mesh_group,
    &basic_group,     &basic_reduce_group, &file_group,      &integer_group,
    &irregular_group, &lcals_group,        &message_group,   &polybench_group,
    &polybench_stencil_group, &single_group, &stream_group,  NULL,
};

static const int64_t default_sizes[] = {1048576, 2097152, 8388608};

struct options {
    int64_t size; /* 0: not given */
    int64_t reps;
    double fraction;
    int64_t threads;
    double seconds;
    int64_t largest;
};

static _Noreturn void fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("berth-kernels: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

static int64_t whole(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        fail(USAGE, "%s must be a whole number from %" PRId64 " to %" PRId64 ", not '%s'", option,
             least, most, text);
    return value;
}

static double real(const char *option, const char *text, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value > 0.0 && value <= most) || strpbrk(text, "nN"))
        fail(USAGE, "%s must be a number above 0 and up to %g, not '%s'", option, most, text);
    return value;
}

static int64_t most_threads(void)
{
#ifdef _OPENMP
    return MAX_THREADS;
#else
    return 1;
#endif
}

static int64_t usual_threads(void)
{
#ifdef _OPENMP
    const int64_t threads = omp_get_max_threads();
    return threads < MAX_THREADS ? threads : MAX_THREADS;
#else
    return 1;
#endif
}

/* `allowed` lists the options of the subcommand, each with a space after it. */
static struct options parse(int count, char **words, const char *allowed)
{
    struct options options = {0, 1, 1.0, usual_threads(), 0.0, 0};
    for (int k = 0; k < count; k += 2) {
        const char *name = words[k];
        char wanted[24];
        snprintf(wanted, sizeof wanted, "%.20s ", name);
        if (strncmp(name, "--", 2) || !strstr(allowed, wanted))
            fail(USAGE, "unknown argument '%s'; this command takes: %s", name,
                 *allowed ? allowed : "none");
        if (k + 1 == count)
            fail(USAGE, "%s needs a value", name);
        const char *value = words[k + 1];
        if (!strcmp(name, "--size"))
            options.size = whole(name, value, MIN_SIZE, MAX_SIZE);
        else if (!strcmp(name, "--reps"))
            options.reps = whole(name, value, 0, MAX_REPS);
        else if (!strcmp(name, "--fraction"))
            options.fraction = real(name, value, 1.0);
        else if (!strcmp(name, "--seconds"))
            options.seconds = real(name, value, 60.0);
        else if (!strcmp(name, "--largest"))
            options.largest = whole(name, value, 1 << 20, INT64_C(1) << 40);
        else if (most_threads() == 1 && strcmp(value, "1"))
            fail(USAGE, "--threads must be 1: this is the serial build");
        else
            options.threads = whole(name, value, 1, most_threads());
    }
    return options;
}

static void print_plan(const struct plan *plan)
{
    printf("\"size\": %" PRId64 ", \"iterations_per_rep\": %" PRId64 ", \"bytes_per_rep\": %" PRId64
           ", \"flops_per_rep\": %" PRId64 ", \"kernels_per_rep\": %" PRId64
           ", \"bytes_allocated\": %" PRId64,
           plan->size, plan->iterations, plan->bytes, plan->flops, plan->launches,
           plan_memory(plan));
}

static int list(const struct options *options)
{
    const char *separator = "[";
    for (const struct kernel_group *const *group = kernel_groups; *group; group++) {
        for (int k = 0; k < (*group)->count; k++) {
            const struct kernel *kernel = &(*group)->kernels[k];
            struct plan plan = {0};
            kernel->plan(&plan, options->size ? options->size : default_sizes[0]);
            printf("%s\n  {\"name\": \"%s\", \"group\": \"%s\", \"sampled\": %s, ", separator,
                   kernel->name, (*group)->name, plan.outer ? "true" : "false");
            printf("\"default_sizes\": [%" PRId64 ", %" PRId64 ", %" PRId64 "]", default_sizes[0],
                   default_sizes[1], default_sizes[2]);
            if (options->size) {
                printf(", \"target_size\": %" PRId64 ", ", options->size);
                print_plan(&plan);
            }
            printf("}");
            separator = ",";
        }
    }
    printf("\n]\n");
    return 0;
}

static const struct kernel *find(const char *name, const char **group_name)
{
    for (const struct kernel_group *const *group = kernel_groups; *group; group++)
        for (int k = 0; k < (*group)->count; k++)
            if (!strcmp((*group)->kernels[k].name, name)) {
                *group_name = (*group)->name;
                return &(*group)->kernels[k];
            }
    fail(USAGE, "no kernel '%s'; `berth-kernels list` names them all", name);
}

static int run(const char *name, const struct options *options)
{
    const char *group;
    const struct kernel *kernel = find(name, &group);
    const int64_t target = options->size ? options->size : default_sizes[0];
    const double gib = 1024.0 * 1024.0 * 1024.0;
    struct plan plan = {0};
    kernel->plan(&plan, target);
    const double needed = (double)plan_memory(&plan);
    const double physical = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (needed > physical)
        fail(FAILED, "%s at size %" PRId64 " needs %.1f GiB of memory, this machine has %.1f GiB",
             name, target, needed / gib, physical / gib);
    double *seconds = calloc((size_t)options->reps + 1, sizeof *seconds);
    struct work *work = work_new(kernel, target, options->fraction);
    if (!work || !seconds)
        fail(FAILED, "%s at size %" PRId64 " needs %.3f GiB of memory, which could not be had",
             name, target, needed / gib);
    const double computed = computed_s();
    for (int64_t rep = 0; rep < options->reps; rep++) {
        const double start = now_s();
        kernel->rep(work);
        seconds[rep] = now_s() - start;
    }
    const double processor_s = computed_s() - computed;
    const int64_t all = plan.outer ? plan.outer : 1;
    const int64_t executed = plan.outer ? work->outer_run : 1;
    printf("{\"name\": \"%s\", \"group\": \"%s\", \"target_size\": %" PRId64 ", ", kernel->name,
           group, target);
    print_plan(&plan);
    printf(", \"threads\": %" PRId64 ", \"reps\": %" PRId64 ", ", options->threads, options->reps);
    printf("\"outer_executed\": %" PRId64 ", \"outer_total\": %" PRId64 ", \"fraction\": %.17g, ",
           executed, all, (double)executed / (double)all);
    printf("\"processor_s\": %.9f, \"seconds\": [", processor_s);
    for (int64_t rep = 0; rep < options->reps; rep++)
        printf("%s%.9f", rep ? ", " : "", seconds[rep]);
    printf("]}\n");
    work_free(work);
    free(seconds);
    return 0;
}

/* Sets the team's size; the environment (OMP_THREAD_LIMIT) may refuse it. */
static void use_threads(int64_t threads)
{
#ifdef _OPENMP
    int team = 1;
    omp_set_dynamic(0);
    omp_set_num_threads((int)threads);
    OMP(parallel)
    {
        OMP(master)
        team = omp_get_num_threads();
    }
    if (team < threads)
        fail(FAILED, "only %d of %" PRId64 " threads could be had", team, threads);
#else
    (void)threads;
#endif
}

int main(int count, char **words)
{
    const char *command = count > 1 ? words[1] : "";
    const char *subject = count > 2 ? words[2] : "";
    if (!strcmp(command, "list")) {
        const struct options options = parse(count - 2, words + 2, "--size ");
        return list(&options);
    }
    if (!strcmp(command, "check")) {
        parse(count - 2, words + 2, "");
        return run_check();
    }
    if (!strcmp(command, "run") && count > 2) {
        const struct options options =
            parse(count - 3, words + 3, "--size --reps --fraction --threads ");
        use_threads(options.threads);
        return run(subject, &options);
    }
    if (!strcmp(command, "bench") && count > 2) {
        const struct options options = parse(count - 3, words + 3, "--threads --seconds --largest ");
        use_threads(options.threads);
        return run_bench(subject, (int)options.threads, options.seconds, options.largest);
    }
    fail(USAGE, "usage: berth-kernels list | run NAME | bench WHAT | check, each with options");
}
