/* Basic kernels without reductions: one loop or nest each. */
#include <math.h>

#include "kernels.h"

static void copy8_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 128, 0);
    plan_arrays(p, n, "ZZZZZZZZrrrrrrrr");
}

static void copy8(struct work *w)
{
    const int64_t n = w->plan.n;
    double *y0 = w->array[0], *y1 = w->array[1], *y2 = w->array[2], *y3 = w->array[3];
    double *y4 = w->array[4], *y5 = w->array[5], *y6 = w->array[6], *y7 = w->array[7];
    const double *x0 = w->array[8], *x1 = w->array[9], *x2 = w->array[10], *x3 = w->array[11];
    const double *x4 = w->array[12], *x5 = w->array[13], *x6 = w->array[14], *x7 = w->array[15];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        y0[i] = x0[i];
        y1[i] = x1[i];
        y2[i] = x2[i];
        y3[i] = x3[i];
        y4[i] = x4[i];
        y5[i] = x5[i];
        y6[i] = x6[i];
        y7[i] = x7[i];
    }
}

static void daxpy_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 24, 2);
    plan_arrays(p, n, "Zr");
}

static void daxpy(struct work *w)
{
    const int64_t n = w->plan.n;
    double *y = w->array[0];
    const double *x = w->array[1];
    const double a = ramp(2, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void daxpy_atomic(struct work *w)
{
    const int64_t n = w->plan.n;
    double *y = w->array[0];
    const double *x = w->array[1];
    const double a = ramp(2, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        OMP(atomic)
        y[i] += a * x[i];
    }
}

static void if_quad_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 40, 11);
    plan_arrays(p, n, "srrZZ");
}

/* Roots of a quadratic where they are real: a branch that random signs make unpredictable. */
static void if_quad(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *a = w->array[0], *b = w->array[1], *c = w->array[2];
    double *x1 = w->array[3], *x2 = w->array[4];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double s = b[i] * b[i] - 4.0 * a[i] * c[i];
        if (s >= 0) {
            s = sqrt(s);
            x2[i] = (-b[i] + s) / (2.0 * a[i]);
            x1[i] = (-b[i] - s) / (2.0 * a[i]);
        } else {
            x2[i] = 0.0;
            x1[i] = 0.0;
        }
    }
}

static void init3_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 40, 1);
    plan_arrays(p, n, "ZZZrr");
}

static void init3(struct work *w)
{
    const int64_t n = w->plan.n;
    double *out1 = w->array[0], *out2 = w->array[1], *out3 = w->array[2];
    const double *in1 = w->array[3], *in2 = w->array[4];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        out1[i] = out2[i] = out3[i] = -in1[i] - in2[i];
}

static void init_view_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 1);
    plan_arrays(p, n, "Z");
}

static void init_view(struct work *w)
{
    const int64_t n = w->plan.n;
    double *a = w->array[0];
    const double v = 0.00000123;
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        a[i] = (double)(i + 1) * v;
}

static void init_view_offset(struct work *w)
{
    const int64_t n = w->plan.n;
    double *a = w->array[0];
    const double v = 0.00000123;
    const int64_t begin = 1;
    OMP(parallel for)
    for (int64_t i = begin; i < n + begin; i++)
        a[i - begin] = (double)i * v;
}

enum { TILE = 16 };

static void mat_mat_shared_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target);
    const int64_t tiles = (n + TILE - 1) / TILE;
    plan_loop(p, n * n, 16, 0);
    p->n = n;
    p->flops = 2 * TILE * TILE * TILE * tiles * tiles * tiles;
    p->outer = tiles;
    plan_arrays(p, n * n, "ooZ");
}

/* A matrix product tile by tile, as a GPU does it through shared memory. */
static void mat_mat_shared(struct work *w)
{
    const int64_t n = w->plan.n, tiles = w->plan.outer, rows = w->outer_run;
    const double *A = w->array[0], *B = w->array[1];
    double *C = w->array[2];
    OMP(parallel for)
    for (int64_t by = 0; by < rows; by++) {
        for (int64_t bx = 0; bx < tiles; bx++) {
            double a[TILE][TILE], b[TILE][TILE], c[TILE][TILE];
            for (int64_t ty = 0; ty < TILE; ty++)
                for (int64_t tx = 0; tx < TILE; tx++)
                    c[ty][tx] = 0;
            for (int64_t k = 0; k < tiles; k++) {
                for (int64_t ty = 0; ty < TILE; ty++) {
                    for (int64_t tx = 0; tx < TILE; tx++) {
                        const int64_t row = by * TILE + ty;
                        const int64_t col = bx * TILE + tx;
                        if (k * TILE + tx < n && row < n)
                            a[ty][tx] = A[row * n + k * TILE + tx];
                        else
                            a[ty][tx] = 0.0;
                        if (k * TILE + ty < n && col < n)
                            b[ty][tx] = B[(k * TILE + ty) * n + col];
                        else
                            b[ty][tx] = 0.0;
                    }
                }
                for (int64_t ty = 0; ty < TILE; ty++)
                    for (int64_t tx = 0; tx < TILE; tx++)
                        for (int64_t i = 0; i < TILE; i++)
                            c[ty][tx] += a[ty][i] * b[i][tx];
            }
            for (int64_t ty = 0; ty < TILE; ty++) {
                for (int64_t tx = 0; tx < TILE; tx++) {
                    const int64_t row = by * TILE + ty;
                    const int64_t col = bx * TILE + tx;
                    if (row < n && col < n)
                        C[col + n * row] = c[ty][tx];
                }
            }
        }
    }
}

static void muladdsub_plan(struct plan *p, int64_t n)
{
    init3_plan(p, n);
    p->flops = 3 * n;
}

static void muladdsub(struct work *w)
{
    const int64_t n = w->plan.n;
    double *out1 = w->array[0], *out2 = w->array[1], *out3 = w->array[2];
    const double *in1 = w->array[3], *in2 = w->array[4];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        out1[i] = in1[i] * in2[i];
        out2[i] = in1[i] + in2[i];
        out3[i] = in1[i] - in2[i];
    }
}

static void nested_init_plan(struct plan *p, int64_t target)
{
    const int64_t n = cube_root(target);
    plan_loop(p, n * n * n, 8, 3);
    p->n = n;
    plan_arrays(p, n * n * n, "Z");
}

static void nested_init(struct work *w)
{
    const int64_t n = w->plan.n;
    double *array = w->array[0];
    OMP(parallel for)
    for (int64_t k = 0; k < n; k++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < n; i++)
                array[i + n * (j + n * k)] = 0.00000001 * (double)i * (double)j * (double)k;
}

static const struct kernel kernels[] = {
    {"Basic_COPY8", copy8_plan, NULL, copy8},
    {"Basic_DAXPY", daxpy_plan, NULL, daxpy},
    {"Basic_DAXPY_ATOMIC", daxpy_plan, NULL, daxpy_atomic},
    {"Basic_IF_QUAD", if_quad_plan, NULL, if_quad},
    {"Basic_INIT3", init3_plan, NULL, init3},
    {"Basic_INIT_VIEW1D", init_view_plan, NULL, init_view},
    {"Basic_INIT_VIEW1D_OFFSET", init_view_plan, NULL, init_view_offset},
    {"Basic_MAT_MAT_SHARED", mat_mat_shared_plan, NULL, mat_mat_shared},
    {"Basic_MULADDSUB", muladdsub_plan, NULL, muladdsub},
    {"Basic_NESTED_INIT", nested_init_plan, NULL, nested_init},
};

KERNEL_GROUP(basic_group, "Basic", kernels);
