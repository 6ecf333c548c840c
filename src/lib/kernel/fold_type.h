/* fold_type.h: the fold loops of one data type, included once per type by fold_all.h with
 *   T       name of the type's functions (f32, i8, f16 …)
 *   STORE   storage type, ACC accumulator type, OPS prefix of the operators in reduce.h
 *   LOAD(x), SAVE(x)  storage -> accumulator and back, rounding
 *   ROUNDS            whether an accumulator can hold what the type cannot
 *   DIVIDE(x, n)      final division of averages (integers), or x
 * Each loop runs over one tile that stays in the first-level cache.
 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define FN(name)    JOIN(T, name)
#define OP(name)    JOIN(OPS, name)

/* User buffers need not be aligned to more than their address says. */
typedef STORE FN(loose) __attribute__((aligned(1), may_alias));

/* Rounds a tile to the type and back. Two loops, since one is too much for the vectorizer. */
static void FN(round)(ACC *acc, size_t n)
{
    if (!ROUNDS) return;
    STORE small[CCL_TILE];
    for (size_t i = 0; i < n; i++) small[i] = SAVE(acc[i]);
    for (size_t i = 0; i < n; i++) acc[i] = LOAD(small[i]);
}

/* The scaled values of a tile, rounded to the type. */
static void FN(scale)(ACC *to, const FN(loose) * from, size_t n, const struct ccl_scale *scale)
{
    STORE factor_bits;
    memcpy(&factor_bits, &scale->bits, sizeof factor_bits);
    ACC factor = LOAD(factor_bits);
    for (size_t i = 0; i < n; i++) to[i] = LOAD(from[i]);
    for (size_t i = 0; i < n; i++) to[i] = OP(prod)(to[i], factor);
    FN(round)(to, n);
}

#define FOLD_LOOP(op)                                                                              \
    for (size_t i = 0; i < n; i++) acc[i] = OP(op)(acc[i], LOAD(next[i]));                         \
    break

/* Straight from the source where that is all there is to do. */
static void FN(combine_raw)(ACC *acc, const FN(loose) * next, size_t n, int op)
{
    switch (op) {
    case CCL_SUM: FOLD_LOOP(sum);
    case CCL_PROD: FOLD_LOOP(prod);
    case CCL_MAX: FOLD_LOOP(max);
    default: FOLD_LOOP(min);
    }
}

#undef FOLD_LOOP
#define FOLD_LOOP(op)                                                                              \
    for (size_t i = 0; i < n; i++) acc[i] = OP(op)(acc[i], next[i]);                               \
    break

static void FN(combine)(ACC *restrict acc, const ACC *restrict next, size_t n, int op)
{
    switch (op) {
    case CCL_SUM: FOLD_LOOP(sum);
    case CCL_PROD: FOLD_LOOP(prod);
    case CCL_MAX: FOLD_LOOP(max);
    default: FOLD_LOOP(min);
    }
    FN(round)(acc, n);
}

#undef FOLD_LOOP

static void FN(save)(FN(loose) * target, const ACC *acc, size_t n, uint32_t divisor)
{
    if (divisor > 1)
        for (size_t i = 0; i < n; i++) target[i] = SAVE(DIVIDE(acc[i], divisor));
    else
        for (size_t i = 0; i < n; i++) target[i] = SAVE(acc[i]);
}

static void FN(fold)(const struct ccl_fold *fold, size_t first, size_t n, void *result)
{
    ACC acc[CCL_TILE], next[CCL_TILE];
    for (uint32_t s = 0; s < fold->nsources; s++) {
        const struct ccl_source *source = &fold->sources[s];
        const FN(loose) *from = (const FN(loose) *)source->data + first;
        ACC *to = s == 0 ? acc : next;
        if (s != 0 && !source->scaled && !ROUNDS) {
            FN(combine_raw)(acc, from, n, fold->op);
            continue;
        }
        if (source->scaled)
            FN(scale)(to, from, n, &source->scale);
        else
            for (size_t i = 0; i < n; i++) to[i] = LOAD(from[i]);
        if (s != 0) FN(combine)(acc, next, n, fold->op);
    }
    FN(save)(result, acc, n, fold->divisor);
}

#undef JOIN_
#undef JOIN
#undef FN
#undef OP
#undef T
#undef STORE
#undef ACC
#undef OPS
#undef LOAD
#undef SAVE
#undef DIVIDE
#undef ROUNDS
