/* Parameters as programs see them: every key by every function, each argument wrong once, short
 * buffers, and what ncclParamDumpAll prints.
 */
#define _GNU_SOURCE
#include "conform/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void expect_bind(const char *key, const char *detail)
{
    ncclParamHandle_t h = (ncclParamHandle_t)(void *)&one_byte;
    expect_error(ncclParamBind(&h, key), ncclInvalidArgument, "ncclParamBind", detail);
    CHECK_EQ(h, NULL);
}

static void bind_null(void)
{
    expect_error(ncclParamBind(NULL, "NCCL_DEBUG"), ncclInvalidArgument, "ncclParamBind",
                 "out is NULL");
    expect_bind(NULL, "key is NULL");
}

static void bind_unknown(void)
{
    expect_bind("NCCL_NOTHING", "key 'NCCL_NOTHING' is no parameter");
    expect_bind("", "key ''");
    expect_bind("nccl_debug", "key 'nccl_debug'");
    expect_bind("NCCL_NET", "key 'NCCL_NET'");
}

static void bind_twice(void)
{
    CHECK(bind("NCCL_DEBUG") == bind("NCCL_DEBUG"));
    CHECK(bind("NCCL_DEBUG") != bind("NCCL_DEBUG_FILE"));
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
    static void expect_get_##type(ncclParamHandle_t h, const char *detail)                         \
    {                                                                                              \
        ctype out, before;                                                                         \
        memset(&out, 0x5a, sizeof out);                                                            \
        memcpy(&before, &out, sizeof out);                                                         \
        expect_error(ncclParamGet##type(h, &out), ncclInvalidArgument, "ncclParamGet" #type,       \
                     detail);                                                                      \
        CHECK_MEM(&out, &before, sizeof out);                                                      \
    }                                                                                              \
    static void get_##type##_of_null(void)                                                         \
    {                                                                                              \
        expect_get_##type(NULL, "h is NULL");                                                      \
    }                                                                                              \
    static void get_##type##_of_no_handle(void)                                                    \
    {                                                                                              \
        expect_get_##type((ncclParamHandle_t)(void *)&one_byte, "is no handle of ncclParamBind");  \
        expect_get_##type((ncclParamHandle_t)(void *)((char *)bind(key) + 1), "is no handle");     \
    }                                                                                              \
    static void get_##type##_of_other(void)                                                        \
    {                                                                                              \
        expect_get_##type(bind(key), key " has the type " has ", not " #type);                     \
    }                                                                                              \
    static void get_##type##_into_null(void)                                                       \
    {                                                                                              \
        expect_error(ncclParamGet##type(bind(key), NULL), ncclInvalidArgument,                     \
                     "ncclParamGet" #type, "out is NULL");                                         \
    }
GETTERS(GETTER)

static void expect_get(ncclParamHandle_t h, int max_len, int len_then, const char *detail)
{
    char raw[9] = "########";
    int len = -1;
    expect_error(ncclParamGet(h, raw, max_len, &len), ncclInvalidArgument, "ncclParamGet", detail);
    CHECK_EQ(len, len_then);
    CHECK_STR(raw, "########");
}

static void get_of_wrong_handle(void)
{
    expect_get(NULL, 8, 0, "h is NULL");
    expect_get((ncclParamHandle_t)(void *)&one_byte, 8, 0, "is no handle of ncclParamBind");
}

static void get_short_buffer(void)
{
    ncclParamHandle_t number = bind("CHORUS_SLOT_DEPTH"), text = bind("NCCL_DEBUG_SUBSYS");
    const char *value = NULL;
    CHECK_OK(ncclParamGetStr(text, &value));
    expect_get(number, 7, 8, "maxLen 7 is below the 8 bytes of CHORUS_SLOT_DEPTH");
    expect_get(number, 0, 8, "maxLen 0 is below");
    expect_get(number, -1, 8, "maxLen -1 is below");
    expect_get(text, 1, (int)strlen(value), "maxLen 1 is below");
}

static void get_buffer_that_fits(void)
{
    char raw[9] = "########";
    int64_t value = -1;
    int len = -1;
    ncclParamHandle_t h = bind("CHORUS_SLOT_DEPTH");
    CHECK_OK(ncclParamGetI64(h, &value));
    CHECK_OK(ncclParamGet(h, raw, 8, &len));
    CHECK_EQ(len, 8);
    CHECK_MEM(raw, &value, 8);
    CHECK_EQ(raw[8], '\0');
}

static void get_into_null(void)
{
    int len = -1;
    ncclParamHandle_t h = bind("CHORUS_SLOT_DEPTH");
    expect_error(ncclParamGet(h, &one_byte, 8, NULL), ncclInvalidArgument, "ncclParamGet",
                 "len is NULL");
    expect_error(ncclParamGet(h, NULL, 8, &len), ncclInvalidArgument, "ncclParamGet",
                 "out is NULL");
    CHECK_EQ(len, 8); /* what it takes */
    CHECK_EQ(one_byte, 0);
}

static void expect_get_parameter(const char *key, const char *detail)
{
    const char *value = detail;
    int len = -1;
    expect_error(ncclParamGetParameter(key, &value, &len), ncclInvalidArgument,
                 "ncclParamGetParameter", detail);
    CHECK_EQ(value, NULL);
    CHECK_EQ(len, 0);
}

static void get_parameter_unknown(void)
{
    expect_get_parameter("NCCL_NOTHING", "key 'NCCL_NOTHING' is no parameter");
    expect_get_parameter("", "key ''");
    expect_get_parameter("NCCL_NET", "key 'NCCL_NET'");
}

static void get_parameter_null(void)
{
    static const char function[] = "ncclParamGetParameter";
    const char *value = function;
    int len = -1;
    expect_get_parameter(NULL, "key is NULL");
    expect_error(ncclParamGetParameter("NCCL_DEBUG", NULL, &len), ncclInvalidArgument, function,
                 "value is NULL");
    CHECK_EQ(len, 0);
    expect_error(ncclParamGetParameter("NCCL_DEBUG", &value, NULL), ncclInvalidArgument, function,
                 "valueLen is NULL");
    CHECK_EQ(value, NULL);
}

static void get_keys_into_null(void)
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

static void keys_are_always_the_same(void)
{
    const char **first = NULL, **second = NULL;
    int n = 0, m = 1;
    CHECK_OK(ncclParamGetAllParameterKeys(&first, &n));
    CHECK_OK(ncclParamGetAllParameterKeys(&second, &m));
    CHECK(first == second);
    CHECK_EQ(n, m);
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

static void dump(void)
{
    const char *const env[] = {"NCCL_HOSTID=rack 7", "CHORUS_SLOT_DEPTH=16",
                               "NCCL_DEBUG=", "NCCL_SOCKET_FAMILY", NULL};
    test_exec_case("child:params: dump", env, &output);
    CHECK_EQ(output.code, 0);
}

/* The line of each key, in the order of the keys, and nothing else. */
static void dump_prints_all(void)
{
    const char **table = NULL;
    int n = 0;
    dump();
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

static void dump_prints_values(void)
{
    dump();
    CHECK_HAS(output.out, "\nNCCL_HOSTID=rack 7 # environment\n");
    CHECK_HAS(output.out, "\nCHORUS_SLOT_DEPTH=16 # environment\n");
    CHECK_HAS(output.out, "\nCHORUS_SLOT_BYTES=131072 # default\n");
    CHECK_HAS(output.out, "\nNCCL_DEBUG= # environment\n");
    CHECK_HAS(output.out, "\nNCCL_SOCKET_FAMILY= # default\n");
}

/* What is printed of a file names it and the line. */
static void dump_names_files(void)
{
    char path[600], variable[700], expected[800];
    const char *parent = getenv("TEST_TMP");
    snprintf(path, sizeof path, "%.500s/test-dump-XXXXXX", parent == NULL ? P_tmpdir : parent);
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    static const char text[] = "# two\nNCCL_HOSTID=rack 9\n";
    CHECK_EQ(write(fd, text, sizeof text - 1), sizeof text - 1);
    CHECK_EQ(close(fd), 0);
    snprintf(variable, sizeof variable, "NCCL_CONF_FILE=%s", path);
    test_exec_case("child:params: dump", (const char *const[]){variable, "NCCL_HOSTID", NULL},
                   &output);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(output.code, 0);
    snprintf(expected, sizeof expected, "\nNCCL_HOSTID=rack 9 # %s, line 2\n", path);
    CHECK_HAS(output.out, expected);
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

#define GET_CASE(type, ctype, key, has)                                                            \
    {"params: ncclParamGet" #type " of a NULL handle", get_##type##_of_null, 0},                   \
        {"params: ncclParamGet" #type " of what is no handle", get_##type##_of_no_handle, 0},      \
        {"params: ncclParamGet" #type " of another type", get_##type##_of_other, 0},               \
        {"params: ncclParamGet" #type " into NULL", get_##type##_into_null, 0},

static const struct test_case cases[] = {
    {"params: ncclParamGetAllParameterKeys is sorted", keys_are_sorted, 0},
    {"params: ncclParamGetAllParameterKeys gives one table", keys_are_always_the_same, 0},
    {"params: ncclParamGetAllParameterKeys into NULL", get_keys_into_null, 0},
    {"params: every key (ncclParamBind, ncclParamGet, ncclParamGetI64, ncclParamGetStr, "
     "ncclParamGetParameter)",
     every_key, 0},
    {"params: values are those in use (ncclParamGetI64, ncclParamGetStr, ncclParamGetParameter)",
     values_are_those_in_use, 0},
    {"params: ncclParamBind of an unknown key", bind_unknown, 0},
    {"params: ncclParamBind twice gives one handle", bind_twice, 0},
    {"params: ncclParamBind with NULL", bind_null, 0},
    GETTERS(GET_CASE){"params: ncclParamGet of a wrong handle", get_of_wrong_handle, 0},
    {"params: ncclParamGet into a short buffer", get_short_buffer, 0},
    {"params: ncclParamGet into a buffer that fits", get_buffer_that_fits, 0},
    {"params: ncclParamGet into NULL", get_into_null, 0},
    {"params: ncclParamGetParameter of an unknown key", get_parameter_unknown, 0},
    {"params: ncclParamGetParameter with NULL", get_parameter_null, 0},
    {"params: groups are not concerned", groups_are_not_concerned, 0},
    {"params: ncclParamDumpAll prints all keys in order", dump_prints_all, 0},
    {"params: ncclParamDumpAll prints values and where they are from", dump_prints_values, 0},
    {"params: ncclParamDumpAll names file and line", dump_names_files, 0},
    {"params: threads read at once (ncclParamGet, ncclParamGetParameter)", threads_read_at_once, 0},
    {"child:params: values", child_values, 0},
    {"child:params: dump", child_dump, 0},
};
const struct case_list param_cases = {cases, TEST_COUNT(cases)};
