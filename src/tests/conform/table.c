/* Rows and passes per function, see table.h, and the cases that demand them: three rows about every
 * function, 400 in all. Functions in `awaited` may have fewer; the run names them.
 */
#include "conform/table.h"

#include "conform/world.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_ROWS = 3, LEAST_IN_ALL = 400 };

static const char *const names[] = {
#define NAME(x) "nccl" #x,
#include "conform/names.h"
#undef NAME
};

/* Functions whose rows are still to come; a name goes with the third of them. */
static const char *const awaited[] = {
    "ncclCommWindowRegister",
    "ncclCommWindowDeregister",
    "ncclWinGetUserPtr",
    "ncclPutSignal",
    "ncclSignal",
    "ncclWaitSignal",
};

struct tally {
    size_t rows, ran, passed;
};
static struct tally tallies[TEST_COUNT(names)];
static struct tally in_all;

/* The text has the name as a word of its own. */
static int is_about(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
        int starts = at == text || !isalnum((unsigned char)at[-1]);
        if (starts && !isalnum((unsigned char)at[length])) return 1;
    }
    return 0;
}

static int is_child(const struct test_case *test)
{
    return strncmp(test->name, "child:", 6) == 0;
}

void table_open(const struct test_case *cases, size_t ncases)
{
    for (size_t c = 0; c < ncases; c++) {
        int is_row = 0;
        for (size_t i = 0; i < TEST_COUNT(names); i++) {
            if (is_child(&cases[c]) || !is_about(cases[c].name, names[i])) continue;
            tallies[i].rows++;
            is_row = 1;
        }
        in_all.rows += (size_t)is_row;
    }
}

void table_count(const struct test_case *test, int passed)
{
    int is_row = 0;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        if (!is_about(test->name, names[i])) continue;
        tallies[i].ran++;
        tallies[i].passed += (size_t)passed;
        is_row = 1;
    }
    in_all.ran += (size_t)is_row;
    in_all.passed += (size_t)(is_row && passed);
}

void table_print(void)
{
    if (in_all.ran == 0) return;
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        if (tallies[i].ran > 0)
            printf("# rows: %-32s %3zu, run %zu, passed %zu\n", names[i], tallies[i].rows,
                   tallies[i].ran, tallies[i].passed);
    printf("# rows: %zu about %zu functions, run %zu, passed %zu\n", in_all.rows, TEST_COUNT(names),
           in_all.ran, in_all.passed);
}

static int is_awaited(const char *name)
{
    for (size_t i = 0; i < TEST_COUNT(awaited); i++)
        if (strcmp(awaited[i], name) == 0) return 1;
    return 0;
}

static void every_function_has_rows(void)
{
    size_t nbare = 0;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        if (tallies[i].rows >= LEAST_ROWS) continue;
        const char *what = is_awaited(names[i]) ? "not there yet: " : "";
        NOTE("%s%s has %zu of %d rows", what, names[i], tallies[i].rows, LEAST_ROWS);
        nbare += !is_awaited(names[i]);
    }
    CHECK_EQ(nbare, 0);
}

static void all_rows_are_there(void)
{
    NOTE("%zu rows", in_all.rows);
    CHECK(in_all.rows >= LEAST_IN_ALL);
}

/* What counts as a word: names that start alike are not taken for each other. */
static void words_are_told_apart(void)
{
    CHECK(is_about("wrong: ncclReduce op_low", "ncclReduce"));
    CHECK(is_about("exports: ncclReduce", "ncclReduce"));
    CHECK(is_about("life: an end (ncclCommAbort, ncclCommDestroy)", "ncclCommAbort"));
    CHECK(is_about("wrong: ncclReduceScatter and ncclReduce", "ncclReduce"));
    CHECK(!is_about("wrong: ncclReduceScatter op_low", "ncclReduce"));
    CHECK(!is_about("exports: pncclReduce", "ncclReduce"));
}

static const struct test_case cases[] = {
    {"table: words are told apart", words_are_told_apart, 0},
    {"table: every function has 3 rows", every_function_has_rows, 0},
    {"table: 400 rows in all", all_rows_are_there, 0},
};
const struct case_list table_cases = {cases, TEST_COUNT(cases)};
