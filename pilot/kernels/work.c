/* Plans and work sets: sizes, allocation and first touch. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

enum { ALIGNMENT = 64, GUARD = 64, GUARD_BYTE = 0xa5 };

void plan_loop(struct plan *plan, int64_t n, int64_t bytes, int64_t flops)
{
    plan->n = n;
    plan->size = n;
    plan->iterations = n;
    plan->launches = 1;
    plan->bytes = bytes * n;
    plan->flops = flops * n;
}

static void plan_array(struct plan *plan, struct array_plan array)
{
    if (plan->array_count == MAX_ARRAYS)
        abort();
    plan->arrays[plan->array_count++] = array;
}

void plan_arrays(struct plan *plan, int64_t count, const char *letters)
{
    static const char fills[] = "zorsp"; /* in the order of enum fill */
    for (; *letters; letters++) {
        const bool output = *letters < 'a';
        const char *fill = strchr(fills, output ? *letters - 'A' + 'a' : *letters);
        plan_array(plan, (struct array_plan){count, REAL, (enum fill)(fill - fills), output});
    }
}

void plan_ints(struct plan *plan, int64_t count, enum fill fill)
{
    plan_array(plan, (struct array_plan){count, INT32, fill, false});
}

void plan_int_output(struct plan *plan, int64_t count, enum fill fill)
{
    plan_array(plan, (struct array_plan){count, INT32, fill, true});
}

void plan_singles(struct plan *plan, int64_t count)
{
    plan_array(plan, (struct array_plan){count, SINGLE, FILL_RAMP, false});
}

void plan_single_output(struct plan *plan, int64_t count)
{
    plan_array(plan, (struct array_plan){count, SINGLE, FILL_ZERO, true});
}

void plan_indices(struct plan *plan, int64_t count)
{
    plan_array(plan, (struct array_plan){count, INDEX, FILL_ZERO, false});
}

/* The largest root whose power does not exceed the value. */
static int64_t integer_root(int64_t value, int degree)
{
    int64_t low = 0, high = degree == 2 ? INT64_C(3037000499) : INT64_C(2097151);
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        const int64_t power = degree == 2 ? middle * middle : middle * middle * middle;
        if (power <= value)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t square_root(int64_t value)
{
    return integer_root(value, 2);
}

int64_t cube_root(int64_t value)
{
    return integer_root(value, 3);
}

static int64_t element_bytes(enum element element)
{
    return element == INT32 || element == SINGLE ? 4 : 8;
}

int64_t plan_memory(const struct plan *plan)
{
    int64_t bytes = 0;
    for (int k = 0; k < plan->array_count; k++)
        bytes += plan->arrays[k].count * element_bytes(plan->arrays[k].element);
    return bytes;
}

static inline bool negative(int64_t i)
{
    return mix((uint64_t)i) & 1;
}

/* Writes every element, by the thread that will use it in a static schedule. */
static void fill_array(const struct array_plan *array, int order, void *memory)
{
    const int64_t n = array->count;
    double *reals = memory;
    float *singles = memory;
    int *ints = memory;
    int64_t *indices = memory;
    if (array->element == INDEX) {
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            indices[i] = 0;
        return;
    }
    if (array->element == INT32) {
        const bool random = array->fill == FILL_RANDOM_SIGN;
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            ints[i] = random ? (negative(i) ? -1 : 1) : 0;
        return;
    }
    if (array->element == SINGLE) {
        const bool zero = array->fill == FILL_ZERO;
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            singles[i] = zero ? 0.0f : (float)ramp(order, i);
        return;
    }
    switch (array->fill) {
    case FILL_ZERO:
    case FILL_ONE: {
        const double value = array->fill == FILL_ONE ? 1.0 : 0.0;
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            reals[i] = value;
        break;
    }
    case FILL_RAMP:
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            reals[i] = ramp(order, i);
        break;
    case FILL_RANDOM_SIGN:
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            reals[i] = negative(i) ? -ramp(order, i) : ramp(order, i);
        break;
    case FILL_POSITION:
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            reals[i] = (double)i;
        break;
    }
}

struct work *work_new(const struct kernel *kernel, int64_t target, double fraction)
{
    struct work *work = calloc(1, sizeof *work);
    if (!work)
        return NULL;
    struct plan *plan = &work->plan;
    kernel->plan(plan, target);
    work->outer_run = (int64_t)(fraction * (double)plan->outer + 0.5);
    if (work->outer_run < 1)
        work->outer_run = 1;
    if (work->outer_run > plan->outer)
        work->outer_run = plan->outer;
    for (int k = 0; k < plan->array_count; k++) {
        const struct array_plan *array = &plan->arrays[k];
        const size_t bytes = (size_t)(array->count * element_bytes(array->element));
        if (posix_memalign(&work->array[k], ALIGNMENT, bytes + GUARD)) {
            work->array[k] = NULL;
            work_free(work);
            return NULL;
        }
        fill_array(array, k, work->array[k]);
        memset((char *)work->array[k] + bytes, GUARD_BYTE, GUARD);
    }
    if (kernel->prepare)
        kernel->prepare(work);
    return work;
}

void work_free(struct work *work)
{
    for (int k = 0; work && k < MAX_ARRAYS; k++)
        free(work->array[k]);
    free(work);
}

bool work_within_bounds(const struct work *work)
{
    for (int k = 0; k < work->plan.array_count; k++) {
        const struct array_plan *array = &work->plan.arrays[k];
        const unsigned char *guard = (const unsigned char *)work->array[k] +
                                     array->count * element_bytes(array->element);
        for (int i = 0; i < GUARD; i++)
            if (guard[i] != GUARD_BYTE)
                return false;
    }
    return true;
}

double computed_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
