/* A small world for the conformance tests: NRANKS ranks of this process, one stream and one input
 * and output buffer each. Used by every file of this folder; knows only nccl.h and chorus.h, like
 * a program of a user. One world is used by one thread at a time.
 */
#ifndef CONFORM_WORLD_H
#define CONFORM_WORLD_H

#include "chorus.h"
#include "unit/test.h"

#include <stdint.h>

enum { NRANKS = 3, NELEMS = 1000 };

struct world {
    int nranks;
    ncclComm_t comm[NRANKS];
    cudaStream_t stream[NRANKS];
    int32_t *in[NRANKS]; /* NRANKS * NELEMS elements each */
    int32_t *out[NRANKS];
};

/* The device that stands for device i: where there are fewer, they are taken in turn. */
int world_device(int i);

/* Communicators from ncclCommInitAll on devices 0, 1, 2; fails the case when it cannot. */
void world_open(struct world *world);
/* Streams and buffers only: the case makes the communicators. */
void world_open_bare(struct world *world);
/* Destroys the communicators that are there, streams and buffers. */
void world_close(struct world *world);
/* Checks that an all-reduce over all ranks and elements gives every rank the exact sum. */
void world_works(struct world *world);
/* Waits for all streams. */
void world_sync(struct world *world);

/* The call returned `code`, and the last error says `function: …detail…`. */
void expect_error(ncclResult_t got, ncclResult_t code, const char *function, const char *detail);

/* Memory that is no handle of anything. */
void *world_garbage(void);

/* The current device of this thread. */
int current_device(void);

/* One table of cases per file; conform_api.c runs them all. A case is a row about each function
 * that its name names. */
struct case_list {
    const struct test_case *cases;
    size_t ncases;
};
extern const struct case_list info_cases, export_cases, life_cases, config_cases, group_cases,
    memory_cases, param_cases, device_cases, require_cases, wrong_op_cases, wrong_life_cases,
    wrong_device_cases, wrong_family_cases, window_cases, disagree_cases, simulate_cases,
    table_cases;

#endif
