/* One process drives all devices: ncclCommInitAll makes one communicator per device, a group
 * enqueues the same all-reduce on each. Usage: init_all [RANKS]. More ranks than host devices
 * share devices. Prints the devices and what every rank got; exit 1 on the first error.
 */
#include <chorus.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000, MAX_RANKS = 64 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "init_all: %s: %s: %s\n", #call, ncclGetErrorString(result_),          \
                    ncclGetLastError(NULL));                                                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const struct chorus_devices *devices;
static ncclComm_t comms[MAX_RANKS];
static cudaStream_t streams[MAX_RANKS];
static float *data[MAX_RANKS]; /* of the device; reduced in place */

/* The communicator must say what InitAll was asked for; makes its stream and fills its buffer. */
static void prepare(int rank, int nranks, int ndevices)
{
    static float values[COUNT];
    int size, own, device;
    CHECK(ncclCommCount(comms[rank], &size));
    CHECK(ncclCommUserRank(comms[rank], &own));
    CHECK(ncclCommCuDevice(comms[rank], &device));
    if (size != nranks || own != rank || device != rank % ndevices) {
        fprintf(stderr, "init_all: rank %d of %d on device %d, but %d of %d on %d was asked for\n",
                own, size, device, rank, nranks, rank % ndevices);
        exit(1);
    }
    for (int i = 0; i < COUNT; i++) values[i] = (float)(rank + 1);
    CHECK(devices->set(device));
    CHECK(devices->stream_create(&streams[rank]));
    CHECK(devices->alloc((void **)&data[rank], sizeof values));
    CHECK(devices->copy(data[rank], values, sizeof values, streams[rank]));
    CHECK(devices->stream_sync(streams[rank]));
}

static void check_result(int rank, int nranks)
{
    static float values[COUNT];
    float expected = (float)(nranks * (nranks + 1) / 2);
    CHECK(devices->copy(values, data[rank], sizeof values, streams[rank]));
    CHECK(devices->stream_sync(streams[rank]));
    for (int i = 0; i < COUNT; i++) {
        if (values[i] == expected) continue;
        fprintf(stderr, "init_all: rank %d: element %d is %g, expected %g\n", rank, i,
                (double)values[i], (double)expected);
        exit(1);
    }
    printf("rank %d of %d: sum %g\n", rank, nranks, (double)expected);
}

int main(int argc, char **argv)
{
    int ndevices;
    devices = chorus_devices();
    CHECK(devices->count(&ndevices));
    int nranks = argc > 1 ? atoi(argv[1]) : ndevices;
    if (nranks < 1 || nranks > MAX_RANKS) {
        fprintf(stderr, "usage: init_all [RANKS], 1 to %d\n", MAX_RANKS);
        return 2;
    }
    for (int i = 0; i < ndevices; i++) {
        struct chorus_device_info info;
        CHECK(devices->info(i, &info));
        printf("device %d: %s [%s]\n", i, info.name, info.pci);
    }
    int list[MAX_RANKS];
    for (int i = 0; i < nranks; i++) list[i] = i % ndevices;
    CHECK(ncclCommInitAll(comms, nranks, list));
    for (int i = 0; i < nranks; i++) prepare(i, nranks, ndevices);
    CHECK(ncclGroupStart());
    for (int i = 0; i < nranks; i++)
        CHECK(ncclAllReduce(data[i], data[i], COUNT, ncclFloat32, ncclSum, comms[i], streams[i]));
    CHECK(ncclGroupEnd());
    for (int i = 0; i < nranks; i++) check_result(i, nranks);
    CHECK(ncclGroupStart());
    for (int i = 0; i < nranks; i++) CHECK(ncclCommFinalize(comms[i]));
    CHECK(ncclGroupEnd());
    for (int i = 0; i < nranks; i++) {
        CHECK(ncclCommDestroy(comms[i]));
        CHECK(devices->stream_destroy(streams[i]));
        CHECK(devices->free(data[i]));
    }
    return 0;
}
