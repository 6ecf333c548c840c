/* What the tests of the core share: one rank with its buffers, one call of a collective, and the
 * exact result of it. Knows only nccl.h and chorus.h; buffers are read and written directly once
 * the stream is idle, on a GPU too, unless kit_far is set: then calls are given what kit_given says
 * of a place, and kit_push and kit_pull copy. A rank is used by one thread at a time.
 */
#ifndef CORE_KIT_H
#define CORE_KIT_H

#include "chorus.h"
#include "unit/test.h"

#include <pthread.h>
#include <stdint.h>

enum { KIT_MAX_RANKS = 64 };

enum kit_coll {
    KIT_ALL_REDUCE,
    KIT_REDUCE,
    KIT_BROADCAST,
    KIT_ALL_GATHER,
    KIT_REDUCE_SCATTER,
    KIT_ALL_TO_ALL,
    KIT_GATHER,
    KIT_SCATTER,
    KIT_NCOLLS
};

/* Bit patterns instead of the kit's small integers: what each rank brings and, of a reduction, what
 * comes out. */
struct kit_values {
    const uint64_t *inputs; /* rank r: `elems` of them from inputs[r * elems] */
    const uint64_t *results;
    size_t elems;
};

/* One call; `in_place` counts only where the collective has an in-place form. */
struct kit_op {
    enum kit_coll coll;
    size_t count; /* of a block */
    ncclDataType_t type;
    ncclRedOp_t redop;
    int root, in_place;
    uint32_t seed;                   /* of the inputs and of the offset of the buffers */
    const struct kit_values *values; /* NULL: small integers */
    int in_shift, out_shift;         /* further elements of the offset, 0 to 15 */
    int spare;                       /* 1: ranks pass their buffers also where they are not used */
};

/* A plain one for tables; what is not named is 0. */
#define KIT_OP(coll_, count_, type_, redop_, root_)                                                \
    {                                                                                              \
        .coll = (coll_), .count = (count_), .type = (type_), .redop = (redop_), .root = (root_)    \
    }

struct kit_rank {
    int nranks, rank, device;
    ncclComm_t comm;
    cudaStream_t stream;
    char *in, *out; /* `room` bytes each, guard bytes included */
    size_t room;
    char *far_in, *far_out; /* with kit_far what calls are given; in and out are images of them */
};

/* 1: buffers are the GPU's own memory, and in and out of a rank are images of them. proc_open sets
 * it on a GPU, since processes cannot map each other's host memory. */
extern int kit_far;

/* A world of ranks in this process, rank r on device r % ndevices. */
struct kit {
    int nranks, ndevices;
    struct kit_rank ranks[KIT_MAX_RANKS];
};

/* Stream and buffers on the current device for blocks of `count` elements. */
void kit_rank_open(struct kit_rank *rank, int nranks, int me, size_t count);
/* Destroys the communicator, if there is one, and the rest. */
void kit_rank_close(struct kit_rank *rank);
/* All ranks, with communicators from ncclCommInitAll. */
void kit_open(struct kit *kit, int nranks, int ndevices, size_t count);
void kit_close(struct kit *kit);

/* Inputs and guard bytes of one rank; its stream must be idle. */
void kit_prepare(struct kit_rank *rank, const struct kit_op *op);
/* The call itself, on the rank's stream. */
ncclResult_t kit_call(struct kit_rank *rank, const struct kit_op *op);
/* Waits for the stream, then compares both buffers, guard bytes included, with what must be there.
 */
void kit_check(struct kit_rank *rank, const struct kit_op *op);
/* The same, but 0 and a text that names call and byte where kit_check fails the case. */
int kit_matches(struct kit_rank *rank, const struct kit_op *op, char *text, size_t text_bytes);
/* Prepare, call in one group, check, for all ranks of this process. */
void kit_run(struct kit *kit, const struct kit_op *op);
/* The same; 0 when NCCL_ALGO and NCCL_PROTO leave nothing for this collective. */
int kit_try(struct kit *kit, const struct kit_op *op);

/* Copies the first `bytes` of both images to the GPU (there) or back and waits; without kit_far
 * nothing is to be copied. */
void kit_copy(struct kit_rank *rank, size_t bytes, int there);
#define kit_push(rank, bytes) kit_copy(rank, bytes, 1)
#define kit_pull(rank, bytes) kit_copy(rank, bytes, 0)
/* What a call is given for a place in rank->in or rank->out. */
void *kit_given(const struct kit_rank *rank, const void *place);

void kit_sync(struct kit_rank *rank);
int kit_has_place(enum kit_coll coll); /* 1 when there is an in-place form */
const char *kit_name(enum kit_coll coll);
size_t kit_type_bytes(ncclDataType_t type);

/* A call with valid arguments over all of a buffer, for tests that want only the call. */
struct kit_op kit_simple(enum kit_coll coll, size_t count);

/* A pseudo-random number from a state; the state is the seed at first. */
uint32_t kit_random(uint32_t *state);

/* Runs body(arg, i) for i in [0, n) on a thread each and joins them. */
void kit_threads(int n, void (*body)(void *arg, int i), void *arg);

/* Polls done(arg) until it is true; fails the case after `limit_ms`. */
void kit_until(int (*done)(void *arg), void *arg, int limit_ms, const char *what);
/* Milliseconds on a clock that never jumps. */
int64_t kit_now_ms(void);

/* Pages of memory in use; 0 under a sanitizer, which keeps what is freed. */
long kit_resident_pages(void);

/* 1 in a slow build, where a part of a large series must do. */
int kit_is_slow(void);

/* Runs a "child:" case with variables; it must exit 0. */
void kit_child(const char *name, const char *const env[]);

/* A wait until chorus_comm_status of `comm` has `part` in it. */
void kit_await_status(ncclComm_t comm, const char *part);
/* A wait until the communicator has failed; checks the code and that the text of a further call
 * has `part` in it. */
void kit_await_error(struct kit_rank *rank, ncclResult_t code, const char *part);

#endif
