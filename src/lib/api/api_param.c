/* Parameters for programs: the rows of base/param_table.h under their names. An integer parameter
 * has the type I64, a text Str, and no other. Called by programs, at any time and from any thread,
 * without a device. Invariant: handles, texts and the table of keys live as long as the process.
 */
#include "api/api.h"

#include "base/err.h"
#include "base/param.h"

#include <stdio.h>
#include <string.h>

struct ncclParam {
    enum ccl_param param;
};

static struct ncclParam handles[CCL_PARAM_COUNT] = {
#define CCL_PARAM_INT(id, env, fallback, low, high, help) {CCL_PARAM_##id},
#define CCL_PARAM_TEXT(id, env, fallback, help)           {CCL_PARAM_##id},
#include "base/param_table.h"
#undef CCL_PARAM_INT
#undef CCL_PARAM_TEXT
};

static const char *keys[CCL_PARAM_COUNT] = {
#define CCL_PARAM_INT(id, env, fallback, low, high, help) env,
#define CCL_PARAM_TEXT(id, env, fallback, help)           env,
#include "base/param_table.h"
#undef CCL_PARAM_INT
#undef CCL_PARAM_TEXT
};

static const char *type_of(enum ccl_param param)
{
    return ccl_param_is_int(param) ? "I64" : "Str";
}

static ncclResult_t find_key(const char *key, const char *function, enum ccl_param *param)
{
    TRY(ccl_argcheck_pointer(key, function, "key"));
    *param = ccl_param_find(key);
    if (*param != CCL_PARAM_COUNT) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: key '%.100s' is no parameter", function, key);
}

/* A handle may be any pointer. */
static ncclResult_t find_handle(ncclParamHandle_t h, const char *function, enum ccl_param *param)
{
    uintptr_t at = (uintptr_t)h - (uintptr_t)handles;
    TRY(ccl_argcheck_pointer(h, function, "h"));
    if (at >= sizeof handles || at % sizeof handles[0] != 0)
        return ccl_err(ncclInvalidArgument, "%s: h %p is no handle of ncclParamBind", function,
                       (void *)h);
    *param = h->param;
    return ncclSuccess;
}

static ncclResult_t find_value(ncclParamHandle_t h, const void *out, const char *function,
                               const char *type, enum ccl_param *param)
{
    TRY(find_handle(h, function, param));
    TRY(ccl_argcheck_pointer(out, function, "out"));
    if (strcmp(type, type_of(*param)) == 0) return ncclSuccess;
    return ccl_err(ncclInvalidArgument, "%s: %s has the type %s, not %s", function,
                   ccl_param_name(*param), type_of(*param), type);
}

CCL_API(ncclResult_t, ncclParamBind, (ncclParamHandle_t * out, const char *key))
{
    enum ccl_param param = CCL_PARAM_COUNT;
    TRY(ccl_argcheck_pointer(out, "ncclParamBind", "out"));
    *out = NULL;
    TRY(find_key(key, "ncclParamBind", &param));
    *out = &handles[param];
    return ncclSuccess;
}

/* Types of numbers that no parameter has are always refused, with the type that it has. */
#define GET(type, number)                                                                          \
    CCL_API(ncclResult_t, ncclParamGet##type, (ncclParamHandle_t h, number * out))                 \
    {                                                                                              \
        enum ccl_param param = CCL_PARAM_COUNT;                                                    \
        TRY(find_value(h, out, "ncclParamGet" #type, #type, &param));                              \
        *out = (number)ccl_param_int(param);                                                       \
        return ncclSuccess;                                                                        \
    }

GET(I8, int8_t)
GET(I16, int16_t)
GET(I32, int32_t)
GET(I64, int64_t)
GET(U8, uint8_t)
GET(U16, uint16_t)
GET(U32, uint32_t)
GET(U64, uint64_t)

CCL_API(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t h, const char **out))
{
    enum ccl_param param = CCL_PARAM_COUNT;
    TRY(find_value(h, out, "ncclParamGetStr", "Str", &param));
    *out = ccl_param_shown(param);
    return ncclSuccess;
}

/* The raw value: 8 bytes of an I64, the characters of a Str without an end. */
CCL_API(ncclResult_t, ncclParamGet, (ncclParamHandle_t h, void *out, int maxLen, int *len))
{
    static const char function[] = "ncclParamGet";
    enum ccl_param param = CCL_PARAM_COUNT;
    TRY(ccl_argcheck_pointer(len, function, "len"));
    *len = 0;
    TRY(find_handle(h, function, &param));
    int64_t number = ccl_param_int(param);
    int is_int = ccl_param_is_int(param);
    const char *text = ccl_param_shown(param);
    *len = is_int ? (int)sizeof number : (int)strlen(text);
    TRY(ccl_argcheck_pointer(out, function, "out"));
    if (maxLen < *len)
        return ccl_err(ncclInvalidArgument, "%s: maxLen %d is below the %d bytes of %s", function,
                       maxLen, *len, ccl_param_name(param));
    memcpy(out, is_int ? (const char *)&number : text, (size_t)*len);
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclParamGetParameter, (const char *key, const char **value, int *valueLen))
{
    static const char function[] = "ncclParamGetParameter";
    enum ccl_param param = CCL_PARAM_COUNT;
    if (value != NULL) *value = NULL;
    if (valueLen != NULL) *valueLen = 0;
    TRY(ccl_argcheck_pointer(value, function, "value"));
    TRY(ccl_argcheck_pointer(valueLen, function, "valueLen"));
    TRY(find_key(key, function, &param));
    *value = ccl_param_shown(param);
    *valueLen = (int)strlen(*value);
    return ncclSuccess;
}

CCL_API(ncclResult_t, ncclParamGetAllParameterKeys, (const char ***table, int *tableLen))
{
    static const char function[] = "ncclParamGetAllParameterKeys";
    if (table != NULL) *table = NULL;
    if (tableLen != NULL) *tableLen = 0;
    TRY(ccl_argcheck_pointer(table, function, "table"));
    TRY(ccl_argcheck_pointer(tableLen, function, "tableLen"));
    *table = keys;
    *tableLen = CCL_PARAM_COUNT;
    return ncclSuccess;
}

CCL_API(void, ncclParamDumpAll, (void))
{
    for (int i = 0; i < CCL_PARAM_COUNT; i++) {
        enum ccl_param param = (enum ccl_param)i;
        int line = 0;
        const char *origin = ccl_param_origin(param, &line);
        printf("%s=%s # %s", ccl_param_name(param), ccl_param_shown(param), origin);
        printf(line > 0 ? ", line %d\n" : "\n", line);
    }
    fflush(stdout);
}
