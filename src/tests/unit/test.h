/* The framework of the C tests: a program is a table of cases that run one after the other in
 * one process, each under a time limit, and print TAP. Every src/tests/.../test_*.c uses it.
 * Before and after each case the process is searched for leftovers (leftover.h): open files,
 * threads, shared mappings, names in /dev/shm, abstract sockets, children. Any of them fails it.
 *
 *     static void test_sum(void) { CHECK_EQ(1 + 1, 2); }
 *     static const struct test_case cases[] = {{"sum", test_sum, 0}};
 *     TEST_MAIN(cases)
 */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <stddef.h>

struct test_case {
    const char *name; /* a name that starts with "child:" is only run by test_exec_case */
    void (*run)(void);
    unsigned timeout_s; /* 0: 60 s, or $TEST_DEFAULT_S. One that hangs fails with its stacks */
};

/* Called before both snapshots of a case, so that background work can end; NULL: nothing. */
extern void (*test_settle)(void);

/* Called once before the first case, to make what lives as long as the process; NULL: nothing. */
extern void (*test_prepare)(void);

/* Called after each case; what was skipped did not pass. NULL: nothing. */
extern void (*test_ended)(const struct test_case *test, int passed);

/* How long leftovers may take to go by themselves before they count; 2,000 ms. */
extern unsigned test_settle_limit_ms;

/* Hooks for programs that use the library: device threads and bootstrap threads end in settle.
 * Both do nothing for parts of the library that are not linked in. */
void test_lib_settle(void);
void test_lib_prepare(void);

/* Runs the table; the exit code is 0 when no case failed. Options: --list, --only PATTERN (part
 * of the name, repeatable), --fork (a process for every case). */
int test_main(int argc, char **argv, const struct test_case *cases, size_t ncases);

#define TEST_COUNT(table) (sizeof(table) / sizeof(table)[0])

#define TEST_MAIN(table)                                                                           \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return test_main(argc, argv, (table), TEST_COUNT(table));                                  \
    }

/* For programs that make communicators, streams or ids. */
#define TEST_LIB_MAIN(table)                                                                       \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        test_settle = test_lib_settle;                                                             \
        test_prepare = test_lib_prepare;                                                           \
        return test_main(argc, argv, (table), TEST_COUNT(table));                                  \
    }

/* ---- checks: the first that fails ends the case. In a thread that the case made it ends that
 * thread and the case is red; in a forked child it ends the child with exit code 99. ---- */

/* Where a check stands and what it says. */
struct test_at {
    const char *file;
    int line;
    const char *text;
};
#define TEST_AT(text) ((struct test_at){__FILE__, __LINE__, (text)})

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) test_fail(TEST_AT(#condition), "is false");                              \
    } while (0)

/* Integers, enums and pointers; both values are printed. Each side is evaluated once. */
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        _Static_assert(_Generic((a), float : 0, double : 0, default : 1), "CHECK_NEAR is for it"); \
        test_check_eq(TEST_AT(#a " == " #b), (long long)(a), (long long)(b));                      \
    } while (0)

/* |a - b| <= slack, and neither is NaN. */
#define CHECK_NEAR(a, b, slack) test_check_near(TEST_AT(#a " near " #b), (a), (b), (slack))

/* Equal strings; NULL equals only NULL. */
#define CHECK_STR(a, b) test_check_str(TEST_AT(#a " equals " #b), (a), (b))

/* The string `whole` contains `part`. */
#define CHECK_HAS(whole, part) test_check_has(TEST_AT(#whole " has " #part), (whole), (part))

/* Equal bytes; prints the first index that differs. */
#define CHECK_MEM(a, b, bytes) test_check_mem(TEST_AT(#a " equals " #b), (a), (b), (bytes))

/* A call that returns ncclSuccess; prints the library's last error otherwise. */
#define CHECK_OK(call) test_check_ok(TEST_AT(#call), (int)(call))

/* Fails with a text of your own. */
#define FAIL(...) test_fail(TEST_AT("failed"), __VA_ARGS__)

/* Ends the case as skipped; the text says what is missing. */
#define SKIP(...) test_skip(__VA_ARGS__)

/* A line in the output of the running case, for example its seed. */
#define NOTE(...) test_note(__VA_ARGS__)

void test_fail(struct test_at at, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void test_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void test_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void test_check_eq(struct test_at at, long long a, long long b);
void test_check_near(struct test_at at, double a, double b, double slack);
void test_check_str(struct test_at at, const char *a, const char *b);
void test_check_has(struct test_at at, const char *whole, const char *part);
void test_check_mem(struct test_at at, const void *a, const void *b, size_t bytes);
void test_check_ok(struct test_at at, int code);

/* ---- other processes ---- */

struct test_output {
    int code;        /* exit code; 128 + signal; -1 when it was killed at the time limit */
    char out[32768]; /* stdout and stderr, cut at this size, always terminated */
    char err[32768];
};

/* Runs argv (NULL-terminated, argv[0] a path) with `env` ("NAME=value" or "NAME" to unset,
 * NULL-terminated or NULL) on top of this environment. Blocks; kills it after timeout_s. */
void test_exec(const char *const argv[], const char *const env[], unsigned timeout_s,
               struct test_output *output);

/* Runs the case `name` ("child:...") of this program in a new process: for everything that is
 * read once per process, such as the library's parameters. code 99: a check failed there. */
void test_exec_case(const char *name, const char *const env[], struct test_output *output);

#endif
