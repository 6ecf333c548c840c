/* test_zone.c: what is decided for several GPUs without one: where FIFOs and credits lie in zones,
 * how many CTAs kernels that wait may take, and GPUs that are treated as several. */
#include "unit/test.h"

#include "core/ledger.h"
#include "topo/topo.h"
#include "transport/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static uint64_t pick(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}

/* ---- zones ---- */

enum { MAX_RANKS = 12, MAX_EXECS = 5 };

struct ranks {
    uint16_t exec_of[MAX_RANKS], slot_of[MAX_RANKS], first_slot[MAX_EXECS + 1];
};

static void make_shape(struct ccl_zone_shape *shape, struct ranks *ranks)
{
    uint16_t nexecs = (uint16_t)(2 + pick(MAX_EXECS - 1)), slot = 0;
    uint16_t nranks = (uint16_t)(nexecs + pick(MAX_RANKS - MAX_EXECS + 1));
    for (uint16_t r = 0; r < nranks; r++)
        ranks->exec_of[r] = r < nexecs ? r : (uint16_t)pick(nexecs);
    for (uint16_t e = 0; e < nexecs; e++) {
        ranks->first_slot[e] = slot;
        for (uint16_t r = 0; r < nranks; r++)
            if (ranks->exec_of[r] == e) ranks->slot_of[r] = slot++;
    }
    ranks->first_slot[nexecs] = slot;
    *shape = (struct ccl_zone_shape){
        .nexecs = nexecs,
        .nranks = nranks,
        .nchannels = (uint16_t)(1 + pick(4)),
        .nlanes = (uint16_t)(1 + pick(3)),
        .exec_of = ranks->exec_of,
        .slot_of = ranks->slot_of,
        .first_slot = ranks->first_slot,
        .fifo_bytes = {128 * (1 + pick(5)), 128 * (1 + pick(5)), 128 * pick(3)},
        .message_bytes = 128 * (1 + pick(5)),
    };
}

/* Marks a piece of a zone: in bounds, aligned, and nobody else's. */
static void claim(uint8_t **zones, const struct ccl_zone_shape *shape, struct ccl_zone_place place,
                  size_t bytes)
{
    CHECK_EQ(place.at % CCL_ZONE_LINE_BYTES, 0);
    CHECK(place.at + bytes <= ccl_zone_bytes(shape, place.exec));
    for (size_t i = 0; i < bytes; i++) CHECK_EQ(zones[place.exec][place.at + i]++, 0);
}

static void claim_fifo(uint8_t **zones, const struct ccl_zone_shape *shape,
                       const struct ccl_fifo_id *id, unsigned proto)
{
    struct ccl_zone_place fifo = ccl_zone_fifo(shape, id, proto);
    struct ccl_zone_place credit = ccl_zone_credit(shape, id, proto);
    CHECK_EQ(fifo.exec, id->of_ranks ? shape->exec_of[id->receiver] : id->receiver);
    CHECK_EQ(credit.exec, id->of_ranks ? shape->exec_of[id->sender] : id->sender);
    claim(zones, shape, fifo, id->of_ranks ? shape->message_bytes : shape->fifo_bytes[proto]);
    claim(zones, shape, credit, CCL_ZONE_LINE_BYTES);
}

static void claim_all(uint8_t **zones, const struct ccl_zone_shape *shape)
{
    struct ccl_fifo_id id = {0};
    for (id.sender = 0; id.sender < shape->nexecs; id.sender++)
        for (id.receiver = 0; id.receiver < shape->nexecs; id.receiver++)
            for (id.channel = 0; id.channel < shape->nchannels; id.channel++)
                for (unsigned p = 0; p < CCL_ZONE_PROTOS; p++) claim_fifo(zones, shape, &id, p);
    id.of_ranks = 1;
    for (id.sender = 0; id.sender < shape->nranks; id.sender++)
        for (id.receiver = 0; id.receiver < shape->nranks; id.receiver++)
            for (id.channel = 0; id.channel < shape->nlanes; id.channel++)
                claim_fifo(zones, shape, &id, 0);
}

/* All pieces together fill the zones: what is in bounds and nobody else's is all there is. */
static void test_layout(void)
{
    random_state = 20261130;
    NOTE("seed %llu", (unsigned long long)random_state);
    for (int i = 0; i < 100; i++) {
        struct ccl_zone_shape shape;
        struct ranks ranks;
        uint8_t *zones[MAX_EXECS];
        make_shape(&shape, &ranks);
        for (uint16_t e = 0; e < shape.nexecs; e++) zones[e] = calloc(ccl_zone_bytes(&shape, e), 1);
        claim_all(zones, &shape);
        for (uint16_t e = 0; e < shape.nexecs; e++) {
            CHECK(memchr(zones[e], 0, ccl_zone_bytes(&shape, e)) == NULL);
            free(zones[e]);
        }
    }
}

/* ---- CTAs ---- */

static void test_ctas(void)
{
    CHECK_EQ(ccl_ledger_lanes(1, 32), 16);
    CHECK_EQ(ccl_ledger_lanes(4, 32), 4);
    CHECK_EQ(ccl_ledger_lanes(40, 32), 1);
    CHECK_EQ(ccl_ledger_lanes(1, 3), 3);
    struct ccl_ledger_ask ask = {.device = 0, .leads = 1, .nranks = 4, .most = 4};
    CHECK_EQ(ccl_ledger_need(&ask, 32), 32 + 4 * 4);
    ask.leads = 0;
    ask.nranks = 1;
    CHECK_EQ(ccl_ledger_need(&ask, 32), 4);
    ask.device = -1;
    CHECK_EQ(ccl_ledger_take(&ask, 1), 0);
}

/* ---- GPUs as several ---- */

static void make_peers(struct ccl_peer *peers, int n, int split)
{
    memset(peers, 0, (size_t)n * sizeof *peers);
    for (int r = 0; r < n; r++) {
        peers[r].is_gpu = 1;
        peers[r].split = split;
        snprintf(peers[r].identity, sizeof peers[r].identity, "cuda %d", r % 2);
    }
}

/* Ranks 0, 2, 4, … are on one GPU, the others on another. */
static void test_split(void)
{
    enum { N = 10 };
    static const struct {
        int split, nexecs;
        uint16_t exec_of[N];
    } wanted[] = {
        {0, 2, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}},
        {1, 10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
        {2, 6, {0, 1, 0, 1, 2, 3, 2, 3, 4, 5}},
        {5, 2, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}},
    };
    for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
        struct ccl_peer peers[N];
        struct ccl_topo *topo;
        make_peers(peers, N, wanted[i].split);
        CHECK_OK(ccl_topo_build(peers, N, &topo));
        CHECK_EQ(topo->nexecs, wanted[i].nexecs);
        CHECK_MEM(topo->exec_of, wanted[i].exec_of, sizeof wanted[i].exec_of);
        ccl_topo_free(topo);
    }
}

static const struct test_case cases[] = {
    {"every FIFO and credit has a place of its own in a zone", test_layout, 0},
    {"CTAs that wait are counted", test_ctas, 0},
    {"ranks of a GPU are split into executors", test_split, 0},
};
TEST_MAIN(cases)
