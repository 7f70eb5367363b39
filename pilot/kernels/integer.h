/* What the integer kernels and their references share. */
#ifndef BERTH_INTEGER_H
#define BERTH_INTEGER_H

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

#endif
