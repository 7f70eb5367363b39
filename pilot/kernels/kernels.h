/* The reference suite: what a kernel is, and what the driver needs to know of it.
 *
 * A kernel is described by two functions. `plan` turns a target problem size into a plan: the
 * actual size, the work of one repetition and the arrays it needs. Where a kernel is also one of
 * the RAJA Performance Suite, name, size and work are defined as there, so that published
 * measurements can be joined; the groups Integer, Single, Irregular, File and Message are our own.
 * `rep` runs one repetition on a work set that the driver allocated and filled after the plan.
 */
#ifndef BERTH_KERNELS_H
#define BERTH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* OMP(parallel for) is the pragma in the OpenMP build and nothing in the serial one. */
#ifdef _OPENMP
#include <omp.h>
#define OMP_PRAGMA(text) _Pragma(#text)
#define OMP(...) OMP_PRAGMA(omp __VA_ARGS__)
#else
#define OMP(...)
#endif

enum { MAX_ARRAYS = 20, MAX_RESULTS = 6, MAX_THREADS = 1024 };

/* Problem sizes the driver accepts; the upper one keeps element indices within an int. */
#define MIN_SIZE INT64_C(64)
#define MAX_SIZE INT64_C(1073741824)

/* How the driver fills an array before the first repetition. */
enum fill {
    FILL_ZERO,
    FILL_ONE,
    FILL_RAMP,        /* smooth, within (0, 0.2): see ramp() */
    FILL_RANDOM_SIGN, /* a ramp with random signs; ints: -1 or 1 at random */
    FILL_POSITION     /* the element's own index */
};

enum element { REAL, INT32, INDEX, SINGLE };

struct array_plan {
    int64_t count;
    enum element element;
    enum fill fill;
    bool output; /* checked against the reference */
};

struct plan {
    int64_t size;       /* actual problem size */
    int64_t iterations; /* per repetition */
    int64_t bytes;      /* touched per repetition, in bytes */
    int64_t flops;      /* per repetition */
    int64_t launches;   /* parallel loops ("kernels") per repetition */
    int64_t outer;      /* iterations that --fraction samples; 0: always run whole */
    int64_t n;          /* the kernel's own extents */
    int64_t m;
    int array_count;
    struct array_plan arrays[MAX_ARRAYS];
};

struct work {
    struct plan plan;
    int64_t outer_run; /* how many of plan.outer iterations a repetition executes */
    void *array[MAX_ARRAYS];
    double result[MAX_RESULTS]; /* what reductions leave */
};

struct kernel {
    const char *name;
    void (*plan)(struct plan *plan, int64_t target);
    void (*prepare)(struct work *work); /* contents the fills cannot express; may be NULL */
    void (*rep)(struct work *work);
};

struct kernel_group {
    const char *name;
    const struct kernel *kernels;
    int count;
};

extern const struct kernel_group algorithm_group;
extern const struct kernel_group apps_group;
extern const struct kernel_group apps_halo_group;
extern const struct kernel_group apps_mesh_group;
extern const struct kernel_group basic_group;
extern const struct kernel_group basic_reduce_group;
extern const struct kernel_group integer_group;
extern const struct kernel_group file_group;
extern const struct kernel_group irregular_group;
extern const struct kernel_group lcals_group;
extern const struct kernel_group message_group;
extern const struct kernel_group polybench_group;
extern const struct kernel_group polybench_stencil_group;
extern const struct kernel_group single_group;
extern const struct kernel_group stream_group;

#define KERNEL_GROUP(group, group_name, table)                                                     \
    const struct kernel_group group = {group_name, table, (int)(sizeof(table) / sizeof *(table))}

/* Every group, ended by NULL. */
extern const struct kernel_group *const kernel_groups[];

/* A plan of one loop over n elements that each touch `bytes` and do `flops`. */
void plan_loop(struct plan *plan, int64_t n, int64_t bytes, int64_t flops);

/* Add arrays to the plan; arrays are numbered in the order they are added.
 *
 * plan_arrays adds one array of reals for each letter, which says how it is filled: z zero, o one,
 * r ramp, s ramp with random signs, p position; in capitals if it is an output. */
void plan_arrays(struct plan *plan, int64_t count, const char *letters);
void plan_ints(struct plan *plan, int64_t count, enum fill fill);
void plan_indices(struct plan *plan, int64_t count);
void plan_int_output(struct plan *plan, int64_t count, enum fill fill);
void plan_singles(struct plan *plan, int64_t count); /* the ramp in single precision */
void plan_single_output(struct plan *plan, int64_t count); /* from zeros */

/* The ramp's element i in the array (or scalar) that was set up as number `order`. */
static inline double ramp(int order, int64_t i)
{
    const double factor = order % 2 ? 0.1 : 0.2;
    return factor * ((double)i + 1.1) / ((double)i + 1.12345);
}

/* Integer roots, rounded down: exact where floating-point ones may miss a perfect power. */
int64_t square_root(int64_t value);
int64_t cube_root(int64_t value);

/* A well mixed 64-bit hash of an index: random contents that do not depend on who fills them. */
static inline uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* work.c: the life of a work set. NULL when memory is short. */
int64_t plan_memory(const struct plan *plan);
struct work *work_new(const struct kernel *kernel, int64_t target, double fraction);
void work_free(struct work *work);
bool work_within_bounds(const struct work *work); /* no array was written past its end */

double now_s(void);

/* Processor time of this process so far. */
double computed_s(void);

/* references.c: leaves in the work set, all of whose reals are doubles, what one repetition of the kernel
 * should leave there. False: there is no reference of that kernel. */
bool reference_run(const char *name, struct work *work);

/* check.c: the value with a small relative error at random, when the check asks how errors grow; else
 * the value. References disturb what they compute with large terms that cancel. */
double disturbed(double value);

/* Subcommands outside main.c; each returns the exit status. */
int run_check(void);
int run_bench(const char *what, int threads, double seconds, int64_t ceiling);

#endif
