/* The JSON reader, see json_read.h: recursive descent, at most MAX_DEPTH deep.
 */
#include "harness/json_read.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

struct reader {
    const char *at;
    int depth;
};

static struct perf_json_node *read_value(struct reader *reader);

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

/* 1 when the next character is this one, which is then behind. */
static int take(struct reader *reader, char wanted)
{
    skip_blanks(reader);
    if (*reader->at != wanted) return 0;
    reader->at++;
    return 1;
}

static char *put_utf8(char *to, unsigned point)
{
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* \uXXXX as UTF-8; halves of a pair stay apart, since nobody here compares such texts. */
static char *read_point(struct reader *reader, char *to)
{
    char digits[5] = "";

    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)reader->at[i])) return NULL;
        digits[i] = reader->at[i];
    }
    reader->at += 4;
    return put_utf8(to, (unsigned)strtoul(digits, NULL, 16));
}

/* Bytes up to the quote that ends a text, or to the end of all. */
static size_t text_room(const char *at)
{
    size_t room = 0;

    while (at[room] != '\0' && at[room] != '"') room += at[room] == '\\' && at[room + 1] ? 2 : 1;
    return room;
}

/* Behind the first quote. A text is never longer than it was written. */
static char *read_text(struct reader *reader)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char *text = malloc(text_room(reader->at) + 1), *to = text;

    if (text == NULL) return NULL;
    while (*reader->at != '"') {
        const char *letter;

        if ((unsigned char)*reader->at < ' ') break;
        if (*reader->at != '\\') {
            *to++ = *reader->at++;
            continue;
        }
        letter = reader->at[1] != '\0' ? strchr(letters, reader->at[1]) : NULL;
        if (letter == NULL && reader->at[1] != 'u') break;
        reader->at += 2;
        if (letter != NULL)
            *to++ = meant[letter - letters];
        else if ((to = read_point(reader, to)) == NULL)
            break;
    }
    if (to == NULL || *reader->at != '"') {
        free(text);
        return NULL;
    }
    reader->at++;
    *to = '\0';
    return text;
}

static int read_items(struct reader *reader, struct perf_json_node *node)
{
    char closer = node->kind == '{' ? '}' : ']';
    struct perf_json_node **last = &node->child;

    if (take(reader, closer)) return 1;
    for (;;) {
        char *key = NULL;

        if (node->kind == '{') {
            if (!take(reader, '"') || (key = read_text(reader)) == NULL) return 0;
            if (!take(reader, ':')) {
                free(key);
                return 0;
            }
        }
        *last = read_value(reader);
        if (*last == NULL) {
            free(key);
            return 0;
        }
        (*last)->key = key;
        last = &(*last)->next;
        if (take(reader, closer)) return 1;
        if (!take(reader, ',')) return 0;
    }
}

static int read_word(struct reader *reader, struct perf_json_node *node)
{
    static const struct {
        const char *word;
        char kind;
        double number;
    } words[] = {{"true", 'b', 1}, {"false", 'b', 0}, {"null", 'z', 0}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);

        if (strncmp(reader->at, words[i].word, length) != 0) continue;
        node->kind = words[i].kind;
        node->number = words[i].number;
        reader->at += length;
        return 1;
    }
    return 0;
}

static int read_into(struct reader *reader, struct perf_json_node *node)
{
    char *end;

    if (take(reader, '{') || take(reader, '[')) {
        int is_whole;

        node->kind = reader->at[-1];
        if (++reader->depth > MAX_DEPTH) return 0;
        is_whole = read_items(reader, node);
        reader->depth--;
        return is_whole;
    }
    if (take(reader, '"')) {
        node->kind = 's';
        return (node->text = read_text(reader)) != NULL;
    }
    if (*reader->at != '-' && !isdigit((unsigned char)*reader->at)) return read_word(reader, node);
    node->kind = 'n';
    node->number = strtod(reader->at, &end);
    if (end == reader->at) return 0;
    reader->at = end;
    return 1;
}

static struct perf_json_node *read_value(struct reader *reader)
{
    struct perf_json_node *node = calloc(1, sizeof *node);

    if (node == NULL || read_into(reader, node)) return node;
    perf_json_drop(node);
    return NULL;
}

struct perf_json_node *perf_json_read(const char *text, size_t *wrong_at)
{
    struct reader reader = {.at = text};
    struct perf_json_node *node = read_value(&reader);

    skip_blanks(&reader);
    if (node != NULL && *reader.at == '\0') return node;
    perf_json_drop(node);
    *wrong_at = (size_t)(reader.at - text);
    return NULL;
}

void perf_json_drop(struct perf_json_node *node)
{
    while (node != NULL) {
        struct perf_json_node *next = node->next;

        perf_json_drop(node->child);
        free(node->key);
        free(node->text);
        free(node);
        node = next;
    }
}

const struct perf_json_node *perf_json_member(const struct perf_json_node *node, const char *key)
{
    const struct perf_json_node *member = node != NULL && node->kind == '{' ? node->child : NULL;

    while (member != NULL && strcmp(member->key, key) != 0) member = member->next;
    return member;
}

const char *perf_json_text(const struct perf_json_node *node, const char *key, const char *fallback)
{
    const struct perf_json_node *member = perf_json_member(node, key);

    return member != NULL && member->kind == 's' ? member->text : fallback;
}

double perf_json_number(const struct perf_json_node *node, const char *key, double fallback)
{
    const struct perf_json_node *member = perf_json_member(node, key);

    return member != NULL && member->kind == 'n' ? member->number : fallback;
}
