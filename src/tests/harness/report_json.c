/* The JSON document of -J, whose keys beside ours are those of nccl-tests. Called by report.c in
 * the process of rank 0. It is one object; what closes it carries the state of now, so that a
 * process that is killed leaves a document with the status "running".
 */
#define _GNU_SOURCE
#include "harness/machine.h"
#include "harness/record_file.h"
#include "harness/report_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The layout of nccl-tests whose keys are kept. */
enum { FORMAT_VERSION = 3, MAX_LINES = 64 };

static struct {
    int has_header, nrows;
    struct {
        char *text[MAX_LINES];
        int n, nlost;
    } lines[PERF_NLINES];
} document;

static const struct {
    const char *key, *left_out;
} line_keys[PERF_NLINES] = {
    [PERF_LINES_MISMATCHES] = {"mismatches", "mismatches_left_out"},
    [PERF_LINES_SUMMARY] = {"summary", "summary_left_out"},
};

static void add_verdict(struct perf_json *json, const struct perf_footer *footer)
{
    int okay = footer && footer->out_of_bounds == 0 && !perf_report_is_empty(footer);

    perf_json_open(json, "out_of_bounds", '{');
    perf_json_int(json, "count", footer ? footer->out_of_bounds : 0);
    perf_json_bool(json, "okay", okay);
    perf_json_close(json);
    perf_json_open(json, "average_bus_bandwidth", '{');
    perf_json_real(json, "bandwidth", footer && footer->avg_valid ? footer->avg_busbw : NAN);
    if (footer && footer->min_busbw_wanted > 0 && footer->avg_valid)
        perf_json_bool(json, "okay", footer->avg_busbw >= 0.9 * footer->min_busbw_wanted);
    else
        perf_json_string(json, "okay", "unchecked");
    perf_json_close(json);
}

static void add_end(struct perf_json *json, const struct perf_footer *footer)
{
    char now[64];

    if (footer) {
        perf_json_int(json, "rows", footer->nrows);
        perf_json_int(json, "rows_skipped", footer->nskipped);
        perf_json_int(json, "library_bytes", (int64_t)footer->lib_bytes);
        perf_json_int(json, "buffer_bytes", (int64_t)footer->buffer_bytes);
        perf_writer_memory(json, footer);
        perf_writer_gate(json, footer->gate);
        perf_machine_end(json);
    }
    perf_json_string(json, "status", perf_status_name(footer ? footer->status : PERF_RUNNING));
    perf_json_string(json, "error", footer ? footer->error : NULL);
    perf_record_time(now, sizeof now);
    perf_json_string(json, "end_time", footer ? now : NULL);
}

/* What closes the document; footer NULL while the run goes on. */
static void make_tail(struct perf_json *json, const struct perf_footer *footer)
{
    perf_json_resume(json, document.has_header ? "}]" : "}", 1);
    if (document.has_header) {
        perf_json_raw(json, "\n");
        perf_json_close(json);
    } else {
        perf_json_string(json, "config", NULL);
        perf_json_open(json, "results", '[');
        perf_json_close(json);
    }
    add_verdict(json, footer);
    for (int l = 0; l < PERF_NLINES; l++) {
        perf_json_open(json, line_keys[l].key, '[');
        for (int i = 0; i < document.lines[l].n; i++)
            perf_json_string(json, NULL, document.lines[l].text[i]);
        perf_json_close(json);
        perf_json_int(json, line_keys[l].left_out, document.lines[l].nlost);
    }
    perf_json_open(json, "errors", '[');
    if (footer && footer->error) perf_json_string(json, NULL, footer->error);
    perf_json_close(json);
    add_end(json, footer);
    perf_json_close(json);
}

static int append(struct perf_json *part, const struct perf_footer *footer)
{
    struct perf_json tail = {0};

    make_tail(&tail, footer);
    return perf_record_append(part, &tail);
}

static int open_document(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_json_open(&part, NULL, '{');
    perf_record_members(&part, record, PERF_SCOPE_START);
    perf_json_int(&part, "version", FORMAT_VERSION);
    perf_machine_origin(&part, record->options);
    return append(&part, NULL);
}

static void add_sweep(struct perf_json *json, const struct perf_options *options)
{
    perf_json_int(json, "nthreads", options->threads);
    perf_json_int(json, "ngpus", options->gpus);
    perf_json_int(json, "minimum_bytes", (int64_t)options->min_bytes);
    perf_json_int(json, "maximum_bytes", (int64_t)options->max_bytes);
    if (options->step_factor > 0)
        perf_json_real(json, "step_factor", options->step_factor);
    else
        perf_json_int(json, "step_bytes", (int64_t)options->step_bytes);
    perf_json_int(json, "warmup_iters", options->warmup);
    perf_json_int(json, "iterations", options->iters);
    perf_json_int(json, "aggregated_iterations", options->agg_iters);
    perf_json_int(json, "run_cycles", options->run_cycles);
    perf_json_int(json, "validation", options->check);
    perf_json_int(json, "graph", options->graph_launches);
    perf_json_int(json, "blocking_collectives", options->blocking);
    perf_json_bool(json, "per_iter_timing", options->iter_report);
    perf_json_int(json, "per_iter_skip", options->iter_skip);
    perf_json_bool(json, "parallel_init", options->parallel_init);
    perf_json_int(json, "average", options->average);
    perf_json_int(json, "unalign", options->unaligned);
    perf_json_bool(json, "exact", options->exact);
    perf_json_int(json, "local_register", options->local_register);
    perf_json_bool(json, "stream_null", options->null_stream);
}

static void add_devices(struct perf_json *json, const struct perf_header *header)
{
    perf_json_open(json, "devices", '[');
    for (int i = 0; i < header->nranks; i++) {
        const struct perf_rank_info *info = &header->ranks[i];

        perf_json_open(json, NULL, '{');
        perf_json_int(json, "rank", info->rank);
        perf_json_int(json, "group", info->group);
        perf_json_int(json, "pid", info->pid);
        perf_json_string(json, "hostname", info->host);
        perf_json_int(json, "device", info->device);
        perf_json_string(json, "device_hex", info->pci);
        perf_json_string(json, "device_info", info->device_name);
        perf_json_string(json, "device_uuid", info->uuid[0] ? info->uuid : NULL);
        perf_json_close(json);
    }
    perf_json_close(json);
}

static int begin_results(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_json_resume(&part, "}", 1);
    perf_record_members(&part, record, PERF_SCOPE_RUN);
    perf_machine_add(&part, record->header);
    perf_json_open(&part, "config", '{');
    add_sweep(&part, record->options);
    add_devices(&part, record->header);
    perf_json_close(&part);
    perf_json_open(&part, "results", '[');
    document.has_header = 1;
    return append(&part, NULL);
}

static void add_place(struct perf_json *json, const struct perf_record *record,
                      const struct perf_measure *measure, const char *key)
{
    struct perf_record placed = *record;

    placed.measure = measure;
    if (!measure->run) {
        perf_json_string(json, key, NULL);
        return;
    }
    perf_json_open(json, key, '{');
    perf_record_members(json, &placed, PERF_SCOPE_PLACE);
    perf_json_close(json);
}

static int add_row(const struct perf_record *record)
{
    const struct perf_row *row = record->row;
    struct perf_json part = {0};

    if (!document.has_header) return 0;
    perf_json_raw(&part, document.nrows++ ? ",\n" : "\n");
    perf_json_open(&part, NULL, '{');
    perf_record_members(&part, record, PERF_SCOPE_ROW);
    add_place(&part, record, &row->out_of_place, "out_of_place");
    add_place(&part, record, &row->in_place, "in_place");
    perf_writer_iterations(&part, "out_of_place_per_iter", &row->out_of_place);
    perf_writer_iterations(&part, "in_place_per_iter", &row->in_place);
    perf_json_close(&part);
    return append(&part, NULL);
}

static int add_line(const char *text, enum perf_lines lines)
{
    struct perf_json part = {0};
    char *copy = document.lines[lines].n < MAX_LINES ? strdup(text) : NULL;

    if (copy)
        document.lines[lines].text[document.lines[lines].n++] = copy;
    else
        document.lines[lines].nlost++;
    return append(&part, NULL);
}

static int close_document(const struct perf_record *record, const struct perf_footer *footer)
{
    struct perf_json part = {0};
    int error = append(&part, footer);

    (void)record;
    for (int l = 0; l < PERF_NLINES; l++)
        for (int i = 0; i < document.lines[l].n; i++) free(document.lines[l].text[i]);
    memset(&document, 0, sizeof document);
    return error;
}

const struct perf_writer perf_writer_json = {
    .open = open_document,
    .header = begin_results,
    .row = add_row,
    .line = add_line,
    .footer = close_document,
};
