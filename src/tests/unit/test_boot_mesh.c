/* The mesh between real processes: descriptors swapped, deaths, goodbyes and failures told once
 * each, strangers at the socket, and processes that die before they connect. The test process is
 * process 0, so that its leftovers are found. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/err.h"
#include "base/shm.h"
#include "base/sock.h"
#include "boot/boot.h"
#include "boot/mesh.h"
#include "unit/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PROCS = 4, WAIT_MS = 20000 };

/* What the last process does once all watch each other. */
enum ending { ENDS_BY_KILL, ENDS_BY_EXIT, LEAVES, TELLS };

struct event {
    int proc;
    ncclResult_t code;
    char text[1024];
};

struct world {
    int nprocs, self;
    ncclUniqueId id;
    pid_t children[MAX_PROCS];
    int control[2]; /* pipe: a byte lets one child go on, its end lets all end */
    int ids[2];     /* pipe: the id, once for each child */
    struct ccl_boot *boot;
    struct ccl_mesh *mesh;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct event events[2 * MAX_PROCS];
    int nevents;
};

/* Process p holds rank 2p, as if each had two. */
static const int first_ranks[MAX_PROCS] = {0, 2, 4, 6};

static void on_event(void *context, int proc, ncclResult_t code, const char *text)
{
    struct world *world = context;
    pthread_mutex_lock(&world->lock);
    struct event *event = &world->events[world->nevents++];
    event->proc = proc;
    event->code = code;
    snprintf(event->text, sizeof event->text, "%s", text);
    pthread_cond_broadcast(&world->changed);
    pthread_mutex_unlock(&world->lock);
}

static const struct ccl_mesh_events events = {.fate = on_event};

static int count_events(struct world *world)
{
    pthread_mutex_lock(&world->lock);
    int n = world->nevents;
    pthread_mutex_unlock(&world->lock);
    return n;
}

static void wait_events(struct world *world, int n)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_MS / 1000;
    int code = 0;
    pthread_mutex_lock(&world->lock);
    while (world->nevents < n && code == 0)
        code = pthread_cond_timedwait(&world->changed, &world->lock, &end);
    int got = world->nevents;
    pthread_mutex_unlock(&world->lock);
    CHECK(got >= n);
}

static void listen_all(struct world *world)
{
    struct ccl_boot_args boot = {.id = world->id, .nranks = world->nprocs, .rank = world->self};
    CHECK_OK(ccl_boot_open(&boot, &world->boot));
    struct ccl_mesh_args args = {.nprocs = world->nprocs,
                                 .self = world->self,
                                 .first_rank = first_ranks,
                                 .boot = world->boot};
    ccl_boot_secret(world->boot, args.secret);
    CHECK_OK(ccl_mesh_listen(&args, &world->mesh));
    char mine = 0, all[MAX_PROCS];
    CHECK_OK(ccl_boot_allgather(world->boot, &mine, all, 1));
}

/* Every process passes a segment that holds its number, and reads the others'. */
static void swap_segments(struct world *world)
{
    int fds[MAX_PROCS];
    struct ccl_shm mine;
    CHECK_OK(ccl_shm_create(4096, &mine));
    *(int *)mine.base = 100 + world->self;
    CHECK_OK(ccl_mesh_swap_fd(world->mesh, mine.fd, fds));
    for (int proc = 0; proc < world->nprocs; proc++) {
        struct ccl_shm seen;
        if (proc == world->self) {
            CHECK_EQ(fds[proc], -1);
            continue;
        }
        CHECK_OK(ccl_shm_map(fds[proc], 4096, &seen));
        CHECK_EQ(*(int *)seen.base, 100 + proc);
        ccl_shm_close(&seen);
        close(fds[proc]);
    }
    ccl_shm_close(&mine);
}

static void set_up(struct world *world)
{
    listen_all(world);
    CHECK_OK(ccl_mesh_connect(world->mesh));
    swap_segments(world);
    swap_segments(world);
    ccl_boot_close(world->boot);
    CHECK_OK(ccl_mesh_watch(world->mesh, &events, world));
}

static void run_last(struct world *world, enum ending ending)
{
    char byte;
    CHECK_EQ(read(world->control[0], &byte, 1), 1);
    switch (ending) {
    case ENDS_BY_KILL: kill(getpid(), SIGKILL); break;
    case ENDS_BY_EXIT: _exit(0);
    case LEAVES: break;
    case TELLS:
        ccl_mesh_tell(world->mesh, ncclInvalidUsage, "rank 6 was called wrongly");
        ccl_mesh_tell(world->mesh, ncclSystemError, "a second message");
        break;
    }
    ccl_mesh_close(world->mesh);
    _exit(0);
}

/* The processes between the first and the last: they stay until the first says so. */
static void run_middle(struct world *world, enum ending ending)
{
    char byte;
    wait_events(world, 1);
    CHECK_EQ(world->events[0].proc, world->nprocs - 1);
    CHECK_EQ(world->events[0].code, ending == LEAVES  ? ncclSuccess
                                    : ending == TELLS ? ncclInvalidUsage
                                                      : ncclRemoteError);
    while (read(world->control[0], &byte, 1) > 0)
        ;
    ccl_mesh_close(world->mesh);
    _exit(0);
}

static void start_children(struct world *world, int nprocs, void (*run)(struct world *, int),
                           int argument)
{
    memset(world, 0, sizeof *world);
    world->nprocs = nprocs;
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->changed, NULL);
    CHECK_EQ(pipe(world->control), 0);
    CHECK_EQ(pipe(world->ids), 0);
    for (int proc = 1; proc < nprocs; proc++) {
        world->children[proc] = fork();
        CHECK(world->children[proc] >= 0);
        if (world->children[proc] != 0) continue;
        world->self = proc;
        close(world->control[1]);
        close(world->ids[1]);
        /* When a check ends the first process, nobody waits for it for ever. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK_EQ(read(world->ids[0], &world->id, sizeof world->id), sizeof world->id);
        run(world, argument);
        _exit(0);
    }
    /* The id is made after the forks, while this process still has one thread. */
    CHECK_OK(ccl_boot_make_id(&world->id));
    for (int proc = 1; proc < nprocs; proc++)
        CHECK_EQ(write(world->ids[1], &world->id, sizeof world->id), sizeof world->id);
}

static void reap(struct world *world, int proc, int killed)
{
    int status = 0;
    CHECK_EQ(waitpid(world->children[proc], &status, 0), world->children[proc]);
    if (killed)
        CHECK_EQ(WTERMSIG(status), SIGKILL);
    else
        CHECK_EQ(status, 0);
}

static void run_child(struct world *world, int ending)
{
    set_up(world);
    if (world->self == world->nprocs - 1) run_last(world, (enum ending)ending);
    run_middle(world, (enum ending)ending);
}

static void end_world(struct world *world)
{
    close(world->control[0]);
    close(world->ids[0]);
    close(world->ids[1]);
    pthread_mutex_destroy(&world->lock);
    pthread_cond_destroy(&world->changed);
}

static void run_ending(int nprocs, enum ending ending)
{
    static struct world world;
    start_children(&world, nprocs, run_child, (int)ending);
    set_up(&world);
    CHECK_EQ(count_events(&world), 0);
    uint64_t start_ns = ccl_clock_ns();
    /* The children read one pipe; only the last one does so before its event. */
    CHECK_EQ(write(world.control[1], "x", 1), 1);
    wait_events(&world, 1);
    NOTE("%d processes: seen after %.2f ms", nprocs, (double)(ccl_clock_ns() - start_ns) / 1e6);

    struct event *event = &world.events[0];
    char who[64];
    snprintf(who, sizeof who, "rank %d on host ", first_ranks[nprocs - 1]);
    CHECK_EQ(event->proc, nprocs - 1);
    if (ending == TELLS) {
        CHECK_EQ(event->code, ncclInvalidUsage);
        CHECK_STR(event->text, "rank 6 was called wrongly");
    } else {
        CHECK_EQ(event->code, ending == LEAVES ? ncclSuccess : ncclRemoteError);
        CHECK_HAS(event->text, who);
        snprintf(who, sizeof who, "(pid %d)", (int)world.children[nprocs - 1]);
        CHECK_HAS(event->text, who);
        CHECK_HAS(event->text,
                  ending == LEAVES ? "closed its" : "ended without closing its communicator");
    }
    reap(&world, nprocs - 1, ending == ENDS_BY_KILL);
    close(world.control[1]);
    /* The others say goodbye; nobody is judged twice. */
    wait_events(&world, nprocs - 1);
    for (int i = 1; i < world.nevents; i++) CHECK_EQ(world.events[i].code, ncclSuccess);
    for (int proc = 1; proc < nprocs - 1; proc++) reap(&world, proc, 0);
    ccl_mesh_close(world.mesh);
    CHECK_EQ(world.nevents, nprocs - 1);
    end_world(&world);
}

static void test_kill(void)
{
    for (int nprocs = 2; nprocs <= MAX_PROCS; nprocs++) run_ending(nprocs, ENDS_BY_KILL);
}

static void test_exit(void)
{
    for (int nprocs = 2; nprocs <= MAX_PROCS; nprocs++) run_ending(nprocs, ENDS_BY_EXIT);
}

static void test_leave(void)
{
    for (int nprocs = 2; nprocs <= MAX_PROCS; nprocs++) run_ending(nprocs, LEAVES);
}

static void test_tell(void)
{
    for (int nprocs = 2; nprocs <= MAX_PROCS; nprocs++) run_ending(nprocs, TELLS);
}

/* ---- meshes that do not come to be ---- */

static void run_early_death(struct world *world, int unused)
{
    (void)unused;
    listen_all(world);
    if (world->self == world->nprocs - 1) kill(getpid(), SIGKILL);
    ncclResult_t rc = ccl_mesh_connect(world->mesh);
    if (rc == ncclSuccess) {
        int fds[MAX_PROCS];
        rc = ccl_mesh_swap_fd(world->mesh, world->control[0], fds);
    }
    CHECK_EQ(rc, ncclRemoteError);
    ccl_mesh_tell(world->mesh, rc, ccl_err_last());
    ccl_mesh_close(world->mesh);
    ccl_boot_close(world->boot);
}

/* The last process dies before it connects: the others hear it from the session, at once. */
static void test_early_death(void)
{
    static struct world world;
    for (int nprocs = 2; nprocs <= MAX_PROCS; nprocs++) {
        start_children(&world, nprocs, run_early_death, 0);
        uint64_t start_ns = ccl_clock_ns();
        run_early_death(&world, 0);
        CHECK(ccl_clock_ns() - start_ns < UINT64_C(20000000000));
        char who[64];
        snprintf(who, sizeof who, "pid %d)", (int)world.children[nprocs - 1]);
        CHECK_HAS(ccl_err_last(), who);
        for (int proc = 1; proc < nprocs; proc++) reap(&world, proc, proc == nprocs - 1);
        close(world.control[1]);
        end_world(&world);
    }
}

static void test_abort(void)
{
    static _Atomic uint32_t word;
    static const int first[2] = {0, 1};
    struct ccl_mesh_args args = {.nprocs = 2, .first_rank = first, .abort_word = &word};
    struct ccl_mesh *mesh;
    atomic_store(&word, 1);
    CHECK_OK(ccl_mesh_listen(&args, &mesh));
    CHECK_EQ(ccl_mesh_connect(mesh), ncclInternalError);
    ccl_mesh_tell(mesh, ncclInternalError, "nobody hears this");
    ccl_mesh_close(mesh);
    ccl_mesh_close(NULL);
}

static void test_alone(void)
{
    static const int first[1] = {0};
    struct ccl_mesh_args args = {.nprocs = 1, .first_rank = first};
    struct ccl_mesh *mesh;
    int fd = 5;
    CHECK_OK(ccl_mesh_listen(&args, &mesh));
    CHECK_OK(ccl_mesh_connect(mesh));
    CHECK_OK(ccl_mesh_swap_fd(mesh, 0, &fd));
    CHECK_EQ(fd, -1);
    CHECK_OK(ccl_mesh_watch(mesh, &events, NULL));
    ccl_mesh_close(mesh);
}

/* ---- strangers ---- */

static int owns_inode(unsigned long inode)
{
    char want[64], path[64], target[64];
    snprintf(want, sizeof want, "socket:[%lu]", inode);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = '\0';
        if (strcmp(target, want) == 0) return 1;
    }
    return 0;
}

/* Names of sockets are visible to everybody on the host; finds that of this process. */
static int find_name(char *name, size_t name_bytes)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512];
    int found = 0;
    if (file == NULL) return 0;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        unsigned long inode;
        char *at = strstr(line, "@chorus-");
        if (at == NULL || sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) != 1) continue;
        if (!owns_inode(inode)) continue;
        at[strcspn(at, "\n")] = '\0';
        snprintf(name, name_bytes, "%s", at + 1);
        found = 1;
    }
    fclose(file);
    return found;
}

static void run_stranger_child(struct world *world, int unused)
{
    char byte;
    (void)unused;
    listen_all(world);
    /* Connects only after the strangers have come. */
    CHECK_EQ(read(world->control[0], &byte, 1), 1);
    CHECK_OK(ccl_mesh_connect(world->mesh));
    swap_segments(world);
    ccl_mesh_close(world->mesh);
    ccl_boot_close(world->boot);
}

static void test_strangers(void)
{
    enum { STRANGERS = 300 };
    static struct world world;
    static int fds[STRANGERS];
    char name[108];
    start_children(&world, 2, run_stranger_child, 0);
    listen_all(&world);
    CHECK(find_name(name, sizeof name));
    struct ccl_sock_wait wait = {.deadline_ns = ccl_clock_deadline_ns(WAIT_MS)};
    for (int i = 0; i < STRANGERS; i++) {
        CHECK_EQ(ccl_sock_connect_unix(name, &wait, &fds[i]), 0);
        if (i % 3 == 0) ccl_sock_send_all(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, 0, &wait);
        if (i % 3 == 1) close(fds[i]);
    }
    CHECK_EQ(write(world.control[1], "x", 1), 1);
    uint64_t start_ns = ccl_clock_ns();
    CHECK_OK(ccl_mesh_connect(world.mesh));
    NOTE("connected after %.1f ms", (double)(ccl_clock_ns() - start_ns) / 1e6);
    swap_segments(&world);
    for (int i = 0; i < STRANGERS; i++)
        if (i % 3 != 1) close(fds[i]);
    reap(&world, 1, 0);
    ccl_mesh_close(world.mesh);
    ccl_boot_close(world.boot);
    close(world.control[1]);
    end_world(&world);
}

static const struct test_case cases[] = {
    {"a killed process is seen", test_kill, 0},
    {"a process that exits is seen", test_exit, 0},
    {"a goodbye is seen", test_leave, 0},
    {"a failure is told", test_tell, 0},
    {"death before the connection", test_early_death, 0},
    {"abort", test_abort, 0},
    {"one process", test_alone, 0},
    {"strangers", test_strangers, 0},
};

TEST_LIB_MAIN(cases)
