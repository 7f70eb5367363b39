/* What the irregular kernels and their references share. */
#ifndef BERTH_IRREGULAR_H
#define BERTH_IRREGULAR_H

#include "kernels.h"

enum { CHASE_SHARE = 4, GRAPH_DEGREE = 8, SPARSE_ROW = 16, LOOKUP_SHARE = 8 };
enum { PROGRAM_LENGTH = 61, REGISTERS = 16 };

static inline unsigned lookup_key(int64_t i, int64_t n)
{
    return (unsigned)(mix((uint64_t)i + 7) % ((uint64_t)n * 8));
}

#endif
