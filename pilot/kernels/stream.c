/* STREAM (McCalpin): copy, scale, add, triad and dot over long vectors. */
#include "kernels.h"

static void add_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 24, 1);
    plan_arrays(p, n, "rrZ");
}

static void add(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *a = w->array[0];
    const double *b = w->array[1];
    double *c = w->array[2];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

static void copy_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 0);
    plan_arrays(p, n, "rZ");
}

static void copy(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *a = w->array[0];
    double *c = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        c[i] = a[i];
}

static void dot_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 2);
    p->bytes += 16;
    plan_arrays(p, n, "rr");
}

static void dot(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *a = w->array[0];
    const double *b = w->array[1];
    double sum = 0.0;
    OMP(parallel for reduction(+ : sum))
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    w->result[0] += sum;
}

static void mul_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 1);
    plan_arrays(p, n, "Zr");
}

static void mul(struct work *w)
{
    const int64_t n = w->plan.n;
    double *b = w->array[0];
    const double *c = w->array[1];
    const double alpha = ramp(2, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        b[i] = alpha * c[i];
}

static void triad_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 24, 2);
    plan_arrays(p, n, "Zrr");
}

static void triad(struct work *w)
{
    const int64_t n = w->plan.n;
    double *a = w->array[0];
    const double *b = w->array[1];
    const double *c = w->array[2];
    const double alpha = ramp(3, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + alpha * c[i];
}

static const struct kernel kernels[] = {
    {"Stream_ADD", add_plan, NULL, add},
    {"Stream_COPY", copy_plan, NULL, copy},
    {"Stream_DOT", dot_plan, NULL, dot},
    {"Stream_MUL", mul_plan, NULL, mul},
    {"Stream_TRIAD", triad_plan, NULL, triad},
};

KERNEL_GROUP(stream_group, "Stream", kernels);
