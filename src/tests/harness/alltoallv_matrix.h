/* How many elements each rank of alltoallv_perf sends to each: generated or from a file.
 *
 * The driver calls it. Set up once by perf_matrix_prepare, constant afterwards, thread-safe then.
 */
#ifndef PERF_ALLTOALLV_MATRIX_H
#define PERF_ALLTOALLV_MATRIX_H

#include "harness/coll.h"

#include <stddef.h>

/* What one row's matrix depends on. */
struct perf_matrix_row {
    size_t count; /* average elements per pair */
    size_t type_bytes;
    int nranks;
};

/* Reads NCCL_TESTS_ALLTOALLV_MATRIX_FILE, _MATRIX_SCALE, _SPREAD and _PRINT_SUMMARY. Returns 0,
 * or 2 after a message on stderr that names variable and value (or file, row and column). */
int perf_matrix_prepare(const struct perf_options *options, int nranks);

/* Elements that rank `from` sends to rank `to`. From a file: its bytes times the scale, aligned
 * down to 16 unless --exact. Generated: each rank sends count * nranks in all; a part `1 - spread`
 * of it evenly, the rest in proportion to the distance (to - from) mod n. */
size_t perf_matrix_elems(const struct perf_matrix_row *row, int from, int to);

/* Elements in front of the part for (from) a rank in a buffer, with rank = nranks: all of them. */
size_t perf_matrix_send_before(const struct perf_matrix_row *row, int rank, int to);
size_t perf_matrix_recv_before(const struct perf_matrix_row *row, int rank, int from);

/* The largest buffers that any rank needs. */
void perf_matrix_largest(const struct perf_matrix_row *row, size_t *send, size_t *recv);

int perf_matrix_is_file(void); /* 1: the sizes come from a file, not from -b and -e */
int perf_matrix_wants_summary(void);

/* Frees what prepare read. */
void perf_matrix_drop(void);

#endif
