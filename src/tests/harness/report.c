/* Reports: hands each record to the table and the writer of -J, with numbers in the C locale and
 * every failed write noticed. Called by harness/run.c in the process of rank 0.
 */
#define _GNU_SOURCE
#include "harness/report.h"

#include "harness/record_file.h"
#include "harness/report_text.h"
#include "harness/report_writer.h"
#include "harness/usage.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_timed[] =
    "wall clock from the first call to the completion of the last, divided by the calls; the "
    "barrier before is not timed";

static void (*end_process)(int code) = exit;

/* By the suffix of the file; the last, without one, is for all others. */
static const struct {
    const char *suffix;
    const struct perf_writer *writer;
} forms[] = {
    {".jsonl", &perf_writer_jsonl},
    {".csv", &perf_writer_csv},
    {".xml", &perf_writer_junit},
    {"", &perf_writer_json},
};

static const struct perf_writer *writer; /* NULL: no file is open */
static struct perf_header kept_header;
static struct perf_record record;

void perf_report_on_failure(void (*end)(int code))
{
    end_process = end ? end : exit;
}

int perf_report_has_busbw(int nranks)
{
    return nranks > 1;
}

int perf_report_is_empty(const struct perf_footer *footer)
{
    return footer->nrows > 0 && footer->nskipped == footer->nrows;
}

/* Rows must reach the reader at once, and a reader that has gone ends the run. */
static void check_stdout(void)
{
    struct pollfd reader = {.fd = STDOUT_FILENO, .events = POLLOUT};

    if (!fflush(stdout) && !ferror(stdout)) return;
    /* Which write failed is not known, so errno says little; the pipe itself is asked. */
    if (poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR))
        end_process(PERF_EXIT_SIGNAL + SIGPIPE);
    fprintf(stderr, "%s: cannot write to stdout: %s\n", perf_program(), strerror(errno));
    end_process(PERF_EXIT_ERROR);
}

static void check_file(int error, const char *name)
{
    if (!error) return;
    fprintf(stderr, "%s: option -J: cannot write %s: %s\n", perf_program(), name ? name : "it",
            strerror(error));
    end_process(PERF_EXIT_ERROR);
}

/* Numbers have a point whatever the locale of the process is. The C locale is static: making it
 * allocates nothing and there is nothing to free. */
static locale_t enter_c_locale(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    return plain ? uselocale(plain) : (locale_t)0;
}

static void leave_c_locale(locale_t before)
{
    if (before) uselocale(before);
}

static const struct perf_writer *writer_for(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0;; i++) {
        size_t suffix = strlen(forms[i].suffix);

        if (suffix <= length && !strcmp(name + length - suffix, forms[i].suffix))
            return forms[i].writer;
    }
}

void perf_report_open(const struct perf_options *options)
{
    locale_t before;
    int error;

    record = (struct perf_record){.options = options};
    if (writer || !options->json_file) return;
    error = perf_record_create(options->json_file);
    check_file(error, options->json_file);
    writer = writer_for(options->json_file);
    before = enter_c_locale();
    error = writer->open(&record);
    leave_c_locale(before);
    check_file(error, options->json_file);
    fprintf(stderr, "%s: the record goes to %s\n", perf_program(), perf_record_name());
}

/* Options that this driver has no use for are accepted, so that one script can drive all. */
static void note_unused(const struct perf_header *header)
{
    const struct perf_options *options = header->options;
    const char *name = header->coll->name;
    int op = options->op_given && !(header->coll->flags & PERF_HAS_OP);
    int root = options->root_given && !(header->coll->flags & PERF_HAS_ROOT);

    if (op && root)
        perf_note("%s has no operator and no root; -o and -r change nothing", name);
    else if (op)
        perf_note("%s has no operator; -o changes nothing", name);
    else if (root)
        perf_note("%s has no root; -r changes nothing", name);
}

void perf_report_header(const struct perf_header *header)
{
    locale_t before;
    int error = 0;

    perf_report_open(header->options);
    setvbuf(stdout, NULL, _IOLBF, 0);
    note_unused(header);
    kept_header = *header;
    if (!kept_header.timed) kept_header.timed = default_timed;
    record.header = &kept_header;
    record.header_has_busbw = perf_report_has_busbw(header->group_size);
    before = enter_c_locale();
    perf_report_text_header(&kept_header);
    if (writer) error = writer->header(&record);
    leave_c_locale(before);
    check_file(error, perf_record_name());
    check_stdout();
}

void perf_report_row(const struct perf_row *row)
{
    locale_t before = enter_c_locale();
    int error = 0;

    record.row = row;
    perf_report_text_row(row);
    if (writer) error = writer->row(&record);
    record.row = NULL;
    leave_c_locale(before);
    check_file(error, perf_record_name());
    check_stdout();
}

static void report_line(const char *text, enum perf_lines lines)
{
    locale_t before = enter_c_locale();
    int error = 0;

    perf_report_text_note(text);
    if (writer) error = writer->line(text, lines);
    leave_c_locale(before);
    check_file(error, perf_record_name());
    check_stdout();
}

void perf_report_note(const char *text)
{
    report_line(text, PERF_LINES_MISMATCHES);
}

void perf_report_summary(const char *text)
{
    report_line(text, PERF_LINES_SUMMARY);
}

/* The file first: it must be whole even when nobody reads stdout any more. */
static int close_file(const struct perf_footer *footer)
{
    int error, closed;

    if (!writer) return 0;
    error = writer->footer(&record, footer);
    closed = perf_record_close();
    writer = NULL;
    return error ? error : closed;
}

void perf_report_footer(const struct perf_footer *footer)
{
    locale_t before = enter_c_locale();
    int error = close_file(footer);

    record.header = NULL;
    perf_report_text_footer(footer);
    leave_c_locale(before);
    check_file(error, NULL);
    check_stdout();
}
