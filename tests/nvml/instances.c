/* GPU instances, compute instances and the MIG devices that they make, with the driver's rules:
 * no overlap, no more than the profile's limit, nothing destroyed that is in use. */
#include "fleet.h"

#include <string.h>

int fake_privileged(void);

static int overlaps(const gi_t *gi, unsigned start, unsigned size) {
    return gi->live && gi->start < start + size && start < gi->start + gi->size;
}

static unsigned slices_used(const gpu_t *gpu) {
    unsigned used = 0;
    for (int i = 0; i < MAX_GIS; i++)
        if (gpu->gis[i].live) used += profile_by_id(gpu, gpu->gis[i].profile_id)->slices;
    return used;
}

static int can_place(const gpu_t *gpu, const profile_t *p, unsigned start) {
    unsigned same = 0;
    for (int i = 0; i < MAX_GIS; i++) {
        if (overlaps(&gpu->gis[i], start, p->width)) return 0;
        same += gpu->gis[i].live && gpu->gis[i].profile_id == p->id;
    }
    return same < p->limit && slices_used(gpu) + p->slices <= model_of(gpu)->slices;
}

static int create(handle_t device, unsigned id, const placement_t *at, handle_t *to) {
    unsigned index;
    gpu_t *gpu = gpu_of(device, &index);
    if (!gpu || !to) return INVALID_ARGUMENT;
    const profile_t *p = profile_by_id(gpu, id);
    if (!gpu->mig || !p) return NOT_SUPPORTED;
    if (!fake_privileged()) return NO_PERMISSION;
    int start = -1;
    for (int i = 0; i < MAX_STARTS && p->starts[i] >= 0 && start < 0; i++)
        if (at ? (unsigned)p->starts[i] == at->start && at->size == p->width
               : can_place(gpu, p, (unsigned)p->starts[i]))
            start = p->starts[i];
    if (start < 0) return at ? INVALID_ARGUMENT : INSUFFICIENT_RESOURCES;
    if (!can_place(gpu, p, (unsigned)start)) return INSUFFICIENT_RESOURCES;
    for (int i = 0; i < MAX_GIS; i++) {
        gi_t *gi = &gpu->gis[i];
        if (gi->live) continue;
        memset(gi, 0, sizeof *gi);
        /* The lowest free number, so that numbers are used again as the driver does. */
        *gi = (gi_t){1, (uint32_t)i + 1, p->id, (uint32_t)start, p->width, fleet_serial(), {{0}}};
        *to = handle_of_gi(index, gi);
        return OK;
    }
    return INSUFFICIENT_RESOURCES;
}
EXPORT(nvmlDeviceCreateGpuInstance, (handle_t device, unsigned id, handle_t *to),
       create(device, id, 0, to))
EXPORT(nvmlDeviceCreateGpuInstanceWithPlacement,
       (handle_t device, unsigned id, const placement_t *at, handle_t *to),
       at ? create(device, id, at, to) : INVALID_ARGUMENT)

static int destroy(handle_t handle) {
    gi_t *gi = gi_of(handle, 0);
    if (!gi) return INVALID_ARGUMENT;
    if (!fake_privileged()) return NO_PERMISSION;
    if (busy(gi)) fleet->touched++;
    for (int i = 0; i < MAX_CIS; i++)
        if (gi->cis[i].live) return IN_USE;
    gi->live = 0;
    return OK;
}
EXPORT(nvmlGpuInstanceDestroy, (handle_t handle), destroy(handle))

static int list(handle_t device, unsigned id, handle_t *to, unsigned *count) {
    unsigned index;
    gpu_t *gpu = gpu_of(device, &index);
    if (!gpu || !to || !count) return INVALID_ARGUMENT;
    if (!gpu->mig || !profile_by_id(gpu, id)) return NOT_SUPPORTED;
    if (!fake_privileged()) return NO_PERMISSION;
    *count = 0;
    for (int i = 0; i < MAX_GIS; i++)
        if (gpu->gis[i].live && gpu->gis[i].profile_id == id)
            to[(*count)++] = handle_of_gi(index, &gpu->gis[i]);
    return OK;
}
EXPORT(nvmlDeviceGetGpuInstances, (handle_t device, unsigned id, handle_t *to, unsigned *count),
       list(device, id, to, count))

static int by_id(handle_t device, unsigned id, handle_t *to) {
    unsigned index;
    gpu_t *gpu = gpu_of(device, &index);
    if (!gpu) return INVALID_ARGUMENT;
    if (!fake_privileged()) return NO_PERMISSION;
    for (int i = 0; i < MAX_GIS; i++)
        if (gpu->gis[i].live && gpu->gis[i].id == id) {
            *to = handle_of_gi(index, &gpu->gis[i]);
            return OK;
        }
    return NOT_FOUND;
}
EXPORT(nvmlDeviceGetGpuInstanceById, (handle_t device, unsigned id, handle_t *to),
       by_id(device, id, to))

static int info(handle_t handle, gi_info_t *to) {
    unsigned index;
    gi_t *gi = gi_of(handle, &index);
    if (!gi) return INVALID_ARGUMENT;
    *to = (gi_info_t){handle_of_gpu(index), gi->id, gi->profile_id, {gi->start, gi->size}};
    return OK;
}
EXPORT(nvmlGpuInstanceGetInfo, (handle_t handle, gi_info_t *to), info(handle, to))

/* Compute profiles: number 7 is the one that fills a double-memory slice. */
static int ci_slices(const gi_t *gi, unsigned gpu, unsigned profile) {
    static const int slices[] = {1, 2, 3, 4, 7, 8, 6, 1};
    const profile_t *p = profile_by_id(&fleet->gpu[gpu], gi->profile_id);
    if (profile > 7 || slices[profile] > (int)p->slices) return 0;
    if ((profile == 7) != (p->ci_index == 7) && slices[profile] == 1) return 0;
    return slices[profile];
}

static int ci_profile(handle_t handle, unsigned profile, unsigned engine, ci_profile_v2_t *to) {
    unsigned gpu;
    gi_t *gi = gi_of(handle, &gpu);
    if (!gi || !to || engine != 0) return INVALID_ARGUMENT;
    if (to->version != CI_PROFILE_V2) return ARGUMENT_VERSION_MISMATCH;
    int slices = ci_slices(gi, gpu, profile);
    if (!slices) return NOT_SUPPORTED;
    const profile_t *p = profile_by_id(&fleet->gpu[gpu], gi->profile_id);
    memset((char *)to + sizeof to->version, 0, sizeof *to - sizeof to->version);
    to->id = profile;
    to->slices = (unsigned)slices;
    to->instances = p->slices / (unsigned)slices;
    to->multiprocessors = p->multiprocessors * (unsigned)slices / p->slices;
    return OK;
}

static int ci_profile_v1(handle_t handle, unsigned profile, unsigned engine, ci_profile_v1_t *to) {
    ci_profile_v2_t whole = {.version = CI_PROFILE_V2};
    int code = ci_profile(handle, profile, engine, &whole);
    if (code == OK)
        *to = (ci_profile_v1_t){whole.id, whole.slices, whole.instances, whole.multiprocessors,
                                0, 0, 0, 0, 0};
    return code;
}
EXPORT(nvmlGpuInstanceGetComputeInstanceProfileInfoV,
       (handle_t gi, unsigned profile, unsigned engine, ci_profile_v2_t *to),
       ci_profile(gi, profile, engine, to))
EXPORT(nvmlGpuInstanceGetComputeInstanceProfileInfo,
       (handle_t gi, unsigned profile, unsigned engine, ci_profile_v1_t *to),
       ci_profile_v1(gi, profile, engine, to))

static int ci_fits(const gi_t *gi, unsigned start, unsigned size, unsigned all) {
    if (start + size > all) return 0;
    for (int i = 0; i < MAX_CIS; i++)
        if (gi->cis[i].live && gi->cis[i].start < start + size &&
            start < gi->cis[i].start + gi->cis[i].size)
            return 0;
    return 1;
}

static int create_ci(handle_t handle, unsigned profile, const placement_t *at, handle_t *to) {
    unsigned gpu;
    gi_t *gi = gi_of(handle, &gpu);
    if (!gi || !to) return INVALID_ARGUMENT;
    if (!fake_privileged()) return NO_PERMISSION;
    unsigned size = (unsigned)ci_slices(gi, gpu, profile);
    if (!size) return NOT_SUPPORTED;
    unsigned all = profile_by_id(&fleet->gpu[gpu], gi->profile_id)->slices;
    unsigned start = at ? at->start : 0;
    if (at && at->size != size) return INVALID_ARGUMENT;
    while (!at && start + size <= all && !ci_fits(gi, start, size, all)) start++;
    if (!ci_fits(gi, start, size, all)) return INSUFFICIENT_RESOURCES;
    for (int i = 0; i < MAX_CIS; i++)
        if (!gi->cis[i].live) {
            gi->cis[i] = (ci_t){1, (uint32_t)i, profile, start, size, fleet_serial()};
            *to = handle_of_ci(gpu, gi, &gi->cis[i]);
            return OK;
        }
    return INSUFFICIENT_RESOURCES;
}
EXPORT(nvmlGpuInstanceCreateComputeInstance, (handle_t gi, unsigned profile, handle_t *to),
       create_ci(gi, profile, 0, to))
EXPORT(nvmlGpuInstanceCreateComputeInstanceWithPlacement,
       (handle_t gi, unsigned profile, const placement_t *at, handle_t *to),
       at ? create_ci(gi, profile, at, to) : INVALID_ARGUMENT)

static int destroy_ci(handle_t handle) {
    unsigned gpu;
    gi_t *gi;
    ci_t *ci = ci_of(handle, &gpu, &gi);
    if (!ci) return INVALID_ARGUMENT;
    if (!fake_privileged()) return NO_PERMISSION;
    if (busy(gi)) {
        fleet->touched++;
        return IN_USE;
    }
    ci->live = 0;
    return OK;
}
EXPORT(nvmlComputeInstanceDestroy, (handle_t handle), destroy_ci(handle))

static int list_ci(handle_t handle, unsigned profile, handle_t *to, unsigned *count) {
    unsigned gpu;
    gi_t *gi = gi_of(handle, &gpu);
    if (!gi || !to || !count) return INVALID_ARGUMENT;
    if (!fake_privileged()) return NO_PERMISSION;
    if (!ci_slices(gi, gpu, profile)) return NOT_SUPPORTED;
    *count = 0;
    for (int i = 0; i < MAX_CIS; i++)
        if (gi->cis[i].live && gi->cis[i].profile_id == profile)
            to[(*count)++] = handle_of_ci(gpu, gi, &gi->cis[i]);
    return OK;
}
EXPORT(nvmlGpuInstanceGetComputeInstances,
       (handle_t gi, unsigned profile, handle_t *to, unsigned *count),
       list_ci(gi, profile, to, count))

static int ci_by_id(handle_t handle, unsigned id, handle_t *to) {
    unsigned gpu;
    gi_t *gi = gi_of(handle, &gpu);
    if (!gi) return INVALID_ARGUMENT;
    for (int i = 0; i < MAX_CIS; i++)
        if (gi->cis[i].live && gi->cis[i].id == id) {
            *to = handle_of_ci(gpu, gi, &gi->cis[i]);
            return OK;
        }
    return NOT_FOUND;
}
EXPORT(nvmlGpuInstanceGetComputeInstanceById, (handle_t gi, unsigned id, handle_t *to),
       ci_by_id(gi, id, to))

static int ci_info(handle_t handle, ci_info_t *to) {
    unsigned gpu;
    gi_t *gi;
    ci_t *ci = ci_of(handle, &gpu, &gi);
    if (!ci) return INVALID_ARGUMENT;
    *to = (ci_info_t){handle_of_gpu(gpu), handle_of_gi(gpu, gi), ci->id, ci->profile_id,
                      {ci->start, ci->size}};
    return OK;
}
EXPORT(nvmlComputeInstanceGetInfo_v2, (handle_t handle, ci_info_t *to), ci_info(handle, to))

/* MIG devices: one for each compute instance; they need no privilege. */
EXPORT(nvmlDeviceGetMaxMigDeviceCount, (handle_t device, unsigned *to),
       gpu_of(device, 0) ? (*to = model_of(gpu_of(device, 0))->slices, OK) : INVALID_ARGUMENT)

static int mig_by_index(handle_t device, unsigned index, handle_t *to) {
    unsigned at, seen = 0;
    gpu_t *gpu = gpu_of(device, &at);
    if (!gpu) return INVALID_ARGUMENT;
    for (int i = 0; i < MAX_GIS; i++)
        for (int j = 0; j < MAX_CIS; j++)
            if (gpu->gis[i].live && gpu->gis[i].cis[j].live && seen++ == index) {
                *to = handle_of_mig(at, &gpu->gis[i], &gpu->gis[i].cis[j]);
                return OK;
            }
    return NOT_FOUND;
}
EXPORT(nvmlDeviceGetMigDeviceHandleByIndex, (handle_t device, unsigned index, handle_t *to),
       mig_by_index(device, index, to))

static int part_of(handle_t device, unsigned *gi_id, unsigned *ci_id, handle_t *whole) {
    unsigned gpu;
    gi_t *gi;
    ci_t *ci = mig_of(device, &gpu, &gi);
    if (!ci) return gpu_of(device, 0) ? NOT_SUPPORTED : INVALID_ARGUMENT;
    if (gi_id) *gi_id = gi->id;
    if (ci_id) *ci_id = ci->id;
    if (whole) *whole = handle_of_gpu(gpu);
    return OK;
}
EXPORT(nvmlDeviceGetGpuInstanceId, (handle_t device, unsigned *to), part_of(device, to, 0, 0))
EXPORT(nvmlDeviceGetComputeInstanceId, (handle_t device, unsigned *to), part_of(device, 0, to, 0))
EXPORT(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (handle_t device, handle_t *to),
       part_of(device, 0, 0, to))
EXPORT(nvmlDeviceIsMigDeviceHandle, (handle_t device, unsigned *to),
       (*to = part_of(device, 0, 0, 0) == OK, OK))

static int attributes(handle_t device, attributes_t *to) {
    unsigned gpu;
    gi_t *gi;
    ci_t *ci = mig_of(device, &gpu, &gi);
    if (!ci) return NOT_SUPPORTED;
    const profile_t *p = profile_by_id(&fleet->gpu[gpu], gi->profile_id);
    memset(to, 0, sizeof *to);
    to->multiprocessors = p->multiprocessors * ci->size / p->slices;
    to->gi_slices = p->slices;
    to->ci_slices = ci->size;
    to->memory_mb = p->memory_mb;
    return OK;
}
EXPORT(nvmlDeviceGetAttributes_v2, (handle_t device, attributes_t *to), attributes(device, to))
