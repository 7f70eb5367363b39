/* The fleet: one small file, mapped by every process that loads the library, so that a killed
 * process leaves it as it would leave the real GPUs. */
#ifndef FAKE_NVML_FLEET_H
#define FAKE_NVML_FLEET_H

#include "abi.h"

#define MAX_GPUS 8
#define MAX_GIS 14
#define MAX_CIS 7
#define MAX_PROCESSES 64
#define MAX_STARTS 8
#define MAX_PROFILES 8

/* What a GPU model can be cut into. */
typedef struct {
    int index; /* the number in NVML's list of profile kinds; -1 ends the table */
    unsigned id, slices, width, limit, multiprocessors;
    unsigned long long memory_mb;
    const char *name;
    int starts[MAX_STARTS]; /* ended by -1 */
    int ci_index;           /* compute profile that fills it */
} profile_t;

typedef struct {
    const char *key, *name;
    unsigned pci_id; /* device and vendor */
    unsigned slices; /* compute slices in all */
    unsigned long long memory_mb;
    int mode_needs_reset;
    profile_t profiles[MAX_PROFILES];
} model_t;

typedef struct {
    uint32_t live, id, profile_id, start, size, serial;
} ci_t;

typedef struct {
    uint32_t live, id, profile_id, start, size, serial;
    ci_t cis[MAX_CIS];
} gi_t;

typedef struct {
    uint32_t model, mig, pending;
    char uuid[48];
    gi_t gis[MAX_GIS];
} gpu_t;

enum kind { COMPUTE = 0, GRAPHICS = 1, MPS = 2 };

typedef struct {
    uint32_t live, gpu, gi_serial, pid, kind, gi_id, ci_id;
    uint64_t memory_bytes;
} process_t;

typedef struct {
    uint32_t magic, gpus, next_serial, touched;
    gpu_t gpu[MAX_GPUS];
    process_t process[MAX_PROCESSES];
} fleet_t;

extern const model_t MODELS[];
extern fleet_t *fleet;

int fleet_open(const char *path);
void fleet_lock(void);
void fleet_unlock(void);
uint32_t fleet_serial(void);

const model_t *model_of(const gpu_t *gpu);
const profile_t *profile_by_index(const gpu_t *gpu, unsigned index);
const profile_t *profile_by_id(const gpu_t *gpu, unsigned id);
int model_by_key(const char *key);

handle_t handle_of_gpu(unsigned gpu);
handle_t handle_of_gi(unsigned gpu, const gi_t *gi);
handle_t handle_of_ci(unsigned gpu, const gi_t *gi, const ci_t *ci);
handle_t handle_of_mig(unsigned gpu, const gi_t *gi, const ci_t *ci);
gpu_t *gpu_of(handle_t handle, unsigned *index);
gi_t *gi_of(handle_t handle, unsigned *gpu);
ci_t *ci_of(handle_t handle, unsigned *gpu, gi_t **gi);
ci_t *mig_of(handle_t handle, unsigned *gpu, gi_t **gi);
int busy(const gi_t *gi);

enum { IGNORED = -1 };
int fake_enter(const char *function);
int fake_leave(int code);

/* An exported function: the faults asked for, then BODY with the fleet locked. */
#define EXPORT(name, params, ...)            \
    int name params;                         \
    int name params {                        \
        int code_ = fake_enter(#name);       \
        if (code_ == IGNORED) return OK;     \
        if (code_ != OK) return code_;       \
        fleet_lock();                        \
        code_ = (__VA_ARGS__);               \
        fleet_unlock();                      \
        return fake_leave(code_);            \
    }

#endif
