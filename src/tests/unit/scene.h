/* A played report: a child process that reports a run of a few rows, in the ways in which it can
 * go, and the means to look at what came out. Used by test_report.c.
 */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include "harness/report.h"
#include "unit/capture.h"

#include <stddef.h>

/* A run of `nrows` rows in the child. */
struct scene {
    char directory[64], file[128]; /* of -J */
    const char *options;           /* "" or one of I, C, S, M */
    int nranks, nrows;
    struct perf_row row;
    const struct perf_coll *coll;
    enum perf_status status;
    int death;          /* signal after the rows; 0: a footer comes */
    int fsize_bytes;    /* limit on file sizes; 0: none */
    int closed_stdout;  /* stdout is a pipe without a reader */
    const char *locale; /* NULL: C */
    const char *note;
};

extern const struct perf_row scene_row;   /* 1024 B, float, sum, both placements right */
extern const struct perf_coll scene_coll; /* all_reduce */

/* Eight ranks, three rows, -J into a directory of its own; change the fields, then run. */
void scene_start(struct scene *scene);
void scene_end(const struct scene *scene);

/* What the child does; the argument is a struct scene. Exits 77 without the locale. */
void scene_play(void *argument);

/* Plays it. Reads and checks the document when `json` is not NULL. */
void scene_run(struct scene *scene, struct capture *capture, char *json, size_t json_bytes);

void scene_read_file(const char *name, char *text, size_t text_bytes);

/* Ends the case unless the text is one JSON document. */
void scene_check_json(const char *text);

/* The first line that starts with `start`, cut out of the output. */
void scene_find_line(const char *output, const char *start, char *line, size_t line_bytes);

/* Field n, from 1, of a line; "" beyond the last. */
const char *scene_field(const char *line, int n, char *text, size_t text_bytes);

#endif
