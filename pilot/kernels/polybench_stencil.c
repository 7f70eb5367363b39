/* PolyBench kernels that sweep a grid many times: stencils, line solves, shortest paths. */
#include "kernels.h"

enum { ADI_STEPS = 4, FDTD_STEPS = 40, HEAT_STEPS = 20, JACOBI_1D_STEPS = 16, JACOBI_2D_STEPS = 40 };

static void adi_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    p->n = n;
    p->size = (n - 2) * (n - 2);
    p->iterations = ADI_STEPS * 2 * (n - 2);
    p->launches = ADI_STEPS * 2;
    p->bytes = ADI_STEPS * 2 * 8 * 6 * n * (n - 2);
    p->flops = ADI_STEPS * 2 * 17 * p->size;
    p->outer = ADI_STEPS * (n - 2);
    plan_arrays(p, n * n, "Zrrr");
}

/* Alternating directions: a tridiagonal solve per column, then one per row, four times.
 * What --fraction samples are lines: whole time steps first, then a part of one. */
static void adi(struct work *w)
{
    const int64_t n = w->plan.n;
    double *U = w->array[0], *V = w->array[1], *P = w->array[2], *Q = w->array[3];
    const double step = 1.0 / (double)n, time = 1.0 / ADI_STEPS;
    const double mul1 = 2.0 * time / (step * step), mul2 = 1.0 * time / (step * step);
    const double a = -mul1 / 2.0, b = 1.0 + mul1, c = a;
    const double d = -mul2 / 2.0, e = 1.0 + mul2, f = d;
    for (int64_t left = w->outer_run; left > 0; left -= n - 2) {
        const int64_t end = 1 + (left < n - 2 ? left : n - 2);
        OMP(parallel for)
        for (int64_t i = 1; i < end; i++) {
            V[0 * n + i] = 1.0;
            P[i * n + 0] = 0.0;
            Q[i * n + 0] = V[0 * n + i];
            for (int64_t j = 1; j < n - 1; j++) {
                P[i * n + j] = -c / (a * P[i * n + j - 1] + b);
                Q[i * n + j] = (-d * U[j * n + i - 1] + (1.0 + 2.0 * d) * U[j * n + i] -
                                f * U[j * n + i + 1] - a * Q[i * n + j - 1]) /
                               (a * P[i * n + j - 1] + b);
            }
            V[(n - 1) * n + i] = 1.0;
            for (int64_t k = n - 2; k >= 1; k--)
                V[k * n + i] = P[i * n + k] * V[(k + 1) * n + i] + Q[i * n + k];
        }
        OMP(parallel for)
        for (int64_t i = 1; i < end; i++) {
            U[i * n + 0] = 1.0;
            P[i * n + 0] = 0.0;
            Q[i * n + 0] = U[i * n + 0];
            for (int64_t j = 1; j < n - 1; j++) {
                P[i * n + j] = -f / (d * P[i * n + j - 1] + e);
                Q[i * n + j] = (-a * V[(i - 1) * n + j] + (1.0 + 2.0 * a) * V[i * n + j] -
                                c * V[(i + 1) * n + j] - d * Q[i * n + j - 1]) /
                               (d * P[i * n + j - 1] + e);
            }
            U[i * n + n - 1] = 1.0;
            for (int64_t k = n - 2; k >= 1; k--)
                U[i * n + k] = P[i * n + k] * U[i * n + k + 1] + Q[i * n + k];
        }
    }
}

static void fdtd_2d_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    const int64_t line = (n - 1) * n, inner = (n - 1) * (n - 1);
    p->n = n;
    p->size = line;
    p->iterations = FDTD_STEPS * (n + 2 * line + inner);
    p->launches = FDTD_STEPS * 4;
    p->bytes = FDTD_STEPS * 8 * (1 + n + 2 * (2 * line + n * n) + 2 * inner + 2 * line);
    p->flops = FDTD_STEPS * (6 * line + 5 * inner);
    p->outer = FDTD_STEPS;
    plan_arrays(p, n * n, "ZRR");
    plan_arrays(p, FDTD_STEPS, "r");
}

static void fdtd_2d(struct work *w)
{
    const int64_t n = w->plan.n, steps = w->outer_run;
    double *hz = w->array[0], *ex = w->array[1], *ey = w->array[2];
    const double *source = w->array[3];
    for (int64_t t = 0; t < steps; t++) {
        OMP(parallel for)
        for (int64_t j = 0; j < n; j++)
            ey[j] = source[t];
        OMP(parallel for)
        for (int64_t i = 1; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                ey[j + i * n] = ey[j + i * n] - 0.5 * (hz[j + i * n] - hz[j + (i - 1) * n]);
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 1; j < n; j++)
                ex[j + i * n] = ex[j + i * n] - 0.5 * (hz[j + i * n] - hz[j - 1 + i * n]);
        OMP(parallel for)
        for (int64_t i = 0; i < n - 1; i++)
            for (int64_t j = 0; j < n - 1; j++)
                hz[j + i * n] = hz[j + i * n] - 0.7 * (ex[j + 1 + i * n] - ex[j + i * n] +
                                                       ey[j + (i + 1) * n] - ey[j + i * n]);
    }
}

static void floyd_warshall_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    p->n = n;
    p->size = n * n;
    p->iterations = n * n;
    p->launches = 1;
    p->bytes = 16 * n * n;
    p->flops = n * n * n;
    p->outer = n;
    plan_arrays(p, n * n, "sZ");
}

static void floyd_warshall(struct work *w)
{
    const int64_t n = w->plan.n, middles = w->outer_run;
    const double *in = w->array[0];
    double *out = w->array[1];
    for (int64_t k = 0; k < middles; k++) {
        OMP(parallel for)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                out[j + i * n] = in[j + i * n] < in[k + i * n] + in[j + k * n]
                                     ? in[j + i * n]
                                     : in[k + i * n] + in[j + k * n];
    }
}

static void heat_3d_plan(struct plan *p, int64_t target)
{
    const int64_t n = cube_root(target) + 1;
    const int64_t inner = (n - 2) * (n - 2) * (n - 2);
    p->n = n;
    p->size = inner;
    p->iterations = HEAT_STEPS * 2 * inner;
    p->launches = HEAT_STEPS * 2;
    p->bytes = HEAT_STEPS * 2 * 8 * (inner + n * n * n - 12 * (n - 2) - 8);
    p->flops = HEAT_STEPS * 2 * 15 * inner;
    p->outer = HEAT_STEPS;
    plan_arrays(p, n * n * n, "RR");
}

static void heat_sweep(int64_t n, const double *from, double *to)
{
    OMP(parallel for)
    for (int64_t i = 1; i < n - 1; i++) {
        for (int64_t j = 1; j < n - 1; j++) {
            for (int64_t k = 1; k < n - 1; k++) {
                const int64_t at = k + n * (j + n * i);
                to[at] = 0.125 * (from[at + n * n] - 2.0 * from[at] + from[at - n * n]) +
                         0.125 * (from[at + n] - 2.0 * from[at] + from[at - n]) +
                         0.125 * (from[at + 1] - 2.0 * from[at] + from[at - 1]) + from[at];
            }
        }
    }
}

static void heat_3d(struct work *w)
{
    double *a = w->array[0], *b = w->array[1];
    for (int64_t t = 0; t < w->outer_run; t++) {
        heat_sweep(w->plan.n, a, b);
        heat_sweep(w->plan.n, b, a);
    }
}

static void jacobi_1d_plan(struct plan *p, int64_t target)
{
    const int64_t n = target;
    p->n = n;
    p->size = n - 2;
    p->iterations = JACOBI_1D_STEPS * 2 * (n - 2);
    p->launches = JACOBI_1D_STEPS * 2;
    p->bytes = JACOBI_1D_STEPS * 2 * 8 * (n - 2 + n);
    p->flops = JACOBI_1D_STEPS * 2 * 3 * (n - 2);
    p->outer = JACOBI_1D_STEPS;
    plan_arrays(p, n, "RR");
}

static void jacobi_1d(struct work *w)
{
    const int64_t n = w->plan.n;
    double *a = w->array[0], *b = w->array[1];
    for (int64_t t = 0; t < w->outer_run; t++) {
        OMP(parallel for)
        for (int64_t i = 1; i < n - 1; i++)
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1]);
        OMP(parallel for)
        for (int64_t i = 1; i < n - 1; i++)
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1]);
    }
}

static void jacobi_2d_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    const int64_t inner = (n - 2) * (n - 2);
    p->n = n;
    p->size = inner;
    p->iterations = JACOBI_2D_STEPS * 2 * inner;
    p->launches = 2; /* the suite's own figure: it does not count the steps */
    p->bytes = JACOBI_2D_STEPS * 2 * 8 * (inner + n * n - 4);
    p->flops = JACOBI_2D_STEPS * 2 * 5 * inner;
    p->outer = JACOBI_2D_STEPS;
    plan_arrays(p, n * n, "RR");
}

static void jacobi_sweep(int64_t n, const double *from, double *to)
{
    OMP(parallel for)
    for (int64_t i = 1; i < n - 1; i++)
        for (int64_t j = 1; j < n - 1; j++)
            to[j + i * n] = 0.2 * (from[j + i * n] + from[j - 1 + i * n] + from[j + 1 + i * n] +
                                   from[j + (i + 1) * n] + from[j + (i - 1) * n]);
}

static void jacobi_2d(struct work *w)
{
    double *a = w->array[0], *b = w->array[1];
    for (int64_t t = 0; t < w->outer_run; t++) {
        jacobi_sweep(w->plan.n, a, b);
        jacobi_sweep(w->plan.n, b, a);
    }
}

static const struct kernel kernels[] = {
    {"Polybench_ADI", adi_plan, NULL, adi},
    {"Polybench_FDTD_2D", fdtd_2d_plan, NULL, fdtd_2d},
    {"Polybench_FLOYD_WARSHALL", floyd_warshall_plan, NULL, floyd_warshall},
    {"Polybench_HEAT_3D", heat_3d_plan, NULL, heat_3d},
    {"Polybench_JACOBI_1D", jacobi_1d_plan, NULL, jacobi_1d},
    {"Polybench_JACOBI_2D", jacobi_2d_plan, NULL, jacobi_2d},
};

KERNEL_GROUP(polybench_stencil_group, "Polybench", kernels);
