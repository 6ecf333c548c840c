/* All names that the library knows, and which of them a mistyped one is near to. Called by
 * param.c. Invariant: a name is a row of one of the two tables. */
#include "base/param_names.h"

#include <stddef.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64, SHORT_NAME = 6 };

struct name {
    const char *text;
    const char *no_effect; /* why; NULL: a parameter */
};

static const struct name names[] = {
#define CCL_PARAM_INT(id, env, fallback, low, high, help) {env, NULL},
#define CCL_PARAM_TEXT(id, env, fallback, help)           {env, NULL},
#include "base/param_table.h"
#undef CCL_PARAM_INT
#undef CCL_PARAM_TEXT
#define CCL_KNOWN(env, why) {env, why},
#include "base/param_known.h"
#undef CCL_KNOWN
};

enum { NNAMES = sizeof names / sizeof names[0] };

static const char *const prefixes[] = {"NCCL_", "CHORUS_"};

/* The name without its prefix; NULL: it has none of ours. */
static const char *stem_of(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return NULL;
}

int ccl_param_is_ours(const char *name)
{
    return stem_of(name) != NULL;
}

static const struct name *find_name(const char *name)
{
    for (int i = 0; i < NNAMES; i++)
        if (strcmp(names[i].text, name) == 0) return &names[i];
    return NULL;
}

const char *ccl_param_no_effect(const char *name)
{
    const struct name *known = find_name(name);
    return known == NULL ? NULL : known->no_effect;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Letters to insert, remove, change or swap with their neighbour to make one word of the other. */
static int distance(const char *from, const char *to)
{
    int rows[3][NAME_MAX_BYTES]; /* of the letters i - 2, i - 1 and i of `from`, in turn */
    int nfrom = (int)strlen(from), nto = (int)strlen(to);
    if (nfrom >= NAME_MAX_BYTES || nto >= NAME_MAX_BYTES) return NAME_MAX_BYTES;
    for (int j = 0; j <= nto; j++) rows[0][j] = j;
    for (int i = 1; i <= nfrom; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nto; j++) {
            row[j] = least(above[j], row[j - 1]) + 1;
            row[j] = least(row[j], above[j - 1] + (from[i - 1] != to[j - 1]));
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[nfrom % 3][nto];
}

const char *ccl_param_nearest(const char *name)
{
    const char *stem = stem_of(name), *nearest = NULL;
    if (stem == NULL || find_name(name) != NULL) return NULL;
    int limit = strlen(stem) < SHORT_NAME ? 2 : 3;
    for (int i = 0; i < NNAMES; i++) {
        int apart = distance(stem, stem_of(names[i].text)) + (names[i].text[0] != name[0]);
        if (apart >= limit) continue;
        nearest = names[i].text;
        limit = apart;
    }
    return nearest;
}
