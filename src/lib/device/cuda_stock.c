/* Events and streams made in advance. Called through the device table.
 *
 * Making one takes the lock of the context for writing, and a copy to pageable memory holds that
 * lock for as long as its stream waits: perhaps for the very call, or for the thread of the
 * library, that needs the event. So each device has a stock of them, filled when communicators are
 * made, from which calls take theirs. One that is empty makes what is asked for.
 */
#include "device/cuda.h"

#include "base/err.h"

#include <pthread.h>

enum kind { EVENT, STREAM, NKINDS };
enum { MOST = 256, MAX_DEVICES = 64 };
static const int most[NKINDS] = {[EVENT] = MOST, [STREAM] = 16};

struct shelf {
    void *things[MOST];
    int n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shelf shelves[MAX_DEVICES][NKINDS];

static cudaError_t make(enum kind kind, void **thing)
{
    cudaEvent_t event = NULL;
    cudaStream_t stream = NULL;
    cudaError_t error = kind == EVENT ? cudaEventCreateWithFlags(&event, cudaEventDisableTiming)
                                      : cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    *thing = kind == EVENT ? (void *)event : (void *)stream;
    return error;
}

static void destroy(enum kind kind, void *thing)
{
    if (kind == EVENT)
        cudaEventDestroy((cudaEvent_t)thing);
    else
        cudaStreamDestroy((cudaStream_t)thing);
}

/* Of the current device; NULL: there is none for it. */
static struct shelf *find(enum kind kind)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES) return NULL;
    return &shelves[device][kind];
}

static int is_full(const struct shelf *shelf, enum kind kind)
{
    pthread_mutex_lock(&lock);
    int full = shelf->n == most[kind];
    pthread_mutex_unlock(&lock);
    return full;
}

/* Another thread may have filled the shelf meanwhile. */
static void put(struct shelf *shelf, enum kind kind, void *thing)
{
    pthread_mutex_lock(&lock);
    int fits = shelf->n < most[kind];
    if (fits) shelf->things[shelf->n++] = thing;
    pthread_mutex_unlock(&lock);
    if (!fits) destroy(kind, thing);
}

/* The lock is not held while something is made: that may take as long as a stream of another thread
 * waits, and calls that find the stock full must not wait for it.
 *
 * Best effort: what cannot be made now is made when it is needed, or fails there. */
void ccl_cuda_stock_fill(void)
{
    for (enum kind kind = 0; kind < NKINDS; kind++) {
        struct shelf *shelf = find(kind);
        while (shelf != NULL && !is_full(shelf, kind)) {
            void *thing;
            if (make(kind, &thing) != cudaSuccess) {
                (void)cudaGetLastError();
                break;
            }
            put(shelf, kind, thing);
        }
    }
}

static ncclResult_t take(enum kind kind, const char *what, void **thing)
{
    struct shelf *shelf = find(kind);
    *thing = NULL;
    pthread_mutex_lock(&lock);
    if (shelf != NULL && shelf->n > 0) *thing = shelf->things[--shelf->n];
    pthread_mutex_unlock(&lock);
    return *thing != NULL ? ncclSuccess : ccl_cuda_check(make(kind, thing), what);
}

ncclResult_t ccl_cuda_event_make(chorus_event_t *event)
{
    void *made;
    TRY(take(EVENT, "cudaEventCreateWithFlags", &made));
    *event = (chorus_event_t)made;
    return ncclSuccess;
}

ncclResult_t ccl_cuda_stream_make(cudaStream_t *stream)
{
    void *made;
    TRY(take(STREAM, "cudaStreamCreateWithFlags", &made));
    *stream = (cudaStream_t)made;
    return ncclSuccess;
}
