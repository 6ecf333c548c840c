/* Groups of ranks from the environment: parsing and the colour of a rank. Called by
 * harness/world.c; a value is taken whole or refused, nothing is ignored.
 */
#include "harness/split.h"

#include "harness/usage.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    char op;
} operators[] = {
    {"AND", '&'}, {"OR", '|'}, {"MOD", '%'}, {"DIV", '/'},
    {"&", '&'},   {"|", '|'},  {"%", '%'},   {"/", '/'},
};
enum { NOPERATORS = sizeof operators / sizeof operators[0] };

static int parse_number(const char *text, long *number)
{
    int base = 10;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) base = 16;
    if (text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) base = 2;
    if (base != 10) text += 2;
    if (!isxdigit((unsigned char)text[0])) return 1;
    char *end;
    errno = 0;
    *number = strtol(text, &end, base);
    while (*end == ' ') end++;
    return end == text || *end != '\0' || errno != 0 || *number > INT_MAX;
}

int perf_split_parse(const char *text, struct perf_split *split, const char **error)
{
    while (*text == ' ') text++;
    size_t length = 0;
    split->op = 0;
    for (int i = 0; i < NOPERATORS && split->op == 0; i++) {
        length = strlen(operators[i].word);
        if (strncasecmp(text, operators[i].word, length) == 0) split->op = operators[i].op;
    }
    if (split->op == 0) {
        *error = "starts with no operator (AND, OR, MOD, DIV, or & | % /)";
        return 1;
    }
    text += length;
    while (*text == ' ') text++;
    if (parse_number(text, &split->operand) != 0) {
        *error = "has no whole number after the operator (decimal, 0x or 0b)";
        return 1;
    }
    if ((split->op == '%' || split->op == '/') && split->operand == 0) {
        *error = "divides by zero";
        return 1;
    }
    return 0;
}

int perf_split_parse_mask(const char *text, struct perf_split *split, const char **error)
{
    while (*text == ' ') text++;
    split->op = '&';
    if (parse_number(text, &split->operand) == 0) return 0;
    *error = "is no whole number (decimal, 0x or 0b)";
    return 1;
}

void perf_split_read(struct perf_split *split)
{
    static const char *const names[] = {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"};
    const char *error = NULL;
    memset(split, 0, sizeof *split);
    for (int i = 0; i < 2; i++) {
        const char *text = getenv(names[i]);
        if (text == NULL || text[0] == '\0') continue;
        int bad = i == 0 ? perf_split_parse(text, split, &error)
                         : perf_split_parse_mask(text, split, &error);
        if (bad) perf_usage("%s: '%s' %s", names[i], text, error);
        return;
    }
}

int perf_split_colour(const struct perf_split *split, int rank)
{
    switch (split->op) {
    case '&': return (int)(rank & split->operand);
    case '|': return (int)(rank | split->operand);
    case '%': return (int)(rank % split->operand);
    case '/': return (int)(rank / split->operand);
    default: return 0;
    }
}
