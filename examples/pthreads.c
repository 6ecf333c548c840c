/* One process, one thread per rank: the main thread makes the unique id, each thread initialises
 * its own rank with it and works alone from there. Usage: pthreads [RANKS]. Prints what every
 * rank got; exit 1 on the first error.
 */
#include <chorus.h>
#include <nccl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, MAX_RANKS = 64 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "pthreads: %s: %s: %s\n", #call, ncclGetErrorString(result_),          \
                    ncclGetLastError(NULL));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* What a thread is told. */
struct worker {
    pthread_t thread;
    ncclUniqueId id;
    int nranks, rank, device;
};

static ncclComm_t open_rank(const struct worker *worker)
{
    ncclComm_t comm;
    int size, own, device;
    CHECK(ncclCommInitRank(&comm, worker->nranks, worker->id, worker->rank));
    CHECK(ncclCommCount(comm, &size));
    CHECK(ncclCommUserRank(comm, &own));
    CHECK(ncclCommCuDevice(comm, &device));
    if (size != worker->nranks || own != worker->rank || device != worker->device) {
        fprintf(stderr, "pthreads: rank %d of %d on device %d, but %d of %d on %d was asked for\n",
                own, size, device, worker->rank, worker->nranks, worker->device);
        exit(1);
    }
    return comm;
}

static void *run_rank(void *argument)
{
    const struct worker *worker = argument;
    const struct chorus_devices *devices = chorus_devices();
    float values[COUNT], expected = (float)(worker->nranks * (worker->nranks + 1) / 2);
    float *data;
    cudaStream_t stream;
    CHECK(devices->set(worker->device)); /* the current device is the thread's own */
    ncclComm_t comm = open_rank(worker);
    CHECK(devices->stream_create(&stream));
    CHECK(devices->alloc((void **)&data, sizeof values));

    for (int i = 0; i < COUNT; i++) values[i] = (float)(worker->rank + 1);
    CHECK(devices->copy(data, values, sizeof values, stream));
    CHECK(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, stream));
    CHECK(devices->copy(values, data, sizeof values, stream));
    CHECK(devices->stream_sync(stream));
    for (int i = 0; i < COUNT; i++) {
        if (values[i] == expected) continue;
        fprintf(stderr, "pthreads: rank %d: element %d is %g, expected %g\n", worker->rank, i,
                (double)values[i], (double)expected);
        exit(1);
    }
    printf("rank %d of %d: sum %g\n", worker->rank, worker->nranks, (double)expected);

    CHECK(ncclCommFinalize(comm));
    CHECK(ncclCommDestroy(comm));
    CHECK(devices->stream_destroy(stream));
    CHECK(devices->free(data));
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MAX_RANKS];
    struct chorus_device_info info;
    ncclUniqueId id;
    int ndevices;
    CHECK(chorus_devices()->count(&ndevices));
    CHECK(chorus_devices()->info(0, &info));
    printf("%d devices, the first is %s [%s]\n", ndevices, info.name, info.pci);
    int nranks = argc > 1 ? atoi(argv[1]) : ndevices;
    if (nranks < 1 || nranks > MAX_RANKS) {
        fprintf(stderr, "usage: pthreads [RANKS], 1 to %d\n", MAX_RANKS);
        return 2;
    }
    CHECK(ncclGetUniqueId(&id));
    for (int i = 0; i < nranks; i++) {
        workers[i] = (struct worker){.id = id, .nranks = nranks, .rank = i, .device = i % ndevices};
        if (pthread_create(&workers[i].thread, NULL, run_rank, &workers[i]) != 0) {
            fprintf(stderr, "pthreads: cannot create thread %d\n", i);
            return 1;
        }
    }
    for (int i = 0; i < nranks; i++) pthread_join(workers[i].thread, NULL);
    return 0;
}
