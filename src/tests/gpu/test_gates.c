/* Calls whose peers come late: nothing waits on the host for them, whatever the number of hardware
 * queues. The rule is J2: a program may let a peer's call depend on what it does after its own. */
#include "core/procs.h"
#include "gpu/driver.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, END_MS = 10000 };

/* Runs a child with 1, 2, 8 and 32 connections; 0 leaves out the fewest. */
static void each_connections(const char *child, int from)
{
    static const char *const settings[] = {
        "CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=2",
        "CUDA_DEVICE_MAX_CONNECTIONS=8", "CUDA_DEVICE_MAX_CONNECTIONS=32"};
    for (int i = from; i < (int)TEST_COUNT(settings); i++) {
        NOTE("%s %s", child, settings[i]);
        kit_child(child, (const char *const[]){settings[i], NULL});
    }
}

/* ---- rank 0 calls, and only then sets the key that the others wait for ---- */

struct late {
    struct kit *kit;
    const struct kit_op *op;
    _Atomic int key;
    int goes_on; /* more work is queued behind the early call */
};

static void call_late(void *arg, int i)
{
    struct late *late = arg;
    struct kit_rank *rank = &late->kit->ranks[i];
    while (i > 0 && !atomic_load(&late->key)) sched_yield();
    CHECK_OK(kit_call(rank, late->op));
    if (late->goes_on) CHECK_OK(chorus_devices()->fill(rank->far_in, 0xa5, 4, rank->stream));
    atomic_store(&late->key, 1);
    kit_check(rank, late->op);
}

static void run_late(int nranks, enum kit_coll coll, int goes_on)
{
    struct kit kit;
    struct kit_op op = kit_simple(coll, COUNT);
    struct late late = {.kit = &kit, .op = &op, .goes_on = goes_on};
    kit_open(&kit, nranks, 1, COUNT);
    for (int again = 0; again < 3; again++) {
        atomic_store(&late.key, 0);
        for (int r = 0; r < nranks; r++) kit_prepare(&kit.ranks[r], &op);
        kit_threads(nranks, call_late, &late);
    }
    kit_close(&kit);
}

static void child_late(void)
{
    for (int n = 2; n <= 8; n *= 2) run_late(n, KIT_ALL_REDUCE, 0);
    run_late(3, KIT_ALL_TO_ALL, 0);
}

static void child_go_on(void)
{
    run_late(2, KIT_ALL_REDUCE, 1);
    run_late(4, KIT_ALL_REDUCE, 1);
}

static void test_late(void)
{
    each_connections("child:late", 0);
}

/* Behind an early call, work in the only queue would hold up the others: not with one or two. */
static void test_go_on(void)
{
    each_connections("child:go-on", 2);
}

/* ---- the same between processes: the key travels through the parent ---- */

static void child_process(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_open(&kit, 1, COUNT);
    for (int again = 0; again < 3; again++) {
        kit_prepare(&kit.ranks[0], &op);
        proc_say('p');
        proc_hear('g');
        CHECK_OK(kit_call(&kit.ranks[0], &op));
        proc_say('c');
        kit_check(&kit.ranks[0], &op);
    }
    kit_close(&kit);
}

static void run_processes(int n, const char *name, const char *setting)
{
    struct procs procs;
    NOTE("%d processes, %s, %s", n, name, setting);
    procs_start(&procs, n, name, (const char *const[]){setting, NULL});
    for (int again = 0; again < 3; again++) {
        for (int p = 0; p < n; p++) procs_hear(&procs, p, 'p');
        for (int p = 0; p < n; p++) {
            procs_say(&procs, (p + again) % n, 'g');
            procs_hear(&procs, (p + again) % n, 'c');
        }
    }
    procs_end(&procs, -1);
}

/* A process has two ranks, and its second calls after the first one's call has returned. */
static void child_half(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_GATHER, COUNT);
    proc_open(&kit, 2, COUNT);
    for (int again = 0; again < 3; again++) {
        for (int r = 0; r < 2; r++) kit_prepare(&kit.ranks[r], &op);
        proc_say('p');
        proc_hear('g');
        for (int r = 0; r < 2; r++) CHECK_OK(kit_call(&kit.ranks[(r + again) % 2], &op));
        proc_say('c');
        for (int r = 0; r < 2; r++) kit_check(&kit.ranks[r], &op);
    }
    kit_close(&kit);
}

/* Who waits says for whom, and that nobody will come. */
static void child_leaves(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_open(&kit, 1, COUNT);
    struct kit_rank *rank = &kit.ranks[0];
    kit_prepare(rank, &op);
    if (proc_index() == 1) {
        proc_hear('g');
        CHECK_OK(ncclCommDestroy(rank->comm));
        rank->comm = NULL;
        proc_say('l');
    } else {
        CHECK_OK(kit_call(rank, &op));
        kit_await_status(rank->comm, "AllReduce #0: waits for ranks 1 (have not called)");
        proc_say('w');
        kit_await_status(rank->comm, "the process of rank 1 has left");
        proc_say('s');
        proc_hear('e');
        CHECK_OK(ncclCommAbort(rank->comm));
        rank->comm = NULL;
        kit_sync(rank);
    }
    kit_close(&kit);
}

static void test_leaves(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:leaves", NULL);
    procs_hear(&procs, 0, 'w');
    procs_hear(&procs, 2, 'w');
    procs_say(&procs, 1, 'g');
    procs_hear(&procs, 1, 'l');
    for (int p = 0; p < 3; p += 2) procs_hear(&procs, p, 's');
    for (int p = 0; p < 3; p += 2) procs_say(&procs, p, 'e');
    procs_end(&procs, -1);
}

static void test_halves(void)
{
    run_processes(2, "child:half", "CUDA_DEVICE_MAX_CONNECTIONS=1");
    run_processes(2, "child:half", "CUDA_DEVICE_MAX_CONNECTIONS=8");
    run_processes(3, "child:half", "CUDA_DEVICE_MAX_CONNECTIONS=8");
}

/* Process 0 calls as often as it can before the others have called at all, and then goes on. */
static void child_ahead(void)
{
    enum { AHEAD = 60, CALLS = 300 };
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    proc_open(&kit, 1, COUNT);
    kit_prepare(&kit.ranks[0], &op);
    if (proc_index() > 0) proc_hear('g');
    for (int i = 0; i < CALLS; i++) {
        if (proc_index() == 0 && i == AHEAD) proc_say('a');
        CHECK_OK(kit_call(&kit.ranks[0], &op));
    }
    kit_check(&kit.ranks[0], &op);
    kit_close(&kit);
}

static void test_ahead_of_processes(void)
{
    struct procs procs;
    procs_start(&procs, 3, "child:ahead", NULL);
    procs_hear(&procs, 0, 'a');
    for (int p = 1; p < 3; p++) procs_say(&procs, p, 'g');
    procs_end(&procs, -1);
}

static void test_processes(void)
{
    run_processes(2, "child:process", "CUDA_DEVICE_MAX_CONNECTIONS=1");
    run_processes(2, "child:process", "CUDA_DEVICE_MAX_CONNECTIONS=8");
    run_processes(4, "child:process", "CUDA_DEVICE_MAX_CONNECTIONS=8");
}

/* ---- messages that wait for no third rank ---- */

enum { LETTER_BYTES = 4096 };

static void send_letter(struct kit_rank *rank, int to)
{
    CHECK_OK(
        ncclSend(kit_given(rank, rank->in), LETTER_BYTES, ncclInt8, to, rank->comm, rank->stream));
}

static void get_letter(struct kit_rank *rank, int from)
{
    CHECK_OK(ncclRecv(kit_given(rank, rank->out + from * LETTER_BYTES), LETTER_BYTES, ncclInt8,
                      from, rank->comm, rank->stream));
}

/* Of a group each message can be done while others cannot yet, in whatever order they came: rank 1
 * has no time for rank 0 before rank 2, which has none for rank 1 before rank 0. */
static void call_third(void *arg, int i)
{
    struct kit_rank *rank = &((struct kit *)arg)->ranks[i];
    memset(rank->in, i + 1, LETTER_BYTES);
    kit_push(rank, 3 * LETTER_BYTES);
    CHECK_OK(i == 0 ? ncclGroupStart() : ncclSuccess);
    if (i == 1) send_letter(rank, 2);
    if (i == 2) get_letter(rank, 0);
    if (i != 1) get_letter(rank, 1);
    if (i == 0) send_letter(rank, 2);
    if (i == 1) send_letter(rank, 0);
    CHECK_OK(i == 0 ? ncclGroupEnd() : ncclSuccess);
    kit_sync(rank);
    kit_pull(rank, 3 * LETTER_BYTES);
    for (int from = 0; from < 2; from++)
        if (i == 2 || (i == 0 && from == 1)) CHECK_EQ(rank->out[from * LETTER_BYTES], from + 1);
}

/* One calls in a group, the other one by one. */
static void call_apart(void *arg, int i)
{
    struct kit_rank *rank = &((struct kit *)arg)->ranks[i];
    memset(rank->in, i + 1, LETTER_BYTES);
    kit_push(rank, 3 * LETTER_BYTES);
    CHECK_OK(i == 0 ? ncclGroupStart() : ncclSuccess);
    send_letter(rank, 1 - i);
    get_letter(rank, 1 - i);
    CHECK_OK(i == 0 ? ncclGroupEnd() : ncclSuccess);
    kit_sync(rank);
    kit_pull(rank, 3 * LETTER_BYTES);
    CHECK_EQ(rank->out[(1 - i) * LETTER_BYTES], 2 - i);
}

static void test_third(void)
{
    struct kit kit;
    kit_open(&kit, 3, 1, LETTER_BYTES);
    for (int again = 0; again < 50; again++) {
        kit_threads(3, call_third, &kit);
        kit_threads(2, call_apart, &kit);
    }
    kit_close(&kit);
}

/* ---- messages between processes that come in another order than they are waited for ---- */

static void put_letter(struct kit_rank *rank)
{
    memset(rank->in, rank->rank + 1, LETTER_BYTES);
    memset(rank->out, 0, 3 * LETTER_BYTES);
    kit_push(rank, 3 * LETTER_BYTES);
    proc_say('p');
    proc_hear('g');
}

static void check_letters(struct kit_rank *rank, int from, int to)
{
    proc_say('c');
    kit_sync(rank);
    kit_pull(rank, 3 * LETTER_BYTES);
    for (int i = from * LETTER_BYTES; i < to * LETTER_BYTES; i++)
        CHECK_EQ(rank->out[i], i / LETTER_BYTES + 1);
}

/* The second letter is there before the first, for which the stream waits. */
static void child_second(void)
{
    struct kit kit;
    proc_open(&kit, 1, LETTER_BYTES);
    struct kit_rank *rank = &kit.ranks[0];
    put_letter(rank);
    for (int from = 1; from < 3 && rank->rank == 0; from++) get_letter(rank, from);
    if (rank->rank > 0) send_letter(rank, 0);
    check_letters(rank, 1, rank->rank == 0 ? 3 : 1);
    kit_close(&kit);
}

/* Rank 0 receives from both in a group; rank 2 sends when it has rank 1's second letter, which that
 * one sends when its first was taken. */
static void child_triangle(void)
{
    struct kit kit;
    proc_open(&kit, 1, LETTER_BYTES);
    struct kit_rank *rank = &kit.ranks[0];
    put_letter(rank);
    CHECK_OK(rank->rank == 0 ? ncclGroupStart() : ncclSuccess);
    if (rank->rank == 1) send_letter(rank, 0);
    if (rank->rank == 1) send_letter(rank, 2);
    if (rank->rank != 1) get_letter(rank, 1);
    if (rank->rank == 0) get_letter(rank, 2);
    if (rank->rank == 2) send_letter(rank, 0);
    CHECK_OK(rank->rank == 0 ? ncclGroupEnd() : ncclSuccess);
    check_letters(rank, 1, rank->rank == 0 ? 3 : rank->rank == 1 ? 1 : 2);
    kit_close(&kit);
}

static void run_letters(const char *name, const int order[3])
{
    struct procs procs;
    procs_start(&procs, 3, name, NULL);
    for (int p = 0; p < 3; p++) procs_hear(&procs, p, 'p');
    for (int i = 0; i < 3; i++) {
        procs_say(&procs, order[i], 'g');
        procs_hear(&procs, order[i], 'c');
    }
    procs_end(&procs, -1);
}

static void test_letters(void)
{
    run_letters("child:second", (const int[]){0, 2, 1});
    run_letters("child:second", (const int[]){2, 0, 1});
    run_letters("child:triangle", (const int[]){2, 1, 0});
    run_letters("child:triangle", (const int[]){0, 1, 2});
}

/* ---- ends while a gate waits ---- */

static void call_alone(struct kit *kit, const struct kit_op *op)
{
    for (int r = 0; r < kit->nranks; r++) kit_prepare(&kit->ranks[r], op);
    CHECK_OK(kit_call(&kit->ranks[0], op));
    kit_await_status(kit->ranks[0].comm, "waits for");
}

static void test_abort(void)
{
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 3, 1, COUNT);
    call_alone(&kit, &op);
    int64_t start = kit_now_ms();
    for (int r = 0; r < 3; r++) {
        CHECK_OK(ncclCommAbort(kit.ranks[r].comm));
        kit.ranks[r].comm = NULL;
    }
    for (int r = 0; r < 3; r++) kit_sync(&kit.ranks[r]);
    CHECK(kit_now_ms() - start < END_MS);
    kit_close(&kit);
}

static void destroy_all(struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        CHECK_OK(ncclCommDestroy(kit->ranks[r].comm));
        kit->ranks[r].comm = NULL;
    }
}

static void make_again(struct kit *kit)
{
    ncclComm_t comms[KIT_MAX_RANKS];
    int devices[KIT_MAX_RANKS] = {0};
    CHECK_OK(ncclCommInitAll(comms, kit->nranks, devices));
    for (int r = 0; r < kit->nranks; r++) kit->ranks[r].comm = comms[r];
}

/* Another communicator is made, used and destroyed meanwhile; then the missing ranks come. Its
 * buffers are there before and after: a program that frees memory waits for all kernels. */
static void test_other(void)
{
    struct kit kit, other;
    struct kit_op op = kit_simple(KIT_ALL_REDUCE, COUNT);
    kit_open(&kit, 3, 1, COUNT);
    kit_open(&other, 4, 1, COUNT);
    destroy_all(&other);
    call_alone(&kit, &op);
    int64_t start = kit_now_ms();
    make_again(&other);
    kit_run(&other, &op);
    destroy_all(&other);
    CHECK(kit_now_ms() - start < END_MS);
    CHECK_OK(ncclGroupStart());
    for (int r = 1; r < 3; r++) CHECK_OK(kit_call(&kit.ranks[r], &op));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) kit_check(&kit.ranks[r], &op);
    kit_close(&other);
    kit_close(&kit);
}

/* Many communicators, each with a gate, completed in the opposite order. */
static void child_many(void)
{
    enum { COMMS = 8 };
    static struct kit kits[COMMS];
    struct kit_op op = kit_simple(KIT_REDUCE_SCATTER, COUNT);
    for (int c = 0; c < COMMS; c++) kit_open(&kits[c], 2, 1, COUNT);
    for (int c = 0; c < COMMS; c++) call_alone(&kits[c], &op);
    for (int c = COMMS - 1; c >= 0; c--) CHECK_OK(kit_call(&kits[c].ranks[1], &op));
    for (int c = 0; c < COMMS; c++) {
        for (int r = 0; r < 2; r++) kit_check(&kits[c].ranks[r], &op);
        kit_close(&kits[c]);
    }
}

static void test_many(void)
{
    each_connections("child:many", 0);
}

/* A rank that calls again before its peers have called once. */
static void test_ahead(void)
{
    enum { AHEAD = 20 };
    struct kit kit;
    struct kit_op op = kit_simple(KIT_ALL_GATHER, COUNT);
    kit_open(&kit, 2, 1, COUNT);
    for (int r = 0; r < 2; r++) kit_prepare(&kit.ranks[r], &op);
    for (int i = 0; i < AHEAD; i++) CHECK_OK(kit_call(&kit.ranks[0], &op));
    for (int i = 0; i < AHEAD; i++) CHECK_OK(kit_call(&kit.ranks[1], &op));
    for (int r = 0; r < 2; r++) kit_check(&kit.ranks[r], &op);
    kit_close(&kit);
}

static const struct test_case cases[] = {
    {"threads: a call comes before the key that the others wait for", test_late, 120},
    {"threads: the same with work behind the early call", test_go_on, 120},
    {"threads: messages wait for no third rank", test_third, 120},
    {"processes: a call comes before the key that the others wait for", test_processes, 120},
    {"processes: the second rank of each calls after the first", test_halves, 120},
    {"processes: one is as far ahead as it can be", test_ahead_of_processes, 120},
    {"processes: messages come in another order than they are waited for", test_letters, 120},
    {"processes: one leaves while the others wait for it", test_leaves, 120},
    {"an abort while a gate waits", test_abort, 0},
    {"another communicator lives and ends while a gate waits", test_other, 0},
    {"many gates, completed in the opposite order", test_many, 120},
    {"a rank is many calls ahead", test_ahead, 0},
    {"child:late", child_late, 0},
    {"child:go-on", child_go_on, 0},
    {"child:process", child_process, 0},
    {"child:half", child_half, 0},
    {"child:leaves", child_leaves, 0},
    {"child:second", child_second, 0},
    {"child:triangle", child_triangle, 0},
    {"child:ahead", child_ahead, 0},
    {"child:many", child_many, 0},
};

/* Memory of the GPU only: freeing pinned memory would wait for the gates. */
int main(int argc, char **argv)
{
    kit_far = 1;
    test_settle = test_lib_settle;
    test_prepare = gpu_prepare;
    return test_main(argc, argv, cases, TEST_COUNT(cases));
}
