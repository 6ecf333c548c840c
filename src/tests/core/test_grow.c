/* Communicators that grow by ranks of the same process: who brings the id, and ids that are used.
 */
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

static const struct test_case cases[] = {
    {"grow: sizes, coordinators", test_grow, 0},
    {"grow: an id that was used", test_used_id, 0},
};
TEST_LIB_MAIN(cases)
