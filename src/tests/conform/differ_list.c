/* Reads the differences that are known from the tables of docs/differences.md. A row of a table
 * that is broken, or has no reason, is an error: a difference that nobody explains is not known.
 */
#define _GNU_SOURCE
#include "conform/differ.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NCELLS = 5 };

/* Cuts "| a | b |" into its cells, without blanks and back quotes around them. */
static int cut(char *line, char *cells[NCELLS])
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *at = strchr(line, '|'); at != NULL && at[1] != '\0'; n++) {
        char *end = strchr(at + 1, '|');
        if (end == NULL) return -1;
        char *cell = at + 1, *last = end;
        while (cell < last && strchr(" `", *cell) != NULL) cell++;
        while (last > cell && strchr(" `", last[-1]) != NULL) last--;
        *last = '\0';
        if (n < NCELLS) cells[n] = cell;
        at = end;
    }
    return n;
}

static int take(struct differ_known *known, char *cells[NCELLS])
{
    if (strlen(cells[0]) >= sizeof known->function || strlen(cells[1]) >= sizeof known->name ||
        strlen(cells[2]) >= sizeof known->other || strlen(cells[3]) >= sizeof known->chorus)
        return -1;
    memset(known, 0, sizeof *known);
    strcpy(known->function, cells[0]);
    strcpy(known->name, cells[1]);
    strcpy(known->other, cells[2]);
    strcpy(known->chorus, cells[3]);
    return cells[4][0] == '\0' ? -1 : 0;
}

static int add(struct differ_list *list, char *cells[NCELLS])
{
    size_t bytes = (list->nknown + 1) * sizeof list->known[0];
    struct differ_known *known = realloc(list->known, bytes);
    if (known == NULL) return -1;
    list->known = known;
    return take(&list->known[list->nknown++], cells);
}

int differ_read(const char *path, struct differ_list *list)
{
    FILE *file = fopen(path, "r");
    char *line = NULL, *cells[NCELLS];
    size_t room = 0, number = 0;
    int code = 0;
    if (file == NULL) {
        fprintf(stderr, "differ: --list %s: %s\n", path, strerror(errno));
        return 2;
    }
    while (code == 0 && getline(&line, &room, file) >= 0) {
        number++;
        if (strncmp(line, "| `nccl", 7) != 0) continue;
        if (cut(line, cells) == NCELLS && add(list, cells) == 0) continue;
        fprintf(stderr,
                "differ: --list %s:%zu: a row is function, case, NVIDIA's, Chorus's, reason\n",
                path, number);
        code = 2;
    }
    free(line);
    fclose(file);
    return code;
}
