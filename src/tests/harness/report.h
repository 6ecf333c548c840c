/* Reports: header, rows and footer as text, JSON. The run hands over records; the writers only format.
 * Called by harness/run.c in the process of rank 0.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "harness/coll.h"
#include "harness/options.h"

#include <stddef.h>
#include <stdint.h>

/* One placement (out of place or in place) of one row. */
struct perf_measure {
    int run;             /* 0: not run (prints -) */
    double time_us, algbw, busbw;   /* GB/s = 1e9 bytes a second */
    double cputime_us;
    int64_t wrong;       /* -1: not checked (N/A) */
    double iter_min_us, iter_max_us, iter_p99_us, iter_cv_percent; /* -I */
};

struct perf_row {
    size_t size_bytes, requested_bytes, count;
    int type, op, root;  /* op, root -1: none */
    int skipped;         /* does not fit in memory */
    struct perf_measure out_of_place, in_place;
};

struct perf_rank_info {
    int rank, group, pid, device;
    char host[64], device_name[64], pci[24];
};

struct perf_header {
    const struct perf_options *options;
    const struct perf_coll *coll;
    int nranks, nprocs, ranks_per_device, ndevices;
    const struct perf_rank_info *ranks; /* [nranks] */
    const char *init_call;  /* "ncclCommInitAll" */
    const char *init_mode;  /* "all", "thread", "mpi", "env", "spawn" */
    const char *device_kind;
    int nccl_version;
    uint64_t max_bytes_cap; /* 0 none */
};

enum perf_status { PERF_RUNNING, PERF_PASSED, PERF_FAILED, PERF_ERROR, PERF_TIMEOUT,
                   PERF_INTERRUPTED };

struct perf_footer {
    int64_t out_of_bounds;
    double avg_busbw; int avg_valid;
    double min_busbw_wanted; /* NCCL_TESTS_MIN_BW, 0 none */
    enum perf_status status;
    const char *error;       /* first error text or NULL */
    int nrows, nskipped;
    size_t lib_bytes, buffer_bytes; /* -M */
};

/* Opens the JSON file if asked (next free name; never overwrites). All return void: a failing
 * write ends the run with exit code 3 and a message, EPIPE ends it quietly. */
void perf_report_header(const struct perf_header *header);
void perf_report_row(const struct perf_row *row);
/* A mismatch line under the row: rank, index, expected, got. */
void perf_report_note(const char *text);
void perf_report_footer(const struct perf_footer *footer);

#endif
