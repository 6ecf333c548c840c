/* What comparisons rest on: the reader of JSON records, and the walk through pairs of ranks with
 * its table. */
#include "harness/json_read.h"
#include "harness/pairs.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_values(void)
{
    static const char text[] = " {\"n\": -1.5e3, \"t\" : \"a\\\"\\\\\\n\\u00e9\\u20ac/\", "
                               "\"list\":[1,[],{},true,false,null],\"o\":{\"deep\":7}}\n";
    size_t wrong_at = 0;
    struct perf_json_node *node = perf_json_read(text, &wrong_at);
    CHECK(node != NULL);
    CHECK_NEAR(perf_json_number(node, "n", 0), -1500, 0);
    CHECK_STR(perf_json_text(node, "t", ""), "a\"\\\n\xc3\xa9\xe2\x82\xac/");
    CHECK_NEAR(perf_json_number(perf_json_member(node, "o"), "deep", 0), 7, 0);
    CHECK_NEAR(perf_json_number(node, "t", 9), 9, 0);
    CHECK_STR(perf_json_text(node, "n", "none"), "none");
    CHECK(perf_json_member(node, "missing") == NULL);
    CHECK(perf_json_member(NULL, "n") == NULL);
    const struct perf_json_node *item = perf_json_member(node, "list")->child;
    static const char kinds[] = "n[{bbz";
    for (int i = 0; kinds[i] != '\0'; i++, item = item->next) CHECK_EQ(item->kind, kinds[i]);
    CHECK(item == NULL);
    perf_json_drop(node);
}

/* No beginning of a document is one, and none is read past its end. */
static void test_cut(void)
{
    static const char text[] = "{\"a\":[1,\"b\\u0041\\n\",{\"c\":null}],\"d\":true}";
    for (size_t length = 0; length < sizeof text - 1; length++) {
        char *cut = malloc(length + 1);
        size_t wrong_at = 0;
        CHECK(cut != NULL);
        memcpy(cut, text, length);
        cut[length] = '\0';
        CHECK(perf_json_read(cut, &wrong_at) == NULL);
        CHECK(wrong_at <= length);
        free(cut);
    }
}

static void test_refused(void)
{
    static const char *const texts[] = {
        "",         "nul",     "[1,]",  "{\"a\"}",     "{\"a\":1,}", "{1:2}",
        "\"a",      "\"\\x\"", "[1] 2", "\"\\u12g4\"", "+1",         "'a'",
        "\"a\nb\"", "[1 2]",   "{",     "\"\\",        "[}",         "{\"a\" 1}",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        size_t wrong_at = 0;
        struct perf_json_node *node = perf_json_read(texts[i], &wrong_at);
        if (node != NULL) FAIL("read '%s'", texts[i]);
    }
    char deep[1001];
    size_t wrong_at = 0;
    memset(deep, '[', 1000);
    deep[1000] = '\0';
    CHECK(perf_json_read(deep, &wrong_at) == NULL);
}

static void test_walk(void)
{
    struct perf_coll coll = {.flags = PERF_PAIRED};
    for (int nranks = 2; nranks <= 9; nranks++)
        for (int one_way = 0; one_way < 2; one_way++) {
            struct perf_pair pair = {0, 0};
            int seen[9][9] = {{0}}, n = 0;
            coll.flags = PERF_PAIRED | (one_way ? PERF_ONE_WAY : 0u);
            while (perf_pair_next(&pair, &coll, nranks)) {
                CHECK(pair.first != pair.second);
                CHECK_EQ(seen[pair.first][pair.second]++, 0);
                CHECK(one_way || pair.first < pair.second);
                n++;
            }
            CHECK_EQ(n, nranks * (nranks - 1) / (one_way ? 1 : 2));
        }
}

static void test_roles(void)
{
    const struct perf_pair none = {0, 0}, pair = {3, 1};
    int peer = -1;
    CHECK_EQ(perf_pair_role(&none, 2, 5, &peer), PERF_ROLE_FIRST);
    CHECK_EQ(peer, 3);
    CHECK_EQ(perf_pair_role(&none, 3, 5, &peer), PERF_ROLE_SECOND);
    CHECK_EQ(peer, 2);
    CHECK_EQ(perf_pair_role(&none, 4, 5, &peer), PERF_ROLE_NONE);
    CHECK_EQ(perf_pair_role(&pair, 3, 5, &peer), PERF_ROLE_FIRST);
    CHECK_EQ(peer, 1);
    CHECK_EQ(perf_pair_role(&pair, 1, 5, &peer), PERF_ROLE_SECOND);
    CHECK_EQ(peer, 3);
    CHECK_EQ(perf_pair_role(&pair, 0, 5, &peer), PERF_ROLE_NONE);
}

static char table[4096];

static void add_line(const char *text)
{
    size_t used = strlen(table);
    snprintf(table + used, sizeof table - used, "%s\n", text);
}

static void test_table(void)
{
    const double busbw[9] = {0, 10, 10, 10, 0, 7.9, 8.1, 10, 0};
    table[0] = '\0';
    perf_pairs_table(busbw, 3, add_line);
    CHECK_HAS(table, "median 10, * below 0.8");
    CHECK_HAS(table, "    0 |        -        10        10 \n");
    CHECK_HAS(table, "    1 |       10         -       7.9*\n");
    CHECK_HAS(table, "    2 |      8.1        10         - \n");
    CHECK_HAS(table, "slow pair: rank 1 to rank 2, 7.9 GB/s\n");
    CHECK(strstr(table, "rank 2 to rank 0") == NULL);
}

static const struct test_case cases[] = {
    {"JSON is read", test_values, 0},       {"JSON that is cut short", test_cut, 0},
    {"JSON that is none", test_refused, 0}, {"pairs: each once", test_walk, 0},
    {"pairs: roles", test_roles, 0},        {"pairs: table", test_table, 0},
};
TEST_MAIN(cases)
