/* Communicators that grow by ranks of the same process, and families at bad times: ids that are
 * used, revocations side by side, ends within a group. */
#include "core/family.h"
#include "unit/memory.h"

#include <string.h>

enum { COUNT = FAMILY_COUNT, MAX = 16 };

struct newcomer {
    ncclUniqueId id;
    struct kit *kit;
    int nranks, nold, coordinator;
    ncclComm_t comms[MAX];
};

static void grow_in_thread(void *arg, int r)
{
    struct newcomer *all = arg;
    int is_old = r < all->nold;
    if (is_old) {
        const ncclUniqueId *id = r == all->coordinator ? &all->id : NULL;
        CHECK_OK(ncclCommGrow(all->kit->ranks[r].comm, all->nranks, id, -1, &all->comms[r], NULL));
        return;
    }
    CHECK_OK(chorus_devices()->set(test_device(r % all->kit->ndevices)));
    CHECK_OK(ncclCommGrow(NULL, all->nranks, &all->id, r, &all->comms[r], NULL));
}

static void test_grow(void)
{
    static const int sizes[][3] = {{1, 2, 0}, {2, 5, 1}, {3, 8, 2}, {7, 8, 0}};
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        struct kit kit, grown;
        struct newcomer all = {
            .kit = &kit, .nold = sizes[s][0], .nranks = sizes[s][1], .coordinator = sizes[s][2]};
        kit_open(&kit, all.nold, 3, COUNT);
        CHECK_OK(ncclCommGetUniqueId(kit.ranks[all.coordinator].comm, &all.id));
        kit_threads(all.nranks, grow_in_thread, &all);
        memset(&grown, 0, sizeof grown);
        grown.nranks = all.nranks;
        grown.ndevices = kit.ndevices;
        for (int r = 0; r < all.nranks; r++) {
            int rank, device;
            CHECK_OK(ncclCommUserRank(all.comms[r], &rank));
            CHECK_EQ(rank, r);
            CHECK_OK(ncclCommCuDevice(all.comms[r], &device));
            CHECK_OK(chorus_devices()->set(device));
            kit_rank_open(&grown.ranks[r], all.nranks, r, COUNT);
            grown.ranks[r].comm = all.comms[r];
        }
        CHECK_OK(chorus_devices()->set(0));
        family_use(&kit);
        kit_close(&kit);
        family_use(&grown);
        kit_close(&grown);
    }
}

/* An id serves one communicator. */
static void test_used_id(void)
{
    struct kit kit;
    ncclComm_t second;
    ncclUniqueId id;
    kit_open(&kit, 1, 1, COUNT);
    struct newcomer all = {.kit = &kit, .nold = 1, .nranks = 2};
    CHECK_OK(ncclCommGetUniqueId(kit.ranks[0].comm, &all.id));
    id = all.id;
    kit_threads(2, grow_in_thread, &all);
    for (int r = 0; r < 2; r++) CHECK_OK(ncclCommDestroy(all.comms[r]));
    CHECK_EQ(ncclCommGrow(NULL, 2, &id, 1, &second, NULL), ncclRemoteError);
    CHECK_HAS(ncclGetLastError(NULL), "its session is over");
    CHECK(second == NULL);
    kit_close(&kit);
}

/* ---- calls that meet others at a bad time ---- */

struct storm {
    struct kit kit;
    ncclComm_t comms[MAX];
};

/* Each of several threads revokes in its own call, and none is hit by the failure of another. */
static void shrink_in_thread(void *arg, int r)
{
    struct storm *storm = arg;
    int excluded[1] = {storm->kit.nranks - 1};
    CHECK_OK(ncclCommShrink(storm->kit.ranks[r].comm, excluded, 1, &storm->comms[r], NULL,
                            NCCL_SHRINK_ABORT));
    CHECK_OK(ncclCommDestroy(storm->comms[r]));
}

static void test_shrink_storm(void)
{
    for (int round = 0; round < (kit_is_slow() ? 20 : 100); round++) {
        struct storm storm;
        kit_open(&storm.kit, 5, 2, 1);
        kit_threads(4, shrink_in_thread, &storm);
        kit_close(&storm.kit);
    }
}

/* Ends of a communicator that the open group has calls on, and groups that change its state. */
static void test_in_group(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 1);
    for (int aborts = 0; aborts < 2; aborts++) {
        ncclComm_t child = NULL;
        kit_open(&kit, 2, 2, 1);
        CHECK_OK(ncclGroupStart());
        CHECK_OK(ncclCommSplit(kit.ranks[0].comm, 0, 0, &child, NULL));
        CHECK_OK(aborts ? ncclCommAbort(kit.ranks[0].comm) : ncclCommDestroy(kit.ranks[0].comm));
        kit.ranks[0].comm = NULL;
        CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
        CHECK_HAS(ncclGetLastError(NULL), "ended in an open group");
        CHECK(child == NULL);
        if (aborts) {
            CHECK_OK(ncclCommAbort(kit.ranks[1].comm));
            kit.ranks[1].comm = NULL;
        }
        kit_close(&kit);
    }
    kit_open(&kit, 2, 2, 1);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < 2; r++) {
        CHECK_OK(kit_call(&kit.ranks[r], &op));
        CHECK_OK(ncclCommSuspend(kit.ranks[r].comm, NCCL_SUSPEND_MEM));
    }
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);
    CHECK_HAS(ncclGetLastError(NULL), "is suspended at the end of the group");
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"grow: sizes, coordinators", test_grow, 0},
    {"grow: an id that was used", test_used_id, 0},
    {"shrink: all revoke at once", test_shrink_storm, 0},
    {"groups that end or suspend what they use", test_in_group, 0},
};
TEST_LIB_MAIN(cases)
