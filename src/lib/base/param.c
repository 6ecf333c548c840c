/* Reads all parameters at once, each from the first source that has it: the environment, the
 * user's file, the system's. The log takes its own settings from here, so what there is to say is
 * kept as notes until the first caller that may log. */
#define _GNU_SOURCE
#include "base/param.h"

#include "base/conf.h"
#include "base/log.h"
#include "base/param_names.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

struct value {
    int64_t number;
    char number_text[24];
    const char *text;
    const char *origin; /* NULL: nobody has set it */
    int line;
};

static struct value values[CCL_PARAM_COUNT];
static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static const char environment[] = "environment";

/* ---- notes ---- */

enum { NOTE_BYTES = 2048, WHERE_BYTES = 1024 };

struct note {
    struct note *next;
    enum ccl_log_level level;
    char text[NOTE_BYTES];
};

static struct note *notes, **last_note = &notes;

__attribute__((format(printf, 2, 3))) static void note(enum ccl_log_level level, const char *format,
                                                       ...)
{
    struct note *new = malloc(sizeof *new);
    if (new == NULL) return;
    va_list args;
    va_start(args, format);
    vsnprintf(new->text, sizeof new->text, format, args);
    va_end(args);
    new->level = level;
    new->next = NULL;
    *last_note = new;
    last_note = &new->next;
}

static void write_notes(void)
{
    for (struct note *next, *at = notes; at != NULL; at = next) {
        next = at->next;
        ccl_log(at->level, CCL_LOG_ENV, "%s", at->text);
        free(at);
    }
    notes = NULL;
}

static pthread_once_t write_once = PTHREAD_ONCE_INIT;

/* ---- one value ---- */

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

/* An empty value is the default, whatever sources after this one say. */
static void set_value(enum ccl_param param, const char *text, const char *origin, int line)
{
    const struct row *row = &rows[param];
    struct value *value = &values[param];
    char where[24] = "";
    value->origin = origin;
    value->line = line;
    if (text[0] == '\0') return;
    if (line > 0) snprintf(where, sizeof where, ", line %d", line);
    note(CCL_LOG_INFO, "%s=%s, from %s%s", row->env, text, origin, where);
    if (!row->is_int) {
        char *copy = strdup(text);
        if (copy != NULL) value->text = copy;
    } else if (!parse_int(row, text, &value->number)) {
        note(CCL_LOG_WARN, "%s=%s (%s%s) is not a number from %lld to %lld; using %lld", row->env,
             text, origin, where, (long long)row->low, (long long)row->high,
             (long long)row->fallback);
    }
}

/* A variable that is no parameter. */
static void note_other(const char *name, const char *where)
{
    const char *why = ccl_param_no_effect(name), *nearest = ccl_param_nearest(name);
    if (why != NULL) note(CCL_LOG_INFO, "%s: %s has no effect: %s", where, name, why);
    if (nearest != NULL)
        note(CCL_LOG_WARN, "%s: %s is unknown; did you mean %s?", where, name, nearest);
}

/* ---- sources ---- */

static void set_defaults(void)
{
    for (int i = 0; i < CCL_PARAM_COUNT; i++) {
        values[i].number = rows[i].fallback;
        values[i].text = rows[i].text;
    }
}

static void read_environment(void)
{
    for (int i = 0; i < CCL_PARAM_COUNT; i++) {
        const char *text = getenv(rows[i].env);
        if (text != NULL) set_value((enum ccl_param)i, text, environment, 0);
    }
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        char name[WHERE_BYTES];
        if (!ccl_param_is_ours(*at)) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        if (ccl_param_find(name) == CCL_PARAM_COUNT) note_other(name, environment);
    }
}

static void take_line(void *origin, const struct ccl_conf_line *line)
{
    char where[WHERE_BYTES];
    if (line->number == 0) {
        note(CCL_LOG_WARN, "%s cannot be read: %s", line->path, line->fault);
        return;
    }
    snprintf(where, sizeof where, "%s, line %d", line->path, line->number);
    if (line->fault != NULL) {
        note(CCL_LOG_WARN, "%s: '%.80s' %s", where, line->text, line->fault);
        return;
    }
    enum ccl_param param = ccl_param_find(line->key);
    if (param == CCL_PARAM_CONF_FILE)
        note(CCL_LOG_WARN, "%s: '%.80s' has no effect in a file", where, line->text);
    else if (!ccl_param_is_ours(line->key))
        note(CCL_LOG_WARN, "%s: '%.80s' sets no variable of the library", where, line->text);
    else if (param == CCL_PARAM_COUNT)
        note_other(line->key, where);
    else if (values[param].origin == NULL)
        set_value(param, line->value, origin, line->number);
    else if (values[param].origin == origin)
        note(CCL_LOG_WARN, "%s: '%.80s' has no effect after line %d", where, line->text,
             values[param].line);
}

/* Paths become the origins of values, so they are kept. */
static void read_file(const char *path, int is_named)
{
    ccl_conf_read(path, is_named, take_line, (void *)(uintptr_t)path);
}

static void read_files(void)
{
    static char home[4096];
    const char *first = values[CCL_PARAM_CONF_FILE].text;
    int is_named = first != NULL;
    if (!is_named && ccl_conf_home_path(home, sizeof home)) first = home;
    if (first != NULL) read_file(first, is_named);
    if (first == NULL || strcmp(first, ccl_conf_system_path) != 0)
        read_file(ccl_conf_system_path, 0);
}

static void read_all(void)
{
    set_defaults();
    read_environment();
    read_files();
    for (int i = 0; i < CCL_PARAM_COUNT; i++)
        snprintf(values[i].number_text, sizeof values[i].number_text, "%lld",
                 (long long)values[i].number);
}

int64_t ccl_param_int(enum ccl_param param)
{
    pthread_once(&read_once, read_all);
    pthread_once(&write_once, write_notes);
    return values[param].number;
}

const char *ccl_param_text(enum ccl_param param)
{
    /* The log reads text parameters, so this path must not log. */
    pthread_once(&read_once, read_all);
    return values[param].text;
}

/* ---- parameters as they are shown ---- */

const char *ccl_param_name(enum ccl_param param)
{
    return rows[param].env;
}

int ccl_param_is_int(enum ccl_param param)
{
    return rows[param].is_int;
}

const char *ccl_param_shown(enum ccl_param param)
{
    (void)ccl_param_int(param);
    if (rows[param].is_int) return values[param].number_text;
    return values[param].text == NULL ? "" : values[param].text;
}

const char *ccl_param_origin(enum ccl_param param, int *line)
{
    (void)ccl_param_int(param);
    *line = values[param].line;
    return values[param].origin == NULL ? "default" : values[param].origin;
}

enum ccl_param ccl_param_find(const char *name)
{
    int i = 0;
    while (i < CCL_PARAM_COUNT && strcmp(rows[i].env, name) != 0) i++;
    return (enum ccl_param)i;
}
