/* The GPU's results have the same bits as the host devices': both reduce the same inputs, bit
 * patterns of all sorts, by every type and operator, and the sums over all that they wrote are
 * compared. One executor on either side, so that the schedule is the same. */
#include "core/numbers.h"
#include "gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3001, MOST_RANKS = 8 };

static const int sizes[] = {2, 3, 4, 8};
static const enum kit_coll colls[] = {KIT_ALL_REDUCE, KIT_REDUCE, KIT_REDUCE_SCATTER};
static uint64_t inputs[MOST_RANKS * MOST_RANKS * COUNT];

static void fill_inputs(ncclDataType_t type, uint32_t seed)
{
    for (size_t i = 0; i < TEST_COUNT(inputs); i++) inputs[i] = number_pick(&seed, type);
}

static void add_bytes(uint64_t *sum, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) *sum = (*sum ^ (unsigned char)bytes[i]) * 0x100000001b3u;
}

/* One call; its output on all ranks, with what lies around it, goes into the sum. */
static void add_call(struct kit *kit, const struct kit_op *op, uint64_t *sum)
{
    for (int r = 0; r < kit->nranks; r++) {
        memset(kit->ranks[r].out, 0, kit->ranks[r].room); /* which a call does not use wholly */
        kit_prepare(&kit->ranks[r], op);
    }
    CHECK_OK(ncclGroupStart());
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(kit_call(&kit->ranks[r], op));
    CHECK_OK(ncclGroupEnd());
    for (int r = 0; r < kit->nranks; r++) {
        kit_sync(&kit->ranks[r]);
        add_bytes(sum, kit->ranks[r].out, kit->ranks[r].room);
    }
}

static void add_operators(struct kit *kit, struct kit_op *op, uint64_t *sum)
{
    static const ncclRedOp_t redops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
    for (size_t i = 0; i < TEST_COUNT(redops); i++) {
        op->redop = redops[i];
        op->in_shift = (int)i;
        op->out_shift = (int)i / 2;
        add_call(kit, op, sum);
    }
}

/* A factor of each rank's own. */
static void add_premulsum(struct kit *kit, struct kit_op *op, uint64_t *sum)
{
    ncclRedOp_t redops[MOST_RANKS];
    uint64_t factor = number_of(3, op->type);
    for (int r = 0; r < kit->nranks; r++)
        CHECK_OK(ncclRedOpCreatePreMulSum(&redops[r], &factor, op->type, ncclScalarHostImmediate,
                                          kit->ranks[r].comm));
    op->redop = redops[0];
    for (int r = 1; r < kit->nranks; r++) CHECK_EQ(redops[r], redops[0]);
    add_call(kit, op, sum);
    for (int r = 0; r < kit->nranks; r++) CHECK_OK(ncclRedOpDestroy(redops[r], kit->ranks[r].comm));
}

static void child_sums(void)
{
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        struct kit kit;
        kit_open(&kit, sizes[s], 1, COUNT + 16);
        for (int type = 0; type < ncclNumTypes; type++) {
            struct kit_values values = {inputs, NULL, (size_t)sizes[s] * COUNT};
            fill_inputs((ncclDataType_t)type, (uint32_t)type + 1);
            for (size_t c = 0; c < TEST_COUNT(colls); c++) {
                struct kit_op op = {.coll = colls[c], .count = COUNT, .values = &values};
                uint64_t sum = 14695981039346656037u;
                op.type = (ncclDataType_t)type;
                op.root = sizes[s] - 1;
                add_operators(&kit, &op, &sum);
                add_premulsum(&kit, &op, &sum);
                printf("%d ranks, type %d, %s: %016llx\n", sizes[s], type, kit_name(colls[c]) + 4,
                       (unsigned long long)sum);
            }
        }
        kit_close(&kit);
    }
}

static void sums_on(const char *device, struct test_output *output)
{
    char setting[32];
    snprintf(setting, sizeof setting, "CHORUS_DEVICE=%s", device);
    test_exec_case("child:sums", (const char *const[]){setting, "CHORUS_HOST_DEVICES=1", NULL},
                   output);
    if (output->code != 0) FAIL("on %s: exit code %d: %.800s", device, output->code, output->err);
}

/* The first line that differs is told. */
static void test_same(void)
{
    static struct test_output host, gpu;
    sums_on("host", &host);
    sums_on("cuda", &gpu);
    size_t at = 0, start = 0, nlines = 0;
    for (; host.out[at] != '\0' && host.out[at] == gpu.out[at]; at++)
        if (host.out[at] == '\n') {
            start = at + 1;
            nlines++;
        }
    if (host.out[at] != gpu.out[at])
        FAIL("the host has '%.60s', the GPU '%.60s'", host.out + start, gpu.out + start);
    if (nlines < TEST_COUNT(sizes) * TEST_COUNT(colls) * ncclNumTypes)
        FAIL("only %zu lines were compared", nlines);
}

static const struct test_case cases[] = {
    {"every type and operator has the bits of the host devices", test_same, 240},
    {"child:sums", child_sums, 120},
};

GPU_TEST_MAIN(cases)
