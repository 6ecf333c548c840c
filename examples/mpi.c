/* One MPI process per rank: rank 0 makes the unique id, MPI broadcasts it, and each process
 * initialises its rank on the device of its place on the host. Usage: mpirun -np 4 mpi.
 * Rank 0 prints; any error ends all processes with exit code 1.
 */
#include <chorus.h>
#include <nccl.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        ncclResult_t result_ = (call);                                                             \
        if (result_ != ncclSuccess) {                                                              \
            fprintf(stderr, "mpi: %s: %s: %s\n", #call, ncclGetErrorString(result_),               \
                    ncclGetLastError(NULL));                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* The place among the processes of this host, which picks the device. */
static int local_rank(void)
{
    MPI_Comm host;
    int rank;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &rank);
    MPI_Comm_free(&host);
    return rank;
}

static void check_comm(ncclComm_t comm, int nranks, int rank, int device)
{
    int size, own, on;
    CHECK(ncclCommCount(comm, &size));
    CHECK(ncclCommUserRank(comm, &own));
    CHECK(ncclCommCuDevice(comm, &on));
    if (size == nranks && own == rank && on == device) return;
    fprintf(stderr, "mpi: rank %d of %d on device %d, but %d of %d on %d was asked for\n", own,
            size, on, rank, nranks, device);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void reduce(const struct chorus_devices *devices, ncclComm_t comm, int nranks, int rank)
{
    float values[COUNT], expected = (float)(nranks * (nranks + 1) / 2);
    float *data;
    cudaStream_t stream;
    CHECK(devices->stream_create(&stream));
    CHECK(devices->alloc((void **)&data, sizeof values));
    for (int i = 0; i < COUNT; i++) values[i] = (float)(rank + 1);
    CHECK(devices->copy(data, values, sizeof values, stream));
    CHECK(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, stream));
    CHECK(devices->copy(values, data, sizeof values, stream));
    CHECK(devices->stream_sync(stream));
    for (int i = 0; i < COUNT; i++) {
        if (values[i] == expected) continue;
        fprintf(stderr, "mpi: rank %d: element %d is %g, expected %g\n", rank, i, (double)values[i],
                (double)expected);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK(devices->stream_destroy(stream));
    CHECK(devices->free(data));
    if (rank == 0) printf("all of %d ranks: sum %g\n", nranks, (double)expected);
}

int main(int argc, char **argv)
{
    const struct chorus_devices *devices = chorus_devices();
    struct chorus_device_info info;
    ncclUniqueId id;
    ncclComm_t comm;
    int nranks, rank, ndevices;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    CHECK(devices->count(&ndevices));
    int device = local_rank() % ndevices;
    CHECK(devices->set(device));
    CHECK(devices->info(device, &info));
    if (rank == 0) printf("%d devices, rank 0 uses %s [%s]\n", ndevices, info.name, info.pci);

    if (rank == 0) CHECK(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(ncclCommInitRank(&comm, nranks, id, rank));
    check_comm(comm, nranks, rank, device);
    reduce(devices, comm, nranks, rank);
    CHECK(ncclCommFinalize(comm));
    CHECK(ncclCommDestroy(comm));
    MPI_Finalize();
    return 0;
}
