/* Whether all processes run the same thing: every option and variable that decides what is called,
 * in which order and on how much data. Called once by harness/world.c. A run whose processes
 * differ would hang or compare wrong data, so it ends here with the setting named.
 */
#define _GNU_SOURCE
#include "harness/coll.h"
#include "harness/ending.h"
#include "harness/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHEET_BYTES = 4096, NAME_BYTES = 64, VALUE_BYTES = 160 };

/* One "name\tvalue\n" for each setting: what the processes compare. */
struct sheet {
    char text[SHEET_BYTES];
    size_t used;
};

/* Options that only one process, or nobody but the user, sees the effect of. */
static const char own_options[] = "TJSMp";

static const char *const variables[] = {
    "NCCL_TESTS_DEVICE",
    "NCCL_TESTS_SPLIT",
    "NCCL_TESTS_SPLIT_MASK",
    "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
    "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
    "NCCL_TESTS_ALLTOALLV_SPREAD",
};

static void add(struct sheet *sheet, const char *name, const char *value)
{
    size_t room = sizeof sheet->text - sheet->used, length = strlen(value);
    /* Of a long path the end tells more than the start. */
    if (length >= VALUE_BYTES) value += length - (VALUE_BYTES - 1);
    int used = snprintf(sheet->text + sheet->used, room, "%s\t%s\n", name, value);
    if (used < 0 || (size_t)used >= room) perf_end(PERF_EXIT_ERROR, "too many settings to compare");
    sheet->used += (size_t)used;
}

static void format_value(const struct perf_options *options, const struct perf_option *row,
                         char *text)
{
    const void *field = (const char *)options + row->offset;
    switch (row->kind) {
    case PERF_KIND_SIZE: snprintf(text, VALUE_BYTES, "%" PRIu64, *(const uint64_t *)field); break;
    case PERF_KIND_FACTOR:
    case PERF_KIND_PERCENT:
    case PERF_KIND_SECONDS: snprintf(text, VALUE_BYTES, "%.17g", *(const double *)field); break;
    case PERF_KIND_TYPE:
        snprintf(text, VALUE_BYTES, "%s", perf_type_name(*(const int *)field));
        break;
    case PERF_KIND_OP:
        if (*(const int *)field == PERF_ALL)
            snprintf(text, VALUE_BYTES, "all");
        else
            snprintf(text, VALUE_BYTES, "%s", perf_op_name(*(const int *)field));
        break;
    case PERF_KIND_DEVICE:
        snprintf(text, VALUE_BYTES, "%s", perf_device_word(*(const int *)field));
        break;
    default: snprintf(text, VALUE_BYTES, "%d", *(const int *)field);
    }
}

static int is_own(const struct perf_option *row)
{
    if (row->group == PERF_GROUP_INFO || row->kind == PERF_KIND_TEXT) return 1;
    /* How this process got into the world; that they got into the same one is known by now. */
    if (row->kind == PERF_KIND_INIT || strcmp(row->name, "spawn") == 0) return 1;
    return row->letter != 0 && strchr(own_options, row->letter) != NULL;
}

static void write_sheet(const struct perf_world *world, struct sheet *sheet)
{
    char name[NAME_BYTES], value[VALUE_BYTES];
    int version = 0;
    memset(sheet, 0, sizeof *sheet);
    add(sheet, "the driver", world->coll->name);
    if (ncclGetVersion(&version) != ncclSuccess) version = 0;
    snprintf(value, sizeof value, "%d", version);
    add(sheet, "the library's version", value);
    for (int i = 0; i < perf_noptions; i++) {
        const struct perf_option *row = &perf_option_rows[i];
        if (is_own(row)) continue;
        if (row->letter != 0)
            snprintf(name, sizeof name, "-%c (--%s)", row->letter, row->name);
        else
            snprintf(name, sizeof name, "--%s", row->name);
        format_value(world->options, row, value);
        add(sheet, name, value);
    }
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        add(sheet, variables[i], text != NULL && text[0] != '\0' ? text : "not set");
    }
}

/* Almost always all are the same, so that a number is enough. */
static uint64_t hash_sheet(const struct sheet *sheet)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < sheet->used; i++)
        hash = (hash ^ (unsigned char)sheet->text[i]) * 0x100000001b3;
    return hash;
}

/* The first line in which two sheets differ: its name, and both values. */
static void explain(const struct sheet *first, const struct sheet *other, int proc)
{
    const char *a = first->text, *b = other->text;
    char text[PERF_OOB_TEXT];
    for (;;) {
        int length_a = (int)strcspn(a, "\n"), length_b = (int)strcspn(b, "\n");
        if (*a == '\0' || *b == '\0') break;
        if (length_a == length_b && strncmp(a, b, (size_t)length_a) == 0) {
            a += length_a + 1;
            b += length_b + 1;
            continue;
        }
        int name = (int)strcspn(a, "\t");
        if (name >= length_a || strncmp(a, b, (size_t)name + 1) != 0) break;
        snprintf(text, sizeof text,
                 "process %d runs something else than process 0: %.*s is %.*s there and %.*s in "
                 "process 0",
                 proc, name, a, length_b - name - 1, b + name + 1, length_a - name - 1,
                 a + name + 1);
        perf_end(PERF_EXIT_ERROR, text);
    }
    snprintf(text, sizeof text, "process %d is a driver of another version than process 0", proc);
    perf_end(PERF_EXIT_ERROR, text);
}

void perf_world_agree(struct perf_world *world)
{
    size_t n = (size_t)world->nprocs;
    struct sheet mine;
    write_sheet(world, &mine);
    uint64_t hash = hash_sheet(&mine), *hashes = calloc(n, sizeof *hashes);
    int differ = 0;
    if (hashes == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &hash, hashes, sizeof hash);
    for (size_t i = 1; i < n; i++) differ |= hashes[i] != hashes[0];
    free(hashes);
    if (!differ) return;
    struct sheet *all = calloc(n, sizeof *all);
    if (all == NULL) perf_end(PERF_EXIT_ERROR, "out of memory");
    perf_world_allgather(world, &mine, all, sizeof mine);
    for (size_t i = 1; i < n; i++)
        if (memcmp(&all[i], &all[0], sizeof mine) != 0) explain(&all[0], &all[i], (int)i);
    free(all);
}
