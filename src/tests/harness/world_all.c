/* Launch mode "all": one process, one thread, communicators by ncclCommInitAll. */
#include "harness/world.h"

static void open_all(struct perf_world *world)
{
    world->nprocs = 1;
    world->proc = 0;
}

const struct perf_world_ops perf_world_all = {
    .name = "all",
    .open = open_all,
    .init = perf_comms_init_all,
};
