/* Kits of communicators that came out of others. */
#include "core/family.h"

#include <string.h>

static int rank_of(ncclComm_t comm)
{
    int rank;
    CHECK_OK(ncclCommUserRank(comm, &rank));
    return rank;
}

/* How many of the new ranks in this process come before it; they may be of different ones. */
static int place_of(const struct kit *parent, ncclComm_t *comms, int r)
{
    int place = 0, own = rank_of(comms[r]);
    for (int q = 0; q < parent->nranks; q++) {
        if (comms[q] == NULL) continue;
        int other = rank_of(comms[q]);
        place += other < own || (other == own && q < r);
    }
    return place;
}

void family_adopt(struct kit *child, const struct kit *parent, ncclComm_t *comms)
{
    int before;
    CHECK_OK(chorus_devices()->get(&before));
    memset(child, 0, sizeof *child);
    child->ndevices = parent->ndevices;
    for (int r = 0; r < parent->nranks; r++) {
        int nranks;
        if (comms[r] == NULL) continue;
        struct kit_rank *rank = &child->ranks[place_of(parent, comms, r)];
        CHECK_OK(ncclCommCount(comms[r], &nranks));
        CHECK_OK(chorus_devices()->set(parent->ranks[r].device));
        kit_rank_open(rank, nranks, rank_of(comms[r]), FAMILY_COUNT);
        rank->comm = comms[r];
        child->nranks++;
    }
    CHECK_OK(chorus_devices()->set(before));
}

void family_use(struct kit *kit)
{
    struct kit_op reduce = kit_simple(KIT_ALL_REDUCE, FAMILY_COUNT);
    struct kit_op all = kit_simple(KIT_ALL_TO_ALL, FAMILY_COUNT);
    kit_run(kit, &reduce);
    kit_run(kit, &all);
}

void family_try(const struct kit *parent, ncclComm_t *comms)
{
    struct kit child;
    family_adopt(&child, parent, comms);
    if (child.nranks > 0) family_use(&child);
    kit_close(&child);
}
