/* Options of a driver: one table row each in option_table.h; the parser, range checks, --help,
 * the man pages and the bash completion come from the rows.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

enum perf_init {
    PERF_INIT_AUTO,
    PERF_INIT_ALL,
    PERF_INIT_THREAD,
    PERF_INIT_MPI,
    PERF_INIT_ENV,
    PERF_INIT_SPAWN
};

enum { PERF_ALL = -1 }; /* of type, op, root: every one in turn */

/* Series of --until-stable: an interval of fewer says little. */
enum { PERF_BATCHES_LEAST = 3, PERF_BATCHES_MOST = 100 };

/* What --help, --version, --man and --completion show. */
enum perf_show { PERF_RUN, PERF_SHOW_HELP, PERF_SHOW_VERSION, PERF_SHOW_MAN, PERF_SHOW_COMPLETION };

/* Index of an operator: 0..4 are ncclRedOp_t, then mulsum (a PreMulSum made around each call). */
enum { PERF_OP_MULSUM = 5, PERF_NOPS = 6, PERF_NTYPES = 12 };

struct perf_options {
    int threads, gpus;             /* -t, -g: threads a process, ranks a thread */
    uint64_t min_bytes, max_bytes; /* -b, -e */
    uint64_t step_bytes;           /* -i, used when step_factor is 0 */
    double step_factor;            /* -f */
    int iters, agg_iters, warmup;  /* -n (0: endless), -m, -w */
    int run_cycles;                /* -N; 0 endless */
    int parallel_init;             /* -p */
    int check;                     /* -c: iterations that are verified, 0 none */
    int op, type, root;            /* -o, -d, -r, PERF_ALL */
    int op_given, root_given;
    int blocking;                 /* -z 0..3 */
    int null_stream;              /* -y */
    int pairs;                    /* --pairs */
    double timeout_s;             /* -T, 0 off */
    int graph_launches;           /* -G */
    int report_cputime;           /* -C */
    int timestamps;               /* -S */
    const char *json_file;        /* -J */
    int average;                  /* -a 0 rank 0, 1 avg, 2 min, 3 max */
    double until_stable;          /* --until-stable percent, 0 off */
    int rotate;                   /* --rotate */
    const char *baseline;         /* --baseline */
    double tolerance;             /* --tolerance percent, 0: by the baseline */
    int baseline_anyway;          /* --baseline_anyway */
    int local_register;           /* -R 0, 1, 2 */
    int cta_policy;               /* -x 0..2, -1 unset */
    int device_impl, device_ctas; /* -D, -V */
    int memory_report;            /* -M */
    const char *schedule_file;    /* --schedule; "-": only shown in the rows */
    int unaligned;                /* -u elements, sets both offsets */
    int iter_report;              /* -I */
    int iter_skip;                /* -K */
    int spawn;                    /* --spawn N processes, 0 off */
    enum perf_init init;          /* --init */
    int device;                   /* --device, enum perf_device_choice */
    const char *library;          /* --library, NULL: ours */
    int show_devices, exact, selftest_only,
        preflight; /* --devices --exact --selftest --preflight */
    int action;    /* enum perf_show */
    int argc;
    char **argv;
};

struct perf_coll; /* harness/coll.h */

/* Parses and checks; conflicts too. On a usage error writes one message to stderr and exits 2.
 * --help, --version, --man and --completion print to stdout and exit 0. */
void perf_options_parse(struct perf_options *options, const struct perf_coll *coll, int argc,
                        char **argv);

/* Checks what needs the number of ranks: the root, a power of two. 0 fine; else 1 and the text of
 * a usage error (exit code 2 on every process) in `text`. */
int perf_options_check_world(const struct perf_options *options, const struct perf_coll *coll,
                             int nranks, char *text, size_t text_bytes);

const char *perf_type_name(int type);            /* "float" ... */
const char *perf_op_name(int op);                /* "sum" ... "mulsum"; "none" for -1 */
const char *perf_init_name(enum perf_init init); /* "auto", "all" ... */
const char *perf_device_word(int choice);        /* of --device */

/* The rows of option_table.h. */
enum perf_option_kind {
    PERF_KIND_INT,
    PERF_KIND_SIZE,
    PERF_KIND_FACTOR,
    PERF_KIND_SECONDS,
    PERF_KIND_PERCENT,
    PERF_KIND_OP,
    PERF_KIND_TYPE,
    PERF_KIND_ROOT,
    PERF_KIND_INIT,
    PERF_KIND_DEVICE,
    PERF_KIND_TEXT,
    PERF_KIND_FLAG
};

enum perf_option_group {
#define PERF_GROUP(id, title) PERF_GROUP_##id,
#define PERF_OPTION(group, letter, name, kind, field, low, high, fallback, unit, argument, help)
#define PERF_VARIABLE(name, help)
#include "harness/option_table.h"
#undef PERF_GROUP
#undef PERF_OPTION
#undef PERF_VARIABLE
    PERF_NGROUPS
};

struct perf_option {
    enum perf_option_group group;
    char letter;      /* 0: long form only */
    const char *name; /* long form */
    enum perf_option_kind kind;
    size_t offset; /* in struct perf_options */
    int64_t low, high;
    const char *fallback, *unit, *argument, *help;
};

extern const struct perf_option perf_option_rows[];
extern const int perf_noptions;

#endif
