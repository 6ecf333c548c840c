/* A record: the fields of record_table.h for a run, one of its rows and one of its placements.
 * Called by the writers of -J, which decide on form and order; the words for what is timed are
 * here too, so that the table's header and the records say the same.
 */
#ifndef PERF_RECORD_H
#define PERF_RECORD_H

#include "harness/json.h"
#include "harness/report.h"

/* PERF_SCHEMA_VERSION: of the fields and the layouts of docs/records.md. */
enum { PERF_SCHEMA_VERSION = 2 };
#define PERF_NO_INT INT64_MIN /* null */

enum perf_scope { PERF_SCOPE_START, PERF_SCOPE_RUN, PERF_SCOPE_ROW, PERF_SCOPE_PLACE };

struct perf_record {
    const struct perf_options *options;
    const struct perf_header *header; /* NULL: none yet */
    int header_has_busbw;
    const struct perf_row *row;         /* NULL: none */
    const struct perf_measure *measure; /* NULL: none */
};

/* One field; kind as in record_table.h: 'i', 'r', 't' or 'b'. */
struct perf_field {
    const char *key;
    char kind;
    int64_t number; /* i and b */
    double real;
    const char *text;
};

/* Calls `visit` for each field of a scope, in the table's order. Without what the scope is about
 * (no row, no measure) each field is null. */
void perf_record_each(const struct perf_record *record, enum perf_scope scope,
                      void (*visit)(void *to, const struct perf_field *field), void *to);

int perf_field_is_null(const struct perf_field *field);

/* The fields of a scope as members of the open object. */
void perf_record_members(struct perf_json *json, const struct perf_record *record,
                         enum perf_scope scope);

/* "2024-05-06T07:08:09+0200", now. */
void perf_record_time(char *text, size_t text_bytes);

const char *perf_status_name(enum perf_status status);
/* Where barriers are, for -z. */
const char *perf_barrier_word(int blocking);
/* Whose time a row shows, for -a. */
const char *perf_average_word(int average);

/* Whether the environment's variable says how the run was set up and is no secret by its name; the
 * rest is the user's. */
int perf_record_has_variable(const char *variable);

#endif
