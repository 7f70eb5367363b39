/* berth-kernels check: every kernel at small sizes against its reference in double precision.
 *
 * How far a result may be off follows from the kernel. The reference runs again on inputs that are
 * disturbed at random: that shows how relative errors come out (the condition). The roundings of its
 * operations, each within a few units of the kernel's precision, grow with the square root of their
 * number: Higham and Mary, "A new approach to probabilistic rounding error analysis", SIAM Journal on
 * Scientific Computing 41, 2019, whose bound holds with probability 1 - 2 exp(-CERTAINTY^2 / 2).
 */
#define _POSIX_C_SOURCE 200809L
#if defined(__clang__)
#pragma clang optimize off
#elif defined(__GNUC__)
#pragma GCC optimize("O0", "no-fast-math")
#endif
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels.h"

enum { DRAWS = 2 }; /* disturbed runs of a reference */

#define CERTAINTY 6.0
/* Fast mathematics takes approximate reciprocals and roots, refined to a few units. */
#define ROUNDING 4.0
/* Far above the roundings of the reference, far below what would turn a comparison. */
#define DISTURBANCE 0x1p-22

static const int64_t sizes[] = {1000, 2197};

static double disturbance;
static uint64_t disturbances;

double disturbed(double value)
{
    return value * (1.0 + (mix(disturbances++) & 1 ? disturbance : -disturbance));
}

/* Element i of array k, or result i where there is no array k. */
static double value_at(const struct work *work, int k, int64_t i)
{
    if (k == work->plan.array_count)
        return work->result[i];
    switch (work->plan.arrays[k].element) {
    case INT32: return ((const int *)work->array[k])[i];
    case INDEX: return (double)((const int64_t *)work->array[k])[i];
    case SINGLE: return (double)((const float *)work->array[k])[i];
    default: return ((const double *)work->array[k])[i];
    }
}

/* What the reference leaves of the inputs in `before`. NULL: no memory, or no reference. */
static struct work *reference(const char *name, const struct work *before)
{
    struct work *work = calloc(1, sizeof *work);
    if (!work)
        return NULL;
    work->plan = before->plan;
    for (int k = 0; k < work->plan.array_count; k++) {
        struct array_plan *array = &work->plan.arrays[k];
        double *reals = work->array[k] = malloc(8 * (size_t)array->count);
        if (!reals)
            break;
        if (array->element == INT32 || array->element == INDEX) {
            const size_t bytes = array->element == INT32 ? 4 : 8;
            memcpy(reals, before->array[k], bytes * (size_t)array->count);
            continue;
        }
        array->element = REAL;
        for (int64_t i = 0; i < array->count; i++)
            reals[i] = disturbed(value_at(before, k, i));
    }
    if ((!work->plan.array_count || work->array[work->plan.array_count - 1]) &&
        reference_run(name, work))
        return work;
    work_free(work);
    return NULL;
}

/* The build may assume finite numbers, so the exponent's bits are asked. */
static bool is_finite(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 52 & 0x7ff) != 0x7ff;
}

/* Whether array k, or the results, differ from the first reference by more than roundings explain. */
static bool differs(const char *name, const struct work *work, struct work *const right[], int k)
{
    const struct plan *plan = &work->plan;
    const int64_t count = k < plan->array_count ? plan->arrays[k].count : MAX_RESULTS;
    const double outputs = k < plan->array_count ? (double)count : 1.0;
    const double operations = 1.0 + (double)plan->flops / outputs;
    double unit = 0x1p-53, scale = 0.0;
    for (int other = 0; other < plan->array_count; other++)
        unit = plan->arrays[other].element == SINGLE ? 0x1p-24 : unit;
    for (int64_t i = 0; i < count; i++) {
        const double wanted = value_at(right[0], k, i);
        double moved = 0.0;
        for (int draw = 1; draw <= DRAWS; draw++)
            moved = fmax(moved, fabs(value_at(right[draw], k, i) - wanted) / DISTURBANCE);
        scale = fmax(scale, fabs(wanted) + moved);
    }
    const double tolerance = CERTAINTY * ROUNDING * sqrt(operations) * unit * scale;
    for (int64_t i = 0; i < count; i++) {
        const double wanted = value_at(right[0], k, i), value = value_at(work, k, i);
        if (is_finite(value) && fabs(value - wanted) <= tolerance)
            continue;
        fprintf(stderr, "berth-kernels: %s: element %" PRId64 " of array %d is ", name, i, k);
        fprintf(stderr, "%.17g, not %.17g +- %.1g\n", value, wanted, tolerance);
        return true;
    }
    return false;
}

/* What is wrong with one repetition of the kernel; "" where it was printed, NULL if nothing. */
static const char *fault(const struct kernel *kernel, struct work *work, const struct work *least,
                         struct work *const right[])
{
    const struct plan *plan = &work->plan;
    /* --fraction must run at least one outer iteration and, at 1, all of them. */
    if (work->outer_run != plan->outer || least->outer_run != (plan->outer > 0))
        return "samples the wrong number of iterations";
    kernel->rep(work);
    if (!work_within_bounds(work))
        return "wrote past the end of an array";
    for (int k = 0; k < plan->array_count; k++)
        if (plan->arrays[k].output && differs(kernel->name, work, right, k))
            return "";
    return differs(kernel->name, work, right, plan->array_count) ? "" : NULL;
}

static bool is_wrong(const struct kernel *kernel, int64_t size)
{
    struct work *work = work_new(kernel, size, 1.0), *least = work_new(kernel, size, 1e-9);
    struct work *right[DRAWS + 1] = {NULL};
    bool ready = work && least;
    for (int draw = 0; ready && draw <= DRAWS; draw++) {
        disturbance = draw ? DISTURBANCE : 0.0;
        right[draw] = reference(kernel->name, work);
        ready = right[draw] != NULL;
    }
    const char *problem = ready ? fault(kernel, work, least, right) : "no memory, or no reference";
    if (problem && *problem)
        fprintf(stderr, "berth-kernels: %s: %s\n", kernel->name, problem);
    work_free(work);
    work_free(least);
    for (int draw = 0; draw <= DRAWS; draw++)
        work_free(right[draw]);
    return problem != NULL;
}

/* In a process of its own: a kernel that crashes costs no other. */
static bool passes(const struct kernel *kernel)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            if (is_wrong(kernel, sizes[k]))
                _exit(1);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return false;
    if (WIFSIGNALED(status))
        fprintf(stderr, "berth-kernels: %s: ended by signal %d\n", kernel->name, WTERMSIG(status));
    return status == 0;
}

/* Prints the number of kernels that pass and the names of those that do not; 1 where there are any. */
int run_check(void)
{
    const char *separator = "";
    int passed = 0;
    printf("{\"wrong\": [");
    for (const struct kernel_group *const *group = kernel_groups; *group; group++)
        for (int k = 0; k < (*group)->count; k++) {
            if (passes(&(*group)->kernels[k])) {
                passed++;
                continue;
            }
            printf("%s\"%s\"", separator, (*group)->kernels[k].name);
            separator = ", ";
        }
    printf("], \"passed\": %d}\n", passed);
    return *separator != '\0';
}
