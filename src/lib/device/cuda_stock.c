/* Events and streams made in advance. Called through the device table.
 *
 * Making one takes the lock of the context for writing, and a copy from or to pageable memory holds
 * that lock for as long as its stream waits: perhaps for the very call, or for the thread of the
 * library, that needs the event. So each device has a stock of them, filled when communicators are
 * made, from which calls take theirs. One that is empty makes what is asked for.
 */
#include "device/cuda.h"

#include "base/err.h"

#include <pthread.h>

enum { EVENTS = 256, STREAMS = 16, MAX_DEVICES = 64 };

struct stock {
    cudaEvent_t events[EVENTS];
    cudaStream_t streams[STREAMS];
    int nevents, nstreams;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stock stocks[MAX_DEVICES];

static cudaError_t make_event(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

static cudaError_t make_stream(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
}

/* Of the current device; NULL: there is none for it. */
static struct stock *find(void)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess || device >= MAX_DEVICES) return NULL;
    return &stocks[device];
}

static int has_room(const int *n, int most)
{
    pthread_mutex_lock(&lock);
    int room = *n < most;
    pthread_mutex_unlock(&lock);
    return room;
}

/* Another thread may have filled the stock meanwhile. */
static void put_event(struct stock *stock, cudaEvent_t event)
{
    pthread_mutex_lock(&lock);
    int fits = stock->nevents < EVENTS;
    if (fits) stock->events[stock->nevents++] = event;
    pthread_mutex_unlock(&lock);
    if (!fits) cudaEventDestroy(event);
}

static void put_stream(struct stock *stock, cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    int fits = stock->nstreams < STREAMS;
    if (fits) stock->streams[stock->nstreams++] = stream;
    pthread_mutex_unlock(&lock);
    if (!fits) cudaStreamDestroy(stream);
}

/* The lock is not held while something is made: that may take as long as a stream of another thread
 * waits, and calls that find the stock full must not wait for it.
 *
 * Best effort: what cannot be made now is made when it is needed, or fails there. */
void ccl_cuda_stock_fill(void)
{
    struct stock *stock = find();
    cudaError_t error = cudaSuccess;
    if (stock == NULL) return;
    while (error == cudaSuccess && has_room(&stock->nevents, EVENTS)) {
        cudaEvent_t event;
        error = make_event(&event);
        if (error == cudaSuccess) put_event(stock, event);
    }
    while (error == cudaSuccess && has_room(&stock->nstreams, STREAMS)) {
        cudaStream_t stream;
        error = make_stream(&stream);
        if (error == cudaSuccess) put_stream(stock, stream);
    }
    if (error != cudaSuccess) (void)cudaGetLastError();
}

ncclResult_t ccl_cuda_event_make(chorus_event_t *event)
{
    struct stock *stock = find();
    cudaEvent_t made = NULL;
    if (event == NULL) return ccl_err(ncclInvalidArgument, "event_make: event is NULL");
    pthread_mutex_lock(&lock);
    if (stock != NULL && stock->nevents > 0) made = stock->events[--stock->nevents];
    pthread_mutex_unlock(&lock);
    if (made == NULL) TRY(ccl_cuda_check(make_event(&made), "cudaEventCreateWithFlags"));
    *event = (chorus_event_t)(void *)made;
    return ncclSuccess;
}

ncclResult_t ccl_cuda_stream_make(cudaStream_t *stream)
{
    struct stock *stock = find();
    *stream = NULL;
    pthread_mutex_lock(&lock);
    if (stock != NULL && stock->nstreams > 0) *stream = stock->streams[--stock->nstreams];
    pthread_mutex_unlock(&lock);
    if (*stream != NULL) return ncclSuccess;
    return ccl_cuda_check(make_stream(stream), "cudaStreamCreateWithFlags");
}
