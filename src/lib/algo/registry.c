/* registry.c: the algorithms. Their order is that of the bits in algo/choice.h. */
#include "algo/sched.h"

const struct ccl_algo_ops *const ccl_algos[] = {
    &ccl_algo_direct,
    &ccl_algo_oneshot,
    &ccl_algo_twoshot,
    &ccl_algo_ring,
    &ccl_algo_tree,
    &ccl_algo_logstep,
    NULL,
};
