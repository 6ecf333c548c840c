/* The played report. Used by test_report.c; the JSON checker is here because the tests must not
 * need a JSON library.
 */
#define _GNU_SOURCE
#include "unit/scene.h"

#include "harness/usage.h"
#include "unit/test.h"

#include <ctype.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- a JSON checker: returns what follows the value, NULL when it is none ---- */

static const char *check_value(const char *at);

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

static const char *check_string(const char *at)
{
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20) return NULL;
        if (*at != '\\') continue;
        at++;
        if (!*at || !strchr("\"\\/bfnrtu", *at)) return NULL;
        for (int i = 0; *at == 'u' && i < 4; i++)
            if (!isxdigit((unsigned char)at[1 + i])) return NULL;
    }
    return at + 1;
}

static const char *check_number(const char *at)
{
    char *end;

    if (*at != '-' && !isdigit((unsigned char)*at)) return NULL;
    strtod(at, &end);
    return end;
}

static const char *check_items(const char *at, int keyed, char closer)
{
    at = skip_blanks(at);
    if (*at == closer) return at + 1;
    for (;;) {
        if (keyed) {
            at = check_string(skip_blanks(at));
            if (!at || *(at = skip_blanks(at)) != ':') return NULL;
            at++;
        }
        at = check_value(at);
        if (!at) return NULL;
        at = skip_blanks(at);
        if (*at == closer) return at + 1;
        if (*at++ != ',') return NULL;
    }
}

static const char *check_value(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};

    at = skip_blanks(at);
    if (*at == '{') return check_items(at + 1, 1, '}');
    if (*at == '[') return check_items(at + 1, 0, ']');
    if (*at == '"') return check_string(at);
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, words[i], strlen(words[i]))) return at + strlen(words[i]);
    return check_number(at);
}

void scene_check_json(const char *text)
{
    const char *end = check_value(text);

    if (!end || *skip_blanks(end)) FAIL("no JSON document: %s", text);
}

void scene_read_file(const char *name, char *text, size_t text_bytes)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, text_bytes - 1);

    if (length < 0) FAIL("cannot read %s", name);
    text[length] = 0;
    close(fd);
}

/* ---- records ---- */

static double bus_factor(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

const struct perf_coll scene_coll = {.name = "all_reduce",
                                     .title = "AllReduce",
                                     .flags = PERF_HAS_OP | PERF_IN_PLACE,
                                     .bus_factor = bus_factor,
                                     .bus_formula = "2(n-1)/n"};

const struct perf_row scene_row = {
    .size_bytes = 1024,
    .requested_bytes = 1024,
    .count = 256,
    .type = 7,
    .op = 0,
    .root = -1,
    .from = -1,
    .to = -1,
    .out_of_place = {.run = 1, .time_us = 12.5, .algbw = 0.5, .busbw = 0.875},
    .in_place = {.run = 1, .time_us = 123.4, .algbw = 1.25, .busbw = 2.1875}};

void scene_start(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    snprintf(scene->directory, sizeof scene->directory, "%s/test_report.XXXXXX", P_tmpdir);
    if (!mkdtemp(scene->directory)) FAIL("no directory");
    snprintf(scene->file, sizeof scene->file, "%s/out.json", scene->directory);
    scene->options = "";
    scene->nranks = 8;
    scene->nrows = 3;
    scene->row = scene_row;
    scene->coll = &scene_coll;
    scene->status = PERF_PASSED;
}

void scene_end(const struct scene *scene)
{
    char name[256];

    unlink(scene->file);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%d", scene->file, i);
        unlink(name);
    }
    CHECK_EQ(rmdir(scene->directory), 0);
}

static void set_stage(const struct scene *scene)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)scene->fsize_bytes,
                           .rlim_max = (rlim_t)scene->fsize_bytes};
    int ends[2];

    perf_set_program("all_reduce_perf");
    if (scene->locale && !setlocale(LC_ALL, scene->locale)) _exit(77);
    if (scene->fsize_bytes) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (!scene->closed_stdout) return;
    signal(SIGPIPE, SIG_IGN);
    if (pipe(ends)) _exit(78);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
}

static void report_start(const struct scene *scene, struct perf_options *options)
{
    static char *words[] = {(char *)"all_reduce_perf", (char *)"a b", (char *)"\x01\"\xff\\", NULL};
    static struct perf_rank_info ranks[64]; /* rows name the header's devices */
    struct perf_header header = {.options = options,
                                 .coll = scene->coll,
                                 .nranks = scene->nranks,
                                 .group_size = scene->nranks,
                                 .ngroups = 1,
                                 .nprocs = 1,
                                 .ranks_per_device = 1,
                                 .ndevices = scene->nranks,
                                 .ranks = ranks,
                                 .init_call = "ncclCommInitAll",
                                 .init_mode = "all",
                                 .device_kind = "host",
                                 .nccl_version = 23007};

    memset(options, 0, sizeof *options);
    options->argc = 3;
    options->argv = words;
    options->threads = 1;
    options->step_factor = 1.5;
    options->average = 1;
    options->json_file = scene->file[0] ? scene->file : NULL;
    options->iter_report = strchr(scene->options, 'I') != NULL;
    options->report_cputime = strchr(scene->options, 'C') != NULL;
    options->timestamps = strchr(scene->options, 'S') != NULL;
    options->memory_report = strchr(scene->options, 'M') != NULL;
    options->op_given = options->root_given = 1;
    for (int i = 0; i < scene->nranks; i++) {
        ranks[i] = (struct perf_rank_info){.rank = i, .device = i, .pid = 4711};
        strcpy(ranks[i].host, "box");
        strcpy(ranks[i].pci, "host:00");
        strcpy(ranks[i].device_name, "host device");
    }
    perf_report_header(&header);
}

void scene_play(void *argument)
{
    const struct scene *scene = argument;
    struct perf_options options;
    struct perf_footer footer = {.out_of_bounds = scene->row.out_of_place.wrong > 0,
                                 .avg_busbw = 1.5,
                                 .avg_valid = 1,
                                 .min_busbw_wanted = 1.0,
                                 .status = scene->status,
                                 .error = scene->status == PERF_ERROR ? "rank 3 died" : NULL,
                                 .nrows = scene->nrows,
                                 .lib_bytes = 1 << 20,
                                 .buffer_bytes = 3 << 20};

    set_stage(scene);
    report_start(scene, &options);
    for (int i = 0; i < scene->nrows; i++) perf_report_row(&scene->row);
    if (scene->note) perf_report_note(scene->note);
    fflush(stdout);
    if (scene->death) raise(scene->death);
    perf_report_footer(&footer);
}

void scene_run(struct scene *scene, struct capture *capture, char *json, size_t json_bytes)
{
    capture_run(scene_play, scene, capture);
    if (!json) return;
    scene_read_file(scene->file, json, json_bytes);
    scene_check_json(json);
}

void scene_find_line(const char *output, const char *start, char *line, size_t line_bytes)
{
    const char *at = output;

    while (at && strncmp(at, start, strlen(start))) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    if (!at) FAIL("no line '%s' in %s", start, output);
    snprintf(line, line_bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

const char *scene_field(const char *line, int n, char *text, size_t text_bytes)
{
    const char *at = line;

    for (;;) {
        at += strspn(at, " ");
        if (!--n) break;
        at += strcspn(at, " ");
    }
    snprintf(text, text_bytes, "%.*s", (int)strcspn(at, " "), at);
    return text;
}
