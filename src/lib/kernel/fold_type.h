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

/* Two sources at once, where their bytes are what is reduced. */
#define PAIR_LOOP(op)                                                                              \
    for (size_t i = 0; i < n; i++) acc[i] = OP(op)(LOAD(a[i]), LOAD(b[i]));                        \
    break

static void FN(combine_two)(ACC *restrict acc, const FN(loose) * a, const FN(loose) * b, size_t n,
                            int op)
{
    switch (op) {
    case CCL_SUM: PAIR_LOOP(sum);
    case CCL_PROD: PAIR_LOOP(prod);
    case CCL_MAX: PAIR_LOOP(max);
    default: PAIR_LOOP(min);
    }
}

#undef PAIR_LOOP

/* Three more onto what is folded so far, which is read and written once for all of them. */
#define MORE_LOOP(op)                                                                              \
    for (size_t i = 0; i < n; i++)                                                                 \
        to[i] = OP(op)(OP(op)(OP(op)(LOAD(from[i]), LOAD(a[i])), LOAD(b[i])), LOAD(c[i]));         \
    break

static void FN(combine_more)(ACC *restrict to, const FN(loose) * from,
                             const struct ccl_source *sources, size_t first, size_t n, int op)
{
    const FN(loose) *a = (const FN(loose) *)sources[0].data + first;
    const FN(loose) *b = (const FN(loose) *)sources[1].data + first;
    const FN(loose) *c = (const FN(loose) *)sources[2].data + first;
    switch (op) {
    case CCL_SUM: MORE_LOOP(sum);
    case CCL_PROD: MORE_LOOP(prod);
    case CCL_MAX: MORE_LOOP(max);
    default: MORE_LOOP(min);
    }
}

#undef MORE_LOOP

/* The first 4, 7, 10 … sources where their bytes are what is reduced; returns how many. Between two
 * buffers, so that the last result is in acc. */
static uint32_t FN(start_many)(const struct ccl_fold *fold, size_t first, size_t n, ACC *acc)
{
    ACC spare[CCL_TILE];
    const FN(loose) *so_far = (const FN(loose) *)fold->sources[0].data + first;
    uint32_t plain = 0;
    while (!ROUNDS && plain < fold->nsources && !fold->sources[plain].scaled) plain++;
    if (plain < 4) return 0;
    uint32_t nmore = (plain - 1) / 3;
    for (uint32_t i = 0; i < nmore; i++) {
        ACC *to = (nmore - i) % 2 != 0 ? acc : spare;
        FN(combine_more)(to, so_far, &fold->sources[1 + 3 * i], first, n, fold->op);
        so_far = (const FN(loose) *)to;
    }
    return 1 + 3 * nmore;
}

/* The first source, or more; returns how many. */
static uint32_t FN(start)(const struct ccl_fold *fold, size_t first, size_t n, ACC *acc)
{
    const struct ccl_source *one = fold->sources, *two = one + 1;
    const FN(loose) *a = (const FN(loose) *)one->data + first;
    uint32_t many = FN(start_many)(fold, first, n, acc);
    if (many > 0) return many;
    if (!ROUNDS && fold->nsources > 1 && !one->scaled && !two->scaled) {
        FN(combine_two)(acc, a, (const FN(loose) *)two->data + first, n, fold->op);
        return 2;
    }
    if (one->scaled)
        FN(scale)(acc, a, n, &one->scale);
    else
        for (size_t i = 0; i < n; i++) acc[i] = LOAD(a[i]);
    return 1;
}

static void FN(fold)(const struct ccl_fold *fold, size_t first, size_t n, void *result)
{
    ACC next[CCL_TILE], wide[CCL_TILE];
    /* Without rounding the accumulator is the result. */
    int is_plain = !ROUNDS && fold->divisor <= 1;
    ACC *acc = is_plain ? result : wide;
    for (uint32_t s = FN(start)(fold, first, n, acc); s < fold->nsources; s++) {
        const struct ccl_source *source = &fold->sources[s];
        const FN(loose) *from = (const FN(loose) *)source->data + first;
        if (!source->scaled && !ROUNDS) {
            FN(combine_raw)(acc, from, n, fold->op);
            continue;
        }
        if (source->scaled)
            FN(scale)(next, from, n, &source->scale);
        else
            for (size_t i = 0; i < n; i++) next[i] = LOAD(from[i]);
        FN(combine)(acc, next, n, fold->op);
    }
    if (!is_plain) FN(save)(result, acc, n, fold->divisor);
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
