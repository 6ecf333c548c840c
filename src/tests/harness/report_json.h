/* The JSON document of -J. Called by report.c only, in the order open, header, rows, footer; the
 * file is a valid document after each call.
 */
#ifndef PERF_REPORT_JSON_H
#define PERF_REPORT_JSON_H

#include "harness/report.h"

/* Lines under rows, each kind an array of its own. */
enum perf_lines { PERF_LINES_MISMATCHES, PERF_LINES_SUMMARY, PERF_NLINES };

/* Creates the file and writes the document without results. Returns 0, or an errno. */
int perf_report_json_open(const struct perf_options *options);

/* The rest return 0 or an errno, and do nothing when no file is open. */
int perf_report_json_header(const struct perf_header *header, const char *timed);
int perf_report_json_row(const struct perf_row *row);
int perf_report_json_line(const char *text, enum perf_lines lines);
int perf_report_json_footer(const struct perf_footer *footer);

/* The name of the file in use, NULL without one. */
const char *perf_report_json_name(void);

/* "2024-05-06T07:08:09+0200", now. */
void perf_report_time(char *text, size_t text_bytes);

const char *perf_status_name(enum perf_status status);

#endif
