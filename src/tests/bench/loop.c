/* loop.c: the timing loop, its adaptive number of calls, and the check that the result is right.
 *
 * Linked into bench_chorus and bench_mpi. The timed loop has no barrier: ranks start together and
 * drift as the operation lets them, which is how programs call collectives.
 */
#include "bench/bench.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIRST_CALLS = 2, MOST_CALLS = 100000, NBATCHES = 9 };

static const char *const names[BENCH_NCOLLS] = {
    [BENCH_ALL_REDUCE] = "all_reduce", [BENCH_ALL_GATHER] = "all_gather",
    [BENCH_BROADCAST] = "broadcast",   [BENCH_ALL_TO_ALL] = "alltoall",
    [BENCH_SENDRECV] = "sendrecv",     [BENCH_REDUCE_SCATTER] = "reduce_scatter",
};

static double now_s(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void bench_plan_read(struct bench_plan *plan, const char *sizes, const char *milliseconds)
{
    char *end;
    plan->nsizes = 0;
    do {
        unsigned long long bytes = strtoull(sizes, &end, 10);
        if (end == sizes || bytes < 4 || plan->nsizes == BENCH_MAX_SIZES) {
            fprintf(stderr, "bench: '%s' is no list of at most %d sizes of 4 bytes or more\n",
                    sizes, BENCH_MAX_SIZES);
            exit(2);
        }
        plan->sizes[plan->nsizes++] = (size_t)bytes;
        sizes = end + 1;
    } while (*end == ',');
    plan->target_s = strtod(milliseconds, NULL) / 1000;
    if (*end == '\0' && plan->target_s > 0) return;
    fprintf(stderr, "bench: '%s' milliseconds is not above 0, or '%s' follows a size\n",
            milliseconds, end);
    exit(2);
}

static int has_blocks(enum bench_coll coll)
{
    return coll == BENCH_ALL_GATHER || coll == BENCH_ALL_TO_ALL || coll == BENCH_REDUCE_SCATTER;
}

static size_t count_elems(enum bench_coll coll, size_t bytes, int nranks)
{
    size_t elems = bytes / sizeof(float) / (has_blocks(coll) ? (size_t)nranks : 1);
    return elems > 0 ? elems : 1;
}

size_t bench_buffer_bytes(const struct bench_plan *plan, int nranks)
{
    size_t most = (size_t)nranks * sizeof(float);
    for (int i = 0; i < plan->nsizes; i++)
        if (plan->sizes[i] > most) most = plan->sizes[i];
    return most;
}

/* Every rank's input is its rank plus one throughout; what block `block` of the output is then. */
static float expected(const struct bench_side *side, enum bench_coll coll, int block)
{
    int n = side->nranks;
    switch (coll) {
    case BENCH_ALL_REDUCE:
    case BENCH_REDUCE_SCATTER: return (float)(n * (n + 1) / 2);
    case BENCH_BROADCAST: return 1;
    case BENCH_SENDRECV: return (float)((side->rank + n - 1) % n + 1);
    default: return (float)(block + 1);
    }
}

/* Clears (check = 0) or checks the first and the last element of every block of the output. */
static int wrong_ends(const struct bench_side *side, const struct bench_cell *cell, int check)
{
    int is_many = cell->coll == BENCH_ALL_GATHER || cell->coll == BENCH_ALL_TO_ALL;
    int nblocks = is_many ? side->nranks : 1, wrong = 0;
    if (cell->coll == BENCH_BROADCAST && side->rank == 0) return 0;
    for (int b = 0; b < nblocks; b++) {
        float *ends[] = {side->out + (size_t)b * cell->count_elems,
                         side->out + (size_t)(b + 1) * cell->count_elems - 1};
        for (int i = 0; i < 2; i++) {
            float want = expected(side, cell->coll, b);
            if (check)
                wrong += *ends[i] < want || *ends[i] > want;
            else
                *ends[i] = 0;
        }
    }
    return wrong;
}

/* Seconds that `calls` calls took on the slowest rank. */
static double time_calls(const struct bench_side *side, const struct bench_cell *cell, int calls)
{
    side->max(side->self, 0);
    double began = now_s();
    for (int i = 0; i < calls; i++) side->call(side->self, cell);
    return side->max(side->self, now_s() - began);
}

/* How many calls make one batch. All ranks see the same times and so choose alike. */
static int choose_calls(const struct bench_side *side, const struct bench_cell *cell,
                        double batch_s)
{
    int calls = FIRST_CALLS;
    time_calls(side, cell, 1);
    double took_s = time_calls(side, cell, calls);
    while (took_s < batch_s * 0.5 && calls < MOST_CALLS) {
        double more = batch_s / (took_s > 1e-7 ? took_s : 1e-7);
        calls = (int)(calls * (more > 16 ? 16 : more)) + 1;
        if (calls > MOST_CALLS) calls = MOST_CALLS;
        took_s = time_calls(side, cell, calls);
    }
    return calls;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A slow operation gets fewer batches, three at least. */
static void run_cell(const struct bench_side *side, const struct bench_plan *plan,
                     const struct bench_cell *cell, size_t bytes)
{
    double times[NBATCHES], sum_s = 0;
    int done = 0;
    wrong_ends(side, cell, 0);
    int calls = choose_calls(side, cell, plan->target_s / NBATCHES);
    while (done < NBATCHES && (done < 3 || sum_s < plan->target_s * 2)) {
        double took_s = time_calls(side, cell, calls);
        sum_s += took_s;
        times[done++] = took_s / calls * 1e6;
    }
    double wrong = side->max(side->self, wrong_ends(side, cell, 1));
    if (wrong > 0) {
        if (side->rank == 0)
            fprintf(stderr, "bench: %s of %zu bytes: wrong result\n", names[cell->coll], bytes);
        exit(1);
    }
    if (side->rank != 0) return;
    qsort(times, (size_t)done, sizeof times[0], compare_times);
    printf("%s %zu %.3f %.3f %d\n", names[cell->coll], bytes, times[done / 2], times[0],
           done * calls);
    fflush(stdout);
}

void bench_run(const struct bench_side *side, const struct bench_plan *plan)
{
    size_t elems = bench_buffer_bytes(plan, side->nranks) / sizeof(float);
    for (size_t i = 0; i < elems; i++) side->in[i] = (float)(side->rank + 1);
    memset(side->out, 0, elems * sizeof(float));
    for (int coll = 0; coll < BENCH_NCOLLS; coll++)
        for (int i = 0; i < plan->nsizes; i++) {
            enum bench_coll which = (enum bench_coll)coll;
            struct bench_cell cell = {which, count_elems(which, plan->sizes[i], side->nranks)};
            run_cell(side, plan, &cell, plan->sizes[i]);
        }
}
