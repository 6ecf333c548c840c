/* Did-you-mean by edit distance. Called once before a usage error; rows of fixed length keep it
 * free of allocation.
 */
#include "harness/suggest.h"

#include <string.h>
#include <strings.h>

enum { MAX_WORD = 63 };

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/* Fills `row` (distances of the first `at` characters of `from`) from the two rows before. */
static void fill_row(const char *from, int at, const char *to, int (*rows)[MAX_WORD + 1])
{
    int *row = rows[at % 3];
    const int *above = rows[(at + 2) % 3];
    const int *above2 = rows[(at + 1) % 3];

    row[0] = at;
    for (int j = 1; to[j - 1] && j <= MAX_WORD; j++) {
        int cost = from[at - 1] != to[j - 1];

        row[j] = min_int(min_int(above[j], row[j - 1]) + 1, above[j - 1] + cost);
        if (at > 1 && j > 1 && from[at - 1] == to[j - 2] && from[at - 2] == to[j - 1])
            row[j] = min_int(row[j], above2[j - 2] + 1);
    }
}

int perf_edit_distance(const char *from, const char *to)
{
    int rows[3][MAX_WORD + 1] = {{0}};
    int from_length = min_int((int)strnlen(from, MAX_WORD), MAX_WORD);
    int to_length = min_int((int)strnlen(to, MAX_WORD), MAX_WORD);

    for (int j = 0; j <= to_length; j++) rows[0][j] = j;
    for (int i = 1; i <= from_length; i++) fill_row(from, i, to, rows);
    return rows[from_length % 3][to_length];
}

const char *perf_suggest(const char *word, const char *const *words, int count)
{
    /* A third of the word may be wrong, and one letter always. */
    int limit = 1 + (int)strnlen(word, MAX_WORD) / 3;
    const char *nearest = NULL;

    for (int i = 0; i < count; i++) {
        int distance = strcasecmp(word, words[i]) ? perf_edit_distance(word, words[i]) : 0;

        if (distance < limit || (distance == limit && !nearest)) {
            nearest = words[i];
            limit = distance;
        }
    }
    return nearest;
}
