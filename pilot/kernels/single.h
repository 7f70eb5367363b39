/* What the single-precision kernels and their references share. */
#ifndef BERTH_SINGLE_H
#define BERTH_SINGLE_H

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

#endif
