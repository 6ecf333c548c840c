/* What the files of a baseline say of their run: whether they are worth comparing with, and
 * whether this run is the same in all that decides on times. Called by baseline.c only, in the
 * process of rank 0; a reason names the file.
 */
#ifndef PERF_BASELINE_HEADS_H
#define PERF_BASELINE_HEADS_H

#include "harness/json_read.h"
#include "harness/report.h"

/* The objects of `path` follow. */
void perf_heads_file(const char *path);

/* One object: the document, or a line. 1: it is kept until perf_heads_drop, which drops it. */
int perf_heads_take(struct perf_json_node *node);

/* Whether each file is a record of this schema of a run that ended well, but for its speed, and
 * without wrong data. 0, or exit code 6 and why. */
int perf_heads_judge(char *why, size_t why_bytes);

/* Whether each file's run and machine were those of now, and its GPUs undisturbed. 0, or exit code
 * 6 and the first difference. */
int perf_heads_check(const struct perf_header *header, char *why, size_t why_bytes);

void perf_heads_drop(void);

#endif
