/* Options of a driver: one table row each in option_table.h; the parser, range checks, --help,
 * the man pages and the bash completion come from the rows.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "nccl.h"

#include <stddef.h>
#include <stdint.h>

enum perf_init { PERF_INIT_AUTO, PERF_INIT_ALL, PERF_INIT_THREAD, PERF_INIT_MPI, PERF_INIT_ENV,
                 PERF_INIT_SPAWN };

enum { PERF_ALL = -1 }; /* of type, op, root: every one in turn */

/* Index of an operator: 0..4 are ncclRedOp_t, then mulsum (a PreMulSum made around each call). */
enum { PERF_OP_MULSUM = 5, PERF_NOPS = 6, PERF_NTYPES = 12 };

struct perf_options {
    int threads, gpus;                 /* -t, -g: threads a process, ranks a thread */
    uint64_t min_bytes, max_bytes;     /* -b, -e */
    uint64_t step_bytes;               /* -i, used when step_factor is 0 */
    double step_factor;                /* -f */
    int iters, agg_iters, warmup;      /* -n (0: endless), -m, -w */
    int run_cycles;                    /* -N; 0 endless */
    int parallel_init;                 /* -p */
    int check;                         /* -c: iterations that are verified, 0 none */
    int op, type, root;                /* -o, -d, -r, PERF_ALL */
    int op_given, root_given;
    int blocking;                      /* -z 0..3 */
    int null_stream;                   /* -y */
    double timeout_s;                  /* -T, 0 off */
    int graph_launches;                /* -G */
    int report_cputime;                /* -C */
    int timestamps;                    /* -S */
    const char *json_file;             /* -J */
    int average;                       /* -a 0 rank 0, 1 avg, 2 min, 3 max */
    int local_register;                /* -R 0, 1, 2 */
    int cta_policy;                    /* -x 0..2, -1 unset */
    int device_impl, device_ctas;      /* -D, -V */
    int memory_report;                 /* -M */
    int unaligned;                     /* -u elements, sets both offsets */
    int iter_report;                   /* -I */
    int iter_skip;                     /* -K */
    int spawn;                         /* --spawn N processes, 0 off */
    enum perf_init init;               /* --init */
    int show_devices, exact, selftest_only, preflight; /* --devices --exact --selftest --preflight */
    int argc;
    char **argv;
};

struct perf_coll; /* harness/coll.h */

/* Parses and checks; conflicts too. On a usage error writes one message to stderr and exits 2.
 * --help and --version print to stdout and exit 0. */
void perf_options_parse(struct perf_options *options, const struct perf_coll *coll, int argc,
                        char **argv);

/* Parses "1.5M", "8", "2GiB", "64kb" to bytes. 0 and *error set to a text when it is none. */
int perf_size_parse(const char *text, uint64_t *bytes, const char **error);

const char *perf_type_name(int type); /* "float" … */
const char *perf_op_name(int op);     /* "sum" … "mulsum" */

#endif
