#define _GNU_SOURCE
#include "fleet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0xbe47b001u

fleet_t *fleet;
static int descriptor = -1;

/* Map the fleet's file, made empty where it is new. 0, or -1 when that cannot be done. */
int fleet_open(const char *path) {
    static char opened[4096];
    if (fleet && strcmp(opened, path) == 0) return 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    struct stat info;
    if (fstat(fd, &info) != 0 || (info.st_size == 0 && ftruncate(fd, sizeof(fleet_t)) != 0)) {
        close(fd);
        return -1;
    }
    void *memory = mmap(0, sizeof(fleet_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        close(fd);
        return -1;
    }
    if (fleet) munmap(fleet, sizeof(fleet_t));
    if (descriptor >= 0) close(descriptor);
    fleet = memory;
    descriptor = fd;
    strncpy(opened, path, sizeof opened - 1);
    if (fleet->magic != MAGIC) {
        memset(fleet, 0, sizeof *fleet);
        fleet->magic = MAGIC;
        fleet->next_serial = 1;
    }
    return 0;
}

void fleet_lock(void) {
    if (descriptor >= 0) flock(descriptor, LOCK_EX);
}

void fleet_unlock(void) {
    if (descriptor >= 0) flock(descriptor, LOCK_UN);
}

uint32_t fleet_serial(void) { return fleet->next_serial++; }

/* Handles: kind (4 bits), GPU, instance, compute instance (8 bits each), serial (32 bits). A handle
 * of something destroyed no longer matches the serial in its place. */
enum { GPU_HANDLE = 1, GI_HANDLE = 2, CI_HANDLE = 3, MIG_HANDLE = 4 };

static handle_t make(unsigned kind, unsigned gpu, unsigned gi, unsigned ci, uint32_t serial) {
    return (handle_t)kind << 60 | (handle_t)gpu << 48 | (handle_t)gi << 40 | (handle_t)ci << 32 |
           serial;
}

handle_t handle_of_gpu(unsigned gpu) { return make(GPU_HANDLE, gpu, 0, 0, 0); }

handle_t handle_of_gi(unsigned gpu, const gi_t *gi) {
    return make(GI_HANDLE, gpu, (unsigned)(gi - fleet->gpu[gpu].gis), 0, gi->serial);
}

handle_t handle_of_ci(unsigned gpu, const gi_t *gi, const ci_t *ci) {
    return make(CI_HANDLE, gpu, (unsigned)(gi - fleet->gpu[gpu].gis), (unsigned)(ci - gi->cis),
                ci->serial);
}

handle_t handle_of_mig(unsigned gpu, const gi_t *gi, const ci_t *ci) {
    return make(MIG_HANDLE, gpu, (unsigned)(gi - fleet->gpu[gpu].gis), (unsigned)(ci - gi->cis),
                ci->serial);
}

gpu_t *gpu_of(handle_t handle, unsigned *index) {
    unsigned gpu = handle >> 48 & 0xff;
    if (handle >> 60 != GPU_HANDLE || gpu >= fleet->gpus) return 0;
    if (index) *index = gpu;
    return &fleet->gpu[gpu];
}

gi_t *gi_of(handle_t handle, unsigned *gpu) {
    unsigned at = handle >> 48 & 0xff, slot = handle >> 40 & 0xff;
    if (handle >> 60 != GI_HANDLE || at >= fleet->gpus || slot >= MAX_GIS) return 0;
    gi_t *gi = &fleet->gpu[at].gis[slot];
    if (!gi->live || gi->serial != (uint32_t)handle) return 0;
    if (gpu) *gpu = at;
    return gi;
}

static ci_t *find_ci(handle_t handle, unsigned kind, unsigned *gpu, gi_t **gi) {
    unsigned at = handle >> 48 & 0xff, slot = handle >> 40 & 0xff, sub = handle >> 32 & 0xff;
    if (handle >> 60 != kind || at >= fleet->gpus || slot >= MAX_GIS || sub >= MAX_CIS) return 0;
    gi_t *owner = &fleet->gpu[at].gis[slot];
    ci_t *ci = &owner->cis[sub];
    if (!owner->live || !ci->live || ci->serial != (uint32_t)handle) return 0;
    *gpu = at;
    *gi = owner;
    return ci;
}

ci_t *ci_of(handle_t handle, unsigned *gpu, gi_t **gi) {
    return find_ci(handle, CI_HANDLE, gpu, gi);
}

ci_t *mig_of(handle_t handle, unsigned *gpu, gi_t **gi) {
    return find_ci(handle, MIG_HANDLE, gpu, gi);
}

int busy(const gi_t *gi) {
    for (int i = 0; i < MAX_PROCESSES; i++)
        if (fleet->process[i].live && fleet->process[i].gi_serial == gi->serial) return 1;
    return 0;
}
