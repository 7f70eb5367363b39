/* NVML's binary interface as far as Berth uses it, declared anew from the published reference:
 * return codes, structures by value and by pointer. Nothing here comes from NVIDIA's header. */
#ifndef FAKE_NVML_ABI_H
#define FAKE_NVML_ABI_H

#include <stdint.h>

enum nvml_code {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    RESET_REQUIRED = 16,
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999
};

/* Opaque to the caller: the kind, where it is and the serial number, never dereferenced. */
typedef uint64_t handle_t;

typedef struct {
    unsigned start;
    unsigned size;
} placement_t;

typedef struct {
    unsigned id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs,
        ofas;
    unsigned long long memory_mb;
} gi_profile_v1_t;

typedef struct {
    unsigned version, id, p2p, slices, instances, multiprocessors, copy_engines, decoders, encoders,
        jpegs, ofas;
    unsigned long long memory_mb;
    char name[96];
} gi_profile_v2_t;

#define GI_PROFILE_V2 (0x02000000u | (unsigned)sizeof(gi_profile_v2_t))

typedef struct {
    handle_t device;
    unsigned id;
    unsigned profile_id;
    placement_t placement;
} gi_info_t;

typedef struct {
    unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
} ci_profile_v1_t;

typedef struct {
    unsigned version, id, slices, instances, multiprocessors, copy_engines, decoders, encoders,
        jpegs, ofas;
    char name[96];
} ci_profile_v2_t;

#define CI_PROFILE_V2 (0x02000000u | (unsigned)sizeof(ci_profile_v2_t))

typedef struct {
    handle_t device;
    handle_t gpu_instance;
    unsigned id;
    unsigned profile_id;
    placement_t placement;
} ci_info_t;

typedef struct {
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gi_id;
    unsigned ci_id;
} process_info_t;

typedef struct {
    unsigned long long total, free, used;
} memory_t;

typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gi_slices, ci_slices;
    unsigned long long memory_mb;
} attributes_t;

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

#endif
