/* Comparison with a baseline, see baseline.h. Invariant: cells are in the order of the baseline's
 * rows, and each has the times of all cycles of both sides.
 */
#define _GNU_SOURCE
#include "harness/baseline.h"

#include "harness/baseline_heads.h"
#include "harness/json_read.h"
#include "harness/machine.h"
#include "harness/usage.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_PERCENT = 5, TEXT_BYTES = 256, NREPEATS = 3 /* fewer say nothing of noise */ };
enum { MAX_FILES = 1000 };

struct samples {
    double *us;
    int *run; /* which of the baseline's records, or of this run's series, each is of */
    size_t n, room;
};

struct cell {
    struct perf_gate_cell told;
    double rate_factor; /* rate = size / time * factor / 1000 */
    struct samples base, now;
    struct perf_stats over_runs; /* of the medians of the baseline's runs */
};

static struct {
    const struct perf_options *options;
    struct cell *cells;
    size_t n, room;
    int nruns;                   /* records read */
    struct perf_gate_cell *told; /* [n] after a judgement */
    struct perf_gate gate;
    char trouble[TEXT_BYTES];
    const struct perf_header *header;
} baseline;

const char *perf_change_name(enum perf_change change)
{
    static const char *const names[] = {"same", "faster", "slower", "missing"};

    return names[change];
}

/* ---- cells ---- */

static void *grow(void *list, size_t n, size_t *room, size_t bytes)
{
    if (n < *room) return list;
    *room = *room ? 2 * *room : 16;
    list = realloc(list, *room * bytes);
    if (list != NULL) return list;
    fprintf(stderr, "%s: out of memory for the baseline\n", perf_program());
    exit(PERF_EXIT_ERROR);
}

static void add_sample(struct samples *samples, double us, int run)
{
    size_t room = samples->room;

    samples->us = grow(samples->us, samples->n, &samples->room, sizeof *samples->us);
    samples->run = grow(samples->run, samples->n, &room, sizeof *samples->run);
    samples->run[samples->n] = run;
    samples->us[samples->n++] = us;
}

/* The cell of a placement; a new one when `adds`, else NULL when there is none. */
static struct cell *find_cell(const struct perf_gate_cell *wanted, int adds)
{
    for (size_t i = 0; i < baseline.n; i++) {
        const struct perf_gate_cell *told = &baseline.cells[i].told;

        if (told->size_bytes == wanted->size_bytes && !strcmp(told->type, wanted->type) &&
            !strcmp(told->op, wanted->op) && told->root == wanted->root &&
            told->in_place == wanted->in_place && told->from == wanted->from &&
            told->to == wanted->to)
            return &baseline.cells[i];
    }
    if (!adds) return NULL;
    baseline.cells = grow(baseline.cells, baseline.n, &baseline.room, sizeof *baseline.cells);
    baseline.cells[baseline.n] = (struct cell){.told = *wanted};
    return &baseline.cells[baseline.n++];
}

static struct perf_gate_cell name_cell(size_t size_bytes, const char *type, const char *op)
{
    struct perf_gate_cell cell = {.size_bytes = size_bytes,
                                  .by_rate = size_bytes >= PERF_LARGE_BYTES};

    snprintf(cell.type, sizeof cell.type, "%s", type);
    snprintf(cell.op, sizeof cell.op, "%s", op);
    return cell;
}

/* ---- reading ---- */

static void take_place(const struct perf_json_node *row, const struct perf_json_node *place,
                       int in_place)
{
    double us = perf_json_number(place, "time", -1);
    struct perf_gate_cell cell =
        name_cell((size_t)perf_json_number(row, "size", 0), perf_json_text(row, "type", ""),
                  perf_json_text(row, "redop", ""));

    if (us <= 0) return;
    cell.root = (int)perf_json_number(row, "root", -1);
    cell.in_place = in_place;
    cell.from = (int)perf_json_number(row, "from", -1);
    cell.to = (int)perf_json_number(row, "to", -1);
    add_sample(&find_cell(&cell, 1)->base, us, baseline.nruns);
}

/* One object: the document, or a line; it is kept or dropped. */
static void take_object(struct perf_json_node *node)
{
    const struct perf_json_node *results = perf_json_member(node, "results");
    const char *kind = perf_json_text(node, "kind", "");

    for (const struct perf_json_node *row = results ? results->child : NULL; row; row = row->next) {
        take_place(row, perf_json_member(row, "out_of_place"), 0);
        take_place(row, perf_json_member(row, "in_place"), 1);
    }
    if (!strcmp(kind, "row"))
        take_place(node, node, !strcmp(perf_json_text(node, "place", ""), "in_place"));
    if (!perf_heads_take(node)) perf_json_drop(node);
}

static char *read_file(const char *path)
{
    size_t used = 0, room = 0;
    char *text = NULL;
    FILE *file = fopen(path, "re");

    if (file == NULL) return NULL;
    do {
        text = grow(text, used + 1, &room, 1);
        used += fread(text + used, 1, room - used - 1, file);
        text[used] = '\0';
        if (used + 1 == room) text = grow(text, room, &room, 1);
    } while (!feof(file) && !ferror(file));
    fclose(file);
    return text;
}

/* The whole text as one document, or else line by line. 0, or why not. */
static int take_text(char *text, char *why, size_t why_bytes)
{
    size_t wrong_at = 0;
    struct perf_json_node *node = perf_json_read(text, &wrong_at);
    char *line = text, *end;

    if (node != NULL) {
        take_object(node);
        return 0;
    }
    for (int number = 1; *line != '\0'; number++, line = end) {
        end = line + strcspn(line, "\n");
        if (*end != '\0') *end++ = '\0';
        if (line[strspn(line, " \r")] == '\0') continue;
        node = perf_json_read(line, &wrong_at);
        if (node == NULL) {
            snprintf(why, why_bytes, "is neither JSON nor JSON lines (line %d, column %zu)", number,
                     wrong_at + 1);
            return PERF_EXIT_USAGE;
        }
        take_object(node);
    }
    return 0;
}

/* One record. 0, or exit code 2 and why. */
static int load_file(const char *path, char *why, size_t why_bytes)
{
    char reason[TEXT_BYTES] = "";
    char *text = read_file(path);
    int code = PERF_EXIT_USAGE;

    perf_heads_file(path);
    if (text == NULL)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else
        code = take_text(text, reason, sizeof reason);
    free(text);
    baseline.nruns++;
    if (code != 0) snprintf(why, why_bytes, "option --baseline: %s: %s", path, reason);
    return code;
}

int perf_baseline_load(const struct perf_options *options, char *why, size_t why_bytes)
{
    char path[PATH_MAX];
    int code;

    if (options->baseline == NULL) return 0;
    baseline.options = options;
    code = load_file(options->baseline, why, why_bytes);
    for (int i = 0; i < MAX_FILES && code == 0; i++) {
        snprintf(path, sizeof path, "%s.%d", options->baseline, i);
        if (access(path, F_OK)) break;
        code = load_file(path, why, why_bytes);
    }
    if (code == 0) code = perf_heads_judge(why, why_bytes);
    if (code != 0 || baseline.n > 0) return code;
    snprintf(why, why_bytes, "option --baseline: %s has no row that was run", options->baseline);
    return PERF_EXIT_COMPARE;
}

/* ---- the same machine and run? ---- */

int perf_baseline_check(const struct perf_header *header, char *why, size_t why_bytes)
{
    int code;

    if (baseline.n == 0) return 0;
    baseline.header = header;
    if (baseline.options->baseline_anyway) return 0;
    code = perf_heads_check(header, why, why_bytes);
    if (code) return code;
    perf_machine_trouble(header, baseline.trouble, sizeof baseline.trouble);
    if (!baseline.trouble[0]) return 0;
    snprintf(why, why_bytes, "option --baseline: %s (--baseline_anyway compares)",
             baseline.trouble);
    return PERF_EXIT_COMPARE;
}

/* ---- judging ---- */

static void add_measure(const struct perf_row *row, const struct perf_measure *measure,
                        int in_place)
{
    struct perf_gate_cell wanted =
        name_cell(row->size_bytes, perf_type_name(row->type), perf_op_name(row->op));
    struct cell *cell;

    if (!measure->run) return;
    wanted.root = row->root;
    wanted.in_place = in_place;
    wanted.from = row->from;
    wanted.to = row->to;
    cell = find_cell(&wanted, 0);
    if (cell == NULL) return;
    add_sample(&cell->now, measure->time_us, baseline.gate.nruns);
    if (measure->algbw > 0) cell->rate_factor = measure->busbw / measure->algbw;
}

void perf_baseline_add(const struct perf_row *row)
{
    if (baseline.n == 0) return;
    add_measure(row, &row->out_of_place, 0);
    add_measure(row, &row->in_place, 1);
}

/* The median; the order of the samples stays. */
static double median_of(const struct samples *samples, int run, struct perf_stats *stats)
{
    double *us = calloc(samples->n + 1, sizeof *us);
    size_t n = 0;

    if (us == NULL) return NAN;
    for (size_t i = 0; i < samples->n; i++)
        if (run < 0 || samples->run[i] == run) us[n++] = samples->us[i];
    perf_stats_compute(us, n, stats);
    free(us);
    return stats->median;
}

/* Statistics of the medians of each run's cycles. */
static void over_runs(const struct samples *samples, int nruns, struct perf_stats *stats)
{
    double *medians = calloc((size_t)nruns + 1, sizeof *medians);
    struct perf_stats of_run;
    size_t n = 0;

    memset(stats, 0, sizeof *stats);
    if (medians == NULL) return;
    for (int run = 0; run < nruns; run++) {
        medians[n] = median_of(samples, run, &of_run);
        n += of_run.n > 0;
    }
    perf_stats_compute(medians, n, stats);
    free(medians);
}

/* The worst of a single run's cycles; of five and more without the one outlier that the first cycle
 * often is. */
static double worst_cycle(const struct samples *samples)
{
    double worst = 0, second = 0;

    for (size_t i = 0; i < samples->n; i++) {
        double us = samples->us[i];

        if (us > worst) {
            second = worst;
            worst = us;
        } else if (us > second) {
            second = us;
        }
    }
    return samples->n > NREPEATS + 1 ? second : worst;
}

/* How much worse than the baseline a run without any change may be: of runs apart in time twice
 * what the worst was, of a single run, which tells less, what its worst cycle was. */
static double noise_of(const struct cell *cell)
{
    double median = cell->told.base_us, worst;

    if (cell->over_runs.n >= NREPEATS) {
        worst = median + 2 * (cell->over_runs.max - median);
    } else {
        if (cell->base.n < NREPEATS) return -1;
        worst = worst_cycle(&cell->base);
    }
    return cell->told.by_rate ? 100 * (1 - median / worst) : 100 * (worst / median - 1);
}

static double change_of(const struct perf_gate_cell *cell, double now_us)
{
    return cell->by_rate ? 100 * (1 - cell->base_us / now_us) : 100 * (now_us / cell->base_us - 1);
}

/* Slower is what is so in each series of this run, faster what is so in their median. */
static void judge_cell(struct cell *cell, int nseries)
{
    struct perf_gate_cell *told = &cell->told;
    double asked = baseline.options->tolerance;
    struct perf_stats now;

    over_runs(&cell->base, baseline.nruns, &cell->over_runs);
    told->base_us = cell->over_runs.median;
    over_runs(&cell->now, nseries, &now);
    told->noise_percent = noise_of(cell);
    told->tolerance_percent = asked > 0 ? asked : fmax(DEFAULT_PERCENT, told->noise_percent);
    told->change = PERF_CHANGE_MISSING;
    told->change_percent = told->now_us = 0;
    if (now.n == 0) return;
    told->now_us = change_of(told, now.min) > told->tolerance_percent ? now.min : now.median;
    told->base_rate = (double)told->size_bytes / told->base_us / 1000 * cell->rate_factor;
    told->now_rate = (double)told->size_bytes / told->now_us / 1000 * cell->rate_factor;
    told->change_percent = change_of(told, told->now_us);
    told->change = PERF_CHANGE_NONE;
    if (change_of(told, now.min) > told->tolerance_percent)
        told->change = PERF_CHANGE_SLOWER;
    else if (told->base_us > now.median * (1 + told->tolerance_percent / 100))
        told->change = PERF_CHANGE_FASTER;
}

const struct perf_gate *perf_baseline_judge(void)
{
    struct perf_gate *gate = &baseline.gate;
    int nruns = gate->nruns + 1;

    if (baseline.n == 0) return NULL;
    if (baseline.told == NULL) baseline.told = calloc(baseline.n, sizeof *baseline.told);
    *gate = (struct perf_gate){.file = baseline.options->baseline,
                               .tolerance_percent = baseline.options->tolerance,
                               .supported_percent = -1,
                               .cells = baseline.told,
                               .ncells = baseline.told != NULL ? (int)baseline.n : 0,
                               .nruns = nruns};
    for (int i = 0; i < gate->ncells; i++) {
        struct cell *cell = &baseline.cells[i];

        judge_cell(cell, nruns);
        baseline.told[i] = cell->told;
        gate->nslower += cell->told.change == PERF_CHANGE_SLOWER;
        gate->nfaster += cell->told.change == PERF_CHANGE_FASTER;
        gate->nmissing += cell->told.change == PERF_CHANGE_MISSING;
        if (cell->told.noise_percent > gate->supported_percent)
            gate->supported_percent = cell->told.noise_percent;
    }
    if (baseline.header != NULL && !baseline.options->baseline_anyway)
        perf_machine_trouble(baseline.header, baseline.trouble, sizeof baseline.trouble);
    if (gate->nmissing == gate->ncells)
        snprintf(baseline.trouble, sizeof baseline.trouble, "no row is in the baseline too");
    if (baseline.trouble[0]) gate->trouble = baseline.trouble;
    return gate;
}

int perf_gate_code(const struct perf_gate *gate)
{
    if (gate == NULL) return PERF_EXIT_OK;
    if (gate->trouble != NULL) return PERF_EXIT_COMPARE;
    return gate->nslower > 0 ? PERF_EXIT_SLOW : PERF_EXIT_OK;
}

void perf_baseline_drop(void)
{
    for (size_t i = 0; i < baseline.n; i++) {
        const struct samples *both[] = {&baseline.cells[i].base, &baseline.cells[i].now};

        for (int side = 0; side < 2; side++) {
            free(both[side]->us);
            free(both[side]->run);
        }
    }
    free(baseline.cells);
    free(baseline.told);
    perf_heads_drop();
    memset(&baseline, 0, sizeof baseline);
}
