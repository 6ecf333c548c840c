/* The heads and ends of a baseline's files, see baseline_heads.h. Invariant: each file has a head,
 * which in JSON is its end too; what a file lacks is told as unknown and differs from all.
 */
#include "harness/baseline_heads.h"

#include "harness/machine.h"
#include "harness/record.h"
#include "harness/usage.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

struct head {
    char path[PATH_MAX];
    struct perf_json_node *run, *end; /* NULL: none was read; the same in JSON */
    double nwrong;
};

static struct {
    struct head *list;
    size_t n;
} heads;

void perf_heads_file(const char *path)
{
    struct head *more = realloc(heads.list, (heads.n + 1) * sizeof *more);

    if (more == NULL) {
        fprintf(stderr, "%s: out of memory for the baseline\n", perf_program());
        exit(PERF_EXIT_ERROR);
    }
    heads.list = more;
    heads.list[heads.n] = (struct head){.run = NULL};
    snprintf(heads.list[heads.n++].path, sizeof more->path, "%s", path);
}

int perf_heads_take(struct perf_json_node *node)
{
    struct head *head = &heads.list[heads.n - 1];
    const char *kind = perf_json_text(node, "kind", "");
    const struct perf_json_node *results = perf_json_member(node, "results");
    const struct perf_json_node *row = results != NULL ? results->child : NULL;
    int is_run = perf_json_member(node, "driver") != NULL && strcmp(kind, "row") != 0;
    int is_end = !strcmp(kind, "end") || results != NULL;

    for (; row != NULL; row = row->next) {
        head->nwrong += perf_json_number(perf_json_member(row, "out_of_place"), "nwrong", 0);
        head->nwrong += perf_json_number(perf_json_member(row, "in_place"), "nwrong", 0);
    }
    if (!strcmp(kind, "row")) head->nwrong += perf_json_number(node, "nwrong", 0);
    is_run = is_run && head->run == NULL;
    is_end = is_end && head->end == NULL;
    if (is_run) head->run = node;
    if (is_end) head->end = node;
    return is_run || is_end;
}

/* ---- is it a record to compare with? ---- */

static int refuse(const struct head *head, const char *reason, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "option --baseline: %s: %s", head->path, reason);
    return PERF_EXIT_COMPARE;
}

static void number_text(double number, char *text, size_t text_bytes)
{
    if (isnan(number))
        snprintf(text, text_bytes, "unknown");
    else
        snprintf(text, text_bytes, "%.10g", number);
}

static int judge_one(const struct head *head, char *why, size_t why_bytes)
{
    double version = perf_json_number(head->run, "schema_version", NAN);
    const char *status = perf_json_text(head->end, "status", "unknown");
    char reason[TEXT_BYTES], number[64];

    if (version != PERF_SCHEMA_VERSION) {
        number_text(version, number, sizeof number);
        snprintf(reason, sizeof reason, "schema_version is %s and not %d, which is compared",
                 number, PERF_SCHEMA_VERSION);
        return refuse(head, reason, why, why_bytes);
    }
    if (head->nwrong > 0) {
        snprintf(reason, sizeof reason, "its run had %.10g wrong elements", head->nwrong);
        return refuse(head, reason, why, why_bytes);
    }
    /* Without wrong elements a run fails by its speed alone. */
    if (strcmp(status, perf_status_name(PERF_PASSED)) != 0 &&
        strcmp(status, perf_status_name(PERF_FAILED)) != 0) {
        snprintf(reason, sizeof reason, "the status of its run is %.64s", status);
        return refuse(head, reason, why, why_bytes);
    }
    return 0;
}

int perf_heads_judge(char *why, size_t why_bytes)
{
    int code = 0;

    for (size_t i = 0; i < heads.n && code == 0; i++)
        code = judge_one(&heads.list[i], why, why_bytes);
    return code;
}

/* ---- the same machine and run? ---- */

struct check {
    const struct head *head;
    char *why;
    size_t why_bytes;
    int code;
};

static void differ(struct check *check, const char *what, const char *then, const char *now)
{
    if (check->code != 0 || !strcmp(then, now)) return;
    snprintf(check->why, check->why_bytes,
             "option --baseline: %s cannot be compared: %s is %s there and %s here "
             "(--baseline_anyway compares)",
             check->head->path, what, then, now);
    check->code = PERF_EXIT_COMPARE;
}

/* Fields of the record that must be equal. */
static void check_field(void *to, const struct perf_field *field)
{
    static const char *const decisive[] = {"collective",
                                           "nranks",
                                           "group_size",
                                           "nprocs",
                                           "nthreads",
                                           "ndevices",
                                           "device_kind",
                                           "ranks_per_device",
                                           "device_name",
                                           "init_mode",
                                           "barrier",
                                           "blocking",
                                           "time_of",
                                           "warmup",
                                           "rotate",
                                           "agg_iters",
                                           "cudagraph",
                                           "unalign",
                                           "stream_null",
                                           "local_register",
                                           "per_iter_timing",
                                           "cta_policy",
                                           "device_implementation",
                                           "device_cta_count"};
    struct check *check = to;
    char then[TEXT_BYTES], now[TEXT_BYTES];
    int is_decisive = 0;

    for (size_t i = 0; i < sizeof decisive / sizeof decisive[0]; i++)
        is_decisive |= !strcmp(field->key, decisive[i]);
    if (!is_decisive) return;
    if (field->kind == 't') {
        snprintf(then, sizeof then, "%s", perf_json_text(check->head->run, field->key, "unknown"));
        snprintf(now, sizeof now, "%s", field->text);
    } else {
        const struct perf_json_node *node = perf_json_member(check->head->run, field->key);

        number_text(node ? node->number : NAN, then, sizeof then);
        number_text((double)field->number, now, sizeof now);
    }
    differ(check, field->key, then, now);
}

static void check_machine(struct check *check)
{
    const struct perf_json_node *then = perf_json_member(check->head->run, "machine");
    char cpu[TEXT_BYTES], cores_then[TEXT_BYTES], cores_now[TEXT_BYTES];

    perf_machine_cpu(cpu, sizeof cpu);
    differ(check, "the processor", perf_json_text(then, "cpu", "unknown"), cpu);
    number_text(perf_json_number(then, "usable_cores", NAN), cores_then, sizeof cores_then);
    number_text(perf_machine_cores(), cores_now, sizeof cores_now);
    differ(check, "the number of usable cores", cores_then, cores_now);
}

static void check_gpus(struct check *check, const struct perf_json_node *gpus, const char *when)
{
    const struct perf_json_node *gpu = gpus != NULL ? gpus->child : NULL;

    for (; gpu != NULL && check->code == 0; gpu = gpu->next) {
        const char *throttled = perf_json_text(gpu, "throttled", "");

        if (!*throttled) continue;
        snprintf(check->why, check->why_bytes,
                 "option --baseline: %s cannot be compared: %s was throttled there %s: %s "
                 "(--baseline_anyway compares)",
                 check->head->path, perf_json_text(gpu, "uuid", "a GPU"), when, throttled);
        check->code = PERF_EXIT_COMPARE;
    }
}

int perf_heads_check(const struct perf_header *header, char *why, size_t why_bytes)
{
    struct perf_record record = {.options = header->options, .header = header};
    struct check check = {.why = why, .why_bytes = why_bytes};

    for (size_t i = 0; i < heads.n && check.code == 0; i++) {
        check.head = &heads.list[i];
        check_machine(&check);
        perf_record_each(&record, PERF_SCOPE_RUN, check_field, &check);
        check_gpus(&check, perf_json_member(perf_json_member(check.head->run, "machine"), "gpus"),
                   "before its run");
        check_gpus(&check, perf_json_member(check.head->end, "gpus_at_end"), "after its run");
    }
    return check.code;
}

void perf_heads_drop(void)
{
    for (size_t i = 0; i < heads.n; i++) {
        struct head *head = &heads.list[i];

        if (head->end != head->run) perf_json_drop(head->end);
        perf_json_drop(head->run);
    }
    free(heads.list);
    memset(&heads, 0, sizeof heads);
}
