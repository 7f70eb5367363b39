/* Halo exchange: packs three variables' border for 26 neighbours, then unpacks it into the halo. */
#include "kernels.h"

enum { NEIGHBOURS = 26, VARIABLES = 3, HALO = 1 };

/* Arrays of the work set. */
enum { PACK_LIST = VARIABLES, UNPACK_LIST, BUFFERS, OFFSETS };

static void halo_plan(struct plan *p, int64_t target)
{
    const int64_t side = cube_root(target), wide = side + 2 * HALO;
    const int64_t border = wide * wide * wide - side * side * side;
    p->n = side;
    p->size = side * side * side;
    p->iterations = VARIABLES * border;
    p->launches = 2 * NEIGHBOURS * VARIABLES;
    p->bytes = 40 * p->iterations;
    plan_arrays(p, wide * wide * wide, "PPP");
    plan_ints(p, border, FILL_ZERO);
    plan_ints(p, border, FILL_ZERO);
    plan_arrays(p, VARIABLES * border, "r");
    plan_indices(p, NEIGHBOURS + 1);
}

static void halo_fused_plan(struct plan *p, int64_t target)
{
    halo_plan(p, target);
    p->launches = 2;
}

/* The cells that face a neighbour along one axis: within the grid (pack) or in the halo. */
static void extent(int direction, int64_t side, bool pack, int64_t *begin, int64_t *end)
{
    *begin = HALO;
    *end = side + HALO;
    if (direction < 0) {
        *begin = pack ? HALO : 0;
        *end = *begin + HALO;
    } else if (direction > 0) {
        *begin = pack ? side : side + HALO;
        *end = *begin + HALO;
    }
}

static int64_t list_cells(const int direction[3], int64_t side, bool pack, int *list)
{
    const int64_t wide = side + 2 * HALO;
    int64_t begin[3], end[3], count = 0;
    for (int axis = 0; axis < 3; axis++)
        extent(direction[axis], side, pack, &begin[axis], &end[axis]);
    for (int64_t k = begin[2]; k < end[2]; k++)
        for (int64_t j = begin[1]; j < end[1]; j++)
            for (int64_t i = begin[0]; i < end[0]; i++)
                list[count++] = (int)(i + wide * (j + wide * k));
    return count;
}

static void halo_prepare(struct work *w)
{
    int *pack = w->array[PACK_LIST], *unpack = w->array[UNPACK_LIST];
    int64_t *offsets = w->array[OFFSETS];
    int neighbour = 0;
    /* Faces, then edges, then corners. */
    for (int kind = 1; kind <= 3; kind++) {
        for (int code = 0; code < 27; code++) {
            const int direction[3] = {code % 3 - 1, code / 3 % 3 - 1, code / 9 - 1};
            int axes = 0;
            for (int axis = 0; axis < 3; axis++)
                axes += direction[axis] != 0;
            if (axes != kind)
                continue;
            const int64_t offset = offsets[neighbour++];
            list_cells(direction, w->plan.n, false, unpack + offset);
            offsets[neighbour] =
                offset + list_cells(direction, w->plan.n, true, pack + offset);
        }
    }
}

static void halo(struct work *w)
{
    const int64_t *offsets = w->array[OFFSETS];
    for (int l = 0; l < NEIGHBOURS; l++) {
        const int64_t length = offsets[l + 1] - offsets[l];
        const int *list = (const int *)w->array[PACK_LIST] + offsets[l];
        double *buffer = (double *)w->array[BUFFERS] + VARIABLES * offsets[l];
        for (int v = 0; v < VARIABLES; v++) {
            const double *variable = w->array[v];
            OMP(parallel for)
            for (int64_t i = 0; i < length; i++)
                buffer[i] = variable[list[i]];
            buffer += length;
        }
    }
    for (int l = 0; l < NEIGHBOURS; l++) {
        const int64_t length = offsets[l + 1] - offsets[l];
        const int *list = (const int *)w->array[UNPACK_LIST] + offsets[l];
        const double *buffer = (const double *)w->array[BUFFERS] + VARIABLES * offsets[l];
        for (int v = 0; v < VARIABLES; v++) {
            double *variable = w->array[v];
            OMP(parallel for)
            for (int64_t i = 0; i < length; i++)
                variable[list[i]] = buffer[i];
            buffer += length;
        }
    }
}

struct part {
    double *buffer;
    const int *list;
    double *variable;
    int64_t length;
};

static void collect(struct work *w, int lists, struct part parts[NEIGHBOURS * VARIABLES])
{
    const int64_t *offsets = w->array[OFFSETS];
    for (int l = 0; l < NEIGHBOURS; l++) {
        const int64_t length = offsets[l + 1] - offsets[l];
        double *buffer = (double *)w->array[BUFFERS] + VARIABLES * offsets[l];
        for (int v = 0; v < VARIABLES; v++) {
            *parts++ = (struct part){buffer, (const int *)w->array[lists] + offsets[l],
                                     w->array[v], length};
            buffer += length;
        }
    }
}

/* The same with all packing in one parallel loop and all unpacking in another. */
static void halo_fused(struct work *w)
{
    struct part parts[NEIGHBOURS * VARIABLES];
    collect(w, PACK_LIST, parts);
    OMP(parallel for schedule(dynamic))
    for (int j = 0; j < NEIGHBOURS * VARIABLES; j++) {
        const struct part part = parts[j];
        for (int64_t i = 0; i < part.length; i++)
            part.buffer[i] = part.variable[part.list[i]];
    }
    collect(w, UNPACK_LIST, parts);
    OMP(parallel for schedule(dynamic))
    for (int j = 0; j < NEIGHBOURS * VARIABLES; j++) {
        const struct part part = parts[j];
        for (int64_t i = 0; i < part.length; i++)
            part.variable[part.list[i]] = part.buffer[i];
    }
}

static const struct kernel kernels[] = {
    {"Apps_HALOEXCHANGE", halo_plan, halo_prepare, halo},
    {"Apps_HALOEXCHANGE_FUSED", halo_fused_plan, halo_prepare, halo_fused},
};

KERNEL_GROUP(apps_halo_group, "Apps", kernels);
