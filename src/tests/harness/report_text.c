/* The table on stdout: columns 1 to 13 are those of nccl-tests, ours follow, so that a script that
 * cuts columns by number keeps working. Called by report.c in the process of rank 0; every line
 * that is no row starts with #.
 */
#define _GNU_SOURCE
#include "harness/report_text.h"

#include "harness/library.h"
#include "harness/record.h"
#include "harness/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER_BYTES = 32, COMMAND_BYTES = 4096 };

/* What the rows need to know of the header. */
static struct {
    const struct perf_options *options; /* NULL before the header */
    int has_busbw, has_color, has_groups;
} table;

/* At most 7 characters as long as the number has at most 7 digits. */
static void format_real(double number, char *text)
{
    int digits = number >= 10000 ? 0 : number >= 100 ? 1 : number >= 1 || number == 0 ? 2 : 4;

    snprintf(text, NUMBER_BYTES, "%.*f", digits, number);
}

static const char *color(const char *code)
{
    return table.has_color ? code : "";
}

/* ---- header ---- */

void perf_report_command(int argc, char *const *argv, char *text, size_t text_bytes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./=:,+-@%";
    size_t used = 0;

    *text = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        const char *quote = *word && !word[strspn(word, plain)] ? "" : "'";

        /* A quote or a control character within a word is shown as ?, to keep it one line. */
        if (used + strlen(word) + 8 > text_bytes) {
            snprintf(text + used, text_bytes - used, " ...");
            return;
        }
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i ? " " : "", quote);
        for (; *word; word++)
            text[used++] = (unsigned char)*word < ' ' || *word == '\'' ? '?' : *word;
        used += (size_t)snprintf(text + used, text_bytes - used, "%s", quote);
    }
}

static void print_origin(const struct perf_header *header)
{
    const struct perf_options *options = header->options;
    char command[COMMAND_BYTES];
    int version = header->nccl_version;

    printf("# Collective test starting: %s\n", perf_program());
    printf("# Library %d.%d.%d (header %d.%d.%d), git %s, %s\n", version / 10000,
           version / 100 % 100, version % 100, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH,
           perf_library_hash(), perf_library_path());
    perf_report_command(options->argc, options->argv, command, sizeof command);
    printf("# Command: %s\n", command);
}

static void print_settings(const struct perf_options *options)
{
    printf("# nThread %d nGpus %d minBytes %" PRIu64 " maxBytes %" PRIu64 " step: ",
           options->threads, options->gpus, options->min_bytes, options->max_bytes);
    if (options->step_factor > 0)
        printf("%g(factor)", options->step_factor);
    else
        printf("%" PRIu64 "(bytes)", options->step_bytes);
    printf(" warmup iters: %d iters: %d agg iters: %d validation: %d graph: %d unalign: %d\n",
           options->warmup, options->iters, options->agg_iters, options->check,
           options->graph_launches, options->unaligned);
}

/* The same words as in the records. */
static void print_timing(const struct perf_header *header)
{
    const struct perf_options *options = header->options;

    printf("# Timed: %s; %s (-a %d)\n", header->timed, perf_average_word(options->average),
           options->average);
    printf("# Barrier: %s; warm-up: %d iteration%s of what is timed, at each size (-w)\n",
           perf_barrier_word(options->blocking), options->warmup, options->warmup == 1 ? "" : "s");
    if (options->until_stable > 0)
        printf("# Until stable: series of %d iterations until the 95 %% confidence interval of "
               "their mean is within %g %%, %d to %d of them\n",
               options->iters, options->until_stable, PERF_BATCHES_LEAST, PERF_BATCHES_MOST);
    if (options->rotate)
        printf("# Rotated: each call takes the next of several buffers that together exceed the "
               "cache (--rotate)\n");
}

/* Members, and what the last columns are. */
static void print_groups(const struct perf_header *header)
{
    printf(
        "# Groups: the rows are those of the group of rank 0, %d of %d ranks; sumbw is the busbw "
        "of all %d groups\n",
        header->group_size, header->nranks, header->ngroups);
    for (int first = 0; first < header->nranks; first++) {
        int group = header->ranks[first].group, known = 0;

        for (int i = 0; i < first; i++) known |= header->ranks[i].group == group;
        if (known) continue;
        printf("#  Group %2d has ranks", group);
        for (int i = first; i < header->nranks; i++)
            if (header->ranks[i].group == group) printf(" %d", header->ranks[i].rank);
        printf("\n");
    }
}

static void print_method(const struct perf_header *header)
{
    static const char *const blocking[] = {NULL, "wait and barrier after each call",
                                           "wait after each call, no barrier",
                                           "wait and barrier after each iteration"};
    const struct perf_options *options = header->options;

    print_timing(header);
    if (options->blocking) printf("# Blocking: %s (-z)\n", blocking[options->blocking]);
    if (options->iter_report)
        printf("# Iterations one by one (-I): %d, without the first %d (-K)\n", options->iters,
               options->iter_skip);
    printf("# Init: %s (%s), %d process%s, %d rank%s on %d %s device%s, at most %d a device\n",
           header->init_call, header->init_mode, header->nprocs, header->nprocs == 1 ? "" : "es",
           header->nranks, header->nranks == 1 ? "" : "s", header->ndevices, header->device_kind,
           header->ndevices == 1 ? "" : "s", header->ranks_per_device);
    if (header->no_gpu && *header->no_gpu) printf("# No GPU: %s\n", header->no_gpu);
    if (header->multi_rank_set)
        printf("# Ranks share GPUs: NCCL_MULTI_RANK_GPU_ENABLE=1 was set for this run\n");
    if (header->replays_wait)
        printf("# Graphs: several threads or processes share a GPU: a graph holds one iteration, "
               "and each replay is waited for\n");
    if (header->group_size < header->nranks) print_groups(header);
    if (table.has_busbw)
        printf("# busbw = algbw * %g: %s with n = %d, per rank and direction\n",
               header->coll->bus_factor(header->group_size), header->coll->bus_formula,
               header->group_size);
    else
        printf("# busbw n/a: with one rank nothing crosses a link\n");
    if (header->some_do_not_fit)
        printf("# Memory: sizes above %" PRIu64 " B do not fit and are skipped\n",
               header->fit_bytes);
    if (!(header->coll->flags & PERF_IN_PLACE))
        printf("# In place: %s has no in-place form, its columns show -\n", header->coll->name);
}

static void print_devices(const struct perf_header *header)
{
    printf("#\n# Using devices\n");
    for (int i = 0; i < header->nranks; i++) {
        const struct perf_rank_info *info = &header->ranks[i];

        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s%s%s\n", info->rank,
               info->group, info->pid, info->host, info->device, info->pci, info->device_name,
               info->uuid[0] ? " " : "", info->uuid);
    }
    printf("#\n");
}

/* One of the two header lines, or the line above them that names the placements. */
static void print_columns(const char *const lead[5], const char *const measure[4],
                          const char *const more[8])
{
    const struct perf_options *options = table.options;

    printf("# %10s  %12s  %8s  %6s  %6s", lead[0], lead[1], lead[2], lead[3], lead[4]);
    for (int place = 0; place < 2; place++)
        printf("  %7s  %6s  %6s  %6s", measure[0], measure[1], measure[2], measure[3]);
    for (int place = 0; place < 2 && options->iter_report; place++)
        printf("  %7s  %7s  %7s  %7s", more[0], more[1], more[2], more[3]);
    for (int place = 0; place < 2 && options->report_cputime; place++) printf("  %8s", more[4]);
    for (int place = 0; place < 2 && table.has_groups; place++) printf("  %7s", more[7]);
    if (options->timestamps) printf("  %19s", more[5]);
    if (options->schedule_file) printf("  %s", more[6]);
    printf("\n");
}

static void print_places(void)
{
    printf("# %52s  %31s  %31s", "", "out-of-place", "in-place");
    if (table.options->iter_report) printf("  %34s  %34s", "out-of-place", "in-place");
    if (table.options->report_cputime) printf("  %8s  %8s", "out", "in");
    printf("\n");
}

void perf_report_text_header(const struct perf_header *header)
{
    static const char *const lead[] = {"size", "count", "type", "redop", "root"};
    static const char *const lead_units[] = {"(B)", "(elements)", "", "", ""};
    static const char *const measure[] = {"time", "algbw", "busbw", "#wrong"};
    static const char *const measure_units[] = {"(us)", "(GB/s)", "(GB/s)", ""};
    static const char *const more[] = {"i_min",   "i_max",     "i_p99",    "i_cv%",
                                       "cputime", "timestamp", "schedule", "sumbw"};
    static const char *const more_units[] = {"(us)", "(us)", "(us)", "(%)",
                                             "(us)", "",     "",     "(GB/s)"};
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    table.options = header->options;
    table.has_busbw = perf_report_has_busbw(header->group_size);
    table.has_groups = header->ngroups > 1;
    table.has_color = isatty(STDOUT_FILENO) && !(no_color && *no_color) &&
                      !(terminal && !strcmp(terminal, "dumb"));
    print_origin(header);
    print_settings(header->options);
    print_method(header);
    print_devices(header);
    print_places();
    print_columns(lead, measure, more);
    print_columns(lead_units, measure_units, more_units);
}

/* ---- rows ---- */

static void print_measure(const struct perf_measure *measure)
{
    char time_text[NUMBER_BYTES], algbw[NUMBER_BYTES], busbw[NUMBER_BYTES] = "n/a";
    char wrong[NUMBER_BYTES] = "N/A";

    if (!measure->run) {
        printf("  %7s  %6s  %6s  %6s", "-", "-", "-", "-");
        return;
    }
    format_real(measure->time_us, time_text);
    format_real(measure->algbw, algbw);
    if (table.has_busbw) format_real(measure->busbw, busbw);
    if (measure->wrong >= 0) snprintf(wrong, sizeof wrong, "%" PRId64, measure->wrong);
    printf("  %7s  %6s  %6s  %s%6s%s", time_text, algbw, busbw,
           measure->wrong > 0 ? color("\033[31m") : "", wrong,
           measure->wrong > 0 ? color("\033[0m") : "");
}

static void print_iterations(const struct perf_measure *measure)
{
    const double values[] = {measure->iters.min, measure->iters.max, measure->iters.p99,
                             measure->iters.cv_percent};
    char text[NUMBER_BYTES] = "-";

    for (int i = 0; i < 4; i++) {
        if (measure->run) format_real(values[i], text);
        printf("  %7s", text);
    }
}

static void print_cputime(const struct perf_measure *measure)
{
    char text[NUMBER_BYTES] = "-";

    if (measure->run) format_real(measure->cputime_us, text);
    printf("  %8s", text);
}

static void print_sum(const struct perf_measure *measure)
{
    char text[NUMBER_BYTES] = "-";

    if (measure->run) format_real(measure->sum_busbw, text);
    printf("  %7s", text);
}

static void print_timestamp(void)
{
    time_t now = time(NULL);
    struct tm local;
    char text[NUMBER_BYTES];

    if (!localtime_r(&now, &local)) return;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    printf("  %19s", text);
}

/* Of the placement that came last. */
static void print_schedule(const struct perf_row *row)
{
    const struct perf_measure *measure = row->in_place.run ? &row->in_place : &row->out_of_place;
    const struct perf_ran *ran = &measure->ran;

    if (ran->algorithm[0])
        printf("  %s/%s/%d/%s", ran->algorithm, ran->protocol, ran->channels, ran->transport);
    else
        printf("  -");
}

void perf_report_text_row(const struct perf_row *row)
{
    const struct perf_options *options = table.options;

    if (!options) return;
    printf("%12zu  %12zu  %8s  %6s  %6d", row->size_bytes, row->count, perf_type_name(row->type),
           perf_op_name(row->op), row->root);
    print_measure(&row->out_of_place);
    print_measure(&row->in_place);
    if (options->iter_report) {
        print_iterations(&row->out_of_place);
        print_iterations(&row->in_place);
    }
    if (options->report_cputime) {
        print_cputime(&row->out_of_place);
        print_cputime(&row->in_place);
    }
    if (table.has_groups) {
        print_sum(&row->out_of_place);
        print_sum(&row->in_place);
    }
    if (options->timestamps) print_timestamp();
    if (options->schedule_file) print_schedule(row);
    if (options->pairs) printf("  %4d -> %-4d", row->from, row->to);
    if (row->skipped) printf("  skipped: does not fit in memory");
    if (row->out_of_place.wrong > 0 || row->in_place.wrong > 0)
        printf("  %sFAIL%s", color("\033[1;31m"), color("\033[0m"));
    if (row->requested_bytes != row->size_bytes) printf("  # asked %zu B", row->requested_bytes);
    printf("\n");
}

void perf_report_text_note(const char *text)
{
    printf("#   %s\n", text);
}

/* ---- footer ---- */

static void print_bytes(const char *what, size_t bytes)
{
    printf("%s %.1f MiB", what, (double)bytes / (1024.0 * 1024.0));
}

static void print_average(const struct perf_footer *footer)
{
    const char *verdict = "";

    if (!footer->avg_valid) {
        printf("# Avg bus bandwidth    : n/a\n");
        return;
    }
    if (footer->min_busbw_wanted > 0)
        verdict = footer->avg_busbw < 0.9 * footer->min_busbw_wanted ? " FAILED" : " OK";
    printf("# Avg bus bandwidth    : %g%s\n", footer->avg_busbw, verdict);
}

static void print_memory(const struct perf_footer *footer)
{
    for (int i = 0; footer->memory != NULL && i < footer->nranks; i++) {
        const struct perf_rank_memory *memory = &footer->memory[i];

        printf("# Memory of rank %-6d:", i);
        if (memory->total_bytes >= 0) {
            print_bytes(" communicator", (size_t)memory->total_bytes);
            print_bytes(", of which suspend frees", (size_t)memory->suspendable_bytes);
            printf(",");
        }
        print_bytes(" buffers", (size_t)memory->buffer_bytes);
        printf("\n");
    }
    if (footer->memory != NULL && footer->leak_bytes >= 0) {
        print_bytes("# Memory not given back :", (size_t)footer->leak_bytes);
        printf(" after the communicators are destroyed\n");
    }
}

void perf_report_text_footer(const struct perf_footer *footer)
{
    static const char *const verdicts[] = {"running", "passed",  "FAILED",
                                           "error",   "timeout", "interrupted"};

    if (footer->error) printf("# error: %s\n", footer->error);
    if (!table.options) return;
    if (perf_report_is_empty(footer))
        printf("# Out of bounds values : N/A, nothing was verified\n");
    else
        printf("# Out of bounds values : %" PRId64 " %s\n", footer->out_of_bounds,
               footer->out_of_bounds ? "FAILED" : "OK");
    print_average(footer);
    if (footer->nskipped)
        printf("# Skipped rows         : %d of %d do not fit in memory\n", footer->nskipped,
               footer->nrows);
    if (table.options->memory_report) {
        print_memory(footer);
        print_bytes("# Memory usage         : library", footer->lib_bytes);
        print_bytes(", buffers", footer->buffer_bytes);
        printf("\n");
    }
    if (footer->gate) perf_report_text_gate(footer->gate);
    printf("# Verdict              : %s%s\n", verdicts[footer->status],
           perf_report_is_empty(footer) ? ", nothing was run" : "");
    printf("#\n# Collective test concluded: %s\n", perf_program());
    memset(&table, 0, sizeof table);
}
