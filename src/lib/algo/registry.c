/* registry.c: the algorithms in order of preference, and the choice among them. */
#include "algo/sched.h"

#include <string.h>

const struct ccl_algo_ops *const ccl_algos[] = {
    &ccl_algo_direct,
    &ccl_algo_oneshot,
    &ccl_algo_twoshot,
    &ccl_algo_ring,
    &ccl_algo_tree,
    &ccl_algo_logstep,
    NULL,
};

const struct ccl_algo_ops *ccl_algo_choose(const struct ccl_sched_args *args, uint64_t bytes,
                                           const char *forced)
{
    const struct ccl_algo_ops *best = NULL;
    double best_cost = 0;
    int is_free = forced == NULL || strcmp(forced, "auto") == 0;
    for (int i = 0; ccl_algos[i] != NULL; i++) {
        const struct ccl_algo_ops *algo = ccl_algos[i];
        if (!is_free && strcmp(forced, algo->name) != 0) continue;
        if (!algo->supports(args)) continue;
        double cost = algo->cost(args, bytes);
        if (best != NULL && cost >= best_cost) continue;
        best = algo;
        best_cost = cost;
    }
    return best;
}
