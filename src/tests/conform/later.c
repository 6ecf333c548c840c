/* Functions of the interface that this library does not have yet: each returns ncclInvalidUsage,
 * names itself in the last error and sets its out-pointers to NULL or zero. A row goes when its
 * function comes.
 */
#include "conform/world.h"

static int one_byte;
static void *pointer;
static ncclWindow_t window;
static uint64_t number;

/* ROW(function, (arguments)) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclCommWindowRegister, (NULL, &one_byte, 1, &window, 0))                                  \
    ROW(ncclCommWindowDeregister, (NULL, NULL))                                                    \
    ROW(ncclWinGetUserPtr, (NULL, NULL, &pointer))                                                 \
    ROW(ncclPutSignal, (NULL, 0, ncclInt8, 0, NULL, 0, 0, 0, 0, NULL, NULL))                       \
    ROW(ncclSignal, (0, 0, 0, 0, NULL, NULL))                                                      \
    ROW(ncclWaitSignal, (0, NULL, NULL, NULL))

static void dirty_outputs(void)
{
    window = (ncclWindow_t)(void *)&one_byte;
    pointer = &one_byte;
    number = 0;
}

/* Of the outputs, those that the call was given are clean; the others still are as they were. */
static void check_outputs(void)
{
    CHECK_EQ(number, 0);
    CHECK_EQ(one_byte, 0);
}

#define FUNCTION(function, arguments)                                                              \
    static void function##_refuses(void)                                                           \
    {                                                                                              \
        dirty_outputs();                                                                           \
        expect_error(function arguments, ncclInvalidUsage, #function, "not supported");            \
        check_outputs();                                                                           \
        CHECK_EQ(ncclGroupStart(), ncclSuccess);                                                   \
        CHECK_EQ(function arguments, ncclInvalidUsage);                                            \
        CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage);                                                \
    }
ROWS(FUNCTION)

static void out_pointers_are_null(void)
{
    dirty_outputs();
    CHECK_EQ(ncclCommWindowRegister(NULL, &one_byte, 1, &window, 0), ncclInvalidUsage);
    CHECK_EQ(window, NULL);
    CHECK_EQ(ncclWinGetUserPtr(NULL, NULL, &pointer), ncclInvalidUsage);
    CHECK_EQ(pointer, NULL);
}

#define CASE(function, arguments) {"later: " #function, function##_refuses, 0},
static const struct test_case cases[] = {
    ROWS(CASE){"later: out-pointers are NULL", out_pointers_are_null, 0},
};
const struct case_list later_cases = {cases, TEST_COUNT(cases)};
