/* Parameters as programs see them: every key by every function, each argument wrong once, short
 * buffers, and what ncclParamDumpAll prints.
 */
#define _GNU_SOURCE
#include "conform/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_output output;
typedef const char *text_pointer;

static int one_byte;

static ncclParamHandle_t bind(const char *key)
{
    ncclParamHandle_t h = NULL;
    CHECK_OK(ncclParamBind(&h, key));
    CHECK(h != NULL);
    return h;
}

static void keys_are_sorted(void)
{
    const char **table = NULL;
    int n = 0, has_debug = 0;
    CHECK_OK(ncclParamGetAllParameterKeys(&table, &n));
    CHECK(n > 20);
    for (int i = 0; i < n; i++) {
        has_debug |= strcmp(table[i], "NCCL_DEBUG") == 0;
        if (i > 0) CHECK(strcmp(table[i - 1], table[i]) < 0);
    }
    CHECK(has_debug);
}

/* Each key has one type, and all functions tell the same value. */
static void every_key(void)
{
    const char **table = NULL;
    int n = 0;
    CHECK_OK(ncclParamGetAllParameterKeys(&table, &n));
    for (int i = 0; i < n; i++) {
        const char *text = NULL, *shown = NULL;
        char raw[4096], number[32];
        int64_t value = 0;
        int len = -1, raw_len = -1;
        ncclParamHandle_t h = bind(table[i]);
        NOTE("%s", table[i]);
        CHECK_EQ(bind(table[i]), h);
        CHECK_OK(ncclParamGetParameter(table[i], &shown, &len));
        CHECK_EQ(strlen(shown), len);
        CHECK_OK(ncclParamGet(h, raw, sizeof raw, &raw_len));
        if (ncclParamGetI64(h, &value) == ncclSuccess) {
            CHECK_EQ(ncclParamGetStr(h, &text), ncclInvalidArgument);
            CHECK_EQ(raw_len, sizeof value);
            CHECK_MEM(raw, &value, sizeof value);
            snprintf(number, sizeof number, "%lld", (long long)value);
            CHECK_STR(shown, number);
        } else {
            CHECK_OK(ncclParamGetStr(h, &text));
            CHECK_STR(text, shown);
            CHECK_EQ(raw_len, len);
            CHECK_MEM(raw, text, (size_t)len);
        }
    }
}

static void child_values(void)
{
    const char *text = NULL;
    int64_t number = 0;
    int len = 0;
    CHECK_OK(ncclParamGetStr(bind("NCCL_HOSTID"), &text));
    CHECK_STR(text, "rack 7");
    CHECK_OK(ncclParamGetI64(bind("CHORUS_SLOT_DEPTH"), &number));
    CHECK_EQ(number, 16);
    CHECK_OK(ncclParamGetParameter("CHORUS_SLOT_DEPTH", &text, &len));
    CHECK_STR(text, "16");
    CHECK_EQ(len, 2);
    CHECK_OK(ncclParamGetI64(bind("CHORUS_HOST_DEVICES"), &number));
    CHECK_EQ(number, 8);
    CHECK_OK(ncclParamGetStr(bind("NCCL_COMM_ID"), &text));
    CHECK_STR(text, "");
    setenv("NCCL_HOSTID", "rack 8", 1);
    CHECK_OK(ncclParamGetStr(bind("NCCL_HOSTID"), &text));
    CHECK_STR(text, "rack 7");
}

static void values_are_those_in_use(void)
{
    const char *const env[] = {"NCCL_HOSTID=rack 7", "CHORUS_SLOT_DEPTH=0x10",
                               "CHORUS_HOST_DEVICES=1000", "NCCL_COMM_ID", NULL};
    test_exec_case("child:params: values", env, &output);
    NOTE("%s", output.err);
    CHECK_EQ(output.code, 0);
}

static void bind_wrong(void)
{
    ncclParamHandle_t h = (ncclParamHandle_t)(void *)&one_byte;
    expect_error(ncclParamBind(NULL, "NCCL_DEBUG"), ncclInvalidArgument, "ncclParamBind",
                 "out is NULL");
    expect_error(ncclParamBind(&h, NULL), ncclInvalidArgument, "ncclParamBind", "key is NULL");
    CHECK_EQ(h, NULL);
    h = (ncclParamHandle_t)(void *)&one_byte;
    expect_error(ncclParamBind(&h, "NCCL_NOTHING"), ncclInvalidArgument, "ncclParamBind",
                 "key 'NCCL_NOTHING' is no parameter");
    CHECK_EQ(h, NULL);
    expect_error(ncclParamBind(&h, ""), ncclInvalidArgument, "ncclParamBind", "key ''");
    expect_error(ncclParamBind(&h, "nccl_debug"), ncclInvalidArgument, "ncclParamBind",
                 "key 'nccl_debug'");
    expect_error(ncclParamBind(&h, "NCCL_NET"), ncclInvalidArgument, "ncclParamBind",
                 "key 'NCCL_NET'");
}

/* GET(type of the function, C type, key of another type, that type) */
#define GETTERS(GET)                                                                               \
    GET(I8, int8_t, "CHORUS_SLOT_DEPTH", "I64")                                                    \
    GET(I16, int16_t, "CHORUS_SLOT_DEPTH", "I64")                                                  \
    GET(I32, int32_t, "CHORUS_SLOT_DEPTH", "I64")                                                  \
    GET(I64, int64_t, "NCCL_DEBUG", "Str")                                                         \
    GET(U8, uint8_t, "CHORUS_SLOT_DEPTH", "I64")                                                   \
    GET(U16, uint16_t, "CHORUS_SLOT_DEPTH", "I64")                                                 \
    GET(U32, uint32_t, "CHORUS_SLOT_DEPTH", "I64")                                                 \
    GET(U64, uint64_t, "CHORUS_SLOT_DEPTH", "I64")                                                 \
    GET(Str, text_pointer, "CHORUS_SLOT_DEPTH", "I64")

/* What a call leaves of its output when it fails is what was there. */
#define GETTER(type, ctype, key, has)                                                              \
    static void get_##type##_wrong(void)                                                           \
    {                                                                                              \
        static const char function[] = "ncclParamGet" #type;                                       \
        ctype out, before;                                                                         \
        ncclParamHandle_t h = bind(key), none = (ncclParamHandle_t)(void *)&one_byte;              \
        memset(&out, 0x5a, sizeof out);                                                            \
        memcpy(&before, &out, sizeof out);                                                         \
        expect_error(ncclParamGet##type(NULL, &out), ncclInvalidArgument, function, "h is NULL");  \
        expect_error(ncclParamGet##type(none, &out), ncclInvalidArgument, function,                \
                     "is no handle of ncclParamBind");                                             \
        none = (ncclParamHandle_t)(void *)((char *)h + 1);                                         \
        CHECK_EQ(ncclParamGet##type(none, &out), ncclInvalidArgument);                             \
        expect_error(ncclParamGet##type(h, NULL), ncclInvalidArgument, function, "out is NULL");   \
        expect_error(ncclParamGet##type(h, &out), ncclInvalidArgument, function,                   \
                     key " has the type " has ", not " #type);                                     \
        CHECK_MEM(&out, &before, sizeof out);                                                      \
    }
GETTERS(GETTER)

static void get_wrong(void)
{
    static const char function[] = "ncclParamGet";
    char raw[9] = "########";
    int len = -1;
    ncclParamHandle_t number = bind("CHORUS_SLOT_DEPTH"), text = bind("NCCL_DEBUG_SUBSYS");
    expect_error(ncclParamGet(NULL, raw, 8, &len), ncclInvalidArgument, function, "h is NULL");
    CHECK_EQ(len, 0);
    expect_error(ncclParamGet((ncclParamHandle_t)(void *)&one_byte, raw, 8, &len),
                 ncclInvalidArgument, function, "is no handle");
    expect_error(ncclParamGet(number, raw, 8, NULL), ncclInvalidArgument, function, "len is NULL");
    expect_error(ncclParamGet(number, NULL, 8, &len), ncclInvalidArgument, function, "out is NULL");
    CHECK_EQ(len, 8); /* what it takes */
    expect_error(ncclParamGet(number, raw, 7, &len), ncclInvalidArgument, function,
                 "maxLen 7 is below the 8 bytes of CHORUS_SLOT_DEPTH");
    CHECK_EQ(len, 8);
    expect_error(ncclParamGet(number, raw, -1, &len), ncclInvalidArgument, function, "maxLen -1");
    expect_error(ncclParamGet(text, raw, 0, &len), ncclInvalidArgument, function, "maxLen 0");
    CHECK(len > 0);
    CHECK_STR(raw, "########");
    CHECK_OK(ncclParamGet(number, raw, 8, &len));
    CHECK_EQ(raw[8], '\0');
}

static void get_parameter_wrong(void)
{
    static const char function[] = "ncclParamGetParameter";
    const char *value = function;
    int len = -1;
    expect_error(ncclParamGetParameter("NCCL_NOTHING", &value, &len), ncclInvalidArgument, function,
                 "key 'NCCL_NOTHING' is no parameter");
    CHECK_EQ(value, NULL);
    CHECK_EQ(len, 0);
    value = function;
    len = -1;
    expect_error(ncclParamGetParameter(NULL, &value, &len), ncclInvalidArgument, function,
                 "key is NULL");
    CHECK_EQ(value, NULL);
    CHECK_EQ(len, 0);
    expect_error(ncclParamGetParameter("NCCL_DEBUG", NULL, &len), ncclInvalidArgument, function,
                 "value is NULL");
    expect_error(ncclParamGetParameter("NCCL_DEBUG", &value, NULL), ncclInvalidArgument, function,
                 "valueLen is NULL");
}

static void get_keys_wrong(void)
{
    static const char function[] = "ncclParamGetAllParameterKeys";
    const char **table = (const char **)(void *)&one_byte;
    int n = -1;
    expect_error(ncclParamGetAllParameterKeys(NULL, &n), ncclInvalidArgument, function,
                 "table is NULL");
    CHECK_EQ(n, 0);
    expect_error(ncclParamGetAllParameterKeys(&table, NULL), ncclInvalidArgument, function,
                 "tableLen is NULL");
    CHECK_EQ(table, NULL);
}

/* Asking wrongly does not spoil an open group. */
static void groups_are_not_concerned(void)
{
    ncclParamHandle_t h = NULL;
    CHECK_OK(ncclGroupStart());
    CHECK_EQ(ncclParamBind(&h, "NCCL_NOTHING"), ncclInvalidArgument);
    CHECK_OK(ncclGroupEnd());
}

static void child_dump(void)
{
    ncclParamDumpAll();
}

/* The line of each key, in the order of the keys, and nothing else. */
static void dump_prints_all(void)
{
    const char *const env[] = {"NCCL_HOSTID=rack 7", "CHORUS_SLOT_DEPTH=16",
                               "NCCL_DEBUG=", "NCCL_SOCKET_FAMILY", NULL};
    const char **table = NULL;
    int n = 0;
    test_exec_case("child:params: dump", env, &output);
    CHECK_EQ(output.code, 0);
    CHECK_HAS(output.out, "\nNCCL_HOSTID=rack 7 # environment\n");
    CHECK_HAS(output.out, "\nCHORUS_SLOT_DEPTH=16 # environment\n");
    CHECK_HAS(output.out, "\nCHORUS_SLOT_BYTES=131072 # default\n");
    CHECK_HAS(output.out, "\nNCCL_DEBUG= # environment\n");
    CHECK_HAS(output.out, "\nNCCL_SOCKET_FAMILY= # default\n");
    CHECK_OK(ncclParamGetAllParameterKeys(&table, &n));
    const char *line = output.out;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(table[i]);
        NOTE("%s", table[i]);
        CHECK(strncmp(line, table[i], length) == 0 && line[length] == '=');
        line = strchr(line, '\n');
        CHECK(line != NULL);
        line++;
    }
    CHECK_STR(line, "");
}

static void *read_all(void *unused)
{
    every_key();
    return unused;
}

static void threads_read_at_once(void)
{
    pthread_t threads[8];
    for (size_t i = 0; i < TEST_COUNT(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, read_all, NULL), 0);
    for (size_t i = 0; i < TEST_COUNT(threads); i++) pthread_join(threads[i], NULL);
}

#define GET_CASE(type, ctype, key, has) {"params: ncclParamGet" #type, get_##type##_wrong, 0},
static const struct test_case cases[] = {
    {"params: keys are sorted", keys_are_sorted, 0},
    {"params: every key by every function", every_key, 0},
    {"params: values are those in use", values_are_those_in_use, 0},
    {"params: ncclParamBind", bind_wrong, 0},
    GETTERS(GET_CASE){"params: ncclParamGet", get_wrong, 0},
    {"params: ncclParamGetParameter", get_parameter_wrong, 0},
    {"params: ncclParamGetAllParameterKeys", get_keys_wrong, 0},
    {"params: groups are not concerned", groups_are_not_concerned, 0},
    {"params: ncclParamDumpAll prints all", dump_prints_all, 0},
    {"params: threads read at once", threads_read_at_once, 0},
    {"child:params: values", child_values, 0},
    {"child:params: dump", child_dump, 0},
};
const struct case_list param_cases = {cases, TEST_COUNT(cases)};
