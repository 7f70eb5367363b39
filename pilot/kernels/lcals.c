/* Livermore loops (LCALS): short numerical loops out of hydrodynamics and radiation codes. */
#include <math.h>

#include "kernels.h"

static void diff_predict_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 160, 9);
    plan_arrays(p, 14 * n, "Zr");
}

/* Ten stored difference tables, n apart: a new difference per table from the one before. */
static void diff_predict(struct work *w)
{
    const int64_t n = w->plan.n;
    double *px = w->array[0];
    const double *cx = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double a, b, c;
        a = cx[i + n * 4];
        b = a - px[i + n * 4];
        px[i + n * 4] = a;
        c = b - px[i + n * 5];
        px[i + n * 5] = b;
        a = c - px[i + n * 6];
        px[i + n * 6] = c;
        b = a - px[i + n * 7];
        px[i + n * 7] = a;
        c = b - px[i + n * 8];
        px[i + n * 8] = b;
        a = c - px[i + n * 9];
        px[i + n * 9] = c;
        b = a - px[i + n * 10];
        px[i + n * 10] = a;
        c = b - px[i + n * 11];
        px[i + n * 11] = b;
        px[i + n * 13] = c - px[i + n * 12];
        px[i + n * 12] = c;
    }
}

static void eos_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 32, 16);
    p->bytes += 8 * 7;
    plan_arrays(p, n + 7, "Zrrr");
}

static void eos(struct work *w)
{
    const int64_t n = w->plan.n;
    double *x = w->array[0];
    const double *y = w->array[1];
    const double *z = w->array[2];
    const double *u = w->array[3];
    const double q = ramp(4, 0), r = ramp(5, 0), t = ramp(6, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        x[i] = u[i] + r * (z[i] + r * y[i]) +
               t * (u[i + 3] + r * (u[i + 2] + r * u[i + 1]) +
                    t * (u[i + 6] + q * (u[i + 5] + q * u[i + 4])));
}

static void first_diff_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 1);
    p->bytes += 8;
    plan_arrays(p, n + 1, "Zr");
}

static void first_diff(struct work *w)
{
    const int64_t n = w->plan.n;
    double *x = w->array[0];
    const double *y = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        x[i] = y[i + 1] - y[i];
}

static void first_min_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    p->bytes += 32;
    plan_arrays(p, n, "z");
}

static void first_min_prepare(struct work *w)
{
    double *x = w->array[0];
    x[w->plan.n / 2] = -1.0e10;
}

struct minimum {
    double value;
    int64_t where;
};

#ifdef _OPENMP
static inline struct minimum earlier(struct minimum a, struct minimum b)
{
    if (a.value != b.value)
        return a.value < b.value ? a : b;
    return a.where <= b.where ? a : b;
}
#pragma omp declare reduction(first : struct minimum : omp_out = earlier(omp_out, omp_in))         \
    initializer(omp_priv = omp_orig)
#endif

static void first_min(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    struct minimum least = {x[0], 0};
    OMP(parallel for reduction(first : least))
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < least.value) {
            least.value = x[i];
            least.where = i;
        }
    }
    w->result[0] = (double)least.where;
}

static void first_sum_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 16, 1);
    p->bytes -= 8;
    p->flops -= 1;
    plan_arrays(p, n, "Zr");
}

static void first_sum(struct work *w)
{
    const int64_t n = w->plan.n;
    double *x = w->array[0];
    const double *y = w->array[1];
    OMP(parallel for)
    for (int64_t i = 1; i < n; i++)
        x[i] = y[i - 1] + y[i];
}

static void gen_lin_recur_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 80, 6);
    p->launches = 2;
    plan_arrays(p, n, "Zrrr");
}

static void gen_lin_recur(struct work *w)
{
    const int64_t n = w->plan.n;
    double *b5 = w->array[0];
    double *stb5 = w->array[1];
    const double *sa = w->array[2];
    const double *sb = w->array[3];
    OMP(parallel for)
    for (int64_t k = 0; k < n; k++) {
        b5[k] = sa[k] + stb5[k] * sb[k];
        stb5[k] = b5[k] - stb5[k];
    }
    OMP(parallel for)
    for (int64_t i = 1; i < n + 1; i++) {
        const int64_t k = n - i;
        b5[k] = sa[k] + stb5[k] * sb[k];
        stb5[k] = b5[k] - stb5[k];
    }
}

static void hydro_1d_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 24, 5);
    p->bytes += 8;
    plan_arrays(p, n + 12, "Zrr");
}

static void hydro_1d(struct work *w)
{
    const int64_t n = w->plan.n;
    double *x = w->array[0];
    const double *y = w->array[1];
    const double *z = w->array[2];
    const double q = ramp(3, 0), r = ramp(4, 0), t = ramp(5, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        x[i] = q + y[i] * (r * z[i + 10] + t * z[i + 11]);
}

static void hydro_2d_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target);
    const int64_t inner = (n - 2) * (n - 2);
    p->n = n;
    p->size = target;
    p->iterations = 3 * target;
    p->launches = 3;
    p->bytes = 8 * (2 * inner + 4 * n * n + 2 * inner + 4 * n * n + 6 * inner);
    p->flops = (14 + 26 + 4) * inner;
    plan_arrays(p, n * n, "ZZrrrrrrrrr");
}

static void hydro_2d(struct work *w)
{
    const int64_t n = w->plan.n;
    double *rout = w->array[0], *zout = w->array[1];
    double *a = w->array[2], *b = w->array[3];
    double *m = w->array[4], *p = w->array[5], *q = w->array[6], *r = w->array[7];
    double *u = w->array[8], *v = w->array[9], *z = w->array[10];
    const double s = 0.0041, t = 0.0037;
    OMP(parallel for)
    for (int64_t k = 1; k < n - 1; k++) {
        for (int64_t j = 1; j < n - 1; j++) {
            const int64_t at = j + k * n;
            a[at] = (p[at - 1 + n] + q[at - 1 + n] - p[at - 1] - q[at - 1]) *
                    (r[at] + r[at - 1]) / (m[at - 1] + m[at - 1 + n]);
            b[at] = (p[at - 1] + q[at - 1] - p[at] - q[at]) * (r[at] + r[at - n]) /
                    (m[at] + m[at - 1]);
        }
    }
    OMP(parallel for)
    for (int64_t k = 1; k < n - 1; k++) {
        for (int64_t j = 1; j < n - 1; j++) {
            const int64_t at = j + k * n;
            u[at] += s * (a[at] * (z[at] - z[at + 1]) - a[at - 1] * (z[at] - z[at - 1]) -
                          b[at] * (z[at] - z[at - n]) + b[at + n] * (z[at] - z[at + n]));
            v[at] += s * (a[at] * (r[at] - r[at + 1]) - a[at - 1] * (r[at] - r[at - 1]) -
                          b[at] * (r[at] - r[at - n]) + b[at + n] * (r[at] - r[at + n]));
        }
    }
    OMP(parallel for)
    for (int64_t k = 1; k < n - 1; k++) {
        for (int64_t j = 1; j < n - 1; j++) {
            const int64_t at = j + k * n;
            rout[at] = r[at] + t * u[at];
            zout[at] = z[at] + t * v[at];
        }
    }
}

static void int_predict_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 88, 17);
    plan_arrays(p, 13 * n, "O");
}

/* An integration step from ten stored tables, n apart. */
static void int_predict(struct work *w)
{
    const int64_t n = w->plan.n;
    double *px = w->array[0];
    const double dm22 = ramp(1, 0), dm23 = ramp(2, 0), dm24 = ramp(3, 0), dm25 = ramp(4, 0);
    const double dm26 = ramp(5, 0), dm27 = ramp(6, 0), dm28 = ramp(7, 0), c0 = ramp(8, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        px[i] = dm28 * px[i + n * 12] + dm27 * px[i + n * 11] + dm26 * px[i + n * 10] +
                dm25 * px[i + n * 9] + dm24 * px[i + n * 8] + dm23 * px[i + n * 7] +
                dm22 * px[i + n * 6] + c0 * (px[i + n * 4] + px[i + n * 5]) + px[i + n * 2];
}

static void planckian_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 40, 4);
    plan_arrays(p, n, "rRrrZ");
}

static void planckian(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    double *y = w->array[1];
    const double *u = w->array[2], *v = w->array[3];
    double *out = w->array[4];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        y[i] = u[i] / v[i];
        out[i] = x[i] / (exp(y[i]) - 1.0);
    }
}

static void tridiag_elim_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 32, 2);
    p->bytes -= 32;
    p->flops -= 2;
    plan_arrays(p, n, "Zrrr");
}

static void tridiag_elim(struct work *w)
{
    const int64_t n = w->plan.n;
    double *out = w->array[0];
    const double *in = w->array[1], *y = w->array[2], *z = w->array[3];
    OMP(parallel for)
    for (int64_t i = 1; i < n; i++)
        out[i] = z[i] * (y[i] - in[i - 1]);
}

static const struct kernel kernels[] = {
    {"Lcals_DIFF_PREDICT", diff_predict_plan, NULL, diff_predict},
    {"Lcals_EOS", eos_plan, NULL, eos},
    {"Lcals_FIRST_DIFF", first_diff_plan, NULL, first_diff},
    {"Lcals_FIRST_MIN", first_min_plan, first_min_prepare, first_min},
    {"Lcals_FIRST_SUM", first_sum_plan, NULL, first_sum},
    {"Lcals_GEN_LIN_RECUR", gen_lin_recur_plan, NULL, gen_lin_recur},
    {"Lcals_HYDRO_1D", hydro_1d_plan, NULL, hydro_1d},
    {"Lcals_HYDRO_2D", hydro_2d_plan, NULL, hydro_2d},
    {"Lcals_INT_PREDICT", int_predict_plan, NULL, int_predict},
    {"Lcals_PLANCKIAN", planckian_plan, NULL, planckian},
    {"Lcals_TRIDIAG_ELIM", tridiag_elim_plan, NULL, tridiag_elim},
};

KERNEL_GROUP(lcals_group, "Lcals", kernels);
