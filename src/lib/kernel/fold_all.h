/* fold_all.h: the fold loops of all types, from one source text (fold_type.h). Included once per
 * instruction set, by files that are compiled with the flags of that set and name the table.
 */
#include "kernel/fold_tile.h"
#include "kernel/reduce.h"
#include "nccl.h"

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
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      u8
#define STORE  uint8_t
#define ACC    uint8_t
#define OPS    u8
#define LOAD   SAME
#define SAVE   CAST_U8
#define DIVIDE UNSIGNED
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      i32
#define STORE  int32_t
#define ACC    int32_t
#define OPS    i32
#define LOAD   SAME
#define SAVE   CAST_I32
#define DIVIDE SIGNED
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      u32
#define STORE  uint32_t
#define ACC    uint32_t
#define OPS    u32
#define LOAD   SAME
#define SAVE   CAST_U32
#define DIVIDE UNSIGNED
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      i64
#define STORE  int64_t
#define ACC    int64_t
#define OPS    i64
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE SIGNED
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      u64
#define STORE  uint64_t
#define ACC    uint64_t
#define OPS    u64
#define LOAD   SAME
#define SAVE   CAST_U64
#define DIVIDE UNSIGNED
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      f16
#define STORE  uint16_t
#define ACC    float
#define OPS    f32
#define LOAD   f16_load
#define SAVE   f16_store
#define DIVIDE WHOLE
#define ROUNDS 1
#include "kernel/fold_type.h"

#define T      f32
#define STORE  float
#define ACC    float
#define OPS    f32
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE WHOLE
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      f64
#define STORE  double
#define ACC    double
#define OPS    f64
#define LOAD   SAME
#define SAVE   SAME
#define DIVIDE WHOLE
#define ROUNDS 0
#include "kernel/fold_type.h"

#define T      bf16
#define STORE  uint16_t
#define ACC    float
#define OPS    f32
#define LOAD   bf16_load
#define SAVE   bf16_store
#define DIVIDE WHOLE
#define ROUNDS 1
#include "kernel/fold_type.h"

#define T      e4m3
#define STORE  uint8_t
#define ACC    float
#define OPS    f32
#define LOAD   e4m3_load
#define SAVE   e4m3_store
#define DIVIDE WHOLE
#define ROUNDS 1
#include "kernel/fold_type.h"

#define T      e5m2
#define STORE  uint8_t
#define ACC    float
#define OPS    f32
#define LOAD   e5m2_load
#define SAVE   e5m2_store
#define DIVIDE WHOLE
#define ROUNDS 1
#include "kernel/fold_type.h"

ccl_fold_tile *const CCL_FOLD_TABLE[ncclNumTypes] = {
    [ncclInt8] = i8_fold,       [ncclUint8] = u8_fold,        [ncclInt32] = i32_fold,
    [ncclUint32] = u32_fold,    [ncclInt64] = i64_fold,       [ncclUint64] = u64_fold,
    [ncclFloat16] = f16_fold,   [ncclFloat32] = f32_fold,     [ncclFloat64] = f64_fold,
    [ncclBfloat16] = bf16_fold, [ncclFloat8e4m3] = e4m3_fold, [ncclFloat8e5m2] = e5m2_fold,
};
