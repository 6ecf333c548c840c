/* The file of -J: what is written so far, and a tail that closes the document with the state of
 * now. The next part overwrites the tail and brings its own in one write, so that a process that
 * is killed leaves a whole document. Called by the writers of report_writer.h, one file at a time.
 */
#ifndef PERF_RECORD_FILE_H
#define PERF_RECORD_FILE_H

#include "harness/json.h"

#include <sys/types.h>

/* Creates the file: `wanted`, or the first free of wanted.0, wanted.1, ... Returns 0 or an errno.*/
int perf_record_create(const char *wanted);

/* Replaces the tail by `part` and a new tail; both are freed or kept here. Blanks cover what would
 * be left of a longer old tail until they are cut off. Returns 0 or an errno; a tail that a failed
 * write spoilt is put
 * back. */
int perf_record_append(struct perf_json *part, struct perf_json *tail);

/* Writes over what is there; for numbers of a fixed width. Returns 0 or an errno. */
int perf_record_patch(const char *text, off_t at);

/* Closes the file; 0 or an errno. */
int perf_record_close(void);

/* The name in use, NULL without a file. */
const char *perf_record_name(void);

#endif
