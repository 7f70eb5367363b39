/* Self check: what must hold after one repetition, kernel by kernel. */
#ifndef BERTH_CHECK_H
#define BERTH_CHECK_H

#include <math.h>

#include "kernels.h"

struct check {
    const char *name;
    bool (*holds)(const struct work *before, const struct work *after);
    double fraction; /* to run with; 0: whole */
};

extern const struct check vector_checks[]; /* ended by a NULL name */
extern const struct check grid_checks[];
extern const struct check program_checks[];

static inline bool near(double got, double wanted)
{
    return fabs(got - wanted) <= 1e-9 * fabs(wanted) + 1e-12;
}

/* Fails the check that it stands in unless got is near wanted for every i. */
#define EVERY(i, begin, end, got, wanted)                                                          \
    for (int64_t i = (begin); i < (end); i++)                                                      \
    if (!near((got), (wanted)))                                                                    \
    return false

#endif
