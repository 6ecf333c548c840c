/* The forms of -J. A writer puts records into the file that record_file.h holds, which is a whole
 * document after each call. Called by report.c only, in the order open, header, rows and lines,
 * footer; each returns 0 or an errno.
 */
#ifndef PERF_REPORT_WRITER_H
#define PERF_REPORT_WRITER_H

#include "harness/record.h"

/* Lines under rows, each kind an array of its own. */
enum perf_lines { PERF_LINES_MISMATCHES, PERF_LINES_SUMMARY, PERF_NLINES };

struct perf_writer {
    int (*open)(const struct perf_record *record); /* the file is new and empty */
    int (*header)(const struct perf_record *record);
    int (*row)(const struct perf_record *record); /* measure is NULL: look at the row's */
    int (*line)(const char *text, enum perf_lines lines);
    /* The last: what it keeps is freed. */
    int (*footer)(const struct perf_record *record, const struct perf_footer *footer);
};

extern const struct perf_writer perf_writer_json, perf_writer_jsonl, perf_writer_csv,
    perf_writer_junit;

/* Calls `visit` with each placement of a row that was run; with none, once without a measure. */
void perf_writer_places(const struct perf_record *record,
                        void (*visit)(void *to, const struct perf_record *placed,
                                      const char *place),
                        void *to);

/* "ok", "wrong", "unchecked", "skipped". */
const char *perf_writer_status(const struct perf_record *placed);

/* report_gate.c: the member "gate", null without a baseline. */
void perf_writer_gate(struct perf_json *json, const struct perf_gate *gate);

/* The member "memory" of -M: each rank's; null without. */
void perf_writer_memory(struct perf_json *json, const struct perf_footer *footer);

/* -I: every iteration's time, of the slowest process, and each process's. */
void perf_writer_iterations(struct perf_json *json, const char *key,
                            const struct perf_measure *measure);

#endif
