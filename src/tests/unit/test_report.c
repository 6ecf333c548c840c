/* Reports: the columns of the table, and a JSON document that is valid whatever happens. */
#define _GNU_SOURCE
#include "harness/json.h"
#include "harness/report.h"
#include "harness/report_text.h"
#include "unit/capture.h"
#include "unit/scene.h"
#include "unit/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_json_strings(void)
{
    static const struct {
        const char *text, *json;
    } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"\"", "\"\\\"\""},
        {"\\", "\"\\\\\""},
        {"\n\t\x01\x1f", "\"\\u000a\\u0009\\u0001\\u001f\""},
        {"\x7f", "\"\\u007f\""},
        {"\xc3\xa9", "\"\xc3\xa9\""},                             /* e acute */
        {"\xe2\x82\xac", "\"\xe2\x82\xac\""},                     /* euro */
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},             /* 4 bytes */
        {"\xff", "\"\\ufffd\""},                                  /* never valid */
        {"\x80", "\"\\ufffd\""},                                  /* no start */
        {"a\xc3", "\"a\\ufffd\""},                                /* cut at the end */
        {"\xe2\x82", "\"\\ufffd\\ufffd\""},                       /* cut */
        {"\xc3(", "\"\\ufffd(\""},                                /* no continuation */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                       /* overlong */
        {"\xe0\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\""},            /* overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* too high */
        {"\xf8\x88\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* 5-byte start */
        {NULL, "null"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct perf_json json = {0};

        perf_json_string(&json, NULL, cases[i].text);
        CHECK_STR(json.text, cases[i].json);
        scene_check_json(json.text);
        perf_json_free(&json);
    }
}

static void test_json_nesting(void)
{
    struct perf_json json = {0};

    perf_json_open(&json, NULL, '{');
    perf_json_int(&json, "a", -5);
    perf_json_open(&json, "b", '[');
    perf_json_real(&json, NULL, 1.5);
    perf_json_real(&json, NULL, NAN);
    perf_json_real(&json, NULL, INFINITY);
    perf_json_open(&json, NULL, '{');
    perf_json_close(&json);
    perf_json_close(&json);
    perf_json_bool(&json, "c\"", 1);
    perf_json_close(&json);
    CHECK_STR(json.text, "{\"a\":-5,\"b\":[1.5,null,null,{}],\"c\\\"\":true}");
    CHECK_EQ(json.failed, 0);
    for (int i = 0; i <= PERF_JSON_DEPTH; i++) perf_json_open(&json, NULL, '[');
    CHECK_EQ(json.failed, 1);
    perf_json_free(&json);
}

static void test_columns(void)
{
    static const char *const expected[] = {"1024",  "256",    "float",  "sum", "-1",
                                           "12.50", "0.5000", "0.8750", "0",   "123.4",
                                           "1.25",  "2.19",   "0"};
    struct capture capture;
    struct scene scene;
    char line[512], text[64];

    scene_start(&scene);
    scene.file[0] = 0;
    scene_run(&scene, &capture, NULL, 0);
    CHECK_EQ(capture.code, 0);
    scene_find_line(capture.out, "        1024", line, sizeof line);
    for (int i = 0; i < 13; i++)
        CHECK_STR(scene_field(line, i + 1, text, sizeof text), expected[i]);
    CHECK_STR(scene_field(line, 14, text, sizeof text), "");
    CHECK_HAS(capture.out,
              "#       size         count      type   redop    root     time   algbw   busbw  "
              "#wrong     time   algbw   busbw  #wrong\n");
    CHECK_HAS(capture.out, "#        (B)    (elements)                               (us)  (GB/s)");
    CHECK_HAS(capture.out, "# nThread 1 nGpus 0 minBytes 0 maxBytes 0 step: 1.5(factor) warmup");
    CHECK_HAS(capture.out, "# Using devices\n#  Rank  0 Group  0 Pid   4711 on        box device");
    CHECK_HAS(capture.out, "# busbw = algbw * 1.75: 2(n-1)/n with n = 8");
    CHECK_HAS(capture.out, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 OK\n");
    CHECK_HAS(capture.out, "#\n# Collective test concluded: all_reduce_perf\n");
    CHECK_HAS(capture.out, "# Command: all_reduce_perf 'a b' '?\"");
    CHECK_EQ(strstr(capture.out, "\033[") == NULL, 1);
    CHECK_STR(capture.err, "all_reduce_perf: note: all_reduce has no root; -r changes nothing\n");
    scene_end(&scene);
}

/* Every line but a row starts with #, also with all the extras. */
static void test_extra_columns(void)
{
    struct capture capture;
    struct scene scene;
    char line[512], text[64];

    scene_start(&scene);
    scene.file[0] = 0;
    scene.options = "ICSM";
    scene.row.in_place.run = 0;
    scene.row.out_of_place.iters =
        (struct perf_stats){.n = 5, .min = 3, .max = 4567, .p99 = 12345, .cv_percent = 0.5};
    scene.row.out_of_place.cputime_us = 7;
    scene_run(&scene, &capture, NULL, 0);
    scene_find_line(capture.out, "        1024", line, sizeof line);
    for (int i = 10; i <= 13; i++) CHECK_STR(scene_field(line, i, text, sizeof text), "-");
    CHECK_STR(scene_field(line, 14, text, sizeof text), "3.00");
    CHECK_STR(scene_field(line, 15, text, sizeof text), "4567.0");
    CHECK_STR(scene_field(line, 16, text, sizeof text), "12345");
    CHECK_STR(scene_field(line, 17, text, sizeof text), "0.5000");
    for (int i = 18; i <= 21; i++) CHECK_STR(scene_field(line, i, text, sizeof text), "-");
    CHECK_STR(scene_field(line, 22, text, sizeof text), "7.00");
    CHECK_STR(scene_field(line, 23, text, sizeof text), "-");
    CHECK_EQ(scene_field(line, 24, text, sizeof text)[4], '-');
    CHECK_EQ(scene_field(line, 25, text, sizeof text)[2], ':');
    CHECK_HAS(capture.out, "  i_min    i_max    i_p99    i_cv%");
    CHECK_HAS(capture.out, "# Memory usage         : library 1.0 MiB, buffers 3.0 MiB\n");
    scene_end(&scene);
}

static void test_special_rows(void)
{
    struct capture capture;
    struct scene scene;

    scene_start(&scene);
    scene.file[0] = 0;
    scene.note = "rank 2: element 7 is 3 (0x3), expected 4 (0x4)";
    scene.row.out_of_place.wrong = 5;
    scene.row.in_place.wrong = -1;
    scene.row.requested_bytes = 1030;
    scene.status = PERF_FAILED;
    scene_run(&scene, &capture, NULL, 0);
    CHECK_HAS(capture.out, "    N/A  FAIL  # asked 1030 B\n");
    CHECK_HAS(capture.out, "#   rank 2: element 7 is 3 (0x3), expected 4 (0x4)\n");
    CHECK_HAS(capture.out, "# Out of bounds values : 1 FAILED\n");
    CHECK_HAS(capture.out, "# Verdict              : FAILED\n");
    scene.row = scene_row;
    scene.row.skipped = 1;
    scene.row.out_of_place.run = scene.row.in_place.run = 0;
    scene_run(&scene, &capture, NULL, 0);
    CHECK_HAS(capture.out, "       -       -  skipped: does not fit in memory\n");
    scene_end(&scene);
}

static void test_one_rank(void)
{
    struct capture capture;
    struct scene scene;
    char json[16384], line[512], text[64];

    scene_start(&scene);
    scene.nranks = 1;
    scene_run(&scene, &capture, json, sizeof json);
    scene_find_line(capture.out, "        1024", line, sizeof line);
    CHECK_STR(scene_field(line, 8, text, sizeof text), "n/a");
    CHECK_STR(scene_field(line, 12, text, sizeof text), "n/a");
    CHECK_HAS(capture.out, "# busbw n/a: with one rank nothing crosses a link\n");
    CHECK_HAS(json, "\"bus_bw\":null");
    CHECK_HAS(json, "\"bus_factor\":null");
    scene_end(&scene);
}

static void test_document(void)
{
    static const char *const keys[] = {
        "\"schema_version\":2",
        "\"version\":",
        "\"start_time\":\"",
        "\"args\":[\"all_reduce_perf\",\"a b\",\"\\u0001\\\"\\ufffd\\\\\"]",
        "\"env\":[",
        "\"nccl_version\":",
        "\"config\":{\"nthreads\":1",
        "\"results\":[",
        "\"size\":1024",
        "\"count\":256",
        "\"type\":\"float\"",
        "\"redop\":\"sum\"",
        "\"root\":-1",
        "\"out_of_place\":{\"time\":12.5,\"alg_bw\":0.5,\"bus_bw\":0.875,\"nwrong\":0",
        "\"in_place\":null",
        "\"out_of_bounds\":{\"count\":0,\"okay\":true}",
        "\"average_bus_bandwidth\":{\"bandwidth\":1.5,\"okay\":true}",
        "\"errors\":[\"rank 3 died\"]",
        "\"end_time\":\"2",
        "\"status\":\"error\"",
        "\"error\":\"rank 3 died\"",
        "\"requested_size\":1024",
        "\"skipped\":false",
        "\"bus_factor\":1.75",
        "\"timing\":\"wall clock",
        "\"host\":\"",
        "\"git_hash\":",
        "\"library_path\":",
        "\"nranks\":8",
        "\"device_kind\":\"host\"",
        "\"init_mode\":\"all\"",
        "NCCL_TEST_REPORT=1"};
    struct capture capture;
    struct scene scene;
    char json[32768];

    scene_start(&scene);
    setenv("NCCL_TEST_REPORT", "1", 1);
    setenv("SECRET_TEST_REPORT", "1", 1);
    scene.status = PERF_ERROR;
    scene.row.in_place.run = 0;
    scene_run(&scene, &capture, json, sizeof json);
    unsetenv("NCCL_TEST_REPORT");
    unsetenv("SECRET_TEST_REPORT");
    for (size_t i = 0; i < TEST_COUNT(keys); i++) CHECK_HAS(json, keys[i]);
    CHECK(!strstr(json, "SECRET"));
    CHECK_HAS(capture.err, "all_reduce_perf: the record goes to ");
    CHECK_HAS(capture.out, "# error: rank 3 died\n");
    scene_end(&scene);
}

static void test_no_overwrite(void)
{
    struct capture capture;
    struct scene scene;
    char json[32768], first[32768], name[256];

    scene_start(&scene);
    scene_run(&scene, &capture, first, sizeof first);
    for (int i = 0; i < 2; i++) {
        scene.nrows = i;
        scene_run(&scene, &capture, json, sizeof json);
        CHECK_STR(json, first);
        snprintf(name, sizeof name, "%s.%d", scene.file, i);
        CHECK_HAS(capture.err, name);
        scene_read_file(name, json, sizeof json);
        scene_check_json(json);
        CHECK_HAS(json, "\"status\":\"passed\"");
    }
    scene_end(&scene);
}

/* Whenever it is killed, the document is whole. */
static void test_killed(void)
{
    struct capture capture;
    struct scene scene;
    char json[65536];

    for (int nrows = 0; nrows < 40; nrows += 13) {
        scene_start(&scene);
        scene.nrows = nrows;
        scene.death = SIGKILL;
        scene.note = nrows ? "rank 1: element 0 is wrong" : NULL;
        scene_run(&scene, &capture, json, sizeof json);
        CHECK_EQ(capture.code, 128 + SIGKILL);
        CHECK_HAS(json, "\"status\":\"running\"");
        CHECK_HAS(json, "\"end_time\":null");
        scene_end(&scene);
    }
}

static void test_full_disk(void)
{
    struct capture capture;
    struct scene scene;
    char json[65536];

    for (int limit = 5500; limit < 7000; limit += 211) {
        scene_start(&scene);
        scene.nrows = 30;
        scene.fsize_bytes = limit;
        scene_run(&scene, &capture, json, sizeof json);
        CHECK_EQ(capture.code, 3);
        CHECK_HAS(capture.err, "all_reduce_perf: option -J: cannot write ");
        CHECK_HAS(json, "\"status\":\"running\"");
        scene_end(&scene);
    }
}

static void test_no_directory(void)
{
    struct capture capture;
    struct scene scene;

    scene_start(&scene);
    strcpy(scene.file, "/nonexistent/out.json");
    scene_run(&scene, &capture, NULL, 0);
    CHECK_EQ(capture.code, 3);
    CHECK_HAS(capture.err, "option -J: cannot write /nonexistent/out.json: No such file");
    CHECK_STR(capture.out, "");
    scene_end(&scene);
}

static void test_reader_gone(void)
{
    struct capture capture;
    struct scene scene;

    scene_start(&scene);
    scene.file[0] = 0;
    scene.closed_stdout = 1;
    scene_run(&scene, &capture, NULL, 0);
    CHECK_EQ(capture.code, 128 + SIGPIPE);
    CHECK_STR(capture.err, "all_reduce_perf: note: all_reduce has no root; -r changes nothing\n");
    scene_end(&scene);
}

static void end_early(void *argument)
{
    const struct scene *scene = argument;
    struct perf_options options = {.json_file = scene->file};
    struct perf_footer footer = {.status = PERF_ERROR, .error = "no device"};

    perf_report_open(&options);
    perf_report_footer(&footer);
}

static void test_error_before_header(void)
{
    struct capture capture;
    struct scene scene;
    char json[16384];

    scene_start(&scene);
    capture_run(end_early, &scene, &capture);
    scene_read_file(scene.file, json, sizeof json);
    scene_check_json(json);
    CHECK_STR(capture.out, "# error: no device\n");
    CHECK_HAS(json, "\"status\":\"error\"");
    CHECK_HAS(json, "\"results\":[]");
    scene_end(&scene);
}

static void test_comma_locale(void)
{
    static const char *const names[] = {"de_DE.utf8", "de_DE.UTF-8", "fr_FR.utf8", "de_DE"};
    struct capture capture;
    struct scene scene;
    char json[16384];
    int tried = 0;

    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        scene_start(&scene);
        scene.locale = names[i];
        capture_run(scene_play, &scene, &capture);
        if (capture.code != 77) {
            scene_read_file(scene.file, json, sizeof json);
            scene_check_json(json);
            CHECK_HAS(json, "\"time\":12.5");
            CHECK_HAS(capture.out, "  12.50  ");
            tried++;
        }
        scene_end(&scene);
    }
    if (!tried) SKIP("no locale with a decimal comma is installed");
}

static void test_command(void)
{
    char *words[] = {(char *)"./x_perf", (char *)"-b", (char *)"8", (char *)"", (char *)"a'b", 0};
    char text[64];

    perf_report_command(5, words, text, sizeof text);
    CHECK_STR(text, "./x_perf -b 8 '' 'a?b'");
    perf_report_command(5, words, text, 24);
    CHECK_STR(text, "./x_perf -b 8 '' ...");
}

static const struct test_case cases[] = {
    {"JSON strings", test_json_strings, 0},
    {"JSON nesting", test_json_nesting, 0},
    {"columns", test_columns, 0},
    {"extra columns", test_extra_columns, 0},
    {"special rows", test_special_rows, 0},
    {"one rank", test_one_rank, 0},
    {"document", test_document, 0},
    {"never overwrites", test_no_overwrite, 0},
    {"killed", test_killed, 0},
    {"full disk", test_full_disk, 0},
    {"no directory", test_no_directory, 0},
    {"reader gone", test_reader_gone, 0},
    {"error before the header", test_error_before_header, 0},
    {"comma locale", test_comma_locale, 0},
    {"command line", test_command, 0},
};

TEST_MAIN(cases)
