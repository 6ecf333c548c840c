/* choice.h: which algorithms and protocols the user allows, from NCCL_ALGO and NCCL_PROTO.
 *
 * core parses both when a communicator is made, so that a bad word is an error of the
 * initialisation, and asks per operation what is left.
 */
#ifndef CCL_ALGO_CHOICE_H
#define CCL_ALGO_CHOICE_H

#include "algo/sched.h"

/* Bit i of algos: ccl_algos[i]; bit p of protos: enum ccl_proto. Per collective. */
struct ccl_choice {
    uint32_t algos[CCL_SCHED_NCOLLS], protos[CCL_SCHED_NCOLLS];
};

/* Grammar of both variables: entries apart by ';', each a list of words apart by ',', of which a
 * leading '^' means all others. An entry "function:list" is for that collective, one without a
 * function for all. Case does not count. NULL allows everything.
 * ncclInvalidUsage for an unknown word or function, naming it and the variable. Collectives that
 * upstream does not choose for (AlltoAll, Gather, Scatter) keep everything. */
ncclResult_t ccl_choice_parse(const char *algo, const char *proto, struct ccl_choice *choice);

#endif
