/* Kernels of the simulated GPU: the functions that core launches, and the threads that run them.
 *
 * A kernel has a thread to itself as long as it runs, so that those that wait for each other all
 * run. Schedules are those of the local path (cuda_local.h), interpreted by the code for the host;
 * the connected path, which reads cuda_conn.h, is not simulated.
 */
#define _GNU_SOURCE
#include "sim/gpu.h"

#include "base/err.h"
#include "kernel/kernel.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- threads ---- */

static struct sim_op *ready, **ready_tail = &ready;
static pthread_cond_t is_ready = PTHREAD_COND_INITIALIZER;
static uint32_t nready, nidle;

void sim_nap(uint32_t *naps)
{
    enum { FIRST_NS = 20000, MOST_DOUBLINGS = 4 };
    uint32_t doublings = *naps / 4 < MOST_DOUBLINGS ? (*naps)++ / 4 : MOST_DOUBLINGS;
    nanosleep(&(struct timespec){.tv_nsec = FIRST_NS << doublings}, NULL);
}

/* How a thread begins. */
struct start {
    void *(*body)(void *);
    void *argument;
    const char *name;
    sem_t named;
};

/* A thread names itself: for another one that takes a descriptor, of which there may be none. */
static void *begin(void *argument)
{
    struct start *start = argument;
    void *(*body)(void *) = start->body;
    void *passed = start->argument;
    pthread_setname_np(pthread_self(), start->name);
    sem_post(&start->named);
    return body(passed);
}

void sim_thread(void *(*body)(void *), void *argument, const char *name)
{
    pthread_t thread;
    struct start start = {.body = body, .argument = argument, .name = name};
    sem_init(&start.named, 0, 0);
    if (pthread_create(&thread, NULL, begin, &start) != 0) abort();
    while (sem_wait(&start.named) != 0) continue;
    sem_destroy(&start.named);
    pthread_detach(thread);
}

static void *work_off(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&sim_lock);
    for (;;) {
        nidle++;
        while (ready == NULL) pthread_cond_wait(&is_ready, &sim_lock);
        nidle--;
        nready--;
        struct sim_op *op = ready;
        ready = op->next;
        if (ready == NULL) ready_tail = &ready;
        pthread_mutex_unlock(&sim_lock);
        op->kernel->run(op->kernel->args);
        pthread_mutex_lock(&sim_lock);
        sim_kernel_done(op);
    }
    return NULL;
}

void sim_kernel_start(struct sim_op *op)
{
    op->next = NULL;
    *ready_tail = op;
    ready_tail = &op->next;
    if (++nready > nidle) sim_thread(work_off, NULL, "cuda-kernel");
    pthread_cond_signal(&is_ready);
}

/* ---- launches ---- */

struct sim_kernel *sim_kernel_make(void (*run)(const void *), const void *args, size_t bytes)
{
    size_t whole = (sizeof(struct sim_kernel) + bytes + 63) / 64 * 64;
    struct sim_kernel *kernel = aligned_alloc(64, whole);
    if (kernel == NULL) abort();
    kernel->run = run;
    kernel->refs = 1;
    kernel->bytes = bytes;
    memcpy(kernel->args, args, bytes);
    return kernel;
}

void sim_kernel_put(struct sim_kernel *kernel)
{
    if (--kernel->refs == 0) free(kernel);
}

static ncclResult_t launch(struct sim_kernel *kernel, cudaStream_t handle)
{
    struct sim_stream *stream = sim_stream_of(handle);
    ncclResult_t rc = sim_put(stream, (struct sim_op){.kind = SIM_RUN, .kernel = kernel});
    pthread_mutex_lock(&sim_lock);
    int waits = sim_launches_block() && stream->capture == NULL;
    sim_kernel_put(kernel);
    pthread_mutex_unlock(&sim_lock);
    if (rc == ncclSuccess && waits) sim_stream_drain(stream);
    return rc;
}

/* ---- joins ---- */

static int is_aborted(const uint32_t *word)
{
    return word != NULL && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
}

/* As in cuda_join.h: 0 when the communicator was aborted. Acquire pairs with the release of the
 * kernel that changes the flag. */
static int wait_while(const uint32_t *flag, uint32_t value, const uint32_t *abort_word)
{
    uint32_t naps = 0;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == value) {
        if (is_aborted(abort_word)) return 0;
        sim_nap(&naps);
    }
    return 1;
}

static uint32_t count_gone(const struct ccl_gate *gate)
{
    return __atomic_load_n(&gate->gone, __ATOMIC_RELAXED);
}

/* All gates are up before one is waited for. Release publishes what their stream did before. */
static void run_gates(const void *memory)
{
    const struct ccl_gates_args *args = memory;
    for (uint32_t i = 0; i < args->ngates && args->parts & CCL_GATE_RAISE; i++)
        __atomic_store_n(&args->gates[i]->raised, count_gone(args->gates[i]) + 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < args->ngates && args->parts & CCL_GATE_STAY; i++) {
        uint32_t raised = __atomic_load_n(&args->gates[i]->raised, __ATOMIC_RELAXED);
        if (!wait_while(&args->gates[i]->gone, raised - 1, args->abort_word)) return;
    }
}

/* Acquire pairs with the release of whoever sets the word. */
static void run_await(const void *memory)
{
    const struct ccl_await_args *args = memory;
    uint32_t naps = 0;
    while ((int32_t)(__atomic_load_n(args->word, __ATOMIC_ACQUIRE) - args->value) < 0)
        sim_nap(&naps);
}

/* Release publishes what the stream did before, the copy of a put too. */
static void run_raise(const void *memory)
{
    const struct ccl_raise_args *args = memory;
    __atomic_fetch_add(args->word, 1, __ATOMIC_RELEASE);
}

/* As in run_rma.h. */
static int try_take(const struct ccl_take *take)
{
    uint32_t taken = __atomic_load_n(take->taken, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(take->raised, __ATOMIC_ACQUIRE) - taken < take->count) return 0;
    return __atomic_compare_exchange_n(take->taken, &taken, taken + take->count, 0,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void run_takes(const void *memory)
{
    const struct ccl_takes_args *args = memory;
    for (uint32_t i = 0; i < args->ntakes; i++) {
        uint32_t naps = 0;
        while (!try_take(&args->takes[i])) {
            if (is_aborted(args->abort_word)) return;
            __atomic_store_n(args->note, (uint64_t)CCL_WAIT_RAISE << 32 | args->takes[i].peer,
                             __ATOMIC_RELAXED);
            sim_nap(&naps);
        }
    }
    __atomic_store_n(args->note, CCL_WAIT_NONE, __ATOMIC_RELAXED);
}

static int join_wait(const struct ccl_work *work)
{
    for (uint16_t i = 0; i < work->ngates; i++) {
        const struct ccl_gate *gate = &work->gates[i];
        if (!wait_while(&gate->raised, count_gone(gate), work->abort_word)) return 0;
    }
    return 1;
}

/* Releases publish the results, to streams of this process and of others. */
static void join_leave(const struct ccl_work *work)
{
    for (uint16_t i = 0; i < work->ngates; i++) {
        struct ccl_gate *gate = &work->gates[i];
        __atomic_store_n(&gate->gone, count_gone(gate) + 1, __ATOMIC_RELEASE);
    }
    if (work->done != NULL) __atomic_store_n(work->done, work->done_value, __ATOMIC_RELEASE);
}

/* ---- schedules ---- */

/* The launch takes the steps along: those of the first body, all that the local path runs. */
struct sched {
    size_t nsteps;
    struct ccl_work work;
    struct ccl_step steps[];
};

static void copy_lengths(const struct ccl_work *work)
{
    for (uint16_t i = 0; i < work->nlocal; i++) {
        const struct ccl_slot *pair = &work->local[i];
        if (pair->scalar > 0) memmove(pair->out, pair->in, pair->scalar);
    }
}

/* The host's code looks at more than kernels of a GPU do, who neither stop halfway nor take turns.
 */
static void interpret(const struct sched *sched)
{
    static const uint32_t never;
    uint64_t note = 0;
    uint32_t error = 0;
    struct ccl_work work = sched->work;
    work.body[0].steps = sched->steps;
    work.ngates = 0;
    work.turn = NULL;
    work.boards = NULL;
    work.abort_word = &never;
    work.note = &note;
    work.error = &error;
    for (uint32_t lane = 0; lane < work.nchannels; lane++) {
        struct ccl_cursor cursor = {{0}};
        if (ccl_kernel_sched(&work, lane, &cursor) != CCL_RUN_DONE) abort();
    }
}

static void run_sched(const void *memory)
{
    const struct sched *sched = memory;
    const struct ccl_work *work = &sched->work;
    if (!join_wait(work)) return;
    if (work->flags & CCL_WORK_LENGTHS)
        copy_lengths(work);
    else
        interpret(sched);
    join_leave(work);
}

/* ---- what core launches ---- */

int ccl_cuda_load(void)
{
    return 0;
}

int ccl_cuda_reduces(int type, int capability)
{
    int is_fp8 = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
    return capability >= (is_fp8 ? 90 : 0);
}

int ccl_cuda_kernel_sched(const void *args, cudaStream_t stream)
{
    const struct ccl_work *work = args;
    const struct ccl_body *body = &work->body[0];
    size_t bytes = sizeof(struct sched) + body->nsteps * sizeof body->steps[0];
    struct sched *sched = sim_need(bytes);
    sched->nsteps = body->nsteps;
    memcpy(&sched->work, work, offsetof(struct ccl_work, local));
    memcpy(sched->work.local, work->local, work->nlocal * sizeof work->local[0]);
    memcpy(sched->steps, body->steps, body->nsteps * sizeof body->steps[0]);
    struct sim_kernel *kernel = sim_kernel_make(run_sched, sched, bytes);
    free(sched);
    return launch(kernel, stream) != ncclSuccess;
}

int ccl_cuda_kernel_gates(const void *args, cudaStream_t stream)
{
    const struct ccl_gates_args *gates = args;
    size_t bytes = offsetof(struct ccl_gates_args, gates) + gates->ngates * sizeof gates->gates[0];
    return launch(sim_kernel_make(run_gates, args, bytes), stream) != ncclSuccess;
}

int ccl_cuda_kernel_await(const void *args, cudaStream_t stream)
{
    size_t bytes = sizeof(struct ccl_await_args);
    return launch(sim_kernel_make(run_await, args, bytes), stream) != ncclSuccess;
}

int ccl_cuda_kernel_raise(const void *args, cudaStream_t stream)
{
    size_t bytes = sizeof(struct ccl_raise_args);
    return launch(sim_kernel_make(run_raise, args, bytes), stream) != ncclSuccess;
}

int ccl_cuda_kernel_takes(const void *args, cudaStream_t stream)
{
    size_t bytes = sizeof(struct ccl_takes_args);
    return launch(sim_kernel_make(run_takes, args, bytes), stream) != ncclSuccess;
}

/* Messages between executors: there is one. */
int ccl_cuda_kernel_pairs(const void *args, cudaStream_t stream)
{
    (void)args;
    (void)stream;
    return 1;
}
