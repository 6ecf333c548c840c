/* Launch mode "env": RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them; one
 * process per RANK. RANK 0's process serves the hub at the address.
 */
#include "harness/ending.h"
#include "harness/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Processes of one run are told from others by what they were all given. */
enum { ENV_TOKEN = 0x656e76 };

static int read_int(const char *name, int low, int high)
{
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') perf_usage("%s is not set, --init env needs it", name);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < low || value > high)
        perf_usage("%s: '%s' is not in [%d, %d]", name, text, low, high);
    return (int)value;
}

/* torchrun's own store may sit at MASTER_PORT; then the next port is ours. */
static int read_port(void)
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int taken = store != NULL && strcmp(store, "True") == 0;
    return read_int("MASTER_PORT", 1, 65534) + taken;
}

static int serve(struct perf_world *world, const char *address, int port)
{
    int pair[2];
    struct perf_hub_args args = {.nprocs = world->nprocs,
                                 .ranks_per_proc = world->nlocal,
                                 .token = ENV_TOKEN,
                                 .timeout_s = perf_rendezvous_s(world->options)};
    args.listen_fd = perf_listen(NULL, &port);
    if (args.listen_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        char text[PERF_OOB_TEXT];
        snprintf(text, sizeof text, "rank 0 cannot listen at MASTER_ADDR:MASTER_PORT %s:%d: %s",
                 address, port, strerror(errno));
        perf_end(PERF_EXIT_ERROR, text);
    }
    perf_world_start_hub(world, &args);
    perf_hub_add(world->hub, 0, pair[0]);
    return pair[1];
}

static void open_env(struct perf_world *world)
{
    const char *address = getenv("MASTER_ADDR");
    if (address == NULL || address[0] == '\0')
        perf_usage("MASTER_ADDR is not set, --init env needs it");
    int port = read_port();
    world->nprocs = read_int("WORLD_SIZE", 1, 1 << 16);
    world->proc = read_int("RANK", 0, world->nprocs - 1);
    int fd;
    if (world->proc == 0)
        fd = serve(world, address, port);
    else
        fd = perf_connect(address, port, perf_rendezvous_s(world->options));
    if (fd < 0) {
        char text[PERF_OOB_TEXT];
        snprintf(text, sizeof text,
                 "rendezvous: process %d cannot reach rank 0 at MASTER_ADDR:MASTER_PORT %s:%d: %s",
                 world->proc, address, port, strerror(errno));
        perf_end(PERF_EXIT_TIMEOUT, text);
    }
    perf_world_link(world, fd, ENV_TOKEN, "rank 0's process");
}

const struct perf_world_ops perf_world_env = {
    .name = "env",
    .open = open_env,
    .init = perf_comms_init_ranks,
};
