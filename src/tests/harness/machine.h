/* What a run was measured on, for its record: the host, its GPUs and their state before and after,
 * the command and the variables that matter. Called by the writers of -J and by the comparison
 * with a baseline, in the process of rank 0.
 */
#ifndef PERF_MACHINE_H
#define PERF_MACHINE_H

#include "harness/json.h"
#include "harness/report.h"

/* Members "args" and "env": the words of the command; the variables of libraries and launchers. */
void perf_machine_origin(struct perf_json *json, const struct perf_options *options);

/* Member "machine". Remembers the GPUs of the ranks on this host for perf_machine_end. */
void perf_machine_add(struct perf_json *json, const struct perf_header *header);

/* Members "load_at_end" and "gpus_at_end": the state after the run. */
void perf_machine_end(struct perf_json *json);

/* "model name" of the first processor, "unknown" where none is told. */
void perf_machine_cpu(char *text, size_t text_bytes);

/* Cores that this process may use. */
int perf_machine_cores(void);

/* Why times of now mean little: a GPU of the ranks on this host is throttled, or others have work
 * on it. "" when nothing is known to be wrong. */
void perf_machine_trouble(const struct perf_header *header, char *text, size_t text_bytes);

#endif
