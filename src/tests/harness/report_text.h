/* The table on stdout. Called by report.c only, with a C locale set.
 */
#ifndef PERF_REPORT_TEXT_H
#define PERF_REPORT_TEXT_H

#include "harness/report.h"

#include <stddef.h>

void perf_report_text_header(const struct perf_header *header);
void perf_report_text_row(const struct perf_row *row);
void perf_report_text_note(const char *text);
/* report_gate.c: a comparison, line by line what changed. */
void perf_report_text_gate(const struct perf_gate *gate);
void perf_report_text_footer(const struct perf_footer *footer);

/* The command as a shell would take it; ends in ... when it does not fit. */
void perf_report_command(int argc, char *const *argv, char *text, size_t text_bytes);

#endif
