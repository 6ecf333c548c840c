/* The JSON document of -J. Called by report.c in the process of rank 0.
 *
 * Invariant: the file is the parts written so far and then a tail that closes the document with
 * the state of now. The next part overwrites the tail and brings its own, in one write, so that
 * a process that is killed leaves a document with the status "running".
 */
#define _GNU_SOURCE
#include "harness/report_json.h"

#include "harness/json.h"
#include "harness/library.h"
#include "harness/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* FORMAT: the layout of nccl-tests whose keys are kept. SCHEMA: of the keys beside them. */
enum { FORMAT_VERSION = 3, SCHEMA_VERSION = 1, MAX_FILES = 100000, MAX_LINES = 64 };

static struct {
    int fd; /* valid while name is set */
    char name[PATH_MAX];
    off_t tail_at;
    char *tail; /* what stands in the file from tail_at on */
    size_t tail_bytes;
    int has_header, nrows, has_busbw;
    struct {
        char *text[MAX_LINES];
        int n, nlost;
    } lines[PERF_NLINES];
} file = {.fd = -1};

static const struct {
    const char *key, *left_out;
} line_keys[PERF_NLINES] = {
    [PERF_LINES_MISMATCHES] = {"mismatches", "mismatches_left_out"},
    [PERF_LINES_SUMMARY] = {"summary", "summary_left_out"},
};

const char *perf_report_json_name(void)
{
    return file.fd >= 0 ? file.name : NULL;
}

void perf_report_time(char *text, size_t text_bytes)
{
    time_t now = time(NULL);
    struct tm local;

    if (!localtime_r(&now, &local) || !strftime(text, text_bytes, "%Y-%m-%dT%H:%M:%S%z", &local))
        *text = 0;
}

const char *perf_status_name(enum perf_status status)
{
    static const char *const names[] = {"running", "passed",  "failed",
                                        "error",   "timeout", "interrupted"};

    return names[status];
}

/* Writes all of it at an offset. Returns 0 or an errno. */
static int write_all(const char *text, size_t bytes, off_t at)
{
    while (bytes) {
        ssize_t wrote = pwrite(file.fd, text, bytes, at);

        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return wrote ? errno : ENOSPC;
        text += wrote;
        at += wrote;
        bytes -= (size_t)wrote;
    }
    return 0;
}

/* Puts the tail back that a failed write destroyed; what can be done on a full disk. */
static void restore_tail(void)
{
    if (!file.tail) return;
    if (!write_all(file.tail, file.tail_bytes, file.tail_at) &&
        ftruncate(file.fd, file.tail_at + (off_t)file.tail_bytes))
        return;
}

/* Replaces the tail by `part` and a new tail; both are freed or kept here. */
static int replace_tail(struct perf_json *part, struct perf_json *tail)
{
    size_t part_bytes = part->used;
    int error;

    perf_json_raw(tail, "\n");
    /* Blanks over what would be left of a longer old tail. */
    while (!tail->failed && part_bytes + tail->used < file.tail_bytes) perf_json_raw(tail, " ");
    if (tail->text) perf_json_raw(part, tail->text);
    error = part->failed || tail->failed ? ENOMEM : 0;
    if (!error) error = write_all(part->text, part->used, file.tail_at);
    if (error) {
        restore_tail();
        perf_json_free(tail);
    } else {
        file.tail_at += (off_t)part_bytes;
        free(file.tail);
        file.tail = tail->text;
        file.tail_bytes = tail->used;
    }
    perf_json_free(part);
    return error;
}

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

/* What closes the document; footer NULL while the run goes on. */
static void make_tail(struct perf_json *json, const struct perf_footer *footer)
{
    char now[64];

    perf_json_resume(json, file.has_header ? "}]" : "}", 1);
    if (file.has_header) {
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
        for (int i = 0; i < file.lines[l].n; i++)
            perf_json_string(json, NULL, file.lines[l].text[i]);
        perf_json_close(json);
        perf_json_int(json, line_keys[l].left_out, file.lines[l].nlost);
    }
    perf_json_open(json, "errors", '[');
    if (footer && footer->error) perf_json_string(json, NULL, footer->error);
    perf_json_close(json);
    if (footer) {
        perf_json_int(json, "rows", footer->nrows);
        perf_json_int(json, "rows_skipped", footer->nskipped);
        perf_json_int(json, "library_bytes", (int64_t)footer->lib_bytes);
        perf_json_int(json, "buffer_bytes", (int64_t)footer->buffer_bytes);
    }
    perf_json_string(json, "status", perf_status_name(footer ? footer->status : PERF_RUNNING));
    perf_json_string(json, "error", footer ? footer->error : NULL);
    perf_report_time(now, sizeof now);
    perf_json_string(json, "end_time", footer ? now : NULL);
    perf_json_close(json);
}

static int open_free_name(const char *wanted)
{
    for (int i = -1; i < MAX_FILES; i++) {
        int length = i < 0 ? snprintf(file.name, sizeof file.name, "%s", wanted)
                           : snprintf(file.name, sizeof file.name, "%s.%d", wanted, i);

        if (length < 0 || (size_t)length >= sizeof file.name) return ENAMETOOLONG;
        file.fd = open(file.name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file.fd >= 0) return 0;
        if (errno != EEXIST) return errno;
    }
    return EEXIST;
}

/* Only what says how the run was set up; not the rest of a user's environment. */
static void add_environment(struct perf_json *json)
{
    static const char *const prefixes[] = {"NCCL_",  "CHORUS_", "CUDA_", "OMPI_",
                                           "SLURM_", "UCX_",    "FI_"};

    perf_json_open(json, "env", '[');
    for (char **variable = environ; variable && *variable; variable++)
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (!strncmp(*variable, prefixes[i], strlen(prefixes[i])))
                perf_json_string(json, NULL, *variable);
    perf_json_close(json);
}

int perf_report_json_open(const struct perf_options *options)
{
    struct perf_json part = {0}, tail = {0};
    char text[256];
    int error = open_free_name(options->json_file);
    int version = 0;

    if (error) return error;
    perf_json_open(&part, NULL, '{');
    perf_json_int(&part, "schema_version", SCHEMA_VERSION);
    perf_json_int(&part, "version", FORMAT_VERSION);
    perf_report_time(text, sizeof text);
    perf_json_string(&part, "start_time", text);
    perf_json_string(&part, "driver", perf_program());
    perf_json_open(&part, "args", '[');
    for (int i = 0; i < options->argc; i++) perf_json_string(&part, NULL, options->argv[i]);
    perf_json_close(&part);
    add_environment(&part);
    if (ncclGetVersion(&version) != ncclSuccess) version = 0;
    perf_json_int(&part, "nccl_version", version);
    perf_json_int(&part, "header_version", NCCL_VERSION_CODE);
    perf_json_string(&part, "library_path", perf_library_path());
    perf_json_string(&part, "git_hash", perf_library_hash());
    if (gethostname(text, sizeof text)) *text = 0;
    text[sizeof text - 1] = 0;
    perf_json_string(&part, "host", text);
    make_tail(&tail, NULL);
    return replace_tail(&part, &tail);
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

int perf_report_json_header(const struct perf_header *header, const char *timed)
{
    struct perf_json part = {0}, tail = {0};

    if (file.fd < 0) return 0;
    file.has_busbw = perf_report_has_busbw(header->group_size);
    perf_json_resume(&part, "}", 1);
    perf_json_int(&part, "nranks", header->nranks);
    perf_json_int(&part, "group_size", header->group_size);
    perf_json_int(&part, "nprocs", header->nprocs);
    perf_json_int(&part, "ndevices", header->ndevices);
    perf_json_int(&part, "ranks_per_device", header->ranks_per_device);
    perf_json_string(&part, "device_kind", header->device_kind);
    perf_json_string(&part, "no_gpu", header->no_gpu && *header->no_gpu ? header->no_gpu : NULL);
    perf_json_bool(&part, "multi_rank_gpu_set", header->multi_rank_set);
    perf_json_bool(&part, "replays_wait", header->replays_wait);
    perf_json_string(&part, "init_mode", header->init_mode);
    perf_json_string(&part, "init_call", header->init_call);
    perf_json_string(&part, "timing", timed);
    perf_json_real(&part, "bus_factor",
                   file.has_busbw ? header->coll->bus_factor(header->group_size) : NAN);
    perf_json_string(&part, "bus_formula", header->coll->bus_formula);
    perf_json_int(&part, "maximum_bytes_that_fit", (int64_t)header->fit_bytes);
    perf_json_open(&part, "config", '{');
    add_sweep(&part, header->options);
    add_devices(&part, header);
    perf_json_close(&part);
    perf_json_open(&part, "results", '[');
    file.has_header = 1;
    make_tail(&tail, NULL);
    return replace_tail(&part, &tail);
}

static void add_measure(struct perf_json *json, const char *key, const struct perf_measure *measure,
                        int has_iterations)
{
    if (!measure->run) {
        perf_json_string(json, key, NULL);
        return;
    }
    perf_json_open(json, key, '{');
    perf_json_real(json, "time", measure->time_us);
    perf_json_real(json, "alg_bw", measure->algbw);
    perf_json_real(json, "bus_bw", file.has_busbw ? measure->busbw : NAN);
    if (measure->wrong < 0)
        perf_json_string(json, "nwrong", NULL);
    else
        perf_json_int(json, "nwrong", measure->wrong);
    perf_json_real(json, "cpu_time", measure->cputime_us);
    if (has_iterations) {
        perf_json_real(json, "min_us", measure->iter_min_us);
        perf_json_real(json, "max_us", measure->iter_max_us);
        perf_json_real(json, "p99_us", measure->iter_p99_us);
        perf_json_real(json, "cv_pct", measure->iter_cv_percent);
    }
    perf_json_close(json);
}

int perf_report_json_row(const struct perf_row *row)
{
    struct perf_json part = {0}, tail = {0};
    int has_iterations = row->out_of_place.iter_max_us > 0 || row->in_place.iter_max_us > 0;
    char now[64];

    if (file.fd < 0 || !file.has_header) return 0;
    perf_json_raw(&part, file.nrows++ ? ",\n" : "\n");
    perf_json_open(&part, NULL, '{');
    perf_json_int(&part, "size", (int64_t)row->size_bytes);
    perf_json_int(&part, "count", (int64_t)row->count);
    perf_json_string(&part, "type", perf_type_name(row->type));
    perf_json_string(&part, "redop", perf_op_name(row->op));
    perf_json_int(&part, "root", row->root);
    perf_json_int(&part, "requested_size", (int64_t)row->requested_bytes);
    perf_json_bool(&part, "skipped", row->skipped);
    add_measure(&part, "out_of_place", &row->out_of_place, has_iterations);
    add_measure(&part, "in_place", &row->in_place, has_iterations);
    if (row->ran[0]) perf_json_string(&part, "schedule", row->ran);
    perf_report_time(now, sizeof now);
    perf_json_string(&part, "timestamp", now);
    perf_json_close(&part);
    make_tail(&tail, NULL);
    return replace_tail(&part, &tail);
}

int perf_report_json_line(const char *text, enum perf_lines lines)
{
    struct perf_json part = {0}, tail = {0};
    char *copy;

    if (file.fd < 0) return 0;
    copy = file.lines[lines].n < MAX_LINES ? strdup(text) : NULL;
    if (copy)
        file.lines[lines].text[file.lines[lines].n++] = copy;
    else
        file.lines[lines].nlost++;
    make_tail(&tail, NULL);
    return replace_tail(&part, &tail);
}

int perf_report_json_footer(const struct perf_footer *footer)
{
    struct perf_json part = {0}, tail = {0};
    int error;

    if (file.fd < 0) return 0;
    make_tail(&tail, footer);
    error = replace_tail(&part, &tail);
    if (close(file.fd) && !error) error = errno;
    file.fd = -1;
    free(file.tail);
    for (int l = 0; l < PERF_NLINES; l++)
        for (int i = 0; i < file.lines[l].n; i++) free(file.lines[l].text[i]);
    memset(&file, 0, sizeof file);
    file.fd = -1;
    return error;
}
