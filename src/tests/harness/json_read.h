/* A reader of JSON texts into a tree, for records of earlier runs. Called by baseline.c; whatever
 * the text, the reader ends with a tree or with where it is wrong.
 */
#ifndef PERF_JSON_READ_H
#define PERF_JSON_READ_H

#include <stddef.h>

struct perf_json_node {
    char kind;     /* {, [, s text, n number, b truth, z null */
    char *key;     /* of a member, else NULL */
    char *text;    /* of s */
    double number; /* of n; b: 0 or 1 */
    struct perf_json_node *child, *next;
};

/* The whole text must be one value. NULL: *wrong_at is the offset of what cannot be. */
struct perf_json_node *perf_json_read(const char *text, size_t *wrong_at);
void perf_json_drop(struct perf_json_node *node);

/* A member, NULL when there is none or `node` is no object; node may be NULL. */
const struct perf_json_node *perf_json_member(const struct perf_json_node *node, const char *key);
/* Its text or number; the fallback when it is of another kind or not there. */
const char *perf_json_text(const struct perf_json_node *node, const char *key,
                           const char *fallback);
double perf_json_number(const struct perf_json_node *node, const char *key, double fallback);

#endif
