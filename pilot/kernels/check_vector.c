/* References of the vector kernels: closed forms, or the textbook formula element by element. */
#include "check.h"

static bool stream_add(const struct work *before, const struct work *after)
{
    const double *a = before->array[0], *b = before->array[1], *c = after->array[2];
    EVERY(i, 0, before->plan.n, c[i], a[i] + b[i]);
    return true;
}

static bool copied(const struct work *before, const struct work *after)
{
    const double *from = before->array[0], *to = after->array[1];
    EVERY(i, 0, before->plan.n, to[i], from[i]);
    return true;
}

static bool stream_dot(const struct work *before, const struct work *after)
{
    const double *a = before->array[0], *b = before->array[1];
    double sum = 0.0;
    for (int64_t i = before->plan.n - 1; i >= 0; i--)
        sum += b[i] * a[i];
    return near(after->result[0], sum);
}

static bool stream_mul(const struct work *before, const struct work *after)
{
    const double *b = after->array[0], *c = before->array[1];
    EVERY(i, 0, before->plan.n, b[i] / ramp(2, 0), c[i]);
    return true;
}

static bool stream_triad(const struct work *before, const struct work *after)
{
    const double *a = after->array[0], *b = before->array[1], *c = before->array[2];
    EVERY(i, 0, before->plan.n, a[i] - b[i], ramp(3, 0) * c[i]);
    return true;
}

static bool zeroed(const struct work *before, const struct work *after)
{
    const double *x = after->array[0];
    EVERY(i, 0, before->plan.n, x[i], 0.0);
    return true;
}

static bool summed(const struct work *before, const struct work *after)
{
    const double *x = before->array[0];
    double sum = 0.0;
    for (int64_t i = before->plan.n - 1; i >= 0; i--)
        sum += x[i];
    return near(after->result[0], sum);
}

/* From empty tables every difference is the new value itself. */
static bool diff_predict(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *px = after->array[0], *cx = before->array[1];
    for (int64_t table = 4; table < 14; table++)
        EVERY(i, 0, n, px[i + n * table], cx[i + n * 4]);
    return true;
}

static bool eos(const struct work *before, const struct work *after)
{
    const double *x = after->array[0];
    const double *y = before->array[1], *z = before->array[2], *u = before->array[3];
    const double q = ramp(4, 0), r = ramp(5, 0), t = ramp(6, 0);
    EVERY(i, 0, before->plan.n, x[i],
          u[i] + r * z[i] + r * r * y[i] + t * u[i + 3] + t * r * u[i + 2] +
              t * r * r * u[i + 1] + t * t * u[i + 6] + t * t * q * u[i + 5] +
              t * t * q * q * u[i + 4]);
    return true;
}

static bool first_diff(const struct work *before, const struct work *after)
{
    const double *x = after->array[0], *y = before->array[1];
    EVERY(i, 0, before->plan.n, x[i] + y[i], y[i + 1]);
    return true;
}

static bool first_min(const struct work *before, const struct work *after)
{
    return after->result[0] == (double)(before->plan.n / 2);
}

static bool first_sum(const struct work *before, const struct work *after)
{
    const double *x = after->array[0], *y = before->array[1];
    EVERY(i, 1, before->plan.n, x[i] - y[i], y[i - 1]);
    return x[0] == 0.0;
}

static bool gen_lin_recur(const struct work *before, const struct work *after)
{
    const double *b5 = after->array[0], *end = after->array[1];
    const double *start = before->array[1], *sa = before->array[2], *sb = before->array[3];
    EVERY(i, 0, before->plan.n, b5[i], sa[i] + sb[i] * (sa[i] + start[i] * (sb[i] - 1.0)));
    EVERY(i, 0, before->plan.n, end[i], b5[i] - (sa[i] + start[i] * (sb[i] - 1.0)));
    return true;
}

static bool hydro_1d(const struct work *before, const struct work *after)
{
    const double *x = after->array[0], *y = before->array[1], *z = before->array[2];
    const double q = ramp(3, 0), r = ramp(4, 0), t = ramp(5, 0);
    EVERY(i, 0, before->plan.n, x[i] - q, r * y[i] * z[i + 10] + t * y[i] * z[i + 11]);
    return true;
}

static bool hydro_2d(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *a = after->array[2], *b = after->array[3];
    const double *m = before->array[4], *p = before->array[5], *q = before->array[6];
    const double *r = before->array[7], *z = before->array[10];
    const double *out[] = {after->array[0], after->array[1]};
    const double *moved[] = {after->array[8], after->array[9]};
    const double *rest[] = {before->array[8], before->array[9]};
    const double *held[] = {r, z}, *across[] = {z, r};
    for (int64_t k = 1; k < n - 1; k++) {
        const int64_t row = k * n;
        EVERY(i, row + 1, row + n - 1, a[i] * (m[i - 1] + m[i - 1 + n]),
              (p[i - 1 + n] + q[i - 1 + n] - p[i - 1] - q[i - 1]) * (r[i] + r[i - 1]));
        EVERY(i, row + 1, row + n - 1, b[i] * (m[i] + m[i - 1]),
              (p[i - 1] + q[i - 1] - p[i] - q[i]) * (r[i] + r[i - n]));
        for (int d = 0; d < 2; d++) {
            const double *f = across[d];
            EVERY(i, row + 1, row + n - 1, (moved[d][i] - rest[d][i]) / 0.0041,
                  a[i] * (f[i] - f[i + 1]) - a[i - 1] * (f[i] - f[i - 1]) -
                      b[i] * (f[i] - f[i - n]) + b[i + n] * (f[i] - f[i + n]));
            EVERY(i, row + 1, row + n - 1, out[d][i], held[d][i] + 0.0037 * moved[d][i]);
        }
    }
    return true;
}

/* All tables hold 1, so each element becomes the sum of the weights. */
static bool int_predict(const struct work *before, const struct work *after)
{
    const double *px = after->array[0];
    const double odd = ramp(1, 0), even = ramp(2, 0);
    EVERY(i, 0, before->plan.n, px[i], 4.0 * odd + 3.0 * even + 2.0 * even + 1.0);
    return true;
}

static bool planckian(const struct work *before, const struct work *after)
{
    const double *x = before->array[0], *u = before->array[2], *v = before->array[3];
    const double *out = after->array[4];
    EVERY(i, 0, before->plan.n, out[i] * expm1(u[i] / v[i]), x[i]);
    return true;
}

static bool tridiag_elim(const struct work *before, const struct work *after)
{
    const double *out = after->array[0];
    const double *in = before->array[1], *y = before->array[2], *z = before->array[3];
    EVERY(i, 1, before->plan.n, out[i] + z[i] * in[i - 1], z[i] * y[i]);
    return true;
}

static bool copy8(const struct work *before, const struct work *after)
{
    for (int k = 0; k < 8; k++) {
        const double *from = before->array[8 + k], *to = after->array[k];
        EVERY(i, 0, before->plan.n, to[i], from[i]);
    }
    return true;
}

static bool daxpy(const struct work *before, const struct work *after)
{
    const double *x = before->array[1], *y = after->array[0];
    EVERY(i, 0, before->plan.n, y[i], ramp(2, 0) * x[i]);
    return true;
}

/* Vieta: the roots' sum and product. */
static bool if_quad(const struct work *before, const struct work *after)
{
    const double *a = before->array[0], *b = before->array[1], *c = before->array[2];
    const double *x1 = after->array[3], *x2 = after->array[4];
    for (int64_t i = 0; i < before->plan.n; i++) {
        const bool real = b[i] * b[i] - 4.0 * a[i] * c[i] >= 0.0;
        if (!near(x1[i] + x2[i], real ? -b[i] / a[i] : 0.0))
            return false;
        if (!near(x1[i] * x2[i], real ? c[i] / a[i] : 0.0))
            return false;
    }
    return true;
}

static bool init3(const struct work *before, const struct work *after)
{
    const double *a = before->array[3], *b = before->array[4];
    for (int k = 0; k < 3; k++) {
        const double *out = after->array[k];
        EVERY(i, 0, before->plan.n, out[i] + a[i], -b[i]);
    }
    return true;
}

static bool init_view(const struct work *before, const struct work *after)
{
    const double *a = after->array[0];
    EVERY(i, 0, before->plan.n, a[i], (double)(i + 1) * 1.23e-6);
    return true;
}

static bool muladdsub(const struct work *before, const struct work *after)
{
    const double *a = before->array[3], *b = before->array[4];
    const double *mul = after->array[0], *add = after->array[1], *sub = after->array[2];
    EVERY(i, 0, before->plan.n, mul[i], b[i] * a[i]);
    EVERY(i, 0, before->plan.n, add[i] + sub[i], 2.0 * a[i]);
    EVERY(i, 0, before->plan.n, add[i] - sub[i], 2.0 * b[i]);
    return true;
}

static bool nested_init(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *array = after->array[0];
    EVERY(at, 0, n * n * n, array[at], 1e-8 * (double)(at % n * (at / n % n) * (at / n / n)));
    return true;
}

static bool indexlist(const struct work *before, const struct work *after)
{
    const double *x = before->array[0];
    const int *list = after->array[1];
    int64_t count = 0;
    for (int64_t i = 0; i < before->plan.n; i++)
        if (x[i] < 0.0 && list[count++] != i)
            return false;
    return after->result[0] == (double)count && count > before->plan.n / 4;
}

static bool pi_atomic(const struct work *before, const struct work *after)
{
    (void)before;
    return fabs(*(const double *)after->array[0] - 3.14159265358979) < 1e-6;
}

static bool pi_reduce(const struct work *before, const struct work *after)
{
    (void)before;
    return fabs(after->result[0] - 3.14159265358979) < 1e-6;
}

static bool reduce3_int(const struct work *before, const struct work *after)
{
    const int *vec = before->array[0];
    double sum = 0.0;
    for (int64_t i = 0; i < before->plan.n; i++)
        sum += vec[i];
    return after->result[0] == sum && after->result[1] == -58 && after->result[2] == 19;
}

static bool reduce_struct(const struct work *before, const struct work *after)
{
    const double last = (double)(before->plan.n - 1);
    const double wanted[] = {last / 2.0, 0.0, last, last / 2.0, 0.0, last};
    EVERY(k, 0, 6, after->result[k], wanted[k]);
    return true;
}

static bool trap_int(const struct work *before, const struct work *after)
{
    const double h = ramp(0, 0) - ramp(1, 0), dy = ramp(3, 0) - ramp(4, 0);
    double sum = 0.0;
    for (int64_t i = before->plan.n - 1; i >= 0; i--)
        sum += h / hypot(ramp(1, 0) + (double)i * h - ramp(2, 0), dy);
    return near(after->result[0], sum);
}

const struct check vector_checks[] = {
    {"Algorithm_MEMCPY", copied, 0},
    {"Algorithm_MEMSET", zeroed, 0},
    {"Algorithm_REDUCE_SUM", summed, 0},
    {"Basic_COPY8", copy8, 0},
    {"Basic_DAXPY", daxpy, 0},
    {"Basic_DAXPY_ATOMIC", daxpy, 0},
    {"Basic_IF_QUAD", if_quad, 0},
    {"Basic_INDEXLIST", indexlist, 0},
    {"Basic_INDEXLIST_3LOOP", indexlist, 0},
    {"Basic_INIT3", init3, 0},
    {"Basic_INIT_VIEW1D", init_view, 0},
    {"Basic_INIT_VIEW1D_OFFSET", init_view, 0},
    {"Basic_MULADDSUB", muladdsub, 0},
    {"Basic_NESTED_INIT", nested_init, 0},
    {"Basic_PI_ATOMIC", pi_atomic, 0},
    {"Basic_PI_REDUCE", pi_reduce, 0},
    {"Basic_REDUCE3_INT", reduce3_int, 0},
    {"Basic_REDUCE_STRUCT", reduce_struct, 0},
    {"Basic_TRAP_INT", trap_int, 0},
    {"Lcals_DIFF_PREDICT", diff_predict, 0},
    {"Lcals_EOS", eos, 0},
    {"Lcals_FIRST_DIFF", first_diff, 0},
    {"Lcals_FIRST_MIN", first_min, 0},
    {"Lcals_FIRST_SUM", first_sum, 0},
    {"Lcals_GEN_LIN_RECUR", gen_lin_recur, 0},
    {"Lcals_HYDRO_1D", hydro_1d, 0},
    {"Lcals_HYDRO_2D", hydro_2d, 0},
    {"Lcals_INT_PREDICT", int_predict, 0},
    {"Lcals_PLANCKIAN", planckian, 0},
    {"Lcals_TRIDIAG_ELIM", tridiag_elim, 0},
    {"Stream_ADD", stream_add, 0},
    {"Stream_COPY", copied, 0},
    {"Stream_DOT", stream_dot, 0},
    {"Stream_MUL", stream_mul, 0},
    {"Stream_TRIAD", stream_triad, 0},
    {NULL, NULL, 0},
};
