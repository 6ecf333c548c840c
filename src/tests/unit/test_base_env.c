/* Tests of what the base layer reads once per process from the environment: log, parameters and
 * fault points. Each setting runs a "child:" case of this program in a process of its own.
 */
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/doorbell.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/param.h"
#include "unit/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_output output;

static void run(const char *name, const char *const env[])
{
    test_exec_case(name, env, &output);
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) lines += *text == '\n';
    return lines;
}

/* ---- log ---- */

static void child_log_all(void)
{
    ccl_log(CCL_LOG_VERSION, CCL_LOG_INIT, "version line");
    ccl_log(CCL_LOG_WARN, CCL_LOG_NET, "warn line");
    CCL_INFO(CCL_LOG_INIT, "info line of init %d", 7);
    CCL_INFO(CCL_LOG_NET, "info line of net");
    CCL_INFO(CCL_LOG_COLL | CCL_LOG_NET, "info line of coll or net");
    ccl_log(CCL_LOG_TRACE, CCL_LOG_INIT, "trace line");
}

struct log_row {
    const char *level, *subsys;
    int version, warn, init, net, either, trace;
};

static const struct log_row log_rows[] = {
    {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", 0, 0, 0, 0, 0, 0},
    {"NCCL_DEBUG=VERSION", "NCCL_DEBUG_SUBSYS", 1, 0, 0, 0, 0, 0},
    {"NCCL_DEBUG=WARN", "NCCL_DEBUG_SUBSYS", 1, 1, 0, 0, 0, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS", 1, 1, 1, 0, 0, 0},
    {"NCCL_DEBUG=info", "NCCL_DEBUG_SUBSYS=NET", 1, 1, 0, 1, 1, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=all", 1, 1, 1, 1, 1, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=^NET", 1, 1, 1, 0, 1, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=^NET,COLL", 1, 1, 1, 0, 0, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=nothing", 1, 1, 0, 0, 0, 0},
    {"NCCL_DEBUG=TRACE", "NCCL_DEBUG_SUBSYS=INIT,NET", 1, 1, 1, 1, 1, 1},
    {"NCCL_DEBUG=loud", "NCCL_DEBUG_SUBSYS=ALL", 0, 0, 0, 0, 0, 0},
    {"NCCL_DEBUG=", "NCCL_DEBUG_SUBSYS=ALL", 0, 0, 0, 0, 0, 0},
    {"NCCL_DEBUG=ABORT", "NCCL_DEBUG_SUBSYS=NET", 1, 1, 0, 1, 1, 0},
    {"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=^ALL", 1, 1, 0, 0, 0, 0},
};

static void check_log_row(const struct log_row *row)
{
    NOTE("%s %s", row->level, row->subsys);
    run("child:log all", ENV(row->level, row->subsys, "NCCL_DEBUG_FILE"));
    CHECK_EQ(output.code, 0);
    CHECK_STR(output.out, "");
    CHECK_EQ(strstr(output.err, "version line") != NULL, row->version);
    CHECK_EQ(strstr(output.err, "warn line") != NULL, row->warn);
    CHECK_EQ(strstr(output.err, "info line of init 7") != NULL, row->init);
    CHECK_EQ(strstr(output.err, "info line of net") != NULL, row->net);
    CHECK_EQ(strstr(output.err, "info line of coll or net") != NULL, row->either);
    CHECK_EQ(strstr(output.err, "trace line") != NULL, row->trace);
}

static void test_log_levels(void)
{
    for (size_t i = 0; i < TEST_COUNT(log_rows); i++) check_log_row(&log_rows[i]);
}

static void test_log_line_form(void)
{
    char host[64] = "", start[128];
    gethostname(host, sizeof host - 1);
    run("child:log all",
        ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE", "NCCL_DEBUG_TIMESTAMP_LEVELS=^ALL"));
    snprintf(start, sizeof start, "%s:", host);
    CHECK(strncmp(output.err, start, strlen(start)) == 0);
    CHECK_HAS(output.err, "CHORUS WARN warn line\n");
}

/* The words of each line that start it, for a time that is always the same. */
static void check_stamps(const char *levels, const char *version, const char *warn,
                         const char *info)
{
    const char *want[] = {version, warn, info};
    NOTE("%s", levels);
    run("child:log all", ENV("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=COLL", "NCCL_DEBUG_FILE", levels,
                             "NCCL_DEBUG_TIMESTAMP_FORMAT=<at%%>"));
    char *line = strtok(output.err, "\n");
    for (int i = 0; i < 3; i++, line = strtok(NULL, "\n")) {
        CHECK(line != NULL);
        CHECK_EQ(strncmp(line, "<at%> ", 6) == 0, want[i][0] == '<');
    }
}

static void test_log_stamps(void)
{
    check_stamps("NCCL_DEBUG_TIMESTAMP_LEVELS", "", "<", "");
    check_stamps("NCCL_DEBUG_TIMESTAMP_LEVELS=info", "", "", "<");
    check_stamps("NCCL_DEBUG_TIMESTAMP_LEVELS=VERSION,INFO", "<", "", "<");
    check_stamps("NCCL_DEBUG_TIMESTAMP_LEVELS=^WARN", "<", "", "<");
    check_stamps("NCCL_DEBUG_TIMESTAMP_LEVELS=ALL", "<", "<", "<");
}

/* Days, hours and fractions have fixed places. */
static void test_log_stamp_forms(void)
{
    int year, month, day, hour, minute, second, used = 0;
    run("child:log all", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE", "NCCL_DEBUG_TIMESTAMP_FORMAT",
                             "NCCL_DEBUG_TIMESTAMP_LEVELS"));
    const char *line = strchr(output.err, '\n') + 1; /* the first is of level VERSION */
    CHECK_EQ(sscanf(line, "[%4d-%2d-%2d %2d:%2d:%2d] %n", &year, &month, &day, &hour, &minute,
                    &second, &used),
             6);
    CHECK_EQ(used, 22);
    run("child:log all", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE", "NCCL_DEBUG_TIMESTAMP_LEVELS",
                             "NCCL_DEBUG_TIMESTAMP_FORMAT=%%1f.%3f_%9f"));
    line = strchr(output.err, '\n') + 1;
    CHECK_EQ(strncmp(line, "%1f.", 4), 0);
    CHECK_EQ(strspn(line + 4, "0123456789"), 3);
    CHECK_EQ(line[7], '_');
    CHECK_EQ(strspn(line + 8, "0123456789"), 9);
    CHECK_EQ(line[17], ' ');
}

static void test_log_names_unknown_words(void)
{
    run("child:log all", ENV("NCCL_DEBUG=loud", "NCCL_DEBUG_FILE"));
    CHECK_EQ(count_lines(output.err), 1);
    CHECK_HAS(output.err, "NCCL_DEBUG=loud is none of VERSION");
    run("child:log all", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_SUBSYS=INIT,COL", "NCCL_DEBUG_FILE"));
    CHECK_HAS(output.err, "NCCL_DEBUG_SUBSYS: 'COL' is unknown");
    run("child:log all",
        ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_TIMESTAMP_LEVELS=TRACE,warnings", "NCCL_DEBUG_FILE"));
    CHECK_HAS(output.err, "NCCL_DEBUG_TIMESTAMP_LEVELS: 'warnings' is unknown");
}

static void child_log_file(void)
{
    printf("%d", (int)getpid());
    ccl_log(CCL_LOG_WARN, CCL_LOG_INIT, "into the file");
}

static void test_log_file(void)
{
    static char folder[1024], variable[1200], path[1200];
    char host[64] = "", text[512] = "";
    const char *parent = getenv("TEST_TMP");
    snprintf(folder, sizeof folder, "%s/test-log-XXXXXX", parent == NULL ? P_tmpdir : parent);
    CHECK(mkdtemp(folder) != NULL);
    gethostname(host, sizeof host - 1);
    snprintf(variable, sizeof variable, "NCCL_DEBUG_FILE=%s/log.%%h.%%p.100%%%%", folder);
    run("child:log file", ENV(variable, "NCCL_DEBUG=WARN"));
    CHECK_EQ(output.code, 0);
    CHECK_STR(output.err, "");
    snprintf(path, sizeof path, "%s/log.%s.%.20s.100%%", folder, host, output.out);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        CHECK(fgets(text, sizeof text, file) != NULL);
        fclose(file);
        unlink(path);
    }
    rmdir(folder);
    CHECK(file != NULL);
    CHECK_HAS(text, "into the file\n");
}

static void test_log_file_that_cannot_be_made(void)
{
    run("child:log file", ENV("NCCL_DEBUG_FILE=/nonexistent/folder/log", "NCCL_DEBUG=WARN"));
    CHECK_EQ(output.code, 0);
    CHECK_HAS(output.err, "into the file"); /* falls back to stderr */
    CHECK_HAS(output.err, "/nonexistent/folder/log: No such file");
}

static void test_log_file_name_too_long(void)
{
    static char variable[6000];
    memset(variable, 'x', sizeof variable - 1);
    memcpy(variable, "NCCL_DEBUG_FILE=/%h", 19);
    run("child:log file", ENV(variable, "NCCL_DEBUG=WARN"));
    CHECK_EQ(output.code, 0);
    CHECK_HAS(output.err, "into the file");
}

enum { LOG_THREADS = 4, LOG_LINES = 40 };

static void *log_lines(void *letter)
{
    char text[100];
    memset(text, *(char *)letter, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < LOG_LINES; i++) ccl_log(CCL_LOG_WARN, CCL_LOG_INIT, "<%s>", text);
    return NULL;
}

static void child_log_threads(void)
{
    pthread_t threads[LOG_THREADS];
    char letters[LOG_THREADS] = {'a', 'b', 'c', 'd'};
    for (int i = 0; i < LOG_THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, log_lines, &letters[i]), 0);
    for (int i = 0; i < LOG_THREADS; i++) pthread_join(threads[i], NULL);
}

static void test_log_lines_never_mix(void)
{
    run("child:log threads", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE"));
    CHECK_EQ(count_lines(output.err), LOG_THREADS * LOG_LINES);
    for (char *line = strtok(output.err, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        const char *text = strchr(line, '<');
        CHECK(text != NULL);
        CHECK_EQ(strspn(text + 1, (char[]){text[1], '\0'}), 99);
        CHECK_STR(text + 100, ">");
    }
}

static void child_log_long(void)
{
    char text[5000];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ccl_log(CCL_LOG_WARN, CCL_LOG_INIT, "%s", text);
    ccl_err(ncclSystemError, "an error is logged");
}

static void test_log_long_line_is_cut(void)
{
    run("child:log long", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE"));
    CHECK_EQ(output.code, 0);
    CHECK_EQ(count_lines(output.err), 2);
    CHECK_HAS(output.err, "CHORUS WARN an error is logged\n");
}

/* ---- parameters ---- */

static void child_param(void)
{
    printf("%" PRId64 " %" PRId64 " %s %s", ccl_param_int(CCL_PARAM_HOST_DEVICES),
           ccl_param_int(CCL_PARAM_HOST_QUEUES), ccl_param_text(CCL_PARAM_DEBUG_SUBSYS),
           ccl_param_text(CCL_PARAM_SOCKET_IFNAME) == NULL ? "unset" : "set");
}

struct param_row {
    const char *env, *expected;
    int warns;
};

static const struct param_row param_rows[] = {
    {"CHORUS_HOST_DEVICES", "8 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"CHORUS_HOST_DEVICES=3", "3 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"CHORUS_HOST_DEVICES=0x10", "16 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"CHORUS_HOST_DEVICES=64", "64 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"CHORUS_HOST_DEVICES=", "8 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"CHORUS_HOST_DEVICES=0", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=65", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=-1", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=four", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=4x", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=4 ", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_DEVICES=99999999999999999999", "8 0 INIT,BOOTSTRAP,ENV unset", 1},
    {"CHORUS_HOST_QUEUES=8", "8 8 INIT,BOOTSTRAP,ENV unset", 0},
    {"NCCL_DEBUG_SUBSYS=COLL", "8 0 COLL unset", 0},
    {"NCCL_DEBUG_SUBSYS=", "8 0 INIT,BOOTSTRAP,ENV unset", 0},
    {"NCCL_SOCKET_IFNAME=eth", "8 0 INIT,BOOTSTRAP,ENV set", 0},
    {"NCCL_SOCKET_IFNAME=", "8 0 INIT,BOOTSTRAP,ENV unset", 0},
};

static void test_param_values_and_ranges(void)
{
    for (size_t i = 0; i < TEST_COUNT(param_rows); i++) {
        NOTE("%s", param_rows[i].env);
        run("child:param", ENV("NCCL_DEBUG=WARN", "NCCL_DEBUG_FILE", param_rows[i].env));
        CHECK_EQ(output.code, 0);
        CHECK_STR(output.out, param_rows[i].expected);
        CHECK_EQ(count_lines(output.err), param_rows[i].warns);
        if (param_rows[i].warns) CHECK_HAS(output.err, param_rows[i].env);
        if (param_rows[i].warns) CHECK_HAS(output.err, "from 1 to 64; using 8");
    }
}

static void *read_param(void *unused)
{
    CHECK_EQ(ccl_param_int(CCL_PARAM_HOST_DEVICES), 5);
    CHECK_STR(ccl_param_text(CCL_PARAM_DEBUG_SUBSYS), "COLL");
    return unused;
}

static void child_param_threads(void)
{
    pthread_t threads[8];
    for (size_t i = 0; i < TEST_COUNT(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, read_param, NULL), 0);
    for (size_t i = 0; i < TEST_COUNT(threads); i++) pthread_join(threads[i], NULL);
    setenv("CHORUS_HOST_DEVICES", "7", 1);
    CHECK_EQ(ccl_param_int(CCL_PARAM_HOST_DEVICES), 5);
}

static void test_param_is_read_once(void)
{
    run("child:param threads", ENV("CHORUS_HOST_DEVICES=5", "NCCL_DEBUG_SUBSYS=COLL"));
    CHECK_EQ(output.code, 0);
}

/* ---- fault points ---- */

/* Five allocations: prints which fail. */
static void child_fault(void)
{
    for (int i = 0; i < 5; i++) {
        void *memory = NULL;
        putchar(ccl_alloc(&memory, 1, 1) == ncclSuccess ? '.' : 'F');
        fflush(stdout);
        ccl_free(memory);
    }
}

struct fault_row {
    const char *env, *expected;
    int code;
};

static const struct fault_row fault_rows[] = {
    {"CHORUS_FAULTS", ".....", 0},
    {"CHORUS_FAULTS=", ".....", 0},
    {"CHORUS_FAULTS=alloc:1", "F....", 0},
    {"CHORUS_FAULTS=alloc:2", ".F...", 0},
    {"CHORUS_FAULTS=alloc:3+", "..FFF", 0},
    {"CHORUS_FAULTS=alloc:2:fail", ".F...", 0},
    {"CHORUS_FAULTS=other:1,alloc:4", "...F.", 0},
    {"CHORUS_FAULTS=other:1+", ".....", 0},
    {"CHORUS_FAULTS=alloc", ".....", 0},
    {"CHORUS_FAULTS=alloc:3:kill", "..", 128 + 9},
    {"CHORUS_FAULTS=alloc:4:exit", "...", 77},
};

static void test_fault_points(void)
{
#ifndef CCL_FAULTS
    SKIP("needs FAULTS=1");
#endif
    for (size_t i = 0; i < TEST_COUNT(fault_rows); i++) {
        NOTE("%s", fault_rows[i].env);
        run("child:fault", ENV(fault_rows[i].env));
        CHECK_EQ(output.code, fault_rows[i].code);
        CHECK_STR(output.out, fault_rows[i].expected);
    }
}

static void test_fault_points_cost_nothing(void)
{
#ifdef CCL_FAULTS
    SKIP("this build has fault points");
#endif
    run("child:fault", ENV("CHORUS_FAULTS=alloc:1+:kill"));
    CHECK_EQ(output.code, 0);
    CHECK_STR(output.out, ".....");
}

/* The doorbell's page cannot be made at first, and is made later. */
static void child_bell(void)
{
    struct ccl_bell *old = ccl_bell_self();
    uint32_t seen = ccl_bell_prepare(old);
    CHECK(ccl_bell_self() == old);
    CHECK(ccl_bell_self_fd() >= 0);
    CHECK(atomic_load(&old->rings) != seen);
    ccl_bell_sleep(old, seen, 30000000); /* returns at once */
    struct ccl_bell *bell = ccl_bell_self();
    CHECK(bell != old);
    seen = ccl_bell_prepare(bell);
    ccl_bell_ring(old);
    CHECK(atomic_load(&bell->rings) != seen);
    ccl_bell_sleep(bell, seen, 30000000);
    CHECK(ccl_bell_self() == bell);
    CHECK_EQ(atomic_load(&bell->sleepers), 0);
}

static void test_bell_made_later(void)
{
#ifndef CCL_FAULTS
    SKIP("needs FAULTS=1");
#endif
    run("child:bell", ENV("CHORUS_FAULTS=bell-memfd:1"));
    CHECK_EQ(output.code, 0);
}

static const struct test_case cases[] = {
    {"log: levels and subsystems", test_log_levels, 0},
    {"log: host, process, thread and level on a line", test_log_line_form, 0},
    {"log: times before lines of some levels", test_log_stamps, 0},
    {"log: forms of times", test_log_stamp_forms, 0},
    {"log: words that mean nothing are named", test_log_names_unknown_words, 0},
    {"log: file name with %h, %p and %%", test_log_file, 0},
    {"log: a file that cannot be made", test_log_file_that_cannot_be_made, 0},
    {"log: a file name that is too long", test_log_file_name_too_long, 0},
    {"log: lines of threads never mix", test_log_lines_never_mix, 0},
    {"log: a long line is cut and ended", test_log_long_line_is_cut, 0},
    {"param: values, ranges and one warning", test_param_values_and_ranges, 0},
    {"param: read once, by any thread", test_param_is_read_once, 0},
    {"fault: which pass acts, and how", test_fault_points, 0},
    {"fault: absent without FAULTS=1", test_fault_points_cost_nothing, 0},
    {"doorbell: rings reach the page that is made later", test_bell_made_later, 0},
    {"child:log all", child_log_all, 0},
    {"child:log file", child_log_file, 0},
    {"child:log threads", child_log_threads, 0},
    {"child:log long", child_log_long, 0},
    {"child:param", child_param, 0},
    {"child:param threads", child_param_threads, 0},
    {"child:fault", child_fault, 0},
    {"child:bell", child_bell, 0},
};

TEST_MAIN(cases)
