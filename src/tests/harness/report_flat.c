/* The flat forms of -J: one line a placement of a row with every field, as JSON lines or as CSV
 * (RFC 4180), and a last line of kind "end" that says how the run went. Called by report.c in the
 * process of rank 0.
 */
#include "harness/machine.h"
#include "harness/record_file.h"
#include "harness/report_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void perf_writer_places(const struct perf_record *record,
                        void (*visit)(void *to, const struct perf_record *placed,
                                      const char *place),
                        void *to)
{
    const struct perf_measure *measures[] = {&record->row->out_of_place, &record->row->in_place};
    static const char *const places[] = {"out_of_place", "in_place"};
    struct perf_record placed = *record;
    int nplaces = 0;

    for (int i = 0; i < 2; i++) {
        if (!measures[i]->run) continue;
        placed.measure = measures[i];
        visit(to, &placed, places[i]);
        nplaces++;
    }
    placed.measure = NULL;
    if (!nplaces) visit(to, &placed, NULL);
}

const char *perf_writer_status(const struct perf_record *placed)
{
    if (placed->measure == NULL) return "skipped";
    if (placed->measure->wrong < 0) return "unchecked";
    return placed->measure->wrong > 0 ? "wrong" : "ok";
}

static void add_times(struct perf_json *json, const double *times, int n)
{
    for (int i = 0; i < n; i++) perf_json_real(json, NULL, times[i]);
    perf_json_close(json);
}

void perf_writer_iterations(struct perf_json *json, const char *key,
                            const struct perf_measure *measure)
{
    const struct perf_stats *stats = &measure->iters;

    if (!measure->run || measure->times.n == 0) return;
    perf_json_open(json, key, '{');
    perf_json_int(json, "skipped_iterations", measure->times.skipped);
    perf_json_real(json, "min_us", stats->min);
    perf_json_real(json, "max_us", stats->max);
    perf_json_real(json, "avg_us", stats->mean);
    perf_json_real(json, "p50_us", stats->median);
    perf_json_real(json, "p95_us", stats->p95);
    perf_json_real(json, "p99_us", stats->p99);
    perf_json_real(json, "stdev_us", stats->stdev);
    perf_json_real(json, "cv_pct", stats->cv_percent);
    perf_json_open(json, "times_us", '[');
    add_times(json, measure->times.slowest_us, measure->times.n);
    if (measure->times.nprocs > 1) {
        perf_json_open(json, "per_process_max_times_us", '[');
        for (int p = 0; p < measure->times.nprocs; p++) {
            perf_json_open(json, NULL, '[');
            add_times(json, measure->times.by_proc_us + (size_t)p * (size_t)measure->times.n,
                      measure->times.n);
        }
        perf_json_close(json);
    }
    perf_json_close(json);
}

static void add_bytes(struct perf_json *json, const char *key, int64_t bytes)
{
    if (bytes < 0)
        perf_json_string(json, key, NULL);
    else
        perf_json_int(json, key, bytes);
}

void perf_writer_memory(struct perf_json *json, const struct perf_footer *footer)
{
    if (footer->memory == NULL) {
        perf_json_string(json, "memory", NULL);
        return;
    }
    perf_json_open(json, "memory", '[');
    for (int i = 0; i < footer->nranks; i++) {
        perf_json_open(json, NULL, '{');
        perf_json_int(json, "rank", i);
        add_bytes(json, "communicator_bytes", footer->memory[i].total_bytes);
        add_bytes(json, "suspendable_bytes", footer->memory[i].suspendable_bytes);
        add_bytes(json, "buffer_bytes", footer->memory[i].buffer_bytes);
        perf_json_close(json);
    }
    perf_json_close(json);
    add_bytes(json, "leak_bytes", footer->leak_bytes);
}

/* The members of a last line that say how the run went; footer NULL: it goes on. */
static void add_end(struct perf_json *json, const struct perf_footer *footer)
{
    perf_json_string(json, "status", perf_status_name(footer ? footer->status : PERF_RUNNING));
    perf_json_string(json, "error", footer ? footer->error : NULL);
    if (footer == NULL) return;
    perf_json_int(json, "rows", footer->nrows);
    perf_json_int(json, "rows_skipped", footer->nskipped);
    perf_json_int(json, "nwrong", footer->out_of_bounds);
    perf_json_real(json, "average_bus_bw", footer->avg_valid ? footer->avg_busbw : NAN);
    perf_json_int(json, "library_bytes", (int64_t)footer->lib_bytes);
    perf_json_int(json, "buffer_bytes", (int64_t)footer->buffer_bytes);
    perf_writer_memory(json, footer);
    perf_writer_gate(json, footer->gate);
    perf_machine_end(json);
}

/* ---- JSON lines ---- */

static void begin_line(struct perf_json *json, const char *kind)
{
    perf_json_open(json, NULL, '{');
    perf_json_string(json, "kind", kind);
}

static void end_line(struct perf_json *json)
{
    perf_json_close(json);
    perf_json_raw(json, "\n");
}

static int append_lines(struct perf_json *part, const struct perf_footer *footer)
{
    struct perf_json tail = {0};

    begin_line(&tail, "end");
    perf_json_int(&tail, "schema_version", PERF_SCHEMA_VERSION);
    add_end(&tail, footer);
    perf_json_close(&tail);
    return perf_record_append(part, &tail);
}

static int open_lines(const struct perf_record *record)
{
    struct perf_json part = {0};

    (void)record;
    return append_lines(&part, NULL);
}

static int add_machine_line(const struct perf_record *record)
{
    struct perf_json part = {0};

    begin_line(&part, "machine");
    perf_record_members(&part, record, PERF_SCOPE_START);
    perf_record_members(&part, record, PERF_SCOPE_RUN);
    perf_machine_origin(&part, record->options);
    perf_machine_add(&part, record->header);
    end_line(&part);
    return append_lines(&part, NULL);
}

static void add_row_line(void *to, const struct perf_record *placed, const char *place)
{
    struct perf_json *json = to;

    begin_line(json, "row");
    perf_json_string(json, "status", perf_writer_status(placed));
    perf_json_string(json, "place", place);
    for (int scope = PERF_SCOPE_START; scope <= PERF_SCOPE_PLACE; scope++)
        perf_record_members(json, placed, (enum perf_scope)scope);
    if (placed->measure) perf_writer_iterations(json, "per_iter", placed->measure);
    end_line(json);
}

static int add_row_lines(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_writer_places(record, add_row_line, &part);
    return append_lines(&part, NULL);
}

static int add_note_line(const char *text, enum perf_lines lines)
{
    struct perf_json part = {0};

    begin_line(&part, lines == PERF_LINES_MISMATCHES ? "mismatch" : "summary");
    perf_json_string(&part, "text", text);
    end_line(&part);
    return append_lines(&part, NULL);
}

static int close_lines(const struct perf_record *record, const struct perf_footer *footer)
{
    struct perf_json part = {0};

    (void)record;
    return append_lines(&part, footer);
}

const struct perf_writer perf_writer_jsonl = {
    .open = open_lines,
    .header = add_machine_line,
    .row = add_row_lines,
    .line = add_note_line,
    .footer = close_lines,
};

/* ---- CSV; the buffer of JSON texts serves for the bytes ---- */

/* Quotes where there must be some. */
static void add_cell(struct perf_json *csv, const char *text)
{
    perf_json_raw(csv, csv->used && csv->text[csv->used - 1] != '\n' ? "," : "");
    if (!text[strcspn(text, ",\"\r\n")]) {
        perf_json_raw(csv, text);
        return;
    }
    perf_json_raw(csv, "\"");
    for (; *text; text++) {
        const char one[] = {*text, *text == '"' ? '"' : '\0', '\0'};

        perf_json_raw(csv, one);
    }
    perf_json_raw(csv, "\"");
}

static void add_name(void *to, const struct perf_field *field)
{
    add_cell(to, field->key);
}

static void add_value(void *to, const struct perf_field *field)
{
    char number[64] = "";

    if (!perf_field_is_null(field) && field->kind == 't') {
        add_cell(to, field->text);
        return;
    }
    if (perf_field_is_null(field))
        *number = 0;
    else if (field->kind == 'r')
        snprintf(number, sizeof number, "%.9g", field->real);
    else if (field->kind == 'b')
        snprintf(number, sizeof number, "%s", field->number ? "true" : "false");
    else
        snprintf(number, sizeof number, "%" PRId64, field->number);
    add_cell(to, number);
}

static void add_cells(struct perf_json *csv, const struct perf_record *record,
                      void (*visit)(void *to, const struct perf_field *field))
{
    for (int scope = PERF_SCOPE_START; scope <= PERF_SCOPE_PLACE; scope++)
        perf_record_each(record, (enum perf_scope)scope, visit, csv);
}

static int append_csv(struct perf_json *part, const struct perf_record *record,
                      const struct perf_footer *footer)
{
    struct perf_record run = {.options = record->options, .header = record->header};
    struct perf_json tail = {0};

    perf_json_raw(&tail, "end");
    add_cell(&tail, perf_status_name(footer ? footer->status : PERF_RUNNING));
    add_cell(&tail, footer && footer->error ? footer->error : "");
    add_cell(&tail, "");
    add_cells(&tail, &run, add_value);
    perf_json_raw(&tail, "\r");
    return perf_record_append(part, &tail);
}

static int open_csv(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_json_raw(&part, "kind,status,error,place");
    add_cells(&part, record, add_name);
    perf_json_raw(&part, "\r\n");
    return append_csv(&part, record, NULL);
}

static int head_csv(const struct perf_record *record)
{
    struct perf_json part = {0};

    return append_csv(&part, record, NULL);
}

static void add_csv_row(void *to, const struct perf_record *placed, const char *place)
{
    struct perf_json *csv = to;

    perf_json_raw(csv, "row");
    add_cell(csv, perf_writer_status(placed));
    add_cell(csv, "");
    add_cell(csv, place ? place : "");
    add_cells(csv, placed, add_value);
    perf_json_raw(csv, "\r\n");
}

static int add_csv_rows(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_writer_places(record, add_csv_row, &part);
    return append_csv(&part, record, NULL);
}

/* The count of wrong elements is in the row; its words have no place in a table. */
static int skip_line(const char *text, enum perf_lines lines)
{
    (void)text;
    (void)lines;
    return 0;
}

static int close_csv(const struct perf_record *record, const struct perf_footer *footer)
{
    struct perf_json part = {0};

    return append_csv(&part, record, footer);
}

const struct perf_writer perf_writer_csv = {
    .open = open_csv,
    .header = head_csv,
    .row = add_csv_rows,
    .line = skip_line,
    .footer = close_csv,
};
