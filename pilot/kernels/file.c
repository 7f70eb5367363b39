/* File input and output: one large file written and synced, many small ones made, read and removed,
 * and pages read at random. In the folder that TMPDIR names, else /tmp; nothing is left there.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"

enum { FILE_BLOCK = 65536, FILE_PAGE = 4096, FILE_SHARE = 16384, FILE_MOST = 2000 };

/* Which page of a file of `pages` the read number `step` takes. */
static inline int64_t file_page(int64_t step, int64_t pages)
{
    return (int64_t)(mix((uint64_t)step) % (uint64_t)pages);
}

/* The file that the kernel last wrote, or read from: it has no name any more. */
static int in_use = -1;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "berth-kernels: %s in %s: %s\n", what,
            getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", strerror(errno));
    exit(1);
}

static void path_to(char *path, size_t length, const char *name)
{
    const char *folder = getenv("TMPDIR");
    if (snprintf(path, length, "%s/berth-%ld-%s", folder && *folder ? folder : "/tmp",
                 (long)getpid(), name) >= (int)length) {
        errno = ENAMETOOLONG;
        give_up("a file cannot be made");
    }
}

/* An empty file without a name: gone with the process, however that ends. */
static void open_file(void)
{
    char path[4096];
    path_to(path, sizeof path, "file");
    if (in_use >= 0)
        close(in_use);
    in_use = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (in_use < 0 || unlink(path) < 0)
        give_up("a file cannot be made");
}

static void write_all(int file, const char *bytes, int64_t count)
{
    while (count > 0) {
        const int64_t part = count < FILE_BLOCK ? count : FILE_BLOCK;
        const ssize_t done = write(file, bytes, (size_t)part);
        if (done < 0)
            give_up("a file cannot be written");
        bytes += done;
        count -= done;
    }
}

static void fill_keys(struct work *w)
{
    unsigned *keys = w->array[0];
    for (int64_t i = 0; i < w->plan.arrays[0].count; i++)
        keys[i] = (unsigned)mix((uint64_t)i);
}

/* --- one large file, to the device ------------------------------------------------------------- */

static void write_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 8, 0);
    plan_ints(p, 2 * n, FILL_ZERO);
}

static void write_prepare(struct work *w)
{
    fill_keys(w);
    open_file();
}

static void write_synced(struct work *w)
{
    if (lseek(in_use, 0, SEEK_SET) < 0 || ftruncate(in_use, 0) < 0)
        give_up("a file cannot be written");
    write_all(in_use, w->array[0], 8 * w->plan.n);
    /* Some file systems have nothing to sync to. */
    if (fsync(in_use) < 0 && errno != EINVAL && errno != ENOTSUP)
        give_up("a file cannot be synced");
    w->result[0] = (double)lseek(in_use, 0, SEEK_END);
}

/* --- many small files --------------------------------------------------------------------------- */

static void small_plan(struct plan *p, int64_t target)
{
    const int64_t share = target / FILE_SHARE;
    const int64_t n = share < 1 ? 1 : share < FILE_MOST ? share : FILE_MOST;
    plan_loop(p, n, 2 * FILE_PAGE, 0);
    plan_ints(p, n * FILE_PAGE / 4, FILL_ZERO);
    plan_int_output(p, n * FILE_PAGE / 4, FILL_ZERO);
}

static void small_files(struct work *w)
{
    const char *pages = w->array[0];
    char *back = w->array[1], path[4096], name[32];
    for (int64_t i = 0; i < w->plan.n; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        path_to(path, sizeof path, name);
        const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (file < 0)
            give_up("a file cannot be made");
        write_all(file, pages + i * FILE_PAGE, FILE_PAGE);
        close(file);
    }
    for (int64_t i = 0; i < w->plan.n; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        path_to(path, sizeof path, name);
        const int file = open(path, O_RDONLY);
        if (file < 0 || read(file, back + i * FILE_PAGE, FILE_PAGE) != FILE_PAGE)
            give_up("a file cannot be read");
        close(file);
        unlink(path);
    }
}

/* --- pages at random ---------------------------------------------------------------------------- */

static void read_plan(struct plan *p, int64_t n)
{
    const int64_t pages = 8 * n / FILE_PAGE;
    plan_loop(p, n, 8, 0);
    p->iterations = pages > 1 ? pages : 1;
    p->bytes = p->iterations * FILE_PAGE;
    plan_ints(p, p->iterations * FILE_PAGE / 4, FILL_ZERO);
    plan_int_output(p, p->iterations * FILE_PAGE / 4, FILL_ZERO);
}

static void read_prepare(struct work *w)
{
    fill_keys(w);
    open_file();
    write_all(in_use, w->array[0], w->plan.iterations * FILE_PAGE);
}

static void read_pages(struct work *w)
{
    char *back = w->array[1];
    for (int64_t i = 0; i < w->plan.iterations; i++) {
        const int64_t at = file_page(i, w->plan.iterations) * FILE_PAGE;
        if (pread(in_use, back + i * FILE_PAGE, FILE_PAGE, at) != FILE_PAGE)
            give_up("a file cannot be read");
    }
}

static const struct kernel kernels[] = {
    {"File_RANDOM_READ", read_plan, read_prepare, read_pages},
    {"File_SMALL", small_plan, fill_keys, small_files},
    {"File_WRITE", write_plan, write_prepare, write_synced},
};

KERNEL_GROUP(file_group, "File", kernels);
