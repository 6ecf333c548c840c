/* The values of verification made and compared by kernels on a GPU: what check_device.c asks and
 * cuda_values.cu does. Plain C, no CUDA header, so that the former compiles without nvcc.
 */
#ifndef PERF_CUDA_VALUES_H
#define PERF_CUDA_VALUES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum perf_value_mode {
    PERF_VALUES_LOAD,        /* load the kernels, which later would wait for the whole device */
    PERF_VALUES_FILL,        /* write the elements */
    PERF_VALUES_FILL_OTHERS, /* write their complements */
    PERF_VALUES_COMPARE,     /* count those that differ in `result` */
    PERF_GUARDS_FILL,        /* write the guard bytes before and behind `elems` bytes at `at` */
    PERF_GUARDS_COMPARE      /* into result[0], result[1]; counts bytes */
};

/* Zero before the first comparison. */
struct perf_value_result {
    unsigned long long wrong;
    unsigned long long first_inverted; /* complement of the first wrong index */
};

/* One run of elements in device memory; all pointers but the job's own are device memory. */
struct perf_value_job {
    enum perf_value_mode mode;
    unsigned type_bytes;
    void *at;        /* of the first element */
    uint64_t elems;  /* how many */
    uint64_t first;  /* number of the first in its buffer, for `result` */
    uint64_t from;   /* number of the first in its source */
    const void *row; /* PERF_COLUMNS elements of a table, or NULL: the stream */
    uint64_t seed, stream;
    struct perf_value_result *result;
};

struct CUstream_st;

/* Enqueues the job on a stream of the current device. Returns a cudaError_t. */
int perf_cuda_values(const struct perf_value_job *job, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
