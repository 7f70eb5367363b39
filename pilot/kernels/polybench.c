/* PolyBench linear algebra: products of matrices and vectors in their textbook loop order. */
#include "kernels.h"

static void gemm_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1, nk = 1200;
    plan_loop(p, n * n, 8, 1 + 3 * nk);
    p->n = n;
    p->m = nk;
    p->bytes += 2 * 8 * n * nk;
    p->outer = n;
    plan_arrays(p, n * nk, "r");
    plan_arrays(p, nk * n, "r");
    plan_arrays(p, n * n, "Z");
}

static void gemm(struct work *w)
{
    const int64_t n = w->plan.n, nk = w->plan.m, rows = w->outer_run;
    const double *A = w->array[0], *B = w->array[1];
    double *C = w->array[2];
    const double alpha = 0.62, beta = 1.002;
    OMP(parallel for)
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double dot = 0.0;
            C[j + i * n] *= beta;
            for (int64_t k = 0; k < nk; k++)
                dot += alpha * A[k + i * nk] * B[j + k * n];
            C[j + i * n] = dot;
        }
    }
}

static void mm2_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1, nk = 1120;
    p->n = n;
    p->m = nk;
    p->size = n * n;
    p->iterations = 2 * n * n;
    p->launches = 2;
    p->bytes = 8 * (4 * n * n + 2 * n * nk);
    p->flops = 3 * n * n * nk + 2 * n * n * n;
    p->outer = n;
    plan_arrays(p, n * n, "R");
    plan_arrays(p, n * nk, "r");
    plan_arrays(p, nk * n, "r");
    plan_arrays(p, n * n, "rZ");
}

static void mm2(struct work *w)
{
    const int64_t n = w->plan.n, nk = w->plan.m, rows = w->outer_run;
    double *tmp = w->array[0];
    const double *A = w->array[1], *B = w->array[2], *C = w->array[3];
    double *D = w->array[4];
    const double alpha = 1.5, beta = 1.2;
    OMP(parallel for)
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double dot = 0.0;
            for (int64_t k = 0; k < nk; k++)
                dot += alpha * A[k + i * nk] * B[j + k * n];
            tmp[j + i * n] = dot;
        }
    }
    OMP(parallel for)
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t l = 0; l < n; l++) {
            double dot = beta;
            for (int64_t j = 0; j < n; j++)
                dot += tmp[j + i * n] * C[l + j * n];
            D[l + i * n] = dot;
        }
    }
}

static void mm3_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1, nk = 1010, nm = 1200;
    p->n = n;
    p->m = nk;
    p->size = n * n;
    p->iterations = 3 * n * n;
    p->launches = 3;
    p->bytes = 8 * (5 * n * n + 2 * n * nk + 2 * n * nm);
    p->flops = 2 * n * n * (nk + nm + n);
    p->outer = n;
    plan_arrays(p, n * nk, "r");
    plan_arrays(p, nk * n, "r");
    plan_arrays(p, n * nm, "r");
    plan_arrays(p, nm * n, "r");
    plan_arrays(p, n * n, "ZZZ");
}

static void mm3(struct work *w)
{
    const int64_t n = w->plan.n, nk = w->plan.m, nm = 1200, rows = w->outer_run;
    const double *A = w->array[0], *B = w->array[1], *C = w->array[2], *D = w->array[3];
    double *E = w->array[4], *F = w->array[5], *G = w->array[6];
    OMP(parallel for)
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double dot = 0.0;
            for (int64_t k = 0; k < nk; k++)
                dot += A[k + i * nk] * B[j + k * n];
            E[j + i * n] = dot;
        }
    }
    OMP(parallel for)
    for (int64_t j = 0; j < rows; j++) {
        for (int64_t l = 0; l < n; l++) {
            double dot = 0.0;
            for (int64_t m = 0; m < nm; m++)
                dot += C[m + j * nm] * D[l + m * n];
            F[l + j * n] = dot;
        }
    }
    OMP(parallel for)
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t l = 0; l < n; l++) {
            double dot = 0.0;
            for (int64_t j = 0; j < n; j++)
                dot += E[j + i * n] * F[l + j * n];
            G[l + i * n] = dot;
        }
    }
}

static void matvec_plan(struct plan *p, int64_t target, int64_t vectors)
{
    const int64_t n = square_root(target) + 1;
    p->n = n;
    p->size = n * n;
    p->iterations = 2 * n;
    p->launches = 2;
    p->bytes = 8 * (2 * n * n + vectors * n);
    p->flops = 4 * n * n;
}

static void atax_plan(struct plan *p, int64_t target)
{
    matvec_plan(p, target, 5);
    plan_arrays(p, p->n, "Rr");
    plan_arrays(p, p->n * p->n, "r");
    plan_arrays(p, p->n, "Z");
}

static void atax(struct work *w)
{
    const int64_t n = w->plan.n;
    double *tmp = w->array[0];
    const double *x = w->array[1], *A = w->array[2];
    double *y = w->array[3];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0.0;
        double dot = 0.0;
        for (int64_t j = 0; j < n; j++)
            dot += A[j + i * n] * x[j];
        tmp[i] = dot;
    }
    OMP(parallel for)
    for (int64_t j = 0; j < n; j++) {
        double dot = y[j];
        for (int64_t i = 0; i < n; i++)
            dot += A[j + i * n] * tmp[i];
        y[j] = dot;
    }
}

static void mvt_plan(struct plan *p, int64_t target)
{
    matvec_plan(p, target, 6);
    plan_arrays(p, p->n, "rr");
    plan_arrays(p, p->n * p->n, "r");
    plan_arrays(p, p->n, "ZZ");
}

static void mvt(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *y1 = w->array[0], *y2 = w->array[1], *A = w->array[2];
    double *x1 = w->array[3], *x2 = w->array[4];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double dot = 0.0;
        for (int64_t j = 0; j < n; j++)
            dot += A[j + i * n] * y1[j];
        x1[i] += dot;
    }
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double dot = 0.0;
        for (int64_t j = 0; j < n; j++)
            dot += A[i + j * n] * y2[i]; /* y2[i], as in the measured suite, not y2[j] */
        x2[i] += dot;
    }
}

static void gemver_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    p->n = n;
    p->size = n * n;
    p->iterations = 3 * n * n + n;
    p->launches = 4;
    p->bytes = 8 * (4 * n * n + 13 * n);
    p->flops = 10 * n * n + n;
    plan_arrays(p, n * n, "R");
    plan_arrays(p, n, "rrrrZRrr");
}

static void gemver(struct work *w)
{
    const int64_t n = w->plan.n;
    double *A = w->array[0];
    const double *u1 = w->array[1], *v1 = w->array[2], *u2 = w->array[3], *v2 = w->array[4];
    double *out = w->array[5], *x = w->array[6];
    const double *y = w->array[7], *z = w->array[8];
    const double alpha = 1.5, beta = 1.2;
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            A[j + i * n] += u1[i] * v1[j] + u2[i] * v2[j];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double dot = 0.0;
        for (int64_t j = 0; j < n; j++)
            dot += beta * A[i + j * n] * y[j];
        x[i] += dot;
    }
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        x[i] += z[i];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double dot = out[i];
        for (int64_t j = 0; j < n; j++)
            dot += alpha * A[j + i * n] * x[j];
        out[i] = dot;
    }
}

static void gesummv_plan(struct plan *p, int64_t target)
{
    const int64_t n = square_root(target) + 1;
    p->n = n;
    p->size = n * n;
    p->iterations = n;
    p->launches = 1;
    p->bytes = 8 * (2 * n * n + 3 * n);
    p->flops = (4 * n + 3) * n;
    plan_arrays(p, n, "rZ");
    plan_arrays(p, n * n, "rr");
}

static void gesummv(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *x = w->array[0];
    double *y = w->array[1];
    const double *A = w->array[2], *B = w->array[3];
    const double alpha = 0.62, beta = 1.002;
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double first = 0.0, second = 0.0;
        for (int64_t j = 0; j < n; j++) {
            first += A[j + i * n] * x[j];
            second += B[j + i * n] * x[j];
        }
        y[i] = alpha * first + beta * second;
    }
}

static const struct kernel kernels[] = {
    {"Polybench_2MM", mm2_plan, NULL, mm2},
    {"Polybench_3MM", mm3_plan, NULL, mm3},
    {"Polybench_ATAX", atax_plan, NULL, atax},
    {"Polybench_GEMM", gemm_plan, NULL, gemm},
    {"Polybench_GEMVER", gemver_plan, NULL, gemver},
    {"Polybench_GESUMMV", gesummv_plan, NULL, gesummv},
    {"Polybench_MVT", mvt_plan, NULL, mvt},
};

KERNEL_GROUP(polybench_group, "Polybench", kernels);
