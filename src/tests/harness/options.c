/* The option parser: turns argv into struct perf_options by the rows of option_table.h and checks
 * what can be checked before the number of ranks is known. Called once by perf_main; a process
 * that returns from it has options that make sense.
 */
#define _GNU_SOURCE
#include "harness/options.h"

#include "harness/coll.h"
#include "harness/devices.h"
#include "harness/help.h"
#include "harness/library.h"
#include "harness/sizes.h"
#include "harness/suggest.h"
#include "harness/usage.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_BYTES = 512, NAME_BYTES = 64, MOST_ITERATIONS = 1000000 };

const struct perf_option perf_option_rows[] = {
#define PERF_GROUP(id, title)
#define PERF_OPTION(group, letter, name, kind, field, low, high, fallback, unit, argument, help)   \
    {PERF_GROUP_##group,                                                                           \
     letter,                                                                                       \
     name,                                                                                         \
     PERF_KIND_##kind,                                                                             \
     offsetof(struct perf_options, field),                                                         \
     low,                                                                                          \
     high,                                                                                         \
     fallback,                                                                                     \
     unit,                                                                                         \
     argument,                                                                                     \
     help},
#define PERF_VARIABLE(name, help)
#include "harness/option_table.h"
#undef PERF_GROUP
#undef PERF_OPTION
#undef PERF_VARIABLE
};
const int perf_noptions = sizeof perf_option_rows / sizeof perf_option_rows[0];

/* In the order of ncclDataType_t and ncclRedOp_t; "all" comes last. */
static const char *const type_names[PERF_NTYPES + 1] = {
    "int8",  "uint8",  "int32",    "uint32", "int64",  "uint64", "half",
    "float", "double", "bfloat16", "f8e4m3", "f8e5m2", "all"};
static const char *const op_names[PERF_NOPS + 1] = {"sum", "prod",   "max", "min",
                                                    "avg", "mulsum", "all"};
static const char *const init_names[] = {"auto", "all", "thread", "mpi", "env", "spawn"};
enum { NINITS = sizeof init_names / sizeof init_names[0] };
static const char *const device_names[] = {"auto", "cuda", "host"};
enum { NDEVICES = sizeof device_names / sizeof device_names[0] };

const char *perf_type_name(int type)
{
    return type >= 0 && type < PERF_NTYPES ? type_names[type] : "all";
}

const char *perf_op_name(int op)
{
    return op >= 0 && op < PERF_NOPS ? op_names[op] : "none";
}

const char *perf_init_name(enum perf_init init)
{
    return init_names[init];
}

const char *perf_device_word(int choice)
{
    return device_names[choice];
}

/* ---- values: each function stores the value, or writes what completes "'text' " ---- */

/* Where a value goes and the text of an error. */
struct value {
    const struct perf_option *row;
    void *to; /* the field */
    char error[ERROR_BYTES];
};

static int fail_value(struct value *value, const char *text)
{
    snprintf(value->error, sizeof value->error, "%s", text);
    return 0;
}

/* The bounds of a row, printed as sizes for a size. */
static int check_range(struct value *value, int64_t number)
{
    const struct perf_option *row = value->row;
    const char *side = number < row->low ? "below" : "above";
    int64_t bound = number < row->low ? row->low : row->high;

    if (number >= row->low && number <= row->high) return 1;
    snprintf(value->error, sizeof value->error, "is %s %" PRId64 "%s%s", side, bound,
             *row->unit ? " " : "", row->unit);
    return 0;
}

static int parse_int(struct value *value, const char *text)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (isspace((unsigned char)*text) || end == text) return fail_value(value, "is no number");
    if (*end) {
        snprintf(value->error, sizeof value->error, "has '%s' after the number", end);
        return 0;
    }
    if (errno == ERANGE) return fail_value(value, "is out of range");
    if (!check_range(value, number)) return 0;
    *(int *)value->to = (int)number;
    return 1;
}

static int parse_size(struct value *value, const char *text)
{
    const char *error;
    uint64_t bytes;

    if (!perf_size_parse(text, &bytes, &error)) return fail_value(value, error);
    if (!check_range(value, (int64_t)bytes)) return 0;
    *(uint64_t *)value->to = bytes;
    return 1;
}

/* A decimal number with a point. */
static int parse_real(struct value *value, const char *text)
{
    uint64_t whole;
    double fraction;
    const char *end = perf_decimal_parse(text, &whole, &fraction);

    if (!end) return fail_value(value, "is no number of 0 or more");
    if (value->row->kind == PERF_KIND_PERCENT && *end == '%') end++;
    if (*end) {
        snprintf(value->error, sizeof value->error, "has '%s' after the number", end);
        return 0;
    }
    if (whole > INT64_MAX || !check_range(value, (int64_t)whole)) return 0;
    if (value->row->kind == PERF_KIND_FACTOR && whole <= 1 && fraction <= 0)
        return fail_value(value, "is not greater than 1");
    if (value->row->kind == PERF_KIND_PERCENT && whole == 0 && fraction <= 0)
        return fail_value(value, "is not greater than 0");
    *(double *)value->to = (double)whole + fraction;
    return 1;
}

/* A word of a list; stores its index. */
static int parse_word(struct value *value, const char *text, const char *const *words, int count)
{
    static const char *const what[] = {[PERF_KIND_OP] = "operator",
                                       [PERF_KIND_TYPE] = "type",
                                       [PERF_KIND_INIT] = "way to initialise",
                                       [PERF_KIND_DEVICE] = "kind of device"};
    const char *nearest;
    size_t used;

    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], text)) continue;
        *(int *)value->to = i;
        return 1;
    }
    nearest = perf_suggest(text, words, count);
    if (nearest) {
        snprintf(value->error, sizeof value->error, "is no %s; did you mean %s?",
                 what[value->row->kind], nearest);
        return 0;
    }
    snprintf(value->error, sizeof value->error, "is no %s; there are", what[value->row->kind]);
    for (int i = 0; i < count; i++) {
        used = strlen(value->error);
        snprintf(value->error + used, sizeof value->error - used, " %s", words[i]);
    }
    return 0;
}

static int parse_root(struct value *value, const char *text)
{
    if (!strcmp(text, "all") || !strcmp(text, "-1")) {
        *(int *)value->to = PERF_ALL;
        return 1;
    }
    if (isalpha((unsigned char)*text)) return fail_value(value, "is no rank; a number, or all");
    return parse_int(value, text);
}

static int parse_value(struct value *value, const char *text)
{
    int *number = value->to;

    switch (value->row->kind) {
    case PERF_KIND_INT: return parse_int(value, text);
    case PERF_KIND_SIZE: return parse_size(value, text);
    case PERF_KIND_FACTOR:
    case PERF_KIND_PERCENT:
    case PERF_KIND_SECONDS: return parse_real(value, text);
    case PERF_KIND_OP:
        if (!parse_word(value, text, op_names, PERF_NOPS + 1)) return 0;
        if (*number == PERF_NOPS) *number = PERF_ALL;
        return 1;
    case PERF_KIND_TYPE:
        if (!parse_word(value, text, type_names, PERF_NTYPES + 1)) return 0;
        if (*number == PERF_NTYPES) *number = PERF_ALL;
        return 1;
    case PERF_KIND_ROOT: return parse_root(value, text);
    case PERF_KIND_INIT: return parse_word(value, text, init_names, NINITS);
    case PERF_KIND_DEVICE: return parse_word(value, text, device_names, NDEVICES);
    case PERF_KIND_TEXT:
        if (!*text) return fail_value(value, "is empty");
        *(const char **)value->to = text;
        return 1;
    case PERF_KIND_FLAG: *number = (int)value->row->low; return 1;
    }
    return 0;
}

/* ---- argv ---- */

/* The defaults of the rows; one that is no number ("off", "unset") leaves 0. */
static void set_defaults(struct perf_options *options)
{
    memset(options, 0, sizeof *options);
    options->cta_policy = -1; /* unset differs from policy 0: the config is then not used */
    for (int i = 0; i < perf_noptions; i++) {
        struct value value = {.row = &perf_option_rows[i]};
        enum perf_option_kind kind = value.row->kind;

        value.to = (char *)options + value.row->offset;
        if (kind == PERF_KIND_FLAG || kind == PERF_KIND_TEXT) continue;
        if (kind < PERF_KIND_OP && !isdigit((unsigned char)*value.row->fallback)) continue;
        parse_value(&value, value.row->fallback);
    }
}

/* Long names match with - for _ as well, and when cut as long as only one row fits. */
static int name_matches(const char *name, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != (text[i] == '-' ? '_' : text[i])) return 0;
    return 1;
}

static const struct perf_option *find_long(const char *text, size_t length)
{
    const struct perf_option *cut = NULL;
    const struct perf_option *row;
    const char *names[128];
    char name[NAME_BYTES];
    const char *nearest;
    int several = 0;

    for (int i = 0; i < perf_noptions; i++) {
        row = &perf_option_rows[i];
        names[i] = row->name;
        if (strlen(row->name) < length || !name_matches(row->name, text, length)) continue;
        if (strlen(row->name) == length) return row;
        several += cut != NULL;
        cut = row;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    if (several) perf_usage("option --%s: fits several options", name);
    if (cut && length > 1) return cut;
    nearest = perf_suggest(name, names, perf_noptions);
    if (nearest) perf_usage("option --%s: unknown; did you mean --%s?", name, nearest);
    perf_usage("option --%s: unknown", name);
}

static const struct perf_option *find_short(char letter)
{
    for (int i = 0; i < perf_noptions; i++)
        if (letter && perf_option_rows[i].letter == letter) return &perf_option_rows[i];
    for (int i = 0; i < perf_noptions; i++)
        if (isalpha((unsigned char)letter) && perf_option_rows[i].letter == (letter ^ 0x20))
            perf_usage("option -%c: unknown; did you mean -%c (--%s)?", letter,
                       perf_option_rows[i].letter, perf_option_rows[i].name);
    perf_usage("option -%c: unknown", letter);
}

static void store_option(struct perf_options *options, const struct perf_option *row,
                         const char *text, const char *label)
{
    struct value value = {.row = row, .to = (char *)options + row->offset};

    if (!parse_value(&value, text)) perf_usage("option %s: '%s' %s", label, text, value.error);
    if (row->kind == PERF_KIND_OP) options->op_given = 1;
    if (row->kind == PERF_KIND_ROOT) options->root_given = 1;
}

/* One option at argv[at]; returns the index of the next. */
static int take_option(struct perf_options *options, char **argv, int at)
{
    const char *word = argv[at];
    const struct perf_option *row;
    const char *text; /* the argument within the same word, or NULL */
    char label[NAME_BYTES];

    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");

        row = find_long(word + 2, length);
        text = word[2 + length] ? word + 2 + length + 1 : NULL;
        snprintf(label, sizeof label, "--%s", row->name);
    } else {
        row = find_short(word[1]);
        text = word[2] ? word + 2 : NULL;
        snprintf(label, sizeof label, "-%c", row->letter);
    }
    if (row->kind == PERF_KIND_FLAG) {
        if (text) perf_usage("option %s: takes no argument, got '%s'", label, text);
        store_option(options, row, "", label);
        return at + 1;
    }
    if (!text) {
        text = argv[++at];
        if (!text) perf_usage("option %s: its argument %s is missing", label, row->argument);
    }
    store_option(options, row, text, label);
    return at + 1;
}

/* ---- conflicts ---- */

static void check_kernels(const struct perf_options *options)
{
    if (options->device_impl > 0)
        perf_usage("option -D: device kernels are not part of this version; only -D 0 is");
    if (options->device_ctas > 0)
        perf_usage("option -V: sets the CTAs of a device kernel (-D), which this version has not");
}

static void check_conflicts(const struct perf_options *options, const struct perf_coll *coll)
{
    char low[32], high[32];

    if (options->pairs && !(coll->flags & PERF_PAIRED))
        perf_usage("option --pairs: is for pingpong, oneway and twoway, not for %s", coll->name);
    if (options->min_bytes > options->max_bytes) {
        perf_size_format(options->min_bytes, low, sizeof low);
        perf_size_format(options->max_bytes, high, sizeof high);
        perf_usage("option -b: the first size %s is greater than the last, -e %s", low, high);
    }
    if (options->iter_report && options->graph_launches > 0)
        perf_usage("option -I: iterations of a graph (-G) cannot be timed one by one");
    if (options->blocking && options->graph_launches > 0)
        perf_usage("option -z: waits as it goes, which a graph (-G) cannot");
    if (options->null_stream && options->graph_launches > 0)
        perf_usage("option -y: the NULL stream (1) cannot be captured in a graph (-G)");
    if (options->iters == 0 && options->graph_launches > 0)
        perf_usage("option -G: a graph needs an end of iterations; -n 0 has none");
    if (options->iter_skip > 0 && !options->iter_report)
        perf_usage("option -K: leaves iterations out of the -I report; give -I 1 too");
    if (options->iter_report && options->iters == 0)
        perf_usage("option -I: needs an end of iterations; -n 0 has none");
    if (options->iter_skip > 0 && options->iter_skip >= options->iters)
        perf_usage("option -K: leaving out %d of %d iterations (-n) leaves none",
                   options->iter_skip, options->iters);
    if (options->iter_report && options->iters > MOST_ITERATIONS)
        perf_usage("option -I: keeps the times of at most %d iterations (-n)", MOST_ITERATIONS);
    if (options->until_stable > 0 && options->iter_report)
        perf_usage("option --until-stable: repeats a series, of which -I tells one only");
    if (options->until_stable > 0 && options->iters == 0)
        perf_usage("option --until-stable: needs an end of iterations; -n 0 has none");
    if (options->tolerance > 0 && !options->baseline)
        perf_usage("option --tolerance: is that of --baseline FILE, which is not given");
    if (options->baseline_anyway && !options->baseline)
        perf_usage("option --baseline_anyway: there is no --baseline FILE");
    if (options->baseline && (options->iters == 0 || options->run_cycles == 0))
        perf_usage("option --baseline: judges at the end, which -n 0 and -N 0 have not");
    if (options->init == PERF_INIT_SPAWN && !options->spawn)
        perf_usage("option --init: spawn needs --spawn N");
    if (options->spawn && options->init != PERF_INIT_SPAWN && options->init != PERF_INIT_AUTO)
        perf_usage("option --spawn: not together with --init %s", perf_init_name(options->init));
    if (options->init == PERF_INIT_ALL && options->parallel_init)
        perf_usage("option -p: 1 lets each thread initialise, which --init all does not");
    check_kernels(options);
}

/* As it is installed, which may be under a name with a suffix. */
static void name_program(const struct perf_coll *coll, const char *path)
{
    static char program[NAME_BYTES];
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = slash ? slash + 1 : path;

    if (name && *name)
        snprintf(program, sizeof program, "%s", name);
    else
        snprintf(program, sizeof program, "%s_perf", coll->name);
    perf_set_program(program);
}

void perf_options_parse(struct perf_options *options, const struct perf_coll *coll, int argc,
                        char **argv)
{
    int at = 1;

    name_program(coll, argc > 0 ? argv[0] : NULL);
    set_defaults(options);
    options->argc = argc;
    options->argv = argv;
    while (at < argc && argv[at][0] == '-' && argv[at][1] && strcmp(argv[at], "--")) {
        at = take_option(options, argv, at);
        if (options->action != PERF_RUN) {
            perf_devices_prefer((enum perf_device_choice)options->device);
            if (options->library) perf_library_use(options->library, coll, argv);
            perf_show((enum perf_show)options->action, coll);
            exit(PERF_EXIT_OK);
        }
    }
    if (at < argc && !strcmp(argv[at], "--")) at++;
    if (at < argc) perf_usage("'%s': this program takes options only", argv[at]);
    check_conflicts(options, coll);
    perf_devices_prefer((enum perf_device_choice)options->device);
    if (options->library) perf_library_use(options->library, coll, argv);
}

int perf_options_check_world(const struct perf_options *options, const struct perf_coll *coll,
                             int nranks, char *text, size_t text_bytes)
{
    if ((coll->flags & PERF_HAS_ROOT) && options->root >= nranks) {
        snprintf(text, text_bytes, "option -r: there is no rank %d, ranks are 0 to %d",
                 options->root, nranks - 1);
        return 1;
    }
    if ((coll->flags & PERF_PAIRED) && nranks < 2) {
        snprintf(text, text_bytes, "%s needs two ranks", coll->name);
        return 1;
    }
    if ((coll->flags & PERF_POWER_OF_TWO) && (nranks & (nranks - 1))) {
        snprintf(text, text_bytes, "%s needs a power of two of ranks, not %d", coll->name, nranks);
        return 1;
    }
    return 0;
}
