/* Pairs of ranks, see pairs.h.
 */
#include "harness/pairs.h"

#include "harness/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512, WIDEST_TABLE = 32, MOST_TOLD = 16 };

enum perf_role perf_pair_role(const struct perf_pair *pair, int rank, int nranks, int *peer)
{
    if (pair->first == pair->second) {
        *peer = rank ^ 1;
        if (*peer >= nranks) return PERF_ROLE_NONE;
        return rank & 1 ? PERF_ROLE_SECOND : PERF_ROLE_FIRST;
    }
    *peer = rank == pair->first ? pair->second : pair->first;
    if (rank == pair->first) return PERF_ROLE_FIRST;
    return rank == pair->second ? PERF_ROLE_SECOND : PERF_ROLE_NONE;
}

int perf_pair_next(struct perf_pair *pair, const struct perf_coll *coll, int nranks)
{
    do {
        if (++pair->second == nranks) {
            pair->first++;
            pair->second = coll->flags & PERF_ONE_WAY ? 0 : pair->first + 1;
        }
    } while (pair->second == pair->first);
    return pair->first < nranks && pair->second < nranks;
}

static double median_of(const double *busbw, int nranks)
{
    size_t n = (size_t)nranks * (size_t)nranks, used = 0;
    double *found = calloc(n, sizeof *found);
    struct perf_stats stats = {0};

    if (found == NULL) return 0;
    for (size_t i = 0; i < n; i++)
        if (busbw[i] > 0) found[used++] = busbw[i];
    perf_stats_compute(found, used, &stats);
    free(found);
    return stats.median;
}

static void write_row(const double *busbw, int from, int nranks, double slow, char *text)
{
    size_t used = (size_t)snprintf(text, LINE_BYTES, "%5d |", from);

    for (int to = 0; to < nranks; to++) {
        double rate = busbw[from * nranks + to];

        if (rate > 0)
            used += (size_t)snprintf(text + used, LINE_BYTES - used, " %8.4g%c", rate,
                                     rate < slow ? '*' : ' ');
        else
            used += (size_t)snprintf(text + used, LINE_BYTES - used, " %8s ", "-");
    }
}

void perf_pairs_table(const double *busbw, int nranks, void (*line)(const char *text))
{
    double median = median_of(busbw, nranks), slow = PERF_PAIR_SLOW * median;
    char text[LINE_BYTES];
    int told = 0;

    snprintf(text, sizeof text,
             "pairs: busbw in GB/s from row to column, median %.4g, * below %g of it", median,
             PERF_PAIR_SLOW);
    line(text);
    for (int from = 0; from < nranks && nranks <= WIDEST_TABLE; from++) {
        write_row(busbw, from, nranks, slow, text);
        line(text);
    }
    for (int i = 0; i < nranks * nranks && told < MOST_TOLD; i++) {
        if (busbw[i] <= 0 || busbw[i] >= slow) continue;
        snprintf(text, sizeof text, "slow pair: rank %d to rank %d, %.4g GB/s", i / nranks,
                 i % nranks, busbw[i]);
        line(text);
        told++;
    }
}
