/* Launch mode "thread": one process with a thread per -t; communicators one by one, from the main
 * thread (-p 0) or from each thread (-p 1).
 */
#include "harness/world.h"

static void open_thread(struct perf_world *world)
{
    world->nprocs = 1;
    world->proc = 0;
}

const struct perf_world_ops perf_world_thread = {
    .name = "thread",
    .open = open_thread,
    .init = perf_comms_init_ranks,
};
