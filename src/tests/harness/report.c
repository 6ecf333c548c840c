/* Reports: hands each record to the text and the JSON writer, with numbers in the C locale and
 * every failed write noticed. Called by harness/run.c in the process of rank 0.
 */
#define _GNU_SOURCE
#include "harness/report.h"

#include "harness/report_json.h"
#include "harness/report_text.h"
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
static int json_opened;

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

static void check_json(int error, const char *name)
{
    if (!error) return;
    fprintf(stderr, "%s: option -J: cannot write %s: %s\n", perf_program(), name ? name : "JSON",
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

void perf_report_open(const struct perf_options *options)
{
    locale_t before;
    int error;

    if (json_opened || !options->json_file) return;
    before = enter_c_locale();
    json_opened = 1;
    error = perf_report_json_open(options);
    leave_c_locale(before);
    check_json(error, options->json_file);
    fprintf(stderr, "%s: JSON goes to %s\n", perf_program(), perf_report_json_name());
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
    const char *timed = header->timed ? header->timed : default_timed;
    locale_t before;
    int error;

    perf_report_open(header->options);
    setvbuf(stdout, NULL, _IOLBF, 0);
    note_unused(header);
    before = enter_c_locale();
    perf_report_text_header(header, timed);
    error = perf_report_json_header(header, timed);
    leave_c_locale(before);
    check_json(error, perf_report_json_name());
    check_stdout();
}

void perf_report_row(const struct perf_row *row)
{
    locale_t before = enter_c_locale();
    int error;

    perf_report_text_row(row);
    error = perf_report_json_row(row);
    leave_c_locale(before);
    check_json(error, perf_report_json_name());
    check_stdout();
}

static void report_line(const char *text, enum perf_lines lines)
{
    locale_t before = enter_c_locale();
    int error;

    perf_report_text_note(text);
    error = perf_report_json_line(text, lines);
    leave_c_locale(before);
    check_json(error, perf_report_json_name());
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

void perf_report_footer(const struct perf_footer *footer)
{
    locale_t before = enter_c_locale();
    int error = perf_report_json_footer(footer);

    /* The file first: it must be whole even when nobody reads stdout any more. */
    json_opened = 0;
    perf_report_text_footer(footer);
    leave_c_locale(before);
    check_json(error, NULL);
    check_stdout();
}
