/* Reports: header, rows and footer as text on stdout and as JSON. The run hands over records; the
 * writers only format. Called by harness/run.c in the process of rank 0, from one thread at a
 * time.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "harness/coll.h"
#include "harness/options.h"
#include "harness/stats.h"

#include <stddef.h>
#include <stdint.h>

/* What the latest collective ran; "" and 0 where the library does not tell. */
struct perf_ran {
    char algorithm[32], protocol[16], transport[16], join[16];
    int channels;
};

/* -I: the time of each iteration, including those that -K leaves out of the statistics. */
struct perf_times {
    int n, nprocs, skipped;
    const double *slowest_us; /* [n] of the slowest process */
    const double *by_proc_us; /* [nprocs][n] */
};

/* One placement (out of place or in place) of one row. */
struct perf_measure {
    int run;                                      /* 0: not run (prints -) */
    double time_us, algbw, busbw;                 /* GB/s = 1e9 bytes a second */
    double cputime_us;                            /* -C */
    int64_t wrong;                                /* elements; -1: not checked (N/A) */
    double sum_algbw, sum_busbw;                  /* of all groups, which run side by side */
    double rank_min_us, rank_avg_us, rank_max_us; /* over the threads, which have ranks each */
    int max_rank;                                 /* the first of those that took longest */
    struct perf_stats iters; /* of iterations (-I) or batches (--until-stable); n 0: none */
    struct perf_times times;
    int64_t calls;     /* that were timed, of each rank */
    int batches;       /* series that were timed, one unless --until-stable asks for more */
    double ci_percent; /* half of the confidence interval of the batches' mean */
    size_t slots;      /* buffers that the calls went through in turn */
    struct perf_ran ran;
};

struct perf_row {
    size_t size_bytes, requested_bytes, count;
    int type, op, root; /* op, root -1: none */
    int from, to;       /* --pairs: the two that talk, else -1 */
    int cycle;          /* of -N, from 0 */
    int skipped;        /* does not fit in memory */
    struct perf_measure out_of_place, in_place;
};

struct perf_rank_info {
    int rank, group, pid, device;
    char host[64], device_name[64], pci[24], uuid[48];
};

struct perf_header {
    const struct perf_options *options;
    const struct perf_coll *coll;
    int nranks, nprocs, ranks_per_device, ndevices;
    int group_size;                     /* ranks of rank 0's communicator, whom the rows are of */
    int ngroups;                        /* that run side by side */
    const struct perf_rank_info *ranks; /* [nranks] */
    const char *init_call;              /* "ncclCommInitAll" */
    const char *init_mode;              /* "all", "thread", "mpi", "env", "spawn" */
    const char *device_kind;
    const char *no_gpu; /* why there are none, when they were looked for; or "" */
    int multi_rank_set; /* NCCL_MULTI_RANK_GPU_ENABLE was set by this program */
    int replays_wait;   /* -G: one call per graph, and each replay is waited for */
    int nccl_version;
    uint64_t fit_bytes;  /* the largest size that fits in memory */
    int some_do_not_fit; /* and greater ones are asked for */
    const char *timed;   /* what the clock covers; NULL: the text in report.c */
};

enum perf_status {
    PERF_RUNNING,
    PERF_PASSED,
    PERF_FAILED,
    PERF_ERROR,
    PERF_TIMEOUT,
    PERF_INTERRUPTED
};

/* What a comparison with a baseline found for a placement of a row, in medians over its cycles. */
enum perf_change {
    PERF_CHANGE_NONE,
    PERF_CHANGE_FASTER,
    PERF_CHANGE_SLOWER,
    PERF_CHANGE_MISSING /* the baseline has it, this run has not */
};

struct perf_gate_cell {
    size_t size_bytes;
    char type[16], op[16];
    int root, in_place, from, to;
    int by_rate; /* judged by bandwidth, small ones by time */
    double base_us, now_us, base_rate, now_rate;
    double change_percent; /* of time or rate; positive is worse */
    double tolerance_percent;
    double noise_percent; /* of the baseline's repeats; negative: it has none */
    enum perf_change change;
};

struct perf_gate {
    const char *file;
    double tolerance_percent; /* asked for, 0: 5 or what the baseline supports, cell by cell */
    double supported_percent; /* smallest that the baseline's repeats allow; negative: not known */
    const struct perf_gate_cell *cells;
    int ncells, nslower, nfaster, nmissing;
    int nruns;           /* how often the series ran */
    const char *trouble; /* why it means little, or NULL */
};

/* -M: what a rank's communicator holds, -1 where the library does not tell. */
struct perf_rank_memory {
    int64_t total_bytes, suspendable_bytes;
    int64_t buffer_bytes;
};

struct perf_footer {
    int64_t out_of_bounds;
    double avg_busbw;
    int avg_valid;
    double min_busbw_wanted; /* NCCL_TESTS_MIN_BW, 0 none */
    enum perf_status status;
    const char *error; /* first error text or NULL */
    int nrows, nskipped;
    size_t lib_bytes, buffer_bytes;        /* of rank 0's process */
    const struct perf_rank_memory *memory; /* -M: [nranks], else NULL */
    int nranks;
    int64_t leak_bytes; /* device memory less free after the end than before the start; -1: n/a */
    const struct perf_gate *gate; /* --baseline, else NULL */
};

/* Called with the exit code when a write fails: 3 after a message, 128 + SIGPIPE without one when
 * the reader of stdout has gone. It must not return; exit() unless set. */
void perf_report_on_failure(void (*end)(int code));

/* Opens the file if -J asks for one: FILE, or the first free of FILE.0, FILE.1, ...; names it on
 * stderr. Its form is by the suffix of FILE: .jsonl, .csv, .xml (JUnit), else one JSON document.
 * From here on the file is a valid document at every moment, also after a crash.
 * Optional before perf_report_header, which does it otherwise; give it as early as rank 0 is
 * known, so that an error of the initialisation is reported too. */
void perf_report_open(const struct perf_options *options);

void perf_report_header(const struct perf_header *header);
void perf_report_row(const struct perf_row *row);

/* A mismatch line under the row: rank, index, expected, got. */
void perf_report_note(const char *text);

/* Any other line under the row: what each rank moved. */
void perf_report_summary(const char *text);

/* The end, once; also without a header before it (an error of the initialisation) and from the
 * handler thread of a signal, as long as no other report call runs. Closes the JSON file. */
void perf_report_footer(const struct perf_footer *footer);

/* 1 when rows were asked for and none of them fitted: nothing was run, so nothing is right. */
int perf_report_is_empty(const struct perf_footer *footer);

/* "busbw = algbw * 1.75" is n/a with one rank: 1 when a bus bandwidth means something. */
int perf_report_has_busbw(int nranks);

#endif
