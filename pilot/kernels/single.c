/* Single precision, as molecular dynamics and signal processing use it: a matrix product, a
 * stencil, gravity of all on all, and pair forces from neighbour lists summed in double.
 */
#include <math.h>

#include "kernels.h"

#define NBODY_SOFTENING 1e-3f
#define PAIR_CUTOFF 0.25f /* squared distance: about half of the neighbours are within */
#define PAIR_CORE 1e-2f
enum { PAIR_NEIGHBOURS = 32, PAIR_WINDOW = 512 };

/* Within [0, 1). */
static inline float random_single(uint64_t seed)
{
    return (float)(mix(seed) >> 40) * 0x1p-24f;
}

static inline float stencil_at(const float *from, int64_t n, int64_t i, int64_t j)
{
    const float *at = from + i * n + j;
    return 0.2f * (at[0] + at[-1] + at[1] + at[-n] + at[n]);
}

/* Of a Lennard-Jones potential, over the distance, at a squared distance. */
static inline float pair_force(float square)
{
    const float inverse = 0.01f / square, sixth = inverse * inverse * inverse;
    return sixth * (sixth - 0.5f) * inverse;
}

/* --- matrix product -----------------------------------------------------------------------------*/

static void gemm_plan(struct plan *p, int64_t target)
{
    const int64_t side = 2 * cube_root(target);
    plan_loop(p, side, 12 * side, 2 * side * side);
    p->iterations = side * side;
    plan_singles(p, side * side);
    plan_singles(p, side * side);
    plan_single_output(p, side * side);
}

static void gemm(struct work *w)
{
    const int64_t n = w->plan.n;
    const float *a = w->array[0], *b = w->array[1];
    float *c = w->array[2];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

/* --- stencil ------------------------------------------------------------------------------------*/

static void stencil_plan(struct plan *p, int64_t target)
{
    const int64_t side = square_root(target);
    plan_loop(p, side, 8 * side, 6 * side);
    p->iterations = (side - 2) * (side - 2);
    plan_singles(p, side * side);
    plan_single_output(p, side * side);
}

static void stencil(struct work *w)
{
    const int64_t n = w->plan.n;
    const float *from = w->array[0];
    float *to = w->array[1];
    OMP(parallel for)
    for (int64_t i = 1; i < n - 1; i++)
        for (int64_t j = 1; j < n - 1; j++)
            to[i * n + j] = stencil_at(from, n, i, j);
}

/* --- gravity ------------------------------------------------------------------------------------*/

static void nbody_plan(struct plan *p, int64_t target)
{
    const int64_t bodies = square_root(target);
    plan_loop(p, bodies, 16 * bodies, 20 * bodies);
    p->iterations = bodies * bodies;
    for (int k = 0; k < 3; k++)
        plan_singles(p, bodies);
    for (int k = 0; k < 3; k++)
        plan_single_output(p, bodies);
}

static void scatter(struct work *w)
{
    for (int k = 0; k < 3; k++) {
        float *place = w->array[k];
        for (int64_t i = 0; i < w->plan.n; i++)
            place[i] = random_single((uint64_t)i * 3 + (uint64_t)k);
    }
}

static void nbody(struct work *w)
{
    const int64_t n = w->plan.n;
    const float *x = w->array[0], *y = w->array[1], *z = w->array[2];
    float *ax = w->array[3], *ay = w->array[4], *az = w->array[5];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        for (int64_t j = 0; j < n; j++) {
            const float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            const float near = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + NBODY_SOFTENING);
            const float pull = near * near * near;
            sx += dx * pull;
            sy += dy * pull;
            sz += dz * pull;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}

/* --- pair forces --------------------------------------------------------------------------------*/

static void pairs_plan(struct plan *p, int64_t target)
{
    const int64_t atoms = target / PAIR_NEIGHBOURS + 1;
    plan_loop(p, atoms, 16 * PAIR_NEIGHBOURS + 24, 12 * PAIR_NEIGHBOURS);
    p->iterations = atoms * PAIR_NEIGHBOURS;
    for (int k = 0; k < 3; k++)
        plan_singles(p, atoms);
    plan_ints(p, atoms * PAIR_NEIGHBOURS, FILL_ZERO);
    plan_arrays(p, atoms, "ZZZ");
}

/* Neighbours are near in the arrays, too: codes sort their atoms by place. */
static void list_neighbours(struct work *w)
{
    int *neighbours = w->array[3];
    scatter(w);
    for (int64_t i = 0; i < w->plan.n * PAIR_NEIGHBOURS; i++) {
        const int64_t far = (int64_t)(mix((uint64_t)i) % (2 * PAIR_WINDOW)) - PAIR_WINDOW;
        const int64_t other = (i / PAIR_NEIGHBOURS + far) % w->plan.n;
        neighbours[i] = (int)(other < 0 ? other + w->plan.n : other);
    }
}

static void pairs(struct work *w)
{
    const int64_t n = w->plan.n;
    const float *x = w->array[0], *y = w->array[1], *z = w->array[2];
    const int *neighbours = w->array[3];
    double *fx = w->array[4], *fy = w->array[5], *fz = w->array[6];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double sx = 0.0, sy = 0.0, sz = 0.0;
        for (int64_t k = 0; k < PAIR_NEIGHBOURS; k++) {
            const int j = neighbours[i * PAIR_NEIGHBOURS + k];
            const float dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
            const float square = dx * dx + dy * dy + dz * dz;
            if (square < PAIR_CUTOFF && square > PAIR_CORE) {
                const float force = pair_force(square);
                sx += (double)(force * dx);
                sy += (double)(force * dy);
                sz += (double)(force * dz);
            }
        }
        fx[i] = sx;
        fy[i] = sy;
        fz[i] = sz;
    }
}

static const struct kernel kernels[] = {
    {"Single_GEMM", gemm_plan, NULL, gemm},
    {"Single_NBODY", nbody_plan, scatter, nbody},
    {"Single_PAIRS", pairs_plan, list_neighbours, pairs},
    {"Single_STENCIL", stencil_plan, NULL, stencil},
};

KERNEL_GROUP(single_group, "Single", kernels);
