/* fold.c: the fold loops of all types, from one source text (fold_type.h). A fold with one
 * unscaled source is a copy of bytes, whatever the type. */
#include "kernel/fold.h"

#include "kernel/reduce.h"
#include "nccl.h"

#include <string.h>

#define SAME(x)        (x)
#define WHOLE(x, n)    (x)
#define SIGNED(x, n)   ((x) / (int64_t)(n))
#define UNSIGNED(x, n) ((x) / (n))
#define CAST_I8(x)     ((int8_t)(x))
#define CAST_U8(x)     ((uint8_t)(x))
#define CAST_I32(x)    ((int32_t)(x))
#define CAST_U32(x)    ((uint32_t)(x))
#define CAST_U64(x)    ((uint64_t)(x))

#define T      i8
#define STORE  int8_t
#define ACC    int8_t
#define OPS    i8
#define LOAD   SAME
#define SAVE   CAST_I8
#define DIVIDE SIGNED
#include "kernel/fold_type.h"

#define T      u8
#define STORE  uint8_t
#define ACC    uint8_t
#define OPS    u8
#define LOAD   SAME
#define SAVE   CAST_U8
#define DIVIDE UNSIGNED
#include "kernel/fold_type.h"

#define T      i32
#define STORE  int32_t
#define ACC    int32_t
#define OPS    i32
#define LOAD   SAME
#define SAVE   CAST_I32
#define DIVIDE SIGNED
#include "kernel/fold_type.h"

#define T      u32
#define STORE  uint32_t
#define ACC    uint32_t
#define OPS    u32
#define LOAD   SAME
#define SAVE   CAST_U32
#define DIVIDE UNSIGNED
#include "kernel/fold_type.h"

#define T      i64
#define STORE  int64_t
#define ACC    int64_t
#define OPS    i64
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE SIGNED
#include "kernel/fold_type.h"

#define T      u64
#define STORE  uint64_t
#define ACC    uint64_t
#define OPS    u64
#define LOAD   SAME
#define SAVE   CAST_U64
#define DIVIDE UNSIGNED
#include "kernel/fold_type.h"

#define T      f16
#define STORE  uint16_t
#define ACC    float
#define OPS    f32
#define LOAD   f16_load
#define SAVE   f16_store
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

#define T      f32
#define STORE  float
#define ACC    float
#define OPS    f32
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

#define T      f64
#define STORE  double
#define ACC    double
#define OPS    f64
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

#define T      bf16
#define STORE  uint16_t
#define ACC    float
#define OPS    f32
#define LOAD   bf16_load
#define SAVE   bf16_store
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

#define T      e4m3
#define STORE  uint8_t
#define ACC    float
#define OPS    f32
#define LOAD   e4m3_load
#define SAVE   e4m3_store
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

#define T      e5m2
#define STORE  uint8_t
#define ACC    float
#define OPS    f32
#define LOAD   e5m2_load
#define SAVE   e5m2_store
#define DIVIDE WHOLE
#include "kernel/fold_type.h"

static const struct {
    size_t bytes;
    void (*fold)(const struct ccl_fold *fold, size_t first, size_t n);
} types[ncclNumTypes] = {
    [ncclInt8] = {1, i8_fold},         [ncclUint8] = {1, u8_fold},
    [ncclInt32] = {4, i32_fold},       [ncclUint32] = {4, u32_fold},
    [ncclInt64] = {8, i64_fold},       [ncclUint64] = {8, u64_fold},
    [ncclFloat16] = {2, f16_fold},     [ncclFloat32] = {4, f32_fold},
    [ncclFloat64] = {8, f64_fold},     [ncclBfloat16] = {2, bf16_fold},
    [ncclFloat8e4m3] = {1, e4m3_fold}, [ncclFloat8e5m2] = {1, e5m2_fold},
};

size_t ccl_fold_type_bytes(int type)
{
    return type >= 0 && type < ncclNumTypes ? types[type].bytes : 0;
}

static void copy_bytes(const struct ccl_fold *fold, size_t bytes)
{
    for (uint32_t t = 0; t < fold->ntargets; t++)
        if (fold->targets[t] != fold->sources[0].data)
            memcpy(fold->targets[t], fold->sources[0].data, bytes);
}

void ccl_fold_run(const struct ccl_fold *fold, size_t n_elems)
{
    if (fold->nsources == 0 || fold->ntargets == 0) return;
    int is_copy = fold->nsources == 1 && !fold->sources[0].scaled && fold->divisor <= 1;
    if (is_copy) {
        copy_bytes(fold, n_elems * types[fold->type].bytes);
        return;
    }
    for (size_t first = 0; first < n_elems; first += CCL_TILE) {
        size_t left = n_elems - first;
        types[fold->type].fold(fold, first, left < CCL_TILE ? left : CCL_TILE);
    }
}
