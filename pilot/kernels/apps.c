/* Application kernels over plain vectors: equation of state, filter, transport. */
#include <math.h>

#include "kernels.h"

static void energy_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8 * (6 + 2 + 7 + 3 + 8 + 1), 6 + 11 + 8 + 2 + 19 + 9);
    p->iterations = 6 * n;
    p->launches = 6;
    plan_arrays(p, n, "ZrrrrZrrrrrrrrr");
}

static inline double sound_speed(double square)
{
    return square <= 0.1111111e-36 ? 0.3333333e-18 : sqrt(square);
}

/* Energy and artificial viscosity of a hydrodynamics step, in six loops. */
static void energy(struct work *w)
{
    const int64_t n = w->plan.n;
    double *e_new = w->array[0];
    const double *e_old = w->array[1], *delvc = w->array[2];
    const double *p_new = w->array[3], *p_old = w->array[4];
    double *q_new = w->array[5];
    const double *q_old = w->array[6], *work = w->array[7], *comp_half = w->array[8];
    const double *p_half = w->array[9], *bvc = w->array[10], *pbvc = w->array[11];
    const double *ql_old = w->array[12], *qq_old = w->array[13], *vnewc = w->array[14];
    const double rho0 = ramp(15, 0), e_cut = ramp(16, 0), emin = ramp(17, 0), q_cut = ramp(18, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        e_new[i] = e_old[i] - 0.5 * delvc[i] * (p_old[i] + q_old[i]) + 0.5 * work[i];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        if (delvc[i] > 0.0) {
            q_new[i] = 0.0;
        } else {
            const double vhalf = 1.0 / (1.0 + comp_half[i]);
            const double speed = sound_speed(
                (pbvc[i] * e_new[i] + vhalf * vhalf * bvc[i] * p_half[i]) / rho0);
            q_new[i] = speed * ql_old[i] + qq_old[i];
        }
    }
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        e_new[i] = e_new[i] + 0.5 * delvc[i] * (3.0 * (p_old[i] + q_old[i]) -
                                                4.0 * (p_half[i] + q_new[i]));
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        e_new[i] += 0.5 * work[i];
        if (fabs(e_new[i]) < e_cut)
            e_new[i] = 0.0;
        if (e_new[i] < emin)
            e_new[i] = emin;
    }
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double q_tilde;
        if (delvc[i] > 0.0) {
            q_tilde = 0.0;
        } else {
            const double speed = sound_speed(
                (pbvc[i] * e_new[i] + vnewc[i] * vnewc[i] * bvc[i] * p_new[i]) / rho0);
            q_tilde = speed * ql_old[i] + qq_old[i];
        }
        e_new[i] = e_new[i] - (7.0 * (p_old[i] + q_old[i]) - 8.0 * (p_half[i] + q_new[i]) +
                               (p_new[i] + q_tilde)) *
                                  delvc[i] / 6.0;
        if (fabs(e_new[i]) < e_cut)
            e_new[i] = 0.0;
        if (e_new[i] < emin)
            e_new[i] = emin;
    }
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        if (delvc[i] <= 0.0) {
            const double speed = sound_speed(
                (pbvc[i] * e_new[i] + vnewc[i] * vnewc[i] * bvc[i] * p_new[i]) / rho0);
            q_new[i] = speed * ql_old[i] + qq_old[i];
            if (fabs(q_new[i]) < q_cut)
                q_new[i] = 0.0;
        }
    }
}

enum { TAPS = 16 };

static void fir_plan(struct plan *p, int64_t n)
{
    p->n = n;
    p->size = n;
    p->iterations = n - TAPS;
    p->launches = 1;
    p->bytes = 8 * (n - TAPS) + 8 * n;
    p->flops = 2 * TAPS * (n - TAPS);
    plan_arrays(p, n, "rZ");
}

/* A finite impulse response filter of 16 taps. */
static void fir(struct work *w)
{
    static const double taps[TAPS] = {3, -1, -1, -1, -1, 3, -1, -1, -1, -1, 3, -1, -1, -1, -1, 3};
    const int64_t n = w->plan.n;
    const double *in = w->array[0];
    double *out = w->array[1];
    double coefficient[TAPS];
    for (int j = 0; j < TAPS; j++)
        coefficient[j] = taps[j];
    OMP(parallel for)
    for (int64_t i = 0; i < n - TAPS; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < TAPS; j++)
            sum += coefficient[j] * in[i + j];
        out[i] = sum;
    }
}

enum { DIRECTIONS = 64, GROUPS = 32, MOMENTS = 25 };

static void ltimes_plan(struct plan *p, int64_t target)
{
    const int64_t wanted = target / (DIRECTIONS * GROUPS);
    const int64_t zones = wanted > 1 ? wanted : 1;
    const int64_t phi = MOMENTS * GROUPS * zones, psi = DIRECTIONS * GROUPS * zones;
    plan_loop(p, psi, 0, 0);
    p->n = zones;
    p->bytes = 16 * phi + 8 * DIRECTIONS * MOMENTS + 8 * psi;
    p->flops = 2 * zones * GROUPS * MOMENTS * DIRECTIONS;
    plan_arrays(p, phi, "Z");
    plan_arrays(p, DIRECTIONS * MOMENTS, "r");
    plan_arrays(p, psi, "r");
}

/* Moments of the angular flux (Kripke's L-times). With and without index views the suite's
 * sequential loops are the same; both names exist so that both can be joined. */
static void ltimes(struct work *w)
{
    const int64_t zones = w->plan.n, groups = GROUPS, moments = MOMENTS, directions = DIRECTIONS;
    double *phi = w->array[0];
    const double *ell = w->array[1], *psi = w->array[2];
    OMP(parallel for)
    for (int64_t z = 0; z < zones; z++)
        for (int64_t g = 0; g < groups; g++)
            for (int64_t m = 0; m < moments; m++)
                for (int64_t d = 0; d < directions; d++)
                    phi[m + g * moments + z * moments * groups] +=
                        ell[d + m * directions] * psi[d + g * directions + z * directions * groups];
}

static void pressure_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 40, 3);
    p->iterations = 2 * n;
    p->launches = 2;
    plan_arrays(p, n, "rRZrr");
}

static void pressure(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *compression = w->array[0];
    double *bvc = w->array[1], *p_new = w->array[2];
    const double *e_old = w->array[3], *vnewc = w->array[4];
    const double cls = ramp(5, 0), p_cut = ramp(6, 0), pmin = ramp(7, 0), eosvmax = ramp(8, 0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++)
        bvc[i] = cls * (compression[i] + 1.0);
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        p_new[i] = bvc[i] * e_old[i];
        if (fabs(p_new[i]) < p_cut)
            p_new[i] = 0.0;
        if (vnewc[i] >= eosvmax)
            p_new[i] = 0.0;
        if (p_new[i] < pmin)
            p_new[i] = pmin;
    }
}

static const struct kernel kernels[] = {
    {"Apps_ENERGY", energy_plan, NULL, energy},
    {"Apps_FIR", fir_plan, NULL, fir},
    {"Apps_LTIMES", ltimes_plan, NULL, ltimes},
    {"Apps_LTIMES_NOVIEW", ltimes_plan, NULL, ltimes},
    {"Apps_PRESSURE", pressure_plan, NULL, pressure},
};

KERNEL_GROUP(apps_group, "Apps", kernels);
