/* Groups from NCCL_TESTS_SPLIT: every way to write a value, and every way to write it wrong. */
#include "harness/split.h"
#include "unit/test.h"

#include <stddef.h>

static const struct good {
    const char *text;
    char op;
    long operand;
    int colours[6]; /* of ranks 0 … 5 */
} goods[] = {
    {"AND 1", '&', 1, {0, 1, 0, 1, 0, 1}},
    {"and 0x3", '&', 3, {0, 1, 2, 3, 0, 1}},
    {"&0b10", '&', 2, {0, 0, 2, 2, 0, 0}},
    {"OR 1", '|', 1, {1, 1, 3, 3, 5, 5}},
    {"| 4", '|', 4, {4, 5, 6, 7, 4, 5}},
    {"MOD 2", '%', 2, {0, 1, 0, 1, 0, 1}},
    {"%3", '%', 3, {0, 1, 2, 0, 1, 2}},
    {"Mod0X4", '%', 4, {0, 1, 2, 3, 0, 1}},
    {"DIV 4", '/', 4, {0, 0, 0, 0, 1, 1}},
    {"/2", '/', 2, {0, 0, 1, 1, 2, 2}},
    {"  div   3  ", '/', 3, {0, 0, 0, 1, 1, 1}},
    {"& 0", '&', 0, {0, 0, 0, 0, 0, 0}},
    {"% 2147483647", '%', 2147483647, {0, 1, 2, 3, 4, 5}},
};

static void test_good(void)
{
    for (size_t i = 0; i < TEST_COUNT(goods); i++) {
        struct perf_split split;
        const char *error = NULL;
        NOTE("'%s'", goods[i].text);
        CHECK_EQ(perf_split_parse(goods[i].text, &split, &error), 0);
        CHECK_EQ(split.op, goods[i].op);
        CHECK_EQ(split.operand, goods[i].operand);
        for (int rank = 0; rank < 6; rank++)
            CHECK_EQ(perf_split_colour(&split, rank), goods[i].colours[rank]);
    }
}

static const struct bad {
    const char *text, *error;
} bads[] = {
    {"", "no operator"},
    {"4", "no operator"},
    {"XOR 3", "no operator"},
    {"AND", "no whole number"},
    {"MOD x", "no whole number"},
    {"MOD 3 4", "no whole number"},
    {"% 1.5", "no whole number"},
    {"& 0x", "no whole number"},
    {"& 0b2", "no whole number"},
    {"& 0b12", "no whole number"},
    {"MOD -2", "no whole number"},
    {"& 3000000000", "no whole"},
    {"MOD 0", "by zero"},
    {"/0x0", "by zero"},
    {"& 99999999999999999999", "no whole"},
    {"& 12z", "no whole"},
    {"& +3", "no whole"},
    {"& 0xx1", "no whole"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < TEST_COUNT(bads); i++) {
        struct perf_split split;
        const char *error = NULL;
        NOTE("'%s'", bads[i].text);
        CHECK(perf_split_parse(bads[i].text, &split, &error) != 0);
        CHECK_HAS(error, bads[i].error);
    }
}

static void test_mask(void)
{
    struct perf_split split;
    const char *error = NULL;
    CHECK_EQ(perf_split_parse_mask(" 0x7 ", &split, &error), 0);
    CHECK_EQ(perf_split_colour(&split, 13), 5);
    CHECK_EQ(perf_split_parse_mask("5", &split, &error), 0);
    CHECK_EQ(perf_split_colour(&split, 7), 5);
    CHECK(perf_split_parse_mask("& 5", &split, &error) != 0);
    CHECK(perf_split_parse_mask("", &split, &error) != 0);
    CHECK_HAS(error, "no whole number");
}

static void test_none(void)
{
    struct perf_split split = {0};
    for (int rank = 0; rank < 100; rank++) CHECK_EQ(perf_split_colour(&split, rank), 0);
}

static const struct test_case cases[] = {
    {"split: every operator and base", test_good, 0},
    {"split: bad values are refused", test_bad, 0},
    {"split: mask alone", test_mask, 0},
    {"split: no split is one group", test_none, 0},
};
TEST_MAIN(cases)
