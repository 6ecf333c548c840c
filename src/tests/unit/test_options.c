/* Options: every row once, what is refused and with which words, and the texts made from the rows.
 */
#define _GNU_SOURCE
#include "harness/coll.h"
#include "harness/help.h"
#include "harness/options.h"
#include "harness/suggest.h"
#include "unit/capture.h"
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 32 };

static const struct perf_coll all_reduce = {.name = "all_reduce",
                                            .title = "AllReduce",
                                            .flags = PERF_HAS_OP | PERF_IN_PLACE,
                                            .bus_formula = "2(n-1)/n"};

/* Splits at blanks; a word "''" is the empty word. */
struct line {
    char text[512];
    char *words[MAX_WORDS];
    int nwords;
};

static void split_line(struct line *line, const char *text)
{
    char *rest = line->text, *word;

    snprintf(line->text, sizeof line->text, "all_reduce_perf %s", text);
    line->nwords = 0;
    while ((word = strsep(&rest, " ")) && line->nwords < MAX_WORDS - 1)
        if (*word) line->words[line->nwords++] = strcmp(word, "''") ? word : word + 2;
    line->words[line->nwords] = NULL;
}

static void parse_line(struct perf_options *options, struct line *line, const char *text)
{
    split_line(line, text);
    perf_options_parse(options, &all_reduce, line->nwords, line->words);
}

static void parse_in_child(void *text)
{
    struct perf_options options;
    struct line line;

    parse_line(&options, &line, text);
}

static void run_line(const char *text, struct capture *capture)
{
    char copy[512];

    snprintf(copy, sizeof copy, "%s", text);
    capture_run(parse_in_child, copy, capture);
}

static void test_defaults(void)
{
    struct perf_options options;
    struct line line;

    parse_line(&options, &line, "");
    CHECK_EQ(options.threads, 1);
    CHECK_EQ(options.gpus, 1);
    CHECK_EQ(options.min_bytes, 32 << 20);
    CHECK_EQ(options.max_bytes, 32 << 20);
    CHECK_EQ(options.step_bytes, 1 << 20);
    CHECK_NEAR(options.step_factor, 0, 0);
    CHECK_EQ(options.iters, 20);
    CHECK_EQ(options.warmup, 1);
    CHECK_EQ(options.agg_iters, 1);
    CHECK_EQ(options.run_cycles, 1);
    CHECK_EQ(options.check, 1);
    CHECK_EQ(options.op, 0);
    CHECK_STR(perf_type_name(options.type), "float");
    CHECK_EQ(options.root, 0);
    CHECK_EQ(options.average, 1);
    CHECK_NEAR(options.timeout_s, 120, 0);
    CHECK_EQ(options.cta_policy, -1);
    CHECK_EQ(options.init, PERF_INIT_AUTO);
    CHECK_EQ(options.spawn, 0);
    CHECK_STR(options.json_file, NULL);
    CHECK_EQ(options.op_given + options.root_given, 0);
    CHECK_EQ(options.argc, 1);
}

#define FIELD(name) offsetof(struct perf_options, name)

static const struct {
    const char *line;
    size_t offset; /* of an int */
    int value;
} int_cases[] = {
    {"-t 3", FIELD(threads), 3},
    {"--nthreads 3", FIELD(threads), 3},
    {"-g 8", FIELD(gpus), 8},
    {"-g8", FIELD(gpus), 8},
    {"--ngpus=8", FIELD(gpus), 8},
    {"--spawn 4", FIELD(spawn), 4},
    {"--init thread", FIELD(init), PERF_INIT_THREAD},
    {"--init=env", FIELD(init), PERF_INIT_ENV},
    {"--spawn 2 --init spawn", FIELD(init), PERF_INIT_SPAWN},
    {"-p 1", FIELD(parallel_init), 1},
    {"--parallel_init=1", FIELD(parallel_init), 1},
    {"--exact", FIELD(exact), 1},
    {"-u 3", FIELD(unaligned), 3},
    {"--unalign 3", FIELD(unaligned), 3},
    {"-o prod", FIELD(op), 1},
    {"-o max", FIELD(op), 2},
    {"-o min", FIELD(op), 3},
    {"-o avg", FIELD(op), 4},
    {"-o mulsum", FIELD(op), PERF_OP_MULSUM},
    {"--op=all", FIELD(op), PERF_ALL},
    {"-o sum", FIELD(op_given), 1},
    {"-d int8", FIELD(type), 0},
    {"-d uint8", FIELD(type), 1},
    {"-d int32", FIELD(type), 2},
    {"-d uint32", FIELD(type), 3},
    {"-d int64", FIELD(type), 4},
    {"-d uint64", FIELD(type), 5},
    {"-d half", FIELD(type), 6},
    {"-d float", FIELD(type), 7},
    {"-d double", FIELD(type), 8},
    {"-d bfloat16", FIELD(type), 9},
    {"-d f8e4m3", FIELD(type), 10},
    {"--datatype f8e5m2", FIELD(type), 11},
    {"-d all", FIELD(type), PERF_ALL},
    {"-r 5", FIELD(root), 5},
    {"-r all", FIELD(root), PERF_ALL},
    {"-r -1", FIELD(root), PERF_ALL},
    {"--root=-1", FIELD(root), PERF_ALL},
    {"-r 0", FIELD(root_given), 1},
    {"-z 3", FIELD(blocking), 3},
    {"--blocking 2", FIELD(blocking), 2},
    {"-y 1", FIELD(null_stream), 1},
    {"--stream_null 1", FIELD(null_stream), 1},
    {"-G 0", FIELD(graph_launches), 0},
    {"--cudagraph 0", FIELD(graph_launches), 0},
    {"-R 1", FIELD(local_register), 1},
    {"-R 2", FIELD(local_register), 2},
    {"--local_register 1", FIELD(local_register), 1},
    {"-x 0", FIELD(cta_policy), 0},
    {"--cta_policy 2", FIELD(cta_policy), 2},
    {"-D 0", FIELD(device_impl), 0},
    {"--device_implementation=0", FIELD(device_impl), 0},
    {"-n 0", FIELD(iters), 0},
    {"--iters 7", FIELD(iters), 7},
    {"-w 0", FIELD(warmup), 0},
    {"--warmup_iters 2", FIELD(warmup), 2},
    {"--warmup-iters 2", FIELD(warmup), 2},
    {"--warmup 2", FIELD(warmup), 2},
    {"-m 4", FIELD(agg_iters), 4},
    {"--agg_iters 4", FIELD(agg_iters), 4},
    {"-N 0", FIELD(run_cycles), 0},
    {"--run_cycles 2", FIELD(run_cycles), 2},
    {"-a 3", FIELD(average), 3},
    {"--average 0", FIELD(average), 0},
    {"-c 0", FIELD(check), 0},
    {"--check 5", FIELD(check), 5},
    {"--selftest", FIELD(selftest_only), 1},
    {"--preflight", FIELD(preflight), 1},
    {"-I 1", FIELD(iter_report), 1},
    {"--per_iter_timing 1", FIELD(iter_report), 1},
    {"-I 1 -K 19", FIELD(iter_skip), 19},
    {"-I 1 --per_iter_skip 1", FIELD(iter_skip), 1},
    {"-C 1", FIELD(report_cputime), 1},
    {"--report_cputime 1", FIELD(report_cputime), 1},
    {"-S 1", FIELD(timestamps), 1},
    {"--report_timestamps 1", FIELD(timestamps), 1},
    {"-M 1", FIELD(memory_report), 1},
    {"--memory 1", FIELD(memory_report), 1},
    {"--devices", FIELD(show_devices), 1},
    {"-g 2 -g 4", FIELD(gpus), 4},
    {"-d double -d half", FIELD(type), 6},
    {"-n 5 --", FIELD(iters), 5},
};

static void test_each(void)
{
    for (size_t i = 0; i < TEST_COUNT(int_cases); i++) {
        struct perf_options options;
        struct line line;
        int value;

        parse_line(&options, &line, int_cases[i].line);
        memcpy(&value, (char *)&options + int_cases[i].offset, sizeof value);
        if (value != int_cases[i].value) FAIL("%s gives %d", int_cases[i].line, value);
    }
}

static void test_each_other(void)
{
    struct perf_options options;
    struct line line;

    parse_line(&options, &line, "-b 1.5k --maxbytes=2GiB -i 3 -f 1.5 -T .5 -J out.json");
    CHECK_EQ(options.min_bytes, 1536);
    CHECK_EQ(options.max_bytes, INT64_C(2) << 30);
    CHECK_EQ(options.step_bytes, 3);
    CHECK_NEAR(options.step_factor, 1.5, 0);
    CHECK_NEAR(options.timeout_s, 0.5, 1e-12);
    CHECK_STR(options.json_file, "out.json");
    parse_line(&options, &line, "--minbytes 0 -e8 --stepbytes=1k --stepfactor 2 --timeout 0");
    CHECK_EQ(options.min_bytes, 0);
    CHECK_EQ(options.max_bytes, 8);
    CHECK_EQ(options.step_bytes, 1024);
    CHECK_NEAR(options.step_factor, 2, 0);
    CHECK_NEAR(options.timeout_s, 0, 0);
    parse_line(&options, &line, "--output_file=a=b");
    CHECK_STR(options.json_file, "a=b");
}

static const struct {
    const char *line, *says;
} bad_cases[] = {
    {"-d flaot", "option -d: 'flaot' is no type; did you mean float? (try --help)"},
    {"--datatype=flaot", "option --datatype: 'flaot' is no type; did you mean float?"},
    {"-d FLOAT", "option -d: 'FLOAT' is no type; did you mean float?"},
    {"-d ''", "option -d: '' is no type"},
    {"-d zzzzzzzz", "is no type; there are int8 uint8"},
    {"-o summ", "option -o: 'summ' is no operator; did you mean sum?"},
    {"-o prdo", "did you mean prod?"},
    {"-o nothing", "is no operator; there are sum prod max min avg mulsum all"},
    {"-b 8q", "option -b: '8q' is no size"},
    {"-b 1kk", "option -b: '1kk' is no size"},
    {"-b -8", "option -b: '-8' is no size"},
    {"-b ''", "option -b: '' is no size"},
    {"-b 99999999T", "option -b: '99999999T' is too large a size"},
    {"-b 1,5k", "option -b: '1,5k' is no size"},
    {"-b -e 8", "option -b: '-e' is no size"},
    {"-b 64M", "option -b: the first size 64M is greater than the last, -e 32M"},
    {"-e 8", "option -b: the first size 32M is greater than the last, -e 8"},
    {"-b", "option -b: its argument SIZE is missing"},
    {"--minbytes", "option --minbytes: its argument SIZE is missing"},
    {"-g 8 -n", "option -n: its argument N is missing"},
    {"-i 0", "option -i: '0' is below 1"},
    {"-i 1.5x", "option -i: '1.5x' is no size"},
    {"-f 1", "option -f: '1' is not greater than 1"},
    {"-f 1.0", "option -f: '1.0' is not greater than 1"},
    {"-f 0", "option -f: '0' is below 1"},
    {"-f 0.5", "option -f: '0.5' is below 1"},
    {"-f -2", "option -f: '-2' is no number"},
    {"-f 2x", "option -f: '2x' has 'x' after the number"},
    {"-f off", "option -f: 'off' is no number"},
    {"-t 0", "option -t: '0' is below 1 threads"},
    {"-t two", "option -t: 'two' is no number"},
    {"-g 0", "option -g: '0' is below 1 devices"},
    {"-g 8x", "option -g: '8x' has 'x' after the number"},
    {"-g 99999", "option -g: '99999' is above 1024 devices"},
    {"-g 99999999999999999999", "option -g: '99999999999999999999' is out of range"},
    {"-g ''", "option -g: '' is no number"},
    {"-n -1", "option -n: '-1' is below 0 iterations"},
    {"-w -1", "option -w: '-1' is below 0"},
    {"-m 0", "option -m: '0' is below 1"},
    {"-N -1", "option -N: '-1' is below 0"},
    {"-c -1", "option -c: '-1' is below 0"},
    {"-p 2", "option -p: '2' is above 1"},
    {"-z 4", "option -z: '4' is above 3"},
    {"-y 2", "option -y: '2' is above 1"},
    {"-a 4", "option -a: '4' is above 3"},
    {"-a -1", "option -a: '-1' is below 0"},
    {"-x 3", "option -x: '3' is above 2"},
    {"-R 3", "option -R: '3' is above 2"},
    {"-D 1", "option -D: device kernels are not part of this version"},
    {"-D -1", "option -D: '-1' is below 0"},
    {"-V 16", "option -V: sets the CTAs of a device kernel"},
    {"-V 0", "option -V: '0' is below 1"},
    {"-V 128", "option -V: '128' is above 127"},
    {"-T -1", "option -T: '-1' is no number"},
    {"-T 5s", "option -T: '5s' has 's' after the number"},
    {"-T nan", "option -T: 'nan' is no number"},
    {"-r -2", "option -r: '-2' is below 0"},
    {"-r x", "option -r: 'x' is no rank"},
    {"-r 1.5", "option -r: '1.5' has '.5' after the number"},
    {"-u -1", "option -u: '-1' is below 0"},
    {"-J ''", "option -J: '' is empty"},
    {"-J", "option -J: its argument FILE is missing"},
    {"-K 1", "option -K: leaves iterations out of the -I report; give -I 1"},
    {"-I 1 -K 20", "option -K: leaving out 20 of 20 iterations (-n) leaves none"},
    {"-I 1 -n 5 -K 6", "option -K: leaving out 6 of 5 iterations"},
    {"-I 1 -n 0", "option -I: needs an end of iterations"},
    {"-I 1 -G 1", "option -I: iterations of a graph (-G)"},
    {"-z 1 -G 1", "option -z: waits as it goes, which a graph (-G) cannot"},
    {"-z 3 -G 1", "option -z: waits as it goes, which a graph (-G) cannot"},
    {"-y 1 -G 1", "option -y: the NULL stream (1) cannot be captured in a graph (-G)"},
    {"-n 0 -G 1", "option -G: a graph needs an end of iterations; -n 0 has none"},
    {"--device gpu", "option --device: 'gpu' is no kind of device; there are auto cuda host"},
    {"--device cud", "option --device: 'cud' is no kind of device; did you mean cuda?"},
    {"--library /none", "option --library: '/none': No such file or directory"},
    {"--library /dev/null", "option --library: '/dev/null' cannot be loaded"},
    {"--spawn 0", "option --spawn: '0' is below 1 processes"},
    {"--init spawn", "option --init: spawn needs --spawn N"},
    {"--init mip", "option --init: 'mip' is no way to initialise; did you mean mpi?"},
    {"--spawn 2 --init mpi", "option --spawn: not together with --init mpi"},
    {"--init all -p 1", "option -p: 1 lets each thread initialise"},
    {"--exact=1", "option --exact: takes no argument, got '1'"},
    {"--help=x", "option --help: takes no argument"},
    {"-hx", "option -h: takes no argument, got 'x'"},
    {"--minbyts 8", "option --minbyts: unknown; did you mean --minbytes?"},
    {"--qqqqqqqqqqq", "option --qqqqqqqqqqq: unknown (try --help)"},
    {"--m 8", "option --m: fits several options"},
    {"--=8", "fits several options"},
    {"-Q", "option -Q: unknown"},
    {"-v", "option -v: unknown; did you mean -V"},
    {"-%", "option -%: unknown"},
    {"8", "'8': this program takes options only"},
    {"-g 8 9", "'9': this program takes options only"},
    {"-", "'-': this program takes options only"},
    {"-- -g", "'-g': this program takes options only"},
};

static void test_bad(void)
{
    struct capture capture;

    for (size_t i = 0; i < TEST_COUNT(bad_cases); i++) {
        run_line(bad_cases[i].line, &capture);
        if (capture.code != 2) FAIL("%s exits %d", bad_cases[i].line, capture.code);
        CHECK_HAS(capture.err, bad_cases[i].says);
        CHECK_EQ(strncmp(capture.err, "all_reduce_perf: ", 17), 0);
        CHECK_EQ(strchr(capture.err, '\n') - capture.err, strlen(capture.err) - 1);
        CHECK_STR(capture.out, "");
    }
}

static void test_world(void)
{
    struct perf_coll coll = all_reduce;
    struct perf_options options;
    struct line line;
    char text[256];

    parse_line(&options, &line, "-r 4");
    CHECK_EQ(perf_options_check_world(&options, &coll, 4, text, sizeof text), 0);
    coll.flags = PERF_HAS_ROOT;
    CHECK_EQ(perf_options_check_world(&options, &coll, 5, text, sizeof text), 0);
    CHECK_EQ(perf_options_check_world(&options, &coll, 4, text, sizeof text), 1);
    CHECK_STR(text, "option -r: there is no rank 4, ranks are 0 to 3");
    parse_line(&options, &line, "-r all");
    CHECK_EQ(perf_options_check_world(&options, &coll, 1, text, sizeof text), 0);
    coll.flags = PERF_POWER_OF_TWO;
    coll.name = "hypercube";
    for (int n = 1; n <= 8; n++)
        CHECK_EQ(perf_options_check_world(&options, &coll, n, text, sizeof text),
                 n != 1 && n != 2 && n != 4 && n != 8);
    CHECK_EQ(perf_options_check_world(&options, &coll, 3, text, sizeof text), 1);
    CHECK_STR(text, "hypercube needs a power of two of ranks, not 3");
}

static void test_rows(void)
{
    for (int i = 0; i < perf_noptions; i++) {
        const struct perf_option *row = &perf_option_rows[i];

        CHECK(*row->name && *row->help && *row->fallback);
        CHECK_EQ(*row->argument == 0, row->kind == PERF_KIND_FLAG);
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(row->name, perf_option_rows[j].name) != 0);
            CHECK(!row->letter || row->letter != perf_option_rows[j].letter);
        }
    }
    for (const char *letter = "tgbeifnmwNpcodrzyTGCSJaRxDVMuIKh"; *letter; letter++) {
        int found = 0;

        for (int i = 0; i < perf_noptions; i++) found += perf_option_rows[i].letter == *letter;
        if (found != 1) FAIL("option -%c has %d rows", *letter, found);
    }
}

static void test_help(void)
{
    struct capture capture;
    int column = 0;

    run_line("--help", &capture);
    CHECK_EQ(capture.code, 0);
    CHECK_STR(capture.err, "");
    for (const char *at = capture.out; *at; at++) {
        column = *at == '\n' ? 0 : column + 1;
        CHECK(column <= 100);
    }
    for (int i = 0; i < perf_noptions; i++) CHECK_HAS(capture.out, perf_option_rows[i].name);
    CHECK_HAS(capture.out, "Exit codes:");
    CHECK_HAS(capture.out, "NCCL_TESTS_MIN_BW");
    CHECK_HAS(capture.out, "bytes, default 32M");
    run_line("-g 4 -h -d flaot", &capture);
    CHECK_EQ(capture.code, 0);
}

static void test_man(void)
{
    struct capture capture;

    run_line("--man", &capture);
    CHECK_EQ(capture.code, 0);
    CHECK_EQ(strncmp(capture.out, ".TH \"all_reduce_perf\" 1", 23), 0);
    CHECK_HAS(capture.out, ".SH OPTIONS");
    CHECK_HAS(capture.out, "\\-b, \\-\\-minbytes SIZE");
    CHECK_HAS(capture.out, ".SH \"EXIT STATUS\"");
}

static void test_completion(void)
{
    struct capture capture;
    FILE *bash;

    run_line("--completion", &capture);
    CHECK_EQ(capture.code, 0);
    CHECK_HAS(capture.out, "complete -F _all_reduce_perf all_reduce_perf");
    CHECK_HAS(capture.out, "bfloat16");
    for (int i = 0; i < perf_noptions; i++) CHECK_HAS(capture.out, perf_option_rows[i].name);
    if (system("bash -c : 2>/dev/null")) return;
    bash = popen("bash -n", "w");
    CHECK(bash != NULL);
    fputs(capture.out, bash);
    CHECK_EQ(pclose(bash), 0);
}

static void test_version(void)
{
    struct capture capture;

    run_line("--version", &capture);
    CHECK_EQ(capture.code, 0);
    CHECK_HAS(capture.out, "all_reduce_perf\n");
    CHECK_HAS(capture.out, "header     2.");
    CHECK_HAS(capture.out, "library    2.");
    CHECK_HAS(capture.out, "git");
    CHECK_HAS(capture.out, "MPI");
}

static void test_suggest(void)
{
    static const char *const words[] = {"float", "double", "half"};

    CHECK_EQ(perf_edit_distance("", ""), 0);
    CHECK_EQ(perf_edit_distance("", "abc"), 3);
    CHECK_EQ(perf_edit_distance("abc", ""), 3);
    CHECK_EQ(perf_edit_distance("flaot", "float"), 1);
    CHECK_EQ(perf_edit_distance("kitten", "sitting"), 3);
    CHECK_STR(perf_suggest("duoble", words, 3), "double");
    CHECK_STR(perf_suggest("HALF", words, 3), "half");
    CHECK_STR(perf_suggest("complex", words, 3), NULL);
    CHECK_STR(perf_suggest("", words, 3), NULL);
}

static const struct test_case cases[] = {
    {"defaults", test_defaults, 0},
    {"each option", test_each, 0},
    {"sizes, factor, seconds, text", test_each_other, 0},
    {"what is refused", test_bad, 0},
    {"what needs the ranks", test_world, 0},
    {"rows", test_rows, 0},
    {"help", test_help, 0},
    {"man page", test_man, 0},
    {"completion", test_completion, 0},
    {"version", test_version, 0},
    {"did you mean", test_suggest, 0},
};

TEST_MAIN(cases)
