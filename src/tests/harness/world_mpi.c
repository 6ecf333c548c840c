/* Launch mode "mpi": processes started by mpirun or srun. MPI, loaded as a plugin, tells everyone
 * where rank 0's process serves the hub. What the launcher started stays as the supervisor of the
 * process that works, so that a killed rank is named and mpirun returns the right code.
 */
#define _GNU_SOURCE
#include "harness/ending.h"
#include "harness/help.h"
#include "harness/mpi_plugin.h"
#include "harness/signals.h"
#include "harness/world.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ADDRESSES = 4, GRACE_MS = 300, OTHERS_MS = 2000, TRY_S = 10 };

/* How to reach a process's hub. */
struct contact {
    char host[64];
    uint64_t token;
    int port;
    char addresses[MAX_ADDRESSES][INET_ADDRSTRLEN];
};

/* Opens the plugin; NULL and why it cannot be. */
static const struct perf_mpi_plugin *load_plugin(char *why, size_t bytes)
{
    char path[PATH_MAX];
    snprintf(why, bytes, "no such file");
    if (!perf_mpi_plugin_path(path, sizeof path)) return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const struct perf_mpi_plugin *plugin = handle != NULL ? dlsym(handle, PERF_MPI_SYMBOL) : NULL;
    if (plugin != NULL && plugin->version == PERF_MPI_PLUGIN_VERSION) return plugin;
    snprintf(why, bytes, "%s", handle == NULL ? dlerror() : "it is of another version");
    return NULL;
}

static const struct perf_mpi_plugin *need_plugin(void)
{
    char why[256], text[PERF_OOB_TEXT];
    const struct perf_mpi_plugin *plugin = load_plugin(why, sizeof why);
    if (plugin != NULL) return plugin;
    const char *variable = perf_launcher_variable();
    snprintf(text, sizeof text,
             "%s%sthe MPI plugin chorus_mpi.so beside this driver cannot be loaded (%s): build it "
             "with `make MPI=1 MPI_HOME=...` where mpicc is, or use --spawn N",
             variable != NULL ? variable : "", variable != NULL ? " is above 1, but " : "", why);
    fprintf(stderr, "%s: %s\n", perf_program(), text);
    exit(PERF_EXIT_ERROR);
}

/* The number that the launcher gave this process; -1: it does not say. */
static int launcher_proc(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL) return atoi(getenv(names[i]));
    return -1;
}

/* "rank 3", "ranks 4-7", or what can be said of a process that died before MPI numbered it. */
static void name_ranks(int proc, int nlocal, char *text, size_t bytes)
{
    int first = proc * nlocal;
    if (proc < 0)
        snprintf(text, bytes, "a process that has no rank yet");
    else if (nlocal == 1)
        snprintf(text, bytes, "rank %d", first);
    else
        snprintf(text, bytes, "ranks %d-%d", first, first + nlocal - 1);
}

/* Waits for the worker; when it was killed, gives the others time to say so too. proc: written by
 * the worker once MPI has numbered it. */
static _Noreturn void supervise(pid_t worker, int signal_fd, const _Atomic int *proc, int nlocal)
{
    int status = 0;
    for (;;) {
        struct pollfd ready = {.fd = signal_fd, .events = POLLIN};
        poll(&ready, 1, 1000);
        int number = perf_signals_next(signal_fd);
        if (waitpid(worker, &status, WNOHANG) == worker) break;
        if (number == 0 || number == SIGCHLD) continue;
        /* A launcher that ends everybody does so because one has failed: the worker has often
         * been told why, and should end for that reason rather than for this signal. */
        poll(NULL, 0, GRACE_MS);
        if (waitpid(worker, &status, WNOHANG) == worker) break;
        kill(worker, number);
    }
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    char ranks[64];
    name_ranks(atomic_load(proc), nlocal, ranks, sizeof ranks);
    fprintf(stderr, "%s: %s (pid %d) was killed by signal %d (%s)\n", perf_program(), ranks,
            (int)worker, WTERMSIG(status), strsignal(WTERMSIG(status)));
    struct pollfd ready = {.fd = signal_fd, .events = POLLIN};
    poll(&ready, 1, OTHERS_MS); /* the launcher says that the others have ended */
    _exit(PERF_EXIT_ERROR);
}

/* Returns in the worker, with the place for its number. */
static _Atomic int *leave_supervisor(int nlocal)
{
    pid_t parent = getpid();
    _Atomic int *proc =
        mmap(NULL, sizeof *proc, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (proc == MAP_FAILED) perf_end(PERF_EXIT_ERROR, "out of memory");
    atomic_store(proc, launcher_proc());
    perf_signals_block(1);
    int signal_fd = perf_signals_open(1);
    fflush(NULL);
    pid_t worker = fork();
    if (worker > 0) supervise(worker, signal_fd, proc, nlocal);
    if (signal_fd >= 0) close(signal_fd);
    if (worker < 0) return proc; /* then without one */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(PERF_EXIT_ERROR);
    return proc;
}

static void list_addresses(struct contact *contact)
{
    struct ifaddrs *list = NULL;
    int n = 0;
    if (getifaddrs(&list) != 0) return;
    for (struct ifaddrs *a = list; a != NULL && n < MAX_ADDRESSES; a = a->ifa_next) {
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET) continue;
        if ((a->ifa_flags & IFF_LOOPBACK) != 0 || (a->ifa_flags & IFF_UP) == 0) continue;
        const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)a->ifa_addr;
        inet_ntop(AF_INET, &address->sin_addr, contact->addresses[n++], INET_ADDRSTRLEN);
    }
    freeifaddrs(list);
}

/* Rank 0's process serves the hub and connects itself by a pair of sockets. */
static int serve(struct perf_world *world, struct contact *contact)
{
    int pair[2];
    struct perf_hub_args args = {.nprocs = world->nprocs,
                                 .ranks_per_proc = world->nlocal,
                                 .timeout_s = perf_rendezvous_s(world->options)};
    args.listen_fd = perf_listen(NULL, &contact->port);
    if (args.listen_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        contact->port = 0;
        return -1;
    }
    if (getrandom(&contact->token, sizeof contact->token, 0) < 0) contact->token = 1;
    args.token = contact->token;
    list_addresses(contact);
    perf_world_start_hub(world, &args);
    perf_hub_add(world->hub, 0, pair[0]);
    return pair[1];
}

static int reach(const struct contact *hub, const char *host)
{
    if (strcmp(hub->host, host) == 0) return perf_connect("127.0.0.1", hub->port, TRY_S);
    int fd = -1;
    for (int i = 0; i < MAX_ADDRESSES && fd < 0; i++)
        if (hub->addresses[i][0] != '\0') fd = perf_connect(hub->addresses[i], hub->port, TRY_S);
    return fd;
}

static void open_mpi(struct perf_world *world)
{
    _Atomic int *proc = leave_supervisor(world->nlocal);
    const struct perf_mpi_plugin *plugin = need_plugin();
    if (plugin->init() != 0) perf_end(PERF_EXIT_ERROR, "MPI_Init failed");
    world->proc = plugin->rank();
    atomic_store(proc, world->proc);
    munmap((void *)proc, sizeof *proc);
    world->nprocs = plugin->size();
    struct contact mine;
    memset(&mine, 0, sizeof mine);
    gethostname(mine.host, sizeof mine.host - 1);
    int fd = world->proc == 0 ? serve(world, &mine) : -1;
    struct contact *all = calloc((size_t)world->nprocs, sizeof *all);
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    int failed = plugin->allgather(&mine, all, sizeof mine);
    if (failed != 0) perf_end(PERF_EXIT_ERROR, "MPI_Allgather failed in the rendezvous");
    if (world->proc > 0 && all[0].port != 0) fd = reach(&all[0], mine.host);
    plugin->finalize();
    if (fd < 0) {
        char text[PERF_OOB_TEXT];
        snprintf(text, sizeof text, "rendezvous: process %d cannot reach rank 0 on %s, port %d: %s",
                 world->proc, all[0].host, all[0].port, strerror(errno));
        perf_end(PERF_EXIT_ERROR, text);
    }
    perf_world_link(world, fd, all[0].token, "rank 0's process");
    free(all);
}

const struct perf_world_ops perf_world_mpi = {
    .name = "mpi",
    .open = open_mpi,
    .init = perf_comms_init_ranks,
    .ends_at_once = 1,
};
