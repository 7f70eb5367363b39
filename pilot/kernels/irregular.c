/* Irregular work: a pointer chase, a breadth-first search, a sparse matrix, look-ups in a sorted
 * table, and the loop of an interpreter.
 */
#include <string.h>

#include "kernels.h"

enum { CHASE_SHARE = 4, GRAPH_DEGREE = 8, SPARSE_ROW = 16, LOOKUP_SHARE = 8 };
enum { PROGRAM_LENGTH = 61, REGISTERS = 16 };

static inline unsigned lookup_key(int64_t i, int64_t n)
{
    return (unsigned)(mix((uint64_t)i + 7) % ((uint64_t)n * 8));
}

/* --- pointer chase ------------------------------------------------------------------------------*/

static void chase_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 4, 0);
    p->iterations = n / CHASE_SHARE;
    p->bytes = 4 * p->iterations;
    plan_ints(p, n, FILL_ZERO);
}

/* One cycle through all elements: Sattolo, Information Processing Letters 22, 1986. */
static void link_cycle(struct work *w)
{
    int *next = w->array[0];
    for (int64_t i = 0; i < w->plan.n; i++)
        next[i] = (int)i;
    for (int64_t i = w->plan.n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(mix((uint64_t)i) % (uint64_t)i);
        const int other = next[i];
        next[i] = next[j];
        next[j] = other;
    }
}

static void chase(struct work *w)
{
    const int *next = w->array[0];
    int at = 0;
    for (int64_t step = 0; step < w->plan.n / CHASE_SHARE; step++)
        at = next[at];
    w->result[0] = at;
}

/* --- breadth-first search -----------------------------------------------------------------------*/

static void search_plan(struct plan *p, int64_t target)
{
    const int64_t vertices = target / GRAPH_DEGREE;
    plan_loop(p, vertices, 8 * GRAPH_DEGREE + 12, 0);
    p->iterations = vertices * GRAPH_DEGREE;
    plan_ints(p, vertices * GRAPH_DEGREE, FILL_ZERO);
    plan_int_output(p, vertices, FILL_ZERO); /* level; -1: not reached */
    plan_ints(p, vertices, FILL_ZERO);       /* the queue */
}

static void link_graph(struct work *w)
{
    int *edges = w->array[0];
    for (int64_t i = 0; i < w->plan.n * GRAPH_DEGREE; i++)
        edges[i] = (int)(mix((uint64_t)i) % (uint64_t)w->plan.n);
}

static void breadth_first(struct work *w)
{
    const int *edges = w->array[0];
    int *level = w->array[1], *queue = w->array[2];
    int64_t first = 0, end = 1;
    memset(level, 0xff, (size_t)w->plan.n * sizeof *level);
    queue[0] = 0;
    level[0] = 0;
    for (; first < end; first++) {
        const int vertex = queue[first];
        for (int64_t k = 0; k < GRAPH_DEGREE; k++) {
            const int other = edges[(int64_t)vertex * GRAPH_DEGREE + k];
            if (level[other] < 0) {
                level[other] = level[vertex] + 1;
                queue[end++] = other;
            }
        }
    }
}

/* --- sparse matrix times vector -----------------------------------------------------------------*/

static void sparse_plan(struct plan *p, int64_t target)
{
    const int64_t rows = target / SPARSE_ROW;
    plan_loop(p, rows, 12 * SPARSE_ROW + 16, 2 * SPARSE_ROW);
    p->iterations = rows * SPARSE_ROW;
    plan_arrays(p, rows * SPARSE_ROW, "r");
    plan_ints(p, rows * SPARSE_ROW, FILL_ZERO);
    plan_arrays(p, rows, "sZ");
}

static void place_entries(struct work *w)
{
    int *columns = w->array[1];
    for (int64_t i = 0; i < w->plan.n * SPARSE_ROW; i++)
        columns[i] = (int)(mix((uint64_t)i) % (uint64_t)w->plan.n);
}

static void sparse(struct work *w)
{
    const int64_t n = w->plan.n;
    const double *values = w->array[0], *x = w->array[2];
    const int *columns = w->array[1];
    double *y = w->array[3];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t k = i * SPARSE_ROW; k < (i + 1) * SPARSE_ROW; k++)
            sum += values[k] * x[columns[k]];
        y[i] = sum;
    }
}

/* --- look-ups in a sorted table -----------------------------------------------------------------*/

static void lookup_plan(struct plan *p, int64_t target)
{
    const int64_t n = target / LOOKUP_SHARE;
    plan_loop(p, n, 4 * 18, 0);
    plan_ints(p, n, FILL_ZERO);
    plan_int_output(p, n, FILL_ZERO);
}

static void write_table(struct work *w)
{
    unsigned *table = w->array[0];
    for (int64_t i = 0; i < w->plan.n; i++)
        table[i] = (unsigned)i * 8 + (unsigned)(mix((uint64_t)i) & 7);
}

static void lookup(struct work *w)
{
    const int64_t n = w->plan.n;
    const unsigned *table = w->array[0];
    int *found = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        const unsigned sought = lookup_key(i, n);
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (table[middle] < sought)
                low = middle + 1;
            else
                high = middle;
        }
        found[i] = (int)low;
    }
}

/* --- an interpreter -----------------------------------------------------------------------------*/

static void interpret_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    plan_ints(p, PROGRAM_LENGTH, FILL_ZERO);
    plan_int_output(p, REGISTERS, FILL_ZERO);
}

static void write_program(struct work *w)
{
    int *program = w->array[0];
    for (int64_t i = 0; i < PROGRAM_LENGTH; i++)
        program[i] = (int)(mix((uint64_t)i) & 0x7fffffff);
}

static void interpret(struct work *w)
{
    const int *program = w->array[0];
    unsigned *registers = w->array[1];
    int64_t at = 0;
    for (int k = 0; k < REGISTERS; k++)
        registers[k] = (unsigned)k + 1;
    for (int64_t step = 0; step < w->plan.n; step++) {
        const unsigned word = (unsigned)program[at];
        unsigned *to = &registers[word >> 8 & (REGISTERS - 1)];
        const unsigned from = registers[word >> 16 & (REGISTERS - 1)];
        at = (at + 1) % PROGRAM_LENGTH;
        switch (word & 7) {
        case 0: *to += from; break;
        case 1: *to -= from; break;
        case 2: *to *= from | 1; break;
        case 3: *to ^= from; break;
        case 4: *to = *to << 5 | *to >> 27; break;
        case 5: *to = from / ((*to & 15) + 1); break;
        case 6: *to = word >> 20; break;
        default:
            if (from & 1)
                at = (at + 3) % PROGRAM_LENGTH;
        }
    }
}

static const struct kernel kernels[] = {
    {"Irregular_BREADTH_FIRST", search_plan, link_graph, breadth_first},
    {"Irregular_CHASE", chase_plan, link_cycle, chase},
    {"Irregular_INTERPRETER", interpret_plan, write_program, interpret},
    {"Irregular_LOOKUP", lookup_plan, write_table, lookup},
    {"Irregular_SPARSE", sparse_plan, place_entries, sparse},
};

KERNEL_GROUP(irregular_group, "Irregular", kernels);
