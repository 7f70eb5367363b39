/* Accounting of ended processes. FAKE_NVML_ACCOUNTING: a file with a line a process,
 * "gpu pid gpu-percent memory-percent bytes milliseconds start-microseconds"; unset: switched off.
 * FAKE_NVML_SLOW: milliseconds for which the mode's query takes, as a busy driver's may. */
#define _GNU_SOURCE
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    unsigned gpu_utilisation, memory_utilisation;
    unsigned long long max_memory, time_ms, start_us;
    unsigned is_running, reserved[5];
} accounting_t;

typedef struct {
    unsigned gpu, pid;
    accounting_t stats;
} row_t;

int nvmlDeviceGetIndex(handle_t device, unsigned *to);

static unsigned rows_of(handle_t device, row_t *rows, unsigned most) {
    const char *path = getenv("FAKE_NVML_ACCOUNTING");
    FILE *file = path ? fopen(path, "r") : NULL;
    unsigned index, count = 0;
    if (!file || nvmlDeviceGetIndex(device, &index) != OK) return 0;
    row_t row = {0};
    while (count < most
           && fscanf(file, "%u %u %u %u %llu %llu %llu", &row.gpu, &row.pid,
                     &row.stats.gpu_utilisation, &row.stats.memory_utilisation,
                     &row.stats.max_memory, &row.stats.time_ms, &row.stats.start_us) == 7)
        if (row.gpu == index) rows[count++] = row;
    fclose(file);
    return count;
}

int nvmlDeviceGetAccountingMode(handle_t device, unsigned *mode);
int nvmlDeviceGetAccountingMode(handle_t device, unsigned *mode) {
    const char *slow = getenv("FAKE_NVML_SLOW");
    (void)device;
    if (slow) usleep(1000u * (unsigned)atoi(slow));
    *mode = getenv("FAKE_NVML_ACCOUNTING") != NULL;
    return OK;
}

int nvmlDeviceGetAccountingPids(handle_t device, unsigned *count, unsigned *pids);
int nvmlDeviceGetAccountingPids(handle_t device, unsigned *count, unsigned *pids) {
    row_t rows[256];
    unsigned known = rows_of(device, rows, 256);
    if (*count < known) return INSUFFICIENT_SIZE;
    for (*count = 0; *count < known; ++*count) pids[*count] = rows[*count].pid;
    return OK;
}

int nvmlDeviceGetAccountingStats(handle_t device, unsigned pid, accounting_t *to);
int nvmlDeviceGetAccountingStats(handle_t device, unsigned pid, accounting_t *to) {
    row_t rows[256];
    unsigned known = rows_of(device, rows, 256);
    for (unsigned i = 0; i < known; i++)
        if (rows[i].pid == pid) return *to = rows[i].stats, OK;
    return NOT_FOUND;
}
