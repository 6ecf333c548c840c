/* bench_chorus.c: this library's side of `make bench`; links libnccl.so as a program of a user.
 *
 * bench_chorus threads|processes|registered N SIZES MILLISECONDS times the collectives on N ranks;
 * bench_chorus init all|threads N times the start of N ranks; bench_chorus copy measures how fast
 * two threads copy memory. Invariant: the parent of forked ranks never calls the library.
 */
#define _GNU_SOURCE
#include "bench/bench.h"

#include <chorus.h>
#include <nccl.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { ALIGN_BYTES = 4096, MAX_RANKS = 4096, STACK_BYTES = 256 << 10 };
enum { COPY_THREADS = 2, COPY_REPEATS = 24, COPY_BYTES = 64 << 20, PIECE_BYTES = 16 << 20 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "bench_chorus: %s: %s: %s\n", #call, ncclGetErrorString(result_),      \
                    ncclGetLastError(NULL));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* What the ranks share, threads or processes alike. */
struct board {
    pthread_barrier_t barrier;
    ncclUniqueId id;
    double values[MAX_RANKS];
};

/* One rank; side.self points to it. */
struct rank {
    struct bench_side side;
    struct board *board;
    const struct bench_plan *plan;
    int registers; /* buffers from ncclMemAlloc, registered; else malloc'd */
    ncclComm_t comm;
    cudaStream_t stream;
    pthread_t thread;
};

static double now_s(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* The second barrier keeps a rank from overwriting its value while others read it. */
static double max_board(void *self, double value)
{
    struct rank *rank = self;
    struct board *board = rank->board;
    board->values[rank->side.rank] = value;
    pthread_barrier_wait(&board->barrier);
    for (int i = 0; i < rank->side.nranks; i++)
        if (board->values[i] > value) value = board->values[i];
    pthread_barrier_wait(&board->barrier);
    return value;
}

static struct board *make_board(int nranks)
{
    pthread_barrierattr_t shared;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("bench_chorus: mmap");
        exit(1);
    }
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &shared, (unsigned)nranks);
    pthread_barrierattr_destroy(&shared);
    return board;
}

static void send_and_receive(struct rank *rank, size_t count)
{
    int n = rank->side.nranks, own = rank->side.rank;
    CHECK(ncclGroupStart());
    CHECK(ncclSend(rank->side.in, count, ncclFloat32, (own + 1) % n, rank->comm, rank->stream));
    CHECK(
        ncclRecv(rank->side.out, count, ncclFloat32, (own + n - 1) % n, rank->comm, rank->stream));
    CHECK(ncclGroupEnd());
}

/* Waits for the stream after every call, because an MPI call returns when it is done. */
static void call_chorus(void *self, const struct bench_cell *cell)
{
    struct rank *rank = self;
    size_t count = cell->count_elems;
    float *in = rank->side.in, *out = rank->side.out;
    float *both = rank->side.rank == 0 ? in : out;
    ncclComm_t comm = rank->comm;
    cudaStream_t stream = rank->stream;
    switch (cell->coll) {
    case BENCH_ALL_REDUCE:
        CHECK(ncclAllReduce(in, out, count, ncclFloat32, ncclSum, comm, stream));
        break;
    case BENCH_ALL_GATHER: CHECK(ncclAllGather(in, out, count, ncclFloat32, comm, stream)); break;
    case BENCH_BROADCAST:
        CHECK(ncclBroadcast(both, both, count, ncclFloat32, 0, comm, stream));
        break;
    case BENCH_ALL_TO_ALL: CHECK(ncclAlltoAll(in, out, count, ncclFloat32, comm, stream)); break;
    case BENCH_REDUCE_SCATTER:
        CHECK(ncclReduceScatter(in, out, count, ncclFloat32, ncclSum, comm, stream));
        break;
    default: send_and_receive(rank, count);
    }
    CHECK(chorus_devices()->stream_sync(stream));
}

static float *take_buffer(const struct rank *rank, size_t bytes, void **handle)
{
    void *buffer;
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (rank->registers) {
        CHECK(ncclMemAlloc(&buffer, bytes));
        CHECK(ncclCommRegister(rank->comm, buffer, bytes, handle));
    } else {
        buffer = aligned_alloc(ALIGN_BYTES, bytes);
    }
    if (buffer == NULL) {
        fprintf(stderr, "bench_chorus: no memory for a buffer of %zu bytes\n", bytes);
        exit(1);
    }
    return buffer;
}

static void give_buffer(const struct rank *rank, float *buffer, void *handle)
{
    if (rank->registers) {
        CHECK(ncclCommDeregister(rank->comm, handle));
        CHECK(ncclMemFree(buffer));
    } else {
        free(buffer);
    }
}

static void open_rank(struct rank *rank)
{
    const struct chorus_devices *devices = chorus_devices();
    int ndevices;
    CHECK(devices->count(&ndevices));
    CHECK(devices->set(rank->side.rank % ndevices));
    if (rank->side.rank == 0) CHECK(ncclGetUniqueId(&rank->board->id));
    pthread_barrier_wait(&rank->board->barrier);
    CHECK(ncclCommInitRank(&rank->comm, rank->side.nranks, rank->board->id, rank->side.rank));
}

static void *run_rank(void *argument)
{
    struct rank *rank = argument;
    void *handles[2];
    open_rank(rank);
    CHECK(chorus_devices()->stream_create(&rank->stream));
    size_t bytes = bench_buffer_bytes(rank->plan, rank->side.nranks);
    rank->side.in = take_buffer(rank, bytes, &handles[0]);
    rank->side.out = take_buffer(rank, bytes, &handles[1]);
    bench_run(&rank->side, rank->plan);
    give_buffer(rank, rank->side.in, handles[0]);
    give_buffer(rank, rank->side.out, handles[1]);
    CHECK(chorus_devices()->stream_destroy(rank->stream));
    CHECK(ncclCommDestroy(rank->comm));
    return NULL;
}

static void start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(thread, &attr, body, argument) != 0) {
        perror("bench_chorus: pthread_create");
        exit(1);
    }
    pthread_attr_destroy(&attr);
}

static void run_threads(struct rank *ranks, int nranks, void *(*body)(void *))
{
    for (int i = 0; i < nranks; i++) start_thread(&ranks[i].thread, body, &ranks[i]);
    for (int i = 0; i < nranks; i++) pthread_join(ranks[i].thread, NULL);
}

/* Returns 1 when a child failed; the others are ended then. */
static int run_processes(struct rank *ranks, int nranks)
{
    pid_t parent = getpid(), children[MAX_RANKS];
    for (int i = 0; i < nranks; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) run_rank(&ranks[i]);
            exit(0);
        }
        if (children[i] < 0) {
            perror("bench_chorus: fork");
            exit(1);
        }
    }
    int failed = 0, status;
    for (int left = nranks; left > 0; left--) {
        if (wait(&status) >= 0 && status == 0) continue;
        for (int i = 0; !failed && i < nranks; i++) kill(children[i], SIGTERM);
        failed = 1;
    }
    return failed;
}

static int read_ranks(const char *text)
{
    int nranks = atoi(text);
    if (nranks >= 1 && nranks <= MAX_RANKS) return nranks;
    fprintf(stderr, "bench_chorus: %s ranks: not in [1, %d]\n", text, MAX_RANKS);
    exit(2);
}

static struct rank *make_ranks(int nranks, const struct bench_plan *plan, int registers)
{
    struct board *board = make_board(nranks);
    struct rank *ranks = calloc((size_t)nranks, sizeof *ranks);
    for (int i = 0; ranks != NULL && i < nranks; i++)
        ranks[i] = (struct rank){
            .side = {.self = &ranks[i],
                     .rank = i,
                     .nranks = nranks,
                     .call = call_chorus,
                     .max = max_board},
            .board = board,
            .plan = plan,
            .registers = registers,
        };
    if (ranks != NULL) return ranks;
    fprintf(stderr, "bench_chorus: no memory for %d ranks\n", nranks);
    exit(1);
}

/* ---- the start ---- */

static void *start_rank(void *argument)
{
    struct rank *rank = argument;
    open_rank(rank);
    pthread_barrier_wait(&rank->board->barrier);
    CHECK(ncclCommDestroy(rank->comm));
    return NULL;
}

/* Milliseconds until all ranks have their communicator. The first pass, which starts the devices,
 * is not counted for ncclCommInitAll but is for threads, which include their creation and end. */
static double time_init_all(int nranks)
{
    ncclComm_t comms[MAX_RANKS];
    int devices[MAX_RANKS], ndevices;
    double best_s = 1e9;
    CHECK(chorus_devices()->count(&ndevices));
    for (int i = 0; i < nranks; i++) devices[i] = i % ndevices;
    for (int pass = 0; pass < 6; pass++) {
        double began = now_s();
        CHECK(ncclCommInitAll(comms, nranks, devices));
        double took_s = now_s() - began;
        if (pass > 0 && took_s < best_s) best_s = took_s;
        for (int i = 0; i < nranks; i++) CHECK(ncclCommDestroy(comms[i]));
    }
    return best_s * 1000;
}

static int run_init(const char *how, int nranks)
{
    double took_ms;
    setenv("CHORUS_HOST_DEVICES", "64", 0); /* a device takes 96 ranks at most */
    if (strcmp(how, "all") == 0) {
        took_ms = time_init_all(nranks);
    } else {
        struct rank *ranks = make_ranks(nranks, NULL, 0);
        double began = now_s();
        run_threads(ranks, nranks, start_rank);
        took_ms = (now_s() - began) * 1000;
        free(ranks);
    }
    printf("%.3f\n", took_ms);
    return 0;
}

/* ---- the copy rate ---- */

struct copier {
    pthread_t thread;
    pthread_barrier_t *barrier;
    char *from, *to;
    void (*copy)(char *to, const char *from, size_t bytes);
    double began, ended;
};

static void copy_plain(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Stores past the cache, so that a line is not read before it is written. */
static void copy_streaming(char *to, const char *from, size_t bytes)
{
#ifdef __SSE2__
    for (size_t i = 0; i < bytes; i += 64) {
        const __m128i *source = (const __m128i *)(const void *)(from + i);
        __m128i *target = (__m128i *)(void *)(to + i);
        for (int k = 0; k < 4; k++) _mm_stream_si128(target + k, _mm_load_si128(source + k));
    }
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

static void *run_copier(void *argument)
{
    struct copier *copier = argument;
    pthread_barrier_wait(copier->barrier);
    copier->began = now_s();
    copier->copy(copier->to, copier->from, PIECE_BYTES);
    copier->ended = now_s();
    return NULL;
}

/* Bytes read and written per second by all threads together, the best of short copies that go
 * round through more memory than a cache holds: on a busy machine some are undisturbed. */
static double measure_copy(char *memory, void (*copy)(char *, const char *, size_t))
{
    double best = 0;
    for (int r = 0; r < COPY_REPEATS; r++) {
        struct copier copiers[COPY_THREADS];
        size_t at = (size_t)r * PIECE_BYTES % COPY_BYTES;
        pthread_barrier_t barrier;
        double began = 1e18, ended = 0;
        pthread_barrier_init(&barrier, NULL, COPY_THREADS);
        for (int i = 0; i < COPY_THREADS; i++) {
            char *own = memory + (size_t)i * 2 * COPY_BYTES + at;
            copiers[i] = (struct copier){
                .barrier = &barrier, .from = own, .to = own + COPY_BYTES, .copy = copy};
            start_thread(&copiers[i].thread, run_copier, &copiers[i]);
        }
        for (int i = 0; i < COPY_THREADS; i++) {
            pthread_join(copiers[i].thread, NULL);
            if (copiers[i].began < began) began = copiers[i].began;
            if (copiers[i].ended > ended) ended = copiers[i].ended;
        }
        pthread_barrier_destroy(&barrier);
        double rate = 2.0 * COPY_THREADS * PIECE_BYTES / (ended - began);
        if (rate > best) best = rate;
    }
    return best;
}

static int run_copy(void)
{
    size_t bytes = (size_t)COPY_THREADS * 2 * COPY_BYTES;
    char *memory = aligned_alloc(ALIGN_BYTES, bytes);
    if (memory == NULL) {
        fprintf(stderr, "bench_chorus: no memory for %zu bytes\n", bytes);
        return 1;
    }
    memset(memory, 1, bytes);
    printf("%.2f %.2f\n", measure_copy(memory, copy_plain) / 1e9,
           measure_copy(memory, copy_streaming) / 1e9);
    free(memory);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 4 && strcmp(what, "init") == 0) return run_init(argv[2], read_ranks(argv[3]));
    if (argc == 2 && strcmp(what, "copy") == 0) return run_copy();
    int is_threads = strcmp(what, "threads") == 0, registers = strcmp(what, "registered") == 0;
    if (argc != 5 || (!is_threads && !registers && strcmp(what, "processes") != 0)) {
        fprintf(stderr, "usage: bench_chorus threads|processes|registered N SIZES MILLISECONDS\n"
                        "       bench_chorus init all|threads N\n"
                        "       bench_chorus copy\n");
        return 2;
    }
    struct bench_plan plan;
    int nranks = read_ranks(argv[2]), failed = 0;
    bench_plan_read(&plan, argv[3], argv[4]);
    struct rank *ranks = make_ranks(nranks, &plan, registers);
    if (is_threads)
        run_threads(ranks, nranks, run_rank);
    else
        failed = run_processes(ranks, nranks);
    free(ranks);
    return failed;
}
