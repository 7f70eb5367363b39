/* References of the kernels for files, integers, single precision and irregular work. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "file.h"
#include "integer.h"
#include "irregular.h"
#include "message.h"
#include "single.h"

/* As near as single precision is after a few hundred sums, in units of the largest term. */
static bool nearly(double got, double wanted, double largest)
{
    return fabs(got - wanted) <= 1e-4 * (fabs(wanted) + largest);
}

static bool hashed(const struct work *before, const struct work *after)
{
    const unsigned *keys = before->array[0], *hashes = after->array[1];
    for (int64_t i = before->plan.n - 1; i >= 0; i--) {
        unsigned h = keys[i];
        for (int round = HASH_ROUNDS; round > 0; round--)
            h = hash_round(h);
        if (hashes[i] != h)
            return false;
    }
    return true;
}

static int by_value(const void *one, const void *other)
{
    const unsigned a = *(const unsigned *)one, b = *(const unsigned *)other;
    return (a > b) - (a < b);
}

static bool sorted(const struct work *before, const struct work *after)
{
    const size_t n = (size_t)before->plan.n;
    unsigned *wanted = malloc(n * sizeof *wanted);
    if (!wanted)
        return false;
    memcpy(wanted, before->array[0], n * sizeof *wanted);
    qsort(wanted, n, sizeof *wanted, by_value);
    const bool same = !memcmp(wanted, after->array[1], n * sizeof *wanted);
    free(wanted);
    return same;
}

/* Tokens follow each other without a gap, and a longer one is a copy of what came before it. */
static bool matched(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const unsigned char *text = before->array[0];
    const int *lengths = after->array[1];
    int64_t at = 0, long_ones = 0;
    while (at + MATCH_LEAST <= n) {
        const int length = lengths[at];
        bool copied = length == 1;
        for (int64_t from = 0; from < at && !copied; from++)
            copied = !memcmp(text + from, text + at, (size_t)length);
        if (length < 1 || length > MATCH_MOST || !copied)
            return false;
        for (int k = 1; k < length; k++)
            if (at + k < n && lengths[at + k])
                return false;
        long_ones += length > 1;
        at += length;
    }
    return long_ones > n / 40;
}

static bool sought(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const unsigned char *text = before->array[0];
    int64_t found = 0;
    for (int64_t word = 0; word < SEARCH_WORDS; word++)
        for (int64_t i = 0; i + SEARCH_LENGTH <= n; i++)
            found += !memcmp(text + i, text + search_word(word, n), SEARCH_LENGTH);
    return found >= SEARCH_WORDS && near(after->result[0], (double)found);
}

static bool counted(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const unsigned char *text = before->array[0];
    const int *counts = after->array[1], *pairs = after->array[2];
    for (int first = 0; first < 256; first++) {
        int64_t count = 0, followed = 0;
        for (int64_t i = 0; i < n; i++)
            count += text[i] == first;
        for (int second = 0; second < 256; second++)
            followed += pairs[first * 256 + second];
        if (counts[first] != count || followed != count - (text[n - 1] == first))
            return false;
    }
    return true;
}

static int at_least_zero(int value)
{
    return value < 0 ? 0 : value;
}

/* The whole matrix, each cell from all gaps that end in it. */
static bool aligned(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n < 48 ? before->plan.n : 48, side = n + 1;
    const int *rows = before->array[0], *columns = rows + before->plan.n;
    int *cell = calloc((size_t)(side * side), sizeof *cell), best = 0;
    if (!cell)
        return false;
    for (int64_t i = 1; i <= n; i++)
        for (int64_t j = 1; j <= n; j++) {
            const bool same = rows[i - 1] == columns[j - 1];
            const int step = same ? ALIGN_MATCH : -ALIGN_MISMATCH;
            int here = at_least_zero(cell[(i - 1) * side + j - 1] + step);
            for (int64_t k = 1; k <= i; k++)
                here = larger(here, cell[(i - k) * side + j] - ALIGN_OPEN -
                                        (int)(k - 1) * ALIGN_EXTEND);
            for (int64_t k = 1; k <= j; k++)
                here = larger(here, cell[i * side + j - k] - ALIGN_OPEN -
                                        (int)(k - 1) * ALIGN_EXTEND);
            cell[i * side + j] = here;
            best = larger(best, here);
        }
    bool holds = after->result[0] >= best;
    if (n == before->plan.n) {
        const int *score = after->array[1];
        holds = near(after->result[0], best);
        for (int64_t j = 0; j <= n && holds; j++)
            holds = score[j] == cell[n * side + j];
    }
    free(cell);
    return holds;
}

static bool multiplied(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const float *a = before->array[0], *b = before->array[1], *c = after->array[2];
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            double sum = 0.0;
            for (int64_t k = n - 1; k >= 0; k--)
                sum += (double)a[i * n + k] * (double)b[k * n + j];
            if (!nearly((double)c[i * n + j], sum, 0.0))
                return false;
        }
    return true;
}

static bool smoothed(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const float *from = before->array[0], *to = after->array[1];
    for (int64_t j = 1; j < n - 1; j++)
        for (int64_t i = 1; i < n - 1; i++) {
            const double sum = (double)from[i * n + j] + (double)from[i * n + j - 1] +
                               (double)from[i * n + j + 1] + (double)from[(i - 1) * n + j] +
                               (double)from[(i + 1) * n + j];
            if (!nearly((double)to[i * n + j], 0.2 * sum, 0.0))
                return false;
        }
    return true;
}

static bool attracted(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const float *place[3] = {before->array[0], before->array[1], before->array[2]};
    for (int64_t i = 0; i < n; i++) {
        double pull[3] = {0.0, 0.0, 0.0}, largest = 0.0;
        for (int64_t j = n - 1; j >= 0; j--) {
            double apart[3], square = (double)NBODY_SOFTENING;
            for (int k = 0; k < 3; k++) {
                apart[k] = (double)place[k][j] - (double)place[k][i];
                square += apart[k] * apart[k];
            }
            for (int k = 0; k < 3; k++)
                pull[k] += apart[k] / (square * sqrt(square));
            largest += 1.0 / square;
        }
        for (int k = 0; k < 3; k++)
            if (!nearly((double)((const float *)after->array[3 + k])[i], pull[k], largest))
                return false;
    }
    return true;
}

static bool pushed(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const float *place[3] = {before->array[0], before->array[1], before->array[2]};
    const int *neighbours = before->array[3];
    for (int64_t i = 0; i < n; i++) {
        double force[3] = {0.0, 0.0, 0.0}, largest = 0.0;
        for (int64_t k = PAIR_NEIGHBOURS - 1; k >= 0; k--) {
            const int j = neighbours[i * PAIR_NEIGHBOURS + k];
            float square = 0.0f, apart[3];
            for (int d = 0; d < 3; d++) {
                apart[d] = place[d][i] - place[d][j];
                square += apart[d] * apart[d];
            }
            const double strength = (double)pair_force(square < PAIR_CORE ? PAIR_CORE : square);
            largest += 1e-2 * fabs(strength); /* at the cutoff, rounding decides */
            if (square < PAIR_CUTOFF && square > PAIR_CORE)
                for (int d = 0; d < 3; d++)
                    force[d] += strength * (double)apart[d];
        }
        for (int d = 0; d < 3; d++)
            if (!nearly(((const double *)after->array[4 + d])[i], force[d], 100.0 * largest))
                return false;
    }
    return true;
}

/* The cycle reaches every element, so the step that is reported is where the chase ended. */
static bool chased(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const int *next = before->array[0];
    int64_t length = 0, end = -1;
    int at = 0;
    do {
        if (length == n / CHASE_SHARE)
            end = at;
        at = next[at];
        length++;
    } while (at && length <= n);
    return length == n && near(after->result[0], (double)end);
}

/* Levels by relaxing every edge until nothing changes (Bellman and Ford). */
static bool levelled(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const int *edges = before->array[0], *level = after->array[1];
    int *wanted = malloc((size_t)n * sizeof *wanted);
    if (!wanted)
        return false;
    memset(wanted, 0xff, (size_t)n * sizeof *wanted);
    wanted[0] = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < n * GRAPH_DEGREE; i++) {
            const int from = wanted[i / GRAPH_DEGREE], to = edges[i];
            if (from >= 0 && (wanted[to] < 0 || wanted[to] > from + 1)) {
                wanted[to] = from + 1;
                changed = true;
            }
        }
    }
    const bool same = !memcmp(wanted, level, (size_t)n * sizeof *wanted);
    free(wanted);
    return same;
}

static bool sparse_product(const struct work *before, const struct work *after)
{
    const double *values = before->array[0], *x = before->array[2], *y = after->array[3];
    const int *columns = before->array[1];
    for (int64_t i = 0; i < before->plan.n; i++) {
        double sum = 0.0, largest = 0.0;
        for (int64_t k = (i + 1) * SPARSE_ROW - 1; k >= i * SPARSE_ROW; k--) {
            sum += x[columns[k]] * values[k];
            largest += fabs(x[columns[k]] * values[k]);
        }
        if (fabs(sum - y[i]) > 1e-9 * largest)
            return false;
    }
    return true;
}

static bool looked_up(const struct work *before, const struct work *after)
{
    const int64_t n = before->plan.n;
    const unsigned *table = before->array[0];
    const int *found = after->array[1];
    for (int64_t i = 0; i < n; i++) {
        const unsigned sought_key = lookup_key(i, n);
        const int64_t at = found[i];
        if (at < 0 || at > n || (at < n && table[at] < sought_key) ||
            (at > 0 && table[at - 1] >= sought_key))
            return false;
    }
    return true;
}

/* The same program by arithmetic on its words' fields, one operation after the other. */
static bool interpreted(const struct work *before, const struct work *after)
{
    const int *program = before->array[0];
    unsigned registers[REGISTERS];
    int64_t at = 0;
    for (int k = 0; k < REGISTERS; k++)
        registers[k] = (unsigned)k + 1;
    for (int64_t step = before->plan.n; step > 0; step--) {
        const unsigned word = (unsigned)program[at];
        const unsigned to = word / 256 % REGISTERS, from = registers[word / 65536 % REGISTERS];
        const unsigned old = registers[to];
        const unsigned results[] = {
            old + from, old - from,  old * (from | 1), old ^ from, old << 5 | old >> 27,
            from / (old % 16 + 1), word / 1048576, old,
        };
        registers[to] = results[word % 8];
        at = (at + (word % 8 == 7 && from % 2 ? 4 : 1)) % PROGRAM_LENGTH;
    }
    return !memcmp(registers, after->array[1], sizeof registers);
}

static bool written(const struct work *before, const struct work *after)
{
    const char *wanted = before->array[0];
    const int64_t count = 8 * before->plan.n;
    char page[FILE_PAGE];
    for (int64_t at = 0; at < count; at += FILE_PAGE) {
        const int64_t part = count - at < FILE_PAGE ? count - at : FILE_PAGE;
        if (pread(file_in_use(), page, FILE_PAGE, at) != part ||
            memcmp(page, wanted + at, (size_t)part))
            return false;
    }
    return near(after->result[0], (double)count);
}

static bool read_back(const struct work *before, const struct work *after)
{
    return !memcmp(before->array[0], after->array[1], (size_t)(before->plan.n * FILE_PAGE));
}

static bool pages_read(const struct work *before, const struct work *after)
{
    const char *file = before->array[0], *read = after->array[1];
    const int64_t pages = before->plan.iterations;
    for (int64_t i = 0; i < pages; i++)
        if (memcmp(read + i * FILE_PAGE, file + file_page(i, pages) * FILE_PAGE, FILE_PAGE))
            return false;
    return true;
}

static bool received(const struct work *before, const struct work *after)
{
    return !memcmp(before->array[0], after->array[1], (size_t)before->plan.n * sizeof(int));
}

const struct check program_checks[] = {
    {"File_RANDOM_READ", pages_read, 0},
    {"File_SMALL", read_back, 0},
    {"File_WRITE", written, 0},
    {"Integer_ALIGN", aligned, 0},
    {"Integer_HASH", hashed, 0},
    {"Integer_MATCH", matched, 0},
    {"Integer_QUICK_SORT", sorted, 0},
    {"Integer_RADIX_SORT", sorted, 0},
    {"Integer_SEARCH", sought, 0},
    {"Integer_SYMBOLS", counted, 0},
    {"Irregular_BREADTH_FIRST", levelled, 0},
    {"Irregular_CHASE", chased, 0},
    {"Irregular_INTERPRETER", interpreted, 0},
    {"Irregular_LOOKUP", looked_up, 0},
    {"Irregular_SPARSE", sparse_product, 0},
    {"Message_EXCHANGE", received, 0},
    {"Single_GEMM", multiplied, 0},
    {"Single_NBODY", attracted, 0},
    {"Single_PAIRS", pushed, 0},
    {"Single_STENCIL", smoothed, 0},
    {NULL, NULL, 0},
};
