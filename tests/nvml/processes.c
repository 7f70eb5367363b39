/* Processes: of a MIG device, or of a whole GPU (then with the instance of each). */
#include "fleet.h"

int fake_privileged(void);

static int list(handle_t device, unsigned *count, process_info_t *to, unsigned kind) {
    unsigned gpu, found = 0;
    gi_t *gi = 0;
    ci_t *ci = 0;
    if (!count) return INVALID_ARGUMENT;
    if (!gpu_of(device, &gpu) && !(ci = mig_of(device, &gpu, &gi))) return INVALID_ARGUMENT;
    if (!ci && fleet->gpu[gpu].mig && !fake_privileged()) return NO_PERMISSION;
    for (int pass = 0; pass < 2; pass++) {
        found = 0;
        for (int i = 0; i < MAX_PROCESSES; i++) {
            const process_t *p = &fleet->process[i];
            if (!p->live || p->kind != kind || p->gpu != gpu) continue;
            if (ci && (p->gi_serial != gi->serial || p->ci_id != ci->id)) continue;
            if (pass) to[found] = (process_info_t){p->pid, p->memory_bytes, p->gi_id, p->ci_id};
            found++;
        }
        if (!pass && (found > *count || (found && !to))) {
            *count = found;
            return INSUFFICIENT_SIZE;
        }
        if (!found) break;
    }
    *count = found;
    return OK;
}

EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, (handle_t d, unsigned *count, process_info_t *to),
       list(d, count, to, COMPUTE))
EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, (handle_t d, unsigned *count, process_info_t *to),
       list(d, count, to, GRAPHICS))
EXPORT(nvmlDeviceGetMPSComputeRunningProcesses_v3,
       (handle_t d, unsigned *count, process_info_t *to), list(d, count, to, MPS))
