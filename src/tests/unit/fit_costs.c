/* fit_costs.c: from measured times to rows of the cost table. Reads lines "algorithm protocol
 * where executors collective bytes time_us" and prints a CCL_COST row for each algorithm, protocol
 * and place: the least squares fit, relative to the times, of base + messages * hop + turns * turn
 * + bytes / rate with the model's own terms. scripts/tune runs it.
 */
#include "algo/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 64, MAX_EXECS = 64, NTERMS = 4 };

struct fit {
    char algo[16], proto[16], where[16];
    double matrix[NTERMS][NTERMS], right[NTERMS];
};

static const struct ccl_algo_ops *find_algo(const char *name)
{
    for (int i = 0; ccl_algos[i] != NULL; i++)
        if (strcmp(ccl_algos[i]->name, name) == 0) return ccl_algos[i];
    fprintf(stderr, "fit_costs: no algorithm %s\n", name);
    exit(2);
}

static struct fit *find_fit(struct fit *fits, int *nfits, const char *const key[3])
{
    for (int i = 0; i < *nfits; i++)
        if (strcmp(fits[i].algo, key[0]) == 0 && strcmp(fits[i].proto, key[1]) == 0 &&
            strcmp(fits[i].where, key[2]) == 0)
            return &fits[i];
    struct fit *fit = &fits[(*nfits)++];
    snprintf(fit->algo, sizeof fit->algo, "%s", key[0]);
    snprintf(fit->proto, sizeof fit->proto, "%s", key[1]);
    snprintf(fit->where, sizeof fit->where, "%s", key[2]);
    return fit;
}

/* One executor a rank, as the drivers run for scripts/tune. */
static struct ccl_cost_terms terms_of(const struct fit *fit, int nexecs, int coll, uint64_t bytes)
{
    uint16_t slots[MAX_EXECS + 1];
    for (int i = 0; i <= nexecs; i++) slots[i] = (uint16_t)i;
    struct ccl_view view = {.nranks = (uint16_t)nexecs,
                            .nexecs = (uint16_t)nexecs,
                            .first_slot = slots,
                            .rank_of = slots,
                            .slot_of = slots,
                            .mapped = CCL_MAPPED_ALL};
    struct ccl_pick_args args = {.sched = {&view, (enum ccl_sched_coll)coll, -1, 131072},
                                 .bytes = bytes};
    int is_ll = strcmp(fit->proto, "LL") == 0;
    return ccl_cost_terms(&args, find_algo(fit->algo), is_ll ? CCL_PROTO_LL : CCL_PROTO_SIMPLE);
}

static void add_time(struct fit *fit, struct ccl_cost_terms terms, double time_us)
{
    double row[NTERMS] = {1 / time_us, terms.messages / time_us, terms.turns / time_us,
                          terms.bytes / time_us};
    for (int i = 0; i < NTERMS; i++) {
        for (int j = 0; j < NTERMS; j++) fit->matrix[i][j] += row[i] * row[j];
        fit->right[i] += row[i];
    }
}

/* Solves for values that are not negative: coordinate by coordinate, which converges for a
 * symmetric matrix. */
static void solve(const struct fit *fit, double values[NTERMS])
{
    for (int i = 0; i < NTERMS; i++) values[i] = 0;
    for (int turn = 0; turn < 200000; turn++)
        for (int i = 0; i < NTERMS; i++) {
            double rest = fit->right[i];
            for (int j = 0; j < NTERMS; j++)
                if (j != i) rest -= fit->matrix[i][j] * values[j];
            values[i] = fit->matrix[i][i] > 0 ? fmax(0, rest / fit->matrix[i][i]) : 0;
        }
}

int main(void)
{
    static struct fit fits[MAX_ROWS];
    char algo[16], proto[16], where[16];
    int nfits = 0, nexecs, coll;
    unsigned long long bytes;
    double time_us;
    while (scanf("%15s %15s %15s %d %d %llu %lf", algo, proto, where, &nexecs, &coll, &bytes,
                 &time_us) == 7) {
        if (nexecs < 1 || nexecs > MAX_EXECS || nfits == MAX_ROWS || time_us <= 0) return 2;
        struct fit *fit = find_fit(fits, &nfits, (const char *const[]){algo, proto, where});
        add_time(fit, terms_of(fit, nexecs, coll, bytes), time_us);
    }
    for (int i = 0; i < nfits; i++) {
        double values[NTERMS];
        solve(&fits[i], values);
        double rate = values[3] > 1e-6 ? 1 / values[3] : 1e6;
        printf("CCL_COST(%s, %s, %s, %.2f, %.3f, %.3f, %.0f)\n", fits[i].algo, fits[i].proto,
               fits[i].where, values[0], fmax(values[1], 0.001), values[2], rate);
    }
    return nfits > 0 ? 0 : 1;
}
