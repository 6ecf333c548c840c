/* Functions of the interface that this library does not have yet: each returns ncclInvalidUsage,
 * names itself in the last error and sets its out-pointers to NULL or zero. A row goes when its
 * function comes.
 */
#include "conform/world.h"

#include <string.h>

static int one_byte;
static uint64_t number;
static int integer;
static const char *text;
static const char **table;
static ncclParamHandle_t param;

/* ROW(function, (arguments)) */
#define ROWS(ROW)                                                                                  \
    ROW(ncclParamBind, (&param, "NCCL_DEBUG"))                                                     \
    ROW(ncclParamGetI8, (NULL, (int8_t *)&number))                                                 \
    ROW(ncclParamGetI16, (NULL, (int16_t *)&number))                                               \
    ROW(ncclParamGetI32, (NULL, (int32_t *)&number))                                               \
    ROW(ncclParamGetI64, (NULL, (int64_t *)&number))                                               \
    ROW(ncclParamGetU8, (NULL, (uint8_t *)&number))                                                \
    ROW(ncclParamGetU16, (NULL, (uint16_t *)&number))                                              \
    ROW(ncclParamGetU32, (NULL, (uint32_t *)&number))                                              \
    ROW(ncclParamGetU64, (NULL, &number))                                                          \
    ROW(ncclParamGetStr, (NULL, &text))                                                            \
    ROW(ncclParamGet, (NULL, &one_byte, 1, &integer))                                              \
    ROW(ncclParamGetParameter, ("NCCL_DEBUG", &text, &integer))                                    \
    ROW(ncclParamGetAllParameterKeys, (&table, &integer))

static void dirty_outputs(void)
{
    param = (ncclParamHandle_t)(void *)&one_byte;
    number = 0;
    text = "left";
    table = &text;
}

/* Of the outputs, those that the call was given are clean; the others still are as they were. */
static void check_outputs(void)
{
    CHECK(text == NULL || strcmp(text, "left") == 0);
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
    CHECK_EQ(ncclParamBind(&param, "NCCL_DEBUG"), ncclInvalidUsage);
    CHECK_EQ(param, NULL);
    CHECK_EQ(ncclParamGetStr(NULL, &text), ncclInvalidUsage);
    CHECK_EQ(text, NULL);
    CHECK_EQ(ncclParamGetAllParameterKeys(&table, &integer), ncclInvalidUsage);
    CHECK_EQ(table, NULL);
}

static void values_report_errors(void)
{
    ncclParamDumpAll();
    CHECK_HAS(ncclGetLastError(NULL), "ncclParamDumpAll: ");
}

#define CASE(function, arguments) {"later: " #function, function##_refuses, 0},
static const struct test_case cases[] = {
    ROWS(CASE){"later: out-pointers are NULL", out_pointers_are_null, 0},
    {"later: ncclParamDumpAll reports an error", values_report_errors, 0},
};
const struct case_list later_cases = {cases, TEST_COUNT(cases)};
