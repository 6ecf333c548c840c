/* await.c: which streams of the process wait, and by what means one more may. */
#include "core/await.h"

#include "base/alloc.h"
#include "base/err.h"
#include "core/launch.h"
#include "kernel/kernel.h"

#include <pthread.h>

/* The latest wait of a stream by a memory operation: when it is over, so are those before it. */
struct waiting {
    const void *stream;
    int device;
    const uint32_t *word;
    uint32_t value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *list;
static size_t nwaiting, room;

static int is_over(const struct waiting *waiting)
{
    uint32_t now = __atomic_load_n(waiting->word, __ATOMIC_RELAXED);
    return (int32_t)(now - waiting->value) >= 0;
}

/* Drops what is over; returns how many other streams of the device wait, and the entry of this one
 * (NULL: it does not wait). Under the lock. */
static size_t count_others(int device, const void *stream, struct waiting **own)
{
    size_t kept = 0, nothers = 0;
    *own = NULL;
    for (size_t i = 0; i < nwaiting; i++) {
        if (is_over(&list[i])) continue;
        list[kept] = list[i];
        struct waiting *waiting = &list[kept++];
        if (waiting->device != device) continue;
        if (waiting->stream == stream)
            *own = waiting;
        else
            nothers++;
    }
    nwaiting = kept;
    return nothers;
}

/* Measured: with two queues fewer waiting than there are, all other streams go on. Under MPS one
 * may wait, and only if this process has nothing to do for it. */
static size_t most_others(struct ccl_queues queues, enum ccl_await_whom whom)
{
    size_t spare = queues.are_shared || queues.n < 3 ? 0 : queues.n - 2;
    if (whom == CCL_AWAIT_OTHERS && spare == 0) return 1;
    return spare;
}

static int launches_block(void)
{
    return ccl_device()->launches_block != NULL && ccl_device()->launches_block();
}

/* Notes that the stream waits; 0: it may not, or cannot be noted. */
static int take_queue(int device, cudaStream_t stream, const struct ccl_await *what)
{
    const void *name = ccl_track_name(stream);
    struct waiting *own;
    pthread_mutex_lock(&lock);
    size_t nothers = count_others(device, name, &own);
    int may = nothers < most_others(ccl_device()->queues(device), what->whom) || launches_block();
    if (may && own == NULL) {
        may = ccl_grow((void **)&list, nwaiting, &room, sizeof *list) == ncclSuccess;
        if (may) own = &list[nwaiting++];
    }
    if (may) *own = (struct waiting){name, device, what->word, what->value};
    pthread_mutex_unlock(&lock);
    return may;
}

ncclResult_t ccl_await(ncclComm_t comm, cudaStream_t stream, const struct ccl_await *what)
{
    if (take_queue(ccl_comm_device(comm), stream, what))
        return ccl_device()->word_wait(stream, what->word, what->value);
    struct ccl_await_args args = {.word = what->word, .value = what->value};
    struct ccl_launch_spec spec = {
        .args = &args,
        .args_bytes = sizeof args,
        .nlanes = 1,
        .cuda = ccl_cuda_kernel_await,
    };
    return ccl_launch(comm, stream, &spec);
}

void ccl_await_forget(const void *words, size_t bytes)
{
    uintptr_t from = (uintptr_t)words;
    size_t kept = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nwaiting; i++)
        if ((uintptr_t)list[i].word - from >= bytes) list[kept++] = list[i];
    nwaiting = kept;
    pthread_mutex_unlock(&lock);
}

int ccl_await_is_tight(int device)
{
    return ccl_device()->queues != NULL && ccl_device()->queues(device).n < 3;
}
