/* Launch mode "spawn": the process forks N children, each a process of the world, and stays as
 * their judge: it serves the hub, sees how each child ends, ends the others when one is killed,
 * and returns the code of the run. Children die with it.
 */
#define _GNU_SOURCE
#include "harness/ending.h"
#include "harness/signals.h"
#include "harness/timing.h"
#include "harness/world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SPAWN_TOKEN = 0x737061, KILL_AFTER_MS = 3500, SERVE_MS = 500 };

struct child {
    pid_t pid;
    int status; /* of waitpid */
    int ended;
    int killed_by_us;
};

static struct {
    struct child *children;
    int n, alive, code;
    uint64_t failed_ns; /* when the run failed, 0: it has not */
} judge;

/* Takes the ends of children that are there. */
static void reap(void)
{
    for (int i = 0; i < judge.n; i++) {
        struct child *child = &judge.children[i];
        if (child->ended || waitpid(child->pid, &child->status, WNOHANG) != child->pid) continue;
        child->ended = 1;
        judge.alive--;
    }
}

/* For the hub: why a child is gone. Its connection may break a moment before it can be waited
 * for. A child that left with an error code has said why. */
static int tell_reason(int proc, char *text, size_t bytes)
{
    struct child *child = &judge.children[proc];
    for (int tries = 0; !child->ended && tries < 100; tries++) {
        reap();
        struct timespec moment = {0, 10000000};
        if (!child->ended) nanosleep(&moment, NULL);
    }
    if (!child->ended) {
        if (judge.failed_ns == 0) snprintf(text, bytes, "closed its connection");
        return PERF_EXIT_ERROR;
    }
    if (WIFEXITED(child->status) && WEXITSTATUS(child->status) != 0)
        return WEXITSTATUS(child->status);
    if (WIFEXITED(child->status) && judge.failed_ns == 0)
        snprintf(text, bytes, "left in the middle of the run");
    if (WIFSIGNALED(child->status) && !child->killed_by_us)
        snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(child->status),
                 strsignal(WTERMSIG(child->status)));
    return PERF_EXIT_ERROR;
}

/* Children end themselves when told; one that is stopped or stuck is ended. */
static void press_on(struct perf_hub *hub)
{
    uint64_t now_ns = perf_clock_ns();
    if (perf_hub_failed(hub) != 0 && judge.failed_ns == 0) {
        judge.failed_ns = now_ns;
        judge.code = perf_verdict_worse(judge.code, perf_hub_failed(hub));
    }
    if (judge.failed_ns == 0 || (now_ns - judge.failed_ns) / 1000000 < KILL_AFTER_MS) return;
    for (int i = 0; i < judge.n; i++) {
        struct child *child = &judge.children[i];
        if (child->ended || child->killed_by_us) continue;
        child->killed_by_us = 1;
        kill(child->pid, SIGKILL);
    }
}

/* A signal to the parent is for the run: one child passes it on to all others. */
static void take_signals(int fd, struct perf_hub *hub)
{
    for (int number = perf_signals_next(fd); number != 0; number = perf_signals_next(fd)) {
        if (number == SIGCHLD) continue;
        char text[64];
        snprintf(text, sizeof text, "interrupted by signal %d (%s)", number, strsignal(number));
        if (perf_hub_failed(hub) == 0) fprintf(stderr, "%s: %s\n", perf_program(), text);
        perf_hub_fail(hub, PERF_EXIT_SIGNAL + number, text);
    }
}

static _Noreturn void judge_children(struct perf_hub *hub, int signal_fd)
{
    while (judge.alive > 0) {
        if (perf_hub_serve(hub, signal_fd, SERVE_MS)) take_signals(signal_fd, hub);
        reap();
        for (int i = 0; i < judge.n; i++)
            if (judge.children[i].ended) perf_hub_ended(hub, i);
        press_on(hub);
    }
    press_on(hub);
    for (int i = 0; i < judge.n; i++) {
        int status = judge.children[i].status;
        if (WIFEXITED(status)) judge.code = perf_verdict_worse(judge.code, WEXITSTATUS(status));
    }
    perf_hub_close(hub);
    free(judge.children);
    exit(judge.code);
}

static void become_child(struct perf_world *world, int proc, int fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(PERF_EXIT_ERROR); /* it died before the line above */
    world->proc = proc;
    world->nprocs = world->options->spawn;
    perf_world_link(world, fd, SPAWN_TOKEN, "the parent of --spawn");
}

static void open_spawn(struct perf_world *world)
{
    int n = world->options->spawn, pair[2];
    pid_t parent = getpid();
    struct perf_hub_args args = {.nprocs = n,
                                 .ranks_per_proc = world->nlocal,
                                 .listen_fd = -1,
                                 .token = SPAWN_TOKEN,
                                 .timeout_s = perf_rendezvous_s(world->options),
                                 .reason = tell_reason};
    perf_signals_block(1);
    int signal_fd = perf_signals_open(1);
    struct perf_hub *hub = perf_hub_open(&args);
    judge.children = calloc((size_t)n, sizeof *judge.children);
    if (judge.children == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pid_t pid = -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) pid = fork();
        if (pid < 0) {
            fprintf(stderr, "%s: cannot start process %d of %d: %s\n", perf_program(), i, n,
                    strerror(errno));
            perf_hub_fail(hub, PERF_EXIT_ERROR, "cannot start all processes");
            break;
        }
        if (pid == 0) {
            close(pair[0]);
            close(signal_fd);
            perf_hub_close(hub);
            free(judge.children);
            become_child(world, i, pair[1], parent);
            return;
        }
        close(pair[1]);
        judge.children[i].pid = pid;
        judge.n = i + 1;
        judge.alive++;
        perf_hub_add(hub, i, pair[0]);
    }
    judge_children(hub, signal_fd);
}

const struct perf_world_ops perf_world_spawn = {
    .name = "spawn",
    .open = open_spawn,
    .init = perf_comms_init_ranks,
};
