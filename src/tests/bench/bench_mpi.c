/* bench_mpi.c: the MPI side of `make bench`: one process a rank, started by mpirun as
 * bench_mpi SIZES MILLISECONDS. Memory is malloc'd, as MPI programs have it. Built by mpicc and
 * not linked with this library.
 */
#include "bench/bench.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIGN_BYTES = 4096 };

static void call_mpi(void *self, const struct bench_cell *cell)
{
    const struct bench_side *side = self;
    int count = (int)cell->count_elems, n = side->nranks, rank = side->rank;
    float *in = side->in, *out = side->out;
    switch (cell->coll) {
    case BENCH_ALL_REDUCE: MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case BENCH_ALL_GATHER:
        MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case BENCH_BROADCAST:
        MPI_Bcast(rank == 0 ? in : out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        break;
    case BENCH_ALL_TO_ALL:
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        break;
    case BENCH_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    default:
        MPI_Sendrecv(in, count, MPI_FLOAT, (rank + 1) % n, 0, out, count, MPI_FLOAT,
                     (rank + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static double max_mpi(void *self, double value)
{
    double most;
    (void)self;
    MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv)
{
    struct bench_plan plan;
    struct bench_side side = {.self = &side, .call = call_mpi, .max = max_mpi};
    if (argc != 3) {
        fprintf(stderr, "usage: mpirun -np N bench_mpi SIZES MILLISECONDS\n");
        return 2;
    }
    bench_plan_read(&plan, argv[1], argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &side.nranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &side.rank);
    size_t bytes = bench_buffer_bytes(&plan, side.nranks);
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    side.in = aligned_alloc(ALIGN_BYTES, bytes);
    side.out = aligned_alloc(ALIGN_BYTES, bytes);
    if (side.in == NULL || side.out == NULL) {
        fprintf(stderr, "bench_mpi: no memory for 2 buffers of %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    bench_run(&side, &plan);
    free(side.in);
    free(side.out);
    MPI_Finalize();
    return 0;
}
