/* References of the matrix, stencil and mesh kernels. */
#include "check.h"

/* Row i of X times column j of Y. */
static double product(const double *X, const double *Y, int64_t i, int64_t j, int64_t inner,
                      int64_t columns)
{
    double sum = 0.0;
    for (int64_t k = inner - 1; k >= 0; k--)
        sum += X[i * inner + k] * Y[k * columns + j];
    return sum;
}

/* Whether out = scale * X Y + offset. */
static bool multiplied(const double *out, const double *X, const double *Y, int64_t rows,
                       int64_t inner, int64_t columns, double scale, double offset)
{
    for (int64_t i = 0; i < rows; i++)
        EVERY(j, 0, columns, out[i * columns + j],
              scale * product(X, Y, i, j, inner, columns) + offset);
    return true;
}

static bool mat_mat_shared(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    return multiplied(after->array[2], before->array[0], before->array[1], n, n, n, 1.0, 0.0);
}

static bool gemm(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n, nk = before->plan.m;
    return multiplied(after->array[2], before->array[0], before->array[1], n, nk, n, 0.62, 0.0);
}

static bool mm2(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n, nk = before->plan.m;
    return multiplied(after->array[0], before->array[1], before->array[2], n, nk, n, 1.5, 0.0) &&
           multiplied(after->array[4], after->array[0], before->array[3], n, n, n, 1.0, 1.2);
}

static bool mm3(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n, nk = before->plan.m;
    return multiplied(after->array[4], before->array[0], before->array[1], n, nk, n, 1.0, 0.0) &&
           multiplied(after->array[5], before->array[2], before->array[3], n, 1200, n, 1.0, 0.0) &&
           multiplied(after->array[6], after->array[4], after->array[5], n, n, n, 1.0, 0.0);
}

static bool atax(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *tmp = after->array[0];
    return multiplied(tmp, before->array[2], before->array[1], n, n, 1, 1.0, 0.0) &&
           multiplied(after->array[3], tmp, before->array[2], 1, n, n, 1.0, 0.0);
}

static bool mvt(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *y2 = before->array[1], *A = before->array[2], *x2 = after->array[4];
    for (int64_t i = 0; i < n; i++) {
        double column = 0.0;
        for (int64_t j = 0; j < n; j++)
            column += A[i + j * n];
        if (!near(x2[i], column * y2[i]))
            return false;
    }
    return multiplied(after->array[3], A, before->array[0], n, n, 1, 1.0, 0.0);
}

static bool gemver(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *A = before->array[0], *B = after->array[0];
    const double *u1 = before->array[1], *v1 = before->array[2];
    const double *u2 = before->array[3], *v2 = before->array[4];
    const double *x = before->array[6], *moved = after->array[6];
    const double *y = before->array[7], *z = before->array[8];
    EVERY(at, 0, n * n, B[at], A[at] + u1[at / n] * v1[at % n] + u2[at / n] * v2[at % n]);
    EVERY(i, 0, n, moved[i], x[i] + 1.2 * product(y, B, 0, i, n, n) + z[i]);
    return multiplied(after->array[5], B, moved, n, n, 1, 1.5, 0.0);
}

static bool gesummv(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *x = before->array[0], *y = after->array[1];
    const double *A = before->array[2], *B = before->array[3];
    EVERY(i, 0, n, y[i],
          0.62 * product(A, x, i, 0, n, 1) + 1.002 * product(B, x, i, 0, n, 1));
    return true;
}

/* The last sweep solved, per row, a tridiagonal system with V's second difference as its right. */
static bool adi(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *U = after->array[0], *V = after->array[1];
    const double mul1 = 2.0 / 4.0 * (double)(n * n), mul2 = 1.0 / 4.0 * (double)(n * n);
    for (int64_t row = n; row < n * (n - 1); row += n) {
        if (U[row] != 1.0 || U[row + n - 1] != 1.0)
            return false;
        EVERY(i, row + 1, row + n - 1,
              (1.0 + mul2) * U[i] - mul2 / 2.0 * (U[i - 1] + U[i + 1]),
              (1.0 - mul1) * V[i] + mul1 / 2.0 * (V[i - n] + V[i + n]));
    }
    return true;
}

/* One time step. */
static bool fdtd_2d(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *hz = before->array[0], *ex = before->array[1], *ey = before->array[2];
    const double *hz1 = after->array[0], *ex1 = after->array[1], *ey1 = after->array[2];
    EVERY(j, 0, n, ey1[j], *(const double *)before->array[3]);
    EVERY(at, n, n * n, ey1[at], ey[at] - 0.5 * (hz[at] - hz[at - n]));
    for (int64_t row = 0; row < n * n; row += n) {
        if (ex1[row] != ex[row])
            return false;
        EVERY(at, row + 1, row + n, ex1[at], ex[at] - 0.5 * (hz[at] - hz[at - 1]));
    }
    for (int64_t row = 0; row < n * (n - 1); row += n)
        EVERY(at, row, row + n - 1, hz1[at],
              hz[at] - 0.7 * (ex1[at + 1] - ex1[at] + ey1[at + n] - ey1[at]));
    return true;
}

/* The input stays as it is, so only the last middle node decides. */
static bool floyd_warshall(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const double *in = before->array[0], *out = after->array[1];
    EVERY(at, 0, n * n, out[at],
          fmin(in[at], in[at / n * n + n - 1] + in[(n - 1) * n + at % n]));
    return true;
}

static double neighbours(const double *x, int64_t at, const int64_t *strides, int axes)
{
    double sum = 0.0;
    for (int axis = 0; axis < axes; axis++)
        sum += x[at - strides[axis]] + x[at + strides[axis]];
    return sum;
}

/* Whether `to` is the stencil of `from` within the border, in one to three dimensions. */
static bool swept(int64_t n, int axes, double centre, double side, const double *from,
                  const double *to)
{
    const int64_t strides[] = {1, n, n * n};
    int64_t points = 1;
    for (int axis = 0; axis < axes; axis++)
        points *= n;
    for (int64_t at = 0; at < points; at++) {
        bool inner = true;
        for (int axis = 0; axis < axes; axis++) {
            const int64_t place = at / strides[axis] % n;
            inner = inner && place > 0 && place < n - 1;
        }
        if (inner && !near(to[at], centre * from[at] + side * neighbours(from, at, strides, axes)))
            return false;
    }
    return true;
}

/* One time step: there and back. */
static bool stepped(const struct work *before, const struct work *after, int axes, double centre,
                    double side)
{
    const int64_t n = before->plan.n;
    return swept(n, axes, centre, side, before->array[0], after->array[1]) &&
           swept(n, axes, centre, side, after->array[1], after->array[0]);
}

static bool heat_3d(const struct work *before, const struct work *after)
{
    return stepped(before, after, 3, 0.25, 0.125);
}

static bool jacobi_1d(const struct work *before, const struct work *after)
{
    return stepped(before, after, 1, 0.33333, 0.33333);
}

static bool jacobi_2d(const struct work *before, const struct work *after)
{
    return stepped(before, after, 2, 0.2, 0.2);
}

/* All volumes change by a positive amount, so no viscosity arises. */
static bool energy(const struct work *before, const struct work *after)
{
    const double *e = after->array[0], *q_new = after->array[5];
    const double *e_old = before->array[1], *delvc = before->array[2], *p_new = before->array[3];
    const double *p_old = before->array[4], *q_old = before->array[6], *work = before->array[7];
    const double *p_half = before->array[9];
    const double cut = ramp(16, 0), least = ramp(17, 0);
    for (int64_t i = 0; i < before->plan.n; i++) {
        const double old = p_old[i] + q_old[i];
        double wanted = e_old[i] + work[i] + delvc[i] * (old - 2.0 * p_half[i]);
        wanted = fmax(fabs(wanted) < cut ? 0.0 : wanted, least);
        wanted -= delvc[i] / 6.0 * (7.0 * old - 8.0 * p_half[i] + p_new[i]);
        wanted = fmax(fabs(wanted) < cut ? 0.0 : wanted, least);
        if (!near(e[i], wanted) || q_new[i] != 0.0)
            return false;
    }
    return true;
}

/* The taps are -1 everywhere and 4 more at every fifth. */
static bool fir(const struct work *before, const struct work *after)
{
    const double *in = before->array[0], *out = after->array[1];
    for (int64_t i = 0; i < before->plan.n - 16; i++) {
        double sum = 4.0 * (in[i] + in[i + 5] + in[i + 10] + in[i + 15]);
        for (int64_t j = i + 15; j >= i; j--)
            sum -= in[j];
        if (!near(out[i], sum))
            return false;
    }
    return true;
}

static bool ltimes(const struct work *before, const struct work *after)
{
    const double *phi = after->array[0], *ell = before->array[1], *psi = before->array[2];
    EVERY(at, 0, before->plan.n * 32 * 25, phi[at],
          product(psi + at / 25 * 64, ell + at % 25 * 64, 0, 0, 64, 1));
    return true;
}

static bool pressure(const struct work *before, const struct work *after)
{
    const double *compression = before->array[0], *bvc = after->array[1], *p = after->array[2];
    const double *e_old = before->array[3], *vnewc = before->array[4];
    for (int64_t i = 0; i < before->plan.n; i++) {
        const double full = ramp(5, 0) * (compression[i] + 1.0) * e_old[i];
        const bool none = fabs(full) < ramp(6, 0) || vnewc[i] >= ramp(8, 0);
        if (!near(p[i], fmax(none ? 0.0 : full, ramp(7, 0))) || !near(bvc[i] * e_old[i], full))
            return false;
    }
    return true;
}

/* The three variables hold a cell's own index, so the halo must hold the index of the cell that
 * is packed for it: the nearest cell of the grid. */
static bool halo(const struct work *before, const struct work *after)
{
    const int64_t side = before->plan.n, wide = side + 2;
    for (int variable = 0; variable < 3; variable++) {
        const double *values = after->array[variable];
        for (int64_t at = 0; at < wide * wide * wide; at++) {
            int64_t stride = 1, nearest = 0;
            for (int axis = 0; axis < 3; axis++, stride *= wide) {
                const int64_t place = at / stride % wide;
                nearest += stride * (place < 1 ? 1 : place > side ? side : place);
            }
            if (values[at] != (double)nearest)
                return false;
        }
    }
    return true;
}

/* On a mesh of rectangles with spacing 0.2 and 0.1. */
static bool del_dot_vec_2d(const struct work *before, const struct work *after)
{
    const int64_t side = square_root(before->plan.n), row = side + 4;
    const double *fx = before->array[2], *fy = before->array[3], *div = after->array[4];
    for (int64_t j = 2; j < side + 2; j++) {
        for (int64_t i = 2; i < side + 2; i++) {
            const int64_t sw = i + j * row, se = sw + 1, nw = sw + row, ne = nw + 1;
            const double dfxdx = (fx[se] + fx[ne] - fx[sw] - fx[nw]) / 0.4;
            const double dfydy = (fy[nw] + fy[ne] - fy[sw] - fy[se]) / 0.2;
            const double affine = (fy[sw] + fy[se] + fy[nw] + fy[ne]) / (0.2 * (double)(2 * j + 1));
            if (fabs(div[sw] - (dfxdx + dfydy + affine)) > 1e-9)
                return false;
        }
    }
    return true;
}

/* A node gets an eighth of each of the real zones around it. */
static bool nodal(const struct work *before, const struct work *after)
{
    const int64_t side = cube_root(before->plan.n), row = side + 4;
    const double *x = after->array[0];
    for (int64_t at = 0; at < row * row * row; at++) {
        int64_t zones = 1, stride = 1;
        for (int axis = 0; axis < 3; axis++, stride *= row) {
            const int64_t place = at / stride % row;
            zones *= (place > 1 && place < side + 2) + (place > 2 && place < side + 3);
        }
        if (!near(x[at], 0.125 * (double)zones))
            return false;
    }
    return true;
}

static bool zonal(const struct work *before, const struct work *after)
{
    const int64_t side = cube_root(before->plan.n), row = side + 4;
    const double *vol = after->array[1];
    for (int64_t at = 0; at < before->plan.arrays[1].count; at++) {
        bool real = true;
        int64_t stride = 1;
        for (int axis = 0; axis < 3; axis++, stride *= row) {
            const int64_t place = at / stride % row;
            real = real && place > 1 && place < side + 2;
        }
        if (!near(vol[at], real ? 1.0 : 0.0))
            return false;
    }
    return true;
}

/* Bricks of 0.3 x 0.2 x 0.1, on which the suite's surplus product vanishes. */
static bool vol3d(const struct work *before, const struct work *after)
{
    const int64_t side = cube_root(before->plan.n), row = side + 4;
    const double *vol = after->array[3];
    for (int64_t k = 2; k < side + 2; k++)
        for (int64_t j = 2; j < side + 2; j++)
            EVERY(i, 2, side + 2, vol[i + row * (j + row * k)], 0.3 * 0.2 * 0.1);
    return true;
}

const struct check grid_checks[] = {
    {"Apps_DEL_DOT_VEC_2D", del_dot_vec_2d, 0},
    {"Apps_ENERGY", energy, 0},
    {"Apps_FIR", fir, 0},
    {"Apps_HALOEXCHANGE", halo, 0},
    {"Apps_HALOEXCHANGE_FUSED", halo, 0},
    {"Apps_LTIMES", ltimes, 0},
    {"Apps_LTIMES_NOVIEW", ltimes, 0},
    {"Apps_NODAL_ACCUMULATION_3D", nodal, 0},
    {"Apps_PRESSURE", pressure, 0},
    {"Apps_VOL3D", vol3d, 0},
    {"Apps_ZONAL_ACCUMULATION_3D", zonal, 0},
    {"Basic_MAT_MAT_SHARED", mat_mat_shared, 0},
    {"Polybench_2MM", mm2, 0},
    {"Polybench_3MM", mm3, 0},
    {"Polybench_ADI", adi, 0},
    {"Polybench_ATAX", atax, 0},
    {"Polybench_FDTD_2D", fdtd_2d, 1e-9},
    {"Polybench_FLOYD_WARSHALL", floyd_warshall, 0},
    {"Polybench_GEMM", gemm, 0},
    {"Polybench_GEMVER", gemver, 0},
    {"Polybench_GESUMMV", gesummv, 0},
    {"Polybench_HEAT_3D", heat_3d, 1e-9},
    {"Polybench_JACOBI_1D", jacobi_1d, 1e-9},
    {"Polybench_JACOBI_2D", jacobi_2d, 1e-9},
    {"Polybench_MVT", mvt, 0},
    {NULL, NULL, 0},
};
