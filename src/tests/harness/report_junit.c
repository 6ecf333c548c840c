/* The JUnit form of -J: a test case for each placement of a row and one for the run itself, which
 * is an error as long as the run goes on. Called by report.c in the process of rank 0.
 *
 * Invariant: the counts in the head, of a fixed width, are those of the cases in the file.
 */
#include "harness/record_file.h"
#include "harness/report_writer.h"
#include "harness/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 192, VALUE_BYTES = 64 };

static const char counts_format[] =
    "tests=\"%06d\" failures=\"%06d\" errors=\"%06d\" skipped=\"%06d\"";

static struct {
    off_t counts_at;
    int tests, failures, skipped;
    struct perf_json notes; /* mismatches, escaped */
} suite;

/* Text of an attribute or an element: what XML cannot hold becomes U+FFFD. */
static void add_text(struct perf_json *xml, const char *text)
{
    static const char special[] = "&<>\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;"};

    while (*text) {
        const char *found = strchr(special, *text);
        int length = perf_utf8_length(text);
        char one[5] = "";

        if (found != NULL) {
            perf_json_raw(xml, names[found - special]);
        } else if (length == 0 || (unsigned char)*text < ' ') {
            perf_json_raw(xml, "\xef\xbf\xbd");
        } else {
            memcpy(one, text, (size_t)length);
            perf_json_raw(xml, one);
        }
        text += length > 0 ? length : 1;
    }
}

static void add_attribute(struct perf_json *xml, const char *name, const char *text)
{
    perf_json_raw(xml, " ");
    perf_json_raw(xml, name);
    perf_json_raw(xml, "=\"");
    add_text(xml, text);
    perf_json_raw(xml, "\"");
}

static void begin_case(struct perf_json *xml, const char *class, const char *name, double seconds)
{
    char text[VALUE_BYTES];

    snprintf(text, sizeof text, "%.9f", seconds);
    perf_json_raw(xml, "<testcase");
    add_attribute(xml, "classname", class);
    add_attribute(xml, "name", name);
    add_attribute(xml, "time", text);
    perf_json_raw(xml, ">");
}

static void add_outcome(struct perf_json *xml, const char *element, const char *type,
                        const char *message)
{
    perf_json_raw(xml, "<");
    perf_json_raw(xml, element);
    if (type != NULL) add_attribute(xml, "type", type);
    add_attribute(xml, "message", message);
    perf_json_raw(xml, "/>");
}

/* The case of the run, what was said of wrong data, and the end tags. */
static void make_tail(struct perf_json *xml, const struct perf_footer *footer)
{
    const char *status = perf_status_name(footer ? footer->status : PERF_RUNNING);

    begin_case(xml, "run", perf_program(), 0);
    if (footer == NULL || footer->status != PERF_PASSED)
        add_outcome(xml, "error", status, footer && footer->error ? footer->error : status);
    perf_json_raw(xml, "</testcase>\n");
    if (suite.notes.used) {
        perf_json_raw(xml, "<system-out>");
        perf_json_raw(xml, suite.notes.text);
        perf_json_raw(xml, "</system-out>\n");
    }
    perf_json_raw(xml, "</testsuite>\n</testsuites>");
}

static int append(struct perf_json *part, const struct perf_footer *footer)
{
    struct perf_json tail = {0};
    char counts[VALUE_BYTES * 2];
    int is_fine = footer != NULL && footer->status == PERF_PASSED, error;

    make_tail(&tail, footer);
    error = perf_record_append(part, &tail);
    if (error) return error;
    snprintf(counts, sizeof counts, counts_format, suite.tests + 1, suite.failures, !is_fine,
             suite.skipped);
    return perf_record_patch(counts, suite.counts_at);
}

static void add_property(void *to, const struct perf_field *field)
{
    struct perf_json *xml = to;
    char number[VALUE_BYTES];

    if (perf_field_is_null(field)) return;
    if (field->kind == 'r')
        snprintf(number, sizeof number, "%.9g", field->real);
    else
        snprintf(number, sizeof number, "%" PRId64, field->number);
    perf_json_raw(xml, "<property");
    add_attribute(xml, "name", field->key);
    add_attribute(xml, "value", field->kind == 't' ? field->text : number);
    perf_json_raw(xml, "/>\n");
}

static int open_suite(const struct perf_record *record)
{
    struct perf_json part = {0};
    char counts[VALUE_BYTES * 2];

    (void)record;
    memset(&suite, 0, sizeof suite);
    perf_json_raw(&part, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite");
    add_attribute(&part, "name", perf_program());
    perf_json_raw(&part, " ");
    suite.counts_at = (off_t)part.used;
    snprintf(counts, sizeof counts, counts_format, 1, 0, 1, 0);
    perf_json_raw(&part, counts);
    perf_json_raw(&part, ">\n");
    return append(&part, NULL);
}

static int add_properties(const struct perf_record *record)
{
    struct perf_json part = {0};

    perf_json_raw(&part, "<properties>\n");
    perf_record_each(record, PERF_SCOPE_START, add_property, &part);
    perf_record_each(record, PERF_SCOPE_RUN, add_property, &part);
    perf_json_raw(&part, "</properties>\n");
    return append(&part, NULL);
}

/* " 1 -> 2" for the two of --pairs, else "". */
static const char *pair_text(int from, int to, char *text, size_t text_bytes)
{
    *text = 0;
    if (from >= 0) snprintf(text, text_bytes, " %d -> %d", from, to);
    return text;
}

/* The names of a document's cases differ: what shows them keeps one of a name. */
static void name_row(const struct perf_row *row, const char *place, char *name, size_t name_bytes)
{
    char pair[VALUE_BYTES], cycle[VALUE_BYTES] = "";

    if (row->cycle > 0) snprintf(cycle, sizeof cycle, " cycle %d", row->cycle);
    snprintf(name, name_bytes, "%zu B %s %s root %d%s%s%s%s", row->size_bytes,
             perf_type_name(row->type), perf_op_name(row->op), row->root,
             pair_text(row->from, row->to, pair, sizeof pair), place ? " " : "", place ? place : "",
             cycle);
}

static void add_row_case(void *to, const struct perf_record *placed, const char *place)
{
    const struct perf_measure *measure = placed->measure;
    struct perf_json *xml = to;
    char name[NAME_BYTES], text[NAME_BYTES];

    name_row(placed->row, place, name, sizeof name);
    begin_case(xml, placed->header->coll->name, name, measure ? measure->time_us / 1e6 : 0);
    suite.tests++;
    if (measure == NULL) {
        suite.skipped++;
        add_outcome(xml, "skipped", NULL, "does not fit in memory");
    } else if (measure->wrong > 0) {
        suite.failures++;
        snprintf(text, sizeof text, "%" PRId64 " wrong elements", measure->wrong);
        add_outcome(xml, "failure", "wrong", text);
    }
    perf_json_raw(xml, "</testcase>\n");
}

static int add_row_cases(const struct perf_record *record)
{
    struct perf_json part = {0};

    if (record->header == NULL) return 0;
    perf_writer_places(record, add_row_case, &part);
    return append(&part, NULL);
}

static int add_note(const char *text, enum perf_lines lines)
{
    struct perf_json part = {0};

    if (lines != PERF_LINES_MISMATCHES) return 0;
    add_text(&suite.notes, text);
    perf_json_raw(&suite.notes, "\n");
    return append(&part, NULL);
}

static void add_gate_cases(struct perf_json *xml, const struct perf_gate *gate)
{
    char name[NAME_BYTES], text[NAME_BYTES], pair[VALUE_BYTES];

    for (int i = 0; gate != NULL && i < gate->ncells; i++) {
        const struct perf_gate_cell *cell = &gate->cells[i];

        snprintf(name, sizeof name, "%zu B %s %s root %d%s %s", cell->size_bytes, cell->type,
                 cell->op, cell->root, pair_text(cell->from, cell->to, pair, sizeof pair),
                 cell->in_place ? "in_place" : "out_of_place");
        begin_case(xml, "baseline", name, cell->now_us / 1e6);
        suite.tests++;
        snprintf(text, sizeof text, "%.1f %% slower than the baseline, %.1f %% are tolerated",
                 cell->change_percent, cell->tolerance_percent);
        if (cell->change == PERF_CHANGE_SLOWER) {
            suite.failures++;
            add_outcome(xml, "failure", "slower", text);
        } else if (cell->change == PERF_CHANGE_MISSING) {
            suite.skipped++;
            add_outcome(xml, "skipped", NULL, "only the baseline has this row");
        }
        perf_json_raw(xml, "</testcase>\n");
    }
}

static int close_suite(const struct perf_record *record, const struct perf_footer *footer)
{
    struct perf_json part = {0};
    int error;

    (void)record;
    add_gate_cases(&part, footer->gate);
    error = append(&part, footer);
    perf_json_free(&suite.notes);
    return error;
}

const struct perf_writer perf_writer_junit = {
    .open = open_suite,
    .header = add_properties,
    .row = add_row_cases,
    .line = add_note,
    .footer = close_suite,
};
