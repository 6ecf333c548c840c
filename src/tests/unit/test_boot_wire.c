/* The frames as pure functions: every type passes, every flipped bit and every stale sequence is
 * refused, lengths are bounded before anything is read, random bytes never do harm. */
#include "boot/wire.h"
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static const uint8_t test_key[CCL_KEY_BYTES] = "0123456789abcde";

/* One payload length of each type that its limits allow. */
static const struct {
    unsigned type;
    size_t length_bytes;
} samples[] = {
    {CCL_WIRE_CHALLENGE, CCL_WIRE_NONCE_BYTES},
    {CCL_WIRE_HELLO, CCL_WIRE_HELLO_BYTES},
    {CCL_WIRE_WELCOME, CCL_WIRE_NONCE_BYTES},
    {CCL_WIRE_GATHER, 48},
    {CCL_WIRE_GATHERED, 48 * RANKS},
    {CCL_WIRE_FAIL, 60},
    {CCL_WIRE_LEAVE, 0},
    {CCL_WIRE_MESH_HELLO, CCL_WIRE_HELLO_BYTES},
    {CCL_WIRE_MESH_WELCOME, 0},
    {CCL_WIRE_MESH_FD, 0},
    {CCL_WIRE_LETTER, CCL_WIRE_LETTER_BYTES},
};

static struct ccl_wire_rule rule_for(unsigned allowed, uint32_t sequence)
{
    return (struct ccl_wire_rule){test_key, sequence, allowed, RANKS};
}

static size_t make_frame(uint8_t *out, unsigned type, size_t length_bytes, uint32_t sequence)
{
    struct ccl_wire_head what = {type, length_bytes};
    for (size_t i = 0; i < length_bytes; i++)
        out[CCL_WIRE_HEAD_BYTES + i] = (uint8_t)(i * 7 + type);
    ccl_wire_seal(out, &what, test_key, sequence, out + CCL_WIRE_HEAD_BYTES);
    return CCL_WIRE_HEAD_BYTES + length_bytes;
}

static void test_round_trip(void)
{
    uint8_t frame[2048];
    for (size_t i = 0; i < TEST_COUNT(samples); i++) {
        struct ccl_wire_rule rule = rule_for(CCL_WIRE_BIT(samples[i].type), 5);
        struct ccl_wire_head got;
        size_t size = make_frame(frame, samples[i].type, samples[i].length_bytes, 5);
        CHECK_EQ(ccl_wire_parse(frame, size, &rule, &got), CCL_WIRE_OK);
        CHECK_EQ(got.type, samples[i].type);
        CHECK_EQ(got.length_bytes, samples[i].length_bytes);
        for (size_t part = 0; part < size; part++)
            CHECK_EQ(ccl_wire_parse(frame, part, &rule, &got), CCL_WIRE_MORE);
    }
    CHECK_EQ(TEST_COUNT(samples), CCL_WIRE_NTYPES - 1);
}

/* A flip must be refused as such: not even taken for a frame that is still incomplete. */
static void test_flips(void)
{
    uint8_t frame[2048];
    unsigned flips = 0;
    for (size_t i = 0; i < TEST_COUNT(samples); i++) {
        struct ccl_wire_rule rule = rule_for(~0u, 9);
        struct ccl_wire_head got;
        size_t size = make_frame(frame, samples[i].type, samples[i].length_bytes, 9);
        for (size_t bit = 0; bit < 8 * size; bit++, flips++) {
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
            enum ccl_wire_verdict verdict = ccl_wire_parse(frame, size, &rule, &got);
            if (verdict == CCL_WIRE_OK || verdict == CCL_WIRE_MORE)
                FAIL("type %u: bit %zu flipped is %s", samples[i].type, bit,
                     ccl_wire_verdict_text(verdict));
            frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    NOTE("%u flips, none accepted", flips);
}

/* Two bits at random places, to 10,000 flips over all types. */
static void test_double_flips(void)
{
    uint8_t frame[2048];
    srand(20);
    for (int round = 0; round < 10000; round++) {
        size_t i = (size_t)rand() % TEST_COUNT(samples);
        struct ccl_wire_rule rule = rule_for(~0u, 1);
        struct ccl_wire_head got;
        size_t size = make_frame(frame, samples[i].type, samples[i].length_bytes, 1);
        size_t a = (size_t)rand() % (8 * size), b = (size_t)rand() % (8 * size);
        if (a == b) continue;
        frame[a / 8] ^= (uint8_t)(1u << a % 8);
        frame[b / 8] ^= (uint8_t)(1u << b % 8);
        enum ccl_wire_verdict verdict = ccl_wire_parse(frame, size, &rule, &got);
        if (verdict == CCL_WIRE_OK || verdict == CCL_WIRE_MORE)
            FAIL("seed 20 round %d: type %u bits %zu %zu", round, samples[i].type, a, b);
    }
}

static void test_wrong_context(void)
{
    uint8_t frame[2048], other_key[CCL_KEY_BYTES] = "another key";
    struct ccl_wire_head got;
    for (size_t i = 0; i < TEST_COUNT(samples); i++) {
        unsigned type = samples[i].type;
        size_t size = make_frame(frame, type, samples[i].length_bytes, 3);
        struct ccl_wire_rule rule = rule_for(CCL_WIRE_BIT(type), 4);
        CHECK_EQ(ccl_wire_parse(frame, size, &rule, &got), CCL_WIRE_BAD_SEQUENCE);
        rule = rule_for(~CCL_WIRE_BIT(type), 3);
        CHECK_EQ(ccl_wire_parse(frame, size, &rule, &got), CCL_WIRE_BAD_TYPE);
        rule = rule_for(~0u, 3);
        rule.key = other_key;
        CHECK_EQ(ccl_wire_parse(frame, size, &rule, &got), CCL_WIRE_BAD_TAG);
    }
}

/* Even a holder of the key cannot make a receiver wait for, or store, more than the limits. */
static void test_lengths(void)
{
    static const struct {
        unsigned type;
        size_t length_bytes;
        enum ccl_wire_verdict verdict;
    } lengths[] = {
        {CCL_WIRE_GATHER, CCL_WIRE_GATHER_BYTES, CCL_WIRE_MORE},
        {CCL_WIRE_GATHER, CCL_WIRE_GATHER_BYTES + 1, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_GATHERED, (size_t)CCL_WIRE_GATHER_BYTES * RANKS, CCL_WIRE_MORE},
        {CCL_WIRE_GATHERED, (size_t)CCL_WIRE_GATHER_BYTES * RANKS + 1, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_FAIL, 3, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_FAIL, CCL_WIRE_FAIL_BYTES, CCL_WIRE_MORE},
        {CCL_WIRE_FAIL, CCL_WIRE_FAIL_BYTES + 1, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_LEAVE, 1, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_HELLO, CCL_WIRE_HELLO_BYTES - 1, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_HELLO, UINT32_MAX, CCL_WIRE_BAD_LENGTH},
        {CCL_WIRE_NTYPES, 0, CCL_WIRE_BAD_TYPE},
        {0xffff, 0, CCL_WIRE_BAD_TYPE},
    };
    static uint8_t payload[CCL_WIRE_GATHER_BYTES * RANKS + 8];
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        uint8_t head[CCL_WIRE_HEAD_BYTES];
        /* Sealing reads the payload; only its header is looked at here. */
        struct ccl_wire_head what = {lengths[i].type, 0};
        ccl_wire_seal(head, &what, test_key, 0, payload);
        for (unsigned b = 0; b < 4; b++)
            head[8 + b] = (uint8_t)((uint64_t)lengths[i].length_bytes >> (8 * b));
        uint64_t tag = ccl_mac(test_key, head, 16);
        for (unsigned b = 0; b < 8; b++) head[16 + b] = (uint8_t)(tag >> (8 * b));
        struct ccl_wire_rule rule = rule_for(~0u, 0);
        struct ccl_wire_head got;
        CHECK_EQ(ccl_wire_parse(head, sizeof head, &rule, &got), lengths[i].verdict);
    }
}

static void test_random_bytes(void)
{
    uint8_t bytes[512];
    srand(21);
    for (int round = 0; round < 100000; round++) {
        size_t size = (size_t)rand() % sizeof bytes;
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)rand();
        /* Half of them begin as a frame does, to get past the first look. */
        if (round % 2 == 0 && size >= CCL_WIRE_HEAD_BYTES) make_frame(bytes, 7, 0, 0);
        struct ccl_wire_rule rule = rule_for(~0u, (uint32_t)(round % 2 == 0));
        struct ccl_wire_head got;
        if (ccl_wire_parse(bytes, size, &rule, &got) == CCL_WIRE_OK)
            FAIL("seed 21 round %d was accepted", round);
    }
}

static void test_payloads(void)
{
    struct ccl_wire_hello hello = {.nranks = 8, .rank = 7, .version = 23007, .pid = 99, .build = 5};
    struct ccl_wire_hello back;
    uint8_t bytes[CCL_WIRE_HELLO_BYTES];
    memset(hello.nonce, 3, sizeof hello.nonce);
    memset(hello.host, 'x', sizeof hello.host); /* not ended */
    hello.host[2] = '\033';
    ccl_wire_put_hello(bytes, &hello);
    ccl_wire_get_hello(bytes, &back);
    CHECK_EQ(back.nranks, 8);
    CHECK_EQ(back.rank, 7);
    CHECK_EQ(back.version, 23007);
    CHECK_EQ(back.pid, 99);
    CHECK_EQ(back.build, 5);
    CHECK_EQ(strlen(back.host), CCL_WIRE_HOST_BYTES - 1);
    CHECK_EQ(back.host[2], '?');

    struct ccl_wire_fail fail = {.code = 6}, got;
    uint8_t text[CCL_WIRE_FAIL_BYTES];
    strcpy(fail.text, "rank 3 ended\n");
    size_t size = ccl_wire_put_fail(text, &fail);
    ccl_wire_get_fail(text, size, &got);
    CHECK_EQ(got.code, 6);
    CHECK_STR(got.text, "rank 3 ended?");
    memset(fail.text, 'y', sizeof fail.text);
    size = ccl_wire_put_fail(text, &fail);
    CHECK_EQ(size, CCL_WIRE_FAIL_BYTES);
    ccl_wire_get_fail(text, size, &got);
    CHECK_EQ(strlen(got.text), CCL_WIRE_TEXT_BYTES - 1);
}

static const struct test_case cases[] = {
    {"every type passes", test_round_trip, 0},
    {"every flipped bit is refused", test_flips, 0},
    {"two flipped bits are refused", test_double_flips, 0},
    {"wrong key, type or sequence", test_wrong_context, 0},
    {"lengths are bounded", test_lengths, 0},
    {"random bytes", test_random_bytes, 0},
    {"payloads", test_payloads, 0},
};

TEST_MAIN(cases)
