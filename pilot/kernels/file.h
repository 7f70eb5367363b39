/* What the kernels of file input and output and their references share. */
#ifndef BERTH_FILE_H
#define BERTH_FILE_H

#include "kernels.h"

enum { FILE_BLOCK = 65536, FILE_PAGE = 4096, FILE_SHARE = 16384, FILE_MOST = 2000 };

/* The file that a kernel last wrote, or read from: it has no name any more. */
int file_in_use(void);

/* Which page of a file of `pages` the read number `step` takes. */
static inline int64_t file_page(int64_t step, int64_t pages)
{
    return (int64_t)(mix((uint64_t)step) % (uint64_t)pages);
}

#endif
