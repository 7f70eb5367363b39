/* Integer work as compressors, sorters, databases and aligners do it: hashing, radix and quick
 * sort, matches in a text, search for words, symbol counts and an alignment matrix.
 */
#include <string.h>

#include "kernels.h"

enum { HASH_ROUNDS = 8 };
enum { MATCH_LEAST = 4, MATCH_MOST = 258, MATCH_DEPTH = 8, MATCH_HEADS = 32768 };
enum { SEARCH_WORDS = 8, SEARCH_LENGTH = 9 };
enum { ALIGN_MATCH = 2, ALIGN_MISMATCH = 4, ALIGN_OPEN = 5, ALIGN_EXTEND = 1 };

static inline unsigned hash_round(unsigned h)
{
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static inline unsigned match_hash(const unsigned char *text)
{
    const unsigned four = text[0] | (unsigned)text[1] << 8 | (unsigned)text[2] << 16 |
                          (unsigned)text[3] << 24;
    return four * 2654435761u >> 17; /* below MATCH_HEADS */
}

/* Where in a text of n bytes the word number `word` is taken from. */
static inline int64_t search_word(int64_t word, int64_t n)
{
    return (word + 1) * (n - SEARCH_LENGTH) / (SEARCH_WORDS + 1);
}

static inline int larger(int a, int b)
{
    return a > b ? a : b;
}

static void randomise(struct work *w)
{
    unsigned *keys = w->array[0];
    for (int64_t i = 0; i < w->plan.n; i++)
        keys[i] = (unsigned)mix((uint64_t)i);
}

/* --- a hash of every key ----------------------------------------------------------------------*/

static void hash_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    plan_ints(p, n, FILL_ZERO);
    plan_int_output(p, n, FILL_ZERO);
}

static void hash(struct work *w)
{
    const int64_t n = w->plan.n;
    const unsigned *keys = w->array[0];
    unsigned *hashes = w->array[1];
    OMP(parallel for)
    for (int64_t i = 0; i < n; i++) {
        unsigned h = keys[i];
        for (int round = 0; round < HASH_ROUNDS; round++)
            h = hash_round(h);
        hashes[i] = h;
    }
}

/* --- sorting ------------------------------------------------------------------------------------*/

static void radix_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 4 * (4 + 8) + 8, 0);
    plan_ints(p, n, FILL_ZERO);
    plan_int_output(p, n, FILL_ZERO);
    plan_ints(p, n, FILL_ZERO);
}

static void radix_pass(const unsigned *from, unsigned *to, int64_t n, int shift)
{
    int64_t start[256] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++)
        start[from[i] >> shift & 255]++;
    for (int digit = 0; digit < 256; digit++) {
        const int64_t count = start[digit];
        start[digit] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[start[from[i] >> shift & 255]++] = from[i];
}

static void radix_sort(struct work *w)
{
    const int64_t n = w->plan.n;
    unsigned *sorted = w->array[1], *other = w->array[2];
    radix_pass(w->array[0], other, n, 0);
    radix_pass(other, sorted, n, 8);
    radix_pass(sorted, other, n, 16);
    radix_pass(other, sorted, n, 24);
}

static void quick_plan(struct plan *p, int64_t target)
{
    const int64_t n = target / 4;
    plan_loop(p, n, 4 * 40, 0);
    plan_ints(p, n, FILL_ZERO);
    plan_int_output(p, n, FILL_ZERO);
}

static void insert_sorted(unsigned *keys, int64_t low, int64_t high)
{
    for (int64_t i = low + 1; i <= high; i++) {
        const unsigned key = keys[i];
        int64_t at = i;
        for (; at > low && keys[at - 1] > key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

static void quick_range(unsigned *keys, int64_t low, int64_t high)
{
    while (high - low > 12) {
        const unsigned pivot = keys[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (keys[i] < pivot)
                i++;
            while (keys[j] > pivot)
                j--;
            if (i <= j) {
                const unsigned other = keys[i];
                keys[i++] = keys[j];
                keys[j--] = other;
            }
        }
        if (j - low < high - i) { /* the shorter part first: the depth stays logarithmic */
            quick_range(keys, low, j);
            low = i;
        } else {
            quick_range(keys, i, high);
            high = j;
        }
    }
    insert_sorted(keys, low, high);
}

static void quick_sort(struct work *w)
{
    unsigned *sorted = w->array[1];
    memcpy(sorted, w->array[0], (size_t)w->plan.n * sizeof *sorted);
    quick_range(sorted, 0, w->plan.n - 1);
}

/* --- a text: matches of a compressor, words that are sought, symbols that are counted -----------*/

/* n bytes of text in n / 4 integers. */
static void text_plan(struct plan *p, int64_t n, int64_t bytes)
{
    plan_loop(p, n & ~INT64_C(3), bytes, 0);
    plan_ints(p, p->n / 4, FILL_ZERO);
}

/* Words of a small vocabulary, the frequent ones far more often, as in logs and sources. */
static void write_text(struct work *w)
{
    unsigned char *text = w->array[0];
    uint64_t state = 1;
    for (int64_t i = 0; i < w->plan.n;) {
        state = mix(state);
        uint64_t word = state & 15 ? state >> 8 & 63 : state >> 8 & 4095;
        const int64_t length = 3 + (int64_t)(mix(word) & 7);
        for (int64_t k = 0; k < length && i < w->plan.n; k++)
            text[i++] = (unsigned char)('a' + mix(word * 8 + (uint64_t)k) % 26);
        if (i < w->plan.n)
            text[i++] = ' ';
    }
}

static void match_plan(struct plan *p, int64_t n)
{
    text_plan(p, n, 24);
    plan_int_output(p, p->n, FILL_ZERO); /* length of the match that a token is; 0: no token */
    plan_ints(p, p->n, FILL_ZERO);       /* previous position of the same hash, plus one */
    plan_ints(p, MATCH_HEADS, FILL_ZERO);
}

static void match(struct work *w)
{
    const int64_t n = w->plan.n;
    const unsigned char *text = w->array[0];
    int *lengths = w->array[1], *previous = w->array[2], *heads = w->array[3];
    int64_t covered = 0, tokens = 0;
    memset(heads, 0, MATCH_HEADS * sizeof *heads);
    memset(lengths, 0, (size_t)n * sizeof *lengths);
    for (int64_t i = 0; i + MATCH_LEAST <= n; i++) {
        int *head = &heads[match_hash(text + i)];
        if (i >= covered) {
            int best = 1;
            int64_t at = *head;
            for (int depth = 0; at && depth < MATCH_DEPTH; depth++, at = previous[at - 1]) {
                const unsigned char *from = text + at - 1;
                int length = 0;
                while (i + length < n && length < MATCH_MOST && from[length] == text[i + length])
                    length++;
                best = length > best ? length : best;
            }
            lengths[i] = best;
            covered = i + best;
            tokens++;
        }
        previous[i] = *head;
        *head = (int)(i + 1);
    }
    w->result[0] = (double)tokens;
}

static void search_plan(struct plan *p, int64_t n)
{
    text_plan(p, n, SEARCH_WORDS);
}

/* Horspool, "Practical fast searching in strings", Software: Practice and Experience 1980. */
static int64_t occurrences(const unsigned char *text, int64_t n, const unsigned char *word)
{
    int64_t skip[256], found = 0;
    for (int c = 0; c < 256; c++)
        skip[c] = SEARCH_LENGTH;
    for (int k = 0; k < SEARCH_LENGTH - 1; k++)
        skip[word[k]] = SEARCH_LENGTH - 1 - k;
    for (int64_t i = 0; i + SEARCH_LENGTH <= n; i += skip[text[i + SEARCH_LENGTH - 1]]) {
        int k = SEARCH_LENGTH - 1;
        while (k >= 0 && text[i + k] == word[k])
            k--;
        found += k < 0;
    }
    return found;
}

static void search(struct work *w)
{
    const int64_t n = w->plan.n;
    const unsigned char *text = w->array[0];
    int64_t found = 0;
    OMP(parallel for reduction(+ : found))
    for (int64_t word = 0; word < SEARCH_WORDS; word++)
        found += occurrences(text, n, text + search_word(word, n));
    w->result[0] = (double)found;
}

static void symbols_plan(struct plan *p, int64_t n)
{
    text_plan(p, n, 2);
    plan_int_output(p, 256, FILL_ZERO);
    plan_int_output(p, 256 * 256, FILL_ZERO);
}

/* Counts of symbols and of pairs of them. */
static void symbols(struct work *w)
{
    const int64_t n = w->plan.n;
    const unsigned char *text = w->array[0];
    int *counts = w->array[1], *pairs = w->array[2];
    memset(counts, 0, 256 * sizeof *counts);
    memset(pairs, 0, 256 * 256 * sizeof *pairs);
    counts[text[0]]++;
    for (int64_t i = 1; i < n; i++) {
        counts[text[i]]++;
        pairs[text[i - 1] * 256 + text[i]]++;
    }
}

/* --- an alignment matrix ------------------------------------------------------------------------*/

static void align_plan(struct plan *p, int64_t target)
{
    const int64_t side = square_root(target);
    plan_loop(p, side, 16 * side, 0);
    p->iterations = side * side;
    plan_ints(p, 2 * side, FILL_ZERO);
    plan_int_output(p, 2 * (side + 1), FILL_ZERO); /* scores and gap scores of the last row */
}

static void write_sequences(struct work *w)
{
    int *letters = w->array[0];
    for (int64_t i = 0; i < w->plan.n; i++) {
        letters[i] = (int)(mix((uint64_t)i) & 3);
        const bool same = mix((uint64_t)i + 1000003) % 10 < 9;
        letters[w->plan.n + i] = same ? letters[i] : (letters[i] + 1) & 3;
    }
}

/* Local alignment with affine gaps: Gotoh, Journal of Molecular Biology 162, 1982. */
static void align(struct work *w)
{
    const int64_t n = w->plan.n;
    const int *rows = w->array[0], *columns = rows + n;
    int *score = w->array[1], *gap = score + n + 1, best = 0;
    memset(score, 0, 2 * (size_t)(n + 1) * sizeof *score);
    for (int64_t i = 0; i < n; i++) {
        int diagonal = 0, left = 0, across = 0;
        for (int64_t j = 1; j <= n; j++) {
            int here = diagonal + (rows[i] == columns[j - 1] ? ALIGN_MATCH : -ALIGN_MISMATCH);
            gap[j] = larger(gap[j] - ALIGN_EXTEND, score[j] - ALIGN_OPEN);
            across = larger(across - ALIGN_EXTEND, left - ALIGN_OPEN);
            here = larger(larger(here, 0), larger(gap[j], across));
            diagonal = score[j];
            score[j] = left = here;
            best = larger(best, here);
        }
    }
    w->result[0] = best;
}

static const struct kernel kernels[] = {
    {"Integer_ALIGN", align_plan, write_sequences, align},
    {"Integer_HASH", hash_plan, randomise, hash},
    {"Integer_MATCH", match_plan, write_text, match},
    {"Integer_QUICK_SORT", quick_plan, randomise, quick_sort},
    {"Integer_RADIX_SORT", radix_plan, randomise, radix_sort},
    {"Integer_SEARCH", search_plan, write_text, search},
    {"Integer_SYMBOLS", symbols_plan, write_text, symbols},
};

KERNEL_GROUP(integer_group, "Integer", kernels);
