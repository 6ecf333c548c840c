/* Signals of a driver, see signals.h. Called by main.c, the watchdog and the parent of --spawn. */
#include "harness/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void make_set(sigset_t *set, int with_children)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    if (with_children) sigaddset(set, SIGCHLD);
}

void perf_signals_block(int with_children)
{
    sigset_t set;
    make_set(&set, with_children);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int perf_signals_open(int with_children)
{
    sigset_t set;
    make_set(&set, with_children);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int perf_signals_next(int fd)
{
    struct signalfd_siginfo info;
    if (fd < 0 || read(fd, &info, sizeof info) != (ssize_t)sizeof info) return 0;
    return (int)info.ssi_signo;
}
