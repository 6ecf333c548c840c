/* program.h: the schedules of all executors of one operation together: what is printed, read from
 * a file, and proved.
 *
 * core makes one from an algorithm to show what ran, and keeps those that CHORUS_SCHEDULE_FILE
 * brings; docs/schedules.md describes the text form. Immutable once made.
 */
#ifndef CCL_ALGO_PROGRAM_H
#define CCL_ALGO_PROGRAM_H

#include "algo/sched.h"

#include <stdio.h>

enum { CCL_PROGRAM_MAX_RANKS = 256 };

struct ccl_program {
    struct ccl_program *next; /* of the same file */
    enum ccl_sched_coll coll;
    enum ccl_proto proto;
    int root; /* rank, -1 for operations without one */
    char algo[24];
    uint16_t nranks, nexecs;
    uint16_t *exec_of;        /* [nranks] */
    uint16_t *first_slot;     /* [nexecs + 1] */
    uint16_t *rank_of;        /* [nranks] by slot */
    struct ccl_sched *scheds; /* [nexecs]; npieces, pack and lag are equal in all */
    uint32_t **lines;         /* [nexecs][nsteps] of the file; NULL when it comes from none */
};

/* The schedules of all executors; args->view->self does not matter. */
ncclResult_t ccl_program_build(const struct ccl_algo_ops *algo, const struct ccl_sched_args *args,
                               struct ccl_program **out);
/* Frees a program and those after it; NULL is fine. */
void ccl_program_free(struct ccl_program *program);

/* An empty program of a shape; exec_of [nranks] numbers executors by their lowest rank. */
ncclResult_t ccl_program_new(const uint16_t *exec_of, int nranks, struct ccl_program **out);

/* True when the program is for this operation on executors like these. */
int ccl_program_fits(const struct ccl_program *program, const struct ccl_sched_args *args);
/* Has meetings instead of connections. */
int ccl_program_meets(const struct ccl_program *program);

/* The text form of one program. */
void ccl_program_print(const struct ccl_program *program, FILE *file);
/* Reads a text with any number of programs; `name` is for error texts. ncclInvalidUsage naming the
 * line and what is wrong there. */
ncclResult_t ccl_program_parse(const char *text, const char *name, struct ccl_program **out);

/* Copies one executor's schedule. */
ncclResult_t ccl_sched_copy(const struct ccl_sched *from, struct ccl_sched *to);

/* Names in the text form, also used by the parser: "AllReduce" ... */
extern const char *const ccl_sched_coll_names[CCL_SCHED_NCOLLS];

#endif
