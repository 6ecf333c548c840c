/* chorus_mpi.so, see mpi_plugin.h: MPI serves the rendezvous only. Once the processes know each
 * other, MPI is finalized, so that it neither polls beside the library under test nor decides
 * how a run ends.
 */
#include "harness/mpi_plugin.h"

#include <mpi.h>

static int mpi_init(void)
{
    return MPI_Init(NULL, NULL);
}

static int mpi_rank(void)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static int mpi_size(void)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

static int mpi_allgather(const void *mine, void *all, size_t bytes)
{
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int mpi_finalize(void)
{
    return MPI_Finalize();
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#ifdef OMPI_MAJOR_VERSION
#define MPI_LIBRARY "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION)
#else
#define MPI_LIBRARY "MPI " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif

__attribute__((visibility("default"))) const struct perf_mpi_plugin chorus_mpi_plugin = {
    .version = PERF_MPI_PLUGIN_VERSION,
    .library = MPI_LIBRARY,
    .init = mpi_init,
    .rank = mpi_rank,
    .size = mpi_size,
    .allgather = mpi_allgather,
    .finalize = mpi_finalize,
};
