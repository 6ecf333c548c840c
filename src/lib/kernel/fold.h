/* fold.h: moving and reducing data of one step on the host: many sources, many targets.
 *
 * Called by the interpreter only. Sources are folded in order; each operation rounds to the type.
 */
#ifndef CCL_KERNEL_FOLD_H
#define CCL_KERNEL_FOLD_H

#include "kernel/work.h"
#include "nccl.h"

/* A factor in the operation's data type, low bytes first. */
struct ccl_scale {
    uint64_t bits;
};

struct ccl_source {
    const void *data;
    struct ccl_scale scale;
    int scaled;
};

enum { CCL_FOLD_MAX = 2 * CCL_MAX_LOCAL, CCL_TILE = 512 };

struct ccl_fold {
    uint32_t nsources, ntargets;
    uint32_t nnear; /* of the targets the first, which are read again while they are in the cache */
    int streams;    /* the others are a part of what does not stay in it */
    struct ccl_source sources[CCL_FOLD_MAX];
    void *targets[CCL_FOLD_MAX];
    int type;         /* ncclDataType_t */
    int op;           /* enum ccl_redop_kind */
    uint32_t divisor; /* of the result; 0 or 1: none */
};

/* Folds n_elems elements. Targets may equal sources exactly (in place); other overlap is the
 * caller's error. */
void ccl_fold_run(const struct ccl_fold *fold, size_t n_elems);

/* Bytes of one element of a type, 0 for a value that is none. */
static inline size_t ccl_fold_type_bytes(int type)
{
    static const unsigned char bytes[ncclNumTypes] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,    [ncclInt32] = 4,      [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,   [ncclFloat16] = 2,    [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
    };
    return type >= 0 && type < ncclNumTypes ? bytes[type] : 0;
}

#endif
