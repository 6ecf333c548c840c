/* check_impl.h: what the files of the proof share. Only for algo/check*.c. */
#ifndef CCL_ALGO_CHECK_IMPL_H
#define CCL_ALGO_CHECK_IMPL_H

#include "algo/check.h"
#include "base/err.h"

/* Where in the program something is wrong; step NULL: the executor or the program as a whole. */
struct place {
    uint16_t exec;
    uint32_t index;
    const struct ccl_step *step;
};

/* What a buffer or a place of a slot holds: a block of inputs, and whose of them. */
struct value {
    uint32_t block;     /* 1 + source block; 0: nothing yet */
    uint16_t is_posted; /* went through a step with CCL_STEP_POST */
    uint16_t writer;    /* executor */
    uint32_t step;      /* of the writer */
    uint32_t meeting;   /* how many the writer had been at */
    uint64_t ranks[CCL_PROGRAM_MAX_RANKS / 64];
};

/* A message in a FIFO, or one that is being filled (the last). */
struct message {
    uint16_t piece, is_filling, sender;
    uint32_t round, step;
    struct value *places; /* [pack] */
};

enum { NO_READER = 0, SEVERAL_READERS = UINT16_MAX }; /* else 1 + executor */

/* A FIFO between two executors. */
struct queue {
    struct message *messages; /* [depth] */
    uint32_t head, count;
};

struct runner {
    uint32_t round, index, nmeets;
    int has_come; /* to the meeting in work */
    int is_done;
};

struct check {
    const struct ccl_program *program;
    const char *name;
    uint16_t depth, npieces, pack, lag, max_blocks; /* max_blocks: of a buffer */
    uint32_t nrounds;
    int meets, reduces;
    struct value *outs;     /* [nrounds][nranks][max_blocks][npieces] */
    uint32_t *readers;      /* of what shares their memory: meetings << 16 | executor, below */
    struct queue *queues;   /* [nexecs][nexecs] sender, receiver */
    struct runner *runners; /* [nexecs] */
};

/* The error of a place: program, executor, step, line, what. */
ncclResult_t ccl_check_fail(const struct check *c, const struct place *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Blocks in the input or output of a rank; 0 where it has none. */
uint16_t ccl_check_blocks(const struct ccl_program *program, int rank, int is_out);

ncclResult_t ccl_check_form(struct check *c);

#endif
