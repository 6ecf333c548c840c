/* Tests of where parameters come from: environment before the user's file before the system's, what
 * lines say, and which mistakes are told. Each setting runs a "child:" case in a process of its
 * own, with files in a folder that is removed afterwards.
 */
#define _GNU_SOURCE
#include "base/conf.h"
#include "base/log.h"
#include "base/param.h"
#include "base/param_names.h"
#include "unit/test.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct test_output output;

/* Files of a case: the user's home with its file, the system's file, and one that is named. */
static char folder[512], home_file[600], system_file[600], named_file[600];
static char set_home[700], set_system[700], set_named[700];

static void make_folder(void)
{
    const char *parent = getenv("TEST_TMP");
    snprintf(folder, sizeof folder, "%.400s/test-params-XXXXXX",
             parent == NULL ? P_tmpdir : parent);
    CHECK(mkdtemp(folder) != NULL);
    snprintf(home_file, sizeof home_file, "%s/.nccl.conf", folder);
    snprintf(system_file, sizeof system_file, "%s/system.conf", folder);
    snprintf(named_file, sizeof named_file, "%s/named.conf", folder);
    snprintf(set_home, sizeof set_home, "HOME=%s", folder);
    snprintf(set_system, sizeof set_system, "TEST_SYSTEM_CONF=%s", system_file);
    snprintf(set_named, sizeof set_named, "NCCL_CONF_FILE=%s", named_file);
}

static void remove_folder(void)
{
    unlink(home_file);
    unlink(system_file);
    unlink(named_file);
    rmdir(folder);
}

static void write_bytes(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK_EQ(fwrite(text, 1, bytes, file), bytes);
    CHECK_EQ(fclose(file), 0);
}

/* NULL: there is no such file. */
static void write_file(const char *path, const char *text)
{
    unlink(path);
    if (text != NULL) write_bytes(path, text, strlen(text));
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
    return n;
}

/* ---- what the child has ---- */

static void use_files(void)
{
    const char *path = getenv("TEST_SYSTEM_CONF");
    if (path != NULL) ccl_conf_system_path = path;
}

static const char *text_of(enum ccl_param param)
{
    const char *text = ccl_param_text(param);
    return text == NULL ? "-" : text;
}

static void child_values(void)
{
    use_files();
    printf("%s %s %s %" PRId64, text_of(CCL_PARAM_ALGO), text_of(CCL_PARAM_PROTO),
           text_of(CCL_PARAM_HOSTID), ccl_param_int(CCL_PARAM_HOST_DEVICES));
}

/* Runs a child with the case's files, and with two more settings. */
static void run_child(const char *name, const char *first, const char *second)
{
    const char *const env[] = {"NCCL_CONF_FILE",
                               "NCCL_DEBUG=WARN",
                               "NCCL_DEBUG_FILE",
                               set_home,
                               set_system,
                               first,
                               second,
                               NULL};
    test_exec_case(name, env, &output);
    CHECK_EQ(output.code, 0);
}

/* ---- who wins ---- */

struct source_row {
    const char *env;                   /* a further setting */
    const char *home, *system, *named; /* files; named: NCCL_CONF_FILE names it */
    const char *expected;              /* NCCL_ALGO NCCL_PROTO NCCL_HOSTID CHORUS_HOST_DEVICES */
};

static const struct source_row source_rows[] = {
    {"NCCL_ALGO", NULL, NULL, NULL, "- - - 8"},
    {"NCCL_ALGO", "NCCL_ALGO=ring\n", NULL, NULL, "ring - - 8"},
    {"NCCL_ALGO", NULL, "NCCL_ALGO=ring\n", NULL, "ring - - 8"},
    {"NCCL_ALGO", NULL, NULL, "NCCL_ALGO=ring\n", "ring - - 8"},
    {"NCCL_ALGO=tree", "NCCL_ALGO=ring\n", "NCCL_ALGO=pat\n", NULL, "tree - - 8"},
    {"NCCL_ALGO=tree", NULL, "NCCL_ALGO=pat\n", "NCCL_ALGO=ring\n", "tree - - 8"},
    {"NCCL_ALGO", "NCCL_ALGO=ring\n", "NCCL_ALGO=pat\n", NULL, "ring - - 8"},
    {"NCCL_ALGO", "NCCL_ALGO=ring\n", "NCCL_ALGO=pat\n", "NCCL_ALGO=tree\n", "tree - - 8"},
    {"NCCL_ALGO", "NCCL_ALGO=ring\n", "NCCL_PROTO=LL\n", "NCCL_HOSTID=a\n", "- LL a 8"},
    {"NCCL_ALGO", "NCCL_ALGO=ring\n", "NCCL_PROTO=LL\n", NULL, "ring LL - 8"},
    {"NCCL_ALGO=", "NCCL_ALGO=ring\n", NULL, NULL, "- - - 8"}, /* empty: the default */
    {"NCCL_ALGO", "NCCL_ALGO=\n", "NCCL_ALGO=pat\n", NULL, "- - - 8"},
    {"CHORUS_HOST_DEVICES", "CHORUS_HOST_DEVICES=3\n", "CHORUS_HOST_DEVICES=4\n", NULL, "- - - 3"},
    {"CHORUS_HOST_DEVICES=5", "CHORUS_HOST_DEVICES=3\n", NULL, NULL, "- - - 5"},
    {"CHORUS_HOST_DEVICES=", "CHORUS_HOST_DEVICES=3\n", NULL, NULL, "- - - 8"},
    {"CHORUS_HOST_DEVICES", NULL, "CHORUS_HOST_DEVICES=0x10", NULL, "- - - 16"},
};

static void test_sources(void)
{
    make_folder();
    for (size_t i = 0; i < TEST_COUNT(source_rows); i++) {
        const struct source_row *row = &source_rows[i];
        NOTE("row %zu: %s", i, row->env);
        write_file(home_file, row->home);
        write_file(system_file, row->system);
        write_file(named_file, row->named);
        run_child("child:values", row->env, row->named == NULL ? "NCCL_CONF_FILE" : set_named);
        CHECK_STR(output.out, row->expected);
        CHECK_STR(output.err, "");
    }
    remove_folder();
}

/* ---- lines ---- */

struct line_row {
    const char *text;
    const char *expected;
    const char *warning; /* after the path; NULL: none */
};

static const struct line_row line_rows[] = {
    {"", "- - - 8", NULL},
    {"\n\n  \t\n# NCCL_ALGO=ring\n   # more\n", "- - - 8", NULL},
    {"  NCCL_ALGO  =\tring  \r\n", "ring - - 8", NULL},
    {"NCCL_ALGO=ring # for now\n", "ring - - 8", NULL},
    {"NCCL_ALGO=#ring\n", "- - - 8", NULL},
    {"NCCL_HOSTID=a#b\n", "- - a#b 8", NULL},
    {"NCCL_HOSTID=a=b\n", "- - a=b 8", NULL},
    {"NCCL_HOSTID=one\tword", "- - one\tword 8", NULL},
    {"NCCL_ALGO=ring\nNCCL_PROTO=LL", "ring LL - 8", NULL},
    {"NCCL_ALGO=ring\nNCCL_ALGO=tree\n", "ring - - 8",
     ", line 2: 'NCCL_ALGO=tree' has no effect after line 1"},
    {"\nNCCL_ALGO ring\nNCCL_PROTO=LL\n", "- LL - 8",
     ", line 2: 'NCCL_ALGO ring' is not KEY=VALUE"},
    {"=ring\nNCCL_PROTO=LL\n", "- LL - 8", ", line 1: '=ring' has no name of a variable"},
    {"export NCCL_ALGO=ring\n", "- - - 8", "'export NCCL_ALGO=ring' has no name of a variable"},
    {"1NCCL=ring\n", "- - - 8", "'1NCCL=ring' has no name of a variable"},
    {"CUDA_DEVICE_ORDER=x\n", "- - - 8", "'CUDA_DEVICE_ORDER=x' sets no variable of the library"},
    {"NCCL_CONF_FILE=/x\n", "- - - 8", "'NCCL_CONF_FILE=/x' has no effect in a file"},
    {"NCCL_ALGOS=ring\n", "- - - 8", ", line 1: NCCL_ALGOS is unknown; did you mean NCCL_ALGO?"},
    {"NCCL_SOMETHING_ELSE=1\n", "- - - 8", NULL},
    {"NCCL_NET=IB\n", "- - - 8", NULL},
    {"# x\nCHORUS_HOST_DEVICES=many\n", "- - - 8", "line 2) is not a number from 1 to 64; using 8"},
};

static void test_lines(void)
{
    make_folder();
    for (size_t i = 0; i < TEST_COUNT(line_rows); i++) {
        const struct line_row *row = &line_rows[i];
        NOTE("row %zu", i);
        write_file(named_file, row->text);
        run_child("child:values", set_named, "NCCL_ALGO");
        CHECK_STR(output.out, row->expected);
        CHECK_EQ(count_of(output.err, "\n"), row->warning != NULL);
        if (row->warning != NULL) CHECK_HAS(output.err, row->warning);
        if (row->warning != NULL) CHECK_HAS(output.err, named_file);
    }
    remove_folder();
}

static void test_long_and_binary_lines(void)
{
    static char text[6000];
    make_folder();
    memset(text, 'x', sizeof text);
    memcpy(text, "NCCL_HOSTID=", 12);
    memcpy(text + 5000, "\nNCCL_PROTO=LL\n", 15);
    write_bytes(named_file, text, 5015);
    run_child("child:values", set_named, "NCCL_ALGO");
    CHECK_STR(output.out, "- LL - 8");
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, ", line 1: 'NCCL_HOSTID=xxx");
    CHECK_HAS(output.err, "is longer than 4094 bytes");

    memcpy(text, "NCCL_ALGO=ring\nNCCL\0PROTO=LL\nNCCL_PROTO=LL\n", 44);
    write_bytes(named_file, text, 44);
    run_child("child:values", set_named, "NCCL_ALGO");
    CHECK_STR(output.out, "ring - - 8");
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, ", line 2: 'NCCL' has a zero byte");
    remove_folder();
}

/* ---- files ---- */

static void test_files_that_cannot_be_read(void)
{
    char folder_named[700];
    make_folder();
    run_child("child:values", set_named, "NCCL_ALGO");
    CHECK_STR(output.out, "- - - 8");
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, named_file);
    CHECK_HAS(output.err, "cannot be read: No such file or directory");

    snprintf(folder_named, sizeof folder_named, "NCCL_CONF_FILE=%s", folder);
    run_child("child:values", folder_named, "NCCL_ALGO");
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, "cannot be read: Is a directory");

    /* Only who asked for a file is told that there is none, but one that is there must be good. */
    run_child("child:values", "NCCL_ALGO", "NCCL_PROTO");
    CHECK_STR(output.err, "");
    CHECK_EQ(mkdir(home_file, 0700), 0);
    run_child("child:values", "NCCL_ALGO", "NCCL_PROTO");
    CHECK_EQ(rmdir(home_file), 0);
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, "/.nccl.conf cannot be read: Is a directory");
    remove_folder();
}

static void test_one_file_is_read_once(void)
{
    make_folder();
    write_file(named_file, "nonsense\n");
    snprintf(set_system, sizeof set_system, "TEST_SYSTEM_CONF=%s", named_file);
    run_child("child:values", set_named, "NCCL_ALGO");
    CHECK_EQ(count_of(output.err, "nonsense"), 1);
    remove_folder();
}

static void child_home(void)
{
    char path[4096];
    CHECK(ccl_conf_home_path(path, sizeof path));
    printf("%s", path);
    CHECK(!ccl_conf_home_path(path, 5));
}

static void test_home(void)
{
    char expected[4200];
    const struct passwd *user = getpwuid(getuid());
    run_child("child:home", "HOME=/somewhere/else", "NCCL_ALGO");
    CHECK_STR(output.out, "/somewhere/else/.nccl.conf");
    if (user == NULL) SKIP("this user is not in the password database");
    snprintf(expected, sizeof expected, "%s/.nccl.conf", user->pw_dir);
    run_child("child:home", "HOME", "NCCL_ALGO");
    CHECK_STR(output.out, expected);
    run_child("child:home", "HOME=", "NCCL_ALGO");
    CHECK_STR(output.out, expected);
}

/* ---- the log starts from a file ---- */

static void child_log(void)
{
    use_files();
    ccl_log(CCL_LOG_WARN, CCL_LOG_INIT, "first line");
    (void)ccl_param_int(CCL_PARAM_HOST_DEVICES);
}

static void test_log_from_file(void)
{
    make_folder();
    write_file(named_file, "NCCL_DEBUG=WARN\nnonsense\n");
    run_child("child:log", set_named, "NCCL_DEBUG");
    CHECK_HAS(output.err, "first line\n");
    CHECK_HAS(output.err, ", line 2: 'nonsense' is not KEY=VALUE\n");
    CHECK_EQ(count_of(output.err, "\n"), 2);
    run_child("child:log", set_named, "NCCL_DEBUG="); /* set in the environment: off */
    CHECK_STR(output.err, "");
    write_file(named_file, "NCCL_DEBUG=INFO\nNCCL_NET=IB\n");
    run_child("child:log", set_named, "NCCL_DEBUG");
    CHECK_HAS(output.err, "INFO NCCL_DEBUG=INFO, from ");
    CHECK_HAS(output.err, "line 2: NCCL_NET has no effect: no data goes over a network\n");
    remove_folder();
}

static void child_read_once(void)
{
    use_files();
    CHECK_STR(text_of(CCL_PARAM_ALGO), "ring");
    write_file(ccl_param_text(CCL_PARAM_CONF_FILE), "NCCL_ALGO=tree\n");
    setenv("NCCL_ALGO", "pat", 1);
    CHECK_STR(text_of(CCL_PARAM_ALGO), "ring");
}

static void test_read_once(void)
{
    make_folder();
    write_file(named_file, "NCCL_ALGO=ring\n");
    run_child("child:read once", set_named, "NCCL_ALGO");
    remove_folder();
}

/* ---- names ---- */

struct name_row {
    const char *name, *nearest;
};

static const struct name_row name_rows[] = {
    {"NCCL_ALGO", NULL},
    {"NCCL_NET", NULL}, /* accepted without effect */
    {"NCCL_AGLO", "NCCL_ALGO"},
    {"NCCL_ALGOS", "NCCL_ALGO"},
    {"NCCL_DEBUGFILE", "NCCL_DEBUG_FILE"},
    {"NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"},
    {"NCCL_IB_HCAS", "NCCL_IB_HCA"},
    {"CHORUS_HOST_DEVCIES", "CHORUS_HOST_DEVICES"},
    {"NCCL_HOST_DEVICES", "CHORUS_HOST_DEVICES"},
    {"CHORUS_DEBUG", "NCCL_DEBUG"},
    {"NCCL_ROOT", NULL}, /* where programs are told to look for the library */
    {"NCCL_HOME", NULL},
    {"NCCL_VERSION", NULL},
    {"NCCL_LIBRARY", NULL},
    {"NCCL_TESTS_DEVICE", NULL},
    {"NCCL_TESTS_MIN_BW", NULL},
    {"CHORUS_FAULTS", NULL},
    {"CHORUS_SETUP", NULL},
    {"CHORUS_TEST_SLICE", NULL},
    {"NCCL_BLOCKING_WAIT", NULL},
    {"NCCL_ASYNC_ERROR_HANDLING", NULL},
    {"NCCL_", NULL},
    {"PATH", NULL},
    {"nccl_algo", NULL},
};

static void test_names(void)
{
    char name[300] = "NCCL_";
    for (size_t i = 0; i < TEST_COUNT(name_rows); i++) {
        NOTE("%s", name_rows[i].name);
        CHECK_STR(ccl_param_nearest(name_rows[i].name), name_rows[i].nearest);
    }
    memset(name + 5, 'A', sizeof name - 6);
    CHECK_STR(ccl_param_nearest(name), NULL);
}

/* Rows of param_known.h. */
static const char *const known[][2] = {
#define CCL_KNOWN(env, why) {env, why},
#include "base/param_known.h"
#undef CCL_KNOWN
};

static void test_known_names(void)
{
    for (size_t i = 0; i < TEST_COUNT(known); i++) {
        NOTE("%s", known[i][0]);
        CHECK(ccl_param_is_ours(known[i][0]));
        CHECK_STR(ccl_param_no_effect(known[i][0]), known[i][1]);
        CHECK_EQ(ccl_param_find(known[i][0]), CCL_PARAM_COUNT); /* in one of both tables */
        if (i > 0) CHECK(strcmp(known[i - 1][0], known[i][0]) < 0);
    }
    for (int i = 0; i < CCL_PARAM_COUNT; i++) {
        const char *name = ccl_param_name((enum ccl_param)i);
        CHECK_EQ(ccl_param_find(name), i);
        CHECK_STR(ccl_param_no_effect(name), NULL);
        if (i > 0) CHECK(strcmp(ccl_param_name((enum ccl_param)(i - 1)), name) < 0);
    }
}

static void test_names_in_the_environment(void)
{
    make_folder();
    run_child("child:values", "NCCL_ALOG=ring", "NCCL_IB_HCA=mlx5");
    CHECK_STR(output.out, "- - - 8");
    CHECK_EQ(count_of(output.err, "\n"), 1);
    CHECK_HAS(output.err, "environment: NCCL_ALOG is unknown; did you mean NCCL_ALGO?");
    run_child("child:values", "NCCL_SOMETHING_ELSE=1", "NCCL_VERSION=2.30.7");
    CHECK_STR(output.err, "");
    remove_folder();
}

static const struct test_case cases[] = {
    {"params: environment, user's file, system's file", test_sources, 0},
    {"params: lines of a file", test_lines, 0},
    {"params: lines that are too long, or no text", test_long_and_binary_lines, 0},
    {"params: files that cannot be read", test_files_that_cannot_be_read, 0},
    {"params: a file that is named twice is read once", test_one_file_is_read_once, 0},
    {"params: home without HOME", test_home, 0},
    {"params: the log starts from a file", test_log_from_file, 0},
    {"params: read once", test_read_once, 0},
    {"params: names that are near", test_names, 0},
    {"params: names stand in one table, sorted", test_known_names, 0},
    {"params: mistyped names in the environment", test_names_in_the_environment, 0},
    {"child:values", child_values, 0},
    {"child:home", child_home, 0},
    {"child:log", child_log, 0},
    {"child:read once", child_read_once, 0},
};

TEST_MAIN(cases)
