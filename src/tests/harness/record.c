/* Fields of records, see record.h. Called in the process of rank 0, by one thread at a time; texts
 * that are made here live until the next call.
 */
#define _GNU_SOURCE
#include "harness/record.h"

#include "harness/library.h"
#include "harness/report_text.h"
#include "harness/usage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIME_BYTES = 64, COMMAND_BYTES = 4096, NAME_BYTES = 256 };

void perf_record_time(char *text, size_t text_bytes)
{
    time_t when = time(NULL);
    struct tm local;

    if (!localtime_r(&when, &local) || !strftime(text, text_bytes, "%Y-%m-%dT%H:%M:%S%z", &local))
        *text = 0;
}

const char *perf_status_name(enum perf_status status)
{
    static const char *const names[] = {"running", "passed",  "failed",
                                        "error",   "timeout", "interrupted"};

    return names[status];
}

const char *perf_barrier_word(int blocking)
{
    static const char *const words[] = {"before the row, not timed", "after each call, timed",
                                        "before the row, not timed",
                                        "after each iteration, not timed"};

    return words[blocking];
}

const char *perf_average_word(int average)
{
    static const char *const words[] = {"rank 0", "average of the ranks", "minimum of the ranks",
                                        "maximum of the ranks"};

    return words[average];
}

/* Launchers hand credentials on in variables of their own. */
static int is_secret(const char *variable)
{
    static const char *const words[] = {"JWT", "TOKEN", "KEY", "SECRET", "PASS"};
    char name[NAME_BYTES];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(variable, "="), variable);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(name, words[i])) return 1;
    return strlen(name) == sizeof name - 1; /* cut: nobody knows what follows */
}

int perf_record_has_variable(const char *variable)
{
    static const char *const prefixes[] = {"NCCL_",  "CHORUS_", "CUDA_", "OMPI_",
                                           "SLURM_", "UCX_",    "FI_"};

    if (is_secret(variable)) return 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i]))) return 1;
    return 0;
}

/* ---- values of the table ---- */

static const char *now(void)
{
    static char text[TIME_BYTES];

    perf_record_time(text, sizeof text);
    return text;
}

/* Of the first record; every later one of the run says the same. */
static const char *start_time(void)
{
    static char text[TIME_BYTES];

    if (!*text) perf_record_time(text, sizeof text);
    return text;
}

static const char *command_of(const struct perf_options *options)
{
    static char text[COMMAND_BYTES];

    perf_report_command(options->argc, options->argv, text, sizeof text);
    return text;
}

static int64_t library_version(void)
{
    int version = 0;

    return ncclGetVersion(&version) == ncclSuccess ? version : PERF_NO_INT;
}

static const char *host_name(void)
{
    static char text[256];

    if (gethostname(text, sizeof text - 1)) *text = 0;
    return text;
}

static double or_nan(double number)
{
    return number > 0 ? number : NAN;
}

static double sampled(const struct perf_record *record, double number)
{
    return record->measure->iters.n > 0 ? number : NAN;
}

static double bus_factor_of(const struct perf_header *header)
{
    return perf_report_has_busbw(header->group_size) ? header->coll->bus_factor(header->group_size)
                                                     : NAN;
}

/* ---- the table ---- */

static void give_int(struct perf_field *field, int64_t number)
{
    field->number = number;
}

static void give_bool(struct perf_field *field, int truth)
{
    field->number = truth;
}

static void give_real(struct perf_field *field, double number)
{
    field->real = number;
}

static void give_text(struct perf_field *field, const char *text)
{
    field->text = text;
}

/* The letter of a kind, and what stores its value. */
#define LETTER_INT  'i'
#define LETTER_BOOL 'b'
#define LETTER_REAL 'r'
#define LETTER_TEXT 't'
#define STORE_INT   give_int
#define STORE_BOOL  give_bool
#define STORE_REAL  give_real
#define STORE_TEXT  give_text

/* A field without anything to be about. */
static struct perf_field no_value(const char *key, char kind)
{
    return (struct perf_field){
        .key = key, .kind = kind, .number = PERF_NO_INT, .real = NAN, .text = NULL};
}

void perf_record_each(const struct perf_record *r, enum perf_scope scope,
                      void (*visit)(void *to, const struct perf_field *field), void *to)
{
    const int is_there[] = {r->options != NULL, r->header != NULL, r->row != NULL,
                            r->measure != NULL};
    struct perf_field field;

#define PERF_FIELD(where, name, what, value)                                                       \
    if (scope == PERF_SCOPE_##where) {                                                             \
        field = no_value(name, LETTER_##what);                                                     \
        if (is_there[scope]) STORE_##what(&field, value);                                          \
        visit(to, &field);                                                                         \
    }
#include "harness/record_table.h"
#undef PERF_FIELD
}

int perf_field_is_null(const struct perf_field *field)
{
    switch (field->kind) {
    case 'r': return !isfinite(field->real);
    case 't': return field->text == NULL || *field->text == '\0';
    default: return field->number == PERF_NO_INT;
    }
}

static void add_member(void *to, const struct perf_field *field)
{
    struct perf_json *json = to;

    if (perf_field_is_null(field))
        perf_json_string(json, field->key, NULL);
    else if (field->kind == 't')
        perf_json_string(json, field->key, field->text);
    else if (field->kind == 'r')
        perf_json_real(json, field->key, field->real);
    else if (field->kind == 'b')
        perf_json_bool(json, field->key, (int)field->number);
    else
        perf_json_int(json, field->key, field->number);
}

void perf_record_members(struct perf_json *json, const struct perf_record *record,
                         enum perf_scope scope)
{
    perf_record_each(record, scope, add_member, json);
}
