/* Basic kernels that carry a value from one iteration to the next: reductions and scans. */
#include <float.h>
#include <limits.h>
#include <math.h>

#include "kernels.h"

/* Splits [0, n) among the threads of a team: thread t has [*begin, *end). */
#ifdef _OPENMP
static void share(int64_t n, int64_t *begin, int64_t *end)
{
    const int64_t threads = omp_get_num_threads(), t = omp_get_thread_num();
    *begin = n * t / threads;
    *end = n * (t + 1) / threads;
}

/* Turns the threads' counts into the place where each starts; every thread of a team calls it. */
static int64_t start_of_share(int64_t *counts, int64_t mine)
{
    counts[omp_get_thread_num()] = mine;
    OMP(barrier)
    int64_t start = 0;
    for (int t = 0; t < omp_get_thread_num(); t++)
        start += counts[t];
    return start;
}
#endif

static void indexlist_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    p->bytes += 16 + 4 * n / 2;
    plan_arrays(p, n, "s");
    plan_int_output(p, n, FILL_ZERO);
}

/* The indices of negative elements, in order. */
static void indexlist(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    int *list = w->array[1];
    int64_t count = 0;
#ifdef _OPENMP
    int64_t counts[MAX_THREADS];
    OMP(parallel reduction(+ : count))
    {
        int64_t begin, end;
        share(n, &begin, &end);
        for (int64_t i = begin; i < end; i++)
            count += x[i] < 0.0;
        int64_t at = start_of_share(counts, count);
        for (int64_t i = begin; i < end; i++)
            if (x[i] < 0.0)
                list[at++] = (int)i;
    }
#else
    for (int64_t i = 0; i < n; i++)
        if (x[i] < 0.0)
            list[count++] = (int)i;
#endif
    w->result[0] = (double)count;
}

static void indexlist_3loop_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 0, 0);
    p->iterations = 3 * n + 1;
    p->launches = 3;
    p->bytes = 4 * n + 8 * n + 16 + 8 * (n + 1) + 4 * (n + 1) + 4 * n / 2;
    plan_arrays(p, n, "s");
    plan_int_output(p, n, FILL_ZERO);
    plan_indices(p, n + 1);
}

/* The same in three loops: flag, exclusive scan, write. */
static void indexlist_3loop(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    int *list = w->array[1];
    int64_t *counts = w->array[2];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        counts[i] = x[i] < 0.0 ? 1 : 0;
#ifdef _OPENMP
    int64_t flagged[MAX_THREADS];
    OMP(parallel)
    {
        int64_t begin, end, mine = 0;
        share(n + 1, &begin, &end);
        for (int64_t i = begin; i < end; i++)
            mine += counts[i];
        int64_t sum = start_of_share(flagged, mine);
        for (int64_t i = begin; i < end; i++) {
            const int64_t flag = counts[i];
            counts[i] = sum;
            sum += flag;
        }
    }
#else
    int64_t sum = 0;
    for (int64_t i = 0; i < n + 1; i++) {
        const int64_t flag = counts[i];
        counts[i] = sum;
        sum += flag;
    }
#endif
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        if (counts[i] != counts[i + 1])
            list[counts[i]] = (int)i;
    w->result[0] = (double)counts[n];
}

static void pi_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 0, 6);
    p->bytes = 16;
    p->flops += 1;
    plan_arrays(p, 1, "Z");
}

/* The OpenMP build adds each term atomically to the shared sum: contention is the point. */
static void pi_atomic(struct work *w)
{
    const int64_t n = w->plan.n;
    const double dx = 1.0 / (double)n;
    double *pi = w->array[0];
    *pi = 0.0;
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        const double x = ((double)i + 0.5) * dx;
        OMP(atomic)
        *pi += dx / (1.0 + x * x);
    }
    *pi *= 4.0;
}

static void pi_reduce(struct work *w)
{
    const int64_t n = w->plan.n;
    const double dx = 1.0 / (double)n;
    double pi = 0.0;
    OMP(parallel for reduction(+ : pi))
    for (int64_t i = 0; i < n; i++) {
        const double x = ((double)i + 0.5) * dx;
        pi += dx / (1.0 + x * x);
    }
    w->result[0] = 4.0 * pi;
}

static void reduce3_int_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 4, 1);
    p->bytes += 24;
    p->flops += 1;
    plan_ints(p, n, FILL_RANDOM_SIGN);
}

/* One known minimum and maximum among random signs. */
static void reduce3_int_prepare(struct work *w)
{
    int *vec = w->array[0];
    vec[w->plan.n / 3] = -58;
    vec[w->plan.n / 3 * 2] = 19;
}

static void reduce3_int(struct work *w)
{
    const int64_t n = w->plan.n;
    const int *vec = w->array[0];
    int sum = 0, least = INT_MAX, most = INT_MIN;
    OMP(parallel for reduction(+ : sum) reduction(min : least) reduction(max : most))
    for (int64_t i = 0; i < n; i++) {
        sum += vec[i];
        least = vec[i] < least ? vec[i] : least;
        most = vec[i] > most ? vec[i] : most;
    }
    w->result[0] = sum;
    w->result[1] = least;
    w->result[2] = most;
}

static void reduce_struct_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 2);
    p->bytes += 48;
    p->flops += 2;
    plan_arrays(p, n, "pp");
}

/* Centre and bounding box of points. */
static void reduce_struct(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0], *y = w->array[1];
    double xsum = 0.0, xmin = DBL_MAX, xmax = -DBL_MAX;
    double ysum = 0.0, ymin = DBL_MAX, ymax = -DBL_MAX;
    OMP(parallel for reduction(+ : xsum, ysum) reduction(min : xmin, ymin)                         \
            reduction(max : xmax, ymax))
    for (int64_t i = 0; i < n; i++) {
        xsum += x[i];
        xmin = x[i] < xmin ? x[i] : xmin;
        xmax = x[i] > xmax ? x[i] : xmax;
        ysum += y[i];
        ymin = y[i] < ymin ? y[i] : ymin;
        ymax = y[i] > ymax ? y[i] : ymax;
    }
    const double results[] = {xsum / (double)n, xmin, xmax, ysum / (double)n, ymin, ymax};
    for (int k = 0; k < 6; k++)
        w->result[k] = results[k];
}

static void trap_int_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 0, 10);
    p->bytes = 16;
}

/* A trapezoidal integral of an inverse distance. */
static void trap_int(struct work *w)
{
    const int64_t n = w->plan.n;
    const double x0 = ramp(1, 0), xp = ramp(2, 0), y = ramp(3, 0), yp = ramp(4, 0);
    const double h = ramp(0, 0) - x0;
    double sum = 0.0;
    OMP(parallel for reduction(+ : sum))
    for (int64_t i = 0; i < n; i++) {
        const double x = x0 + (double)i * h;
        sum += 1.0 / sqrt((x - xp) * (x - xp) + (y - yp) * (y - yp));
    }
    w->result[0] += sum * h;
}

static const struct kernel kernels[] = {
    {"Basic_INDEXLIST", indexlist_plan, NULL, indexlist},
    {"Basic_INDEXLIST_3LOOP", indexlist_3loop_plan, NULL, indexlist_3loop},
    {"Basic_PI_ATOMIC", pi_plan, NULL, pi_atomic},
    {"Basic_PI_REDUCE", pi_plan, NULL, pi_reduce},
    {"Basic_REDUCE3_INT", reduce3_int_plan, reduce3_int_prepare, reduce3_int},
    {"Basic_REDUCE_STRUCT", reduce_struct_plan, NULL, reduce_struct},
    {"Basic_TRAP_INT", trap_int_plan, NULL, trap_int},
};

KERNEL_GROUP(basic_reduce_group, "Basic", kernels);
