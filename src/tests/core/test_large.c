/* Large calls: offsets beyond 2^31 and 2^32 bytes in every collective and in messages, large
 * reduce-scatters of several communicators side by side, and large counts that nearly agree.
 *
 * The buffers beyond 2^32 bytes are mostly one small file mapped again and again, so that they cost
 * address space and no memory. Where a wrong offset would show, and at both ends, the receive
 * buffers have pages of their own: these are compared. */
#define _GNU_SOURCE
#include "core/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- beyond 2^32 bytes ---- */

#define GIB ((size_t)1 << 30)

/* PERIOD is a multiple of pages and divides neither 2^31 nor 2^32. */
enum { BIG_RANKS = 2, PAGE = 4096, PERIOD = 257 * PAGE, WINDOW = 16 * PAGE, SENTINEL = 0x5a };

struct big {
    char *base;
    size_t bytes; /* whole pages */
};

static void big_open(struct big *big, size_t bytes)
{
    int fd = memfd_create("core-test-large", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(ftruncate(fd, PERIOD), 0);
    big->bytes = (bytes + 2 * PAGE - 1) / PAGE * PAGE;
    big->base =
        mmap(NULL, big->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(big->base != MAP_FAILED);
    for (size_t at = 0; at < big->bytes; at += PERIOD) {
        size_t piece = big->bytes - at < PERIOD ? big->bytes - at : PERIOD;
        CHECK(mmap(big->base + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
              MAP_FAILED);
    }
    close(fd);
}

static void big_close(struct big *big)
{
    CHECK_EQ(munmap(big->base, big->bytes), 0);
}

static unsigned char big_value(int rank, size_t index)
{
    uint32_t state = (uint32_t)rank * 977u + (uint32_t)(index % PERIOD);
    return (unsigned char)kit_random(&state);
}

/* Where the windows of a receive buffer start. */
static size_t window_at(size_t bytes, size_t block, int i)
{
    size_t at[] = {0, 2 * GIB, 4 * GIB, block, bytes};
    size_t start = at[i] < WINDOW / 2 ? 0 : at[i] - WINDOW / 2;
    size_t last = bytes > WINDOW ? bytes - WINDOW : 0;
    return (start < last ? start : last) / PAGE * PAGE;
}
enum { WINDOWS = 5 };

/* Fresh pages; the last one includes bytes behind the end. */
static void window_open(const struct big *big, size_t at)
{
    size_t bytes = big->bytes - at < WINDOW + PAGE ? big->bytes - at : WINDOW + PAGE;
    CHECK(mmap(big->base + at, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    memset(big->base + at, SENTINEL, bytes);
}

struct big_call {
    enum kit_coll coll; /* KIT_NCOLLS: a message from rank 0 to rank 1 */
    size_t count;
    size_t out_bytes;
};

static int gets_result(const struct big_call *call, int rank)
{
    if (call->coll == KIT_REDUCE || call->coll == KIT_GATHER) return rank == 0;
    return call->coll != KIT_NCOLLS || rank == 1;
}

static unsigned char big_expected(const struct big_call *call, int rank, size_t i)
{
    size_t own = (size_t)rank * call->count;
    switch (call->coll) {
    case KIT_REDUCE_SCATTER: i += own; /* fall through */
    case KIT_ALL_REDUCE:
    case KIT_REDUCE: return (unsigned char)(big_value(0, i) + big_value(1, i));
    case KIT_ALL_GATHER:
    case KIT_GATHER: return big_value((int)(i / call->count), i % call->count);
    case KIT_ALL_TO_ALL: return big_value((int)(i / call->count), own + i % call->count);
    case KIT_SCATTER: return big_value(0, own + i);
    default: return big_value(0, i);
    }
}

static ncclResult_t big_post(const struct big_call *call, struct kit_rank *rank)
{
    ncclComm_t comm = rank->comm;
    cudaStream_t stream = rank->stream;
    size_t n = call->count;
    switch (call->coll) {
    case KIT_ALL_REDUCE:
        return ncclAllReduce(rank->in, rank->out, n, ncclInt8, ncclSum, comm, stream);
    case KIT_REDUCE: return ncclReduce(rank->in, rank->out, n, ncclInt8, ncclSum, 0, comm, stream);
    case KIT_BROADCAST: return ncclBroadcast(rank->in, rank->out, n, ncclInt8, 0, comm, stream);
    case KIT_ALL_GATHER: return ncclAllGather(rank->in, rank->out, n, ncclInt8, comm, stream);
    case KIT_REDUCE_SCATTER:
        return ncclReduceScatter(rank->in, rank->out, n, ncclInt8, ncclSum, comm, stream);
    case KIT_ALL_TO_ALL: return ncclAlltoAll(rank->in, rank->out, n, ncclInt8, comm, stream);
    case KIT_GATHER: return ncclGather(rank->in, rank->out, n, ncclInt8, 0, comm, stream);
    case KIT_SCATTER: return ncclScatter(rank->in, rank->out, n, ncclInt8, 0, comm, stream);
    default: break;
    }
    if (rank->rank == 0) return ncclSend(rank->in, n, ncclInt8, 1, comm, stream);
    return ncclRecv(rank->out, n, ncclInt8, 0, comm, stream);
}

static void check_windows(const struct big_call *call, const struct kit_rank *rank)
{
    for (int w = 0; w < WINDOWS; w++) {
        size_t from = window_at(call->out_bytes, call->count, w);
        for (size_t i = from; i < from + WINDOW; i++) {
            int is_written = i < call->out_bytes && gets_result(call, rank->rank);
            unsigned char wanted = is_written ? big_expected(call, rank->rank, i) : SENTINEL;
            if ((unsigned char)rank->out[i] != wanted)
                FAIL("%s count %zu: rank %d has 0x%02x at %zu, not 0x%02x",
                     call->coll < KIT_NCOLLS ? kit_name(call->coll) : "ncclSend", call->count,
                     rank->rank, (unsigned char)rank->out[i], i, wanted);
        }
    }
}

/* Buffers of the local ranks, for all calls: most of the time goes into their page tables. */
struct bigs {
    struct big in[BIG_RANKS], out[BIG_RANKS];
};

static const size_t big_half = 2 * GIB + 12347;

static void open_bigs(struct bigs *bigs, const struct kit *kit)
{
    for (int r = 0; r < kit->nranks; r++) {
        big_open(&bigs->in[r], 2 * big_half);
        big_open(&bigs->out[r], 2 * big_half);
        for (size_t i = 0; i < PERIOD; i++)
            bigs->in[r].base[i] = (char)big_value(kit->ranks[r].rank, i);
    }
}

static void run_big(struct kit *kit, const struct bigs *bigs, const struct big_call *call)
{
    struct kit_rank ranks[BIG_RANKS];
    for (int r = 0; r < kit->nranks; r++) {
        ranks[r] = kit->ranks[r];
        for (int w = 0; w < WINDOWS; w++)
            window_open(&bigs->out[r], window_at(call->out_bytes, call->count, w));
        ranks[r].in = bigs->in[r].base;
        ranks[r].out = bigs->out[r].base;
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(big_post(call, &ranks[r]));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit->nranks; r++) {
        kit_sync(&ranks[r]);
        check_windows(call, &ranks[r]);
    }
}

static void run_all_big(struct kit *kit, int first, int last)
{
    struct bigs bigs;
    open_bigs(&bigs, kit);
    for (int coll = first; coll <= last; coll++) {
        struct big_call call = {.coll = (enum kit_coll)coll, .count = 2 * big_half};
        int in_blocks = coll == KIT_REDUCE_SCATTER || coll == KIT_ALL_TO_ALL || coll == KIT_SCATTER;
        int out_blocks = coll == KIT_ALL_GATHER || coll == KIT_ALL_TO_ALL || coll == KIT_GATHER;
        if (in_blocks || out_blocks) call.count = big_half;
        call.out_bytes = (out_blocks ? BIG_RANKS : 1) * call.count;
        run_big(kit, &bigs, &call);
    }
    for (int r = 0; r < kit->nranks; r++) {
        big_close(&bigs.in[r]);
        big_close(&bigs.out[r]);
    }
}

static void skip_big(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("the shadow of such buffers does not fit in memory");
#endif
    if (kit_is_slow()) SKIP("takes too long in a slow build");
}

static void test_big(void)
{
    skip_big();
    struct kit kit;
    kit_open(&kit, BIG_RANKS, 2, 1);
    run_all_big(&kit, KIT_ALL_REDUCE, KIT_NCOLLS);
    kit_close(&kit);
}

static void child_big(void)
{
    struct kit kit;
    if (getenv("CORE_ID") != NULL)
        proc_open(&kit, 1, 1);
    else
        kit_open(&kit, BIG_RANKS, 2, 1);
    run_all_big(&kit, atoi(getenv("CORE_FIRST")), atoi(getenv("CORE_LAST")));
    kit_close(&kit);
}

/* Through slots it takes much longer: a few calls stand for all that go that way. */
static void test_big_connected(void)
{
    skip_big();
    struct procs procs;
    kit_child("child:big", (const char *const[]){"NCCL_ALGO=ring", "CORE_FIRST=4", "CORE_LAST=4",
                                                 "CORE_ID", NULL});
    procs_start(&procs, 2, "child:big", (const char *const[]){"CORE_FIRST=8", "CORE_LAST=8", NULL});
    procs_end(&procs, -1);
}

/* ---- reduce-scatters side by side ---- */

enum { SIDES = 3, SIDE_RANKS = 4, SIDE_COUNT = 1 << 17, SIDE_ROUNDS = 30 };

struct side {
    struct kit kits[SIDES];
    struct kit_op op;
};

static void call_side(void *arg, int i)
{
    struct side *side = arg;
    struct kit_rank *rank = &side->kits[i / SIDE_RANKS].ranks[i % SIDE_RANKS];
    for (int round = 0; round < (kit_is_slow() ? 1 : SIDE_ROUNDS / 10); round++) {
        kit_prepare(rank, &side->op);
        for (int again = 0; again < 10; again++) CHECK_OK(kit_call(rank, &side->op));
        kit_check(rank, &side->op);
    }
}

/* 4 MiB of doubles a rank, three communicators at once, 30 rounds: the send buffers stay. */
static void child_side(void)
{
    static struct side side;
    side.op = kit_simple(KIT_REDUCE_SCATTER, SIDE_COUNT);
    side.op.type = ncclFloat64;
    for (int k = 0; k < SIDES; k++) kit_open(&side.kits[k], SIDE_RANKS, 1 + k, SIDE_COUNT);
    kit_threads(SIDES * SIDE_RANKS, call_side, &side);
    for (int k = 0; k < SIDES; k++) kit_close(&side.kits[k]);
}

static void test_side(void)
{
    kit_child("child:side", NULL);
    kit_child("child:side", (const char *const[]){"NCCL_ALGO=^direct", NULL});
}

/* ---- large counts that nearly agree ---- */

static const size_t near[][2] = {{409600, 409598}, {409598, 409600}, {1, 2}, {70000, 3}};

static void run_near(struct kit *kit, enum kit_coll coll, const size_t counts[2])
{
    struct kit_op op = kit_simple(coll, counts[0]), other = kit_simple(coll, counts[1]);
    int last = kit->ranks[0].nranks - 1;
    op.type = other.type = ncclFloat32;
    /* A call that another rank's failure overtakes may be refused already. */
    for (int r = 0; r < kit->nranks; r++) {
        ncclResult_t rc = kit_call(&kit->ranks[r], kit->ranks[r].rank == last ? &other : &op);
        CHECK(rc == ncclSuccess || rc == ncclInvalidUsage);
    }
    for (int r = 0; r < kit->nranks; r++) kit_await_error(&kit->ranks[r], ncclInvalidUsage, "rank");
    for (int r = 0; r < kit->nranks; r++) {
        kit_sync(&kit->ranks[r]);
        CHECK_OK(ncclCommAbort(kit->ranks[r].comm));
        kit->ranks[r].comm = NULL;
    }
    kit_close(kit);
}

static void child_near(void)
{
    int ndevices = atoi(getenv("CORE_DEVICES")), forced = getenv("NCCL_ALGO") != NULL;
    for (int coll = 0; coll < (forced ? KIT_ALL_TO_ALL : KIT_NCOLLS); coll++)
        for (size_t i = 0; i < TEST_COUNT(near); i++) {
            struct kit kit;
            kit_open(&kit, 3, ndevices, near[0][0]);
            run_near(&kit, (enum kit_coll)coll, near[i]);
        }
}

static void test_near(void)
{
    static const char *const choices[] = {"NCCL_ALGO=ring", "NCCL_ALGO=^direct,ring",
                                          "NCCL_ALGO=oneshot"};
    kit_child("child:near", (const char *const[]){"CORE_DEVICES=1", NULL});
    kit_child("child:near", (const char *const[]){"CORE_DEVICES=3", NULL});
    for (size_t i = 0; i < TEST_COUNT(choices); i++) {
        kit_child("child:near",
                  (const char *const[]){"CORE_DEVICES=3", choices[i], "NCCL_PROTO=LL", NULL});
        kit_child("child:near",
                  (const char *const[]){"CORE_DEVICES=2", choices[i], "NCCL_PROTO=Simple", NULL});
    }
}

static void child_near_across(void)
{
    struct kit kit;
    proc_open(&kit, 1, near[0][0]);
    run_near(&kit, (enum kit_coll)atoi(getenv("CORE_COLL")), near[proc_count() - 2]);
}

static void test_near_across(void)
{
    for (int coll = 0; coll < KIT_NCOLLS; coll++) {
        struct procs procs;
        char text[32];
        snprintf(text, sizeof text, "CORE_COLL=%d", coll);
        NOTE("%s", kit_name((enum kit_coll)coll));
        procs_start(&procs, 2 + coll % 3, "child:near-across", (const char *const[]){text, NULL});
        procs_end(&procs, -1);
    }
}

static const struct test_case cases[] = {
    {"every collective beyond 2^32 bytes", test_big, 240},
    {"beyond 2^32 bytes through connections", test_big_connected, 240},
    {"reduce-scatters side by side", test_side, 120},
    {"large counts that nearly agree", test_near, 120},
    {"large counts that nearly agree across processes", test_near_across, 120},
    {"child:big", child_big, 120},
    {"child:side", child_side, 0},
    {"child:near", child_near, 0},
    {"child:near-across", child_near_across, 0},
};
TEST_LIB_MAIN(cases)
