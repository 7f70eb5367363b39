/* Library, devices, MIG mode and the profiles of a device. */
#define _GNU_SOURCE
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int initialised;

/* FAKE_NVML_OWNER: the only user id that may change instances or list them, as root is. */
int fake_privileged(void);
int fake_privileged(void) {
    const char *owner = getenv("FAKE_NVML_OWNER");
    return !owner || (unsigned long)geteuid() == strtoul(owner, 0, 10);
}

EXPORT(nvmlInitWithFlags, (unsigned flags), ((void)flags, initialised++, OK))
EXPORT(nvmlInit_v2, (void), (initialised++, OK))
EXPORT(nvmlShutdown, (void), initialised > 0 ? (initialised--, OK) : UNINITIALIZED)

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) {
    switch (code) {
        case OK: return "Success";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NO_PERMISSION: return "Insufficient Permissions";
        case NOT_FOUND: return "Not Found";
        case IN_USE: return "In use by another client";
        case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
        default: return "Unknown Error";
    }
}

static int text(char *to, unsigned size, const char *from) {
    if (!to) return INVALID_ARGUMENT;
    if (strlen(from) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}

EXPORT(nvmlSystemGetDriverVersion, (char *to, unsigned size), text(to, size, "999.00.1"))
EXPORT(nvmlSystemGetNVMLVersion, (char *to, unsigned size), text(to, size, "13.999.00.1"))
EXPORT(nvmlDeviceGetCount_v2, (unsigned *to), (*to = fleet->gpus, OK))

static int by_index(unsigned index, handle_t *to) {
    if (!initialised) return UNINITIALIZED;
    if (index >= fleet->gpus) return INVALID_ARGUMENT;
    *to = handle_of_gpu(index);
    return OK;
}
EXPORT(nvmlDeviceGetHandleByIndex_v2, (unsigned index, handle_t *to), by_index(index, to))

static int by_uuid(const char *uuid, handle_t *to) {
    for (unsigned i = 0; i < fleet->gpus; i++)
        if (strcmp(fleet->gpu[i].uuid, uuid) == 0) return by_index(i, to);
    return NOT_FOUND;
}
EXPORT(nvmlDeviceGetHandleByUUID, (const char *uuid, handle_t *to), by_uuid(uuid, to))

static int index_of(handle_t device, unsigned *to) {
    return gpu_of(device, to) ? OK : INVALID_ARGUMENT;
}
EXPORT(nvmlDeviceGetIndex, (handle_t device, unsigned *to), index_of(device, to))
EXPORT(nvmlDeviceGetMinorNumber, (handle_t device, unsigned *to), index_of(device, to))

static int name_of(handle_t device, char *to, unsigned size) {
    gpu_t *gpu = gpu_of(device, 0);
    unsigned at;
    gi_t *gi;
    if (gpu) return text(to, size, model_of(gpu)->name);
    if (!mig_of(device, &at, &gi)) return INVALID_ARGUMENT;
    char whole[128];
    snprintf(whole, sizeof whole, "%s %s", model_of(&fleet->gpu[at])->name,
             profile_by_id(&fleet->gpu[at], gi->profile_id)->name);
    return text(to, size, whole);
}
EXPORT(nvmlDeviceGetName, (handle_t device, char *to, unsigned size), name_of(device, to, size))

static int uuid_of(handle_t device, char *to, unsigned size) {
    gpu_t *gpu = gpu_of(device, 0);
    unsigned at;
    gi_t *gi;
    if (gpu) return text(to, size, gpu->uuid);
    ci_t *ci = mig_of(device, &at, &gi);
    if (!ci) return INVALID_ARGUMENT;
    char whole[96];
    snprintf(whole, sizeof whole, "MIG-00000000-0000-0000-%04x-%012x", at, ci->serial);
    return text(to, size, whole);
}
EXPORT(nvmlDeviceGetUUID, (handle_t device, char *to, unsigned size), uuid_of(device, to, size))

static int pci_of(handle_t device, pci_t *to) {
    unsigned index;
    if (!gpu_of(device, &index)) return INVALID_ARGUMENT;
    memset(to, 0, sizeof *to);
    to->bus = index + 1;
    to->device_id = model_of(&fleet->gpu[index])->pci_id;
    snprintf(to->legacy, sizeof to->legacy, "0000:%02X:00.0", index + 1);
    snprintf(to->bus_id, sizeof to->bus_id, "00000000:%02X:00.0", index + 1);
    return OK;
}
EXPORT(nvmlDeviceGetPciInfo_v3, (handle_t device, pci_t *to), pci_of(device, to))

static int memory_of(handle_t device, memory_t *to) {
    gpu_t *gpu = gpu_of(device, 0);
    unsigned at;
    gi_t *gi = 0;
    if (!gpu && !mig_of(device, &at, &gi)) return INVALID_ARGUMENT;
    unsigned long long mb = gpu ? model_of(gpu)->memory_mb
                                : profile_by_id(&fleet->gpu[at], gi->profile_id)->memory_mb;
    to->total = mb << 20;
    to->used = 0;
    for (int i = 0; gi && i < MAX_PROCESSES; i++)
        if (fleet->process[i].live && fleet->process[i].gi_serial == gi->serial)
            to->used += fleet->process[i].memory_bytes;
    to->free = to->total - to->used;
    return OK;
}
EXPORT(nvmlDeviceGetMemoryInfo, (handle_t device, memory_t *to), memory_of(device, to))

static int mig_mode(handle_t device, unsigned *now, unsigned *pending) {
    gpu_t *gpu = gpu_of(device, 0);
    if (!gpu) return INVALID_ARGUMENT;
    if (model_of(gpu)->slices == 0) return NOT_SUPPORTED;
    *now = gpu->mig;
    *pending = gpu->pending;
    return OK;
}
EXPORT(nvmlDeviceGetMigMode, (handle_t device, unsigned *now, unsigned *pending),
       mig_mode(device, now, pending))

static int set_mig_mode(handle_t device, unsigned mode, unsigned *status) {
    gpu_t *gpu = gpu_of(device, 0);
    if (!gpu || mode > 1) return INVALID_ARGUMENT;
    if (model_of(gpu)->slices == 0) return NOT_SUPPORTED;
    if (!fake_privileged()) return NO_PERMISSION;
    for (int i = 0; i < MAX_GIS; i++)
        if (gpu->gis[i].live && mode != gpu->mig) return IN_USE;
    gpu->pending = mode;
    *status = OK;
    if (model_of(gpu)->mode_needs_reset && mode != gpu->mig)
        *status = RESET_REQUIRED;
    else
        gpu->mig = mode;
    return OK;
}
EXPORT(nvmlDeviceSetMigMode, (handle_t device, unsigned mode, unsigned *status),
       set_mig_mode(device, mode, status))

static void fill(const profile_t *p, gi_profile_v2_t *to) {
    memset((char *)to + sizeof to->version, 0, sizeof *to - sizeof to->version);
    to->id = p->id;
    to->slices = p->slices;
    to->instances = p->limit;
    to->multiprocessors = p->multiprocessors;
    to->copy_engines = p->slices;
    to->decoders = strstr(p->name, "+me") ? 1 : p->slices / 2;
    to->memory_mb = p->memory_mb;
    snprintf(to->name, sizeof to->name, "%s", p->name);
}

static int profile(gpu_t *gpu, const profile_t *p, gi_profile_v2_t *to) {
    if (!gpu || !to) return INVALID_ARGUMENT;
    if (to->version != GI_PROFILE_V2) return ARGUMENT_VERSION_MISMATCH;
    if (!gpu->mig || !p) return NOT_SUPPORTED;
    fill(p, to);
    return OK;
}

static int profile_v1(gpu_t *gpu, const profile_t *p, gi_profile_v1_t *to) {
    if (!gpu || !to) return INVALID_ARGUMENT;
    if (!gpu->mig || !p) return NOT_SUPPORTED;
    gi_profile_v2_t whole = {.version = GI_PROFILE_V2};
    fill(p, &whole);
    *to = (gi_profile_v1_t){whole.id, whole.p2p, whole.slices, whole.instances,
                            whole.multiprocessors, whole.copy_engines, whole.decoders,
                            whole.encoders, whole.jpegs, whole.ofas, whole.memory_mb};
    return OK;
}

#define INDEXED(device, index) \
    (gpu_of(device, 0) ? profile_by_index(gpu_of(device, 0), index) : 0)
#define NUMBERED(device, id) (gpu_of(device, 0) ? profile_by_id(gpu_of(device, 0), id) : 0)

EXPORT(nvmlDeviceGetGpuInstanceProfileInfoV, (handle_t d, unsigned index, gi_profile_v2_t *to),
       profile(gpu_of(d, 0), INDEXED(d, index), to))
EXPORT(nvmlDeviceGetGpuInstanceProfileInfoByIdV, (handle_t d, unsigned id, gi_profile_v2_t *to),
       profile(gpu_of(d, 0), NUMBERED(d, id), to))
EXPORT(nvmlDeviceGetGpuInstanceProfileInfo, (handle_t d, unsigned index, gi_profile_v1_t *to),
       profile_v1(gpu_of(d, 0), INDEXED(d, index), to))

static int placements(handle_t device, unsigned id, placement_t *to, unsigned *count) {
    gpu_t *gpu = gpu_of(device, 0);
    if (!gpu || !count) return INVALID_ARGUMENT;
    const profile_t *p = profile_by_id(gpu, id);
    if (!gpu->mig || !p) return NOT_SUPPORTED;
    unsigned n = 0;
    while (p->starts[n] >= 0 && n < MAX_STARTS) n++;
    if (to) {
        if (*count < n) return INSUFFICIENT_SIZE;
        for (unsigned i = 0; i < n; i++) to[i] = (placement_t){(unsigned)p->starts[i], p->width};
    }
    *count = n;
    return OK;
}
EXPORT(nvmlDeviceGetGpuInstancePossiblePlacements_v2,
       (handle_t device, unsigned id, placement_t *to, unsigned *count),
       placements(device, id, to, count))
