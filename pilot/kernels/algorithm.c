/* Standard-library algorithms: copy, fill and sum. */
#include "kernels.h"

static void memcpy_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 0);
    plan_arrays(p, n, "rO");
}

static void copy(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    double *y = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
}

static void memset_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    p->bytes += 8;
    plan_arrays(p, n, "O");
}

static void set(struct work *w)
{
    const int64_t n = w->plan.n;
    double *x = w->array[0];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.0;
}

static void sum_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 1);
    p->bytes += 8;
    plan_arrays(p, n, "r");
}

static void reduce_sum(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    double sum = 0.0;
    OMP(parallel for reduction(+ : sum))
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    w->result[0] = sum;
}

static const struct kernel kernels[] = {
    {"Algorithm_MEMCPY", memcpy_plan, NULL, copy},
    {"Algorithm_MEMSET", memset_plan, NULL, set},
    {"Algorithm_REDUCE_SUM", sum_plan, NULL, reduce_sum},
};

KERNEL_GROUP(algorithm_group, "Algorithm", kernels);
