/* test_faults.c: every fault point fails at its first, second, third … pass in every scenario,
 * until the scenario passes it no more. Each such run ends within its limit, with results or with
 * an error that has a text; it keeps nothing, and a new communicator works afterwards. Needs
 * FAULTS=1; test_points.sh sees to it that no point of the library is missing here. */
#define _GNU_SOURCE
#include "core/procs.h"

#include "base/fault.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 600, LOCAL = 3, RUN_LIMIT_MS = 15000, LETTER_LIMIT_MS = 60000 };

/* How many of the first passes are all tried; beyond them ever fewer. */
enum { FIRST_IN_SLICE = 3, FIRST_IN_LOOPS = 12, FIRST = 1000 };

/* `delays`: what the fault prevents belongs to the process and is made with its next communicator.
 */
static const struct point {
    const char *name;
    unsigned first;
    int delays;
} points[] = {
    {"alloc", FIRST, 0},
    {"arena-map", FIRST, 0},
    {"arena-memfd", FIRST, 0},
    {"arena-peer", FIRST, 0},
    {"bell-map", FIRST, 0},
    {"bell-memfd", FIRST, 1},
    {"boot-accept", FIRST_IN_LOOPS, 0},
    {"boot-bind", FIRST_IN_LOOPS, 0},
    {"boot-connect", FIRST_IN_LOOPS, 0},
    {"boot-eventfd", FIRST_IN_LOOPS, 0},
    {"boot-full", FIRST_IN_LOOPS, 0},
    {"boot-getrandom", FIRST_IN_LOOPS, 0},
    {"boot-ifaddrs", FIRST_IN_LOOPS, 0},
    {"boot-listen", FIRST_IN_LOOPS, 0},
    {"boot-lookup", FIRST_IN_LOOPS, 0},
    {"boot-pidfd", FIRST_IN_LOOPS, 0},
    {"boot-poll", FIRST_IN_LOOPS, 0},
    {"boot-recv", FIRST_IN_LOOPS, 0},
    {"boot-room", FIRST_IN_LOOPS, 0},
    {"boot-send", FIRST_IN_LOOPS, 0},
    {"boot-short", FIRST_IN_LOOPS, 0},
    {"boot-socket", FIRST_IN_LOOPS, 0},
    {"device-alloc", FIRST, 0},
    {"group-thread", FIRST, 0},
    {"shm-memfd", FIRST, 0},
    {"shm-mmap", FIRST, 0},
    {"shm-size", FIRST, 0},
    {"thread", FIRST, 0},
    {"thread-create", FIRST, 0},
};

static int nacted[TEST_COUNT(points)]; /* how often each acted in all scenarios */
static int nscenarios;

/* ---- in the process that has the fault ---- */

/* One rank from its start to its end, and what it shares with the others of the process. */
struct life {
    struct kit_rank rank;
    ncclUniqueId id;
    _Atomic int *any_failed;
};

static ncclResult_t prepare(struct life *life)
{
    const struct chorus_devices *devices = chorus_devices();
    struct kit_rank *rank = &life->rank;
    rank->room = COUNT * sizeof(int64_t) * 2;
    ncclResult_t rc = devices->set(rank->device);
    if (rc == ncclSuccess) rc = devices->stream_create(&rank->stream);
    if (rc == ncclSuccess) rc = devices->alloc((void **)&rank->in, rank->room);
    if (rc == ncclSuccess) rc = devices->alloc((void **)&rank->out, rank->room);
    return rc;
}

/* Until the stream is idle or the communicator has failed. A rank of the same process that has
 * not even a communicator can tell nobody but this process. */
static ncclResult_t await(struct life *life)
{
    int64_t end = kit_now_ms() + RUN_LIMIT_MS;
    for (int idle = 0; !idle;) {
        ncclResult_t error = ncclSuccess, rc = ncclCommGetAsyncError(life->rank.comm, &error);
        if (rc != ncclSuccess || error != ncclSuccess) return rc != ncclSuccess ? rc : error;
        if (atomic_load(life->any_failed)) return ncclRemoteError;
        rc = chorus_devices()->stream_query(life->rank.stream, &idle);
        if (rc != ncclSuccess) return rc;
        if (kit_now_ms() > end) {
            char text[400] = "";
            chorus_comm_status(life->rank.comm, text, sizeof text);
            FAIL("rank %d neither ends nor fails: %s", life->rank.rank, text);
        }
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    ncclResult_t error = ncclSuccess, rc = ncclCommGetAsyncError(life->rank.comm, &error);
    return rc != ncclSuccess ? rc : error;
}

static ncclResult_t all_reduce(struct life *life)
{
    struct kit_rank *rank = &life->rank;
    int32_t *in = (void *)rank->in, *out = (void *)rank->out;
    for (int i = 0; i < COUNT; i++) in[i] = rank->rank + i;
    ncclResult_t rc = ncclAllReduce(in, out, COUNT, ncclInt32, ncclSum, rank->comm, rank->stream);
    if (rc == ncclSuccess) rc = await(life);
    int n = rank->nranks;
    for (int i = 0; rc == ncclSuccess && i < COUNT; i++) CHECK_EQ(out[i], n * i + n * (n - 1) / 2);
    return rc;
}

/* To the next rank, from the one before. */
static ncclResult_t send_recv(struct life *life)
{
    struct kit_rank *rank = &life->rank;
    int32_t *in = (void *)rank->in, *out = (void *)rank->out;
    int n = rank->nranks, from = (rank->rank + n - 1) % n, to = (rank->rank + 1) % n;
    ncclResult_t rc = ncclGroupStart(), ended;
    if (rc == ncclSuccess) rc = ncclSend(in, COUNT, ncclInt32, to, rank->comm, rank->stream);
    if (rc == ncclSuccess) rc = ncclRecv(out, COUNT, ncclInt32, from, rank->comm, rank->stream);
    ended = ncclGroupEnd();
    if (rc == ncclSuccess) rc = ended;
    if (rc == ncclSuccess) rc = await(life);
    for (int i = 0; rc == ncclSuccess && i < COUNT; i++) CHECK_EQ(out[i], from + i);
    return rc;
}

/* A communicator of all ranks in another order, which does nothing. */
static ncclResult_t split(struct life *life)
{
    ncclComm_t child = NULL;
    ncclResult_t rc = ncclCommSplit(life->rank.comm, 0, -life->rank.rank, &child, NULL);
    if (rc != ncclSuccess) CHECK(child == NULL);
    return rc == ncclSuccess ? ncclCommDestroy(child) : rc;
}

static ncclResult_t make_window(struct life *life)
{
    struct kit_rank *rank = &life->rank;
    ncclWindow_t window = NULL;
    ncclResult_t rc = ncclCommWindowRegister(rank->comm, rank->in, rank->room, &window, 0);
    if (rc != ncclSuccess) CHECK(window == NULL);
    return rc == ncclSuccess ? ncclCommWindowDeregister(rank->comm, window) : rc;
}

static ncclResult_t suspend(struct life *life)
{
    ncclResult_t rc = ncclCommSuspend(life->rank.comm, NCCL_SUSPEND_MEM);
    return rc == ncclSuccess ? ncclCommResume(life->rank.comm) : rc;
}

static ncclResult_t operate(struct life *life)
{
    ncclResult_t rc = all_reduce(life);
    if (rc == ncclSuccess) rc = send_recv(life);
    if (rc == ncclSuccess) rc = split(life);
    if (rc == ncclSuccess) rc = make_window(life);
    if (rc == ncclSuccess) rc = suspend(life);
    return rc;
}

/* Ends a rank after success or error; every error must have a text. */
static void end_life(struct life *life, ncclResult_t rc)
{
    const struct chorus_devices *devices = chorus_devices();
    struct kit_rank *rank = &life->rank;
    if (rc == ncclSuccess) rc = ncclCommFinalize(rank->comm);
    if (rc != ncclSuccess) {
        const char *text = ncclGetLastError(NULL);
        fprintf(stderr, "rank %d: result %d: %s\n", rank->rank, (int)rc, text);
        CHECK(text[0] != '\0');
        atomic_store(life->any_failed, 1);
    }
    if (rank->comm != NULL && rc != ncclSuccess)
        CHECK_OK(ncclCommAbort(rank->comm));
    else if (rank->comm != NULL)
        CHECK_OK(ncclCommDestroy(rank->comm));
    if (rank->stream != NULL) CHECK_OK(devices->stream_destroy(rank->stream));
    CHECK_OK(devices->free(rank->in));
    CHECK_OK(devices->free(rank->out));
}

static void live(void *arg, int i)
{
    struct life *life = (struct life *)arg + i;
    struct kit_rank *rank = &life->rank;
    ncclResult_t rc = prepare(life);
    if (rc == ncclSuccess) rc = ncclCommInitRank(&rank->comm, rank->nranks, life->id, rank->rank);
    if (rc != ncclSuccess) CHECK(rank->comm == NULL);
    if (rc == ncclSuccess) rc = operate(life);
    end_life(life, rc);
}

static void make_lives(struct life *lives, int n, _Atomic int *any_failed)
{
    for (int i = 0; i < n; i++)
        lives[i] =
            (struct life){.rank = {.nranks = n, .rank = i, .device = i}, .any_failed = any_failed};
}

/* The process's rank of a world of processes. */
static void live_process(void)
{
    _Atomic int any_failed = 0;
    struct life life = {.rank = {.nranks = proc_count(), .rank = proc_index()},
                        .id = proc_id(),
                        .any_failed = &any_failed};
    live(&life, 0);
}

/* A thread per rank; the root of the id is in this process too. */
static void live_threads(void)
{
    struct life lives[LOCAL];
    _Atomic int any_failed = 0;
    make_lives(lives, LOCAL, &any_failed);
    ncclResult_t rc = ncclGetUniqueId(&lives[0].id);
    for (int i = 1; i < LOCAL; i++) lives[i].id = lives[0].id;
    if (rc != ncclSuccess) CHECK(ncclGetLastError(NULL)[0] != '\0');
    if (rc == ncclSuccess) kit_threads(LOCAL, live, lives);
}

static void operate_in_thread(void *arg, int i)
{
    struct life *life = (struct life *)arg + i;
    end_life(life, operate(life));
}

/* All ranks from one call, then a thread per rank. */
static void live_together(void)
{
    struct life lives[LOCAL];
    ncclComm_t comms[LOCAL] = {NULL};
    _Atomic int any_failed = 0;
    make_lives(lives, LOCAL, &any_failed);
    ncclResult_t rc = ncclSuccess;
    for (int i = 0; i < LOCAL && rc == ncclSuccess; i++) rc = prepare(&lives[i]);
    if (rc == ncclSuccess) rc = ncclCommInitAll(comms, LOCAL, NULL);
    for (int i = 0; i < LOCAL; i++) lives[i].rank.comm = comms[i];
    for (int i = 0; i < LOCAL && rc != ncclSuccess; i++) {
        CHECK(comms[i] == NULL);
        end_life(&lives[i], rc);
    }
    if (rc == ncclSuccess) kit_threads(LOCAL, operate_in_thread, lives);
}

/* Communicators made after the fault, in the process and, when there are several, across them. */
static void check_fresh(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, 64);
    kit_open(&kit, 2, 2, 64);
    kit_run(&kit, &op);
    kit_close(&kit);
    if (proc_count() == 1) return;
    setenv("CORE_ID", getenv("FAULT_NEXT_ID"), 1);
    proc_open(&kit, 1, 64);
    kit_run(&kit, &op);
    kit_close(&kit);
}

static void run_life(void (*body)(void))
{
    if (proc_index() == atoi(getenv("FAULT_AT"))) setenv("CHORUS_FAULTS", getenv("FAULT_SPEC"), 1);
    proc_mark();
    int64_t start = kit_now_ms();
    body();
    CHECK(kit_now_ms() - start < RUN_LIMIT_MS);
    if (getenv("FAULT_DELAYS") == NULL) proc_check_mark();
    ccl_fault_disarm();
    proc_mark();
    proc_say(ccl_fault_acted() != 0 ? 'a' : 'n');
    proc_hear('g');
    check_fresh();
    proc_check_mark();
}

static void child_process(void)
{
    run_life(live_process);
}

static void child_threads(void)
{
    run_life(live_threads);
}

static void child_together(void)
{
    run_life(live_together);
}

/* ---- in the process that watches ---- */

/* `only`: how the names of its points begin, when not all act in it. `fixed`: NCCL_COMM_ID is set.
 */
static const struct scenario {
    const char *child, *algo, *timeout;
    int nprocs;
    const char *only;
    int fixed;
} scenarios[] = {
    {"child:together", "NCCL_ALGO=", "CHORUS_INIT_TIMEOUT_MS=2000", 1, "", 0},
    {"child:threads", "NCCL_ALGO=ring", "CHORUS_INIT_TIMEOUT_MS=2000", 1, "", 0},
    {"child:threads", "NCCL_ALGO=", "CHORUS_INIT_TIMEOUT_MS=2000", 1, "boot-", 1},
    {"child:process", "NCCL_ALGO=", "CHORUS_INIT_TIMEOUT_MS=3000", 2, "", 0},
    {"child:process", "NCCL_ALGO=ring", "CHORUS_INIT_TIMEOUT_MS=3000", 2, "", 0},
};

/* The letter of process i; 0 when it ends without one. */
static char read_letter(struct procs *procs, int i)
{
    char letter = 0;
    struct pollfd entry = {.fd = procs->line[i], .events = POLLIN};
    if (poll(&entry, 1, LETTER_LIMIT_MS) != 1) return 0;
    return read(procs->line[i], &letter, 1) == 1 ? letter : 0;
}

/* A port that nobody else gets as long as the socket is open, while a listener that sets
 * SO_REUSEADDR too may still use it. */
static int hold_port(struct sockaddr_in *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    socklen_t bytes = sizeof *addr;
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)addr, sizeof *addr), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)addr, &bytes), 0);
    return fd;
}

static void format_id(char *text, size_t bytes)
{
    ncclUniqueId id;
    CHECK_OK(ncclGetUniqueId(&id));
    int used = snprintf(text, bytes, "FAULT_NEXT_ID=");
    for (size_t i = 0; i < sizeof id.internal; i++)
        snprintf(text + used + 2 * i, 3, "%02x", (unsigned char)id.internal[i]);
}

/* One run: the fault acts in process `at` at pass n ("2"), or from then on ("2+"). Returns whether
 * it did. */
static int run_once(const struct scenario *scenario, const struct point *point, int at,
                    const char *passes)
{
    char spec[80], where[32], fixed[48], next_id[32 + 2 * sizeof(ncclUniqueId)] = "FAULT_NEXT_ID=";
    const char *env[] = {spec, where, next_id, scenario->algo, scenario->timeout, NULL, NULL, NULL};
    struct procs procs;
    struct sockaddr_in addr;
    int acted = 0, nenv = 5, port_fd = scenario->fixed ? hold_port(&addr) : -1;
    int64_t start = kit_now_ms();
    snprintf(spec, sizeof spec, "FAULT_SPEC=%s:%s", point->name, passes);
    snprintf(where, sizeof where, "FAULT_AT=%d", at);
    if (scenario->nprocs > 1) format_id(next_id, sizeof next_id);
    if (point->delays) env[nenv++] = "FAULT_DELAYS=1";
    if (scenario->fixed) {
        snprintf(fixed, sizeof fixed, "NCCL_COMM_ID=127.0.0.1:%u", ntohs(addr.sin_port));
        env[nenv++] = fixed;
    }
    procs_start(&procs, scenario->nprocs, scenario->child, env);
    for (int i = 0; i < scenario->nprocs; i++) {
        char letter = read_letter(&procs, i);
        if (i == at) acted = letter == 'a';
    }
    NOTE("%s %s %s in process %d: %s after %lld ms", scenario->child, scenario->algo, spec, at,
         acted ? "acted" : "not passed", (long long)(kit_now_ms() - start));
    for (int i = 0; i < scenario->nprocs; i++) send(procs.line[i], "g", 1, MSG_NOSIGNAL);
    procs_end(&procs, -1);
    if (port_fd >= 0) close(port_fd);
    return acted;
}

/* A slice tries fewer passes, and the last scenario only in its last process. */
static void run_point(const struct scenario *scenario, const struct point *point, int *hits)
{
    int is_slice = getenv("CHORUS_TEST_SLICE") != NULL;
    unsigned first = is_slice ? FIRST_IN_SLICE : point->first;
    int is_last = scenario == &scenarios[TEST_COUNT(scenarios) - 1];
    for (int at = is_slice && is_last ? scenario->nprocs - 1 : 0; at < scenario->nprocs; at++)
        for (unsigned n = 1;; n += n < first ? 1 : is_slice ? n : n / 2) {
            char passes[16];
            snprintf(passes, sizeof passes, "%u", n);
            if (!run_once(scenario, point, at, passes)) break;
            (*hits)++;
        }
}

static void run_scenario(const struct scenario *scenario)
{
    for (size_t p = 0; p < TEST_COUNT(points); p++)
        if (strncmp(points[p].name, scenario->only, strlen(scenario->only)) == 0)
            run_point(scenario, &points[p], &nacted[p]);
    nscenarios++;
}

static void test_together(void)
{
    run_scenario(&scenarios[0]);
}

static void test_threads(void)
{
    run_scenario(&scenarios[1]);
}

static void test_fixed(void)
{
    run_scenario(&scenarios[2]);
}

static void test_processes(void)
{
    run_scenario(&scenarios[3]);
}

static void test_processes_ring(void)
{
    run_scenario(&scenarios[4]);
}

/* No communicator across processes without a doorbell; but the process may get it later. */
static void test_bell(void)
{
    const struct point bell = {"bell-memfd", FIRST, 1};
    for (int at = 0; at < 2; at++) CHECK(run_once(&scenarios[3], &bell, at, "1+"));
}

/* A root that never gets a descriptor for the first rank ends the initialisation long before its
 * time limit. */
static void test_full(void)
{
    const struct scenario threads = {
        "child:threads", "NCCL_ALGO=", "CHORUS_INIT_TIMEOUT_MS=600000", 1, "", 0};
    const struct point full = {"boot-full", FIRST, 0};
    CHECK(run_once(&threads, &full, 0, "1+"));
}

/* A point that no scenario passes would be tested by nobody. */
static void test_all_acted(void)
{
    if (nscenarios < (int)TEST_COUNT(scenarios)) SKIP("not all scenarios were run");
    for (size_t p = 0; p < TEST_COUNT(points); p++)
        if (nacted[p] == 0) FAIL("no scenario passes the point %s", points[p].name);
}

static void test_without(void)
{
    SKIP("needs FAULTS=1");
}

static const struct test_case cases[] = {
    {"faults: three ranks from ncclCommInitAll", test_together, 600},
    {"faults: three threads, ring", test_threads, 600},
    {"faults: three threads, a fixed address", test_fixed, 600},
    {"faults: two processes", test_processes, 600},
    {"faults: two processes, ring", test_processes_ring, 600},
    {"faults: no doorbell for a while", test_bell, 0},
    {"faults: no descriptor for any rank", test_full, 0},
    {"faults: each point acted somewhere", test_all_acted, 0},
    {"child:together", child_together, 0},
    {"child:threads", child_threads, 0},
    {"child:process", child_process, 0},
};

static const struct test_case without[] = {{"faults", test_without, 0}};

int main(int argc, char **argv)
{
    test_settle = test_lib_settle;
    test_prepare = test_lib_prepare;
    if (CCL_HAS_FAULTS) return test_main(argc, argv, cases, TEST_COUNT(cases));
    return test_main(argc, argv, without, TEST_COUNT(without));
}
