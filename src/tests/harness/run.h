/* The run: all rows, on all threads of all processes in step. run.c owns the sweep and what the
 * rows, run_combine.c what the threads combine, run_iters.c the times of iterations, run_memory.c
 * the buffers, run_time.c one timed placement, run_check.c one verified placement.
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "harness/buffers.h"
#include "harness/devices.h"
#include "harness/marks.h"
#include "harness/stats.h"
#include "harness/verify.h"
#include "harness/world.h"

/* One row, equal on all threads and processes. */
struct perf_case {
    int type, op, root; /* op, root -1: none */
    int cycle;          /* of -N */
    struct perf_pair pair;
    size_t requested_bytes, elems, type_bytes;
};

/* One placement of a row as one thread sees it. */
struct perf_part {
    double time_first, time_sum, time_min, time_max; /* us per collective; first: of rank 0 */
    double cpu_us;                                   /* the largest */
    double calls;                                    /* timed, of each rank */
    int max_rank;                                    /* the first of the thread of time_max */
    int nthreads;
    uint64_t wrong;
    int bad_rank; /* lowest rank with a mismatch, -1: none */
    struct perf_mismatch mismatch;
};

struct perf_sweep {
    struct perf_world *world;
    size_t budget_bytes;                /* device memory for the buffers of one rank */
    size_t send_bytes, recv_bytes;      /* of the buffers of one rank */
    uint64_t fit_bytes;                 /* the largest requested size that fits, for every type */
    uint64_t too_large_bytes;           /* the largest that does not, 0: all do */
    struct perf_thread *threads;        /* [threads] while they run */
    struct perf_part *parts;            /* [threads] */
    struct perf_part total;             /* over all ranks; written by thread 0 between barriers */
    struct perf_iterations *iterations; /* -I, else NULL */
    int runs_again;                     /* --baseline: the series is not over yet */
    double *pairs;                      /* --pairs: [nranks][nranks] busbw of a size, or NULL */
    double busbw_sum;                   /* thread 0 of process 0 */
    int busbw_n;
};

struct perf_thread {
    struct perf_sweep *sweep;
    struct perf_rank *ranks;
    int index, n;           /* n ranks from index * n on */
    uint64_t seed;          /* of the next verified iteration */
    chorus_event_t *events; /* -I: [iterations + 1] */
    double *iter_us;        /* -I: [iterations], in their order, of one call */
    struct perf_marks *marks;
};

/* Runs everything that perf_sweep_plan has planned and writes the rows. Returns the exit code,
 * equal in all processes. */
int perf_run(struct perf_sweep *sweep);

/* [first, last] of a choice that may be "all" of n; both -1 when it does not apply. */
struct perf_span {
    int first, last;
};
struct perf_span perf_choose(int applies, int choice, int n);

/* Sets sizes and counts of a row whose type is set. */
void perf_start_case(struct perf_case *row, uint64_t size_bytes);
/* Whether a rank of the thread takes part in the row. */
int perf_is_busy(const struct perf_thread *thread, const struct perf_case *row);
/* Bytes of both buffers that a row needs; the same on all processes. */
void perf_row_need(const struct perf_world *world, const struct perf_case *row, size_t *send,
                   size_t *recv);

/* All threads of all processes wait for each other. */
void perf_thread_barrier(struct perf_thread *thread);

/* ---- run_combine.c ---- */
/* The times of the series of a placement; one without --until-stable. */
struct perf_batches {
    int n;
    double us[PERF_BATCHES_MOST];
    struct perf_stats stats; /* of them; sorts them */
};
/* Folds the parts of all threads into sweep->total; it stays until the next call. */
void perf_combine(struct perf_thread *thread);
/* Times a placement as often as --until-stable asks for; equal on all threads. */
void perf_time_batches(struct perf_thread *thread, const struct perf_case *row, int in_place,
                       struct perf_batches *batches);
/* What the row shows; sweep->total is of this placement. By thread 0. */
void perf_measure_make(struct perf_sweep *sweep, const struct perf_row *row,
                       const struct perf_batches *batches, struct perf_measure *measure);

/* ---- run_iters.c ---- */
/* Does nothing without -I, as the others below. */
void perf_iterations_open(struct perf_sweep *sweep);
void perf_iterations_close(struct perf_sweep *sweep);
/* The events and times of a thread. */
void perf_events_open(struct perf_thread *thread);
void perf_events_close(struct perf_thread *thread);
/* After the timed iterations, which are done: reads their times. */
void perf_events_read(struct perf_thread *thread);
/* Thread 0 of all processes, after perf_combine and before any thread times on: the times of all
 * threads, which live until the same placement of the next row. */
void perf_iterations_gather(struct perf_sweep *sweep, int in_place, struct perf_measure *measure);

/* ---- run_memory.c ---- */
/* Finds out which rows fit, and says on stderr when some do not. On all processes at once. */
void perf_sweep_plan(struct perf_sweep *sweep);
void perf_sweep_alloc(struct perf_sweep *sweep);
/* -M: what all ranks hold now goes to the footer. On all processes at once. */
void perf_sweep_memory(struct perf_sweep *sweep);
void perf_sweep_free(struct perf_sweep *sweep);

/* ---- run_time.c ---- */
struct perf_issue {
    const struct perf_case *row;
    int in_place;
    size_t iteration; /* chooses the slot */
    int calls;        /* -m */
};
/* Enqueues `calls` collectives for all ranks of the thread. */
void perf_issue(struct perf_thread *thread, const struct perf_issue *issue);
/* Waits until all ranks of the thread are idle. */
void perf_sync(struct perf_thread *thread);
/* Warms up and times one placement; fills the thread's part. */
void perf_time_case(struct perf_thread *thread, const struct perf_case *row, int in_place);

/* ---- run_graph.c ---- */
/* Captures iterations issue->iteration … of all ranks of the thread as one graph; by all threads
 * of all processes at once. The streams are idle then. */
perf_graph_t perf_graph_capture(struct perf_thread *thread, const struct perf_issue *issue,
                                int iterations);
/* Whether a graph may hold one iteration only, and each launch must be waited for. */
int perf_replays_wait(const struct perf_world *world);
/* Enqueues it once. */
void perf_graph_launch(struct perf_thread *thread, perf_graph_t graph);
void perf_graph_drop(struct perf_thread *thread, perf_graph_t graph);

/* ---- run_check.c ---- */
/* Verifies one placement -c times; adds to the thread's part. */
void perf_check_case(struct perf_thread *thread, const struct perf_case *row, int in_place);
/* "rank 3: element 17 of the receive buffer: expected ..., got ..." */
void perf_mismatch_text(const struct perf_case *row, const struct perf_part *part, char *text,
                        size_t bytes);

/* ---- preflight.c ---- */
/* Every pair of ranks of a group sends and receives; returns the exit code. */
int perf_preflight(struct perf_world *world);

#endif
