/* shape.c: where ranks sit, and slots from it. */
#include "sim/shape.h"

static int place_rank(enum shape_kind kind, int rank, int nranks)
{
    int e = 0;
    switch (kind) {
    case ONE_EACH: return rank;
    case PAIRS: return rank / 2;
    case INTERLEAVED: return rank % (nranks < 3 ? nranks : 3);
    case UNEVEN:
        for (int end = 1; rank >= end; end += e + 1) e++;
        return e;
    default: return 0;
    }
}

int shape_make(struct shape *shape, enum shape_kind kind, int nranks, enum ccl_mapped mapped)
{
    uint16_t slot = 0;
    shape->nranks = nranks;
    shape->nexecs = 0;
    for (int r = 0; r < nranks; r++) {
        int e = place_rank(kind, r, nranks);
        shape->exec_of[r] = (uint16_t)e;
        if (e + 1 > shape->nexecs) shape->nexecs = e + 1;
    }
    for (int e = 0; e < shape->nexecs; e++) {
        shape->first_slot[e] = slot;
        for (int r = 0; r < nranks; r++)
            if (shape->exec_of[r] == e) {
                shape->rank_of[slot] = (uint16_t)r;
                shape->slot_of[r] = slot++;
            }
        if (slot - shape->first_slot[e] > CCL_MAX_LOCAL) return 0;
    }
    shape->first_slot[shape->nexecs] = slot;
    shape->view = (struct ccl_view){.nranks = (uint16_t)nranks,
                                    .nexecs = (uint16_t)shape->nexecs,
                                    .first_slot = shape->first_slot,
                                    .rank_of = shape->rank_of,
                                    .slot_of = shape->slot_of,
                                    .mapped = mapped};
    return 1;
}

int shape_has_root(enum ccl_sched_coll coll)
{
    return coll == CCL_SCHED_REDUCE || coll == CCL_SCHED_BROADCAST || coll == CCL_SCHED_GATHER ||
           coll == CCL_SCHED_SCATTER;
}
