/* fold_type.h: the fold loops of one data type, included once per type by fold.c with
 *   T       name of the type's functions (f32, i8, f16 …)
 *   STORE   storage type, ACC accumulator type, OPS prefix of the operators in reduce.h
 *   LOAD(x), SAVE(x)  storage -> accumulator and back, rounding
 *   DIVIDE(x, n)      final division of averages (integers), or x
 * Each loop runs over one tile that stays in the first-level cache.
 */
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define FN(name)    JOIN(T, name)
#define OP(name)    JOIN(OPS, name)

/* User buffers need not be aligned to more than their address says. */
typedef STORE FN(loose) __attribute__((aligned(1), may_alias));

/* The scaled values of a tile, rounded to the type as if they stood in memory. */
static void FN(scale)(STORE *to, const FN(loose) * from, size_t n, const struct ccl_scale *scale)
{
    STORE factor_bits;
    memcpy(&factor_bits, &scale->bits, sizeof factor_bits);
    ACC factor = LOAD(factor_bits);
    for (size_t i = 0; i < n; i++) to[i] = SAVE(OP(prod)(LOAD(from[i]), factor));
}

#define FOLD_LOOP(op)                                                                              \
    for (size_t i = 0; i < n; i++) acc[i] = LOAD(SAVE(OP(op)(acc[i], LOAD(next[i]))));             \
    break

static void FN(combine)(ACC *acc, const FN(loose) * next, size_t n, int op)
{
    switch (op) {
    case CCL_SUM: FOLD_LOOP(sum);
    case CCL_PROD: FOLD_LOOP(prod);
    case CCL_MAX: FOLD_LOOP(max);
    default: FOLD_LOOP(min);
    }
}

#undef FOLD_LOOP

static void FN(save)(FN(loose) * target, const ACC *acc, size_t n, uint32_t divisor)
{
    if (divisor > 1)
        for (size_t i = 0; i < n; i++) target[i] = SAVE(DIVIDE(acc[i], divisor));
    else
        for (size_t i = 0; i < n; i++) target[i] = SAVE(acc[i]);
}

static void FN(fold)(const struct ccl_fold *fold, size_t first, size_t n)
{
    ACC acc[CCL_TILE];
    STORE scaled[CCL_TILE];
    for (uint32_t s = 0; s < fold->nsources; s++) {
        const struct ccl_source *source = &fold->sources[s];
        const FN(loose) *from = (const FN(loose) *)source->data + first;
        if (source->scaled) {
            FN(scale)(scaled, from, n, &source->scale);
            from = (const FN(loose) *)scaled;
        }
        if (s != 0)
            FN(combine)(acc, from, n, fold->op);
        else
            for (size_t i = 0; i < n; i++) acc[i] = LOAD(from[i]);
    }
    FN(loose) *to = (FN(loose) *)fold->targets[0] + first;
    FN(save)(to, acc, n, fold->divisor);
    for (uint32_t t = 1; t < fold->ntargets; t++)
        memcpy((FN(loose) *)fold->targets[t] + first, to, n * sizeof(STORE));
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
