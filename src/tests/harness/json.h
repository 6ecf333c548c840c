/* A JSON writer into memory: commas, nesting, escapes. Called by report_json.c, which decides
 * when the text goes to the file. Whatever goes in, the text is valid JSON in UTF-8.
 */
#ifndef PERF_JSON_H
#define PERF_JSON_H

#include <stddef.h>
#include <stdint.h>

enum { PERF_JSON_DEPTH = 16 };

/* Zero-initialised is an empty text. Running out of memory sets `failed` and keeps what is
 * there. */
struct perf_json {
    char *text; /* always terminated once something was written */
    size_t used, room;
    int depth;
    char closers[PERF_JSON_DEPTH]; /* } or ] of each open level */
    int has_items[PERF_JSON_DEPTH];
    int failed;
};

/* Goes on inside levels that an earlier text opened: "}]" is a list in an object. */
void perf_json_resume(struct perf_json *json, const char *closers, int has_items);

/* Key NULL: an element of a list. `opener` is { or [. */
void perf_json_open(struct perf_json *json, const char *key, char opener);
void perf_json_close(struct perf_json *json);

/* NULL text gives null. Bytes that are no UTF-8 become U+FFFD. */
void perf_json_string(struct perf_json *json, const char *key, const char *text);
void perf_json_int(struct perf_json *json, const char *key, int64_t number);
/* Infinite and not-a-number give null. */
void perf_json_real(struct perf_json *json, const char *key, double number);
void perf_json_bool(struct perf_json *json, const char *key, int truth);

/* Length of the UTF-8 sequence at `text`, 0 when it is none: overlong forms, surrogates and what
 * is beyond U+10FFFF count as none. */
int perf_utf8_length(const char *text);

/* Characters between items as they are. */
void perf_json_raw(struct perf_json *json, const char *text);

void perf_json_free(struct perf_json *json);

#endif
