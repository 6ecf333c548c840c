/* Pairs of ranks for the drivers of messages: who talks with whom, and the table of --pairs. The
 * drivers and patterns ask for a rank's role; run.c walks through the pairs and hands over what
 * each achieved.
 */
#ifndef PERF_PAIRS_H
#define PERF_PAIRS_H

#include "harness/coll.h"

/* What a rank does in a pair. */
enum perf_role { PERF_ROLE_NONE, PERF_ROLE_FIRST, PERF_ROLE_SECOND };

/* Sets *peer unless the rank is idle. Without a pair (first == second) rank 2k is the first and
 * 2k + 1 the second of a pair each, and the last rank of an odd number is idle. */
enum perf_role perf_pair_role(const struct perf_pair *pair, int rank, int nranks, int *peer);

/* The next pair after `pair` (start with {0, 0}): all ordered ones where a driver goes one way,
 * else the lower rank first. 0: no more. */
int perf_pair_next(struct perf_pair *pair, const struct perf_coll *coll, int nranks);

/* Where a pair counts as slow: below this share of the median. */
#define PERF_PAIR_SLOW 0.8

/* Writes busbw[from * nranks + to] (0: not measured) as lines, slow ones marked, and each of these
 * again with its numbers. */
void perf_pairs_table(const double *busbw, int nranks, void (*line)(const char *text));

#endif
