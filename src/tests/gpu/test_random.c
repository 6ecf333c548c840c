/* Random configurations in one process, in batches, and random starts of several processes. Each
 * has a time limit, and one that hangs or errs is named by its number, from which it can be run
 * again alone: GPU_SEED=number GPU_RUNS=1. GPU_SLICE=i/N runs a part of 1,000 and 50. */
#include "core/procs.h"
#include "gpu/random_runs.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 50, TEXT_BYTES = 700 };

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

/* Which of `all` are run, and from which number on; `few` without a slice. */
static void find_part(int all, int few, uint32_t *first, int *n)
{
    int i, slices;
    const char *text = getenv("GPU_SLICE");
    *first = (uint32_t)number_of("GPU_SEED", 1);
    *n = number_of("GPU_RUNS", few);
    if (text == NULL || sscanf(text, "%d/%d", &i, &slices) != 2 || slices < 1) return;
    int share = (all + slices - 1) / slices;
    *first += (uint32_t)(i * share);
    *n = share;
}

static void say_run(const struct random_run *run)
{
    char text[TEXT_BYTES];
    random_describe(run, text, sizeof text);
    fprintf(stderr, "%s\n", text);
}

/* Processes that run the case for `n` configurations from a seed on. */
static void start(struct procs *procs, int nprocs, const char *name, uint32_t seed, int n)
{
    char first[32], runs[32];
    snprintf(first, sizeof first, "GPU_SEED=%u", seed);
    snprintf(runs, sizeof runs, "GPU_RUNS=%d", n);
    procs_start(procs, nprocs, name, (const char *const[]){first, runs, NULL});
}

static void child_batch(void)
{
    uint32_t first = (uint32_t)number_of("GPU_SEED", 1);
    int n = number_of("GPU_RUNS", 1);
    for (int i = 0; i < n; i++) {
        struct random_run run = random_pick(first + (uint32_t)i, 1);
        say_run(&run);
        random_do(&run);
        proc_say('r');
    }
}

static void test_in_process(void)
{
    uint32_t first;
    int n;
    find_part(1000, 100, &first, &n);
    NOTE("%d configurations from seed %u", n, first);
    for (int at = 0; at < n; at += BATCH) {
        int some = n - at < BATCH ? n - at : BATCH;
        struct procs procs;
        uint32_t seed = first + (uint32_t)at;
        start(&procs, 1, "child:batch", seed, some);
        for (int i = 0; i < some; i++) procs_hear(&procs, 0, 'r');
        procs_end(&procs, -1);
    }
}

static void child_start(void)
{
    struct random_run run = random_pick((uint32_t)number_of("GPU_SEED", 1), proc_count());
    say_run(&run);
    if (run.mode == RANDOM_GRAPH) run.mode = RANDOM_GROUP;
    random_do(&run);
    proc_say('r');
}

static void test_starts(void)
{
    uint32_t first;
    int n;
    find_part(50, 6, &first, &n);
    NOTE("%d starts from seed %u", n, first);
    for (int i = 0; i < n; i++) {
        struct procs procs;
        uint32_t seed = first + (uint32_t)i, state = seed;
        start(&procs, 2 + (int)(kit_random(&state) % 7), "child:start", seed, 1);
        for (int p = 0; p < procs.n; p++) procs_hear(&procs, p, 'r');
        procs_end(&procs, -1);
    }
}

static const struct test_case cases[] = {
    {"random configurations in a process", test_in_process, 3600},
    {"random starts of 2 to 8 processes", test_starts, 3600},
    {"child:batch", child_batch, 3600},
    {"child:start", child_start, 120},
};

GPU_TEST_MAIN(cases)
