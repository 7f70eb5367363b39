/* What tests do to the fleet behind the driver's back. */
#include "fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fake_open(void);
int fake_add_gpu(const char *model, unsigned mig);
int fake_create(unsigned gpu, unsigned profile_id, unsigned start, unsigned with_compute);
int fake_start_process(unsigned gpu, unsigned start, unsigned pid, unsigned kind);
void fake_end_process(unsigned pid);
void fake_power_loss(unsigned mig_survives);
void fake_clear(void);
unsigned fake_touched(void);
int fake_describe(char *to, unsigned size);

/* Map the file that FAKE_NVML_STATE names. */
int fake_open(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    return path ? fleet_open(path) : -1;
}

void fake_clear(void) {
    memset(fleet->gpu, 0, sizeof fleet->gpu);
    memset(fleet->process, 0, sizeof fleet->process);
    fleet->gpus = fleet->touched = 0;
    fleet->next_serial = 1;
}

int fake_add_gpu(const char *model, unsigned mig) {
    int which = model_by_key(model);
    if (which < 0 || fleet->gpus == MAX_GPUS) return -1;
    gpu_t *gpu = &fleet->gpu[fleet->gpus];
    gpu->model = (uint32_t)which;
    gpu->mig = gpu->pending = mig;
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-fa4e0000-0000-0000-0000-%012x", fleet->gpus);
    return (int)fleet->gpus++;
}

/* An instance as somebody else's tool would have made it; -1 where the rules forbid it. */
int nvmlDeviceCreateGpuInstanceWithPlacement(handle_t, unsigned, const placement_t *, handle_t *);
int nvmlGpuInstanceCreateComputeInstance(handle_t, unsigned, handle_t *);

int fake_create(unsigned gpu, unsigned profile_id, unsigned start, unsigned with_compute) {
    if (gpu >= fleet->gpus) return -1;
    const profile_t *p = profile_by_id(&fleet->gpu[gpu], profile_id);
    if (!p) return -1;
    placement_t at = {start, p->width};
    handle_t made, compute;
    if (nvmlDeviceCreateGpuInstanceWithPlacement(handle_of_gpu(gpu), profile_id, &at, &made) != OK)
        return -1;
    if (with_compute &&
        nvmlGpuInstanceCreateComputeInstance(made, (unsigned)p->ci_index, &compute) != OK)
        return -1;
    return 0;
}

int fake_start_process(unsigned gpu, unsigned start, unsigned pid, unsigned kind) {
    if (gpu >= fleet->gpus) return -1;
    for (int i = 0; i < MAX_GIS; i++) {
        gi_t *gi = &fleet->gpu[gpu].gis[i];
        if (!gi->live || gi->start != start || !gi->cis[0].live) continue;
        for (int j = 0; j < MAX_PROCESSES; j++)
            if (!fleet->process[j].live) {
                fleet->process[j] = (process_t){1, gpu, gi->serial, pid, kind, gi->id,
                                                gi->cis[0].id, 1ull << 30};
                return 0;
            }
    }
    return -1;
}

void fake_end_process(unsigned pid) {
    for (int i = 0; i < MAX_PROCESSES; i++)
        if (fleet->process[i].pid == pid) fleet->process[i].live = 0;
}

/* The machine starts anew: no instance and no process is left; the mode may be lost as well. */
void fake_power_loss(unsigned mig_survives) {
    memset(fleet->process, 0, sizeof fleet->process);
    for (unsigned i = 0; i < fleet->gpus; i++) {
        memset(fleet->gpu[i].gis, 0, sizeof fleet->gpu[i].gis);
        if (!mig_survives) fleet->gpu[i].mig = fleet->gpu[i].pending = 0;
    }
}

/* How often somebody tried to destroy an instance that a process was using. */
unsigned fake_touched(void) { return fleet->touched; }

/* One line an instance: gpu profile start compute-instances serial processes. */
int fake_describe(char *to, unsigned size) {
    int at = 0;
    to[0] = 0;
    for (unsigned g = 0; g < fleet->gpus; g++)
        for (int i = 0; i < MAX_GIS; i++) {
            const gi_t *gi = &fleet->gpu[g].gis[i];
            if (!gi->live) continue;
            unsigned computes = 0, processes = 0;
            for (int j = 0; j < MAX_CIS; j++) computes += gi->cis[j].live;
            for (int j = 0; j < MAX_PROCESSES; j++)
                processes += fleet->process[j].live && fleet->process[j].gi_serial == gi->serial;
            at += snprintf(to + at, size - (unsigned)at, "%u %s %u %u %u %u\n", g,
                           profile_by_id(&fleet->gpu[g], gi->profile_id)->name + 4, gi->start,
                           computes, gi->serial, processes);
            if (at >= (int)size) return -1;
        }
    return at;
}
