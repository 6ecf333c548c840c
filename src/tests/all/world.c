/* Placements, communicators and the second process; see world.h. */
#include "all/world.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- processes ---- */

struct world_procs world_fork(int count)
{
    struct world_procs procs = {.count = count, .line = -1};
    int ends[2];
    if (count == 1) return procs;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    procs.me = child == 0;
    procs.line = ends[procs.me];
    close(ends[!procs.me]);
    if (procs.me == 1) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return procs;
}

static void share(struct world_procs procs, void *data, size_t bytes)
{
    if (procs.count == 1) return;
    ssize_t moved = procs.me == 0 ? send(procs.line, data, bytes, MSG_NOSIGNAL)
                                  : recv(procs.line, data, bytes, MSG_WAITALL);
    CHECK_EQ(moved, bytes);
}

void world_join(struct world_procs procs, long *numbers, int nnumbers)
{
    int status = 0;
    if (procs.count == 1) return;
    if (procs.me == 1) {
        size_t bytes = (size_t)nnumbers * sizeof *numbers;
        CHECK_EQ(send(procs.line, numbers, bytes, MSG_NOSIGNAL), bytes);
        exit(0);
    }
    for (int i = 0; i < nnumbers; i++) {
        long number = 0;
        CHECK_EQ(recv(procs.line, &number, sizeof number, MSG_WAITALL), sizeof number);
        numbers[i] += number;
    }
    CHECK(wait(&status) > 0);
    CHECK_EQ(status, 0);
    close(procs.line);
}

/* ---- placements ---- */

/* Device `index` in the order of the placement, and the process that has it. */
static int place_rank(enum world_place place, int rank, int nranks)
{
    int index = 0;
    switch (place) {
    case PLACE_EACH: return rank;
    case PLACE_EVEN: return rank % ((nranks + 1) / 2);
    case PLACE_UNEVEN:
        for (int end = 1; rank >= end; end += index + 1) index++;
        return index;
    default: return 0;
    }
}

static int find_proc(const struct world *world, enum world_place place, int rank)
{
    if (place == PLACE_EACH) return rank * world->procs.count / world->nranks;
    if (place == PLACE_ONE) return rank % world->procs.count;
    return world->device_of[rank] % world->procs.count;
}

/* Executors are numbered by their lowest rank. */
static void number_execs(struct world *world)
{
    world->nexecs = 0;
    for (int r = 0; r < world->nranks; r++) {
        int same = 0;
        while (world->proc_of[same] != world->proc_of[r] ||
               world->device_of[same] != world->device_of[r])
            same++;
        world->exec_of[r] = same == r ? world->nexecs++ : world->exec_of[same];
    }
}

int world_place(struct world *world, struct world_procs procs, enum world_place place, int nranks)
{
    int used[2] = {0, procs.count == 1};
    world->procs = procs;
    world->nranks = nranks;
    for (int r = 0; r < nranks; r++) {
        world->device_of[r] = place_rank(place, r, nranks);
        world->proc_of[r] = find_proc(world, place, r);
        used[world->proc_of[r]] = 1;
    }
    number_execs(world);
    if (place != PLACE_EACH && world->nexecs == nranks) return 0;
    if (place < PLACE_ONE && world->nexecs == 1 && nranks > 1) return 0;
    return used[0] && used[1];
}

/* ---- communicators ---- */

static void open_member(struct world *world, int rank, size_t count, ncclComm_t comm)
{
    struct world_member *member = &world->members[world->nmembers++];
    CHECK_OK(chorus_devices()->set(world->device_of[rank]));
    kit_rank_open(&member->rank, world->nranks, rank, count);
    member->rank.comm = comm;
    CHECK_OK(chorus_devices()->alloc(&member->scalar, sizeof(uint64_t)));
}

void world_open(struct world *world, size_t count)
{
    ncclUniqueId id;
    ncclComm_t comms[KIT_MAX_RANKS];
    if (world->procs.me == 0) CHECK_OK(ncclGetUniqueId(&id));
    share(world->procs, &id, sizeof id);
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < world->nranks; r++) {
        if (world->proc_of[r] != world->procs.me) continue;
        CHECK_OK(chorus_devices()->set(world->device_of[r]));
        CHECK_OK(ncclCommInitRank(&comms[r], world->nranks, id, r));
    }
    CHECK_OK(ncclGroupEnd());
    world->nmembers = 0;
    for (int r = 0; r < world->nranks; r++)
        if (world->proc_of[r] == world->procs.me) open_member(world, r, count, comms[r]);
}

void world_close(struct world *world)
{
    for (int m = 0; m < world->nmembers; m++) {
        kit_rank_close(&world->members[m].rank);
        CHECK_OK(chorus_devices()->free(world->members[m].scalar));
    }
}
