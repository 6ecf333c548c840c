/* The JSON writer. Called by report_json.c in the process of rank 0 only; not thread-safe. Numbers
 * are written under the caller's locale, which report.c has set to C.
 */
#include "harness/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64, FIRST_ROOM = 1024 };

static void put(struct perf_json *json, const char *text, size_t bytes)
{
    if (json->failed) return;
    if (json->used + bytes + 1 > json->room) {
        size_t room = json->room ? json->room * 2 : FIRST_ROOM;
        char *larger;

        while (room < json->used + bytes + 1) room *= 2;
        larger = realloc(json->text, room);
        if (!larger) {
            json->failed = 1;
            return;
        }
        json->text = larger;
        json->room = room;
    }
    memcpy(json->text + json->used, text, bytes);
    json->used += bytes;
    json->text[json->used] = 0;
}

void perf_json_raw(struct perf_json *json, const char *text)
{
    put(json, text, strlen(text));
}

int perf_utf8_length(const char *bytes)
{
    const unsigned char *text = (const unsigned char *)bytes;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = *text < 0x80 ? 1 : *text < 0xc0 ? 0 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
    uint32_t point;

    if (length < 2) return length;
    if (*text > 0xf4) return 0;
    point = *text & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (text[i] & 0x3fu);
    }
    if (point < smallest[length] || point > 0x10ffff) return 0;
    return point >= 0xd800 && point <= 0xdfff ? 0 : length;
}

static void put_quoted(struct perf_json *json, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    char escape[8];

    perf_json_raw(json, "\"");
    while (*at) {
        int length = perf_utf8_length((const char *)at);

        if (!length) {
            perf_json_raw(json, "\\ufffd");
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\') {
            snprintf(escape, sizeof escape, "\\%c", *at);
            perf_json_raw(json, escape);
        } else if (*at < 0x20 || *at == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", *at);
            perf_json_raw(json, escape);
        } else {
            put(json, (const char *)at, (size_t)length);
        }
        at += length;
    }
    perf_json_raw(json, "\"");
}

/* The comma before an item and its key. */
static void begin_item(struct perf_json *json, const char *key)
{
    if (json->depth) {
        if (json->has_items[json->depth - 1]) perf_json_raw(json, ",");
        json->has_items[json->depth - 1] = 1;
    }
    if (!key) return;
    put_quoted(json, key);
    perf_json_raw(json, ":");
}

void perf_json_resume(struct perf_json *json, const char *closers, int has_items)
{
    json->depth = 0;
    for (; *closers && json->depth < PERF_JSON_DEPTH; closers++) {
        json->closers[json->depth] = *closers;
        json->has_items[json->depth++] = has_items;
    }
}

void perf_json_open(struct perf_json *json, const char *key, char opener)
{
    char text[2] = {opener, 0};

    begin_item(json, key);
    perf_json_raw(json, text);
    if (json->depth == PERF_JSON_DEPTH) {
        json->failed = 1;
        return;
    }
    json->has_items[json->depth] = 0;
    json->closers[json->depth++] = opener == '{' ? '}' : ']';
}

void perf_json_close(struct perf_json *json)
{
    if (json->depth) put(json, &json->closers[--json->depth], 1);
}

void perf_json_string(struct perf_json *json, const char *key, const char *text)
{
    begin_item(json, key);
    if (text)
        put_quoted(json, text);
    else
        perf_json_raw(json, "null");
}

void perf_json_int(struct perf_json *json, const char *key, int64_t number)
{
    char text[NUMBER_BYTES];

    begin_item(json, key);
    snprintf(text, sizeof text, "%" PRId64, number);
    perf_json_raw(json, text);
}

void perf_json_real(struct perf_json *json, const char *key, double number)
{
    char text[NUMBER_BYTES];

    begin_item(json, key);
    snprintf(text, sizeof text, "%.9g", number);
    perf_json_raw(json, isfinite(number) ? text : "null");
}

void perf_json_bool(struct perf_json *json, const char *key, int truth)
{
    begin_item(json, key);
    perf_json_raw(json, truth ? "true" : "false");
}

void perf_json_free(struct perf_json *json)
{
    free(json->text);
    memset(json, 0, sizeof *json);
}
