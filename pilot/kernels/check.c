/* berth-kernels check: every kernel at small sizes against naive references. */
#include "check.h"

#include <stdio.h>
#include <string.h>

static const int64_t sizes[] = {1000, 4096};

static const struct check *find(const char *name)
{
    const struct check *const tables[] = {vector_checks, grid_checks, program_checks};
    for (int t = 0; t < 3; t++)
        for (const struct check *check = tables[t]; check->name; check++)
            if (!strcmp(check->name, name))
                return check;
    return NULL;
}

/* What is wrong with one repetition of the kernel, or NULL. */
static const char *fault(const struct kernel *kernel, const struct check *check, int64_t size)
{
    const double fraction = check->fraction > 0 ? check->fraction : 1.0;
    struct work *before = work_new(kernel, size, fraction);
    struct work *after = work_new(kernel, size, fraction);
    struct work *again = work_new(kernel, size, fraction);
    const char *problem = NULL;
    if (!before || !after || !again) {
        problem = "no memory";
    } else {
        kernel->rep(after);
        kernel->rep(again);
        if (!work_within_bounds(after))
            problem = "wrote past the end of an array";
        else if (!near(work_checksum(again), work_checksum(after)))
            problem = "two runs give two checksums";
        else if (!check->holds(before, after))
            problem = "differs from the reference";
    }
    work_free(before);
    work_free(after);
    work_free(again);
    return problem;
}

/* --fraction must run at least one outer iteration and, at 1, all of them. */
static const char *sampling_fault(const struct kernel *kernel, int64_t size)
{
    struct work *least = work_new(kernel, size, 1e-9);
    struct work *whole = work_new(kernel, size, 1.0);
    const char *problem = NULL;
    if (!least || !whole)
        problem = "no memory";
    else if (whole->outer_run != whole->plan.outer || least->outer_run != (least->plan.outer > 0))
        problem = "samples the wrong number of iterations";
    work_free(least);
    work_free(whole);
    return problem;
}

int run_check(void)
{
    int count = 0;
    for (const struct kernel_group *const *group = kernel_groups; *group; group++) {
        for (int k = 0; k < (*group)->count; k++, count++) {
            const struct kernel *kernel = &(*group)->kernels[k];
            const struct check *check = find(kernel->name);
            const char *problem = check ? NULL : "has no reference";
            for (size_t s = 0; !problem && s < sizeof sizes / sizeof *sizes; s++) {
                problem = fault(kernel, check, sizes[s]);
                if (!problem)
                    problem = sampling_fault(kernel, sizes[s]);
            }
            if (problem) {
                fprintf(stderr, "berth-kernels: %s %s\n", kernel->name, problem);
                return 1;
            }
        }
    }
    printf("{\"checked\": %d}\n", count);
    return 0;
}
