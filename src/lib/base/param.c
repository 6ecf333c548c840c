/* Reads parameters from the environment, each once. */
#include "base/param.h"

#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *env;
    const char *text; /* default of a text parameter */
    int64_t fallback, low, high;
    int is_int;
};

static const struct row rows[CCL_PARAM_COUNT] = {
#define CCL_PARAM_INT(id, env, fallback, low, high, help) {env, NULL, fallback, low, high, 1},
#define CCL_PARAM_TEXT(id, env, fallback, help)           {env, fallback, 0, 0, 0, 0},
#include "base/param_table.h"
#undef CCL_PARAM_INT
#undef CCL_PARAM_TEXT
};

static int64_t ints[CCL_PARAM_COUNT];
static const char *texts[CCL_PARAM_COUNT];
static const char *refused[CCL_PARAM_COUNT]; /* value to warn about once the log can be used */
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static int parse_int(const struct row *row, const char *text, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long parsed = strtoll(text, &end, 0);
    if (end == text || *end != '\0' || errno != 0) return 0;
    if (parsed < row->low || parsed > row->high) return 0;
    *value = parsed;
    return 1;
}

static void read_all(void)
{
    for (int i = 0; i < CCL_PARAM_COUNT; i++) {
        const char *text = getenv(rows[i].env);
        if (text != NULL && text[0] == '\0') text = NULL;
        ints[i] = rows[i].fallback;
        texts[i] = rows[i].text;
        if (text == NULL) continue;
        if (!rows[i].is_int)
            texts[i] = strdup(text);
        else if (!parse_int(&rows[i], text, &ints[i]))
            refused[i] = strdup(text);
    }
}

static void warn_refused(void)
{
    for (int i = 0; i < CCL_PARAM_COUNT; i++)
        if (refused[i] != NULL)
            ccl_log(CCL_LOG_WARN, CCL_LOG_ENV,
                    "%s=%s is not a number from %lld to %lld; using %lld", rows[i].env, refused[i],
                    (long long)rows[i].low, (long long)rows[i].high, (long long)rows[i].fallback);
}

static pthread_once_t warn_once = PTHREAD_ONCE_INIT;

int64_t ccl_param_int(enum ccl_param param)
{
    pthread_once(&read_once, read_all);
    pthread_once(&warn_once, warn_refused);
    return ints[param];
}

const char *ccl_param_text(enum ccl_param param)
{
    /* The log reads text parameters, so this path must not log. */
    pthread_once(&read_once, read_all);
    return texts[param];
}
