/* Runs rows of the differential program, each in a process of its own, which opens the library,
 * makes what the row needs and calls. Whatever the library does there, hang or crash, is an
 * outcome.
 */
#define _GNU_SOURCE
#include "conform/differ.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

/* How far the child came. */
enum stage { NO_LIBRARY, MISSING, NO_SET_UP, CALLED, DONE };

/* What the child says; shared memory, read when it has ended. */
struct differ_report {
    enum stage stage;
    int code; /* of the set-up that failed, or of the call */
    int version, is_chorus;
    char why[256];
};

/* In the child. */
static struct differ_report *report;
static void *library;

void *differ_find(const char *name)
{
    void *function = dlsym(library, name);
    if (function != NULL) return function;
    report->stage = MISSING;
    _exit(0);
}

/* ---- the child ---- */

/* Both names are in one file, not the second in front of a library with the first. */
static int is_of(const char *name, const char *other)
{
    Dl_info info, other_info;
    void *symbol = dlsym(library, name);
    return symbol != NULL && dladdr(symbol, &info) != 0 &&
           dladdr(dlsym(library, other), &other_info) != 0 &&
           info.dli_fbase == other_info.dli_fbase;
}

static void open_library(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(report->why, sizeof report->why, "%s", dlerror());
        _exit(0);
    }
    if (dlsym(library, "ncclGetVersion") == NULL) {
        snprintf(report->why, sizeof report->why, "%s has no ncclGetVersion", path);
        _exit(0);
    }
    report->stage = NO_SET_UP;
    report->is_chorus = is_of("chorus_git_hash", "ncclGetVersion");
    (void)F(GetVersion)(&report->version);
}

/* Two ranks are on two devices or, where there is one, share it. */
static ncclResult_t make_ranks(struct differ_scene *s, enum differ_need need)
{
    static const int shared[2] = {0, 0};
    if (need != DIFFER_RANKS) return F(CommInitAll)(s->comm, 1, NULL);
    if (F(CommInitAll)(s->comm, 2, NULL) == ncclSuccess) return ncclSuccess;
    return F(CommInitAll)(s->comm, 2, shared);
}

static void set_up(struct differ_scene *s, enum differ_need need)
{
    s->garbage = malloc(BUFFER_BYTES);
    if (s->garbage == NULL) _exit(1);
    memset(s->garbage, 0xa5, BUFFER_BYTES);
    memset(&s->id, 0x11, sizeof s->id);
    s->config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    s->sim = (ncclSimInfo_t)NCCL_SIM_INFO_INITIALIZER;
    s->props = (ncclCommProperties_t)NCCL_COMM_PROPERTIES_INITIALIZER;
    s->team = (ncclTeam_t){.nRanks = 2, .rank = 0, .stride = 1};
    s->scalar = 2;
    if (need < DIFFER_COMM) return;
    void *buffer = NULL;
    report->code = (int)make_ranks(s, need);
    if (report->code == ncclSuccess) report->code = (int)F(MemAlloc)(&buffer, BUFFER_BYTES);
    if (report->code != ncclSuccess) _exit(0);
    s->buffer = buffer;
}

static void be_child(const struct differ_job *job)
{
    const struct differ_row *row = job->row;
    static struct differ_scene scene;
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= STDERR_FILENO; fd++) dup2(null, fd);
    /* Before the library reads its environment. */
    if (row->need == DIFFER_RANKS) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    report = job->report;
    open_library(job->side->path);
    set_up(&scene, row->need);
    report->stage = CALLED;
    report->code = row->run(&scene);
    report->stage = DONE;
    _exit(0);
}

/* ---- the parent ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void start(struct differ_job *job, unsigned limit_s)
{
    fflush(NULL);
    job->child = fork();
    if (job->child == 0) be_child(job);
    if (job->child < 0) {
        fprintf(stderr, "differ: fork: %s\n", strerror(errno));
        exit(3);
    }
    job->until_ms = now_ms() + (int64_t)limit_s * 1000;
}

static void describe(struct differ_job *job, int in_time, int status)
{
    const struct differ_report *said = job->report;
    size_t room = sizeof job->outcome;
    job->was_called = said->stage >= CALLED;
    if (!in_time)
        snprintf(job->outcome, room, "timeout");
    else if (WIFSIGNALED(status))
        snprintf(job->outcome, room, "signal %d", WTERMSIG(status));
    else if (said->stage == DONE)
        snprintf(job->outcome, room, "%d", said->code);
    else if (said->stage == MISSING)
        snprintf(job->outcome, room, "missing");
    else if (said->stage == NO_SET_UP)
        snprintf(job->outcome, room, "set-up %d", said->code);
    else
        snprintf(job->outcome, room, "exit %d", WEXITSTATUS(status));
}

/* 1: it runs no longer. */
static int reap(struct differ_job *job)
{
    int status = 0, in_time = 1;
    if (waitpid(job->child, &status, WNOHANG) == 0) {
        if (now_ms() < job->until_ms) return 0;
        in_time = 0;
        kill(job->child, SIGKILL);
        waitpid(job->child, &status, 0);
    }
    describe(job, in_time, status);
    job->child = 0;
    return 1;
}

/* Sleeps until a child ends or the first time is up; SIGCHLD is blocked. */
static void nap(const struct differ_job *jobs, size_t njobs)
{
    int64_t until = INT64_MAX, now = now_ms();
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    for (size_t i = 0; i < njobs; i++)
        if (jobs[i].child > 0 && jobs[i].until_ms < until) until = jobs[i].until_ms;
    int64_t left = until > now ? until - now : 0;
    const struct timespec wait = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};
    (void)sigtimedwait(&ended, NULL, &wait);
}

void differ_run(struct differ_job *jobs, size_t njobs, unsigned at_once, unsigned limit_s)
{
    size_t bytes = (njobs + 1) * sizeof(struct differ_report), next = 0;
    unsigned running = 0;
    sigset_t ended;
    struct differ_report *reports =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reports == MAP_FAILED) abort();
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    while (next < njobs || running > 0) {
        for (; next < njobs && running < at_once; next++) {
            jobs[next].report = &reports[next];
            if (jobs[next].row->need > DIFFER_NOTHING && !jobs[next].side->has_device) {
                snprintf(jobs[next].outcome, sizeof jobs[next].outcome, "no device");
                continue;
            }
            start(&jobs[next], limit_s);
            running++;
        }
        if (running > 0) nap(jobs, next);
        for (size_t i = 0; i < next; i++)
            if (jobs[i].child > 0 && reap(&jobs[i])) running--;
    }
}

static int nothing(struct differ_scene *scene)
{
    (void)scene;
    return 0;
}

void differ_look(struct differ_side *side, unsigned limit_s)
{
    static const struct differ_row empty = {"", "", DIFFER_NOTHING, nothing};
    static const struct differ_row with_comm = {"", "", DIFFER_COMM, nothing};
    struct differ_job jobs[2] = {{.side = side, .row = &empty}, {.side = side, .row = &with_comm}};
    side->has_device = 1; /* so that it is tried */
    differ_run(jobs, 2, 1, limit_s);
    const struct differ_report *said = jobs[0].report;
    if (said->stage == DONE || said->why[0] != '\0')
        snprintf(side->why, sizeof side->why, "%s", said->why);
    else
        snprintf(side->why, sizeof side->why, "%s: %s", side->path, jobs[0].outcome);
    side->version = said->version;
    side->is_chorus = said->is_chorus;
    side->has_device = jobs[1].was_called;
}
