/* Small messages between the ranks of a node, as MPI libraries pass them through shared memory: cells
 * of a ring for each pair, receives that wait for a message and messages that wait for a receive,
 * matched by source and tag. All ranks take turns in one process, so that the work of it is counted
 * and timed on one core; what waiting for another core costs, `bench` measures.
 */
#include <string.h>

#include "kernels.h"

enum { MESSAGE_RANKS = 8, MESSAGE_MOST = 32 }; /* integers in a message */

enum { CELLS = 4, WAITING = 64, NONE = -1 };

struct cell {
    int tag, count;
    int payload[MESSAGE_MOST];
};

/* From one rank to another. */
struct ring {
    unsigned written, read;
    struct cell cells[CELLS];
};

struct receive {
    int source, tag, next;
    int *into;
};

struct early {
    int source, next;
    struct cell cell;
};

struct rank {
    int first_receive, free_receive, first_early, free_early;
    struct receive receives[WAITING];
    struct early early[WAITING];
};

static struct ring rings[MESSAGE_RANKS][MESSAGE_RANKS];
static struct rank ranks[MESSAGE_RANKS];

static void start_rank(struct rank *r)
{
    for (int i = 0; i < WAITING; i++)
        r->receives[i].next = r->early[i].next = i + 1 < WAITING ? i + 1 : NONE;
    r->free_receive = r->free_early = 0;
    r->first_receive = r->first_early = NONE;
}

/* Unlink from one list, put on another. */
#define MOVE(r, items, from, to)                                                                   \
    do {                                                                                           \
        const int moved_ = *(from);                                                                \
        *(from) = (r)->items[moved_].next;                                                         \
        (r)->items[moved_].next = *(to);                                                           \
        *(to) = moved_;                                                                            \
    } while (0)

/* Into the receive that waits for it, or kept until there is one. */
static void deliver(struct rank *r, int source, const struct cell *cell)
{
    int *link = &r->first_receive;
    while (*link != NONE) {
        struct receive *one = &r->receives[*link];
        if (one->source == source && one->tag == cell->tag) {
            memcpy(one->into, cell->payload, (size_t)cell->count * sizeof(int));
            MOVE(r, receives, link, &r->free_receive);
            return;
        }
        link = &one->next;
    }
    struct early *kept = &r->early[r->free_early];
    kept->source = source;
    kept->cell.tag = cell->tag;
    kept->cell.count = cell->count;
    memcpy(kept->cell.payload, cell->payload, (size_t)cell->count * sizeof(int));
    MOVE(r, early, &r->free_early, &r->first_early);
}

static void progress(int rank)
{
    for (int source = 0; source < MESSAGE_RANKS; source++) {
        struct ring *ring = &rings[source][rank];
        while (ring->read != ring->written)
            deliver(&ranks[rank], source, &ring->cells[ring->read++ % CELLS]);
    }
}

static void post(int rank, int source, int tag, int *into)
{
    struct rank *r = &ranks[rank];
    for (int *link = &r->first_early; *link != NONE; link = &r->early[*link].next) {
        const struct early *one = &r->early[*link];
        if (one->source == source && one->cell.tag == tag) {
            memcpy(into, one->cell.payload, (size_t)one->cell.count * sizeof(int));
            MOVE(r, early, link, &r->free_early);
            return;
        }
    }
    r->receives[r->free_receive] = (struct receive){
        source, tag, r->receives[r->free_receive].next, into,
    };
    MOVE(r, receives, &r->free_receive, &r->first_receive);
}

static void send(int rank, int to, int tag, const int *from, int count)
{
    struct ring *ring = &rings[rank][to];
    while (ring->written - ring->read == CELLS)
        progress(to);
    struct cell *cell = &ring->cells[ring->written % CELLS];
    cell->tag = tag;
    cell->count = count;
    memcpy(cell->payload, from, (size_t)count * sizeof(int));
    ring->written++;
}

static void exchange_plan(struct plan *p, int64_t n)
{
    plan_loop(p, n, 2 * 4, 0);
    p->m = (n + MESSAGE_RANKS - 1) / MESSAGE_RANKS;
    plan_ints(p, n, FILL_ZERO);
    plan_int_output(p, n, FILL_ZERO);
}

static void exchange_prepare(struct work *w)
{
    int *own = w->array[0];
    for (int64_t i = 0; i < w->plan.n; i++)
        own[i] = (int)mix((uint64_t)i);
}

/* Each rank sends its part to the others in turn; half of the receives are posted too late. */
static void exchange(struct work *w)
{
    const int *own = w->array[0];
    int *got = w->array[1];
    memset(rings, 0, sizeof rings);
    for (int rank = 0; rank < MESSAGE_RANKS; rank++)
        start_rank(&ranks[rank]);
    int64_t done = 0;
    for (int round = 0; done < w->plan.m; round++) {
        const uint64_t hash = mix((uint64_t)round);
        const int64_t left = w->plan.m - done;
        const int most = 1 + (int)(hash % MESSAGE_MOST), shift = 1 + round % (MESSAGE_RANKS - 1);
        const int64_t length = left < most ? left : most;
        for (int late = 0; late < 2; late++) {
            for (int rank = 0; rank < MESSAGE_RANKS; rank++) {
                const int source = (rank + MESSAGE_RANKS - shift) % MESSAGE_RANKS;
                const int64_t at = source * w->plan.m + done;
                if (at < w->plan.n && (int)(hash >> (8 + rank) & 1) == late)
                    post(rank, source, round, got + at);
            }
            for (int rank = 0; late == 0 && rank < MESSAGE_RANKS; rank++) {
                const int64_t at = rank * w->plan.m + done, rest = w->plan.n - at;
                if (rest > 0)
                    send(rank, (rank + shift) % MESSAGE_RANKS, round, own + at,
                         (int)(rest < length ? rest : length));
            }
            for (int rank = 0; rank < MESSAGE_RANKS; rank++)
                progress(rank);
        }
        done += length;
    }
}

static const struct kernel kernels[] = {
    {"Message_EXCHANGE", exchange_plan, exchange_prepare, exchange},
};

KERNEL_GROUP(message_group, "Message", kernels);
