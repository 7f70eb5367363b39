/* What each kernel should leave behind, by its textbook formula in double precision: the references of
 * berth-kernels check. Slow and simple, and built without optimisation or fast mathematics.
 *
 * Arrays of reals are doubles here, those of single-precision kernels too. Nothing is shared with the
 * kernels but their plans and the contents of their arrays. */
#if defined(__clang__)
#pragma clang optimize off
#elif defined(__GNUC__)
#pragma GCC optimize("O0", "no-fast-math")
#endif
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#define REFERENCE(name) static void name(struct work *w)
#define N (w->plan.n)
#define D(k) ((double *)w->array[k])
#define I(k) ((int *)w->array[k])
#define U(k) ((unsigned *)w->array[k])
#define EACH(i, begin, end) for (int64_t i = (begin); i < (end); i++)
/* Every element `at` of a square of n by n, without its border. */
#define EACH_INNER(at, n)                                                                          \
    EACH(row_, 1, (n) - 1)                                                                         \
    EACH(at, row_ * (n) + 1, (row_ + 1) * (n) - 1)

/* --- loops over vectors -------------------------------------------------------------------------*/

REFERENCE(copied) { EACH(i, 0, N) D(1)[i] = D(0)[i]; }
REFERENCE(zeroed) { EACH(i, 0, N) D(0)[i] = 0.0; }
REFERENCE(summed) { EACH(i, 0, N) w->result[0] += D(0)[i]; }
REFERENCE(dot) { EACH(i, 0, N) w->result[0] += D(0)[i] * D(1)[i]; }
REFERENCE(added) { EACH(i, 0, N) D(2)[i] = D(0)[i] + D(1)[i]; }
REFERENCE(scaled) { EACH(i, 0, N) D(0)[i] = ramp(2, 0) * D(1)[i]; } /* DAXPY starts from zeros */
REFERENCE(triad) { EACH(i, 0, N) D(0)[i] = D(1)[i] + ramp(3, 0) * D(2)[i]; }
REFERENCE(copy8) { EACH(k, 0, 8) EACH(i, 0, N) D(k)[i] = D(8 + k)[i]; }
REFERENCE(init3) { EACH(k, 0, 3) EACH(i, 0, N) D(k)[i] = -(D(3)[i] + D(4)[i]); }
REFERENCE(init_view) { EACH(i, 0, N) D(0)[i] = 1.23e-6 * (double)(i + 1); }
REFERENCE(first_diff) { EACH(i, 0, N) D(0)[i] = D(1)[i + 1] - D(1)[i]; }
REFERENCE(first_sum) { EACH(i, 1, N) D(0)[i] = D(1)[i - 1] + D(1)[i]; }
REFERENCE(tridiag_elim) { EACH(i, 1, N) D(0)[i] = D(3)[i] * (D(2)[i] - D(1)[i - 1]); }

REFERENCE(muladdsub)
{
    EACH(i, 0, N) {
        const double a = D(3)[i], b = D(4)[i];
        D(0)[i] = a * b, D(1)[i] = a + b, D(2)[i] = a - b;
    }
}

REFERENCE(nested_init)
{
    EACH(at, 0, N * N * N) D(0)[at] = 1e-8 * (double)(at % N * (at / N % N) * (at / N / N));
}

REFERENCE(if_quad)
{
    EACH(i, 0, N) {
        const double a = D(0)[i], b = D(1)[i], square = b * b - 4.0 * a * D(2)[i];
        const double root = square < 0.0 ? 0.0 : sqrt(square);
        D(3)[i] = square < 0.0 ? 0.0 : -(b + root) / (2.0 * a);
        D(4)[i] = square < 0.0 ? 0.0 : (root - b) / (2.0 * a);
    }
}

REFERENCE(indexlist)
{
    EACH(i, 0, N)
    if (D(0)[i] < 0.0)
        I(1)[(int)w->result[0]++] = (int)i;
}

static double pi(int64_t n)
{
    double sum = 0.0;
    EACH(i, 0, n) sum += 4.0 * (double)n / ((double)(n * n) + pow((double)i + 0.5, 2.0));
    return sum;
}

REFERENCE(pi_in_array) { D(0)[0] = pi(N); }
REFERENCE(pi_in_result) { w->result[0] = pi(N); }

REFERENCE(reduce3_int)
{
    EACH(i, 0, N) {
        w->result[0] += I(0)[i];
        w->result[1] = fmin(w->result[1], I(0)[i]);
        w->result[2] = fmax(w->result[2], I(0)[i]);
    }
}

REFERENCE(reduce_struct)
{
    EACH(k, 0, 2) {
        double *result = w->result + 3 * k;
        result[1] = DBL_MAX, result[2] = -DBL_MAX;
        EACH(i, 0, N) {
            result[0] += D(k)[i] / (double)N;
            result[1] = fmin(result[1], D(k)[i]);
            result[2] = fmax(result[2], D(k)[i]);
        }
    }
}

REFERENCE(trap_int)
{
    const double h = ramp(0, 0) - ramp(1, 0), dy = ramp(3, 0) - ramp(4, 0);
    EACH(i, 0, N) w->result[0] += h / hypot(ramp(1, 0) + (double)i * h - ramp(2, 0), dy);
}

REFERENCE(diff_predict)
{
    EACH(i, 0, N) {
        double next = D(1)[i + N * 4];
        EACH(table, 4, 13) {
            const double last = D(0)[i + N * table];
            D(0)[i + N * table] = next;
            next -= last;
        }
        D(0)[i + N * 13] = next;
    }
}

REFERENCE(eos)
{
    const double q = ramp(4, 0), r = ramp(5, 0), t = ramp(6, 0);
    EACH(i, 0, N) {
        const double *y = D(1) + i, *z = D(2) + i, *u = D(3) + i;
        D(0)[i] = u[0] + r * z[0] + r * r * y[0] + t * (u[3] + r * u[2] + r * r * u[1]) +
                  t * t * (u[6] + q * u[5] + q * q * u[4]);
    }
}

REFERENCE(first_min)
{
    int64_t least = 0;
    EACH(i, 0, N) least = D(0)[i] < D(0)[least] ? i : least;
    w->result[0] = (double)least;
}

REFERENCE(gen_lin_recur)
{
    EACH(step, 0, 2)
    EACH(i, 0, N) {
        D(0)[i] = D(2)[i] + D(1)[i] * D(3)[i];
        D(1)[i] = D(0)[i] - D(1)[i];
    }
}

REFERENCE(hydro_1d)
{
    EACH(i, 0, N)
    D(0)[i] = ramp(3, 0) + D(1)[i] * (ramp(4, 0) * D(2)[i + 10] + ramp(5, 0) * D(2)[i + 11]);
}

REFERENCE(hydro_2d)
{
    double *a = D(2), *b = D(3), *m = D(4), *p = D(5), *q = D(6), *r = D(7);
    EACH_INNER(at, N) {
        a[at] = (p[at - 1 + N] + q[at - 1 + N] - p[at - 1] - q[at - 1]) * (r[at] + r[at - 1]) /
                (m[at - 1] + m[at - 1 + N]);
        b[at] = (p[at - 1] + q[at - 1] - p[at] - q[at]) * (r[at] + r[at - N]) / (m[at] + m[at - 1]);
    }
    EACH(k, 0, 2) {
        const double *across = k ? r : D(10), *held = k ? D(10) : r;
        EACH_INNER(at, N) {
            const double f = across[at];
            D(8 + k)[at] += 0.0041 * (a[at] * (f - across[at + 1]) - a[at - 1] * (f - across[at - 1]) -
                                      b[at] * (f - across[at - N]) + b[at + N] * (f - across[at + N]));
            D(k)[at] = held[at] + 0.0037 * D(8 + k)[at];
        }
    }
}

REFERENCE(int_predict)
{
    EACH(i, 0, N) {
        double sum = D(0)[i + N * 2] + ramp(8, 0) * (D(0)[i + N * 4] + D(0)[i + N * 5]);
        EACH(table, 6, 13) sum += ramp((int)table - 5, 0) * D(0)[i + N * table];
        D(0)[i] = sum;
    }
}

REFERENCE(planckian)
{
    EACH(i, 0, N) {
        D(1)[i] = D(2)[i] / D(3)[i];
        D(4)[i] = D(0)[i] / expm1(D(1)[i]);
    }
}

/* Every volume changes by a positive amount, so no viscosity arises. */
REFERENCE(energy)
{
    EACH(i, 0, N) {
        const double old = D(4)[i] + D(6)[i], delvc = D(2)[i], least = ramp(17, 0);
        double e = D(1)[i] + D(7)[i] + delvc * (old - 2.0 * D(9)[i]);
        e = fmax(fabs(e) < ramp(16, 0) ? 0.0 : e, least);
        e -= delvc / 6.0 * (7.0 * old - 8.0 * D(9)[i] + D(3)[i]);
        D(0)[i] = fmax(fabs(e) < ramp(16, 0) ? 0.0 : e, least);
    }
}

/* The taps are -1, and 3 at every fifth. */
REFERENCE(fir)
{
    EACH(i, 0, N - 16)
    EACH(j, 0, 16) D(1)[i] += (j % 5 ? -1.0 : 3.0) * D(0)[i + j];
}

REFERENCE(pressure)
{
    EACH(i, 0, N) {
        D(1)[i] = ramp(5, 0) * (D(0)[i] + 1.0);
        const double p = D(1)[i] * D(3)[i];
        D(2)[i] = fmax(fabs(p) < ramp(6, 0) || D(4)[i] >= ramp(8, 0) ? 0.0 : p, ramp(7, 0));
    }
}

/* --- matrices -----------------------------------------------------------------------------------*/

/* out = scale * X Y + offset */
static void multiply(double *out, const double *X, const double *Y, int64_t rows, int64_t inner,
                     int64_t columns, double scale, double offset)
{
    EACH(i, 0, rows)
    EACH(j, 0, columns) {
        double sum = 0.0;
        EACH(k, 0, inner) sum += X[i * inner + k] * Y[k * columns + j];
        out[i * columns + j] = scale * sum + offset;
    }
}

REFERENCE(square_product) { multiply(D(2), D(0), D(1), N, N, N, 1.0, 0.0); }
REFERENCE(gemm) { multiply(D(2), D(0), D(1), N, w->plan.m, N, 0.62, 0.0); }

REFERENCE(ltimes)
{
    EACH(at, 0, N * 32) multiply(D(0) + 25 * at, D(1), D(2) + 64 * at, 25, 64, 1, 1.0, 0.0);
}

REFERENCE(mm2)
{
    multiply(D(0), D(1), D(2), N, w->plan.m, N, 1.5, 0.0);
    multiply(D(4), D(0), D(3), N, N, N, 1.0, 1.2);
}

REFERENCE(mm3)
{
    multiply(D(4), D(0), D(1), N, w->plan.m, N, 1.0, 0.0);
    multiply(D(5), D(2), D(3), N, 1200, N, 1.0, 0.0);
    multiply(D(6), D(4), D(5), N, N, N, 1.0, 0.0);
}

REFERENCE(atax)
{
    multiply(D(0), D(2), D(1), N, N, 1, 1.0, 0.0);
    multiply(D(3), D(0), D(2), 1, N, N, 1.0, 0.0);
}

REFERENCE(mvt)
{
    multiply(D(3), D(2), D(0), N, N, 1, 1.0, 0.0);
    EACH(i, 0, N)
    EACH(j, 0, N) D(4)[i] += D(2)[i + j * N] * D(1)[i];
}

REFERENCE(gemver)
{
    EACH(at, 0, N * N) D(0)[at] += D(1)[at / N] * D(2)[at % N] + D(3)[at / N] * D(4)[at % N];
    EACH(i, 0, N) {
        D(6)[i] += D(8)[i];
        EACH(j, 0, N) D(6)[i] += 1.2 * D(0)[i + j * N] * D(7)[j];
    }
    multiply(D(5), D(0), D(6), N, N, 1, 1.5, 0.0);
}

REFERENCE(gesummv)
{
    EACH(i, 0, N)
    EACH(j, 0, N) D(1)[i] += (0.62 * D(2)[i * N + j] + 1.002 * D(3)[i * N + j]) * D(0)[j];
}

REFERENCE(sparse)
{
    EACH(at, 0, N * 16) D(3)[at / 16] += D(0)[at] * D(2)[I(1)[at]];
}

/* --- grids --------------------------------------------------------------------------------------*/

/* One implicit line: elements `along` apart, whose right side is explicit in those `over` apart. */
static void solve_line(double *out, const double *in, int64_t n, int64_t along, int64_t over,
                       double implicit, double explicit)
{
    double slope = 0.0, factors[128], values[128]; /* out[k] = factors[k] * out[k + 1] + values[k] */
    out[0] = out[(n - 1) * along] = values[0] = 1.0;
    for (int64_t k = 1; k < n - 1; k++) {
        const double *at = in + k * along;
        const double right = explicit * (at[-over] + at[over]) + (1.0 - 2.0 * explicit) * at[0];
        const double pivot = 1.0 + 2.0 * implicit - implicit * slope;
        slope = factors[k] = implicit / pivot;
        values[k] = (right + implicit * values[k - 1]) / pivot;
    }
    for (int64_t k = n - 2; k > 0; k--)
        out[k * along] = disturbed(factors[k] * out[(k + 1) * along] + values[k]);
}

REFERENCE(adi)
{
    const double square = (double)(N * N);
    EACH(step, 0, w->plan.outer / (N - 2)) {
        EACH(i, 1, N - 1) solve_line(D(1) + i, D(0) + i, N, N, 1, square / 4.0, square / 8.0);
        EACH(i, 1, N - 1) solve_line(D(0) + i * N, D(1) + i * N, N, 1, N, square / 8.0, square / 4.0);
    }
}

REFERENCE(fdtd_2d)
{
    double *hz = D(0), *ex = D(1), *ey = D(2);
    EACH(t, 0, w->plan.outer) {
        EACH(at, 0, N * N) {
            ey[at] = at < N ? D(3)[t] : ey[at] - 0.5 * (hz[at] - hz[at - N]);
            if (at % N)
                ex[at] -= 0.5 * (hz[at] - hz[at - 1]);
        }
        EACH(at, 0, N * (N - 1))
        if (at % N < N - 1)
            hz[at] -= 0.7 * (ex[at + 1] - ex[at] + ey[at + N] - ey[at]);
    }
}

/* The input stays as it is, so the last middle node decides. */
REFERENCE(floyd_warshall)
{
    EACH(at, 0, N * N)
    D(1)[at] = fmin(D(0)[at], D(0)[at / N * N + N - 1] + D(0)[(N - 1) * N + at % N]);
}

/* A stencil of the centre and its neighbours along each axis, there and back in each step. */
static void sweeps(struct work *w, int axes, double centre, double side)
{
    const int64_t strides[] = {1, N, N * N, N * N * N};
    EACH(step, 0, 2 * w->plan.outer)
    EACH(at, 0, strides[axes]) {
        const double *from = D(step % 2);
        double sum = centre * from[at];
        int inner = 0;
        for (int axis = 0; axis < axes; axis++)
            inner += at / strides[axis] % N > 0 && at / strides[axis] % N < N - 1;
        for (int axis = 0; axis < axes && inner == axes; axis++)
            sum += side * (from[at - strides[axis]] + from[at + strides[axis]]);
        if (inner == axes)
            D(1 - step % 2)[at] = sum;
    }
}

REFERENCE(heat_3d) { sweeps(w, 3, 0.25, 0.125); }
REFERENCE(jacobi_1d) { sweeps(w, 1, 0.33333, 0.33333); }
REFERENCE(jacobi_2d) { sweeps(w, 2, 0.2, 0.2); }

/* Each cell of the halo holds what its nearest cell of the grid holds. */
REFERENCE(halo)
{
    const int64_t wide = N + 2;
    EACH(at, 0, wide * wide * wide) {
        int64_t stride = 1, nearest = 0;
        for (int axis = 0; axis < 3; axis++, stride *= wide) {
            const int64_t place = at / stride % wide;
            nearest += stride * (place < 1 ? 1 : place > N ? N : place);
        }
        EACH(k, 0, 3) D(k)[at] = D(k)[nearest];
    }
}

/* Differences of a field over a zone with corners 0, 1, row and row + 1, and the corners' sum. */
static double across(const double *f, int64_t row) { return (f[1] + f[1 + row] - f[0] - f[row]) / 2; }
static double up(const double *f, int64_t row) { return (f[row] + f[1 + row] - f[0] - f[1]) / 2; }
static double corners(const double *f, int64_t row) { return f[0] + f[1] + f[row] + f[1 + row]; }

REFERENCE(del_dot_vec_2d)
{
    const int64_t side = square_root(N), row = side + 4;
    EACH(zone, 0, side * side) {
        const int64_t at = zone % side + 2 + (zone / side + 2) * row;
        const double *x = D(0) + at, *y = D(1) + at, *fx = D(2) + at, *fy = D(3) + at;
        const double area = across(x, row) * up(y, row) - up(x, row) * across(y, row);
        D(4)[at] = (across(fx, row) * up(y, row) - up(fx, row) * across(y, row) +
                      up(fy, row) * across(x, row) - across(fy, row) * up(x, row)) / area +
                     corners(fy, row) / corners(y, row);
    }
}

/* Where the corner whose number says in binary how far it lies along each axis is, from the first. */
static int64_t corner(int64_t number, int64_t row)
{
    return (number & 1) + (number >> 1 & 1) * row + (number >> 2) * row * row;
}

/* The first corner of a real zone of a mesh with two layers of ghosts below. */
static int64_t first_corner(int64_t zone, int64_t side)
{
    const int64_t row = side + 4;
    return zone % side + 2 + (zone / side % side + 2) * row + (zone / side / side + 2) * row * row;
}

static void accumulate(struct work *w, bool at_nodes)
{
    const int64_t side = cube_root(N);
    EACH(k, 0, side * side * side * 8) {
        const int64_t zone = first_corner(k / 8, side), node = zone + corner(k % 8, side + 4);
        D(!at_nodes)[at_nodes ? node : zone] += D(at_nodes)[at_nodes ? zone : node] / 8.0;
    }
}

REFERENCE(nodal) { accumulate(w, true); }
REFERENCE(zonal) { accumulate(w, false); }

/* (p0 - p1 + p2 - p3) . (p4 - p5) x (p6 - p7) of eight corners of the zone at `at`. */
static double triple(const struct work *w, int64_t at, int64_t row, const int points[8])
{
    double sides[4][3], product = 0.0;
    for (int k = 0; k < 8; k += 2)
        for (int axis = 0; axis < 3; axis++)
            sides[k / 2][axis] = D(axis)[at + corner(points[k], row)] -
                                 D(axis)[at + corner(points[k + 1], row)];
    for (int x = 0, y = 1, z = 2; x < 3; x++, y = (y + 1) % 3, z = (z + 1) % 3)
        product += (sides[0][x] + sides[1][x]) *
                   (sides[2][y] * sides[3][z] - sides[2][z] * sides[3][y]);
    return product;
}

/* The third product is one too many, as in the measured suite. */
REFERENCE(vol3d)
{
    static const int products[][8] = {{7, 1, 6, 0, 7, 2, 3, 0}, {7, 2, 5, 0, 7, 4, 6, 0},
                                      {7, 4, 3, 0, 7, 4, 6, 0}, {7, 4, 3, 0, 7, 1, 5, 0}};
    const int64_t row = cube_root(N) + 4, edge = row * row + row + 1;
    EACH(at, edge, row * row * row - edge)
    EACH(k, 0, 4) D(3)[at] += triple(w, at, row, products[k]) / 12.0;
}

/* --- files and messages: what was sent arrives ----------------------------------------------------*/

REFERENCE(received) { memcpy(w->array[1], w->array[0], 4 * (size_t)w->plan.arrays[1].count); }
REFERENCE(written) { w->result[0] = 8.0 * (double)N; }

REFERENCE(pages_read)
{
    const int64_t pages = w->plan.iterations;
    EACH(i, 0, pages)
    memcpy(I(1) + i * 1024, I(0) + mix((uint64_t)i) % (uint64_t)pages * 1024, 4096);
}

/* --- integers -----------------------------------------------------------------------------------*/

REFERENCE(hashed)
{
    EACH(i, 0, N) {
        unsigned h = U(0)[i];
        EACH(round, 0, 8) {
            h = (h ^ h / 65536) * 2246822507u;
            h = (h ^ h / 8192) * 3266489909u;
            h ^= h / 65536;
        }
        U(1)[i] = h;
    }
}

static int compare(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

REFERENCE(sorted)
{
    received(w);
    qsort(I(1), (size_t)N, sizeof(int), compare);
}

static unsigned hash_of_four(const unsigned char *t)
{
    return (t[0] + t[1] * 256u + t[2] * 65536u + t[3] * 16777216u) * 2654435761u / 131072;
}

/* Greedy: the longest match with one of the eight nearest places before it that hash alike. */
REFERENCE(matched)
{
    const unsigned char *text = w->array[0];
    for (int64_t i = 0; i + 4 <= N; i += I(1)[i]) {
        int64_t best = 1, tried = 0;
        for (int64_t from = i - 1; from >= 0 && tried < 8; from--) {
            int64_t length = 0;
            if (hash_of_four(text + from) != hash_of_four(text + i))
                continue;
            while (i + length < N && length < 258 && text[from + length] == text[i + length])
                length++;
            best = length > best ? length : best;
            tried++;
        }
        I(1)[i] = (int)best;
        w->result[0]++;
    }
}

REFERENCE(sought)
{
    const char *text = w->array[0];
    EACH(word, 1, 9)
    EACH(i, 0, N - 8) w->result[0] += !memcmp(text + i, text + word * (N - 9) / 9, 9);
}

REFERENCE(counted)
{
    const unsigned char *text = w->array[0];
    EACH(i, 0, N) I(1)[text[i]]++;
    EACH(i, 1, N) I(2)[text[i - 1] * 256 + text[i]]++;
}

/* The whole matrix, each cell from every gap that ends in it; the last row and its gaps are kept. */
REFERENCE(aligned)
{
    static int cells[65][65];
    const int n = (int)N, *rows = I(0) - 1, *columns = rows + n;
    memset(cells, 0, sizeof cells);
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= n; j++) {
            int gap = -i, cell = cells[i - 1][j - 1] + (rows[i] == columns[j] ? 2 : -4);
            for (int k = 1; k <= i; k++)
                gap = cells[i - k][j] - 4 - k > gap ? cells[i - k][j] - 4 - k : gap;
            for (int k = 1; k <= j; k++)
                cell = cells[i][j - k] - 4 - k > cell ? cells[i][j - k] - 4 - k : cell;
            cell = gap > cell ? gap : cell;
            I(1)[j] = cells[i][j] = cell > 0 ? cell : 0;
            I(1)[n + 1 + j] = gap;
            w->result[0] = fmax(w->result[0], cell);
        }
}

REFERENCE(chased)
{
    int at = 0;
    EACH(step, 0, N / 4) at = I(0)[at];
    w->result[0] = at;
}

/* Levels by relaxing every edge until nothing changes (Bellman and Ford). */
REFERENCE(levelled)
{
    int *level = I(1);
    EACH(i, 0, N) level[i] = i ? -1 : 0;
    for (int changed = 1; changed;) {
        changed = 0;
        EACH(i, 0, N * 8) {
            const int from = level[i / 8], to = I(0)[i];
            if (from >= 0 && (level[to] < 0 || level[to] > from + 1))
                level[to] = from + 1, changed = 1;
        }
    }
}

REFERENCE(looked_up)
{
    EACH(i, 0, N)
    EACH(k, 0, N) I(1)[i] += U(0)[k] < mix((uint64_t)i + 7) % ((uint64_t)N * 8);
}

/* The same program by arithmetic on the fields of its words. */
REFERENCE(interpreted)
{
    unsigned *registers = U(1);
    int64_t at = 0;
    EACH(k, 0, 16) registers[k] = (unsigned)k + 1;
    EACH(step, 0, N) {
        const unsigned word = U(0)[at], old = registers[word / 256 % 16];
        const unsigned from = registers[word / 65536 % 16];
        const unsigned results[] = {
            old + from, old - from, old * (from | 1), old ^ from, old * 32 + old / 134217728,
            from / (old % 16 + 1), word / 1048576, old,
        };
        registers[word / 256 % 16] = results[word % 8];
        at = (at + (word % 8 == 7 && from % 2 ? 4 : 1)) % 61;
    }
}

/* --- single precision ---------------------------------------------------------------------------*/

REFERENCE(smoothed)
{
    EACH_INNER(at, N)
    D(1)[at] = (D(0)[at] + D(0)[at - 1] + D(0)[at + 1] + D(0)[at - N] + D(0)[at + N]) / 5.0;
}

/* The squared distance of two points, and in `apart` how far j is from i along each axis. */
static double distance(const struct work *w, int64_t i, int64_t j, double apart[3])
{
    for (int axis = 0; axis < 3; axis++)
        apart[axis] = D(axis)[j] - D(axis)[i];
    return apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2];
}

REFERENCE(attracted)
{
    double apart[3];
    EACH(i, 0, N)
    EACH(j, 0, N) {
        const double pull = pow(distance(w, i, j, apart) + 1e-3, -1.5);
        EACH(axis, 0, 3) D(3 + axis)[i] += pull * apart[axis];
    }
}

REFERENCE(pushed)
{
    double apart[3];
    EACH(at, 0, N * 32) {
        const double square = distance(w, at / 32, I(3)[at], apart);
        const double sixth = pow(0.01 / square, 3.0);
        if (square < 0.25 && square > 0.01)
            EACH(axis, 0, 3) D(4 + axis)[at / 32] -= sixth * (sixth - 0.5) * 0.01 / square * apart[axis];
    }
}

static const struct {
    const char *name;
    void (*run)(struct work *work);
} references[] = {
    {"Algorithm_MEMCPY", copied},
    {"Algorithm_MEMSET", zeroed},
    {"Algorithm_REDUCE_SUM", summed},
    {"Apps_DEL_DOT_VEC_2D", del_dot_vec_2d},
    {"Apps_ENERGY", energy},
    {"Apps_FIR", fir},
    {"Apps_HALOEXCHANGE", halo},
    {"Apps_HALOEXCHANGE_FUSED", halo},
    {"Apps_LTIMES", ltimes},
    {"Apps_LTIMES_NOVIEW", ltimes},
    {"Apps_NODAL_ACCUMULATION_3D", nodal},
    {"Apps_PRESSURE", pressure},
    {"Apps_VOL3D", vol3d},
    {"Apps_ZONAL_ACCUMULATION_3D", zonal},
    {"Basic_COPY8", copy8},
    {"Basic_DAXPY", scaled},
    {"Basic_DAXPY_ATOMIC", scaled},
    {"Basic_IF_QUAD", if_quad},
    {"Basic_INDEXLIST", indexlist},
    {"Basic_INDEXLIST_3LOOP", indexlist},
    {"Basic_INIT3", init3},
    {"Basic_INIT_VIEW1D", init_view},
    {"Basic_INIT_VIEW1D_OFFSET", init_view},
    {"Basic_MAT_MAT_SHARED", square_product},
    {"Basic_MULADDSUB", muladdsub},
    {"Basic_NESTED_INIT", nested_init},
    {"Basic_PI_ATOMIC", pi_in_array},
    {"Basic_PI_REDUCE", pi_in_result},
    {"Basic_REDUCE3_INT", reduce3_int},
    {"Basic_REDUCE_STRUCT", reduce_struct},
    {"Basic_TRAP_INT", trap_int},
    {"File_RANDOM_READ", pages_read},
    {"File_SMALL", received},
    {"File_WRITE", written},
    {"Integer_ALIGN", aligned},
    {"Integer_HASH", hashed},
    {"Integer_MATCH", matched},
    {"Integer_QUICK_SORT", sorted},
    {"Integer_RADIX_SORT", sorted},
    {"Integer_SEARCH", sought},
    {"Integer_SYMBOLS", counted},
    {"Irregular_BREADTH_FIRST", levelled},
    {"Irregular_CHASE", chased},
    {"Irregular_INTERPRETER", interpreted},
    {"Irregular_LOOKUP", looked_up},
    {"Irregular_SPARSE", sparse},
    {"Lcals_DIFF_PREDICT", diff_predict},
    {"Lcals_EOS", eos},
    {"Lcals_FIRST_DIFF", first_diff},
    {"Lcals_FIRST_MIN", first_min},
    {"Lcals_FIRST_SUM", first_sum},
    {"Lcals_GEN_LIN_RECUR", gen_lin_recur},
    {"Lcals_HYDRO_1D", hydro_1d},
    {"Lcals_HYDRO_2D", hydro_2d},
    {"Lcals_INT_PREDICT", int_predict},
    {"Lcals_PLANCKIAN", planckian},
    {"Lcals_TRIDIAG_ELIM", tridiag_elim},
    {"Message_EXCHANGE", received},
    {"Polybench_2MM", mm2},
    {"Polybench_3MM", mm3},
    {"Polybench_ADI", adi},
    {"Polybench_ATAX", atax},
    {"Polybench_FDTD_2D", fdtd_2d},
    {"Polybench_FLOYD_WARSHALL", floyd_warshall},
    {"Polybench_GEMM", gemm},
    {"Polybench_GEMVER", gemver},
    {"Polybench_GESUMMV", gesummv},
    {"Polybench_HEAT_3D", heat_3d},
    {"Polybench_JACOBI_1D", jacobi_1d},
    {"Polybench_JACOBI_2D", jacobi_2d},
    {"Polybench_MVT", mvt},
    {"Single_GEMM", square_product},
    {"Single_NBODY", attracted},
    {"Single_PAIRS", pushed},
    {"Single_STENCIL", smoothed},
    {"Stream_ADD", added},
    {"Stream_COPY", copied},
    {"Stream_DOT", dot},
    {"Stream_MUL", scaled},
    {"Stream_TRIAD", triad},
};

bool reference_run(const char *name, struct work *work)
{
    for (size_t k = 0; k < sizeof references / sizeof *references; k++)
        if (!strcmp(references[k].name, name)) {
            references[k].run(work);
            return true;
        }
    return false;
}
