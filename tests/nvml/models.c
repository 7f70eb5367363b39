/* Four GPU models as data: profile numbers, slices and placements as NVIDIA's MIG guide and
 * `nvidia-smi mig -lgip` print them. */
#include "fleet.h"

#include <string.h>

#define SEVEN(m1, m1d, m2, m3, m4, m7, n1, n1m, n1d, n2, n3, n4, n7, s1, s1d, s2, s3, s4, s7) \
    {                                                                                             \
        {0, 19, 1, 1, 7, s1, m1, n1, {0, 1, 2, 3, 4, 5, 6, -1}, 0},                               \
        {7, 20, 1, 1, 1, s1, m1, n1m, {0, 1, 2, 3, 4, 5, 6, -1}, 0},                              \
        {9, 15, 1, 2, 4, s1d, m1d, n1d, {0, 2, 4, 6, -1}, 7},                                     \
        {1, 14, 2, 2, 3, s2, m2, n2, {0, 2, 4, -1}, 1},                                           \
        {2, 9, 3, 4, 2, s3, m3, n3, {0, 4, -1}, 2},                                               \
        {3, 5, 4, 4, 1, s4, m4, n4, {0, -1}, 3},                                                  \
        {4, 0, 7, 8, 1, s7, m7, n7, {0, -1}, 4},                                                  \
        {-1, 0, 0, 0, 0, 0, 0, 0, {-1}, 0},                                                       \
    }

const model_t MODELS[] = {
    {"a30", "NVIDIA A30", 0x20B710DE, 4, 24576, 1,
     {{0, 14, 1, 1, 4, 14, 5952, "MIG 1g.6gb", {0, 1, 2, 3, -1}, 0},
      {7, 21, 1, 1, 1, 14, 5952, "MIG 1g.6gb+me", {0, 1, 2, 3, -1}, 0},
      {1, 5, 2, 2, 2, 28, 12032, "MIG 2g.12gb", {0, 2, -1}, 1},
      {8, 6, 2, 2, 1, 28, 12032, "MIG 2g.12gb+me", {0, 2, -1}, 1},
      {3, 0, 4, 4, 1, 56, 24192, "MIG 4g.24gb", {0, -1}, 3},
      {-1, 0, 0, 0, 0, 0, 0, 0, {-1}, 0}}},
    {"a100-40", "NVIDIA A100-SXM4-40GB", 0x20B010DE, 7, 40960, 1,
     SEVEN(4864, 9984, 9984, 20096, 20096, 40448, "MIG 1g.5gb", "MIG 1g.5gb+me", "MIG 1g.10gb",
           "MIG 2g.10gb", "MIG 3g.20gb", "MIG 4g.20gb", "MIG 7g.40gb", 14, 14, 28, 42, 56, 98)},
    {"h100-80", "NVIDIA H100 80GB HBM3", 0x233010DE, 7, 81559, 0,
     SEVEN(9984, 20096, 20096, 40320, 40320, 81408, "MIG 1g.10gb", "MIG 1g.10gb+me",
           "MIG 1g.20gb", "MIG 2g.20gb", "MIG 3g.40gb", "MIG 4g.40gb", "MIG 7g.80gb", 16, 26, 32,
           60, 64, 132)},
    {"h200", "NVIDIA H200", 0x233510DE, 7, 143771, 0,
     SEVEN(16384, 33280, 33280, 71168, 71168, 143360, "MIG 1g.18gb", "MIG 1g.18gb+me",
           "MIG 1g.35gb", "MIG 2g.35gb", "MIG 3g.71gb", "MIG 4g.71gb", "MIG 7g.141gb", 16, 26, 32,
           60, 64, 132)},
    {"v100", "Tesla V100-SXM2-16GB", 0x1DB110DE, 0, 16384, 0, {{-1, 0, 0, 0, 0, 0, 0, 0, {-1}, 0}}},
    {0},
};

int model_by_key(const char *key) {
    for (int i = 0; MODELS[i].key; i++)
        if (strcmp(MODELS[i].key, key) == 0) return i;
    return -1;
}

const model_t *model_of(const gpu_t *gpu) { return &MODELS[gpu->model]; }

const profile_t *profile_by_index(const gpu_t *gpu, unsigned index) {
    for (const profile_t *p = model_of(gpu)->profiles; p->index >= 0; p++)
        if ((unsigned)p->index == index) return p;
    return 0;
}

const profile_t *profile_by_id(const gpu_t *gpu, unsigned id) {
    for (const profile_t *p = model_of(gpu)->profiles; p->index >= 0; p++)
        if (p->id == id) return p;
    return 0;
}
